"""What is known of a job's place in a queue of Kueue, and what is written about it. Values."""

from __future__ import annotations

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

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
    tolerations: tuple[Mapping[str, Any], ...] = ()


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
        found = self.condition(kind)
        return found is not None and found.is_true


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
    tolerations: tuple[Mapping[str, Any], ...] = ()
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
