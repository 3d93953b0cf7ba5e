"""What a job says about its failures and the start of its pods: rules, and limits of time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.operator_cluster import OperatorCluster, manifest
from tests.unit.operator.test_operator_objects import kubeflow
from tests.unit.operator.test_operator_policies import PEER_LOST
from tests.unit.paddlejob.test_paddlejob_reading import codes, kubeflow_job, warned
from tests.unit.paddlejob.test_paddlejob_reading import job as read_job
from umiak.operator.policies.failures import Fault, trouble_of
from umiak.operator.policies.view import view_of
from umiak.operator.values import ClusterFacts, Observed, PodPhase, SeenPod
from umiak.paddlejob.reading import read
from umiak.paddlejob.resource import JobPhase, PodRole, RuleAction

FAILED = PodPhase.FAILED


def policy(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"failurePolicy": {"rules": list(rules)}, **more}


def rule(action: str = "Fail", *values: int, operator: str = "In", **more: Any) -> dict[str, Any]:
    found = {"action": action, **more}
    return {**found, "onExitCodes": {"operator": operator, "values": list(values)}} if values else found


def fault_of(rules: list[dict[str, Any]], role: PodRole = PodRole.WORKER, **fields: Any) -> tuple[str, bool]:
    """Whose fault a failure is, and whether a rule says so."""
    read_in = read(manifest(worker=1, ps=1, runPolicy=policy(*rules)))
    assert read_in.problems == ()
    pod = SeenPod(name=f"wide-{role.value}-0", uid="1", role=role, index=0, owner_uid=read_in.job.uid, **fields)
    facts = ClusterFacts(lost_nodes=frozenset(["gone"]))
    found = trouble_of(pod, view_of(Observed(job=read_in.job, pods=(pod,), facts=facts), 1000.0))
    assert found is not None
    return found.fault.value, found.is_ruled


OOM = {"phase": FAILED, "exit_code": 137, "reason": "OOMKilled"}
EVICTED = {"phase": FAILED, "reason": "Evicted"}


@pytest.mark.parametrize(
    ("rules", "fields", "fault"),
    [
        ([rule("Fail", 42)], {"phase": FAILED, "exit_code": 42}, Fault.FINAL),
        ([rule("Fail", 42)], {"phase": FAILED, "exit_code": 41}, None),
        ([rule("Fail", 42, operator="NotIn")], {"phase": FAILED, "exit_code": 41}, Fault.FINAL),
        ([rule("Fail", 42, operator="NotIn")], {"phase": FAILED, "exit_code": 42}, None),
        ([rule("Fail", 42, operator="NotIn")], EVICTED, None),
        ([rule("RestartWithoutCounting", onReasons=["OOMKilled"])], OOM, Fault.CLUSTER),
        ([rule("Restart", onReasons=["Evicted"])], EVICTED, Fault.PROGRAM),
        ([rule("Fail", onReasons=["Evicted", "Preempting"])], EVICTED, Fault.FINAL),
        ([rule("Fail", onReasons=["NodeLost"])], {"phase": PodPhase.RUNNING, "node": "gone"}, Fault.FINAL),
        ([rule("Restart", 127)], {"phase": FAILED, "exit_code": 127}, Fault.PROGRAM),
        ([rule("Fail", 137, onReasons=["Error"])], OOM, None),
        ([rule("Fail", roles=["ps"])], OOM, None),
        ([rule("Fail", roles=["ps", "worker"])], OOM, Fault.FINAL),
        ([rule("Restart", 137), rule("Fail")], OOM, Fault.PROGRAM),
        ([rule("Restart", 1), rule("Fail")], OOM, Fault.FINAL),
        ([rule("Fail")], {"phase": PodPhase.RUNNING, "is_deleting": True}, None),
        ([rule("Fail", onReasons=["PodDeleted"])], {"phase": PodPhase.RUNNING, "is_deleting": True}, Fault.FINAL),
    ],
)
def test_the_first_rule_that_is_about_a_failure_counts(
    rules: list[dict[str, Any]], fields: dict[str, Any], fault: Fault | None
) -> None:
    found, is_ruled = fault_of(rules, **fields)
    assert is_ruled is (fault is not None)
    assert fault is None or found == fault.value


def test_a_job_fails_at_once_with_the_number_of_the_rule() -> None:
    rules = policy(rule("Restart", 1), rule("Fail", 42))
    cluster = OperatorCluster(manifest(worker=2, intranet="Service", runPolicy=rules))
    cluster.settle()
    assert cluster.pod("wide-worker-0")["spec"]["restartPolicy"] == "Never", "each failure is seen"
    cluster.fail("wide-worker-1", 1)
    cluster.settle(60)
    assert (cluster.report.phase, cluster.report.restarts) == (JobPhase.RUNNING, 1)
    cluster.fail("wide-worker-1", 42)
    cluster.settle()
    assert cluster.report.phase is JobPhase.FAILED
    said = next(each for each in cluster.report.conditions if each.type == "Failed")
    assert said.reason == "FailurePolicy"
    assert "wide-worker-1 failed with exit code 42: failurePolicy.rules[1] says Fail" in said.message


def test_restarts_that_are_not_counted_go_on_beyond_the_budget() -> None:
    rules = policy(rule("RestartWithoutCounting", onReasons=["OOMKilled"]), backoffLimit=0)
    cluster = OperatorCluster(manifest(worker=2, runPolicy=rules))
    cluster.settle()
    for _ in range(4):
        cluster.fail("wide-worker-0", 137, "OOMKilled")
        cluster.settle(900)
        assert (cluster.report.phase, cluster.report.restarts) == (JobPhase.RUNNING, 0)
    cluster.fail("wide-worker-0", 1)
    cluster.settle()
    assert cluster.report.phase is JobPhase.FAILED


def test_evictions_can_be_counted() -> None:
    cluster = OperatorCluster(
        manifest(worker=1, runPolicy=policy(rule("Restart", onReasons=["Evicted"]), backoffLimit=0))
    )
    cluster.settle()
    cluster.evict("wide-worker-0")
    cluster.settle()
    assert cluster.report.phase is JobPhase.FAILED


def test_a_pod_that_ended_because_of_another_one_is_not_looked_at() -> None:
    cluster = OperatorCluster(manifest(worker=2, runPolicy=policy(rule("Fail"))))
    cluster.settle()
    cluster.fail("wide-worker-0", 1, message=PEER_LOST)
    cluster.settle(60)
    assert cluster.report.phase is not JobPhase.FAILED
    cluster.fail("wide-worker-1", 1)
    cluster.settle()
    assert cluster.report.phase is JobPhase.FAILED


def test_rules_of_kubeflow_jobs_name_its_roles() -> None:
    body = kubeflow()
    body["spec"].setdefault("runPolicy", {}).update(policy(rule("Fail", 3, roles=["Worker"])))
    cluster = OperatorCluster(body)
    cluster.settle()
    cluster.fail("kf-worker-1", 3)
    cluster.settle()
    assert cluster.report.phase is JobPhase.FAILED
    found = read(kubeflow_job(runPolicy=policy(rule(roles=["Master"])))).job.spec.run_policy.rules
    assert [(each.action, each.roles) for each in found] == [(RuleAction.FAIL, (PodRole.PS,))]


RULES = "spec.runPolicy.failurePolicy.rules"


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ([rule("Explode")], ("UM-PDJ-009", f"{RULES}[0].action")),
        ([{"onReasons": ["Evicted"]}], ("UM-PDJ-002", f"{RULES}[0].action")),
        ([rule("Fail", 0)], ("UM-PDJ-003", f"{RULES}[0].onExitCodes.values[0]")),
        ([rule("Fail", 256)], ("UM-PDJ-003", f"{RULES}[0].onExitCodes.values[0]")),
        ([rule("Fail", 1, operator="Near")], ("UM-PDJ-009", f"{RULES}[0].onExitCodes.operator")),
        ([rule(), rule(roles=["trainer"])], ("UM-PDJ-009", f"{RULES}[1].roles[0]")),
        ([{"action": "Fail", "onExitCodes": {"values": []}}], ("UM-PDJ-032", f"{RULES}[0].onExitCodes.values")),
        ([{"action": "Fail", "onExitCodes": {}}], ("UM-PDJ-002", f"{RULES}[0].onExitCodes.values")),
        ([rule(onReasons=[])], ("UM-PDJ-032", f"{RULES}[0].onReasons")),
        ([rule(roles="worker")], ("UM-PDJ-001", f"{RULES}[0].roles")),
        (["Fail"], ("UM-PDJ-001", f"{RULES}[0]")),
    ],
)
def test_what_is_wrong_with_rules_is_told(rules: list[Any], problem: tuple[str, str]) -> None:
    body = read_job(worker=read_job()["spec"]["worker"], runPolicy={"failurePolicy": {"rules": rules}})
    assert problem in codes(body)
    cluster = OperatorCluster(manifest(worker=1, runPolicy={"failurePolicy": {"rules": rules}}))
    cluster.settle()
    (said,) = [each for each in cluster.report.conditions if each.type == "Accepted"]
    assert (said.is_true, said.reason) == (False, "InvalidSpec")
    assert problem[1] in said.message


def test_doubtful_rules_are_warnings() -> None:
    worker = read_job()["spec"]["worker"]
    body = read_job(worker=worker, runPolicy=policy(rule(onReasons=["OOMkilled", "OwnWord"]), rule(), rule("Restart")))
    assert warned(body) == [("UM-PDJ-032", f"{RULES}[0].onReasons"), ("UM-PDJ-032", f"{RULES}[2]")]


# ---- limits of time


def failed(cluster: OperatorCluster) -> tuple[str, str]:
    said = next(each for each in cluster.report.conditions if each.type == "Failed" and each.is_true)
    return said.reason, said.message


def test_an_image_that_can_not_be_pulled_fails_the_job_in_time() -> None:
    cluster = OperatorCluster(manifest(worker=2, runPolicy={"imagePullTimeoutSeconds": 120}))
    cluster.image_trouble = "ImagePullBackOff"
    cluster.settle(100)
    assert cluster.report.phase is JobPhase.STARTING
    cluster.settle(30)
    reason, message = failed(cluster)
    assert reason == "ImagePullTimeout"
    assert "wide-worker-0 (and 1 more) could not get its image demo:v1 within 120 s" in message
    assert "no such image" in message


def test_a_pod_that_finds_no_node_fails_the_job_in_time() -> None:
    cluster = OperatorCluster(manifest(worker=2, ps=1, runPolicy={"pendingTimeoutSeconds": 300}))
    cluster.too_few_nodes = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    cluster.settle(290)
    assert cluster.report.phase is JobPhase.PENDING
    cluster.settle(20)
    reason, message = failed(cluster)
    assert reason == "PendingTimeout"
    assert "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu." in message


def test_without_limits_jobs_wait() -> None:
    cluster = OperatorCluster(manifest(worker=1))
    cluster.image_trouble = "ErrImagePull"
    cluster.settle(100_000)
    assert cluster.report.phase is JobPhase.STARTING


def test_an_image_counts_as_pending_too_but_is_told_as_an_image() -> None:
    cluster = OperatorCluster(manifest(worker=1, runPolicy={"pendingTimeoutSeconds": 10}))
    cluster.image_trouble = "ErrImagePull"
    cluster.settle(20)
    reason, message = failed(cluster)
    assert reason == "PendingTimeout"
    assert "could not get its image demo:v1" in message


def test_limits_begin_again_with_an_attempt() -> None:
    cluster = OperatorCluster(
        manifest(worker=2, runPolicy={"pendingTimeoutSeconds": 50, "imagePullTimeoutSeconds": 50})
    )
    cluster.settle(1000)
    assert cluster.report.phase is JobPhase.RUNNING
    cluster.too_few_nodes = "no"
    cluster.fail("wide-worker-0")
    cluster.settle(40)
    assert cluster.report.phase is JobPhase.RESTARTING
    cluster.too_few_nodes = ""
    cluster.settle(100)
    assert cluster.report.phase is JobPhase.RUNNING


def test_an_elastic_job_waits_while_it_has_enough_workers() -> None:
    body = manifest(worker=2, elastic=1, runPolicy={"pendingTimeoutSeconds": 50})
    body["spec"]["worker"] |= {"requests": 1, "limits": 4}
    cluster = OperatorCluster(body)
    cluster.settle()
    cluster.too_few_nodes = "no"
    cluster.edit(worker={"replicas": 3})
    cluster.settle(200)
    assert cluster.report.phase is JobPhase.SCALING


def test_limits_of_kubeflow_jobs() -> None:
    found = read(kubeflow_job(runPolicy={"imagePullTimeoutSeconds": 5, "pendingTimeoutSeconds": 6})).job.spec.run_policy
    assert (found.image_pull_s, found.pending_s) == (5, 6)
