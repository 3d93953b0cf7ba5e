"""Jobs on hosts with a real sshd: they start everywhere or nowhere, outlive the client, and every host that fails is named."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed import hosts, sshd
from testbed.pytest_support import NetworkFactory, SshFactory
from tests.support import PATIENCE_S, Program, chance, command_lines, eventually, remember_launcher, submitting
from tests.support.paths import WORKERS

pytestmark = [pytest.mark.ssh, pytest.mark.netns]


class Lab:
    """A person at a machine, and hosts that it reaches by ssh."""

    def __init__(self, directory: Path, cluster: sshd.Cluster, own: hosts.Host | None = None) -> None:
        self.directory = directory / "work"
        self.directory.mkdir()
        self.shared = directory / "shared"
        """All hosts see it; they have their homes for themselves."""
        self.shared.mkdir(mode=0o777)
        self.state = directory / "state"
        self.cluster = cluster
        self._own = own
        (self.directory / "train.py").write_text(submitting.WORKER)
        kept = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("UMIAK_", "PADDLE_", "XDG_", "SSH_"))
        }
        self.environ = {**kept, "HOME": str(directory), "XDG_STATE_HOME": str(self.state)}
        remember_launcher(directory)
        self.environ["XDG_CACHE_HOME"] = os.path.expanduser("~/.cache")
        self.describe()

    def describe(self, **more: str) -> None:
        rows = {"hosts": '["node*"]', "config": f'"{self.cluster.config}"', "connect_timeout": "5", **more}
        lines = "".join(f"{name} = {text}\n" for name, text in rows.items())
        (self.directory / "umiak.toml").write_text(f'default_place = "lab"\n\n[place.lab]\nbackend = "ssh"\n{lines}')

    def start(self, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        argv = [sys.executable, "-m", "umiak", *words]
        environ = {**self.environ, **(env or {})}
        if self._own is not None:
            return self._own.popen(argv, env=environ, cwd=self.directory, **streams)
        return Program(argv, env=environ, cwd=self.directory, text=True, **streams)

    def umiak(self, *words: str, status: int | None = 0, env: Mapping[str, str] | None = None) -> str:
        with self.start(*words, env=env) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        assert status is None or process.returncode == status, f"{words} ended with {process.returncode}:\n{out}{err}"
        return out if status == 0 else f"{out}{err}"

    def submit(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        return self.umiak("submit", *words, env=env).strip()

    def status(self, handle: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.umiak("status", handle, "--json"))
        return found

    def starts(self) -> list[str]:
        """Every worker that ever began on a host that is up: ``node1 trainer.0``."""
        found = []
        for machine in self.cluster.machines:
            if machine.running:
                for path in machine.files.glob(".umiak/runs/*/*/work*/seen/starts"):
                    found += [f"{machine.name} {line.split()[0]}" for line in path.read_text().splitlines()]
        return sorted(found)

    def until_started(self, count: int) -> None:
        eventually(lambda: len(self.starts()) >= count)

    def go(self) -> None:
        (self.shared / "go").touch()

    def processes(self) -> list[str]:
        """What runs on the machines, save sshd and what belongs to a connection."""
        found = []
        for machine in self.cluster.machines:
            if machine.running:
                found += [
                    f"{machine.name}: {words}"
                    for words in _commands(machine)
                    if "node_start" in words or "umiak.launch" in words
                ]
        return found


def _commands(machine: sshd.Machine) -> Iterator[str]:
    own = os.readlink(f"/proc/{machine.pid}/ns/pid")
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/ns/pid") == own:
                yield Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


@pytest.fixture
def lab(tmp_path: Path, ssh_cluster: SshFactory) -> Lab:
    """Four hosts that are told apart by their ports."""
    return Lab(tmp_path, ssh_cluster(4))


@pytest.fixture
def distant(tmp_path: Path, network: NetworkFactory, ssh_cluster: SshFactory) -> Lab:
    """Four hosts with networks of their own, and a fifth where the person is."""
    net = network(5)
    return Lab(tmp_path, ssh_cluster(net.hosts[1:]), net.hosts[0])


def own_lines(output: str, source: str) -> list[str]:
    return [line.partition("] ")[2] for line in output.splitlines() if line.startswith(f"[{source}]")]


# ---- the ordinary way


def test_a_job_runs_on_all_hosts_and_its_end_is_told(lab: Lab) -> None:
    (lab.directory / "data").mkdir()
    (lab.directory / "data" / "words").write_text("one two\n")
    (lab.directory / "job.yaml").write_text(
        f"name: ctr\ncommand: train.py lines=20 until={lab.shared}/go\nnodes: 4\nfiles: .\nenv: {{COLOUR: red}}\n"
        f"outputs: {{seen: '{lab.shared}/seen-{{rank}}'}}\n"
    )
    handle = lab.submit("job.yaml")
    assert handle.startswith("ssh://lab/ctr-")
    lab.until_started(4)
    assert lab.starts() == [f"node{number} trainer.{number}" for number in range(4)]
    shutil.rmtree(lab.state)  # with nothing but the handle
    assert lab.status(handle)["state"] == "running"
    follower = lab.start("logs", "-f", handle)
    lab.go()
    lab.umiak("wait", handle)
    output, _ = follower.communicate(timeout=PATIENCE_S)
    whole = [f"line {number}" for number in range(20)]
    for rank in range(4):
        assert own_lines(output, f"trainer.{rank}") == [f"begin trainer {rank} of 4", *whole, "end"]
    assert own_lines(output, "launcher.node-2")
    assert lab.umiak("logs", handle, "--rank", "3").splitlines() == ["begin trainer 3 of 4", *whole, "end"]
    told = lab.status(handle)
    assert (told["state"], told["exit_code"]) == ("succeeded", 0)
    assert [node["name"] for node in told["nodes"]] == ["node0", "node1", "node2", "node3"]
    assert sorted(path.name for path in lab.shared.glob("seen-*/starts")) == ["starts"] * 4
    assert lab.processes() == []
    # The same files are not sent again, and neither is the launcher.
    stored = [machine.files / ".umiak" / kind for machine in lab.cluster.machines for kind in ("files", "launchers")]
    before = [[(each.name, each.stat().st_ino) for each in path.iterdir()] for path in stored]
    lab.umiak("wait", lab.submit("job.yaml"))
    assert [[(each.name, each.stat().st_ino) for each in path.iterdir()] for path in stored] == before
    assert {len(each) for each in before} == {1}
    # Ended runs go, what goes on stays.
    waiting = lab.submit("--nnodes", "2", "--", "train.py", "until=never")
    lab.umiak("hosts", "clean", "--older_than", "0")
    assert [path.name for path in (lab.cluster.machines[0].files / ".umiak/runs").iterdir()] == [
        waiting.rpartition("/")[2]
    ]
    assert lab.status(waiting)["state"] in ("starting", "running")
    lab.umiak("cancel", waiting, "--grace", "1")
    assert lab.status(waiting)["state"] == "cancelled"
    assert lab.processes() == []


CHATTY = """
import os, pathlib, sys, time
rank = int(os.environ["UMIAK_RANK"])
for turn in range(rank, 12, 4):
    while not (pathlib.Path(sys.argv[1]) / f"turn.{turn}").exists():
        time.sleep(0.01)
    print(f"turn {turn}", flush=True)
while not (pathlib.Path(sys.argv[1]) / "go").exists():
    time.sleep(0.01)
"""
"""Four workers that write in turns, when they are told to."""


def test_lines_of_all_hosts_are_in_the_order_of_time(lab: Lab) -> None:
    (lab.directory / "chatty.py").write_text(CHATTY)
    handle = lab.submit("--nnodes", "4", "--", "chatty.py", str(lab.shared))

    def take(first: int, last: int) -> None:
        for turn in range(first, last):
            (lab.shared / f"turn.{turn}").touch()
            machine = lab.cluster.machines[turn % 4]
            eventually(
                lambda machine=machine, turn=turn: any(  # type: ignore[misc]
                    f"turn {turn}\n" in path.read_text()
                    for path in machine.files.glob(".umiak/runs/*/*/log/*/workerlog.0")
                ),
            )

    take(0, 8)
    whole = [f"[trainer.{turn % 4}] turn {turn}" for turn in range(12)]
    assert lab.umiak("logs", handle, "--role", "trainer").splitlines() == whole[:8]
    assert lab.umiak("logs", handle, "--role", "trainer", "--tail", "1").splitlines() == whole[4:8]
    lines = [json.loads(line) for line in lab.umiak("logs", handle, "--role", "trainer", "--json").splitlines()]
    assert [line["time_s"] for line in lines] == sorted(line["time_s"] for line in lines)
    assert lab.umiak("logs", handle, "--role", "trainer", "--since", "1h").splitlines() == whole[:8]
    follower = lab.start("logs", "-f", handle, "--role", "trainer", "--tail", "1")
    assert follower.stdout is not None
    assert [follower.stdout.readline().strip() for _ in range(4)] == whole[4:8]
    take(8, 12)
    lab.go()
    assert sorted(follower.communicate(timeout=PATIENCE_S)[0].splitlines()) == sorted(whole[8:])


def test_the_first_failure_is_the_exit_code(lab: Lab) -> None:
    handle = lab.submit("--nnodes", "3", "--", "train.py", "fail=7")
    lab.umiak("wait", handle, status=7)
    told = lab.status(handle)
    assert (told["state"], told["exit_code"]) == ("failed", 7)
    assert told["nodes"][0]["exit_code"] == 7


@pytest.mark.parametrize("roles", ["alone", "together"])
def test_servers_and_trainers_over_ssh_as_people_did_it_with_fabric(
    tmp_path: Path, network: NetworkFactory, roles: str, ssh_cluster: SshFactory
) -> None:
    """Parameter servers and trainers on hosts of a network, logs followed, a second job stopped."""
    net = network(5 if roles == "alone" else 3)
    lab = Lab(tmp_path, ssh_cluster(net.hosts[1:]), net.hosts[0])
    lab.describe(python=f'"{sys.executable}"')
    lab.umiak("hosts", "check")
    lab.umiak("hosts", "run", "--", "mkdir -p data")
    shutil.copy(WORKERS / "counting.py", lab.directory / "counting.py")
    (lab.directory / "job.yaml").write_text(
        f"name: ctr\ncommand: counting.py {lab.shared} sync --no-log\nroles: {{server: {{nodes: 2}}, trainer: {{nodes: 2}}}}\nfiles: .\n"
    )
    handle = lab.submit("job.yaml")
    output = lab.umiak("logs", "-f", handle)
    assert own_lines(output, "launcher.trainer-1")
    lab.umiak("wait", handle)
    assert [json.loads((lab.shared / f"sum.{rank}").read_text()) for rank in range(2)] == [40, 40]
    names = [node["name"] for node in lab.status(handle)["nodes"]]
    assert names == (["node1", "node2", "node3", "node4"] if roles == "alone" else ["node1", "node1", "node2", "node2"])
    (lab.directory / "job.yaml").write_text(
        "name: ctr\ncommand: train.py until=never\nroles: {server: {nodes: 2}, trainer: {nodes: 2}}\nfiles: .\n"
    )
    endless = lab.submit("job.yaml")
    lab.until_started(2)  # the servers; trainers wait until these serve
    lab.umiak("cancel", endless, "--grace", "5")
    assert lab.status(endless)["state"] == "cancelled"
    assert lab.processes() == []


# ---- whatever fails


def test_every_bad_host_is_named_and_nothing_is_started(distant: Lab) -> None:
    lab = distant
    machines = lab.cluster.machines
    machines[0].change_host_key()
    machines[1].kill()
    machines[2].disk.fill()
    machines[3].pause()
    try:
        told = lab.umiak("submit", "--nnodes", "4", "--", "train.py", status=2)
    finally:
        machines[3].resume()
    names = [each.name for each in machines]
    for host, code in zip(names, (105, 102, 107, 101), strict=True):
        assert [
            line for line in told.splitlines() if line.startswith(f"error: {host}: ") and f"UM-SUBMIT-{code}" in line
        ]
    assert "ssh-keygen -f" in told
    assert lab.starts() == []
    rows = [
        json.loads(line)
        for line in lab.umiak("hosts", "check", "--json", status=3).splitlines()
        if line.startswith("{")
    ]
    assert [row["ready"] for row in rows] == [False, False, False, True]
    assert "UM-SUBMIT-108" in lab.umiak("hosts", "check", "--host", names[3], "--framework", "jax", status=3)
    told = lab.umiak("doctor", "--only", "place", "--on", "lab", status=1)
    assert all(f"UM-SUBMIT-{code}" in told for code in (105, 102, 107))
    assert f"{names[3]}: Python 3" in told


def test_a_host_whose_key_nobody_knows_is_never_let_in(lab: Lab) -> None:
    machine = lab.cluster.machines[0]
    lab.describe(hosts=f'["root@127.0.0.1:{machine.port}"]', config='"/dev/null"', key=f'"{lab.cluster.identity}"')
    told = lab.umiak("hosts", "run", "--", "touch", str(lab.shared / "was-here"), status=3)
    assert "UM-SUBMIT-104" in told
    assert f"ssh -p {machine.port} root@127.0.0.1" in told
    assert not (lab.shared / "was-here").exists()
    lab.describe(
        hosts=f'["{sshd.PASSWORD_USER}@127.0.0.1:{machine.port}"]',
        config='"/dev/null"',
        known_hosts=f'"{lab.cluster.known_hosts}"',
        password_from='"LAB_PASSWORD"',
    )
    assert "UM-SUBMIT-114" in lab.umiak("hosts", "check", status=2)
    assert "UM-SUBMIT-103" in lab.umiak("hosts", "check", status=3, env={"LAB_PASSWORD": "wrong"})
    told = lab.umiak("hosts", "run", "--", "id", "-un", env={"LAB_PASSWORD": lab.cluster.password})
    assert sshd.PASSWORD_USER in own_lines(told, f"127.0.0.1:{machine.port}")


def test_a_host_that_dies_in_the_middle_ends_the_job_and_is_named(distant: Lab) -> None:
    """And comes back as after a reboot: a host whose disk was kept in memory only."""
    lab = distant
    handle = lab.submit("--nnodes", "4", "--", "train.py", "until=never")
    lab.until_started(4)
    lab.cluster.machines[2].kill()
    told = eventually(lambda: _over(lab, handle))
    assert told["state"] == "failed"
    assert lab.cluster.machines[2].name in told["reason"]
    (node,) = [each for each in told["nodes"] if each["name"] == lab.cluster.machines[2].name]
    assert (node["state"], "connection refused" in node["reason"]) == ("lost", True)
    others = [each for each in told["nodes"] if each is not node]
    assert [each["state"] for each in others] == ["failed"] * 3
    assert all("was lost: its connection was closed" in each["reason"] for each in others)
    lab.cluster.machines[2].start()  # it comes back, with an empty disk
    assert lab.status(handle) == told  # what is over stays over
    shutil.rmtree(lab.state)
    assert "the run's files are gone" in lab.status(handle)["reason"]  # of somebody who has not seen its end
    assert lab.processes() == []


def _over(lab: Lab, handle: str) -> dict[str, Any] | None:
    told = lab.status(handle)
    return told if told["state"] in ("succeeded", "failed", "cancelled", "lost") else None


def test_a_host_that_cannot_be_reached_for_a_while_loses_no_line(
    tmp_path: Path, network: NetworkFactory, ssh_cluster: SshFactory
) -> None:
    net = network(5)
    lab = Lab(tmp_path, ssh_cluster(net.hosts[1:]), net.hosts[0])
    handle = lab.submit("--nnodes", "4", "--", "train.py", "lines=200", f"until={lab.shared}/go", "lines=200")
    lab.until_started(4)
    output = lab.directory / "output"
    with open(output, "w") as file:
        follower = lab.start("logs", "-f", handle, stdout=file)
    eventually(lambda: "[trainer.1] line 199" in output.read_text())
    net.cut(net.hosts[0], net.hosts[2])
    told = lab.status(handle)
    assert (told["state"], told["said"]) == ("running", "unreachable")
    assert "node2" in told["reason"]
    eventually(lambda: "[umiak] node2" in output.read_text())
    lab.go()
    eventually(lambda: "[trainer.3] end" in output.read_text())
    net.heal(net.hosts[0], net.hosts[2])
    lab.umiak("wait", handle)
    assert follower.communicate(timeout=PATIENCE_S)[0] is None
    assert follower.returncode == 0
    whole = [f"line {number}" for number in range(200)]
    for rank in range(4):
        assert own_lines(output.read_text(), f"trainer.{rank}") == [f"begin trainer {rank} of 4", *whole, *whole, "end"]


def test_a_client_that_is_killed_and_repeated_starts_the_job_once(distant: Lab) -> None:
    """Killed at any moment between its first instruction and its answer; another shell goes on with the handle."""
    lab = distant
    draw = chance()
    words = ("submit", "--nnodes", "4", "--", "train.py", f"until={lab.shared}/go")
    for attempt in range(6):
        client = lab.start(*words)
        time.sleep(draw.random() * 3)  # any moment will do: nothing is expected of it
        client.send_signal(signal.SIGKILL)
        out, _ = client.communicate(timeout=PATIENCE_S)
        if out.strip():
            break
        print(f"attempt {attempt} was killed without an answer")
    else:
        lab.umiak(*words)
    (run,) = json.loads(lab.umiak("list", "--json"))
    lab.until_started(4)
    lab.go()
    lab.umiak("wait", run["handle"])
    assert lab.starts() == [f"{each.name} trainer.{rank}" for rank, each in enumerate(lab.cluster.machines)]


def test_a_run_that_restarts_its_workers_says_so(lab: Lab) -> None:
    (lab.directory / "restarted.py").write_text(submitting.RESTARTED)
    (lab.directory / "job.yaml").write_text(
        f"name: ctr\nfiles: .\ncommand: restarted.py {lab.shared}\nnodes: 2\nrestarts: 3\nenv: {{UMIAK_FAILURE_GRACE: '600'}}\n"
    )
    handle = lab.submit("job.yaml")
    eventually(lambda: lab.status(handle)["state"] == "restarting")
    told = lab.status(handle)
    assert told["reason"] == "trainer 0 failed, restart 1 of 3"
    assert [(node["state"], bool(node["host"])) for node in told["nodes"]] == [("restarting", True)] * 2
    lab.go()
    eventually((lab.shared / "life.1.1").exists)
    eventually(lambda: lab.status(handle)["state"] == "running")
    (lab.shared / "end").touch()
    lab.umiak("wait", handle)


def test_stubborn_workers_end_soon_after_a_supervisor_was_killed(lab: Lab) -> None:
    """On that host nothing is left, and it is named."""
    handle = lab.submit("--nnodes", "1", "--", "train.py", "stubborn", "until=never")
    lab.until_started(1)
    (machine,) = [each for each in lab.cluster.machines if [*each.files.glob(".umiak/runs/*/*")]]
    (run,) = machine.files.glob(".umiak/runs/*/*")
    eventually(lambda: [*run.glob("work*/seen/stubborn.0")])
    (supervisor,) = _supervisors(machine)
    os.kill(supervisor, signal.SIGKILL)
    assert lab.status(handle)["state"] == "stopping"
    eventually(lambda: not lab.processes())
    told = lab.status(handle)
    assert told["state"] == "lost"
    assert "its supervisor was killed" in told["reason"]
    (node,) = told["nodes"]
    assert (node["name"], node["exit_code"], node["reason"]) == (machine.name, 143, "received SIGTERM (15)")


def test_trainers_end_when_the_host_of_their_servers_has_lost_its_launcher(distant: Lab) -> None:
    """Killed together with its other half, so that it tells nobody."""
    lab = distant
    lab.describe(python=f'"{sys.executable}"')
    shutil.copy(WORKERS / "counting.py", lab.directory / "counting.py")
    (lab.directory / "waiting.py").write_text(
        "import sys, time, pathlib\nfrom umiak import ps\njob = ps.init('sync')\nif job.is_server:\n    sys.exit(job.serve())\n"
        "pathlib.Path(sys.argv[1], f'trainer.{job.rank}').touch()\ntime.sleep(3600)\n"
    )
    (lab.directory / "job.yaml").write_text(
        f"name: ctr\ncommand: waiting.py {lab.shared}\nroles: {{server: {{nodes: 1}}, trainer: {{nodes: 3}}}}\nfiles: .\n"
    )
    handle = lab.submit("job.yaml")
    eventually(lambda: len([*lab.shared.glob("trainer.*")]) == 3)
    for pid in _launchers(lab.cluster.machines[0]):
        with contextlib.suppress(ProcessLookupError):  # one half ends with the other
            os.kill(pid, signal.SIGKILL)
    told = eventually(lambda: _over(lab, handle))
    assert told["state"] == "failed"
    assert [each["state"] for each in told["nodes"]] == ["failed"] * 4
    assert all("UM" in each["reason"] or "was lost" in each["reason"] for each in told["nodes"][1:])
    assert lab.processes() == []


def _launchers(machine: sshd.Machine) -> list[int]:
    """Both halves of every launcher, as this machine numbers them."""
    own = os.readlink(f"/proc/{machine.pid}/ns/pid")
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if os.readlink(f"/proc/{pid}/ns/pid") == own and b"umiak.launch" in words:
                found.append(int(pid))
    return found


def _supervisors(machine: sshd.Machine) -> list[int]:
    """As this machine numbers them: those whose children are the first processes of launchers."""
    own = os.readlink(f"/proc/{machine.pid}/ns/pid")
    found = set()
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if os.readlink(f"/proc/{pid}/ns/pid") == own and b"umiak.launch" in words:
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
                if b"umiak.launch" not in Path(f"/proc/{parent}/cmdline").read_bytes():
                    found.add(parent)
    return sorted(found)


def test_a_client_that_dies_while_it_follows_comes_back_to_the_next_line(distant: Lab) -> None:
    lab = distant
    handle = lab.submit("--nnodes", "4", "--", "train.py", "lines=50", f"until={lab.shared}/go", "lines=50")
    lab.until_started(4)
    output = lab.directory / "output"
    with open(output, "w") as file:
        follower = lab.start("logs", "-f", "--json", handle, stdout=file)
    eventually(lambda: output.read_text().count('"line 49"') == 4)
    follower.kill()
    follower.communicate(timeout=PATIENCE_S)
    assert lab.status(handle)["state"] == "running"
    lab.go()
    lab.umiak("wait", handle)
    whole = [f"line {number}" for number in range(50)]
    for rank in range(4):
        lines = lab.umiak("logs", handle, "--rank", str(rank)).splitlines()
        assert lines == [f"begin trainer {rank} of 4", *whole, *whole, "end"]


def test_a_host_key_that_changes_during_a_run_is_told_and_not_trusted(distant: Lab) -> None:
    lab = distant
    handle = lab.submit("--nnodes", "4", "--", "train.py", f"until={lab.shared}/go")
    lab.until_started(4)
    changed = lab.cluster.machines[1]
    changed.change_host_key()
    told = lab.status(handle)
    assert (told["state"], told["said"]) == ("running", "unreachable")
    assert changed.name in told["reason"]
    assert "host key" in told["reason"]
    changed.change_host_key(trusted=True)  # the person has looked, and trusts it
    assert lab.status(handle)["said"] == "running"
    lab.go()
    lab.umiak("wait", handle)


def test_a_disk_that_fills_up_during_a_run_stops_nothing(distant: Lab) -> None:
    """Lines of that host may be lost; the job, and how it ended, are not."""
    lab = distant
    handle = lab.submit("--nnodes", "4", "--", "train.py", f"until={lab.shared}/go", "lines=200")
    lab.until_started(4)
    full = lab.cluster.machines[2]
    full.disk.fill()
    assert lab.status(handle)["state"] == "running"
    lab.go()
    told = eventually(lambda: _over(lab, handle))
    assert told["state"] == "succeeded", told
    assert [each["state"] for each in told["nodes"]] == ["succeeded"] * 4
    assert lab.processes() == []


# ---- secrets


def test_secrets_are_in_no_file_no_argument_and_no_output_of_the_hosts(lab: Lab) -> None:
    secret = "k5-Wq81zTtrrYw0xPLm2"
    (lab.directory / "job.yaml").write_text(
        f"name: ctr\ncommand: train.py until={lab.shared}/go\nsecrets: [PASSPORT]\nroles: {{server: {{nodes: 2}}, trainer: {{nodes: 2}}}}\n"
    )
    env = {"PASSPORT": secret, "LAB_PASSWORD": lab.cluster.password}
    lab.describe(password_from='"LAB_PASSWORD"')
    printed = lab.umiak("submit", "job.yaml", "--dry-run", env=env)
    handle = lab.submit("job.yaml", env=env)
    lab.until_started(2)  # servers; trainers may wait for them
    token = ""
    for machine in lab.cluster.machines:
        (file,) = machine.files.glob(".umiak/runs/*/*/token.json")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        token = json.loads(file.read_text())["token"]
    assert len(token) >= 32
    hidden = [secret.encode(), token.encode(), lab.cluster.password.encode()]
    arguments = command_lines().values()
    assert _holding(lab, hidden[:1] + hidden[2:]) == []
    assert {path.name for path in _holding(lab, hidden)} == {"token.json"}
    lab.go()
    lab.umiak("wait", handle, env=env)
    printed += lab.umiak("logs", handle, env=env) + lab.umiak("status", handle, "--json", env=env)
    assert [each for each in hidden if each in printed.encode()] == []
    assert [words for words in arguments if any(each in words for each in hidden)] == []
    assert _holding(lab, hidden) == []
    modes = {
        stat.S_IMODE(path.lstat().st_mode) & 0o077 for path in lab.cluster.machines[0].files.glob(".umiak/runs/*/*")
    }
    assert modes == {0}


def _holding(lab: Lab, hidden: Sequence[bytes]) -> list[Path]:
    roots = [*(machine.files for machine in lab.cluster.machines), lab.state, lab.directory]
    files = [path for root in roots for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 8
    return [path for path in files if any(each in path.read_bytes() for each in hidden)]


# ---- umiak hosts


def test_commands_and_files_on_all_hosts(lab: Lab) -> None:
    told = lab.umiak("hosts", "run", "--", "echo out $(hostname); echo err >&2; test $(hostname) != node2", status=1)
    for number in range(4):
        assert own_lines(told, f"node{number}") == [f"out node{number}", "err"]
    assert "1 of 4 hosts failed: node2 1" in told
    (lab.directory / "set").mkdir()
    (lab.directory / "set" / "a").write_text("x")
    (lab.directory / "set" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (lab.directory / "set" / "run.sh").chmod(0o755)
    lab.umiak("hosts", "put", "set", "there")
    assert own_lines(lab.umiak("hosts", "run", "--host", "node3", "--", "./there/run.sh"), "node3") == ["ran"]
    lab.umiak("hosts", "get", "there", "back")
    assert sorted(str(path.relative_to(lab.directory)) for path in lab.directory.glob("back/*/there/a")) == [
        f"back/node{number}/there/a" for number in range(4)
    ]
    assert "UM-SUBMIT-119" in lab.umiak("hosts", "put", "set", "/proc/none", status=3)
    assert "UM-SUBMIT-120" in lab.umiak("hosts", "run", "--host", "node9", "--", "true", status=2)
    assert "UM-SUBMIT-120" in lab.umiak("hosts", "check", "--on", "local", status=2)
    assert "UM-SUBMIT-118" in lab.umiak(
        "hosts", "run", "--host", "node1", "--timeout", "0.5", "--", "sleep 60", status=3
    )
    rows = [json.loads(line) for line in lab.umiak("hosts", "run", "--json", "--", "true").splitlines()]
    assert rows == [{"host": f"node{number}", "exit_code": 0, "error": None, "what": None} for number in range(4)]
