"""Policies of the operator, one question each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.operator_cluster import OperatorCluster, manifest
from umiak.core.value import replace
from umiak.operator.policies import clean_up, limits, ports
from umiak.operator.policies.failures import Fault, trouble_of
from umiak.operator.policies.phases import is_urgent
from umiak.operator.policies.restarts import delay_s, scope_of
from umiak.operator.policies.scale import elastic_count
from umiak.operator.policies.view import JobView, numbers, ranges, view_of
from umiak.operator.reconcile import reconcile
from umiak.operator.values import ClusterFacts, CreateObject, DeleteObject, KeepLogs, Observed, PodPhase, SeenPod
from umiak.paddlejob.reading import read
from umiak.paddlejob.resource import (
    CleanPods,
    Condition,
    JobPhase,
    JobReport,
    PaddleJob,
    PodRole,
    RestartScope,
    RoleCounts,
)


def job(**fields: Any) -> PaddleJob:
    return replace(read(manifest(**fields)).job, uid="uid-1")


def view(given: PaddleJob, *pods: SeenPod, facts: ClusterFacts = ClusterFacts()) -> JobView:  # noqa: B008 - a value
    return view_of(Observed(job=given, pods=pods, facts=facts), 1000.0)


def pod(name: str = "wide-worker-0", **fields: Any) -> SeenPod:
    return SeenPod(name=name, uid=f"of-{name}", role=PodRole.WORKER, index=0, owner_uid="uid-1", **fields)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"phase": PodPhase.RUNNING}, None),
        ({"phase": PodPhase.SUCCEEDED, "is_deleting": True}, Fault.CLUSTER),
        ({"phase": PodPhase.FAILED, "exit_code": 1, "reason": "Error"}, Fault.PROGRAM),
        ({"phase": PodPhase.FAILED, "exit_code": 137, "reason": "OOMKilled"}, Fault.PROGRAM),
        ({"phase": PodPhase.FAILED, "exit_code": 127}, Fault.FINAL),
        ({"phase": PodPhase.FAILED, "exit_code": 128, "reason": "StartError"}, Fault.FINAL),
        ({"phase": PodPhase.FAILED, "exit_code": 143, "reason": "Evicted"}, Fault.CLUSTER),
        ({"phase": PodPhase.FAILED, "reason": "Preempting"}, Fault.CLUSTER),
        ({"phase": PodPhase.FAILED, "reason": "NodeShutdown"}, Fault.CLUSTER),
        ({"phase": PodPhase.FAILED, "reason": "UnexpectedAdmissionError"}, Fault.CLUSTER),
        ({"phase": PodPhase.FAILED, "exit_code": 1, "is_disrupted": True}, Fault.CLUSTER),
        ({"phase": PodPhase.FAILED, "exit_code": 143, "is_deleting": True}, Fault.CLUSTER),
        ({"phase": PodPhase.RUNNING, "is_deleting": True}, Fault.CLUSTER),
        ({"phase": PodPhase.UNKNOWN}, Fault.CLUSTER),
        ({"phase": PodPhase.RUNNING, "node": "gone"}, Fault.CLUSTER),
        (
            {
                "phase": PodPhase.FAILED,
                "reason": "Evicted",
                "message": "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.",
            },
            Fault.PROGRAM,
        ),
    ],
)
def test_whose_fault_it_is(fields: dict[str, Any], fault: Fault | None) -> None:
    found = trouble_of(pod(**fields), view(job(), facts=ClusterFacts(lost_nodes=frozenset(["gone"]))))
    assert (found.fault if found else None) is fault


@pytest.mark.parametrize(
    ("fields", "role", "scope"),
    [
        ({"worker": 2}, PodRole.WORKER, RestartScope.JOB),
        ({"worker": 1}, PodRole.WORKER, RestartScope.JOB),
        ({"ps": 1}, PodRole.WORKER, RestartScope.POD),
        ({"ps": 1}, PodRole.PS, RestartScope.JOB),
        ({"ps": 1, "heter": 1}, PodRole.HETER, RestartScope.JOB),
        ({"ps": 1, "withGloo": 1}, PodRole.WORKER, RestartScope.JOB),
        ({"ps": 1, "runPolicy": {"restartScope": "Role"}}, PodRole.WORKER, RestartScope.ROLE),
        ({"ps": 1, "runPolicy": {"restartScope": "Job"}}, PodRole.WORKER, RestartScope.JOB),
        ({"worker": 2, "runPolicy": {"restartScope": "Pod"}}, PodRole.WORKER, RestartScope.POD),
        ({"worker": 2, "elastic": 1}, PodRole.WORKER, RestartScope.POD),
    ],
)
def test_what_a_failed_pod_takes_with_it(fields: dict[str, Any], role: PodRole, scope: RestartScope) -> None:
    assert scope_of(job(**fields).spec, role) is scope


def test_restarts_come_later_and_later() -> None:
    assert [delay_s(times) for times in (0, 1, 2, 3, 4, 8, 100, 10**6)] == [0, 0, 10, 20, 40, 360, 360, 360]


def test_a_pod_that_a_node_refuses_at_once_is_not_made_again_at_once() -> None:
    refused = pod(phase=PodPhase.FAILED, reason="OutOfcpu", created_s=995.0)
    elastic = job(worker=1, elastic=1)
    facts = ClusterFacts(etcd="etcd:2379")
    soon = reconcile(Observed(job=elastic, pods=(refused,), facts=facts), 1000.0)
    assert (soon.actions, soon.again_in_s) == ((), 5.0)
    later = reconcile(Observed(job=elastic, pods=(refused,), facts=facts), 1006.0)
    assert [each.name for each in later.actions if isinstance(each, DeleteObject)] == ["wide-worker-0"]


ENDED, RUNS = pod("a", phase=PodPhase.FAILED), pod("b", phase=PodPhase.RUNNING)


@pytest.mark.parametrize(
    ("policy", "completed", "failed"),
    [
        (None, "ab", "b"),
        (CleanPods.ALWAYS, "ab", "ab"),
        (CleanPods.ON_COMPLETION, "ab", "b"),
        (CleanPods.ON_FAILURE, "b", "ab"),
        (CleanPods.RUNNING, "b", "b"),
        (CleanPods.NEVER, "", ""),
    ],
)
def test_what_is_deleted_of_a_finished_job(policy: CleanPods | None, completed: str, failed: str) -> None:
    for phase, wanted in ((JobPhase.COMPLETED, completed), (JobPhase.FAILED, failed)):
        assert "".join(each.name for each in clean_up.to_delete(policy, phase, (ENDED, RUNS))) == wanted


def test_the_log_is_read_before_the_pod_goes_but_not_for_ever() -> None:
    over = replace(job(worker=1, cleanPodPolicy="Always"), report=JobReport(phase=JobPhase.FAILED, completion_s=1000.0))
    failed = pod(phase=PodPhase.FAILED, exit_code=1, ended_s=1000.0)
    first = reconcile(Observed(job=over, pods=(failed,)), 1001.0)
    assert first.actions == (KeepLogs(pod=failed.name, uid=failed.uid),)
    kept = replace(over, report=replace(over.report, last_logs=((failed.name, "oh"),)))
    for given, now in ((kept, 1001.0), (over, 1061.0)):
        then = reconcile(Observed(job=given, pods=(failed,)), now)
        assert [type(each) for each in then.actions] == [DeleteObject]


def test_logs_of_three_pods_are_enough() -> None:
    over = replace(job(worker=9), report=JobReport(phase=JobPhase.FAILED, completion_s=1000.0))
    pods = [pod(f"wide-worker-{n}", phase=PodPhase.FAILED, exit_code=1, ended_s=1000.0 - n) for n in range(9)]
    found = reconcile(Observed(job=over, pods=tuple(pods)), 1001.0)
    assert [each.pod for each in found.actions if isinstance(each, KeepLogs)] == [f"wide-worker-{n}" for n in (8, 7, 6)]


class TestPorts:
    def test_every_pod_has_a_block_of_its_own(self) -> None:
        found = ports.host_ports(view(job(worker=1000, intranet="Host")))
        assert len(set(found.values())) == 1000
        assert all(ports.FIRST_PORT <= port <= ports.LAST_PORT - 19 for port in found.values())
        assert {port % 20 for port in found.values()} == {0}

    def test_what_others_use_is_avoided_while_there_is_room(self) -> None:
        others = tuple(("*", port) for port in range(ports.FIRST_PORT, ports.LAST_PORT, 20))
        most = ClusterFacts(kept_ports=others[:-3])
        found = ports.host_ports(view(job(worker=5, intranet="Host"), facts=most))
        free = {port for _, port in others[-3:]}
        assert free < set(found.values())
        assert len(set(found.values())) == 5

    def test_more_pods_than_blocks(self) -> None:
        found = ports.host_ports(view(job(worker=1100, intranet="Host")))
        assert len(found) == 1100

    def test_what_was_chosen_stays(self) -> None:
        first = job(worker=2, intranet="Host")
        chosen = tuple(ports.host_ports(view(first)).items())
        grown = job(worker=4, intranet="Host")
        grown = replace(grown, report=replace(grown.report, node_ports=chosen))
        found = ports.host_ports(view(grown, facts=ClusterFacts(kept_ports=(("*", 10_000),))))
        assert dict(chosen).items() <= found.items()
        assert len(set(found.values())) == 4


@pytest.mark.parametrize(("text", "listed"), [("", []), ("0", [0]), ("0-2,5", [0, 1, 2, 5]), ("1,3,5-6", [1, 3, 5, 6])])
def test_ranges(text: str, listed: list[int]) -> None:
    assert numbers(text, 10) == listed
    assert ranges(listed) == text


def test_ranges_of_an_edited_status() -> None:
    assert numbers("x,-3,2-,4,\u00b2", 10) == [4]
    assert numbers("0-999999999", 3) == [0, 1, 2]
    given = job(worker=2)
    edited = JobReport(completed=(("nobody", "0"), ("worker", "1-9")), port=70_000, node_ports=(("x", -4),))
    found = reconcile(Observed(job=replace(given, report=edited)), 1000.0)
    assert [each.name for each in found.actions if isinstance(each, CreateObject)] == ["wide-worker-0"]


@pytest.mark.parametrize(
    ("replicas", "least", "most", "told"),
    [
        (2, None, None, "1:2"),
        (2, 1, 4, "1:4"),
        (2, 2, 2, "2"),
        (1, None, None, "1"),
        (5, 2, 4, "2:5"),
        (1, 3, 4, "1:4"),
    ],
)
def test_the_range_of_an_elastic_job(replicas: int, least: int | None, most: int | None, told: str) -> None:
    body = manifest(worker=replicas, elastic=1)
    body["spec"]["worker"] |= {name: n for name, n in (("requests", least), ("limits", most)) if n is not None}
    assert elastic_count(read(body).job.spec) == told


def test_time_limits() -> None:
    given = job(runPolicy={"activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 0})
    assert limits.deadline_in_s(given, 5.0) is None
    started = replace(given, report=JobReport(start_s=100.0, completion_s=150.0))
    assert (limits.deadline_in_s(started, 110.0), limits.deadline_in_s(started, 170.0)) == (50.0, 0.0)
    assert limits.expiry_in_s(started, 151.0) == 0.0
    assert limits.expiry_in_s(job(), 151.0) is None


def test_counts_can_wait_and_phases_can_not() -> None:
    old = JobReport(phase=JobPhase.PENDING, counts=(RoleCounts(role=PodRole.WORKER, pending=2),))
    assert not is_urgent(old, replace(old, counts=()))
    assert not is_urgent(old, replace(old, phase=JobPhase.STARTING))
    assert not is_urgent(old, replace(old, conditions=(Condition(type="Waiting", is_true=True, reason="X"),)))
    assert is_urgent(old, replace(old, phase=JobPhase.RUNNING))
    assert is_urgent(old, replace(old, restarts=1))
    assert is_urgent(old, replace(old, conditions=(Condition(type="Accepted", is_true=False, reason="X"),)))


def test_a_server_that_vanishes_while_a_worker_is_restarted_is_noticed() -> None:
    """The list of addresses is away at that moment, and the phase is not Running: what is left is that workers have started."""
    for intranet in ("PodIP", "Service"):
        cluster = OperatorCluster(manifest(ps=1, worker=2, intranet=intranet, runPolicy={"backoffLimit": 5}))
        cluster.settle()
        cluster.pod("wide-worker-0")["spec"]["restartPolicy"] = "Never"
        cluster.fail("wide-worker-0")
        cluster.operate()
        cluster.operate()
        cluster.remove("wide-ps-0")
        cluster.settle(30)
        assert (cluster.report.phase, cluster.report.attempt) == (JobPhase.RUNNING, 1)


def test_a_role_is_restarted_as_a_whole() -> None:
    cluster = OperatorCluster(manifest(ps=1, worker=3, runPolicy={"restartScope": "Role"}))
    cluster.settle()
    before = {name: cluster.pod(name)["metadata"]["uid"] for name in cluster.pods()}
    cluster.fail("wide-worker-1")
    cluster.settle(30)
    after = {name: cluster.pod(name)["metadata"]["uid"] for name in cluster.pods()}
    assert {name for name in before if before[name] == after[name]} == {"wide-ps-0"}
    assert (cluster.report.restarts, cluster.report.attempt) == (1, 0)
    cluster.remove("wide-worker-2")
    cluster.settle(30)
    assert cluster.report.restarts == 1
    assert {cluster.environment(name)["PADDLE_TRAINERS"] for name in cluster.pods() if "worker" in name} == {
        cluster.data()["PADDLE_TRAINERS"]
    }


def test_a_pod_whose_address_changes_is_lost_to_its_peers() -> None:
    cluster = OperatorCluster(manifest(worker=2))
    cluster.settle()
    cluster.pod("wide-worker-0")["status"]["podIPs"] = [{"ip": "10.9.9.9"}]
    cluster.settle()
    assert (cluster.report.attempt, cluster.report.restarts, cluster.report.phase) == (1, 0, JobPhase.RUNNING)


def taken_over(**fields: Any) -> OperatorCluster:
    """A job that another operator has started: its objects carry no attempt, no digest and no label of ours."""
    cluster = OperatorCluster(manifest(**fields))
    cluster.settle()
    for body in cluster.objects.values():
        for name in [name for name in body["metadata"].get("annotations", {}) if "batch.paddlepaddle.org" in name]:
            del body["metadata"]["annotations"][name]
    told = cluster.objects[("ConfigMap", "wide")]["data"]
    told |= {name: text.replace(told["PADDLE_PORT"], "41234") for name, text in told.items()}
    assert cluster.body
    cluster.body["status"] = {"phase": "Running", "mode": "PS"}
    cluster.body["metadata"] |= {"finalizers": ["finalizers.paddlepaddle.org"]}
    return cluster


@pytest.mark.parametrize("intranet", ["PodIP", "Service"])
def test_jobs_of_the_old_operator_run_on(intranet: str) -> None:
    cluster = taken_over(ps=1, worker=2, intranet=intranet)
    before = {name: cluster.pod(name)["metadata"]["uid"] for name in cluster.pods()}
    cluster.settle(100)
    assert {name: cluster.pod(name)["metadata"]["uid"] for name in cluster.pods("Running")} == before
    assert (cluster.report.phase, cluster.report.attempt) == (JobPhase.RUNNING, 0)
    assert cluster.body
    assert cluster.body["metadata"]["finalizers"] == []
    cluster.finish()
    cluster.settle()
    assert cluster.report.phase is JobPhase.COMPLETED


@pytest.mark.parametrize("how", ["fail", "remove"])
def test_a_failure_in_a_job_of_the_old_operator_restarts_all_of_it(how: str) -> None:
    """Its servers listen on a port that nobody has written down."""
    cluster = taken_over(ps=1, worker=2)
    cluster.settle()
    getattr(cluster, how)("wide-worker-0")
    cluster.settle(30)
    assert (cluster.report.phase, cluster.report.attempt) == (JobPhase.RUNNING, 1)
    assert {cluster.environment(name)["PADDLE_PORT"] for name in cluster.pods()} == {str(cluster.report.port)}


def test_a_pod_that_ends_well_because_it_is_deleted_has_not_done_its_work() -> None:
    cluster = OperatorCluster(manifest(ps=1, worker=2))
    cluster.settle()
    cluster.finish("wide-worker-0")
    cluster.settle()
    cluster.terminate("wide-worker-0")  # drained behind its end
    cluster.terminate("wide-worker-1")  # drained in the middle
    cluster.finish("wide-worker-1")
    cluster.settle()
    assert cluster.report.phase is JobPhase.RUNNING
    assert cluster.pods("Running") == ["wide-ps-0", "wide-worker-1"]


def test_services_of_pods_that_are_not_wanted_any_more_go() -> None:
    cluster = OperatorCluster(manifest(worker=3, intranet="Service"))
    cluster.settle()
    cluster.edit(worker={"replicas": 1})
    cluster.settle()
    assert (cluster.named("Service"), cluster.pods()) == (["wide-worker-0"], ["wide-worker-0"])
    assert cluster.report.phase is JobPhase.RUNNING


def test_an_elastic_job_on_hosts_meets_at_a_port_of_its_own() -> None:
    taken = ClusterFacts(kept_ports=tuple(("*", port) for port in range(ports.FIRST_PORT, 20_000, 20)))
    cluster = OperatorCluster(manifest(worker=2, elastic=1, intranet="Host"), facts=taken)
    cluster.settle()
    own = dict(cluster.report.node_ports)["wide-worker-0"]
    assert cluster.environment("wide-worker-1")["PADDLE_MASTER"] == f"wide-worker-0:{own}"
    assert own >= 20_000


def test_a_doubtful_word_is_told_once_and_stays_in_a_condition() -> None:
    given = manifest(worker=2)
    given["spec"] |= {"cleanPodPolicy": "OnFailed", "cleanPolicy": "Always"}
    cluster = OperatorCluster(given)
    cluster.settle()
    said = cluster.condition("SpecWarnings")
    assert said
    assert said[0]
    assert 'spec.cleanPodPolicy: unknown word: "OnFailed"' in said[2]
    assert "did you mean `cleanPodPolicy`?" in said[2]
    assert cluster.report.phase is JobPhase.RUNNING
    told = [each for each in cluster.events if each.reason == "SpecWarnings"]
    assert {each.message for each in told} == {said[2]}
    assert all(each.is_warning for each in told)
    count = len(told)
    cluster.finish("wide-worker-0", "wide-worker-1")
    cluster.settle()
    assert len([each for each in cluster.events if each.reason == "SpecWarnings"]) == count
    assert cluster.body
    assert cluster.body["status"]["message"] == "all workers have ended well"


def test_a_doubtful_word_that_is_corrected_is_not_told_any_more() -> None:
    given = manifest(worker=2)
    given["spec"]["cleanPodPolicy"] = "OnFailed"
    cluster = OperatorCluster(given)
    cluster.settle()
    assert cluster.body
    assert "OnFailed" in cluster.body["status"]["message"]
    cluster.edit(cleanPodPolicy="OnFailure")
    cluster.settle()
    assert cluster.condition("SpecWarnings") is None


def test_pods_that_are_evicted_cost_nothing_where_no_restart_is_allowed() -> None:
    cluster = OperatorCluster(manifest(worker=2, runPolicy={"backoffLimit": 0}))
    cluster.settle()
    for _ in range(3):
        cluster.evict("wide-worker-1")
        cluster.settle(seconds=400)
        assert cluster.report.phase is JobPhase.RUNNING
    assert (cluster.report.attempt, cluster.report.restarts) == (3, 0)
    cluster.fail("wide-worker-0")
    cluster.settle()
    assert cluster.report.phase is JobPhase.FAILED


def test_evictions_in_a_loop_are_answered_later_and_later() -> None:
    cluster = OperatorCluster(manifest(worker=2))
    cluster.settle()
    waits = []
    for _ in range(8):
        cluster.evict("wide-worker-1")
        began, attempt = cluster.now, cluster.report.attempt
        while cluster.report.attempt == attempt:
            cluster.settle(seconds=1 if cluster.now - began < 10 else 10)
        waits.append(cluster.now - began)
        cluster.settle()
        while cluster.report.phase is not JobPhase.RUNNING:
            cluster.settle(seconds=1)
    assert waits == sorted(waits)
    assert waits[0] <= 2
    assert 250 < waits[-1] <= 362
    # One that ran for long is started again at once.
    cluster.settle(seconds=1000)
    cluster.evict("wide-worker-0")
    attempt = cluster.report.attempt
    cluster.settle(seconds=1)
    assert cluster.report.attempt == attempt + 1


def test_an_elastic_job_with_one_worker_is_still_collective() -> None:
    body = manifest(worker=2)
    body["spec"]["elastic"] = 1
    cluster = OperatorCluster(body)
    cluster.settle()
    cluster.edit(worker={"replicas": 1})
    cluster.settle()
    assert cluster.body
    assert cluster.body["status"]["mode"] == "Collective"


def test_workers_of_a_job_that_is_done_are_counted() -> None:
    cluster = OperatorCluster(manifest(ps=1, worker=2, cleanPodPolicy="Always"))
    cluster.settle()
    assert cluster.body
    assert cluster.body["status"]["workers"] == "2/2"
    cluster.finish()
    cluster.settle(seconds=10)
    assert cluster.pods() == []
    assert cluster.body["status"]["workers"] == "2/2"


PEER_LOST = "[UM-JOB-005] node 1 (10.0.0.2) was lost"


def test_the_loss_of_a_node_costs_nothing_though_its_peers_fail_before_it_is_noticed() -> None:
    cluster = OperatorCluster(manifest(worker=2, runPolicy={"backoffLimit": 0}))
    cluster.settle()
    cluster.fail("wide-worker-0", message=PEER_LOST)
    cluster.settle(seconds=110)
    assert cluster.report.attempt == 0
    cluster.lose_node(cluster.pod("wide-worker-1")["spec"]["nodeName"])
    cluster.settle(seconds=400)
    assert (cluster.report.attempt, cluster.report.restarts) == (1, 0)


def test_a_pod_that_blames_another_one_is_started_again_at_its_cost_if_no_cause_is_found() -> None:
    cluster = OperatorCluster(manifest(worker=2))
    cluster.settle()
    cluster.fail("wide-worker-0", message=PEER_LOST)
    cluster.settle(seconds=170)
    assert cluster.report.attempt == 0
    cluster.settle(seconds=60)
    assert (cluster.report.attempt, cluster.report.restarts) == (1, 1)


def test_the_cause_of_a_failure_is_not_waited_for_where_it_is_seen() -> None:
    cluster = OperatorCluster(manifest(worker=2))
    cluster.settle()
    cluster.fail("wide-worker-0", message=PEER_LOST)
    cluster.settle(seconds=2)
    cluster.fail("wide-worker-1", 137, "OOMKilled")
    cluster.settle(seconds=30)
    assert (cluster.report.attempt, cluster.report.restarts) == (1, 1)


def test_a_trainer_whose_launcher_blames_another_node_takes_the_servers_with_it() -> None:
    cluster = OperatorCluster(manifest(ps=1, worker=2))
    cluster.settle()
    cluster.fail("wide-worker-0", message=PEER_LOST)
    cluster.remove("wide-worker-1")
    cluster.settle(seconds=30)
    assert (cluster.report.attempt, cluster.report.restarts) == (1, 0)


def test_a_job_that_fails_by_restarts_in_its_pods_keeps_what_they_said() -> None:
    cluster = OperatorCluster(manifest(ps=1, worker=2, intranet="Service", runPolicy={"backoffLimit": 2}))
    cluster.settle()
    for _ in range(3):
        cluster.fail("wide-worker-0")
        cluster.settle()
    assert cluster.report.phase is JobPhase.FAILED
    assert [name for name, _ in cluster.report.last_logs] == ["wide-worker-0"], "the others have not failed"


def test_restarts_in_pods_count_among_those_that_are_used_up() -> None:
    cluster = OperatorCluster(manifest(ps=1, worker=2, intranet="Service", runPolicy={"backoffLimit": 2}))
    cluster.settle()
    for _ in range(2):
        cluster.fail("wide-worker-0")
        cluster.settle()
    cluster.fail("wide-ps-0")
    cluster.settle()
    assert cluster.report.phase is JobPhase.FAILED
    assert "2 of 2 restarts are used up" in cluster.condition("Failed")[2]  # type: ignore[index]


class TestClocksOfNodes:
    """Nodes write the ends of containers down in their own time."""

    @staticmethod
    def cluster(ahead_s: float, **fields: Any) -> OperatorCluster:
        cluster = OperatorCluster(manifest(worker=2, **fields), nodes=2)
        cluster.clocks_ahead = dict.fromkeys(cluster.nodes, ahead_s)
        return cluster

    @pytest.mark.parametrize("ahead_s", [-600.0, 0.0, 600.0])
    def test_a_replacement_waits_for_the_cause_no_longer(self, ahead_s: float) -> None:
        cluster = self.cluster(ahead_s)
        cluster.settle(60)
        cluster.fail("wide-worker-0", message=PEER_LOST)
        cluster.settle(170)
        assert cluster.report.attempt == 0, "the cause may still show itself"
        cluster.settle(30)
        assert (cluster.report.phase, cluster.report.attempt) == (JobPhase.RUNNING, 1)

    @pytest.mark.parametrize("ahead_s", [-600.0, 0.0, 600.0])
    def test_logs_are_kept(self, ahead_s: float) -> None:
        cluster = self.cluster(ahead_s, runPolicy={"backoffLimit": 0})
        cluster.settle(1000)
        cluster.fail("wide-worker-0")
        cluster.settle()
        assert cluster.report.last_logs == (("wide-worker-0", "last lines of wide-worker-0"),)

    @pytest.mark.parametrize("ahead_s", [-600.0, 0.0, 600.0])
    def test_images_have_the_time_that_the_job_gives_them(self, ahead_s: float) -> None:
        cluster = self.cluster(ahead_s, runPolicy={"imagePullTimeoutSeconds": 120})
        cluster.image_trouble = "ImagePullBackOff"
        cluster.settle(100)
        assert cluster.report.phase is JobPhase.STARTING
        cluster.settle(30)
        assert cluster.report.phase is JobPhase.FAILED

    @pytest.mark.parametrize("ahead_s", [-600.0, 0.0, 600.0])
    def test_the_budget_is_whole_again_in_time(self, ahead_s: float) -> None:
        cluster = self.cluster(ahead_s, intranet="Service", runPolicy={"backoffResetSeconds": 1000})
        cluster.settle(60)
        cluster.fail("wide-worker-0")  # its node starts it again
        cluster.settle(980)
        assert cluster.report.forgiven == 0
        cluster.settle(40)
        assert cluster.report.forgiven == 1

    def test_a_node_that_is_slow_to_start_pods_is_not_one_with_another_clock(self) -> None:
        seen = pod(created_s=100.0, started_s=900.0, ended_s=950.0, clock_ahead_s=800.0, phase=PodPhase.FAILED)
        assert view(job(), seen).current["wide-worker-0"].ended_s == 950.0
        future = replace(seen, ended_s=1700.0)
        assert view(job(), future).current["wide-worker-0"].ended_s == 900.0
