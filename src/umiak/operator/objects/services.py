"""Headless Services that give pods their names, and the ConfigMap that tells them one another's. A decider."""

from __future__ import annotations

from umiak.contracts.paddlejob import PORTS_PER_POD
from umiak.operator.objects.names import (
    ATTEMPT,
    DIGEST,
    JOB_NAME,
    KUBEFLOW_INDEX,
    KUBEFLOW_JOB,
    KUBEFLOW_TYPE,
    digest,
    owners,
)
from umiak.operator.policies.ports import job_port
from umiak.paddlejob import kubeflow
from umiak.paddlejob.names import RES_NAME, pod_name, role_word
from umiak.paddlejob.resource import Intranet, JobApi, PodRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.operator.policies.view import JobView, PodSlot
    from umiak.paddlejob.resource import PaddleJob


def slots_with_service(view: JobView) -> list[PodSlot]:
    """Pods that are reached by name: all in Service mode and of Kubeflow's jobs;
    the one where pods meet, if they meet at one.
    """
    if view.spec.intranet is Intranet.SERVICE or view.job.api is JobApi.KUBEFLOW:
        return list(view.slots)
    if view.spec.is_elastic and not view.facts.etcd:
        return view.slots_of(PodRole.WORKER)[:1]
    return []


def service(job: PaddleJob, slot: PodSlot) -> JsonObject:
    """A pod's name in the cluster's DNS, also while the pod is not ready."""
    if job.api is JobApi.KUBEFLOW:
        labels = {
            KUBEFLOW_JOB: job.name,
            KUBEFLOW_TYPE: role_word(slot.role, job.api),
            KUBEFLOW_INDEX: str(slot.index),
        }
        wish = job.spec.role(slot.role)
        named = [each for each in (kubeflow.ports_of(wish) if wish else ()) if each.get("name")]
        ports = [
            {"name": each["name"], "port": each["containerPort"], "targetPort": each["containerPort"]} for each in named
        ]
    else:
        labels = {RES_NAME: slot.name}
        first = job_port(job)
        ports = [
            {"name": f"p-{number}", "port": first + number, "targetPort": first + number}
            for number in range(PORTS_PER_POD)
        ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": pod_name(job.name, slot.role, slot.index, job.api),
            "namespace": job.namespace,
            "labels": {**labels, JOB_NAME: job.name},
            "ownerReferences": owners(job),
        },
        "spec": {
            "clusterIP": "None",
            "ipFamilyPolicy": "PreferDualStack",
            "publishNotReadyAddresses": True,
            "selector": labels,
            "ports": [{**port, "protocol": "TCP"} for port in ports],
        },
    }


def config_map(job: PaddleJob, data: dict[str, str]) -> JsonObject:
    """What all pods of an attempt are told."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "labels": {RES_NAME: job.name, JOB_NAME: job.name},
            "annotations": {ATTEMPT: str(job.report.attempt), DIGEST: digest(data)},
            "ownerReferences": owners(job),
        },
        "data": data,
    }
