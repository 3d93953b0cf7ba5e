"""The fields of ``spec`` of a ``batch.paddlepaddle.org/v1`` PaddleJob: a table. Values."""

from __future__ import annotations

from umiak.paddlejob import failure_rules
from umiak.paddlejob.fields import BOOLEAN, INTEGER, OBJECT, QUANTITIES, TEMPLATE, CelRule, ResourceField, old_field
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
        "imagePullTimeoutSeconds",
        "Seconds from when a node has taken a pod until its images must be there: when they have passed and a pull has failed "
        "(ErrImagePull, ImagePullBackOff), the job has failed. A pull that goes on is waited for.",
        INTEGER,
        default="no limit",
        least=1,
        most=10**9,
    ),
    ResourceField(
        "pendingTimeoutSeconds",
        "Seconds from the creation of a pod until it must run; then the job has failed, with the scheduler's or the node's word why. Elastic jobs "
        "wait while they have enough workers. Pods that are not created yet, as a quota or a queue forbids them, do not count.",
        INTEGER,
        default="no limit",
        least=1,
        most=10**9,
    ),
)
"""Of the run policy, in both dialects."""


def _role(name: str, meaning: str) -> ResourceField:
    return old_field(
        name,
        meaning,
        OBJECT,
        fields=(
            old_field("replicas", "Number of pods.", INTEGER, least=0, most=MOST_REPLICAS, required=True),
            old_field(
                "requests",
                "Fewest pods that an elastic job goes on with.",
                INTEGER,
                default="1",
                least=0,
                most=MOST_REPLICAS,
            ),
            old_field(
                "limits",
                "Most pods that an elastic job may be scaled to.",
                INTEGER,
                default="no limit",
                least=0,
                most=MOST_REPLICAS,
            ),
            old_field(
                "template",
                "Pod template: metadata and spec as in any workload. Fields that this operator does not know reach the pods "
                "unchanged. The container called `paddle`, else the first one, is the training: it gets the variables of the job and decides how its pod ends.",
                TEMPLATE,
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


SCHEDULING = old_field(
    "schedulingPolicy",
    "Gang scheduling: the pods are started together or not at all. Needs an operator that runs with `--scheduling`.",
    OBJECT,
    fields=(
        old_field(
            "minAvailable",
            "Number of pods that must fit before any is started.",
            INTEGER,
            default="all pods of the job",
            least=0,
        ),
        old_field("queue", "Queue of the scheduler."),
        old_field("priorityClass", "Priority class of the gang."),
        old_field(
            "minResources",
            "Resources that must be free before any pod is started.",
            QUANTITIES,
            default="the sum of what the pods request",
        ),
    ),
)

RUN_POLICY = ResourceField(
    "runPolicy",
    "How the job is run, restarted and cleaned up. Manifests for the old operator never have it.",
    OBJECT,
    fields=(
        ResourceField(
            "suspend",
            "true deletes the pods and keeps the job; false starts it again. Kueue sets it.",
            BOOLEAN,
            default="false",
        ),
        ResourceField(
            "backoffLimit",
            "How often the job is restarted after failures of its own. Pods that the cluster took away do not count.",
            INTEGER,
            default="3",
            least=0,
            most=1_000_000,
        ),
        ResourceField(
            "backoffResetSeconds",
            "After the job has run well for so long, restarts before that no longer count against backoffLimit. 0: they always do.",
            INTEGER,
            default="3600",
            least=0,
            most=1_000_000_000,
        ),
        ResourceField(
            "restartScope",
            "What is restarted when a pod fails: the pod, all pods of its role, or the whole job.",
            default="Pod with parameter servers and for elastic jobs, else Job",
            words=SCOPE_WORDS,
            is_closed=True,
        ),
        ResourceField(
            "ttlSecondsAfterFinished",
            "Seconds after its end until the job itself is deleted.",
            INTEGER,
            default="never",
            least=0,
            most=10**9,
        ),
        ResourceField(
            "activeDeadlineSeconds",
            "Seconds that the job may run, restarts included; then it has failed.",
            INTEGER,
            default="no limit",
            least=1,
            most=10**9,
        ),
        *START_LIMITS,
        failure_rules.field(ROLE_WORDS),
        ResourceField(
            "successPolicy",
            "The job is done when its workers are (servers are then stopped), or only when all roles are.",
            default="Workers",
            words=SUCCESS_WORDS,
            is_closed=True,
        ),
        ResourceField(
            "managedBy",
            "Another controller that runs this job: this operator leaves it alone. Can't be changed.",
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
    old_field(
        "cleanPodPolicy",
        "Which pods of a finished job are deleted. Pods of a failed job that still run are deleted unless it is Never.",
        default="OnCompletion; an unknown word means the same and is a warning",
        words=CLEAN_WORDS,
    ),
    old_field(
        "cleanPolicy",
        "A slip in a document of the old operator, so that manifests have it.",
        unused="the field is called cleanPodPolicy",
    ),
    old_field(
        "intranet",
        "How pods reach one another: by pod address, by the name of a headless Service, or on the network of their nodes.",
        default="PodIP",
        words=INTRANET_WORDS,
    ),
    old_field(
        "withGloo",
        "Gloo barriers of a job with parameter servers: 0 off, 1 for workers, 2 for workers and servers.",
        INTEGER,
        default="0",
        least=0,
        most=2,
    ),
    _role("ps", "Parameter servers. A job that has them is of mode PS."),
    _role("worker", "Trainers."),
    _role("heter", "Heterogeneous trainers, of a job with parameter servers."),
    old_field(
        "elastic",
        "Any number makes the job elastic: workers may come and go, and `kubectl scale` changes their number.",
        INTEGER,
        default="not elastic",
    ),
    SCHEDULING,
    RUN_POLICY,
    old_field(
        "sampleSetRef",
        "Data of a SampleSet of PaddleCloud.",
        OBJECT,
        unused="SampleSets of PaddleCloud are not supported: mount their PersistentVolumeClaim in the template",
        fields=(
            old_field("name", "Name of the SampleSet."),
            old_field("namespace", "Its namespace."),
            old_field("mountPath", "Where its data would be mounted."),
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
    rules = [
        CelRule(
            rule="!self.metadata.name.contains('.')", message="the name must not have a dot: it is a part of host names"
        )
    ]
    for role in roles:
        last = f"string(self.spec.{role}.replicas > 0 ? self.spec.{role}.replicas - 1 : 0)"
        rules.append(
            CelRule(
                rule=f"!has(self.spec.{role}) || size(self.metadata.name) + size({last}) + {len(role) + 2} <= {LONGEST_HOST}",
                message=f"the name is too long: <name>-{role}-<index> is a host name, of at most {LONGEST_HOST} characters",
            )
        )
    return tuple(rules)


MISSPELLED = {"cleanPolicy": "cleanPodPolicy"}
"""Names that documents of the old operator had by mistake: a warning that names the right one.
They have no effect, and are in the definition so that `kubectl create` does not refuse manifests that have them.
"""
