"""Messages of a pass: waits until there are enough, or it is time. An adapter.

    arrivals = StreamArrivals(source, settings, peers, stopping, note, least=1024)
    arrived = arrivals.wait(state, wanted)         # arrived.state.spans == ("0@1200-1800", "1@1180-1790")

The first trainer looks, and tells the others, so that all of them train on the same messages. A broker that has answered once may be away for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import umiak
from umiak.core.decode import decode, encode
from umiak.core.problem import UmiakError
from umiak.core.value import replace, value
from umiak.data.streams import kafka, passes
from umiak.train.config.streams.settings import Edge
from umiak.train.run.feeds import StopOrSave
from umiak.train.run.streams.state import StreamState, named

if TYPE_CHECKING:
    from umiak.data.streams.kafka import KafkaTopic
    from umiak.data.streams.places import PartitionBounds
    from umiak.train.config.streams.settings import StreamPlace, StreamSettings
    from umiak.train.run.peers import Peers
    from umiak.train.run.stop_signal import StopSignal

NAP_S = 0.2
"""Trainers tell one another so often whether they are to stop, and a broker is asked so often for messages."""


@value
class ArrivedMessages:
    """What there is to do."""

    state: StreamState
    """With the spans of the next pass; none: it is not yet time, or over."""
    is_over: bool = False
    lag: int = 0
    """Messages that were there when it was looked, those of the pass among them."""
    wanted: StopOrSave = StopOrSave()
    """What somebody wants to do before; then nobody waits any longer."""


class StreamArrivals:
    """Waits for the passes of a run, one after the other."""

    def __init__(
        self,
        topic: KafkaTopic,
        settings: StreamSettings,
        peers: Peers,
        stopping: StopSignal,
        note: Callable[[str], None],
        *,
        least: int,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``least``: with so many messages a pass begins at once."""
        self._topic = topic
        self._settings = settings
        self._peers = peers
        self._stopping = stopping
        self._note = note
        self._least = least
        self._clock, self._now, self._sleep = clock, now, sleep
        self._answered: float | None = None
        """When a broker has answered last."""
        self._told = 0.0

    def wait(self, state: StreamState, wanted: Callable[[], StopOrSave]) -> ArrivedMessages:
        """The next pass; or what is to be done before it, which ``wanted`` says. Every trainer calls it."""
        began = self._clock()
        while True:
            found = self._look(state, self._clock() - began) if self._peers.is_first else None
            own = wanted()
            stop = own.stop or self._stopping.is_asked
            told = self._peers.tell(
                {"found": None if found is None else encode(found), "save": own.save, "stop": stop}, "messages"
            )
            first = decode(ArrivedMessages, told[0]["found"])
            everybodys = StopOrSave(save=any(each["save"] for each in told), stop=any(each["stop"] for each in told))
            if everybodys or first.state.spans or first.is_over:
                return replace(first, wanted=everybodys)
            state = first.state
            umiak.progress()
            self._sleep(NAP_S)

    def lag(self, position: Mapping[int, int]) -> int | None:
        """How many messages are there behind a position; None: nobody answers."""
        there = self._bounds()
        return None if there is None else passes.behind(position, there)

    # ---- looking

    def _look(self, state: StreamState, waited_s: float) -> ArrivedMessages:
        there = self._bounds()
        if there is None:
            return ArrivedMessages(state=state)
        if not state.offsets:
            state = replace(state, offsets=named(self._start(there)))
        position = state.position
        UmiakError.raise_any(passes.lost(position, there, self._topic.address.topic))
        state, ends, is_settled = self._ends(state, there)
        spans = passes.next_pass(position, there, most=self._settings.pass_messages, ends=ends)
        lag = passes.behind(position, there)
        if not spans:
            is_over = is_settled and passes.is_over(position, there, ends)
            return ArrivedMessages(state=state, is_over=is_over, lag=lag)
        reaches = is_settled and passes.is_over(passes.after(position, spans), there, ends)
        if sum(span.count for span in spans) < self._least and waited_s < self._settings.wait_s and not reaches:
            return ArrivedMessages(state=state, lag=lag)
        today = time.strftime("%Y-%m-%d", time.gmtime(self._now()))
        return ArrivedMessages(state=state.within(tuple([span.text for span in spans]), today), lag=lag)

    def _start(self, there: Sequence[PartitionBounds]) -> dict[int, int]:
        """Where a run begins that goes on from nothing."""
        place = self._settings.start_from
        if place is None or place.edge is Edge.EARLIEST:
            return {each.partition: each.low for each in there}
        if place.offset is not None:
            return {each.partition: place.offset for each in there}
        found = self._at(place) if place.time_s is not None else {}
        return {each.partition: found.get(each.partition, each.high) for each in there}

    def _ends(
        self, state: StreamState, there: Sequence[PartitionBounds]
    ) -> tuple[StreamState, dict[int, int] | None, bool]:
        """Where training ends as far as it is known now, and whether that is settled."""
        place = self._settings.until
        if place is None:
            return state, None, False
        if state.ends is not None:
            return state, state.limits, True
        high = {each.partition: each.high for each in there}
        if place.time_s is not None:
            found = {**high, **self._at(place)}
            if self._now() < place.time_s:
                return state, found, False  # what comes later may belong to it
        elif place.offset is not None:
            found = dict.fromkeys(high, place.offset)
        else:
            found = high
        return replace(state, ends=named(found)), found, True

    def _at(self, place: StreamPlace) -> dict[int, int]:
        return self._topic.offsets_at(int((place.time_s or 0.0) * 1000))

    def _bounds(self) -> tuple[PartitionBounds, ...] | None:
        """None: nobody answers, after somebody has before."""
        try:
            found = self._topic.bounds()
        except kafka.BrokerUnreachable as error:
            now = self._clock()
            if self._answered is None or now - self._answered > kafka.GIVE_UP_S:
                raise
            if now - max(self._answered, self._told) > kafka.TELL_EVERY_S:
                self._told = now
                self._note(f"waits for a broker: {error.problems[0].why}")
            return None
        self._answered = self._clock()
        return found
