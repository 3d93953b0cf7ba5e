"""A config as a job: what `umiak train --on` submits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.train_helpers import ASYNC_CLUSTER, COLLECTIVE_CLUSTER, PS_CLUSTER, SINGLE, config
from umiak.cli import main, train
from umiak.cli.train_job import job_of, name_of
from umiak.core.cluster import Role
from umiak.core.devices import DeviceKind
from umiak.core.job import FileSet, FrameworkName, Job, Replicas, Resource, RoleSpec
from umiak.core.problem import UmiakError
from umiak.train.plan.plan import plan
from umiak.train.plan.process_role import ProcessRole


def made(text: str, *said: str, words: str = "", nodes: int = 1) -> Job:
    parsed = train.parse(["-m", "config.yaml", *words.split()], {})
    assert parsed.problems == ()
    planned = plan(config(text, *said), ProcessRole(), "config.yaml")
    return job_of(planned, parsed, name="ctr", model="config.yaml", nodes=nodes, is_sent=True)


def shape(job: Job) -> list[tuple[Role, int, int | None, int]]:
    return [(each.role, each.nodes.most, each.workers, each.resource.devices) for each in job.roles]


def test_servers_and_trainers() -> None:
    assert made(PS_CLUSTER) == Job(
        name="ctr",
        command=("-m", "umiak", "train", "-m", "config.yaml"),
        roles=(RoleSpec(role=Role.SERVER), RoleSpec(role=Role.TRAINER)),
        framework=FrameworkName.PADDLE,
        files=FileSet(),
    )
    two = made(ASYNC_CLUSTER, "runner.worker_num=2", nodes=3)
    assert shape(two) == [(Role.SERVER, 3, None, 0), (Role.TRAINER, 6, None, 0)]


def test_one_process_and_several_devices() -> None:
    assert shape(made(SINGLE)) == [(Role.TRAINER, 1, 1, 0)]
    assert shape(made(COLLECTIVE_CLUSTER, nodes=2)) == [(Role.TRAINER, 2, None, 0)]  # one for each GPU that is there
    (chosen,) = made(COLLECTIVE_CLUSTER, "runner.selected_gpus='0,1'").roles
    assert (chosen.workers, chosen.resource) == (2, Resource(devices=2, device=DeviceKind.GPU))
    assert shape(made(COLLECTIVE_CLUSTER, "runner.device=cpu", "runner.worker_num=4", nodes=2))[0][1:3] == (2, 4)


def test_what_was_said_reaches_the_nodes() -> None:
    job = made(
        PS_CLUSTER, words="-o runner.epochs=1 mode=ps_cluster --resume -q --run_dir out --on lab --key k --dry_run"
    )
    assert job.command[5:] == (
        *("-o", "runner.epochs=1", "-o", "mode=ps_cluster", "--run_dir", "out", "--resume", "--quiet"),
    )
    assert made(PS_CLUSTER, "phase.thread_num=4").env == (("CPU_NUM", "4"),)


def test_runners_of_one_job_need_the_same_processes() -> None:
    both = PS_CLUSTER.replace("mode: [ps_cluster]", "mode: [ps_cluster, alone]").replace(
        "runner:\n", "runner:\n- name: alone\n  class: train\n  epochs: 1\n  device: cpu\n  phases: [phase1]\n"
    )
    with pytest.raises(UmiakError) as told:
        made(both)
    assert [each.code for each in told.value.problems] == ["UM-TRAIN-009"]
    inferred = both.replace("class: train\n  epochs: 1", "class: infer\n  init_model_path: increment_dnn")
    assert shape(made(inferred)) == shape(made(PS_CLUSTER))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("config.yaml", "ctr"),
        ("./config.yaml", "ctr"),
        ("models/dnn/config.yaml", "dnn"),
        ("models/dnn/", "dnn"),
        ("fast.yml", "fast"),
        ("umiak.models.rank.dnn", "dnn"),
        ("a b.yaml", "a-b"),
    ],
)
def test_names(model: str, name: str) -> None:
    assert name_of(model, "/home/me/ctr") == name


def test_a_config_elsewhere_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text(PS_CLUSTER)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert main.main(["train", "-m", "../config.yaml", "--on", "local"]) == 2
    assert "UM-TRAIN-008" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main.main(["train", "-m", "config.yaml", "--on", "local", "--dry_run"]) == 0
    shown = capsys.readouterr().out
    assert '"--server_num", "1", "--trainer_num", "1", "-m", "umiak", "train", "-m", "config.yaml"' in shown
    assert main.main(["train", "-m", "config.yaml", "--on", "nowhere"]) == 2
    assert "UM-SUBMIT-005" in capsys.readouterr().err


def test_replicas_are_fixed() -> None:
    assert made(PS_CLUSTER, nodes=2).nodes == Replicas(least=4, most=4)
