"""PaddleJobs in the queues of a real Kueue, in a cluster with two nodes: it admits and holds them, takes their place away, and gets quota back.

Kueue runs in a pod from its own manifests, and so does the operator, from those of `umiak deploy --kueue --kubeflow`: with the rights, the
webhooks and the rules of the CRDs that people have.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.kubernetes import kueue
from testbed.kubernetes.cluster import Cluster
from testbed.pytest_support import require
from tests.support.cluster_jobs import ClusterJobs, paddle_job, template
from umiak.cli.deploy import objects
from umiak.operator.values import MOST_TIME, PRIORITY_CLASS, QUEUE_NAME

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes")]

GROUP = f"/apis/{kueue.API}"
NODE = "node1"
UNTIL_FREE = "while [ ! -e {0}/$HOSTNAME-may-end ] && [ ! -e {0}/all-may-end ]; do sleep 0.2; done"


@pytest.fixture(scope="module")
def queueing(kube_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with Kueue, and with an operator that serves its queues."""
    require(kueue.available())
    kube_cluster.apply(*objects.definitions(objects.DeployOptions(values={"kubeflow": True})))
    integrations = {
        "frameworks": ["batch/job", "kubeflow.org/paddlejob"],
        "externalFrameworks": ["PaddleJob.v1.batch.paddlepaddle.org"],
    }
    with kueue.opened(kube_cluster, integrations=integrations, waitForPodsReady={"timeout": "5m"}):
        kube_cluster.deploy_operator("--kueue", "--kubeflow")
        yield kube_cluster


class Team(ClusterJobs):
    """A namespace with a queue that has quota for two workers, on one of the nodes."""

    def __init__(self, cluster: Cluster, namespace: str, shared: Path) -> None:
        super().__init__(cluster, namespace)
        self.shared = shared
        self.name = namespace
        flavor = {"name": namespace, "resources": [{"name": "cpu", "nominalQuota": "200m"}]}
        spec = {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
        }
        labels = {"nodeLabels": {"kubernetes.io/hostname": NODE}}
        cluster.apply(
            {"apiVersion": kueue.API, "kind": "ResourceFlavor", "metadata": {"name": namespace}, "spec": labels},
            {"apiVersion": kueue.API, "kind": "ClusterQueue", "metadata": {"name": namespace}, "spec": spec},
            {
                "apiVersion": kueue.API,
                "kind": "LocalQueue",
                "metadata": {"name": "team", "namespace": namespace},
                "spec": {"clusterQueue": namespace},
            },
        )

    def pod(self, **spec: Any) -> dict[str, Any]:
        """It runs until `free`."""
        words = ("sh", "-c", UNTIL_FREE.format(self.shared))
        return template(*words, shared=self.shared, terminationGracePeriodSeconds=0, **spec)

    def queue(self, name: str, workers: int = 2, *, labels: dict[str, str] | None = None, **spec: Any) -> str:
        """A job that waits in the queue."""
        manifest = paddle_job(name, roles={"worker": (workers, self.pod(**spec))})
        manifest["metadata"]["labels"] = {QUEUE_NAME: "team", **(labels or {})}
        return self.create(manifest)

    def free(self, pod: str = "all") -> None:
        """Let a pod end well, or all of them."""
        (self.shared / f"{pod}-may-end").touch()

    def end(self, name: str, workers: int = 2) -> None:
        for number in range(workers):
            self.free(f"{name}-worker-{number}")
        self.until_end(name)

    def workloads(self, name: str) -> list[dict[str, Any]]:
        """Of a job."""
        found = self.cluster.request("GET", f"{GROUP}/namespaces/{self.namespace}/workloads")["items"]
        return [each for each in found if each["metadata"]["ownerReferences"][0]["name"] == name]

    def workload(self, name: str) -> dict[str, Any]:
        found = self.workloads(name)
        assert len(found) == 1, found
        return found[0]

    def is_true(self, name: str, condition: str) -> bool:
        return any(
            (row["type"], row["status"]) == (condition, "True")
            for each in self.workloads(name)
            for row in each.get("status", {}).get("conditions", ())
        )

    def held(self, name: str, reason: str = "Queued") -> dict[str, Any]:
        """The condition of a job that has no pods and says so."""

        def look() -> dict[str, Any]:
            rows = self.status(name).get("conditions") or ()
            found = next((row for row in rows if row["type"] == "Suspended"), {})
            is_held = (self.phase(name), found.get("status"), found.get("reason")) == ("Suspended", "True", reason)
            return found if is_held and not self.pods_of(name) else {}

        found: dict[str, Any] = self.until(look, f"{name} is held: {reason}")
        return found

    def running(self, name: str) -> None:
        self.until(lambda: self.phase(name) == "Running", f"{name} runs")

    def pods_of(self, name: str) -> list[dict[str, Any]]:
        return [pod for key, pod in self.pods().items() if key.startswith(f"{name}-")]

    def uids(self, name: str) -> set[str]:
        return {each["metadata"]["uid"] for each in self.pods_of(name)}

    def used(self) -> tuple[int, int]:
        """How many Workloads have a place in the ClusterQueue, and how many wait."""
        status = self.cluster.request("GET", f"{GROUP}/clusterqueues/{self.name}").get("status", {})
        return status.get("reservingWorkloads", 0), status.get("pendingWorkloads", 0)

    def stop_policy(self, policy: str) -> None:
        self.cluster.request("PATCH", f"{GROUP}/clusterqueues/{self.name}", {"spec": {"stopPolicy": policy}})

    def change(self, name: str, body: dict[str, Any]) -> None:
        path = f"/apis/batch.paddlepaddle.org/v1/namespaces/{self.namespace}/paddlejobs/{name}"
        self.cluster.request("PATCH", path, body)

    def story(self) -> str:
        told = self.kubectl("get", "workloads.kueue.x-k8s.io,localqueues.kueue.x-k8s.io", "-o", "yaml", check=False)[
            -12000:
        ]
        manager = ("--namespace", kueue.NAMESPACE, "logs", f"deployment/{kueue.DEPLOYMENT}", "--tail=30")
        return f"{super().story()}\n{told}\n{self.cluster.kubectl(*manager, check=False).stdout}"


@pytest.fixture
def team(queueing: Cluster, cluster_namespace: str, tmp_path: Path) -> Iterator[Team]:
    made = Team(queueing, cluster_namespace, tmp_path)
    yield made
    log = queueing.kubectl("--namespace=paddle-system", "logs", "deployment/paddle-controller-manager").stdout
    refused = [line for line in log.splitlines() if re.search(r"forbidden|\b403\b|\b422\b|bug in umiak", line)]
    assert [line for line in refused if cluster_namespace in line and "being terminated" not in line] == []


def test_a_job_is_held_until_there_is_quota_and_gives_it_back(team: Team) -> None:
    team.queue("first")
    team.running("first")
    assert {each["spec"]["nodeName"] for each in team.pods_of("first")} == {NODE}, "where its flavor is"
    team.until(lambda: team.is_true("first", "PodsReady"), "Kueue hears that the pods are ready")
    team.queue("second", 1)
    team.until(lambda: "insufficient" in team.held("second")["message"], "Kueue's reason is told")
    team.until(lambda: team.used() == (1, 1), "one has a place, one waits")
    team.end("first")
    team.until(lambda: team.is_true("first", "Finished"), "its Workload is finished")
    team.running("second")
    team.end("second", 1)
    team.until(lambda: team.used() == (0, 0), "all quota is free")
    assert team.workload("second")["status"]["conditions"]
    team.kubectl("delete", "pdj", "first", "second")
    team.until(lambda: not team.workloads("first") + team.workloads("second"), "Workloads go with their jobs")


def test_servers_and_workers_are_admitted_together(team: Team) -> None:
    roles = {"ps": (1, team.pod()), "worker": (1, team.pod())}
    manifest = paddle_job("wide", roles=roles)
    manifest["metadata"]["labels"] = {QUEUE_NAME: "team"}
    team.create(manifest)
    team.running("wide")
    sets = team.workload("wide")["status"]["admission"]["podSetAssignments"]
    assert sorted((each["name"], each["count"]) for each in sets) == [("ps", 1), ("worker", 1)]
    team.free("wide-worker-0")
    team.until_end("wide")
    team.until(lambda: team.used() == (0, 0), "all quota is free")


@pytest.mark.parametrize("is_own", [True, False], ids=["WorkloadPriorityClass", "priorityClassName"])
def test_a_job_of_higher_priority_takes_the_place_of_another(team: Team, is_own: bool) -> None:
    high = f"high-{secrets.token_hex(4)}"
    if is_own:
        kinds: dict[str, Any] = {"apiVersion": kueue.API, "kind": "WorkloadPriorityClass"}
    else:
        kinds = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    team.cluster.apply({**kinds, "metadata": {"name": high}, "value": 1000})
    team.queue("low")
    team.running("low")
    if is_own:
        team.queue("urgent", 1, labels={PRIORITY_CLASS: high})
    else:
        team.queue("urgent", 1, priorityClassName=high)
    assert "preempt" in team.held("low", "Evicted")["message"].lower()
    team.running("urgent")
    assert team.workload("urgent")["spec"]["priority"] == 1000
    team.until(lambda: team.used() == (1, 1), "the other one waits again")
    team.end("urgent", 1)
    team.running("low")
    assert team.status("low").get("restarts", 0) == 0, "that costs nothing of backoffLimit"
    team.end("low")
    team.cluster.kubectl("delete", kinds["kind"], high)


def test_a_stopped_queue_takes_the_pods_away_and_a_started_one_gives_them_back(team: Team) -> None:
    team.queue("drained")
    team.running("drained")
    before = team.uids("drained")
    team.stop_policy("HoldAndDrain")
    team.held("drained", "Evicted")
    team.until(lambda: team.used() == (0, 1), "the quota is free")
    team.stop_policy("None")
    team.running("drained")
    assert len(before) == len(team.uids("drained") - before) == 2, "they are new pods"
    team.end("drained")


def test_a_job_that_runs_for_too_long_loses_its_place(team: Team) -> None:
    """Its time before an eviction counts."""
    team.queue("long", labels={MOST_TIME: "60"})
    team.running("long")
    team.stop_policy("HoldAndDrain")
    team.held("long", "Evicted")
    team.until(lambda: team.used()[0] == 0, "the quota is free")
    ran_s = team.workload("long")["status"]["accumulatedPastExecutionTimeSeconds"]
    assert ran_s >= 1
    team.stop_policy("None")
    team.until(lambda: team.workload("long")["spec"]["active"] is False, "Kueue takes its place for good")
    assert "deactivated" in team.held("long", "Evicted")["message"]
    team.until(lambda: team.used() == (0, 0), "the quota is free, and nobody waits")


def test_a_job_that_changes_waits_with_what_it_asks_for_now(team: Team) -> None:
    """Every body that is written passes the rules of Kueue's CRDs and its webhooks."""
    team.queue("changed", 3)
    team.held("changed")
    workers = {"worker": {"replicas": 1}}
    team.change("changed", {"spec": workers})
    team.running("changed")
    (only,) = team.pods_of("changed")
    first = team.workload("changed")["metadata"]["uid"]
    team.change("changed", {"metadata": {"labels": {PRIORITY_CLASS: "unknown"}}})
    team.change("changed", {"spec": {"worker": {"replicas": 2}}})
    team.until(lambda: first not in [each["metadata"]["uid"] for each in team.workloads("changed")], "another")
    team.until(lambda: "unknown" in team.held("changed")["message"], "its class is missed")
    team.change("changed", {"metadata": {"labels": {PRIORITY_CLASS: None}}})
    team.until(lambda: len(team.pods_of("changed")) == 2, "it runs in its new size")
    team.running("changed")
    assert only["metadata"]["uid"] not in team.uids("changed")
    team.change("changed", {"spec": {"runPolicy": {"suspend": True}}})
    team.until(lambda: not team.workloads("changed") and not team.pods_of("changed"), "it gives its place up")
    team.change("changed", {"spec": {"runPolicy": {"suspend": False}}})
    team.running("changed")
    before = team.uids("changed")
    team.kubectl("delete", "workloads.kueue.x-k8s.io", team.workload("changed")["metadata"]["name"])
    team.until(lambda: team.uids("changed").isdisjoint(before), "no pods without a Workload")
    team.running("changed")
    team.change("changed", {"metadata": {"labels": {QUEUE_NAME: None}}})
    team.until(lambda: not team.workloads("changed"), "it left the queue")
    team.end("changed")


def test_a_job_of_kubeflow_waits_by_kueues_own_integration(team: Team) -> None:
    for name in ("theirs", "next"):
        pod = team.pod(restartPolicy="Never")
        body = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PaddleJob",
            "metadata": {"name": name, "labels": {QUEUE_NAME: "team"}},
            "spec": {"paddleReplicaSpecs": {"Worker": {"replicas": 2, "template": pod}}},
        }
        team.create(body)

    def state(name: str) -> dict[str, str]:
        path = f"/apis/kubeflow.org/v1/namespaces/{team.namespace}/paddlejobs/{name}"
        rows = team.cluster.request("GET", path).get("status", {}).get("conditions") or ()
        return {row["type"]: row["status"] for row in rows}

    first = (
        "theirs"
        if team.until(lambda: [n for n in ("theirs", "next") if state(n).get("Running") == "True"], "one runs")
        == ["theirs"]
        else "next"
    )
    second = {"theirs": "next", "next": "theirs"}[first]
    assert {each["spec"]["nodeName"] for each in team.pods_of(first)} == {NODE}
    assert team.pods_of(second) == []
    team.until(lambda: team.used() == (1, 1), "one has a place, one waits")
    team.stop_policy("HoldAndDrain")
    team.until(lambda: not team.pods_of(first), "its pods are deleted")
    team.until(lambda: team.used()[0] == 0, "Kueue sees that none is active")
    team.stop_policy("None")
    team.free()
    for name in (first, second):
        team.until(lambda name=name: state(name).get("Succeeded") == "True", f"{name} is done")  # type: ignore[misc]
    team.until(lambda: team.used() == (0, 0), "all quota is free")
