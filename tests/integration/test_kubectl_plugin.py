"""`kubectl umiak` through a real kubectl, about a run on a real cluster that somebody else submitted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.kubernetes import programs
from testbed.kubernetes.cluster import Cluster
from tests.support import PATIENCE_S, eventually, submitting

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes")]

SCRIPT = """
import pathlib, time
pathlib.Path("result.txt").write_text("learned")
print("hello from the job", flush=True)
while True:
    time.sleep(0.2)
"""


@pytest.fixture
def desk(tmp_path: Path, kube_cluster: Cluster, cluster_namespace: str) -> Iterator[submitting.Desk]:
    """The one who submits."""
    made = submitting.Desk(tmp_path)
    made.environ |= {"KUBECONFIG": str(kube_cluster.kubeconfig)}
    (made.directory / "umiak.toml").write_text(
        f'[place.k8s]\nbackend = "kubernetes"\nnamespace = "{cluster_namespace}"\nkind = "job"\n'
        'image = "registry.example/training:v1"\npython = "python"\n'
    )
    (made.directory / "train.py").write_text(SCRIPT)
    yield made
    made.close()


def test_runs_of_the_namespace(
    desk: submitting.Desk, kube_cluster: Cluster, cluster_namespace: str, tmp_path: Path
) -> None:
    programs_of_mine, home = tmp_path / "bin", tmp_path / "somebody"
    programs_of_mine.mkdir()
    home.mkdir()
    plugin = programs_of_mine / "kubectl-umiak"  # what the wheel's entry point becomes
    start = "import sys; from umiak.cli.kubectl.command import main; sys.exit(main())"
    plugin.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{start}" "$@"\n')
    plugin.chmod(0o755)
    path = f"{programs_of_mine}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "HOME": str(home), "PATH": path, "KUBECONFIG": str(kube_cluster.kubeconfig)}
    for name in [name for name in environ if name.startswith("XDG_")]:
        del environ[name]

    def umiak(*words: str, status: int = 0, **changes: str) -> str:
        done = subprocess.run(
            [programs.program("kubectl"), "umiak", *words],
            env={**environ, **changes},
            cwd=home,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    here = ("-n", cluster_namespace)
    assert json.loads(umiak("list", "--json", *here)) == []
    (desk.directory / "job.yaml").write_text(json.dumps({"name": "hello", "command": "train.py", "files": "."}))
    run = desk.submit("job.yaml", "--on", "k8s").rpartition("/")[2]
    (told,) = json.loads(umiak("list", "--json", *here))
    assert told["run"] == run
    assert umiak("list") == umiak("list", "-n", "default"), "the context's own namespace has other runs"
    assert run not in umiak("list")

    def state() -> str:
        found: str = json.loads(umiak("status", run, "--json", *here))["state"]
        return found

    eventually(lambda: state() == "running", within_s=300)
    named = ("--context", "testbed", f"--kubeconfig={kube_cluster.kubeconfig}", f"--namespace={cluster_namespace}")
    assert run in umiak("list", *named, KUBECONFIG=str(home / "none"))
    eventually(lambda: "hello from the job" in umiak("logs", run, "--tail", "5", *here))
    assert umiak("exec", run, *here, "--", "cat", "result.txt") == "learned"
    umiak("exec", run, *here, "--", "sh", "-c", "exit 5", status=5)
    umiak("fetch", run, "result.txt", "--to", "results", *here)
    assert [each.read_text() for each in (home / "results").rglob("result.txt")] == ["learned"]
    umiak("cancel", run, "--grace", "0", *here)
    assert state() == "cancelled"
    assert json.loads(umiak("list", "--json", *here))[0]["state"] == "cancelled"
    assert json.loads(umiak("status", run, "--json"))["state"] == "lost", "another namespace does not know it"
    assert "paddle-controller-manager" in umiak("deploy")
