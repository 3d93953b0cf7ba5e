"""The fields of ``status``: a table. Values.

The first ones are those of the old operator, under their old names. The rest is what this operator has to remember.
"""

from __future__ import annotations

from umiak.paddlejob.fields import FieldKind, ResourceField

_COUNTS = (
    ("pending", "Pods that wait for a node, an image or a volume."),
    ("starting", "Pods that run, and are not ready."),
    ("running", "Pods that run."),
    ("failed", "Pods that failed."),
    ("succeeded", "Pods that ended well."),
    ("unknown", "Pods of nodes that are lost."),
)


def _count(name: str, meaning: str, *, is_old: bool = True) -> ResourceField:
    return ResourceField(name=name, kind=FieldKind.INTEGER, meaning=meaning, is_old=is_old)


def _role(name: str) -> ResourceField:
    return ResourceField(
        name=name,
        kind=FieldKind.OBJECT,
        meaning=f"Pods of the role {name} by how they are.",
        is_old=True,
        fields=(
            *(_count(*each) for each in _COUNTS),
            _count("desired", "Number of pods that there should be.", is_old=False),
            ResourceField(
                name="refs",
                kind=FieldKind.LIST,
                meaning="Its pods, at most a hundred.",
                is_old=True,
                fields=(
                    ResourceField(name="apiVersion", meaning="v1.", is_old=True),
                    ResourceField(name="kind", meaning="Pod.", is_old=True),
                    ResourceField(name="namespace", meaning="Namespace of the pod.", is_old=True),
                    ResourceField(name="name", meaning="Name of the pod.", is_old=True),
                    ResourceField(name="uid", meaning="UID of the pod.", is_old=True),
                ),
            ),
        ),
    )


CONDITION_FIELDS = (
    ResourceField(
        name="type",
        meaning="What it is about: Accepted, Waiting, Running, Restarting, Suspended (also by a queue of Kueue: reasons Queued and Evicted), Queued, "
        "Succeeded, Failed, SpecWarnings, TemplateChanged or GangScheduling.",
        required=True,
    ),
    ResourceField(name="status", meaning="True, False or Unknown.", required=True),
    ResourceField(name="reason", meaning="Why, in one word for programs."),
    ResourceField(name="message", meaning="Why, in words for people."),
    ResourceField(name="lastTransitionTime", kind=FieldKind.TIME, meaning="Since when it is so."),
    ResourceField(name="lastUpdateTime", kind=FieldKind.TIME, meaning="As lastTransitionTime; Kubeflow has both."),
    ResourceField(name="observedGeneration", kind=FieldKind.INTEGER, meaning="Version of the spec that was looked at."),
)

FIELDS = (
    ResourceField(
        name="phase",
        meaning="Pending, Starting, Running, Restarting, Scaling, Suspended, Completing, Completed, Failed or Terminating.",
        is_old=True,
    ),
    ResourceField(name="mode", meaning="PS, Collective or Single.", is_old=True),
    _role("ps"),
    _role("worker"),
    _role("heter"),
    ResourceField(name="elastic", meaning="Not written any more.", is_old=True),
    ResourceField(name="startTime", kind=FieldKind.TIME, meaning="When the job first ran.", is_old=True),
    ResourceField(name="completionTime", kind=FieldKind.TIME, meaning="When it ended.", is_old=True),
    ResourceField(
        name="observedGeneration",
        kind=FieldKind.INTEGER,
        meaning="Version of the spec that this status is about: `metadata.generation` of then.",
        is_old=True,
    ),
    ResourceField(
        name="conditions",
        kind=FieldKind.LIST,
        meaning="What is true of the job, each with a reason and since when.",
        fields=CONDITION_FIELDS,
        keys=("type",),
    ),
    ResourceField(name="message", meaning="Message of the condition that changed last."),
    ResourceField(
        name="workers",
        meaning="Running workers and how many there should be: 1/2; of a job that is over those that ended well.",
    ),
    ResourceField(name="replicas", kind=FieldKind.INTEGER, meaning="Number of worker pods, for the scale subresource."),
    ResourceField(name="selector", meaning="Labels of worker pods, for the scale subresource."),
    ResourceField(
        name="attempt", kind=FieldKind.INTEGER, meaning="How often the job, or a role of it, was started again."
    ),
    ResourceField(
        name="restarts", kind=FieldKind.INTEGER, meaning="Restarts that count against runPolicy.backoffLimit."
    ),
    ResourceField(
        name="forgivenRestarts",
        kind=FieldKind.INTEGER,
        meaning="Those that no longer count, since the job ran well for runPolicy.backoffResetSeconds after them.",
    ),
    ResourceField(name="podRestarts", kind=FieldKind.NUMBERS, meaning="Restarts of single pods, by name."),
    ResourceField(
        name="completed", kind=FieldKind.TEXTS, meaning="Numbers of the pods that ended well, by role: 0-2,5."
    ),
    ResourceField(name="port", kind=FieldKind.INTEGER, meaning="First port of the job's endpoints."),
    ResourceField(name="hostPorts", kind=FieldKind.NUMBERS, meaning="First ports by pod, with `intranet: Host`."),
    ResourceField(
        name="progress",
        kind=FieldKind.TEXTS,
        meaning="What the job says about itself in its log: percent, etaSeconds, metrics.",
    ),
    ResourceField(name="lastLogs", kind=FieldKind.TEXTS, meaning="Last lines of pods that failed, by name."),
)

_REPLICA_STATUS = (
    _count("active", "Pods that are not over."),
    _count("succeeded", "Pods that ended well."),
    _count("failed", "Pods that failed."),
    ResourceField(name="selector", meaning="Labels of the pods.", is_old=True),
)

KUBEFLOW_FIELDS = (
    *FIELDS,
    ResourceField(
        name="replicaStatuses",
        kind=FieldKind.OBJECT,
        meaning="Pods by role, as Kubeflow counts them.",
        is_old=True,
        fields=tuple(
            ResourceField(
                name=role,
                kind=FieldKind.OBJECT,
                meaning=f"Pods of the role {role}.",
                is_old=True,
                fields=_REPLICA_STATUS,
            )
            for role in ("Master", "Worker")
        ),
    ),
    ResourceField(name="lastReconcileTime", kind=FieldKind.TIME, meaning="Not written.", is_old=True),
)
"""Of kubeflow.org/v1."""
