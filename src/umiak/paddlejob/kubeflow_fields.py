"""The fields of ``spec`` of a ``kubeflow.org/v1`` PaddleJob: a table. Values."""

from __future__ import annotations

from umiak.paddlejob import failure_rules
from umiak.paddlejob.fields import CelRule, FieldKind, ResourceField
from umiak.paddlejob.job_fields import MOST_REPLICAS, START_LIMITS

EXIT_CODE = "ExitCode"
RESTART_WORDS = ("Always", "OnFailure", "Never", EXIT_CODE)
CLEAN_WORDS = ("None", "Running", "All")
MANAGERS = ("kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue")


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
                default="1",
                least=0,
                most=MOST_REPLICAS,
                is_old=True,
            ),
            ResourceField(
                name="restartPolicy",
                meaning="When a pod is restarted. ExitCode: 1 to 127 is final, 128 to 255 is tried again.",
                default="OnFailure",
                words=RESTART_WORDS,
                is_old=True,
            ),
            ResourceField(name="template", kind=FieldKind.TEMPLATE, meaning="Pod template.", is_old=True),
        ),
        rules=(CelRule(rule="!has(self.replicas) || self.replicas >= 0", message="replicas must not be negative"),),
    )


FIELDS = (
    ResourceField(
        name="paddleReplicaSpecs",
        kind=FieldKind.OBJECT,
        meaning="Roles. With Master it is a job with parameter servers, else a collective one.",
        required=True,
        is_old=True,
        fields=(_role("Master", "Parameter servers."), _role("Worker", "Trainers.")),
    ),
    ResourceField(
        name="runPolicy",
        kind=FieldKind.OBJECT,
        meaning="How the job is run and cleaned up.",
        is_old=True,
        fields=(
            ResourceField(
                name="cleanPodPolicy",
                meaning="Which pods of a finished job are deleted: none, those that still run, or all.",
                default="None",
                words=CLEAN_WORDS,
                is_old=True,
            ),
            ResourceField(
                name="ttlSecondsAfterFinished",
                kind=FieldKind.INTEGER,
                meaning="Seconds after its end until the job itself is deleted.",
                default="never",
                least=0,
                is_old=True,
            ),
            ResourceField(
                name="activeDeadlineSeconds",
                kind=FieldKind.INTEGER,
                meaning="Seconds that the job may run.",
                default="no limit",
                least=0,
                is_old=True,
            ),
            ResourceField(
                name="backoffLimit",
                kind=FieldKind.INTEGER,
                meaning="How often pods are restarted before the job has failed.",
                default="3",
                least=0,
                is_old=True,
            ),
            ResourceField(
                name="suspend",
                kind=FieldKind.BOOLEAN,
                meaning="true deletes the pods and keeps the job. Kueue sets it.",
                default="false",
                is_old=True,
            ),
            *START_LIMITS,
            failure_rules.field(("Master", "Worker")),
            ResourceField(name="managedBy", meaning="Controller that runs this job. Can't be changed.", is_old=True),
            ResourceField(
                name="schedulingPolicy",
                kind=FieldKind.OBJECT,
                meaning="Gang scheduling.",
                is_old=True,
                fields=(
                    ResourceField(
                        name="minAvailable",
                        kind=FieldKind.INTEGER,
                        meaning="Number of pods that must fit before any is started.",
                        least=0,
                        is_old=True,
                    ),
                    ResourceField(name="queue", meaning="Queue of the scheduler.", is_old=True),
                    ResourceField(name="priorityClass", meaning="Priority class of the gang.", is_old=True),
                    ResourceField(
                        name="minResources",
                        kind=FieldKind.QUANTITIES,
                        meaning="Resources that must be free before any pod is started.",
                        is_old=True,
                    ),
                    ResourceField(
                        name="scheduleTimeoutSeconds",
                        kind=FieldKind.INTEGER,
                        meaning="How long a gang waits.",
                        is_old=True,
                        unused="gangs wait until they fit; to give up use pendingTimeoutSeconds",
                    ),
                ),
            ),
        ),
    ),
    ResourceField(
        name="elasticPolicy",
        kind=FieldKind.OBJECT,
        meaning="Bounds of an elastic job.",
        is_old=True,
        unused="Kubeflow's operator never read it either; elastic jobs are of batch.paddlepaddle.org/v1",
        fields=(
            ResourceField(name="minReplicas", kind=FieldKind.INTEGER, meaning="Fewest workers.", is_old=True),
            ResourceField(name="maxReplicas", kind=FieldKind.INTEGER, meaning="Most workers.", is_old=True),
            ResourceField(name="maxRestarts", kind=FieldKind.INTEGER, meaning="Most restarts.", is_old=True),
        ),
    ),
)
RULES = (
    CelRule(
        rule="has(self.paddleReplicaSpecs.Master) || has(self.paddleReplicaSpecs.Worker)",
        message="no role: write paddleReplicaSpecs.Worker",
    ),
)
