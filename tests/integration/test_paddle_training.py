"""Programs as people have them: real Paddle training on one machine and on two hosts, modules, and programs of any kind."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from testbed.pytest_support import NetworkFactory, require
from tests.support.launching import LAUNCH, WORKERS, Stage

TRAINING = WORKERS / "data_parallel.py"
PADDLE_ENV = {"OMP_NUM_THREADS": "1", "GLOG_v": "0"}


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def check_training(stage: Stage, world: int) -> None:
    told = [json.loads(path.read_text()) for path in sorted(stage.story.directory.glob("trained.*"))]
    assert [each["rank"] for each in told] == list(range(world))
    assert {each["world"] for each in told} == {world}
    assert len({each["after"] for each in told}) == 1, "all ranks have the same parameters in the end"
    assert told[0]["after"] != told[0]["before"], "which are not those of the beginning"


@pytest.mark.paddle
@pytest.mark.usefixtures("paddle")
def test_paddle_trains_in_two_processes(stage: Stage) -> None:
    """`python -m paddle.distributed.launch` with another module's name, word for word."""
    paddles = "python -m paddle.distributed.launch --nproc_per_node 2 --log_dir log --job_id demo"
    words = paddles.replace("paddle.distributed.launch", "umiak.launch").split()
    launcher = stage.start([sys.executable, *words[1:], str(TRAINING)], env=PADDLE_ENV)
    assert launcher.wait() == 0
    check_training(stage, 2)
    assert '"rank": 0' in launcher.stdout


@pytest.mark.paddle
@pytest.mark.netns
@pytest.mark.usefixtures("paddle")
def test_paddle_trains_on_two_hosts_with_two_processes_each(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = "--nnodes 2 --nproc_per_node 2 --master 10.88.0.1:7000"
    launchers = [stage.launch(flags, TRAINING, host=host, env=PADDLE_ENV) for host in (a, b)]
    assert [launcher.wait() for launcher in launchers] == [0, 0]
    check_training(stage, 4)


def test_a_module_is_run_by_its_name(stage: Stage, tmp_path: Path) -> None:
    package = tmp_path / "crew" / "boats"
    package.mkdir(parents=True)
    (tmp_path / "crew" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "umiak.py").write_text(
        "import os, sys\nprint(__name__, __package__, os.environ['PADDLE_TRAINER_ID'], sys.argv[1:])\n"
    )
    launcher = stage.start(
        [sys.executable, "-m", "umiak.launch", "--nproc_per_node", "2", "--tee", "all", "-m", "crew.boats.umiak", "-x"],
        cwd=tmp_path,
    )
    assert launcher.wait() == 0
    assert sorted(launcher.stdout.splitlines()) == [
        f"[trainer {rank}] __main__ crew.boats {rank} ['-x']" for rank in range(2)
    ]


@pytest.mark.parametrize("named", ["./train.sh", "train.sh"])
def test_a_program_need_not_be_python(stage: Stage, named: str) -> None:
    place = stage.directory / "place"
    place.mkdir()
    script = place / "train.sh"
    script.write_text('#!/bin/sh\necho "rank $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM: $1"\nexit 0\n')
    script.chmod(0o755)
    launcher = stage.launch("--nproc_per_node 2 --tee all", named, "two words", cwd=place)
    assert launcher.wait() == 0
    assert sorted(launcher.stdout.splitlines()) == [f"[trainer {rank}] rank {rank} of 2: two words" for rank in (0, 1)]


def test_a_program_is_found_on_the_path(stage: Stage) -> None:
    launcher = stage.launch("", "printenv", "UMIAK_RANK")
    assert launcher.wait() == 0
    assert launcher.stdout == "[trainer 0] 0\n"


def test_a_script_that_is_not_there_is_said_before_anything_starts(stage: Stage) -> None:
    launcher = stage.launch("--nnodes 2", "no/such/train.py")
    assert launcher.wait() == 2
    assert "no such script: no/such/train.py" in launcher.stderr
    assert os.listdir(launcher.directory) == []


@pytest.mark.parametrize("named", ["models", "./models", "models.py"])
def test_a_directory_is_no_script(stage: Stage, named: str) -> None:
    place = stage.directory / "place"
    (place / named).mkdir(parents=True)
    launcher = stage.launch("", named, cwd=place)
    assert launcher.wait() == 2
    assert f"error: a directory, not a script: {named} [UM-LAUNCH-205]" in launcher.stderr
    assert f"`umiak launch {named}/train.py`" in launcher.stderr


def test_a_directory_hides_no_program_of_its_name(stage: Stage) -> None:
    place = stage.directory / "place"
    (place / "printenv").mkdir(parents=True)
    launcher = stage.launch("", "printenv", "UMIAK_RANK", cwd=place)
    assert launcher.wait() == 0


def test_a_script_that_may_not_be_read_is_said_before_anything_starts(stage: Stage) -> None:
    place = stage.directory / "place"
    place.mkdir()
    (place / "secret.py").write_text("")
    (place / "secret.py").chmod(0)
    powerless: tuple[str, ...] = ()
    if os.geteuid() == 0:  # and may read every file
        require(None if shutil.which("setpriv") else "setpriv takes a root's powers away")
        powerless = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
    launcher = stage.launch("", "secret.py", cwd=place, command=(*powerless, *LAUNCH))
    assert launcher.wait() == 2
    assert "error: the script can't be read: secret.py [UM-LAUNCH-205]" in launcher.stderr
