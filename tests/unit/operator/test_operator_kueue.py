"""Queues of Kueue: the operator's decisions in a simulated cluster, with a Kueue that does as told, and the controller at an API server."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest
from aiohttp import web

from tests.support.kube_server import KubeServer
from tests.support.operator_cluster import Killed, OperatorCluster, manifest
from umiak.core.shown import Secrets
from umiak.core.value import replace
from umiak.kube.async_api import AsyncKubeApi
from umiak.kube.kubeconfig import KubeAccess
from umiak.kube.times import seconds_of
from umiak.operator.controller.controller import Controller
from umiak.operator.controller.discovery import ApiDiscovery
from umiak.operator.controller.metrics import OperatorMetrics
from umiak.operator.objects.workloads import found_in, with_conditions, workload_name
from umiak.operator.options import OperatorOptions
from umiak.operator.queueing import lookups
from umiak.operator.reconcile import reconcile
from umiak.operator.values import (
    FLAVOR,
    PRIORITY_CLASS,
    QUEUE_NAME,
    WORKLOAD,
    WORKLOAD_PRIORITY,
    ClassLookup,
    ClusterFacts,
    FoundClass,
    WorkloadCondition,
)
from umiak.paddlejob.reading import read
from umiak.paddlejob.resource import JobPhase

KUEUE = ClusterFacts(kueue="v1beta2")
TOLERATION = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
A100 = found_in(
    ClassLookup(kind=FLAVOR, name="a100"), {"spec": {"nodeLabels": {"gpu": "a100"}, "tolerations": [TOLERATION]}}
)


def queued(labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """A job with a queue."""
    made = manifest(**fields)
    made["metadata"]["labels"] = {QUEUE_NAME: "team", **(labels or {})}
    return made


class KueueCluster(OperatorCluster):
    """A cluster in which somebody does what Kueue does to Workloads."""

    def __init__(self, body: dict[str, Any], **options: Any) -> None:
        super().__init__(body, facts=options.pop("facts", KUEUE), **options)
        self.found = (A100,)

    @property
    def workload(self) -> dict[str, Any]:
        (found,) = [body for (kind, _), body in self.objects.items() if kind == WORKLOAD]
        return found

    @property
    def key(self) -> tuple[str, str]:
        return WORKLOAD, self.workload["metadata"]["name"]

    def say(self, *rows: tuple[str, bool, str], drops_admission: bool = False, **status: Any) -> None:
        """Set conditions."""
        wanted = [WorkloadCondition(type=kind, is_true=is_true, reason=reason) for kind, is_true, reason in rows]
        made = with_conditions(self.workload, wanted, self.now, drops_admission=drops_admission)
        self.change(self.key, status={**made, **status})

    def admit(self, *, checks: tuple[dict[str, Any], ...] = ()) -> None:
        sets = self.workload["spec"]["podSets"]
        rows = [{"name": each["name"], "flavors": {"cpu": "a100"}, "count": each["count"]} for each in sets]
        self.say(
            ("QuotaReserved", True, "QuotaReserved"),
            ("Admitted", True, "Admitted"),
            ("Evicted", False, "QuotaReserved"),
            admission={"clusterQueue": "all", "podSetAssignments": rows},
            admissionChecks=list(checks),
        )

    def evict_workload(self, reason: str = "Preempted") -> None:
        self.say(("Evicted", True, reason))

    def is_true(self, kind: str) -> bool:
        rows = (self.workload.get("status") or {}).get("conditions") or ()
        return any(each["type"] == kind and each["status"] == "True" for each in rows)


def running(**fields: Any) -> KueueCluster:
    cluster = KueueCluster(queued(**fields))
    cluster.settle()
    cluster.admit()
    cluster.settle()
    assert cluster.report.phase is JobPhase.RUNNING
    return cluster


# ---- waiting and starting


def test_a_job_with_a_queue_waits_without_pods_and_says_so():
    cluster = KueueCluster(queued(worker=2, ps=1))
    cluster.settle()
    assert cluster.pods() == []
    assert cluster.report.phase is JobPhase.SUSPENDED
    assert cluster.condition("Suspended") == (True, "Queued", "queue team: it waits to be admitted")
    cluster.change(
        cluster.key,
        status={"conditions": [{"type": "QuotaReserved", "status": "False", "message": "insufficient quota for cpu"}]},
    )
    cluster.settle()
    assert cluster.condition("Suspended") == (True, "Queued", "queue team: insufficient quota for cpu")


def test_the_workload_is_what_kueue_needs_to_know():
    container = {"name": "paddle", "image": "demo:v1", "resources": {"requests": {"cpu": "2"}}}
    body = queued(worker=2)
    body["spec"]["worker"]["template"]["spec"]["containers"] = [container]
    body["spec"]["ps"] = {"replicas": 0, "template": body["spec"]["worker"]["template"]}
    cluster = KueueCluster(body)
    cluster.settle()
    made = cluster.workload
    assert made["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert made["metadata"]["name"] == workload_name(cluster.job())
    assert len(workload_name(replace(cluster.job(), name="n" * 200))) == 63
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["kind"]) == (cluster.job().uid, True, "PaddleJob")
    assert (made["spec"]["queueName"], made["spec"]["active"], made["spec"]["priority"]) == ("team", True, 0)
    (workers,) = made["spec"]["podSets"]
    assert (workers["name"], workers["count"], "minCount" in workers) == ("worker", 2, False)
    (container,) = workers["template"]["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "2"}}


def test_two_jobs_of_one_name_have_two_workloads():
    first = KueueCluster(queued()).job()
    second = read({**queued(), "metadata": {**queued()["metadata"], "uid": "another"}}).job
    assert workload_name(first) != workload_name(second)


def test_an_admitted_job_runs_where_its_flavor_is():
    cluster = KueueCluster(queued(worker=2))
    cluster.settle()
    update = {
        "name": "worker",
        "labels": {"l": "1"},
        "annotations": {"a": "1"},
        "nodeSelector": {"zone": "b"},
        "tolerations": [TOLERATION],
    }
    cluster.admit(checks=({"name": "check", "state": "Ready", "podSetUpdates": [update]},))
    cluster.settle()
    assert cluster.report.phase is JobPhase.RUNNING
    pod = cluster.pod("wide-worker-0")
    assert pod["spec"]["nodeSelector"] == {"gpu": "a100", "zone": "b"}
    assert pod["spec"]["tolerations"] == [TOLERATION]
    assert pod["metadata"]["labels"]["l"] == "1"
    assert pod["metadata"]["annotations"]["a"] == "1"
    assert cluster.condition("Suspended") == (False, "Resumed", "")
    assert cluster.is_true("PodsReady")


def test_nothing_is_made_before_its_flavor_is_known_and_nothing_that_runs_is_touched():
    cluster = KueueCluster(queued(worker=1))
    cluster.found = ()
    cluster.settle()
    cluster.admit()
    cluster.settle()
    seen = cluster.observed()
    assert seen is not None
    assert lookups(seen) == (ClassLookup(kind=FLAVOR, name="a100"),)
    assert cluster.pods() == []
    assert cluster.condition("Waiting") == (True, "ReadingFlavors", "the ResourceFlavor a100 is being read")
    cluster.found = (A100,)
    cluster.settle()
    assert cluster.pods("Running") == ["wide-worker-0"]
    cluster.found = ()  # another operator has just begun
    cluster.settle()
    assert cluster.pods("Running") == ["wide-worker-0"]


def test_quota_that_is_reserved_is_not_enough():
    cluster = KueueCluster(queued())
    cluster.settle()
    cluster.say(("QuotaReserved", True, "QuotaReserved"), admission={"clusterQueue": "all", "podSetAssignments": []})
    cluster.settle()
    assert cluster.pods() == []
    assert "admission checks are not done" in cluster.condition("Suspended")[2]  # type: ignore[index]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_the_class_of_a_job_is_read_first(version: str):
    cluster = KueueCluster(queued({PRIORITY_CLASS: "high"}), facts=ClusterFacts(kueue=version))
    cluster.settle()
    assert cluster.named(WORKLOAD) == []
    assert "WorkloadPriorityClass high is being read" in cluster.condition("Suspended")[2]  # type: ignore[index]
    lookup = ClassLookup(kind=WORKLOAD_PRIORITY, name="high")
    cluster.found = (FoundClass(lookup=lookup, trouble="there is none of this name"),)
    cluster.settle()
    assert "there is none of this name" in cluster.condition("Suspended")[2]  # type: ignore[index]
    cluster.found = (found_in(lookup, {"value": 100}),)
    cluster.settle()
    spec = cluster.workload["spec"]
    assert spec["priority"] == 100
    if version == "v1beta1":
        assert (spec["priorityClassName"], spec["priorityClassSource"]) == (
            "high",
            "kueue.x-k8s.io/workloadpriorityclass",
        )
    else:
        assert spec["priorityClassRef"] == {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}


# ---- who is not concerned


def test_jobs_without_a_queue_are_as_ever():
    cluster = KueueCluster(manifest(worker=1))
    cluster.settle()
    assert cluster.pods("Running")
    assert cluster.named(WORKLOAD) == []
    assert cluster.condition("Suspended") is None


def test_without_kueue_the_label_has_no_effect_and_that_is_told():
    cluster = KueueCluster(queued(worker=1), facts=ClusterFacts(kueue=""))
    cluster.settle()
    assert cluster.pods("Running")
    assert cluster.named(WORKLOAD) == []
    assert cluster.condition("Queued")[:2] == (False, "KueueUnavailable")  # type: ignore[index]


def test_until_it_is_known_whether_there_is_kueue_the_job_waits():
    cluster = KueueCluster(queued(worker=1), facts=ClusterFacts(kueue=None))
    cluster.settle()
    assert cluster.pods() == []
    assert cluster.named(WORKLOAD) == []


def test_kubeflows_jobs_are_kueues_own():
    body = queued()
    body["apiVersion"] = "kubeflow.org/v1"
    template = {"spec": {"containers": [{"name": "paddle", "image": "demo:v1"}]}}
    body["spec"] = {
        "paddleReplicaSpecs": {"Worker": {"replicas": 1, "template": template}},
        "runPolicy": {"suspend": True},
    }
    cluster = KueueCluster(body)
    cluster.settle()
    assert cluster.pods() == []
    assert cluster.named(WORKLOAD) == []
    template["spec"]["nodeSelector"] = {"gpu": "a100"}  # what Kueue writes when it starts a job
    cluster.edit(runPolicy={"suspend": False}, paddleReplicaSpecs={"Worker": {"replicas": 1, "template": template}})
    cluster.settle()
    assert cluster.pod("wide-worker-0")["spec"]["nodeSelector"] == {"gpu": "a100"}
    del template["spec"]["nodeSelector"]
    cluster.edit(runPolicy={"suspend": True}, paddleReplicaSpecs={"Worker": {"replicas": 1, "template": template}})
    cluster.settle()
    assert cluster.pods() == []
    status = cluster.body["status"]["replicaStatuses"]["Worker"]  # type: ignore[index]
    assert not status.get("active"), "Kueue gives quota back when no pod is active"


# ---- losing the place


@pytest.mark.parametrize(("reason", "is_requeued"), [("Preempted", True), ("PodsReadyTimeout", False)])
def test_an_evicted_job_gives_its_quota_back_when_its_pods_are_gone(reason: str, is_requeued: bool):
    cluster = running(worker=2)
    cluster.evict_workload(reason)
    while cluster.named("Pod"):
        assert cluster.is_true("QuotaReserved"), "its pods are still there"
        cluster.operate()
        if cluster.report.phase is JobPhase.SUSPENDED and not cluster.pods():
            cluster.kubelets()
    cluster.settle()
    assert not cluster.is_true("QuotaReserved")
    assert not cluster.is_true("Admitted")
    assert "admission" not in cluster.workload["status"]
    assert cluster.is_true("Requeued") is is_requeued
    assert not cluster.is_true("PodsReady")
    assert cluster.condition("Suspended")[1] == "Evicted"  # type: ignore[index]
    cluster.admit()
    cluster.settle()
    assert cluster.report.phase is JobPhase.RUNNING
    assert cluster.report.restarts == 0, "an eviction is nobody's failure"


@pytest.mark.parametrize(
    ("version", "name"),
    [("v1beta2", "accumulatedPastExecutionTimeSeconds"), ("v1beta1", "accumulatedPastExexcutionTimeSeconds")],
)
def test_the_time_that_a_job_has_run_counts_after_an_eviction_too(version: str, name: str):
    body = {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "status": {
            "admission": {"clusterQueue": "all"},
            "conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    }
    wanted = [WorkloadCondition(type="Admitted", is_true=False, reason="NoReservation")]
    status = with_conditions(body, wanted, seconds_of("2026-01-01T00:00:40Z"), drops_admission=True)
    assert status[name] == 40
    status["conditions"] = body["status"]["conditions"]  # type: ignore[index]
    again = with_conditions(
        {**body, "status": status}, wanted, seconds_of("2026-01-01T00:00:02Z"), drops_admission=True
    )
    assert again[name] == 42
    assert name not in with_conditions({**body, "status": {}}, wanted, 0.0, drops_admission=True)


def test_a_workload_that_is_deactivated_takes_the_pods_away():
    cluster = running(worker=1)
    cluster.change(cluster.key, spec={**cluster.workload["spec"], "active": False})
    cluster.settle()
    assert cluster.pods() == []
    assert "is not active" in cluster.condition("Suspended")[2]
    assert cluster.is_true("QuotaReserved"), "Kueue says Evicted first"
    cluster.evict_workload("Deactivated")
    cluster.settle()
    assert not cluster.is_true("QuotaReserved")


def test_a_workload_that_is_deleted_by_hand_is_made_again_and_waits():
    cluster = running(worker=1)
    del cluster.objects[cluster.key]
    cluster.settle()
    assert cluster.pods() == []
    assert not cluster.is_true("Admitted")
    cluster.admit()
    cluster.settle()
    assert cluster.report.phase is JobPhase.RUNNING
    assert cluster.report.restarts == 0


def test_an_admission_that_is_taken_away_stops_the_job():
    cluster = running(worker=1)
    cluster.say(("Admitted", False, "NoReservation"), ("QuotaReserved", False, "Pending"), drops_admission=True)
    cluster.settle()
    assert cluster.pods() == []
    assert cluster.report.phase is JobPhase.SUSPENDED


# ---- changes


def test_a_held_job_that_changes_changes_its_workload_in_place():
    cluster = KueueCluster(queued(worker=1))
    cluster.settle()
    uid = cluster.workload["metadata"]["uid"]
    cluster.edit(worker={"replicas": 3})
    cluster.settle()
    assert cluster.workload["metadata"]["uid"] == uid
    assert cluster.workload["spec"]["podSets"][0]["count"] == 3
    assert cluster.body is not None
    cluster.body["metadata"]["labels"][QUEUE_NAME] = "other"
    cluster.settle()
    assert cluster.workload["spec"]["queueName"] == "other"


@pytest.mark.parametrize("size", [1, 3])
def test_an_admitted_job_of_another_size_is_queued_again(size: int):
    cluster = running(worker=2, elastic=1)
    uid = cluster.workload["metadata"]["uid"]
    cluster.edit(worker={"replicas": size})
    cluster.settle()
    assert cluster.pods() == []
    assert cluster.workload["metadata"]["uid"] != uid
    cluster.admit()
    cluster.settle()
    assert len(cluster.pods("Running")) == size


def test_another_image_costs_no_place():
    cluster = running(worker=1)
    cluster.edit(worker={"template": {"spec": {"containers": [{"name": "paddle", "image": "demo:v2"}]}}})
    cluster.settle()
    assert cluster.pods("Running")
    assert cluster.condition("TemplateChanged") is not None


def test_a_job_that_a_person_suspends_gives_its_place_up():
    cluster = running(worker=1)
    cluster.edit(runPolicy={"suspend": True})
    cluster.settle()
    assert cluster.pods() == []
    assert cluster.named(WORKLOAD) == []
    cluster.edit(runPolicy={"suspend": False})
    cluster.settle()
    assert cluster.pods() == []
    assert cluster.named(WORKLOAD) != []


def test_a_job_without_its_label_leaves_the_queue():
    cluster = running(worker=1)
    assert cluster.body is not None
    del cluster.body["metadata"]["labels"]
    cluster.settle()
    assert cluster.pods("Running")
    assert cluster.named(WORKLOAD) == []


# ---- the end


@pytest.mark.parametrize("code", [0, 1])
def test_a_job_that_is_over_gives_its_quota_back_and_keeps_its_workload(code: int):
    cluster = running(worker=1, runPolicy={"backoffLimit": 0}, intranet="PodIP")
    if code:
        cluster.fail("wide-worker-0", code=code)
    else:
        cluster.finish()
    cluster.settle()
    rows = {each["type"]: each for each in cluster.workload["status"]["conditions"]}
    assert rows["Finished"]["status"] == "True"
    assert rows["Finished"]["reason"] == ("Failed" if code else "Succeeded")
    writes = len(cluster.writes)
    cluster.settle()
    assert len(cluster.writes) == writes
    cluster.delete_job()
    assert cluster.named(WORKLOAD) == []


def test_a_finished_workload_of_a_job_that_is_not_is_told():
    cluster = running(worker=1)
    cluster.say(("Finished", True, "OutOfSync"))
    cluster.settle()
    assert cluster.pods() == []
    assert "delete it to queue the job again" in cluster.condition("Suspended")[2]


# ---- whatever comes, in any order


EVENTS = ("operate", "operate", "kill", "kubelets", "admit", "evict", "delete", "stale", "fresh")


def happens(cluster: KueueCluster, event: str) -> None:
    """One step of the operator, of nodes, of Kueue or of a person."""
    is_reserved = bool(cluster.named(WORKLOAD)) and cluster.is_true("QuotaReserved")
    match event:
        case "operate":
            cluster.operate(is_due=True)
        case "kill":
            with contextlib.suppress(Killed):
                cluster.operate(kill_after=1)
        case "kubelets":
            cluster.kubelets()
        case "admit" if cluster.named(WORKLOAD) and not is_reserved:
            assert not cluster.named("Pod"), "quota was given back too early"
            cluster.admit()
        case "evict" if is_reserved:
            cluster.evict_workload()
        case "delete" if cluster.named(WORKLOAD):
            del cluster.objects[cluster.key]
        case "stale":
            cluster.keep_stale()
        case "fresh":
            cluster.refresh()


@pytest.mark.parametrize("seed", range(12))
def test_in_any_order_of_events_no_pod_runs_without_admission(seed: int):
    """Operators are killed, caches are late, and Kueue takes away and gives; in the end the job is done, and nothing was counted."""
    chance = random.Random(seed)
    cluster = KueueCluster(queued(worker=2), chance=chance)
    for _ in range(60):
        happens(cluster, chance.choice(EVENTS))
        assert len(cluster.named(WORKLOAD)) <= 1
    cluster.refresh()
    for _ in range(4):
        cluster.settle()
        if cluster.named(WORKLOAD) and not cluster.is_true("QuotaReserved"):
            assert cluster.pods() == []
            cluster.admit()
    cluster.settle()
    cluster.finish()
    cluster.settle()
    assert cluster.report.phase is JobPhase.COMPLETED
    assert cluster.report.restarts == 0
    assert cluster.is_true("Finished")


# ---- the controller at an API server


async def _kueue(verb: str, path: str, _request: web.Request) -> web.StreamResponse | None:
    """Discovery of a cluster with Kueue."""
    if path == "/apis/kueue.x-k8s.io":
        return web.json_response({"versions": [{"version": "v1beta2"}, {"version": "v1beta1"}]})
    if path == "/apis/kueue.x-k8s.io/v1beta2":
        resources = [{"name": "workloads", "kind": "Workload"}, {"name": "workloads/status", "kind": "Workload"}]
        return web.json_response({"resources": resources})
    if (verb, path) == ("GET", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors/a100"):
        return web.json_response({"metadata": {"name": "a100"}, "spec": {"nodeLabels": {"gpu": "a100"}}})
    return None


def test_a_whole_life_at_an_api_server():
    async def life() -> None:
        async with KubeServer() as server:
            server.hook = _kueue
            server.cluster.groups += ("kueue.x-k8s.io",)
            access = KubeAccess(server=server.url, secrets=Secrets())
            async with AsyncKubeApi(access, {}) as api:
                controller = Controller(
                    api, OperatorOptions(with_kueue=True), decide=reconcile, read_job=read, metrics=OperatorMetrics()
                )
                task = asyncio.ensure_future(controller.run())
                try:
                    await asyncio.wait_for(_life(server), 100)
                finally:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    asyncio.run(life())


async def _life(server: KubeServer) -> None:
    async def until(condition: Any) -> Any:
        while not (found := condition()):
            await asyncio.sleep(0.01)
        return found

    def conditions() -> dict[str, str]:
        (made,) = server.cluster.all("workloads")
        return {each["type"]: each["status"] for each in (made.get("status") or {}).get("conditions") or ()}

    def say(**status: Any) -> Any:
        (made,) = server.cluster.all("workloads")
        server.cluster.change("workloads", made["metadata"]["name"], lambda body: body.update(status=status))

    body = queued(worker=1)
    server.cluster.put("batch.paddlepaddle.org", "paddlejobs", body)
    (made,) = await until(lambda: server.cluster.all("workloads"))
    assert server.cluster.all("pods") == []
    assert made["metadata"]["labels"]
    admission = {"clusterQueue": "all", "podSetAssignments": [{"name": "worker", "flavors": {"cpu": "a100"}}]}
    rows = [{"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")]
    say(conditions=rows, admission=admission)
    (pod,) = await until(lambda: server.cluster.all("pods"))
    assert pod["spec"]["nodeSelector"] == {"gpu": "a100"}
    server.cluster.set_pod("wide-worker-0", "Running")
    await until(lambda: conditions().get("PodsReady") == "True")
    say(conditions=[*rows, {"type": "Evicted", "status": "True", "reason": "Preempted"}], admission=admission)
    await until(lambda: all(each["metadata"].get("deletionTimestamp") for each in server.cluster.all("pods")))
    assert conditions()["QuotaReserved"] == "True"
    server.cluster.remove("pods", "wide-worker-0")
    await until(lambda: conditions()["QuotaReserved"] == "False")
    assert "admission" not in server.cluster.all("workloads")[0]["status"]
    say(conditions=rows, admission=admission)
    await until(lambda: server.cluster.all("pods"))
    server.cluster.set_pod("wide-worker-0", "Running")
    server.cluster.set_pod("wide-worker-0", "Succeeded")
    await until(lambda: conditions().get("Finished") == "True")


@pytest.mark.parametrize(("answer", "kueue"), [(404, ""), (403, None), (500, None)])
def test_a_cluster_that_does_not_say_is_not_one_without_kueue(answer: int, kueue: str | None):
    async def look() -> str | None:
        async with KubeServer() as server:

            async def hook(_verb: str, _path: str, _request: web.Request) -> web.StreamResponse | None:
                return web.json_response({"code": answer, "reason": "Said", "message": "no"}, status=answer)

            server.hook = hook
            async with AsyncKubeApi(KubeAccess(server=server.url, secrets=Secrets()), {}) as api:
                assert ApiDiscovery(api, "").kueue == "", "nobody has asked for it"
                discovery = ApiDiscovery(api, "", with_kueue=True)
                await discovery.refresh()
                return discovery.kueue

    assert asyncio.run(look()) == kueue
