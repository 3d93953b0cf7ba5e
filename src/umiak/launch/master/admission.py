"""Who may join a job, and where a node sits in it, by what the master knows. A decider.

A node's *home* is the rank that it would have if everyone were there. It keeps it while others come and go,
so ranks stay as stable as they can be, and a node that comes back sits where it sat.
"""

from __future__ import annotations

from umiak.launch.protocol import Refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.launch.protocol import Join, Offer, Terms


def refusal(join: Join, terms: Terms, members: Sequence[Offer], present: Sequence[Offer]) -> Refuse | None:
    """Why this node can't take part, if it can't. ``present`` are those members that do not just stand by."""
    return _other_job(join, terms) or _bad_rank(join.offer, terms, members) or _surplus(terms, present)


def _other_job(join: Join, terms: Terms) -> Refuse | None:
    """Nodes whose terms differ would disagree later: about who is lost, how long to wait, what to do next."""
    theirs, ours = _flags(join.terms), _flags(terms)
    differences = [
        f"{flag} {theirs[flag]} here, {value} on the master" for flag, value in ours.items() if theirs[flag] != value
    ]
    if not differences:
        return None
    is_other = any(text.startswith(("--job_id", "--run_mode", "--nnodes")) for text in differences)
    return Refuse(
        text=f"the master runs {'another job' if is_other else 'this job with other flags'}: {'; '.join(differences)}",
        code="UM-MEET-006",
        hint="start every node with the same command",
        exit_status=2,
    )


def _flags(terms: Terms) -> dict[str, str]:
    """What must be equal on all nodes, by flag.
    How long a node waits for a master is its own affair, and ``--sort_ip`` acts on the master alone.
    """
    return {
        "--job_id": terms.job_id,
        "--run_mode": terms.mode.value,
        "--nnodes": _range(terms),
        "--max_restart": f"{terms.max_restart}{'' if terms.restart_wanted else ' (not asked for)'}",
        "--elastic_level": str(terms.elastic_level),
        "--elastic_timeout": f"{terms.elastic_timeout_s:g}",
        "--heartbeat_timeout": f"{terms.heartbeat_timeout_s:g}",
        "--failure_grace": f"{terms.failure_grace_s:g}",
        "--grace": f"{terms.grace_s:g}",
        "--trainer_restart": terms.trainer_restart.value,
        "--lost_at_start": "fail" if terms.fails_at_start else "wait",
        "the fence": f"{terms.fence_s:g} s",
        "the time to settle": f"{terms.settle_s:g} s",
    }


def unreachable(offer: Offer, why: str) -> Refuse:
    """A node whose launcher does not answer where it says it is:
    the others could not tell its death from its absence.
    """
    return Refuse(
        text=f"the launcher of this node does not answer at its address {offer.host} port {offer.link_port}: {why}",
        code="UM-MEET-010",
        hint="name an address of this node that the others reach with --host or POD_IP, or open the port",
        exit_status=3,
    )


def name_taken(offer: Offer) -> Refuse:
    """Another launcher of the job has this name: names are random, so somebody pretends."""
    return Refuse(text=f"node {offer.name} is in this job already, at another address", code="UM-MEET-011")


def _bad_rank(offer: Offer, terms: Terms, members: Sequence[Offer]) -> Refuse | None:
    if offer.rank is None:
        return None
    if offer.rank >= terms.most:
        text = f"--rank {offer.rank} is too large for {terms.most} nodes"
        return Refuse(text=text, code="UM-MEET-007", exit_status=2)
    for other in members:
        if other.rank == offer.rank:
            both = f"{other.host} ({other.name}) and {offer.host} ({offer.name})"
            hint = "give each node another --rank, or none at all"
            text = f"two nodes ask for rank {offer.rank}: {both}"
            return Refuse(text=text, code="UM-MEET-007", hint=hint, exit_status=2)
    return None


def _surplus(terms: Terms, present: Sequence[Offer]) -> Refuse | None:
    if terms.elastic or len(present) < terms.most:
        return None
    return Refuse(
        text=f"the job has its {terms.most} nodes already: {', '.join(offer.host for offer in present)}",
        code="UM-MEET-008",
        hint=f"use --nnodes {terms.most}:{terms.most + 1} if a further node should stand by",
    )


def home_for(
    offer: Offer, *, taken: set[int], left: Sequence[tuple[str, int]], is_master: bool, master_here: bool
) -> int:
    """The home of a node that joins. ``left``: hosts and homes of nodes that are gone, and may come back."""
    if offer.rank is not None:
        return offer.rank
    for host, home in left:
        if host == offer.host and home not in taken:
            return home
    # The master sits first; the others keep off its place, and off the places of those who may come back.
    kept = {home for _, home in left} | (set() if is_master or master_here else {0})
    homes = range(len(taken) + len(kept) + 1)
    free = [home for home in homes if home not in taken]
    return next((home for home in free if home not in kept), free[0])


def in_rank_order(seated: Sequence[tuple[Offer, int]], *, by_address: bool) -> list[str]:
    """The names of these nodes in rank order: ranks that were asked for are kept,
    the others follow by home or address.
    """
    asked = {offer.rank: offer.name for offer, _ in seated if offer.rank is not None and offer.rank < len(seated)}
    others = [(offer, home) for offer, home in seated if offer.name not in asked.values()]
    others.sort(key=lambda pair: (_address_order(pair[0].host) if by_address else (pair[1],), pair[0].name))
    rest = iter(offer.name for offer, _ in others)
    return [asked[rank] if rank in asked else next(rest) for rank in range(len(seated))]


def _address_order(host: str) -> tuple[int, ...]:
    """IPv4 addresses by their number, anything else after them by its letters."""
    parts = host.split(".")
    if len(parts) == 4 and all(part.isdecimal() for part in parts):
        return (0, *(int(part) for part in parts))
    return (1, *host.encode())


def _range(terms: Terms) -> str:
    return str(terms.most) if terms.least == terms.most else f"{terms.least}:{terms.most}"
