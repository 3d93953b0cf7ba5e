"""What the tests of the slot reader share."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Iterable

import zstandard

from umiak.data import Batch


def rows(batches: Iterable[Batch]) -> list[tuple[object, ...]]:
    """The samples of batches, each as (ids of all sparse slots, numbers of all dense slots)."""
    found = []
    for batch in batches:
        sparse = [(values.view("uint64").tolist(), offsets.tolist()) for values, offsets in batch.sparse.values()]
        dense = [matrix.tolist() for matrix in batch.dense.values()]
        for at in range(batch.size):
            ids = tuple(tuple(values[offsets[at] : offsets[at + 1]]) for values, offsets in sparse)
            found.append((ids, tuple(tuple(matrix[at]) for matrix in dense)))
    return found


def packed(text: bytes, how: str, members: int = 1) -> bytes:
    """Compressed text, in several members or frames one after the other."""
    if how == "plain":
        return text
    step = max(1, -(-len(text) // members))
    pieces = [text[at : at + step] for at in range(0, len(text), step)] or [b""]
    if how == "gzip":
        return b"".join(gzip.compress(piece, mtime=0) for piece in pieces)
    if how in ("bzip2", "xz"):
        compress = bz2.compress if how == "bzip2" else lzma.compress
        return b"".join(compress(piece) for piece in pieces)
    return b"".join(zstandard.compress(piece) for piece in pieces)


def criteo(lines: int, seed: int = 1) -> bytes:
    """Lines like those of the well-known click log: a label, 13 numbers, 26 ids."""
    import random

    draw = random.Random(seed)
    made = []
    for _ in range(lines):
        tokens = [f"click:{draw.randrange(2)}"]
        tokens += [f"dense_feature:{draw.choice([0.0, 0.05, draw.random()])}" for _ in range(13)]
        tokens += [f"{slot}:{draw.randrange(1_000_001)}" for slot in range(1, 27)]
        made.append(" ".join(tokens))
    return "".join(line + "\n" for line in made).encode()


CRITEO_SPARSE = ["click", *map(str, range(1, 27))]
CRITEO_DENSE = {"dense_feature": 13}
