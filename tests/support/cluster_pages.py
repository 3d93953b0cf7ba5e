"""PaddleJobs and pods as a cluster has them, for tests of its page."""

from __future__ import annotations

from typing import Any

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def job(namespace: str, name: str, *, phase: str = "Running", message: str = "", **more: Any) -> dict[str, Any]:
    """With two workers, of which one is up."""
    container = {"name": "main", "image": "paddle:3", "env": [{"name": "PASSWORD", "value": "pw"}]}
    condition = {"type": phase, "status": "True", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}}},
        "status": {
            "phase": phase,
            "worker": {"desired": 2, "running": 1},
            "startTime": "2026-01-01T00:00:00Z",
            "progress": {"auc": "0.75", "epoch": "2/4", "samplesPerSecond": "1000"},
            "conditions": [condition],
            **more,
        },
    }


def pod(
    namespace: str,
    name: str,
    index: int,
    *,
    phase: str = "Running",
    state: dict[str, Any] | None = RUNNING,
    **more: Any,
) -> dict[str, Any]:
    """A worker of a job."""
    containers = [] if state is None else [{"name": "main", "image": "paddle:3", "state": state, "restartCount": 0}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-worker-{index}",
            "namespace": namespace,
            "labels": {"batch.paddlepaddle.org/job-name": name, "paddle-res-type": "worker"},
            "annotations": {"batch.paddlepaddle.org/index": str(index)},
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "paddle:3"}]},
        "status": {
            "phase": phase,
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": containers,
            **more,
        },
    }
