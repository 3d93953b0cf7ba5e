"""A config in the layout of PaddleRec 1.8.5: every key, every default, and everything that can be wrong with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.train_helpers import (
    ASYNC_CLUSTER,
    COLLECTIVE_CLUSTER,
    PS_CLUSTER,
    SINGLE,
    SLOTS,
    config,
    dataset_text,
    phase_text,
    problems,
    read,
    runner_text,
    small,
    warnings,
)
from umiak.core.value import fields
from umiak.train import flat_keys, keys, slots, writing
from umiak.train.config import (
    Dataset,
    DatasetType,
    DenseSlot,
    Device,
    FleetMode,
    Inference,
    Online,
    Phase,
    Runner,
    RunnerClass,
    Saving,
    Strategy,
)
from umiak.train.keys import Kind

DATASET = Dataset(
    name="dataloader_train",
    data_path="./train_data",
    batch_size=2,
    sparse_slots=tuple(SLOTS.split()),
    dense_slots=(DenseSlot(name="dense_var", shape=(13,)),),
)

# ---- the document's own configs


def test_the_documents_config_for_one_process() -> None:
    found = config(SINGLE)
    assert found.workspace == "/lib/umiak/models/rank/dnn"
    assert found.mode == ("single_cpu_train",)
    assert found.runners == (
        Runner(
            name="single_cpu_train",
            kind=RunnerClass.TRAIN,
            epochs=4,
            phases=("phase1",),
            checkpoint=Saving(path="increment_dnn", every=2),
            print_interval=10,
        ),
    )
    model = "/lib/umiak/models/rank/dnn/model.py"
    assert found.phases == (Phase(name="phase1", model=model, dataset_name="dataloader_train"),)
    assert found.dataset("dataloader_train").data_path == "/lib/umiak/models/rank/dnn/data/sample_data/train"
    assert read(SINGLE).warnings == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            ASYNC_CLUSTER,
            Runner(
                name="ps_cluster",
                kind=RunnerClass.CLUSTER_TRAIN,
                epochs=4,
                phases=("phase1",),
                checkpoint=Saving(path="increment_dnn", every=2),
                print_interval=10,
            ),
        ),
        (
            PS_CLUSTER,
            Runner(
                name="ps_cluster",
                kind=RunnerClass.CLUSTER_TRAIN,
                epochs=2,
                phases=("phase1",),
                checkpoint=Saving(path="increment_dnn", every=1),
                print_interval=1,
            ),
        ),
        (
            COLLECTIVE_CLUSTER,
            Runner(
                name="collective_cluster",
                kind=RunnerClass.CLUSTER_TRAIN,
                device=Device.GPU,
                fleet_mode=FleetMode.COLLECTIVE,
                epochs=2,
                phases=("phase1",),
                checkpoint=Saving(path="increment_dnn", every=1),
                print_interval=1,
            ),
        ),
    ],
)
def test_the_documents_configs_for_clusters(text: str, expected: Runner) -> None:
    found = config(text)
    assert found.runners == (expected,)
    assert found.datasets == (DATASET,)
    assert found.phases == (Phase(name="phase1", model="./model.py", dataset_name="dataloader_train"),)
    assert read(text).warnings == ()


# ---- defaults


def test_defaults() -> None:
    found = config(small())
    assert found.runners == (Runner(name="r", kind=RunnerClass.TRAIN, phases=("p",)),)
    assert found.phases == (Phase(name="p", model="model.py", dataset_name="d"),)
    assert found.datasets == (Dataset(name="d", data_path="data", batch_size=2, sparse_slots=("click", "1")),)
    assert (found.hyper_parameters, found.table_parameters, found.debug) == ({}, {}, False)


@pytest.mark.parametrize(
    ("table", "made"), [(keys.RUNNER, runner_text), (keys.PHASE, phase_text), (keys.DATASET, dataset_text)]
)
def test_saying_a_default_changes_nothing(table: tuple[keys.Key, ...], made: Any) -> None:
    plain = config(made())
    defaults = {key.name: key.default for key in table if key.default is not None and key.name not in keys.ONLINE}
    assert len(defaults) > 1
    for name, default in defaults.items():
        word = str(default).lower() if isinstance(default, bool) else default
        assert config(made(**{name: word})) == plain, name


@pytest.mark.parametrize("name", [key.name for key in keys.RUNNER if not key.refused and not key.required])
def test_null_is_the_same_as_nothing(name: str) -> None:
    assert read(runner_text(**{name: "~"})) == read(runner_text(**{name: None}))


# ---- every key


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"class": "TRAIN"}, {"kind": RunnerClass.TRAIN}),
        ({"class": "local_cluster_train"}, {"kind": RunnerClass.LOCAL_CLUSTER_TRAIN}),
        ({"class": "Cluster_Train"}, {"kind": RunnerClass.CLUSTER_TRAIN}),
        ({"device": "GPU"}, {"device": Device.GPU}),
        ({"device": "xpu"}, {"device": Device.XPU}),
        ({"device": "npu"}, {"device": Device.NPU}),
        ({"class": "cluster_train", "fleet_mode": "Collective"}, {"fleet_mode": FleetMode.COLLECTIVE}),
        ({"class": "cluster_train", "fleet_mode": "ps", "device": "gpu"}, {"fleet_mode": FleetMode.PS}),
        ({"class": "local_cluster_train", "device": "gpu"}, {"fleet_mode": FleetMode.COLLECTIVE}),
        ({"class": "local_cluster_train", "device": "gpu", "fleet_mode": "ps"}, {"fleet_mode": FleetMode.PS}),
        ({"class": "local_cluster_train"}, {"fleet_mode": FleetMode.PS}),
        ({"class": "local_cluster_train", "fleet_mode": "collective"}, {"fleet_mode": FleetMode.COLLECTIVE}),
        ({"class": "cluster_train", "distribute_strategy": "half_async"}, {"strategy": Strategy.HALF_ASYNC}),
        ({"class": "cluster_train", "distribute_strategy": "sync"}, {"strategy": Strategy.SYNC}),
        ({"class": "cluster_train", "distribute_strategy": "hybrid"}, {"strategy": Strategy.HYBRID}),
        (
            {"class": "cluster_train", "distribute_strategy": "geo", "geo_step": 7},
            {"strategy": Strategy.GEO, "geo_steps": 7},
        ),
        ({"device": "gpu", "selected_gpus": '"3"'}, {"device_ids": (3,), "workers": 1}),
        ({"device": "gpu", "selected_gpus": "3"}, {"device_ids": (3,)}),
        ({"device": "gpu", "selected_gpus": "[0, 2]"}, {"device_ids": (0, 2), "workers": 2}),
        ({"device": "gpu", "selected_gpus": '"0, 1"'}, {"device_ids": (0, 1), "fleet_mode": FleetMode.COLLECTIVE}),
        ({"device": "gpu", "selected_gpus": '""'}, {"device_ids": ()}),
        ({"class": "local_cluster_train", "worker_num": 3, "server_num": 2}, {"workers": 3, "servers": 2}),
        ({"class": "cluster_train", "alone_allowed": "true"}, {"alone_allowed": True}),
        ({"epochs": 9}, {"epochs": 9}),
        ({"phases": "p"}, {"phases": ("p",)}),
        ({"phases": "[p, p]"}, {"phases": ("p", "p")}),
        ({"phases": "[]"}, {"phases": ("p",)}),
        ({"seed": 0}, {"seed": 0}),
        ({"init_model_path": "old"}, {"init_model_path": "old"}),
        ({"init_model_path": '"{workspace}/old"'}, {"init_model_path": "./old"}),
        ({"save_checkpoint_path": "out"}, {"checkpoint": Saving(path="out", every=1)}),
        ({"save_checkpoint_path": '""'}, {"checkpoint": None}),
        (
            {"save_checkpoint_path": "out", "save_checkpoint_interval": 3},
            {"checkpoint": Saving(path="out", every=3)},
        ),
        (
            {"save_checkpoint_path": "out", "save_checkpoint_interval": -1},
            {"checkpoint": Saving(path="out", every=1)},
        ),
        (
            {"save_step_path": "out", "save_step_interval": 100},
            {"step_checkpoint": Saving(path="out", every=100)},
        ),
        ({"save_inference_path": "out"}, {"inference": Inference(path="out", every=1)}),
        (
            {
                "save_inference_path": "out",
                "save_inference_interval": 2,
                "save_inference_feed_varnames": "[a, b]",
                "save_inference_fetch_varnames": "c",
            },
            {"inference": Inference(path="out", every=2, feeds=("a", "b"), fetches=("c",))},
        ),
        ({"print_interval": 1}, {"print_interval": 1}),
        ({"runner_result_dump_path": "m.json"}, {"result_dump_path": "m.json"}),
        ({"trainer_class": "GeneralTrainer"}, {}),
        (
            {"class": "infer", "init_model_path": "out", "infer_start_epoch": 1, "infer_end_epoch": 3},
            {"kind": RunnerClass.INFER, "infer_epochs": (1, 3)},
        ),
        ({"class": "infer", "init_model_path": "out", "infer_end_epoch": 3}, {"infer_epochs": (0, 3)}),
        ({"class": "infer", "init_model_path": "out", "epochs": None}, {"epochs": 1}),
        (
            {"class": "online_learning", "epochs": None, "start_day": 20260131, "end_day": "2026-02-01"},
            {"online": Online(start_day="20260131", end_day="20260201"), "fleet_mode": FleetMode.PS},
        ),
        (
            {
                "class": "online_learning",
                "start_day": 20260131,
                "end_day": 20260131,
                "split_interval": 30,
                "split_per_pass": 4,
                "data_donefile": "done",
                "data_sleep_second": 5,
                "checkpoint_per_pass": 2,
                "save_delta_frequency": 3,
                "save_first_base": "true",
                "prefetch": "true",
            },
            {
                "online": Online(
                    start_day="20260131",
                    end_day="20260131",
                    split_interval=30,
                    split_per_pass=4,
                    data_donefile="done",
                    data_sleep_s=5,
                    checkpoint_per_pass=2,
                    save_delta_frequency=3,
                    save_first_base=True,
                    prefetch=True,
                )
            },
        ),
    ],
)
def test_keys_of_a_runner(given: dict[str, Any], expected: dict[str, Any]) -> None:
    (made,) = config(runner_text(**given)).runners
    assert {name: getattr(made, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"model": "net.py"}, {"model": "net.py"}),
        ({"thread_num": 8}, {"thread_num": 8}),
        ({"shuffle_filelist": "true"}, {"shuffle_filelist": True}),
        ({"gradient_scale_strategy": 2}, {"gradient_scale": 2}),
    ],
)
def test_keys_of_a_phase(given: dict[str, Any], expected: dict[str, Any]) -> None:
    (made,) = config(phase_text(**given)).phases
    assert {name: getattr(made, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "QueueDataset"}, {"type": DatasetType.QUEUE_DATASET}),
        ({"type": "queuedataset"}, {"type": DatasetType.QUEUE_DATASET}),
        ({"batch_size": 512}, {"batch_size": 512}),
        ({"data_path": '"{workspace}/part-*.gz"'}, {"data_path": "./part-*.gz"}),
        ({"data_path": "s3://bucket/ctr"}, {"data_path": "s3://bucket/ctr"}),
        ({"data_path": '"paddlerec::data/x"'}, {"data_path": "/lib/umiak/data/x"}),
        ({"data_path": '"umiak::data/x"'}, {"data_path": "/lib/umiak/data/x"}),
        ({"data_path": "2026"}, {"data_path": "2026"}),
        ({"sparse_slots": "1"}, {"sparse_slots": ("1",)}),
        ({"sparse_slots": "[click, 1, 2]"}, {"sparse_slots": ("click", "1", "2")}),
        (
            {"dense_slots": '"a:1  b:[8,8]"'},
            {"dense_slots": (DenseSlot(name="a", shape=(1,)), DenseSlot(name="b", shape=(8, 8)))},
        ),
        ({"dense_slots": "2:13"}, {"dense_slots": (DenseSlot(name="2", shape=(13,)),)}),
        ({"padding": 7}, {"padding": 7}),
        (
            {
                "sparse_slots": '""',
                "data_converter": '"{workspace}/reader.py"',
                "reader_class_name": "Mine",
                "num_workers": 4,
            },
            {"data_converter": "./reader.py", "reader_class": "Mine", "reader_processes": 4, "has_slots": False},
        ),
    ],
)
def test_keys_of_a_dataset(given: dict[str, Any], expected: dict[str, Any]) -> None:
    (made,) = config(dataset_text(**given)).datasets
    assert {name: getattr(made, name) for name in expected} == expected


def test_global_keys() -> None:
    head = """\
workspace: /data/ctr/
mode: [r, r]
debug: true
hyper_parameters:
  optimizer: {class: Adam, learning_rate: 1e-3}
  fc_sizes: [512, [256]]
  vocabulary: "{workspace}/words.txt"
table_parameters: {embedx_dim: 8}"""
    found = config(small(head=head))
    assert found.workspace == "/data/ctr/"
    assert found.mode == ("r", "r")
    assert found.debug is True
    assert found.hyper_parameters == {
        "optimizer": {"class": "Adam", "learning_rate": 0.001},
        "fc_sizes": (512, (256,)),
        "vocabulary": "/data/ctr/words.txt",
    }
    assert found.table_parameters == {"embedx_dim": 8}


@pytest.mark.parametrize(
    ("workspace", "path"),
    [
        ('"./"', "./model.py"),
        (".", "./model.py"),
        ("models/ctr", "models/ctr/model.py"),
        ("/", "/model.py"),
        ("umiak.models.rank.wide_deep", "/lib/umiak/models/rank/wide_deep/model.py"),
        ("paddlerec.models.rank.wide_deep", "/lib/umiak/models/rank/wide_deep/model.py"),
    ],
)
def test_the_workspace_is_filled_in(workspace: str, path: str) -> None:
    text = small(
        head=f"workspace: {workspace}\nmode: r", phase='- name: p\n  model: "{workspace}/model.py"\n  dataset_name: d'
    )
    assert config(text).phases[0].model == path


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
        (small(head="workspace: [a]\nmode: r"), "UM-CONFIG-013 1:12 config: workspace needs a path, not a list"),
        (
            small(head="workspace: on\nmode: r"),
            "UM-CONFIG-013 1:12 config: workspace needs a path, not on, which means true",
        ),
        (
            small(runner="  name: r\n  class: train\n  epochs: 1"),
            "UM-CONFIG-013 4:3 config: runner needs a list of mappings, each with a name, not a mapping",
        ),
        (
            small(phase="  p"),
            'UM-CONFIG-013 8:3 config: phase needs a list of mappings, each with a name, not the text "p"',
        ),
        (
            small(runner="- name: r\n  epochs: 1\n- word"),
            'UM-CONFIG-013 6:3 runner: entry 2 needs to be a mapping with a name, not the text "word"',
        ),
        (
            small(head="workspace: .\nmode: r\nhyper_parameters: 3"),
            "UM-CONFIG-013 3:19 config: hyper_parameters needs a mapping, not the number 3",
        ),
        ("- a\n- b\n", "UM-CONFIG-013 1:1 a config is a mapping with keys such as workspace and mode, not a list"),
        # What it accepted, and what then failed later or was ignored.
        (small(head="workspace: .\nmode: x"), "UM-CONFIG-015 2:7 config: there is no runner named x"),
        (small(head="workspace: .\nmode: [r, x]"), "UM-CONFIG-015 2:11 config: there is no runner named x"),
        (small(head="workspace: .\nmode: []"), "UM-CONFIG-011 2:7 config: mode is empty"),
        (
            small(head="workspace: .\nmode: [[r]]"),
            "UM-CONFIG-013 2:7 config: mode needs a name or a list of names, not a list",
        ),
        (
            small(head="workspace: .\nmode: r\ndebug: 1"),
            "UM-CONFIG-013 3:8 config: debug needs true or false, not the number 1",
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
            "UM-CONFIG-013 5:10 runner r: class needs one of train, infer, local_cluster_train, cluster_train, online_learning, not a list",
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
        (runner_text(epochs='"4"'), 'UM-CONFIG-013 6:11 runner r: epochs needs a whole number, not the text "4"'),
        (runner_text(epochs=1.5), "UM-CONFIG-013 6:11 runner r: epochs needs a whole number, not the number 1.5"),
        (
            runner_text(epochs="true"),
            "UM-CONFIG-013 6:11 runner r: epochs needs a whole number, not true, which means true",
        ),
        (runner_text(epochs=10**20), f"UM-CONFIG-014 6:11 runner r: epochs: too large: {10**20}"),
        (runner_text(phases="[p, q]"), "UM-CONFIG-015 7:15 runner r: there is no phase named q"),
        (runner_text(phases='[p, ""]'), "UM-CONFIG-014 7:11 runner r: phases: a name that is empty"),
        (runner_text(print_interval=0), "UM-CONFIG-014 7:19 runner r: print_interval: less than 1: 0"),
        (
            runner_text(save_checkpoint_path="o", save_checkpoint_interval=0),
            "UM-CONFIG-014 8:29 runner r: save_checkpoint_interval: less than 1: 0",
        ),
        (
            runner_text(save_checkpoint_path="yes"),
            "UM-CONFIG-013 7:25 runner r: save_checkpoint_path needs a path, not yes, which means true",
        ),
        (runner_text(trainer_class="mine.py"), "UM-CONFIG-014 7:18 runner r: trainer_class: unknown value: mine.py"),
        (runner_text(seed=-1), "UM-CONFIG-014 7:9 runner r: seed: less than 0: -1"),
        (
            runner_text(class_="local_cluster_train", worker_num=0),
            "UM-CONFIG-014 7:15 runner r: worker_num: less than 1: 0",
        ),
        (
            runner_text(device="gpu", selected_gpus="a"),
            "UM-CONFIG-014 8:18 runner r: selected_gpus: not a number of a device: a",
        ),
        (
            runner_text(device="gpu", selected_gpus='"1,1"'),
            "UM-CONFIG-014 8:18 runner r: selected_gpus: a device is named twice",
        ),
        (
            runner_text(device="gpu", selected_gpus='"0,"'),
            "UM-CONFIG-014 8:18 runner r: selected_gpus: not a number of a device: nothing",
        ),
        (phase_text(thread_num=0), "UM-CONFIG-014 11:15 phase p: thread_num: less than 1: 0"),
        (
            phase_text(thread_num="many"),
            'UM-CONFIG-013 11:15 phase p: thread_num needs a whole number, not the text "many"',
        ),
        (phase_text(dataset_name="e"), "UM-CONFIG-015 10:17 phase p: there is no dataset named e"),
        (phase_text(dataset_name=None), "UM-CONFIG-011 8:3 phase p: dataset_name is missing"),
        (phase_text(model='""'), "UM-CONFIG-011 9:10 phase p: model is empty"),
        (
            phase_text(shuffle_filelist='"yes"'),
            'UM-CONFIG-013 11:21 phase p: shuffle_filelist needs true or false, not the text "yes"',
        ),
        (
            phase_text(gradient_scale_strategy=3),
            "UM-CONFIG-014 11:28 phase p: gradient_scale_strategy: unknown value: 3",
        ),
        (dataset_text(batch_size=None), "UM-CONFIG-011 12:3 dataset d: batch_size is missing"),
        (dataset_text(batch_size=0), "UM-CONFIG-014 13:15 dataset d: batch_size: less than 1: 0"),
        (dataset_text(data_path=None), "UM-CONFIG-011 12:3 dataset d: data_path is missing"),
        (dataset_text(type="TextDataset"), "UM-CONFIG-014 16:9 dataset d: type: unknown value: TextDataset"),
        (dataset_text(padding=0.5), "UM-CONFIG-013 16:12 dataset d: padding needs a whole number, not the number 0.5"),
        # Slots.
        (dataset_text(sparse_slots='"a b a"'), "UM-CONFIG-021 15:17 dataset d: sparse_slots: declared twice: a"),
        (dataset_text(dense_slots='"1:3"'), "UM-CONFIG-021 16:16 dataset d: declared sparse and dense: 1"),
        (dataset_text(sparse_slots=None), "UM-CONFIG-022 12:3 dataset d: nothing says how a line becomes a sample"),
        (
            dataset_text(sparse_slots="{}"),
            "UM-CONFIG-013 15:17 dataset d: sparse_slots needs names of slots with blanks between them, not a mapping",
        ),
        # What can't be together.
        (
            runner_text(class_="infer", init_model_path="m", device="gpu", selected_gpus='"0,1"'),
            "UM-CONFIG-023 9:18 runner r: infer runs in one process, not on 2 devices",
        ),
        (
            runner_text(class_="infer"),
            "UM-CONFIG-024 5:3 runner r: infer needs a model that was trained, and init_model_path is missing",
        ),
        (
            runner_text(class_="local_cluster_train", device="gpu", selected_gpus='"0,1"', worker_num=3),
            "UM-CONFIG-023 9:15 runner r: 3 workers, but selected_gpus names 2: each device has one worker",
        ),
        (
            runner_text(
                class_="online_learning", epochs=None, start_day=20260101, end_day=20260101, fleet_mode="collective"
            ),
            "UM-CONFIG-023 8:15 runner r: online learning needs parameter servers",
        ),
        (
            runner_text(class_="infer", init_model_path="m", infer_start_epoch=3, infer_end_epoch=3),
            "UM-CONFIG-014 9:20 runner r: infer_end_epoch: nothing is left to evaluate from 3 up to, but not including, 3",
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
            "UM-CONFIG-014 7:14 runner r: start_day: not a day: 20260230",
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
        (
            runner_text(zzz=1),
            "its keys are " + ", ".join(key.name for key in keys.RUNNER if not key.refused),
        ),
    ],
)
def test_hints(text: str, hint: str) -> None:
    (problem,) = read(text).problems
    assert problem.hint == hint


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
        'UM-CONFIG-013 16:15 dataset d: batch_size needs a whole number, not the text "two"',
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
    assert [runner.name for runner in found.runners] == ["r", "fine"]
    assert [phase.name for phase in found.phases] == ["p", "q"]
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


# ---- slots


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a:1", "a sparse slot has no width: a:1; write a, or make it a dense slot"),
        ("a,b", "slots have blanks between them, not commas: a,b"),
        ("a[1]", "not a name of a slot: a[1]"),
        ("a b b a", "declared twice: a, b"),
        (" ".join(f"{i % 10}" for i in range(20)), "declared twice: 0, 1, 2, 3, 4, 5, 6, 7 and 2 more"),
    ],
)
def test_sparse_slots_that_are_none(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(complaint)}$"):
        slots.sparse(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a", "a dense slot needs its number of values: a; write a:1"),
        ("a:", "not a number of values: a:; write a:13 or a:[8,8]"),
        ("a:0", "not a number of values: a:0; write a:13 or a:[8,8]"),
        ("a:-1", "not a number of values: a:-1; write a:13 or a:[8,8]"),
        ("a:[]", "not a number of values: a:[]; write a:13 or a:[8,8]"),
        ("a:[1", "not a number of values: a:[1; write a:13 or a:[8,8]"),
        ("a:2,3", "several sizes without brackets: a:2,3; write a:[2,3]"),
        (":3", "not a name of a slot: nothing"),
        ("a:1 a:2", "declared twice: a"),
        ("a:[99999,99999]", "more than 16777216 values in one sample: a:[99999,99999]"),
    ],
)
def test_dense_slots_that_are_none(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(complaint)}$"):
        slots.dense(text)


def test_dense_slots() -> None:
    found = slots.dense(" a:1 b:[2, 3]\tc:13 ")
    assert [(slot.name, slot.shape, slot.width, slot.spoken) for slot in found] == [
        ("a", (1,), 1, "a:1"),
        ("b", (2, 3), 6, "b:[2,3]"),
        ("c", (13,), 13, "c:13"),
    ]


# ---- the tables


def test_the_config_of_the_reference_page_is_right() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "config.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert config(text).mode == ("ps_cluster",)
    assert read(text).warnings == ()


def test_every_key_has_a_meaning_or_a_reason() -> None:
    for table in (keys.GLOBAL, keys.RUNNER, keys.PHASE, keys.DATASET, flat_keys.FLAT_GLOBAL, flat_keys.FLAT):
        names = [key.name for key in table]
        assert len({*names}) == len(names)
        for key in table:
            assert key.meaning or key.refused or key.ignored or key.settled, key.name
            assert (key.kind is Kind.CHOICE) == bool(key.choices), key.name


def test_every_key_that_is_obeyed_can_be_written_again() -> None:
    text = runner_text(
        class_="online_learning",
        epochs=1,
        device="gpu",
        selected_gpus='"0,1"',
        start_day=20260101,
        end_day=20260102,
        save_checkpoint_path="o",
        save_step_path="s",
        save_step_interval=5,
        save_inference_path="i",
        save_inference_feed_varnames="[a]",
        save_inference_fetch_varnames="[b]",
        save_minutes_interval=5,
        keep_checkpoints=2,
        amp="true",
    )
    found = config(text)
    plain = writing.plain(found)
    written = {*plain["runner"][0], "infer_start_epoch", "infer_end_epoch", "alone_allowed"}
    written |= {"evaluate_phase", "early_stop_patience", "early_stop_metric"}
    assert written == {key.name for key in keys.RUNNER if not key.refused} - {"trainer_class"}
    assert {*plain["phase"][0]} == {key.name for key in keys.PHASE}
    assert {*plain["dataset"][0]} == {key.name for key in keys.DATASET}
    assert {*plain} == {key.name for key in keys.GLOBAL}
    assert config(yaml.safe_dump(plain)) == found
    assert len(fields(found.runners[0])) == 25
