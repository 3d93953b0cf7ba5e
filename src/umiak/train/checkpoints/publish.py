"""Inference models from online learning, and the list by which a serving system follows them. An adapter.

    PATH/DAY/base            at the end of a day: rows that are worth serving
    PATH/DAY/base-0          before the first pass, if that was asked for
    PATH/DAY/delta-PASS      what has changed since the last base or delta
    PATH/DAY/batch           at the end of a day: all rows, with everything that learning needs; after it they are a day older
    PATH/donefile.jsonl      a line for each of them, when it is whole

Each is a checkpoint of `umiak.ps`, saved in its mode of that name (batch: ``full``). Which rows a base or a delta has is decided by the accessor of their
table; a table without one is saved as a whole, and dense parameters always are.
"""

from __future__ import annotations

import json
import os
import time
from enum import Enum
from typing import TYPE_CHECKING

from umiak.core.value import value
from umiak.ps.sessions import Session
from umiak.train.checkpoints import runs

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

LIST = "donefile.jsonl"
KEY = "umiak_published"
"""Where it stands in the metadata of a model."""


class PublishKind(str, Enum):
    """What of the tables is in a model; the values are words of the list."""

    BASE = "base"
    DELTA = "delta"
    BATCH = "batch"

    @property
    def mode(self) -> str:
        """How `umiak.ps` calls it."""
        return "full" if self is PublishKind.BATCH else self.value


@value
class Model:
    """An inference model."""

    kind: PublishKind
    day: str
    number: int
    """The pass that it was made after; 0: before the first one."""

    @property
    def name(self) -> str:
        """Its directory, below the path of models."""
        number = f"-{self.number}" if self.kind is PublishKind.DELTA or self.number == 0 else ""
        return os.path.join(self.day, f"{self.kind.value}{number}")


def publish(job: Session, path: str, model: Model) -> str:
    """Save a model and write it into the list. Every trainer calls it; the first one does it. Returns where it is."""
    at = os.path.join(path, model.name)
    plain: JsonObject = {"day": model.day, "pass": model.number, "kind": model.kind.value}
    runs.put(job, at, {KEY: plain}, mode=model.kind.mode)
    if job.is_first:
        add_line(os.path.join(path, LIST), {**plain, "path": model.name, "time": round(time.time(), 3)})
    return at


def add_line(file: str, what: JsonObject) -> None:
    """One line more, as a whole and on disk; half a line of one who was killed is ended first."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        size = os.fstat(handle).st_size
        is_torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, (("\n" if is_torn else "") + json.dumps(what) + "\n").encode())
        os.fsync(handle)
    finally:
        os.close(handle)
