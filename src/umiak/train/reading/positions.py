"""Where a trainer is in the data of an epoch: a value that is saved with a checkpoint.

    position.to_json()  ->  '{"dataset": "train", "epoch": 2, "seed": 7, "share": "trainer 0 of 2", ...}'

Going on from it gives the batches that would have come next. It is refused where it does not belong: other files, another number of trainers.
"""

from __future__ import annotations

import json
from typing import TypeVar

from umiak.core.decode import Malformed, decode, encode
from umiak.core.problem import UmiakError
from umiak.core.value import fields, value

Place = TypeVar("Place")


@value
class Share:
    """Which samples of an epoch are meant."""

    dataset: str
    epoch: int
    seed: int
    files: str
    """The digest of the dataset's files."""
    share: str
    """``trainer 0 of 2``, or a part of a file."""


@value
class Position:
    """What a share is, and how much of it was given out."""

    of: Share
    samples: int
    at: str
    """The reader's own words: JSON."""

    def to_json(self) -> str:
        return json.dumps(encode(self))


def from_json(text: str, of: Share) -> Position:
    """A position that was saved, for going on with a share. UmiakError if it is one of something else."""
    try:
        position = decode(Position, json.loads(text))
    except (Malformed, ValueError) as error:
        raise _refused(f"not a position: {error}") from error
    different = [
        f"{name} is {getattr(of, name)}, it was {getattr(position.of, name)}"
        for name in fields(Share)
        if getattr(of, name) != getattr(position.of, name)
    ]
    if different:
        raise _refused(f"dataset {of.dataset}: a position of something else: {', '.join(different)}")
    return position


def _refused(what: str) -> UmiakError:
    hint = "use the same files and trainers as before, or restart the epoch"
    return UmiakError.of("UM-DATA-003", what, hint=hint)


def place_of(kind: type[Place], text: str) -> Place:
    """Where a reader class stands, in the form that its reading has for it."""
    try:
        return decode(kind, json.loads(text))
    except (Malformed, ValueError) as error:
        raise UmiakError.of("UM-DATA-003", f"not a position of a reader class: {error}") from error
