"""Lookups of one table are done together, and give what they give one by one. Real Paddle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.fluid_programs import Programs, fluid, paddle, programs
from umiak.core.problem import BadRequest
from umiak.fluid.running import replay

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
TABLE = np.random.default_rng(1).normal(size=(9, 3)).astype("float32")


def table(name: str) -> Any:
    return fluid.ParamAttr(name, initializer=fluid.initializer.NumpyArrayInitializer(TABLE))


def prepared(made: Programs) -> list[replay.ReplayStep]:
    return replay.prepared(made.main, {}).blocks[0]


def fused(made: Programs) -> list[int]:
    """How many lookups each fused step has."""
    return [len(step.group.steps) for step in prepared(made) if isinstance(step, replay.FusedStep)]


@pytest.mark.parametrize("seed", range(8))
def test_together_they_give_what_each_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn tables, ids as rows or as sequences or wider, sparse or not, with a padding or without."""
    chance = np.random.default_rng(seed)
    sparse = bool(seed % 2)
    forms, paddings = ["rows", "wide", "items"], [None, None, 2]
    chosen = [
        ("ab"[chance.integers(2)], forms[chance.integers(3)], paddings[chance.integers(3)])
        for _ in range(chance.integers(3, 7))
    ]
    found = []
    feed: dict[str, Any] = {}
    for together in (True, False):
        if not together:
            monkeypatch.setattr(replay, "with_fused_lookups", lambda steps: steps)
        with programs() as made:
            outputs = []
            for number, (name, form, padding) in enumerate(chosen):
                width = 3 if form == "wide" else 1
                ids = layers.data(f"ids{number}", [width], dtype="int64", lod_level=1 if form == "items" else 0)
                rows = layers.embedding(ids, [9, 3], sparse, padding_idx=padding, param_attr=table(name))
                outputs.append(layers.sequence_pool(rows, "sum") if form == "items" else rows)
                if together:
                    feed[f"ids{number}"] = (
                        fluid.create_lod_tensor(chance.integers(0, 9, (5, 1)), [[2, 3]], None)
                        if form == "items"
                        else chance.integers(0, 9, (4, width))
                    )
            loss = layers.sums([layers.reduce_sum(each * each) for each in outputs])
            fluid.optimizer.SGD(0.1).minimize(loss)
            made.start()
            assert bool(fused(made)) == together
            for _ in range(2):
                results = made.run(feed, [*outputs, loss])
            names = sorted({name for name, *_ in chosen})
            results += [np.asarray(fluid.global_scope().find_var(name).get_tensor()) for name in names]
            found.append(results)
    for own, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(own, wanted, rtol=1e-5, atol=1e-5)


def test_which_lookups_are_done_together() -> None:
    with programs() as made:
        ids = [layers.data(f"ids{number}", [1], dtype="int64") for number in range(4)]
        first = [layers.embedding(each, [9, 3], param_attr=table("a")) for each in ids[:2]]
        other = layers.embedding(ids[2], [9, 3], param_attr=table("b"))
        later = layers.cast(layers.elementwise_min(ids[3], ids[2]), "int64")  # behind the first lookup
        last = layers.embedding(later, [9, 3], param_attr=table("a"))
        more = layers.embedding(ids[0], [9, 3], param_attr=table("a"))
        padded = layers.embedding(ids[1], [9, 3], param_attr=table("a"), padding_idx=1)
        layers.sums([*first, other, last, more, padded])
        assert fused(made) == [2, 2]
        types = [step.operation.type for step in prepared(made)]
        assert types.count("lookup_table") == 4
        assert len(prepared(made)) == len(made.main.global_block().ops) - 2


def test_a_table_that_changes_in_between_is_read_again() -> None:
    with programs() as made:
        ids = layers.data("ids", [1], dtype="int64")
        one = layers.embedding(ids, [9, 3], param_attr=table("a"))
        weight = made.main.global_block().var("a")
        layers.assign(layers.scale(weight, 2.0), weight)
        two = layers.embedding(ids, [9, 3], param_attr=table("a"))
        assert fused(made) == []
        made.start()
        before, after = made.run({"ids": np.array([[3]])}, [one, two])
        np.testing.assert_allclose(after, 2 * before)


def test_an_error_names_the_lookup_that_fails() -> None:
    with programs() as made:
        ids = [layers.data(name, [1], dtype="int64") for name in ("good", "bad")]
        rows = [layers.embedding(each, [9, 3], param_attr=table("a")) for each in ids]
        made.start()
        with pytest.raises(BadRequest, match="bad") as caught:
            made.run({"good": np.array([[1]]), "bad": np.array([[12]])}, rows)
        assert caught.value.problems[0].where.startswith(__file__)
        with pytest.raises(BadRequest, match="reads bad, which has no value"):
            made.run({"good": np.array([[1]])}, rows)
        found = made.run({"good": np.array([[1]]), "bad": paddle.to_tensor([[4]], dtype="int32")}, rows)
        np.testing.assert_array_equal(np.concatenate(found), TABLE[[1, 4]])
