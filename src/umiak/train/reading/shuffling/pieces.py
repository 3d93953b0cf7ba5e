"""Samples in another order in each epoch. A decider.

Files are cut into pieces of some lines. The pieces come in an order that seed and epoch decide, the same for every trainer, and are divided among them; each trainer
reads its pieces one after the other, and permutes the samples within windows. So a window holds samples from many places of all files, and data that is sorted comes
out mixed though no more than a window is in memory. A compressed file can't be cut, and is one piece.

    shuffle = Shuffle(window=100_000, line_bytes=300.0)
    share(files, shuffle, rank=0, world=2, seed=7, epoch=3)     what one trainer reads
    groups(files, shuffle, world=2, seed=7, epoch=3, ...)       parts that are handed out, each of several pieces

Every byte is in exactly one piece, and every piece in exactly one share or group. Where files are fetched from afar, a trainer's pieces are of few files: those that it
would have read without a shuffle, in an order of its own.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from umiak.core.value import replace, value
from umiak.data import parts
from umiak.data.parts import File, Part
from umiak.train.reading import dividing

if TYPE_CHECKING:
    from umiak.train.reading.positions import Share

PIECES_PER_WINDOW = 32
"""A window has samples of about so many places, where the data is large."""
PIECES_PER_TRAINER = 64
"""At least so many pieces for each trainer, where the data is small."""
USUAL_PIECE_BYTES = 64 << 10
"""Where there is enough data, pieces are at least as large: opening one takes as long as reading some kilobytes."""
LEAST_LINES = 4
MOST_PIECES = 1 << 16


@value
class Shuffle:
    """How samples are shuffled."""

    window: int
    """Samples that are in memory at once, and permuted."""
    line_bytes: float = 256.0
    """About how long a line is."""
    is_remote: bool = False
    """Whether files are fetched as a whole by everybody who reads a part of them."""


@value
class PartGroup:
    """Several pieces that are handed out together, and read as one."""

    pieces: tuple[Part, ...]


def piece_bytes(files: Sequence[File], shuffle: Shuffle, *, world: int) -> int:
    """The size of a piece of a plain file."""
    size = sum(file.size for file in files)
    wanted = max(USUAL_PIECE_BYTES, int(shuffle.window * shuffle.line_bytes) // PIECES_PER_WINDOW)
    even = size // (world * PIECES_PER_TRAINER)
    return max(1, min(wanted, even), int(LEAST_LINES * shuffle.line_bytes), size // MOST_PIECES)


def share(files: Sequence[File], shuffle: Shuffle, *, rank: int, world: int, seed: int, epoch: int) -> tuple[Part, ...]:
    """What trainer ``rank`` of ``world`` reads, in this order. It may be nothing."""
    size = piece_bytes(files, shuffle, world=world)
    if shuffle.is_remote:
        ordered = dividing.in_order(files, shuffled=True, seed=seed, epoch=epoch)
        own = dividing.share(ordered, rank=rank, world=world)
        return dividing.permuted(_cut(own, files, size), f"pieces {seed}/{epoch}/{rank}")
    pieces = dividing.permuted(parts.pieces(files, size), f"pieces {seed}/{epoch}")
    weights = _weights(pieces, files)
    total = max(1, sum(weights))
    own_pieces, before = [], 0
    for piece, weight in zip(pieces, weights, strict=True):
        # As `dividing.share` does with files that can't be cut: to the trainer that gets the middle of it.
        if min(world - 1, (2 * before + weight) * world // (2 * total)) == rank:
            own_pieces.append(piece)
        before += weight
    return tuple(own_pieces)


def groups(
    files: Sequence[File], shuffle: Shuffle, *, world: int, part_bytes: int, seed: int, epoch: int
) -> tuple[PartGroup, ...]:
    """The parts that are handed out one at a time, each of about so many bytes or a window, if there is enough for all."""
    size = piece_bytes(files, shuffle, world=world)
    total = sum(file.weight for file in files)
    window_bytes = int(shuffle.window * shuffle.line_bytes)
    wanted = max(part_bytes, min(window_bytes, total // (world * dividing.PIECES_PER_TRAINER)))
    if shuffle.is_remote:
        ordered = dividing.in_order(files, shuffled=True, seed=seed, epoch=epoch)
        handed = dividing.hand(ordered, world=world, piece_bytes=wanted)
        return tuple(
            [
                PartGroup(pieces=dividing.permuted(_cut((part,), files, size), f"pieces {seed}/{epoch}/{number}"))
                for number, part in enumerate(handed)
            ]
        )
    made: list[PartGroup] = []
    waiting: list[Part] = []
    weight = 0
    pieces = dividing.permuted(parts.pieces(files, size), f"pieces {seed}/{epoch}")
    for piece, own in zip(pieces, _weights(pieces, files), strict=True):
        waiting.append(piece)
        weight += own
        if weight >= wanted:
            made.append(PartGroup(pieces=tuple(waiting)))
            waiting, weight = [], 0
    return tuple([*made, PartGroup(pieces=tuple(waiting))] if waiting else made)


def window_seed(of: Share) -> int:
    """Of the permutations within a share: another one for each trainer, or part that is handed out."""
    return mixed(of.seed, of.epoch, of.share)


def mixed(*said: object) -> int:
    """One number of 64 bits for some numbers and texts, the same everywhere."""
    return int.from_bytes(hashlib.sha256(repr(said).encode()).digest()[:8], "little")


def _cut(own: Sequence[Part], files: Sequence[File], size: int) -> list[Part]:
    """Parts of plain files in pieces of so many bytes."""
    known = {file.path: file for file in files}
    made = []
    for part in own:
        file = known[part.path]
        end = file.size if part.end is None else part.end
        if file.packed or end - part.start <= size:
            made.append(part)
            continue
        cuts = [*range(part.start, end, size), end]
        made += [replace(part, start=start, end=until) for start, until in itertools.pairwise(cuts)]
    return made


def _weights(pieces: Sequence[Part], files: Sequence[File]) -> list[int]:
    known = {file.path: file.weight for file in files}
    return [known[piece.path] if piece.end is None else piece.end - piece.start for piece in pieces]
