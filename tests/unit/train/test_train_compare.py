"""Comparing with plain Paddle: records keep every bit, differences are found where they are, and bad requests are refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import effort
from umiak.cli.main import main
from umiak.train.compare import records, report
from umiak.train.compare.deviations import AdamStep, nudged, with_one_epsilon
from umiak.train.compare.differences import allowed, compared, distance, unexplained
from umiak.train.compare.values import CompareOutcome, CompareVerdict, Comparison, ModelKind, RecordedState


def course(
    steps: int, *, change: tuple[int, str, float] | None = None, loss_change: int | None = None
) -> list[RecordedState]:
    """Some parameters that move a little in each step; ``change``: from this step on one of them is so far off."""
    found = []
    for step in range(steps + 1):
        values = {
            "table": np.full((7, 3), 0.5 + 0.01 * step, np.float32),
            "bias": np.full(2, -0.25 * step, np.float32),
            "count": np.array([step], np.int64),
            "frozen": np.ones(4, np.float32),
        }
        if change is not None and step >= change[0]:
            values[change[1]] = values[change[1]] + np.asarray(change[2], values[change[1]].dtype)
        loss = (
            None if step == 0 else 0.7 - 0.01 * step + (0.1 if loss_change is not None and step >= loss_change else 0.0)
        )
        found.append(RecordedState(step=step, loss=loss, values=values))
    return found


def outcome(
    comparison: Comparison, verdict: CompareVerdict = CompareVerdict.DIFFERS, servers: int = 0, trainers: int = 1
) -> CompareOutcome:
    return CompareOutcome(
        verdict=verdict,
        comparison=comparison,
        kind=ModelKind.DYGRAPH,
        trainers=trainers,
        servers=servers,
        mode="sync",
        tolerance=1e-5,
    )


# ---- records


@effort(0.25)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 299), st.integers(0, 249), st.floats(width=32)), max_size=5),
        min_size=1,
        max_size=4,
    )
)
def test_states_come_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[int, int, float]]]
) -> None:
    directory = str(tmp_path_factory.mktemp("records") / "side")
    writer = records.StepWriter(directory)
    table, written = np.zeros((300, 250), np.float32), []
    for number, changes in enumerate(steps):
        for row, column, number_there in changes:
            table[row, column] = number_there
        values = {"table": table.copy(), "scalar": np.array(number, np.int64), "empty": np.zeros((0, 3), np.float32)}
        written.append(values)
        writer.write(number, values, loss=None if number == 0 else 1.0 / number)
    found = [
        (state.step, state.loss, {name: np.array(each) for name, each in state.values.items()})
        for state in records.states(directory)
    ]
    assert [step for step, _, _ in found] == list(range(len(steps)))
    for (_, _, values), expected in zip(found, written, strict=True):
        assert {name: (each.tobytes(), each.shape, each.dtype) for name, each in values.items()} == {
            name: (each.tobytes(), each.shape, each.dtype) for name, each in expected.items()
        }


def test_of_a_large_table_changed_rows_are_written(tmp_path: Path) -> None:
    writer = records.StepWriter(str(tmp_path))
    table = np.zeros((70_000, 4), np.float32)
    writer.write(0, {"table": table})
    table[17] = 3
    writer.write(1, {"table": table})
    sizes = [sum(each.stat().st_size for each in (tmp_path / f"step-{step:08d}").iterdir()) for step in range(2)]
    assert sizes[0] > 1_000_000
    assert sizes[1] < 2_000


def test_batches_come_back_in_their_form(tmp_path: Path) -> None:
    fields = [
        np.arange(6).reshape(2, 3),
        [np.ones(2, np.float32), {"a": np.zeros(0), "name": "x"}],
        4,
        None,
        np.float32(2),
    ]
    records.write_batch(str(tmp_path), rank=1, step=0, fields=fields, facts={"share": 0.5})
    records.write_batch(str(tmp_path), rank=1, step=1, fields=None, facts={"share": 0.0})
    first, second = records.batches(str(tmp_path), 1)
    np.testing.assert_array_equal(first.fields[0], fields[0])
    np.testing.assert_array_equal(first.fields[1][0], np.ones(2))
    assert first.fields[1][1]["name"] == "x"
    assert first.fields[2:] == [4, None, 2.0]
    assert (first.facts, second.fields) == ({"share": 0.5}, None)
    assert [*records.batches(str(tmp_path), 0)] == []


def test_a_step_that_was_being_written_does_not_count(tmp_path: Path) -> None:
    writer = records.StepWriter(str(tmp_path))
    writer.write(0, {"a": np.ones(2)})
    writer.write(1, {"a": np.zeros(2)})
    (tmp_path / "step-00000001" / "index.json").unlink()
    assert [state.step for state in records.states(str(tmp_path))] == [0]


# ---- differences


def test_equal_sides_are_equal() -> None:
    found = compared(course(5), course(5))
    assert found.is_equal
    assert (found.steps, found.first_step, found.largest) == (5, None, 0.0)
    assert found.last_losses == (pytest.approx(0.65), pytest.approx(0.65))
    assert "equal: after each of 5 steps 4 parameters" in report.text(outcome(found, CompareVerdict.EQUAL))


@given(st.integers(0, 5), st.sampled_from(["table", "bias", "count", "frozen"]), st.sampled_from([3e-5, 1e-3, 2.0]))
def test_a_difference_is_found_with_its_step_and_its_parameter(step: int, name: str, size: float) -> None:
    size = math.ceil(size) if name == "count" else size
    found = compared(course(5, change=(step, name, size)), course(5))
    assert [(each.name, each.first_step) for each in found.differing] == [(name, step)]
    assert found.differing[0].largest == pytest.approx(size, rel=0.02)
    assert found.first_step == step
    text = report.text(outcome(found))
    assert text.splitlines()[1].split()[0] == name
    assert ("start" if step == 0 else str(step)) in text.splitlines()[1].split()
    assert f"differs: umiak (alone) and plain Paddle differ by more than 1e-05 from step {step} on: 1 of 4" in text
    told = report.data(outcome(found, servers=2, trainers=2))
    assert json.loads(json.dumps(told))["first_step"] == step


def test_a_side_that_stands_still_differs_however_small_the_steps_are() -> None:
    moving = [RecordedState(step=k, loss=0.5, values={"w": np.full(3, 0.1 + 1e-6 * k, np.float32)}) for k in range(6)]
    standing = [RecordedState(step=k, loss=0.5, values={"w": np.full(3, 0.1, np.float32)}) for k in range(6)]
    found = compared(standing, moving)
    assert found.largest < 1e-5
    assert found.differing[0].first_step == 1


def test_rows_that_do_not_count() -> None:
    ours = course(2)
    for state in ours:
        state.values["table"][3] += 1
    assert compared(ours, course(2), unread={"table": 3}).is_equal
    assert not compared(ours, course(2), unread={"table": 4}).is_equal


def test_losses_count_as_well() -> None:
    found = compared(course(4, loss_change=3), course(4))
    assert (found.is_equal, found.first_loss_step, found.differing) == (False, 3, ())
    assert "from step 3 on: the loss" in report.text(outcome(found))


def test_what_one_side_lacks_and_other_shapes_differ() -> None:
    ours, plain = course(1), course(1)
    for state in ours:
        del state.values["bias"]
    plain[1].values["table"] = np.zeros((2, 2), np.float32)
    found = {each.name: each for each in compared(ours, plain).differing}
    assert (found["bias"].first_step, found["bias"].note) == (0, "umiak has none")
    assert (found["table"].first_step, found["table"].note) == (1, "shapes (7, 3) and (2, 2)")
    assert report.data(outcome(compared(ours, plain)))["largest"] is None


def test_a_number_and_no_number_are_infinitely_far() -> None:
    nan = np.array([1.0, math.nan, math.inf])
    assert distance(nan, nan.copy()) == 0.0
    assert distance(nan, np.array([1.0, 2.0, math.inf])) == math.inf
    assert distance(np.array([math.inf]), np.array([-math.inf])) == math.inf
    assert distance(np.array([2**60]), np.array([2**60 + 1])) == math.inf, "no digit of float64 shows it"


def test_the_limit() -> None:
    assert allowed(1e-5, 0.5, 10.0) == 1e-5
    assert allowed(1e-5, 100.0, 10.0) == pytest.approx(1e-3)
    assert allowed(1e-5, 1e-11, 1e-11) == pytest.approx(1e-9), "what is nothing but rounding"
    assert allowed(1e-5, 1.0, 0.0) == pytest.approx(1e-6), "what does not move may differ by rounding"


def test_what_last_digits_explain() -> None:
    found = compared(course(3, change=(2, "bias", 4e-4)), course(3))
    assert unexplained(found, compared(course(3), course(3))) == ("bias",)
    assert unexplained(found, compared(course(3, change=(1, "bias", 1e-4)), course(3))) == ()
    early = compared(course(5, change=(1, "bias", 4e-4)), course(5))
    assert unexplained(early, compared(course(5, change=(4, "bias", 4e-4)), course(5))) == ("bias",), (
        "it was there before"
    )
    both = compared(course(3, change=(2, "bias", 4e-4), loss_change=2), course(3))
    assert unexplained(both, compared(course(3, change=(1, "bias", 1e-4)), course(3))) == ("the loss",)


def test_what_several_runs_with_other_last_digits_explain_together() -> None:
    found = compared(course(3, change=(2, "bias", 4e-4), loss_change=2), course(3))
    one = compared(course(3, change=(1, "bias", 1e-4)), course(3))
    other = compared(course(3, change=(1, "table", 1e-4), loss_change=3), course(3))
    assert unexplained(found, one) == ("the loss",)
    assert unexplained(found, other) == ("bias",)
    assert unexplained(found, one, other) == ()
    assert unexplained(found) == ("bias", "the loss")


@given(st.lists(st.floats(width=32), max_size=40), st.integers(0, 9))
def test_a_nudged_number_is_a_neighbour(numbers: list[float], seed: int) -> None:
    array = np.array(numbers, np.float32)
    found = nudged(array, np.random.default_rng(seed))
    finite = np.isfinite(array)
    with np.errstate(over="ignore"):
        above, below = (np.nextafter(array, np.float32(end)) for end in (np.inf, -np.inf))
    assert ((found == above) | (found == below))[finite].all()
    np.testing.assert_array_equal(found[~finite], array[~finite])


def test_nudges_go_both_ways_and_follow_from_their_seed() -> None:
    array = np.linspace(-3, 3, 2000, dtype=np.float32).reshape(40, 50)
    found = nudged(array, np.random.default_rng(3))
    assert 800 < (found > array).sum() < 1200
    assert (found != array).all()
    np.testing.assert_array_equal(found, nudged(array, np.random.default_rng(3)))
    assert (found != nudged(array, np.random.default_rng(4))).any()


def test_rows_without_a_gradient_get_the_epsilon_of_others() -> None:
    before = np.full((4, 2), 0.5, np.float32)
    old, squares = (np.array([[0, 0], [1, 1], [1, 0], [0, 0]], np.float32) * each for each in (1e-3, 1e-6))
    new, new_squares = old * np.float32(0.9), squares * np.float32(0.999)
    new[2], new_squares[2] = 0.3, 0.2  # it has a gradient
    step = AdamStep(
        rate=0.1,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-3,
        powers=(0.9, 0.999),
        before=before,
        first=(old, new),
        second=(squares, new_squares),
    )
    found = with_one_epsilon(step, before + 7)
    root = np.sqrt(1 - 0.999)
    expected = 0.5 - 0.1 * root / 0.1 * 0.9e-3 / (np.sqrt(0.999e-6) + 1e-3 * root)
    np.testing.assert_allclose(found[1], expected, rtol=1e-5)
    np.testing.assert_array_equal(found[[0, 2, 3]], np.full((3, 2), 7.5), "untouched, or with a gradient: Paddle's own")


# ---- what is asked for

CONFIG = """\
runner:
  train_data_dir: data
  train_batch_size: 4
  model: dygraph_model.py
  sparse_slots: "click a"
  epochs: 1
  {more}
"""


def asked(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str, more: str = ""
) -> tuple[int, str]:
    (directory / "data").mkdir()
    (directory / "data" / "part").write_text("click:1 a:2\n")
    (directory / "dygraph_model.py").write_text("class DygraphModel:\n    pass\n")
    (directory / "config.yaml").write_text(CONFIG.format(more=more))
    monkeypatch.chdir(directory)
    status = main(["train", "-m", "config.yaml", *words])
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--compare", "plain", "--resume"], "UM-CLI-080", "--compare and --resume"),
        (["--compare", "plain", "--check"], "UM-CLI-080", "--compare and --check"),
        (["--compare", "plain", "--on", "lab"], "UM-CLI-080", "--compare and --on"),
        (["--compare", "plain", "--tolerance", "much"], "UM-CLI-082", "--tolerance: much"),
        (["--compare", "plain", "--tolerance", "0"], "UM-CLI-082", "--tolerance: 0"),
        (["--compare", "plain", "--tolerance", "nan"], "UM-CLI-082", "--tolerance: nan"),
        (["--compare", "torch"], "UM-CLI-003", "--compare torch"),
        (["--compare", "plain", "--steps", "0"], "UM-CLI-003", "--steps"),
        (["--steps", "4"], "UM-CLI-081", "--steps without --compare"),
        (["--tolerance", "1e-3"], "UM-CLI-081", "--tolerance without --compare"),
        (["--record", "there"], "UM-CLI-081", "--record without --steps"),
    ],
)
def test_bad_requests(
    words: list[str],
    code: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, err = asked(tmp_path, monkeypatch, capsys, *words)
    assert status == 2
    assert code in err
    assert said in err


@pytest.mark.parametrize("mode", ["async", "half_async", "geo"])
def test_trainers_that_do_not_wait_can_not_be_compared(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    more = f"sync_mode: {mode}\n  worker_num: 2\n  server_num: 1"
    status, err = asked(tmp_path, monkeypatch, capsys, "--compare", "plain", more=more)
    assert status == 2
    assert "UM-TRAIN-585" in err
    assert f"2 trainers in {mode}" in err
