"""Brings a job's data in before it starts, and out when it has ended: ``python -m umiak.submit.payload.transfer``.
A program.

    python umiak-launcher.pyz -m umiak.submit.payload.transfer in s3://bucket/day1 train_data
    python umiak-launcher.pyz -m umiak.submit.payload.transfer out models s3://bucket/run7

A URL names one file, or everything below a name. ``in`` makes the whole path at once, by a rename; what is there
already stays. ``out`` makes each file at once. A node needs nothing installed for directories, ``s3://``, ``bos://``,
``obs://``, ``oss://`` and ``webhdfs://``; ``hdfs://`` needs the `hadoop` command, and any other scheme fsspec.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from urllib.parse import unquote, urlsplit

from umiak.core.problem import Exit, UmiakError
from umiak.core.shown import one_line, without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Protocol

    class Remote(Protocol):
        """What a scheme can do."""

        def list(self, prefix: str, /) -> Iterable[tuple[str, int]]: ...
        def get(self, name: str, path: str, /) -> None: ...
        def put(self, path: str, name: str, /) -> None: ...


USAGE = "usage: python -m umiak.submit.payload.transfer in URL PATH | out PATH URL"


def main(words: list[str], environ: Mapping[str, str]) -> int:
    """The command; its exit status."""
    if len(words) != 3 or words[0] not in ("in", "out"):
        sys.stderr.write(f"{USAGE}\n")
        return Exit.BAD_REQUEST
    try:
        (bring_in if words[0] == "in" else bring_out)(words[1], words[2], environ)
    except UmiakError as error:
        for problem in error.problems:
            sys.stderr.write("".join(f"{line}\n" for line in problem.lines()))
        return error.exit_status
    return Exit.DONE


def bring_in(url: str, path: str, environ: Mapping[str, str]) -> None:
    """Make a file or a directory of what a URL names."""
    if os.path.lexists(path):
        return
    remote, name = _remote(url, environ)
    files = _below(remote, name)
    if not files:
        hint = "look at the URL, and at the endpoint and region in the environment"
        raise UmiakError.refused("UM-SUBMIT-063", f"there is nothing: {without_password(url)}", hint=hint)
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".umiak-in-", ignore_cleanup_errors=True) as temporary:
            partial = os.path.join(temporary, "made")
            for each, relative in files.items():
                target = os.path.join(partial, relative) if relative else partial
                os.makedirs(os.path.dirname(target), exist_ok=True)
                remote.get(each, target)
            os.rename(partial, path)
    except OSError as error:
        raise _local(path, error) from error


def bring_out(path: str, url: str, environ: Mapping[str, str]) -> None:
    """Store a file, or every file below a directory, under a URL."""
    remote, name = _remote(url, environ)
    if not os.path.isdir(path):
        if not os.path.isfile(path):
            raise _local(path, FileNotFoundError(2, "no such file or directory"))
        remote.put(path, f"{name}{os.path.basename(path)}" if name.endswith("/") or not name else name)
        return
    for folder, _, names in sorted(os.walk(path)):
        for each in sorted(names):
            full = os.path.join(folder, each)
            remote.put(full, "/".join(filter(None, (name.rstrip("/"), os.path.relpath(full, path)))))


def _below(remote: Remote, name: str) -> dict[str, str]:
    """Every file that a name means, with its path below it: empty if the name is that very file."""
    files = {}
    for each, _ in remote.list(name):
        if each == name:
            return {each: ""}
        relative = each[len(name.rstrip("/")) :]
        # `day1` does not mean `day10/part`; names that would lead out of the directory are nobody's data.
        if relative.startswith("/") or not name:
            relative = relative.lstrip("/")
            if (
                relative
                and not relative.endswith("/")
                and all(part not in ("", ".", "..") for part in relative.split("/"))
            ):
                files[each] = relative
    return files


def _remote(url: str, environ: Mapping[str, str]) -> tuple[Remote, str]:
    scheme = url.partition("://")[0] if "://" in url else "file"
    if scheme in ("s3", "bos", "obs", "oss"):
        from umiak.adapters.stores.s3 import S3Store

        return S3Store.of(url, environ), url.partition("://")[2].partition("/")[2]
    if scheme in ("webhdfs", "swebhdfs"):
        from umiak.adapters.stores.webhdfs import WebHdfs

        return WebHdfs(url, environ), unquote(urlsplit(url).path)
    if scheme == "hdfs":
        return _Hadoop(url), url
    if scheme == "file":
        return _Directory(), os.path.abspath(url.removeprefix("file://")) + ("/" if url.endswith("/") else "")
    from umiak.adapters.stores import storage

    store, path = storage.system(url)
    return _Fsspec(), str(store.unstrip_protocol(path))  # as it names what it lists


class _Directory:
    """A directory that all nodes have."""

    def list(self, prefix: str) -> Iterable[tuple[str, int]]:
        if os.path.isfile(prefix):
            yield prefix, os.stat(prefix).st_size
        for folder, _, names in sorted(os.walk(prefix)):
            for name in sorted(names):
                full = os.path.join(folder, name)
                yield full, os.stat(full).st_size

    def get(self, name: str, path: str) -> None:
        shutil.copyfile(name, path)

    def put(self, path: str, name: str) -> None:
        draft = os.path.join(os.path.dirname(name), f".{os.path.basename(name)}.{os.urandom(6).hex()}.part")
        try:
            os.makedirs(os.path.dirname(name), exist_ok=True)
            try:
                shutil.copyfile(path, draft)
                os.replace(draft, name)
            finally:
                if os.path.exists(draft):
                    os.unlink(draft)
        except OSError as error:
            raise _local(name, error) from error


class _Hadoop:
    """The `hadoop` command, which brings its own settings and rights."""

    def __init__(self, url: str) -> None:
        self._url = url

    def list(self, prefix: str) -> Iterable[tuple[str, int]]:
        if self._run("-test", "-e", prefix, may_fail=True) != 0:
            return
        base = "/".join(prefix.split("/")[:3])
        listed = self._read("-ls", "-R", prefix)
        for line in listed.splitlines():
            parts = line.split(None, 7)
            if len(parts) == 8 and parts[0].startswith("-"):
                yield parts[7] if "://" in parts[7] else base + parts[7], int(parts[4])

    def get(self, name: str, path: str) -> None:
        self._run("-get", name, path)

    def put(self, path: str, name: str) -> None:
        folder, _, last = name.rpartition("/")
        draft = f"{folder}/.{last}.{os.urandom(6).hex()}.part"
        self._run("-mkdir", "-p", folder)
        self._run("-put", "-f", path, draft)
        self._run("-rm", "-f", "-skipTrash", name)
        self._run("-mv", draft, name)

    def _read(self, *words: str) -> str:
        done = self._done(words)
        if done.returncode != 0:
            raise self._failed(words, done.stderr)
        return done.stdout

    def _run(self, *words: str, may_fail: bool = False) -> int:
        done = self._done(words)
        if done.returncode != 0 and not may_fail:
            raise self._failed(words, done.stderr)
        return done.returncode

    def _done(self, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                ["hadoop", "fs", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
            )
        except FileNotFoundError:
            hint = "install Hadoop's client on the nodes, or write webhdfs://namenode:9870/..."
            what = f"hdfs:// needs the hadoop command, which is not on PATH: {without_password(self._url)}"
            raise UmiakError.refused("UM-SUBMIT-062", what, hint=hint) from None

    def _failed(self, words: tuple[str, ...], said: str) -> UmiakError:
        why = one_line(said.strip().rpartition("\n")[2], 300)
        return UmiakError.refused(
            "UM-SUBMIT-062", f"hadoop fs {words[0]} failed: {without_password(self._url)}", why=why
        )


class _Fsspec:
    """Any other scheme, where fsspec is installed on the node."""

    def list(self, prefix: str) -> Iterable[tuple[str, int]]:
        from umiak.adapters.stores import storage

        return [(name, 0) for name in storage.names_of(prefix)]

    def get(self, name: str, path: str) -> None:
        from umiak.adapters.stores import storage

        with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as temporary:
            os.replace(storage.fetch(name, temporary), path)

    def put(self, path: str, name: str) -> None:
        from umiak.adapters.stores import storage

        storage.store(path, name)


def _local(path: str, error: OSError) -> UmiakError:
    return UmiakError.refused("UM-SUBMIT-064", f"{one_line(path)}: it can't be read or written", why=error.strerror)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
