"""Calls other launchers, and other nodes' launchers at their addresses until each has answered once. An adapter.

A refusal at an address that has answered before is the death of the launcher there; at any other address it says
nothing. So the nodes that would decide after the loss of a master have called one another before. Who calls whom is
decided by `succession`.
"""

from __future__ import annotations

from collections import deque

from umiak.launch import calls
from umiak.launch.links import handshake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.adapters.loop import Loop
    from umiak.launch.events import Probe
    from umiak.launch.links.handshake import Caller
    from umiak.launch.links.link import Heartbeats, Link

CALLS_AT_ONCE = 8
CALL_AGAIN_FIRST_S, CALL_AGAIN_LONGEST_S = 1.0, 30.0


class Dialler:
    """Calls other launchers of this job."""

    def __init__(self, loop: Loop, heartbeats: Heartbeats, *, job_id: str, token: bytes | None) -> None:
        self._loop, self._heartbeats, self._job_id, self._token = loop, heartbeats, job_id, token

    def launcher(self, probe: Probe) -> Caller:
        return self.call(probe.host, probe.port, calls.AreYou(name=probe.name), self._heartbeats.timeout_s)

    def once(self, host: str, port: int, purpose: calls.Purpose, patience_s: float) -> Caller:
        """Call, and hang up as soon as somebody answers."""
        caller = self.call(host, port, purpose, patience_s)
        caller.on_link = lambda link: link.close()
        return caller

    def call(self, host: str, port: int, purpose: calls.Purpose, patience_s: float, name_s: float = 0.0) -> Caller:
        return handshake.Caller(
            self._loop,
            self._heartbeats,
            host=host,
            port=port,
            job_id=self._job_id,
            token=self._token,
            purpose=calls.text(purpose),
            patience_s=patience_s,
            name_patience_s=name_s,
        )


class ReachabilityCheck:
    """The launchers of one generation that have not answered yet. ``call`` calls one of them."""

    def __init__(self, loop: Loop, call: Callable[[Probe], Caller]) -> None:
        self._loop, self._call = loop, call
        self.on_answered: Callable[[str, int], None] = lambda _name, _generation: None
        self.on_trouble: Callable[[str], None] = lambda _text: None
        self._generation = 0
        self._waiting: deque[tuple[Probe, float]] = deque()  # with the pause after a failure
        self._calls = 0

    def begin(self, generation: int, nodes: tuple[Probe, ...]) -> None:
        """Call these, and forget those of earlier generations."""
        self._generation = generation
        self._waiting = deque((node, CALL_AGAIN_FIRST_S) for node in nodes)
        self._next()

    def stop(self) -> None:
        self.begin(0, ())

    def _next(self) -> None:
        while self._waiting and self._calls < CALLS_AT_ONCE:
            probe, pause_s = self._waiting.popleft()
            self._calls += 1
            self._try(probe, pause_s, self._generation)

    def _try(self, probe: Probe, pause_s: float, generation: int) -> None:
        def answered(link: Link) -> None:
            link.close()
            self._calls -= 1
            self.on_answered(probe.name, generation)
            self._next()

        def failed(_refused: bool, why: str, _fatal: bool) -> None:
            self._calls -= 1
            if generation == self._generation:
                if pause_s > CALL_AGAIN_FIRST_S:
                    unknown = "if the master is lost, this node can't tell whether that one has died"
                    self.on_trouble(f"the launcher of another node does not answer at {why}; {unknown}")
                self._loop.after(pause_s, again)
            self._next()

        def again() -> None:
            if generation == self._generation:
                self._waiting.append((probe, min(2 * pause_s, CALL_AGAIN_LONGEST_S)))
                self._next()

        caller = self._call(probe)
        caller.on_link, caller.on_failed = answered, failed
