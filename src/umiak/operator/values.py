"""What the operator decides on, and what it decides. Values.

Observed  all objects of one job as the cache has them, and what the cluster can do
Decision  actions to perform in parallel, the status to write, and when to look again

``kind`` is Pod, Service, ConfigMap or PaddleJob; kinds of other groups stand with their group:
``scheduling.volcano.sh/PodGroup``.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.core.problem import Problem
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
    """Evicted, Preempting, NodeLost, OOMKilled, ImagePullBackOff, Unschedulable:
    of the pod, its containers or its conditions.
    """
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
    """This, ``started_s`` and ``last_end_s`` are what its node writes down, in the node's time."""
    clock_ahead_s: float = 0.0
    """How far the clock of its node is ahead of the cluster's, as far as it can be told:
    it started so long after it had been given a node.
    """


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
    body: JsonObject
    dry: bool = False


@value
class ReplaceObject:
    """Write an object again, because what it should hold has changed."""

    kind: str
    name: str
    uid: str
    body: JsonObject


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
    is_previous: bool = False
    """Of the run before, where the node has started the container again."""


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


@value
class Decision:
    """What to do now. The status is written first where ``is_turning_point``:
    what follows must survive a crash in between.
    """

    actions: tuple[OperatorAction, ...] = ()
    report: JobReport
    is_turning_point: bool = False
    """The status must be written first, and the rest is decided when it is seen.
    Its actions are events only, for after the write.
    """
    again_in_s: float | None = None
    status_may_wait_s: float = 0.0
    """Only counts have changed: the status may be written this much later, together with what follows."""
    waits_for: str = ""
    """In words, for the log and the metric of waiting jobs."""


# ---- places in a queue of Kueue, and what is written about them

KUEUE_GROUP = "kueue.x-k8s.io"
WORKLOAD = f"{KUEUE_GROUP}/Workload"
VERSIONS = ("v1beta2", "v1beta1")
"""Versions of the API that are spoken, the newest first."""
QUEUE_NAME = f"{KUEUE_GROUP}/queue-name"
"""A label of jobs: the LocalQueue that they wait in."""
PRIORITY_CLASS = f"{KUEUE_GROUP}/priority-class"
"""A label of jobs: their WorkloadPriorityClass."""
MOST_TIME = f"{KUEUE_GROUP}/max-exec-time-seconds"
"""A label of jobs: after so many seconds of running Kueue takes their place away."""
JOB_UID = f"{KUEUE_GROUP}/job-uid"
"""A label of Workloads."""
FLAVOR = "ResourceFlavor"
WORKLOAD_PRIORITY, POD_PRIORITY = "WorkloadPriorityClass", "PriorityClass"


@value
class WorkloadCondition:
    """A condition of a Workload, as Kueue or we have written it."""

    type: str
    is_true: bool
    reason: str = ""
    message: str = ""


@value
class PodPlacement:
    """What is merged into the pods of one role: from flavors, and from admission checks."""

    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[JsonMapping, ...] = ()


@value
class PodSetAssignment:
    """What Kueue has chosen for the pods of one role."""

    name: str
    flavors: tuple[str, ...] = ()
    """Names of ResourceFlavors, each once."""
    updates: tuple[PodPlacement, ...] = ()
    """Of admission checks."""


@value
class SeenWorkload:
    """What is kept of a Workload besides what is kept of every object."""

    version: str = ""
    """Its resource version: it is written over exactly what was decided on."""
    queue: str = ""
    priority_class: str = ""
    priority: int = 0
    is_active: bool = True
    conditions: tuple[WorkloadCondition, ...] = ()
    cluster_queue: str = ""
    assignments: tuple[PodSetAssignment, ...] = ()

    def condition(self, kind: str) -> WorkloadCondition | None:
        return next((each for each in self.conditions if each.type == kind), None)

    def is_true(self, kind: str) -> bool:
        condition = self.condition(kind)
        return condition is not None and condition.is_true


@value
class ClassLookup:
    """An object of the whole cluster that a decision needs: a flavor, a class of priority."""

    kind: str
    name: str


@value
class FoundClass:
    """What was found under it."""

    lookup: ClassLookup
    trouble: str = ""
    """Why there is nothing, in words."""
    node_labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[JsonMapping, ...] = ()
    """Of a flavor."""
    priority: int = 0
    """Of a class of priority."""


@value
class PatchWorkload:
    """Set conditions of a Workload, if it is still the version that was decided on."""

    name: str
    uid: str
    version: str
    conditions: tuple[WorkloadCondition, ...]
    drops_admission: bool = False
    """Give its quota back: ``status.admission`` is removed as well."""
    kind: str = WORKLOAD


if TYPE_CHECKING:
    ClusterAction = CreateObject | ReplaceObject | DeleteObject | PatchWorkload | StopPod | WakePod | RemoveFinalizer
    OperatorAction = ClusterAction | KeepLogs | RecordEvent
