"""`umiak launch` finds itself in a real Slurm, under real mpiruns and over real ssh: started by hand, with what the place tells.

The law: what `detect` reads in the environment of node i is the cluster that was meant. It is tried with the variables that
Slurm, Open MPI and MPICH really set, and these are compared with the simulated ones of `umiak.testing.environments`.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from testbed import mpi, slurm
from testbed.pytest_support import NetworkFactory, SlurmFactory, SshFactory
from tests.support import PATIENCE_S
from tests.support.launching import WORKERS
from umiak.core.cluster import Placement
from umiak.platforms import detect
from umiak.platforms.native import environment_of
from umiak.testing.environments import ANYWHERE, environment

UMIAK = Path(sys.executable).with_name("umiak")
SUMMING = WORKERS / "summing.py"
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")

NAMES_AND_NUMBERS_OF_A_RUN = {
    *("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST", "SLURMD_NODENAME"),
    *("SLURM_JOB_NODELIST_HET_GROUP_0", "SLURM_JOB_NODELIST_HET_GROUP_1", "SLURM_LAUNCH_NODE_IPADDR"),
    *("SLURM_JOB_NUM_NODES", "OMPI_MCA_orte_hnp_uri", "PMIX_NAMESPACE", "PMI_FD", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME"),
}
"""What no simulation can know."""


class Bench:
    """A job that is started by hand: each launcher's environment is kept, and each worker writes what it found."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.records = directory / "records"
        self.found = directory / "found"
        self.records.mkdir()
        self.found.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(directory), "UMIAK_TOKEN": secrets.token_hex(16)}
        self._record = directory / "record"
        self._record.write_text(f'#!/bin/sh\nenv -0 > {self.records}/$(hostname).$$\nexec "$@"\n')
        self._record.chmod(0o700)

    def launch(self, flags: str = "") -> list[str]:
        """The words of a launcher, which must find out everything else."""
        logs = ["--log_dir", str(self.directory / "log")]
        return [str(self._record), str(UMIAK), "launch", *logs, *flags.split(), str(SUMMING), str(self.found)]

    def environments(self) -> list[dict[str, str]]:
        """What each launcher was given."""
        texts = [path.read_text() for path in self.records.iterdir()]
        return [dict(item.split("=", 1) for item in text.split("\0") if item) for text in texts]

    def results(self, role: str = "trainer") -> list[dict[str, object]]:
        """What each worker of a role found, by rank."""
        count = len(list(self.found.glob(f"{role}.*.json")))
        return [json.loads((self.found / f"{role}.{rank}.json").read_text()) for rank in range(count)]

    def batch(
        self, cluster: slurm.Cluster, script: str, *, env: Mapping[str, str] | None = None
    ) -> tuple[dict[str, str], str]:
        """Run a batch script to its end: what Slurm tells of the job, and all that it printed."""
        path = self.directory / "job.sh"
        path.write_text(f"#!/bin/bash\n{script}")
        submitted = cluster.run(
            ["sbatch", "--parsable", path], cwd=self.directory, env={**self.env, **(env or {})}, check=True
        )
        job = submitted.stdout.strip()
        ended = cluster.until(job, *ENDED)
        return ended, (self.directory / f"slurm-{job}.out").read_text()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def added_up(hosts: Sequence[str], *, servers: int = 0) -> list[dict[str, object]]:
    """What workers on these hosts find, if all have met."""
    world = len(hosts)
    return [{"host": host, "world": world, "servers": servers, "sum": world * (world + 1) // 2} for host in hosts]


def check_law(
    environments: Sequence[Mapping[str, str]],
    platform: str,
    hosts: Sequence[str],
    *,
    per_node: int = 1,
    servers: int = 0,
) -> list[Placement]:
    """What is detected is what was meant, and the simulated environment is like the real one. In rank order."""
    placements = [detect(environ) for environ in environments]
    in_order = sorted((placement.rank or 0, number) for number, placement in enumerate(placements) if placement)
    assert [rank for rank, _ in in_order] == list(range(len(hosts) * per_node))
    found = []
    for rank, number in in_order:
        real, placement = environments[number], placements[number]
        simulated = environment(platform, len(hosts), rank, per_node=per_node, servers=servers)
        likeness = detect(simulated)
        assert placement is not None
        assert likeness is not None
        for field in ("platform", "nodes", "rank", "role", "workers", "local_rank", "local_size"):
            assert getattr(placement, field) == getattr(likeness, field), field
        assert placement.hosts == (tuple(hosts) if likeness.hosts else ())
        assert (placement.master is None) == (likeness.master is None)
        told = {name: simulated[name] for name in simulated.keys() - ANYWHERE.keys()}
        assert told.keys() <= real.keys(), told.keys() - real.keys()
        differing = {name for name, value in told.items() if real[name] != value}
        assert differing <= NAMES_AND_NUMBERS_OF_A_RUN, {name: real[name] for name in differing}
        found.append(placement)
    return found


# ---- Slurm


@pytest.mark.slurm
def test_one_launcher_per_node_of_a_step_that_leaves_a_node_out(slurm_cluster: SlurmFactory, bench: Bench) -> None:
    cluster = slurm_cluster(3)
    script = f"#SBATCH --nodes=3 --ntasks-per-node=1\nsrun --nodes=2 --ntasks=2 {' '.join(bench.launch())}\n"
    ended, output = bench.batch(cluster, script)
    assert ended["ExitCode"] == "0:0", output
    assert bench.results() == added_up(["node0", "node1"])
    for placement in check_law(bench.environments(), "slurm", ["node0", "node1"]):
        assert placement.master == f"node0:{20000 + int(ended['JobId'])}"
        assert placement.host == f"node{placement.rank}"
        assert placement.job_id == ended["JobId"]


@pytest.mark.slurm
def test_one_launcher_per_task(slurm_cluster: SlurmFactory, bench: Bench) -> None:
    cluster = slurm_cluster(2)
    ended, output = bench.batch(cluster, f"#SBATCH --nodes=2 --ntasks-per-node=2\nsrun {' '.join(bench.launch())}\n")
    assert ended["ExitCode"] == "0:0", output
    assert bench.results() == added_up(["node0", "node0", "node1", "node1"])
    check_law(bench.environments(), "slurm", ["node0", "node1"], per_node=2)


SERVERS_LAST = """\
#SBATCH --nodelist=node3 --ntasks-per-node=1
#SBATCH hetjob
#SBATCH --nodelist=node[0,2] --ntasks-per-node=1
"""


@pytest.mark.slurm
def test_components_of_a_heterogeneous_job_are_one_cluster_in_their_order(
    slurm_cluster: SlurmFactory, bench: Bench
) -> None:
    """Slurm lists the nodes by name, and numbers them component by component."""
    cluster = slurm_cluster(4)
    ended, output = bench.batch(cluster, f"{SERVERS_LAST}srun --het-group=0,1 {' '.join(bench.launch())}\n")
    assert ended["ExitCode"] == "0:0", output
    assert bench.results() == added_up(["node3", "node0", "node2"])
    placements = sorted((detect(environ) for environ in bench.environments()), key=lambda found: found.rank)  # type: ignore[union-attr]
    assert [placement.hosts for placement in placements if placement] == [("node3", "node0", "node2")] * 3


@pytest.mark.slurm
def test_uneven_tasks_of_a_heterogeneous_job(slurm_cluster: SlurmFactory, bench: Bench) -> None:
    cluster = slurm_cluster(4)
    uneven = SERVERS_LAST.replace("[0,2] --ntasks-per-node=1", "[0,2] --ntasks-per-node=2")
    ended, output = bench.batch(cluster, f"{uneven}srun --het-group=0,1 {' '.join(bench.launch())}\n")
    assert ended["ExitCode"] == "0:0", output
    assert bench.results() == added_up(["node3", "node0", "node0", "node2", "node2"])
    placements = [placement for environ in bench.environments() if (placement := detect(environ))]
    sizes = {placement.rank: (placement.local_rank, placement.local_size) for placement in placements}
    assert sizes == {0: (0, 1), 1: (0, 2), 2: (1, 2), 3: (0, 2), 4: (1, 2)}
    assert {placement.master for placement in placements} == {f"node3:{20000 + int(ended['JobId'])}"}


@pytest.mark.slurm
def test_parameter_servers_in_a_heterogeneous_job(slurm_cluster: SlurmFactory, bench: Bench) -> None:
    cluster = slurm_cluster(4)
    script = f"{SERVERS_LAST}srun --het-group=0,1 {' '.join(bench.launch())}\n"
    ended, output = bench.batch(cluster, script, env={"UMIAK_SLURM_GROUPS": "ps,worker"})
    assert ended["ExitCode"] == "0:0", output
    assert bench.results("trainer") == added_up(["node0", "node2"], servers=1)
    assert bench.results("server") == [{"host": "node3", "world": 2, "servers": 1, "sum": 3}]
    check_law(bench.environments(), "slurm", ["node3", "node0", "node2"], servers=1)


@pytest.mark.slurm
def test_a_component_that_was_not_started_is_told(slurm_cluster: SlurmFactory, bench: Bench) -> None:
    cluster = slurm_cluster(4)
    script = f"{SERVERS_LAST}srun {' '.join(bench.launch())}\n"
    ended, output = bench.batch(cluster, script, env={"UMIAK_SLURM_GROUPS": "ps,worker"})
    assert ended["ExitCode"] == "2:0", output
    assert "2 components are named, but this step runs 1: ps,worker" in output
    assert "srun --het-group=0,1" in output


@pytest.mark.slurm
@pytest.mark.mpi
def test_mpirun_inside_a_slurm_allocation(slurm_cluster: SlurmFactory, bench: Bench) -> None:
    cluster = slurm_cluster(2)
    mpirun = "mpirun.openmpi --allow-run-as-root --map-by ppr:1:node -n 2 -x UMIAK_TOKEN"
    ended, output = bench.batch(
        cluster, f"#SBATCH --nodes=2 --ntasks-per-node=1\n{mpirun} {' '.join(bench.launch())}\n"
    )
    assert ended["ExitCode"] == "0:0", output
    assert bench.results() == added_up(["node0", "node1"])
    assert all("SLURM_JOB_ID" in environ for environ in bench.environments())
    assert {placement.platform for environ in bench.environments() if (placement := detect(environ))} == {"openmpi"}


# ---- MPI


@pytest.mark.mpi
@pytest.mark.parametrize("per_host", [1, 2])
def test_open_mpi(mpi_cluster: mpi.Cluster, bench: Bench, per_host: int) -> None:
    done = mpi_cluster.run(
        *("openmpi", ["-x", "UMIAK_TOKEN", *bench.launch()]),
        per_host=per_host,
        env=bench.env,
        cwd=bench.directory,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert bench.results() == added_up([f"node{number // per_host}" for number in range(2 * per_host)])
    for placement in check_law(bench.environments(), "openmpi", ["node0", "node1"], per_node=per_host):
        assert (placement.master or "").startswith("10.88.0.1:")


@pytest.mark.mpi
@pytest.mark.parametrize("per_host", [1, 2])
def test_mpich(mpi_cluster: mpi.Cluster, bench: Bench, per_host: int) -> None:
    """Hydra tells everything but where rank 0 is."""
    done = mpi_cluster.run(
        *("mpich", bench.launch("--master node0:7000")),
        per_host=per_host,
        env=bench.env,
        cwd=bench.directory,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert bench.results() == added_up([f"node{number // per_host}" for number in range(2 * per_host)])
    check_law(bench.environments(), "mpich", ["node0", "node1"], per_node=per_host)


# ---- ssh


@pytest.mark.ssh
@pytest.mark.netns
def test_ssh(network: NetworkFactory, ssh_cluster: SshFactory, bench: Bench) -> None:
    """Nothing tells a node anything but the command; the token comes over standard input."""
    net = network(3)
    client, *nodes = net.hosts
    cluster = ssh_cluster(nodes)
    names = tuple(host.name for host in nodes)
    sessions = []
    for rank, machine in enumerate(cluster.machines):
        meant = Placement(
            platform="umiak", reason="", nodes=2, rank=rank, hosts=names, master="node1:7000", host=machine.name
        )
        words = [f"{name}={value}" for name, value in environment_of(meant).items()]
        script = 'read -r UMIAK_TOKEN; export UMIAK_TOKEN; cd "$1"; shift; exec env "$@"'
        command = cluster.command(machine, "sh", "-c", script, "sh", bench.directory, *words, *bench.launch())
        pipe = subprocess.PIPE
        sessions.append((client.popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT), meant))
    for session, _ in sessions:
        assert session.stdin is not None
        session.stdin.write(f"{bench.env['UMIAK_TOKEN']}\n")
        session.stdin.flush()
    for session, _ in sessions:
        output, _ = session.communicate(timeout=PATIENCE_S)
        assert session.returncode == 0, output
    assert bench.results() == added_up(names)
    placements = sorted((detect(environ) for environ in bench.environments()), key=lambda found: found.rank)  # type: ignore[union-attr]
    for placement, (_, meant) in zip(placements, sessions, strict=True):
        assert placement is not None
        for field in ("nodes", "rank", "hosts", "master", "host"):
            assert getattr(placement, field) == getattr(meant, field)
