"""Every key of a config in the layout of PaddleRec 1.8.5, with what it means; and slots."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.train_helpers import config, dataset_text, phase_text, runner_text, small
from umiak.core.cluster import StrategyName
from umiak.train.config import slots
from umiak.train.config.slots import DenseSlot
from umiak.train.config.values import (
    DatasetType,
    Device,
    FleetMode,
    Inference,
    Online,
    RunnerClass,
    Saving,
    TableParameters,
)

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
        ({"class": "cluster_train", "distribute_strategy": "half_async"}, {"strategy": StrategyName.HALF_ASYNC}),
        ({"class": "cluster_train", "distribute_strategy": "sync"}, {"strategy": StrategyName.SYNC}),
        ({"class": "cluster_train", "distribute_strategy": "hybrid"}, {"strategy": StrategyName.HYBRID}),
        (
            {"class": "cluster_train", "distribute_strategy": "geo", "geo_step": 7},
            {"strategy": StrategyName.GEO, "geo_steps": 7},
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
        ({"shuffle": 100}, {"shuffle": 100}),
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
table_parameters: {embedding: {accessor: {embedx_dim: 8}}}"""
    found = config(small(head=head))
    assert found.workspace == "/data/ctr/"
    assert found.mode == ("r", "r")
    assert found.debug is True
    assert found.hyper_parameters == {
        "optimizer": {"class": "Adam", "learning_rate": 0.001},
        "fc_sizes": (512, (256,)),
        "vocabulary": "/data/ctr/words.txt",
    }
    assert found.table_parameters == {"embedding": TableParameters(embedx_dim=8)}


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


# ---- slots


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a:1", "a sparse slot has no width: a:1; write a, or make it a dense slot"),
        ("a,b", "slots have blanks between them, not commas: a,b"),
        ("a[1]", "expected a name of a slot, got a[1]"),
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
        ("a:", "expected a number of values, got a:; write a:13 or a:[8,8]"),
        ("a:0", "expected a number of values, got a:0; write a:13 or a:[8,8]"),
        ("a:-1", "expected a number of values, got a:-1; write a:13 or a:[8,8]"),
        ("a:[]", "expected a number of values, got a:[]; write a:13 or a:[8,8]"),
        ("a:[1", "expected a number of values, got a:[1; write a:13 or a:[8,8]"),
        ("a:2,3", "several sizes without brackets: a:2,3; write a:[2,3]"),
        (":3", "expected a name of a slot, got nothing"),
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
