"""Everything that can be wrong with a config in the layout of PaddleRec 1.8.5, and what is told though it stops nothing."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.support.train_helpers import config, dataset_text, phase_text, problems, read, runner_text, small, warnings
from umiak.schema.findings import choices
from umiak.train.config import keys

# ---- what can be wrong


@pytest.mark.parametrize("name", ["workspace", "mode", "runner", "phase", "dataset"])
def test_a_global_key_that_is_missing_or_null(name: str) -> None:
    lines = yaml.safe_load(small())
    kept = {key: item for key, item in lines.items() if key != name}
    kind = {"workspace": "a path", "mode": "a name or a list of names"}.get(
        name, "a list of mappings, each with a name"
    )
    found = read(yaml.safe_dump(kept))
    assert [(each.code, each.what) for each in found.problems if "missing" in each.what] == [
        ("UM-CONFIG-011", f"config: {name} is missing")
    ]
    assert any(each.hint == f"write `{name}:` with {kind}" for each in found.problems)
    assert [each.what for each in read(yaml.safe_dump({**kept, name: None})).problems if "missing" in each.what] == [
        f"config: {name} is missing"
    ]


def test_an_empty_file_misses_everything() -> None:
    for text in ("", "# nothing yet\n", "{}\n"):
        assert problems(text) == [
            f"UM-CONFIG-011 1:1 config: {name} is missing"
            for name in ("workspace", "mode", "runner", "phase", "dataset")
        ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # What PaddleRec checked.
        (small(head="workspace: [a]\nmode: r"), "UM-CONFIG-013 1:12 config: workspace must be a path, not a list"),
        (
            small(head="workspace: on\nmode: r"),
            "UM-CONFIG-013 1:12 config: workspace must be a path, not on, which means true",
        ),
        (
            small(runner="  name: r\n  class: train\n  epochs: 1"),
            "UM-CONFIG-013 4:3 config: runner must be a list of mappings, each with a name, not a mapping",
        ),
        (
            small(phase="  p"),
            'UM-CONFIG-013 8:3 config: phase must be a list of mappings, each with a name, not the text "p"',
        ),
        (
            small(runner="- name: r\n  epochs: 1\n- word"),
            'UM-CONFIG-013 6:3 runner: entry 2 must be a mapping with a name, not the text "word"',
        ),
        (
            small(head="workspace: .\nmode: r\nhyper_parameters: 3"),
            "UM-CONFIG-013 3:19 config: hyper_parameters must be a mapping, not the number 3",
        ),
        ("- a\n- b\n", "UM-CONFIG-013 1:1 a config is a mapping with keys such as workspace and mode, not a list"),
        # What it accepted, and what then failed later or was ignored.
        (small(head="workspace: .\nmode: x"), "UM-CONFIG-015 2:7 config: there is no runner named x"),
        (small(head="workspace: .\nmode: [r, x]"), "UM-CONFIG-015 2:11 config: there is no runner named x"),
        (small(head="workspace: .\nmode: []"), "UM-CONFIG-011 2:7 config: mode is empty"),
        (
            small(head="workspace: .\nmode: [[r]]"),
            "UM-CONFIG-013 2:7 config: mode must be a name or a list of names, not a list",
        ),
        (
            small(head="workspace: .\nmode: r\ndebug: 1"),
            "UM-CONFIG-013 3:8 config: debug must be a boolean, not the number 1",
        ),
        (small(head="workspace: .\nmode: r\nmodes: r"), "UM-CONFIG-012 3:1 config: unknown key: modes"),
        (small(runner="  []"), "UM-CONFIG-011 4:3 config: runner is empty"),
        (
            small(runner="- class: train\n  epochs: 1\n- name: r\n  epochs: 1"),
            "UM-CONFIG-011 4:3 runner 1: name is missing",
        ),
        (
            small(runner="- name: r\n  epochs: 1\n- name: r\n  epochs: 2"),
            "UM-CONFIG-016 6:9 there are two entries of runner named r",
        ),
        (runner_text(clas="train"), "UM-CONFIG-012 7:3 runner r: unknown key: clas"),
        (runner_text(class_="trian"), "UM-CONFIG-014 5:10 runner r: class: unknown value: trian"),
        (
            runner_text(class_="[train]"),
            "UM-CONFIG-013 5:10 runner r: class must be one of train, infer, local_cluster_train, cluster_train, online_learning, not a list",
        ),
        (runner_text(device="tpu"), "UM-CONFIG-014 7:11 runner r: device: unknown value: tpu"),
        (
            runner_text(class_="cluster_train", fleet_mode="pslib"),
            "UM-CONFIG-014 7:15 runner r: fleet_mode: not supported: pslib",
        ),
        (
            runner_text(class_="cluster_train", distribute_strategy="asycn"),
            "UM-CONFIG-014 7:24 runner r: distribute_strategy: unknown value: asycn",
        ),
        (runner_text(epochs=None), "UM-CONFIG-011 5:3 runner r: epochs is missing"),
        (runner_text(epochs=0), "UM-CONFIG-014 6:11 runner r: epochs: less than 1: 0"),
        (runner_text(epochs='"4"'), 'UM-CONFIG-013 6:11 runner r: epochs must be an integer, not the text "4"'),
        (runner_text(epochs=1.5), "UM-CONFIG-013 6:11 runner r: epochs must be an integer, not the number 1.5"),
        (
            runner_text(epochs="true"),
            "UM-CONFIG-013 6:11 runner r: epochs must be an integer, not true, which means true",
        ),
        (runner_text(epochs=10**20), f"UM-CONFIG-014 6:11 runner r: epochs: too large: {10**20}"),
        (runner_text(phases="[p, q]"), "UM-CONFIG-015 7:15 runner r: there is no phase named q"),
        (runner_text(phases='[p, ""]'), "UM-CONFIG-014 7:11 runner r: phases: empty name"),
        (runner_text(print_interval=0), "UM-CONFIG-014 7:19 runner r: print_interval: less than 1: 0"),
        (runner_text(shuffle=-1), "UM-CONFIG-014 7:12 runner r: shuffle: less than 0: -1"),
        (
            runner_text(save_checkpoint_path="o", save_checkpoint_interval=0),
            "UM-CONFIG-014 8:29 runner r: save_checkpoint_interval: less than 1: 0",
        ),
        (
            runner_text(save_checkpoint_path="yes"),
            "UM-CONFIG-013 7:25 runner r: save_checkpoint_path must be a path, not yes, which means true",
        ),
        (runner_text(trainer_class="mine.py"), "UM-CONFIG-014 7:18 runner r: trainer_class: unknown value: mine.py"),
        (runner_text(seed=-1), "UM-CONFIG-014 7:9 runner r: seed: less than 0: -1"),
        (
            runner_text(class_="local_cluster_train", worker_num=0),
            "UM-CONFIG-014 7:15 runner r: worker_num: less than 1: 0",
        ),
        (
            runner_text(device="gpu", selected_gpus="a"),
            "UM-CONFIG-014 8:18 runner r: selected_gpus: expected the index of a device, got a",
        ),
        (
            runner_text(device="gpu", selected_gpus='"1,1"'),
            "UM-CONFIG-014 8:18 runner r: selected_gpus: duplicate device",
        ),
        (
            runner_text(device="gpu", selected_gpus='"0,"'),
            "UM-CONFIG-014 8:18 runner r: selected_gpus: expected the index of a device, got nothing",
        ),
        (phase_text(thread_num=0), "UM-CONFIG-014 11:15 phase p: thread_num: less than 1: 0"),
        (
            phase_text(thread_num="many"),
            'UM-CONFIG-013 11:15 phase p: thread_num must be an integer, not the text "many"',
        ),
        (phase_text(dataset_name="e"), "UM-CONFIG-015 10:17 phase p: there is no dataset named e"),
        (phase_text(dataset_name=None), "UM-CONFIG-011 8:3 phase p: dataset_name is missing"),
        (phase_text(model='""'), "UM-CONFIG-011 9:10 phase p: model is empty"),
        (
            phase_text(shuffle_filelist='"yes"'),
            'UM-CONFIG-013 11:21 phase p: shuffle_filelist must be a boolean, not the text "yes"',
        ),
        (
            phase_text(gradient_scale_strategy=3),
            "UM-CONFIG-014 11:28 phase p: gradient_scale_strategy: unknown value: 3",
        ),
        (dataset_text(batch_size=None), "UM-CONFIG-011 12:3 dataset d: batch_size is missing"),
        (dataset_text(batch_size=0), "UM-CONFIG-014 13:15 dataset d: batch_size: less than 1: 0"),
        (dataset_text(data_path=None), "UM-CONFIG-011 12:3 dataset d: data_path is missing"),
        (dataset_text(type="TextDataset"), "UM-CONFIG-014 16:9 dataset d: type: unknown value: TextDataset"),
        (dataset_text(padding=0.5), "UM-CONFIG-013 16:12 dataset d: padding must be an integer, not the number 0.5"),
        # Slots.
        (dataset_text(sparse_slots='"a b a"'), "UM-CONFIG-021 15:17 dataset d: sparse_slots: declared twice: a"),
        (dataset_text(dense_slots='"1:3"'), "UM-CONFIG-021 16:16 dataset d: declared sparse and dense: 1"),
        (dataset_text(sparse_slots=None), "UM-CONFIG-022 12:3 dataset d: nothing says how a line becomes a sample"),
        (
            dataset_text(sparse_slots="{}"),
            "UM-CONFIG-013 15:17 dataset d: sparse_slots must be slot names, separated by spaces, not a mapping",
        ),
        # What can't be together.
        (
            runner_text(class_="infer", init_model_path="m", device="gpu", selected_gpus='"0,1"'),
            "UM-CONFIG-023 9:18 runner r: infer runs in one process, not on 2 devices",
        ),
        (
            runner_text(class_="infer"),
            "UM-CONFIG-024 5:3 runner r: infer requires a trained model, and init_model_path is missing",
        ),
        (
            runner_text(class_="local_cluster_train", device="gpu", selected_gpus='"0,1"', worker_num=3),
            "UM-CONFIG-023 9:15 runner r: 3 workers, but selected_gpus names 2: each device has one worker",
        ),
        (
            runner_text(
                class_="online_learning", epochs=None, start_day=20260101, end_day=20260101, fleet_mode="collective"
            ),
            "UM-CONFIG-023 8:15 runner r: online learning by days needs parameter servers",
        ),
        (
            runner_text(class_="infer", init_model_path="m", infer_start_epoch=3, infer_end_epoch=3),
            "UM-CONFIG-014 9:20 runner r: infer_end_epoch: empty range of checkpoints: from 3 up to, but not including, 3",
        ),
        (
            runner_text(class_="infer", init_model_path="m", infer_start_epoch=3),
            "UM-CONFIG-011 8:3 runner r: infer_end_epoch is missing",
        ),
        (runner_text(class_="online_learning", start_day=20260101), "UM-CONFIG-011 5:3 runner r: end_day is missing"),
        (
            runner_text(class_="online_learning", start_day=20260102, end_day=20260101),
            "UM-CONFIG-014 8:12 runner r: end_day: it is before the first day, 20260102",
        ),
        (
            runner_text(class_="online_learning", start_day=20260230, end_day=20260301),
            "UM-CONFIG-014 7:14 runner r: start_day: expected a date, got 20260230",
        ),
        (
            runner_text(class_="online_learning", start_day=20260101, end_day=20260101, split_interval=7),
            "UM-CONFIG-014 9:19 runner r: split_interval: a day's 1440 minutes can't be divided by 7",
        ),
        # A model that is not there.
        (
            small(head="workspace: paddlerec.models.rank.dn\nmode: r"),
            "UM-CONFIG-002 1:12 workspace: no such model: paddlerec.models.rank.dn",
        ),
    ],
)
def test_what_is_wrong(text: str, expected: str) -> None:
    assert problems(text) == [expected]


@pytest.mark.parametrize("name", [key.name for key in keys.RUNNER if key.refused])
def test_keys_that_can_not_be_obeyed(name: str) -> None:
    (problem,) = read(runner_text(**{name: "x.py"})).problems
    assert problem.code == "UM-CONFIG-017"
    assert problem.what == f"runner r: not supported: {name}"
    assert problem.why


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (runner_text(clas="train"), "did you mean `class`?"),
        (
            runner_text(class_="trian"),
            "did you mean `train`? it is one of train, infer, local_cluster_train, cluster_train, online_learning",
        ),
        (runner_text(epochs='"4"'), "write it without quotes: `epochs: 4`"),
        (phase_text(shuffle_filelist='"True"'), "write it without quotes: `shuffle_filelist: true`"),
        (runner_text(save_checkpoint_path="yes"), 'put quotes around it: `save_checkpoint_path: "yes"`'),
        (runner_text(phases="q"), "there is only p"),
        (
            small(head="workspace: paddlerec.models.rank.dn\nmode: r"),
            "did you mean `rank.dnn`? there are match.dssm, rank.dnn, rank.wide_deep",
        ),
        (runner_text(class_="cluster_train", fleet_mode="pslib"), "it is one of ps, collective"),
    ],
)
def test_hints(text: str, hint: str) -> None:
    (problem,) = read(text).problems
    assert problem.hint == hint


def test_a_name_of_several_lines_is_told_in_one() -> None:
    (told,) = problems(small(head='workspace: .\nmode: "r\\n\\ns"'))
    assert told == "UM-CONFIG-015 2:7 config: there is no runner named r  s"


def test_everything_is_told_at_once_in_the_order_of_the_file() -> None:
    text = small(
        head="workspace: .\nmode: x\ndebgu: true",
        runner="- name: r\n  class: clustertrain\n  epoch: 1\n  phases: [q]",
        phase="- name: p\n  model: model.py\n  dataset_name: e\n  thread_num: 0",
        dataset="- name: d\n  batch_size: two\n  data_path: data\n  dense_slots: price",
    )
    assert problems(text) == [
        "UM-CONFIG-015 2:7 config: there is no runner named x",
        "UM-CONFIG-012 3:1 config: unknown key: debgu",
        "UM-CONFIG-014 6:10 runner r: class: unknown value: clustertrain",
        "UM-CONFIG-012 7:3 runner r: unknown key: epoch",
        "UM-CONFIG-015 8:12 runner r: there is no phase named q",
        "UM-CONFIG-015 12:17 phase p: there is no dataset named e",
        "UM-CONFIG-014 13:15 phase p: thread_num: less than 1: 0",
        'UM-CONFIG-013 16:15 dataset d: batch_size must be an integer, not the text "two"',
        "UM-CONFIG-021 18:16 dataset d: dense_slots: a dense slot needs its number of values: price; write price:1",
    ]


# ---- what nobody runs

SPARE = small(
    runner="- name: r\n  epochs: 1\n  phases: p\n- name: spare\n  class: single\n  epochs: 1\n- name: fine\n  epochs: 2",
    phase="- name: p\n  model: m.py\n  dataset_name: d\n- name: q\n  model: m.py\n  dataset_name: e",
    dataset='- name: d\n  batch_size: 2\n  data_path: x\n  sparse_slots: "a"\n- name: e\n  batch_size: 0\n  data_path: x\n  sparse_slots: "a"',
)


def test_what_is_wrong_with_entries_that_nobody_runs_is_a_warning() -> None:
    assert warnings(SPARE) == [
        "UM-CONFIG-014 8:10 runner spare: class: unknown value: single",
        "UM-CONFIG-014 25:15 dataset e: batch_size: less than 1: 0",
    ]
    found = config(SPARE)
    # What leads to them goes with them: every name that is left leads somewhere.
    assert [runner.name for runner in found.runners] == ["r"]
    assert [phase.name for phase in found.phases] == ["p"]
    assert [dataset.name for dataset in found.datasets] == ["d"]


def test_what_is_run_after_all_must_be_right() -> None:
    assert problems(SPARE, "mode=spare") == [
        "UM-CONFIG-014 8:10 runner spare: class: unknown value: single",
        "UM-CONFIG-014 25:15 dataset e: batch_size: less than 1: 0",
    ]
    # A runner that names no phases runs all of them.
    assert problems(SPARE, "mode=fine") == ["UM-CONFIG-014 25:15 dataset e: batch_size: less than 1: 0"]


@pytest.mark.parametrize(
    "text",
    [
        "train:\n  epochs: 10\n  workspace: paddlerec.models.rank.dnn\n",
        "dygraph:\n  epochs: 4\nhyper_parameters: {}\n",
        "evaluate:\n  reader: {}\n",
    ],
)
def test_layouts_that_are_not_read(text: str) -> None:
    assert problems(text) == [
        "UM-CONFIG-008 1:1 a layout of PaddleRec that is older or newer than those that are read here"
    ]


# ---- what has no effect


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"fleet_mode": "ps"}, "fleet_mode"),
        ({"distribute_strategy": "sync"}, "distribute_strategy"),
        ({"worker_num": 2}, "worker_num"),
        ({"server_num": 2}, "server_num"),
        ({"wire": "bfloat16"}, "wire"),
        ({"prefetch_rows": 0}, "prefetch_rows"),
        ({"class": "cluster_train", "fleet_mode": "collective", "wire": "bfloat16"}, "wire"),
        ({"selected_gpus": 0}, "selected_gpus"),
        ({"class": "cluster_train", "fleet_mode": "collective", "distribute_strategy": "sync"}, "distribute_strategy"),
        ({"class": "cluster_train", "fleet_mode": "collective", "server_num": 2}, "server_num"),
        ({"class": "infer", "init_model_path": "m", "epochs": 2}, "epochs"),
        ({"class": "infer", "init_model_path": "m", "save_checkpoint_path": "o"}, "save_checkpoint_path"),
        ({"class": "online_learning", "start_day": 20260101, "end_day": 20260101, "epochs": 2}, "epochs"),
        ({"save_checkpoint_interval": 2}, "save_checkpoint_interval"),
        ({"save_step_path": "out"}, "save_step_path"),
        ({"save_inference_feed_varnames": "[a]"}, "save_inference_feed_varnames"),
        ({"infer_end_epoch": 2}, "infer_end_epoch"),
        ({"start_day": 20260101}, "start_day"),
        ({"alone_allowed": "true"}, "alone_allowed"),
    ],
)
def test_what_has_no_effect_is_told(given: dict[str, Any], name: str) -> None:
    found = read(runner_text(**given))
    assert found.problems == ()
    assert [(each.code, each.what) for each in found.warnings] == [("UM-CONFIG-018", f"runner r: no effect: {name}")]
    assert found.warnings[0].why


def test_slots_make_a_reader_useless() -> None:
    assert warnings(dataset_text(data_converter="reader.py")) == [
        "UM-CONFIG-018 16:3 dataset d: no effect: data_converter"
    ]


def test_several_devices_are_several_processes_and_that_is_said() -> None:
    text = runner_text(device="gpu", selected_gpus='"0,1"')
    assert warnings(text) == [
        "UM-CONFIG-019 8:18 runner r: 2 devices, so it trains in 2 processes, as local_cluster_train does"
    ]
    assert config(text).runners[0].workers == 2


def test_a_repeated_key_is_a_warning_and_the_last_one_counts() -> None:
    text = small(runner="- name: r\n  epochs: 1\n  print_interval: 5\n  epochs: 3")
    assert warnings(text) == ["UM-CONFIG-005 7:3 epochs is there twice: in line 5 and in line 7"]
    assert config(text).runners[0].epochs == 3


# ---- keys that a model or a reader class may read itself


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (runner_text(zzz=1), "UM-CONFIG-012 7:3 runner r: unknown key: zzz"),
        (runner_text(use_auc="true"), "UM-CONFIG-012 7:3 runner r: unknown key: use_auc"),
        (dataset_text(oov_size=7), "UM-CONFIG-012 16:3 dataset d: unknown key: oov_size"),
        (small(head="workspace: .\nmode: r\nown: {a: 1}"), "UM-CONFIG-012 3:1 config: unknown key: own"),
        (
            small() + "hyper_parameters:\n  optimizer: {class: Adam, regularizer: L2}\n",
            "UM-CONFIG-012 17:28 optimizer: unknown key: regularizer",
        ),
    ],
)
def test_a_key_that_nobody_meant_is_passed_on_with_a_warning(text: str, said: str) -> None:
    assert warnings(text) == [said]
    (warning,) = read(text).warnings
    assert "envs.get_global_env" in (warning.why or "")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (runner_text(epoch=1), "epochs"),
        (runner_text(print_intervall=1), "print_interval"),
        (runner_text(printInterval=1), "print_interval"),
        (dataset_text(batchsize=1), "batch_size"),
        (small() + "hyper_parameters: {optimizer: {lr: 0.1}}\n", "learning_rate"),
    ],
)
def test_a_key_that_was_surely_meant_otherwise_is_an_error(text: str, meant: str) -> None:
    found = [problem for problem in read(text).problems if problem.code == "UM-CONFIG-012"]
    assert [problem.hint for problem in found] == [f"did you mean `{meant}`?"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            runner_text(save_checkpoint_paths_here="x"),
            "if `save_checkpoint_path` or `save_checkpoint_interval` or `checkpoint_per_pass` was meant, write that; ",
        ),
        (runner_text(checkpoint_dir="x"), "if `checkpoint_per_pass` or `save_checkpoint_path` or "),
        (runner_text(zzz="x"), ""),
    ],
)
def test_of_all_keys_the_nearest_few_are_named(text: str, hint: str) -> None:
    (warning,) = read(text).warnings
    assert (warning.hint or "").startswith(hint)
    assert (warning.hint or "").endswith("all keys: docs/reference/config.md")
    assert (warning.hint or "").count("`") <= 2 * 3


def test_of_many_names_the_likest_are_shown() -> None:
    hint = choices("slot_17x", [f"slot_{number}" for number in range(40)])
    assert hint == "did you mean `slot_17`? it is one of slot_17, slot_1, slot_10 and 37 others"
