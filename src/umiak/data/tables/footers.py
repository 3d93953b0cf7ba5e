"""Parquet files behind URLs that were opened: a footer is fetched once, whatever the number of parts that are read. An adapter to ``umiak_native``.

    file = looked_at(path)              fetched now, and kept
    file = opened(path)                 the one that was looked at last, as long as there is room for it

Files of this machine are not kept: each would hold a descriptor, and their footers cost little.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import umiak_native

from umiak.adapters.stores import storage

MOST_CHUNKS = 500_000
"""So many pieces of columns may be in the footers that are kept: some 100 MB."""


class _Kept:
    """The files that were used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._files: OrderedDict[str, tuple[umiak_native.ParquetFile, int]] = OrderedDict()
        self._chunks = 0

    def find(self, path: str) -> umiak_native.ParquetFile | None:
        with self._lock:
            if path not in self._files:
                return None
            self._files.move_to_end(path)
            return self._files[path][0]

    def keep(self, path: str, file: umiak_native.ParquetFile) -> None:
        chunks = len(file.groups) * len(file.columns)
        with self._lock:
            self._chunks -= self._files.pop(path, (file, 0))[1]
            self._files[path] = file, chunks
            self._chunks += chunks
            while self._chunks > self._most and self._files:
                self._chunks -= self._files.popitem(last=False)[1][1]


_kept = _Kept(MOST_CHUNKS)


def looked_at(path: str) -> umiak_native.ParquetFile:
    """A file as it is now."""
    if not storage.is_url(path):
        return umiak_native.ParquetFile(path, path)
    file = umiak_native.ParquetFile(path, storage.pieces_of(path))
    _kept.keep(path, file)
    return file


def opened(path: str) -> umiak_native.ParquetFile:
    """The same as when it was looked at last."""
    found = _kept.find(path) if storage.is_url(path) else None
    return looked_at(path) if found is None else found
