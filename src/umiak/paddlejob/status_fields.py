"""The fields of ``status``: a table. Values.

The first ones are those of the old operator, under their old names. The rest is what this operator has to remember.
"""

from __future__ import annotations

from umiak.paddlejob.fields import INTEGER, LIST, NUMBERS, OBJECT, TEXTS, TIME, ResourceField, old_field

_COUNTS = (
    ("pending", "Pods that wait for a node, an image or a volume."),
    ("starting", "Pods that run, and are not ready."),
    ("running", "Pods that run."),
    ("failed", "Pods that failed."),
    ("succeeded", "Pods that ended well."),
    ("unknown", "Pods of nodes that are lost."),
)


def _count(name: str, meaning: str, *, is_old: bool = True) -> ResourceField:
    return ResourceField(name, meaning, INTEGER, is_old=is_old)


def _role(name: str) -> ResourceField:
    return old_field(
        name,
        f"Pods of the role {name} by how they are.",
        OBJECT,
        fields=(
            *(_count(*each) for each in _COUNTS),
            _count("desired", "Number of pods that there should be.", is_old=False),
            old_field(
                "refs",
                "Its pods, at most a hundred.",
                LIST,
                fields=(
                    old_field("apiVersion", "v1."),
                    old_field("kind", "Pod."),
                    old_field("namespace", "Namespace of the pod."),
                    old_field("name", "Name of the pod."),
                    old_field("uid", "UID of the pod."),
                ),
            ),
        ),
    )


CONDITION_FIELDS = (
    ResourceField(
        "type",
        "What it is about: Accepted, Waiting, Running, Restarting, Suspended (also by a queue of Kueue: reasons Queued and Evicted), Queued, "
        "Succeeded, Failed, SpecWarnings, TemplateChanged or GangScheduling.",
        required=True,
    ),
    ResourceField("status", "True, False or Unknown.", required=True),
    ResourceField("reason", "Why, in one word for programs."),
    ResourceField("message", "Why, in words for people."),
    ResourceField("lastTransitionTime", "Since when it is so.", TIME),
    ResourceField("lastUpdateTime", "As lastTransitionTime; Kubeflow has both.", TIME),
    ResourceField("observedGeneration", "Version of the spec that was looked at.", INTEGER),
)

FIELDS = (
    old_field(
        "phase",
        "Pending, Starting, Running, Restarting, Scaling, Suspended, Completing, Completed, Failed or Terminating.",
    ),
    old_field("mode", "PS, Collective or Single."),
    _role("ps"),
    _role("worker"),
    _role("heter"),
    old_field("elastic", "Not written any more."),
    old_field("startTime", "When the job first ran.", TIME),
    old_field("completionTime", "When it ended.", TIME),
    old_field(
        "observedGeneration",
        "Version of the spec that this status is about: `metadata.generation` of then.",
        INTEGER,
        remembered="observed_generation",
    ),
    ResourceField(
        "conditions",
        "What is true of the job, each with a reason and since when.",
        LIST,
        fields=CONDITION_FIELDS,
        keys=("type",),
    ),
    ResourceField("message", "Message of the condition that changed last."),
    ResourceField(
        "workers", "Running workers and how many there should be: 1/2; of a job that is over those that ended well."
    ),
    ResourceField("replicas", "Number of worker pods, for the scale subresource.", INTEGER),
    ResourceField("selector", "Labels of worker pods, for the scale subresource."),
    ResourceField("attempt", "How often the job, or a role of it, was started again.", INTEGER, remembered="attempt"),
    ResourceField("restarts", "Restarts that count against runPolicy.backoffLimit.", INTEGER, remembered="restarts"),
    ResourceField(
        "forgivenRestarts",
        "Those that no longer count, since the job ran well for runPolicy.backoffResetSeconds after them.",
        INTEGER,
        remembered="forgiven",
    ),
    ResourceField("podRestarts", "Restarts of single pods, by name.", NUMBERS, remembered="pod_restarts"),
    ResourceField("completed", "Numbers of the pods that ended well, by role: 0-2,5.", TEXTS, remembered="completed"),
    ResourceField("port", "First port of the job's endpoints.", INTEGER, remembered="port"),
    ResourceField("hostPorts", "First ports by pod, with `intranet: Host`.", NUMBERS, remembered="node_ports"),
    ResourceField(
        "progress",
        "What the job says about itself in its log: percent, etaSeconds, metrics.",
        TEXTS,
        remembered="progress",
    ),
    ResourceField("lastLogs", "Last lines of pods that failed, by name.", TEXTS, remembered="last_logs"),
)

_REPLICA_STATUS = (
    _count("active", "Pods that are not over."),
    _count("succeeded", "Pods that ended well."),
    _count("failed", "Pods that failed."),
    old_field("selector", "Labels of the pods."),
)

KUBEFLOW_FIELDS = (
    *FIELDS,
    old_field(
        "replicaStatuses",
        "Pods by role, as Kubeflow counts them.",
        OBJECT,
        fields=tuple(
            old_field(role, f"Pods of the role {role}.", OBJECT, fields=_REPLICA_STATUS)
            for role in ("Master", "Worker")
        ),
    ),
    old_field("lastReconcileTime", "Not written.", TIME),
)
"""Of kubeflow.org/v1."""
