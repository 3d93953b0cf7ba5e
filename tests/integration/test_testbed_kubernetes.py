"""The testbed's Kubernetes: a control plane with fake nodes, and a cluster with real ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.kubernetes import control_plane as planes
from testbed.kubernetes import fake_nodes as fakes

pytestmark = pytest.mark.kubernetes

ROOT = Path(__file__).resolve().parents[2]


def pod(name: str, namespace: str, *command: str, annotations: dict[str, str] | None = None, **spec) -> dict:
    """The manifest of a pod with one container, which does not start again."""
    container = {"name": "main", "image": "example.com/some/image:v1", "command": list(command) or ["true"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


def until_phase(plane: planes.ControlPlane, namespace: str, name: str, phase: str) -> dict:
    """The pod, once it is in this phase."""

    def look() -> dict:
        found = plane.get("pod", name, namespace=namespace)
        return found if found["status"].get("phase") == phase else {}

    return plane.until(look, f"pod {name} is {phase}", 100)


# ---- the control plane with fake nodes


def test_pods_on_fake_nodes_run_and_end_as_annotations_say(control_plane, fake_nodes, kube_namespace):
    control_plane.apply(
        pod("works", kube_namespace),
        pod("fails", kube_namespace),
        pod("waits", kube_namespace, annotations={fakes.HOLD: "yes"}),
        pod("is-quick", kube_namespace, annotations={fakes.EXIT_CODE: "0"}),
    )
    for name in ("works", "fails"):
        running = until_phase(control_plane, kube_namespace, name, "Running")
        assert running["status"]["podIP"]
        assert running["spec"]["nodeName"] in fake_nodes.names
    until_phase(control_plane, kube_namespace, "is-quick", "Succeeded")
    fake_nodes.finish("works", namespace=kube_namespace)
    fake_nodes.finish("fails", 17, reason="Evicted", namespace=kube_namespace)
    until_phase(control_plane, kube_namespace, "works", "Succeeded")
    failed = until_phase(control_plane, kube_namespace, "fails", "Failed")
    assert failed["status"]["reason"] == "Evicted"
    assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 17
    assert control_plane.get("pod", "waits", namespace=kube_namespace)["status"]["phase"] == "Pending"
    fake_nodes.release("waits", namespace=kube_namespace)
    until_phase(control_plane, kube_namespace, "waits", "Running")


def test_pods_of_a_lost_fake_node_are_deleted(control_plane, fake_nodes, kube_namespace):
    control_plane.apply(pod("there", kube_namespace))
    node = until_phase(control_plane, kube_namespace, "there", "Running")["spec"]["nodeName"]
    fake_nodes.lose(node)
    try:
        control_plane.until(lambda: not control_plane.get("pods", namespace=kube_namespace)["items"], "it is gone", 100)
    finally:
        fake_nodes.return_node(node)


def test_a_service_account_has_the_rights_of_its_role_and_no_others(control_plane, kube_namespace):
    control_plane.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "reader", "namespace": kube_namespace},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "reader", "namespace": kube_namespace},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": kube_namespace}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        },
    )
    kubeconfig = control_plane.account_kubeconfig(kube_namespace, "reader")
    assert control_plane.kubectl("get", "pods", kubeconfig=kubeconfig).returncode == 0
    refused = control_plane.kubectl("create", "configmap", "mine", kubeconfig=kubeconfig, check=False)
    assert "Forbidden" in refused.stderr or "forbidden" in refused.stderr
    other = control_plane.kubectl("get", "pods", "--namespace=default", kubeconfig=kubeconfig, check=False)
    assert "forbidden" in other.stderr


def test_the_control_plane_is_the_version_that_was_built(control_plane):
    told = json.loads(control_plane.kubectl("version", "-o", "json").stdout)
    assert told["serverVersion"]["gitVersion"] == told["clientVersion"]["gitVersion"] == "v1.37.0"


OWNER = """
import sys, time
from testbed.kubernetes import control_plane, fake_nodes
with control_plane.opened() as plane, fake_nodes.opened(plane, 1):
    print(plane.directory, flush=True)
    time.sleep(600)
"""


def test_nothing_is_left_of_a_control_plane_whose_owner_was_killed(control_plane):
    # Besides the one of the other tests, so that two at a time are tried as well.
    assert_nothing_left(OWNER)


def assert_nothing_left(program: str) -> None:
    """Start a program that prints its directory, kill it, and wait until all that it started is gone."""
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        try:
            directory = owner.stdout.readline().strip()
            assert Path(directory).is_dir()
            assert processes_with(directory)
        finally:
            os.kill(owner.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while Path(directory).exists() or processes_with(directory):
        assert time.monotonic() < deadline, processes_with(directory)
        time.sleep(0.05)


def processes_with(word: str) -> list[str]:
    """The command lines that contain a word."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if word in line:
                found.append(line)
    return found
