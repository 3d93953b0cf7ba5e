"""Which command lines the package in shims/paddle-launch gives to umiak's launcher, in a fresh environment with Paddle's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.ports import free_ports
from tests.support.fresh_environments import FreshEnvironment, built_shim


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> str:
    return built_shim(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def fresh(tmp_path: Path, wheel: str) -> FreshEnvironment:
    made = FreshEnvironment(tmp_path / "venv")
    made.pip("install", "--no-index", "--no-deps", wheel)
    return made


OURS = "usage: umiak launch"


@pytest.mark.parametrize(
    "command",
    [
        "python -m paddle.distributed.launch --help",
        "python -u -m paddle.distributed.launch --help",
        "python -um paddle.distributed.launch --help",
        "python -mpaddle.distributed.launch --help",
        "python -W ignore -X dev -m paddle.distributed.launch --help",
        "python -m paddle.distributed.fleet.launch --help",
        "fleetrun --help",
    ],
)
def test_both_commands_are_umiaks(fresh: FreshEnvironment, command: str) -> None:
    assert fresh.says(*command.split()).lower().startswith(OURS)


def test_fleetrun_by_its_path(fresh: FreshEnvironment) -> None:
    assert fresh.says("python", str(fresh.bin / "fleetrun"), "--help").lower().startswith(OURS)


def test_old_flags_start_servers_and_workers(fresh: FreshEnvironment, tmp_path: Path) -> None:
    """The names of fleetrun: --worker_num, --server_num, --workers, --servers."""
    script = tmp_path / "train.py"
    script.write_text("import os, sys; print(os.environ['TRAINING_ROLE'], os.environ['PADDLE_PORT'], sys.argv[1:])\n")
    log = ("--log_dir", str(tmp_path / "log"))
    for command in (("fleetrun",), ("python", "-m", "paddle.distributed.launch")):
        said = fresh.says(*command, "--worker_num=2", "--server_num=1", *log, "--tee", "all", str(script), "--lr", "1")
        assert said.count("] TRAINER") == 2
        assert said.count("] PSERVER") == 1
        assert "['--lr', '1']" in said
    server, *trainers = free_ports(3)
    places = (f"--servers=127.0.0.1:{server}", "--workers=" + ",".join(f"127.0.0.1:{port}" for port in trainers))
    said = fresh.says("fleetrun", *places, *log, "--tee", "all", str(script))
    assert f"[server 0] PSERVER {server} " in said
    assert f"[trainer 1] TRAINER {trainers[1]} " in said
    assert "UM-LAUNCH" in fresh.says("fleetrun", "--coordinator_num=1", str(script))


def test_modules_of_paddle_are_paddles_own(fresh: FreshEnvironment) -> None:
    code = "from paddle.distributed.launch.main import launch; import sys; print(launch.__code__.co_filename, 'umiak' in sys.modules)"
    assert fresh.says("python", "-c", code).splitlines()[-1].endswith("paddle/distributed/launch/main.py False")
    (fresh.bin / "train.py").write_text("import sys; print(sys.meta_path[0])")
    for words in (
        ("train.py", "-m", "paddle.distributed.launch"),
        ("-c", "import sys; print(sys.meta_path[0])", "-m", "paddle.distributed.launch"),
    ):
        first = str(fresh.bin / words[0]) if words[0] == "train.py" else words[0]
        assert "LaunchModules" not in fresh.says("python", first, *words[1:])


def test_somebody_elses_fleetrun_is_left_alone(fresh: FreshEnvironment, tmp_path: Path) -> None:
    (tmp_path / "fleetrun").write_text("import sys; print('mine', sys.meta_path[0])\n")
    said = fresh.says("python", str(tmp_path / "fleetrun"))
    assert said.startswith("mine")
    assert "LaunchModules" not in said


def test_pip_uninstall_restores_everything(tmp_path: Path, wheel: str) -> None:
    fresh = FreshEnvironment(tmp_path / "venv")
    before = tree(fresh)
    fresh.pip("install", "--no-index", "--no-deps", wheel)
    assert fresh.says("fleetrun", "--version").startswith("umiak ")
    fresh.pip("uninstall", "umiak-paddle-launch")
    assert tree(fresh) == before
    said = fresh.says("python", "-m", "paddle.distributed.launch", "--help")
    assert "UMIAK" not in said  # the directory of a checkout may be called umiak
    assert "--nproc_per_node" in said


def tree(fresh: FreshEnvironment) -> dict[str, str]:
    files = [path for path in fresh.bin.parent.glob("*/**/*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path): path.read_bytes().hex() for path in files if path.stat().st_size < 100_000}


def test_without_umiak_paddles_own_runs(tmp_path: Path, wheel: str) -> None:
    fresh = FreshEnvironment(tmp_path / "venv")
    (fresh.site / "of_tests.pth").unlink()
    fresh.pip("install", "--no-index", "--no-deps", wheel)
    (fresh.site / "paddle" / "distributed" / "launch").mkdir(parents=True)
    (fresh.site / "paddle" / "distributed" / "launch" / "__main__.py").write_text("print('own')\n")
    said = fresh.says("python", "-m", "paddle.distributed.launch")
    assert said == "umiak-paddle-launch: umiak is not installed here, so Paddle's own launcher runs\nown\n"
