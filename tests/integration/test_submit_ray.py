"""Jobs on a real Ray cluster of three hosts: one launcher in each bundle, lines of all nodes, ends, and nothing left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from testbed import hosts, ray
from testbed.pytest_support import require
from tests.support import PATIENCE_S, eventually, reaching, remember_launcher
from tests.support.launching import WORKERS
from tests.support.submitting import RESTARTED
from umiak.platforms import detect

pytestmark = [pytest.mark.ray, pytest.mark.netns]

WORKER = """
import os, pathlib, signal, sys, time
here = pathlib.Path(sys.argv[1])
me = f"{os.environ['UMIAK_ROLE']}.{os.environ['UMIAK_RANK']}"
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
(here / f"{me}.new").write_text(f"{os.getpid()} {os.getppid()}")
(here / f"{me}.new").rename(here / f"start.{me}.{os.getpid()}")
print("begin of", os.environ["UMIAK_WORLD_SIZE"], flush=True)
for word in sys.argv[2:]:
    name, _, text = word.partition("=")
    if name == "lines":
        for number in range(int(text)):
            print(f"line {number} \\N{SNOWMAN}", flush=True)
    elif name == "until":
        while not (here / text).exists():
            time.sleep(0.05)
    elif name == "fail" and os.environ["UMIAK_RANK"] == "1":
        sys.exit(int(text))
print("progress 1\\rprogress 2\\rend", flush=True)
"""


class Lab:
    """A Ray cluster, and a person on its first host."""

    def __init__(self, cluster: ray.Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.client = cluster.hosts[0]
        self.project = self.directory = directory / "project"
        self.project.mkdir()
        self.state = directory / "state"
        (self.project / "train.py").write_text(WORKER)
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("UMIAK_", "PADDLE_", "XDG_"))}
        self.environ = {**kept, "HOME": str(directory), "XDG_STATE_HOME": str(self.state)}
        remember_launcher(directory)
        place = f'backend = "ray"\naddress = "{cluster.address}"\njob_python = "{sys.executable}"\n'
        (self.project / "umiak.toml").write_text(
            f'default_place = "lab"\n[place.lab]\n{place}strategy = "STRICT_SPREAD"\n[place.packed]\n{place}strategy = "PACK"\n'
            f'[place.kept]\n{place}strategy = "STRICT_SPREAD"\nkeep_directories = true\ndirectory = "{directory}/kept"\n'
        )

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        argv = [sys.executable, "-m", "umiak", *words]
        streams = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe, **more}
        return self.client.popen(argv, env=self.environ, cwd=self.project, **streams)

    def umiak(self, *words: str, status: int = 0) -> str:
        with self.start(*words) as process:
            out, err = process.communicate(timeout=300)
        assert process.returncode == status, f"{words} ended with {process.returncode}:\n{out}{err}"
        return out if status == 0 else f"{out}{err}"

    def submit(self, *words: str) -> str:
        return self.umiak("submit", *words).strip()

    def status(self, handle: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.umiak("status", handle, "--json"))
        return found

    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.cluster.get("/api/jobs/"))
        return [each for each in found if each["type"] == "SUBMISSION"]

    def driver_pid(self, handle: str) -> int:
        """As this machine sees it."""
        words = [b"umiak.submit.backends.ray.driver", handle.rpartition("/")[2].encode()]
        return next(
            pid
            for pid, text in processes()
            if words[0] in text and environment(pid).get("RAY_JOB_CONFIG_JSON_ENV_VAR", "").find(words[1].decode()) > 0
        )

    def ours(self) -> list[str]:
        """Launchers and workers that are there."""
        mark = str(self.cluster.directory).encode()
        return [
            repr(text)
            for _, text in processes()
            if (b"umiak-launcher.pyz" in text or b"train.py" in text) and mark in text
        ]


def processes() -> list[tuple[int, bytes]]:
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found.append((int(pid), Path(f"/proc/{pid}/cmdline").read_bytes()))
    return found


def environment(pid: int) -> Mapping[str, str]:
    with contextlib.suppress(OSError):
        items = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        return dict(item.split("=", 1) for item in items if "=" in item)
    return {}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ray.Cluster]:
    require(ray.available())
    with hosts.network(3) as net, ray.cluster(net.hosts) as opened:
        yield opened


@pytest.fixture
def lab(cluster: ray.Cluster, tmp_path: Path) -> Iterator[Lab]:
    opened = Lab(cluster, tmp_path)
    yield opened
    for job in opened.jobs():
        if job["status"] in ("PENDING", "RUNNING"):
            opened.umiak("cancel", f"ray://lab/{job['submission_id']}", "--grace", "1")
    eventually(lambda: not opened.ours())


def begun(directory: Path, count: int) -> list[Path]:
    return eventually(lambda: found if len(found := sorted(directory.glob("start.*"))) >= count else [])


def launchers(lab: Lab) -> list[Mapping[str, str]]:
    """The environments of all launchers' own processes."""
    found = [
        environment(pid)
        for pid, text in processes()
        if b"umiak.launch" in text and str(lab.cluster.directory).encode() in text
    ]
    return [each for each in found if "UMIAK_NODE_RANK" in each]


def test_a_run_from_its_submission_to_its_end(lab: Lab, tmp_path: Path) -> None:
    """Placement, the law, lines of all nodes, the token, and the state at each step."""
    handle = lab.submit("--nnodes", "2", "--", "train.py", str(tmp_path), "lines=3000", "until=go")
    follower = lab.start("logs", "-f", handle)
    begun(tmp_path, 2)
    told = lab.status(handle)
    assert (told["state"], told["said"]) == ("running", "RUNNING")
    assert [(node["name"], node["state"]) for node in told["nodes"]] == [
        ("trainer.0", "running"),
        ("trainer.1", "running"),
    ]
    # The law: what the launchers were given is the cluster that was meant.
    given = launchers(lab)
    found = {place.rank: place for each in given if (place := detect(each)) is not None}
    assert sorted(rank for rank in found if rank is not None) == [0, 1]
    assert {place.nodes for place in found.values()} == {2}
    assert len({place.host for place in found.values()}) == 2  # STRICT_SPREAD
    assert all(place.hosts[place.rank or 0] == place.host for place in found.values())
    assert {place.master.rpartition(":")[0] for place in found.values() if place.master} == {found[0].host}
    # The token: with the launchers and nowhere else.
    (token,) = {each["UMIAK_TOKEN"] for each in given}
    assert_hidden(token, lab, handle)
    (tmp_path / "go").touch()
    lab.umiak("wait", handle)
    told = lab.status(handle)
    assert (told["state"], told["exit_code"]) == ("succeeded", 0)
    assert handle in lab.umiak("list")
    out, _ = follower.communicate(timeout=PATIENCE_S)
    assert follower.returncode == 0
    expected = [
        "begin of 2",
        *(f"line {number} \N{SNOWMAN}" for number in range(3000)),
        "progress 1",
        "progress 2",
        "end",
    ]
    for rank in (0, 1):
        tag = f"[trainer.{rank}] "
        assert [line.removeprefix(tag) for line in out.splitlines() if line.startswith(tag)] == expected
    again = lab.umiak("logs", handle, "--rank", "1").splitlines()
    assert again == expected
    assert lab.umiak("logs", handle, "--rank", "1", "--tail", "2").splitlines() == expected[-2:]
    rows = [json.loads(line) for line in lab.umiak("logs", handle, "--json").splitlines()]
    times = [
        row["time_s"] for row in rows if row["source"] != "ray"
    ]  # Ray's own lines come before the driver's first mark
    assert times == sorted(times)
    assert lab.umiak("logs", handle, "--rank", "1", "--since", "1h").splitlines() == expected
    assert_hidden(token, lab, handle)


def assert_hidden(token: str, lab: Lab, handle: str) -> None:
    secret = token.encode()
    assert [text for _, text in processes() if secret in text] == []
    for root in (lab.cluster.directory, lab.state, lab.project):
        for path in root.rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and not path.is_symlink():
                    assert secret not in path.read_bytes(), path
    run = handle.rpartition("/")[2]
    for question in (
        "/api/jobs/",
        f"/api/jobs/{run}/logs",
        "/api/v0/actors?detail=1",
        "/api/v0/tasks?detail=1",
        "/api/v0/runtime_envs",
    ):
        assert secret not in lab.cluster.get(question), question


def test_a_client_that_is_killed_and_repeated_starts_the_job_once(lab: Lab, tmp_path: Path) -> None:
    """And the exit code of the job is that of `wait`."""
    words = ("submit", "--nnodes", "2", "--", "train.py", str(tmp_path), "fail=7")
    before = len(lab.jobs())
    client = lab.start(*words)
    eventually(lambda: len(lab.jobs()) > before or client.poll() is not None)
    client.send_signal(signal.SIGKILL)
    if "ray://" in client.communicate(timeout=PATIENCE_S)[0]:
        before += 1  # it was faster than the kill: a second submission is a second job
    handle = lab.submit(*words[1:])
    lab.umiak("wait", handle, status=7)
    assert len(lab.jobs()) == before + 1
    assert lab.status(handle)["reason"].startswith("exit code 7: trainer 1 on node ")


def test_a_run_that_restarts_its_workers_says_so(lab: Lab, tmp_path: Path) -> None:
    (lab.project / "restarted.py").write_text(RESTARTED)
    (lab.project / "job.yaml").write_text(
        f"name: ctr\nfiles: .\ncommand: restarted.py {tmp_path}\nnodes: 2\nrestarts: 3\nenv: {{UMIAK_FAILURE_GRACE: '600'}}\n"
    )
    handle = lab.submit("job.yaml")
    told = eventually(lambda: found if (found := lab.status(handle))["state"] == "restarting" else None)
    assert told["reason"].startswith("trainer 0 ")
    (tmp_path / "go").touch()
    eventually((tmp_path / "life.1.1").exists)
    eventually(lambda: lab.status(handle)["state"] == "running")
    assert lab.status(handle)["reason"] == "restarted once: trainer 0 failed, restart 1 of 3"
    (tmp_path / "end").touch()
    lab.umiak("wait", handle)
    told = lab.status(handle)
    assert [(node["name"], node["state"], node["exit_code"]) for node in told["nodes"]] == [
        ("trainer.0", "succeeded", 0),
        ("trainer.1", "succeeded", 0),
    ]
    assert len({node["host"] for node in told["nodes"]}) == 2


def test_parameter_servers_and_trainers(lab: Lab, tmp_path: Path) -> None:
    """Two roles with commands of their own, several on one host, and umiak's own servers."""
    (lab.project / "count.py").write_text((WORKERS / "counting.py").read_text())
    (lab.project / "job.yaml").write_text(
        "name: ctr\nfiles: .\ninclude: [count.py]\nroles:\n"
        f"  server: {{nodes: 1, command: 'count.py {tmp_path} sync', cpus: 0.5}}\n"
        f"  trainer: {{nodes: 2, command: 'count.py {tmp_path} sync --no-log', cpus: 0.5}}\n"
    )
    handle = lab.submit("job.yaml", "--on", "packed")
    lab.umiak("wait", handle)
    out = lab.umiak("logs", handle)
    assert "[launcher.server.0]" in out
    assert "[launcher.trainer.1]" in out
    assert [json.loads((tmp_path / f"sum.{rank}").read_text()) for rank in (0, 1)] == [40, 40]


def test_what_has_no_room_waits_and_says_why(lab: Lab) -> None:
    (lab.project / "job.yaml").write_text("name: big\nfiles: .\ncommand: train.py\ncpus: 64\n")
    handle = lab.submit("job.yaml")
    told = eventually(lambda: found if "CPU 64" in (found := lab.status(handle))["reason"] else None)
    assert (told["state"], told["said"]) == ("queued", "RUNNING")
    assert "1 x (CPU 64)" in told["reason"]
    eventually(lambda: "waiting for resources" in lab.umiak("logs", handle))
    lab.umiak("cancel", handle)
    assert lab.status(handle)["state"] == "cancelled"


def test_cancelling_keeps_the_grace_that_was_asked_for(lab: Lab, tmp_path: Path) -> None:
    handle = lab.submit("--nnodes", "2", "--", "train.py", str(tmp_path), "stubborn", "until=never")
    begun(tmp_path, 2)
    lab.umiak("cancel", handle, "--grace", "1")
    told = lab.status(handle)
    assert (told["state"], told["exit_code"]) == ("cancelled", 143)
    assert {node["state"] for node in told["nodes"]} <= {"cancelled"}
    lab.umiak("wait", handle, status=143)
    eventually(lambda: not lab.ours())


def test_an_elastic_run_goes_on_without_a_lost_node_and_takes_a_new_one_in(lab: Lab, tmp_path: Path) -> None:
    """The node that leads is killed, then comes back; a third joins when there is room for it."""
    (lab.project / "job.yaml").write_text(
        f"name: ctr\nfiles: .\ninclude: [train.py]\ncommand: train.py {tmp_path} until=go\nnodes: '1:2'\ncpus: 2\n"
    )
    handle = lab.submit("job.yaml")
    worlds = lambda: [line for line in lab.umiak("logs", handle).splitlines() if "begin of" in line]  # noqa: E731
    eventually(lambda: any("begin of 2" in line for line in worlds()))
    before = len(worlds())
    victim = next(pid for pid, text in processes() if b"RunNode" in text)
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: "was lost" in lab.umiak("logs", handle))
    # The other one goes on alone, or with the next one already.
    eventually(lambda: len(worlds()) > before)
    eventually(lambda: "begin of 2" in worlds()[-1])
    told = lab.status(handle)
    assert told["state"] in ("running", "restarting")
    (tmp_path / "go").touch()
    lab.umiak("wait", handle)
    assert lab.status(handle)["state"] == "succeeded"


@pytest.mark.parametrize("whom", ["the driver", "an actor", "a host"])
def test_no_matter_who_is_killed_nothing_is_left(lab: Lab, tmp_path: Path, whom: str) -> None:
    """The host comes last: its node is gone for good."""
    handle = lab.submit("--nnodes", "2", "--", "train.py", str(tmp_path), "until=never")
    begun(tmp_path, 2)
    if whom == "the driver":
        os.kill(lab.driver_pid(handle), signal.SIGKILL)
    elif whom == "an actor":
        os.kill(next(pid for pid, text in processes() if b"RunNode" in text), signal.SIGKILL)
    else:
        ranks = {each["UMIAK_HOST"] for each in launchers(lab)}
        next(host for host in lab.cluster.hosts[1:] if host.address in ranks).kill()
    lab.umiak("wait", handle, status=137 if whom == "the driver" else 1)
    assert lab.status(handle)["state"] == "failed"
    if whom != "the driver":
        assert "was lost" in lab.umiak("logs", handle)
    eventually(lambda: not lab.ours())


def test_a_command_beside_a_worker(lab: Lab, tmp_path: Path) -> None:
    """With two nodes of a run on one host: each command is on its own, and ends with its client. Faults are in test_ray_sessions.py."""
    handle = lab.submit("--on", "packed", "--nnodes", "2", "--", "train.py", str(tmp_path), "until=go")
    begun(tmp_path, 2)
    reaching.tells_what_a_worker_sees(lab, handle, 1)
    rank = ("--", "sh", "-c", "echo $UMIAK_RANK; exit $((UMIAK_RANK * 4))")
    assert sorted(lab.umiak("exec", handle, "--all", *rank, status=4).splitlines()) == [
        "[trainer.0] 0",
        "[trainer.1] 1",
    ]
    assert not any("-session-" in line for line in lab.umiak("list").splitlines()), "a command is listed as a run"
    reaching.ends_with_its_client(lab, handle, reaching.processes_with)
    assert lab.status(handle)["state"] == "running"
    (tmp_path / "go").touch()
    lab.umiak("wait", handle)
    assert "UM-SUBMIT-391" in lab.umiak("exec", handle, *rank, status=3)
    assert "UM-SUBMIT-490" in lab.umiak("fetch", handle, "--node", "1", status=3)
    eventually(lambda: not [*lab.cluster.directory.rglob("umiak-*-session-*.log")])


WRITER = """
import os, pathlib, sys, time
rank = os.environ["UMIAK_RANK"]
out = pathlib.Path("out")
out.mkdir()
(out / f"model.{rank}").write_bytes(os.urandom(1 << 20) * (40 if rank == "0" else 1))
(out / "latest").symlink_to(f"model.{rank}")
(out / "secret").symlink_to("/etc/passwd")
os.mkfifo(out / "pipe")
(pathlib.Path(sys.argv[1]) / f"start.{rank}").touch()
while not (pathlib.Path(sys.argv[1]) / "go").exists():
    time.sleep(0.05)
"""


def test_files_of_a_run_and_of_one_that_is_over(lab: Lab, tmp_path: Path) -> None:
    (lab.project / "train.py").write_text(WRITER)
    handle = lab.submit("--on", "kept", "--nnodes", "2", "--", "train.py", str(tmp_path))
    run = handle.rpartition("/")[2]
    begun(tmp_path, 2)
    found = reaching.fetched(lab, handle)
    assert found["left_out"]["links"]["names"] == [f"trainer.{rank}/work/out/secret" for rank in range(2)]
    assert found["left_out"]["special"]["count"] == 2
    there = tmp_path / "kept" / run
    for rank in range(2):
        out = Path("work", "out", f"model.{rank}")
        assert (lab.project / run / f"trainer.{rank}" / out).read_bytes() == (
            there / f"trainer.{rank}" / out
        ).read_bytes()
        assert os.readlink(lab.project / run / f"trainer.{rank}" / "work" / "out" / "latest") == f"model.{rank}"
    assert any(name.startswith("trainer.1/log/") for name in reaching.files_below(lab.project / run))
    (tmp_path / "go").touch()
    lab.umiak("wait", handle)
    (there / "trainer.1" / "work" / "out" / "late").write_text("late")
    only = reaching.fetched(lab, handle, "--node", "1", "--to", "over", "out/late")
    assert only["problems"] == []
    assert reaching.files_below(lab.project / "over") == {"trainer.1/work/out/late": b"late"}
