"""Adapter: a real Kueue in a testbed's cluster, in a pod, from the manifests of its own source.

    with cluster.opened(2) as kube, kueue.opened(kube, integrations={"frameworks": ["batch/job"]}):
        kube.apply(cluster_queue)

Its CRDs, rights, webhooks and certificates are those of `config/default` in its Go module, as `kubectl kustomize` prints them. Changed are its
configuration, its image (every image of the testbed has the machine's programs), and what a small cluster needs: no requests of its pod, and
no server for lists of pending Workloads, which would be a part of the API that may be missing.

When it is closed nothing of it is left, so that other tests find a cluster without Kueue.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from testbed.kubernetes import programs
from testbed.kubernetes.cluster import Cluster
from testbed.kubernetes.control_plane import ControlPlane

MODULE = "sigs.k8s.io/kueue"
API = "kueue.x-k8s.io/v1beta2"
NAMESPACE = "kueue-system"
DEPLOYMENT = "kueue-controller-manager"
OWN = ("workloads", "localqueues", "clusterqueues", "resourceflavors", "workloadpriorityclasses")
"""Resources that may be there when it is closed: Kueue itself takes its finalizers from them."""
_SECRET = "kueue-webhook-server-cert"
_LEFT_OUT = ("APIService", "PriorityLevelConfiguration", "FlowSchema")


@functools.cache
def available() -> str | None:
    """Why there can be no Kueue on this machine, or `None` where there can."""
    if missing := programs.available("kueue"):
        return missing
    try:
        programs.sources("kueue", MODULE)
    except programs.BuildError as error:
        return str(error)
    return None


@contextlib.contextmanager
def opened(cluster: Cluster, **configuration: Any) -> Iterator[None]:
    """Run Kueue in a cluster, with fields of its configuration besides the usual ones."""
    objects = _objects(cluster, configuration)
    definitions = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    cluster.apply(*definitions)
    for each in definitions:
        cluster.kubectl("wait", "--for=condition=Established", "crd", each["metadata"]["name"])
    cluster.apply(*[each for each in objects if each["kind"] == "Namespace"])
    cluster.apply(*[each for each in objects if each["kind"] not in ("CustomResourceDefinition", "Namespace")])
    try:
        _wait(cluster)
        yield
    finally:
        _remove(cluster, objects)


def definitions() -> list[dict[str, Any]]:
    """Its CRDs, with the rules of CEL that the API server checks."""
    folder = programs.sources("kueue", MODULE) / "config" / "components" / "crd" / "bases"
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.iterdir())]


def _objects(cluster: ControlPlane, configuration: Mapping[str, Any]) -> list[dict[str, Any]]:
    source = programs.sources("kueue", MODULE) / "config" / "default"
    printed = cluster.kubectl("kustomize", source).stdout
    objects = [each for each in yaml.load_all(printed, yaml.CSafeLoader) if each["kind"] not in _LEFT_OUT]
    for each in objects:
        if each["kind"] == "ConfigMap":
            each["data"] = {name: _configured(text, configuration) for name, text in each["data"].items()}
        if each["kind"] == "Deployment":
            _in_testbed(each["spec"]["template"]["spec"])
    return objects


def _configured(text: str, configuration: Mapping[str, Any]) -> str:
    return json.dumps(yaml.safe_load(text) | {"featureGates": {"VisibilityOnDemand": False}} | configuration)


def _in_testbed(pod: dict[str, Any]) -> None:
    """The program comes from the real machine, through a volume."""
    folder = str(programs.directory("kueue"))
    pod.setdefault("volumes", []).append({"name": "program", "hostPath": {"path": folder}})
    (manager,) = pod["containers"]
    manager |= {"command": [str(Path(folder, "kueue"))], "imagePullPolicy": "IfNotPresent", "resources": {}}
    manager["image"] = "registry.example/kueue:v1"
    manager["volumeMounts"].append({"name": "program", "mountPath": folder, "readOnly": True})
    manager["readinessProbe"] |= {"initialDelaySeconds": 1, "periodSeconds": 1}
    manager["livenessProbe"] |= {"initialDelaySeconds": 120}
    pod["securityContext"] |= {"runAsUser": 65532}


def _wait(cluster: ControlPlane) -> None:
    """It makes its certificate first, and waits until its pod sees it: at once where the kubelet is told to look again."""
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/{_SECRET}"
    cluster.until(lambda: cluster.request("GET", secret).get("data"), "Kueue has made its certificate")
    cluster.kubectl("annotate", "pods", "--all", "--namespace", NAMESPACE, "testbed/looked-again=1")
    words = ("rollout", "status", f"deployment/{DEPLOYMENT}", "--namespace", NAMESPACE, "--timeout=170s")
    done = cluster.kubectl(*words, check=False, timeout=180)
    logs = ("logs", f"deployment/{DEPLOYMENT}", "--namespace", NAMESPACE, "--tail=60")
    assert done.returncode == 0, f"{done.stderr}\n{cluster.kubectl(*logs, check=False).stdout}"
    tried = {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": "tried"}, "spec": {}}
    path = f"/apis/{API}/clusterqueues?dryRun=All"
    cluster.until(lambda: cluster.ask("POST", path, tried)[0] == 201, "Kueue's webhooks can be called")


def _remove(cluster: ControlPlane, objects: list[dict[str, Any]]) -> None:
    """Its webhooks first: when nobody answers them, nothing can be created."""
    for each in OWN:
        cluster.kubectl("delete", f"{each}.kueue.x-k8s.io", "--all", "--all-namespaces", check=False)
    webhooks = [each for each in objects if each["kind"].endswith("WebhookConfiguration")]
    for part in (webhooks, [each for each in objects if each not in webhooks]):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": part})
        cluster.kubectl("delete", "--ignore-not-found", "-f", "-", input=text, timeout=180)
