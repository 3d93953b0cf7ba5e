"""One launcher of a cluster in memory: its deciders, its link to the master, its workers.

The world around it, which carries its messages and its time, is `tests.support.simulated_cluster.World`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from umiak.launch import events
from umiak.launch.events import NodeSetting
from umiak.launch.master import rendezvous
from umiak.launch.node.machine import NodeMachine
from umiak.launch.protocol import Failure, FailureKind, Join

if TYPE_CHECKING:
    from tests.support.simulated_cluster import World
    from umiak.core.cluster import Cluster, Seat
    from umiak.launch.protocol import FromMaster, FromNode


class SimNode:
    """One launcher: its deciders, its link to the master, its workers."""

    def __init__(self, world: World, name: str, setting: NodeSetting, listens_at: tuple[str, int]) -> None:
        self.world = world
        self.name = name
        self.listens_at = listens_at
        """Where others reach it; the address that it offers may be another one."""
        self.frozen = False
        self._while_frozen: list[tuple[object, bool]] = []
        self.machine = NodeMachine(setting)
        self.coordinator: rendezvous.Coordinator | None = None
        self.alive = True
        self.exit_status: int | None = None
        self.words = ""
        self.said: list[str] = []
        self.cluster: Cluster | None = None
        self.workers: dict[str, Seat] = {}
        self.stubborn = False
        """Whether its workers ignore SIGTERM."""
        self.master: str | None = None  # the node that this one is linked to
        self.dialled = ("", 0)
        self.seated: dict[str, int] = {}  # the links on which nodes have joined a master here
        self.held: list[str] = []  # callers that wait until this node knows who leads
        self.link_id = 0
        self._timers: dict[str, float] = {}

    @property
    def address(self) -> tuple[str, int]:
        offer = self.machine.setting.offer
        return offer.host, offer.link_port

    def feed(self, event: object, *, master: bool = False) -> None:
        """Give an event to one of this node's deciders and perform what it decides."""
        if not self.alive:
            return
        if self.frozen:
            self._while_frozen.append((event, master))
            return
        now = self.world.now
        if master:
            if self.coordinator:
                for decision in self.coordinator.step(now, event):  # type: ignore[arg-type]
                    self._perform_for_master(decision)
        else:
            for action in self.machine.step(now, event):  # type: ignore[arg-type]
                self._perform(action)
        self.arm()
        self.world.check()

    def thaw(self) -> None:
        """Run again, with everything that happened meanwhile."""
        self.frozen = False
        waiting, self._while_frozen = self._while_frozen, []
        for event, master in waiting:
            self.feed(event, master=master)

    def begin(self) -> None:
        for action in self.machine.start(self.world.now):
            self._perform(action)
        self.arm()

    def arm(self) -> None:
        """Ask for the ticks that the deciders want."""
        deadlines = {"node": self.machine.next_deadline}
        deadlines["master"] = self.coordinator.next_deadline if self.coordinator else None
        for who, when in deadlines.items():
            if when is None:
                self._timers.pop(who, None)
            elif self._timers.get(who) != when:
                self._timers[who] = when
                self.world.at(max(when, self.world.now), partial(self._tick, who, when))

    def _tick(self, who: str, when: float) -> None:
        if self._timers.get(who) == when:
            del self._timers[who]
            self.feed(events.Tick(), master=who == "master")

    def _perform(self, action: object) -> None:
        world = self.world
        match action:
            case events.ConsoleLine(text=text):
                self.said.append(text)
            case events.Lead():
                self._lead(action)
            case events.Dial(host=host, port=port, patience_s=patience_s):
                self.hang_up()
                self.dialled = host, port
                world.dial(self, host, port, patience_s)
            case events.HangUp():
                self.hang_up()
            case events.CheckReachable(generation=generation, nodes=nodes):
                for node in nodes:
                    world.check_reachable(self, node, generation)
            case events.MessageToMaster(message=message):
                self._tell(message)
            case events.HoldPorts():
                ports = tuple(world.random.sample(range(20000, 30000), len(self.machine.setting.offer.ports)))
                world.soon(lambda: self.feed(events.PortsHeld(ports=ports)))
            case events.Exit(status=status, words=words):
                self.exit_status, self.words = status, words
                world.soon(lambda: world.end(self))
            case _:
                self._perform_on_workers(action)

    def _perform_on_workers(self, action: object) -> None:
        match action:
            case events.StartWorkers(cluster=cluster, seats=seats):
                self.cluster = cluster
                self.workers.update({seat.key: seat for seat in seats})
            case events.AwaitListening(keys=keys):
                for key in keys:
                    self.world.later(0.01, partial(self._worker_listens, key, self._generation()))
            case events.SignalWorkers() if not self.stubborn:
                for key in self.workers:
                    obeys_after_s = self.world.random.uniform(0.0, 0.3)
                    self.world.later(obeys_after_s, partial(self._worker_obeys, key, self._generation()))
            case events.KillWorkers():
                for key in tuple(self.workers):
                    self._worker_ends(key)

    def _worker_listens(self, key: str, generation: int) -> None:
        self.feed(events.WorkerListening(key=key, generation=generation))

    def _worker_obeys(self, key: str, generation: int) -> None:
        if self._generation() == generation:
            self._worker_ends(key)

    def _worker_ends(self, key: str) -> None:
        if self.workers.pop(key, None):
            generation = self._generation()
            self.world.soon(lambda: self.feed(events.WorkerExited(key=key, generation=generation)))

    def fail_worker(self, code: int = 1) -> None:
        """One of this node's workers fails."""
        for key, seat in tuple(self.workers.items()):
            del self.workers[key]
            failure = Failure(
                kind=FailureKind.EXITED,
                at=self.world.now,
                node=self.name,
                host=seat.host,
                role=seat.role,
                rank=seat.rank,
                key=key,
                exit_code=code,
            )
            self.feed(events.WorkerExited(key=key, generation=self._generation(), failure=failure))
            return

    def finish_workers(self) -> None:
        """All of this node's workers end well."""
        for key in tuple(self.workers):
            self._worker_ends(key)

    def _generation(self) -> int:
        return self.cluster.generation if self.cluster else 0

    def _tell(self, message: FromNode) -> None:
        said = events.MessageFromNode(name=self.name, message=message, at=self.world.now)
        if self.coordinator:
            self.world.soon(lambda: self.feed(said, master=True))
        elif self.master:
            there, link = self.world.nodes[self.master], self.link_id
            if isinstance(message, Join) and self.machine.terms.survives_its_master:
                self.world.deliver(self, there, link, lambda: self.world.call_back(there, self, link, said))
            else:
                self.world.deliver(self, there, link, lambda: there.hear(self.name, link, said))

    def hear(self, name: str, link: int, said: events.MessageFromNode) -> None:
        """What a node says counts on the link on which it has joined."""
        if isinstance(said.message, Join):
            self.seated[name] = link
        if self.seated.get(name) == link:
            self.feed(said, master=True)

    def _lead(self, lead: events.Lead) -> None:
        coordinator = self.coordinator = rendezvous.Coordinator(self.machine.setting, lead, now=self.world.now)
        for probe in self.coordinator.probes():
            self.world.probe(self, probe)
        host = self.address[0]
        self.world.soon(lambda: self.feed(events.LinkUp(host=host)))
        if lead.previous:
            self.world.soon(lambda: self.world.call_rivals(self, coordinator))
        self._answer_held()

    def _answer_held(self) -> None:
        held, self.held = self.held, []
        for name in held:
            self.world.answer_call(self.world.nodes[name], self)

    def _perform_for_master(self, action: object) -> None:
        match action:
            case events.Send(names=names, message=message):
                for name in names:
                    self.send(name, message)
            case events.AnswerTakeover(call=call):
                self.world.answer_takeover(self, call)

    def send(self, name: str, message: FromMaster) -> None:
        received = events.MessageFromMaster(message=message)
        if name == self.name:
            self.world.soon(lambda: self.feed(received))
            return
        there = self.world.nodes[name]
        if name in self.seated:
            self.world.deliver(self, there, self.seated[name], lambda: there.feed(received))

    def hang_up(self) -> None:
        self.world.unlink(self)
        if self.coordinator:
            self.coordinator = None

    def now_follows(self, master: str) -> None:
        self.master = master
        self._answer_held()
