"""`umiak submit --on` and `umiak train --on` a real cluster: as a PaddleJob with the operator, and as Indexed Jobs without one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from testbed.kubernetes.cluster import Cluster
from tests.support import eventually, reaching, submitting
from tests.support.cluster_jobs import EXAMPLES
from tests.support.paddlecloud_story import DATA, DNN
from tests.support.train_helpers import PS_CLUSTER

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.paddle,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("kubernetes"),
]
PS: dict[str, int | str] = {"server": 2, "trainer": 2}
KINDS = ("paddlejob", "job")


class ClusterDesk(submitting.Desk):
    """A person with a project, and a kubeconfig for a namespace of the cluster."""

    patience_s = 400

    def __init__(self, directory: Path, cluster: Cluster, namespace: str) -> None:
        super().__init__(directory)
        self.cluster, self.namespace = cluster, namespace
        self.environ |= {"KUBECONFIG": str(cluster.kubeconfig)}

    def place(self, kind: str) -> None:
        (self.directory / "umiak.toml").write_text(
            f'[place.k8s]\nbackend = "kubernetes"\nnamespace = "{self.namespace}"\nkind = "{kind}"\n'
            'image = "registry.example/training:v1"\npython = "python"\n'
        )

    def submit_job(self, command: str, roles: Mapping[str, int | str]) -> str:
        """A handle; files of the project are sent along."""
        job = {
            "name": "clicks",
            "command": command,
            "files": ".",
            "env": {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
            "roles": {role: {"nodes": nodes} for role, nodes in roles.items()},
        }
        (self.directory / "job.yaml").write_text(json.dumps(job))
        return self.submit("job.yaml", "--on", "k8s")

    def left_pods(self) -> list[str]:
        items = self.cluster.request("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return [
            each["metadata"]["name"] for each in items if each["status"].get("phase") not in ("Succeeded", "Failed")
        ]


@pytest.fixture(scope="module")
def operated(kube_cluster: Cluster) -> Cluster:
    kube_cluster.deploy_operator()
    return kube_cluster


@pytest.fixture
def desk(tmp_path: Path, operated: Cluster, cluster_namespace: str) -> Iterator[ClusterDesk]:
    made = ClusterDesk(tmp_path, operated, cluster_namespace)
    for name in ("train.py", "data.py"):
        shutil.copy(EXAMPLES / "03-parameter-server" / name, made.directory)
    yield made
    made.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_click_through_model_is_submitted_followed_and_waited_for(desk: ClusterDesk, kind: str) -> None:
    desk.place(kind)
    handle = desk.submit_job("train.py --samples 20000 --batch 256", PS)
    assert handle.startswith("kubernetes://k8s/")
    followed = desk.umiak("logs", "-f", handle)
    assert "trained by 2 with async" in followed, followed
    desk.umiak("wait", handle)
    status = desk.status(handle)
    assert (status["state"], status["exit_code"]) == ("succeeded", 0)
    eventually(lambda: not desk.left_pods(), within_s=300)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_job_leaves_no_pod(desk: ClusterDesk, kind: str) -> None:
    desk.place(kind)
    handle = desk.submit_job("train.py --samples 1000000000", PS)
    eventually(lambda: desk.status(handle)["state"] == "running", within_s=300)
    desk.umiak("cancel", handle)
    assert desk.status(handle)["state"] == "cancelled"
    eventually(lambda: not desk.left_pods(), within_s=300)


@pytest.mark.parametrize("kind", KINDS)
def test_the_exit_code_of_a_failed_job_is_that_of_its_script(desk: ClusterDesk, kind: str) -> None:
    desk.place(kind)
    (desk.directory / "fails.py").write_text("import sys\nprint('nothing to learn from', flush=True)\nsys.exit(7)\n")
    handle = desk.submit_job("fails.py", {"trainer": 2})
    desk.umiak("wait", handle, status=7)
    assert "nothing to learn from" in desk.umiak("logs", handle)


@pytest.mark.parametrize("kind", KINDS)
def test_commands_run_in_pods_and_their_files_come_here(desk: ClusterDesk, kind: str) -> None:
    desk.place(kind)
    script = (
        "import os, pathlib, time\n"
        "pathlib.Path('out').mkdir(exist_ok=True)\n"
        "pathlib.Path('out', 'model.' + os.environ['UMIAK_RANK']).write_bytes(b'weights' * 100_000)\n"
        "print('ready', os.environ['UMIAK_RANK'], flush=True)\n"
        "while True: time.sleep(1)\n"
    )
    (desk.directory / "waits.py").write_text(script)
    handle = desk.submit_job("waits.py", {"trainer": 2})
    eventually(lambda: {"ready 0", "ready 1"} <= _ends(desk.umiak("logs", handle)), within_s=300)
    reaching.tells_what_a_worker_sees(desk, handle, 1)
    reaching.passes_bytes_on(desk, handle)
    reaching.ends_with_its_client(desk, handle, reaching.processes_with)
    reaching.has_a_shell(desk, handle, "--rank", "0")
    assert "log/workerlog.0" in desk.umiak("fetch", handle, "--list", "log")
    reaching.fetched(desk, handle, "--to", "here", "out")
    found = reaching.files_below(desk.directory / "here")
    models = {Path(path).name: content for path, content in found.items()}
    assert models == {f"model.{rank}": b"weights" * 100_000 for rank in range(2)}
    assert desk.status(handle)["state"] == "running"
    desk.umiak("cancel", handle)


def _ends(lines: str) -> set[str]:
    """Lines without the mark of their worker."""
    return {line.rpartition("] ")[2] for line in lines.splitlines()}


def test_an_elastic_job_needs_no_etcd(desk: ClusterDesk) -> None:
    """Launchers of a PaddleJob meet at the first worker, which the operator names."""
    desk.place("paddlejob")
    script = "import os\nprint('one of', os.environ['PADDLE_TRAINERS_NUM'], flush=True)\n"
    (desk.directory / "counts.py").write_text(script)
    handle = desk.submit_job("counts.py", {"trainer": "2:3"})
    desk.umiak("wait", handle)
    told = desk.umiak("logs", handle)
    assert "one of 2" in told or "one of 3" in told, told


def test_a_config_trains_with_servers_in_the_cluster(desk: ClusterDesk) -> None:
    desk.place("paddlejob")
    kept = desk.directory.parent / "kept"  # checkpoints need storage that all pods see
    kept.mkdir()
    with (desk.directory / "umiak.toml").open("a") as file:
        file.write(f'[place.k8s.volumes.kept]\nhost_path = "{kept}"\nmount = "/kept"\n')
    (desk.directory / "config.yaml").write_text(PS_CLUSTER)
    shutil.copy(DNN / "model.py", desk.directory)
    (desk.directory / "train_data").mkdir()
    for path in DATA:
        shutil.copy(path, desk.directory / "train_data")
    words = ("train", "-m", "config.yaml", "--on", "k8s", "--nnodes", "2", "-o", "runner.epochs=1")
    words += ("-o", "runner.save_checkpoint_path=/kept/increment_dnn")
    handle = desk.umiak(*words).strip()
    followed = desk.umiak("logs", "-f", handle)
    assert "epoch 1/1 done  100 samples" in followed, followed
    desk.umiak("wait", handle)
    assert (kept / "increment_dnn" / "0").is_dir()
