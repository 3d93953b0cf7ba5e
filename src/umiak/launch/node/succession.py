"""Finding the next master without a person: a small pure decider that walks the line of succession.

The nodes of a generation all know its line: the master, then the others by rank. When the master is lost, every node
asks the first one left; who is first itself leads. One that refuses is dead, unless that comes late (`machine`); one
that does not answer may be cut off. Both are remembered, because the node that leads in the end must know them to apply
the rule of `quorum`.
"""

from __future__ import annotations

from umiak.core.cluster import Cluster, Node
from umiak.launch import quorum
from umiak.launch.events import Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


FIRST_IN_LINE = 4
"""So many nodes call all others once, and are called by all others: one of them would lead if the master were lost."""
FEW_NODES, CALL_WITHIN_S = 8, 2.0
"""In larger jobs nodes do not call one another while the workers start, nor all at once."""


def calls_after_s(cluster: Cluster, name: str) -> float:
    """How long after a formation this node calls the others."""
    if len(cluster.nodes) <= FEW_NODES:
        return 0.0
    return CALL_WITHIN_S * (1 + cluster.node_rank(name) / len(cluster.nodes))


def to_call(cluster: Cluster, name: str, known: Collection[tuple[str, int]]) -> tuple[Probe, ...]:
    """The launchers that must have answered this node before their refusal counts as their death."""
    line = quorum.line_of_succession(cluster)
    nodes = [cluster.node(member) for member in (line if name in line[:FIRST_IN_LINE] else line[:FIRST_IN_LINE])]
    return tuple(
        Probe(name=node.name, host=node.host, port=node.link_port)
        for node in nodes
        if node.name != name and (node.host, node.link_port) not in known
    )


class Search:
    """One node's walk along the line of succession of a generation."""

    def __init__(self, cluster: Cluster, basis: tuple[tuple[str, ...], ...] = ()) -> None:
        self.cluster = cluster
        self.basis = basis
        """Earlier lines of succession that count as well."""
        self.called: str | None = None
        """The candidate that was called last; None: another address, where a node pointed."""
        self.until = 0.0
        """So long a node may still point to a lost master."""
        self._line = list(quorum.line_of_succession(cluster))
        self._lines = (self._line, *basis)
        self._dead: list[str] = []
        self._silent: list[str] = []

    @property
    def candidate(self) -> Node | None:
        """Who should lead next, as far as this node knows; None if nobody of the line is left."""
        lost = {*self._dead, *self._silent}
        name = next((name for name in self._line if name not in lost), None)
        return None if name is None else self.cluster.node(name)

    @property
    def is_hopeless(self) -> bool:
        """Whether this node's side could not go on even if everyone came who was not found to be out of reach."""
        within_reach = [name for line in self._lines for name in line if name not in self._silent]
        return not quorum.may_go_on(self._lines, here=within_reach, dead=self._dead)

    @property
    def dead(self) -> tuple[str, ...]:
        return tuple(self._dead)

    @property
    def silent(self) -> tuple[str, ...]:
        return tuple(self._silent)

    @property
    def hosts_out_of_reach(self) -> tuple[str, ...]:
        return tuple(self.cluster.node(name).host for name in self._silent)

    def lost(self, name: str, *, dead: bool) -> None:
        """This node is known to be gone, or it is out of reach."""
        (self._dead if dead else self._silent).append(name)

    def found(self, name: str) -> None:
        """This node was reached after all: the way to it was cut, and is not any more."""
        self._dead = [lost for lost in self._dead if lost != name]
        self._silent = [lost for lost in self._silent if lost != name]

    def name_at(self, address: tuple[str, int] | None) -> str | None:
        """Which node of the generation is reached at this address, if it is one of them."""
        return next((node.name for node in self.cluster.nodes if (node.host, node.link_port) == address), None)

    def is_lost(self, address: tuple[str, int]) -> bool:
        """Whether the node at this address is one that this node could not reach, or found dead."""
        return self.name_at(address) in {*self._dead, *self._silent}
