"""Jobs in a Kubernetes cluster whose pods run as processes here."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration import test_submit_kubernetes as first
from tests.integration.test_submit_kubernetes import PASSWORD, Bench
from tests.support import eventually
from tests.support.kube_cluster import Cluster, Kubelet, templates
from tests.support.kube_store import now
from umiak.submit.backends.kubernetes import backend

bench = first.bench
server = first.server


# ---- pods that run


def operator(cluster: Cluster) -> Callable[[Mapping[str, Any]], dict[str, str]]:
    """The environment that the operator of PaddleJobs gives, in PodIP mode. Pods share one machine here, so each has ports of its own."""
    base = 20000 + os.getpid() % 100 * 100

    def environment(pod: Mapping[str, Any]) -> dict[str, str]:
        (job,) = cluster.all("paddlejobs")
        names = [(role, name(index)) for role, _, count, name in templates(job) for index in range(count)]
        address = {name: f"127.0.{100 + number}.1" for number, (_, name) in enumerate(names)}
        port = {name: base + 20 * number for number, (_, name) in enumerate(names)}
        lists = {
            role: [f"{address[name]}:{port[name]}" for each, name in names if each == role] for role in ("ps", "worker")
        }
        own = pod["metadata"]["name"]
        role = "PSERVER" if "-ps-" in own else "TRAINER"
        found = {
            "POD_IP": address[own],
            "PADDLE_TRAINER_ID": own.rpartition("-")[2],
            "TRAINING_ROLE": role,
            "PADDLE_TRAINING_ROLE": role,
            "TRAINER_PORTS_NUM": "20",
            "PADDLE_PORT": str(port[own]),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(lists["worker"]),
            "PADDLE_TRAINERS": ",".join(address[name] for role, name in names if role == "worker"),
            "PADDLE_TRAINERS_NUM": str(len(lists["worker"])),
        }
        if lists["ps"]:
            found["PADDLE_PSERVERS_IP_PORT_LIST"] = ",".join(lists["ps"])
        return found

    return environment


@pytest.fixture
def kubelet(bench: Bench, tmp_path: Path) -> Iterator[Kubelet]:
    made = Kubelet(bench.cluster, tmp_path / "pods", operator(bench.cluster))
    yield made
    made.close()


JOB = """
name: ctr
command: train.py {code}
files: .
env: {{GREETING: hello}}
secrets: DB_PASSWORD
roles:
  server: {{nodes: 1}}
  trainer: {{nodes: 2}}
"""


@pytest.mark.parametrize("code", [0, 7])
def test_a_parameter_server_job_runs_in_pods(bench: Bench, kubelet: Kubelet, code: int) -> None:
    """From the command line, through the API, to pods that start the launcher out of a ConfigMap; and the exit code home."""
    bench.place("paddlejob")
    (bench.directory / "job.yaml").write_text(JOB.format(code=code))
    handle = bench.umiak("submit", "job.yaml", "--on", "prod").strip()
    kubelet.start()
    names = list(kubelet.processes)
    eventually(lambda: all(bench.cluster.is_pod_over(name) for name in names))
    bench.cluster.set_status("paddlejobs", {"phase": "Failed" if code else "Completed"})
    lines = bench.umiak("logs", handle)
    assert "[trainer.1] trainer 1 of 2 hello" in lines
    if code == 0:  # else the others may be ended before they have said anything
        assert "[trainer.0] trainer 0 of 2 hello" in lines
        assert "[server.0] server 0 of" in lines
    bench.umiak("wait", handle, status=code)
    status = json.loads(bench.umiak("status", handle, "--json"))
    assert status["state"] == ("failed" if code else "succeeded")
    assert len(status["nodes"]) == 3
    assert handle in bench.umiak("list")
    for name in names:
        assert kubelet.environs[name]["DB_PASSWORD"] == PASSWORD
        assert PASSWORD not in json.dumps(bench.cluster.logs.get(name))


@pytest.mark.netns
@pytest.mark.parametrize("kind", ["job", "jobset"])
def test_pods_find_one_another_by_their_names(bench: Bench, kubelet: Kubelet, tmp_path: Path, kind: str) -> None:
    """Indexed Jobs and JobSets tell a pod its number alone: launchers meet by the names that the Service gives."""
    bench.place(kind)
    (bench.directory / "job.yaml").write_text(
        "name: ctr\ncommand: train.py 0\nfiles: .\nenv: {GREETING: hello}\nnodes: 2\nworkers: 2\n"
    )
    handle = bench.umiak("submit", "job.yaml", "--on", "prod").strip()
    run = handle.rpartition("/")[2]
    names = "".join(f"127.0.50.{index + 1} {run}-worker-0-{index}.{run}\n" for index in range(2))
    (tmp_path / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
    script = 'ip link set lo up && mount --bind "$0" /etc/hosts && echo ready && exec sleep 1000'
    words = ["unshare", "-n", "-m", "sh", "-c", script, str(tmp_path / "hosts")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
            kubelet.entry = ["nsenter", "-t", str(holder.pid), "-n", "-m", "--"]
            kubelet.environment = lambda pod: {
                "JOB_COMPLETION_INDEX": pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
            }
            kubelet.start()
            pods = list(kubelet.processes)
            eventually(lambda: all(bench.cluster.is_pod_over(pod) for pod in pods))
        finally:
            holder.kill()
    done = {"type": "Complete" if kind == "job" else "Completed", "status": "True", "lastTransitionTime": now()}
    bench.cluster.set_status("jobs" if kind == "job" else "jobsets", {"conditions": [done]})
    lines = bench.umiak("logs", handle)
    for rank in range(4):
        assert f"[trainer.{rank}] trainer {rank} of 4 hello" in lines
        assert bench.umiak("logs", handle, "--rank", str(rank)).splitlines() == [f"trainer {rank} of 4 hello"]
    bench.umiak("wait", handle)


def test_cancelling_ends_real_pods(bench: Bench, kubelet: Kubelet) -> None:
    bench.place("paddlejob")
    (bench.directory / "job.yaml").write_text(JOB.format(code="0 wait"))
    handle = bench.umiak("submit", "job.yaml", "--on", "prod").strip()
    kubelet.start()
    eventually(lambda: sum("hello" in line for log in [*bench.cluster.logs.values()] for _, line in [*log]) == 3)
    bench.umiak("cancel", handle)
    assert all(process.poll() is not None for process in kubelet.processes.values())
    assert json.loads(bench.umiak("status", handle, "--json"))["state"] == "cancelled"


def test_a_dry_run_asks_nobody(bench: Bench) -> None:
    """With the kind and the namespace in the place, no cluster needs to be reached, and no kubeconfig to be there."""
    bench.place("job", namespace='"training"')
    bench.config.unlink()
    text = bench.umiak("submit", "--on", "prod", "--nnodes", "2", "--dry_run", "--", "train.py")
    assert "POST /apis/batch/v1/namespaces/training/jobs" in text
    assert "completions: 2" in text
    assert bench.server.requests == []
    assert backend.NAME == "kubernetes"
