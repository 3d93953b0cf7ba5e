"""The operator on a real cluster with two nodes: jobs that people create with `kubectl` train to the right result."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.kubernetes.cluster import Cluster
from tests.support import launching
from tests.support.cluster_jobs import EXAMPLES, ClusterJobs, paddle_job, template
from tests.support.workers import pod_model

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.paddle,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("kubernetes"),
]

MLP = str(EXAMPLES / "04-collective-mlp" / "train.py")
CLICKS = str(EXAMPLES / "03-parameter-server" / "train.py")


STEPS = str(launching.WORKERS / "pod_steps.py")
INTRANETS = ("PodIP", "Service", "Host")
POD_CLICKS = str(launching.WORKERS / "pod_clicks.py")
UNDISTURBED_AUC = 0.826937
"""What the model of `pod_clicks` reaches with two trainers and two servers that nobody disturbs."""


@pytest.fixture(scope="module")
def operated(kube_cluster: Cluster) -> Cluster:
    """The cluster with the operator in a pod, as `umiak deploy` prints it."""
    kube_cluster.deploy_operator()
    return kube_cluster


@pytest.fixture
def jobs(operated: Cluster, cluster_namespace: str) -> ClusterJobs:
    return ClusterJobs(operated, cluster_namespace)


def test_a_collective_model_trains_in_two_pods(jobs: ClusterJobs) -> None:
    command = ("umiak", "launch", MLP, "--epochs", "3", "--samples", "1920", "--batch", "64")
    name = jobs.create(paddle_job("mlp", roles={"worker": (2, template(*command))}, cleanPodPolicy="Never"))
    jobs.until_end(name)
    told = [jobs.logs(f"mlp-worker-{rank}") for rank in range(2)]
    for rank in range(2):
        assert f"worker {rank} of 2: read 2880 of 5760 samples" in told[rank]
    assert accuracy(told[0]) > 0.8


@pytest.fixture(scope="module")
def clicks(operated: Cluster) -> Iterator[dict[str, ClusterJobs]]:
    """A job for each intranet, in namespaces of their own. All at once: most of the time a kubelet waits before it tries again."""
    pod = template("umiak", "launch", CLICKS, "--samples", "40000", "--batch", "256")
    roles = {"ps": (2, pod), "worker": (2, pod)}
    made = {}
    for intranet in INTRANETS:
        made[intranet] = ClusterJobs(operated, operated.namespace(f"clicks-{intranet.lower()}"))
        made[intranet].create(paddle_job("clicks", roles=roles, intranet=intranet, cleanPodPolicy="Never"))
    yield made
    for each in made.values():
        operated.request("DELETE", f"/api/v1/namespaces/{each.namespace}")


@pytest.mark.parametrize("intranet", INTRANETS)
def test_a_click_through_model_trains_with_parameter_servers(clicks: dict[str, ClusterJobs], intranet: str) -> None:
    jobs = clicks[intranet]
    status = jobs.until_end("clicks")
    assert status["worker"]["succeeded"] == 2
    told = jobs.logs("clicks-worker-0")
    assert "trained by 2 with async" in told
    assert auc(told) > 0.7
    # Servers do not stay behind: they have ended by themselves, or were deleted.
    jobs.until(lambda: not running(jobs), "no pod runs any more")


def test_an_elastic_job_is_scaled_in_the_middle_of_training(jobs: ClusterJobs, tmp_path: Path) -> None:
    words = ("umiak", "launch", "--elastic_timeout", "5", "--grace", "2", STEPS, str(tmp_path), "2", "3", "1")
    manifest = paddle_job("steps", roles={"worker": (2, template(*words, shared=tmp_path))}, elastic=1)
    manifest["spec"]["worker"] |= {"requests": 1, "limits": 3}
    jobs.create(manifest)
    jobs.until(lambda: len(steps_done(tmp_path)) == 10, "two have done their part")
    jobs.kubectl("scale", "pdj/steps", "--replicas=3")
    jobs.until(lambda: len(steps_done(tmp_path)) == 20, "three have done their part")
    jobs.kubectl("scale", "pdj/steps", "--replicas=1")
    status = jobs.until_end("steps")
    assert steps_done(tmp_path) == [2] * 10 + [3] * 10 + [1] * 10
    assert status.get("restarts", 0) == 0
    right_weights(tmp_path, 30)


def test_a_collective_job_whose_worker_is_deleted_goes_on_from_its_checkpoint(
    jobs: ClusterJobs, tmp_path: Path
) -> None:
    begin_steps(jobs, tmp_path)
    jobs.kubectl("delete", "pod", "steps-worker-1")
    (tmp_path / "hold").unlink()
    jobs.until_end("steps")
    assert steps_done(tmp_path) == [2] * 10
    right_weights(tmp_path, 10)


def test_a_job_that_loses_a_node_goes_on_at_another_one(jobs: ClusterJobs, tmp_path: Path) -> None:
    begin_steps(jobs, tmp_path)
    node = jobs.pods()["steps-worker-1"]["spec"]["nodeName"]
    jobs.cluster.lose_node(node)
    try:
        (tmp_path / "hold").unlink()
        status = jobs.until_end("steps")
    finally:
        jobs.cluster.return_node(node)
    assert steps_done(tmp_path) == [2] * 10
    right_weights(tmp_path, 10)
    assert status["attempt"] >= 1
    assert status.get("restarts", 0) == 0, "a lost node is not the job's fault"


@pytest.mark.parametrize("role", ["worker", "ps"])
def test_a_deleted_pod_of_a_job_with_servers_changes_nothing_in_the_result(
    jobs: ClusterJobs, tmp_path: Path, role: str
) -> None:
    (tmp_path / "hold").touch()
    # Without launchers, which would end the whole job when one of them is told to stop.
    pod = template("python", POD_CLICKS, str(tmp_path), shared=tmp_path)
    jobs.create(
        paddle_job("clicks", roles={"ps": (2, pod), "worker": (2, pod)}, intranet="Service", cleanPodPolicy="Never")
    )
    jobs.until_logged("clicks-worker-0", "is at step 40")
    jobs.kubectl("delete", "pod", f"clicks-{role}-1")
    (tmp_path / "hold").unlink()
    told = jobs.until_logged("clicks-worker-0", "after 100 steps")
    # A lost trainer goes on where the servers are; with a lost server everybody goes on from the checkpoint.
    assert auc(told) == pytest.approx(UNDISTURBED_AUC, abs=2e-6)
    assert f"begins at step {40 if role == 'worker' else 20}" in jobs.logs("clicks-worker-1")
    status = jobs.until_end("clicks")
    assert status["worker"]["succeeded"] == 2


def test_a_job_with_servers_that_loses_a_node_has_the_same_result(jobs: ClusterJobs, tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    roles = {
        role: (
            2,
            template("python", POD_CLICKS, str(tmp_path), shared=tmp_path, topologySpreadConstraints=spread(role)),
        )
        for role in ("ps", "worker")
    }
    jobs.create(paddle_job("clicks", roles=roles, intranet="Service", cleanPodPolicy="Never"))
    jobs.until_logged("clicks-worker-0", "is at step 40")
    nodes = {name: pod["spec"]["nodeName"] for name, pod in jobs.pods().items()}
    both = {nodes[f"clicks-ps-{index}"] for index in range(2)} & {nodes[f"clicks-worker-{index}"] for index in range(2)}
    assert both, nodes
    lost = nodes["clicks-ps-1"] if nodes["clicks-ps-1"] in both else both.pop()
    jobs.cluster.lose_node(lost)
    try:
        (tmp_path / "hold").unlink()
        told = jobs.until_logged("clicks-worker-0", "after 100 steps")
        status = jobs.until_end("clicks")
    finally:
        jobs.cluster.return_node(lost)
    assert auc(told) == pytest.approx(UNDISTURBED_AUC, abs=2e-6)
    assert "begins at step 20" in told
    assert status["worker"]["succeeded"] == 2
    assert status["attempt"] >= 1
    assert status.get("restarts", 0) == 0, "a lost node is not the job's fault"


def test_a_failed_job_says_why_after_its_pods_are_gone(jobs: ClusterJobs) -> None:
    script = "import sys; print('the data is not there'); sys.exit(3)"
    pod = template("python", "-c", script)
    jobs.create(paddle_job("fails", roles={"worker": (2, pod)}, cleanPodPolicy="Always", runPolicy={"backoffLimit": 0}))
    status = jobs.until_end("fails", "Failed")
    jobs.until(lambda: not jobs.pods(), "its pods are gone")
    assert "the data is not there" in "".join(jobs.status("fails")["lastLogs"].values())
    assert "exit code 3" in status["message"]
    listed = jobs.kubectl("get", "pdj", "-o", "wide")
    assert re.search(r"fails +Failed +Collective .*exit code 3", listed), listed
    events = jobs.kubectl("describe", "pdj", "fails")
    assert re.search(r"Warning +\w*Failed\w* .*exit code 3", events), events


def test_kubectl_shows_progress_and_doubtful_words(jobs: ClusterJobs, tmp_path: Path) -> None:
    script = "import os, sys, time; print('progress {\"percent\": 42, \"loss\": 0.25}', flush=True)\nwhile not os.path.exists(sys.argv[1] + '/go'): time.sleep(0.1)"
    pod = template("python", "-c", script, str(tmp_path), shared=tmp_path)
    manifest = paddle_job("says", roles={"worker": (2, pod)}, cleanPodPolicy="OnFailed")
    manifest["metadata"]["annotations"] = {"batch.paddlepaddle.org/progress": "log"}
    jobs.create(manifest)
    jobs.until(lambda: jobs.status("says").get("progress"), "its progress is in the status")
    assert jobs.status("says")["progress"] == {"percent": "42", "loss": "0.25"}
    assert re.search(r"says +Running +Collective .* 2/2 .* 42 ", jobs.kubectl("get", "pdj", "-o", "wide"))
    (tmp_path / "go").touch()
    jobs.until_end("says")
    assert re.search(r"says +Completed +Collective .* 2/2 .* 100 ", jobs.kubectl("get", "pdj", "-o", "wide"))
    assert re.search(r"Warning +SpecWarnings .*OnFailed", jobs.kubectl("describe", "pdj", "says"))


def spread(role: str) -> list[dict[str, Any]]:
    """Pods of a role are put on different nodes, as far as there are any."""
    wanted = {"matchLabels": {"paddle-res-type": role}}
    place = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    return [{**place, "labelSelector": wanted}]


def begin_steps(jobs: ClusterJobs, directory: Path) -> None:
    """A collective job that waits in the middle of its training."""
    (directory / "hold").touch()
    pod = template("umiak", "launch", STEPS, str(directory), "2", shared=directory)
    jobs.create(paddle_job("steps", roles={"worker": (2, pod)}, cleanPodPolicy="Never"))
    jobs.until((directory / "waits").exists, "it is at step 5")


def steps_done(directory: Path) -> list[int]:
    """How many workers did each step."""
    saved = directory / "saved.json"
    found: list[int] = json.loads(saved.read_text())["worlds"] if saved.exists() else []
    return found


def right_weights(directory: Path, steps: int) -> None:
    """What was learned is what one process learns."""
    weights = json.loads((directory / "saved.json").read_text())["weights"]
    np.testing.assert_allclose(weights, pod_model.weights_after(steps), rtol=1e-9)


def running(jobs: ClusterJobs) -> list[str]:
    return [name for name, pod in jobs.pods().items() if pod["status"]["phase"] not in ("Succeeded", "Failed")]


def auc(told: str) -> float:
    return float(re.findall(r"auc ([\d.]+)", told)[-1])


def accuracy(told: str) -> float:
    return float(re.findall(r"accuracy ([\d.]+)", told)[-1])
