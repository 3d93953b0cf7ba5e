"""Configs: what is written is read again; and whatever is done to a file, it is read or complained about, inside of the file."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import effort
from tests.support.train_helpers import ASYNC_CLUSTER, COLLECTIVE_CLUSTER, FLAT, LIBRARY, SINGLE, config, read
from umiak.core.cluster import StrategyName
from umiak.core.value import replace
from umiak.schema import kinds
from umiak.schema.keys import known
from umiak.train.config import days, flat_keys, json_schema, keys, layouts, slots, writing
from umiak.train.config.slots import DenseSlot
from umiak.train.config.tables import COUNTS
from umiak.train.config.values import (
    Dataset,
    DatasetType,
    Device,
    EmbeddingTables,
    FleetMode,
    Inference,
    NodeData,
    Online,
    Phase,
    RowRule,
    Runner,
    RunnerClass,
    Saving,
    TableParameters,
    TrainConfig,
)
from umiak.train.plan import explain
from umiak.train.plan.plan import plan
from umiak.train.plan.process_role import process_role

SCHEMA = jsonschema.Draft7Validator(json_schema.schema())

# Anything that a person can name: also words that YAML takes for something else.
names = st.one_of(
    st.sampled_from(["1", "on", "null", "~", "007", "1e3", "a.b", "- x", "é", "名", "{x}", "a: b", "#1", "'", '"']),
    st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8),
)
paths = names.filter(lambda name: "::" not in name and "{workspace}" not in name)
slot_names = names.filter(lambda name: not {*",:[] "} & {*name})
counts = st.integers(1, 10**6)
maybe_path = st.none() | paths
savings = st.none() | st.builds(Saving, path=paths, every=counts)
inferences = st.none() | st.builds(
    Inference,
    path=paths,
    every=counts,
    feeds=st.lists(names, max_size=2).map(tuple),
    fetches=st.lists(names, max_size=2).map(tuple),
)
day_texts = st.dates().map(lambda day: f"{day.year:04}{day.month:02}{day.day:02}")


def is_exponent(text: str) -> bool:
    return re.fullmatch(r"[-+]?\d+(\.\d*)?e[-+]?\d+", text, re.IGNORECASE | re.ASCII) is not None


free = st.dictionaries(
    names.filter(lambda name: name != "<<"),
    st.recursive(
        # PyYAML writes the text 1e3 without quotes, and here that is a number.
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | paths.filter(lambda text: not is_exponent(text)),
        lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(names, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


@st.composite
def datasets(draw: st.DrawFn, name: str) -> Dataset:
    chosen = draw(st.lists(slot_names, unique=True, min_size=1, max_size=5))
    cut = draw(st.integers(0, len(chosen)))
    shapes = st.lists(st.integers(1, 99), min_size=1, max_size=3).map(tuple)
    dense = tuple([DenseSlot(name=each, shape=draw(shapes)) for each in chosen[cut:]])
    by_slots = draw(st.booleans())
    return Dataset(
        name=name,
        data_path=draw(paths),
        batch_size=draw(counts),
        type=draw(st.sampled_from(DatasetType)),
        sparse_slots=tuple(chosen[:cut]) if by_slots else (),
        dense_slots=dense if by_slots else (),
        padding=draw(st.integers(0, 99)),
        data_converter=None if by_slots else draw(paths),
        reader_class=draw(names),
        reader_processes=draw(st.integers(0, 8)),
    )


@st.composite
def onlines(draw: st.DrawFn) -> Online:
    start, end = sorted([draw(day_texts), draw(day_texts)])
    return Online(
        start_day=start,
        end_day=end,
        split_interval=draw(st.sampled_from([1, 5, 30, 60, 1440])),
        split_per_pass=draw(counts),
        data_donefile=draw(st.none() | names),
        data_sleep_s=draw(counts),
        checkpoint_per_pass=draw(counts),
        save_delta_frequency=draw(counts),
        save_first_base=draw(st.booleans()),
        prefetch=draw(st.booleans()),
    )


@st.composite
def runners(draw: st.DrawFn, name: str, phases: list[str]) -> Runner:
    kind = draw(st.sampled_from(RunnerClass))
    device = draw(st.sampled_from(Device))
    many = 1 if kind is RunnerClass.INFER else 3
    ids = () if device is Device.CPU else tuple(draw(st.lists(st.integers(0, 7), max_size=many, unique=True)))
    alone = kind is RunnerClass.INFER or (kind is RunnerClass.TRAIN and len(ids) < 2)
    fleet = FleetMode.PS
    if not alone and kind is not RunnerClass.ONLINE_LEARNING:
        fleet = draw(st.sampled_from(FleetMode))
    with_servers = not alone and fleet is FleetMode.PS
    trains = kind is not RunnerClass.INFER
    once = kind in (RunnerClass.INFER, RunnerClass.ONLINE_LEARNING)
    first = draw(st.integers(0, 9))
    return Runner(
        name=name,
        kind=kind,
        device=device,
        device_ids=ids,
        fleet_mode=fleet,
        strategy=draw(st.sampled_from(StrategyName)) if with_servers else StrategyName.ASYNC,
        geo_steps=draw(counts),
        workers=len(ids) or (1 if alone else draw(counts)),
        servers=draw(counts) if with_servers else 1,
        alone_allowed=kind is RunnerClass.CLUSTER_TRAIN and draw(st.booleans()),
        node_data=draw(st.none() | st.sampled_from(NodeData)) if kind is RunnerClass.CLUSTER_TRAIN else None,
        epochs=1 if once else draw(counts),
        phases=tuple(draw(st.lists(st.sampled_from(phases), min_size=1, max_size=3))),
        seed=draw(st.none() | st.integers(0, 2**53)),
        init_model_path=draw(maybe_path) if trains else draw(paths),
        infer_epochs=None if trains or draw(st.booleans()) else (first, first + draw(counts)),
        checkpoint=draw(savings) if trains else None,
        step_checkpoint=draw(savings) if trains else None,
        inference=draw(inferences) if trains else None,
        print_interval=draw(counts),
        shuffle=draw(st.integers(0, 10**6)) if trains else 0,
        result_dump_path=draw(maybe_path),
        online=draw(onlines()) if kind is RunnerClass.ONLINE_LEARNING else None,
    )


numbers = st.floats(0, 100, allow_nan=False)
rules = st.one_of(
    st.builds(
        RowRule, rule=st.just("sgd"), settings=st.fixed_dictionaries({"learning_rate": numbers}), initial_range=numbers
    ),
    st.builds(
        RowRule,
        rule=st.sampled_from(["adagrad_shared", "adagrad_scaled"]),
        settings=st.fixed_dictionaries({"learning_rate": numbers, "initial_g2sum": st.floats(0.5, 9)}),
    ),
    st.builds(
        RowRule, rule=st.just("adam_row"), settings=st.fixed_dictionaries({}, optional={"beta1": st.floats(0, 0.75)})
    ),
)


@st.composite
def tables(draw: st.DrawFn) -> TableParameters:
    names_of_numbers = [key.name for key in COUNTS if key.kind is kinds.NUMBER and known(key)]
    return TableParameters(
        embedx_dim=draw(st.none() | counts),
        embedx_threshold=draw(numbers),
        show_scale=draw(st.booleans()),
        zero_init=draw(st.booleans()),
        embed=draw(rules),
        embedx=draw(rules),
        bound=draw(st.floats(0.5, 99)),
        **{name: draw(st.floats(0, 1)) for name in names_of_numbers},
    )


@st.composite
def configs(draw: st.DrawFn) -> TrainConfig:
    def some_names() -> list[str]:
        return draw(st.lists(names, unique=True, min_size=1, max_size=3))

    dataset_names, phase_names, runner_names = some_names(), some_names(), some_names()
    phases = tuple(
        [
            Phase(
                name=name,
                model=draw(paths),
                dataset_name=draw(st.sampled_from(dataset_names)),
                thread_num=draw(counts),
                shuffle_filelist=draw(st.booleans()),
                gradient_scale=draw(st.integers(0, 2)),
            )
            for name in phase_names
        ]
    )
    return TrainConfig(
        workspace=draw(paths.filter(lambda path: not path.startswith(("umiak.", "paddlerec.")))),
        mode=tuple(draw(st.lists(st.sampled_from(runner_names), min_size=1, max_size=3))),
        runners=tuple([draw(runners(name, phase_names)) for name in runner_names]),
        phases=phases,
        datasets=tuple([draw(datasets(name)) for name in dataset_names]),
        hyper_parameters=draw(free),
        table_parameters=draw(st.dictionaries(names.filter(lambda name: name != "<<"), tables(), max_size=2)),
        embedding_tables=draw(st.sampled_from(EmbeddingTables)),
        debug=draw(st.booleans()),
    )


@given(configs(), st.booleans())
def test_what_is_written_is_read_again(made: TrainConfig, unicode: bool) -> None:
    text = yaml.safe_dump(writing.plain(made), allow_unicode=unicode, sort_keys=False)
    found = read(text)
    assert found.problems == ()
    assert found.config == made


@effort(0.3)
@given(configs())
def test_what_is_written_fits_the_schema(made: TrainConfig) -> None:
    SCHEMA.validate(json.loads(json.dumps(writing.plain(made))))


@given(configs())
def test_every_config_has_a_plan_that_can_be_told(made: TrainConfig) -> None:
    short = [
        replace(each, online=None if each.online is None else replace(each.online, end_day=each.online.start_day))
        for each in made.runners
    ]
    told = plan(replace(made, runners=tuple(short)), process_role({}), "config.yaml")
    assert [run.name for run in told.runs] == [*made.mode]
    text = explain.text(told)
    for run in told.runs:
        assert all(stage.dataset == made.dataset(made.phase(stage.name).dataset_name) for stage in run.stages)
        assert run.name in text


@given(st.lists(slot_names, unique=True, max_size=6))
def test_slots_are_the_same_after_being_written(chosen: list[str]) -> None:
    assert slots.sparse(" ".join(chosen)) == tuple(chosen)
    dense = tuple([DenseSlot(name=name, shape=(number + 1,) * (number % 3 + 1)) for number, name in enumerate(chosen)])
    assert slots.dense("  ".join(slot.spoken for slot in dense)) == dense


@effort(0.3)
@given(onlines())
def test_passes_hold_every_directory_once(online: Online) -> None:
    online = replace(online, end_day=online.start_day)
    splits = [split for each in days.passes(online) for split in each.splits]
    assert len(splits) == len({*splits}) == 1440 // online.split_interval
    assert splits == sorted(splits)


# ---- files that were tampered with

SOURCES = {"single": SINGLE, "servers": ASYNC_CLUSTER, "collective": COLLECTIVE_CLUSTER, "newer": FLAT}
EVERY_KEY = sorted(
    {key.name for table in (keys.GLOBAL, keys.RUNNER, keys.PHASE, keys.DATASET, flat_keys.FLAT) for key in table}
)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**30)
    | st.floats()
    | names
    | st.sampled_from(["", "{workspace}", "train", "0,1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)


def lines_of(text: str) -> list[str]:
    return re.split("\r\n|[\n\r\x85\u2028\u2029]", text.removesuffix("\n"))


def check(text: str, *said: str) -> None:
    """A text is read, or complained about at places that it has; and what was read can be planned and written."""
    found = layouts.read(text, source="config.yaml", library=LIBRARY, said=said)
    assert (found.config is None) == bool(found.problems)
    lines = lines_of(text)
    for problem in (*found.problems, *found.warnings):
        assert re.fullmatch(r"UM-CONFIG-0\d\d", problem.code)
        assert problem.what
        assert problem.where is not None
        if problem.where.startswith("-o "):
            assert problem.where[3:] in said
            continue
        place = re.fullmatch(r"config\.yaml:(\d+):(\d+)", problem.where)
        assert place, problem.where
        line, column = int(place[1]), int(place[2])
        assert 1 <= line <= len(lines), problem
        assert 1 <= column <= len(lines[line - 1]) + 1, problem
        assert not any("\n" in each for each in problem.lines())
    if found.config is not None:
        explain.text(plan(found.config, process_role({})))
        assert config(yaml.safe_dump(writing.plain(found.config), sort_keys=False)) == found.config


@pytest.mark.parametrize("source", SOURCES)
@effort(0.5)
@given(st.data())
def test_a_config_in_which_something_was_dropped_renamed_or_exchanged(source: str, data: st.DataObject) -> None:
    plain = copy.deepcopy(yaml.safe_load(SOURCES[source]))
    for _ in range(data.draw(st.integers(1, 3))):
        inside: Any = plain
        while True:  # walk to a random place in it
            places = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            if not places:
                break
            place = data.draw(st.sampled_from(places))
            if not isinstance(inside[place], (dict, list)) or data.draw(st.booleans()):
                break
            inside = inside[place]
        if not places:
            continue
        deed = data.draw(st.sampled_from(["drop", "rename", "exchange", "add"]))
        if deed == "exchange" or (deed in ("rename", "add") and not isinstance(inside, dict)):
            inside[place] = data.draw(anything)
        elif deed == "drop":
            del inside[place]
        else:
            name = data.draw(st.sampled_from(EVERY_KEY) | names)
            inside[name] = inside.pop(place) if deed == "rename" else data.draw(anything)
    check(yaml.safe_dump(plain, sort_keys=False, allow_unicode=data.draw(st.booleans())))


@pytest.mark.parametrize("source", SOURCES)
@effort(0.5)
@given(st.data())
def test_a_text_in_which_something_was_cut_or_put(source: str, data: st.DataObject) -> None:
    text = SOURCES[source]
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        put = data.draw(st.text("ab1: -[]{}#&*!|>'\"%@`\n\r\t,?~<\x00\x85\u2028é", max_size=4))
        text = text[:start] + put + text[end:]
    check(text)


@pytest.mark.parametrize("source", SOURCES)
@effort(0.5)
@given(st.data())
def test_overrides_of_all_kinds(source: str, data: st.DataObject) -> None:
    parts = st.lists(
        st.sampled_from([*EVERY_KEY, "single_cpu_train", "ps_cluster", "dataloader_train", "phase1", ""]) | names,
        min_size=1,
        max_size=4,
    )
    override = data.draw(
        st.builds(lambda path, item: ".".join(path) + "=" + item, parts, st.text(max_size=6) | anything.map(str))
    )
    check(SOURCES[source], override)
