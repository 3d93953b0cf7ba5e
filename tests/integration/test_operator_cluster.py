"""The operator on a real cluster with two nodes: jobs that people create with `kubectl` train to the right result."""

from __future__ import annotations

import re

import pytest

from tests.integration.cluster_jobs import EXAMPLES, ClusterJobs, paddle_job, template

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.paddle,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("kubernetes"),
]

MLP = str(EXAMPLES / "04-collective-mlp" / "train.py")
CLICKS = str(EXAMPLES / "03-parameter-server" / "train.py")


@pytest.fixture(scope="module")
def operated(kube_cluster):
    """The cluster with the operator in a pod, as `umiak deploy` prints it."""
    kube_cluster.deploy_operator()
    return kube_cluster


@pytest.fixture
def jobs(operated, cluster_namespace) -> ClusterJobs:
    return ClusterJobs(operated, cluster_namespace)


def test_a_collective_model_trains_in_two_pods(jobs: ClusterJobs) -> None:
    command = ("umiak", "launch", MLP, "--epochs", "3", "--samples", "1920", "--batch", "64")
    name = jobs.create(paddle_job("mlp", roles={"worker": (2, template(*command))}, cleanPodPolicy="Never"))
    jobs.until_end(name)
    told = [jobs.logs(f"mlp-worker-{rank}") for rank in range(2)]
    for rank in range(2):
        assert f"worker {rank} of 2: read 2880 of 5760 samples" in told[rank]
    assert accuracy(told[0]) > 0.8


@pytest.mark.parametrize("intranet", ["PodIP", "Service", "Host"])
def test_a_click_through_model_trains_with_parameter_servers(jobs: ClusterJobs, intranet: str) -> None:
    pod = template("umiak", "launch", CLICKS, "--samples", "40000", "--batch", "256")
    roles = {"ps": (2, pod), "worker": (2, pod)}
    manifest = paddle_job("clicks", roles=roles, intranet=intranet, cleanPodPolicy="Never")
    jobs.create(manifest)
    status = jobs.until_end("clicks")
    assert status["worker"]["succeeded"] == 2
    told = jobs.logs("clicks-worker-0")
    assert "trained by 2 with async" in told
    assert auc(told) > 0.7
    # Servers do not stay behind: they have ended by themselves, or were deleted.
    jobs.until(lambda: not running(jobs), "no pod runs any more")


def running(jobs: ClusterJobs) -> list[str]:
    return [name for name, pod in jobs.pods().items() if pod["status"]["phase"] not in ("Succeeded", "Failed")]


def auc(told: str) -> float:
    return float(re.findall(r"auc ([\d.]+)", told)[-1])


def accuracy(told: str) -> float:
    return float(re.findall(r"accuracy ([\d.]+)", told)[-1])
