"""Tables whose pushes move every row: what the law of tables does not try. No matter who looks at rows, and when: no bit changes."""

from __future__ import annotations

import concurrent.futures
import json

import numpy as np
import pytest
import umiak_native

from tests.support.oracle import tables as oracle
from tests.support.table_helpers import keys, saved

ADAM = {"rule": "adam", "learning_rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
ROWS, DIM = 40, 9


def spec_of(**more) -> dict:
    init = {"kind": "uniform", "low": -0.1, "high": 0.1}
    return {"dim": DIM, "seed": 3, "init": init, "optimizer": ADAM, "every_row": True, **more}


def native(spec: dict) -> umiak_native.Table:
    return umiak_native.Table(json.dumps({"kind": "sparse", **spec}), 16)


def push_all(chance: np.random.Generator, tables: list, pushes: int) -> None:
    """Each brings a few rows; the rate changes now and then."""
    for push in range(pushes):
        wanted = chance.choice(ROWS, 3, replace=False).astype(np.uint64)
        rows = chance.normal(size=(3, DIM)).astype(np.float32)
        for table in tables:
            if push % 50 == 49:
                table.learning_rate = 0.01 / (push + 1)
            table.push(wanted, rows)


def test_looks_of_other_threads_change_nothing() -> None:
    watched, alone = native(spec_of()), native(spec_of())
    everything = np.arange(ROWS, dtype=np.uint64)
    for table in (watched, alone):
        table.pull(everything)
    is_over = False

    def look(seed: int) -> int:
        chance, looks = np.random.default_rng(seed), 0
        while not is_over or not looks:
            watched.pull(chance.choice(everything, 7), create=False)
            looks += 1
        return looks

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        looking = [pool.submit(look, seed) for seed in range(3)]
        push_all(np.random.default_rng(1), [watched, alone], 300)
        is_over = True
        assert all(each.result(timeout=60) for each in looking)
    np.testing.assert_array_equal(watched.pull(everything), alone.pull(everything))
    assert saved(watched).keys() == saved(alone).keys()
    for key, (_, row) in saved(watched).items():
        np.testing.assert_array_equal(row, saved(alone)[key][1])


def test_pushes_side_by_side_are_each_a_step() -> None:
    """Of rows that only one thread has: nobody knows the order, but with a rate that stays, a row is moved by each push once."""
    optimizer = {"rule": "sgd", "learning_rate": 0.5}
    table = native(spec_of(optimizer=optimizer, decay={"l2": 0.01}, init={"kind": "constant", "value": 1.0}))
    table.set(keys(7), np.ones((1, DIM), np.float32))

    def push(key: int) -> None:
        for _ in range(50):
            table.push(keys(key), np.zeros((1, DIM), np.float32))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert [*pool.map(push, range(4))] == [None] * 4
    expected = np.float32(1.0)
    for _ in range(200):
        expected -= np.float32(0.5) * (np.float32(0.01) * expected)
    np.testing.assert_array_equal(table.pull(keys(7)), np.full((1, DIM), expected))


def test_rows_of_a_lazy_table_count_as_brought_up_to_where_they_were() -> None:
    lazy = spec_of(every_row=False)
    table, expected = native(lazy), oracle.SparseTable(lazy)
    everything = np.arange(ROWS, dtype=np.uint64)
    table.pull(everything)
    expected.pull(everything)
    push_all(np.random.default_rng(2), [table], 30)
    push_all(np.random.default_rng(2), [expected], 30)
    # As a checkpoint of a version that had no such tables is loaded.
    rows = saved(table)
    loaded = native(lazy)
    loaded.restore(table.state())
    flags, data = zip(*rows.values(), strict=True)
    loaded.load(keys(*rows), np.array(flags, np.uint32), np.array(data))
    loaded = loaded.with_spec(json.dumps({"kind": "sparse", **spec_of()}))
    expected.change_settings(spec_of())
    chance = np.random.default_rng(4)
    for _ in range(200):
        gradients = chance.normal(size=(1, DIM)).astype(np.float32)
        loaded.push(keys(5), gradients)
        expected.push([5], gradients)
    np.testing.assert_array_equal(loaded.pull(everything), expected.pull(everything))


def test_what_can_not_move_every_row_is_refused() -> None:
    for rule in ("adam_row", "ftrl", "sum"):
        optimizer = {**ADAM, "rule": "adam_row"} if rule == "adam_row" else {"rule": rule}
        optimizer |= {"learning_rate": 0.1, "l1": 0.0, "l2": 0.0} if rule == "ftrl" else {}
        with pytest.raises(
            ValueError, match="every_row: the rules adam_row, ftrl and sum move the rows of a push only"
        ):
            native(spec_of(optimizer=optimizer))
