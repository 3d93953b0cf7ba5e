"""The fields of ``spec`` of a ``batch.paddlepaddle.org/v1`` PaddleJob: a table. Values."""

from __future__ import annotations

from umiak.paddlejob import failure_rules
from umiak.paddlejob.fields import CelRule, FieldKind, ResourceField
from umiak.paddlejob.resource import CleanPods, Intranet, PodRole, RestartScope, SuccessPolicy

MOST_REPLICAS = 10_000
"""Of one role. More pods than that is a slip of the keyboard, and each of them would be an object of the cluster."""
LONGEST_HOST = 63
"""A pod's name is its host name, and a host name has at most so many characters."""

CLEAN_WORDS = tuple(word.value for word in CleanPods if word is not CleanPods.RUNNING)
INTRANET_WORDS = tuple(word.value for word in Intranet)
SCOPE_WORDS = tuple(word.value for word in RestartScope)
SUCCESS_WORDS = tuple(word.value for word in SuccessPolicy)
ROLE_WORDS = tuple(word.value for word in PodRole)

START_LIMITS = (
    ResourceField(
        name="imagePullTimeoutSeconds",
        kind=FieldKind.INTEGER,
        meaning="Seconds from when a node has taken a pod until its images must be there: when they have passed and a pull has failed "
        "(ErrImagePull, ImagePullBackOff), the job has failed. A pull that goes on is waited for.",
        default="no limit",
        least=1,
        most=10**9,
    ),
    ResourceField(
        name="pendingTimeoutSeconds",
        kind=FieldKind.INTEGER,
        meaning="Seconds from the creation of a pod until it must run; then the job has failed, with the scheduler's or the node's word why. Elastic jobs "
        "wait while they have enough workers. Pods that are not created yet, as a quota or a queue forbids them, do not count.",
        default="no limit",
        least=1,
        most=10**9,
    ),
)
"""Of the run policy, in both dialects."""


def _role(name: str, meaning: str) -> ResourceField:
    return ResourceField(
        name=name,
        kind=FieldKind.OBJECT,
        meaning=meaning,
        is_old=True,
        fields=(
            ResourceField(
                name="replicas",
                kind=FieldKind.INTEGER,
                meaning="Number of pods.",
                least=0,
                most=MOST_REPLICAS,
                required=True,
                is_old=True,
            ),
            ResourceField(
                name="requests",
                kind=FieldKind.INTEGER,
                meaning="Fewest pods that an elastic job goes on with.",
                default="1",
                least=0,
                most=MOST_REPLICAS,
                is_old=True,
            ),
            ResourceField(
                name="limits",
                kind=FieldKind.INTEGER,
                meaning="Most pods that an elastic job may be scaled to.",
                default="no limit",
                least=0,
                most=MOST_REPLICAS,
                is_old=True,
            ),
            ResourceField(
                name="template",
                kind=FieldKind.TEMPLATE,
                meaning="Pod template: metadata and spec as in any workload. Fields that this operator does not know reach the pods "
                "unchanged. The container called `paddle`, else the first one, is the training: it gets the variables of the job and decides how its pod ends.",
                is_old=True,
            ),
        ),
        rules=(
            CelRule(rule="self.replicas >= 0", message="replicas must not be negative"),
            CelRule(
                rule="!has(self.requests) || !has(self.limits) || self.requests <= self.limits",
                message="requests (fewest pods) must not be more than limits (most pods)",
            ),
        ),
    )


SCHEDULING = ResourceField(
    name="schedulingPolicy",
    kind=FieldKind.OBJECT,
    meaning="Gang scheduling: the pods are started together or not at all. Needs an operator that runs with `--scheduling`.",
    is_old=True,
    fields=(
        ResourceField(
            name="minAvailable",
            kind=FieldKind.INTEGER,
            meaning="Number of pods that must fit before any is started.",
            default="all pods of the job",
            least=0,
            is_old=True,
        ),
        ResourceField(name="queue", meaning="Queue of the scheduler.", is_old=True),
        ResourceField(name="priorityClass", meaning="Priority class of the gang.", is_old=True),
        ResourceField(
            name="minResources",
            kind=FieldKind.QUANTITIES,
            meaning="Resources that must be free before any pod is started.",
            default="the sum of what the pods request",
            is_old=True,
        ),
    ),
)

RUN_POLICY = ResourceField(
    name="runPolicy",
    kind=FieldKind.OBJECT,
    meaning="How the job is run, restarted and cleaned up. Manifests for the old operator never have it.",
    fields=(
        ResourceField(
            name="suspend",
            kind=FieldKind.BOOLEAN,
            meaning="true deletes the pods and keeps the job; false starts it again. Kueue sets it.",
            default="false",
        ),
        ResourceField(
            name="backoffLimit",
            kind=FieldKind.INTEGER,
            meaning="How often the job is restarted after failures of its own. Pods that the cluster took away do not count.",
            default="3",
            least=0,
            most=1_000_000,
        ),
        ResourceField(
            name="backoffResetSeconds",
            kind=FieldKind.INTEGER,
            meaning="After the job has run well for so long, restarts before that no longer count against backoffLimit. 0: they always do.",
            default="3600",
            least=0,
            most=1_000_000_000,
        ),
        ResourceField(
            name="restartScope",
            meaning="What is restarted when a pod fails: the pod, all pods of its role, or the whole job.",
            default="Pod with parameter servers and for elastic jobs, else Job",
            words=SCOPE_WORDS,
            is_closed=True,
        ),
        ResourceField(
            name="ttlSecondsAfterFinished",
            kind=FieldKind.INTEGER,
            meaning="Seconds after its end until the job itself is deleted.",
            default="never",
            least=0,
            most=10**9,
        ),
        ResourceField(
            name="activeDeadlineSeconds",
            kind=FieldKind.INTEGER,
            meaning="Seconds that the job may run, restarts included; then it has failed.",
            default="no limit",
            least=1,
            most=10**9,
        ),
        *START_LIMITS,
        failure_rules.field(ROLE_WORDS),
        ResourceField(
            name="successPolicy",
            meaning="The job is done when its workers are (servers are then stopped), or only when all roles are.",
            default="Workers",
            words=SUCCESS_WORDS,
            is_closed=True,
        ),
        ResourceField(
            name="managedBy",
            meaning="Another controller that runs this job: this operator leaves it alone. Can't be changed.",
            default="this operator",
        ),
    ),
    rules=(
        CelRule(
            rule="has(self.managedBy) == has(oldSelf.managedBy) && (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)",
            message="managedBy can't be changed",
        ),
    ),
)

FIELDS = (
    ResourceField(
        name="cleanPodPolicy",
        meaning="Which pods of a finished job are deleted. Pods of a failed job that still run are deleted unless it is Never.",
        default="OnCompletion; an unknown word means the same and is a warning",
        words=CLEAN_WORDS,
        is_old=True,
    ),
    ResourceField(
        name="cleanPolicy",
        meaning="A slip in a document of the old operator, so that manifests have it.",
        is_old=True,
        unused="the field is called cleanPodPolicy",
    ),
    ResourceField(
        name="intranet",
        meaning="How pods reach one another: by pod address, by the name of a headless Service, or on the network of their nodes.",
        default="PodIP",
        words=INTRANET_WORDS,
        is_old=True,
    ),
    ResourceField(
        name="withGloo",
        kind=FieldKind.INTEGER,
        meaning="Gloo barriers of a job with parameter servers: 0 off, 1 for workers, 2 for workers and servers.",
        default="0",
        least=0,
        most=2,
        is_old=True,
    ),
    _role("ps", "Parameter servers. A job that has them is of mode PS."),
    _role("worker", "Trainers."),
    _role("heter", "Heterogeneous trainers, of a job with parameter servers."),
    ResourceField(
        name="elastic",
        kind=FieldKind.INTEGER,
        meaning="Any number makes the job elastic: workers may come and go, and `kubectl scale` changes their number.",
        default="not elastic",
        is_old=True,
    ),
    SCHEDULING,
    RUN_POLICY,
    ResourceField(
        name="sampleSetRef",
        kind=FieldKind.OBJECT,
        meaning="Data of a SampleSet of PaddleCloud.",
        is_old=True,
        unused="SampleSets of PaddleCloud are not supported: mount their PersistentVolumeClaim in the template",
        fields=(
            ResourceField(name="name", meaning="Name of the SampleSet.", is_old=True),
            ResourceField(name="namespace", meaning="Its namespace.", is_old=True),
            ResourceField(name="mountPath", meaning="Where its data would be mounted.", is_old=True),
        ),
    ),
)

RULES = (
    CelRule(
        rule="has(self.ps) || has(self.worker) || has(self.heter)", message="no role: write worker, or ps and worker"
    ),
    CelRule(rule="!has(self.elastic) || has(self.worker)", message="an elastic job needs worker"),
    CelRule(rule="!has(self.ps) || has(self.worker)", message="a job with ps needs worker as well"),
)
"""Of the whole spec."""


def name_rules(roles: tuple[str, ...] = ("ps", "worker", "heter")) -> tuple[CelRule, ...]:
    """Of the whole object: the names of its pods are host names."""
    made = [
        CelRule(
            rule="!self.metadata.name.contains('.')", message="the name must not have a dot: it is a part of host names"
        )
    ]
    for role in roles:
        last = f"string(self.spec.{role}.replicas > 0 ? self.spec.{role}.replicas - 1 : 0)"
        made.append(
            CelRule(
                rule=f"!has(self.spec.{role}) || size(self.metadata.name) + size({last}) + {len(role) + 2} <= {LONGEST_HOST}",
                message=f"the name is too long: <name>-{role}-<index> is a host name, of at most {LONGEST_HOST} characters",
            )
        )
    return tuple(made)


MISSPELLED = {"cleanPolicy": "cleanPodPolicy"}
"""Names that documents of the old operator had by mistake: a warning that names the right one. They have no effect, and are in the definition
so that `kubectl create` does not refuse manifests that have them."""
