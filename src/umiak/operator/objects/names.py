"""Labels, annotations and kinds of the operator's objects; those that the old operators had are in `paddlejob.names`.
Values.
"""

from __future__ import annotations

import json
from hashlib import sha256

from umiak.paddlejob.names import RES_TYPE
from umiak.paddlejob.resource import GROUP, KIND, JobApi, PodRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.paddlejob.resource import PaddleJob

JOB_NAME = f"{GROUP}/job-name"
"""A label of everything that belongs to a job: for ``kubectl logs -l``, and the selector of the scale subresource."""
INDEX = f"{GROUP}/index"
"""An annotation of pods: the number within the role."""
ATTEMPT = f"{GROUP}/attempt"
"""An annotation of pods and ConfigMaps: which attempt they belong to. Missing: 0."""
DIGEST = f"{GROUP}/digest"
"""An annotation: of the template that a pod was made from, of the contents of another object."""
MAIN_CONTAINER = f"{GROUP}/main-container"
"""An annotation of pods: the container that decides how the pod ends (`paddlejob.templates.main_container`)."""
WOKEN = f"{GROUP}/woken"
"""An annotation of pods, changed when the ConfigMap is there that they wait for (`policies.wake`)."""
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""An annotation of pods: whose log ``kubectl logs`` prints."""

KUBEFLOW_JOB = "training.kubeflow.org/job-name"
KUBEFLOW_TYPE = "training.kubeflow.org/replica-type"
KUBEFLOW_INDEX = "training.kubeflow.org/replica-index"
KUBEFLOW_OPERATOR = "training.kubeflow.org/operator-name"
KUBEFLOW_ROLE = "training.kubeflow.org/job-role"
KUBEFLOW_OURS = "paddlejob-controller"

POD = "Pod"
SERVICE = "Service"
CONFIG_MAP = "ConfigMap"


def owners(job: PaddleJob) -> list[JsonObject]:
    """The owner reference of a child: with it the cluster collects the child when the job is gone."""
    return [
        {
            "apiVersion": job.api.value,
            "kind": KIND,
            "name": job.name,
            "uid": job.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def selector(job: PaddleJob) -> str:
    """Labels of a job's worker pods, for the scale subresource."""
    if job.api is JobApi.KUBEFLOW:
        return f"{KUBEFLOW_JOB}={job.name},{KUBEFLOW_TYPE}={PodRole.WORKER.value}"
    return f"{JOB_NAME}={job.name},{RES_TYPE}={PodRole.WORKER.value}"


def digest(contents: object) -> str:
    """A short name for what an object holds: equal contents, equal digests."""
    text = json.dumps(contents, sort_keys=True, separators=(",", ":"), default=str)
    return sha256(text.encode()).hexdigest()[:16]
