"""Parts of the data, handed out to idle trainers: which part a number stands for, and what is left after a stop. A pure decider.

    queue = WorkQueue(trainers=2)
    queue.part(0)  ->  (0, None)             the trainer that draws number 0 reads part 0, from its beginning
    queue = queue.after(places)               where trainers stood when they were stopped

Numbers are drawn from a counter that the servers keep, each by one trainer; so nobody idles while there is a part that nobody has, and every part has one reader. What a
trainer was in the middle of comes first in the next run, from where it stood, whichever trainer draws it and however many there are then. The value is kept with a checkpoint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from umiak.core.problem import UmiakError
from umiak.core.value import replace, value
from umiak.data.parts import Part
from umiak.train.reading.datasets.division import DatasetPart
from umiak.train.reading.shuffling.pieces import PartGroup

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject


@value
class WorkQueue:
    """What of an epoch's parts is still to be handed out."""

    leftovers: tuple[tuple[int, str | None], ...] = ()
    """Parts that were begun, each with a reader's position, or none for its beginning. They come first."""
    begun: int = 0
    """Parts from this one on are fresh."""
    trainers: int = 0
    """For how many trainers the parts were made: of how many parts an epoch is depends on it."""
    parts: str = ""
    """A fingerprint of all parts; nothing: it is not known."""

    def of_parts(self, fingerprint: str) -> WorkQueue:
        """The same for these parts. UmiakError if the numbers in it are those of others: samples would be left out, or read twice."""
        if self.parts and self.parts != fingerprint:
            raise UmiakError.refused(
                "UM-TRAIN-560",
                "this checkpoint was saved within an epoch whose data was divided in another way than now",
                why="`shuffle`, `batch_size` or the way in which files are divided has changed since",
                hint="go on with the config of that run, or begin an epoch with the checkpoint: `init_model_path:`",
            )
        return replace(self, parts=fingerprint)

    def part(self, number: int) -> tuple[int, str | None]:
        """What the trainer reads that drew this number."""
        if number < len(self.leftovers):
            return self.leftovers[number]
        return self.begun + number - len(self.leftovers), None

    def after(self, places: Sequence[JsonObject]) -> WorkQueue:
        """What is left when trainers have drawn numbers and stand where they say."""
        drawn = max((each["drawn"] for each in places), default=0)
        held = [(int(each["part"]), each["position"]) for each in places if each["part"] is not None]
        fresh = self.begun + max(0, drawn - len(self.leftovers))
        return replace(self, leftovers=(*held, *self.leftovers[drawn:]), begun=fresh)


def fingerprint(handed: Sequence[Part | PartGroup | DatasetPart]) -> str:
    """A short text that is equal for the same parts, wherever the files are."""
    digest = hashlib.sha256()
    for part in handed:
        if isinstance(part, DatasetPart):
            digest.update(repr([part.text, *map(_name, part.files)]).encode())
            continue
        own = part.pieces if isinstance(part, PartGroup) else (part,)
        digest.update(repr([(_name(each.path), each.start, each.end) for each in own]).encode())
    return digest.hexdigest()[:32]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
