"""Strategies as values, by name and in the words of Paddle's communicator: all of them give the same."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT
from umiak import ps
from umiak.core.cluster import StrategyName
from umiak.ps import strategies
from umiak.ps.strategies import translated

ALONE: dict[str, str] = {}
SRC = ROOT / "src" / "umiak"


@pytest.mark.parametrize(
    ("value", "name", "flags"),
    [
        (ps.Sync(), "sync", {}),
        (ps.Async(), "async", {}),
        (ps.Async(queue=5, merge=2), "async", {"send_queue_size": 5, "max_merge_var_num": "2"}),
        (ps.Async(pull_every=3, sum_merged=True), "async", {"max_send_grad_num_before_recv": 3, "is_sgd_optimizer": 1}),
        (ps.HalfAsync(), "half_async", {}),
        (ps.HalfAsync(merge=8), "half_async", {"FLAGS_communicator_max_merge_var_num": 8}),
        (ps.HalfAsync(2, sum_merged=True), "half_async", {"max_merge_var_num": 2, "is_sgd_optimizer": True}),
        (ps.Geo(), "geo", {}),
        (ps.Geo(every=7), "geo", {"k_steps": 7}),
        (ps.Geo(9), "geo", {"geo_need_push_nums": 9}),
        (ps.Hybrid(), "hybrid", {"k_steps": 7, "max_merge_var_num": 3}),
    ],
)
def test_a_value_and_its_name_with_flags_are_the_same(value, name: str, flags: dict[str, object]) -> None:
    assert ps.init(value, environ=ALONE).strategy == value
    assert ps.init(name, environ=ALONE, **flags).strategy == value
    assert ps.init(StrategyName(name), environ=ALONE, **flags).strategy == value
    assert ps.init(strategy=value, environ=ALONE).options == ps.init(name, environ=ALONE).options


def test_strategies_are_frozen_and_have_defaults() -> None:
    assert ps.Geo() == ps.Geo(every=100)
    assert ps.HalfAsync() == ps.HalfAsync(merge=4, sum_merged=False)
    assert ps.Async() == ps.Async(queue=0, merge=1, sum_merged=False, pull_every=1)
    assert ps.init(environ=ALONE).strategy == ps.Async()
    with pytest.raises(AttributeError, match="Geo is a value"):
        ps.Geo().every = 4  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"Geo has no field k_steps: it has every; k_steps: ps.Geo\(every=...\)"):
        ps.Geo(k_steps=4)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (ps.Geo(every=0), "Geo: every: expected an integer, 1 or more: 0"),
        (ps.Geo(every=1.5), "Geo: every: expected an integer, 1 or more: 1.5"),  # type: ignore[arg-type]
        (ps.HalfAsync(merge=True), "HalfAsync: merge: expected an integer, 1 or more: True"),
        (ps.HalfAsync(sum_merged=1), "HalfAsync: sum_merged: expected a boolean: 1"),  # type: ignore[arg-type]
        (ps.Async(queue=-1), "Async: queue: expected an integer, 0 or more: -1"),
        (ps.Sync, "no such strategy: <class 'umiak.ps.strategies.Sync'>"),
        (None, "no such strategy: None"),
        (strategies.Collective(), "no such strategy: Collective()"),
    ],
)
def test_fields_are_checked_with_everything_else(value, told: str) -> None:
    with pytest.raises(ps.BadRequest) as caught:
        ps.init(value, shards=100, timeout_s=-1, environ=ALONE)
    whats = [problem.what for problem in caught.value.problems]
    assert whats[0].startswith("shards")
    assert whats[1].startswith("timeout_s")
    assert whats[2] == told
    assert {problem.code for problem in caught.value.problems} == {"UM-PS-007"}


def test_settings_of_paddle_are_for_names() -> None:
    """A value has fields: a flag beside it would be a second word for one of them."""
    with pytest.raises(ps.BadRequest) as caught:
        ps.init(ps.Geo(), k_steps=4, thread_pool_size=1, environ=ALONE)
    assert [problem.what for problem in caught.value.problems] == [
        "k_steps: a setting beside ps.Geo(...)",
        "thread_pool_size: a setting beside ps.Geo(...)",
    ]
    assert "its fields: every; or by name: ps.init('geo', ...)" in str(caught.value)


@pytest.mark.parametrize("prefix", ["", "communicator_", "FLAGS_communicator_"])
def test_flags_of_the_communicator(prefix: str) -> None:
    flags = {"max_merge_var_num": 3, "send_queue_size": "5", "max_send_grad_num_before_recv": 2, "is_sgd_optimizer": 1}
    found = translated("async", {prefix + name: given for name, given in flags.items()})
    assert found.strategy == ps.Async(merge=3, queue=5, pull_every=2, sum_merged=True)
    assert found.problems == ()


def test_flags_beside_the_communicator_and_those_without_effect() -> None:
    found = translated("geo", {"FLAGS_rpc_deadline": 300000, "k_steps": 7, "FLAGS_rpc_retry_times": 3})
    assert (found.timeout_s, found.strategy) == (300.0, ps.Geo(every=7))
    silent = {f"FLAGS_communicator_{name}": 1 for name in strategies.NO_EFFECT}
    assert translated("sync", silent) == strategies.Translated(strategy=ps.Sync())
    assert ps.init("sync", rpc_deadline=5000, environ=ALONE).options.timeout_s == 5
    assert ps.init("sync", rpc_deadline=5000, timeout_s=7, environ=ALONE).options.timeout_s == 7


def test_everything_that_is_wrong_is_said() -> None:
    found = translated("fast", {"max_merge_var_num": 0, "send_queue_size": "many", "speed": 9})
    assert [problem.code for problem in found.problems] == ["UM-PS-007"] * 4
    assert [problem.what for problem in found.problems][0::3] == ["no such strategy: fast", "no such setting: speed"]


def test_every_flag_is_a_field_of_a_strategy() -> None:
    fields = {name for kind in strategies.KINDS.values() for name in kind.__fields__}
    assert {*strategies.FIELDS.values()} == fields


def test_the_strategies_are_written_down_once() -> None:
    """As words in one module; everybody else has them from there."""
    assert {*strategies.KINDS} == {*StrategyName}
    quoted = re.compile("|".join(f'"{name.value}"' for name in StrategyName if name is not StrategyName.ASYNC))
    found = {
        str(path.relative_to(SRC))
        for package in ("core", "ps", "train")
        for path in (SRC / package).rglob("*.py")
        if quoted.search(re.sub(r'"""(.|\n)*?"""', "", path.read_text(encoding="utf-8")))
    }
    assert found == {"core/cluster.py"}
