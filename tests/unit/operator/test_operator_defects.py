"""What the old operator did wrong, one test per defect, each of which it would fail. Their numbers are those of its review."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.operator_cluster import OperatorCluster, manifest
from umiak.core.value import replace
from umiak.operator.objects.pod_groups import pod_resources
from umiak.operator.policies.ports import FIRST_PORT, LAST_PORT, SERVICE_PORT
from umiak.operator.reconcile import reconcile
from umiak.operator.values import ClusterFacts, CreateObject, DeleteObject, Refusal, SeenObject
from umiak.paddlejob.resource import JobPhase
from umiak.platforms import detect

QUOTA = Refusal(kind="Pod", name="", status=403, reason="Forbidden", message="pods is forbidden: exceeded quota: small")


def running(*args: Any, **fields: Any) -> OperatorCluster:
    cluster = OperatorCluster(manifest(*args, **fields))
    cluster.settle()
    assert cluster.report.phase is JobPhase.RUNNING, cluster.decision
    return cluster


def test_01_a_refused_pod_is_tried_again_and_told() -> None:
    cluster = OperatorCluster(manifest(worker=2))
    cluster.refuses = QUOTA
    cluster.operate()
    cluster.operate(is_due=True)
    assert cluster.condition("Waiting") == (
        True,
        "QuotaExceeded",
        f"Pod wide-worker-0 (and 1 more) was refused: {QUOTA.message}",
    )
    assert cluster.again is not None
    cluster.refuses = None
    cluster.settle()
    assert cluster.report.phase is JobPhase.RUNNING


def test_02_a_recreated_pod_is_in_everybodys_list() -> None:
    cluster = running(worker=2)
    old = cluster.data()
    cluster.remove("wide-worker-1")
    cluster.settle()
    assert cluster.data() != old
    assert {cluster.environment(name)["PADDLE_TRAINERS"] for name in cluster.pods()} == {
        cluster.data()["PADDLE_TRAINERS"]
    }
    cluster.edit(worker={"replicas": 3})
    cluster.settle()
    assert [cluster.environment(name)["PADDLE_TRAINERS_NUM"] for name in cluster.pods("Running")] == ["3"] * 3


def test_03_a_foreign_config_map_reaches_no_container() -> None:
    cluster = OperatorCluster(manifest(worker=2))
    cluster.operate()  # pods are made before the name is found to be taken
    cluster.foreign("ConfigMap", "wide")
    cluster.settle()
    assert cluster.pods("Running") == []
    told = cluster.condition("Waiting")
    assert told
    assert told[:2] == (True, "NameConflict")
    cluster.objects.pop(("ConfigMap", "wide"))
    cluster.settle()
    assert cluster.report.phase is JobPhase.RUNNING
    assert "FOREIGN" not in cluster.environment("wide-worker-0")


def test_04_a_new_job_does_not_adopt_pods_of_the_old_one() -> None:
    cluster = running(worker=2)
    old = {name: cluster.pod(name)["metadata"]["uid"] for name in cluster.pods()}
    cluster.delete_job(collects=False)
    cluster.create_job()
    cluster.settle()
    told = cluster.condition("Waiting")
    assert told
    assert told[1] == "NameConflict"
    cluster.collect()
    cluster.settle()
    assert cluster.report.phase is JobPhase.RUNNING
    assert not set(old.values()) & {cluster.pod(name)["metadata"]["uid"] for name in cluster.pods()}


def test_05_survivors_of_a_failed_job_are_released() -> None:
    cluster = running(worker=3, runPolicy={"backoffLimit": 0})
    cluster.fail("wide-worker-1")
    cluster.settle()
    assert cluster.report.phase is JobPhase.FAILED
    assert cluster.pods() == ["wide-worker-1"]  # its log can still be read
    assert cluster.report.last_logs == (("wide-worker-1", "last lines of wide-worker-1"),)
    kept = running(worker=3, runPolicy={"backoffLimit": 0}, cleanPodPolicy="Never")
    kept.fail("wide-worker-1")
    kept.settle()
    assert len(kept.pods()) == 3


def test_06_pods_are_deleted_together() -> None:
    cluster = running(worker=5)
    cluster.finish()
    cluster.operate()
    decision = cluster.decide()
    assert decision
    assert len([each for each in decision.actions if isinstance(each, DeleteObject)]) == 5


def test_07_a_finished_job_stays_finished() -> None:
    cluster = running(worker=2, cleanPodPolicy="Never")
    cluster.finish()
    cluster.settle()
    cluster.remove("wide-worker-0")
    cluster.edit(worker={"replicas": 4})
    cluster.settle(1000)
    assert cluster.report.phase is JobPhase.COMPLETED
    assert cluster.pods() == ["wide-worker-1"]


@pytest.mark.parametrize("intranet", ["PodIP", "Service"])
def test_08_failures_have_a_budget(intranet: str) -> None:
    """In Service mode it is the node that starts containers again, for ever if nobody stops it."""
    cluster = running(worker=2, intranet=intranet, runPolicy={"backoffLimit": 2})
    for _ in range(3):
        assert cluster.report.phase is JobPhase.RUNNING
        cluster.fail("wide-worker-0")
        cluster.settle(1000)
    assert cluster.report.phase is JobPhase.FAILED
    failed = cluster.condition("Failed")
    assert failed
    assert failed[1] == "BackoffLimitExceeded"


def test_08_a_command_that_is_not_found_is_not_tried_again() -> None:
    cluster = running(worker=2)
    cluster.fail("wide-worker-0", 127)
    cluster.settle(1000)
    assert (cluster.report.phase, cluster.report.attempt) == (JobPhase.FAILED, 0)


def test_09_a_job_is_done_when_its_workers_are() -> None:
    cluster = running(ps=2, worker=2)
    cluster.finish("wide-worker-0")
    cluster.settle()
    assert cluster.report.phase is JobPhase.RUNNING
    cluster.finish("wide-worker-1")
    cluster.settle()
    assert cluster.report.phase is JobPhase.COMPLETED
    assert cluster.pods() == []
    old_rule = running(ps=2, worker=2, runPolicy={"successPolicy": "AllRoles"})
    old_rule.finish()
    old_rule.settle()
    assert old_rule.report.phase is JobPhase.RUNNING


def test_10_the_phase_is_that_of_the_pods_as_they_are() -> None:
    cluster = running(ps=1, worker=2)
    seen = cluster.observed()
    assert seen
    shown = {reconcile(replace(seen, pods=pods), cluster.now).report for pods in (seen.pods, seen.pods[::-1])}
    assert len(shown) == 1
    assert [(each.role.value, each.running) for each in cluster.report.counts] == [("ps", 1), ("worker", 2)]


def test_11_nothing_is_written_when_nothing_has_changed() -> None:
    cluster = running(ps=2, worker=2)
    before = len(cluster.writes)
    for _ in range(20):
        cluster.now += 60
        assert not cluster.operate(is_due=True)
    assert len(cluster.writes) == before


def test_12_addresses_of_ipv6() -> None:
    cluster = OperatorCluster(manifest(ps=1, worker=2), six=True)
    cluster.settle()
    data = cluster.data()
    port = data["PADDLE_PORT"]
    assert data["PADDLE_TRAINER_ENDPOINTS"].split(",")[0].startswith("[fd00::")
    assert data["PADDLE_TRAINER_ENDPOINTS"].split(",")[0].endswith(f"]:{port}")
    assert "[" not in data["PADDLE_TRAINERS"]
    found = detect(cluster.environment("wide-worker-1"))
    assert found
    assert (found.rank, found.nodes) == (2, 3)


def test_12_pods_with_addresses_of_both_families_are_told_those_of_one() -> None:
    cluster = OperatorCluster(manifest(ps=1, worker=2))
    cluster.operate()
    for number, name in enumerate(["wide-ps-0", "wide-worker-0", "wide-worker-1"]):
        four, six = f"10.0.0.{number + 1}", f"fd00::{number + 1}"
        order = [six, four] if name == "wide-worker-1" else [four, six]
        cluster.pod(name)["status"] |= {"podIP": order[0], "podIPs": [{"ip": each} for each in order]}
    cluster.operate()
    data = cluster.data()
    assert data["PADDLE_TRAINERS"] == "10.0.0.2,10.0.0.3"
    assert data["PADDLE_PSERVERS_IP_PORT_LIST"] == f"10.0.0.1:{data['PADDLE_PORT']}"


@pytest.mark.parametrize("intranet", ["PodIP", "Service", "Host"])
def test_13_gloo_has_a_port_of_its_own(intranet: str) -> None:
    data = running(ps=2, worker=2, withGloo=1, intranet=intranet).data()
    host, _, port = data["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")[0].rpartition(":")
    assert data["PADDLE_GLOO_HTTP_ENDPOINT"] == f"{host}:{int(port) + 18}"


@pytest.mark.parametrize("intranet", ["PodIP", "Service", "Host"])
def test_14_the_port_is_that_of_the_endpoints(intranet: str) -> None:
    cluster = running(ps=2, worker=2, intranet=intranet)
    for name in cluster.pods():
        environment = cluster.environment(name)
        listed = environment["PADDLE_PSERVERS_IP_PORT_LIST" if "-ps-" in name else "PADDLE_TRAINER_ENDPOINTS"]
        own = f"{environment['POD_IP']}:{environment['PADDLE_PORT']}"
        assert listed.split(",")[int(environment["PADDLE_TRAINER_ID"])] == own


def test_15_two_pods_on_one_host_have_different_ports() -> None:
    cluster = OperatorCluster(manifest(ps=2, worker=4, intranet="Host"), nodes=2)
    cluster.settle()
    assert cluster.report.phase is JobPhase.RUNNING
    data = cluster.data()
    every = f"{data['PADDLE_PSERVERS_IP_PORT_LIST']},{data['PADDLE_TRAINER_ENDPOINTS']}".split(",")
    assert len(set(every)) == 6
    spec = cluster.pod("wide-ps-0")["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    other = OperatorCluster(
        manifest("other", worker=4, intranet="Host"),
        facts=ClusterFacts(kept_ports=tuple(("*", port) for _, port in cluster.report.node_ports)),
    )
    other.settle()
    assert not {port for _, port in other.report.node_ports} & {port for _, port in cluster.report.node_ports}


def test_15_ports_of_hosts_are_in_the_status_before_there_is_a_pod() -> None:
    cluster = OperatorCluster(manifest(worker=2, intranet="Host"))
    cluster.operate()
    assert cluster.writes == ["status"]
    assert len(cluster.report.node_ports) == 2


def test_16_ports_are_below_those_of_outgoing_connections() -> None:
    assert LAST_PORT < 30000
    for intranet in ("PodIP", "Host"):
        cluster = running(worker=2, intranet=intranet)
        assert FIRST_PORT <= int(cluster.data()["PADDLE_PORT"]) <= LAST_PORT - 19
    assert running(worker=2, intranet="Service").data()["PADDLE_PORT"] == str(SERVICE_PORT)  # what manifests name


def test_17_no_container_is_added_and_all_roles_are_waited_for() -> None:
    cluster = OperatorCluster(manifest(ps=1, worker=1))
    cluster.operate()
    assert "initContainers" not in cluster.pod("wide-worker-0")["spec"]
    assert len(cluster.pod("wide-worker-0")["spec"]["containers"]) == 1
    cluster.pod("wide-ps-0")["spec"]["nodeName"] = "node-0"
    cluster.lose_node("node-0")
    cluster.kubelets()
    cluster.kubelets()
    cluster.kubelets()
    assert (
        cluster.pods("Running") == []
    )  # the worker waits for the server's address, not only for those of its own role


def test_18_a_name_that_is_too_long_is_told() -> None:
    cluster = OperatorCluster(manifest("n" * 60, worker=2))
    cluster.settle()
    told = cluster.condition("Accepted")
    assert told
    assert told[:2] == (False, "InvalidSpec")
    assert "too long" in told[2]
    assert cluster.pods() == []


@pytest.mark.parametrize(
    "spec",
    [
        {"elastic": 1},
        {"worker": {"replicas": 2}},
        {"worker": {"replicas": 2, "template": {"spec": {"containers": []}}}},
        {"worker": {"replicas": -3, "template": {}}},
        {"worker": None},
        {"ps": {"replicas": 1, "template": {"spec": {"containers": [7]}}}},
        {},
    ],
)
def test_19_no_manifest_stops_the_operator(spec: dict[str, Any]) -> None:
    body = manifest(worker=None)
    body["spec"] = spec
    cluster = OperatorCluster(body)
    cluster.settle(100)
    told = cluster.condition("Accepted")
    assert told
    assert told[0] is False
    assert cluster.pods() == []


def test_20_nothing_is_made_for_a_job_that_is_being_deleted() -> None:
    cluster = running(worker=2)
    assert cluster.body
    cluster.body["metadata"] |= {
        "deletionTimestamp": "2026-11-17T02:00:00Z",
        "finalizers": ["finalizers.paddlepaddle.org"],
    }
    cluster.remove("wide-worker-0")
    cluster.settle()
    assert cluster.report.phase is JobPhase.TERMINATING
    assert cluster.pods() == ["wide-worker-1"]
    assert cluster.body["metadata"]["finalizers"] == []


def test_21_the_pod_group_is_as_large_as_the_job() -> None:
    kind = "scheduling.volcano.sh/PodGroup"
    facts = ClusterFacts(kinds=frozenset([kind]), gang="volcano")
    cluster = OperatorCluster(manifest(worker=2), facts=facts)
    cluster.settle()
    group = cluster.objects[(kind, "wide")]
    assert (group["spec"]["minMember"], cluster.pods()) == (2, [])
    group["status"] = {"phase": "Inqueue"}
    cluster.settle()
    assert cluster.report.phase is JobPhase.RUNNING
    assert cluster.pod("wide-worker-0")["spec"]["schedulerName"] == "volcano"
    cluster.edit(worker={"replicas": 5})
    cluster.settle()
    assert cluster.objects[(kind, "wide")]["spec"]["minMember"] == 5
    init = {"resources": {"requests": {"memory": "4Gi", "cpu": "100m"}}}
    main = {"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}}
    found = pod_resources({"initContainers": [init], "containers": [main, main]})
    assert {name: float(number) for name, number in found.items()} == {"memory": 4 * 1024**3, "cpu": 1.0}


def test_22_an_edited_template_and_a_removed_role_are_noticed() -> None:
    cluster = running(ps=1, worker=2)
    cluster.edit(worker={"template": {"spec": {"containers": [{"name": "paddle", "image": "demo:v2"}]}}})
    cluster.settle()
    told = cluster.condition("TemplateChanged")
    assert told
    assert told[0]
    assert "worker" in told[2]
    assert cluster.report.phase is JobPhase.RUNNING
    cluster.edit(ps=None)
    cluster.settle()
    assert cluster.pods() == ["wide-worker-0", "wide-worker-1"]
    assert cluster.pod("wide-worker-0")["spec"]["containers"][0]["image"] == "demo:v2"
    assert cluster.report.phase is JobPhase.RUNNING
    changed = cluster.condition("TemplateChanged")
    assert changed
    assert not changed[0]


@pytest.mark.parametrize("how", ["evicted", "node lost"])
def test_23_evicted_pods_and_lost_nodes_are_seen_and_cost_nothing(how: str) -> None:
    cluster = running(worker=3)
    if how == "evicted":
        cluster.evict("wide-worker-2")
    else:
        cluster.lose_node(cluster.pod("wide-worker-2")["spec"]["nodeName"])
    cluster.settle(100)
    assert (cluster.report.phase, cluster.report.restarts, cluster.report.attempt) == (JobPhase.RUNNING, 0, 1)
    assert len(cluster.pods("Running")) == 3


class Test24WhatWasMissing:
    def test_suspend(self) -> None:
        cluster = OperatorCluster(manifest(worker=2, runPolicy={"suspend": True}))
        cluster.settle()
        assert (cluster.report.phase, cluster.pods()) == (JobPhase.SUSPENDED, [])
        cluster.edit(runPolicy={"suspend": False})
        cluster.settle()
        assert cluster.report.phase is JobPhase.RUNNING
        cluster.edit(runPolicy={"suspend": True})
        cluster.settle()
        assert (cluster.report.phase, cluster.pods(), cluster.named("ConfigMap")) == (JobPhase.SUSPENDED, [], [])
        assert cluster.report.start_s is None

    def test_time_to_live(self) -> None:
        cluster = running(worker=1, runPolicy={"ttlSecondsAfterFinished": 30})
        cluster.finish()
        cluster.settle(20)
        assert cluster.body is not None
        cluster.settle(20)
        assert cluster.body is None
        assert cluster.objects == {}

    def test_active_deadline(self) -> None:
        cluster = running(worker=2, runPolicy={"activeDeadlineSeconds": 60})
        cluster.settle(61)
        failed = cluster.condition("Failed")
        assert failed
        assert failed[1] == "DeadlineExceeded"
        assert cluster.pods() == []

    def test_managed_by_somebody_else(self) -> None:
        cluster = OperatorCluster(manifest(worker=2, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}))
        cluster.settle()
        assert cluster.writes == []

    def test_what_it_waits_for(self) -> None:
        cluster = OperatorCluster(manifest(worker=2))
        cluster.too_few_nodes = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
        cluster.settle()
        told = cluster.condition("Waiting")
        assert told
        assert told[1] == "Unschedulable"
        assert "nvidia.com/gpu" in told[2]
        cluster.too_few_nodes = ""
        cluster.image_trouble = "ImagePullBackOff"
        cluster.settle()
        told = cluster.condition("Waiting")
        assert told
        assert told[1] == "ImagePullBackOff"
        cluster.image_trouble = ""
        cluster.settle()
        assert cluster.report.phase is JobPhase.RUNNING
        assert cluster.condition("Waiting") == (False, "NotWaiting", "")

    def test_a_missing_gang_scheduler(self) -> None:
        cluster = OperatorCluster(manifest(worker=2), facts=ClusterFacts(gang="volcano"))
        cluster.settle()
        told = cluster.condition("Waiting")
        assert told
        assert told[1] == "GangUnavailable"
        assert cluster.pods() == []

    def test_the_generation_is_observed(self) -> None:
        cluster = running(worker=2)
        assert cluster.report.observed_generation == 1
        cluster.edit(cleanPodPolicy="Never")
        cluster.settle()
        assert cluster.report.observed_generation == 2

    def test_every_child_has_its_owner(self) -> None:
        decision = OperatorCluster(manifest(ps=1, worker=1, intranet="Service")).decide()
        assert decision
        made = [each for each in decision.actions if isinstance(each, CreateObject)]
        assert made
        assert all(each.body["metadata"]["ownerReferences"][0]["controller"] for each in made)
        assert SeenObject(kind="Service", name="x").digest == ""
