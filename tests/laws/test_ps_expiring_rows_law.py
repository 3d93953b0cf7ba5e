"""Rows that expire: as many as a plain count of days says, also through a save and a load and while a save goes on, and weights as if there were no expiry."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
import umiak_native

from tests.laws.test_ps_tables_law import OPTIMIZERS
from tests.support import chance
from tests.support.effort import times

KEYS = 40


def table_of(optimizer: dict[str, Any], dim: int, **more: Any) -> umiak_native.Table:
    init = {"kind": "uniform", "low": -0.5, "high": 0.5}
    plain = {"kind": "sparse", "dim": dim, "seed": 3, "init": init, "optimizer": optimizer, **more}
    return umiak_native.Table(json.dumps(plain), shards=4)


def rows_of(table: umiak_native.Table, mode: str = "all") -> dict[int, bytes]:
    """What a save has of each key, its age as well."""
    table.freeze(mode)
    found = scanned(table)
    table.thaw(True)
    return found


def scanned(table: umiak_native.Table) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for shard in range(table.shards):
        for keys, flags, data in table.scan(shard):
            width = table.saved_width
            for key, flag, row in zip(keys, flags, data.reshape(-1, width), strict=True):
                found[int(key)] = bytes([int(flag)]) + row.tobytes()
    return found


def reloaded(table: umiak_native.Table, optimizer: dict[str, Any], dim: int, **more: Any) -> umiak_native.Table:
    made = table_of(optimizer, dim, **more)
    table.freeze("all")
    for shard in range(table.shards):
        for keys, flags, data in table.scan(shard):
            made.load(keys, flags, data)
    table.thaw(True)
    made.restore(table.state())
    return made


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_rows_go_when_nobody_has_used_them_for_so_many_days(rule: str) -> None:
    dice = chance()
    for _ in range(times(6)):
        one_life(OPTIMIZERS[rule], dice)


def one_life(optimizer: dict[str, Any], dice: random.Random) -> None:
    dim, days = dice.choice([1, 3, 17]), dice.choice([1, 2, 5])
    life = {"expire": {"days": days}, "entry": {"by": "count", "count": dice.choice([1, 3])}}
    table = table_of(optimizer, dim, **life)
    ages: dict[int, int] = {}
    counts: dict[int, int] = {}
    gradients = np.random.default_rng(dice.randrange(1 << 30))
    for _ in range(60):
        what = dice.choice(["push"] * 5 + ["day", "pull", "load", "save"])
        if what == "push":
            keys = np.array(dice.sample(range(KEYS), dice.randrange(1, 12)), np.uint64)
            table.push(keys, gradients.normal(size=(len(keys), dim)).astype(np.float32))
            for key in keys.tolist():
                counts[key] = counts.get(key, 0) + 1
                if key in ages or counts[key] >= life["entry"]["count"]:
                    ages[key], counts[key] = 0, 0
        elif what == "day":
            ages = {key: age + 1 for key, age in ages.items()}
            gone = [key for key, age in ages.items() if age > days]
            assert table.shrink() == len(gone)
            ages = {key: age for key, age in ages.items() if age <= days}
        elif what == "pull":
            table.pull(np.arange(KEYS, dtype=np.uint64), absent="zeros")
        elif what == "load":
            table = reloaded(table, optimizer, dim, **life)
        else:
            before = rows_of(table)
            table.freeze("all")
            keys = np.array(dice.sample(range(KEYS), 5), np.uint64)
            table.push(keys, gradients.normal(size=(5, dim)).astype(np.float32))
            table.shrink()
            assert scanned(table) == before, "the moment that is saved, whatever comes meanwhile"
            table.thaw(True)
            for key in keys.tolist():
                counts[key] = counts.get(key, 0) + 1
                if key in ages or counts[key] >= life["entry"]["count"]:
                    ages[key], counts[key] = 0, 0
            ages = {key: age + 1 for key, age in ages.items() if age < days}
        assert len(table) == len(ages)
    there = np.array(sorted(ages), np.uint64)
    assert set(there.tolist()) == {key for key, row in rows_of(table).items() if not row[0] & 1}


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_weights_are_those_of_a_table_without_expiry(rule: str) -> None:
    dice = chance()
    dim = dice.choice([1, 4, 33])
    own, plain = table_of(OPTIMIZERS[rule], dim, expire={"days": 3}), table_of(OPTIMIZERS[rule], dim)
    gradients = np.random.default_rng(dice.randrange(1 << 30))
    everybody = np.arange(KEYS, dtype=np.uint64)
    for _ in range(times(10)):
        rows = gradients.normal(size=(KEYS, dim)).astype(np.float32)
        own.push(everybody, rows)
        plain.push(everybody, rows)
        assert own.shrink() == plain.shrink() == 0
        assert own.pull(everybody).tobytes() == plain.pull(everybody).tobytes()
    assert own.saved_width == plain.saved_width + 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"expire": {"days": 0}}, "expire: days must be from 1"),
        ({"expire": {"days": 3}, "every_row": True}, "expire: not where every push moves all rows"),
        ({"expire": {"hours": 3}}, "unknown field"),
    ],
)
def test_what_can_not_be_is_told(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        table_of(OPTIMIZERS["sgd"], 2, **more)
