"""Paddle's own launcher with the variables that the operator gives to pods: they form one job, of the right size.

Without them each pod would train alone, and say nothing about it. Two processes of this machine stand for two pods; names of pods are
replaced by their address, as the cluster's DNS does it.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import PATIENCE_S
from tests.support.operator_cluster import OperatorCluster, manifest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="Paddle is not installed")

SCRIPT = """
import os, sys
said = [os.environ.get(name) for name in ("PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID", "TRAINING_ROLE")]
open(sys.argv[1] + "." + str(os.getpid()), "w").write(" ".join(map(str, said)))
"""
LAUNCH = (sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node", "1", "--log_dir")


def kubeflow() -> dict[str, Any]:
    worker = {"replicas": 2, "template": {"spec": {"containers": [{"name": "paddle", "image": "demo"}]}}}
    body = manifest("flow")
    return {**body, "apiVersion": "kubeflow.org/v1", "spec": {"paddleReplicaSpecs": {"Worker": worker}}}


def elastic() -> dict[str, Any]:
    body = manifest("wide", worker=2, elastic=1)
    body["spec"]["worker"] |= {"requests": 1, "limits": 4}
    return body


def told(cluster: OperatorCluster, name: str, first: str, address: str) -> dict[str, str]:
    """The variables of a pod, with the address of this machine for its own, and for the name of the first pod."""
    own = {each["ip"] for pod in cluster.pods() for each in cluster.pod(pod)["status"]["podIPs"]}
    found = cluster.environment(name)
    for word in (*own, first):
        found = {key: text.replace(word, address) for key, text in found.items()}
    return found


@pytest.mark.parametrize("body", [kubeflow(), elastic()], ids=["kubeflow, collective", "elastic without etcd"])
def test_two_pods_form_one_job(body: dict[str, Any], tmp_path: Path) -> None:
    cluster = OperatorCluster(body)
    cluster.settle()
    names = cluster.pods()
    address = socket.gethostbyname(socket.getfqdn(socket.gethostname()))
    (tmp_path / "train.py").write_text(SCRIPT)
    clean = {key: text for key, text in os.environ.items() if not key.startswith(("PADDLE", "TRAIN", "POD", "UMIAK"))}
    pods = []
    for name in names:
        environ = {**clean, **told(cluster, name, names[0], address)}
        words = [*LAUNCH, str(tmp_path / f"log-{name}"), "train.py", str(tmp_path / "seen")]
        pods.append(
            subprocess.Popen(words, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        )
    try:
        said = [pod.communicate(timeout=PATIENCE_S)[0].decode() for pod in pods]
    finally:
        for pod in pods:
            pod.kill()
            pod.wait()
    assert [pod.returncode for pod in pods] == [0, 0], said
    seen = sorted(path.read_text() for path in tmp_path.glob("seen.*"))
    # Without a role of parameter servers: the operator tells it to pods of its own jobs, which Paddle's launcher does not read.
    role = "TRAINER" if body["apiVersion"].startswith("batch") else "None"
    assert [each.split() for each in seen] == [["2", "0", role], ["2", "1", role]], said
