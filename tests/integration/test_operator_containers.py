"""Pods with more than one container, and Paddle's own launcher, in a real cluster: the training decides, and forms one job."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.kubernetes.cluster import Cluster
from tests.support.cluster_jobs import ClusterJobs, paddle_job, template

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.paddle,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("kubernetes"),
]
IMAGE = "registry.example/training:v1"
SIDECAR = {"name": "a-sidecar", "image": IMAGE, "command": ["python", "-c", "import time; time.sleep(3600)"]}
ALONE = """
import os, socket
print("workers:", os.environ.get("PADDLE_TRAINERS_NUM"), "rank:", os.environ.get("PADDLE_TRAINER_ID"), flush=True)
"""


@pytest.fixture(scope="module")
def jobs(kube_cluster: Cluster) -> ClusterJobs:
    """All jobs of this file begin at once: most of the time a kubelet waits before it tries again."""
    kube_cluster.deploy_operator()
    made = ClusterJobs(kube_cluster, kube_cluster.namespace("containers"))
    for name, (pod, fields) in JOBS.items():
        made.create(paddle_job(name, roles={"worker": (2, pod)}, intranet="Service", **fields))
    return made


def pod(code: int = 0, *, sidecars: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    found = template("python", "-c", f"import sys; print('trained', flush=True); sys.exit({code})", **spec)
    found["spec"]["containers"] = [*sidecars, *found["spec"]["containers"]]
    return found


def init(code: int) -> dict[str, Any]:
    script = f"import sys; print('the data is not there', flush=True); sys.exit({code})"
    return {"name": "fetch", "image": IMAGE, "command": ["python", "-c", script]}


RULES = [
    {"action": "Restart", "onExitCodes": {"values": [42]}, "onReasons": ["OOMKilled"]},
    {"action": "Fail", "roles": ["worker"], "onExitCodes": {"operator": "In", "values": [42]}},
]
NO_IMAGE = template("python")
NO_IMAGE["spec"]["containers"][0]["image"] = "registry.example/missing:v1"
NO_RESTART = {"runPolicy": {"backoffLimit": 0}}
STOCK = template("python", "-m", "paddle.distributed.launch", "--log_dir", "/tmp/log", "/tmp/train.py")
STOCK["spec"]["containers"][0]["command"] = [
    *("sh", "-c"),
    f"cat > /tmp/train.py <<'END'\n{ALONE}END\npython -m paddle.distributed.launch --log_dir /tmp/log /tmp/train.py",
]
JOBS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ordinary": (pod(sidecars=(SIDECAR,), restartPolicy="Never"), {"cleanPodPolicy": "Never"}),
    "native": (pod(initContainers=[{**SIDECAR, "restartPolicy": "Always"}]), {"cleanPodPolicy": "OnCompletion"}),
    "fails": (pod(7, sidecars=(SIDECAR,), restartPolicy="Never"), NO_RESTART),
    "init": (pod(initContainers=[init(4)], restartPolicy="Never"), NO_RESTART),
    "ruled": (pod(42), {"runPolicy": {"failurePolicy": {"rules": RULES}}}),
    "image": (NO_IMAGE, {"runPolicy": {"imagePullTimeoutSeconds": 1}}),
    "pending": (pod(nodeSelector={"no-such": "node"}), {"runPolicy": {"pendingTimeoutSeconds": 20}}),
    "always": (pod(restartPolicy="Always"), {"cleanPodPolicy": "Never"}),
    "stock": (STOCK, {"elastic": 1, "cleanPodPolicy": "Never"}),
}


def test_a_job_ends_with_its_training_and_stops_its_sidecars(jobs: ClusterJobs) -> None:
    status = jobs.until_end("ordinary")
    assert status["worker"]["succeeded"] == 2
    names = ("ordinary-worker-0", "ordinary-worker-1")
    jobs.until(
        lambda: all(jobs.pods()[name]["status"]["phase"] in ("Succeeded", "Failed") for name in names),
        "its pods are still there, and nothing runs in them",
    )
    assert "trained" in jobs.logs("ordinary-worker-0"), "kubectl prints the log of the training"


def test_a_native_sidecar_ends_with_its_pod(jobs: ClusterJobs) -> None:
    assert jobs.until_end("native")["worker"]["succeeded"] == 2


def test_a_training_that_fails_beside_a_sidecar_has_failed(jobs: ClusterJobs) -> None:
    status = jobs.until_end("fails", "Failed")
    assert "exit code 7" in status["message"]
    assert "trained" in "".join(jobs.status("fails")["lastLogs"].values())


def test_an_init_container_that_fails_is_told_with_its_log(jobs: ClusterJobs) -> None:
    status = jobs.until_end("init", "Failed")
    assert "exit code 4" in status["message"]
    assert "init container fetch" in status["message"]
    jobs.until(lambda: jobs.status("init").get("lastLogs"), "its log is kept")
    assert "the data is not there" in "".join(jobs.status("init")["lastLogs"].values())


def test_a_rule_ends_a_job_at_the_first_failure(jobs: ClusterJobs) -> None:
    status = jobs.until_end("ruled", "Failed")
    assert "exit code 42" in status["message"]
    assert "failurePolicy.rules[1] says Fail" in status["message"]
    assert status.get("restarts", 0) == 0


def test_pods_that_can_not_start_fail_their_jobs_in_time(jobs: ClusterJobs) -> None:
    image = jobs.until_end("image", "Failed")["message"]
    assert "could not get its image registry.example/missing:v1 within 1 s (imagePullTimeoutSeconds)" in image
    pending = jobs.until_end("pending", "Failed")["message"]
    assert "pending-worker-0" in pending
    assert "Unschedulable" in pending
    assert "node" in pending.partition("Unschedulable")[2], "what the scheduler says"


def test_a_training_that_has_ended_well_is_not_begun_again(jobs: ClusterJobs) -> None:
    jobs.until_end("always")
    rows = [each["status"]["containerStatuses"][0] for name, each in jobs.pods().items() if name.startswith("always")]
    assert [row["restartCount"] for row in rows] == [0, 0]


def test_elastic_pods_with_paddles_own_launcher_form_one_job(jobs: ClusterJobs) -> None:
    jobs.until_end("stock")
    told = "".join(jobs.logs(f"stock-worker-{number}") for number in range(2))
    assert "workers: 2 rank: 0" in told, told
    assert "workers: 2 rank: 1" in told, told
