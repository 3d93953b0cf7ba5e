"""The fields of ``spec`` of a ``kubeflow.org/v1`` PaddleJob: a table. Values."""

from __future__ import annotations

from umiak.paddlejob import failure_rules
from umiak.paddlejob.fields import BOOLEAN, INTEGER, OBJECT, QUANTITIES, TEMPLATE, CelRule, ResourceField, old_field
from umiak.paddlejob.job_fields import MOST_REPLICAS, START_LIMITS

EXIT_CODE = "ExitCode"
RESTART_WORDS = ("Always", "OnFailure", "Never", EXIT_CODE)
CLEAN_WORDS = ("None", "Running", "All")


def _role(name: str, meaning: str) -> ResourceField:
    return old_field(
        name,
        meaning,
        OBJECT,
        fields=(
            old_field("replicas", "Number of pods.", INTEGER, default="1", least=0, most=MOST_REPLICAS),
            old_field(
                "restartPolicy",
                "When a pod is restarted. ExitCode: 1 to 127 is final, 128 to 255 is tried again.",
                default="OnFailure",
                words=RESTART_WORDS,
            ),
            old_field("template", "Pod template.", TEMPLATE),
        ),
        rules=(CelRule(rule="!has(self.replicas) || self.replicas >= 0", message="replicas must not be negative"),),
    )


FIELDS = (
    old_field(
        "paddleReplicaSpecs",
        "Roles. With Master it is a job with parameter servers, else a collective one.",
        OBJECT,
        required=True,
        fields=(_role("Master", "Parameter servers."), _role("Worker", "Trainers.")),
    ),
    old_field(
        "runPolicy",
        "How the job is run and cleaned up.",
        OBJECT,
        fields=(
            old_field(
                "cleanPodPolicy",
                "Which pods of a finished job are deleted: none, those that still run, or all.",
                default="None",
                words=CLEAN_WORDS,
            ),
            old_field(
                "ttlSecondsAfterFinished",
                "Seconds after its end until the job itself is deleted.",
                INTEGER,
                default="never",
                least=0,
            ),
            old_field("activeDeadlineSeconds", "Seconds that the job may run.", INTEGER, default="no limit", least=0),
            old_field(
                "backoffLimit", "How often pods are restarted before the job has failed.", INTEGER, default="3", least=0
            ),
            old_field("suspend", "true deletes the pods and keeps the job. Kueue sets it.", BOOLEAN, default="false"),
            *START_LIMITS,
            failure_rules.field(("Master", "Worker")),
            old_field("managedBy", "Controller that runs this job. Can't be changed."),
            old_field(
                "schedulingPolicy",
                "Gang scheduling.",
                OBJECT,
                fields=(
                    old_field("minAvailable", "Number of pods that must fit before any is started.", INTEGER, least=0),
                    old_field("queue", "Queue of the scheduler."),
                    old_field("priorityClass", "Priority class of the gang."),
                    old_field("minResources", "Resources that must be free before any pod is started.", QUANTITIES),
                    old_field(
                        "scheduleTimeoutSeconds",
                        "How long a gang waits.",
                        INTEGER,
                        unused="gangs wait until they fit; to give up use pendingTimeoutSeconds",
                    ),
                ),
            ),
        ),
    ),
    old_field(
        "elasticPolicy",
        "Bounds of an elastic job.",
        OBJECT,
        unused="Kubeflow's operator never read it either; elastic jobs are of batch.paddlepaddle.org/v1",
        fields=(
            old_field("minReplicas", "Fewest workers.", INTEGER),
            old_field("maxReplicas", "Most workers.", INTEGER),
            old_field("maxRestarts", "Most restarts.", INTEGER),
        ),
    ),
)
RULES = (
    CelRule(
        rule="has(self.paddleReplicaSpecs.Master) || has(self.paddleReplicaSpecs.Worker)",
        message="no role: write paddleReplicaSpecs.Worker",
    ),
)
