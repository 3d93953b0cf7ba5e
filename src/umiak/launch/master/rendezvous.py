"""The master's decisions: who takes part, when a generation starts and stops, how the job ends. A pure decider.

    coordinator = Coordinator(setting, Lead(), now=0.0)
    actions = coordinator.step(now, NodeJoined(...))

No socket, clock or process is touched here: an event goes in, actions come out, the same events give the same
actions. `agent` performs them; `tests/scripts` and `tests/laws` drive this class without waiting for anything.

The phases of a job are in `phases`, what is known of it in `state`;
what follows once an event has been taken in is decided by `deciding`.

Failure detection is not decided here: a link says that a node's connection was closed (it is dead) or that
it fell silent (it may be cut off). `quorum` says what follows from that.
"""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.core.value import replace
from umiak.launch.events import (
    AnswerTakeover,
    Drop,
    MessageFromNode,
    NodeClosed,
    NodeRefused,
    NodeSilent,
    RendezvousAction,
    RendezvousEvent,
    StandDown,
    TakeoverCalled,
    TakeoverRefused,
)
from umiak.launch.master import admission, takeover
from umiak.launch.master.deciding import decide, next_deadline
from umiak.launch.master.phases import EndedJob, GatheringJob, RunningJob, StoppingJob, WorkerRestart
from umiak.launch.master.state import MasterState
from umiak.launch.options import TrainerRestart
from umiak.launch.protocol import (
    Accepted,
    Committed,
    Done,
    Evict,
    Failed,
    Failure,
    FailureKind,
    Finish,
    HasLater,
    Join,
    Leaving,
    Moved,
    Ready,
    Refuse,
    RestartWorker,
    Seated,
    Stopped,
    Waiting,
)
from umiak.launch.reports import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.launch.events import Lead, NodeSetting
    from umiak.launch.master.roster import Member

PORT_RETRIES = 3


class Coordinator(MasterState):
    """What a master does when something happens."""

    def __init__(self, setting: NodeSetting, lead: Lead, *, now: float) -> None:
        super().__init__(setting, lead, now=now)
        self._port_retries = 0
        self._later_joins: dict[
            str, MessageFromNode
        ] = {}  # of nodes that have a later generation, by name, until they have sent it

    @property
    def next_deadline(self) -> float | None:
        """When a Tick is wanted, if nothing else happens before."""
        return next_deadline(self)

    def step(self, now: float, event: RendezvousEvent) -> tuple[RendezvousAction, ...]:
        """Take one event and say what is to be done."""
        self.actions = []
        if isinstance(self.current, EndedJob):
            self._answer_after_the_end(event, self.current)
        else:
            match event:
                case MessageFromNode(message=Join() as join):
                    self._joined(now, event, join)
                case MessageFromNode(message=HasLater() as later):
                    self._learned_of_later(now, event.name, later)
                case MessageFromNode(name=name) if name in self.roster:
                    self._member_sent(now, self.roster[name], event)
                case NodeClosed(name=name):
                    self._lost(now, name, event.at, dead=True)
                case NodeSilent(name=name):
                    self._lost(now, name, event.at, dead=False)
                case NodeRefused(name=name) if name not in self.roster:
                    self.votes.refused(name, now)
                case TakeoverCalled():
                    self._takeover_called(event)
                case TakeoverRefused(host=host, port=port) if not self.has_formed and self.cluster:
                    self._go_there(host, port)
            decide(self, now)
        return tuple(self.actions)

    # ---- events one by one

    def _joined(self, now: float, event: MessageFromNode, join: Join) -> None:
        offer, name = join.offer, event.name
        if self.cluster and join.lineage == self.cluster.lineage and join.generation > self.cluster.generation:
            # This node took part in a later generation, so what is known here is out of date.
            if self.has_formed:
                self._superseded_by(name, offer.host)
            else:
                self._later_joins[name] = event
                self.send(Seated(generation=self.generation), name)
            return
        if name in self.roster:
            # The same launcher on a new connection: whatever it ran before, it has stopped.
            self._lost(now, name, event.at, dead=True, is_back=True)
        members = [member.offer for member in self.roster]
        staying = [member.offer for member in self.roster.active if not member.leaving]
        refusal = admission.refusal(join, self.terms, members, staying)
        if refusal:
            self.send(refusal, name)
            self.actions.append(Drop(name=name))
            return
        self.votes.came(name)
        member = self.roster.add(offer, self.cluster, master=self.name)
        if isinstance(self.current, GatheringJob):
            self.current.last_change = now
        if self.votes.silent and not self.has_formed:
            # It may have noticed only now that it is cut off from the old master, which then notices a beat later.
            self.form_not_before(now + self.terms.fence_s)
        if not isinstance(self.current, GatheringJob):
            self.roster.stand_by(member, standby=True)
            if self.terms.elastic and len(self.roster.active) < self.terms.most and not self.anyone_done():
                if isinstance(self.current, RunningJob):
                    self.current.grow_at = now + self.terms.settle_s
                text = "the job will grow to take this node in"
            else:
                text = f"standing by: the job has {len(self.roster.active)} of {self.terms.most} nodes"
            self.stand_by(text, name)
        elif len(self.roster.active) > self.terms.most:
            self.roster.stand_by(member, standby=True)
            text = f"standing by: the job has its {self.terms.most} nodes"
            self.stand_by(text, name)
        elif self.cluster and name != self.name:
            self.send(Seated(generation=self.generation, formed_here=self.has_formed), name)

    def _superseded_by(self, name: str, host: str) -> None:
        """This node was in a generation that another side formed, later than the one that was formed here."""
        self.send(Refuse(text="the job went on without this master", code="UM-MEET-009", gone=True), name)
        self.actions.append(Drop(name=name))
        self.end(words.superseded(host), is_cut_off=True)

    def _learned_of_later(self, now: float, name: str, later: HasLater) -> None:
        """A node brings the generation that it has.
        The master that formed it is lost, and not all of its nodes heard of it.
        """
        came = self._later_joins.pop(name, None)
        if came is None or not isinstance(came.message, Join) or later.cluster.lineage != self.lineage:
            return
        if later.cluster.generation > self.generation:
            if self.has_formed:
                self._superseded_by(name, came.message.offer.host)
                return
            self.cluster = later.cluster
            self.votes.learned_of(later.cluster, later.basis)
            if isinstance(self.current, GatheringJob):
                self.take_over(self.current, later.cluster, now)
        self._joined(now, came, replace(came.message, generation=self.generation))

    def _takeover_called(self, call: TakeoverCalled) -> None:
        nodes = self.cluster.nodes if self.cluster else ()
        caller = next((node.name for node in nodes if (node.host, node.link_port) == (call.host, call.port)), "")
        first = self.votes.is_before(self.name, caller)
        match takeover.reply(call, self.cluster, formed=self.has_formed, ready=self.has_majority, first=first):
            case takeover.Reply.GO_THERE:
                self._go_there(call.host, call.port)
            case takeover.Reply.GIVE_WAY:
                self.actions.append(StandDown(text=f"the job goes on at {call.host}"))
                self.end(words.superseded(call.host))
            case takeover.Reply.COME_HERE:
                self.actions.append(AnswerTakeover(call=call.call))
            case takeover.Reply.IGNORE:
                pass

    def _go_there(self, host: str, port: int) -> None:
        """The job is led from there; everyone who came here goes along."""
        moved = Moved(host=host, port=port)
        self.current = EndedJob(moved=moved)
        self.actions.append(StandDown(text=f"the job is led by {host} now, joining it there"))
        self.send(moved, *(name for name in self.roster.names if name != self.name), self.name)

    def _member_sent(self, now: float, member: Member, event: MessageFromNode) -> None:
        message = event.message
        generation = self.generation
        match message:
            case Accepted(generation=number) if number == generation:
                self._accepted(member.offer.name)
            case Ready(generation=number) if number == generation:
                member.ready = True
            case Done(generation=number) if number == generation:
                member.done = True
            case Failed(generation=number, failure=failure) if number == generation:
                self._failed(now, member, failure)
            case Stopped(generation=number, ports=ports) if number == generation:
                member.idle = True
                # A node that leaves holds no ports any more, and nobody will ask for them.
                member.offer = replace(member.offer, ports=ports or member.offer.ports)
            case Leaving(signal=signal):
                self._leaving(member, signal, event.at)

    def _accepted(self, name: str) -> None:
        if self.votes.accepted(name):
            self.broadcast(Committed(generation=self.generation))

    def _failed(self, now: float, member: Member, failure: Failure) -> None:
        self.failures.append(failure)
        if not isinstance(self.current, RunningJob):
            return
        if failure.port_taken and self._port_retries < PORT_RETRIES:
            self._port_retries += 1
            self.failures.clear()
            self.stop(f"{words.who(failure)} found its port taken, trying others", reform=True)
            return
        restart_left = self.restarts < self.terms.max_restart and failure.kind is not FailureKind.NOT_STARTED
        if self._in_place(failure) and restart_left:
            self.restarts += 1
            self.failures.clear()
            self._restart_worker(now, self.current, member.offer.name, failure)
            return
        dump = failure.kind is FailureKind.HUNG
        if self.terms.elastic_level == 0 and len(self.roster.active) > 1:
            member.leaving = True
            member.farewell = words.verdict(failure)
            self.stop(f"{words.who(failure)} failed, its node leaves", reform=True, dump_stacks=dump)
        elif self.terms.restart_wanted and restart_left:
            self.restarts += 1
            pause_s = self.backoff.pause_s(now, self.restarts)
            self.form_not_before(now + pause_s)
            why = f"{words.who(failure)} failed, {words.restarting(pause_s, self.restarts, self.terms.max_restart)}"
            self.stop(why, reform=True, dump_stacks=dump)
        else:
            self.stop(f"{words.who(failure)} failed", reform=False, dump_stacks=dump)

    def _restart_worker(self, now: float, running: RunningJob, name: str, failure: Failure) -> None:
        """Start this one worker again, after a pause if it has failed a moment ago as well."""
        backoff = running.backoff(name, failure.key, self.backoff)
        pause_s = backoff.pause_s(now, self.restarts)
        backoff.began(now + pause_s)
        if pause_s:
            text = words.restarting(pause_s, self.restarts, self.terms.max_restart)
            self.send(Waiting(text=f"{words.who(failure)} failed, {text}"), name)
        again = RestartWorker(generation=self.generation, key=failure.key, restarts=self.restarts)
        running.restarts.append(WorkerRestart(at=now + pause_s, node=name, message=again))

    def _in_place(self, failure: Failure) -> bool:
        """Whether this one worker is started again while the others go on."""
        if not self.terms.mode.has_servers or not self.all_ready() or failure.kind is FailureKind.HUNG:
            return False
        if failure.role is Role.SERVER:
            return True
        return self.terms.trainer_restart is TrainerRestart.ALONE

    def _leaving(self, member: Member, signal: int, at: float) -> None:
        member.leaving = True
        name, host = member.offer.name, member.offer.host
        reason = f"node {host} was told to stop by signal {signal}"
        member.farewell = Finish(exit_status=128 + signal, code="UM-JOB-006", words=reason)
        if name == self.name and not self.generation:
            self.end(member.farewell)
        elif isinstance(self.current, GatheringJob) or member.standby:
            self.part_with(member)
            if name == self.name:
                self.current = EndedJob()
        elif isinstance(self.current, StoppingJob):
            return
        elif self.terms.elastic and self.can_reform_without(1):
            # When the master leaves, the others find the next one as soon as this launcher is gone.
            self.stop(f"node {host} is leaving", reform=True)
        else:
            self.failures.append(
                Failure(kind=FailureKind.NODE_LEFT, at=at, node=name, host=host, signal=signal, what=reason)
            )
            self.stop(reason, reform=False, grace_s=self.terms.grace_s)

    def _lost(self, now: float, name: str, at: float, *, dead: bool, is_back: bool = False) -> None:
        self._later_joins.pop(name, None)
        self.votes.lost(name, dead=dead)
        if name in self.votes.silent:
            self.form_not_before(now + self.terms.fence_s)
        if name not in self.roster:
            return
        member = self.roster[name]
        if not dead:
            # It arrives only if the link works again; then that node must stop, and may join again.
            self.send(Evict(text=f"it has not heard this node for {self.terms.heartbeat_timeout_s:g} s"), name)
        self.forget(name, dead=dead)
        how = "its connection was closed" if dead else f"silent for {self.terms.heartbeat_timeout_s:g} s"
        what = f"node {member.offer.host} was lost: {how}"
        is_at_start = isinstance(self.current, GatheringJob) and not self.generation
        if is_at_start and not self.terms.waits_for_lost_nodes and not is_back and not member.leaving:
            what = f"node {member.offer.host} was lost before the job was formed: {how}"
            failure = Failure(kind=FailureKind.NODE_LOST, at=at, node=name, host=member.offer.host, what=what)
            self.end(words.verdict(failure))
            return
        if member.standby or member.leaving or isinstance(self.current, GatheringJob):
            return
        if isinstance(self.current, StoppingJob) and not self.current.reform:
            return
        reform = self.can_reform_without(0)
        if not reform:
            failure = Failure(kind=FailureKind.NODE_LOST, at=at, node=name, host=member.offer.host, what=what)
            self.failures.append(failure)
        if isinstance(self.current, StoppingJob):
            self.current.reform = reform
            return
        if reform and not self.terms.elastic:
            self.restarts += 1
        self.stop(what, reform=reform)

    def _answer_after_the_end(self, event: RendezvousEvent, ended: EndedJob) -> None:
        if isinstance(event, MessageFromNode) and isinstance(event.message, Join):
            refusal = Refuse(text="the job has ended", code="UM-MEET-009", gone=ended.is_cut_off)
            self.send(ended.moved or refusal, event.name)
            self.actions.append(Drop(name=event.name))
