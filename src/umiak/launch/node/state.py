"""What one node's launcher is, and the steps from phase to phase that several events share.
A decider inside `machine`.
"""

from __future__ import annotations

from umiak.core.value import replace
from umiak.launch.events import ConsoleLine, Exit, HoldPorts, KillWorkers, MessageToMaster, NodeAction, NodeSetting
from umiak.launch.node.phases import (
    SIGTERM,
    EndedNode,
    Loss,
    NodeInPhase,
    NodePhase,
    RunningNode,
    SeekingNode,
    StoppingNode,
)
from umiak.launch.node.seeking import Finder
from umiak.launch.protocol import Finish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.cluster import Cluster
    from umiak.launch.protocol import FromNode


class MasterLink:
    """The master that this node is connected to."""

    def __init__(self, master: str | None) -> None:
        self.master = master
        """Its name, where it is not the last generation's coordinator."""
        self.knows_generation = False
        """It has said that it goes by the same generation as this node."""
        self.has_formed = False
        """And that it has formed it."""


class NodeState:
    """One node, in one phase. What is decided is kept until the event is over."""

    def __init__(self, setting: NodeSetting) -> None:
        self.setting = setting
        self.terms = setting.terms
        self.cluster: Cluster | None = None
        """The last generation that this node knows."""
        self._basis: tuple[tuple[str, ...], ...] = ()  # earlier lines of succession that count as well
        self._offer = setting.offer
        self._finder = Finder(setting)
        self._link: MasterLink | None = None
        self._phase: NodeInPhase = SeekingNode()
        self._signal: tuple[int, float] | None = None  # the first one that asked this node to end, and when it came
        self._give_up_at: float | None = None
        self._actions: list[NodeAction] = []

    @property
    def phase(self) -> NodePhase:
        return self._phase.name

    @property
    def linked(self) -> bool:
        """Whether it is connected to a master."""
        return self._link is not None

    @property
    def next_deadline(self) -> float | None:
        """When a Tick is wanted, if nothing else happens before."""
        return min((time for time in (self._give_up_at, *self._phase.times()) if time is not None), default=None)

    @property
    def worker_keys(self) -> tuple[str, ...]:
        """The workers that should be alive now."""
        return tuple(self._phase.workers)

    def _enter_stopping(self) -> StoppingNode:
        stopping = self._phase if isinstance(self._phase, StoppingNode) else StoppingNode(self._phase)
        self._phase = stopping
        return stopping

    def _stop_workers(self, now: float, *, grace_s: float, after_s: float = 0.0, signal: int = SIGTERM) -> None:
        """Ask the workers to end; a worker that is there after the grace is killed."""
        stopping = self._enter_stopping()
        stopping.begin(now, grace_s=grace_s, after_s=after_s, signal=signal)
        self._tick(now)
        self._check_gone(now, stopping)

    def _check_gone(self, now: float, stopping: StoppingNode) -> None:
        """If the last worker has ended, go on to what comes next."""
        if stopping.workers or stopping is not self._phase:
            return
        stopping.over()
        self._do(now, KillWorkers())  # whatever the workers left behind
        if stopping.finish:
            self._leave(now, stopping.finish)
        elif self._signal and not self._link:
            self._leave(now, Finish(exit_status=128 + self._signal[0]))
        else:
            self._offer = replace(self._offer, ports=())
            self._do(now, HoldPorts())
            if stopping.lost and stopping.search:
                self._phase = SeekingNode(stopping.search)
                self._give_up_at = now + self.terms.join_timeout_s
                self._do(now, self._finder.next(now, stopping.search, is_gone=stopping.lost is Loss.DEAD))

    def _end(self, now: float, finish: Finish) -> None:
        """Stop what still runs; the launcher exits when the last worker is gone."""
        self._give_up_at = None
        if not self._phase.workers:
            self._leave(now, finish)
            return
        is_stopping = isinstance(self._phase, StoppingNode)
        self._enter_stopping().finish = finish
        if finish.at_once:
            self._do(now, KillWorkers())
        elif not is_stopping:
            grace_s = self.terms.grace_s if finish.exit_status == 0 else self.terms.failure_grace_s
            self._stop_workers(now, grace_s=grace_s)

    def _leave(self, now: float, finish: Finish) -> None:
        status = 128 + self._signal[0] if self._signal else finish.exit_status
        self._phase, self._give_up_at = EndedNode(), None
        self._do(now, KillWorkers())
        end = Exit(status=status, failure=finish.failure, words=finish.words, code=finish.code, hint=finish.hint)
        self._do(now, end)

    def _tick(self, now: float) -> None:
        match self._phase:
            case SeekingNode() as seeking:
                self._do(now, *self._finder.tick(now, seeking))
            case RunningNode() | StoppingNode() as phase:
                self._do(now, *phase.tick(now))
        if self._give_up_at is None or now < self._give_up_at:
            return
        self._give_up_at = None
        if self._signal:
            self._leave(now, Finish(exit_status=128 + self._signal[0]))
        elif not self._link:
            self._end(now, self._finder.not_found())

    def _is_current(self, generation: int) -> bool:
        return self.cluster is not None and generation == self.cluster.generation

    def _tell(self, message: FromNode) -> None:
        self._actions.append(MessageToMaster(message=message))

    def _say(self, now: float, text: str, level: str = "INFO") -> None:
        self._do(now, ConsoleLine(text=text, level=level))

    def _do(self, now: float, *decided: NodeAction | Finish | None) -> None:
        """Take these actions; a Finish ends the node."""
        for action in decided:
            if isinstance(action, Finish):
                self._end(now, action)
            elif action is not None:
                self._actions.append(action)
