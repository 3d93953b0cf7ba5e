"""The first module of the launcher's file, where it is called ``__main__``:
makes its modules importable, then runs one. A program.

    python umiak-launcher.pyz launch --nnodes 2 train.py        `umiak launch`
    python umiak-launcher.pyz -m umiak.launch.preflight ...     a module of it

The file holds the modules compiled for one version of Python, and their sources. A node with that version reads them
from there into memory, and nothing is written. With another version the sources are unpacked, once, to the user's
cache, where Python keeps what it compiles; if no such directory can be had they are compiled in memory, each time.

Python 3.6 can read this file, so that a node with one that is too old is told so.
It imports next to nothing: it is on the way of every launch.
"""

import marshal
import os
import sys
import zlib
from _frozen_importlib import ModuleSpec  # importlib.machinery costs a millisecond
from _frozen_importlib_external import MAGIC_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from types import CodeType, ModuleType

LEAST_VERSION = (3, 10)


class MemoryModules:
    """Finds and loads modules that are in memory: an importer for ``sys.meta_path``."""

    def __init__(
        self, archive: str, sources: "_Sources", codes: "Mapping[str, tuple[str, bytes]] | _Codes | None" = None
    ) -> None:
        self._archive = archive
        self._sources = sources
        self._codes = codes

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> "ModuleSpec | None":
        """A module's place; None if it is not one of these."""
        row = (self._sources() if self._codes is None else self._codes).get(name)
        if row is None:
            return None
        origin = self._archive + "/" + row[0]
        is_package = origin.endswith("/__init__.py")
        spec = ModuleSpec(name, self, origin=origin, is_package=is_package)  # type: ignore[arg-type]
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(os.path.dirname(origin))
        return spec

    def create_module(self, _spec: ModuleSpec) -> None:
        """An ordinary one."""

    def exec_module(self, module: "ModuleType") -> None:
        """Run a module's code."""
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102 - as every import does

    def get_code(self, name: str) -> "CodeType":
        """Also asked for by `runpy`."""
        if self._codes is not None:
            code: CodeType = marshal.loads(self._codes[name][1])  # noqa: S302 - from the same file as this code
            return code
        path, text = self._sources()[name]
        return compile(text, self._archive + "/" + path, "exec", dont_inherit=True)

    def get_source(self, name: str) -> str:
        """The lines of a traceback."""
        return self._sources()[name][1]


class _Codes:
    """Compiled modules, those of an agent first: the others are unpacked when one of them is asked for."""

    def __init__(
        self, first: "dict[str, tuple[str, bytes]]", load: "Callable[[], dict[str, tuple[str, bytes]]]"
    ) -> None:
        self._rows = first
        self._load = load
        self._is_whole = False

    def get(self, name: str) -> "tuple[str, bytes] | None":
        row = self._rows.get(name)
        if row is None and not self._is_whole and name[:6] == "umiak.":
            self._rows, self._is_whole = self._load(), True
            row = self._rows.get(name)
        return row

    def __getitem__(self, name: str) -> "tuple[str, bytes]":
        return self._rows[name]


class _Sources:
    """The sources in the file, unpacked when they are asked for: {name: (path, text)}."""

    def __init__(self, read: "Callable[[str], bytes]") -> None:
        self._read = read
        self._rows: dict[str, tuple[str, str]] | None = None
        self.packed = b""

    def __call__(self) -> "dict[str, tuple[str, str]]":
        if self._rows is None:
            self.packed = self._read("sources")
            head, _, texts = zlib.decompress(self.packed).decode().partition("\n\n")
            self._rows, position = {}, 0
            for line in head.split("\n"):
                name, path, length = line.split("\t")
                self._rows[name] = path, texts[position : position + int(length)]
                position += int(length)
        return self._rows


def main(archive: str, read: "Callable[[str], bytes]", words: "list[str]") -> int:
    """Run a command. ``read`` gives what is in the file under a name."""
    if sys.version_info < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        sys.stderr.write(f"error: Python is too old: {sys.version.split()[0]} [UM-SUBMIT-050]\n")
        sys.stderr.write(f"  hint: umiak's launcher needs Python {least} or newer; name one, as in `python{least}`\n")
        return 3
    names = prepare(archive, read)
    if words[:1] == ["-m"] and len(words) > 1:
        import runpy

        sys.argv[:2] = []
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return 0
    command = __import__("umiak.cli.commands", fromlist=["COMMANDS"]).COMMANDS.get((words or [""])[0])
    if command and command.module not in names:
        sys.stderr.write(f"error: not in the launcher that came with the job: umiak {words[0]} [UM-SUBMIT-052]\n")
        sys.stderr.write("  hint: install umiak on the nodes, and call it by its name\n")
        return 2
    status: int = __import__("umiak.cli.main", fromlist=["main"]).main(words)
    return status


def prepare_agent(archive: str, read: "Callable[[str], bytes]") -> None:
    """As `prepare`, for an agent: it begins on many hosts at once, and needs few modules."""
    try:
        first = _unpacked_codes("agent-", read)
    except OSError:  # compiled for another version
        prepare(archive, read)
        return
    codes = _Codes(first, lambda: {**first, **_unpacked_codes("codes-", read)})
    sys.meta_path.insert(0, MemoryModules(archive, _Sources(read), codes))
    __import__("umiak")
    vars(sys.modules["umiak"])["__launcher_file__"] = archive  # read by adapters.own_modules


def prepare(archive: str, read: "Callable[[str], bytes]") -> "Container[str]":
    """Make the modules importable; their names."""
    sources = _Sources(read)
    names: Container[str]
    try:
        codes = {**_unpacked_codes("agent-", read), **_unpacked_codes("codes-", read)}
        names = codes
    except OSError:  # compiled for another version
        names = sources()
        directory = _unpacked(sources)
        if directory:
            sys.path.insert(0, directory)
            # Behind Python's own: for a module that was removed from that directory.
            sys.meta_path.append(MemoryModules(archive, sources))
        else:
            sys.meta_path.insert(0, MemoryModules(archive, sources))
    else:
        sys.meta_path.insert(0, MemoryModules(archive, sources, codes))
    __import__("umiak")
    vars(sys.modules["umiak"])["__launcher_file__"] = archive  # read by adapters.own_modules
    return names


def _unpacked_codes(kind: str, read: "Callable[[str], bytes]") -> "dict[str, tuple[str, bytes]]":
    """A part of the compiled modules; OSError if they are for another version."""
    rows: dict[str, tuple[str, bytes]] = marshal.loads(zlib.decompress(read(kind + MAGIC_NUMBER.hex())))  # noqa: S302 - as above
    return rows


def _unpacked(sources: _Sources) -> str:
    """A directory with the sources that nobody else can write to, made if need be; empty: there can't be one."""
    import hashlib
    import tempfile

    rows = sources()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    base = os.path.join(home, "umiak", "launcher-sources")
    target = os.path.join(base, hashlib.sha256(sources.packed).hexdigest()[:32])
    try:
        if not os.path.isabs(base) or not _is_own(os.path.dirname(base)):
            return ""
        mask = os.umask(0o077)
        try:
            os.makedirs(base, mode=0o700, exist_ok=True)
        finally:
            os.umask(mask)
        if not _is_own(base) or os.lstat(base).st_mode & 0o077:
            return ""
        if os.path.isdir(target):
            return target
        with tempfile.TemporaryDirectory(dir=base, prefix=".") as temporary:
            unpacked = os.path.join(temporary, "made")
            for path, text in rows.values():
                file = os.path.join(unpacked, path)
                os.makedirs(os.path.dirname(file), exist_ok=True)
                with open(file, "w", encoding="utf-8", newline="") as opened:
                    opened.write(text)
            try:
                os.rename(unpacked, target)
            except OSError:  # another process was faster
                pass
        return target if os.path.isdir(target) else ""
    except OSError:
        return ""


def _is_own(path: str) -> bool:
    """Whether nobody but this user and root can change what is in a directory, or put another in its place.
    More strict than `umiak.adapters.ownership`, which can't be imported yet: there is a way without such a directory.
    """
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    at, is_last = os.path.realpath(path), True
    if at != os.path.normpath(path):
        return False
    while True:
        seen = os.lstat(at)
        is_sticky = bool(seen.st_mode & 0o1000) and not is_last
        if seen.st_uid not in (0, os.geteuid()) or (seen.st_mode & 0o022 and not is_sticky):
            return False
        if at == os.path.dirname(at):
            return True
        at, is_last = os.path.dirname(at), False


if __name__ == "__main__":
    _archive = os.path.abspath(__loader__.archive)  # type: ignore[name-defined]
    sys.path[0] = _archive
    sys.exit(main(_archive, __loader__.get_data, sys.argv[1:]))  # type: ignore[name-defined]
