"""Stories of whole clusters in `tests.support.simulated_cluster`: what happens to the nodes goes in, how the job goes on comes out.

    $ cluster nnodes=2:4 [seed=1] [workers=1] [servers=0]
    $ start a b c                      launchers; the first one ever started is the one that --master names
    $ start d offers=host-x            one with a --host where it does not answer
    $ freeze b 3                       SIGSTOP to the working half of a launcher, and SIGCONT three seconds later
    $ run 10                           ten seconds pass
    $ kill b                           SIGKILL to a launcher
    $ cut a | b c                      nothing gets through between the two groups, and nobody is told
    $ heal                             everything gets through again
    $ fail c [code=3] [key=trainer.0]  a worker fails
    $ finish [a]                       all workers (of one node) end well
    $ signal b 15                      a signal for a launcher
    $ stubborn b                       its workers ignore SIGTERM from now on
    $ show                             every node, and what it does

``run`` tells what can be seen from outside, in order: formations whose workers start, masters, and launchers that end.
A node that is started again bears a dash: a, then a'.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.simulated_cluster import World
from tests.support.simulated_node import SimNode
from tests.support.stories.telling import take_terms
from umiak.core.cluster import Cluster
from umiak.launch import events

STEP_S = 0.05


class ClusterStory:
    """A simulated cluster, and what was seen of it so far."""

    def __init__(self, *plain: str, seed: str = "1", workers: str = "1", servers: str = "0", **given: str) -> None:
        terms = take_terms(plain, given)
        assert not given, f"unknown: {given}"
        self.world = World(terms, seed=int(seed), workers=int(workers), servers=int(servers))
        self._seen_formations: set[tuple[int, tuple[str, ...]]] = set()
        self._seen_ends: set[str] = set()
        self._last_master = ""

    def do_start(
        self, *names: str, rank: str | None = None, host: str | None = None, offers: str | None = None
    ) -> list[str]:
        for name in names:
            self.world.start(name, rank=None if rank is None else int(rank), host=host, offers=offers)
        return []

    def do_freeze(self, name: str, seconds: str) -> list[str]:
        self.world.freeze(name, float(seconds))
        return []

    def do_run(self, seconds: str) -> list[str]:
        until = self.world.now + float(seconds)
        output = []
        while self.world.now < until - 1e-9:
            self.world.run(min(STEP_S, until - self.world.now))
            output += self._news()
        return output

    def do_kill(self, *names: str) -> list[str]:
        for name in names:
            self.world.kill(name)
            self._seen_ends.add(name)
        return []

    def do_cut(self, *words: str) -> list[str]:
        middle = words.index("|")
        self.world.cut(words[:middle], words[middle + 1 :])
        return []

    def do_heal(self) -> list[str]:
        self.world.heal()
        return []

    def do_fail(self, name: str, code: str = "1", key: str | None = None) -> list[str]:
        node = self.world.nodes[name]
        if key is not None:  # the simulation lets the first one fail
            node.workers = {key: node.workers.pop(key), **node.workers}
        node.fail_worker(int(code))
        return []

    def do_finish(self, *names: str) -> list[str]:
        for name in names or tuple(self.world.nodes):
            self.world.nodes[name].finish_workers()
        return []

    def do_signal(self, name: str, number: str) -> list[str]:
        self.world.nodes[name].feed(events.SignalReceived(number=int(number)))
        return []

    def do_stubborn(self, *names: str) -> list[str]:
        for name in names:
            self.world.nodes[name].stubborn = True
        return []

    def do_show(self) -> list[str]:
        return [f"{node.name}: {_state(node)}" for node in self.world.nodes.values()]

    def do_said(self, name: str, count: str = "1") -> list[str]:
        """The last lines that a node printed."""
        return list(self.world.nodes[name].said[-int(count) :])

    def _news(self) -> list[str]:
        """What has changed since the last look."""
        return [*self._new_ends(), *self._new_masters(), *self._new_formations(self.world.running().values())]

    def _new_ends(self) -> list[str]:
        lines = []
        for node in self.world.nodes.values():
            if not node.alive and node.name not in self._seen_ends:
                self._seen_ends.add(node.name)
                words = ": " + node.words.replace("\n", " / ") if node.words else ""
                lines.append(f"{node.name} ends with {node.exit_status}{words}")
        return lines

    def _new_masters(self) -> list[str]:
        leaders = [node.name for node in self.world.nodes.values() if node.alive and node.coordinator]
        lines = [f"{name} leads" for name in leaders if name not in self._last_master.split()]
        self._last_master = " ".join(leaders)
        return lines

    def _new_formations(self, clusters: Iterable[Cluster]) -> list[str]:
        lines = []
        for cluster in clusters:
            if (cluster.generation, cluster.names) not in self._seen_formations:
                self._seen_formations.add((cluster.generation, cluster.names))
                restarts = f", restart {cluster.restarts}" if cluster.restarts else ""
                lines.append(f"generation {cluster.generation} starts: {' '.join(cluster.names)}{restarts}")
        return lines


def _state(node: SimNode) -> str:
    if not node.alive:
        return "killed" if node.exit_status is None else f"ended with {node.exit_status}"
    leads = ", leads" if node.coordinator else f", follows {node.master}" if node.master else ""
    if node.workers and node.cluster:
        keys = " ".join(sorted(node.workers))
        rank = node.cluster.node_rank(node.name)
        return f"runs {keys} of generation {node.cluster.generation} as node {rank}{leads}"
    return f"{node.machine.phase.value}{leads}"
