"""The logs of a job's nodes, from the addresses that the platform tells. An adapter.

The client has no command for them. What it tells of a node is the address of a page,
on a server that also hands out the files of the node's container; the output of the start command is one of them.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from urllib.parse import quote, urlsplit

from umiak.submit.backend import LogLine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.submit.backends.paddlecloud.answers import PlatformNode

FILE = "/root/paddlejob/workspace/log/train.log"
KEPT = "/home/work/containers_backup"
WITHIN_S = 20.0
LEAST_BYTES, BYTES_PER_LINE = 1 << 16, 512
"""So much of a file's end is asked for where its last lines are wanted."""


def address(log_url: str) -> str:
    """Where the output of a node is: ``http://host/a/b/CONTAINER/...`` is the page about it.
    Empty if this is no such page.
    """
    parts = urlsplit(log_url)
    words = parts.path.split("/")
    if parts.scheme not in ("http", "https") or not parts.netloc or len(words) < 4 or not words[3]:
        return ""
    return f"{parts.scheme}://{parts.netloc}/filetree?action=cat&path={quote(f'{KEPT}/{words[3]}{FILE}')}"


class NodeLog:
    """One node's output, read on from a position."""

    def __init__(self, node: PlatformNode, after: str, tail: int | None = None) -> None:
        self.source = f"{node.role.value}.{node.rank}"
        self._node = node
        self._address = address(node.log_url)
        self._position = int(after) if after.isdecimal() else 0
        self._tail = tail if not after else None

    @property
    def is_known(self) -> bool:
        return bool(self._address)

    def lines(self, *, is_over: bool) -> Iterator[LogLine]:
        """What is new; a line that has no end yet only when the job is over. OSError if it can't be had."""
        data = self._end_of_file() if self._tail is not None else self._fetched(f"bytes={self._position}-")
        end = len(data) if is_over else data.rfind(b"\n") + 1
        for line in data[:end].splitlines(keepends=True):
            self._position += len(line)
            yield LogLine(
                source=self.source,
                text=line.rstrip(b"\r\n").decode("utf-8", "replace"),
                position=str(self._position),
                role=self._node.role,
                rank=self._node.rank,
            )

    def _end_of_file(self) -> bytes:
        """So much of the end that the last lines are in it, if the server can give parts of files; else all."""
        count, self._tail = max(1, self._tail or 0), None
        data = self._fetched(f"bytes=-{max(LEAST_BYTES, BYTES_PER_LINE * count)}")
        if self._position:
            begin = data.find(b"\n") + 1  # of the first line the beginning is missing
            if data.count(b"\n", begin) < count:
                self._position = 0
                return self._fetched("bytes=0-")
            self._position += begin
            return data[begin:]
        return data

    def _fetched(self, part: str) -> bytes:
        """A part of the file; the position is then where it begins."""
        request = urllib.request.Request(self._address, headers={"Range": part})  # noqa: S310 - http only
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=WITHIN_S) as answer:
                data: bytes = answer.read()
                if answer.status != 206:
                    return data[self._position :]
                begin = str(answer.headers.get("Content-Range") or "").removeprefix("bytes ").partition("-")[0]
                if part.startswith("bytes=-"):
                    self._position = int(begin) if begin.isdecimal() else 0
                return data
        except urllib.error.HTTPError as error:
            if error.code == 416:  # nothing is new
                return b""
            raise
