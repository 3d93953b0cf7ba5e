"""The fields of Kubernetes objects that umiak writes, as the cluster's schemas have them: names and types, facts of the APIs.

Kubernetes 1.37 (core/v1, batch/v1), JobSet v1alpha2, PaddleJob v1 of paddle-operator 0.3.5, Volcano's PodGroup v1beta1. A field that is
not here is refused, as a cluster would with strict validation.
"""

from __future__ import annotations

from typing import Any

TEXT, WHOLE, TRUTH, QUANTITY = "text", "whole", "truth", "quantity"
TEXTS = {"*": TEXT}
METADATA = {
    "name": TEXT,
    "namespace": TEXT,
    "labels": TEXTS,
    "annotations": TEXTS,
    "uid": TEXT,
    "resourceVersion": TEXT,
    "creationTimestamp": TEXT,
    "deletionTimestamp": TEXT,
    "deletionGracePeriodSeconds": WHOLE,
    "ownerReferences": [{"apiVersion": TEXT, "kind": TEXT, "name": TEXT, "uid": TEXT}],
}
QUANTITIES = {"*": QUANTITY}
CONTAINER = {
    "name": TEXT,
    "image": TEXT,
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "command": [TEXT],
    "args": [TEXT],
    "env": [{"name": TEXT, "value": TEXT}],
    "envFrom": [{"secretRef": {"name": TEXT}}],
    "resources": {"requests": QUANTITIES, "limits": QUANTITIES},
    "volumeMounts": [{"name": TEXT, "mountPath": TEXT, "subPath": TEXT, "readOnly": TRUTH}],
}
POD = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "terminationGracePeriodSeconds": WHOLE,
    "activeDeadlineSeconds": WHOLE,
    "automountServiceAccountToken": TRUTH,
    "schedulerName": TEXT,
    "priorityClassName": TEXT,
    "serviceAccountName": TEXT,
    "imagePullSecrets": [{"name": TEXT}],
    "nodeSelector": TEXTS,
    "subdomain": TEXT,
    "hostname": TEXT,
    "tolerations": [
        {
            "key": TEXT,
            "operator": ("Equal", "Exists"),
            "value": TEXT,
            "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
        }
    ],
    "containers": [CONTAINER],
    "volumes": [
        {
            "name": TEXT,
            "configMap": {"name": TEXT, "items": [{"key": TEXT, "path": TEXT}]},
            "emptyDir": {"medium": ("Memory", ""), "sizeLimit": QUANTITY},
            "persistentVolumeClaim": {"claimName": TEXT, "readOnly": TRUTH},
            "hostPath": {"path": TEXT},
            "nfs": {"server": TEXT, "path": TEXT},
        }
    ],
}
TEMPLATE = {"metadata": {"labels": TEXTS, "annotations": TEXTS}, "spec": POD}
JOB = {
    "completionMode": ("Indexed", "NonIndexed"),
    "completions": WHOLE,
    "parallelism": WHOLE,
    "backoffLimit": WHOLE,
    "activeDeadlineSeconds": WHOLE,
    "ttlSecondsAfterFinished": WHOLE,
    "podReplacementPolicy": ("TerminatingOrFailed", "Failed"),
    "podFailurePolicy": {
        "rules": [
            {
                "action": ("Count", "FailIndex", "FailJob", "Ignore"),
                "onPodConditions": [{"type": TEXT, "status": TEXT}],
                "onExitCodes": {"containerName": TEXT, "operator": ("In", "NotIn"), "values": [WHOLE]},
            }
        ]
    },
    "successPolicy": {"rules": [{"succeededIndexes": TEXT, "succeededCount": WHOLE}]},
    "suspend": TRUTH,
    "template": TEMPLATE,
}
ROLE = {"replicas": WHOLE, "requests": WHOLE, "limits": WHOLE, "template": TEMPLATE}
HEAD = {"apiVersion": TEXT, "kind": TEXT, "metadata": METADATA}
SCHEMAS: dict[str, dict[str, Any]] = {
    "secrets": {**HEAD, "type": TEXT, "immutable": TRUTH, "data": TEXTS, "stringData": TEXTS},
    "configmaps": {**HEAD, "immutable": TRUTH, "data": TEXTS, "binaryData": TEXTS},
    "services": {**HEAD, "spec": {"clusterIP": TEXT, "publishNotReadyAddresses": TRUTH, "selector": TEXTS}},
    "pods": {**HEAD, "spec": {**POD, "nodeName": TEXT}},
    "jobs": {**HEAD, "spec": JOB},
    "podgroups": {**HEAD, "spec": {"minMember": WHOLE, "queue": TEXT, "priorityClassName": TEXT}},
    "jobsets": {
        **HEAD,
        "spec": {
            "ttlSecondsAfterFinished": WHOLE,
            "suspend": TRUTH,
            "network": {"enableDNSHostnames": TRUTH, "subdomain": TEXT, "publishNotReadyAddresses": TRUTH},
            "successPolicy": {"operator": ("All", "Any"), "targetReplicatedJobs": [TEXT]},
            "replicatedJobs": [
                {"name": TEXT, "replicas": WHOLE, "template": {"metadata": {"labels": TEXTS}, "spec": JOB}}
            ],
        },
    },
    "paddlejobs": {
        **HEAD,
        "spec": {
            "cleanPodPolicy": ("Always", "Never", "OnFailure", "OnCompletion"),
            "intranet": ("PodIP", "Service", "Host"),
            "withGloo": WHOLE,
            "elastic": WHOLE,
            "schedulingPolicy": {"minAvailable": WHOLE, "queue": TEXT, "priorityClass": TEXT},
            "runPolicy": {"backoffLimit": WHOLE},  # of umiak's operator; the old one drops it
            "ps": ROLE,
            "worker": ROLE,
            "heter": ROLE,
        },
    },
}


def complaints(schema: Any, data: Any, where: str = "") -> list[str]:
    """Everything in which data differs from a schema."""
    if isinstance(schema, dict):
        if not isinstance(data, dict):
            return [f"{where}: must be an object"]
        found = []
        for key, item in data.items():
            inner = schema.get(key, schema.get("*"))
            found += [f"unknown field {where}.{key}"] if inner is None else complaints(inner, item, f"{where}.{key}")
        return found
    if isinstance(schema, list):
        if not isinstance(data, list):
            return [f"{where}: must be a list"]
        return [each for number, item in enumerate(data) for each in complaints(schema[0], item, f"{where}[{number}]")]
    fits = {
        TEXT: isinstance(data, str),
        QUANTITY: isinstance(data, str) and data[:1].isdigit(),
        WHOLE: type(data) is int,
        TRUTH: type(data) is bool,
    }
    is_right = data in schema if isinstance(schema, tuple) else fits[schema]
    return [] if is_right else [f"{where}: {data!r} is not {schema}"]
