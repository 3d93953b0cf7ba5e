"""The nodes that are connected to a master, as it sees them: who takes part, who stands by, who sits where.
A decider.
"""

from __future__ import annotations

from umiak.core.cluster import Node
from umiak.core.value import from_fields
from umiak.launch.master import admission

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.core.cluster import Cluster
    from umiak.launch.protocol import Finish, Offer


class Member:
    """One connected node."""

    def __init__(self, offer: Offer, home: int) -> None:
        self.offer = offer
        self.home = home
        self.standby = False
        self.leaving = False
        self.farewell: Finish | None = None
        self.ready = False
        self.done = False
        self.idle = True  # no worker of any generation lives there

    def node(self) -> Node:
        """Its place in a formation."""
        return from_fields(Node, self.offer, home=self.home)


class Roster:
    """All members by name. Who takes part is found again only after somebody came, went or was called up."""

    def __init__(self, previous: Cluster | None) -> None:
        self._members: dict[str, Member] = {}
        self._active: list[Member] | None = None
        self._left = [(node.host, node.home) for node in previous.nodes] if previous else []

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> Member:
        return self._members[name]

    def __iter__(self) -> Iterator[Member]:
        return iter([*self._members.values()])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    @property
    def active(self) -> list[Member]:
        """Those who take part, or will."""
        if self._active is None:
            self._active = [member for member in self._members.values() if not member.standby]
        return self._active

    @property
    def standing_by(self) -> list[Member]:
        return [member for member in self._members.values() if member.standby]

    def add(self, offer: Offer, last: Cluster | None, *, master: str) -> Member:
        """A node comes. In the last formation it had a home already, or it gets one."""
        if last and offer.name in last.names:
            home = last.node(offer.name).home
        else:
            taken = {member.home for member in self._members.values()}
            is_master, here = offer.name == master, master in self._members
            home = admission.home_for(offer, taken=taken, left=self._left, is_master=is_master, master_here=here)
        member = self._members[offer.name] = Member(offer, home)
        self._active = None
        return member

    def remove(self, name: str) -> Member:
        """A node is gone; its home is kept for it."""
        member = self._members.pop(name)
        self._left.append((member.offer.host, member.home))
        self._active = None
        return member

    def stand_by(self, member: Member, *, standby: bool) -> None:
        member.standby = standby
        self._active = None

    def is_name_taken(self, offer: Offer) -> bool:
        """Whether a node at another address takes part under this name."""
        known = self._members.get(offer.name)
        return known is not None and (known.offer.host, known.offer.link_port) != (offer.host, offer.link_port)
