"""The operator as a process beside a real API server, with fake nodes: killed, cut off, elected, and with its manifest's rights."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.operator_process import Jobs, KubeProxy, OperatorProcess, install, job, operating, uninstall
from umiak.paddlejob import crd

pytestmark = [pytest.mark.kubernetes]


@pytest.fixture
def jobs(control_plane, fake_nodes, kube_namespace):
    install(control_plane)
    return Jobs(control_plane, kube_namespace)


def finish(jobs, fake_nodes, *names: str, exit_code: int = 0) -> None:
    for name in names:
        fake_nodes.finish(name, exit_code, namespace=jobs.namespace)


def writes_of(proxy: KubeProxy) -> list[tuple[str, str]]:
    return [each for each in proxy.writes if "/events" not in each[1] and "/leases" not in each[1]]


def test_a_whole_life_with_few_writes(control_plane, fake_nodes, jobs, tmp_path: Path):
    with KubeProxy(control_plane) as proxy:
        config = proxy.kubeconfig(tmp_path / "config")
        with operating(config, tmp_path / "log", "--namespace", jobs.namespace, "--json") as operator:
            jobs.create(job("wide", jobs.namespace, ps=2))
            status = jobs.until_phase("wide", "Running")
            assert status["mode"] == "PS"
            assert status["worker"]["running"] == 2
            written = writes_of(proxy)
            assert len(written) <= 1.2 * 4 + 4, written
            time.sleep(3)  # nothing changes, so nothing is written
            assert writes_of(proxy) == written
            finish(jobs, fake_nodes, "wide-worker-0", "wide-worker-1")
            jobs.until_phase("wide", "Completed")
            control_plane.until(lambda: not jobs.pods(), "its pods are gone")
            assert operator.metric("umiak_operator_is_leader") == 1
            assert "ok" in operator.page("/readyz")
            assert operator.end() == 0
    assert '"message": "ended"' in (tmp_path / "log").read_text()


def test_killed_before_and_after_each_write(control_plane, fake_nodes, jobs, tmp_path: Path):
    """Each write of a life is first not sent, then sent without an answer, and both times the operator is killed."""
    seen: dict[tuple[str, str], int] = {}
    lock = threading.Lock()
    with KubeProxy(control_plane) as proxy:
        config = proxy.kubeconfig(tmp_path / "config")
        operator = OperatorProcess(config, tmp_path / "log", "--namespace", jobs.namespace)
        kills = 0

        def kill(verb: str, path: str, number: int) -> str | None:
            nonlocal kills
            if verb == "GET" or "/events" in path or not operator.is_alive:
                return None if verb == "GET" or "/events" in path else "drop"
            with lock:
                seen.setdefault((verb, path), 0)
                if seen[(verb, path)] != number or kills >= 40:
                    return None
                seen[(verb, path)] += 1
                kills += 1
                assert operator.process
                operator.process.kill()
            return "drop"

        proxy.before = lambda verb, path: kill(verb, path, 0)
        proxy.after = lambda verb, path: kill(verb, path, 1)
        jobs.create(job("wide", jobs.namespace, ps=1, runPolicy={"backoffLimit": 2}))
        has_failed = False
        deadline = time.monotonic() + 400
        while jobs.status("wide").get("phase") != "Completed":
            assert time.monotonic() < deadline, f"{jobs.get('wide')} {sorted(jobs.pods())} {seen}"
            if not operator.is_alive:
                operator.start()
            if jobs.status("wide").get("phase") == "Running":
                pods = jobs.pods()
                if not has_failed:
                    has_failed = True
                    finish(jobs, fake_nodes, "wide-worker-1", exit_code=1)
                elif jobs.status("wide").get("podRestarts") or jobs.status("wide").get("attempt"):
                    running = [name for name, pod in pods.items() if pod["status"]["phase"] == "Running"]
                    finish(jobs, fake_nodes, *[name for name in running if "worker" in name])
            time.sleep(0.1)
        if operator.is_alive:
            operator.kill()
    status = jobs.status("wide")
    assert has_failed
    assert kills > 10
    assert status.get("restarts", 0) == 1, status
    assert operator.starts > 5, "two writes on their way at once are two kills of one process"


def test_watches_that_are_cut_and_versions_that_are_forgotten(control_plane, fake_nodes, jobs, tmp_path: Path):
    with KubeProxy(control_plane) as proxy:
        config = proxy.kubeconfig(tmp_path / "config")
        with operating(config, tmp_path / "log", "--namespace", jobs.namespace) as operator:
            jobs.create(job("first", jobs.namespace))
            jobs.until_phase("first", "Running")
            watches = proxy.watches
            proxy.cut_watches()
            jobs.create(job("second", jobs.namespace))
            jobs.until_phase("second", "Running")
            assert proxy.watches > watches
            proxy.forget_watches = 4
            proxy.cut_watches()
            jobs.create(job("third", jobs.namespace))
            finish(jobs, fake_nodes, "first-worker-0", "first-worker-1")
            jobs.until_phase("third", "Running")
            jobs.until_phase("first", "Completed")
            assert "umiak_operator_watch_restarts_total" in operator.page()


def test_two_operators_and_one_lease(control_plane, fake_nodes, jobs, tmp_path: Path):
    flags = ("--namespace", jobs.namespace, "--leader-elect", "--leader-elect-namespace", jobs.namespace)
    config = control_plane.kubeconfig
    with operating(config, tmp_path / "a", *flags) as first:
        first.until(lambda: first.metric("umiak_operator_is_leader") == 1, "the first one acts")
        with operating(config, tmp_path / "b", *flags) as second:
            second.until(lambda: "waiting" in second.log.read_text(), "the second one waits")
            jobs.create(job("wide", jobs.namespace))
            jobs.until_phase("wide", "Running")
            assert second.metric("umiak_operator_is_leader") == 0
            assert "acts" in second.page("/readyz")
            first.kill()
            second.until(lambda: second.metric("umiak_operator_is_leader") == 1, "the second one takes over")
            finish(jobs, fake_nodes, "wide-worker-0", "wide-worker-1")
            jobs.until_phase("wide", "Completed")
            with operating(config, tmp_path / "c", *flags) as third:
                third.until(lambda: "waiting" in third.log.read_text(), "the third one waits")
                assert second.end() == 0
                lease = f"/apis/coordination.k8s.io/v1/namespaces/{jobs.namespace}/leases/b2a304f2.paddlepaddle.org"
                third.until(lambda: third.metric("umiak_operator_is_leader") == 1, "the third one takes over")
                spec = control_plane.request("GET", lease)["spec"]
                assert spec["leaseTransitions"] >= 2


def test_a_pod_that_is_deleted_by_somebody_is_made_again(control_plane, fake_nodes, jobs, tmp_path: Path):
    with operating(control_plane.kubeconfig, tmp_path / "log", "--namespace", jobs.namespace):
        jobs.create(job("wide", jobs.namespace, ps=1))
        jobs.until_phase("wide", "Running")
        uid = jobs.pods()["wide-worker-1"]["metadata"]["uid"]
        control_plane.kubectl("delete", "pod", "wide-worker-1", "--namespace", jobs.namespace)

        def is_new() -> bool:
            pod = jobs.pods().get("wide-worker-1")
            return pod is not None and pod["metadata"]["uid"] != uid and pod["status"]["phase"] == "Running"

        control_plane.until(is_new, "another pod", 60)
        jobs.until_phase("wide", "Running")


def test_a_job_that_is_deleted_leaves_nothing(control_plane, fake_nodes, jobs, tmp_path: Path):
    with operating(control_plane.kubeconfig, tmp_path / "log", "--namespace", jobs.namespace) as operator:
        jobs.create(job("wide", jobs.namespace, intranet="Service"))
        jobs.until_phase("wide", "Running")
        control_plane.kubectl("delete", "pdj", "wide", "--namespace", jobs.namespace, "--wait=true")
        control_plane.until(lambda: not jobs.pods(), "no pods", 60)
        jobs.create(job("wide", jobs.namespace))
        jobs.until_phase("wide", "Running")
        assert operator.is_alive


def test_jobs_of_kubeflow_as_soon_as_they_are_defined(control_plane, fake_nodes, jobs, tmp_path: Path):
    uninstall(control_plane, crd.KUBEFLOW_NAME)
    flags = ("--namespace", jobs.namespace, "--kubeflow")
    with operating(control_plane.kubeconfig, tmp_path / "log", *flags) as operator:
        operator.until(lambda: "can't be read" in operator.log.read_text(), "it says that the definition is missing")
        install(control_plane, crd.kubeflow_resource())
        spec = {"containers": [{"name": "paddle", "image": "train:1"}]}
        body = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PaddleJob",
            "metadata": {"name": "flow", "namespace": jobs.namespace},
            "spec": {"paddleReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": spec}}}},
        }
        path = f"/apis/kubeflow.org/v1/namespaces/{jobs.namespace}/paddlejobs"
        control_plane.request("POST", path, body)

        def runs() -> bool:
            status = control_plane.request("GET", f"{path}/flow").get("status") or {}
            return any(each["type"] == "Running" and each["status"] == "True" for each in status.get("conditions", ()))

        control_plane.until(runs, "it runs", 100)
        assert sorted(jobs.pods()) == ["flow-worker-0", "flow-worker-1"]


def test_the_rights_of_the_manifest_are_enough(control_plane, fake_nodes, jobs, tmp_path: Path):
    """Everything that the operator does in a life, as the service account of `umiak deploy`; nothing is refused."""
    printed = subprocess.run(
        [sys.executable, "-m", "umiak", "deploy", "--json"], capture_output=True, text=True, check=True
    ).stdout
    wanted = [each for each in json.loads(printed)["items"] if each["kind"] != "Deployment"]
    control_plane.apply(*wanted)
    config = control_plane.account_kubeconfig("paddle-system", "paddle-manager-sa")
    flags = ("--leader-elect", "--leader-elect-namespace", "paddle-system")
    old = job("old", jobs.namespace, workers=1)
    old["metadata"]["finalizers"] = ["finalizers.paddlepaddle.org"]
    try:
        with operating(config, tmp_path / "log", *flags) as operator:
            kept = {"ttlSecondsAfterFinished": 1, "backoffLimit": 1}
            jobs.create(old, job("wide", jobs.namespace, ps=1, runPolicy=kept, intranet="Service"))
            jobs.until_phase("wide", "Running")
            finish(jobs, fake_nodes, "wide-worker-1", exit_code=1)
            operator.until(lambda: jobs.status("wide").get("restarts") == 1, "a restart")
            jobs.until_phase("wide", "Running")
            finish(jobs, fake_nodes, "wide-worker-0", "wide-worker-1")
            path = f"/apis/batch.paddlepaddle.org/v1/namespaces/{jobs.namespace}/paddlejobs"
            operator.until(
                lambda: [each["metadata"]["name"] for each in control_plane.request("GET", path)["items"]] == ["old"],
                "the job is deleted after its time to live",
            )
            assert not jobs.get("old")["metadata"].get("finalizers")
            events = control_plane.request("GET", f"/api/v1/namespaces/{jobs.namespace}/events")["items"]
            assert {"Created", "Restarting"} <= {each["reason"] for each in events}
            refused = [
                line for line in (tmp_path / "log").read_text().splitlines() if "Forbidden" in line
            ]  # not 403, which an identity may have as well
            # Namespaces of earlier tests may still end, and nobody can create anything in those.
            assert [line for line in refused if "being terminated" not in line] == []
            assert operator.end() == 0
    finally:
        control_plane.request("DELETE", "/api/v1/namespaces/paddle-system")
