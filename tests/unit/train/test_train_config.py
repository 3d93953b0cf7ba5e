"""A config in the layout of PaddleRec 1.8.5: the configs of its document, what holds where nothing is said, the tables of keys."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT
from tests.support.train_helpers import (
    ASYNC_CLUSTER,
    COLLECTIVE_CLUSTER,
    PS_CLUSTER,
    SINGLE,
    SLOTS,
    config,
    dataset_text,
    phase_text,
    read,
    runner_text,
    small,
)
from umiak.core.value import fields
from umiak.schema import kinds
from umiak.schema.keys import Key
from umiak.train.config import flat_keys, keys, writing
from umiak.train.config.slots import DenseSlot
from umiak.train.config.values import Dataset, Device, FleetMode, Phase, Runner, RunnerClass, Saving

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
def test_saying_a_default_changes_nothing(table: tuple[Key, ...], made: Any) -> None:
    plain = config(made())
    defaults = {key.name: key.default for key in table if key.default is not None and key.name not in keys.ONLINE}
    assert len(defaults) > 1
    for name, default in defaults.items():
        word = str(default).lower() if isinstance(default, bool) else default
        assert config(made(**{name: word})) == plain, name


@pytest.mark.parametrize("name", [key.name for key in keys.RUNNER if not key.refused and not key.required])
def test_null_is_the_same_as_nothing(name: str) -> None:
    assert read(runner_text(**{name: "~"})) == read(runner_text(**{name: None}))


# ---- the tables


def test_the_config_of_the_reference_page_is_right() -> None:
    page = (ROOT / "docs" / "reference" / "config.md").read_text(encoding="utf-8")
    # The second one is what may stand below the first.
    text = "".join(re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert config(text).mode == ("ps_cluster",)
    assert read(text).warnings == ()


def test_every_key_has_a_meaning_or_a_reason() -> None:
    for table in (keys.GLOBAL, keys.RUNNER, keys.PHASE, keys.DATASET, flat_keys.FLAT_GLOBAL, flat_keys.FLAT):
        names = [key.name for key in table]
        assert len({*names}) == len(names)
        for key in table:
            assert key.meaning or key.refused or key.ignored or key.settled, key.name
            assert (key.kind is kinds.CHOICE) == bool(key.choices), key.name


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
        shuffle=1000,
    )
    found = config(text)
    plain = writing.plain(found)
    written = {*plain["runner"][0], "infer_start_epoch", "infer_end_epoch", "alone_allowed", "node_data"}
    written |= {"evaluate_phase", "early_stop_patience", "early_stop_metric"}
    assert written == {key.name for key in keys.RUNNER if not key.refused} - {"trainer_class"}
    assert {*plain["phase"][0]} == {key.name for key in keys.PHASE}
    assert {*plain["dataset"][0]} == {key.name for key in keys.DATASET}
    assert {*plain} == {key.name for key in keys.GLOBAL}
    assert config(yaml.safe_dump(plain)) == found
    assert len(fields(found.runners[0])) == 29
