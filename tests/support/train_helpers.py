"""Configs for the tests of `umiak.train`, and short ways to read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from umiak.core.problem import Problem
from umiak.train.config import layouts
from umiak.train.config.layouts import Reading
from umiak.train.config.values import TrainConfig
from umiak.train.config.workspace import Library

LIBRARY = Library(root="/lib/umiak", models=("match.dssm", "rank.dnn", "rank.wide_deep"))
SLOTS = " ".join(["click", *map(str, range(1, 27))])

# The configs that the PaddleCloud document describes, key by key: one process, then clusters of three kinds.
SINGLE = f"""\
workspace: "paddlerec.models.rank.dnn"

mode: [single_cpu_train]
runner:
- name: single_cpu_train
  class: train
  epochs: 4
  device: cpu
  save_checkpoint_interval: 2
  save_checkpoint_path: "increment_dnn"
  init_model_path: ""
  print_interval: 10
  phases: [phase1]

dataset:
- name: dataloader_train
  batch_size: 2
  type: DataLoader
  data_path: "{{workspace}}/data/sample_data/train"
  sparse_slots: "{SLOTS}"
  dense_slots: "dense_var:13"

phase:
- name: phase1
  model: "{{workspace}}/model.py"
  dataset_name: dataloader_train
  thread_num: 1
"""


def on_cluster(name: str, epochs: int, device: str, more: str, interval: int = 1, printed: int = 1) -> str:
    """A config for a cluster: what differs from one kind to the next."""
    return f"""\
workspace: "./"
mode: [{name}]

dataset:
- name: dataloader_train
  batch_size: 2
  type: DataLoader
  data_path: "{{workspace}}/train_data"
  sparse_slots: "{SLOTS}"
  dense_slots: "dense_var:13"

runner:
- name: {name}
  class: cluster_train
  epochs: {epochs}
  device: {device}
  {more}
  save_checkpoint_interval: {interval}
  save_checkpoint_path: "increment_dnn"
  init_model_path: ""
  print_interval: {printed}
  phases: [phase1]

phase:
- name: phase1
  model: "{{workspace}}/model.py"
  dataset_name: dataloader_train
  thread_num: 1
"""


ASYNC_CLUSTER = on_cluster("ps_cluster", 4, "cpu", "fleet_mode: ps\n  distribute_strategy: async", 2, 10)
PS_CLUSTER = on_cluster("ps_cluster", 2, "cpu", "fleet_mode: ps")
COLLECTIVE_CLUSTER = on_cluster("collective_cluster", 2, "gpu", "fleet_mode: collective")

FLAT = """\
runner:
  train_data_dir: "data/train"
  train_reader_path: "criteo_reader"
  use_gpu: false
  train_batch_size: 512
  epochs: 3
  print_interval: 10
  model_save_path: "output_model_dnn"
  test_data_dir: "data/test"
  infer_reader_path: "criteo_reader"
  infer_batch_size: 1024
  infer_load_path: "output_model_dnn"
  infer_start_epoch: 0
  infer_end_epoch: 3

hyper_parameters:
  optimizer:
    class: Adam
    learning_rate: 0.001
  sparse_feature_dim: 9
  fc_sizes: [512, 256, 128, 32]
"""


def read(text: str, *said: str, directory: str = ".") -> Reading:
    return layouts.read(text, source="config.yaml", directory=directory, library=LIBRARY, said=said)


def config(text: str, *said: str, directory: str = ".") -> TrainConfig:
    """The config of a text in which nothing is wrong."""
    found = read(text, *said, directory=directory)
    assert found.problems == ()
    assert found.config is not None
    return found.config


def told(problems: Iterable[Problem]) -> list[str]:
    """Problems as ``code place what``."""
    return [f"{each.code} {(each.where or '').removeprefix('config.yaml:')} {each.what}" for each in problems]


def problems(text: str, *said: str) -> list[str]:
    found = read(text, *said)
    assert found.config is None or found.problems == ()
    return told(found.problems)


def warnings(text: str, *said: str) -> list[str]:
    found = read(text, *said)
    assert found.problems == ()
    return told(found.warnings)


def runner_text(**keys: Any) -> str:
    """A small config whose only runner, ``r``, has these keys; a key that is None is left out."""
    given = {"class": "train", "epochs": 1, **{name.rstrip("_"): item for name, item in keys.items()}}
    lines = [f"  {name}: {item}" for name, item in given.items() if item is not None]
    return small(runner="\n".join(["- name: r", *lines]))


def dataset_text(**keys: Any) -> str:
    """A small config whose only dataset, ``d``, has these keys."""
    given = {"batch_size": 2, "data_path": "data", "sparse_slots": '"click 1"', **keys}
    lines = [f"  {name}: {item}" for name, item in given.items() if item is not None]
    return small(dataset="\n".join(["- name: d", *lines]))


def phase_text(**keys: Any) -> str:
    given = {"model": "model.py", "dataset_name": "d", **keys}
    lines = [f"  {name}: {item}" for name, item in given.items() if item is not None]
    return small(phase="\n".join(["- name: p", *lines]))


def small(
    *,
    head: str = "workspace: .\nmode: r",
    runner: str = "- name: r\n  class: train\n  epochs: 1",
    phase: str = "- name: p\n  model: model.py\n  dataset_name: d",
    dataset: str = '- name: d\n  batch_size: 2\n  data_path: data\n  sparse_slots: "click 1"',
) -> str:
    """A small config with some parts exchanged. The runner begins in line 4."""
    return f"{head}\nrunner:\n{runner}\nphase:\n{phase}\ndataset:\n{dataset}\n"
