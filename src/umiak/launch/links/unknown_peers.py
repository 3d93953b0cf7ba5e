"""How many connections that have proved nothing yet may be open, and which of them has to go.
A decider, for `launch.links.handshake`.

A *stranger* is a connection that has proved nothing yet. A crowd of them must not use up the descriptors that workers
and other nodes need, nor the memory. So the room for them is a share of what this process may open; when it is full,
the one that has been there longest goes, if it had time to prove itself, and else nobody more is let in for a moment.

    room = room_for(open_files=1024, workers=8, nodes=16)
    unknown_peers = UnknownPeers(room.unknown_peers)
"""

from __future__ import annotations

from umiak.core.value import value

OWN_FILES = 64
"""What a launcher has open beside its workers and its links, and some more."""
FILES_FOR_EACH_WORKER = 8
"""Its output, its log, its end, its port, and what is open for a moment while it is started."""
MOST_STRANGERS = 512
FEWEST = 4
TIME_TO_PROVE_S = 0.25
"""A stranger that has been there for less is not sent away in favour of the next one."""


@value
class Room:
    """How many connections from others a listener keeps open."""

    unknown_peers: int = MOST_STRANGERS
    links: int = 4096
    """Connections that have proved themselves."""


def room_for(*, open_files: int, workers: int, nodes: int) -> Room:
    """The room in a process that may open so many files, runs so many workers, and meets so many nodes."""
    rest = open_files - OWN_FILES - FILES_FOR_EACH_WORKER * workers
    unknown_peers = max(FEWEST, min(MOST_STRANGERS, rest // 4))
    return Room(unknown_peers=unknown_peers, links=max(FEWEST, min(rest - unknown_peers, 2 * nodes + OWN_FILES)))


class UnknownPeers:
    """Who is there, since when."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._since: dict[object, float] = {}  # who came first stands first

    def __len__(self) -> int:
        return len(self._since)

    def enter(self, who: object, now: float) -> None:
        self._since[who] = now

    def leave(self, who: object) -> None:
        """It has proved itself, or it is gone; one that is not there may leave as well."""
        self._since.pop(who, None)

    @property
    def is_full(self) -> bool:
        return len(self._since) >= self.most

    def first_to_go(self, now: float) -> object | None:
        """The one that has been there longest, if it had time to prove itself."""
        for who, since in self._since.items():
            return who if now - since >= TIME_TO_PROVE_S else None
        return None
