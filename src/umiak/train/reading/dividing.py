"""Who reads what in an epoch. A decider.

Two ways, each reading every sample exactly once per epoch:

    share    before the epoch, each trainer gets about the same number of bytes: for sync and collective training, where all
             trainers take the same number of steps anyway, and for one trainer
    hand     many small parts, handed out to idle trainers (`work_queue`): for training where nobody waits

Everybody who asks with the same files and numbers gets the same answer, so nothing needs to be sent around. Where each node has its own part of
the data, both are done among the trainers that see the same files: their `Holding`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.data import parts
from umiak.data.parts import File, Part

Item = TypeVar("Item")

PIECE_BYTES = 16 << 20
"""The size of a part that is handed out: some 40,000 samples of a click log, a second of training."""

PIECES_PER_TRAINER = 16
"""At least so many parts for each trainer, if the data is large enough: the last ones then end at about the same time."""

LEAST_PIECE_BYTES = 1 << 16


@value
class Holder:
    """What one trainer sees of a dataset."""

    held: str
    """Equal for trainers that see the very same files."""
    digest: str
    """Equal for files of the same names and sizes."""
    size: int = 0


@value
class Holding:
    """The trainers that divide some files among themselves, as one of them sees it."""

    rank: int
    """Its number among them."""
    world: int
    """How many they are."""
    first: int = 0
    """The rank of the first of them among all trainers."""
    number: int = 0
    """Which of all such groups they are."""
    size: int = 0
    """Bytes of the data of all trainers."""
    digests: tuple[str, ...] = ()
    """Of the files of every such group, in the order of their first trainers. None: all trainers see the same files."""

    @property
    def copies(self) -> int:
        """How many groups have files of the same names and sizes as another one: one directory in two places, it seems."""
        return sum(self.digests.count(each) > 1 for each in self.digests)


def held(told: Sequence[Holder], rank: int) -> Holding:
    """Who divides what trainer ``rank`` sees; ``told`` is what each trainer sees, in order of rank."""
    firsts: dict[str, Holder] = {}
    for each in told:
        firsts.setdefault(each.held, each)
    own = [number for number, each in enumerate(told) if each.held == told[rank].held]
    return Holding(
        rank=own.index(rank),
        world=len(own),
        first=own[0],
        number=[*firsts].index(told[rank].held),
        size=sum(each.size for each in firsts.values()),
        digests=tuple([each.digest for each in firsts.values()]),
    )


def in_order(files: Sequence[File], *, shuffled: bool = False, seed: int = 0, epoch: int = 0) -> tuple[File, ...]:
    """Files as they are read in an epoch: by name, or in an order that seed and epoch decide."""
    return permuted(files, f"{seed}/{epoch}") if shuffled else tuple(files)


def permuted(items: Sequence[Item], text: str) -> tuple[Item, ...]:
    """The same in an order that a text decides."""
    ordered = list(items)
    random.Random(text).shuffle(ordered)  # noqa: S311 - no secret
    return tuple(ordered)


def share(files: Sequence[File], *, rank: int, world: int) -> tuple[Part, ...]:
    """What trainer ``rank`` of ``world`` reads. It may be nothing."""
    if not 0 <= rank < world:
        raise UmiakError.of("UM-DATA-004", f"there is no trainer {rank} of {world}")
    return parts.split_files(files, world)[rank]


def hand(files: Sequence[File], *, world: int, piece_bytes: int | None = None) -> tuple[Part, ...]:
    """The parts that are handed out one at a time."""
    size = sum(file.size for file in files)
    wanted = piece_bytes or max(LEAST_PIECE_BYTES, min(PIECE_BYTES, size // (world * PIECES_PER_TRAINER)))
    return parts.pieces(files, wanted)
