"""Volcano Engine's machine learning platform: roles, hosts *and* ports, the most complete contract of all. A decider.

MLP_ROLE and MLP_ROLE_INDEX say who this is; for every role there are MLP_<ROLE>_NUM, MLP_<ROLE>_ALL_HOSTS and, for
each member, MLP_<ROLE>_<i>_HOST and MLP_<ROLE>_<i>_PORT. Roles are WORKER, CHIEF, PS, SERVER, SCHEDULER, EVALUATOR.

Trap: with RDMA a node has two addresses. MLP_HOST and the lists agree on the fast one; MLP_PRIMARY_HOST is the other.
"""

from __future__ import annotations

from umiak.core.cluster import join_host_port
from umiak.platforms import roles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.cluster import Placement
    from umiak.platforms.reading import Reader

ROLES = ("PS", "SERVER", "CHIEF", "WORKER", "SCHEDULER", "EVALUATOR")


def place(reader: Reader) -> Placement | None:
    """A container of a custom training task."""
    own = (reader.text("MLP_ROLE") or "").upper()
    groups = {role.lower(): members for role in dict.fromkeys((*ROLES, own)) if (members := _members(reader, role))}
    return roles.place(
        reader,
        groups,
        own=own.lower(),
        index=reader.needed("MLP_ROLE_INDEX"),
        names=("MLP_ROLE", "MLP_ROLE_INDEX", f"MLP_{own}_ALL_HOSTS"),
        reason=f"{own} {reader.reason('MLP_ROLE_INDEX', f'MLP_{own}_NUM')}",
        job_id=reader.text("MLP_TASK_ID"),
        host=reader.text("MLP_HOST"),
    )


def _members(reader: Reader, role: str) -> tuple[str, ...]:
    """The members of a role as ``host:port``, or as hosts where ports are missing."""
    count = reader.number(f"MLP_{role}_NUM") or 0
    listed = reader.items(f"MLP_{role}_ALL_HOSTS")
    if listed and len(listed) != count:
        reader.wrong(
            "005", f"MLP_{role}_ALL_HOSTS", f"{len(listed)} hosts are listed, but MLP_{role}_NUM says: {count}"
        )
    members: list[str] = []
    for number in range(count):
        host = reader.text(f"MLP_{role}_{number}_HOST") or (listed[number] if number < len(listed) else None)
        port = reader.port(f"MLP_{role}_{number}_PORT")
        if host is None:
            reader.wrong("011", f"MLP_{role}_{number}_HOST", f"not set, but MLP_{role}_NUM says: {count}")
        else:
            members.append(host if port is None else join_host_port(host, port))
    return tuple(members)
