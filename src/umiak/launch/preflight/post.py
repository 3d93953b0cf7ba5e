"""A worker's post in the check: its own seat and everybody else's, read from the contract in its environment. An adapter.

Long lists of endpoints are left out of the environment and stand in the contract's backup file.
"""

from __future__ import annotations

import json

from umiak.contracts import native, paddle
from umiak.core.cluster import ROLES, Role
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LISTS = {Role.SERVER: native.SERVERS, Role.TRAINER: native.TRAINERS, Role.HETER: native.HETERS}
_GLOO = "PADDLE_GLOO_HTTP_ENDPOINT"


@value
class Post:
    """Where one worker of a check stands."""

    node: str
    node_rank: int
    host: str
    role: Role
    rank: int
    key: str
    """Unique on its node, such as ``trainer.0``."""
    endpoint: str
    store: str
    """Where the first trainer opens the framework's store, and here the collector listens."""
    gloo: str
    """Where the first server opens the store of Paddle's barrier; empty: nowhere, or at the store."""
    endpoints: dict[Role, tuple[str, ...]]

    @property
    def collects(self) -> bool:
        """Whether this worker is the collector, too."""
        return self.role is Role.TRAINER and self.rank == 0

    @property
    def doors(self) -> tuple[str, ...]:
        """Where this worker listens, the collector's address aside."""
        return (
            (self.endpoint, self.gloo) if self.gloo and (self.role, self.rank) == (Role.SERVER, 0) else (self.endpoint,)
        )

    @property
    def all_doors(self) -> tuple[str, ...]:
        """Where anybody listens."""
        listed = [endpoint for role in ROLES for endpoint in self.endpoints[role]]
        return tuple(dict.fromkeys([*listed, self.store, *([self.gloo] if self.gloo else [])]))


def read_post(environ: Mapping[str, str]) -> Post:
    """This worker's post."""
    contract = {**_backup(environ), **environ}
    role = Role(contract["UMIAK_ROLE"])
    store, gloo = contract["UMIAK_STORE"], contract.get(_GLOO, "")
    return Post(
        node=contract["UMIAK_NODE"],
        node_rank=int(contract["UMIAK_WORKER_NODE_RANK"]),
        host=contract["POD_IP"].strip("[]"),
        role=role,
        rank=int(contract["UMIAK_RANK"]),
        key=f"{role.value}.{contract['UMIAK_LOCAL_RANK']}",
        endpoint=contract["UMIAK_ENDPOINT"],
        store=store,
        # A collective job may find a person's own setting for Gloo in its environment.
        gloo=gloo if gloo != store and contract.get(native.SERVERS) else "",
        endpoints={
            each: tuple(contract[name].split(",")) if contract.get(name) else () for each, name in _LISTS.items()
        },
    )


def _backup(environ: Mapping[str, str]) -> dict[str, str]:
    if native.TRAINERS in environ:
        return {}
    try:
        with open(environ[paddle.BACKUP_PATH], encoding="utf-8") as file:
            found: dict[str, str] = json.load(file)
    except (KeyError, OSError, ValueError):
        return {}
    return found
