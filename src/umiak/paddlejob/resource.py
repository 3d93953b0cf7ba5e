"""A PaddleJob as its operator sees it: the wish in ``spec``, the report in ``status``. Values.

Pod templates stay plain JSON (``dict``): a cluster knows fields of pods that we do not,
and they pass through untouched. Times are seconds since 1970.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

GROUP = "batch.paddlepaddle.org"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "PaddleJob"
PLURAL = "paddlejobs"
OLD_FINALIZER = "finalizers.paddlepaddle.org"
"""Of the old operator; owner references make it needless, so it is taken away."""


class JobApi(str, Enum):
    """The API that a job was written for. Both become the same values."""

    BATCH = API_VERSION
    KUBEFLOW = "kubeflow.org/v1"


class PodRole(str, Enum):
    """A group of pods. The values are the words in object names and in ``spec``."""

    PS = "ps"
    WORKER = "worker"
    HETER = "heter"


class Intranet(str, Enum):
    """How pods reach one another."""

    POD_IP = "PodIP"
    SERVICE = "Service"
    HOST = "Host"


class JobMode(str, Enum):
    """What kind of job it is, as ``status.mode`` says it."""

    PS = "PS"
    COLLECTIVE = "Collective"
    SINGLE = "Single"


class JobPhase(str, Enum):
    """``status.phase``."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SCALING = "Scaling"
    SUSPENDED = "Suspended"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    FAILED = "Failed"
    TERMINATING = "Terminating"

    @property
    def is_over(self) -> bool:
        return self in (JobPhase.COMPLETED, JobPhase.FAILED)


class CleanPods(str, Enum):
    """Which pods of a finished job are deleted.
    Those of a failed job that still run are deleted unless this says Never.
    """

    ALWAYS = "Always"
    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    ON_COMPLETION = "OnCompletion"
    RUNNING = "Running"
    """A word of Kubeflow: those that still run when the job is over, whichever way it ended; finished ones stay."""


class RestartScope(str, Enum):
    """What is started again when a pod fails."""

    POD = "Pod"
    ROLE = "Role"
    JOB = "Job"


class SuccessPolicy(str, Enum):
    """When a job is done: its workers are (the default), or all roles are, as with the old operator."""

    WORKERS = "Workers"
    ALL_ROLES = "AllRoles"


class RuleAction(str, Enum):
    """What a rule about failures says."""

    FAIL = "Fail"
    RESTART = "Restart"
    RESTART_FREE = "RestartWithoutCounting"


@value
class FailureRule:
    """One of ``runPolicy.failurePolicy.rules``: it is about a failed pod
    if everything that it says is true of the pod.
    """

    action: RuleAction
    roles: tuple[PodRole, ...] = ()
    """Empty: all."""
    exit_codes: tuple[int, ...] = ()
    """Empty: it does not look at them."""
    is_not_in: bool = False
    """It is about all exit codes but these."""
    reasons: tuple[str, ...] = ()

    @property
    def is_about_all(self) -> bool:
        return not self.roles and not self.exit_codes and not self.reasons


@value
class PaddleJobRole:
    """One role of the spec."""

    role: PodRole
    replicas: int
    least: int | None = None
    """``requests``: the fewest pods of an elastic job."""
    most: int | None = None
    """``limits``."""
    template: JsonObject = {}
    restarts_by_exit_code: bool = False
    """Kubeflow's ``restartPolicy: ExitCode``: 1 to 127 is final, 128 to 255 is tried again."""


@value
class GangSpec:
    """``schedulingPolicy``."""

    min_available: int | None = None
    queue: str = ""
    priority_class: str = ""
    min_resources: tuple[tuple[str, str], ...] = ()


@value
class RunPolicy:
    """``runPolicy``; None where the manifest is silent, so that defaults depend on the job's mode."""

    suspend: bool = False
    backoff_limit: int | None = None
    backoff_reset_s: int | None = None
    restart_scope: RestartScope | None = None
    ttl_s: int | None = None
    active_deadline_s: int | None = None
    success: SuccessPolicy = SuccessPolicy.WORKERS
    managed_by: str = ""
    image_pull_s: int | None = None
    pending_s: int | None = None
    rules: tuple[FailureRule, ...] = ()
    """The first one that is about a failed pod counts."""


@value
class JobSpec:
    """What is wanted, with the defaults of ``paddlejob.defaults`` in place."""

    roles: tuple[PaddleJobRole, ...]
    """In the order ps, worker, heter."""
    intranet: Intranet = Intranet.POD_IP
    with_gloo: int = 0
    clean_pods: CleanPods | None = None
    """None: an empty or an unknown word, which cleans on completion only."""
    is_elastic: bool = False
    gang: GangSpec | None = None
    run_policy: RunPolicy = RunPolicy()

    def role(self, role: PodRole) -> PaddleJobRole | None:
        return next((each for each in self.roles if each.role is role), None)

    @property
    def mode(self) -> JobMode:
        if self.role(PodRole.PS):
            return JobMode.PS
        worker = self.role(PodRole.WORKER)
        # An elastic job stays what it is while it has one worker.
        return JobMode.COLLECTIVE if worker and (worker.replicas > 1 or self.is_elastic) else JobMode.SINGLE


@value
class Condition:
    """One of ``status.conditions``."""

    type: str
    is_true: bool
    reason: str
    message: str = ""
    since_s: float = 0.0


@value
class RoleCounts:
    """Pods of one role by how they are, as ``status.ps`` and its siblings say it."""

    role: PodRole
    wanted: int = 0
    """How many there should be."""
    pending: int = 0
    starting: int = 0
    running: int = 0
    failed: int = 0
    succeeded: int = 0
    unknown: int = 0
    refs: tuple[tuple[str, str], ...] = ()
    """Name and UID of its pods, at most a hundred."""


@value
class JobReport:
    """``status``: what the operator last wrote. It is the operator's only memory;
    the rest is looked up in the cluster.
    """

    phase: JobPhase | None = None
    mode: JobMode | None = None
    counts: tuple[RoleCounts, ...] = ()
    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0
    attempt: int = 0
    """How often the whole job, or a role of it, was started again.
    Pods and ConfigMap carry the attempt that they belong to.
    """
    restarts: int = 0
    """Restarts after failures of the program."""
    forgiven: int = 0
    """Of these, and of restarts in their pods, how many no longer count against ``backoffLimit``."""
    pod_restarts: tuple[tuple[str, int], ...] = ()
    """Restarts of single pods, by name."""
    completed: tuple[tuple[str, str], ...] = ()
    """Pods of this attempt that ended well, as ranges of numbers by role (``0-2,5``):
    they are not run again when they are deleted.
    """
    port: int = 0
    """The base port of this job's endpoints; 0 is not chosen yet."""
    node_ports: tuple[tuple[str, int], ...] = ()
    """Base ports by pod name in Host mode."""
    start_s: float | None = None
    completion_s: float | None = None
    progress: tuple[tuple[str, str], ...] = ()
    """What the job says about itself: ``percent``, ``etaSeconds``, metrics."""
    last_logs: tuple[tuple[str, str], ...] = ()
    """The last lines of pods that failed, by pod name."""
    selector: str = ""
    """Labels of its worker pods, ``a=b,c=d``: an autoscaler looks for it through the scale subresource."""


@value
class PaddleJob:
    """One resource."""

    name: str
    namespace: str
    uid: str
    generation: int = 1
    resource_version: str = ""
    created_s: float = 0.0
    is_deleting: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    finalizers: tuple[str, ...] = ()
    api: JobApi = JobApi.BATCH
    spec: JobSpec
    report: JobReport = JobReport()
