"""How a run in a cluster is, from its workload and its pods. A decider.

What the cluster says in its own words (ImagePullBackOff, Unschedulable, OOMKilled, Evicted) is told with what it means.
The exit code is that of the container that failed first; a PaddleJob's phase, and the conditions of Jobs and JobSets,
say when it is over.
"""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.core.shown import one_line
from umiak.core.status import JobStatus, NodeStatus, State
from umiak.core.value import replace, value
from umiak.kube.times import maybe, nanoseconds_of
from umiak.submit.backends.kubernetes.names import CANCELLED, CONTAINER, INDEX, ROLE
from umiak.submit.states import STATES, end_of_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject

WAITING = {
    "ImagePullBackOff": "the image can't be pulled",
    "ErrImagePull": "the image can't be pulled",
    "ErrImageNeverPull": "the image is not on the node, and is never pulled",
    "InvalidImageName": "the image's name is wrong",
    "CreateContainerConfigError": "something that the pod needs is missing (a Secret or a ConfigMap)",
    "CreateContainerError": "the container can't be created",
    "RunContainerError": "the container can't be started",
    "CrashLoopBackOff": "the container fails again and again",
}
"""Why a container does not start, if it is not just a matter of time."""
ENDINGS = {
    "OOMKilled": "it used more memory than its limit",
    "Evicted": "the node took the pod away",
    "Preempting": "a pod of higher priority took its place",
    "NodeLost": "the node does not answer",
    "NodeShutdown": "the node was shut down",
    "Terminated": "the node was shut down",
    "DeadlineExceeded": "the time limit is over",
    "ContainerCannotRun": "the program can't be started",
    "StartError": "the program can't be started",
    "UnexpectedAdmissionError": "the node did not accept the pod",
    "PreemptionByScheduler": "a pod of higher priority took its place",
    "EvictionByEvictionAPI": "somebody evicted the pod, as when a node is drained",
    "DeletionByTaintManager": "the node was tainted",
    "DeletionByPodGC": "the node is gone",
    "TerminationByKubelet": "the node took the pod away",
}
"""Why a pod ended, where that was not the program's own doing."""
SIGNALLED = (137, 143)
"""Ended by a signal, as pods are that go with one that has failed."""


@value
class KubeFacts:
    """What the cluster has of a run."""

    workloads: tuple[JsonMapping, ...] = ()
    pods: tuple[JsonMapping, ...] = ()
    record: JsonMapping | None = None
    """The ConfigMap with its plans."""
    expected: int = 0
    """Nodes that the job needs at least."""


def status_of(facts: KubeFacts) -> JobStatus:
    """The state of a run and of its pods."""
    nodes = tuple(sorted((node_of(pod) for pod in facts.pods), key=_order))
    is_cancelled = CANCELLED in _annotations(facts.record or {})
    word, reason = _word(facts, nodes, is_cancelled=is_cancelled)
    state = STATES["kubernetes"][word]
    failed = _first_failed(facts.pods)
    if state is State.FAILED and failed is not None:
        own = node_of(failed)
        who = f"{own.role.value} {own.rank}" if own.role and own.rank is not None else own.name
        reason = f"{who}: {own.reason}" if own.reason else reason
    return JobStatus(
        state=state,
        said=word,
        reason=reason,
        exit_code=_exit_code(failed)
        if failed is not None and state is State.FAILED
        else 0
        if state is State.SUCCEEDED
        else None,
        nodes=tuple([replace(each, state=end_of_node(state, each.state, each.exit_code)) for each in nodes]),
        submitted_s=_earliest(
            _metadata(each).get("creationTimestamp") for each in (*facts.workloads, facts.record or {})
        ),
        started_s=_earliest(_started(pod) for pod in facts.pods),
        ended_s=_ended(facts) if state.is_over else None,
    )


def node_of(pod: JsonMapping) -> NodeStatus:
    """One pod."""
    labels = _metadata(pod).get("labels") or {}
    word = labels.get(ROLE)
    container = _container(pod)
    ended = (container.get("state") or {}).get("terminated") or {}
    return NodeStatus(
        name=str(_metadata(pod).get("name") or ""),
        host=str((pod.get("spec") or {}).get("nodeName") or ""),
        role=Role(word) if word in {each.value for each in Role} else None,
        rank=index_of(pod),
        state=_state_of_pod(pod),
        exit_code=ended.get("exitCode") if ended else None,
        reason=_reason(pod),
    )


def index_of(pod: JsonMapping) -> int | None:
    """A pod's number in its role."""
    metadata = _metadata(pod)
    number = _annotations(pod).get(INDEX) or (metadata.get("labels") or {}).get(INDEX)
    if number is None:  # a PaddleJob's pods are told by their names
        number = str(metadata.get("name") or "").rpartition("-")[2]
    return int(number) if number.isascii() and number.isdecimal() else None


def is_over(pod: JsonMapping) -> bool:
    """Whether nothing more comes from a pod."""
    return phase(pod) in ("Succeeded", "Failed") or bool((_container(pod).get("state") or {}).get("terminated"))


def has_begun(pod: JsonMapping) -> bool:
    """Whether there is a log."""
    state = _container(pod).get("state") or {}
    return bool(state.get("running") or state.get("terminated"))


def began_at(pod: JsonMapping) -> int:
    """When its container began, in nanoseconds since 1970; 0: nobody knows."""
    state = _container(pod).get("state") or {}
    begun = state.get("running") or state.get("terminated") or {}
    try:
        return nanoseconds_of(str(begun["startedAt"]))
    except (KeyError, ValueError):
        return 0


def phase(pod: JsonMapping) -> str:
    """Kubernetes' own word for where a pod stands."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


# ---- the whole


def expected(workloads: list[JsonObject]) -> int:
    """How many pods must run for a job to run: of an elastic one the least."""
    total = 0
    for each in workloads:
        spec = each.get("spec") or {}
        if each["kind"] == "PaddleJob":
            roles = [spec.get(name) or {} for name in ("ps", "worker", "heter")]
            total += sum(int(role.get("requests") or role.get("replicas") or 0) for role in roles)
            continue
        inner = [row["template"]["spec"] for row in spec.get("replicatedJobs") or ()] or [spec]
        total += sum(_least(job) for job in inner)
    return total


def _least(job: JsonMapping) -> int:
    rule: JsonMapping = next(iter((job.get("successPolicy") or {}).get("rules") or ()), {})
    return int(rule.get("succeededCount") or job.get("completions") or 1)


def _word(facts: KubeFacts, nodes: tuple[NodeStatus, ...], *, is_cancelled: bool) -> tuple[str, str]:
    """The word of the table in `umiak.submit.states`, and why."""
    if not facts.workloads:
        if is_cancelled:
            return ("Terminating", "it was cancelled") if _alive(facts.pods) else ("Cancelled", "")
        return "NotFound", "the cluster has deleted it, and how it ended is not known"
    if is_cancelled or any(_metadata(each).get("deletionTimestamp") for each in facts.workloads):
        return "Terminating", "it was cancelled" if is_cancelled else "somebody deletes it"
    ends = [_end_of(each) for each in facts.workloads]
    failed = next((each for each in ends if each and each[0] == "Failed"), None)
    if failed:
        return failed
    if all(each and each[0] == "Complete" for each in ends):
        return "Complete", ""
    if any(each and each[0] in ("FailureTarget", "Complete", "SuccessCriteriaMet") for each in ends):
        return "Completing", ""
    suspended = next((each for each in ends if each and each[0] == "Suspended"), None)
    if suspended:
        return suspended
    return _by_pods(facts, nodes)


def _by_pods(facts: KubeFacts, nodes: tuple[NodeStatus, ...]) -> tuple[str, str]:
    running = [node for node in nodes if node.state is State.RUNNING]
    waiting = [node for node in nodes if node.state in (State.QUEUED, State.STARTING)]
    reason = _summary([node for node in waiting if node.reason])
    if running and len(running) >= facts.expected:
        return "Running", reason
    if running or any(node.state is State.STARTING for node in waiting):
        return "Starting", reason
    if waiting:
        return ("Unschedulable" if reason else "Pending"), reason
    if any(node.state is State.FAILED for node in nodes):
        return "Restarting", _summary([node for node in nodes if node.state is State.FAILED])
    return "Pending", ""


def _summary(nodes: list[NodeStatus]) -> str:
    """Of many pods with the same trouble, one is told."""
    if not nodes:
        return ""
    first = nodes[0]
    name = f"{first.role.value} {first.rank}" if first.role and first.rank is not None else first.name
    return f"{name}{f' and {len(nodes) - 1} more' if len(nodes) > 1 else ''}: {first.reason}"


def _end_of(workload: JsonMapping) -> tuple[str, str] | None:
    """How a workload says that it ended, or that it waits; None: it goes on."""
    status = workload.get("status") or {}
    true = {each.get("type"): each for each in status.get("conditions") or () if each.get("status") == "True"}
    if workload.get("kind") == "PaddleJob":
        word = str(status.get("phase") or "")
        return ("Suspended", _said(true.get("Suspended") or {})) if word == "Suspended" else _PHASES.get(word)
    for word, ours in (
        ("Failed", "Failed"),
        ("Complete", "Complete"),
        ("Completed", "Complete"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
        ("Suspended", "Suspended"),
    ):
        if word in true:
            why = ENDINGS.get(str(true[word].get("reason") or "")) or _said(true[word])
            return ours, one_line(why, 500) if ours in ("Failed", "Suspended") else ""
    return None


def _said(condition: JsonMapping) -> str:
    """What a condition says, in a line."""
    parts = [str(condition.get("reason") or ""), str(condition.get("message") or "")]
    return one_line(": ".join(filter(None, parts)), 500)


_PHASES = {
    "Completed": ("Complete", ""),
    "Succeed": ("Complete", ""),
    "Failed": ("Failed", "a pod of the PaddleJob has failed"),
    "Aborted": ("Failed", "the operator has ended it"),
    "Completing": ("SuccessCriteriaMet", ""),
    "Terminated": ("Failed", "the operator has ended it"),
}
"""Phases of a PaddleJob that don't follow from its pods."""


# ---- one pod


def _state_of_pod(pod: JsonMapping) -> State:
    word = phase(pod)
    if word == "Succeeded":
        return State.SUCCEEDED
    if word == "Failed":
        return State.FAILED
    if _metadata(pod).get("deletionTimestamp"):
        return State.STOPPING
    if word == "Running":
        return State.RUNNING
    if word == "Unknown":
        return State.LOST
    return State.STARTING if (pod.get("spec") or {}).get("nodeName") else State.QUEUED


def _reason(pod: JsonMapping) -> str:
    """Why a pod does not run, or why it ended; empty: all is well."""
    status = pod.get("status") or {}
    state = _container(pod).get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    reason = str(status.get("reason") or "")
    if reason in ENDINGS:
        return _told(reason, ENDINGS[reason], status.get("message"))
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    moved = conditions.get("DisruptionTarget") or {}
    if moved.get("status") == "True" and moved.get("reason") in ENDINGS:
        return _told(str(moved["reason"]), ENDINGS[str(moved["reason"])], moved.get("message"))
    if ended:
        word = str(ended.get("reason") or "")
        if word in ENDINGS:
            limit = _memory_limit(pod) if word == "OOMKilled" else ""
            return _told(word, ENDINGS[word] + limit, ended.get("message") if word != "OOMKilled" else "")
        return f"exit code {ended['exitCode']}" if ended.get("exitCode") else ""
    if waiting.get("reason") in WAITING:
        word = str(waiting["reason"])
        image = f": {_container(pod).get('image') or ''}" if "Image" in word or "Pull" in word else ""
        return _told(word, WAITING[word] + one_line(image, 200), waiting.get("message"))
    placed = conditions.get("PodScheduled") or {}
    if placed.get("status") == "False":
        word = str(placed.get("reason") or "Unschedulable")
        return _told(word, "no node takes the pod", placed.get("message"))
    return ""


def _told(word: str, meaning: str, message: object) -> str:
    text = one_line(str(message or "").strip(), 300)
    return f"{word}: {meaning}{f' ({text})' if text else ''}"


def _memory_limit(pod: JsonMapping) -> str:
    for each in (pod.get("spec") or {}).get("containers") or ():
        if each.get("name") == CONTAINER:
            limit = ((each.get("resources") or {}).get("limits") or {}).get("memory")
            return f" of {limit}" if limit else ""
    return ""


def _container(pod: JsonMapping) -> JsonMapping:
    """Our container's status."""
    rows: list[JsonMapping] = (pod.get("status") or {}).get("containerStatuses") or []
    return next((row for row in rows if row.get("name") == CONTAINER), {})


def _first_failed(pods: tuple[JsonMapping, ...]) -> JsonMapping | None:
    """The pod that failed first. Times are whole seconds: among equals, one that no signal has ended."""
    failed = [pod for pod in pods if phase(pod) == "Failed" or _exit_code(pod)]

    def when(pod: JsonMapping) -> tuple[float, bool, int]:
        ended = (_container(pod).get("state") or {}).get("terminated") or {}
        at = maybe(ended.get("finishedAt"))
        return (float("inf") if at is None else at, _exit_code(pod) in (None, *SIGNALLED), index_of(pod) or 0)

    return min(failed, key=when, default=None)


def _exit_code(pod: JsonMapping) -> int | None:
    ended = (_container(pod).get("state") or {}).get("terminated") or {}
    return int(ended["exitCode"]) if ended.get("exitCode") else None


def _started(pod: JsonMapping) -> str | None:
    state = _container(pod).get("state") or {}
    for word in ("running", "terminated"):
        if state.get(word):
            found: str | None = state[word].get("startedAt")
            return found
    return None


def _ended(facts: KubeFacts) -> float | None:
    times = []
    for each in facts.workloads:
        status = each.get("status") or {}
        times.append(maybe(status.get("completionTime")))
        times += [
            maybe(row.get("lastTransitionTime"))
            for row in status.get("conditions") or ()
            if row.get("status") == "True" and row.get("type") in ("Failed", "Complete", "Completed")
        ]
    if not any(times):
        states = [(_container(pod).get("state") or {}).get("terminated") or {} for pod in facts.pods]
        times = [maybe(each.get("finishedAt")) for each in states]
    times = times if any(times) else [maybe(_annotations(facts.record or {}).get(CANCELLED))]
    return max((each for each in times if each), default=None)


def _earliest(times: Any) -> float | None:
    return min((found for each in times if (found := maybe(each)) is not None), default=None)


def _alive(pods: tuple[JsonMapping, ...]) -> bool:
    return any(phase(pod) not in ("Succeeded", "Failed") for pod in pods)


def _order(node: NodeStatus) -> tuple[int, int, str]:
    roles = [*Role]
    return roles.index(node.role) if node.role else len(roles), node.rank or 0, node.name


def _metadata(thing: JsonMapping) -> JsonMapping:
    metadata: JsonMapping = thing.get("metadata") or {}
    return metadata


def _annotations(thing: JsonMapping) -> Mapping[str, str]:
    annotations: Mapping[str, str] = _metadata(thing).get("annotations") or {}
    return annotations
