"""Files behind URLs, through fsspec: ``s3://``, ``hdfs://``, ``gs://``, ... An adapter.

fsspec and what it needs for a scheme are imported when a URL is used, and only then. A file that is fetched is copied as a whole,
into a directory that all processes of a node share: under another name, then renamed. It is fetched once, as long as its size stays
the same.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import without_password

INSTALL = "python -m pip install fsspec"


def is_url(path: str) -> bool:
    """Whether this is read through fsspec."""
    return "://" in path


def names_of(url: str) -> list[str]:
    """All files below a URL, or that fit its pattern, as URLs in order."""
    try:
        store, path = system(url)
        if any(mark in path for mark in "*?["):
            found = [name for name in store.glob(path) if not store.isdir(name)]
        else:
            found = store.find(path)
        names = [str(store.unstrip_protocol(name)) for name in found]
    except FileNotFoundError:
        return []
    except UmiakError:
        raise
    except Exception as error:
        raise _refused(url, error) from error
    root = url.rstrip("/")
    return sorted(name for name in names if not _is_hidden(name.removeprefix(root)))


def exists(url: str) -> bool:
    """Whether there is a file of this name."""
    try:
        store, path = system(url)
        return bool(store.exists(path))
    except UmiakError:
        raise
    except Exception as error:
        raise _refused(url, error) from error


def start_of(url: str, count: int) -> tuple[int, bytes]:
    """A file's size, and its first bytes."""
    try:
        store, path = system(url)
        size = int(store.info(path)["size"])
        end = min(count, size)
        first = store.cat_file(path, start=0, end=end) if end else b""
    except UmiakError:
        raise
    except Exception as error:
        raise _refused(url, error) from error
    return size, bytes(first)


def fetch(url: str, directory: str | None = None) -> str:
    """A local copy of a file; what is there already is used."""
    size, _ = start_of(url, 0)
    base = Path(directory or default_directory(), f"{hashlib.sha256(url.encode()).hexdigest()[:24]}-{size}")
    target = base / url.rpartition("/")[2]  # errors of lines name it, so it is called what it is called there
    if target.exists():
        return str(target)
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=base, prefix=".")
        try:
            store, path = system(url)
            with os.fdopen(handle, "wb") as copy, store.open(path, "rb") as source:
                shutil.copyfileobj(source, copy, 1 << 20)
                arrived = copy.tell()
            if arrived != size:
                raise OSError(f"{arrived} bytes of {size} arrived")
            os.replace(temporary, target)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except UmiakError:
        raise
    except Exception as error:
        raise _refused(url, error) from error
    return str(target)


def store(path: str, url: str) -> None:
    """Store a file: under another name first, then renamed, so that nobody reads half of it."""
    try:
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
    except UmiakError:
        raise
    except Exception as error:
        raise _refused(url, error, "it can't be written") from error


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


def system(url: str) -> tuple[Any, str]:
    """fsspec's file system for a URL, and the path in it."""
    try:
        import fsspec.core
    except ImportError as missing:
        scheme = url.partition("://")[0]
        problem = Problem(code="UM-DATA-007", what=f"{scheme}:// needs fsspec, which is not installed", hint=INSTALL)
        raise UmiakError(problem) from missing
    try:
        store, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as missing:
        scheme = url.partition("://")[0]
        problem = Problem(
            code="UM-DATA-007",
            what=f"fsspec can't read {scheme}://",
            why=str(missing),
            hint="install what the message names; s3 needs `python -m pip install s3fs`, hdfs needs pyarrow",
        )
        raise UmiakError(problem) from missing
    return store, str(path)


def _is_hidden(path: str) -> bool:
    return any(name.startswith(".") for name in path.split("/"))


def _refused(url: str, error: Exception, what: str = "it can't be read") -> UmiakError:
    problem = Problem(
        code="UM-DATA-008", what=f"{without_password(url)}: {what}", why=f"{type(error).__name__}: {error}"
    )
    return UmiakError(problem, exit_status=Exit.REFUSED)
