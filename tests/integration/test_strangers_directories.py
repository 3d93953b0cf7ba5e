"""Directories of runs in which another user has a hand: on real ssh hosts, a real Slurm and real mpiruns, nothing of theirs is ever run."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import hosts, mpi, slurm, sshd
from testbed.pytest_support import SshFactory, require
from tests.integration.test_submit_mpi import OnHost
from tests.integration.test_submit_slurm import OnCluster
from tests.integration.test_submit_ssh import Lab
from tests.support import eventually
from tests.support.cluster_desks import ClusterDesk
from umiak.submit.payload import launcher_file

STRANGER = 4711
"""No account of this machine: some other person's."""


def forged(evidence: Path, size_bytes: int = 0) -> bytes:
    """A launcher that says who has run it. With a size it has just that many bytes: Python skips what is before a zip file."""
    made = io.BytesIO()
    program = f'import os\nopen({str(evidence)!r}, "a").write(f"{{os.geteuid()}}\\n")\nprepare_agent = print\n'
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("__main__.py", program)
    return b"#" * (size_bytes - len(made.getvalue())) + made.getvalue()


def tree_of_a_stranger(root: Path, evidence: Path) -> None:
    """What somebody else has made first, with a launcher of the right name and size in it, and open to all."""
    built = launcher_file.find()
    for name in ("launchers", "files", "runs"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "launchers" / f"{built.sha256}.pyz").write_bytes(forged(evidence, built.size_bytes))
    give_away(root, mode=0o777)


def give_away(root: Path, mode: int | None = None) -> None:
    for path in (root, *root.rglob("*")):
        if mode is not None and not path.is_symlink():
            path.chmod(mode)
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)


# ---- ssh


@pytest.fixture
def lab(tmp_path: Path, ssh_cluster: SshFactory) -> Lab:
    return Lab(tmp_path, ssh_cluster(2))


@pytest.mark.ssh
def test_a_launcher_in_a_strangers_tree_never_runs_over_ssh(lab: Lab, tmp_path: Path) -> None:
    root, evidence = lab.shared / "umiak", tmp_path / "ran"
    tree_of_a_stranger(root, evidence)
    lab.describe(directory=f'"{root}"')
    told = lab.umiak("submit", "--nnodes", "2", "--", "train.py", status=3)
    assert "UM-SUBMIT-350" in told
    assert f"because: {root} belongs to uid {STRANGER} (mode 0777)" in told
    assert f'trusted_directories = ["{root}"]' in told
    for words in (("hosts", "check"), ("hosts", "clean"), ("status", "ssh://lab/ctr-3f2a9c")):
        assert f"{root} belongs to uid {STRANGER}" in lab.umiak(*words, status=None)
    assert not evidence.exists()


@pytest.mark.ssh
def test_an_own_launcher_that_is_not_what_was_built_is_replaced(lab: Lab, tmp_path: Path) -> None:
    """By its hash, not by its size; in a directory below one that everybody can write to, as /tmp is."""
    evidence, public = tmp_path / "ran", lab.shared / "public"
    public.mkdir()
    public.chmod(0o1777)
    built = launcher_file.find()
    launchers = public / "mine" / "launchers"
    launchers.mkdir(parents=True)
    kept = launchers / f"{built.sha256}.pyz"
    kept.write_bytes(forged(evidence, built.size_bytes))
    (launchers / f"{'0' * 64}.pyz").write_bytes(b"of another version")
    lab.describe(directory=f'"{public}/mine"')
    handle = lab.submit("--nnodes", "2", "--", "train.py")
    lab.umiak("wait", handle)
    assert kept.read_bytes() == Path(built.path).read_bytes()
    assert not evidence.exists()


@pytest.mark.ssh
@pytest.mark.parametrize("kind", ["group", "everybody", "link", "launcher"])
def test_every_step_on_the_way_is_looked_at(lab: Lab, tmp_path: Path, kind: str) -> None:
    evidence, above = tmp_path / "ran", lab.shared / "above"
    root = above / "umiak"
    (root / "launchers").mkdir(parents=True)
    built = launcher_file.find()
    kept = root / "launchers" / f"{built.sha256}.pyz"
    kept.write_bytes(forged(evidence, built.size_bytes))
    match kind:
        case "group":
            os.chown(above, 0, STRANGER)
            above.chmod(0o775)
            why = f"{above} can be written by group {STRANGER} (mode 0775)"
        case "everybody":
            above.chmod(0o777)
            why = f"{above} can be written by everybody (mode 0777)"
        case "link":
            real = root.rename(lab.shared / "real")
            root.symlink_to(real)
            os.chown(root, STRANGER, STRANGER, follow_symlinks=False)
            why = f"{root} belongs to uid {STRANGER}"
        case _:
            kept.write_bytes(Path(built.path).read_bytes())  # as it was sent, until its owner changes it
            os.chown(kept, STRANGER, STRANGER)
            why = f"{kept} belongs to uid {STRANGER}"
    lab.describe(directory=f'"{root}"')
    told = lab.umiak("submit", "--", "train.py", status=3)
    assert why in told
    assert not evidence.exists()
    if kind in ("group", "everybody"):
        kept.unlink()
        lab.describe(directory=f'"{root}"', trusted_directories=f'["{above}"]')
        lab.umiak("wait", lab.submit("--", "train.py"))


@pytest.mark.ssh
def test_an_own_link_to_another_disk_is_followed(lab: Lab) -> None:
    real = lab.shared / "large" / "umiak"
    real.mkdir(parents=True)
    (lab.shared / "umiak").symlink_to(real)
    lab.describe(directory=f'"{lab.shared}/umiak"')
    lab.umiak("wait", lab.submit("--", "train.py"))
    assert [path.suffix for path in (real / "launchers").iterdir()] == [".pyz"]


@pytest.mark.ssh
def test_what_is_said_in_a_strangers_run_directory_is_not_believed(lab: Lab) -> None:
    """It could name any process of the user's as the run's supervisor, which a cancel would end."""
    handle = lab.submit("--", "train.py", "until=never")
    lab.until_started(1)
    machine = lab.cluster.machines[0]
    (run,) = machine.files.glob(".umiak/runs/*/*")
    os.chown(run, STRANGER, STRANGER)
    assert f"{run.name} belongs to uid {STRANGER}" in lab.umiak("cancel", handle, status=3)
    assert lab.processes() != []
    os.chown(run, 0, 0)
    lab.umiak("cancel", handle)
    eventually(lambda: lab.processes() == [])


@pytest.mark.ssh
def test_a_user_who_is_not_root_trusts_root_and_nobody_else(lab: Lab, tmp_path: Path) -> None:
    machine, public = lab.cluster.machines[0], Path(tempfile.mkdtemp())  # tmp_path is root's alone
    public.chmod(0o755)
    root, evidence = public / "umiak", public / "found" / "ran"
    tree_of_a_stranger(root, evidence)
    evidence.parent.mkdir()
    evidence.parent.chmod(0o777)
    place = {
        "hosts": f'["{sshd.PASSWORD_USER}@127.0.0.1:{machine.port}"]',
        "config": '"/dev/null"',
        "known_hosts": f'"{lab.cluster.known_hosts}"',
        "password_from": '"LAB_PASSWORD"',
    }
    password = {"LAB_PASSWORD": lab.cluster.password}
    try:
        lab.describe(**place, directory=f'"{root}"')
        assert f"{root} belongs to uid {STRANGER}" in lab.umiak("submit", "--", "train.py", status=3, env=password)
        assert not evidence.exists()
        lab.describe(**place, directory=f'"{tmp_path}/umiak"')
        assert "UM-SUBMIT-109" in lab.umiak("submit", "--", "train.py", status=2, env=password)
        (public / "mine").mkdir()  # below directories of root
        os.chown(public / "mine", sshd.PASSWORD_USER_ID, sshd.PASSWORD_USER_ID)
        lab.describe(**place, directory=f'"{public}/mine"')
        lab.umiak("wait", lab.submit("--", "train.py", env=password), env=password)
    finally:
        shutil.rmtree(public)


# ---- Slurm


@pytest.fixture(scope="module")
def slurm_cluster() -> Iterator[slurm.Cluster]:
    require(slurm.available())
    with hosts.network(2) as net, slurm.cluster(net.hosts) as opened:
        yield opened


def slurm_desk(directory: Path, cluster: slurm.Cluster, more: str = "") -> ClusterDesk:
    return ClusterDesk(directory, f'backend = "slurm"\npython = "{sys.executable}"\n{more}', OnCluster(cluster))


@pytest.mark.slurm
def test_a_launcher_in_a_strangers_tree_never_runs_under_slurm(tmp_path: Path, slurm_cluster: slurm.Cluster) -> None:
    desk, evidence = slurm_desk(tmp_path, slurm_cluster), tmp_path / "ran"
    tree_of_a_stranger(desk.shared, evidence)
    told = desk.umiak("submit", "--on", "hpc", "--nnodes", "2", "--", "train.py", status=3)
    assert "UM-SUBMIT-350" in told
    assert f"because: {desk.shared} belongs to uid {STRANGER} (mode 0777)" in told
    assert "UM-SUBMIT-350" in desk.umiak("status", "slurm://hpc/ctr-3f2a9c", status=3)
    assert not evidence.exists()
    assert slurm_cluster.run(["squeue", "--noheader"]).stdout == ""


@pytest.mark.slurm
@pytest.mark.parametrize("kind", ["taken over", "exchanged", "damaged", "working directory"])
def test_what_has_changed_since_the_job_was_submitted_never_runs_under_slurm(
    tmp_path: Path, slurm_cluster: slurm.Cluster, kind: str
) -> None:
    """Hours may be between: each node looks for itself."""
    desk, evidence = slurm_desk(tmp_path, slurm_cluster, 'arguments = ["--hold"]'), tmp_path / "ran"
    handle = desk.submit("--nnodes", "2", "--", "train.py")
    run = desk.run_directory(handle)
    (launcher,) = (desk.shared / "launchers").iterdir()
    launcher.write_bytes(forged(evidence))
    if kind == "taken over":
        give_away(desk.shared)
        code, why = "UM-SUBMIT-350", f"{desk.shared} belongs to uid {STRANGER}"
    elif kind == "exchanged":
        (run / "node.sh").write_text(f"#!/bin/sh\ntouch {evidence}\n")
        os.chown(run / "node.sh", STRANGER, STRANGER)
        launcher.write_bytes(Path(launcher_file.find().path).read_bytes())
        code, why = "UM-SUBMIT-350", f"{run}/node.sh belongs to uid {STRANGER}"
    elif kind == "working directory":
        (desk.directory / "train.py").write_text(f"open({str(evidence)!r}, 'w')")
        give_away(desk.directory)
        launcher.write_bytes(Path(launcher_file.find().path).read_bytes())
        code, why = "UM-SUBMIT-350", f"{desk.directory} belongs to uid {STRANGER}"
    else:
        code, why = "UM-SUBMIT-351", "its content hash is "
    slurm_cluster.run(["scontrol", "release", slurm_cluster.run(["squeue", "-h", "-o", "%A"]).stdout.strip()])
    eventually(lambda: slurm_cluster.run(["squeue", "--noheader"]).stdout == "")
    give_back(desk.shared)
    give_back(desk.directory)
    log = (run / "log" / "job.log").read_text()
    assert code in log
    assert why in log
    assert desk.status(handle)["exit_code"] == 3
    assert not evidence.exists()


def give_back(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, 0, 0, follow_symlinks=False)


@pytest.mark.slurm
def test_a_job_below_a_directory_that_everybody_can_write_to(tmp_path: Path, slurm_cluster: slurm.Cluster) -> None:
    """A sticky one, as /tmp is; an own launcher that was damaged is replaced."""
    desk, evidence = slurm_desk(tmp_path, slurm_cluster), tmp_path / "ran"
    public = tmp_path / "public"
    public.mkdir()
    public.chmod(0o1777)
    desk.shared = public / "mine"
    toml = desk.directory / "umiak.toml"
    toml.write_text(toml.read_text().replace(str(tmp_path / "shared"), str(desk.shared)))
    built = launcher_file.find()
    kept = desk.shared / "launchers" / f"{built.sha256}.pyz"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(forged(evidence, built.size_bytes))
    desk.wait(desk.submit("--nnodes", "2", "--", "train.py"))
    assert kept.read_bytes() == Path(built.path).read_bytes()
    assert not evidence.exists()


# ---- mpirun


@pytest.fixture(scope="module")
def mpi_cluster() -> Iterator[mpi.Cluster]:
    require(mpi.available())
    with hosts.network(2) as net, mpi.cluster(net.hosts) as opened:
        yield opened


def mpi_desk(directory: Path, cluster: mpi.Cluster, family: mpi.Family, tool: Path | None = None) -> ClusterDesk:
    name, *flags = cluster.mpirun(family)
    at = next(number for number, word in enumerate(flags) if word in ("--hostfile", "-f"))
    place = f"""
backend = "mpi"
hosts = ["node0:4", "node1:4"]
mpirun = "{tool or name}"
family = "{family}"
arguments = {json.dumps(flags[:at] + flags[at + 2 :])}
python = "{sys.executable}"
"""
    return ClusterDesk(directory, place, OnHost(cluster.hosts[0]))


@pytest.mark.mpi
def test_a_launcher_in_a_strangers_tree_never_runs_under_mpirun(tmp_path: Path, mpi_cluster: mpi.Cluster) -> None:
    desk, evidence = mpi_desk(tmp_path, mpi_cluster, "openmpi"), tmp_path / "ran"
    tree_of_a_stranger(desk.shared, evidence)
    told = desk.umiak("submit", "--on", "hpc", "--nnodes", "2", "--", "train.py", status=3)
    assert "UM-SUBMIT-350" in told
    assert f"because: {desk.shared} belongs to uid {STRANGER} (mode 0777)" in told
    assert not evidence.exists()


@pytest.mark.mpi
@pytest.mark.parametrize("family", ["openmpi", "mpich"])
def test_a_host_where_the_same_path_is_a_strangers_runs_nothing(
    tmp_path: Path, mpi_cluster: mpi.Cluster, family: mpi.Family
) -> None:
    """The directory is not really shared: on the second host somebody else has made everything that mpirun asks for."""
    second, evidence = mpi_cluster.servers.machines[1], tmp_path / "ran"
    tool = tmp_path / "mpirun"
    real = shutil.which(mpi_cluster.mpirun(family)[0])
    desk = mpi_desk(tmp_path, mpi_cluster, family, tool)
    desk.shared = second.home / tmp_path.name
    toml = desk.directory / "umiak.toml"
    toml.write_text(toml.read_text().replace(str(tmp_path / "shared"), str(desk.shared)))
    there = second.files / tmp_path.name
    tool.write_text(
        f'#!/bin/sh\ntouch {tmp_path}/waits\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.05; done\nexec {real} "$@"\n'
    )
    tool.chmod(0o755)
    try:
        (desk.directory / "job.yaml").write_text(
            "name: ctr\ncommand: train.py\nnodes: 2\nenv: {UMIAK_JOIN_TIMEOUT: '20'}\n"
        )
        handle = desk.submit("job.yaml")
        eventually((tmp_path / "waits").exists)
        copy = there / "runs" / desk.run_directory(handle).name
        copy.mkdir(parents=True)
        (copy / "node.sh").write_text(f"#!/bin/sh\ntouch {evidence}\n")
        (copy / "umiak-launcher.pyz").write_bytes(forged(evidence))
        give_away(there, mode=0o777)
        (tmp_path / "go").touch()
        desk.umiak("wait", handle, status=3)
        log = (desk.run_directory(handle) / "log" / "job.log").read_text()
        assert f"because: {desk.shared} belongs to uid {STRANGER} (mode 0777)" in log
        assert "node1" in log
        assert not evidence.exists()
    finally:
        shutil.rmtree(desk.shared, ignore_errors=True)
        shutil.rmtree(there, ignore_errors=True)
