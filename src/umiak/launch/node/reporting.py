"""How a node is, from what its machine was told and has decided. A decider.

    reporting = NodeReporting(host="10.0.0.2", restarts=True)
    reporting.step(machine.phase, event, actions)      a NodeReport, if it has changed

A node restarts from the moment at which its workers are to be stopped, or one of them failed,
until they run again, if the job goes on then; otherwise it is stopping.
"""

from __future__ import annotations

from umiak.core.node_report import NodeReport
from umiak.core.shown import one_line, signal_name
from umiak.core.status import State
from umiak.core.value import replace
from umiak.launch import events
from umiak.launch.node.phases import NodePhase
from umiak.launch.protocol import Finish, Refuse, Stop
from umiak.launch.reports import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_BEFORE = (State.QUEUED, State.STARTING)
MOST_REASON = 500


class NodeReporting:
    """The report of one launcher, kept up to date."""

    def __init__(self, *, host: str, restarts: bool, address: str = "") -> None:
        """``restarts``: whether workers of this job are started again at all."""
        self.report = NodeReport(state=State.STARTING, host=host, address=address)
        self._restarts = restarts
        self._is_leaving = False
        """It ends; nothing is started any more."""

    def step(self, phase: NodePhase, event: object, actions: Iterable[object]) -> NodeReport | None:
        """After the machine has taken an event: the new report, if there is one."""
        last = self.report
        self._hear(phase, event)
        exit_ = None
        for action in actions:
            if isinstance(action, events.StartWorkers):
                self.report = replace(self.report, restarts=action.restarts)
            elif isinstance(action, events.Exit):
                exit_ = action
        if exit_ is not None:
            self._end(exit_)
        else:
            is_back = isinstance(event, events.MessageFromMaster) and any(
                isinstance(a, events.StartWorkers) for a in actions
            )
            self.report = replace(self.report, state=self._state(phase, last.state, event, is_back=is_back))
        return None if self.report == last else self.report

    def _hear(self, phase: NodePhase, event: object) -> None:
        """Why it will stop or restart, if this event says so."""
        if isinstance(event, events.SignalReceived):
            self._is_leaving = True
            self._say(f"received {signal_name(event.number)}")
        elif isinstance(event, events.WorkerExited) and event.failure and phase is NodePhase.RUNNING:
            self._say(words.describe(event.failure))
        elif isinstance(event, events.MessageFromMaster) and not self._is_leaving:
            message = event.message
            if isinstance(message, Stop):
                self._is_leaving = not message.reform
                self._say(message.why)
            elif isinstance(message, (Finish, Refuse)):
                self._is_leaving = True

    def _state(self, phase: NodePhase, last: State, event: object, *, is_back: bool) -> State:
        if self._is_leaving:
            return State.STOPPING
        has_failed = isinstance(event, events.WorkerExited) and event.failure is not None
        if phase is NodePhase.RUNNING:
            if has_failed and self._restarts:
                return State.RESTARTING
            # Trainers wait for servers, and a worker that failed for its restart in its place:
            # this node runs all the while.
            return last if last in (State.STARTING, State.RESTARTING) and not is_back else State.RUNNING
        return State.STARTING if last in _BEFORE else State.RESTARTING

    def _end(self, end: events.Exit) -> None:
        self.report = replace(self.report, state=State.FAILED if end.status else State.SUCCEEDED, exit_code=end.status)
        if end.words and end.status:
            self._say(end.words)
        elif not end.status:
            self.report = replace(self.report, reason="")

    def _say(self, text: str) -> None:
        self.report = replace(self.report, reason=one_line(text)[:MOST_REASON])
