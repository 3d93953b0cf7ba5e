"""What journals, curves and sentences say of a run."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.support import chance
from tests.support.run_directories import WALL, exited, failure, journal, message, progress
from umiak.core import light_json
from umiak.dashboard import sentences
from umiak.dashboard.journal_story import JournalStory
from umiak.dashboard.rows import RunKind, RunRow
from umiak.dashboard.trained import curves as curve_values
from umiak.dashboard.trained.curves import Curves


def story(*events: dict[str, object], **settings: object) -> JournalStory:
    found = JournalStory()
    for line in journal(*events, **settings).splitlines():  # type: ignore[arg-type]
        found.feed(line)
    assert found.bad_lines == 0
    return found


def row(state: str, **fields: object) -> RunRow:
    return RunRow(**{"id": "a", "kind": RunKind.LAUNCHED, "name": "ctr", "state": state, **fields})  # type: ignore[arg-type]


STOP = {"why": "trainer 1 failed, restart 1 of 3", "generation": 1}
EXIT = {"is": "Exit", "status": 1, "words": "trainer 1 failed", "code": "UM-JOB-001", "hint": "look at it"}
AGAIN = {"formation": "2 n0", "cluster": {"generation": 2, "size": 1, "nodes": {"trainers": [2]}}}


def test_a_journal_tells_its_generations_and_workers() -> None:
    found = story(
        exited(1, 60.0, failure(1)),
        message(60.5, "Stop", **STOP),
        exited(0, 60.6, failure(0, signal=15)),
        AGAIN,
        message(61.0, "Form", cluster={"formation": "2 n0"}),
    )
    first, second = found.generations
    assert (first.number, first.nodes, first.workers, first.began_s) == (1, 1, 2, WALL + 1)
    assert (first.ended_s, first.cause) == (WALL + 10.5, "trainer 1 failed, restart 1 of 3")
    assert (second.number, second.ended_s) == (2, None)
    assert [(each.worker, each.text, each.error) for each in found.failures] == [
        ("trainer.1", "failed with exit code 1", "ValueError: <b>broken</b>")
    ]
    assert found.settings["launch.max_restart"] == 3


def test_workers_are_as_the_journal_left_them() -> None:
    found = story(exited(0, 60.0), exited(1, 60.0, failure(1, exit_code=None, signal=9)))
    states = {key: (each.state, each.reason) for key, each in found.workers.items()}
    assert states == {"trainer.0": ("done", ""), "trainer.1": ("failed", "was killed by SIGKILL (9)")}
    found = story(message(60.0, "RestartWorker", key="trainer.1", generation=1, restarts=1))
    assert (found.workers["trainer.1"].state, found.workers["trainer.1"].starts) == ("starting", 2)


def test_a_journal_that_is_used_again_tells_of_the_newest_run() -> None:
    found = JournalStory()
    for line in (journal(exited(1, 60.0, failure(1))) + journal(job_id="again")).splitlines():
        found.feed(line)
    assert (found.job_id, found.failures, len(found.generations)) == ("again", [], 1)


def test_lines_of_others_are_counted_and_left_out() -> None:
    found = JournalStory()
    for line in ["{", "[1]", "1", "null", '{"event": 1, "t": 2, "who": "node"}', b"\xff", "[" * 100_000]:
        found.feed(line)
    assert found.bad_lines == 7
    for line in journal().splitlines():
        found.feed(line)
    assert len(found.workers) == 2


def test_a_failure_is_said_in_one_sentence() -> None:
    found = story(exited(1, 60.0, failure(1)), message(60.1, "Finish", EXIT))
    said = sentences.sentence_of(row("failed", ended_s=WALL, restarts=2), [found], WALL + 190)
    assert said.text == (
        "failed 3 min ago: trainer 1 on node 10.0.0.1 failed with exit code 1: "
        "ValueError: <b>broken</b>, after 2 restarts"
    )
    assert said.hint == "look at it"


def test_the_first_failure_of_all_nodes_counts() -> None:
    late = story(exited(0, 60.0, failure(0, at=WALL + 20)))
    early = story(exited(1, 60.0, failure(1, at=WALL + 10)))
    first = sentences.first_failure([late, early])
    assert first is not None
    assert first.who == "trainer 1 on node 10.0.0.1"


def test_a_worker_that_is_started_again_alone_is_told_with_its_failure() -> None:
    """It ends no generation, and a later failure that does is the one that counts."""
    killed = failure(1, at=WALL + 9, exit_code=None, signal=9)
    again = message(60.5, "RestartWorker", key="trainer.1", generation=1, restarts=1)
    seen_by_master = {"is": "MessageFromNode", "message": {"is": "Failed", "failure": killed, "generation": 1}}
    seen_late = {"t": 60.6, "who": "master", "event": seen_by_master}
    found = story(exited(1, 60.0, killed), again, seen_late)
    (incident,) = sentences.incidents([found, story(exited(1, 60.0, killed))])
    assert (incident.who, incident.text) == ("trainer 1 on node 10.0.0.1", "was killed by SIGKILL (9)")
    assert incident.again_s == WALL + 10.5
    running = row("running", started_s=WALL, restarts=1)
    said = sentences.sentence_of(running, [found], WALL + 60)
    assert said.text.endswith("restarted once (trainer 1 on node 10.0.0.1 was killed by SIGKILL (9))")

    ended = story(
        exited(1, 60.0, killed), again, exited(0, 70.0, failure(0, at=WALL + 20)), message(71.0, "Finish", EXIT)
    )
    first = sentences.first_failure([ended])
    assert first is not None
    assert first.who == "trainer 0 on node 10.0.0.1"
    assert ended.generations[-1].cause == "trainer 0 on node 10.0.0.1 failed with exit code 1"


def test_of_very_many_failures_the_first_and_the_last_ones_are_known() -> None:
    events = []
    for number in range(150):
        events += [exited(1, 60.0 + number, failure(1, at=WALL + number))]
        events += [message(60.3 + number, "RestartWorker", key="trainer.1", generation=1, restarts=number)]
    found = story(*events, exited(0, 900.0, failure(0, at=WALL + 900)))
    assert len(found.failures) == 100
    assert found.failures[0].at_s == WALL
    first = sentences.first_failure([found])
    assert first is not None
    assert (first.worker, first.at_s) == ("trainer.0", WALL + 900)


def test_who_waits_for_whom_is_said() -> None:
    waiting = {"text": "1 of 2 nodes are here; missing: 1"}
    found = story(message(60.0, "Waiting", **waiting))
    said = sentences.sentence_of(row("starting", started_s=WALL), [found], WALL + 5)
    assert said.text == "starting for 5 s: 1 of 2 nodes are here; missing: 1"


def test_a_run_that_goes_on_is_said_with_its_rates() -> None:
    running = row("running", started_s=WALL, samples_per_s=12345.6, restarts=1, changed_s=WALL + 100)
    found = story(exited(0, 60.0))
    said = sentences.sentence_of(running, [found], WALL + 100)
    assert said.text == "running for 1 min, 1 of 2 workers up, 12,346 samples/s, restarted once"
    quiet = row("running", started_s=WALL, metric="train/loss", changed_s=WALL)
    assert "have not changed for 5 min" in sentences.sentence_of(quiet, [found], WALL + 300).hint


@pytest.mark.parametrize("state", ["queued", "cancelled", "lost", "succeeded", "unreadable", "stopping", "restarting"])
def test_every_state_has_a_sentence(state: str) -> None:
    said = sentences.sentence_of(row(state, reason="why"), [], WALL)
    assert said.text.startswith("can't be read" if state == "unreadable" else state)


# ---- curves


def fed(*entries: object) -> Curves:
    found = Curves()
    found.feed([light_json.dumps(each).encode() for each in entries])
    return found


def epoch(samples: int, number: int = 0, **changes: object) -> dict[str, object]:
    entry = {"time": WALL, "event": "epoch", "epoch": number, "samples": samples, "seconds": 1.0}
    return {**entry, "trained": {"loss": 0.5}, "evaluated": {"auc": 0.7}, **changes}


def test_samples_go_on_over_epochs() -> None:
    found = fed(progress(100, 0.7), epoch(200), progress(50, 0.4, epoch=1), epoch(200, 1))
    assert found.curves["train/loss"].x == [100.0, 250.0]
    assert found.curves["evaluated/auc"].x == [200.0, 400.0]
    assert found.samples == 400
    assert [each["event"] for each in found.events] == ["epoch", "epoch"]


def test_what_is_no_number_is_no_point() -> None:
    found = fed(progress(100, 0.7, recent={"loss": None, "auc": math.inf, "x": True, "y": "1", "z": 2}))
    assert sorted(found.curves) == ["share/compute", "speed/samples_per_s", "train/z"]
    found.feed([b"{", b"[]", b'{"time": "x"}', b"\xff\xff", b"[" * 100_000])
    assert found.bad_lines == 5


def test_long_curves_are_thinned_and_keep_their_spikes() -> None:
    draws = chance()
    found = Curves()
    values = [draws.random() for _ in range(9_000)]
    values[1_234], values[5_432] = 99.0, -99.0
    for at, value in enumerate(values):
        found.feed([light_json.dumps(progress(at, value)).encode()])
    curve = found.curves["train/loss"]
    assert len(curve.x) <= curve_values.MOST_POINTS
    assert (max(curve.y), min(curve.y)) == (99.0, -99.0)
    assert curve.x == sorted(curve.x)
    assert (curve.x[-1], curve.y[-1]) == (8_999.0, values[-1])
    assert all(values[int(x)] == y for x, y in zip(curve.x, curve.y, strict=True))


def test_there_are_never_too_many_curves() -> None:
    found = fed(progress(1, 0.1, recent={f"m{number}": 1.0 for number in range(100)}))
    assert len(found.curves) == curve_values.MOST_CURVES
    assert found.left_out > 0


@pytest.mark.parametrize(
    ("recent", "expected"),
    [
        ({"loss": 1.0, "auc": 2.0}, "train/auc"),
        ({"loss": 1.0}, "train/loss"),
        ({"loss": 1.0, "acc": 3.0}, "train/acc"),
        ({}, ""),
    ],
)
def test_the_metric_of_the_list(recent: dict[str, float], expected: str) -> None:
    assert curve_values.last_metric(fed(progress(1, 0.0, recent=recent)))[0] == expected


def test_real_journals_are_understood(tmp_path: Path) -> None:
    """As the launcher of this version writes them: its own values, encoded by its own journal."""
    from umiak.core.cluster import Cluster, Node
    from umiak.launch import events
    from umiak.launch.journal import Journal, Start
    from umiak.launch.protocol import Form, Waiting

    node = Node(name="n0", host="10.0.0.1", home=0, ports=(6070, 6071), trainers=2)
    other = Node(name="n1", host="10.0.0.2", home=1, ports=(6070, 6071, 6072), trainers=2, servers=1)
    cluster = Cluster(job_id="ctr", generation=3, coordinator="n0", nodes=(node, other), restarts=2)
    recorded = Journal(str(tmp_path / "events.jsonl"))
    recorded.record(1.0, "node", Start(), [])
    recorded.record(2.0, "node", events.MessageFromMaster(message=Waiting(text="for n1")), [])
    recorded.record(3.0, "node", events.MessageFromMaster(message=Form(cluster=cluster)), [])
    recorded.close()
    found = JournalStory()
    for line in (tmp_path / "events.jsonl").read_text().splitlines()[:2]:
        found.feed(line)
    assert found.waiting == "for n1"
    for line in (tmp_path / "events.jsonl").read_text().splitlines()[2:]:
        found.feed(line)
    (generation,) = found.generations
    assert (generation.number, generation.nodes, generation.workers, found.bad_lines) == (3, 2, 5, 0)
