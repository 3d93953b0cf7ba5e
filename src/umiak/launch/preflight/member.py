"""Every worker's side of the check: reach the collector, compare clocks, report, try the connections, hear the outcome.
An adapter.

An adapter. It tells its owner `CheckResult`s: preliminary ones while the collector can't be reached, then a final one.
"""

from __future__ import annotations

import time

from umiak.adapters import frames
from umiak.core.cluster import Role, join_host_port, split_host_port
from umiak.core.decode import Malformed, decode_tagged, encode_tagged
from umiak.core.problem import Problem
from umiak.core.shown import one_line
from umiak.core.value import from_fields
from umiak.launch.message_checks import harmless
from umiak.launch.preflight import collector, prober, sockets, table
from umiak.launch.preflight.messages import FROM_COLLECTOR_BYTES, TO_MEMBER, AskTime, Here, Outcome, Probe, Report, Time
from umiak.launch.preflight.task import CheckResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from umiak.adapters.loop import Loop
    from umiak.core.json_types import JsonObject
    from umiak.launch.preflight.messages import Facts, Probed
    from umiak.launch.preflight.task import CheckTask
    from umiak.launch.preflight.worker import CheckWorker

ATTEMPT_S = 4.0
GREETING_S = 10.0
PART_FOR_REACHING = 0.75
"""Of the collector's patience: a node that reaches it later would be too late with its report."""
AGAIN_AFTER_S = 0.1
CLOCK_QUESTIONS = 5


class CheckMember:
    """One worker's talk with the collector."""

    def __init__(
        self,
        loop: Loop,
        worker: CheckWorker,
        task: CheckTask,
        facts: Facts | None,
        addresses: sockets.Addresses,
        *,
        on_result: Callable[[CheckResult], None],
        on_over: Callable[[], None],
    ) -> None:
        self._loop, self._worker, self._task, self._facts = loop, worker, task, facts
        self._addresses, self._on_result, self._on_over = addresses, on_result, on_over
        self._sock: socket.socket | None = None
        self._framed: frames.FramedSocket | None = None
        self._collector: Here | None = None
        self._asked = (0.0, 0.0)
        self._times: list[tuple[float, float]] = []  # round trip, offset
        self._reported = False
        self._over = False
        self._why = ""
        self._until = float("inf")
        if worker.seat.role is not Role.SERVER:
            # The launcher ends servers when all others have ended, so servers may try for ever, and the others may not.
            self._until = loop.now() + task.patience_s * PART_FOR_REACHING
            loop.after(collector.longest_s(task.patience_s, len(worker.all_doors)), self._fell_silent)
            # Nodes that are better off still try this one's port. If the collector can't be reached, the port stays
            # open as long as they may need, so that it is not found closed for this reason.
            loop.after(task.patience_s + prober.connecting_s(len(worker.all_doors)) + 1.0, self._stop_waiting)
        loop.soon(self._dial)

    # ---- reaching the collector

    def _dial(self) -> None:
        address = self._addresses.of(self._worker.store)
        if isinstance(address, str):
            self._not_reached(address)
            return
        limit_s = min(ATTEMPT_S, max(0.5, self._until - self._loop.now()))
        sockets.Connecting(self._loop, address, limit_s, on_connected=self._connected, on_failed=self._not_reached)

    def _connected(self, sock: socket.socket) -> None:
        self._sock = sock
        framed = self._framed = frames.FramedSocket(self._loop, sock, most_bytes=FROM_COLLECTOR_BYTES)
        framed.on_frame = self._heard
        framed.on_end = self._not_reached
        self._loop.after(GREETING_S, lambda: self._check_greeted(framed))

    def _check_greeted(self, framed: frames.FramedSocket) -> None:
        if not self._reported and not framed.ended:
            framed.close()
            self._not_reached("connected, but no answer")

    def _not_reached(self, why: str) -> None:
        if self._reported:
            self._lost(f"went away: {why}")
            return
        self._tell_unreached(why)
        if self._loop.now() + AGAIN_AFTER_S < self._until:
            self._collector = None
            self._times.clear()
            self._loop.after(AGAIN_AFTER_S, self._dial)

    def _stop_waiting(self) -> None:
        if not self._reported:
            self._tell_unreached(self._why or "connected, but no answer")
            self._end()

    def _fell_silent(self) -> None:
        if not self._over:
            self._lost("fell silent")

    def _lost(self, how: str) -> None:
        what = f"the collector of the check at {self._worker.store} {how}"
        self._on_result(CheckResult(final=False, problem=Problem(code="UM-CHECK-003", what=what)))
        self._end()

    def _tell_unreached(self, why: str) -> None:
        if why == self._why:
            return
        self._why = why
        host, port = split_host_port(self._worker.store)
        problem = Problem(
            code="UM-CHECK-002",
            what=f"{self._worker.seat.host} can't reach {self._worker.store}: {why}",
            why="the first trainer listens there, and every other worker needs it",
            hint=f"let port {port} of {host} through the firewalls, or name another address for that node with --host",
        )
        self._on_result(CheckResult(final=False, problem=problem))

    # ---- talking to it

    def _heard(self, content: JsonObject) -> None:
        assert self._framed is not None
        try:
            message = harmless(decode_tagged(TO_MEMBER, content))
        except Malformed as error:
            self._framed.close()
            self._not_reached(f"what answers there is not the check's collector ({one_line(str(error), 200)})")
            return
        match message:
            case Here(endpoint=endpoint) if endpoint != self._worker.store:
                self._framed.close()
                self._not_reached(f"{endpoint} answers there")
            case Here():
                self._collector = message
                self._ask_time()
            case Time(at=at) if not self._reported:
                self._compare_clocks(at)
            case Probe():
                self._probe(message)
            case Outcome():
                self._tell(message)

    def _send(self, message: object) -> None:
        if self._framed:
            self._framed.send(frames.frame(encode_tagged(message)))

    def _ask_time(self) -> None:
        self._asked = (time.time(), time.monotonic())
        self._send(AskTime())

    def _compare_clocks(self, at: float) -> None:
        wall, monotonic = self._asked
        round_trip_s = time.monotonic() - monotonic
        self._times.append((round_trip_s, wall + round_trip_s / 2 - at))
        # The quickest answer tells the time best. Only the node's first worker needs to know it well.
        if self._facts and len(self._times) < CLOCK_QUESTIONS:
            self._ask_time()
        else:
            self._report()

    def _report(self) -> None:
        worker, task = self._worker, self._task
        self._reported = True
        round_trip_s, offset_s = min(self._times)
        launcher = join_host_port(worker.seat.host, task.link_port) if task.link_port else ""
        self._send(
            from_fields(
                Report,
                worker.seat,
                doors=worker.doors,
                clock_offset_s=offset_s,
                round_trip_s=round_trip_s,
                launcher=launcher if self._facts else "",
                facts=self._facts,
            )
        )

    def _probe(self, wanted: Probe) -> None:
        others = [endpoint for endpoint in self._worker.all_doors if endpoint not in wanted.own]
        prober.Prober(
            self._loop,
            self._addresses,
            self._worker.seat.node,
            self._probed,
            workers=others,
            launchers=wanted.launchers,
        )

    def _probed(self, probed: Probed) -> None:
        self._send(probed)

    # ---- the end

    def _tell(self, outcome: Outcome) -> None:
        # The launcher of the collector's own node hears it from the collector itself.
        if self._collector and self._collector.node != self._worker.seat.node:
            self._on_result(_result(outcome, split_host_port(self._worker.store)[0]))
        self._end()

    def _end(self) -> None:
        if self._over:
            return
        self._over = True
        if self._framed and self._sock and not self._framed.ended:
            sockets.close_without_trace(self._sock)
            self._framed.close()
        self._on_over()


def _result(outcome: Outcome, host: str) -> CheckResult:
    summary = table.printable(outcome.summary)
    where = f"the whole table is on the console of {host}"
    if outcome.ready:
        return CheckResult(final=True, note=f"{summary}; {where}")
    return CheckResult(
        final=True, problem=Problem(code="UM-CHECK-001", what=f"the nodes are not ready: {summary}", hint=where)
    )
