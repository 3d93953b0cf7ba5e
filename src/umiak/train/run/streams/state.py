"""Which messages of a stream are done: what a checkpoint says, and where a run goes on. Values.

StreamState(topic="clicks", offsets={0: 1200, 1: 1180}, spans=("0@1200-1800",))      within a pass over 600 messages
"""

from __future__ import annotations

import json

from umiak.core.decode import Malformed, decode, encode
from umiak.core.problem import UmiakError
from umiak.core.value import replace, value
from umiak.data.streams import passes, places


@value
class StreamState:
    """Where a run is in its topic."""

    topic: str
    offsets: dict[str, int] = {}
    """By partition, in decimal digits: where the next pass begins."""
    spans: tuple[str, ...] = ()
    """The pass that is trained on now; none: it is between two."""
    day: str = ""
    """The date (UTC) on which the last pass began: rows of tables grow older from day to day."""
    ends: dict[str, int] | None = None
    """Where training ends, once that is known."""

    @property
    def position(self) -> dict[int, int]:
        return {int(partition): offset for partition, offset in self.offsets.items()}

    @property
    def limits(self) -> dict[int, int] | None:
        return None if self.ends is None else {int(partition): offset for partition, offset in self.ends.items()}

    def within(self, spans: tuple[str, ...], day: str) -> StreamState:
        """The same with a pass that begins on this day."""
        return replace(self, spans=spans, day=day)

    def behind(self) -> StreamState:
        """The same when that pass is over."""
        done = passes.after(self.position, [places.span_of(each) for each in self.spans])
        return replace(self, offsets=named(done), spans=())

    def to_json(self) -> str:
        return json.dumps(encode(self))


def named(offsets: dict[int, int]) -> dict[str, int]:
    """As JSON has it."""
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def from_json(text: str, topic: str, checkpoint: str | None) -> StreamState:
    """What a checkpoint says; nothing: the very beginning. UmiakError if it is one of something else."""
    if not text:
        return StreamState(topic=topic)
    try:
        found = decode(StreamState, json.loads(text))
    except (Malformed, ValueError) as error:
        what = f"{checkpoint}: what it says of a stream can't be read: {error}"
        raise UmiakError.of("UM-TRAIN-016", what) from error
    if found.topic != topic:
        raise UmiakError.of(
            "UM-TRAIN-611",
            f"{checkpoint} was trained on topic {found.topic}, and data_path names {topic}",
            why="offsets of one topic mean nothing in another",
            hint="go on with that topic, or begin from scratch with what was learned: `init_model_path:`, without --resume",
        )
    return found
