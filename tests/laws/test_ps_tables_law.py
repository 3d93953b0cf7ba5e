"""The native tables and the numpy oracle give the same bits, whatever is done to them and however many servers there are."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
import umiak_native
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import effort
from tests.support.oracle import rules
from tests.support.oracle import tables as oracle
from umiak.ps.gradients import Missing

OPTIMIZERS = {
    "sgd": {"rule": "sgd", "learning_rate": 0.05},
    "momentum": {"rule": "momentum", "learning_rate": 0.05, "momentum": 0.9},
    "adam ahead": {"rule": "adam", "learning_rate": 0.05, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "ahead": True},
    "nesterov": {"rule": "momentum", "learning_rate": 0.05, "momentum": 0.9, "nesterov": True},
    "adagrad": {"rule": "adagrad", "learning_rate": 0.1, "initial": 0.1, "epsilon": 1e-6},
    "adagrad_scaled": {"rule": "adagrad_scaled", "learning_rate": 0.1, "initial_g2sum": 3.0},
    "adagrad_shared": {"rule": "adagrad_shared", "learning_rate": 0.1, "initial_g2sum": 3.0},
    "adam": {"rule": "adam", "learning_rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
    "adam_row": {"rule": "adam_row", "learning_rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
    "ftrl": {"rule": "ftrl", "learning_rate": 0.1, "beta": 1.0, "l1": 0.05, "l2": 0.1},
    "rmsprop": {"rule": "rmsprop", "learning_rate": 0.01, "rho": 0.95, "epsilon": 1e-6},
    "rmsprop_momentum": {"rule": "rmsprop", "learning_rate": 0.01, "rho": 0.9, "epsilon": 1e-6, "momentum": 0.9},
    "rmsprop_centered": {"rule": "rmsprop", "learning_rate": 0.01, "rho": 0.9, "epsilon": 1e-6, "centered": True},
    "rmsprop_both": {
        "rule": "rmsprop",
        "learning_rate": 0.01,
        "rho": 0.9,
        "epsilon": 1e-6,
        "momentum": 0.9,
        "centered": True,
    },
    "sum": {"rule": "sum"},
}

ACCESSOR = {
    "embed_init": {"kind": "uniform", "low": -0.1, "high": 0.1},
    "nonclk_coeff": 0.1,
    "click_coeff": 1.0,
    "embedx_threshold": 2.0,
    "base_threshold": 1.5,
    "delta_threshold": 0.25,
    "delta_keep_days": 2.0,
    "show_click_decay_rate": 0.9,
    "delete_threshold": 0.8,
    "delete_after_unseen_days": 3.0,
}

inits = st.sampled_from(
    [
        {"kind": "constant", "value": 0.25},
        {"kind": "uniform", "low": -0.5, "high": 0.25},
        {"kind": "normal", "mean": 0.1, "deviation": 0.3},
    ]
)
clips = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "value": st.sampled_from([0.3, 1.0]),
            "norm": st.sampled_from([0.5, 2.0]),
            "weight": st.sampled_from([0.4, 10.0]),
        },
    ),
)
decays = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "l1": st.sampled_from([0.0, 0.05]),
            "l2": st.sampled_from([0.0, 0.1]),
            "decoupled": st.sampled_from([0.0, 0.2]),
        },
    ),
)
HAVE_NO_DECAY = ("ftrl", "sum")
plain_entries = st.sampled_from(
    [{"by": "always"}, {"by": "always"}, {"by": "count", "count": 3}, {"by": "probability", "probability": 0.6}]
)
keys = st.one_of(st.integers(0, 30), st.sampled_from([2**63, 2**64 - 1, 2**32, 12345678901234567]))
key_lists = st.lists(keys, max_size=25)
seeds = st.integers(0, 2**32 - 1)


@dataclass
class Pull:
    keys: list[int]
    create: bool
    absent: str


@dataclass
class Push:
    """Keys of each part; one part is a plain push, more are summed."""

    parts: list[list[int]]
    seed: int


@dataclass
class Change:
    keys: list[int]
    seed: int
    add: bool


@dataclass
class Gap:
    """Pushes without a row."""

    pushes: int


@dataclass
class Settings:
    """The table goes on under other settings."""

    every_row: bool
    decay: dict


@dataclass
class Rate:
    rate: float


@dataclass
class Shrink:
    pass


@dataclass
class Save:
    mode: str
    meanwhile: list[Pull | Push]
    reload_into: int | None
    """Servers of the fleet that goes on with what was saved, if it was everything."""


pulls = st.builds(Pull, key_lists, st.booleans(), st.sampled_from(["initial", "zeros"]))
pushes = st.builds(Push, st.lists(key_lists, min_size=1, max_size=3), seeds)
saves = st.builds(
    Save,
    st.sampled_from(["all", "delta", "base", "full"]),
    st.lists(st.one_of(pulls, pushes), max_size=3),
    st.one_of(st.none(), st.integers(1, 5)),
)
everything = [pulls, pushes, pushes, pushes, saves, st.builds(Rate, st.sampled_from([0.2, 0.001])), st.builds(Shrink)]
acts = st.lists(st.one_of(everything), min_size=1, max_size=14)
plain_acts = st.lists(
    st.one_of(*everything, st.builds(Change, key_lists, seeds, st.booleans())), min_size=1, max_size=14
)


gaps = st.builds(Gap, st.sampled_from([1, 2, 15, 150, 600]))


class Fleet:
    """A native table on each of several servers, which together are one table."""

    def __init__(self, spec: dict, shards: int, servers: int) -> None:
        self.spec, self.shards = spec, shards
        text = json.dumps({"kind": "sparse", **spec})
        self.tables = [umiak_native.Table(text, shards) for _ in range(servers)]

    def parts(self, wanted: list[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Places and keys of each server."""
        wanted = np.array(wanted, np.uint64)
        servers = umiak_native.server_of(wanted, len(self.tables), self.shards)
        return [(np.flatnonzero(servers == n), wanted[servers == n]) for n in range(len(self.tables))]

    def pull(self, wanted: list[int], create: bool, absent: str) -> np.ndarray:
        out = np.full((len(wanted), self.tables[0].pull_width), np.nan, np.float32)
        for table, (places, here) in zip(self.tables, self.parts(wanted), strict=True):
            out[places] = table.pull(here, create, absent=absent)
        return out

    def push(self, wanted: list[int], rows: np.ndarray, draw: int) -> None:
        for table, (places, here) in zip(self.tables, self.parts(wanted), strict=True):
            table.push(here, rows[places], draw)

    def push_summed(self, parts: list[tuple[list[int], np.ndarray]], draw: int) -> None:
        split = [self.parts(wanted) for wanted, _ in parts]
        for n, table in enumerate(self.tables):
            table.push_summed([(split[i][n][1], parts[i][1][split[i][n][0]]) for i in range(len(parts))], draw)

    def change(self, wanted: list[int], rows: np.ndarray, add: bool) -> None:
        for table, (places, here) in zip(self.tables, self.parts(wanted), strict=True):
            (table.add if add else table.set)(here, rows[places])

    def change_settings(self, spec: dict) -> None:
        self.spec = spec
        self.tables = [table.with_spec(json.dumps({"kind": "sparse", **spec})) for table in self.tables]

    def freeze(self, mode: str) -> None:
        for table in self.tables:
            table.freeze(mode)

    def scan(self) -> oracle.SavedRows:
        saved = {}
        for table in self.tables:
            for shard in range(self.shards):
                for here, flags, data in table.scan(shard):
                    assert len(here) <= 1024
                    assert (umiak_native.shard_of(here, self.shards) == shard).all()
                    for key, flag, row in zip(here.tolist(), flags.tolist(), data, strict=True):
                        assert key not in saved
                        saved[key] = (flag, row)
        return saved

    def thaw(self) -> None:
        for table in self.tables:
            table.thaw()

    def reloaded(self, saved: oracle.SavedRows, servers: int) -> Fleet:
        fleet = Fleet(self.spec, self.shards, servers)
        width = self.tables[0].saved_width
        wanted = list(saved)
        flags = np.array([saved[key][0] for key in wanted], np.uint32)
        data = np.array([saved[key][1] for key in wanted], np.float32).reshape(len(wanted), width)
        for table, (places, here) in zip(fleet.tables, fleet.parts(wanted), strict=True):
            table.restore(self.tables[0].state())
            table.load(here, flags[places], data[places])
        return fleet


def same_bits(native: np.ndarray, expected: np.ndarray) -> None:
    assert native.shape == expected.shape
    assert np.array_equal(native.view(np.uint32), expected.view(np.uint32)), (native, expected)


def same_rows(native: oracle.SavedRows, expected: oracle.SavedRows) -> None:
    assert {key: flags for key, (flags, _) in native.items()} == {key: flags for key, (flags, _) in expected.items()}
    for key, (_, row) in native.items():
        same_bits(row, expected[key][1])


def gradients(seed: int, count: int, spec: dict) -> np.ndarray:
    """Rows to push: ordinary numbers, now and then zeros, tiny and huge ones; with an accessor its columns before them."""
    rng = np.random.default_rng(seed)
    width = spec["dim"] + (1 if spec.get("accessor") else 0)
    rows = rng.standard_normal((count, width)).astype(np.float32)
    rows *= rng.choice(np.array([1, 1, 1, 0, -1e-30, 1e8], np.float32), (count, width))
    if not spec.get("accessor"):
        return rows
    show = rng.integers(0, 4, (count, 1))
    counted = np.concatenate(
        [rng.integers(1, 20, (count, 1)), show, np.minimum(show, rng.integers(0, 3, (count, 1)))], 1
    )
    counted = counted.astype(np.float32) * rng.choice(np.array([1, 1, 0.37], np.float32), (count, 1))
    return np.concatenate([counted, rows], 1)


def do_push(act: Push, spec: dict, fleet: Fleet, expected: oracle.SparseTable) -> None:
    if len(act.parts) == 1:
        wanted = list(dict.fromkeys(act.parts[0]))
        rows = gradients(act.seed, len(wanted), spec)
        fleet.push(wanted, rows, act.seed)
        expected.push(wanted, rows, act.seed)
    else:
        parts = [(wanted, gradients(act.seed + n, len(wanted), spec)) for n, wanted in enumerate(act.parts)]
        fleet.push_summed(parts, act.seed)
        expected.push_summed(parts, act.seed)


def do_save(act: Save, spec: dict, fleet: Fleet, expected: oracle.SparseTable) -> Fleet:
    fleet.freeze(act.mode)
    saved = expected.save(act.mode)
    state = fleet.tables[0].state()
    for other in act.meanwhile:
        do(other, spec, fleet, expected)
    scanned = fleet.scan()
    same_rows(scanned, saved)
    fleet.thaw()
    if act.reload_into is None or act.mode != "all" or act.meanwhile:
        return fleet
    assert fleet.tables[0].state() == state
    return fleet.reloaded(scanned, act.reload_into)


def do(act: object, spec: dict, fleet: Fleet, expected: oracle.SparseTable) -> Fleet:
    match act:
        case Pull(wanted, create, absent):
            same_bits(fleet.pull(wanted, create, absent), expected.pull(wanted, create, absent=absent))
        case Push():
            do_push(act, spec, fleet, expected)
        case Change(wanted, seed, add):
            wanted = list(dict.fromkeys(wanted))
            rows = gradients(seed, len(wanted), spec)
            fleet.change(wanted, rows, add)
            (expected.add if add else expected.set)(wanted, rows)
        case Gap(count):
            for _ in range(count):
                nothing = gradients(0, 0, spec)
                fleet.push([], nothing, 0)
                expected.push([], nothing)
        case Settings(every_row, decay):
            spec |= {"every_row": every_row, "decay": decay}
            fleet.change_settings({**spec})
            expected.change_settings({**spec})
        case Rate(rate):
            for table in fleet.tables:
                table.learning_rate = rate
            expected.set_learning_rate(rate)
        case Shrink():
            assert sum(table.shrink() for table in fleet.tables) == expected.shrink()
        case Save():
            return do_save(act, spec, fleet, expected)
    return fleet


def run(spec: dict, shards: int, servers: int, story: list[object]) -> None:
    fleet, expected = Fleet(spec, shards, servers), oracle.SparseTable(spec)
    for act in story:
        fleet = do(act, spec, fleet, expected)
        assert sum(len(table) for table in fleet.tables) == len(expected)
    do(Save("all", [], None), spec, fleet, expected)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@given(data=st.data())
@effort(0.5)
def test_a_plain_table_is_the_oracle(optimizer, data):
    spec = {
        "dim": data.draw(st.sampled_from([1, 3, 8, 16, 17])),
        "seed": data.draw(seeds),
        "init": data.draw(inits),
        "optimizer": OPTIMIZERS[optimizer],
        "clip": data.draw(clips),
        "decay": {} if optimizer in HAVE_NO_DECAY else data.draw(decays),
        "entry": data.draw(plain_entries),
    }
    run(spec, data.draw(st.sampled_from([8, 1, 64])), data.draw(st.integers(1, 5)), data.draw(plain_acts))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@given(data=st.data())
@effort(0.5)
def test_a_table_with_an_accessor_is_the_oracle(optimizer, data):
    embed = data.draw(st.sampled_from(list(OPTIMIZERS)))
    spec = {
        "dim": data.draw(st.sampled_from([1, 8, 9])),
        "seed": data.draw(seeds),
        "init": data.draw(inits),
        "optimizer": OPTIMIZERS[optimizer],
        "clip": data.draw(clips),
        "entry": data.draw(st.one_of(plain_entries, st.just({"by": "score"}))),
        "accessor": {
            **ACCESSOR,
            "embed_optimizer": OPTIMIZERS[embed],
            "show_scale": data.draw(st.booleans()),
            "zero_init": data.draw(st.booleans()),
        },
    }
    run(spec, data.draw(st.sampled_from([8, 1, 64])), data.draw(st.integers(1, 5)), data.draw(acts))


@pytest.mark.parametrize("optimizer", sorted({*OPTIMIZERS} - {"adam_row", "ftrl", "sum"}))
@given(data=st.data())
@effort(0.3)
def test_rows_that_move_in_every_push_are_the_oracles(optimizer, data):
    """The oracle moves each row in its turn; the native table when somebody asks for it, no matter who and when."""
    settings = st.builds(Settings, st.booleans(), decays)
    spec = {
        "dim": data.draw(st.sampled_from([1, 9, 16, 17])),
        "seed": data.draw(seeds),
        "init": data.draw(inits),
        "optimizer": OPTIMIZERS[optimizer],
        "clip": data.draw(clips),
        "decay": data.draw(st.one_of(st.just({}), decays)),
        "entry": data.draw(plain_entries),
        "every_row": True,
    }
    changes = st.builds(Change, key_lists, seeds, st.booleans())
    rates = st.builds(Rate, st.sampled_from([0.2, 0.001, 0.0]))
    story = st.lists(
        st.one_of(pulls, pushes, pushes, gaps, gaps, saves, rates, changes, settings), min_size=2, max_size=14
    )
    run(spec, data.draw(st.sampled_from([8, 1, 64])), data.draw(st.integers(1, 3)), data.draw(story))


missings = st.sampled_from([int(Missing.ABSENT), int(Missing.CLEARED)])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@given(data=st.data())
@effort(0.3)
def test_a_dense_table_is_the_oracle(optimizer, data):
    shapes = data.draw(st.lists(st.lists(st.integers(1, 9), max_size=3), min_size=1, max_size=4))
    spec = {
        "arrays": [{"name": f"array{n}", "shape": shape} for n, shape in enumerate(shapes)],
        "optimizer": OPTIMIZERS[optimizer],
        "clip": data.draw(clips),
        "decay": {} if optimizer in HAVE_NO_DECAY else data.draw(decays),
    }
    shards, servers = data.draw(st.sampled_from([8, 1, 64])), data.draw(st.integers(1, 5))
    text = json.dumps({"kind": "dense", **spec})
    tables = [umiak_native.DenseTable(text, shards, server, servers) for server in range(servers)]
    expected = oracle.DenseTable(spec, shards)
    plain = {"dim": len(expected.values)}
    first = gradients(1, 1, plain)[0]
    expected.set(first)
    ends = [table.range for table in tables]
    assert [end[0] for end in ends] + [len(first)] == [0] + [end[1] for end in ends]
    for table in tables:
        table.set(first[slice(*table.range)])
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    for parts, seed in data.draw(st.lists(st.tuples(st.integers(1, 3), seeds), max_size=6)):
        pushed = gradients(seed, parts, plain)
        # Some parameters have no gradient, of some trainers or of all.
        leave_out(pushed, sizes, data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), missings))))
        if parts == 1:
            expected.push(pushed[0])
        else:
            expected.push_summed(list(pushed))
        for table in tables:
            here = slice(*table.range)
            if parts == 1:
                table.push(pushed[0, here])
            else:
                table.push_summed([part[here] for part in pushed])
    same_bits(np.concatenate([table.pull() for table in tables]), expected.values)
    for server, table in enumerate(tables):
        table.freeze()
        for shard in range(shards):
            chunk = table.chunk(shard)
            if chunk is not None:
                place = expected.starts.index(chunk[0])
                same_bits(chunk[1], expected.chunks[place])
                same_bits(chunk[2][: expected.states[place].size], expected.states[place])
                assert rules.server_of(shard, shards, servers) == server
    # What was saved goes on as if nothing had been, on one server as well.
    alone = put_together(umiak_native.DenseTable(text, shards), tables, shards)
    pushed = gradients(1, 1, plain)
    leave_out(pushed, sizes, [(0, 0, int(Missing.CLEARED))])
    expected.push(pushed[0])
    alone.push(pushed[0])
    same_bits(alone.pull(), expected.values)


def leave_out(pushed, sizes, wanted) -> None:
    ends = np.cumsum(sizes)
    for part, array, missing in wanted:
        if part < len(pushed) and array < len(sizes):
            pushed[part, ends[array] - sizes[array] : ends[array]].view(np.uint32)[:] = missing


def put_together(alone, tables, shards):
    alone.restore(tables[0].state())
    for chunk in (table.chunk(shard) for table in tables for shard in range(shards)):
        if chunk is not None:
            alone.load_chunk(*chunk)
    return alone


@given(st.lists(keys, max_size=60), st.sampled_from([1, 2, 256, 4096]), st.integers(1, 9))
def test_keys_are_mixed_and_dealt_out_as_the_oracle_says(wanted, shards, servers):
    array = np.array(wanted, np.uint64)
    assert umiak_native.mix(array).tolist() == [rules.mix(key) for key in wanted]
    where = [rules.shard_of(key, shards) for key in wanted]
    assert umiak_native.shard_of(array, shards).tolist() == where
    assert umiak_native.server_of(array, servers, shards).tolist() == [
        rules.server_of(s, shards, servers) for s in where
    ]
