"""What a launcher that leads answers to another one that says it leads, too. A pure decider.

A node that lost its master and finds nobody who is before it in line calls the old master, those before it in line, and
the job's first address: it says which generation it knows, whether it has formed that itself, which takes a majority,
and whether it has a majority for the next one. The node that leads there compares:

    nothing was formed here                         go there, with everyone who came
    the caller has not formed its generation        the job goes on here; the caller may join here
    nor was it formed here, both have taken over    who knows a later generation goes on; if neither does, who has a
                                                    majority; if nobody has, who is before the other in line
    the caller's side formed a newer generation     this side was cut off: it ends
    the caller's job is another one (lineage)       believed only if it has proved the token, or is on this machine

So a node that was cut off can't end a job that went on without it. Two sides of one lineage never form the same
generation (`quorum`), so the comparison has one answer on both sides. Two nodes may take over after one outage, because
one of them asked the other too early: they find each other, so that the nodes that came to the one and to the other add
up.
"""

from __future__ import annotations

from enum import Enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.cluster import Cluster
    from umiak.launch.events import TakeoverCalled


class Reply(str, Enum):
    """What follows from the call."""

    IGNORE = "ignore"
    COME_HERE = "come-here"
    """The job goes on here; the caller is told so."""
    GO_THERE = "go-there"
    """Nothing runs here: all nodes go to the caller."""
    GIVE_WAY = "give-way"
    """The job went on at the caller's: what runs here stops at once."""


def reply(call: TakeoverCalled, own: Cluster | None, *, formed: bool, ready: bool, first: bool) -> Reply:
    """The answer of a launcher that leads after this generation, and has formed it itself or only taken over.

    ``ready``: it has a majority for the next one. ``first``: it stands in line before the caller.
    """
    if own is None:
        return Reply.GO_THERE
    if call.lineage != own.lineage:
        return Reply.GIVE_WAY if formed and call.formed and call.proven else Reply.IGNORE
    if formed:
        return Reply.GIVE_WAY if call.formed and call.generation > own.generation else Reply.COME_HERE
    if call.generation > own.generation:
        return Reply.GO_THERE
    if call.formed:
        return Reply.IGNORE
    is_ahead = call.generation < own.generation or ready or (first and not call.ready)
    return Reply.COME_HERE if is_ahead else Reply.IGNORE
