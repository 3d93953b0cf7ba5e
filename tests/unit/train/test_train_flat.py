"""The newer layout, one mapping `runner`: the same values as the older one, and complaints about what was written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.train_helpers import FLAT, config, problems, read, runner_text, warnings
from umiak.core.cluster import StrategyName
from umiak.schema.keys import Key
from umiak.train.config import flat_keys
from umiak.train.config.values import (
    Device,
    FleetMode,
    Inference,
    Online,
    Runner,
    RunnerClass,
    Saving,
    TableParameters,
)

NESTED = """\
workspace: models/ctr
mode: train
runner:
- name: train
  class: train
  epochs: 3
  print_interval: 10
  save_checkpoint_path: output_model_dnn
  phases: train
  seed: 12345
- name: infer
  class: infer
  print_interval: 10
  init_model_path: output_model_dnn
  infer_start_epoch: 0
  infer_end_epoch: 3
  phases: infer
  seed: 12345
phase:
- name: train
  model: "{workspace}/model.py"
  dataset_name: train
- name: infer
  model: "{workspace}/model.py"
  dataset_name: infer
dataset:
- name: train
  data_path: "{workspace}/data/train"
  batch_size: 512
  data_converter: "{workspace}/criteo_reader.py"
  reader_class_name: RecDataset
- name: infer
  data_path: "{workspace}/data/test"
  batch_size: 1024
  data_converter: "{workspace}/criteo_reader.py"
  reader_class_name: RecDataset
hyper_parameters:
  optimizer: {class: Adam, learning_rate: 1e-3}
  sparse_feature_dim: 9
  fc_sizes: [512, 256, 128, 32]
"""


def flat(**given: Any) -> str:
    """A small config in the newer layout; a key that is None is left out."""
    keyed = {"train_data_dir": "data", "train_batch_size": 2, "epochs": 1, "sparse_slots": '"click 1"', **given}
    return "\n".join(["runner:", *(f"  {name}: {item}" for name, item in keyed.items() if item is not None), ""])


def trained(**given: Any) -> Runner:
    return config(flat(**given)).runner("train")


def test_both_layouts_give_the_same_values() -> None:
    assert config(FLAT, directory="models/ctr") == config(NESTED)
    assert read(FLAT).warnings == read(NESTED).warnings == ()


def test_what_is_run() -> None:
    assert config(FLAT).mode == ("train",)
    assert config(f"mode: infer\n{FLAT}").mode == ("infer",)
    assert config(f"mode: [train, infer]\n{FLAT}").mode == ("train", "infer")
    only = flat(train_data_dir=None, train_batch_size=None, test_data_dir="t", infer_batch_size=4, infer_load_path="m")
    assert config(only).mode == ("infer",)
    assert [runner.name for runner in config(only).runners] == ["infer"]
    assert [runner.name for runner in config(flat()).runners] == ["train"]


def test_paths_begin_at_the_config_or_where_it_says() -> None:
    def paths(directory: str, **given: Any) -> tuple[str, ...]:
        found = config(flat(sparse_slots=None, train_reader_path="reader", **given), directory=directory)
        data = found.dataset("train")
        return data.data_path, str(data.data_converter), found.phase("train").model

    assert paths("m") == ("m/data", "m/reader.py", "m/model.py")
    assert paths(".") == ("./data", "./reader.py", "./model.py")
    assert paths("/x", train_data_dir="./data", model="net.py") == ("/x/data", "/x/reader.py", "/x/net.py")
    assert paths("m", train_data_dir="/abs")[0] == "/abs"
    assert paths("m", train_data_dir="s3://b/c")[0] == "s3://b/c"
    assert paths("m", train_data_dir='"{workspace}/d"')[0] == "m/d"
    elsewhere = config(f"workspace: umiak.models.rank.dnn\n{flat()}")
    assert elsewhere.dataset("train").data_path == "/lib/umiak/models/rank/dnn/data"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"kind": RunnerClass.TRAIN, "seed": 12345, "checkpoint": None, "device": Device.CPU}),
        ({"use_gpu": "true"}, {"device": Device.GPU}),
        ({"use_xpu": "True"}, {"device": Device.XPU}),
        ({"use_npu": "true"}, {"device": Device.NPU}),
        ({"use_gpu": "false"}, {"device": Device.CPU}),
        ({"use_fleet": "true"}, {"kind": RunnerClass.CLUSTER_TRAIN, "fleet_mode": FleetMode.COLLECTIVE}),
        (
            {"sync_mode": "sync"},
            {"kind": RunnerClass.CLUSTER_TRAIN, "fleet_mode": FleetMode.PS, "strategy": StrategyName.SYNC},
        ),
        ({"sync_mode": "geo", "geo_step": 400}, {"strategy": StrategyName.GEO, "geo_steps": 400}),
        (
            {"sync_mode": "async", "worker_num": 2, "server_num": 3},
            {"kind": RunnerClass.LOCAL_CLUSTER_TRAIN, "fleet_mode": FleetMode.PS, "workers": 2, "servers": 3},
        ),
        (
            {"use_fleet": "true", "worker_num": 2},
            {"kind": RunnerClass.LOCAL_CLUSTER_TRAIN, "fleet_mode": FleetMode.COLLECTIVE, "workers": 2},
        ),
        ({"seed": 7}, {"seed": 7}),
        ({"print_interval": 3}, {"print_interval": 3}),
        ({"shuffle": 100}, {"shuffle": 100}),
        ({"model_init_path": "a"}, {"init_model_path": "a"}),
        ({"warmup_model_path": "a"}, {"init_model_path": "a"}),
        ({"model_init_path": "a", "warmup_model_path": "b"}, {"init_model_path": "a"}),
        ({"model_save_path": "out"}, {"checkpoint": Saving(path="out", every=1), "inference": None}),
        (
            {"model_save_path": "out", "save_step_path": "steps", "save_step_interval": 20, "save_minutes_interval": 5},
            {"step_checkpoint": Saving(path="steps", every=20), "save_minutes": 5},
        ),
        (
            {
                "model_save_path": "out",
                "use_inference": "true",
                "save_inference_feed_varnames": "[a]",
                "save_inference_fetch_varnames": "[b]",
            },
            {"inference": Inference(path="out", every=1, feeds=("a",), fetches=("b",))},
        ),
        (
            {"start_day": 20260101, "end_day": 20260102, "split_interval": 5, "split_per_pass": 2},
            {
                "kind": RunnerClass.ONLINE_LEARNING,
                "online": Online(start_day="20260101", end_day="20260102", split_interval=5, split_per_pass=2),
            },
        ),
    ],
)
def test_keys(given: dict[str, Any], expected: dict[str, Any]) -> None:
    made = trained(**given)
    assert {name: getattr(made, name) for name in expected} == expected


def test_keys_of_data() -> None:
    found = config(flat(reader_type="InmemoryDataset", num_workers=3, thread_num=4, padding=1, dense_slots='"d:2"'))
    data = found.dataset("train")
    assert (data.type.value, data.reader_processes, data.padding) == ("QueueDataset", 3, 1)
    assert data.dense_slots[0].spoken == "d:2"
    assert found.phase("train").thread_num == 4
    assert config(flat(reader_type="RecDataset")).dataset("train").type.value == "DataLoader"


def test_keys_of_one_dataset_or_phase() -> None:
    found = config(
        flat(
            thread_num=2,
            train_thread_num=3,
            infer_data_dir="i",
            infer_batch_size=4,
            infer_load_path="m",
            infer_thread_num=5,
        )
    )
    assert [found.phase(name).thread_num for name in ("train", "infer")] == [3, 5]
    assert found.dataset("infer").data_path == "./i"
    assert trained(runner_result_dump_path="m.json").result_dump_path == "m.json"


def test_such_a_config_does_not_say_where_it_is_run() -> None:
    assert trained(sync_mode="async").alone_allowed
    assert trained(use_fleet="true").alone_allowed
    assert not trained(sync_mode="async", worker_num=2).alone_allowed
    assert not trained().alone_allowed


def test_table_parameters_are_kept() -> None:
    said = "table_parameters: {embedding: {accessor: {embedx_dim: 8}}}"
    assert config(f"{said}\n{flat()}").table_parameters == {"embedding": TableParameters(embedx_dim=8)}


@pytest.mark.parametrize("key", [key for key in flat_keys.FLAT if key.ignored], ids=lambda key: key.name)
@pytest.mark.parametrize("given", ["true", "[secret]", "{passwd: secret}", "secret"])
def test_keys_without_effect_are_told(key: Key, given: str) -> None:
    text = flat(**{key.name: given})
    assert warnings(text) == [f"UM-CONFIG-018 6:3 runner: no effect: {key.name}"]
    assert "secret" not in str(read(text).warnings)


@pytest.mark.parametrize("key", [key for key in flat_keys.FLAT if key.ignored], ids=lambda key: key.name)
@pytest.mark.parametrize("given", ["false", "[]", '""', "0"])
def test_keys_that_ask_for_nothing_are_not(key: Key, given: str) -> None:
    assert warnings(flat(**{key.name: given})) == []


@pytest.mark.parametrize("key", [key for key in flat_keys.FLAT if key.settled], ids=lambda key: key.name)
@pytest.mark.parametrize("given", ["true", "false", "100"])
def test_keys_that_are_settled_are_read_over(key: Key, given: str) -> None:
    assert warnings(flat(**{key.name: given})) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (flat(train_batch_size=None), "UM-CONFIG-011 2:3 dataset train: train_batch_size is missing"),
        (
            flat(train_batch_size="two"),
            'UM-CONFIG-013 3:21 runner: train_batch_size must be an integer, not the text "two"',
        ),
        (flat(train_data_dir=None), "UM-CONFIG-011 2:3 dataset train: train_data_dir is missing"),
        (flat(epochs=None), "UM-CONFIG-011 2:3 runner train: epochs is missing"),
        (flat(epoch=3), "UM-CONFIG-012 6:3 runner: unknown key: epoch"),
        (flat(sparse_slots=None), "UM-CONFIG-022 2:3 dataset train: nothing says how a line becomes a sample"),
        (flat(sparse_slots='"a a"'), "UM-CONFIG-021 5:17 runner: sparse_slots: declared twice: a"),
        (flat(dense_slots='"click:2"'), "UM-CONFIG-021 6:16 dataset train: declared sparse and dense: click"),
        (flat(sync_mode="gpubox"), "UM-CONFIG-014 6:14 runner: sync_mode: not supported: gpubox"),
        (flat(sync_mode="heter"), "UM-CONFIG-014 6:14 runner: sync_mode: not supported: heter"),
        (
            flat(use_gpu="true", use_npu="true"),
            "UM-CONFIG-023 7:12 runner: several devices are chosen: use_gpu, use_npu",
        ),
        (
            flat(use_fleet="true", sync_mode="async"),
            "UM-CONFIG-023 6:14 runner: use_fleet is for collective training, sync_mode async for parameter servers",
        ),
        (flat(seed="x"), 'UM-CONFIG-013 6:9 runner: seed must be an integer, not the text "x"'),
        (f"mode: [train, inf]\n{flat()}", "UM-CONFIG-015 1:15 config: there is no runner named inf"),
        (
            f"hyper_parameters: 3\n{flat()}",
            "UM-CONFIG-013 1:19 config: hyper_parameters must be a mapping, not the number 3",
        ),
        (f"workspace: [a]\n{flat()}", "UM-CONFIG-013 1:12 config: workspace must be a path, not a list"),
        (f"workspace: umiak.models.x\n{flat()}", "UM-CONFIG-002 1:12 workspace: no such model: umiak.models.x"),
        (flat(start_day=20260101), "UM-CONFIG-011 2:3 runner train: end_day is missing"),
        (
            flat(start_day=20260102, end_day=20260101),
            "UM-CONFIG-014 7:12 runner train: end_day: it is before the first day, 20260102",
        ),
        (
            f"mode: infer\n{flat(infer_load_path='m', infer_batch_size=2)}",
            "UM-CONFIG-011 3:3 dataset infer: test_data_dir is missing",
        ),
        (
            f"mode: infer\n{flat(test_data_dir='t', infer_batch_size=2)}",
            "UM-CONFIG-024 3:3 runner infer: infer requires a trained model, and infer_load_path is missing",
        ),
    ],
)
def test_what_is_wrong(text: str, expected: str) -> None:
    assert problems(text) == [expected]


def test_a_mapping_beside_phases_is_a_mistake_of_the_older_layout() -> None:
    text = runner_text().replace("- name: r", "  name: r")
    assert problems(text) == [
        "UM-CONFIG-013 4:3 config: runner must be a list of mappings, each with a name, not a mapping"
    ]
