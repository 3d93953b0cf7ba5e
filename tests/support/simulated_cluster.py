"""A cluster that exists in memory only: launchers' deciders, a network that delays and cuts, and virtual time.

    world = World(terms, seed=7)
    world.start("a"); world.start("b")
    world.run(10)                      # ten virtual seconds, some milliseconds of real ones
    world.cut({"a"}, {"b"}); world.run(30)

It drives the same `NodeMachine` and `Coordinator` that the launcher drives, and takes no decision of theirs: a call about a
take-over, an answer, a refusal is an event for them here as there. The rules for what a link tells are the launcher's, too:
a killed launcher closes its links, a cut is silence that each side notices after its own heartbeat timeout, messages of
one link keep their order. When a cut heals, new connections work at once; an old link goes on only when TCP tries again, which
takes up to as long as the cut has lasted. A node may offer an address where it does not answer, and a launcher may be frozen.
After every event `check()` looks for what must never be: workers of two formations alive at once.
"""

from __future__ import annotations

import heapq
import random
from functools import partial
from typing import TYPE_CHECKING

from tests.support.simulated_node import SimNode
from umiak.launch import events
from umiak.launch.events import Discovery, NodeSetting
from umiak.launch.master import admission, rendezvous
from umiak.launch.master.phases import MasterPhase
from umiak.launch.protocol import Moved, Offer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from umiak.core.cluster import Cluster
    from umiak.launch.protocol import FromMaster, Terms

BEATS_IN_TIMEOUT = 5
BEACON_S = 0.2
LONGEST_RETRY_S = 8.0
"""TCP doubles the time between its tries; a cut of this length or more heals so much later for an old link."""


class TwoHalves(AssertionError):
    """Workers of two formations were alive at the same time."""


class World:
    """Virtual time, the network, and the launchers on it."""

    def __init__(
        self, terms: Terms, *, seed: int = 0, workers: int = 1, servers: int = 0, latency_s: float = 0.02
    ) -> None:
        self.terms = terms
        self.now = 0.0
        self.random = random.Random(seed)
        self.nodes: dict[str, SimNode] = {}
        self._workers, self._servers = workers, servers
        self._latency_s = latency_s
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._cuts: set[frozenset[str]] = set()
        self._last_arrival: dict[tuple[str, str, int], float] = {}
        self._links = 0
        self._ends_of_link: dict[int, tuple[str, str]] = {}  # follower, master
        self._stalled: dict[int, float] = {}  # links that nothing gets through, since when
        self._silent_since: dict[int, float] = {}  # of links that had stalled, and whose end came late
        self._undelivered: dict[int, list[tuple[SimNode, SimNode, Callable[[], None], bool]]] = {}
        self._calls: dict[int, tuple[SimNode, rendezvous.Coordinator]] = {}  # about take-overs
        self._home: str | None = None
        self.formations: list[Cluster] = []

    @property
    def _beat_s(self) -> float:
        return min(1.0, self.terms.heartbeat_timeout_s / BEATS_IN_TIMEOUT)

    # ---- what a test does

    def start(
        self,
        name: str,
        *,
        rank: int | None = None,
        terms: Terms | None = None,
        host: str | None = None,
        offers: str | None = None,
    ) -> SimNode:
        """Start a launcher. The first name that is ever started is the one that ``--master`` names.

        ``offers``: ``--host``, if that is an address where this launcher does not answer.
        """
        first = self._home is None
        self._home = self._home or name
        identity = name
        while identity in self.nodes:
            identity += "'"  # the same machine, a new launcher
        host = host or f"host-{name}"
        offer = Offer(
            name=identity,
            host=offers or host,
            ports=tuple(range(20000, 20001 + self._workers + self._servers)),
            trainers=self._workers,
            servers=self._servers,
            link_port=self._port_of(host),
            rank=rank,
        )
        setting = NodeSetting(
            terms=terms or self.terms,
            offer=offer,
            discovery=Discovery.ADDRESS,
            leads=first or host == f"host-{self._home}",
            master_host=f"host-{self._home}",
            master_port=1,
            callback_key=identity,
            lineage=f"of-{identity}",
        )
        node = self.nodes[identity] = SimNode(self, identity, setting, (host, offer.link_port))
        node.begin()
        return node

    def kill(self, name: str) -> None:
        """SIGKILL to a launcher: its workers die with it, its links are closed."""
        node = self.nodes[name]
        if node.alive:
            node.workers.clear()
            self.end(node)

    def cut(self, one: Iterable[str], other: Iterable[str]) -> None:
        """From now on nothing gets through between these two groups, and nobody is told."""
        for a in sorted(one):
            for b in sorted(other):
                pair = frozenset((a, b))
                if a != b and pair not in self._cuts:
                    self._cuts.add(pair)
                    for link, ends in self._ends_of_link.items():
                        if pair == {*ends} and link not in self._stalled:
                            self._stalled[link] = self.now
                            self._start_silence(link)

    def heal(self) -> None:
        """Everything gets through again: new connections at once, old links when TCP tries again."""
        self._cuts.clear()
        for link, since in self._stalled.items():
            retry_s = self.random.uniform(0.0, min(self.now - since, LONGEST_RETRY_S))
            self.later(retry_s, partial(self._go_on, link, since))

    def freeze(self, name: str, seconds: float) -> None:
        """SIGSTOP to the half of a launcher that works; the other half ends it after half a heartbeat timeout."""
        node = self.nodes[name]
        if not node.alive or node.frozen:
            return
        node.frozen = True
        limit = self.terms.heartbeat_timeout_s / 2
        self.later(min(seconds, limit), lambda: self.kill(name) if seconds >= limit else node.thaw())

    def run(self, seconds: float) -> None:
        """Let so much virtual time pass."""
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            self.now, _, call = heapq.heappop(self._queue)
            call()
        self.now = until

    def running(self) -> dict[str, Cluster]:
        """Nodes with live workers, and the formation that those belong to."""
        return {
            node.name: node.cluster
            for node in self.nodes.values()
            if node.alive and node.workers and node.cluster is not None
        }

    def check(self) -> None:
        """Raise TwoHalves if workers of two formations are alive."""
        formations = {(cluster.generation, cluster.names) for cluster in self.running().values()}
        if len(formations) > 1:
            raise TwoHalves(f"at {self.now:.3f}: {sorted(formations)}")

    # ---- time

    def at(self, when: float, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (when, self._count, call))

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(self.now + seconds, call)

    def soon(self, call: Callable[[], None]) -> None:
        self.at(self.now, call)

    # ---- network

    @property
    def gets_through(self) -> bool:
        """Whether no way is cut and no link waits for TCP to try again."""
        return not self._cuts and not self._stalled

    def is_cut(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self._cuts

    def deliver(
        self, sender: SimNode, receiver: SimNode, link: int, call: Callable[[], None], *, end: bool = False
    ) -> None:
        """Carry a message, in order; what is sent into a cut arrives when it heals, if the link is still there.

        ``end``: it is the end of the link, which arrives after everything else.
        """

        def arrive() -> None:
            follower = sender if self._ends_of_link.get(link, ("", ""))[1] == receiver.name else receiver
            if link in self._stalled:
                self._undelivered.setdefault(link, []).append((sender, receiver, call, end))
            elif receiver.alive and (end or follower.link_id == link or not follower.alive):
                call()

        key = (sender.name, receiver.name, link)
        when = max(self.now + self.random.uniform(0, self._latency_s), self._last_arrival.get(key, 0.0))
        self._last_arrival[key] = when
        self.at(when, arrive)

    def dial(self, caller: SimNode, host: str, port: int, patience_s: float) -> None:
        def answered(there: SimNode | None, gets_through: bool) -> None:
            if not caller.alive or caller.master or caller.dialled != (host, port):
                return
            if not gets_through:
                caller.feed(events.LinkFailed(refused=False, why="no answer"))
            elif there is None:
                caller.feed(events.LinkFailed(refused=True, why="refused"))
            else:
                self.answer_call(caller, there)

        self._connect(caller, (host, port), patience_s, answered)

    def _connect(
        self,
        caller: SimNode,
        address: tuple[str, int],
        patience_s: float,
        answered: Callable[[SimNode | None, bool], None],
    ) -> None:
        """Call there as TCP does, which tries again after one, three and seven seconds, until the patience is over."""
        until = self.now + patience_s

        def try_it(pause_s: float) -> None:
            there, gets_through = self._at(caller, *address)
            if gets_through or self.now >= until:
                answered(there, gets_through)
            else:
                self.at(min(self.now + pause_s, until), partial(try_it, 2 * pause_s))

        self.later(self.random.uniform(0, self._latency_s), partial(try_it, 1.0))

    def _at(self, caller: SimNode, host: str, port: int) -> tuple[SimNode | None, bool]:
        """The launcher that answers there, if there is one; and whether the host can be reached at all."""
        known = [node for node in reversed(self.nodes.values()) if node.listens_at == (host, port)]
        if any(self.is_cut(caller.name, node.name) or (node.frozen and node.alive) for node in known[:1]):
            return None, False
        return next((node for node in known if node.alive), None), True

    def call_back(self, master: SimNode, node: SimNode, link: int, said: events.MessageFromNode) -> None:
        """A master calls a node back at the address that it offers, before it is seated."""

        def answer() -> None:
            there, gets_through = self._at(master, *node.address)
            if node.link_id != link or not node.alive:
                return
            if there is node and master.coordinator is None:
                host, port = master.dialled  # it went to another master meanwhile
                self._reply(master, node, link, Moved(host=host, port=port))
            elif there is node:
                master.hear(node.name, link, said)
            else:
                why = "refused" if gets_through else "no answer"
                self._reply(master, node, link, admission.unreachable(node.machine.setting.offer, why))

        self.later(self.random.uniform(0, self._latency_s), answer)

    def _reply(self, master: SimNode, node: SimNode, link: int, message: FromMaster) -> None:
        self.deliver(master, node, link, lambda: node.feed(events.MessageFromMaster(message=message)))

    def answer_call(self, caller: SimNode, there: SimNode) -> None:
        if not caller.alive or not there.alive or caller.master:
            return
        if there.coordinator:
            for old, ends in tuple(self._ends_of_link.items()):
                if ends == (caller.name, there.name):
                    del self._ends_of_link[old]  # what happens to it means nothing any more
            self._links += 1
            caller.link_id = self._links
            self._ends_of_link[self._links] = (caller.name, there.name)
            caller.now_follows(there.name)
            self.soon(lambda: caller.feed(events.LinkUp(host=caller.address[0])))
        elif there.master:
            host, port = self.nodes[there.master].address
            caller.feed(events.LinkMoved(host=host, port=port))
        else:
            there.held.append(caller.name)

    def probe(self, prober: SimNode, probe: events.Probe) -> None:
        def answered(there: SimNode | None, gets_through: bool) -> None:
            if gets_through and (there is None or there.name != probe.name):
                prober.feed(events.NodeRefused(name=probe.name, at=self.now), master=True)

        self._connect(prober, (probe.host, probe.port), self.terms.heartbeat_timeout_s, answered)

    def check_reachable(self, caller: SimNode, probe: events.Probe, generation: int) -> None:
        def answer() -> None:
            if not caller.alive or caller.cluster is None or caller.cluster.generation != generation:
                return
            there, _ = self._at(caller, probe.host, probe.port)
            if there is not None and there.name == probe.name:
                caller.feed(events.Reachable(name=probe.name, generation=generation))
            else:
                self.later(1.0, answer)

        self.later(self.random.uniform(0, self._latency_s), answer)

    def call_rivals(self, leader: SimNode, coordinator: rendezvous.Coordinator) -> None:
        """A master that took over calls those who may lead without knowing of it, again and again."""
        if not leader.alive or leader.coordinator is not coordinator or coordinator.phase is MasterPhase.ENDED:
            return
        for host, port in coordinator.rivals() if not leader.frozen else ():
            there, _ = self._at(leader, host, port)
            if there is not None and there.coordinator:
                assert coordinator.cluster is not None
                self._count += 1
                self._calls[self._count] = (leader, coordinator)
                called = events.TakeoverCalled(
                    call=self._count,
                    host=leader.address[0],
                    port=leader.address[1],
                    generation=coordinator.cluster.generation,
                    lineage=coordinator.cluster.lineage,
                    formed=coordinator.has_formed,
                    ready=coordinator.has_majority,
                )
                self.later(self.random.uniform(0, self._latency_s), partial(there.feed, called, master=True))
        self.later(BEACON_S, lambda: self.call_rivals(leader, coordinator))

    def answer_takeover(self, node: SimNode, call: int) -> None:
        """The launcher that was called says that the job is led from there."""
        leader, coordinator = self._calls.pop(call)
        host, port = node.address

        def answer() -> None:
            if leader.coordinator is coordinator and not self.is_cut(leader.name, node.name):
                leader.feed(events.TakeoverRefused(host=host, port=port), master=True)

        self.later(self.random.uniform(0, self._latency_s), answer)

    def unlink(self, node: SimNode) -> None:
        """A node lets go of its link and lives on; it says so, and the master takes it for silent."""
        if node.master:
            there, node.master = self.nodes[node.master], None
            self._tell_end(there, node, events.NodeSilent(name=node.name, at=self.now))
        node.link_id = 0

    def end(self, node: SimNode) -> None:
        """A launcher's process is gone: a launcher that is linked to it is told, unless there is a cut."""
        node.alive = False
        node.coordinator = None
        if node.master:
            self._tell_end(self.nodes[node.master], node, events.NodeClosed(name=node.name, at=self.now))
        for other in self.nodes.values():
            if other.master == node.name:
                link = other.link_id
                self.deliver(node, other, link, partial(self._closed, other, link), end=True)
        self.check()

    def _closed(self, node: SimNode, link: int) -> None:
        if node.alive and node.master and node.link_id == link:
            node.master = None
            is_late = self._ends_late(link)
            node.feed(events.LinkSilent() if is_late else events.LinkClosed(silent_s=self._silent_s(link)))

    def _silent_s(self, link: int) -> float:
        """How long nothing was heard on a link that ends now, as far as its side knows: a beat may count as heard a beat later."""
        return max(0.0, self.now - self._silent_since.get(link, self.now) - self._beat_s)

    def _ends_late(self, link: int) -> bool:
        """Whether a link ends after so long a silence that its end does not count as a death."""
        return self._silent_s(link) > self.terms.heartbeat_timeout_s / 2

    def _tell_end(self, master: SimNode, node: SimNode, event: events.NodeClosed | events.NodeSilent) -> None:
        """Once a node has come again on a new link, the end of its old one means nothing."""
        link = node.link_id

        def tell() -> None:
            if link in self._ends_of_link and (node.master != master.name or node.link_id == link):
                del self._ends_of_link[link]
                is_late = self._ends_late(link)
                master.feed(events.NodeSilent(name=node.name, at=self.now) if is_late else event, master=True)

        self.deliver(node, master, link, tell, end=True)

    def _go_on(self, link: int, since: float) -> None:
        """TCP has tried again on an old link: what was sent into the cut arrives, unless there is another cut."""
        ends = self._ends_of_link.get(link)
        if self._stalled.get(link) != since or (ends and self.is_cut(*ends)):
            return
        del self._stalled[link]
        late = self._undelivered.pop(link, [])
        if any(end for _, _, _, end in late):
            self._silent_since[link] = since
        for sender, receiver, call, end in late:
            self.deliver(sender, receiver, link, call, end=end)

    def _start_silence(self, link: int) -> None:
        """Each side of a link notices the cut by itself: a heartbeat timeout after the last beat that it heard."""
        since = self._stalled[link]
        follower, master = self._ends_of_link[link]
        timeout = self.terms.heartbeat_timeout_s

        def notice(name: str) -> None:
            if self._stalled.get(link) != since or link not in self._ends_of_link:
                return
            node = self.nodes[name]
            if name == master:
                node.feed(events.NodeSilent(name=follower, at=self.now), master=True)
            elif node.link_id == link and node.master:
                node.feed(events.LinkSilent())

        for name in (follower, master):
            heard_before = self.random.uniform(0.0, self._beat_s * 0.9)
            self.later(timeout - heard_before, partial(notice, name))

    def _port_of(self, host: str) -> int:
        return 1 if host == f"host-{self._home}" else 7000 + self._count
