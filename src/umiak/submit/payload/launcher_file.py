"""The launcher as one file, which any Python from 3.10 on runs: built once per version, kept in the user's cache.
An adapter.

    launcher = launcher_file.find()
    launcher.path, launcher.sha256

    python umiak-launcher.pyz launch --nnodes 2 train.py

It is a zip application of what `umiak launch` may import, and of nothing else. The same sources give the same bytes.
What it does on a node is in `launcher_start`, which modules it has in `launcher_modules`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys

from umiak.adapters import trusted_files
from umiak.adapters.version import version
from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.submit.payload import launcher_modules, launcher_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    import zipfile

    from umiak.submit.payload.launcher_modules import ModuleSource

NAME = "umiak-launcher.pyz"
FORMAT = "3"
"""Changes with what this module does with the same sources."""
KEPT_BUILDS = 8
INJECTED = "umiak/launch/inject/sitecustomize.py"
"""Read by a worker's own Python, whatever its version, and reached by a path into the zip: there as a source, too."""
LONG_AGO = (1980, 1, 1, 0, 0, 0)

_COMPILE = """
import marshal, sys
rows = marshal.load(sys.stdin.buffer)
codes = {name: (path, marshal.dumps(compile(text, path, "exec", dont_inherit=True))) for name, path, text in rows}
sys.stdout.buffer.write(marshal.dumps(codes))
"""


@value
class LauncherFile:
    """A built one."""

    path: str
    sha256: str
    size_bytes: int


def find() -> LauncherFile:
    """The launcher of this umiak, built if need be."""
    directory = _directory()
    target = os.path.join(directory, f"{_key()}.pyz")
    data = _read(target)
    if data is None:
        data = build()
        _write(target, data)
        _forget_old(directory)
    else:
        os.utime(target)
    return LauncherFile(path=target, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def build() -> bytes:
    """The bytes of the file."""
    import io  # here and below: what is needed only if there is something to build
    import zipfile
    import zlib

    sources = modules()
    text = {name: launcher_modules.stripped(source.text) for name, source in sources.items()}
    start = launcher_modules.stripped(_text_of(launcher_start.__file__))
    injected = _text_of(os.path.join(_package_root(), INJECTED))
    alone = {"__main__.py": start, INJECTED: launcher_modules.stripped(injected)}
    codes, files = _compiled([(name, source.path, text[name]) for name, source in sources.items()], alone)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path, code in files.items():
            _add(archive, f"{path}c", code)
            _add(archive, path, alone[path].encode())
        for kind, part in _parts(codes).items():
            _add(archive, f"{kind}-{_magic().hex()}", zlib.compress(part, 9))
        _add(archive, "sources", zlib.compress(_solid(sources, {**text, "umiak.launch.inject": injected}), 9))
        # What importlib.metadata asks for the version.
        about = f"Metadata-Version: 2.1\nName: umiak\nVersion: {version()}\n"
        _add(archive, f"umiak-{version()}.dist-info/METADATA", about.encode())
    return buffer.getvalue()


def modules() -> dict[str, ModuleSource]:
    """Every module that is in it, as it is installed here."""
    return launcher_modules.closure(launcher_modules.ROOTS, _read_source)


def _read_source(path: str) -> str | None:
    full = os.path.join(_package_root(), path)
    return _text_of(full) if os.path.isfile(full) else None


def _parts(codes: bytes) -> dict[str, bytes]:
    """The code that an agent imports first, and the rest."""
    import marshal

    all_codes = _loaded(codes)
    of_agent = launcher_modules.closure(launcher_modules.AGENT, _read_source, at_once=True)
    return {
        "codes": marshal.dumps({name: row for name, row in all_codes.items() if name not in of_agent}, 2),
        "agent": marshal.dumps({name: all_codes[name] for name in of_agent}, 2),
    }


def _compiled(rows: list[tuple[str, str, str]], alone: dict[str, str]) -> tuple[bytes, dict[str, bytes]]:
    """The modules' code, and a .pyc for each file that Python imports from the zip by itself.

    A fresh process compiles them, so that nothing of this one is to be seen in the bytes: marshal's depend on who else
    holds a string, and the order of a set's members on its hashes. Columns are left out: half of the size is for little
    markers in tracebacks.
    """
    import marshal
    import subprocess

    argv = [sys.executable, "-S", "-s", "-X", "no_debug_ranges", "-X", "utf8", "-c", _COMPILE]
    wanted = [*rows, *((path, path, source) for path, source in alone.items())]
    done = subprocess.run(
        argv, input=marshal.dumps(wanted, 2), stdout=subprocess.PIPE, env={"PYTHONHASHSEED": "0"}, check=True
    )
    codes = _loaded(done.stdout)
    unchecked = b"\x01\0\0\0"  # by flags: belongs to its source by its hash, and nobody looks at that
    files = {path: _magic() + unchecked + bytes(8) + codes.pop(path)[1] for path in alone}
    return marshal.dumps(codes, 2), files


def _solid(sources: dict[str, ModuleSource], text: dict[str, str]) -> bytes:
    """All sources in a row, behind a list of them: compressed together they take half of the room."""
    paths = {**{name: source.path for name, source in sources.items()}, "umiak.launch.inject": INJECTED}
    rows = "\n".join(f"{name}\t{path}\t{len(text[name])}" for name, path in paths.items())
    return f"{rows}\n\n{''.join(text[name] for name in paths)}".encode()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    import zipfile

    entry = zipfile.ZipInfo(name, LONG_AGO)
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)


def _key() -> str:
    """Of this very umiak and this Python. Sizes and times tell whether a file has changed, as make does it."""
    rows = [FORMAT, version(), _magic().hex()]
    for directory, below, names in os.walk(os.path.join(_package_root(), "umiak")):
        below[:] = sorted(each for each in below if each != "__pycache__")
        for name in sorted(names):
            seen = os.stat(os.path.join(directory, name))
            rows.append(f"{directory}/{name} {seen.st_size} {seen.st_mtime_ns}")
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:32]


def _directory() -> str:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    directory = os.path.join(home, "umiak", "launchers")
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        seen = os.stat(directory)
    except OSError as error:
        raise _no_cache(directory, str(error.strerror)) from error
    if seen.st_uid != os.geteuid():
        raise _no_cache(directory, f"it belongs to another user (uid {seen.st_uid})")
    if problem := trusted_files.problem(
        directory, os.environ
    ):  # as for configs: the caller of sudo, and what the person allows
        raise _no_cache(directory, str(problem.why))
    return directory


def _no_cache(directory: str, why: str) -> UmiakError:
    hint = "name a directory of your own: `XDG_CACHE_HOME=DIR`"
    return UmiakError.refused("UM-SUBMIT-051", f"the cache can't be used: {directory}", why=why, hint=hint)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _write(target: str, data: bytes) -> None:
    """All of it or nothing. Of two that build at once the last one replaces the same bytes by the same."""
    import tempfile

    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _forget_old(directory: str) -> None:
    """Builds of umiaks that were changed or removed since."""
    builds = [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".pyz")]
    for path in sorted(builds, key=_last_use)[:-KEPT_BUILDS]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _last_use(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0


def _package_root() -> str:
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _loaded(codes: bytes) -> dict[str, tuple[str, bytes]]:
    import marshal

    rows: dict[str, tuple[str, bytes]] = marshal.loads(codes)  # noqa: S302 - our own process wrote it
    return rows


def _magic() -> bytes:
    from importlib.util import MAGIC_NUMBER

    return MAGIC_NUMBER
