"""A worker of the check: its seat, and where everybody listens, from its environment and its contract's backup file.
An adapter.
"""

from __future__ import annotations

import json

from umiak.contracts import native, paddle, seat
from umiak.core.cluster import ROLES, Role, Seat
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@value
class CheckWorker:
    """One worker of a check, and where all of them listen."""

    seat: Seat
    store: str
    """Where the first trainer opens the framework's store, and here the collector listens."""
    gloo: str
    """Where the first server opens the store of Paddle's barrier; empty: nowhere, or at the store."""
    endpoints: dict[Role, tuple[str, ...]]

    @property
    def collects(self) -> bool:
        """Whether this worker is the collector, too."""
        return self.seat.role is Role.TRAINER and self.seat.rank == 0

    @property
    def doors(self) -> tuple[str, ...]:
        """Where this worker listens, the collector's address aside."""
        own = self.seat.endpoint
        return (own, self.gloo) if self.gloo and (self.seat.role, self.seat.rank) == (Role.SERVER, 0) else (own,)

    @property
    def all_doors(self) -> tuple[str, ...]:
        """Where anybody listens."""
        listed = [endpoint for role in ROLES for endpoint in self.endpoints[role]]
        return tuple(dict.fromkeys([*listed, self.store, *([self.gloo] if self.gloo else [])]))


def read_worker(environ: Mapping[str, str]) -> CheckWorker:
    """This worker. Long lists of endpoints are left out of the environment and stand in the backup."""
    contract = {**_backup(environ), **environ}
    seat_here = seat.read(contract).found
    assert seat_here is not None  # its launcher said it
    gloo = contract.get(paddle.GLOO_ENDPOINT, "")
    return CheckWorker(
        seat=seat_here.seat,
        store=seat_here.store,
        # A collective job may find a person's own setting for Gloo in its environment.
        gloo=gloo if gloo != seat_here.store and seat_here.servers else "",
        endpoints=dict(seat_here.endpoints),
    )


def _backup(environ: Mapping[str, str]) -> dict[str, str]:
    if native.TRAINERS in environ:
        return {}
    try:
        with open(environ[paddle.BACKUP_PATH], encoding="utf-8") as file:
            backup: dict[str, str] = json.load(file)
    except (KeyError, OSError, ValueError):
        return {}
    return backup
