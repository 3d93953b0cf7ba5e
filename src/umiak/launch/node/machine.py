"""One node's decisions: finding the master, running the workers of a generation, ending well. A pure decider.

    machine = NodeMachine(setting)
    actions = machine.start(now)
    actions = machine.step(now, WorkerExited(...))

Events go in, actions come out, nothing is touched: `agent` performs the actions and journals the events, so a run can be
replayed from its ``events.jsonl``.

    SEEKING --joined--> JOINED --Form--> RUNNING --Stop--> STOPPING --gone--> JOINED
       ^                   the master is lost: stop, then seek the next one
       +-----------------------------------------------+

How the next master is found is the business of `succession`; whether a side may go on is decided by the node that leads
it, with `quorum`.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.cluster import Cluster, Role, Seat, join_host_port
from umiak.core.runtime.repeated_signal import is_same
from umiak.core.value import replace
from umiak.launch.events import (
    AwaitListening,
    Campaign,
    CheckReachable,
    Dial,
    DumpStacks,
    Elected,
    Exit,
    HangUp,
    HoldPorts,
    KillWorkers,
    Lead,
    LeaderAt,
    LinkClosed,
    LinkFailed,
    LinkMoved,
    LinkSilent,
    LinkUp,
    Meeting,
    NodeAction,
    NodeEvent,
    NodeSetting,
    PortsHeld,
    Reachable,
    Received,
    Say,
    SignalReceived,
    SignalWorkers,
    StartWorkers,
    Tell,
    Tick,
    WorkerExited,
    WorkerHung,
    WorkerListening,
)
from umiak.launch.node import succession
from umiak.launch.node.stopping import SIGTERM, Stopping, StopStep
from umiak.launch.node.succession import Search
from umiak.launch.protocol import (
    Accepted,
    Committed,
    Done,
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
    Ready,
    Refuse,
    RestartWorker,
    Seated,
    Standby,
    Stop,
    Stopped,
    Waiting,
)
from umiak.launch.reports import words

ASK_AGAIN_S = 0.2
HEIR_CALLS_WITHIN_S = 0.5
"""A master that took over calls at the job's first address several times in this time."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.5
NOTE_EVERY_S = 5.0
DUMP_TIME_S = 1.0
"""How long the workers get to write their stacks before they are stopped."""


class Loss(str, Enum):
    """How a master was lost."""

    DEAD = "dead"
    """Its connection was closed: its launcher is gone."""
    SILENT = "silent"
    """It was not heard for the heartbeat timeout: it may be alive."""
    EVICTED = "evicted"
    """It is there, and says that it did not hear this node for so long, and gave it up."""


class NodePhase(str, Enum):
    """Where this node stands."""

    SEEKING = "seeking"
    JOINED = "joined"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class NodeMachine:
    """The state of one node's launcher."""

    def __init__(self, setting: NodeSetting) -> None:
        self.setting = setting
        self.terms = setting.terms
        self.phase = NodePhase.SEEKING
        self.cluster: Cluster | None = None
        self.linked = False
        self._offer = setting.offer
        self._search: Search | None = None
        self._running: dict[str, Seat] = {}  # by key
        self._waiting_seats: tuple[Seat, ...] = ()  # trainers that start at Go
        self._unready: set[str] = set()  # servers that do not accept connections yet
        self._unready_note_at: float | None = None
        self._failed_keys: set[str] = set()  # workers of this generation that failed and were not started again
        self._told_done = False
        self._stopping = Stopping()
        self._give_up_at: float | None = None
        self._dial_at: float | None = None
        self._last_link_error = ""
        self._finish: Finish | None = None  # how this node will end, once its workers are gone
        self._told_signal: int | None = None
        self._told_signal_at = 0.0
        self._basis: tuple[tuple[str, ...], ...] = ()  # earlier lines of succession that count as well
        self._loss: Loss | None = None  # how the master was lost; None: it is there
        self._is_told = False  # this master has said that it goes by the same generation as this node
        self._follows_former = False  # and that it has formed it
        self._refusals_count_until = 0.0  # who is found dead by then has formed no generation without this node
        self._reachable: set[tuple[str, int]] = set()  # addresses of launchers that have answered this one
        self._check_reachable_at: float | None = None
        self._master: str | None = None  # the node that leads now, where it is not the last generation's coordinator
        self._dialled: tuple[str, int] | None = None
        self._asked: str | None = None  # the candidate that was dialled last
        self._ask_at: float | None = None
        self._pause_s = FIRST_PAUSE_S  # before the master's address is dialled again
        self._note_at: float | None = None
        self._search_until = 0.0
        self._actions: list[NodeAction] = []

    @property
    def next_deadline(self) -> float | None:
        """When a Tick is wanted, if nothing else happens before."""
        times = [self._dial_at, self._ask_at, self._note_at, self._give_up_at, self._check_reachable_at]
        times += [self._unready_note_at, self._stopping.next_deadline]
        return min((time for time in times if time is not None), default=None)

    @property
    def worker_keys(self) -> tuple[str, ...]:
        """The workers that should be alive now."""
        return tuple(self._running)

    def start(self, now: float) -> tuple[NodeAction, ...]:
        """The first actions of a launcher."""
        self._actions = []
        self._give_up_at = now + self.terms.join_timeout_s
        self._note_at = now + NOTE_EVERY_S
        if self.setting.meeting is Meeting.ETCD:
            self._campaign()
        elif self.setting.leads:
            may_have_moved = self.setting.meeting is Meeting.ADDRESS and self.terms.survives_its_master
            self._do(Lead(wait_s=HEIR_CALLS_WITHIN_S if may_have_moved else 0.0))
        else:
            self._dial(self.setting.master_host, self.setting.master_port)
        return tuple(self._actions)

    def step(self, now: float, event: NodeEvent) -> tuple[NodeAction, ...]:
        """Take one event and say what is to be done."""
        self._actions = []
        if self.phase is NodePhase.ENDED:
            return ()
        match event:
            case Received(message=message):
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
                self._reachable.add((node.host, node.link_port))
            case Tick():
                self._tick(now)
            case _:
                self._link(now, event)
        return tuple(self._actions)

    # ---- the link to the master

    def _link(self, now: float, event: NodeEvent) -> None:
        match event:
            case LinkUp(host=host):
                self.linked = True
                self._is_told = self._follows_former = False
                self._dial_at = self._note_at = None
                self._pause_s = FIRST_PAUSE_S
                if self._dialled:
                    self._reachable.add(self._dialled)
                self._master = self._name_of_dialled()
                if self._search and self._master:
                    self._search.found(self._master)
                if not self._offer.host:
                    self._offer = replace(self._offer, host=host)
                self._join()
            case LinkFailed():
                self._link_failed(now, event)
            case LinkMoved(host=host, port=port):
                self._moved(now, host, port)
            case Elected():
                self._do(self._lead_after_search())
            case LeaderAt(host=host, port=port):
                self._dial(host, port)
            case LinkClosed(silent_s=silent_s) if self.linked:
                self._master_lost(now, Loss.DEAD, silent_s=silent_s)
            case LinkSilent() if self.linked:
                self._master_lost(now, Loss.SILENT)

    def _join(self) -> None:
        if self._offer.ports and not self._running:
            self._enter(NodePhase.JOINED)
            last = self.cluster
            join = Join(
                offer=self._offer,
                terms=self.terms,
                callback_key=self.setting.callback_key,
                generation=last.generation if last else 0,
                lineage=last.lineage if last else "",
            )
            self._do(Tell(message=join))

    def _link_failed(self, now: float, event: LinkFailed) -> None:
        self._last_link_error = event.why
        # Where nobody ever answered, a refusal says that the address is wrong, not that the launcher there has died.
        gone = event.refused and self._dialled in self._reachable
        if event.fatal:
            self._end(now, Finish(exit_status=3, code="UM-MEET-003", words=event.why, hint=self._if_not_ours()))
        elif self.setting.meeting is Meeting.ETCD:
            self._campaign(gone=self._dialled if gone else None)
        elif self._search:
            self._next_candidate(now, dead=gone and now < self._refusals_count_until)
        else:
            self._dial_at = now + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _moved(self, now: float, host: str, port: int) -> None:
        if self._search is None or not self._search.is_lost((host, port)):
            self._asked = None
            self._dial(host, port)
        elif now < self._search_until:
            # The other node has not noticed yet that its master is gone, or it can still reach it; so may this one by now.
            self._asked = None
            self._dial(host, port, patience_s=self._short_patience_s())
        else:
            lost = "the master can't be reached from here, while other nodes still follow it"
            self._end(now, Finish(exit_status=3, code="UM-MEET-001", words=lost, at_once=True))

    def _master_lost(self, now: float, loss: Loss, why: str = "", silent_s: float = 0.0) -> None:
        self.linked = False
        dead = loss is Loss.DEAD
        # The others wait so long for workers of the old formation, from the master's death on, and no longer.
        others_wait_s = max(0.0, self.terms.old_workers_end_s - silent_s)
        grace_s = min(self.terms.failure_grace_s, others_wait_s) if dead else 0.0
        if self._follows_former:
            # If it died, the others form nothing without this node before that time; if it lives, it may have done so.
            self._refusals_count_until = now + others_wait_s if dead else now
        if not dead:
            # A connection that we close says that we are dead, so nothing of ours may live on by then.
            self._do(KillWorkers())
        self._do(HangUp())
        how = {
            Loss.DEAD: "its connection was closed",
            Loss.SILENT: f"silent for {self.terms.heartbeat_timeout_s:g} s",
            Loss.EVICTED: why,
        }[loss]
        if self._finish or self._told_signal:
            if not self._running:
                self._leave()
            else:
                self._stopping.hurry(now, grace_s)
            return
        if self.cluster is None and not self.terms.waits_for_lost_nodes:
            lost = f"the master was lost before the job was formed: {how}"
            self._end(now, Finish(exit_status=1, code="UM-JOB-005", words=lost))
            return
        if self.cluster is None:
            self._say(f"the master went away before the job was formed ({how}), looking for it again", "WARNING")
            self._enter(NodePhase.SEEKING)
            self._give_up_at = now + self.terms.join_timeout_s
            self._note_at = now + NOTE_EVERY_S
            if self.setting.meeting is Meeting.ETCD:
                self._campaign(gone=self._dialled if dead else None)
            else:
                self._dial_at = now + ASK_AGAIN_S
            return
        host = self.cluster.node(self._master or self.cluster.coordinator).host
        lost = f"the master node {host} was lost: {how}"
        if not self.terms.survives_its_master:
            status = 1 if dead else 3
            self._end(now, Finish(exit_status=status, code="UM-JOB-005", words=lost, at_once=not dead))
            return
        if loss is Loss.EVICTED:
            self._say(f"the master node {host} gave this node up: {how}; joining again", "WARNING")
        else:
            self._say(f"{lost}; the remaining nodes look for the next one", "WARNING")
        self._loss = loss
        self._stop_workers(now, grace_s=grace_s)

    def _seek_master(self, now: float) -> None:
        """The old master is lost and no worker is left: find, or become, the next one."""
        assert self.cluster is not None
        loss, self._loss = self._loss, None
        # A master that was found again, and died before it said a word, may have formed a later generation before.
        dead = loss is Loss.DEAD and self._is_told
        self._enter(NodePhase.SEEKING)
        self._give_up_at = now + self.terms.join_timeout_s
        # If the master was lost that was to form the next generation, the search for it goes on where it was; one that
        # is not of the last generation (a standby that etcd elected) has no vote to lose.
        lost = self._master if self._search else self._master or self.cluster.coordinator
        self._search = self._search or Search(self.cluster, self._basis)
        if lost and loss is not Loss.EVICTED:
            self._search.lost(lost, dead=dead)
        self._search_until = now + self.terms.heartbeat_timeout_s + self.terms.fence_s
        if self.setting.meeting is Meeting.ETCD:
            self._campaign(gone=self._dialled if loss is Loss.DEAD else None)
        else:
            self._ask_next_candidate(now)

    def _next_candidate(self, now: float, *, dead: bool) -> None:
        assert self._search is not None
        if self._asked is None:
            # Where another node pointed, nobody answers; that says nothing about the node that pointed there.
            self._ask_at = now + ASK_AGAIN_S
            return
        self._search.lost(self._asked, dead=dead)
        self._ask_next_candidate(now)

    def _ask_next_candidate(self, now: float) -> None:
        assert self._search is not None
        if self._search.is_hopeless:
            lost = ", ".join(self._search.hosts_out_of_reach)
            self._end(now, words.cut_off(lost, self._generation()))
            return
        candidate = self._search.candidate
        if candidate is None or candidate.name == self._offer.name:
            self._do(self._lead_after_search())
        else:
            self._asked = candidate.name
            self._dial(candidate.host, candidate.link_port, patience_s=self._short_patience_s())

    def _lead_after_search(self) -> Lead:
        if self._search is None:
            return Lead()
        assert self.cluster is not None
        reachable = [node.name for node in self.cluster.nodes if (node.host, node.link_port) in self._reachable]
        return Lead(
            previous=self.cluster,
            basis=self._basis,
            dead=self._search.dead,
            silent=self._search.silent,
            reachable=tuple(reachable),
            refusals_count_until=self._refusals_count_until,
        )

    # ---- messages

    def _received(self, now: float, message: FromMaster) -> None:
        match message:
            case Waiting(text=text):
                self._say(text)
            case Seated():
                self._seated(message)
            case Refuse() | Finish() | Evict() | Moved():
                self._dismissed(now, message)
            case Standby(text=text, cluster=cluster, basis=basis, formed_here=formed_here):
                self._give_up_at = None
                if cluster:
                    self.cluster, self._basis, self._search = cluster, basis, None
                    self._is_told, self._follows_former = True, formed_here
                    self._master = self._name_of_dialled()
                self._say(text)
            case Form(cluster=cluster, basis=basis):
                self._basis = basis
                if basis:
                    self._do(Tell(message=Accepted(generation=cluster.generation)))
                self._form(now, cluster)
            case Committed(generation=generation) if self._is_current(generation):
                self._basis = ()
            case Go(generation=generation) if self._is_current(generation):
                self._launch(self._waiting_seats)
                self._waiting_seats = ()
                self._check_done()
            case Stop(generation=generation) if self._is_current(generation):
                self._stop(now, message)
            case RestartWorker(generation=generation) if (
                self._is_current(generation) and self.phase is NodePhase.RUNNING
            ):
                self._restart(message)

    def _seated(self, message: Seated) -> None:
        if self._is_current(message.generation):
            self._is_told, self._follows_former = True, message.formed_here
        elif self.cluster and message.generation < self.cluster.generation:
            self._do(Tell(message=HasLater(cluster=self.cluster, basis=self._basis)))

    def _dismissed(self, now: float, message: Refuse | Finish | Evict | Moved) -> None:
        """This master wants nothing more of this node."""
        match message:
            case Moved(host=host, port=port):
                self.linked = False
                self._do(HangUp())
                self._enter(NodePhase.SEEKING)
                self._asked = None
                self._dial(host, port)
            case Evict(text=text) if self.linked:
                self._master_lost(now, Loss.EVICTED, text)
            case Refuse(gone=True) if self._search:
                self.linked = False
                self._do(HangUp())
                self._enter(NodePhase.SEEKING)
                if self._master:
                    self._search.lost(self._master, dead=False)
                self._ask_at = now + ASK_AGAIN_S
            case Refuse(text=text, code=code, hint=hint, exit_status=status):
                self._end(now, Finish(exit_status=status, words=text, code=code, hint=hint))
            case Finish():
                self._end(now, message)

    def _form(self, now: float, cluster: Cluster) -> None:
        self.cluster = cluster
        self._is_told = self._follows_former = True
        self._search = self._master = None
        self._give_up_at = None
        self._told_done = False
        self._failed_keys.clear()
        if self._told_signal is not None or self._finish:
            # This node is leaving; the master did not know that yet.
            self._do(Tell(message=Stopped(generation=cluster.generation, ports=self._offer.ports)))
            return
        self._enter(NodePhase.RUNNING)
        nodes = len(cluster.nodes)
        self._say(
            f"Job: {cluster.job_id}, mode {self.terms.mode.value}, replicas {nodes}[{self.terms.least}:{self.terms.most}], "
            f"elastic {self.terms.elastic}"
        )
        seats = cluster.seats_on(self._offer.name)
        self._say(f"Run Pod: {self._offer.name}, replicas {len(seats)}, status ready")
        servers = tuple(seat for seat in seats if seat.role is Role.SERVER)
        others = tuple(seat for seat in seats if seat.role is not Role.SERVER)
        if not self.terms.mode.has_servers:
            self._launch(others)
        else:
            self._waiting_seats = others
            self._unready = {seat.key for seat in servers}
            self._launch(servers)
            if servers:
                keys = tuple(seat.key for seat in servers)
                self._do(AwaitListening(keys=keys, within_s=self.terms.join_timeout_s))
                self._unready_note_at = now + NOTE_EVERY_S
            else:
                self._do(Tell(message=Ready(generation=cluster.generation)))
        self._say(f"Watching Pod: {self._offer.name}, replicas {len(seats)}, status running")
        if self.terms.survives_its_master and len(cluster.nodes) > 1:
            self._check_reachable_at = now + succession.calls_after_s(cluster, self._offer.name)
            self._tick(now)

    def _check_reachable(self) -> None:
        assert self.cluster is not None
        nodes = succession.to_call(self.cluster, self._offer.name, self._reachable)
        if nodes:
            self._do(CheckReachable(generation=self.cluster.generation, nodes=nodes))

    def _launch(self, seats: tuple[Seat, ...]) -> None:
        assert self.cluster is not None
        if seats:
            self._running.update({seat.key: seat for seat in seats})
            self._do(StartWorkers(cluster=self.cluster, seats=seats, restarts=self.cluster.restarts))

    def _restart(self, message: RestartWorker) -> None:
        assert self.cluster is not None
        for seat in self.cluster.seats_on(self._offer.name):
            if seat.key == message.key and seat.key not in self._running:
                self._say(f"restarting {seat.role.value} {seat.rank} in its place ({seat.endpoint})", "WARNING")
                self._failed_keys.discard(seat.key)
                self._running[seat.key] = seat
                self._do(StartWorkers(cluster=self.cluster, seats=(seat,), restarts=message.restarts))

    def _stop(self, now: float, message: Stop) -> None:
        if self._told_signal is not None:
            return  # this node is stopping already, with the grace that was promised to the sender of the signal
        self._say(f"stopping generation {message.generation}: {message.why}", "WARNING")
        if message.dump_stacks and self._running:
            self._do(DumpStacks())
        self._stop_workers(now, grace_s=message.grace_s, after_s=DUMP_TIME_S if message.dump_stacks else 0.0)

    # ---- workers

    def _worker(self, now: float, event: WorkerExited | WorkerListening | WorkerHung) -> None:
        if not self._is_current(event.generation) or event.key not in self._running:
            return
        generation = event.generation
        match event:
            case WorkerListening(key=key):
                self._ready(key)
            case WorkerHung(failure=failure):
                if self.phase is NodePhase.RUNNING:
                    self._do(Tell(message=Failed(generation=generation, failure=failure)))
            case WorkerExited(key=key, failure=failure):
                del self._running[key]
                if failure:
                    self._failed_keys.add(key)
                    self._do(Tell(message=Failed(generation=generation, failure=failure)))
                    if self.phase is NodePhase.RUNNING:
                        self._say(words.describe(failure), "ERROR")
                else:
                    self._ready(key)  # a server that ends well before it listens has nothing to do
                self._check_done()
                self._check_gone(now)

    def _ready(self, key: str) -> None:
        if key in self._unready:
            self._unready.discard(key)
            if not self._unready and self.phase is NodePhase.RUNNING:
                self._do(Tell(message=Ready(generation=self._generation())))

    def _check_done(self) -> None:
        trainers_left = self._waiting_seats or any(seat.role is not Role.SERVER for seat in self._running.values())
        if self.phase is NodePhase.RUNNING and not trainers_left and not self._told_done and not self._failed_keys:
            assert self.cluster is not None
            self._told_done = True
            self._do(Tell(message=Done(generation=self.cluster.generation)))

    def _stop_workers(self, now: float, *, grace_s: float, after_s: float = 0.0, signal: int = SIGTERM) -> None:
        """Ask the workers to end; a worker that is there after the grace is killed."""
        self._waiting_seats = ()
        if self.phase is not NodePhase.STOPPING:
            self._enter(NodePhase.STOPPING)
        self._stopping.begin(now, grace_s=grace_s, after_s=after_s, signal=signal)
        self._tick(now)
        self._check_gone(now)

    def _check_gone(self, now: float) -> None:
        """If this node is stopping and its last worker has ended, go on to what comes next."""
        if self.phase is not NodePhase.STOPPING or self._running:
            return
        self._stopping.over()
        self._do(KillWorkers())  # whatever the workers left behind
        if self._finish:
            self._leave()
        elif self._told_signal and not self.linked:
            self._finish = Finish(exit_status=128 + self._told_signal)
            self._leave()
        else:
            self._offer = replace(self._offer, ports=())
            self._do(HoldPorts())
            if self._loss is not None:
                self._seek_master(now)

    def _ports_held(self, ports: tuple[int, ...]) -> None:
        self._offer = replace(self._offer, ports=ports)
        if self.phase is NodePhase.STOPPING and self.linked:
            assert self.cluster is not None
            self._enter(NodePhase.JOINED)
            self._do(Tell(message=Stopped(generation=self.cluster.generation, ports=ports)))
        elif self.phase is NodePhase.SEEKING and self.linked:
            self._join()

    # ---- ends

    def _signalled(self, now: float, number: int) -> None:
        if is_same(number, now, self._told_signal, self._told_signal_at):
            return
        if self._told_signal is not None:
            self._say("second signal: killing all workers now", "WARNING")
            self._do(KillWorkers())
            self._stopping.killed()
            self._finish = self._finish or Finish(exit_status=128 + self._told_signal)
            if not self._running:
                self._leave()
            return
        self._told_signal, self._told_signal_at = number, now
        running = ""
        if self._running:
            who = "1 worker has" if len(self._running) == 1 else f"{len(self._running)} workers have"
            running = f", {who} {self.terms.grace_s:g} s to end; a second signal kills at once"
        self._say(f"received {words.signal_name(number)}{running}", "WARNING")
        if self.linked and self.cluster is not None:
            self._do(Tell(message=Leaving(signal=number)))
            self._give_up_at = now + self.terms.grace_s + 5.0
            self._stop_workers(now, grace_s=self.terms.grace_s, signal=number)
        else:
            if self.linked:
                self._do(Tell(message=Leaving(signal=number)))
            self._end(now, Finish(exit_status=128 + number))

    def _end(self, now: float, finish: Finish) -> None:
        """Remember how to end, and stop what still runs; the launcher exits when the last worker is gone."""
        self._finish = finish
        self._give_up_at = None
        if not self._running:
            self._leave()
        elif finish.at_once:
            self._enter(NodePhase.STOPPING)
            self._do(KillWorkers())
        elif self.phase is not NodePhase.STOPPING:
            self._stop_workers(
                now, grace_s=self.terms.grace_s if finish.exit_status == 0 else self.terms.failure_grace_s
            )

    def _leave(self) -> None:
        finish = self._finish or Finish(exit_status=1)
        status = 128 + self._told_signal if self._told_signal else finish.exit_status
        self._enter(NodePhase.ENDED)
        self._stopping.over()
        self._dial_at = self._ask_at = self._note_at = self._give_up_at = self._check_reachable_at = None
        self._unready_note_at = None
        self._do(KillWorkers())
        self._do(Exit(status=status, failure=finish.failure, words=finish.words, code=finish.code, hint=finish.hint))

    def _tick(self, now: float) -> None:
        for step in self._stopping.due(now):
            if step is StopStep.SIGNAL:
                self._do(SignalWorkers(number=self._stopping.signal))
                continue
            if step is StopStep.KILL_LATE:
                late = ", ".join(self._running)
                self._say(f"still running after {self._stopping.grace_s:g} s, killed: {late}", "WARNING")
            self._do(KillWorkers())
        if self._dial_at is not None and now >= self._dial_at:
            self._dial_at = None
            self._dial(self.setting.master_host, self.setting.master_port)
        if self._ask_at is not None and now >= self._ask_at:
            self._ask_at = None
            if self._search:
                self._ask_next_candidate(now)
        if self._check_reachable_at is not None and now >= self._check_reachable_at:
            self._check_reachable_at = None
            if self.phase is NodePhase.RUNNING:
                self._check_reachable()
        if self._note_at is not None and now >= self._note_at:
            self._note_at = now + NOTE_EVERY_S
            self._say(f"waiting for the master at {self._where()}")
        if self._unready_note_at is not None and now >= self._unready_note_at:
            self._note_unready(now)
        if self._give_up_at is not None and now >= self._give_up_at:
            self._give_up(now)

    def _note_unready(self, now: float) -> None:
        waited_for = [seat for key, seat in self._running.items() if key in self._unready]
        self._unready_note_at = now + NOTE_EVERY_S if waited_for and self.phase is NodePhase.RUNNING else None
        if self._unready_note_at is not None:
            servers = ", ".join(f"{seat.role.value} {seat.rank} at {seat.endpoint}" for seat in waited_for)
            self._say(f"waiting for connections to be accepted by {servers}")

    def _give_up(self, now: float) -> None:
        self._give_up_at = None
        if self._told_signal:
            self._finish = Finish(exit_status=128 + self._told_signal)
            self._leave()
        elif not self.linked:
            seconds = f"{self.terms.join_timeout_s:g}"
            none = f"no master after --join_timeout {seconds} at {self._where()}"
            hint = "is the master running, and is its port open? `umiak launch --check` on every node tells"
            self._end(now, Finish(exit_status=3, code="UM-MEET-002", words=none, hint=hint))

    # ---- small parts

    def _where(self) -> str:
        """Where the master is looked for, and what came of it the last time."""
        setting = self.setting
        where = (
            join_host_port(setting.master_host, setting.master_port) if setting.master_host else "the address in etcd"
        )
        return f"{where} ({self._last_link_error})" if self._last_link_error else where

    def _if_not_ours(self) -> str:
        """What to do where another program, or somebody else's job, answers at the master's address."""
        if not self.setting.master_host:
            return ""
        return (
            "if it is not this job's master that answers there, name another port in --master, the same on every node"
        )

    def _name_of_dialled(self) -> str | None:
        """Which node of the last generation was dialled, if it is one of them."""
        nodes = self.cluster.nodes if self.cluster else ()
        return next((node.name for node in nodes if (node.host, node.link_port) == self._dialled), None)

    def _short_patience_s(self) -> float:
        """How long a node of the last generation may take to answer a call."""
        return min(2.0, self.terms.heartbeat_timeout_s)

    def _generation(self) -> int:
        return self.cluster.generation if self.cluster else 0

    def _is_current(self, generation: int) -> bool:
        return self.cluster is not None and generation == self.cluster.generation

    def _campaign(self, gone: tuple[str, int] | None = None) -> None:
        host, port = gone or ("", 0)
        self._do(Campaign(gone_host=host, gone_port=port))

    def _dial(self, host: str, port: int, patience_s: float | None = None) -> None:
        self._dialled = (host, port)
        self._do(Dial(host=host, port=port, patience_s=patience_s or self.terms.heartbeat_timeout_s))

    def _enter(self, phase: NodePhase) -> None:
        self.phase = phase

    def _say(self, text: str, level: str = "INFO") -> None:
        self._do(Say(text=text, level=level))

    def _do(self, action: NodeAction) -> None:
        self._actions.append(action)
