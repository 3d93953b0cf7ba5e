"""The operator with the rights and the flags of its own manifests, and no others, beside a real API server with fake nodes."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Any

import pytest

from testbed.kubernetes import kueue
from testbed.kubernetes.control_plane import KubernetesError
from testbed.pytest_support import require
from tests.support.operator_process import JOBS, Jobs, install, job, operating, uninstall
from tests.unit.paddlejob.test_paddlejob_reading import kubeflow_job, template
from umiak.cli.deploy import objects
from umiak.core.value import replace
from umiak.operator.values import KUEUE_GROUP, PRIORITY_CLASS, QUEUE_NAME, VERSIONS
from umiak.paddlejob import crd
from umiak.paddlejob.resource import OLD_FINALIZER

pytestmark = [pytest.mark.kubernetes]

REFUSED = re.compile(r"forbidden|\b403\b|cannot (?:list|get|watch|create|patch|update|delete)", re.IGNORECASE)

TIME = re.compile(r"^[\d-]+ [\d:,]+ ")
"""Of a line of a log; its milliseconds may be 403."""


@pytest.fixture
def home(control_plane):
    """The namespace of the operator: one for each test, so that no two tests share a Lease."""
    name = control_plane.namespace(f"operator-{secrets.token_hex(4)}")
    yield name
    control_plane.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def jobs(control_plane, fake_nodes, kube_namespace):
    install(control_plane)
    return Jobs(control_plane, kube_namespace)


def deployed(plane, options: objects.DeployOptions, log: Path):
    """What the Deployment would start, as its account."""
    for each in objects.rights(options):
        plane.kubectl("apply", "-f", "-", input=json.dumps(each))
    account = plane.account_kubeconfig(options.namespace, objects.ACCOUNT)
    flags = [word for word in objects.arguments(options)[1:] if "bind-address" not in word]
    return operating(account, log, *flags, "--leader-elect-namespace", options.namespace)


def refusals(log: Path) -> list[str]:
    """For want of a right. Namespaces of earlier tests may still end, and nobody can create anything in those."""
    lines = [TIME.sub("", line) for line in log.read_text().splitlines()]
    return [line for line in lines if REFUSED.search(line) and "being terminated" not in line]


def whole_life(plane, fake_nodes, jobs: Jobs) -> None:
    """A job that uses every right: a pod fails and its log is kept, a restart, events, the end, and its own deletion."""
    body = job("wide", jobs.namespace, ps=1, runPolicy={"backoffLimit": 2, "ttlSecondsAfterFinished": 3})
    body["metadata"]["finalizers"] = [OLD_FINALIZER]
    jobs.create(body)
    jobs.until_phase("wide", "Running")
    fake_nodes.finish("wide-worker-1", 1, namespace=jobs.namespace)
    plane.until(lambda: jobs.status("wide").get("restarts"), "a restart is counted")
    first = {name: pod["metadata"]["uid"] for name, pod in jobs.pods().items()}
    assert first
    jobs.until_phase("wide", "Running")

    def is_over() -> bool:
        status, _ = plane.ask("GET", f"{JOBS.format(jobs.namespace)}/wide")
        for name, pod in jobs.pods().items():
            if (
                "worker" in name
                and pod["status"].get("phase") == "Running"
                and "deletionTimestamp" not in pod["metadata"]
            ):
                fake_nodes.finish(name, namespace=jobs.namespace)
        return status == 404

    plane.until(is_over, "the job has deleted itself")
    events = plane.get("events", namespace=jobs.namespace)["items"]
    assert any(each["involvedObject"]["kind"] == "PaddleJob" for each in events)


def test_cluster_wide(control_plane, fake_nodes, jobs, home, tmp_path: Path):
    with deployed(control_plane, objects.DeployOptions(namespace=home), tmp_path / "log"):
        whole_life(control_plane, fake_nodes, jobs)
    assert refusals(tmp_path / "log") == []


def test_for_two_namespaces(control_plane, fake_nodes, jobs, home, tmp_path: Path):
    """Without rights beyond them, so that it does not see nodes."""
    plane = control_plane
    second = Jobs(plane, plane.namespace(f"second-{secrets.token_hex(4)}"))
    for each in objects.rights(objects.DeployOptions(namespace=home)):  # what an earlier test has bound
        if each["kind"].startswith("ClusterRole"):
            plane.kubectl("delete", each["kind"], each["metadata"]["name"], "--ignore-not-found")
    options = objects.DeployOptions(namespace=home, values={"watchNamespaces": [jobs.namespace, second.namespace]})
    other = Jobs(plane, home)
    other.create(job("elsewhere", home))
    with deployed(plane, options, tmp_path / "log"):
        second.create(job("wide", second.namespace))
        second.until_phase("wide", "Running")
        whole_life(plane, fake_nodes, jobs)
        assert sorted(second.pods()) == ["wide-worker-0", "wide-worker-1"], "a list of the first removes nothing here"
        for name in second.pods():
            fake_nodes.finish(name, namespace=second.namespace)
        second.until_phase("wide", "Completed")
    assert other.status("elsewhere") == {}
    account = plane.account_kubeconfig(home, objects.ACCOUNT)
    for place, answer in ((jobs.namespace, "yes"), (second.namespace, "yes"), (home, "no"), ("default", "no")):
        for words in (["list", "pods"], ["create", "pods"], ["patch", "paddlejobs.batch.paddlepaddle.org"]):
            told = plane.kubectl("auth", "can-i", *words, "--namespace", place, kubeconfig=account, check=False)
            assert told.stdout.strip() == answer, (place, words)
    plane.request("DELETE", f"/api/v1/namespaces/{second.namespace}")
    found = refusals(tmp_path / "log")
    assert [line for line in found if "node" not in line.lower()] == []


def test_kubeflow(control_plane, fake_nodes, kube_namespace, home, tmp_path: Path):
    install(control_plane, crd.resource(), crd.kubeflow_resource())
    path = f"/apis/kubeflow.org/v1/namespaces/{kube_namespace}/paddlejobs"
    body = kubeflow_job(
        paddleReplicaSpecs={
            "Master": {"replicas": 1, "template": template()},
            "Worker": {"replicas": 2, "template": template()},
        }
    )
    body["metadata"] = {"name": "flow", "namespace": kube_namespace}
    options = objects.DeployOptions(namespace=home, values={"kubeflow": True})

    def status() -> dict[str, Any]:
        found: dict[str, Any] = control_plane.request("GET", f"{path}/flow").get("status") or {}
        return found

    def state() -> str:
        conditions = status().get("conditions") or [{}]
        return str(conditions[-1].get("type"))

    with deployed(control_plane, options, tmp_path / "log"):
        control_plane.request("POST", path, body)
        control_plane.until(lambda: state() == "Running", "Kubeflow's state is Running")
        assert status()["replicaStatuses"]["Worker"]["active"] == 2
        pods = Jobs(control_plane, kube_namespace).pods()
        assert sorted(pods) == ["flow-master-0", "flow-worker-0", "flow-worker-1"]
        for name in ("flow-worker-0", "flow-worker-1"):
            fake_nodes.finish(name, namespace=kube_namespace)
        control_plane.until(lambda: state() == "Succeeded", "Kubeflow's state is Succeeded")
        shown = control_plane.kubectl("get", crd.KUBEFLOW_NAME, "flow", "--namespace", kube_namespace).stdout
        assert "Succeeded" in shown
    assert refusals(tmp_path / "log") == []


@pytest.fixture(params=VERSIONS)
def kueue_api(request, control_plane):
    """The path of Kueue's API in one version, from its own CRDs: their rules are checked, and the test does what Kueue does."""
    require(kueue.available())
    definitions = []
    for each in kueue.definitions():
        if each["spec"]["names"]["plural"] in ("workloads", "resourceflavors", "workloadpriorityclasses"):
            (version,) = [one for one in each["spec"]["versions"] if one["name"] == request.param]
            each["spec"]["versions"] = [{**version, "storage": True, "served": True}]
            definitions.append(each)
    install(control_plane, *definitions)
    yield f"/apis/{KUEUE_GROUP}/{request.param}"
    for each in definitions:
        uninstall(control_plane, each["metadata"]["name"])


@pytest.mark.parametrize("is_limited", [False, True], ids=["everywhere", "one namespace"])
def test_kueue(control_plane, fake_nodes, jobs, home, tmp_path: Path, kueue_api: str, is_limited: bool):
    plane, name = control_plane, jobs.namespace
    for plural, fields in (
        ("resourceflavors", {"kind": "ResourceFlavor", "spec": {"nodeLabels": {"kubernetes.io/os": "linux"}}}),
        ("workloadpriorityclasses", {"kind": "WorkloadPriorityClass", "value": 7}),
    ):
        body = {"apiVersion": kueue_api.removeprefix("/apis/"), "metadata": {"name": name}, **fields}
        plane.request("POST", f"{kueue_api}/{plural}", body)
    path = f"{kueue_api}/namespaces/{name}/workloads"

    def workload() -> dict[str, Any]:
        status, answer = plane.ask("GET", path)  # a new resource is not served at once
        return next(iter(json.loads(answer)["items"]), {}) if status == 200 else {}

    def is_true(kind: str) -> bool:
        rows = workload().get("status", {}).get("conditions") or ()
        return any(row["status"] == "True" for row in rows if row["type"] == kind)

    def say(admission: dict[str, Any] | None, **conditions: bool) -> None:
        """As Kueue does."""
        found = workload()
        now = "2026-01-01T00:00:00Z"
        rows = [
            {"type": kind, "status": str(text), "reason": kind, "message": "", "lastTransitionTime": now}
            for kind, text in conditions.items()
        ]
        body = {"status": {"conditions": rows, **({"admission": admission} if admission else {})}}
        plane.request("PATCH", f"{path}/{found['metadata']['name']}/status", body)

    admission = {
        "clusterQueue": "all",
        "podSetAssignments": [{"name": "worker", "flavors": {"cpu": name}, "count": 2}],
    }
    values = {"kueue": True, **({"watchNamespaces": [name]} if is_limited else {})}
    body = job("queued", name)
    body["metadata"]["labels"] = {QUEUE_NAME: "team", PRIORITY_CLASS: name}
    with deployed(plane, objects.DeployOptions(namespace=home, values=values), tmp_path / "log"):
        jobs.create(body)
        plane.until(workload, "it has a Workload")
        assert workload()["spec"]["priority"] == 7
        jobs.until_phase("queued", "Suspended")
        say(admission, QuotaReserved=True, Admitted=True)
        jobs.until_phase("queued", "Running")
        assert all(pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"} for pod in jobs.pods().values())
        say(admission, QuotaReserved=True, Admitted=True, Evicted=True)
        plane.until(lambda: not is_true("QuotaReserved"), "its quota is given back")
        assert jobs.pods() == {}
        say(admission, QuotaReserved=True, Admitted=True, Evicted=False)
        jobs.until_phase("queued", "Running")
        for pod in jobs.pods():
            fake_nodes.finish(pod, namespace=name)
        jobs.until_phase("queued", "Completed")
        plane.until(lambda: is_true("Finished"), "its Workload is finished")
    found = [line for line in refusals(tmp_path / "log") if not is_limited or "node" not in line.lower()]
    assert found == []
    assert " 422" not in (tmp_path / "log").read_text()


def pod_group_definition(group: str, version: str) -> dict[str, Any]:
    """As much of a gang scheduler's PodGroup as an API server needs."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"}
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
    metadata: dict[str, Any] = {"name": f"podgroups.{group}"}
    if group.endswith("k8s.io"):
        metadata["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def items(plane, path: str) -> list[dict[str, Any]]:
    """What there is of a kind; nothing while the API server still makes room for it."""
    try:
        found: list[dict[str, Any]] = plane.request("GET", path)["items"]
    except KubernetesError as error:
        if "initializing" not in str(error):
            raise
        return []
    return found


@pytest.mark.parametrize(
    ("scheduling", "version"), [("volcano", "v1beta1"), ("scheduler-plugins", "v1alpha1")], ids=["volcano", "plugins"]
)
def test_gangs(control_plane, fake_nodes, jobs, home, tmp_path: Path, scheduling: str, version: str):
    group = objects.GANG_GROUPS[scheduling]
    install(control_plane, crd.resource(), pod_group_definition(group, version))
    options = objects.DeployOptions(namespace=home, values={"scheduling": scheduling})
    path = f"/apis/{group}/{version}/namespaces/{jobs.namespace}/podgroups"
    with deployed(control_plane, options, tmp_path / "log"):
        jobs.create(job("wide", jobs.namespace, schedulingPolicy={"minAvailable": 2, "queue": "q"}))
        (made,) = control_plane.until(lambda: items(control_plane, path), "there is a PodGroup")
        assert made["metadata"]["name"] == "wide"
        assert made["spec"]["minMember"] == 2
        control_plane.request("PATCH", f"{path}/wide/status", {"status": {"phase": "Inqueue"}})
        control_plane.until(lambda: len(jobs.pods()) == 2, "its pods are made")
        jobs.plane.kubectl("delete", "pdj", "wide", "--namespace", jobs.namespace)
    assert refusals(tmp_path / "log") == []


def test_an_account_without_rights_is_told(control_plane, fake_nodes, home, tmp_path: Path):
    """So that the check above checks: what is refused is in the log."""
    options = objects.DeployOptions(namespace=home)
    for each in objects.rights(options):
        control_plane.kubectl("apply", "-f", "-", input=json.dumps(each))
    control_plane.kubectl("create", "serviceaccount", "poor", "--namespace", home)
    account = control_plane.account_kubeconfig(home, "poor")
    log = tmp_path / "log"
    flags = [word for word in objects.arguments(replace(options))[1:] if "bind-address" not in word]
    with operating(account, log, *flags, "--leader-elect-namespace", home):
        control_plane.until(lambda: REFUSED.search(log.read_text()), "the refusal is in the log")
