"""Waiting for the data of a pass: donefiles, directories that are missing, everybody's wish to stop."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import PATIENCE_S

pytest.importorskip("umiak_native")

from umiak.train.config.days import Pass, passes
from umiak.train.config.values import Online
from umiak.train.run.arrivals import Arrivals, Arrived, look
from umiak.train.run.stage_loop import StopRequested
from umiak.train.run.stop_signal import StopSignal

ONLINE = Online(start_day="20260131", end_day="20260131", split_interval=720, split_per_pass=2, data_donefile="done")
FREE = Online(start_day="20260131", end_day="20260131", split_interval=720, split_per_pass=2)
(WANTED,) = passes(ONLINE)


class Trainers:
    """Trainers that tell one another through a list; ``heard`` are those that have spoken before the others."""

    def __init__(self, *others: dict[str, Any], rank: int = 0) -> None:
        self.rank = rank
        self.is_first = rank == 0
        self.others = others
        self.told = 0

    def tell(self, message: dict[str, Any], name: str) -> list[dict[str, Any]]:
        assert name == "data"
        self.told += 1
        own = json.loads(json.dumps(message))
        return [own, *self.others] if self.is_first else [*self.others, own]


class Clock:
    """Time that passes when somebody sleeps; ``then`` happens at its moments."""

    def __init__(self, then: dict[float, Callable[[], object]] | None = None) -> None:
        self.now = 0.0
        self.then = then or {}

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for moment in [each for each in self.then if each <= self.now]:
            self.then.pop(moment)()


def waiting(
    root: Path,
    clock: Clock,
    *,
    online: Online = ONLINE,
    trainers: Trainers | None = None,
    stopping: StopSignal | None = None,
) -> tuple[Arrivals, list[str]]:
    lines: list[str] = []
    made = Arrivals(
        online,
        [str(root)],
        trainers or Trainers(),  # type: ignore[arg-type]
        stopping or StopSignal(),
        lines.append,
        clock=lambda: clock.now,
        sleep=clock.sleep,
    )
    return made, lines


def fill(root: Path, *splits: str, files: tuple[str, ...] = ("part-0",)) -> None:
    for split in splits:
        (root / split).mkdir(parents=True, exist_ok=True)
        for name in files:
            (root / split / name).write_text("click:1 1:7\n")


def test_it_waits_until_every_directory_is_complete(tmp_path: Path) -> None:
    fill(tmp_path, *WANTED.splits)
    first, second = (tmp_path / split / "done" for split in WANTED.splits)
    clock = Clock({25: first.touch, 130: second.touch})
    arrivals, lines = waiting(tmp_path, clock)
    arrived = arrivals.wait(WANTED)
    assert arrived == Arrived(there={str(tmp_path): WANTED.splits})
    assert 130 <= clock.now <= 130 + ONLINE.data_sleep_s
    assert lines == [
        f"20260131 pass 1 waits for {first}, {second}",
        f"20260131 pass 1 waits for {second}",
        f"20260131 pass 1 waits for {second}",
    ]


def test_a_real_file_ends_the_waiting(tmp_path: Path) -> None:
    fill(tmp_path, *WANTED.splits)
    online = Online(start_day="20260131", end_day="20260131", split_interval=1440, data_donefile="done", data_sleep_s=1)
    (wanted,) = passes(online)
    is_waiting = threading.Event()

    def come() -> None:
        is_waiting.wait(PATIENCE_S)
        (tmp_path / wanted.splits[0] / "done").touch()

    thread = threading.Thread(target=come)
    thread.start()
    arrivals = Arrivals(online, [str(tmp_path)], Trainers(), StopSignal(), lambda _: is_waiting.set())  # type: ignore[arg-type]
    assert arrivals.wait(wanted).there == {str(tmp_path): wanted.splits}
    thread.join()


def test_any_trainer_that_is_asked_stops_everybody(tmp_path: Path) -> None:
    stopping = StopSignal()

    def ask() -> None:
        stopping.ask(15)

    arrivals, _ = waiting(tmp_path, Clock({100: ask}), stopping=stopping)
    with pytest.raises(StopRequested):
        arrivals.wait(WANTED)
    arrivals, _ = waiting(tmp_path, Clock(), trainers=Trainers({"seen": None, "stop": True}))
    with pytest.raises(StopRequested):
        arrivals.wait(WANTED)


def test_the_first_trainer_decides(tmp_path: Path) -> None:
    """What another one sees with its own eyes does not count."""
    seen = {"there": {"/elsewhere": ["20260131/0000"]}, "missing": [], "awaited": []}
    arrivals, _ = waiting(tmp_path, Clock(), trainers=Trainers({"seen": seen, "stop": False}, rank=1))
    assert arrivals.wait(WANTED) == Arrived(there={"/elsewhere": ("20260131/0000",)})


def test_without_a_donefile_nobody_waits(tmp_path: Path) -> None:
    fill(tmp_path, WANTED.splits[1])
    clock = Clock()
    arrivals, lines = waiting(tmp_path, clock, online=FREE)
    arrived = arrivals.wait(WANTED)
    assert arrived.there == {str(tmp_path): WANTED.splits[1:]}
    assert arrived.missing == (f"{tmp_path}/{WANTED.splits[0]}",)
    assert (clock.now, lines, arrived.is_empty) == (0.0, [], False)
    assert look(FREE, [str(tmp_path / "other")], WANTED).is_empty


def test_a_donefile_is_no_data(tmp_path: Path) -> None:
    fill(tmp_path, *WANTED.splits, files=("done",))
    arrived = look(ONLINE, [str(tmp_path)], WANTED)
    assert arrived.is_empty
    assert not arrived.awaited
    fill(tmp_path, WANTED.splits[0])
    assert look(ONLINE, [str(tmp_path)], WANTED).there == {str(tmp_path): WANTED.splits[:1]}


def test_of_a_pattern_every_directory_must_be_complete(tmp_path: Path) -> None:
    pattern = f"{tmp_path}/site-*"
    assert look(ONLINE, [pattern], WANTED).awaited == tuple(f"{pattern}/{split}/done" for split in WANTED.splits)
    for site in ("site-a", "site-b"):
        fill(tmp_path / site, *WANTED.splits)
    for split in WANTED.splits:
        (tmp_path / "site-a" / split / "done").touch()
    awaited = look(ONLINE, [pattern], WANTED).awaited
    assert awaited == tuple(f"{tmp_path}/site-b/{split}/done" for split in WANTED.splits)


def test_a_file_behind_a_url(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    fill(tmp_path, *WANTED.splits)
    url = f"file://{tmp_path}"
    assert look(ONLINE, [url], WANTED).awaited == tuple(f"{url}/{split}/done" for split in WANTED.splits)
    fill(tmp_path, *WANTED.splits, files=("done",))
    assert look(ONLINE, [url], WANTED).there == {url: WANTED.splits}


def test_the_next_pass_comes_nearer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, *WANTED.splits)
    near: list[str] = []
    monkeypatch.setattr("umiak.train.run.arrivals._bring", near.append)
    arrivals, _ = waiting(tmp_path, Clock())
    arrivals.fetch_ahead(WANTED).join()
    assert near == []
    fill(tmp_path, *WANTED.splits, files=("done",))
    arrivals.fetch_ahead(WANTED).join()
    assert [name for name in near if name.endswith("part-0")] == [
        f"{tmp_path}/{split}/part-0" for split in WANTED.splits
    ]
    arrivals.fetch_ahead(Pass(day="20260131", number=9, splits=("nowhere",), is_last=True)).join()
