"""The master's decisions: who takes part, when a generation starts and stops, how the job ends. A pure decider.

    coordinator = Coordinator(setting, Lead(), now=0.0)
    actions = coordinator.step(now, NodeJoined(...))

No socket, clock or process is touched here: an event goes in, actions come out, the same events give the same
actions. `agent` performs them; `tests/scripts` and `tests/laws` drive this class without waiting for anything.

    GATHERING --enough nodes--> RUNNING --all done--> ENDED
        ^                          | a failure, a lost node, a joining node
        +----------- STOPPING <----+        (or ENDED, if nothing may restart)

Failure detection is not decided here: a link says that a node's connection was closed (it is dead) or that
it fell silent (it may be cut off). `quorum` says what follows from that.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.cluster import Cluster, Role
from umiak.core.value import replace
from umiak.launch.events import (
    AnswerTakeover,
    Drop,
    NodeClosed,
    NodeRefused,
    NodeSaid,
    NodeSilent,
    Probe,
    RendezvousAction,
    RendezvousEvent,
    Send,
    StandDown,
    TakeoverCalled,
    TakeoverRefused,
)
from umiak.launch.master import admission, takeover
from umiak.launch.master.backoff import Backoff
from umiak.launch.master.roster import Member, Roster
from umiak.launch.master.votes import Votes
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
    Form,
    FromMaster,
    Go,
    HasLater,
    Join,
    Leaving,
    Moved,
    Offer,
    Ready,
    Refuse,
    RestartWorker,
    Seated,
    Standby,
    Stop,
    Stopped,
    Terms,
    Waiting,
)
from umiak.launch.reports import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.launch.events import Lead, NodeSetting

WAITING_NOTE_EVERY_S = 5.0
PORT_RETRIES = 3
FIXED_SIZE_PATIENCE = 10
"""A job of fixed size waits this many times ``--elastic_timeout`` for a lost node to come back, as Paddle's does."""


class MasterPhase(str, Enum):
    """Where the job stands."""

    GATHERING = "gathering"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class Coordinator:
    """The master's state. ``lead.previous`` is set when it takes over from a lost master."""

    def __init__(self, setting: NodeSetting, lead: Lead, *, now: float) -> None:
        previous, terms = lead.previous, setting.terms
        self.terms: Terms = terms
        self.name = setting.offer.name
        self.phase = MasterPhase.GATHERING
        self._setting = setting
        self._lineage = previous.lineage if previous else setting.lineage
        self._votes = Votes(lead)
        self._took_over = previous is not None
        self._formed = False  # a generation was formed here
        self.cluster = previous
        self.restarts = previous.restarts if previous else 0
        self.failures: list[Failure] = []
        self._roster = Roster(previous)
        self._end_is_cut_off = False
        self._moved: Moved | None = None  # where everybody went
        self._await_until = now
        self._port_retries = 0
        self._backoff = Backoff(terms.job_id, now)
        self._later_joins: dict[
            str, NodeSaid
        ] = {}  # of nodes that have a later generation, by name, until they have told it
        self._worker_backoffs: dict[tuple[str, str], Backoff] = {}  # by node and key
        self._worker_restarts: list[tuple[float, str, RestartWorker]] = []  # when, on which node
        self._went = False  # the trainers of this generation were told to start
        self._reform = previous is not None
        self._grow_at: float | None = None
        self._note_at = now + WAITING_NOTE_EVERY_S
        self._last_change = now
        self._not_before = now + lead.wait_s
        self._deadline: float | None = now + terms.join_timeout_s
        self._actions: list[RendezvousAction] = []
        if previous:
            self._take_over(previous, now)

    @property
    def next_deadline(self) -> float | None:
        """When a Tick is wanted, if nothing else happens before."""
        if self.phase is MasterPhase.GATHERING:
            times = [
                self._deadline,
                self._note_at,
                self._form_time(),
                self._await_until if self._votes.awaited else None,
            ]
        elif self.phase is MasterPhase.RUNNING:
            times = [self._grow_at, *(when for when, _, _ in self._worker_restarts)]
        else:
            times = []
        return min((time for time in times if time is not None), default=None)

    def step(self, now: float, event: RendezvousEvent) -> tuple[RendezvousAction, ...]:
        """Take one event and say what is to be done."""
        self._actions = []
        if self.phase is MasterPhase.ENDED:
            self._answer_after_the_end(event)
        else:
            match event:
                case NodeSaid(message=Join() as join):
                    self._joined(now, event, join)
                case NodeSaid(message=HasLater() as later):
                    self._learned_of_later(now, event.name, later)
                case NodeSaid(name=name) if name in self._roster:
                    self._said(now, self._roster[name], event)
                case NodeClosed(name=name):
                    self._lost(now, name, event.at, dead=True)
                case NodeSilent(name=name):
                    self._lost(now, name, event.at, dead=False)
                case NodeRefused(name=name) if name not in self._roster:
                    self._votes.refused(name, now)
                case TakeoverCalled():
                    self._takeover_called(event)
                case TakeoverRefused(host=host, port=port) if not self._formed and self.cluster:
                    self._go_there(host, port)
            self._decide(now)
        return tuple(self._actions)

    # ---- events one by one

    def _joined(self, now: float, event: NodeSaid, join: Join) -> None:
        offer, name = join.offer, event.name
        if self.cluster and join.lineage == self.cluster.lineage and join.generation > self.cluster.generation:
            # This node took part in a later generation, so what is known here is out of date.
            if self._formed:
                self._superseded_by(name, offer.host)
            else:
                self._later_joins[name] = event
                self._send(Seated(generation=self._generation()), name)
            return
        if name in self._roster:
            # The same launcher on a new connection: whatever it ran before, it has stopped.
            self._lost(now, name, event.at, dead=True, is_back=True)
        members = [member.offer for member in self._roster]
        staying = [member.offer for member in self._roster.active if not member.leaving]
        refusal = admission.refusal(join, self.terms, members, staying)
        if refusal:
            self._send(refusal, name)
            self._actions.append(Drop(name=name))
            return
        self._votes.came(name)
        member = self._roster.add(offer, self.cluster, master=self.name)
        self._last_change = now
        if self._votes.silent and not self._formed:
            # It may have noticed only now that it is cut off from the old master, which then notices a beat later.
            self._not_before = max(self._not_before, now + self.terms.fence_s)
        if self.phase is not MasterPhase.GATHERING:
            self._roster.stand_by(member, standby=True)
            if self.terms.elastic and len(self._roster.active) < self.terms.most and not self._anyone_done():
                self._grow_at = now + self.terms.settle_s
                text = "the job will grow to take this node in"
            else:
                text = f"standing by: the job has {len(self._roster.active)} of {self.terms.most} nodes"
            self._send(self._standby(text), name)
        elif len(self._roster.active) > self.terms.most:
            self._roster.stand_by(member, standby=True)
            text = f"standing by: the job has its {self.terms.most} nodes"
            self._send(self._standby(text), name)
        elif self.cluster and name != self.name:
            self._send(Seated(generation=self._generation(), formed_here=self._formed), name)

    def _superseded_by(self, name: str, host: str) -> None:
        """This node was in a generation that another side formed, later than the one that was formed here."""
        self._end_is_cut_off = True
        self._send(Refuse(text="the job went on without this master", code="UM-MEET-009", gone=True), name)
        self._actions.append(Drop(name=name))
        self._end(words.superseded(host))

    def _learned_of_later(self, now: float, name: str, later: HasLater) -> None:
        """A node brings the generation that it has. The master that formed it is lost, and not all of its nodes heard of it."""
        came = self._later_joins.pop(name, None)
        if came is None or not isinstance(came.message, Join) or later.cluster.lineage != self._lineage:
            return
        if later.cluster.generation > self._generation():
            if self._formed:
                self._superseded_by(name, came.message.offer.host)
                return
            self.cluster = later.cluster
            self._votes.learned_of(later.cluster, later.basis)
            self._take_over(later.cluster, now)
        self._joined(now, came, replace(came.message, generation=self._generation()))

    def _takeover_called(self, call: TakeoverCalled) -> None:
        nodes = self.cluster.nodes if self.cluster else ()
        caller = next((node.name for node in nodes if (node.host, node.link_port) == (call.host, call.port)), "")
        first = self._votes.is_before(self.name, caller)
        match takeover.reply(call, self.cluster, formed=self._formed, ready=self.has_majority, first=first):
            case takeover.Reply.GO_THERE:
                self._go_there(call.host, call.port)
            case takeover.Reply.GIVE_WAY:
                self._actions.append(StandDown(text=f"the job goes on at {call.host}"))
                self._end(words.superseded(call.host))
            case takeover.Reply.COME_HERE:
                self._actions.append(AnswerTakeover(call=call.call))
            case takeover.Reply.IGNORE:
                pass

    def _go_there(self, host: str, port: int) -> None:
        """The job is led from there; everyone who came here goes along."""
        self.phase = MasterPhase.ENDED
        self._moved = Moved(host=host, port=port)
        self._actions.append(StandDown(text=f"the job is led by {host} now, joining it there"))
        self._send(self._moved, *(name for name in self._roster.names if name != self.name), self.name)

    def _said(self, now: float, member: Member, event: NodeSaid) -> None:
        message = event.message
        generation = self.cluster.generation if self.cluster else 0
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
        if self._votes.accepted(name):
            self._broadcast(Committed(generation=self._generation()))

    def _failed(self, now: float, member: Member, failure: Failure) -> None:
        self.failures.append(failure)
        if self.phase is not MasterPhase.RUNNING:
            return
        if failure.port_taken and self._port_retries < PORT_RETRIES:
            self._port_retries += 1
            self.failures.clear()
            self._stop(f"{words.who(failure)} found its port taken, trying others", reform=True)
            return
        restart_left = self.restarts < self.terms.max_restart and failure.kind is not FailureKind.NOT_STARTED
        if self._in_place(failure) and restart_left:
            self.restarts += 1
            self.failures.clear()
            self._restart_worker(now, member.offer.name, failure)
            return
        dump = failure.kind is FailureKind.HUNG
        if self.terms.elastic_level == 0 and len(self._roster.active) > 1:
            member.leaving = True
            member.farewell = words.verdict(failure)
            self._stop(f"{words.who(failure)} failed, its node leaves", reform=True, dump_stacks=dump)
        elif self.terms.restart_wanted and restart_left:
            self.restarts += 1
            pause_s = self._backoff.pause_s(now, self.restarts)
            self._not_before = max(self._not_before, now + pause_s)
            why = f"{words.who(failure)} failed, {words.restarting(pause_s, self.restarts, self.terms.max_restart)}"
            self._stop(why, reform=True, dump_stacks=dump)
        else:
            self._stop(f"{words.who(failure)} failed", reform=False, dump_stacks=dump)

    def _restart_worker(self, now: float, name: str, failure: Failure) -> None:
        """Start this one worker again, after a pause if it has failed a moment ago as well."""
        backoff = self._worker_backoffs.setdefault((name, failure.key), Backoff(self.terms.job_id, self._backoff.since))
        pause_s = backoff.pause_s(now, self.restarts)
        backoff.began(now + pause_s)
        if pause_s:
            text = words.restarting(pause_s, self.restarts, self.terms.max_restart)
            self._send(Waiting(text=f"{words.who(failure)} failed, {text}"), name)
        again = RestartWorker(generation=self._generation(), key=failure.key, restarts=self.restarts)
        self._worker_restarts.append((now + pause_s, name, again))

    def _in_place(self, failure: Failure) -> bool:
        """Whether this one worker is started again while the others go on."""
        if not self.terms.mode.has_servers or not self._all_ready() or failure.kind is FailureKind.HUNG:
            return False
        if failure.role is Role.SERVER:
            return True
        return self.terms.trainer_restart is TrainerRestart.ALONE

    def _leaving(self, member: Member, signal: int, at: float) -> None:
        member.leaving = True
        name, host = member.offer.name, member.offer.host
        told = f"node {host} was told to stop by signal {signal}"
        member.farewell = Finish(exit_status=128 + signal, code="UM-JOB-006", words=told)
        if name == self.name and not self._generation():
            self._end(member.farewell)
        elif self.phase is MasterPhase.GATHERING or member.standby:
            self._part_with(member)
            if name == self.name:
                self.phase = MasterPhase.ENDED
        elif self.phase is MasterPhase.STOPPING:
            return
        elif self.terms.elastic and self._can_reform_without(1):
            # When the master leaves, the others find the next one as soon as this launcher is gone.
            self._stop(f"node {host} is leaving", reform=True)
        else:
            self.failures.append(
                Failure(kind=FailureKind.NODE_LEFT, at=at, node=name, host=host, signal=signal, what=told)
            )
            self._stop(told, reform=False, grace_s=self.terms.grace_s)

    def _lost(self, now: float, name: str, at: float, *, dead: bool, is_back: bool = False) -> None:
        self._later_joins.pop(name, None)
        self._votes.lost(name, dead=dead)
        if name in self._votes.silent:
            self._not_before = max(self._not_before, now + self.terms.fence_s)
        if name not in self._roster:
            return
        member = self._roster[name]
        if not dead:
            # It arrives only if the link works again; then that node must stop, and may join again.
            self._send(Evict(text=f"it has not heard this node for {self.terms.heartbeat_timeout_s:g} s"), name)
        self._forget(name, dead=dead)
        how = "its connection was closed" if dead else f"silent for {self.terms.heartbeat_timeout_s:g} s"
        what = f"node {member.offer.host} was lost: {how}"
        is_at_start = self.phase is MasterPhase.GATHERING and not self._generation()
        if is_at_start and not self.terms.waits_for_lost_nodes and not is_back and not member.leaving:
            what = f"node {member.offer.host} was lost before the job was formed: {how}"
            failure = Failure(kind=FailureKind.NODE_LOST, at=at, node=name, host=member.offer.host, what=what)
            self._end(words.verdict(failure))
            return
        if member.standby or member.leaving or self.phase is MasterPhase.GATHERING:
            return
        if self.phase is MasterPhase.STOPPING and not self._reform:
            return
        reform = self._can_reform_without(0)
        if not reform:
            failure = Failure(kind=FailureKind.NODE_LOST, at=at, node=name, host=member.offer.host, what=what)
            self.failures.append(failure)
        if self.phase is MasterPhase.STOPPING:
            self._reform = reform
            return
        if reform and not self.terms.elastic:
            self.restarts += 1
        self._stop(what, reform=reform)

    def _can_reform_without(self, leaving: int) -> bool:
        """Whether a job that loses nodes may go on without them, or wait for others in their place."""
        if len(self._roster.active) - leaving < 1:
            return False
        if self.terms.elastic or self.terms.elastic_level == 0:
            return True
        return self.terms.restart_wanted and self.restarts < self.terms.max_restart

    # ---- decisions that follow from the state

    def _decide(self, now: float) -> None:
        if self.phase is MasterPhase.ENDED:
            return
        here = self._roster.names
        if self.cluster and not self._votes.awaited and not self._votes.may_go_on(here):
            lost = ", ".join(self._host_of(name) for name in self._votes.missing(here))
            self._end_cut_off(words.cut_off(lost, self.cluster.generation))
        if self.phase is MasterPhase.RUNNING:
            self._decide_running(now)
        if self.phase is MasterPhase.STOPPING and all(member.idle for member in self._roster.active):
            self._after_stopping(now)
        if self.phase is MasterPhase.GATHERING:
            self._decide_gathering(now)

    def _decide_running(self, now: float) -> None:
        active = self._roster.active
        for restart in [each for each in self._worker_restarts if now >= each[0]]:
            self._worker_restarts.remove(restart)
            _, name, again = restart
            if name in self._roster:
                self._send(again, name)
        if not self._went and self._all_ready():
            self._went = True
            self._send(Go(generation=self._generation()), *(member.offer.name for member in active))
        if all(member.done for member in active):
            self._end(Finish(exit_status=0, words="the job is done"))
        elif self._grow_at is not None and now >= self._grow_at:
            self._grow_at = None
            newcomers = self._roster.standing_by[: self.terms.most - len(active)]
            if newcomers and not self._anyone_done():
                hosts = ", ".join(member.offer.host for member in newcomers)
                self._stop(
                    f"growing from {len(active)} to {len(active) + len(newcomers)} nodes: {hosts} joined", reform=True
                )

    def _after_stopping(self, now: float) -> None:
        if not self._reform:
            self._end(words.verdict(min(self.failures, key=lambda failure: failure.at)))
            return
        for member in [each for each in self._roster if each.leaving]:
            self._part_with(member)
        if self.name not in self._roster:
            self.phase = MasterPhase.ENDED
            return
        self.phase = MasterPhase.GATHERING
        self.failures.clear()
        self._last_change = now
        self._note_at = now + WAITING_NOTE_EVERY_S
        self._deadline = max(now, self._not_before) + self._patience_s()

    def _decide_gathering(self, now: float) -> None:
        self._call_up_standbys()
        when = self._form_time()
        if when is not None and now >= when:
            self._form(now)
        elif self._votes.awaited and now >= self._await_until:
            self._votes.stop_waiting()
            self._decide(now)
        elif self._deadline is not None and now >= self._deadline:
            self._give_up()
        elif now >= self._note_at:
            self._note_at = now + WAITING_NOTE_EVERY_S
            text = self._waiting_text()
            if self._reform and when is not None:
                text = f"generation {self._generation() + 1} starts in {when - now:.1f} s"
            self._broadcast(Waiting(text=text))

    def _form_time(self) -> float | None:
        """When a generation may be formed from the nodes that are here, if nothing changes; None: not with these."""
        count = len(self._roster.active)
        if self.phase is not MasterPhase.GATHERING or count < self.terms.least or self.name not in self._roster:
            return None
        if count < self.terms.most and not self.terms.elastic:
            return None
        if self._reform:
            return None if self._votes.awaited else self._not_before
        return self._not_before if count >= self.terms.most else self._last_change + self.terms.elastic_timeout_s

    def _form(self, now: float) -> None:
        first = self._generation() == 0
        seated = [(member.offer, member.home) for member in self._roster.active]
        order = admission.in_rank_order(seated, by_address=self.terms.sort_ip and first)
        members = [self._roster[name] for name in order]
        if first:
            for home, member in enumerate(members):
                member.home = home
        nodes = tuple(member.node() for member in members)
        self.cluster = Cluster(
            job_id=self.terms.job_id,
            generation=self._generation() + 1,
            nodes=nodes,
            coordinator=self.name,
            restarts=self.restarts,
            lineage=self._lineage,
        )
        self._votes.formed(self.cluster)
        self._formed = True
        for member in members:
            member.ready = member.done = member.idle = False
        self._reform = False
        self._grow_at = None
        self._went = not self.terms.mode.has_servers
        self._backoff.began(now)
        self._worker_backoffs.clear()
        self.phase = MasterPhase.RUNNING
        formed = {*self.cluster.names}
        others = [name for name in self._roster.names if name not in formed]
        # First, so that none of them takes this master for one of the generation before when it dies in between.
        self._send(self._standby(f"generation {self._generation()} runs without this node"), *others)
        self._send(Form(cluster=self.cluster, basis=self._votes.basis), *self.cluster.names)

    def _give_up(self) -> None:
        text = self._waiting_text()
        if self._reform or self._generation():
            gave_up = f"{text}; gave up after --elastic_timeout"
            self._end(Finish(exit_status=1, code="UM-MEET-005", words=gave_up))
        else:
            gave_up = f"{text}; gave up after --join_timeout {self.terms.join_timeout_s:g}"
            hint = "start the missing nodes with the same --master, or raise --join_timeout"
            self._end(Finish(exit_status=3, code="UM-MEET-004", words=gave_up, hint=hint))

    # ---- small parts

    def _take_over(self, previous: Cluster, now: float) -> None:
        """Start as the successor of a lost master: wait for the others of its last generation, not for ever."""
        self._reform = True
        self._votes.await_all_but({self.name, *self._roster.names})
        # A node that this one never had a link to notices by itself that it is cut off, and stops, within this time.
        others_stop_s = self.terms.old_workers_end_s + self.terms.fence_s
        self._await_until = now + others_stop_s + self.terms.heartbeat_timeout_s
        # Whether this side may go on at all is known only then, and comes before the question whether it is enough.
        self._deadline = max(now + self._patience_s(), self._await_until)
        if self._votes.silent - {previous.coordinator}:
            self._not_before = now + others_stop_s
        if self._votes.silent:
            self._not_before = max(self._not_before, now + self.terms.fence_s)

    def rivals(self) -> tuple[tuple[str, int], ...]:
        """After a take-over: the addresses where somebody may lead this job without knowing of this launcher."""
        if not self._took_over or not self.cluster or self.phase is MasterPhase.ENDED:
            return ()
        addresses = [(self._setting.master_host, self._setting.master_port)]
        if not self._formed:
            # The old master may just have been out of reach, and so may those who stand in line before this node: they may
            # be about to lead. As long as there is no generation of its own here, they are asked.
            for name in (self.cluster.coordinator, *self._votes.silent_before(self.name)):
                node = self.cluster.node(name)
                addresses.append((node.host, node.link_port))
        return tuple(dict.fromkeys(each for each in addresses if each[0] and each != self._own_address()))

    def _own_address(self) -> tuple[str, int]:
        """Where the others reach this launcher."""
        assert self.cluster is not None
        if self.name in self.cluster.names:
            node = self.cluster.node(self.name)
            return node.host, node.link_port
        return self._setting.offer.host, self._setting.offer.link_port

    def is_name_taken(self, offer: Offer) -> bool:
        """Whether a node at another address takes part under this name."""
        return self._roster.is_name_taken(offer)

    @property
    def has_formed(self) -> bool:
        """Whether the last generation was formed here, with a majority of the one before."""
        return self._formed

    @property
    def has_majority(self) -> bool:
        """Whether the nodes that are here may form the next generation."""
        return self.cluster is not None and self._votes.may_go_on(here=self._roster.names)

    def probes(self) -> tuple[Probe, ...]:
        """After a take-over: whom to probe, so that a node that died with the master is not waited for."""
        if not self.cluster:
            return ()
        return tuple(
            Probe(name=node.name, host=node.host, port=node.link_port)
            for node in self.cluster.nodes
            if node.name in self._votes.awaited
        )

    def _stop(self, why: str, *, reform: bool, dump_stacks: bool = False, grace_s: float | None = None) -> None:
        self.phase = MasterPhase.STOPPING
        self._reform = reform
        self._worker_restarts.clear()
        names = [member.offer.name for member in self._roster.active]
        grace_s = self.terms.failure_grace_s if grace_s is None else grace_s
        stop = Stop(generation=self._generation(), why=why, grace_s=grace_s, dump_stacks=dump_stacks, reform=reform)
        self._send(stop, *names)

    def _end(self, finish: Finish) -> None:
        self.phase = MasterPhase.ENDED
        self._broadcast(finish)

    def _end_cut_off(self, finish: Finish) -> None:
        """This side may not go on. Its other nodes may reach the rest, which this master could not: they look for it."""
        self.phase = MasterPhase.ENDED
        self._end_is_cut_off = True
        others = [name for name in self._roster.names if name != self.name]
        is_over = not self.terms.survives_its_master
        self._send(finish if is_over else Evict(text="it was cut off, and ends"), *others)
        self._send(finish, self.name)

    def _answer_after_the_end(self, event: RendezvousEvent) -> None:
        if isinstance(event, NodeSaid) and isinstance(event.message, Join):
            ended = Refuse(text="the job has ended", code="UM-MEET-009", gone=self._end_is_cut_off)
            self._send(self._moved or ended, event.name)
            self._actions.append(Drop(name=event.name))

    def _all_ready(self) -> bool:
        return all(member.ready for member in self._roster.active)

    def _anyone_done(self) -> bool:
        return any(member.done and member.offer.trainers for member in self._roster.active)

    def _standby(self, text: str) -> Standby:
        return Standby(text=text, cluster=self.cluster, basis=self._votes.basis, formed_here=self._formed)

    def _call_up_standbys(self) -> None:
        room = self.terms.most - len(self._roster.active)
        for member in self._roster.standing_by[: max(room, 0)]:
            self._roster.stand_by(member, standby=False)

    def _generation(self) -> int:
        return self.cluster.generation if self.cluster else 0

    def _patience_s(self) -> float:
        return self.terms.elastic_timeout_s * (1 if self.terms.elastic else FIXED_SIZE_PATIENCE)

    def _forget(self, name: str, *, dead: bool) -> None:
        self._roster.remove(name)
        if dead:
            self._votes.dead.add(name)
        self._actions.append(Drop(name=name))

    def _part_with(self, member: Member) -> None:
        """Let a node go that was told to stop."""
        if member.farewell:
            self._send(member.farewell, member.offer.name)
        self._forget(member.offer.name, dead=True)

    def _host_of(self, name: str) -> str:
        return next((node.host for node in (self.cluster.nodes if self.cluster else ()) if node.name == name), name)

    def _waiting_text(self) -> str:
        have = ", ".join(member.offer.host for member in self._roster.active) or "none"
        missing = self.terms.least - len(self._roster.active)
        if missing <= 0 and self.terms.elastic:
            return f"have {len(self._roster.active)} of {self.terms.least}:{self.terms.most} nodes ({have}), waiting for more"
        wanted = self.terms.most if not self.terms.elastic else self.terms.least
        return f"waiting for {max(missing, 0)} of {wanted} nodes: have {have}"

    def _send(self, message: FromMaster, *names: str) -> None:
        if names:
            self._actions.append(Send(names=tuple(names), message=message))

    def _broadcast(self, message: FromMaster) -> None:
        self._send(message, *self._roster.names)
