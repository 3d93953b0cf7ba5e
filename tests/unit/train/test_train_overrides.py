"""`-o runner.epochs=1`: checked like the file, and named in every complaint."""

from __future__ import annotations

import pytest

from tests.support.train_helpers import FLAT, SINGLE, config, problems, read, runner_text, small
from umiak.train.config.values import RunnerClass

TWO = small(runner="- name: a\n  epochs: 1\n- name: b.c\n  epochs: 2", head="workspace: .\nmode: [a, b.c]")


def test_the_newer_layout() -> None:
    assert config(FLAT, "runner.epochs=1").runner("train").epochs == 1
    assert config(FLAT, "runner.use_gpu=True").runner("train").device.value == "gpu"
    assert config(FLAT, "runner.seed=3").runner("train").seed == 3
    assert config(FLAT, "mode=infer").mode == ("infer",)


def test_the_older_layout() -> None:
    assert [runner.epochs for runner in config(TWO, "runner.epochs=5").runners] == [5, 5]
    assert [runner.epochs for runner in config(TWO, "runner.a.epochs=5").runners] == [5, 2]
    assert [runner.epochs for runner in config(TWO, "runner.b.c.epochs=5").runners] == [1, 5]
    assert config(SINGLE, "dataset.dataloader_train.batch_size=512").datasets[0].batch_size == 512
    assert config(SINGLE, "phase.thread_num=4").phases[0].thread_num == 4
    assert config(SINGLE, "runner.class=cluster_train").runners[0].kind is RunnerClass.CLUSTER_TRAIN
    assert config(SINGLE, "workspace=/w").phases[0].model == "/w/model.py"


def test_values_are_yaml() -> None:
    assert config(TWO, "mode=[b.c, a]").mode == ("b.c", "a")
    assert config(TWO, "mode=a").mode == ("a",)
    assert (
        config(SINGLE, "runner.init_model_path={workspace}/old").runners[0].init_model_path
        == "/lib/umiak/models/rank/dnn/old"
    )
    assert config(SINGLE, "runner.save_checkpoint_path=").runners[0].checkpoint is None
    assert config(SINGLE, 'dataset.dense_slots="a:1 b:[2,3]"').datasets[0].dense_slots[1].shape == (2, 3)
    found = config(SINGLE, "hyper_parameters.optimizer.learning_rate=1e-2", "hyper_parameters.optimizer.class=SGD")
    assert found.hyper_parameters == {"optimizer": {"learning_rate": 0.01, "class": "SGD"}}
    assert config(FLAT, "hyper_parameters.optimizer.class=SGD").hyper_parameters["optimizer"] == {
        "class": "SGD",
        "learning_rate": 0.001,
    }


def test_the_last_one_counts_and_the_file_may_miss_what_is_said() -> None:
    assert config(TWO, "runner.epochs=5", "runner.epochs=6").runners[0].epochs == 6
    assert config(runner_text(epochs=None), "runner.epochs=6").runners[0].epochs == 6


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "runner.epochs=many",
            'UM-CONFIG-013 -o runner.epochs=many runner a: epochs must be an integer, not the text "many"',
        ),
        ("runner.a.epochs=0", "UM-CONFIG-014 -o runner.a.epochs=0 runner a: epochs: less than 1: 0"),
        ("runner.a.epoch=1", "UM-CONFIG-012 -o runner.a.epoch=1 runner a: unknown key: epoch"),
        ("runner.d.epochs=1", "UM-CONFIG-015 -o runner.d.epochs=1 there is no runner named d"),
        ("mode=x", "UM-CONFIG-015 -o mode=x config: there is no runner named x"),
        ("moed=x", "UM-CONFIG-012 -o moed=x config: unknown key: moed"),
        ("runner.epochs", "UM-CONFIG-007 -o runner.epochs not KEY=VALUE"),
        ("=1", "UM-CONFIG-007 -o =1 not KEY=VALUE"),
        ("runner..epochs=1", "UM-CONFIG-007 -o runner..epochs=1 not KEY=VALUE"),
        ("mode.a=1", "UM-CONFIG-007 -o mode.a=1 mode is a list, so it has no a"),
        ("workspace.a=1", 'UM-CONFIG-007 -o workspace.a=1 workspace is the text ".", so it has no a'),
        (
            "runner.epochs=[",
            "UM-CONFIG-003 -o runner.epochs=[ not YAML: expected the node content, but found '<stream end>'",
        ),
        (
            "debug=!!python/name:os.system x",
            "UM-CONFIG-004 -o debug=!!python/name:os.system x a tag that means nothing here: !!python/name:os.system",
        ),
        (
            "dataset.d.sparse_slots=a a",
            "UM-CONFIG-021 -o dataset.d.sparse_slots=a a dataset d: sparse_slots: declared twice: a",
        ),
    ],
)
def test_what_is_wrong_names_the_override(override: str, expected: str) -> None:
    found = problems(TWO, override)
    assert found[0] == expected
    assert all(f"-o {override}" in each for each in found)


def test_a_mistake_in_an_override_is_told_once_though_it_is_put_into_many_runners() -> None:
    one_is_used = small(runner="- name: a\n  epochs: 1\n- name: b\n  epochs: 2", head="workspace: .\nmode: a")
    for override in ("runner.epohcs=1", "runner.epochs=many"):
        for text in (TWO, one_is_used):
            found = read(text, override)
            assert len(found.problems) == 1
            assert not found.warnings


def test_the_nearest_name() -> None:
    (problem,) = read(SINGLE, "runner.single_cpu_tran.epochs=1").problems
    assert problem.hint == "did you mean `single_cpu_train`?"


def test_a_list_that_is_not_there() -> None:
    text = "workspace: .\nmode: r\n"
    assert problems(text, "runner.epochs=1")[0] == (
        "UM-CONFIG-007 -o runner.epochs=1 the config has no runner, so nothing in it can be changed"
    )


def test_problems_of_the_file_and_of_overrides_are_told_together() -> None:
    found = problems(small(head="workspace: .\nmode: x"), "runner.epochs=0")
    assert found == [
        "UM-CONFIG-014 -o runner.epochs=0 runner r: epochs: less than 1: 0",
        "UM-CONFIG-015 2:7 config: there is no runner named x",
    ]
