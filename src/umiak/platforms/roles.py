"""Jobs whose nodes have roles: from named groups of hosts to one rank order. A decider.

Platforms name their groups in their own words (ps, server, worker, chief, ...). Servers get the first ranks, then
trainers, then heter workers; a chief or master is trainer 0. Groups that watch a job without training in it
(evaluator, scheduler) are not counted, and a launcher that finds itself in one is told so.

Where a platform lists hosts without ports and there are servers, each role gets a fixed port, the same on every host:
every node must know every endpoint before anybody has talked. Without servers no endpoint needs to be fixed, and the
first host's port, if it has one, is where the nodes meet.
"""

from __future__ import annotations

from umiak.core.cluster import ROLES, Placement, Role, join_host_port
from umiak.core.names import DefaultPort
from umiak.platforms.reading import master_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.platforms.reading import Reader

PORTS = {Role.SERVER: 1, Role.TRAINER: 3, Role.HETER: 5}
"""The port of a server, a trainer and a heter worker, where the platform gives none, counted from where the nodes meet;
each has the next one to spare.
"""

PORTS_TAKEN = 8
"""By a job, with some to spare."""

WORDS = {
    Role.SERVER: ("ps", "pserver", "server", "parameter_server"),
    Role.TRAINER: ("chief", "master", "worker", "trainer"),
    Role.HETER: ("heter", "heter_worker", "heter_trainer"),
}
"""What platforms call a role; within a role, groups take their ranks in this order."""

BYSTANDERS = ("evaluator", "scheduler", "tensorboard")


def role_of(group: str) -> Role | None:
    """The role that a group's name stands for: ``PS``, ``worker``, ``workers``; ``None`` if it is no word we know."""
    word = _word(group)
    return next((role for role, words in WORDS.items() if word in words), None)


def place(
    reader: Reader,
    groups: Mapping[str, tuple[str, ...]],
    *,
    own: str,
    index: int,
    names: tuple[str, str, str],
    reason: str,
    job_id: str | None = None,
    host: str | None = None,
    first_port: int = DefaultPort.MASTER,
) -> Placement:
    """The placement of member ``index`` of group ``own``.

    Where there are servers, nodes meet at ``first_port``, and the ports of roles follow.
    ``names`` are the variables to blame: for the own group, for the index in it, for the hosts.
    """
    own_from, index_from, hosts_from = names
    if _takes_part(reader, groups, own, own_from) and index >= len(groups[own]):
        reader.wrong("004", index_from, f"no number {index} in group {own}: it has {len(groups[own])} members")

    seats = _seats(groups)
    rank = next((rank for rank, (_, *seat, _) in enumerate(seats) if seat == [own, index]), None)
    parts = [reader.host_port(item, hosts_from) for *_, item in seats]
    hosts = tuple(name for name, _ in parts)
    endpoints: dict[Role, list[str]] = {role: [] for role in ROLES}
    for (role, *_), (name, port) in zip(seats, parts, strict=True):
        endpoints[role].append(join_host_port(name, port or first_port + PORTS[role]))
    has_roles = bool(endpoints[Role.SERVER] or endpoints[Role.HETER])

    placement = Placement(
        platform=reader.platform,
        reason=reason,
        nodes=len(seats),
        rank=rank,
        hosts=hosts,
        master=master_endpoint(hosts[0], first_port if has_roles else parts[0][1] or first_port) if hosts else None,
        host=host or (None if rank is None else hosts[rank]),
        job_id=job_id,
        role=seats[rank][0] if has_roles and rank is not None else None,
        server_endpoints=tuple(endpoints[Role.SERVER]),
        trainer_endpoints=tuple(endpoints[Role.TRAINER]) if has_roles else (),
        heter_endpoints=tuple(endpoints[Role.HETER]),
    )
    return reader.settle(placement, rank=index_from, nodes=hosts_from, hosts=hosts_from)


def _takes_part(reader: Reader, groups: Mapping[str, tuple[str, ...]], own: str, where: str) -> bool:
    known = role_of(own) is not None or (len(groups) == 1 and _word(own) not in BYSTANDERS)
    if own in groups and known:
        return True
    if _word(own) in BYSTANDERS:
        hint = "give this node a command of its own; its peers train without it"
        reader.wrong("010", where, f"this node is not part of the training job, its role is: {own}", hint=hint)
    elif own not in groups:
        reader.wrong("010", where, f"this node's role has no hosts: {own}", why=f"hosts have: {', '.join(groups)}")
    else:
        words = ", ".join(word for words in WORDS.values() for word in words)
        reader.wrong("010", where, f"expected a role that umiak knows, got {own}", hint=f"call it one of: {words}")
    return False


def _seats(groups: Mapping[str, tuple[str, ...]]) -> list[tuple[Role, str, int, str]]:
    """(role, group, number in the group, host) of all who take part, in rank order."""
    lone = Role.TRAINER if len(groups) == 1 else None
    ranked = sorted(
        (ROLES.index(role), WORDS[role].index(_word(group)) if role_of(group) else 0, group)
        for group in groups
        if (role := role_of(group) or lone) is not None
    )
    return [
        (ROLES[place], group, number, item) for place, _, group in ranked for number, item in enumerate(groups[group])
    ]


def _word(group: str) -> str:
    word = group.lower().replace("-", "_")
    singular = word.removesuffix("s")
    return singular if word not in WORDS[Role.SERVER] and any(singular in words for words in WORDS.values()) else word
