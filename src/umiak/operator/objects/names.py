"""Names, labels and annotations of the operator's objects. Values.

``paddle-res-name``, ``paddle-res-type``, ``paddle-resource``, pods and Services ``<job>-<role>-<i>``, ConfigMap and PodGroup ``<job>``
are as paddle-operator had them: people's tools look for them. Those with a slash are ours.
"""

from __future__ import annotations

from umiak.paddlejob.resource import GROUP, PodRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.paddlejob.resource import PaddleJob

RES_NAME = "paddle-res-name"
RES_TYPE = "paddle-res-type"
RESOURCE = "paddle-resource"
JOB_NAME = f"{GROUP}/job-name"
"""A label of everything that belongs to a job: ``kubectl logs -l``, and the selector of the scale subresource."""
ATTEMPT = f"{GROUP}/attempt"
"""An annotation: which attempt a pod or a ConfigMap belongs to."""
DIGEST = f"{GROUP}/digest"
"""An annotation: of the template of a pod, of the contents of another object."""
INDEX = f"{GROUP}/index"
"""An annotation: the number of a pod within its role."""

POD = "Pod"
SERVICE = "Service"
CONFIG_MAP = "ConfigMap"

KUBEFLOW_JOB = "training.kubeflow.org/job-name"
KUBEFLOW_TYPE = "training.kubeflow.org/replica-type"
KUBEFLOW_INDEX = "training.kubeflow.org/replica-index"
KUBEFLOW_OPERATOR = "training.kubeflow.org/operator-name"
KUBEFLOW_ROLES = {PodRole.PS: "master", PodRole.WORKER: "worker", PodRole.HETER: "heter"}


def pod_name(job: str, role: PodRole, index: int) -> str:
    """``wide-worker-0``."""
    return f"{job}-{role.value}-{index}"


def role_and_index(job: str, name: str) -> tuple[PodRole, int] | None:
    """What the name of a pod or Service says; None where it is none of this job's."""
    role, _, index = name[len(job) + 1 :].rpartition("-") if name.startswith(f"{job}-") else ("", "", "")
    found = next((each for each in PodRole if each.value == role), None)
    return (found, int(index)) if found and index.isascii() and index.isdigit() else None


def owner(job: PaddleJob, api_version: str, kind: str) -> list[dict[str, Any]]:
    """The owner reference of a child: with it the cluster collects the child when the job is gone."""
    return [
        {
            "apiVersion": api_version,
            "kind": kind,
            "name": job.name,
            "uid": job.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
