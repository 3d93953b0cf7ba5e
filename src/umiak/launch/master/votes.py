"""What a master knows of the nodes of the last generation, and whether the ones that are here may go on. A decider.

    votes = Votes(lead)
    votes.lost("c", dead=False)
    votes.may_go_on(here={"a", "b"})

A node is here, dead, silent (it may be alive and training), or awaited: a master that has just taken over does not know
yet. The rule itself is `quorum`; what is kept here are the lines of succession that it must hold for, and who has
accepted the last one.
"""

from __future__ import annotations

from umiak.launch import quorum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from umiak.core.cluster import Cluster
    from umiak.launch.events import Lead

Line = tuple[str, ...]


class Votes:
    """The nodes that count for the next formation."""

    def __init__(self, lead: Lead) -> None:
        self.dead: set[str] = set(lead.dead)
        self.silent: set[str] = set(lead.silent)
        self.awaited: set[str] = set()
        self.basis: tuple[Line, ...] = lead.basis
        """Earlier lines of succession, which count as well until all nodes have accepted the last formation."""
        self._line: Line = quorum.line_of_succession(lead.previous) if lead.previous else ()
        self._reachable = frozenset(lead.reachable)
        self._refusals_count_until = lead.refusals_count_until
        self._unaccepted: set[str] = set()

    def may_go_on(self, here: Collection[str]) -> bool:
        """Whether these nodes may form the next generation; before the first one everybody may."""
        return quorum.may_go_on(self._lines, here=here, dead=self.dead)

    def missing(self, here: Collection[str]) -> list[str]:
        """Nodes that may be alive and are not here."""
        return sorted({name for line in self._lines for name in line} - self.dead - {*here})

    def await_all_but(self, here: Collection[str]) -> None:
        """After a take-over: a node that is not known to be lost may come."""
        self.awaited = {*self.missing(here)} - self.silent

    def stop_waiting(self) -> None:
        """A node that has not come by now counts as silent."""
        self.silent |= self.awaited
        self.awaited.clear()

    def lost(self, name: str, *, dead: bool) -> None:
        """This node's connection was closed, or it fell silent; who is dead can't fall silent."""
        self.awaited.discard(name)
        if dead:
            self.dead.add(name)
            self.silent.discard(name)
        elif name not in self.dead:
            self.silent.add(name)

    def is_before(self, name: str, other: str) -> bool:
        """Whether this node stands in line before the other one."""
        line = self._line
        return name in line and (other not in line or line.index(name) < line.index(other))

    def silent_before(self, name: str) -> list[str]:
        """Who stands in line before this node and may be alive."""
        return (
            [each for each in self._line if each in self.silent and self.is_before(each, name)]
            if name in self._line
            else []
        )

    def refused(self, name: str, now: float) -> None:
        """Nobody answers at this node's address any more. Only where it has answered before does that say anything.

        Its launcher is gone; but it counts as dead only if it can't have formed a later generation before.
        """
        if name in self._reachable:
            self.lost(name, dead=now < self._refusals_count_until)

    def came(self, name: str) -> None:
        """This node is here."""
        for group in (self.dead, self.silent, self.awaited):
            group.discard(name)

    def learned_of(self, cluster: Cluster, basis: tuple[Line, ...]) -> None:
        """Another master has formed this generation, and some of its nodes have it:
        now it counts, and what was before it.
        """
        self._line = quorum.line_of_succession(cluster)
        self.basis = basis
        # Who died as a voter of the generation before may have voted in this one.
        self.silent |= self.dead
        self.dead.clear()

    def formed(self, cluster: Cluster) -> None:
        """This formation is the last one now, and the earlier ones count until everybody has it."""
        earlier = [tuple(name for name in line if name not in self.dead) for line in self._lines]
        self._line = quorum.line_of_succession(cluster)
        # The same nodes in the same order make the same rule: then nothing is to be agreed upon.
        self.basis = tuple(line for line in dict.fromkeys(earlier) if line not in ((), self._line))
        self._unaccepted = {*self._line}
        self.dead.clear()
        self.silent.clear()

    def accepted(self, name: str) -> bool:
        """This node has the last formation.
        Whether it was the last one to accept it, so that earlier ones do not count.
        """
        self._unaccepted.discard(name)
        if not self.basis or self._unaccepted:
            return False
        self.basis = ()
        return True

    @property
    def _lines(self) -> tuple[Line, ...]:
        return (self._line, *self.basis) if self._line else self.basis
