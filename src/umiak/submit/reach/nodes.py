"""Which node of a run is meant, and whether its place lets anybody reach it. A decider.

reachable(run.backend, run.handle)         the backend, or UmiakError with what its users do instead
chosen(nodes, "1")                         by its number, or by its name
"""

from __future__ import annotations

from umiak.core.names import is_digits
from umiak.core.problem import UmiakError
from umiak.core.status import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.job import Handle
    from umiak.core.status import JobStatus, NodeStatus
    from umiak.submit.backend import Backend, JobNode, NodeAccess, WebTerminals

INSTEAD = {
    "paddlecloud": (
        "its client submits, lists and stops jobs, and starts nothing on their nodes",
        "open the job in PaddleCloud's web console, which has a shell on its containers; the job's `outputs` bring files home",
    ),
    "aihc": (
        "its API gives links to terminals, and neither starts a command nor gives files",
        "`umiak exec {handle}` without a command prints such a link; the job's `outputs` bring files home",
    ),
    "bml": (
        "its API has no call that reaches the nodes of a job",
        "BML has no shell on the nodes of a job; the job's `outputs` bring files home, `umiak logs` prints its lines",
    ),
    "modelarts": (
        "its API has no call that starts a command or a shell on the nodes of a job",
        "ModelArts opens Cloud Shell on a running job in its console; the job's `outputs` bring files home",
    ),
    "pai": (
        "its API gives links to terminals, and neither starts a command nor gives files",
        "`umiak exec {handle}` without a command prints such a link; the job's `outputs` bring files home",
    ),
}
"""Of places that give no way to their nodes: why, and what people do there."""
OTHERS = (
    "umiak has no way to the nodes of such a place",
    "the documentation of the place says how to reach its nodes; the job's `outputs` bring files home",
)


def reachable(backend: Backend, handle: Handle) -> NodeAccess:
    """The backend, if it can start a program on its nodes."""
    if all(hasattr(backend, name) for name in ("nodes", "files", "open")):
        access: NodeAccess = backend  # type: ignore[assignment]
        return access
    why, hint = INSTEAD.get(handle.backend, OTHERS)
    raise UmiakError.refused(
        "UM-SUBMIT-390",
        f"the nodes of {handle.place} can't be reached from here: its backend is {handle.backend}",
        why=why,
        hint=hint.format(handle=handle),
    )


def terminals_of(backend: Backend) -> WebTerminals | None:
    """The backend, if its place gives links to terminals."""
    terminals: WebTerminals | None = backend if hasattr(backend, "terminal") else None  # type: ignore[assignment]
    return terminals


def chosen_status(found: Sequence[NodeStatus], node: str, role: str, rank: int | None) -> NodeStatus:
    """The node that is meant, of those of a status:
    by its number or name, or by its role and rank; else the first trainer.
    """
    if node:
        named = next((each for each in found if each.name == node), None)
        if named is None and is_digits(node) and int(node) < len(found):
            named = found[int(node)]
        if named is None:
            raise no_such_node(node, [each.name for each in found])
        return named
    for each in found:
        if each.role and each.role.value == (role or "trainer") and rank in (None, each.rank):
            return each
    if found and rank is None and not role:
        return found[0]
    raise no_such_worker(role or "trainer", rank, [(each.role.value, each.rank or 0) for each in found if each.role])


def chosen(nodes: Sequence[JobNode], text: str) -> JobNode:
    """The node of this name, or with this number."""
    for node in nodes:
        if text in (node.name, node.address):
            return node
    if is_digits(text) and int(text) < len(nodes):
        return nodes[int(text)]
    raise no_such_node(text, [each.name for each in nodes])


def no_such_node(text: str, names: Sequence[str]) -> UmiakError:
    """``names``: those that there are."""
    shown = ", ".join(f"{number} {name}" for number, name in enumerate(names[:16]))
    more = f" and {len(names) - 16} more" if len(names) > 16 else ""
    hint = f"it has {shown}{more}: write a number or a name" if names else "`umiak status` lists its nodes"
    return UmiakError.of("UM-SUBMIT-393", f"expected a node of the run, got {text}", hint=hint)


def no_such_worker(role: str, rank: int | None, found: Sequence[tuple[str, int]]) -> UmiakError:
    """``found``: the workers that run; no role: none in particular was wanted."""
    wanted = (role if rank is None else f"{role} {rank}") or "any"
    shown = ", ".join(f"{each} {number}" for each, number in sorted({*found})[:16])
    more = f" and {len(found) - 16} more" if len(found) > 16 else ""
    hint = f"these run: {shown}{more}" if found else "no worker runs now: `umiak status` says how the run is"
    return UmiakError.refused("UM-SUBMIT-393", f"no such worker runs: {wanted}", hint=hint)


def check_running(handle: Handle, status: JobStatus) -> None:
    """UmiakError if the run has no processes now."""
    if status.state.is_over:
        why = f"it is over: {status.state.value}"
        hint = f"`umiak fetch {handle}` brings its files here, `umiak logs {handle}` prints its lines"
    elif status.state is State.QUEUED:
        why, hint = "it has no nodes yet: queued", f"wait until it runs: `umiak status {handle} --watch`"
    else:
        return
    what = f"no command can be run on the nodes of {handle}"
    raise UmiakError.refused("UM-SUBMIT-391", what, why=why, hint=hint)
