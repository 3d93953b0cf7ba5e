"""Who reads what in an epoch. A decider.

Two ways, each reading every sample exactly once per epoch:

    share    before the epoch, each trainer gets about the same number of bytes: for sync and collective training, where all
             trainers take the same number of steps anyway, and for one trainer
    hand     many small parts, handed out to whoever has nothing to do (`dealing`): for training where nobody waits

Everybody who asks with the same files and numbers gets the same answer, so nothing needs to be sent around.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from umiak.core.problem import Problem, UmiakError
from umiak.data import parts
from umiak.data.parts import File, Part

PIECE_BYTES = 16 << 20
"""The size of a part that is handed out: some 40,000 samples of a click log, a second of training."""

PIECES_PER_TRAINER = 16
"""At least so many parts for each trainer, if the data is large enough: the last ones then end at about the same time."""

LEAST_PIECE_BYTES = 1 << 16


def in_order(files: Sequence[File], *, shuffled: bool = False, seed: int = 0, epoch: int = 0) -> tuple[File, ...]:
    """Files as they are read in an epoch: by name, or in an order that seed and epoch decide."""
    ordered = list(files)
    if shuffled:
        random.Random(f"{seed}/{epoch}").shuffle(ordered)  # noqa: S311 - no secret
    return tuple(ordered)


def share(files: Sequence[File], *, rank: int, world: int) -> tuple[Part, ...]:
    """What trainer ``rank`` of ``world`` reads. It may be nothing."""
    if not 0 <= rank < world:
        raise UmiakError(Problem(code="UM-DATA-004", what=f"there is no trainer {rank} of {world}"))
    return parts.split_files(files, world)[rank]


def hand(files: Sequence[File], *, world: int, piece_bytes: int | None = None) -> tuple[Part, ...]:
    """The parts that are handed out one at a time."""
    size = sum(file.size for file in files)
    wanted = piece_bytes or max(LEAST_PIECE_BYTES, min(PIECE_BYTES, size // (world * PIECES_PER_TRAINER)))
    return parts.pieces(files, wanted)
