"""A trainer's samples of declared slots: checks, batches, positions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.reader_helpers import labels, slots
from tests.support.slot_helpers import criteo
from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace
from umiak.train import reading
from umiak.train.config.values import Dataset
from umiak.train.reading import checking


def trouble(dataset: Dataset, **options: object) -> tuple[Problem, ...]:
    with pytest.raises(UmiakError) as raised:
        reading.check(dataset, reading.find(dataset), **options)  # type: ignore[arg-type]
    return raised.value.problems


def test_the_slip_of_paddlerecs_own_example_is_found(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(criteo(80))
    every = " ".join(["click", *map(str, range(1, 27))])
    (said,) = trouble(slots(tmp_path, sparse=every, dense="dense_var:13"), where="config.yaml:12:5")
    assert said.code == "UM-DATA-009"
    lines = f"the 80 lines that were read of {tmp_path}/part-0"
    assert said.lines() == [
        f"error: config.yaml:12:5: dataset train_data: slot dense_var is declared, and none of {lines} has it [UM-DATA-009]",
        "  because: every line has a slot dense_feature, which is not declared",
        "  hint: did you mean `dense_feature`? The names in a config must be those of the data",
    ]
    right = slots(tmp_path, sparse=every, dense="dense_feature:13")
    reading.check(right, reading.find(right))


def test_slots_that_are_not_declared_and_always_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("click:1 1:2 region:7 rare:1\nclick:0 1:3 region:8\n")
    (tmp_path / "b").write_text("click:1 1:2 region:7\n")
    dataset = slots(tmp_path)
    (said,) = trouble(dataset)
    assert "region" in said.what
    assert "rare" not in said.what
    assert f"{tmp_path}/a and 1 more" in said.what
    reading.check(dataset, reading.find(dataset), extra_allowed=True)


def test_two_slips_are_told_apart_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("click:1 user_id:2 item_id:3 other:4\n")
    said = trouble(slots(tmp_path, sparse="click usr_id item"))
    assert [each.hint and each.hint.split("`")[1] for each in said[:2]] == ["user_id", "item_id"]
    assert "slot other" in said[2].what


def test_a_slot_that_comes_late_is_found_within_the_first_lines(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("click:1\n" * 50)
    (tmp_path / "b").write_text("click:1 1:2\n")
    dataset = slots(tmp_path)
    reading.check(dataset, reading.find(dataset))
    assert "none of the 50 lines" in trouble(dataset, first_lines=50)[0].what


def test_a_class_of_the_users_has_no_declared_slots(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("anything\n")
    dataset = Dataset(name="d", data_path=str(tmp_path), batch_size=1, data_converter="reader.py")
    reading.check(dataset, reading.find(dataset))


def test_what_trainers_have_seen_is_judged_together(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("click:1 1:2 x:1\nclick:1 2:3 x:1\n")
    dataset = slots(tmp_path, sparse="click 1 2 3")
    found = reading.find(dataset)
    seen = []
    for rank in range(2):
        with reading.read(dataset, found, rank=rank, world=2) as samples:
            assert [batch.size for batch in samples] == [1]
            seen.append(samples.seen())
    assert seen[0].never == ("2", "3")
    both = checking.together(each for each in seen if each)
    assert (both.samples, both.never, both.always) == (2, ("3",), ("x",))
    assert checking.together([]).never == ()
    with pytest.raises(UmiakError) as raised:
        reading.check_seen(dataset, found, seen)
    assert "slot 3 is declared, and none of the 2 lines" in raised.value.problems[0].what
    reading.check_seen(slots(tmp_path, sparse="click 1 2 x"), found, [None])


def test_batches_have_dense_slots_ids_and_a_matrix(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("click:1 price:0.5 price:2 1:7 1:8\nclick:0 1:9\n")
    with reading.read(dataset := slots(tmp_path, dense="price:2"), reading.find(dataset)) as samples:
        batch = next(samples)
        assert batch.size == 2
        assert batch.dense["price"].tolist() == [[0.5, 2], [0, 0]]
        ids, offsets = batch.sparse["1"]
        assert (ids.tolist(), offsets.tolist()) == ([7, 8, 9], [0, 2, 3])
        assert batch.matrix(["click"]).tolist() == [[1], [0]]
        nothing = samples.empty()
        assert nothing.size == 0
        assert {name: matrix.shape for name, matrix in nothing.dense.items()} == {"price": (0, 2)}
        assert nothing.sparse["1"][0].dtype == ids.dtype == np.int64


def test_a_position_is_json_and_refused_where_it_does_not_belong(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"click:{number} 1:1\n" for number in range(20)))
    dataset = slots(tmp_path)
    found = reading.find(dataset)
    with reading.read(dataset, found, epoch=2, seed=5) as samples:
        next(samples)
        position = samples.position()
    assert json.loads(position)["samples"] == 4
    resumed = reading.read(dataset, found, epoch=2, seed=5, position=position)
    assert resumed.given == 4
    assert labels(resumed) == list(range(4, 20))
    for others in ({"epoch": 3}, {"seed": 6}, {"world": 2}, {"shuffle_files": True}):
        with pytest.raises(UmiakError) as raised:
            reading.read(dataset, found, **{"epoch": 2, "seed": 5, **others}, position=position)
        assert raised.value.problems[0].code == "UM-DATA-003"
    (tmp_path / "b").write_text("click:1 1:1\n")
    with pytest.raises(UmiakError, match="files is"):
        reading.read(dataset, reading.find(dataset), epoch=2, seed=5, position=position)
    with pytest.raises(UmiakError, match="not a position"):
        reading.read(dataset, found, position="[]")


def test_the_readers_own_options_pass_through(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"click:{number} 1:1\n" for number in range(50)))
    dataset = slots(tmp_path)
    found = reading.find(dataset)
    orders = [labels(reading.read(dataset, found, shuffle=50, seed=1, epoch=epoch)) for epoch in (0, 1, 1)]
    assert orders[0] != orders[1] == orders[2]
    assert sorted(orders[1]) == list(range(50))
    no_reader = Dataset(name="d", data_path=str(tmp_path), batch_size=1)
    with pytest.raises(UmiakError, match="neither slots nor a reader class"):
        reading.read(no_reader, found)


def test_slots_that_no_line_has_can_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "part").write_text("click:1 dense_feature:0.5 1:7\n" * 3)
    strict = slots(tmp_path, sparse="click 1", dense="dense_var:1")
    allowed = replace(strict, missing_slots_allowed=True)
    (said,) = trouble(allowed)
    assert "has slot dense_feature, not declared" in said.what
    reading.check(allowed, reading.find(allowed), extra_allowed=True)
    (said,) = trouble(strict, extra_allowed=True)
    assert "slot dense_var is declared" in said.what
