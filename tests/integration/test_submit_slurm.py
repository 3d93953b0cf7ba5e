"""Jobs submitted to a real Slurm: started, followed, cancelled, requeued, found again after a lost answer, with secrets nowhere."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed import hosts, slurm
from testbed.pytest_support import require
from tests.support import PATIENCE_S, command_lines, contents_below, eventually, reaching
from tests.support.cluster_desks import ClusterDesk
from tests.support.launching import WORKERS

pytestmark = [pytest.mark.slurm]
SECRET = "k5-Wq81zTtrr-only-for-nodes"


class OnCluster:
    """Commands on the first host."""

    def __init__(self, cluster: slurm.Cluster) -> None:
        self.cluster = cluster

    def popen(self, words: Sequence[str], env: Mapping[str, str], cwd: Path, **more: Any) -> subprocess.Popen[str]:
        return self.cluster.hosts[0].popen(words, env={**env, **self.cluster.env}, cwd=cwd, **more)


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm.Cluster]:
    require(slurm.available())
    with hosts.network(3) as net, slurm.cluster(net.hosts) as opened:
        yield opened


@pytest.fixture
def desk(tmp_path: Path, cluster: slurm.Cluster) -> Iterator[ClusterDesk]:
    made = ClusterDesk(tmp_path, f'backend = "slurm"\n{ClusterDesk.python(tmp_path)}', OnCluster(cluster))
    yield made
    cluster.run(["scancel", "--me"])
    eventually(lambda: cluster.run(["squeue", "--noheader"]).stdout == "")
    eventually(lambda: not made.left())


def job_of(desk: ClusterDesk, handle: str) -> str:
    return os.readlink(desk.run_directory(handle) / "job")


def test_a_job_on_two_nodes(desk: ClusterDesk, cluster: slurm.Cluster) -> None:
    handle = desk.submit("--nnodes", "2", "--", "train.py", "lines=3", "until=go")
    desk.until_said("trainer.0 begin", "trainer.1 begin")
    law = [(each.platform, each.nodes, each.rank, each.hosts) for each in desk.placements()]
    assert law == [("slurm", 2, rank, ("node0", "node1")) for rank in range(2)]
    status = desk.status(handle)
    assert status["state"] == "running"
    assert [node["name"] for node in status["nodes"]] == ["node0", "node1"]
    assert all(node["host"] for node in status["nodes"])
    assert cluster.job(job_of(desk, handle))["JobName"] == handle.rpartition("/")[2]
    desk.touch("go")
    status = desk.wait(handle)
    assert (status["state"], status["exit_code"], status["said"]) == ("succeeded", 0, "COMPLETED")
    lines = desk.umiak("logs", handle, "--rank", "1").splitlines()
    assert [line for line in lines if "line" in line] == [f"line {number} of 1" for number in range(3)]
    assert desk.umiak("logs", handle, "--rank", "1", "--tail", "1").splitlines() == ["end"]
    assert desk.umiak("logs", handle, "--rank", "1", "--since", "1h").splitlines()[0] == "begin trainer 1 of 2"
    assert not (desk.run_directory(handle) / "secrets.json").exists()
    by_number = f"slurm://hpc/{job_of(desk, handle)}"
    assert desk.status(by_number)["state"] == "succeeded"
    assert handle in desk.umiak("list")


def test_a_job_that_restarts_its_workers_says_so(desk: ClusterDesk, tmp_path: Path) -> None:
    desk.restarts(tmp_path)


def test_the_exit_code_of_a_worker_is_the_jobs(desk: ClusterDesk, cluster: slurm.Cluster) -> None:
    handle = desk.submit("--nnodes", "2", "--", "train.py", "fail=7")
    status = desk.wait(handle, status=7)
    assert (status["state"], status["exit_code"]) == ("failed", 7)
    assert cluster.job(job_of(desk, handle))["ExitCode"] == "7:0"


def test_following_gives_every_line_once_also_after_a_break(desk: ClusterDesk) -> None:
    handle = desk.submit(
        "--nnodes", "2", "--nproc_per_node", "2", "--", "train.py", "lines=200", "until=go", "lines=50"
    )
    with desk.start("logs", "-f", handle) as following:
        assert following.stdout is not None
        seen = [following.stdout.readline() for _ in range(100)]
        following.kill()
    assert all(seen)
    desk.touch("go")
    lines = desk.umiak("logs", "-f", handle).splitlines()
    for rank in range(4):
        own = [line.partition("] ")[2] for line in lines if line.startswith(f"[trainer.{rank}]")]
        assert own == [
            f"begin trainer {rank} of 4",
            *(f"line {number} of {rank}" for number in range(200)),
            *(f"line {number} of {rank}" for number in range(50)),
            "end",
        ]


@pytest.mark.parametrize("kind", ["willing", "stubborn", "queued"])
def test_cancelling(desk: ClusterDesk, cluster: slurm.Cluster, kind: str) -> None:
    words = ["stubborn", "until=never"] if kind == "stubborn" else ["until=never"]
    nodes = "9" if kind == "queued" else "2"
    handle = desk.submit("--nnodes", nodes, "--", "train.py", *words)
    if kind != "queued":
        desk.until_said("trainer.0 begin", "trainer.1 begin")
    desk.umiak("cancel", handle, "--grace", "2" if kind == "stubborn" else "60")
    status = desk.status(handle)
    assert status["state"] == "cancelled"
    assert {node["state"] for node in status["nodes"]} <= {"cancelled"}
    # A node whose peers ended first kills its workers: not all of them need have heard of it.
    assert any("told to end" in line for line in desk.said()) is (kind == "willing")
    assert cluster.job(job_of(desk, handle))["JobState"] in ("CANCELLED", "FAILED")
    assert not (desk.run_directory(handle) / "secrets.json").exists()
    desk.umiak("cancel", handle)
    eventually(lambda: not desk.left())


def test_a_requeued_job_goes_on_as_the_same_run(desk: ClusterDesk, cluster: slurm.Cluster) -> None:
    handle = desk.submit("--nnodes", "2", "--", "train.py", "until=go")
    desk.until_said("trainer.0 begin", "trainer.1 begin")
    job = job_of(desk, handle)
    cluster.run(["scontrol", "requeue", job], check=True)
    eventually(lambda: desk.status(handle)["state"] == "queued")
    assert "restart 1" in desk.status(handle)["reason"]
    eventually(lambda: desk.said().count("trainer.1 begin") == 2)
    desk.touch("go")
    assert desk.wait(handle)["state"] == "succeeded"
    assert job_of(desk, handle) == job
    lines = desk.umiak("logs", handle, "--rank", "0").splitlines()
    assert lines.count("begin trainer 0 of 2") == 2


def test_a_heterogeneous_job_with_parameter_servers_trains(desk: ClusterDesk, cluster: slurm.Cluster) -> None:
    (desk.directory / "job.yaml").write_text(
        f"""
name: sums
command: [{WORKERS / "counting.py"}, found, sync]
roles:
  server: {{nodes: 1, cpus: 1}}
  trainer: {{nodes: 2, cpus: 2}}
"""
    )
    (desk.directory / "found").mkdir()
    handle = desk.submit("job.yaml")
    status = desk.wait(handle)
    assert status["state"] == "succeeded"
    assert [(node["role"], node["rank"], node["name"]) for node in status["nodes"]] == [
        ("server", 0, "node0"),
        ("trainer", 0, "node1"),
        ("trainer", 1, "node2"),
    ]
    assert [each.role.value for each in desk.placements() if each.role] == ["server", "trainer", "trainer"]
    assert {each.hosts for each in desk.placements()} == {("node0", "node1", "node2")}
    sums = [json.loads((desk.directory / "found" / f"sum.{rank}").read_text()) for rank in range(2)]
    assert sums == [40.0, 40.0]


def test_files_inputs_and_outputs(desk: ClusterDesk, tmp_path: Path) -> None:
    """Files are sent once for the same content; data comes in before the nodes begin, and home when they ended."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "part-0").write_text("rows")
    (desk.directory / "job.yaml").write_text(
        f"""
name: files
command: train.py read=train_data/part-0 write=models/weights
files: .
nodes: 2
inputs: {{train_data: {tmp_path}/kept}}
outputs: {{models: {tmp_path}/home}}
"""
    )
    handles = [desk.submit("job.yaml") for _ in range(2)]
    for handle in handles:
        desk.wait(handle)
        assert {"trainer.0 read rows", "trainer.1 read rows"} <= {*desk.said(desk.run_directory(handle) / "work")}
    assert (tmp_path / "home" / "weights").read_text() == "trained"
    assert len(list((desk.shared / "files").iterdir())) == 1
    assert len(list((desk.shared / "launchers").iterdir())) == 1
    assert desk.said() == []


def test_the_time_limit_ends_workers_by_sigterm(desk: ClusterDesk) -> None:
    handle = desk.submit("--time_limit", "60", "--", "train.py", "until=never")
    status = desk.wait(handle, status=143)
    # Slurm looks at limits twice a minute: on a slow machine a job of one minute is told and over at the same look.
    assert status["state"] == "failed"
    assert status["reason"] in ("SIGTERM: the time limit is near", "the time limit is over")
    # Slurm tells every process of the job, and a worker's launcher tells it too: one that is slow to end hears both.
    assert list(dict.fromkeys(desk.said())) == ["trainer.0 begin", "trainer.0 told to end"]


def test_an_elastic_job_goes_on_without_a_lost_node(desk: ClusterDesk) -> None:
    handle = desk.submit("--nnodes", "2:3", "--", "train.py", "until=go")
    desk.until_said("trainer.2 begin")
    for line in desk.left():
        if "log/2" in line and "umiak.launch" in line:
            with contextlib.suppress(ProcessLookupError):  # one half ends with the other
                os.kill(int(line.split()[0]), signal.SIGKILL)
    eventually(lambda: "begin trainer 1 of 2" in desk.umiak("logs", handle))
    desk.touch("go")
    status = desk.wait(handle)
    assert (status["state"], status["exit_code"]) == ("succeeded", 0)


# ---- lost answers


def wrapped(desk: ClusterDesk, name: str, text: str) -> dict[str, str]:
    """The environment in which a command of Slurm is another one, which finds the real one in its first argument."""
    directory = desk.directory.parent / "wrapped"
    directory.mkdir(exist_ok=True)
    real = f"/usr/bin/{name}"
    (directory / name).write_text(f"#!/bin/bash\nreal={real}\n{text}")
    (directory / name).chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


@pytest.mark.parametrize("loss", ["client killed", "answer cut off", "another one comes through late"])
def test_a_lost_answer_starts_nothing_twice(desk: ClusterDesk, cluster: slurm.Cluster, loss: str) -> None:
    words = ("--nnodes", "2", "--", "train.py", "until=go")
    if loss == "client killed":
        env = wrapped(desk, "sbatch", '"$real" "$@" >/dev/null; kill -9 "$PPID"\n')
        with desk.start("submit", "--on", "hpc", *words, env=env) as client:
            assert client.wait(PATIENCE_S) in (-9, 137)
    elif loss == "answer cut off":
        # Neither does squeue answer: nobody can know.
        env = wrapped(
            desk, "sbatch", '"$real" "$@" >/dev/null\necho "Socket timed out on send/recv operation" >&2; exit 1\n'
        )
        env = {**env, **wrapped(desk, "squeue", "exit 1\n")}
        assert "[UM-SUBMIT-" in desk.umiak("submit", "--on", "hpc", *words, status=3, env=env)
    else:
        env = wrapped(desk, "sbatch", '"$real" "$@" >/dev/null; "$real" "$@"\n')
        desk.submit(*words, env=env)
        desk.touch("go")
        eventually(lambda: cluster.run(["squeue", "--noheader"]).stdout == "")
        assert sorted(desk.said()) == ["trainer.0 begin", "trainer.1 begin"]
        return
    handle = desk.submit(*words)
    desk.until_said("trainer.0 begin", "trainer.1 begin")
    desk.touch("go")
    desk.wait(handle)
    jobs = cluster.run(["squeue", "--noheader", "--states=all", f"--name={handle.rpartition('/')[2]}", "--format=%i"])
    assert jobs.stdout.split() == [job_of(desk, handle)]
    assert sorted(desk.said()) == ["trainer.0 begin", "trainer.1 begin"]


def test_a_refused_job_is_told_and_can_be_submitted_again(desk: ClusterDesk) -> None:
    place = desk.directory / "umiak.toml"
    good = place.read_text()
    place.write_text(f'{good}partition = "nosuch"\n')
    told = desk.umiak("submit", "--on", "hpc", "--", "train.py", status=3)
    assert "[UM-SUBMIT-144]" in told
    assert "nosuch" in told
    place.write_text(good)
    desk.wait(desk.submit("--", "train.py"))
    assert desk.said() == ["trainer.0 begin"]


# ---- secrets


def test_secrets_are_nowhere_but_in_workers(desk: ClusterDesk, cluster: slurm.Cluster) -> None:
    handle = desk.submit(
        *("--nnodes", "2", "--secret", "DB_PASSWORD", "--", "train.py", "secret=DB_PASSWORD", "until=go"),
        env={"DB_PASSWORD": SECRET},
    )
    said = f"DB_PASSWORD has {len(SECRET)} letters"
    desk.until_said(f"trainer.0 {said}", f"trainer.1 {said}")
    run = desk.run_directory(handle)
    hidden = run / "secrets.json"
    assert oct(hidden.stat().st_mode & 0o777) == "0o600"
    secrets = [text.encode() for text in json.loads(hidden.read_text()).values()]
    assert SECRET.encode() in secrets
    assert len(secrets) == 2
    readable = contents_below(desk.shared, desk.state, cluster.directory) | command_lines()
    del readable[hidden]
    told = cluster.run(["scontrol", "show", "job", "--details", job_of(desk, handle)]).stdout
    batch = cluster.run(["scontrol", "write", "batch_script", job_of(desk, handle), "-"]).stdout
    readable[Path("scontrol")] = (told + batch).encode()
    assert len(readable) > 20
    assert [path for path, data in readable.items() for secret in secrets if secret in data] == []
    desk.touch("go")
    desk.wait(handle)
    assert not hidden.exists()
    assert SECRET not in desk.umiak("logs", handle)


# ---- Slurm that forgets, and one that does not answer


def test_a_controller_that_is_away_or_has_forgotten_the_job(tmp_path: Path) -> None:
    require(slurm.available())
    with hosts.network(2) as net, slurm.cluster(net.hosts, settings={"MinJobAge": 2}) as cluster:
        desk = ClusterDesk(tmp_path, f'backend = "slurm"\n{ClusterDesk.python(tmp_path)}', OnCluster(cluster))
        handle = desk.submit("--nnodes", "2", "--", "train.py", "until=go")
        desk.until_said("trainer.0 begin", "trainer.1 begin")
        cluster.stop_controller()
        assert "[UM-SUBMIT-145]" in desk.umiak("status", handle, status=3)
        cluster.start_controller()
        desk.touch("go")
        job = job_of(desk, handle)
        eventually((desk.run_directory(handle) / "end").exists)
        eventually(lambda: "Invalid job id" in cluster.run(["scontrol", "show", "job", job]).stderr)
        status = desk.status(handle)
        assert (status["state"], status["exit_code"]) == ("succeeded", 0)
        cluster.stop_controller()
        shutil.rmtree(desk.shared)  # nobody knows it any more, and it stays over
        assert desk.status(handle) == status
        desk.umiak("wait", handle)
        assert "[UM-SUBMIT-360]" in desk.umiak("logs", handle, status=3)


def test_commands_run_beside_the_workers_and_files_come_from_the_shared_directory(
    desk: ClusterDesk, cluster: slurm.Cluster
) -> None:
    handle = desk.submit("--nnodes", "2", "--", "train.py", "lines=3", "write=out/model", "until=go")
    desk.until_said("trainer.0 begin", "trainer.1 begin")
    reaching.tells_what_a_worker_sees(desk, handle, 1, str(desk.directory))
    lines = desk.umiak("exec", handle, "--all", "--", "sh", "-c", "echo $UMIAK_RANK $(hostname)").splitlines()
    assert sorted(lines) == ["[node0] 0 node0", "[node1] 1 node1"]
    reaching.passes_bytes_on(desk, handle)
    reaching.ends_with_its_client(desk, handle, reaching.processes_with)
    reaching.passes_signals_on(desk, handle)
    reaching.has_a_shell(desk, handle, "--node", "node0")
    steps = ["squeue", "--noheader", "--steps", "--format=%i", f"--jobs={job_of(desk, handle)}"]
    eventually(lambda: len(cluster.run(steps).stdout.split()) <= 3)  # batch, extern, the job's own
    assert desk.status(handle)["state"] == "running"
    desk.touch("go")
    assert desk.wait(handle)["state"] == "succeeded"
    assert "UM-SUBMIT-391" in desk.umiak("exec", handle, "--", "true", status=3)
    reaching.fetched(desk, handle, "--to", "all", "log", "out")
    found = reaching.files_below(desk.directory / "all" / "shared")
    assert found["log/1/workerlog.0"].decode().splitlines()[1:4] == [f"line {number} of 1" for number in range(3)]
    assert found["work/out/model"] == b"trained"
    reaching.fetched(desk, handle, "--to", "one", "--node", "node1", "log")
    assert {path.split("/")[1] for path in reaching.files_below(desk.directory / "one" / "shared")} == {"1", "job.log"}
