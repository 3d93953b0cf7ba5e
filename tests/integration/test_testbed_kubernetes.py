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

from testbed.kubernetes import cluster as clusters
from testbed.kubernetes import control_plane as planes
from testbed.kubernetes import fake_nodes as fakes
from testbed.pytest_support import require
from tests.support import PATIENCE_S
from tests.support.paths import ROOT

pytestmark = pytest.mark.kubernetes


def pod(name: str, namespace: str, *command: str, annotations: dict[str, str] | None = None, **spec) -> dict:
    """The manifest of a pod with one container, which does not start again."""
    container = {"name": "main", "image": "example.com/some/image:v1", "command": list(command) or ["true"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": annotations or {},
            "labels": {"testbed": "pod"},
        },
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


def until_phase(plane: planes.ControlPlane, namespace: str, name: str, phase: str) -> dict:
    """The pod, once it is in this phase."""

    def look() -> dict:
        found = seen_pod(plane, namespace, name)
        return found if found["status"].get("phase") == phase else {}

    return plane.until(look, f"pod {name} is {phase}", 100)


def seen_pod(plane: planes.ControlPlane, namespace: str, name: str) -> dict:
    """As `kubectl get`, whose start would take time from what is waited for."""
    return plane.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")


def seen_pods(plane: planes.ControlPlane, namespace: str) -> list[dict]:
    return plane.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]


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
        control_plane.until(lambda: not seen_pods(control_plane, kube_namespace), "it is gone", 100)
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


# ---- the cluster with real nodes


def run_to_end(cluster: clusters.Cluster, manifest: dict) -> str:
    """What a pod prints that ends well."""
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    cluster.apply(manifest)

    def look() -> str:
        return phase if (phase := status(cluster, namespace, name)) in ("Succeeded", "Failed") else ""

    phase = cluster.until(look, f"pod {name} ends", 100)
    # The API server may still hold a connection to the kubelet of before its node came back.
    logs = ("logs", "--namespace", namespace, name)
    cluster.until(lambda: cluster.kubectl(*logs, check=False).returncode == 0, f"pod {name} has a log", 100)
    printed = cluster.kubectl(*logs).stdout
    assert phase == "Succeeded", printed
    return printed


def status(cluster: clusters.Cluster, namespace: str, name: str) -> str:
    return seen_pod(cluster, namespace, name)["status"]["phase"]


def test_a_container_has_paddle_and_umiak_whatever_its_image_is_called(kube_cluster, cluster_namespace):
    script = "import paddle, umiak, os; print(paddle.__version__, umiak.__name__, os.getpid())"
    manifest = pod("imports", cluster_namespace, "python", "-c", script)
    manifest["spec"]["containers"][0]["image"] = "registry.baidubce.com/paddle-operator/demo-wide-and-deep"
    assert run_to_end(kube_cluster, manifest).split()[-3:] == ["3.3.1", "umiak", "1"]


def test_pods_of_two_nodes_meet_by_address_service_and_name(kube_cluster, cluster_namespace):
    server = ["python", "-m", "http.server", "8000"]
    namespace = cluster_namespace
    kube_cluster.apply(
        *(pod(f"web-{node}", namespace, *server, nodeName=node) for node in kube_cluster.nodes),
        service("web", namespace, {"testbed": "pod"}),
        service("bare", namespace, {"testbed": "pod"}, clusterIP="None"),
    )
    pods = [until_phase(kube_cluster, namespace, f"web-{node}", "Running") for node in kube_cluster.nodes]
    addresses = [each["status"]["podIP"] for each in pods]
    assert len({address.rsplit(".", 1)[0] for address in addresses}) == len(pods)
    targets = [*(f"{address}:8000" for address in addresses), "web", f"web.{namespace}.svc.cluster.local", "bare:8000"]
    fetch = f"""
import time, urllib.request
for target in {targets!r}:
    for attempt in range(60):
        try:
            print(target, urllib.request.urlopen(f"http://{{target}}", timeout=10).status)
            break
        except OSError as error:  # rules of a new Service take a moment
            print(target, error)
            time.sleep(1)
    else:
        raise SystemExit(1)
"""
    for node in kube_cluster.nodes:
        told = kube_cluster.kubectl("exec", "--namespace", namespace, f"web-{node}", "--", "python", "-c", fetch).stdout
        assert told.count(" 200\n") == len(targets)


def test_a_service_account_reaches_the_api_from_its_pod_as_an_ordinary_user(kube_cluster, cluster_namespace):
    script = """
import json, ssl, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
headers = {"Authorization": "Bearer " + open(folder + "token").read()}
asked = urllib.request.Request("https://kubernetes.default.svc/api/v1/pods", headers=headers)
try:
    urllib.request.urlopen(asked, context=ssl.create_default_context(cafile=folder + "ca.crt"))
except urllib.error.HTTPError as error:
    print(json.load(error)["message"])
"""
    nobody = {"runAsNonRoot": True, "runAsUser": 65532}
    manifest = pod("asks", cluster_namespace, "python", "-c", script, securityContext=nobody)
    manifest["spec"]["containers"][0]["securityContext"] = {"readOnlyRootFilesystem": True}
    told = run_to_end(kube_cluster, manifest)
    assert f'User "system:serviceaccount:{cluster_namespace}:default" cannot list resource "pods"' in told


def test_an_image_can_have_an_entry_point_or_be_missing(kube_cluster, cluster_namespace):
    image = kube_cluster.image("example.com/echo:v1", entrypoint=["echo", "from"], command=["command"])
    manifest = pod("echo", cluster_namespace)
    manifest["spec"]["containers"] = [{"name": "main", "image": image}]
    assert run_to_end(kube_cluster, manifest) == "from command\n"
    absent = pod("absent", cluster_namespace)
    absent["spec"]["containers"][0]["image"] = "example.com/missing:v1"
    kube_cluster.apply(absent)
    events = f"/api/v1/namespaces/{cluster_namespace}/events"
    kube_cluster.until(
        lambda: "ErrImagePull" in json.dumps(kube_cluster.request("GET", events)), "the image is not found", 100
    )


def test_a_memory_limit_ends_a_container(kube_cluster, cluster_namespace):
    manifest = pod("greedy", cluster_namespace, "python", "-c", "b'x' * (1 << 30)")
    manifest["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    kube_cluster.apply(manifest)
    failed = until_phase(kube_cluster, cluster_namespace, "greedy", "Failed")
    terminated = failed["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (137, "OOMKilled")


def test_the_operator_runs_in_a_pod_as_umiak_deploy_prints_it(kube_cluster, cluster_namespace):
    kube_cluster.deploy_operator()
    script = "import os; print(os.environ['PADDLE_TRAINER_ID'], os.environ['PADDLE_TRAINERS_NUM'])"
    container = {"name": "main", "image": "example.com/training:v1", "command": ["python", "-c", script]}
    worker = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    manifest = {
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": "two", "namespace": cluster_namespace},
        # With the addresses of pods a kubelet would wait 10 seconds for those of the others.
        "spec": {"cleanPodPolicy": "Never", "intranet": "Service", "worker": worker},
    }
    kube_cluster.kubectl("create", "-f", "-", input=json.dumps(manifest))

    path = f"/apis/batch.paddlepaddle.org/v1/namespaces/{cluster_namespace}/paddlejobs/two"

    def phase() -> str:
        return kube_cluster.request("GET", path).get("status", {}).get("phase", "")

    assert (
        kube_cluster.until(lambda: phase() in ("Completed", "Failed") and phase(), "the job ends", 100) == "Completed"
    )
    for index in range(2):
        told = kube_cluster.kubectl("logs", "--namespace", cluster_namespace, f"two-worker-{index}").stdout
        assert told == f"{index} 2\n"


def test_a_lost_node_is_noticed_and_can_come_back(kube_cluster, cluster_namespace):
    kube_cluster.apply(pod("there", cluster_namespace, "sleep", "infinity", nodeName="node2"))
    until_phase(kube_cluster, cluster_namespace, "there", "Running")
    kube_cluster.lose_node("node2")
    try:
        kube_cluster.until(lambda: not kube_cluster.ready("node2"), "the loss is noticed", 100)
        kube_cluster.until(
            lambda: "deletionTimestamp" in seen_pod(kube_cluster, cluster_namespace, "there")["metadata"],
            "its pod is deleted",
            100,
        )
    finally:
        kube_cluster.return_node("node2")
    kube_cluster.until(lambda: not seen_pods(kube_cluster, cluster_namespace), "it is gone", 100)
    run_to_end(kube_cluster, pod("new", cluster_namespace, nodeName="node2"))


def test_a_node_that_was_cut_off_is_ready_again_when_healed(kube_cluster):
    kube_cluster.cut_node("node1")
    try:
        kube_cluster.until(lambda: not kube_cluster.ready("node1"), "the cut is noticed", 100)
    finally:
        kube_cluster.heal_node("node1")
    kube_cluster.until_ready("node1")


CLUSTER_OWNER = """
import sys, time
from testbed.kubernetes import cluster
with cluster.opened(1) as kube:
    container = {"name": "main", "image": "any", "imagePullPolicy": "IfNotPresent", "command": ["sleep", "infinity"]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "default"}}
    kube.apply({**manifest, "spec": {"containers": [container]}})
    path = "/api/v1/namespaces/default/pods/one"
    kube.until(lambda: kube.request("GET", path)["status"]["phase"] == "Running", "it runs", 100)
    print(kube.directory, flush=True)
    time.sleep(600)
"""


def test_nothing_is_left_of_a_cluster_whose_owner_was_killed():
    require(clusters.available())
    interfaces = os.listdir("/sys/class/net")
    directory = assert_nothing_left(CLUSTER_OWNER)
    deadline = time.monotonic() + PATIENCE_S
    while left := [*Path("/sys/fs/cgroup").glob(f"*/{directory.name}"), *Path("/sys/fs/cgroup").glob(directory.name)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert str(directory) not in Path("/proc/mounts").read_text()
    assert os.listdir("/sys/class/net") == interfaces


def service(name: str, namespace: str, selector: dict[str, str], **spec) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector, "ports": [{"port": 80, "targetPort": 8000}], **spec},
    }


def assert_nothing_left(program: str) -> Path:
    """Start a program that prints its directory, kill it, and wait until all that it started is gone."""
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        try:
            directory = owner.stdout.readline().strip()
            assert Path(directory).is_dir()
            assert processes_with(directory)
        finally:
            os.kill(owner.pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while Path(directory).exists() or processes_with(directory):
        assert time.monotonic() < deadline, processes_with(directory)
        time.sleep(0.05)
    return Path(directory)


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
