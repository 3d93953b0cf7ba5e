"""Runs on other places: asked through commands, one at a time for each place, and never waited for."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.dashboard.test_dashboard_cluster import as_viewer, ask
from umiak.dashboard.options import DashboardOptions
from umiak.dashboard.outside import remote_runs
from umiak.dashboard.outside.given import GivenSources, RemoteCommands
from umiak.dashboard.outside.remote_runs import PlaceTurns, RemoteRuns
from umiak.dashboard.program import Dashboard
from umiak.dashboard.rows import SubmissionSight

HANGS = [sys.executable, "-c", "import time; time.sleep(600)"]
TOKEN = "t" * 40
STATUS = {
    "run": "ctr-3f",
    "state": "running",
    "reason": "",
    "started_s": 1_700_000_000.0,
    "nodes": [
        {"name": "n0", "host": "gpu-0", "role": "trainer", "rank": 0, "state": "running", "reason": ""},
        {"name": "n1", "host": "gpu-1", "role": "trainer", "rank": 1, "state": "failed", "reason": "exit code 1"},
    ],
}
LINES = [
    {
        "source": "trainer 0",
        "role": "trainer",
        "rank": 0,
        "text": "epoch 2/4  batch 120  31,200 samples/s  auc 0.78",
        "time_s": 2.0,
    },
    {"source": "trainer 1", "role": "trainer", "rank": 1, "text": "ValueError: <b>broken</b>\x1b[2J", "time_s": 1.0},
]


def sight(run_id: str = "ctr-3f", place: str = "lab", **more: object) -> SubmissionSight:
    return SubmissionSight(run_id=run_id, name="ctr", place=place, handle=f"slurm://{place}/7", submitted_s=1.0, **more)  # type: ignore[arg-type]


def says(*told: object) -> list[str]:
    text = "\n".join(json.dumps(each) for each in told)
    return [sys.executable, "-c", f"print({text!r})"]


def commands(queue: Sequence[str] = (), status: Sequence[str] = (), logs: Sequence[str] = ()) -> RemoteCommands:
    return RemoteCommands(
        queue=lambda _: queue or says([STATUS]),
        status=lambda _: status or says(STATUS),
        logs=lambda _run, _count: logs or says(*LINES),
    )


async def settled(remote: RemoteRuns) -> None:
    while remote._tasks:
        await asyncio.gather(*remote._tasks.values())


def test_a_list_has_what_places_say() -> None:
    async def story() -> None:
        news: list[str] = []
        remote = RemoteRuns(commands(), PlaceTurns(), news.append)
        here = sight("here", log_directory="/x")
        over = sight("over", state="failed")
        (before, *_) = remote.overlaid([sight(), here, over])
        assert before == sight()
        remote.begin()
        await settled(remote)
        found, *others = remote.overlaid([sight(), here, over])
        assert others == [here, over], "what is here, or over, is known better than by a place"
        assert (found.state, found.started_s, found.epoch, found.samples_per_s) == (
            "running",
            1_700_000_000.0,
            1,
            31200.0,
        )
        assert (found.metric, found.metric_value, found.nodes_up, found.nodes_expected) == ("train/auc", 0.78, 1, 2)
        assert news == ["ctr-3f"]
        assert (remote.knows("ctr-3f"), remote.knows("here"), remote.knows("nobody")) == (True, False, False)

    asyncio.run(story())


def test_a_run_has_nodes_and_lines() -> None:
    async def story() -> None:
        remote = RemoteRuns(commands(), PlaceTurns())
        remote.overlaid([sight()])
        assert remote.begin_run("ctr-3f") is not None
        await settled(remote)
        told = remote.told("ctr-3f", time.time())
        assert (told["place"], told["problem"], told["asking_s"], told["said"]) == ("lab", "", None, "running")
        assert 0 <= told["age_s"] < 600
        assert [line["text"] for line in remote.lines("ctr-3f")] == [line["text"] for line in LINES]
        assert remote.begin_run("ctr-3f") is None, "it was asked a moment ago"

    asyncio.run(story())


def test_a_place_that_hangs_is_asked_once_and_says_since_when(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each question leaves a mark: while the first has no answer there is no second."""
    monkeypatch.setattr(remote_runs, "PLACE_EVERY_S", 0.0)
    monkeypatch.setattr(remote_runs, "RUN_EVERY_S", 0.0)
    mark = f"import os, time; open({str(tmp_path)!r} + f'/{{os.getpid()}}', 'w').close(); time.sleep(600)"
    hangs = [sys.executable, "-c", mark]

    async def story() -> None:
        remote = RemoteRuns(commands(hangs, hangs, hangs), PlaceTurns())
        remote.overlaid([sight(), sight("other")])
        remote.begin()
        while not list(tmp_path.iterdir()):
            await asyncio.sleep(0.01)
        for _ in range(20):
            remote.begin()
            remote.begin_run("ctr-3f")
            remote.begin_run("other")
            await asyncio.sleep(0)
        assert remote.told("other", 1e12)["asking_s"] > 1e9
        await remote.close()
        assert len(list(tmp_path.iterdir())) == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (HANGS, "it has not answered within 0.2 s"),
        (says({"problems": [{"what": "lab: no route", "why": "cable"}]}), "lab: no route: cable"),
        ([sys.executable, "-c", "print('{')"], "what it said can't be understood"),
        (["/nowhere/at/all"], "it can't be asked: No such file or directory"),
    ],
)
def test_what_went_wrong_is_told(argv: list[str], expected: str) -> None:
    async def story() -> None:
        remote = RemoteRuns(commands(status=argv), PlaceTurns(), limit_s=0.2 if argv is HANGS else 60.0)
        remote.overlaid([sight()])
        remote.begin_run("ctr-3f")
        await settled(remote)
        assert remote.told("ctr-3f", 0.0)["problem"] == expected
        assert remote.told("ctr-3f", 0.0)["age_s"] is None

    asyncio.run(story())


def test_the_page_of_a_run_elsewhere(tmp_path: Path) -> None:
    async def story() -> None:
        given = GivenSources(submitted=lambda: [sight()], remote=commands())
        dashboard = Dashboard(DashboardOptions(directories=(str(tmp_path),), token=TOKEN), given)
        await dashboard.start()
        mine = as_viewer(TOKEN)
        try:
            first = (await ask(dashboard.port, "/runs/ctr-3f", **mine)).data
            assert first["remote"]["place"] == "lab"
            await settled(dashboard.remote)
            dashboard.index.refresh()
            found = (await ask(dashboard.port, "/runs/ctr-3f", **mine)).data
            workers = found["workers"][0]["workers"]
            assert [(each["host"], each["phase"]) for each in workers] == [("gpu-0", "running"), ("gpu-1", "failed")]
            assert found["row"]["state"] == "running"
            assert found["row"]["samples_per_s"] == 31200.0
            log = (await ask(dashboard.port, "/runs/ctr-3f/log", **mine)).data
            assert [line["source"] for line in log["lines"]] == ["trainer 1", "trainer 0"], "in the order of time"
            assert "\x1b" not in log["lines"][0]["text"]
            errors = (await ask(dashboard.port, "/runs/ctr-3f/log?level=error", **mine)).data
            assert [line["source"] for line in errors["lines"]] == ["trainer 1"]
        finally:
            await dashboard.close()

    asyncio.run(story())


def test_a_run_is_there_however_slow_the_first_look_is(tmp_path: Path) -> None:
    """A page that is opened as soon as there is an address must not say that there is no such run."""
    may_look = threading.Event()

    def submitted() -> list[SubmissionSight]:
        may_look.wait()
        return [sight()]

    async def story() -> None:
        given = GivenSources(submitted=submitted, remote=commands(HANGS, HANGS, HANGS))
        dashboard = Dashboard(DashboardOptions(directories=(str(tmp_path),), token=TOKEN), given)
        await dashboard.start()
        mine = as_viewer(TOKEN)
        try:
            asked = asyncio.create_task(ask(dashboard.port, "/runs/ctr-3f", **mine))
            for _ in range(3):  # the list waits for a moment only, and shows what there is
                listed = await ask(dashboard.port, "/runs", **mine)
                assert (listed.data["runs"], listed.data["is_complete"]) == ([], False)
            may_look.set()
            assert (await asked).status == 200
        finally:
            may_look.set()
            await dashboard.close()

    asyncio.run(story())


def test_a_page_is_there_while_a_place_hangs(tmp_path: Path) -> None:
    async def story() -> None:
        given = GivenSources(submitted=lambda: [sight()], remote=commands(HANGS, HANGS, HANGS))
        dashboard = Dashboard(DashboardOptions(directories=(str(tmp_path),), token=TOKEN), given)
        await dashboard.start()
        mine = as_viewer(TOKEN)
        try:
            for _ in range(3):
                found = (await ask(dashboard.port, "/runs/ctr-3f", **mine)).data
                assert (await ask(dashboard.port, "/runs/ctr-3f/log", **mine)).data["lines"] == []
            assert found["remote"]["asking_s"] is not None
            assert found["row"]["reason"] == "its place has not said how it is"
        finally:
            await dashboard.close()

    asyncio.run(story())
