"""The testbed's sshd, Slurm and MPI keep their word: they behave as on real machines, and nothing is left behind."""

from __future__ import annotations

import json
import os
import pty
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed import images, mpi, prepare, processes, pytest_support, slurm, sshd
from testbed.pytest_support import NetworkFactory, SlurmFactory, SshFactory
from tests.support import PATIENCE_S
from tests.support.launching import until
from tests.support.paths import ROOT


def ssh(
    cluster: sshd.Cluster, number: int, *words: str, run: Callable[..., subprocess.CompletedProcess[str]] | None = None
) -> subprocess.CompletedProcess[str]:
    command = cluster.command(cluster.machines[number], *words)
    if run is not None:
        return run(command, timeout=PATIENCE_S)
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)


def answer(port: int) -> bytes:
    """What the server at this port of loopback says first."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        return connection.recv(100)


def leave_no_owner(program: str) -> dict[str, str]:
    """Run a program that uses the testbed, kill it with SIGKILL once it has printed what it has as JSON, and return that."""
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        told: dict[str, str] = json.loads(owner.stdout.readline())
        owner.kill()
    return told


def mentioning(text: str) -> list[int]:
    """Processes with this text in their command."""
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if text.encode() in command_of(entry)]


def command_of(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return b""


# ---- ssh


@pytest.mark.ssh
def test_each_machine_of_loopback_is_one_of_its_own(ssh_cluster: SshFactory) -> None:
    accounts = Path("/etc/passwd").read_text()
    cluster = ssh_cluster(3)
    for number, machine in enumerate(cluster.machines):
        done = ssh(cluster, number, "sh", "-c", "hostname; pwd; echo $$ > here; whoami")
        assert done.stdout.split() == [f"node{number}", str(machine.home), "root"], done.stderr
        assert (machine.files / "here").exists()
    assert len({machine.port for machine in cluster.machines}) == 3
    assert not list(cluster.machines[0].home.iterdir()), "the real machine sees nothing"
    assert Path("/etc/passwd").read_text() == accounts


@pytest.mark.ssh
def test_many_machines_answer(ssh_cluster: SshFactory) -> None:
    cluster = ssh_cluster(64)
    assert all(answer(machine.port).startswith(b"SSH-2.0-") for machine in cluster.machines)
    assert ssh(cluster, 63, "hostname").stdout == "node63\n"


@pytest.mark.ssh
def test_an_account_with_a_password(ssh_cluster: SshFactory, tmp_path: Path) -> None:
    cluster = ssh_cluster(1)
    ask = tmp_path / "ask"
    ask.write_text(f"#!/bin/sh\necho {cluster.password}\n")
    ask.chmod(0o700)
    command = [
        "ssh",
        "-F",
        cluster.config,
        "-o",
        "PubkeyAuthentication=no",
        "-l",
        sshd.PASSWORD_USER,
        "node0",
        "id -un",
    ]
    for password, expected in {cluster.password: "trainer\n", "wrong": ""}.items():
        ask.write_text(f"#!/bin/sh\necho {password}\n")
        env = {**os.environ, "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL
        )
        assert done.stdout == expected, done.stderr


@pytest.mark.ssh
def test_a_changed_host_key_is_noticed(ssh_cluster: SshFactory) -> None:
    cluster = ssh_cluster(2)
    first, _ = cluster.machines
    first.change_host_key()
    refused = ssh(cluster, 0, "true")
    assert (refused.returncode, "REMOTE HOST IDENTIFICATION HAS CHANGED" in refused.stderr) == (255, True)
    assert ssh(cluster, 1, "true").returncode == 0
    first.change_host_key(trusted=True)
    assert ssh(cluster, 0, "true").returncode == 0


@pytest.mark.ssh
def test_what_was_detached_outlives_the_session_and_dies_with_the_machine(ssh_cluster: SshFactory) -> None:
    cluster = ssh_cluster(2)
    machine = cluster.machines[0]
    marker = f"sleep 1{machine.port}.25"
    ssh(cluster, 0, "sh", "-c", f"setsid {marker} >/dev/null 2>&1 & echo")
    (daemon,) = until(lambda: mentioning(marker.replace(" ", "\0")), "the daemon runs")
    machine.kill()
    until(
        lambda: not Path(f"/proc/{daemon}/cmdline").exists() or not mentioning(marker.replace(" ", "\0")), "it has died"
    )
    refused = ssh(cluster, 0, "true")
    assert (refused.returncode, "Connection refused" in refused.stderr) == (255, True)
    machine.start()
    assert ssh(cluster, 0, "hostname").stdout == "node0\n"


@pytest.mark.ssh
def test_a_paused_sshd_takes_connections_and_says_nothing(ssh_cluster: SshFactory) -> None:
    (machine,) = ssh_cluster(1).machines
    machine.pause()
    with socket.create_connection((machine.address, machine.port), timeout=10) as connection:
        assert not select.select([connection], [], [], 0.5)[0]
        machine.resume()
        assert connection.recv(100).startswith(b"SSH-2.0-")


@pytest.mark.ssh
def test_a_full_disk(ssh_cluster: SshFactory) -> None:
    cluster = ssh_cluster(2, disk_kib=4096)
    cluster.machines[0].disk.fill()
    write = ["cp", "/etc/passwd", "file"]
    assert "No space left on device" in ssh(cluster, 0, *write).stderr
    assert ssh(cluster, 1, *write).returncode == 0
    cluster.machines[0].disk.make_room()
    assert ssh(cluster, 0, *write).returncode == 0


@pytest.mark.ssh
def test_a_terminal_leaves_no_trace_in_the_real_logs(ssh_cluster: SshFactory) -> None:
    cluster = ssh_cluster(1)
    logs = [Path("/var/log", name) for name in ("wtmp", "lastlog", "btmp")]
    before = [path.stat().st_mtime_ns if path.exists() else None for path in logs]
    ours, theirs = pty.openpty()
    command = ["ssh", "-tt", "-F", cluster.config, "node0", "tty"]
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=PATIENCE_S)
    os.close(ours)
    os.close(theirs)
    assert done.stdout.startswith("/dev/pts/"), done.stderr
    assert [path.stat().st_mtime_ns if path.exists() else None for path in logs] == before


@pytest.mark.ssh
@pytest.mark.netns
def test_hosts_with_sshd_can_be_cut_and_killed(network: NetworkFactory, ssh_cluster: SshFactory) -> None:
    net = network(3)
    client, first, second = net.hosts
    cluster = ssh_cluster(net.hosts[1:])
    assert [ssh(cluster, number, "hostname", run=client.run).stdout for number in (0, 1)] == ["node1\n", "node2\n"]
    quickly = ["-o", "ConnectTimeout=1"]
    net.cut(client, first)
    command = cluster.command(cluster.machines[0], "true")
    lost = client.run([command[0], *quickly, *command[1:]], timeout=PATIENCE_S)
    assert (lost.returncode, "timed out" in lost.stderr) == (255, True)
    net.heal(client, first)
    second.kill()
    assert "Connection refused" in ssh(cluster, 1, "true", run=client.run).stderr
    second.start()
    cluster.machines[1].start()
    assert ssh(cluster, 1, "hostname", run=client.run).stdout == "node2\n"


OWNER_OF_SSHD = """
import json, subprocess, time
from testbed import sshd
with sshd.on_loopback(2) as cluster:
    first = cluster.machines[0]
    subprocess.run(cluster.command(first, "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &"), check=True)
    print(json.dumps({"directory": str(cluster.config.parent), "port": str(first.port)}), flush=True)
    time.sleep(1000)
"""


@pytest.mark.ssh
def test_nothing_is_left_when_the_owner_of_machines_is_killed() -> None:
    pytest_support.require(sshd.available())
    mounts = Path("/proc/self/mountinfo").read_text()
    told = leave_no_owner(OWNER_OF_SSHD)
    until(lambda: not Path(told["directory"]).exists(), "the directory is gone")
    until(lambda: not mentioning(told["directory"]), "no sshd is left")
    with pytest.raises(ConnectionRefusedError):
        answer(int(told["port"]))
    assert Path("/proc/self/mountinfo").read_text() == mounts


# ---- Slurm


def submit(cluster: slurm.Cluster, directory: Path, script: str, *flags: str) -> str:
    """Hand a batch script to Slurm, and return the job's number."""
    path = directory / "job.sh"
    path.write_text(f"#!/bin/bash\n{script}")
    return cluster.run(["sbatch", "--parsable", *flags, path], cwd=directory, check=True).stdout.strip()


@pytest.mark.slurm
def test_slurm_runs_a_job_on_all_nodes_and_tells_how_it_ended(slurm_cluster: SlurmFactory, tmp_path: Path) -> None:
    cluster = slurm_cluster(2)
    job = submit(cluster, tmp_path, "srun hostname\nexit 7", "--nodes=2")
    ended = cluster.until(job, "FAILED", "COMPLETED")
    assert (ended["JobState"], ended["ExitCode"], ended["NodeList"]) == ("FAILED", "7:0", "node[0-1]")
    assert sorted((tmp_path / f"slurm-{job}.out").read_text().split()) == ["node0", "node1"]
    absent = cluster.run(["sacct"])
    assert (absent.returncode, absent.stderr) == (1, "Slurm accounting storage is disabled\n")
    assert f"{job} " in cluster.run(["sacct", "--completion", "--noheader"]).stdout


@pytest.mark.slurm
def test_slurm_cancels_and_requeues(slurm_cluster: SlurmFactory, tmp_path: Path) -> None:
    cluster = slurm_cluster(1, settings={"KillWait": 1})
    job = submit(cluster, tmp_path, "echo $SLURM_RESTART_COUNT started; sleep 1000", "--open-mode=append")
    output = tmp_path / f"slurm-{job}.out"
    until(lambda: output.exists() and "started" in output.read_text(), "the job runs")
    cluster.run(["scontrol", "requeue", job], check=True)
    until(lambda: "1 started" in output.read_text(), "the job runs again")
    assert cluster.job(job)["Restarts"] == "1"
    assert job in cluster.run(["squeue", "--noheader"]).stdout
    cluster.run(["scancel", job], check=True)
    cluster.until(job, "CANCELLED")


@pytest.mark.slurm
def test_slurm_signals_before_a_time_limit(slurm_cluster: SlurmFactory, tmp_path: Path) -> None:
    cluster = slurm_cluster(1)
    script = "trap 'echo warned; exit 5' USR1\necho started\nwhile true; do sleep 0.1; done"
    job = submit(cluster, tmp_path, script, "--time=1", "--signal=B:USR1@60")
    assert cluster.until(job, "FAILED", "TIMEOUT")["ExitCode"] == "5:0"
    lines = (tmp_path / f"slurm-{job}.out").read_text().splitlines()
    # Slurm's own words, if the script ends between the signal and the one that should wake it up.
    assert [line for line in lines if not line.startswith("slurmstepd")] == ["started", "warned"]


@pytest.mark.slurm
def test_slurm_runs_heterogeneous_jobs(slurm_cluster: SlurmFactory, tmp_path: Path) -> None:
    cluster = slurm_cluster(3)
    script = "#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=2\nsrun --label --het-group=0,1 hostname"
    job = submit(cluster, tmp_path, script)
    cluster.until(job, "COMPLETED")
    assert sorted((tmp_path / f"slurm-{job}.out").read_text().splitlines()) == ["0: node0", "1: node1", "2: node2"]


@pytest.mark.slurm
def test_a_job_outlives_the_controller(slurm_cluster: SlurmFactory, tmp_path: Path) -> None:
    cluster = slurm_cluster(2, settings={"MessageTimeout": 3})
    job = submit(cluster, tmp_path, "echo started; sleep 1000", "--nodelist=node1")
    output = tmp_path / f"slurm-{job}.out"
    until(lambda: output.exists() and "started" in output.read_text(), "the job runs")
    cluster.stop_controller()
    assert cluster.run(["squeue"], timeout=PATIENCE_S).returncode != 0
    cluster.start_controller()
    assert cluster.until(job, "RUNNING")["Restarts"] == "0"


@pytest.mark.slurm
def test_slurm_notices_a_lost_node(slurm_cluster: SlurmFactory, tmp_path: Path) -> None:
    cluster = slurm_cluster(2, settings={"SlurmdTimeout": 10, "MessageTimeout": 3})
    job = submit(cluster, tmp_path, "echo started; sleep 1000", "--nodelist=node1", "--no-requeue")
    output = tmp_path / f"slurm-{job}.out"
    until(lambda: output.exists() and "started" in output.read_text(), "the job runs")
    cluster.hosts[1].power_off()
    cluster.until(job, "NODE_FAIL")


OWNER_OF_SLURM = """
import json, subprocess, time
from testbed import hosts, slurm
with hosts.network(2) as net, slurm.cluster(net.hosts) as cluster:
    net.hosts[0].popen(["srun", "--nodes=2", "sleep", "1000.125"], env={**__import__("os").environ, **cluster.env})
    while cluster.run(["squeue", "--noheader", "--format=%T"]).stdout.strip() != "RUNNING":
        time.sleep(0.05)
    print(json.dumps({"directory": str(cluster.directory)}), flush=True)
    time.sleep(1000)
"""


@pytest.mark.slurm
def test_nothing_is_left_when_the_owner_of_slurm_is_killed() -> None:
    pytest_support.require(slurm.available())
    directory = leave_no_owner(OWNER_OF_SLURM)["directory"]
    until(lambda: not Path(directory).exists(), "the directory is gone")
    until(lambda: not mentioning(directory), "no daemon is left")
    until(lambda: not mentioning("sleep\x001000.125"), "no task is left")


# ---- MPI


@pytest.mark.mpi
@pytest.mark.parametrize("family", ["openmpi", "mpich"])
def test_mpirun_starts_processes_on_every_host(mpi_cluster: mpi.Cluster, family: mpi.Family) -> None:
    done = mpi_cluster.run(family, ["hostname"], per_host=2, timeout=PATIENCE_S)
    assert sorted(done.stdout.split()) == ["node0", "node0", "node1", "node1"], done.stderr
    assert mpi_cluster.run(family, ["false"], timeout=PATIENCE_S).returncode == 1


# ---- all of them


@pytest.mark.ssh
@pytest.mark.slurm
@pytest.mark.mpi
@pytest.mark.parametrize(
    ("words", "typed", "printed"),
    [
        ("ssh 2", "ssh node1 hostname", ["node1"]),
        ("slurm 2", "srun --nodes=1 --nodelist=node1 hostname", ["node1"]),
        (
            "mpi 2",
            "openmpi --map-by ppr:1:node -n 2 hostname </dev/null; mpich -ppn 1 -n 2 hostname",
            ["node0", "node0", "node1", "node1"],
        ),
    ],
)
def test_a_shell_beside_a_cluster(words: str, typed: str, printed: list[str]) -> None:
    pytest_support.require(slurm.available() or mpi.available())
    command = [sys.executable, "-m", "testbed", *words.split()]
    done = subprocess.run(
        command, cwd=ROOT, input=f"{typed} </dev/null\nexit 5\n", capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 5, done.stderr
    assert sorted(done.stdout.split()) == printed, done.stderr


def test_everything_that_the_testbed_runs_has_a_package() -> None:
    for module in (images, sshd, slurm):
        assert module.TOOLS.items() <= prepare.PACKAGES.items()
    assert {package for _, package in mpi.TOOLS.values()} <= set(prepare.PACKAGES.values())


def test_what_a_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # While tests run, another process may build these, for longer than a test may take.
    monkeypatch.setattr(prepare.programs, "build", lambda _product: None)
    monkeypatch.setattr(processes, "program", lambda name: None if name == "slurmd" else f"/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert prepare.main() == 0
    assert capsys.readouterr().err == (
        "testbed: please install slurmd; without them tests on real clusters are skipped\n"
    )
    assert slurm.available.__wrapped__() == "the testbed's Slurm needs the command `slurmd`: install slurmd"


def test_installing_packages_starts_no_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Debian's packages ask a program first; a machine that has one of its own keeps it."""
    policy = tmp_path / "policy-rc.d"
    answers: list[int] = []

    def installed(command: list[str], **_how: object) -> None:
        answers.append(subprocess.call([policy]))

    monkeypatch.setattr(prepare, "SERVICES", policy)
    monkeypatch.setattr(prepare.programs, "build", lambda _product: None)
    monkeypatch.setattr(processes, "program", lambda _name: None)
    monkeypatch.setattr(prepare.shutil, "which", lambda _name: "/usr/bin/apt-get")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(prepare.subprocess, "run", installed)
    assert prepare.main() == 0
    assert set(answers) == {101}
    assert not policy.exists()
    policy.write_text("#!/bin/sh\nexit 104\n")
    policy.chmod(0o755)
    answers.clear()
    assert prepare.main() == 0
    assert set(answers) == {104}
    assert policy.exists()
