"""The lock that all trainers make together: the same bytes for any number of them, of the rows that are trained on, and never of a stream."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from umiak.core.problem import UmiakError
from umiak.data import features
from umiak.data.features.fitting import FitProgress
from umiak.data.parts import Part
from umiak.data.tables import TableReader
from umiak.schema.features import reading
from umiak.train.checkpoints import feature_locks, fitting_together
from umiak.train.checkpoints.fitting_together import Frames, framed
from umiak.train.config.streams.settings import StreamSettings
from umiak.train.config.values import Dataset, NodeData
from umiak.train.reading.tables import locks, sources
from umiak.train.reading.tables.locks import fit_line
from umiak.train.reading.tables.places import TablePlaces

SECTION = """\
features:
  label: click
  time: at
  columns:
  - {name: user, kind: id, vocab: {min_count: 1}}
  - {name: price, kind: number, transform: zscore}
  - {name: age, kind: number, boundaries: {quantiles: 7}}
"""
FILES, ROWS = 4, 50


class Meeting:
    """As many trainers as there are threads, who tell one another; one of them may be gone."""

    def __init__(self, world: int, lost: int | None = None) -> None:
        self.world = world
        self._lost = lost
        self._meeting = threading.Barrier(world, timeout=60)
        self._told: list[Any] = [None] * world

    def gather(self, rank: int, message: Any) -> list[Any]:
        self._told[rank] = message
        self._meeting.wait()
        told = [*self._told]
        self._meeting.wait()
        return told

    def all_of(self, rank: int, payload: bytes) -> list[bytes]:
        assert len(payload) <= 1 << 20, "a message has at most 1 MiB"
        return [b"" if other == self._lost else each for other, each in enumerate(self.gather(rank, payload))]

    def peers(self, rank: int) -> Any:
        return SimpleNamespace(
            rank=rank,
            world=self.world,
            is_first=rank == 0,
            tell=lambda message, _="": self.gather(rank, message),
            agree_on=lambda text, _="": self.gather(rank, text),
            all_of=lambda payload: self.all_of(rank, payload),
        )


def written(directory: Path, rows: int = ROWS) -> Path:
    data = directory / "data"
    data.mkdir(parents=True)
    (directory / "config.yaml").write_text(SECTION)
    for part in range(FILES):
        lines = [
            f"{number % 2},{number},u{number % 9},{number / 7},{number % 31}"
            for number in range(part * rows, part * rows + rows)
        ]
        (data / f"{part}.csv").write_text("click,at,user,price,age\n" + "\n".join(lines) + "\n")
    return directory


def prepared(directory: Path, world: int = 1, *, lost: int | None = None, own: bool = False, **more: Any) -> list[Any]:
    """What so many trainers have; ``own``: each has a directory for itself, and its part of the data."""
    meeting = Meeting(world, lost)

    def trainer(rank: int) -> Any:
        place = directory / str(rank) if own else directory
        dataset = Dataset(
            name="train", data_path=str(place / "data"), batch_size=8, features=reading.load(place), **more
        )
        stage = SimpleNamespace(dataset=dataset, threads=1)
        group = SimpleNamespace(node_data=NodeData.OWN if own else NodeData.SHARED)
        run: Any = SimpleNamespace(stages=(stage,), evaluation=None, group=group)
        return feature_locks.prepared(run, str(place / "config.yaml"), None, meeting.peers(rank), lambda _: None)

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(trainer, range(world)))


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("features.*")}


@pytest.mark.parametrize("world", [2, 3, 5])
def test_it_has_the_same_bytes_however_many_trainers_read(tmp_path: Path, world: int) -> None:
    alone = written(tmp_path / "alone")
    assert prepared(alone)[0].rows == FILES * ROWS
    together = written(tmp_path / "together")
    found = prepared(together, world)
    assert {each.sha256 for each in found} == {features.read_lock(str(alone / "features.lock.json")).sha256}
    assert content(alone) == content(together)
    assert len(content(alone)) == 2, "the lock and a vocabulary"


def test_every_trainer_reads_its_own_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    plain = fitting_together.fitting.sketched_side_by_side

    def counted(*given: Any, **more: Any) -> Any:
        sketch = plain(*given, **more)
        read.append(sketch.rows)
        return sketch

    monkeypatch.setattr(fitting_together.fitting, "sketched_side_by_side", counted)
    prepared(written(tmp_path / "x"), 4)
    assert sum(read) == FILES * ROWS
    assert sum(rows > 0 for rows in read) >= 3, read


def test_nodes_need_not_see_one_directory(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole")
    prepared(whole)
    for rank in range(2):
        written(tmp_path / "nodes" / str(rank))
        for part in range(FILES):
            if part % 2 != rank:
                (tmp_path / "nodes" / str(rank) / "data" / f"{part}.csv").unlink()
    prepared(tmp_path / "nodes", 2, own=True)
    assert content(tmp_path / "nodes" / "0") == content(tmp_path / "nodes" / "1") == content(whole)
    for path in (tmp_path / "nodes" / "1").glob("features.*"):
        path.unlink()
    assert len(prepared(tmp_path / "nodes", 2, own=True)) == 2, "the first trainer's lock is brought to the other"
    assert content(tmp_path / "nodes" / "1") == content(whole)


def test_a_lock_that_others_have_and_the_first_trainer_has_not_is_refused(tmp_path: Path) -> None:
    for rank in range(2):
        written(tmp_path / str(rank))
    whole = written(tmp_path / "whole")
    prepared(whole)
    for name, each in content(whole).items():
        (tmp_path / "1" / name).write_bytes(each)
    with pytest.raises(UmiakError, match="do not see the same lock"):
        prepared(tmp_path, 2, own=True)


def test_a_trainer_that_is_gone_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    directory = written(tmp_path / "x")
    with pytest.raises(UmiakError, match="trainer 1 is gone while features are fitted"):
        prepared(directory, 3, lost=1)
    assert not content(directory)


def test_who_is_asked_to_stop_meanwhile_stops(tmp_path: Path) -> None:
    directory = written(tmp_path / "x")
    looks: list[None] = []

    def look() -> None:
        looks.append(None)
        if len(looks) == 3:
            raise KeyboardInterrupt

    dataset = Dataset(name="train", data_path=str(directory / "data"), batch_size=8, features=reading.load(directory))
    with pytest.raises(KeyboardInterrupt):
        fitting_together.fit(dataset, str(directory / "config.yaml"), Meeting(1).peers(0), lambda _: None, look=look)
    assert not content(directory)


def test_rows_that_are_evaluated_later_are_left_out(tmp_path: Path) -> None:
    assert prepared(written(tmp_path / "all"))[0].rows == 200
    assert prepared(written(tmp_path / "before"), rows_before=120.0)[0].rows == 120


@pytest.mark.parametrize("share", [(0.0, 0.7), (0.7, 1.0)])
def test_of_a_share_of_the_rows_these_and_no_others_are_fitted_to(tmp_path: Path, share: tuple[float, float]) -> None:
    """Those that training takes afterwards, with the encoder that knows the lock."""
    directory = written(tmp_path / "x")
    lock = prepared(directory, 2, rows_share=share)[0]
    dataset = Dataset(name="train", data_path="", batch_size=8, features=reading.load(directory), rows_share=share)
    encoder = sources.encoder_of(dataset, lock)
    kept = 0
    for path in sorted((directory / "data").glob("*.csv")):
        whole = Part(path=str(path))
        parts = TablePlaces(sources.text_reading(dataset)).parts(whole)
        for batch in TableReader(parts, encoder.wanted):
            arrays, count = encoder.arrays(batch)
            assert len(arrays[1][0]) == count
            kept += count
    assert 0 < kept == lock.rows < 200


def test_a_stream_is_not_fitted_to(tmp_path: Path) -> None:
    with pytest.raises(UmiakError, match="a stream is read once"):
        prepared(written(tmp_path / "x"), stream=StreamSettings())


@pytest.mark.parametrize("sizes", [[], [0], [1, 0, 3], [PIECE := fitting_together.PIECE_BYTES, 5, 2 * PIECE + 7]])
def test_pieces_of_any_length_come_out_as_they_went_in(sizes: list[int]) -> None:
    pieces = [(["words", f"t{number}"], bytes([number]) * size) for number, size in enumerate(sizes)]
    messages = [*framed(iter(pieces))]
    assert all(len(each) <= fitting_together.PIECE_BYTES for each in messages)
    frames = Frames()
    assert [piece for message in [*messages, b""] for piece in frames.taken(message)] == pieces


def test_lines_tell_the_rate_and_what_is_left() -> None:
    half = FitProgress(rows=30_000, bytes=500, of_bytes=1000, bad=3)
    assert fit_line(half, 10.0) == "fits features: 50%, 30,000 rows, 3,000 rows/s, 10 s left, 3 bad"
    said: list[str] = []
    now = [0.0]
    clock: Callable[[], float] = lambda: now[0]  # noqa: E731
    lines = locks.FitLines(said.append, 4, clock)
    for seconds in (1.0, 6.0, 7.0):
        now[0] = seconds
        lines.told(half)
    assert said == ["fits features: 50% of this trainer's share, 1 of 4, 30,000 rows, 5,000 rows/s, 6 s left, 3 bad"]
