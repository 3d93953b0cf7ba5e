"""Files behind URLs, through fsspec: ``s3://``, ``hdfs://``, ``gs://``, ... An adapter.

fsspec and what it needs for a scheme are imported when a URL is used, and only then. A file that is fetched is copied
as a whole, into a directory that all processes of a node share and that nobody else can enter: under another name, then
renamed. It is fetched once, as long as size and version stay the same: what the store gives to tell versions apart
(`version_of`). Where it gives nothing, every process fetches.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umiak.adapters import ownership
from umiak.core.problem import UmiakError
from umiak.core.shown import without_password

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from umiak.core.json_types import JsonMapping

INSTALL = "python -m pip install fsspec"
MOST_ATTEMPTS = 3
"""To copy a file that is replaced meanwhile."""
VERSION_MARKS = {
    "etag",
    "generation",
    "versionid",
    "md5hash",
    "contentmd5",
    "digest",
    "sha",
    "checksum",
    "lastmodified",
    "updated",
    "modified",
    "modify",
    "mtime",
    "modificationtime",
    "created",
    "ino",
}
"""What the file systems of fsspec call that which is another one when a file is replaced:
in small letters, without `-` and `_`.
"""
_fetched_here: dict[tuple[str, str], str] = {}
"""Copies that this process has made of what has no version."""


def is_url(path: str) -> bool:
    """Whether this is read through fsspec."""
    return "://" in path


def names_of(url: str) -> list[str]:
    """All files below a URL, or that fit its pattern, as URLs in order."""
    with _errors_of(url):
        try:
            store, path = system(url)
            forget_listings(store)
            if any(mark in path for mark in "*?["):
                found = [name for name in store.glob(path) if not store.isdir(name)]
            elif _is_web_file(store, path):
                found = [path]
            else:
                found = store.find(path)
            names = [str(store.unstrip_protocol(name)) for name in found]
        except FileNotFoundError:
            return []
    root = url.rstrip("/")
    return sorted(name for name in names if not _is_hidden(name.removeprefix(root)))


def _is_web_file(store: Any, path: str) -> bool:
    """Whether a web server has a file there, as far as can be told without fetching it:
    fsspec looks for names in all of what is there.
    """
    if not path.startswith(("http://", "https://")) or path.endswith("/"):
        return False
    kind = store.info(path).get("mimetype")
    return kind != "text/html" and (bool(kind) or "." in path.rpartition("/")[2])


def exists(url: str) -> bool:
    """Whether there is a file of this name."""
    with _errors_of(url):
        store, path = system(url)
        forget_listings(store)
        return bool(store.exists(path))


def start_of(url: str, count: int) -> tuple[int, bytes]:
    """A file's size, and its first bytes."""
    with _errors_of(url):
        store, path = system(url)
        size = int(store.info(path)["size"])
        end = min(count, size)
        return size, bytes(store.cat_file(path, start=0, end=end) if end else b"")


def pieces_of(url: str) -> tuple[int, Callable[[int, int], bytes]]:
    """A file's size, and what gives so many of its bytes from a place on: nothing else of it is fetched."""
    with _errors_of(url):
        store, path = system(url)
        forget_listings(store)
        size = int(store.info(path)["size"])

    def read(at: int, count: int) -> bytes:
        return bytes(store.cat_file(path, start=at, end=at + count)) if count else b""

    return size, read


def fetch(url: str, directory: str | None = None) -> str:
    """A local copy of a file as it is now; one that is there already is used."""
    root = directory or _own_directory()
    name = hashlib.sha256(url.encode()).hexdigest()[:24]
    previous = ""
    with _errors_of(url):
        system_, path = system(url)
        for _ in range(MOST_ATTEMPTS):
            size, version = _look(system_, path)
            base = Path(root, f"{name}-{version or size}")
            target = base / url.rpartition("/")[2]  # errors of lines name it, so it is called what it is called there
            if target.exists() and (version or _fetched_here.get((root, url)) == str(target)):
                return str(target)
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=base, prefix=".")
            try:
                with os.fdopen(handle, "wb") as copy, system_.open(path, "rb") as source:
                    shutil.copyfileobj(source, copy, 1 << 20)
                    arrived = copy.tell()
                if _look(system_, path)[1] != version:
                    # Replaced meanwhile; or the store tells another version each time, of one content.
                    before, previous = previous, _content(temporary)
                    if previous != before:
                        continue
                if arrived != size:
                    raise OSError(f"{arrived} bytes of {size} arrived")
                os.replace(temporary, target)
                _fetched_here[(root, url)] = str(target)
                return str(target)
            finally:
                Path(temporary).unlink(missing_ok=True)
        raise OSError(f"it was replaced {MOST_ATTEMPTS} times while it was copied")


def version_of(info: JsonMapping) -> str:
    """A short text that is another one if a file was replaced, from what its file system says about it;
    empty where that says nothing.
    """
    marks = {_plain_name(name): str(mark) for name, mark in info.items() if mark not in (None, "")}
    marks_there = sorted((name, mark) for name, mark in marks.items() if name in VERSION_MARKS)
    if not marks_there:
        return ""
    return hashlib.sha256(repr((info.get("size"), marks_there)).encode()).hexdigest()[:24]


def forget_listings(system_: Any) -> None:
    """What fsspec has listed before is not what is there now."""
    system_.invalidate_cache()


def store(path: str, url: str) -> None:
    """Store a file: under another name first, then renamed, so that nobody reads half of it."""
    with _errors_of(url, "it can't be written"):
        system_, target = system(url)
        folder, slash, name = target.rpartition("/")
        draft = f"{folder}{slash}.{name}.{os.urandom(6).hex()}.part"
        system_.makedirs(folder, exist_ok=True)
        try:
            system_.put_file(path, draft)
            _rename(system_, draft, target)
        finally:
            if system_.exists(draft):
                system_.rm_file(draft)


def _rename(system_: Any, draft: str, target: str) -> None:
    from fsspec import AbstractFileSystem

    if type(system_).mv is not AbstractFileSystem.mv:
        system_.mv(draft, target)
        return
    system_.cp_file(draft, target)  # what fsspec has for all takes `?` and `*` in a name for a pattern
    system_.rm_file(draft)


def default_directory() -> str:
    """Where copies lie if nobody says otherwise; each user has a place of their own."""
    return os.path.join(tempfile.gettempdir(), f"umiak-data-{os.getuid()}")


def make_private(path: str) -> None:
    """A directory for copies that nobody else can enter, made or checked. UmiakError if others had a hand in it."""
    try:
        ownership.private_directory(path)
    except OSError as error:
        hint = "remove it if it is not needed, or name another directory for temporary files: `export TMPDIR=DIR`"
        raise UmiakError.refused(
            "UM-DATA-091", f"copies of files behind URLs can't be kept here: {path}", why=error.strerror, hint=hint
        ) from None


def _own_directory() -> str:
    path = default_directory()
    make_private(path)
    return path


def system(url: str) -> tuple[Any, str]:
    """fsspec's file system for a URL, and the path in it."""
    try:
        import fsspec.core
    except ImportError as missing:
        scheme = url.partition("://")[0]
        raise UmiakError.of(
            "UM-DATA-007", f"{scheme}:// needs fsspec, which is not installed", hint=INSTALL
        ) from missing
    try:
        store, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as missing:
        scheme = url.partition("://")[0]
        raise UmiakError.of(
            "UM-DATA-007",
            f"fsspec can't read {scheme}://",
            why=str(missing),
            hint="install what the message names; s3 needs `python -m pip install s3fs`, hdfs needs pyarrow",
        ) from missing
    return store, str(path)


def _look(system_: Any, path: str) -> tuple[int, str]:
    """Size and version of a file as they are now.
    Each time by the same request: a listing may write times in another way.
    """
    forget_listings(system_)
    info = system_.info(path)
    return int(info["size"]), version_of(info)


def _content(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _plain_name(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _is_hidden(path: str) -> bool:
    return any(name.startswith(".") for name in path.split("/"))


@contextmanager
def _errors_of(url: str, what: str = "it can't be read") -> Iterator[None]:
    """What fsspec raises within is raised as an UmiakError."""
    try:
        yield
    except UmiakError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise UmiakError.refused("UM-DATA-008", f"{without_password(url)}: {what}", why=why) from error
