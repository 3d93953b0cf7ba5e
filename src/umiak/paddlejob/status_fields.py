"""The fields of ``status``: a table. Values.

The first ones are those of the old operator, under their old names. The rest is what this operator has to remember.
"""

from __future__ import annotations

from umiak.paddlejob.fields import Field, FieldKind

_COUNTS = (
    ("pending", "Pods that wait for a node, an image or a volume."),
    ("starting", "Pods that run, and are not ready."),
    ("running", "Pods that run."),
    ("failed", "Pods that failed."),
    ("succeeded", "Pods that ended well."),
    ("unknown", "Pods of nodes that are lost."),
)


def _count(name: str, meaning: str, *, is_old: bool = True) -> Field:
    return Field(name=name, kind=FieldKind.INTEGER, meaning=meaning, is_old=is_old)


def _role(name: str) -> Field:
    return Field(
        name=name,
        kind=FieldKind.OBJECT,
        meaning=f"Pods of the role {name} by how they are.",
        is_old=True,
        fields=(
            *(_count(*each) for each in _COUNTS),
            _count("desired", "Number of pods that there should be.", is_old=False),
            Field(
                name="refs",
                kind=FieldKind.LIST,
                meaning="Its pods, at most a hundred.",
                is_old=True,
                fields=(
                    Field(name="apiVersion", meaning="v1.", is_old=True),
                    Field(name="kind", meaning="Pod.", is_old=True),
                    Field(name="namespace", meaning="Namespace of the pod.", is_old=True),
                    Field(name="name", meaning="Name of the pod.", is_old=True),
                    Field(name="uid", meaning="UID of the pod.", is_old=True),
                ),
            ),
        ),
    )


CONDITION_FIELDS = (
    Field(name="type", meaning="What it is about.", required=True),
    Field(name="status", meaning="True, False or Unknown.", required=True),
    Field(name="reason", meaning="Why, in one word for programs."),
    Field(name="message", meaning="Why, in words for people."),
    Field(name="lastTransitionTime", kind=FieldKind.TIME, meaning="Since when it is so."),
    Field(name="lastUpdateTime", kind=FieldKind.TIME, meaning="As lastTransitionTime; Kubeflow has both."),
    Field(name="observedGeneration", kind=FieldKind.INTEGER, meaning="Version of the spec that was looked at."),
)

FIELDS = (
    Field(
        name="phase",
        meaning="Pending, Starting, Running, Restarting, Scaling, Suspended, Completing, Completed, Failed or Terminating.",
        is_old=True,
    ),
    Field(name="mode", meaning="PS, Collective or Single.", is_old=True),
    _role("ps"),
    _role("worker"),
    _role("heter"),
    Field(name="elastic", meaning="Not written any more.", is_old=True),
    Field(name="startTime", kind=FieldKind.TIME, meaning="When the job first ran.", is_old=True),
    Field(name="completionTime", kind=FieldKind.TIME, meaning="When it ended.", is_old=True),
    Field(
        name="observedGeneration",
        kind=FieldKind.INTEGER,
        meaning="Version of the spec that this status is about: `metadata.generation` of then.",
        is_old=True,
    ),
    Field(
        name="conditions",
        kind=FieldKind.LIST,
        meaning="What is true of the job, each with a reason and since when.",
        fields=CONDITION_FIELDS,
        keys=("type",),
    ),
    Field(name="message", meaning="Message of the condition that changed last."),
    Field(name="workers", meaning="Running workers and how many there should be: 1/2."),
    Field(name="replicas", kind=FieldKind.INTEGER, meaning="Number of worker pods, for the scale subresource."),
    Field(name="selector", meaning="Labels of worker pods, for the scale subresource."),
    Field(name="attempt", kind=FieldKind.INTEGER, meaning="How often the job, or a role of it, was started again."),
    Field(name="restarts", kind=FieldKind.INTEGER, meaning="Restarts that count against runPolicy.backoffLimit."),
    Field(name="podRestarts", kind=FieldKind.NUMBERS, meaning="Restarts of single pods, by name."),
    Field(name="completed", kind=FieldKind.TEXTS, meaning="Numbers of the pods that ended well, by role: 0-2,5."),
    Field(name="port", kind=FieldKind.INTEGER, meaning="First port of the job's endpoints."),
    Field(name="hostPorts", kind=FieldKind.NUMBERS, meaning="First ports by pod, with `intranet: Host`."),
    Field(
        name="progress", kind=FieldKind.TEXTS, meaning="What the job says about itself: percent, etaSeconds, metrics."
    ),
    Field(name="lastLogs", kind=FieldKind.TEXTS, meaning="Last lines of pods that failed, by name."),
)

_REPLICA_STATUS = (
    _count("active", "Pods that are not over."),
    _count("succeeded", "Pods that ended well."),
    _count("failed", "Pods that failed."),
    Field(name="selector", meaning="Labels of the pods.", is_old=True),
)

KUBEFLOW_FIELDS = (
    *FIELDS,
    Field(
        name="replicaStatuses",
        kind=FieldKind.OBJECT,
        meaning="Pods by role, as Kubeflow counts them.",
        is_old=True,
        fields=tuple(
            Field(
                name=role,
                kind=FieldKind.OBJECT,
                meaning=f"Pods of the role {role}.",
                is_old=True,
                fields=_REPLICA_STATUS,
            )
            for role in ("Master", "Worker")
        ),
    ),
    Field(name="lastReconcileTime", kind=FieldKind.TIME, meaning="Not written.", is_old=True),
)
"""Of kubeflow.org/v1."""
