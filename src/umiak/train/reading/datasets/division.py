"""Who reads what of a reader class that opens files itself. A decider.

    parts_of(files, world=2, divide_by=DivideBy.FILES)      -> two parts of whole files, if these are even enough
    parts_of(files, world=2, divide_by=DivideBy.SAMPLES)    -> two parts: all files, batches 0, 2, 4, ... and 1, 3, 5, ...

Every sample is in exactly one part. The second way works with every reader whose samples come in the same order each time, which a process sees to by
its random seed; it costs each trainer the reading of everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from umiak.core.value import value
from umiak.data.parts import File
from umiak.train.config.values import DivideBy

MOST_UNEVEN = 1.25
"""The largest share of files may be so much larger than the mean."""
PARTS_PER_TRAINER = 4
"""Where parts are handed out, at most so many for each trainer: each begins the reader once more."""


@value
class DatasetPart:
    """Some of the samples that a reader class makes of some files."""

    files: tuple[str, ...]
    first: int = 0
    step: int = 1
    """Every N-th batch, from the first on."""

    @property
    def text(self) -> str:
        """In words, the same for the same part."""
        return f"{len(self.files)} files" if self.step == 1 else f"batch {self.first} of every {self.step}"


def is_by_files(files: Sequence[File], *, world: int, divide_by: DivideBy) -> bool:
    """Whether whole files make shares that are even enough."""
    if world == 1 or divide_by is DivideBy.SAMPLES or len(files) < world:
        return world == 1
    loads = [sum(file.weight for file in share) for share in _shares(files, world)]
    return max(loads) <= MOST_UNEVEN * sum(loads) / world


def parts_of(
    files: Sequence[File], *, world: int, divide_by: DivideBy, handed_out: bool = False
) -> tuple[DatasetPart, ...]:
    """The parts of all trainers, one for each; where they are handed out, several."""
    paths = tuple([file.path for file in files])
    if not is_by_files(files, world=world, divide_by=divide_by):
        return tuple([DatasetPart(files=paths, first=rank, step=world) for rank in range(world)])
    count = world
    if handed_out and world > 1:
        count = min(len(files), world * PARTS_PER_TRAINER)
    return tuple([DatasetPart(files=tuple([file.path for file in share])) for share in _shares(files, count)])


def _shares(files: Sequence[File], count: int) -> list[list[File]]:
    """Whole files to so many shares, about as large as one another; within a share they stay in order."""
    loads = [0] * count
    owner: dict[int, int] = {}
    for number in sorted(range(len(files)), key=lambda each: (-files[each].weight, each)):
        least = loads.index(min(loads))
        owner[number] = least
        loads[least] += max(1, files[number].weight)
    return [[files[number] for number in range(len(files)) if owner[number] == share] for share in range(count)]
