"""What the containers of a pod say about its training: how it ended, why it waits, how often it was restarted.
A decider.

The main container (`paddlejob.templates.main_container`) decides. Init containers count until it starts; a sidecar
counts for nothing but to keep a pod from starting. Kubernetes says of a pod that it runs as long as one of its
containers does: with an ordinary sidecar, also when the training has ended.
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.kube.times import maybe
from umiak.operator.objects.names import MAIN_CONTAINER
from umiak.operator.values import PodPhase
from umiak.paddlejob.templates.main_container import main_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from umiak.core.json_types import JsonMapping

IMAGE_REASONS = frozenset(
    [
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    ]
)
"""Why containers wait whose image can't be had."""
_STARTING = (None, "ContainerCreating", "PodInitializing")


@value
class SeenContainers:
    """The training of one pod."""

    phase: PodPhase
    """Of the training, not of the pod: it may have ended while a sidecar goes on, or well although a sidecar failed."""
    exit_code: int | None = None
    """Of the main container, or of an init container that failed, the last time it ended."""
    restarts: int = 0
    """Of the main container and of init containers, in their pod."""
    reason: str = ""
    message: str = ""
    lacks_image: str = ""
    """The first image that could not be pulled."""
    ended_s: float | None = None
    last_end_s: float | None = None
    """When the main container last ended, if it was started again since."""
    log_of: str = ""
    """The container whose log says why: the main one, or an init container that failed before it could start."""


def seen_containers(body: JsonMapping, pod_phase: PodPhase) -> SeenContainers:
    """Of the JSON of a pod."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    notes = body["metadata"].get("annotations") or {}
    name = str(notes.get(MAIN_CONTAINER) or main_name(spec.get("containers") or ()))
    rows: Sequence[JsonMapping] = status.get("containerStatuses") or []
    main = next((row for row in rows if row.get("name") == name), rows[0] if len(rows) == 1 else {})
    init = _ordinary(spec, status.get("initContainerStatuses") or ())
    # A pod-level reason, such as Evicted, says that the cluster ended it: a container that was told to end may say 0.
    is_own_end = not status.get("reason")
    state, ended = main.get("state") or {}, _last_end(main)
    broken = next((row for row in init if _last_end(row).get("exitCode")), None)
    is_before = not ended and not state.get("running")
    blamed: Sequence[JsonMapping] = [main, *init]
    if pod_phase is PodPhase.PENDING:
        blamed = [main, *(status.get("initContainerStatuses") or ()), *rows]
    reason, message = _worry(blamed)
    if broken is not None and is_before:
        message = f"init container {broken.get('name')}{': ' if message else ''}{message}"
    exit_code = ended.get("exitCode") if ended or broken is None or not is_before else _last_end(broken)["exitCode"]
    listed: Sequence[JsonMapping] = spec.get("containers") or ()
    container: JsonMapping = next((each for each in listed if each.get("name") == name), {})
    return SeenContainers(
        phase=_phase(pod_phase, state, ended, container, spec) if is_own_end else pod_phase,
        exit_code=None if exit_code is None else int(exit_code),
        restarts=sum(int(row.get("restartCount") or 0) for row in (main, *init)),
        reason=reason,
        message=message,
        lacks_image=next((str(row.get("image") or row.get("name")) for row in blamed if _lacks_image(row)), ""),
        ended_s=maybe(ended.get("finishedAt")) if state.get("terminated") else None,
        last_end_s=None if state.get("terminated") else maybe(ended.get("finishedAt")),
        log_of=str(broken.get("name") or "") if broken is not None and is_before else name,
    )


def _phase(
    pod_phase: PodPhase,
    state: JsonMapping,
    ended: JsonMapping,
    container: JsonMapping,
    spec: JsonMapping,
) -> PodPhase:
    if not ended:
        return pod_phase
    policy = str(container.get("restartPolicy") or spec.get("restartPolicy") or "")
    if ended.get("exitCode") == 0 and (state.get("terminated") or policy == "Always"):
        return PodPhase.SUCCEEDED
    # Otherwise the node starts it again, in its pod.
    stays = policy == "Never" and not _is_restarted_by_rule(container, ended.get("exitCode"))
    return PodPhase.FAILED if state.get("terminated") and stays else pod_phase


def _is_restarted_by_rule(container: JsonMapping, code: object) -> bool:
    """Whether a rule of the container itself is about this exit code. They all restart something."""
    for rule in container.get("restartPolicyRules") or ():
        asked = rule.get("exitCodes") or {}
        if (code in (asked.get("values") or ())) is (asked.get("operator") != "NotIn"):
            return True
    return False


def _ordinary(spec: JsonMapping, rows: Iterable[JsonMapping]) -> list[JsonMapping]:
    """Init containers that end; those that are always restarted are sidecars."""
    sidecars = {each.get("name") for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"}
    return [row for row in rows if row.get("name") not in sidecars]


def _last_end(row: JsonMapping) -> JsonMapping:
    found: JsonMapping = (row.get("state") or {}).get("terminated") or {}
    return found or (row.get("lastState") or {}).get("terminated") or {}


def _lacks_image(row: JsonMapping) -> bool:
    return ((row.get("state") or {}).get("waiting") or {}).get("reason") in IMAGE_REASONS


def _worry(rows: Iterable[JsonMapping]) -> tuple[str, str]:
    """The first reason to worry about, and what is said about it."""
    for row in rows:
        waiting = (row.get("state") or {}).get("waiting") or {}
        bad = waiting if waiting.get("reason") not in _STARTING else {}
        ended = _last_end(row)
        bad = bad or (ended if ended.get("reason") not in (None, "Completed") else {})
        if bad:
            return str(bad.get("reason") or ""), str(bad.get("message") or "")
    return "", ""
