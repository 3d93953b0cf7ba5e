"""What a cloud's API of machines can do, and a machine as the cloud tells of it. Values.

MachinesApi   the protocol: list by tags, price, create, release now or later, images
RentedMachine       one machine, with its cloud's word for the state
Wanted        a request for machines that was sent, or is about to be: its token makes it count once
"""

from __future__ import annotations

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol
else:
    Protocol = object  # importing typing takes longer than a command may

TAG_GROUP, TAG_OWNER, TAG_RUN = "umiak", "umiak-user", "umiak-run"
RUNNING = "Running"
GONE_WORDS = ("Deleted", "Recycled")
BAD_WORDS = ("Error", "Expired")


@value
class RentedMachine:
    """One machine. Times are seconds since 1970."""

    id: str
    group: str
    owner: str
    run: str
    """The token of the request that made it."""
    word: str
    name: str = ""
    internal: str = ""
    public: str = ""
    spec: str = ""
    zone: str = ""
    created_s: float | None = None
    release_s: float | None = None
    """When the cloud releases it by itself; None: never."""

    @property
    def is_there(self) -> bool:
        """Whether it may cost something."""
        return self.word not in GONE_WORDS

    @property
    def is_usable(self) -> bool:
        """Whether it runs, or will."""
        return self.is_there and self.word not in BAD_WORDS


@value
class Wanted:
    """One request for machines."""

    token: str
    count: int
    sent_s: float


@value
class MachineImage:
    """An image of a machine's disk."""

    id: str
    name: str
    word: str


class MachinesApi(Protocol):
    """One cloud in one region. Every method sends requests, and raises `CloudFailure`; it tries nothing again."""

    def list(self, group: str | None = None) -> Sequence[RentedMachine]:
        """The machines that umiak has made, of one group or of all."""

    def price(self, spec: str, zone: str) -> float | None:
        """Of one machine, for an hour; None: it is not told."""

    def create(self, wanted: Wanted) -> Sequence[str]:
        """Their ids. The same token again: the same machines."""

    def release_at(self, machine_id: str, when_s: float) -> None:
        """Let the cloud release it then, whatever happens here."""

    def release(self, machine_id: str) -> None:
        """Release it now, with its disks and its public address."""

    def images(self, name: str) -> Sequence[MachineImage]:
        """The account's own images of this very name."""

    def make_image(self, machine_id: str, name: str, token: str) -> str:
        """Begin an image; its id."""
