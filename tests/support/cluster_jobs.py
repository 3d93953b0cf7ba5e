"""PaddleJobs in the testbed's real cluster: their manifests, and what `kubectl` tells about them."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from testbed.kubernetes.cluster import Cluster
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"
ENDED = ("Completed", "Failed")
TOKEN = "token"
"""The Secret with the job's token."""
END_S = 400
"""How long a job may take to its end; one that does not hang never takes this long."""


def template(
    *command: str, shared: Path | None = None, env: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """A pod with one container that runs this; one thread in each, because all pods share a small machine.

    The directory `shared` is the same one for all pods, whatever node they are on.
    """
    variables = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONUNBUFFERED": "1", **(env or {})}
    container: dict[str, Any] = {
        "name": "paddle",
        "image": "registry.example/training:v1",
        "command": list(command),
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "envFrom": [{"secretRef": {"name": TOKEN}}],
        "resources": {
            "requests": {"cpu": "100m"}
        },  # without any, a busy machine would leave the containers no time at all
    }
    volumes = []
    if shared:
        container["volumeMounts"] = [{"name": "shared", "mountPath": str(shared)}]
        volumes = [{"name": "shared", "hostPath": {"path": str(shared)}}]
    return {"spec": {"terminationGracePeriodSeconds": 5, "containers": [container], "volumes": volumes, **spec}}


def paddle_job(name: str, *, roles: Mapping[str, tuple[int, dict[str, Any]]], **spec: Any) -> dict[str, Any]:
    """A manifest: `roles={"worker": (2, template(...))}`."""
    rows = {role: {"replicas": count, "template": pod} for role, (count, pod) in roles.items()}
    return {
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name},
        "spec": {**rows, **spec},
    }


class ClusterJobs:
    """The jobs of one namespace, through `kubectl`."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": TOKEN}}
        self.kubectl(
            "create", "-f", "-", input=json.dumps({**secret, "stringData": {"UMIAK_TOKEN": secrets.token_hex(16)}})
        )

    def kubectl(self, *words: str, check: bool = True, **more: Any) -> str:
        done = self.cluster.kubectl("--namespace", self.namespace, *words, check=check, **more)
        return f"{done.stdout}" if check else f"{done.stdout}{done.stderr}"

    def create(self, manifest: Mapping[str, Any]) -> str:
        """``kubectl create -f``; the job's name."""
        self.kubectl("create", "-f", "-", input=json.dumps(manifest))
        return str(manifest["metadata"]["name"])

    def status(self, name: str) -> dict[str, Any]:
        path = f"/apis/batch.paddlepaddle.org/v1/namespaces/{self.namespace}/paddlejobs/{name}"
        found: dict[str, Any] = self.cluster.request("GET", path).get("status", {})
        return found

    def phase(self, name: str) -> str:
        return str(self.status(name).get("phase", ""))

    def pods(self) -> dict[str, dict[str, Any]]:
        """By name, those that are not being deleted."""
        items = self.cluster.request("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return {each["metadata"]["name"]: each for each in items if "deletionTimestamp" not in each["metadata"]}

    def logs(self, pod: str) -> str:
        return self.kubectl("logs", pod, check=False)

    def until(self, look: Callable[[], Any], what: str) -> Any:
        """Wait; in the error is what a person would look at. It looks seldom, because looking takes time from the pods."""
        deadline = time.monotonic() + END_S
        while not (seen := look()):
            assert time.monotonic() < deadline, f"not within {END_S} s: {what}\n{self.story()}"
            time.sleep(0.5)
        return seen

    def until_logged(self, pod: str, text: str) -> str:
        """Wait until a pod has printed this."""

        def look() -> str:
            told = self.logs(pod)
            return told if text in told else ""

        told: str = self.until(look, f"{pod} prints {text!r}")
        return told

    def until_end(self, name: str, phase: str = "Completed") -> dict[str, Any]:
        """The status of a job that has ended so."""
        ended: dict[str, Any] = self.until(
            lambda: status if (status := self.status(name)).get("phase") in ENDED else None, f"{name} ends"
        )
        assert ended["phase"] == phase, self.story()
        return ended

    def story(self) -> str:
        """Everything that helps to find out what happened here."""
        parts = [self.kubectl("get", "pdj,pods", "-o", "wide", check=False)]
        parts.append(self.kubectl("get", "pdj", "-o", "jsonpath={.items[*].status}", check=False))
        parts.append(self.kubectl("get", "events", "--sort-by=.lastTimestamp", check=False)[-6000:])
        parts += [f"---- {name}\n{self.logs(name)[-2500:]}" for name in self.pods()]
        operator = ("--namespace=paddle-system", "logs", "deployment/paddle-controller-manager", "--tail=40")
        parts.append(self.cluster.kubectl(*operator, check=False).stdout)
        return "\n".join(parts)
