"""How a job is, from what each of its hosts says. A decider.

The rule. A host that can't be reached is not over, until that has lasted as long as the place allows (``lost_after``);
then it is lost, as is one that was restarted or has lost the run's files. A job is over when all of its hosts are, or
when one has failed and all others are over or can't be reached. It has failed if a node has failed, else it is lost if
a node is, else cancelled if one was, and succeeded if all have. Until then it is what most concerns a person: stopping,
restarting, starting, queued, running, in this order. The exit code is that of the node that failed first. Hosts that
are lost or can't be reached are always named.

Of an elastic job, hosts that are gone or can't be reached don't count while any other is known:
those go on without them. It has succeeded if a host has, because launchers end well only when the whole job is done.
"""

from __future__ import annotations

from umiak.core.status import JobStatus, NodeStatus, State
from umiak.core.value import replace, value
from umiak.submit.states import end_of_node, outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_UNFINISHED = (State.STOPPING, State.RESTARTING, State.STARTING, State.QUEUED, State.RUNNING)
_NAMED = 8
"""So many hosts are named in a reason; the table of nodes has all."""


@value
class HostOutput:
    """What is known of one host."""

    label: str
    status: JobStatus | None = None
    """None: see the next two."""
    unreachable: str = ""
    """Why it can't be reached."""
    is_unreachable_long: bool = False
    """Longer than the place allows."""
    is_elastic: bool = False
    """Whether its plan says that the others go on without it."""


def status_of(hosts: Sequence[HostOutput]) -> JobStatus:
    """The job."""
    known = [each.status for each in hosts if each.status]
    is_elastic = any(each.is_elastic for each in hosts)
    gone = [each for each in hosts if each.status is None and (not each.unreachable or each.is_unreachable_long)]
    states: Sequence[State] = [*_ends(known), *(State.LOST for _ in gone)]
    absent = [each for each in hosts if each.status is None and each.unreachable and not each.is_unreachable_long]
    has_absent = bool(absent)
    if is_elastic and (left := [each for each in states if each is not State.LOST]):
        states, has_absent = left, False
    word = _word(states, has_absent=has_absent, is_elastic=is_elastic)
    nodes = tuple(node for each in hosts for node in _nodes(each, is_over=word.is_over))
    failed = [each for each in known if each.state is State.FAILED] if word is State.FAILED else []
    first = min(failed, key=lambda each: each.ended_s or 0.0) if failed else None
    started = [each.started_s for each in known if each.started_s is not None]
    ended = [each.ended_s for each in known if each.ended_s is not None]
    code = first.exit_code if first else max([each.exit_code or 0 for each in known], default=0)
    if word is State.SUCCEEDED:
        code = 0
    is_over = word.is_over
    return JobStatus(
        state=word,
        said="unreachable" if absent and word is State.RUNNING else word.value,
        reason=_reason(hosts, first.reason if first else "", known, word),
        exit_code=code if is_over and word is not State.LOST else None,
        nodes=nodes,
        started_s=min(started) if started else None,
        ended_s=max(ended) if ended and is_over else None,
    )


def _ends(known: Sequence[JobStatus]) -> list[State]:
    """A host whose launcher was told to end because another host was cancelled is cancelled as well."""
    is_cancelled = any(each.state is State.CANCELLED for each in known)
    job = State.CANCELLED if is_cancelled else State.RUNNING
    return [end_of_node(job, each.state, each.exit_code) for each in known]


def _word(states: Sequence[State], *, has_absent: bool, is_elastic: bool) -> State:
    unfinished = [each for each in states if not each.is_over]
    bad = [each for each in states if each in (State.FAILED, State.LOST)]
    if states and not unfinished and (not has_absent or State.FAILED in states):
        return outcome(states, is_elastic=is_elastic)
    if is_elastic and State.CANCELLED not in states:
        bad = []  # the others go on
    if bad or State.CANCELLED in states:
        return State.STOPPING if unfinished else State.RUNNING
    return next((state for state in _UNFINISHED if state in unfinished), State.RUNNING)


def _reason(hosts: Sequence[HostOutput], failed: str, known: Sequence[JobStatus], word: State) -> str:
    parts = []
    gone = [each.label for each in hosts if each.status is None and not each.unreachable]
    absent = [each for each in hosts if each.status is None and each.unreachable]
    lost = [each for each in hosts if each.status and each.status.state is State.LOST]
    if absent:
        word_of = "lost" if all(each.is_unreachable_long for each in absent) else "unreachable"
        parts.append(f"{word_of}: {_names([each.label for each in absent])} ({absent[0].unreachable})")
    if gone:
        parts.append(f"lost: {_names(gone)} (the run's files are gone: the host was restarted or installed again)")
    if lost:
        first = lost[0].status
        parts.append(f"lost: {_names([each.label for each in lost])} ({first.reason if first else ''})")
    if failed:
        parts.insert(0, failed)
    if not parts:
        parts = [each.reason for each in known if each.reason and each.state is word][:1]
    return "; ".join(parts)


def _names(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
    return f"{', '.join(labels[:_NAMED])}{more}"


def _nodes(said: HostOutput, *, is_over: bool) -> tuple[NodeStatus, ...]:
    if said.status is not None:
        return tuple(replace(each, reason=each.reason or _why(said.status, each)) for each in said.status.nodes)
    why = f"unreachable: {said.unreachable}" if said.unreachable else "the run's files are gone"
    is_lost = is_over or not said.unreachable or said.is_unreachable_long
    return (NodeStatus(name=said.label, state=State.LOST if is_lost else State.RUNNING, reason=why),)


def _why(status: JobStatus, node: NodeStatus) -> str:
    return status.reason if node.state.is_over and node.state is not State.SUCCEEDED else ""
