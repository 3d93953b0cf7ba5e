"""What the operator decides on, and what it decides. Values.

Observed  all objects of one job as the cache has them, and what the cluster can do
Decision  actions to perform in parallel, the status to write, and when to look again

``kind`` is Pod, Service, ConfigMap or PaddleJob; kinds of other groups stand with their group: ``scheduling.volcano.sh/PodGroup``.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.problem import Problem
    from umiak.operator.queue_values import FoundClass, PatchWorkload, SeenWorkload
    from umiak.paddlejob.resource import JobReport, PaddleJob, PodRole


class PodPhase(str, Enum):
    """``status.phase`` of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def is_ended(self) -> bool:
        return self in (PodPhase.SUCCEEDED, PodPhase.FAILED)


STOP_S = 1
"""``activeDeadlineSeconds`` of a pod that is to end and to stay: its node ends it, and its log remains."""


@value
class SeenPod:
    """What is kept of a pod: enough to decide, little enough for ten thousand of them."""

    name: str
    uid: str
    role: PodRole | None
    """None: a pod under our name that is not ours."""
    index: int = -1
    owner_uid: str = ""
    """Of its controller."""
    attempt: int = 0
    phase: PodPhase = PodPhase.PENDING
    """Of its training (`objects.seen_containers`)."""
    lingers: bool = False
    """Its training has ended, and other containers of the pod go on."""
    is_told_to_end: bool = False
    """`StopPod` was done to it."""
    is_ready: bool = False
    is_deleting: bool = False
    node: str = ""
    addresses: tuple[str, ...] = ()
    """``podIPs``, the first one first."""
    host_address: str = ""
    reason: str = ""
    """Evicted, Preempting, NodeLost, OOMKilled, ImagePullBackOff, Unschedulable: of the pod, its containers or its conditions."""
    message: str = ""
    lacks_image: str = ""
    """The image that a container of it waits for, when it could not be pulled."""
    exit_code: int | None = None
    """Of the main container, the last time it ended, or of an init container that failed before it."""
    container_restarts: int = 0
    """Of the main container and of init containers."""
    last_end_s: float | None = None
    """When the main container last ended, if it was started again since."""
    log_of: str = ""
    """The container whose log says why it ended."""
    digest: str = ""
    """Of the template that it was made from: the annotation `objects.names.DIGEST`."""
    woken: str = ""
    """The annotation `objects.names.WOKEN`: when it was last told that its ConfigMap is there."""
    is_disrupted: bool = False
    """The cluster took it away: condition DisruptionTarget, or its node is lost."""
    created_s: float = 0.0
    started_s: float | None = None
    ended_s: float | None = None


@value
class SeenObject:
    """What is kept of a Service, a ConfigMap, a PodGroup, a Workload."""

    kind: str
    name: str
    uid: str = ""
    owner_uid: str = ""
    attempt: int = 0
    is_deleting: bool = False
    digest: str = ""
    """Of what we put into it (an annotation), so that it is rewritten if that changes."""
    phase: str = ""
    """Of a PodGroup."""
    workload: SeenWorkload | None = None
    """Of a Workload of Kueue."""


@value
class Refusal:
    """What the API server answered when an object of this job was to be created, the last time that it was tried."""

    kind: str
    name: str
    status: int
    reason: str = ""
    """The server's word: Forbidden, Invalid, AlreadyExists."""
    message: str = ""


@value
class ClusterFacts:
    """What this cluster and this operator's flags allow."""

    kinds: frozenset[str] = frozenset()
    """Groups with kinds that it serves: ``scheduling.volcano.sh/PodGroup``."""
    gang: str = ""
    """The driver that the operator was started with: volcano, scheduler-plugins, native, or none."""
    kueue: str | None = ""
    """The version of Kueue's API that it serves; empty: none; None: nobody knows yet."""
    etcd: str = ""
    """The address that elastic jobs get; empty: the built-in master."""
    is_six: bool = False
    """Addresses are of IPv6 here, or first of all: that of the API server is."""
    lost_nodes: frozenset[str] = frozenset()
    """Nodes that are not ready beyond their toleration, or gone."""
    kept_ports: tuple[tuple[str, int], ...] = ()
    """Base ports of other jobs in Host mode, by node; a node that is not known yet is ``*``."""


@value
class Observed:
    """One job and its children at one moment."""

    job: PaddleJob
    problems: tuple[Problem, ...] = ()
    """What the checks of ``paddlejob`` said about its spec. A job with problems is reported and not started."""
    warnings: tuple[Problem, ...] = ()
    """What it says that has no effect or may be a mistake: reported, and the job is started."""
    pods: tuple[SeenPod, ...] = ()
    """Its pods by controller UID, and foreign pods under its names."""
    objects: tuple[SeenObject, ...] = ()
    """Likewise Services, ConfigMap, PodGroup."""
    refusals: tuple[Refusal, ...] = ()
    """Creations that failed and were not successful since."""
    progress: tuple[tuple[str, str], ...] = ()
    """What the job last said about itself in this attempt; empty: nothing, or nobody has looked yet."""
    found: tuple[FoundClass, ...] = ()
    """Objects of the whole cluster that it refers to, as far as they were read: flavors, classes of priority."""
    facts: ClusterFacts = ClusterFacts()


@value
class CreateObject:
    """Create an object. That one of the same name and owner exists already is success."""

    kind: str
    name: str
    body: dict[str, Any]
    dry: bool = False


@value
class ReplaceObject:
    """Write an object again, because what it should hold has changed."""

    kind: str
    name: str
    uid: str
    body: dict[str, Any]


@value
class DeleteObject:
    """Delete exactly this object: the UID is a precondition."""

    kind: str
    name: str
    uid: str
    grace_s: int | None = None
    """0 for pods of nodes that are lost."""


@value
class KeepLogs:
    """Read the last lines of a pod into ``last_logs`` of the status, under its name, before it is deleted.

    Where they can't be read, the entry says why: deciding goes on when there is one.
    """

    pod: str
    uid: str
    container: str = ""
    """Empty: the main one."""


@value
class StopPod:
    """End a pod, and leave it there with its log. What is told to a node is that its time is up."""

    name: str
    uid: str
    kind: str = "Pod"


@value
class WakePod:
    """Let a kubelet look at a pod at once that waits for its ConfigMap: an annotation is changed."""

    name: str
    uid: str
    note: str
    kind: str = "Pod"


@value
class RemoveFinalizer:
    """Take the old operator's finalizer from the job."""

    name: str


@value
class RecordEvent:
    """An Event of Kubernetes about the job; equal ones are counted, not repeated."""

    reason: str
    message: str
    is_warning: bool = False


if TYPE_CHECKING:
    OperatorAction = (
        CreateObject
        | ReplaceObject
        | DeleteObject
        | PatchWorkload
        | StopPod
        | WakePod
        | KeepLogs
        | RemoveFinalizer
        | RecordEvent
    )


@value
class Decision:
    """What to do now. The status is written first where ``is_turning_point``: what follows must survive a crash in between."""

    actions: tuple[OperatorAction, ...] = ()
    report: JobReport
    is_turning_point: bool = False
    """The status must be written first, and the rest is decided when it is seen. Its actions are events only, for after the write."""
    again_in_s: float | None = None
    status_may_wait_s: float = 0.0
    """Only counts have changed: the status may be written this much later, together with what follows."""
    waits_for: str = ""
    """In words, for the log and the metric of waiting jobs."""
