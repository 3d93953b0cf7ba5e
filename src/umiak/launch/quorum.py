"""Who may go on after nodes were lost: the rule that keeps two halves of a job from training at once. A decider.

A *closed* connection is a death: the launcher is gone, and its workers with it. *Silence* may be a cut: the other side
may be alive and training. So, of the nodes of the last generation, leave out those that are known to be dead; of the
rest, the side that goes on must hold more than half, and at exactly half it must hold the first of them in line: the
master, then the others by rank.

Two disjoint sides can't both satisfy this, whatever each of them knows of the dead, as long as only such deaths are
known that were deaths of voters: of nodes that had formed no later generation before they died. `machine` and `votes`
see to that (proof in docs/explanation/never-two-halves.md; tests/laws/test_quorum.py tries to break it).

A generation counts as the last one when all of its nodes have it. Until a node knows that, the rule must hold for the
generation before as well, because some of its nodes may still go by that one: hence several lines. Raft calls this
joint consensus.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from umiak.core.cluster import Cluster


def line_of_succession(cluster: Cluster) -> tuple[str, ...]:
    """The nodes of a generation in the order in which they lead: the master, then by rank."""
    others = (name for name in cluster.names if name != cluster.coordinator)
    return (cluster.coordinator, *others)


def may_go_on(lines: Iterable[Collection[str]], *, here: Collection[str], dead: Collection[str]) -> bool:
    """Whether the nodes that are ``here`` may form the next generation after those with these lines of succession."""
    return all(_has_majority(line, here, dead) for line in lines)


def _has_majority(line: Collection[str], here: Collection[str], dead: Collection[str]) -> bool:
    voters = [name for name in line if name not in dead]
    present = [name for name in voters if name in here]
    if not present:
        return False  # nodes that only stood by can't tell whether others like them go on, too
    if 2 * len(present) != len(voters):
        return 2 * len(present) > len(voters)
    return voters[0] in here
