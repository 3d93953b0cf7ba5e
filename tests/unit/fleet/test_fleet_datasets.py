"""Datasets: what was set on Paddle's objects, files to batches, samples in memory, the lines that are printed."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support import PATIENCE_S
from umiak.core.value import replace
from umiak.fleet.datasets import reading, settings, training
from umiak.fleet.datasets.pipes import PipeError
from umiak.fleet.datasets.reading import SampleMemory
from umiak.fleet.datasets.settings import DatasetSettings, SlotSetting, feed_of
from umiak.ps.errors import BadRequest

IDS = SlotSetting(name="ids", is_float=False, is_dense=False)
DENSE = SlotSetting(name="dense", is_float=True, is_dense=True, shape=(-1, 2))
LABEL = SlotSetting(name="label", is_float=False, is_dense=True, shape=(-1, 1))


def quiet(_text: str) -> None:
    """Nobody listens."""


@pytest.fixture
def asked(tmp_path: Path) -> DatasetSettings:
    """Three files: samples 0 to 9, 100 to 106, 200 to 204."""
    files = []
    for number, size in enumerate((10, 7, 5)):
        path = tmp_path / f"part-{number}"
        first = 100 * number
        path.write_text("".join(f"2 {first + i} 7 2 0.5 {i} 1 {i % 2}\n" for i in range(size)))
        files.append(str(path))
    return DatasetSettings(files=tuple(files), slots=(IDS, DENSE, LABEL), batch_size=4)


def firsts(samples: Any) -> list[int]:
    return list(samples.arrays()[0][0][::2].tolist())


# ---- settings


def dataset(*slots: Any, name: str = "MultiSlotDataFeed", files: Sequence[str] = ("a",), **others: Any) -> Any:
    said = SimpleNamespace(
        name=name,
        batch_size=8,
        pipe_command="cat",
        input_type=0,
        multi_slot_desc=SimpleNamespace(slots=slots),
    )
    return SimpleNamespace(proto_desc=said, filelist=list(files), thread_num=3, **others)


def slot(name: str, kind: str = "uint64", *shape: int) -> Any:
    return SimpleNamespace(name=name, type=kind, is_dense=bool(shape), shape=shape, is_used=True)


def test_settings_are_read_off_paddles_object() -> None:
    found = settings.of(dataset(slot("ids"), slot("dense", "float", -1, 13), parse_ins_id=True))
    assert found == DatasetSettings(
        files=("a",),
        slots=(IDS, SlotSetting(name="dense", is_float=True, is_dense=True, shape=(-1, 13))),
        batch_size=8,
        threads=3,
        texts=1,
    )
    assert found.forms == [(False, 0, False), (True, 13, False)]


def test_a_dataset_in_memory_leaves_out_zeros() -> None:
    found = settings.of(dataset(slot("ids"), slot("label", "uint64", -1, 1), name="MultiSlotInMemoryDataFeed"))
    assert found.forms == [(False, 0, True), (False, 1, False)]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(BadRequest) as raised:
        settings.of(dataset(files=[], merge_by_lineid=True))
    assert [problem.code for problem in raised.value.problems] == ["UM-FLEET-040", "UM-FLEET-041", "UM-FLEET-042"]


# ---- what generators of Paddle print


# ---- files


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        (1, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 100, 101], [102, 103, 104, 105], [106, 200, 201, 202], [203, 204]]),
        (2, [[0, 1, 2, 3], [100, 101, 102, 103], [4, 5, 6, 7], [104, 105, 106, 200], [8, 9], [201, 202, 203, 204]]),
        (5, [[0, 1, 2, 3], [100, 101, 102, 103], [200, 201, 202, 203], [4, 5, 6, 7], [104, 105, 106], [204], [8, 9]]),
    ],
)
def test_batches_of_several_files_at_a_time(asked: DatasetSettings, threads: int, expected: list[list[int]]) -> None:
    found = [firsts(batch) for batch in reading.FileBatches(replace(asked, threads=threads), quiet)]
    assert found == expected


def test_the_order_does_not_depend_on_who_is_slow(asked: DatasetSettings) -> None:
    slow = replace(asked, threads=2, command="read -r first; sleep 0.$((RANDOM % 3)); echo $first; cat")
    quick = replace(asked, threads=2)
    assert [firsts(each) for each in reading.FileBatches(slow, quiet)] == [
        firsts(each) for each in reading.FileBatches(quick, quiet)
    ]


def test_everything_is_in_the_order_of_the_files(asked: DatasetSettings) -> None:
    expected = [*range(10), *range(100, 107), *range(200, 205)]
    for threads in (1, 2, 3):
        assert firsts(reading.everything(replace(asked, threads=threads), quiet)) == expected
    assert len(reading.everything(replace(asked, command="cat > /dev/null"), quiet)) == 0


def test_a_bad_line_names_file_line_and_slot(asked: DatasetSettings) -> None:
    with pytest.raises(PipeError) as raised:
        list(reading.FileBatches(replace(asked, command="sed s/103/x/"), quiet))
    text = str(raised.value)
    assert f"{asked.files[1]}, line 4 of the program's output" in text
    assert "a line that pipe_command prints is no sample" in text
    assert "slot 1 (ids)" in text
    assert '"x"' in text
    with pytest.raises(PipeError, match=r"slot 2 .dense."):
        list(reading.FileBatches(replace(asked, command="sed 's/2 0.5/3 1 0.5/'"), quiet))


def test_a_bad_line_of_a_file_that_is_read_as_it_is(asked: DatasetSettings) -> None:
    file = Path(asked.files[1])
    file.write_text(file.read_text().replace("103", "x"))
    with pytest.raises(PipeError) as raised:
        list(reading.FileBatches(replace(asked, command="cat"), quiet))
    text = str(raised.value)
    assert "a line of the file is no sample: slot 1 (ids)" in text
    assert f"{file}, line 4" in text
    assert "output" not in text
    assert f"sed -n 4p {file}" in text


def test_more_than_the_slots_is_told_once(asked: DatasetSettings) -> None:
    said: list[str] = []
    fewer = replace(asked, slots=asked.slots[:2])
    assert sum(len(batch) for batch in reading.FileBatches(fewer, said.append)) == 22
    assert len(said) == 1
    assert "2 slots of use_var" in said[0]


def test_an_error_ends_all_programs(asked: DatasetSettings) -> None:
    command = "read -r _ first _; if [ $first = 0 ]; then exit 7; fi; sleep 600"
    with pytest.raises(PipeError, match="exit code 7"):
        list(reading.FileBatches(replace(asked, threads=3, command=command), quiet))


def test_a_reader_that_hangs_can_be_stopped(asked: DatasetSettings) -> None:
    batches = reading.FileBatches(replace(asked, command="cat; sleep 600"), quiet)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(batches))
    thread.start()
    batches.stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


# ---- feeds


def test_a_feed_has_arrays_and_ragged_slots(asked: DatasetSettings) -> None:
    feed = feed_of(next(iter(reading.FileBatches(asked, quiet))), asked)
    values, offsets = feed["ids"]
    assert (values.shape, offsets.tolist()) == ((8, 1), [0, 2, 4, 6, 8])
    assert feed["dense"].tolist() == [[0.5, 0], [0.5, 1], [0.5, 2], [0.5, 3]]
    assert (feed["label"].shape, feed["label"].dtype) == ((4, 1), np.int64)


def test_a_line_that_is_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "batches"
    path.write_text("3 5 6 7 6 1 2 3 4 5 6 3 0 1 0\n")
    asked = DatasetSettings(files=(str(path),), slots=(IDS, DENSE, LABEL), is_batch_per_line=True)
    feed = feed_of(next(iter(reading.FileBatches(asked, quiet))), asked)
    assert feed["ids"][1].tolist() == [0, 1, 2, 3]
    assert feed["dense"].shape == (3, 2)


@pytest.mark.parametrize(
    ("lines", "shape", "found"),
    [
        ("2 1 2\n2 3 4\n2 5 6\n", (-1, -1), (3, 2)),
        ("4 1 2 3 4\n4 5 6 7 8\n", (-1, -1, 2), (2, 2, 2)),
        ("2 1 2\n1 3\n", (-1, -1), (1, 3)),
        ("2 1 2\n2 3 4\n", (2, -1), (2, 2)),
    ],
)
def test_a_shape_with_several_unknown_sizes(
    lines: str, shape: tuple[int, ...], found: tuple[int, ...], tmp_path: Path
) -> None:
    path = tmp_path / "part"
    path.write_text(lines)
    slot = SlotSetting(name="history", is_float=False, is_dense=True, shape=shape)
    asked = DatasetSettings(files=(str(path),), slots=(slot,), batch_size=8)
    history = feed_of(next(iter(reading.FileBatches(asked, quiet))), asked)["history"]
    assert history.shape == found
    assert history.ravel().tolist() == list(range(1, history.size + 1))


def test_a_shape_without_a_number_of_samples(asked: DatasetSettings) -> None:
    fixed = replace(asked, slots=(IDS, replace(DENSE, shape=(4, 2)), LABEL))
    batches = list(reading.FileBatches(fixed, quiet))
    with pytest.raises(BadRequest, match="UM-FLEET-043"):
        feed_of(batches[-1], replace(fixed, slots=(IDS, replace(DENSE, shape=(3, 2)), LABEL)))


# ---- memory


def test_samples_in_memory(asked: DatasetSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SampleMemory()
    with pytest.raises(BadRequest, match="UM-FLEET-048"):
        list(memory.batches(4))
    memory.load(asked, quiet)
    everything = [first for batch in memory.batches(4) for first in firsts(batch)]
    assert (len(memory), everything[:11]) == (22, [*range(10), 100])
    memory.shuffle()
    shuffled = [first for batch in memory.batches(4) for first in firsts(batch)]
    assert sorted(shuffled) == everything
    monkeypatch.setattr(np.random, "permutation", lambda count: np.arange(count)[::-1])
    memory.shuffle()
    assert [first for batch in memory.batches(4) for first in firsts(batch)] == everything[::-1]
    memory.release()
    assert (len(memory), memory.is_loaded) == (0, False)


def test_loading_while_something_else_is_done(asked: DatasetSettings) -> None:
    memory = SampleMemory()
    memory.start_loading(asked, quiet)
    memory.wait()
    memory.wait()
    assert len(memory) == 22
    memory.start_loading(replace(asked, command="exit 3"), quiet)
    with pytest.raises(PipeError, match="exit code 3"):
        memory.wait()


def test_slots_of_other_samples(asked: DatasetSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SampleMemory()
    memory.load(asked, quiet)
    before = memory.samples.arrays()
    monkeypatch.setattr(np.random, "permutation", lambda count: np.arange(count)[::-1])
    memory.shuffle_slots([1])
    after = memory.samples.arrays()
    assert after[0][0].tolist() == before[0][0].tolist()
    assert after[1][0].tolist() != before[1][0].tolist()
    assert sorted(after[1][0].tolist()) == sorted(before[1][0].tolist())


# ---- training


class Counter:
    """Learns nothing."""

    def __init__(self) -> None:
        self.shares: list[float | None] = []
        self.seen: list[int] = []

    def step(self, feed: dict[str, Any], fetch: Sequence[Any], share: float | None, _following: Any) -> list[Any]:
        self.shares.append(share)
        self.seen += feed["ids"][0][::2, 0].tolist()
        return [np.float32(1.5) for _ in fetch]

    def skip(self) -> None:
        self.shares.append(0.0)


def test_lines_are_those_of_paddle() -> None:
    arrays = [np.array([25.98204], np.float32), np.array([[1, 0], [-3, 4]]), np.array([1e-7, 1e9, 0.1, 2.0])]
    assert training.line_of("2026-11-17 05:50:43", 2, ["the loss", "n", "x"], arrays) == (
        "time: [2026-11-17 05:50:43], batch: [2], the loss[1]:[25.982], n[4]:[1 0 -3 4], x[4]:[1e-07 1e+09 0.1 2]"
    )


def test_what_is_fetched_is_printed_now_and_then(asked: DatasetSettings) -> None:
    lines: list[str] = []
    counter = Counter()
    fetch = training.FetchPlan(variables=("loss",), names=("cost",), period=2)
    done = training.run(reading.FileBatches(asked, quiet), asked, counter, fetch, write=lines.append)
    assert done == 6
    assert [line.partition("], ")[2] for line in lines] == [f"batch: [{n}], cost[1]:[1.5]" for n in (2, 4, 6)]
    assert sorted(counter.seen) == [*range(10), *range(100, 107), *range(200, 205)]
    assert counter.shares == [None] * 6


def test_a_handler_is_called_with_its_variables(asked: DatasetSettings) -> None:
    told: list[dict[str, Any]] = []
    handler = SimpleNamespace(var_dict={"auc": "v"}, period_secs=0, handler=told.append)
    training.run(reading.FileBatches(asked, quiet), asked, Counter(), training.FetchPlan(handler=handler), write=quiet)
    assert told == [{"auc": 1.5}] * 6


def test_trainers_of_a_sync_job_take_steps_together(asked: DatasetSettings) -> None:
    """The other one has two batches of 8."""
    others = iter([[8], [8], [], [], []])

    def gather(own: bytes) -> list[bytes]:
        return [own, json.dumps(next(others)).encode()]

    counter = Counter()
    training.run(
        reading.FileBatches(asked, quiet), asked, counter, training.FetchPlan(), gather=gather, rank=0, write=quiet
    )
    assert counter.shares == [1 / 3, 1 / 3, 1, 1, 1, 1]


def test_a_trainer_without_batches_takes_part_in_steps(asked: DatasetSettings) -> None:
    empty = replace(asked, command="cat > /dev/null")
    others = iter([[8], [8, 8], []])
    counter = Counter()
    done = training.run(
        reading.FileBatches(empty, quiet),
        empty,
        counter,
        training.FetchPlan(),
        gather=lambda own: [json.dumps(next(others)).encode(), own],
        rank=1,
        write=quiet,
    )
    assert (done, counter.shares) == (0, [0.0, 0.0, 0.0])


def test_an_error_of_the_reader_ends_training(asked: DatasetSettings) -> None:
    broken = replace(asked, command="cat; exit 5")
    with pytest.raises(PipeError, match="exit code 5"):
        training.run(reading.FileBatches(broken, quiet), broken, Counter(), training.FetchPlan(), write=quiet)


def test_an_error_of_a_step_ends_a_program_that_hangs(asked: DatasetSettings) -> None:
    class Broken(Counter):
        def step(self, feed: dict[str, Any], fetch: Sequence[Any], share: float | None, _following: Any) -> list[Any]:
            raise ValueError("NaN")

    hangs = replace(asked, command="cat; sleep 600")
    with pytest.raises(ValueError, match="NaN"):
        training.run(reading.FileBatches(hangs, quiet), hangs, Broken(), training.FetchPlan(), write=quiet)
