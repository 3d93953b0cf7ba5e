"""What is learned from the containers of a pod: the training decides, sidecars don't."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.operator_cluster import OperatorCluster, manifest
from umiak.operator.controller.seen_objects import pod_of
from umiak.operator.values import PodPhase

MAIN = {"name": "paddle", "image": "demo:v1"}
SIDECAR = {"name": "a-sidecar", "image": "demo:v1"}


def ended(name: str, code: int, reason: str = "", **row: Any) -> dict[str, Any]:
    return {
        "name": name,
        "state": {"terminated": {"exitCode": code, "reason": reason or ("Error" if code else "Completed")}},
        **row,
    }


def again(name: str, code: int, times: int = 1, waits: str = "") -> dict[str, Any]:
    """It ended, and was started again by its node, or will be."""
    state = {"waiting": {"reason": waits}} if waits else {"running": {}}
    reason = "Error" if code else "Completed"
    return {
        "name": name,
        "restartCount": times,
        "state": state,
        "lastState": {"terminated": {"exitCode": code, "reason": reason}},
    }


def runs(name: str) -> dict[str, Any]:
    return {"name": name, "state": {"running": {}}}


def waits(name: str, reason: str) -> dict[str, Any]:
    return {"name": name, "state": {"waiting": {"reason": reason}}}


def pod(phase: str, *rows: dict[str, Any], policy: str = "Never", **more: Any) -> dict[str, Any]:
    """As a node reports it: rows in the order of names."""
    init = more.pop("init", [])
    spec = {"restartPolicy": policy, "containers": more.pop("containers", [SIDECAR, MAIN]), **more.pop("spec", {})}
    status = {"phase": phase, "containerStatuses": [*rows], "initContainerStatuses": [*init], **more}
    return {
        "metadata": {"name": "wide-worker-0", "uid": "1", "labels": {"paddle-res-type": "worker"}},
        "spec": spec,
        "status": status,
    }


@pytest.mark.parametrize(
    ("body", "phase", "code", "lingers"),
    [
        (pod("Running", runs("a-sidecar"), runs("paddle")), PodPhase.RUNNING, None, False),
        (pod("Running", runs("a-sidecar"), ended("paddle", 0)), PodPhase.SUCCEEDED, 0, True),
        (pod("Running", runs("a-sidecar"), ended("paddle", 0), policy="OnFailure"), PodPhase.SUCCEEDED, 0, True),
        (pod("Running", runs("a-sidecar"), ended("paddle", 7)), PodPhase.FAILED, 7, True),
        # The node starts it again in its pod.
        (pod("Running", runs("a-sidecar"), ended("paddle", 7), policy="OnFailure"), PodPhase.RUNNING, 7, False),
        (pod("Running", runs("a-sidecar"), again("paddle", 7), policy="OnFailure"), PodPhase.RUNNING, 7, False),
        # A sidecar's end says nothing, whichever way it ends.
        (pod("Failed", ended("a-sidecar", 3), ended("paddle", 0)), PodPhase.SUCCEEDED, 0, False),
        (pod("Failed", ended("a-sidecar", 0), ended("paddle", 7)), PodPhase.FAILED, 7, False),
        (pod("Running", ended("a-sidecar", 3), runs("paddle")), PodPhase.RUNNING, None, False),
        # Of an operator that left it as it was.
        (pod("Running", runs("a-sidecar"), again("paddle", 0), policy="Always"), PodPhase.SUCCEEDED, 0, True),
        # The cluster ended it: a container that is told to end may well say 0.
        (pod("Failed", ended("a-sidecar", 0), ended("paddle", 0), reason="Evicted"), PodPhase.FAILED, 0, False),
        (pod("Succeeded", ended("paddle", 0), containers=[MAIN]), PodPhase.SUCCEEDED, 0, False),
        # Nobody is called paddle: the first of the template.
        (
            pod("Running", runs("a"), ended("b", 5), containers=[{"name": "b"}, {"name": "a"}]),
            PodPhase.FAILED,
            5,
            True,
        ),
    ],
)
def test_the_main_container_decides_how_a_pod_has_ended(
    body: dict[str, Any], phase: PodPhase, code: int | None, lingers: bool
) -> None:
    seen = pod_of(body)
    assert (seen.phase, seen.exit_code, seen.lingers) == (phase, code, lingers)


RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}


@pytest.mark.parametrize(
    ("of_pod", "own", "code", "phase"),
    [
        ("OnFailure", {"restartPolicy": "Never"}, 7, PodPhase.FAILED),
        ("Never", {"restartPolicy": "OnFailure"}, 7, PodPhase.RUNNING),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [RULE]}, 42, PodPhase.RUNNING),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [RULE]}, 43, PodPhase.FAILED),
        ("Never", {"restartPolicy": "OnFailure"}, 0, PodPhase.SUCCEEDED),
    ],
)
def test_what_the_main_container_says_about_restarts_counts_before_its_pod(
    of_pod: str, own: dict[str, Any], code: int, phase: PodPhase
) -> None:
    body = pod(
        "Running", runs("a-sidecar"), ended("paddle", code), policy=of_pod, containers=[SIDECAR, {**MAIN, **own}]
    )
    assert pod_of(body).phase is phase


@pytest.mark.parametrize("rules", [False, True])
def test_a_main_container_that_is_always_restarted_is_not_when_it_has_ended_well(rules: bool) -> None:
    own = {"restartPolicy": "Always", "restartPolicyRules": [RULE]}
    template = {"spec": {"restartPolicy": "Never", "containers": [{**SIDECAR, **own}, {**MAIN, **own}]}}
    policy = {"failurePolicy": {"rules": [{"action": "Fail", "onExitCodes": {"values": [1]}}]}} if rules else {}
    body = manifest(worker=1, runPolicy=policy)
    body["spec"]["worker"]["template"] = template
    cluster = OperatorCluster(body)
    cluster.operate()
    sidecar, main = cluster.pod("wide-worker-0")["spec"]["containers"]
    assert sidecar == {**SIDECAR, **own}
    kept = {} if rules else {"restartPolicyRules": [RULE]}
    made = {name: main[name] for name in ("restartPolicy", "restartPolicyRules") if name in main}
    assert made == {"restartPolicy": "Never" if rules else "OnFailure", **kept}


def test_a_sidecar_that_was_injected_first_does_not_decide() -> None:
    body = pod(
        "Running", ended("b-train", 5), runs("istio-proxy"), containers=[{"name": "istio-proxy"}, {"name": "b-train"}]
    )
    assert pod_of(body).phase is PodPhase.RUNNING, "the first container of the pod, as far as it can be known"
    body["metadata"]["annotations"] = {"batch.paddlepaddle.org/main-container": "b-train"}
    assert (pod_of(body).phase, pod_of(body).exit_code) == (PodPhase.FAILED, 5)


def test_restarts_of_sidecars_are_not_counted_and_not_blamed() -> None:
    seen = pod_of(
        pod("Running", again("a-sidecar", 1, 9, "CrashLoopBackOff"), again("paddle", 1, 2), policy="OnFailure")
    )
    assert (seen.container_restarts, seen.reason) == (2, "Error")


def test_a_sidecar_may_keep_a_pod_from_starting() -> None:
    seen = pod_of(pod("Pending", waits("a-sidecar", "ImagePullBackOff"), waits("paddle", "ContainerCreating")))
    assert seen.reason == "ImagePullBackOff"


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_an_init_container_that_fails_counts_and_its_log_is_kept(policy: str) -> None:
    spec = {"initContainers": [{"name": "fetch"}, {"name": "proxy", "restartPolicy": "Always"}]}
    if policy == "Never":
        init, phase = [ended("fetch", 4, restartCount=0), again("proxy", 1, 5)], "Failed"
    else:
        init, phase = [again("fetch", 4, 3, "CrashLoopBackOff"), again("proxy", 1, 5)], "Pending"
    seen = pod_of(
        pod(phase, waits("paddle", "PodInitializing"), policy=policy, init=init, spec=spec, containers=[MAIN])
    )
    assert (seen.exit_code, seen.log_of) == (4, "fetch")
    assert seen.container_restarts == (0 if policy == "Never" else 3), "those of the native sidecar are not counted"
    assert seen.reason == ("Error" if policy == "Never" else "CrashLoopBackOff")


def test_an_init_container_that_needed_two_tries_is_not_blamed_for_the_training() -> None:
    spec = {"initContainers": [{"name": "fetch"}]}
    body = pod("Failed", ended("paddle", 9), init=[again("fetch", 4)], spec=spec, containers=[MAIN])
    seen = pod_of(body)
    assert (seen.exit_code, seen.log_of) == (9, "paddle")


def test_the_message_of_a_pod_that_failed_is_the_end_of_its_log() -> None:
    log = "\n".join(["a line of the start"] * 50 + ["umiak: the launcher does not answer [UM-MEET-010]"])
    row = ended("paddle", 3)
    row["state"]["terminated"]["message"] = log
    message = pod_of(pod("Failed", row)).message
    assert message.startswith("...")
    assert message.endswith("[UM-MEET-010]")
    assert len(message.replace("\\n", "\n")) <= 300
