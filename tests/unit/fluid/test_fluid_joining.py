"""Slots of one table that end side by side are one value, and what comes of them is what comes of each by itself. Real Paddle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.fluid_programs import Programs, fluid, programs
from umiak import ps
from umiak.fluid.distributed.trained import TrainedProgram
from umiak.fluid.running import joining, replay
from umiak.fluid.running.slots import SlotIds
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.train.engines.modelbase.feeding import feed_of
from umiak.train.reading.batches import Arrays

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
ROWS, WIDTH, SAMPLES = 9, 3, 4
TABLE = np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype("float32")
FORMS = ("sum", "average", "sqrt", "max", "last", "first", "flat", "reshape", "squeeze", "flatten")
"""How the rows of a slot become columns."""
POOLS = FORMS[:6]


def table(name: str = "a") -> Any:
    return fluid.ParamAttr(name, initializer=fluid.initializer.NumpyArrayInitializer(TABLE))


def column(name: str, form: str, *, sparse: bool, padding: int | None, attribute: Any) -> Any:
    """What one slot gives."""
    level = 1 if form in POOLS else 0
    ids = fluid.data(name, [None, 1], "int64", lod_level=level)
    look = fluid.embedding if form in ("squeeze", "flatten") else layers.embedding
    rows = look(ids, [ROWS, WIDTH], sparse, padding_idx=padding, param_attr=attribute)
    if form in POOLS:
        return layers.sequence_pool(rows, form)
    if form == "reshape":
        return layers.reshape(rows, [-1, WIDTH])
    return {"squeeze": lambda: layers.squeeze(rows, [1]), "flatten": lambda: layers.flatten(rows, 1)}.get(
        form, lambda: rows
    )()


def fed(forms: list[str], chance: Any, *, single: bool) -> dict[str, Any]:
    """Ids of each slot, sequences of one or of several or of none."""
    feed: dict[str, Any] = {"dense": chance.normal(size=(SAMPLES, 2)).astype("float32")}
    for number, form in enumerate(forms):
        lengths = [1] * SAMPLES if single or form not in POOLS else chance.integers(0, 4, SAMPLES).tolist()
        ids = chance.integers(0, ROWS, (sum(lengths), 1))
        feed[f"ids{number}"] = fluid.create_lod_tensor(ids, [lengths], None) if form in POOLS else ids
    return feed


def model(forms: list[str], order: list[int], dense: int, *, sparse: bool, padding: int | None) -> Any:
    """Slots in some order, dense features somewhere among them, and a loss."""
    columns = [
        column(f"ids{number}", form, sparse=sparse, padding=padding, attribute=table())
        for number, form in enumerate(forms)
    ]
    inputs = [columns[number] for number in order]
    inputs.insert(dense, fluid.data("dense", [None, 2], "float32"))
    x = layers.concat(inputs, 1)
    weight = fluid.ParamAttr("w", initializer=fluid.initializer.Uniform(seed=3))
    hidden = layers.fc(x, 4, act="tanh", param_attr=weight)
    return layers.mean(layers.reduce_sum(hidden * hidden, 1))


def joined_steps(made: Programs) -> list[replay.JoinedStep]:
    steps = replay.prepared(made.main, {}, ()).blocks[0]
    return [each for each in steps if isinstance(each, replay.JoinedStep)]


@pytest.mark.parametrize("on_tables", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_joined_slots_learn_as_each_by_itself(seed: int, on_tables: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated: forms, order, place of the dense features, padding, sparse or not, one id in each sample or any number."""
    chance = np.random.default_rng(seed)
    forms = [FORMS[chance.integers(len(FORMS))] for _ in range(chance.integers(2, 6))]
    order = chance.permutation(len(forms)).tolist()
    dense = int(chance.choice([0, len(forms)]))
    padding = [None, 2][chance.integers(2)]
    feeds = [fed(forms, chance, single=bool(chance.integers(2))) for _ in range(3)]
    found = []
    for together in (True, False):
        if not together:
            monkeypatch.setattr(joining, "joined", lambda program: None)
        with programs() as made:
            loss = model(forms, order, dense, sparse=bool(seed % 2), padding=padding)
            fluid.optimizer.Adagrad(0.1).minimize(loss)
            assert len(joined_steps(made)) == together
            if on_tables:
                trained = TrainedProgram(made.main, made.startup, Session(PsSeat(), ps.Sync(), SessionOptions()))
                losses = [trained.step(feed, [loss])[0] for feed in feeds]
                values = trained.values(["a", "w"])
                read = trained.read(feeds[0], [loss])
                results = [*losses, *read, values["a"], values["w"]]
            else:
                made.start()
                losses = [made.run(feed, [loss])[0] for feed in feeds]
                results = [*losses, *(np.asarray(fluid.global_scope().find_var(name).get_tensor()) for name in "aw")]
            found.append(results)
    for own, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(own, wanted, rtol=2e-6, atol=1e-6)


def test_on_tables_a_step_pulls_once_and_pushes_each_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with programs() as made:
        loss = model(["sum"] * 5, [*range(5)], 5, sparse=True, padding=None)
        fluid.optimizer.SGD(0.1).minimize(loss)
        trained = TrainedProgram(made.main, made.startup, Session(PsSeat(), ps.Sync(), SessionOptions()))
        trained.begin()
        pulled: list[int] = []
        kept = trained.table("a").rows
        monkeypatch.setattr(
            trained.table("a"), "rows", lambda keys, **more: (pulled.append(keys.size), kept(keys, **more))[1]
        )
        feed = {"dense": np.zeros((SAMPLES, 2), "float32")}
        feed |= {
            f"ids{number}": fluid.create_lod_tensor(np.full((SAMPLES, 1), number % 2), [[1] * SAMPLES], None)
            for number in range(5)
        }
        trained.step(feed, [loss])
        assert pulled == [2]


def test_what_is_fetched_is_there() -> None:
    """A pool, the rows of a slot, the ids that were fed, the gradient of the table."""
    forms = ["sum", "sum"]
    chance = np.random.default_rng(5)
    feed = fed(forms, chance, single=True)
    with programs() as made:
        loss = model(forms, [0, 1], 2, sparse=False, padding=None)
        fluid.optimizer.SGD(0.0).minimize(loss)
        made.start()
        block = made.main.global_block()
        pools = [op.outputs[0] for op in block.ops if op.type == "sequence_pool"]
        rows = [op.outputs[0] for op in block.ops if op.type == "lookup_table"]
        first = made.run(feed, [loss])[0]
        got = made.run(feed, [loss, *pools, *rows, "ids0", "a@GRAD"])
        ids = np.asarray(feed["ids0"])
        assert got[0] == first
        np.testing.assert_array_equal(got[1], TABLE[ids.reshape(-1)])
        np.testing.assert_array_equal(got[3], TABLE[ids.reshape(-1)])
        np.testing.assert_array_equal(got[5], ids)
        np.testing.assert_array_equal(made.run(feed, ["ids0", loss])[0], ids)
        held = made.run(feed, ["ids1", loss], return_numpy=False)[0]
        assert held.lod() == feed["ids1"].lod()
        assert got[6].shape == TABLE.shape


def test_what_stays_apart() -> None:
    """Another table or another padding between them, rows that somebody else reads, a pool that is cut off, a concat of rows below one another."""
    with programs() as made:
        first = column("ids0", "sum", sparse=True, padding=None, attribute=table())
        other = column("ids1", "sum", sparse=True, padding=None, attribute=table("b"))
        last = column("ids2", "sum", sparse=True, padding=None, attribute=table())
        layers.concat([first, other, last], 1)
        assert not joined_steps(made)
    for changed in ("read", "cut", "below", "clipped", "kept"):
        with programs() as made:
            two = [column(f"ids{number}", "sum", sparse=True, padding=None, attribute=table()) for number in range(2)]
            if changed == "read":
                layers.reduce_sum(two[0])
            elif changed == "cut":
                two[1].stop_gradient = True
            elif changed == "clipped":
                two[1]._set_error_clip(fluid.clip.ErrorClipByValue(0.1))
            elif changed == "kept":
                two[0].persistable = True
            layers.concat(two, 0 if changed == "below" else 1)
            assert not joined_steps(made), changed


def test_a_wrong_id_says_the_line_of_its_own_lookup() -> None:
    with programs() as made:
        loss = model(["sum", "sum"], [0, 1], 2, sparse=False, padding=None)
        made.start()
        feed = fed(["sum", "sum"], np.random.default_rng(1), single=True)
        feed["ids1"] = fluid.create_lod_tensor(np.full((SAMPLES, 1), ROWS + 3), [[1] * SAMPLES], None)
        with pytest.raises(Exception, match="lookup_table"):
            made.run(feed, [loss])
        del feed["ids0"]
        with pytest.raises(Exception, match="ids0"):
            made.run(feed, [loss])


def slots_of(chance: Any, count: int, *, single: bool) -> Arrays:
    """A batch of slots."""
    sparse = {}
    for number in range(count):
        lengths = [1] * SAMPLES if single else chance.integers(0, 3, SAMPLES).tolist()
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        sparse[f"ids{number}"] = chance.integers(0, ROWS, int(offsets[-1])), offsets
    return Arrays(size=SAMPLES, dense={"dense": chance.normal(size=(SAMPLES, 2)).astype("float32")}, sparse=sparse)


@pytest.mark.parametrize("on_tables", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_slots_of_a_batch_learn_as_sequences_that_are_fed(seed: int, on_tables: bool) -> None:
    """Generated: pools, padding, one id in each sample or any number; some slots are read by others as well."""
    chance = np.random.default_rng(seed)
    forms = [POOLS[chance.integers(len(POOLS))] for _ in range(chance.integers(2, 5))]
    padding = [None, 2][chance.integers(2)]
    batches = [slots_of(chance, len(forms), single=single) for single in (True, bool(chance.integers(2)), True)]
    found = []
    for lazily in (True, False):
        with programs() as made:
            loss = model(forms, [*range(len(forms))], 0, sparse=bool(seed % 2), padding=padding)
            if seed % 3 == 0:
                last = made.main.global_block().var("ids0")
                loss += 0.0 * layers.mean(layers.cast(layers.sequence_pool(last, "sum"), "float32"))
            fluid.optimizer.Adagrad(0.1).minimize(loss)
            inputs = [made.main.global_block().var(name) for name in ("dense", *batches[0].sparse)]
            feeds = [feed_of(batch, inputs, "model.py") for batch in batches]
            assert sum(isinstance(each, SlotIds) for each in feeds[0].values()) == len(forms)
            if not lazily:
                feeds = [{name: each.sequences() if isinstance(each, SlotIds) else each for name, each in feed.items()} for feed in feeds]  # fmt: skip
            if on_tables:
                trained = TrainedProgram(made.main, made.startup, Session(PsSeat(), ps.Sync(), SessionOptions()))
                results = [trained.step(feed, [loss, "ids1"]) for feed in feeds]
                results.append([*trained.values(["a", "w"]).values()])
            else:
                made.start()
                results = [made.run(feed, [loss, "ids1"]) for feed in feeds]
                results.append([np.asarray(fluid.global_scope().find_var(name).get_tensor()) for name in "aw"])
            found.append([each for result in results for each in result])
    for own, wanted in zip(*found, strict=True):
        np.testing.assert_array_equal(own, wanted)


def test_slots_with_one_id_in_each_sample_are_never_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = slots_of(np.random.default_rng(3), 3, single=True)
    with programs() as made:
        loss = model(["sum"] * 3, [0, 1, 2], 0, sparse=True, padding=None)
        inputs = [made.main.global_block().var(name) for name in ("dense", *batch.sparse)]
        made.start()
        feed = feed_of(batch, inputs, "model.py")
        (wanted,) = made.run({name: each.sequences() if isinstance(each, SlotIds) else each for name, each in feed.items()}, [loss])  # fmt: skip
        monkeypatch.setattr(SlotIds, "sequences", lambda slot: pytest.fail(f"{slot.slot} became an array"))
        np.testing.assert_array_equal(made.run(feed, [loss])[0], wanted)


def test_a_slot_of_another_type_or_shape_is_fed_as_it_was() -> None:
    batch = slots_of(np.random.default_rng(3), 2, single=True)
    with programs():
        pair = fluid.data("ids0", [None, 2], "int64", lod_level=1)
        real = fluid.data("ids1", [None, 1], "float32", lod_level=1)
        dense = fluid.data("dense", [None, 2], "float32")
        assert np.asarray(feed_of(batch, [real, dense, real], "m")["ids1"]).dtype == np.float32
        with pytest.raises(Exception, match="does not fit the input ids0"):
            feed_of(batch, [pair, real, dense], "m")
