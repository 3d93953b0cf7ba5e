"""One node's decisions: finding the master, running the workers of a generation, ending well. A pure decider.

    machine = NodeMachine(setting)
    actions = machine.start(now)
    actions = machine.step(now, WorkerExited(...))

Events go in, actions come out, nothing is touched:
`agent` performs the actions and journals the events, so a run can be replayed from its ``events.jsonl``.

`phases` has one class for each phase, with what exists in it alone; `state` has the steps that several events share;
how a master is found is the business of `seeking` and `succession`; whether a side may go on is decided by the node
that leads it, with `quorum`.
"""

from __future__ import annotations

from umiak.core.runtime.repeated_signal import is_same
from umiak.core.shown import signal_name
from umiak.core.value import replace
from umiak.launch.events import (
    DumpStacks,
    Elected,
    HangUp,
    KillWorkers,
    LeaderAt,
    LinkClosed,
    LinkFailed,
    LinkMoved,
    LinkSilent,
    LinkUp,
    MessageFromMaster,
    NodeAction,
    NodeEvent,
    PortsHeld,
    Reachable,
    SignalReceived,
    Tick,
    WorkerExited,
    WorkerHung,
    WorkerListening,
)
from umiak.launch.node.phases import (
    NOTE_EVERY_S,
    EndedNode,
    JoinedNode,
    Loss,
    RunningNode,
    SeekingNode,
    StoppingNode,
)
from umiak.launch.node.seeking import ASK_AGAIN_S
from umiak.launch.node.state import MasterLink, NodeState
from umiak.launch.node.succession import Search
from umiak.launch.protocol import (
    Accepted,
    Committed,
    Evict,
    Failed,
    Finish,
    Form,
    FromMaster,
    Go,
    HasLater,
    Join,
    Leaving,
    Moved,
    Refuse,
    RestartWorker,
    Seated,
    Standby,
    Stop,
    Stopped,
    Waiting,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.cluster import Cluster

DUMP_TIME_S = 1.0
"""How long the workers get to write their stacks before they are stopped."""


class NodeMachine(NodeState):
    """What a node does when something happens."""

    def start(self, now: float) -> tuple[NodeAction, ...]:
        """The first actions of a launcher."""
        self._give_up_at = now + self.terms.join_timeout_s
        self._phase = SeekingNode(note_at=now + NOTE_EVERY_S)
        return (self._finder.first(),)

    def step(self, now: float, event: NodeEvent) -> tuple[NodeAction, ...]:
        """Take one event and say what is to be done."""
        self._actions = []
        match event:
            case _ if isinstance(self._phase, EndedNode):
                pass
            case MessageFromMaster(message=message):
                self._received(now, message)
            case WorkerExited() | WorkerListening() | WorkerHung():
                self._worker(now, event)
            case SignalReceived(number=number):
                self._signalled(now, number)
            case PortsHeld(ports=ports):
                self._ports_held(ports)
            case Reachable(name=name, generation=generation) if self._is_current(generation):
                assert self.cluster is not None
                node = self.cluster.node(name)
                self._finder.reachable.add((node.host, node.link_port))
            case Tick():
                self._tick(now)
            case LinkClosed(silent_s=silent_s) if self._link:
                self._master_lost(now, self._link, Loss.DEAD, silent_s=silent_s)
            case LinkSilent() if self._link:
                self._master_lost(now, self._link, Loss.SILENT)
            case _ if isinstance(self._phase, SeekingNode):
                self._answered(now, event, self._phase)
        return tuple(self._actions)

    # ---- the link to the master

    def _answered(self, now: float, event: NodeEvent, seeking: SeekingNode) -> None:
        """What became of a call, or of an election."""
        match event:
            case LinkUp(host=host):
                self._link = MasterLink(self._finder.answered(self.cluster))
                if seeking.search and self._link.master:
                    seeking.search.found(self._link.master)
                if not self._offer.host:
                    self._offer = replace(self._offer, host=host)
                self._phase = SeekingNode(seeking.search)
                self._join()
            case LinkFailed():
                self._do(now, self._finder.failed(now, event, seeking))
            case LinkMoved(host=host, port=port):
                self._do(now, self._finder.moved(now, seeking.search, host, port))
            case Elected():
                self._do(now, self._finder.lead(seeking.search))
            case LeaderAt(host=host, port=port):
                self._do(now, self._finder.dial(host, port))

    def _join(self) -> None:
        if not self._offer.ports:
            return
        self._phase = JoinedNode(self._phase.search)
        last = self.cluster
        join = Join(
            offer=self._offer,
            terms=self.terms,
            callback_key=self.setting.callback_key,
            generation=last.generation if last else 0,
            lineage=last.lineage if last else "",
        )
        self._tell(join)

    def _master_lost(self, now: float, link: MasterLink, loss: Loss, why: str = "", silent_s: float = 0.0) -> None:
        self._link = None
        dead = loss is Loss.DEAD
        # The others wait so long for workers of the old formation, from the master's death on, and no longer.
        others_wait_s = max(0.0, self.terms.old_workers_end_s - silent_s)
        grace_s = min(self.terms.failure_grace_s, others_wait_s) if dead else 0.0
        if link.has_formed:
            # If it died, the others form nothing without this node before that time; if it lives, it may have done so.
            self._finder.refusals_count_until = now + others_wait_s if dead else now
        if not dead:
            # A connection that we close says that we are dead, so nothing of ours may live on by then.
            self._do(now, KillWorkers())
        self._do(now, HangUp())
        how = {
            Loss.DEAD: "its connection was closed",
            Loss.SILENT: f"silent for {self.terms.heartbeat_timeout_s:g} s",
            Loss.EVICTED: why,
        }[loss]
        if isinstance(self._phase, StoppingNode) and self._phase.workers and (self._signal or self._phase.finish):
            self._phase.hurry(now, grace_s)
        elif self._signal:
            self._leave(now, Finish(exit_status=1))
        elif self.cluster is None:
            self._lost_before_the_start(now, how, dead=dead)
        else:
            self._lost_after(now, self.cluster, link, loss, how, grace_s)

    def _lost_before_the_start(self, now: float, how: str, *, dead: bool) -> None:
        if not self.terms.waits_for_lost_nodes:
            lost = f"the master was lost before the job was formed: {how}"
            self._end(now, Finish(exit_status=1, code="UM-JOB-005", words=lost))
            return
        self._say(now, f"the master went away before the job was formed ({how}), looking for it again", "WARNING")
        self._phase = seeking = SeekingNode(note_at=now + NOTE_EVERY_S)
        self._give_up_at = now + self.terms.join_timeout_s
        self._do(now, self._finder.again(now, seeking, is_gone=dead))

    def _lost_after(self, now: float, cluster: Cluster, link: MasterLink, loss: Loss, how: str, grace_s: float) -> None:
        """The master of this generation was lost, or the one that was to form the next."""
        host = cluster.node(link.master or cluster.coordinator).host
        lost = f"the master node {host} was lost: {how}"
        dead = loss is Loss.DEAD
        if not self.terms.survives_its_master:
            status = 1 if dead else 3
            self._end(now, Finish(exit_status=status, code="UM-JOB-005", words=lost, at_once=not dead))
            return
        if loss is Loss.EVICTED:
            self._say(now, f"the master node {host} gave this node up: {how}; joining again", "WARNING")
        else:
            self._say(now, f"{lost}; the remaining nodes look for the next one", "WARNING")
        stopping = self._enter_stopping()
        # If the master was lost that was to form the next generation, the search for it goes on where it was; one that
        # is not of the last generation (a standby that etcd elected) has no vote to lose.
        name = link.master if stopping.search else link.master or cluster.coordinator
        stopping.search = stopping.search or Search(cluster, self._basis)
        stopping.lost = loss
        if name and loss is not Loss.EVICTED:
            # A master that was found again, and died before it said a word, may have formed a later generation before.
            stopping.search.lost(name, dead=dead and link.knows_generation)
        self._stop_workers(now, grace_s=grace_s)

    # ---- messages

    def _received(self, now: float, message: FromMaster) -> None:
        link = self._link
        if link is None:
            return  # on its way when this node let go of that master
        match message:
            case Waiting(text=text):
                self._say(now, text)
            case Seated(generation=generation, formed_here=formed_here):
                if self._is_current(generation):
                    link.knows_generation, link.has_formed = True, formed_here
                elif self.cluster and generation < self.cluster.generation:
                    self._tell(HasLater(cluster=self.cluster, basis=self._basis))
            case Refuse() | Finish() | Evict() | Moved():
                self._dismissed(now, link, message)
            case Standby(text=text, cluster=cluster, basis=basis, formed_here=formed_here):
                self._give_up_at = None
                if cluster:
                    self.cluster, self._basis, self._phase.search = cluster, basis, None
                    link.knows_generation, link.has_formed = True, formed_here
                    link.master = self._finder.name_of_dialled(cluster)
                self._say(now, text)
            case Form(cluster=cluster, basis=basis):
                self._basis = basis
                if basis:
                    self._tell(Accepted(generation=cluster.generation))
                self._form(now, link, cluster)
            case Committed() | Go() | Stop() | RestartWorker() if self._is_current(message.generation):
                self._ordered(now, message)

    def _ordered(self, now: float, message: Committed | Go | Stop | RestartWorker) -> None:
        """What the master wants of the generation that this node is in."""
        match message, self._phase:
            case Committed(), _:
                self._basis = ()
            case Go(), RunningNode() as running:
                self._do(now, *running.go())
            case RestartWorker(), RunningNode() as running:
                self._do(now, *running.restart(message))
            case Stop(), _:
                self._stop(now, message)

    def _dismissed(self, now: float, link: MasterLink, message: Refuse | Finish | Evict | Moved) -> None:
        """This master wants nothing more of this node."""
        match message:
            case Moved(host=host, port=port):
                search = self._let_go(now)
                if search:
                    search.called = None
                self._do(now, self._finder.dial(host, port))
            case Evict(text=text):
                self._master_lost(now, link, Loss.EVICTED, text)
            case Refuse(gone=True) if self._phase.search:
                search = self._let_go(now, ask_at=now + ASK_AGAIN_S)
                if search and link.master:
                    search.lost(link.master, dead=False)
            case Refuse(text=text, code=code, hint=hint, exit_status=status):
                self._end(now, Finish(exit_status=status, words=text, code=code, hint=hint))
            case Finish():
                self._end(now, message)

    def _let_go(self, now: float, ask_at: float | None = None) -> Search | None:
        """Leave this master for another one, which the search knows or which was named."""
        search = self._phase.search
        self._link, self._phase = None, SeekingNode(search, ask_at=ask_at)
        self._do(now, HangUp())
        return search

    def _form(self, now: float, link: MasterLink, cluster: Cluster) -> None:
        self.cluster, self._phase.search, self._give_up_at = cluster, None, None
        link.master, link.knows_generation, link.has_formed = None, True, True
        if self._signal or (isinstance(self._phase, StoppingNode) and self._phase.finish):
            # This node is leaving; the master did not know that yet.
            self._tell(Stopped(generation=cluster.generation, ports=self._offer.ports))
            return
        self._phase = running = RunningNode(cluster, self._offer.name, self.terms, self._finder.reachable)
        self._do(now, *running.begin(now))
        self._tick(now)

    def _stop(self, now: float, message: Stop) -> None:
        if self._signal:
            return  # this node is stopping already, with the grace that was promised to the sender of the signal
        self._say(now, f"stopping generation {message.generation}: {message.why}", "WARNING")
        if message.dump_stacks and self._phase.workers:
            self._do(now, DumpStacks())
        self._stop_workers(now, grace_s=message.grace_s, after_s=DUMP_TIME_S if message.dump_stacks else 0.0)

    # ---- workers

    def _worker(self, now: float, event: WorkerExited | WorkerListening | WorkerHung) -> None:
        if not self._is_current(event.generation) or event.key not in self._phase.workers:
            return
        match event, self._phase:
            case WorkerListening(key=key), RunningNode() as running:
                self._do(now, *running.ready(key))
            case WorkerHung(failure=failure), RunningNode():
                self._tell(Failed(generation=event.generation, failure=failure))
            case WorkerExited(key=key, failure=failure), RunningNode() as running:
                self._do(now, *running.exited(key, failure))
            case WorkerExited(key=key, failure=failure), StoppingNode() as stopping:
                del stopping.workers[key]
                if failure:
                    self._tell(Failed(generation=event.generation, failure=failure))
                self._check_gone(now, stopping)

    def _ports_held(self, ports: tuple[int, ...]) -> None:
        self._offer = replace(self._offer, ports=ports)
        if not self._link:
            return
        if isinstance(self._phase, StoppingNode):
            assert self.cluster is not None
            self._phase = JoinedNode(self._phase.search)
            self._tell(Stopped(generation=self.cluster.generation, ports=ports))
        elif isinstance(self._phase, SeekingNode):
            self._join()

    # ---- ends

    def _signalled(self, now: float, number: int) -> None:
        first, at = self._signal or (None, 0.0)
        if is_same(number, now, first, at):
            return
        if first is not None:
            self._say(now, "second signal: killing all workers now", "WARNING")
            self._do(now, KillWorkers())
            finish = Finish(exit_status=128 + first)
            if isinstance(self._phase, StoppingNode):
                self._phase.killed()
                finish = self._phase.finish = self._phase.finish or finish
            if not self._phase.workers:
                self._leave(now, finish)
            return
        self._signal = (number, now)
        running, count = "", len(self._phase.workers)
        if count:
            who = "1 worker has" if count == 1 else f"{count} workers have"
            running = f", {who} {self.terms.grace_s:g} s to end; a second signal kills at once"
        self._say(now, f"received {signal_name(number)}{running}", "WARNING")
        if self._link:
            self._tell(Leaving(signal=number))
        if self._link and self.cluster is not None:
            self._give_up_at = now + self.terms.grace_s + 5.0
            self._stop_workers(now, grace_s=self.terms.grace_s, signal=number)
        else:
            self._end(now, Finish(exit_status=128 + number))
