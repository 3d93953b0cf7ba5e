"""What the objects of a job are called: names, labels and annotations of the old operators, which tools rely on.
A decider.
"""

from __future__ import annotations

import re

from umiak.paddlejob.resource import JobApi, PodRole

LONGEST_HOST = 63
RES_NAME, RES_TYPE = "paddle-res-name", "paddle-res-type"
"""Labels of pods: the pod's own name, and its role."""
RESOURCE = "paddle-resource"
"""An annotation of pods: the role."""

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\Z")
_KUBEFLOW_WORDS = {PodRole.PS: "master", PodRole.WORKER: "worker", PodRole.HETER: "heter"}


def role_word(role: PodRole, api: JobApi = JobApi.BATCH) -> str:
    """A role as the names of its pods say it."""
    return _KUBEFLOW_WORDS[role] if api is JobApi.KUBEFLOW else role.value


def pod_name(job: str, role: PodRole, index: int, api: JobApi = JobApi.BATCH) -> str:
    """Of a pod, of its Service, and of its host."""
    return f"{job}-{role_word(role, api)}-{index}"


def is_host_label(text: str) -> bool:
    """Whether this can be a pod's host name: RFC 1123."""
    return len(text) <= LONGEST_HOST and _LABEL.match(text) is not None


def is_service_name(text: str) -> bool:
    """Whether a Service can be called so on every cluster: RFC 1035, which begins with a letter."""
    return is_host_label(text) and text[0].isalpha()


def role_path(role: PodRole, api: JobApi) -> str:
    """Where a role stands in the manifest."""
    if api is JobApi.KUBEFLOW:
        return f"spec.paddleReplicaSpecs.{'Master' if role is PodRole.PS else 'Worker'}"
    return f"spec.{role.value}"
