"""Which runs there are, how they are, and that looking again costs what has changed."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import PATIENCE_S
from tests.support.run_directories import WALL, launch_directory, lines, locked, progress, train_directory
from umiak.dashboard import filters, reading
from umiak.dashboard.index import RunIndex, id_of
from umiak.dashboard.rows import RunRow, RunSource, SubmissionSight

if TYPE_CHECKING:
    from umiak.dashboard.facts import FactsOfRun
    from umiak.dashboard.files import Locks

DONE = {"stopped": False, "resumable": False, "saved": "x/0"}


def indexed(path: Path, *submitted: SubmissionSight) -> RunIndex:
    index = RunIndex([str(path)], lambda: submitted)
    index.refresh()
    return index


def only(index: RunIndex) -> RunRow:
    (row,) = index.rows
    return row


def age(path: Path) -> None:
    """Directories that were changed a moment ago are always looked at; these were not."""
    for directory, _, _ in os.walk(path):
        os.utime(directory, (WALL, WALL))


def test_runs_of_launchers_and_trainers_are_found(tmp_path: Path) -> None:
    launch_directory(tmp_path / "a" / "log")
    train_directory(tmp_path / "b" / "run" / "ctr", outcome=DONE)
    launch_directory(tmp_path / "b" / "run" / "ctr" / "log")
    launch_directory(tmp_path / ".hidden" / "log")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    rows = {row.name: row for row in indexed(tmp_path).rows}
    assert sorted(rows) == ["b/ctr", "ctr"]
    assert (rows["ctr"].kind.value, rows["ctr"].state, rows["ctr"].started_s) == ("launch", "succeeded", WALL)
    assert (rows["b/ctr"].kind.value, rows["b/ctr"].metric, rows["b/ctr"].metric_value) == ("train", "train/loss", 0.6)
    assert rows["b/ctr"].sparkline == (0.7, 0.6)


def test_nodes_below_one_log_directory_are_one_run(tmp_path: Path) -> None:
    launch_directory(tmp_path / "log")
    launch_directory(tmp_path / "log" / "gpu-07", state="failed", reason="trainer 1 failed")
    row = only(indexed(tmp_path))
    assert (row.state, row.reason) == ("failed", "trainer 1 failed")


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (None, "lost"),
        (DONE, "succeeded"),
        ({"stopped": True, "resumable": True}, "cancelled"),
        ([1], "unreadable"),
    ],
)
def test_a_trainer_alone(tmp_path: Path, outcome: object, expected: str) -> None:
    train_directory(tmp_path / "run" / "ctr", outcome=outcome)
    assert only(indexed(tmp_path)).state == expected


def test_a_run_goes_on_as_long_as_a_process_holds_its_file(tmp_path: Path) -> None:
    directory = launch_directory(tmp_path / "log", state="running")
    train_directory(tmp_path / "run" / "ctr")
    with locked(directory / "events.jsonl"), locked(tmp_path / "run" / "ctr" / "metrics.jsonl"):
        index = indexed(tmp_path)
        assert {row.state for row in index.rows} == {"running"}
        assert {row.nodes_up for row in index.rows} == {1, None}
    index = indexed(tmp_path)
    assert {row.state for row in index.rows} == {"lost"}


def test_a_run_of_another_machine_is_as_it_says(tmp_path: Path) -> None:
    launch_directory(tmp_path / "log", state="running", host="10.9.8.7")
    row = only(indexed(tmp_path))
    assert (row.state, row.reason) == ("running", "on 10.9.8.7, as it last said")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state.json", b"{"),
        ("state.json", b"\xff\xfe"),
        ("state.json", b'{"state": "flying"}'),
        ("state.json", b"[" * 60_000),
        ("events.jsonl", b'{"run": "x"}\n'),
        ("events.jsonl", b"\x00" * 300_000),
        ("events.jsonl", b"[" * 60_000 + b"\n"),
    ],
)
def test_a_broken_directory_is_one_row_with_a_reason(tmp_path: Path, name: str, content: bytes) -> None:
    launch_directory(tmp_path / "good" / "log")
    bad = launch_directory(tmp_path / "bad" / "log")
    (bad / name).write_bytes(content)
    rows = {row.directory: row for row in indexed(tmp_path).rows}
    assert rows[str(bad)].state == "unreadable"
    assert "can't be understood" in rows[str(bad)].reason
    assert rows[str(tmp_path / "good" / "log")].state == "succeeded"


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    secret = tmp_path.parent / "secret.json"
    secret.write_text(json.dumps({"state": "running", "host": "127.0.0.1", "reason": "secret"}))
    directory = launch_directory(tmp_path / "log")
    state = directory / "state.json"
    state.unlink()
    {"link": lambda: state.symlink_to(secret), "pipe": lambda: os.mkfifo(state), "directory": state.mkdir}[kind]()
    row = only(indexed(tmp_path))
    assert row.state == "unreadable"
    assert row.reason.startswith("state.json can't be read: ")


def test_only_what_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        launch_directory(tmp_path / str(number) / "log")
    age(tmp_path)
    index = indexed(tmp_path)
    read: list[str] = []
    real = reading.facts_of
    monkeypatch.setattr(reading, "facts_of", lambda run_id, *rest: read.append(run_id) or real(run_id, *rest))
    assert index.refresh() is False
    assert read == []
    changed = tmp_path / "7" / "log"
    os.replace(changed / "state.json", changed / "old.json")
    launch_directory(changed, state="failed", reason="again")
    version = index.version
    assert index.refresh() is True
    assert read == [id_of(str(changed))]
    assert (index.version, index.row(read[0]).reason) == (version + 1, "again")  # type: ignore[union-attr]


def test_a_run_that_goes_on_is_read_when_its_file_grows(tmp_path: Path) -> None:
    directory = train_directory(tmp_path / "run" / "ctr")
    changed: list[frozenset[str]] = []
    with locked(directory / "metrics.jsonl") as file:
        index = RunIndex([str(tmp_path)], on_change=changed.append)
        index.refresh()
        file.write(lines(progress(300, 0.5)))
        file.flush()
        assert index.refresh_live() is True
        assert only(index).metric_value == 0.5
        assert changed[-1] == {only(index).id}


def test_runs_come_and_go(tmp_path: Path) -> None:
    index = indexed(tmp_path)
    assert index.rows == []
    directory = launch_directory(tmp_path / "log")
    assert index.refresh() is True
    assert len(index.rows) == 1
    for file in directory.iterdir():
        file.unlink()
    assert index.refresh() is True
    assert index.rows == []


def test_a_launcher_that_became_a_part_of_a_run_is_still_found(tmp_path: Path) -> None:
    """Metrics come after the launcher: who has opened its page by then sees the whole run."""
    log = launch_directory(tmp_path / "ctr" / "log")
    index = RunIndex([str(tmp_path)])
    index.refresh()
    early = id_of(str(log))
    assert index.row(early) is not None
    train_directory(tmp_path / "ctr")
    index.refresh()
    row, source = index.row(early), index.source(early)
    assert row is not None
    assert source is not None
    assert (row.id, len(index.rows)) == (id_of(str(tmp_path / "ctr")), 1)
    assert source.launch_directories == (str(log),)
    assert index.row(id_of("nothing")) is None
    assert index.source("") is None


def test_submitted_runs_are_beside_them_and_their_launchers_are_not_listed_twice(tmp_path: Path) -> None:
    launch_directory(
        tmp_path / "state" / "local" / "ctr-3f" / "log" / "launcher", state="failed", reason="trainer 0 failed"
    )
    run = SubmissionSight(
        run_id="ctr-3f",
        name="ctr",
        place="local",
        submitted_s=WALL - 5,
        log_directory=str(tmp_path / "state" / "local" / "ctr-3f" / "log"),
    )
    far = SubmissionSight(
        run_id="big-1a", name="big", place="lab", submitted_s=WALL, state="cancelled", reason="by ada"
    )
    rows = {row.id: row for row in indexed(tmp_path, run, far).rows}
    assert sorted(rows) == ["big-1a", "ctr-3f"]
    assert (rows["ctr-3f"].state, rows["ctr-3f"].place, rows["ctr-3f"].kind.value) == ("failed", "local", "submit")
    assert (rows["big-1a"].state, rows["big-1a"].reason) == ("cancelled", "by ada")


def test_a_list_of_submitted_runs_that_fails_hides_no_others(tmp_path: Path) -> None:
    launch_directory(tmp_path / "log")

    def fail() -> list[SubmissionSight]:
        raise OSError("no such disk")

    index = RunIndex([str(tmp_path)], fail)
    index.refresh()
    assert len(index.rows) == 1
    assert index.problem == "no such disk"


def test_a_root_that_is_not_there_is_said(tmp_path: Path) -> None:
    index = indexed(tmp_path / "nowhere")
    assert list(index.search.problems) == [str(tmp_path / "nowhere")]


# ---- filters


def row(run_id: str, **fields: object) -> RunRow:
    from umiak.dashboard.rows import RunKind

    return RunRow(**{"id": run_id, "kind": RunKind.TRAINED, "name": run_id, "state": "running", **fields})  # type: ignore[arg-type]


ROWS = [
    row("a", name="ctr-old", state="failed", place="lab", started_s=1.0, samples_per_s=5.0),
    row("b", name="ctr-new", place="lab", started_s=3.0),
    row("c", name="bert", place="here", started_s=2.0, samples_per_s=9.0, reason="waits for node 2"),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "bca"),
        ("ctr", "ba"),
        ("CTR state:failed", "a"),
        ("place:lab -old", "b"),
        ("-state:running", "a"),
        ("node", "c"),
        ("reason:node", "c"),
        ("unknown:x", ""),
        ("-", "ba"),
        ("state:", "bca"),
    ],
)
def test_filters(query: str, expected: str) -> None:
    assert "".join(each.id for each in filters.chosen(ROWS, query)) == expected


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("-started", "bca"),
        ("started", "acb"),
        ("name", "cba"),
        ("-name", "abc"),
        ("speed", "acb"),
        ("-speed", "cab"),
        ("?", "bca"),
    ],
)
def test_orders(sort: str, expected: str) -> None:
    assert "".join(each.id for each in filters.chosen(ROWS, "", sort)) == expected


def test_two_looks_at_a_time_lose_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reads a run that goes on, slowly; meanwhile another is asked for everything, and finds a new run."""
    going = train_directory(tmp_path / "run" / "going")
    reads, goes_on = threading.Event(), threading.Event()
    as_it_is = reading.facts_of

    def slow(run_id: str, source: RunSource, locks: Locks, hosts: frozenset[str]) -> FactsOfRun:
        if threading.current_thread().name == "live":
            reads.set()
            assert goes_on.wait(PATIENCE_S)
        return as_it_is(run_id, source, locks, hosts)

    with locked(going / "metrics.jsonl") as file:
        index = indexed(tmp_path)
        monkeypatch.setattr(reading, "facts_of", slow)
        file.write(lines(progress(300, 0.5)))
        file.flush()
        live = threading.Thread(target=index.refresh_live, name="live")
        live.start()
        assert reads.wait(PATIENCE_S)
        train_directory(tmp_path / "run" / "new", outcome=DONE)
        other = threading.Thread(target=index.refresh)
        other.start()
        other.join(0.3)  # it waits for the first one, or has ended before it
        goes_on.set()
        live.join()
        other.join()
    assert sorted(row.name for row in index.rows) == [f"{tmp_path.name}/going", f"{tmp_path.name}/new"]


def test_waiting_on_a_busy_machine_is_no_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps it from looking again soon is processor time; of time that went by a twentieth of that counts."""
    index = indexed(tmp_path)
    for took_s, cpu_s, pause_s in ((0.0, 0.0, 1.0), (0.2, 0.002, 2.0), (0.2, 0.1, 20.0), (9.0, 0.1, 30.0)):
        monkeypatch.setattr(index, "took_s", took_s)
        monkeypatch.setattr(index, "cpu_s", cpu_s)
        assert index.pause_s == pytest.approx(pause_s)
