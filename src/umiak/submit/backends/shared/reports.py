"""What the launchers of a run have written about themselves, laid over what their place says. A decider.

A place knows of its nodes that they were given to the job, and no more. `merged` adds what each launcher says; the job
is restarting while one of them is. An elastic job has succeeded if one of them has, whatever became of nodes that were
lost on the way.
"""

from __future__ import annotations

from umiak.core.status import JobStatus, NodeStatus, State
from umiak.core.value import replace
from umiak.submit.states import end_of_node, outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.node_report import NodeReport

_AT_WORK = (State.STARTING, State.RUNNING, State.STOPPING)


def merged(status: JobStatus, reports: Mapping[int, NodeReport], *, is_elastic: bool = False) -> JobStatus:
    """``reports`` by the number of the node.
    Those that were written before the job was started this time don't count.
    """
    known = {
        number: each
        for number, each in reports.items()
        if status.started_s is None or each.changed_s >= int(status.started_s)
    }
    if not known or status.state in (State.QUEUED, State.LOST):
        return status
    nodes = tuple(_node(each, known.get(number), status.state) for number, each in enumerate(status.nodes))
    status = replace(status, nodes=nodes)
    in_order = [known[number] for number in sorted(known)]
    if status.state is State.FAILED:
        ends = [status.state, *(each.state for each in in_order)]
        if outcome(ends, is_elastic=is_elastic) is State.SUCCEEDED:
            return replace(status, state=State.SUCCEEDED, exit_code=0, reason="")
    if status.state is State.RUNNING:
        for each in in_order:
            if each.state is State.RESTARTING:
                return replace(status, state=State.RESTARTING, reason=each.reason)
        return replace(status, reason=status.reason or next((each.story for each in in_order if each.restarts), ""))
    if status.state is State.FAILED:
        # The first that has failed; the others ended because of it, and say so as well.
        failed = [each for each in in_order if each.state is State.FAILED and each.exit_code == status.exit_code]
        first = min(failed, key=lambda each: each.changed_s, default=None)
        if first and first.reason and status.reason == f"exit code {status.exit_code}":
            return replace(status, reason=f"{status.reason}: {first.reason}")
    return status


def _node(node: NodeStatus, report: NodeReport | None, job: State) -> NodeStatus:
    if report is None:
        return node
    state = report.state if job in _AT_WORK or report.state.is_over else job
    if job is State.STOPPING and not report.state.is_over:
        state = State.STOPPING
    return replace(
        node,
        host=report.host or node.host,
        state=end_of_node(job, state, report.exit_code),
        exit_code=report.exit_code,
        reason=node.reason or report.reason_in(state),
    )
