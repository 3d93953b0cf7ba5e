"""How far a run has come: what a checkpoint says besides its tables. Values.

    Progress(runner="ps", epoch=2, stage=0, ...)  ->  JSON in the checkpoint's metadata, and back

Between two epochs ``trainers`` is empty; within one, each trainer has its place in the data and what its metrics have seen.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from umiak.core.decode import Malformed, decode, encode
from umiak.core.value import value

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

KEY = "umiak_train"
"""Where it stands in the metadata of a checkpoint."""


@value
class EpochRow:
    """What an epoch came to, or a pass of online learning."""

    epoch: int
    stage: str
    samples: int
    seconds: float
    cpu_s: float = 0.0
    """Of all trainers, as far as this process has seen it: since it was started."""
    trained: dict[str, float | None] = {}
    """The metrics of training; None where a metric has no meaning."""
    evaluated: dict[str, float | None] = {}
    day: str = ""
    """Of a pass; then ``evaluated`` is from before it was trained on."""
    number: int = 0
    """Of a pass, in its day."""
    model: str = ""
    """The checkpoint that was evaluated, where nothing was trained."""
    blank_lines: int = 0
    bad_lines: int = 0
    """Lines that were passed over."""
    lag: int | None = None
    """Of a pass over a stream: the messages that were there behind it."""


@value
class TrainerState:
    """Where one trainer is within an epoch."""

    step: int
    """Its steps since the beginning of the run."""
    place: str
    """Where its feed stands: JSON."""
    metrics: str
    """What its metrics have seen: float64 numbers, packed."""
    batch: int = 0
    samples: int = 0
    """Its own part of the stage, where trainers wait for nobody."""
    buffers: str = ""
    """Its own running statistics, where several trainers take steps together: JSON."""


@value
class Progress:
    """Where a run is."""

    runner: str
    run: str = ""
    """Which run of it: another each time that one begins from scratch."""
    mode: str
    """How trainers work together: alone, collective, or a strategy."""
    trainers_in_all: int
    seed: int
    epoch: int
    """So many epochs are done."""
    stage: int = 0
    """So many stages of the next one are done."""
    batch: int = 0
    """Batches of all trainers in the stage, as far as it is done."""
    step: int = 0
    samples: int = 0
    """Samples of all trainers in the stage, as far as it is done."""
    seconds: float = 0.0
    """Time that was spent on the stage."""
    metrics_layout: str = ""
    trainers: tuple[TrainerState, ...] = ()
    generators: tuple[str, ...] = ()
    """What the code of each trainer's models would draw next; nothing where each step begins with a seed of its own."""
    queue: str = ""
    """What of the stage's parts is left, where trainers take them from a queue: JSON."""
    history: tuple[EpochRow, ...] = ()
    best: float | None = None
    """What early stopping has seen so far."""
    without_progress: int = 0
    is_over: bool = False
    """Whether it ended before its last epoch, because it grew no better; or with the last pass."""
    until: str = ""
    """Online learning: the last directory of the last pass that is done, ``YYYYMMDD/HHMM``."""
    evaluated: dict[str, float | None] = {}
    """Within a pass: what it was evaluated with before it was trained on."""
    features: str = ""
    """The hash of the features' lock, where data is tables."""
    stream: str = ""
    """Which messages of a stream are done, and which are in this pass: JSON of `umiak.train.run.streams.state`."""


def to_plain(progress: Progress) -> JsonObject:
    """As it stands in a checkpoint's metadata."""
    plain: JsonObject = encode(progress)
    return {KEY: plain}


def from_plain(metadata: Any) -> Progress | None:
    """What a checkpoint says; None if it was not saved by a trainer, or by one that spoke differently."""
    plain = metadata.get(KEY) if isinstance(metadata, dict) else None
    if plain is None:
        return None
    try:
        return decode(Progress, _with_new_names(plain))
    except (Malformed, ValueError):
        return None


OLDER_NAMES = {"board": "metrics", "board_layout": "metrics_layout", "deal": "queue"}
"""Keys of checkpoints that earlier versions wrote."""


def _with_new_names(saved: Any) -> Any:
    """What a checkpoint says, under today's keys; also of the queue of parts, which is JSON in itself."""
    if isinstance(saved, list):
        return [_with_new_names(part) for part in saved]
    if not isinstance(saved, dict):
        return saved
    renamed = {OLDER_NAMES.get(key, key): part for key, part in saved.items()}
    if isinstance(renamed.get("trainers"), list):
        renamed["trainers"] = _with_new_names(renamed["trainers"])
    if isinstance(queue := renamed.get("queue"), str) and '"deal"' in queue:
        renamed["queue"] = json.dumps(_with_new_names(json.loads(queue)))
    return renamed


def packed(vector: NDArray[np.float64]) -> str:
    """Numbers as text. What metrics have seen is mostly zeros, so it is short."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(vector, "<f8").tobytes(), 1)).decode("ascii")


def unpacked(text: str) -> NDArray[np.float64]:
    """The numbers again."""
    numbers: NDArray[np.float64] = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.float64).copy()
    return numbers


def finite(numbers: dict[str, float]) -> dict[str, float | None]:
    """Metrics for JSON, which has no word for what is not a number."""
    return {name: each if math.isfinite(each) else None for name, each in numbers.items()}
