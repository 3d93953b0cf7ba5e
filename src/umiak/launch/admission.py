"""Who may join a job, and where a node sits in it: pure functions of what the master knows.

A node's *home* is the rank that it would have if everyone were there. It keeps it while others come and go, so ranks stay as stable
as they can be, and a node that comes back sits where it sat.
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
    theirs = join.terms
    differences = [
        f"{flag} {their_value} here, {value} on the master"
        for flag, their_value, value in (
            ("--job_id", theirs.job_id, terms.job_id),
            ("--run_mode", theirs.mode.value, terms.mode.value),
            ("--nnodes", _range(theirs), _range(terms)),
        )
        if their_value != value
    ]
    if not differences:
        return None
    return Refuse(
        text=f"the master runs another job: {'; '.join(differences)}",
        code="UM-MEET-006",
        hint="start every node with the same command",
        exit_status=2,
    )


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
    """The names of these nodes in rank order: ranks that were asked for are kept, the others follow by home or address."""
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
