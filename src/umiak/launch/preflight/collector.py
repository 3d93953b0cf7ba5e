"""The collector of a check, at the address where the job's first trainer would open a store. An adapter.

    GATHERING --every worker reported, or time is up--> PROBING --every node answered, or time is up--> TELLING

It takes well-formed, small frames only, from seats that the job has and each seat once, and is gone with the check. What
follows from the reports is decided by `verdict`.
"""

from __future__ import annotations

import time
from enum import Enum

from umiak.adapters import link as links
from umiak.core.cluster import Role
from umiak.core.decode import Malformed, decode_tagged, encode_tagged
from umiak.launch.preflight import prober, table, verdict
from umiak.launch.preflight.messages import TO_COLLECTOR, AskTime, Outcome, Probe, Probed, Report, Time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from umiak.adapters.loop import Loop, Timer

SPARE_TIME_S = 5.0
TELLING_S = 5.0
"""How long the collector waits for everybody to have heard the outcome."""


class Phase(str, Enum):
    """How far the check is."""

    GATHERING = "gathering"
    PROBING = "probing"
    TELLING = "telling"


class _Guest:
    """Somebody who connected; a worker of the job as soon as it has reported."""

    def __init__(self, framed: links.FramedSocket) -> None:
        self.framed = framed
        self.report: Report | None = None
        self.probed: Probed | None = None

    def send(self, message: object) -> None:
        self.framed.send(links.frame(encode_tagged(message)))


class Collector:
    """Gathers, judges and tells. ``on_verdict`` comes first, then all members are told, then ``on_over``."""

    def __init__(
        self,
        loop: Loop,
        *,
        endpoints: dict[Role, tuple[str, ...]],
        store: str,
        patience_s: float,
        on_verdict: Callable[[verdict.Verdict], None],
        on_over: Callable[[], None],
    ) -> None:
        self._loop, self._endpoints, self._store, self._patience_s = loop, endpoints, store, patience_s
        self._on_verdict, self._on_over = on_verdict, on_over
        self._workers = sum(len(each) for each in endpoints.values())
        self._phase = Phase.GATHERING
        self._guests: dict[tuple[Role, int], _Guest] = {}
        self._timer: Timer = loop.after(patience_s, self._start_probing)

    def welcome(self, framed: links.FramedSocket) -> None:
        """Somebody connected."""
        guest = _Guest(framed)
        framed.on_frame = lambda content: self._heard(guest, content)
        framed.on_end = lambda _reason: self._decide()

    def _heard(self, guest: _Guest, content: dict[str, Any]) -> None:
        try:
            message = decode_tagged(TO_COLLECTOR, content)  # type: ignore[var-annotated]
        except Malformed:
            guest.framed.close()
            return
        match message:
            case AskTime():
                guest.send(Time(at=time.time()))
            case Report() if self._is_expected(guest, message):
                guest.report = message
                self._guests[message.role, message.rank] = guest
            case Probed() if self._phase is Phase.PROBING and guest in self._asked() and guest.probed is None:
                guest.probed = message
            case _:
                guest.framed.close()
        self._decide()

    def _is_expected(self, guest: _Guest, report: Report) -> bool:
        """Whether this is a worker of the job, in a seat from which nobody has reported yet, and in time."""
        endpoints = self._endpoints.get(report.role, ())
        return (
            self._phase is Phase.GATHERING
            and guest.report is None
            and (report.role, report.rank) not in self._guests
            and 0 <= report.rank < len(endpoints)
            and report.doors[:1] == (endpoints[report.rank],)
        )

    def _decide(self) -> None:
        """Go on as soon as nothing is left to wait for."""
        if self._phase is Phase.GATHERING and len(self._guests) == self._workers:
            self._start_probing()
        if self._phase is Phase.PROBING and all(guest.probed or guest.framed.ended for guest in self._asked()):
            self._tell()
        if self._phase is Phase.TELLING and all(guest.framed.ended for guest in self._guests.values()):
            self._end()

    # ---- probing

    def _asked(self) -> list[_Guest]:
        """The first worker of each node."""
        return [guest for guest in self._guests.values() if guest.report and guest.report.facts]

    def _start_probing(self) -> None:
        self._phase = Phase.PROBING
        self._timer.cancel()
        reports = self._reports()
        doors: dict[str, list[str]] = {}
        for report in reports:
            doors.setdefault(report.node, []).extend(report.doors)
        if reports and (Role.TRAINER, 0) in self._guests:
            doors[self._collector_node()].append(self._store)
        launchers = {report.node: report.launcher for report in reports if report.launcher}
        for guest in self._asked():
            assert guest.report is not None
            node = guest.report.node
            others = tuple(endpoint for name, endpoint in launchers.items() if name != node)
            guest.send(Probe(own=tuple(doors[node]), launchers=others))
        longest_s = prober.longest_s(self._workers + 2 + len(launchers))
        self._timer = self._loop.after(longest_s + SPARE_TIME_S, self._tell)
        self._decide()

    def _collector_node(self) -> str:
        own = self._guests[Role.TRAINER, 0].report
        assert own is not None
        return own.node

    def _reports(self) -> tuple[Report, ...]:
        return tuple(guest.report for guest in self._guests.values() if guest.report)

    # ---- the end

    def _tell(self) -> None:
        self._phase = Phase.TELLING
        self._timer.cancel()
        judged = verdict.judge(
            verdict.Examination(
                endpoints=self._endpoints,
                collector=self._store,
                reports=self._reports(),
                probed={guest.report.node: guest.probed for guest in self._asked() if guest.report and guest.probed},
                waited_s=self._patience_s,
            )
        )
        self._on_verdict(judged)
        for guest in self._guests.values():
            guest.send(Outcome(ready=judged.ready, summary=table.summary(judged)))
        self._timer = self._loop.after(TELLING_S, self._end)
        self._decide()

    def _end(self) -> None:
        self._timer.cancel()
        self._on_over()
