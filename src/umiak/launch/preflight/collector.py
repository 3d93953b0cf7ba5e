"""The collector of a check, at the address where the job's first trainer would open a store. An adapter.

    GATHERING --every worker reported, or time is up--> PROBING --every node answered, or time is up--> TELLING

It takes well-formed, small frames only, from seats that the job has and each seat once, and is gone with the check.
What follows from the reports is decided by `verdict`.
"""

from __future__ import annotations

import time
from enum import Enum

from umiak.adapters import frames
from umiak.core.cluster import Role, split_host_port
from umiak.core.decode import Malformed, decode_tagged, encode_tagged
from umiak.launch.message_checks import harmless
from umiak.launch.preflight import prober, table
from umiak.launch.preflight.examination import Examination, Verdict
from umiak.launch.preflight.messages import TO_COLLECTOR, AskTime, Outcome, Probe, Probed, Report, Time
from umiak.launch.preflight.verdict import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.adapters.loop import Loop, Timer
    from umiak.core.json_types import JsonObject

SPARE_TIME_S = 5.0
TELLING_S = 5.0
"""How long the collector waits for everybody to have heard the outcome."""


def longest_s(patience_s: float, count: int) -> float:
    """A time by which the check of a job with so many ports is surely over."""
    return patience_s + _probing_s(2 * count) + TELLING_S


def _probing_s(count: int) -> float:
    return prober.longest_s(count) + SPARE_TIME_S


class CheckPhase(str, Enum):
    """How far the check is."""

    GATHERING = "gathering"
    PROBING = "probing"
    TELLING = "telling"
    OVER = "over"


class _Guest:
    """Somebody who connected; a worker of the job as soon as it has reported."""

    def __init__(self, framed: frames.FramedSocket) -> None:
        self.framed = framed
        self.report: Report | None = None
        self.probed: Probed | None = None

    def send(self, message: object) -> None:
        self.framed.send(frames.frame(encode_tagged(message)))


class Collector:
    """Gathers, judges and tells. ``on_verdict`` comes first, then all members are told, then ``on_over``."""

    def __init__(
        self,
        loop: Loop,
        *,
        endpoints: dict[Role, tuple[str, ...]],
        store: str,
        patience_s: float,
        on_verdict: Callable[[Verdict], None],
        on_over: Callable[[], None],
    ) -> None:
        self._loop, self._endpoints, self._store, self._patience_s = loop, endpoints, store, patience_s
        self._on_verdict, self._on_over = on_verdict, on_over
        self._workers = sum(len(each) for each in endpoints.values())
        self._phase = CheckPhase.GATHERING
        self._guests: dict[tuple[Role, int], _Guest] = {}  # by seat
        self._speakers: dict[str, _Guest] = {}  # the first worker of each node, by the node's name
        self._awaited: set[_Guest] = set()  # whom this phase waits for, once all guests are known
        self._timer: Timer = loop.after(patience_s, self._start_probing)

    def welcome(self, framed: frames.FramedSocket) -> None:
        """Somebody connected."""
        guest = _Guest(framed)
        framed.on_frame = lambda content: self._heard(guest, content)
        framed.on_end = lambda _reason: self._gone(guest)

    def _heard(self, guest: _Guest, content: JsonObject) -> None:
        try:
            message = harmless(decode_tagged(TO_COLLECTOR, content))
        except Malformed:
            self._gone(guest)
            return
        match message:
            case AskTime():
                guest.send(Time(at=time.time()))
            case Report() if self._phase is not CheckPhase.GATHERING:
                guest.send(Outcome(ready=False, summary=f"the report of {message.host} arrived too late"))
            case Report() if self._is_expected(guest, message):
                guest.report = message
                self._guests[message.role, message.rank] = guest
                if message.facts:
                    self._speakers.setdefault(message.node, guest)
                if len(self._guests) == self._workers:
                    self._start_probing()
            case Probed() if self._phase is CheckPhase.PROBING and guest in self._awaited:
                guest.probed = message
                self._wait_no_longer_for(guest)
            case _:
                self._gone(guest)

    def _is_expected(self, guest: _Guest, report: Report) -> bool:
        """Whether this is a worker of the job, in a seat from which nobody has reported yet."""
        endpoints = self._endpoints.get(report.role, ())
        if guest.report or (report.role, report.rank) in self._guests or not 0 <= report.rank < len(endpoints):
            return False
        if not all(abs(seconds) < 1e10 for seconds in (report.clock_offset_s, report.round_trip_s)):
            return False  # frames can carry numbers that are none
        # Other nodes will connect to the launcher's address, so a stranger must not be able to name any that it likes.
        host = split_host_port(endpoints[report.rank])[0]
        launcher = report.launcher.rpartition(":")[0].strip("[]")
        return report.doors[:1] == (endpoints[report.rank],) and report.host == host and launcher in ("", host)

    def _gone(self, guest: _Guest) -> None:
        guest.framed.close()
        self._wait_no_longer_for(guest)

    def _wait_no_longer_for(self, guest: _Guest) -> None:
        self._awaited.discard(guest)
        self._go_on()

    def _go_on(self) -> None:
        """To the next phase, if nobody is left to wait for."""
        if self._phase is CheckPhase.PROBING and not self._awaited:
            self._tell()
        elif self._phase is CheckPhase.TELLING and not self._awaited:
            self._end()

    # ---- probing

    def _start_probing(self) -> None:
        self._phase = CheckPhase.PROBING
        self._timer.cancel()
        reports = self._reports()
        doors: dict[str, list[str]] = {}
        for report in reports:
            doors.setdefault(report.node, []).extend(report.doors)
            if (report.role, report.rank) == (Role.TRAINER, 0):
                doors[report.node].append(self._store)
        launchers = {report.node: report.launcher for report in reports if report.launcher}
        for node, guest in self._speakers.items():
            others = tuple(endpoint for name, endpoint in launchers.items() if name != node)
            guest.send(Probe(own=tuple(doors[node]), launchers=others))
        self._awaited = {guest for guest in self._speakers.values() if not guest.framed.ended}
        self._timer = self._loop.after(_probing_s(self._workers + 2 + len(launchers)), self._tell)
        self._go_on()

    def _reports(self) -> tuple[Report, ...]:
        return tuple(guest.report for guest in self._guests.values() if guest.report)

    # ---- the end

    def _tell(self) -> None:
        self._phase = CheckPhase.TELLING
        self._timer.cancel()
        judged = judge(
            Examination(
                endpoints=self._endpoints,
                collector=self._store,
                reports=self._reports(),
                probed={node: guest.probed for node, guest in self._speakers.items() if guest.probed},
                waited_s=self._patience_s,
            )
        )
        self._on_verdict(judged)
        outcome = Outcome(ready=judged.ready, summary=table.summary(judged))
        for guest in self._guests.values():
            guest.send(outcome)
        self._awaited = {guest for guest in self._guests.values() if not guest.framed.ended}
        self._timer = self._loop.after(TELLING_S, self._end)
        self._go_on()

    def _end(self) -> None:
        self._phase = CheckPhase.OVER
        self._timer.cancel()
        self._on_over()
