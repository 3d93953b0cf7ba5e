"""Parameter servers on the page: what rates were, who waits, and servers that hang and hold nobody up."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import PATIENCE_S
from umiak.cli.dashboard.servers import ServersOfRuns
from umiak.dashboard.outside import servers
from umiak.dashboard.outside.server_rates import FRESH_S, MOST_LOOKS, ServerHistory, quantile
from umiak.dashboard.outside.servers import ServerWatch
from umiak.dashboard.workers.checkpoints import snapshots

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject


def report(pulls: float | None = 1.0, waits: str | None = None, **server: object) -> JsonObject:
    said = {"reachable": True, "pulls_per_s": pulls, "pulled_rows_per_s": pulls, "pushes_per_s": None, **server}
    trainers = [{"rank": 3, "state": "here", "step": 1, "waits": waits}]
    return {"job": "ctr", "step": 1, "step_waits_for": [], "servers": [said, said], "tables": [], "trainers": trainers}


def test_rates_are_of_all_servers_and_have_quantiles() -> None:
    history = ServerHistory()
    for number in range(1, 101):
        history.add(report(float(number)), float(number))
    data = history.data(100.0)
    assert data["rates"]["pulls_per_s"] == {"now": 200.0, "p50": 100.0, "p99": 198.0}
    assert "pushes_per_s" not in data["rates"]
    assert (data["looks"], data["over_s"], data["age_s"]) == (100, 99.0, 0.0)
    assert data["history"]["pulls_per_s"]["y"][:2] == [2.0, 4.0]


def test_a_first_look_and_a_restarted_server_have_no_rate() -> None:
    history = ServerHistory()
    assert history.data(0.0) == {}
    history.add(report(None), 1.0)
    assert (history.data(1.0)["rates"], history.data(1.0)["looks"]) == ({}, 0)
    gone = report(4.0)
    gone["servers"][1] = {"endpoint": "x", "reachable": False, "why": "refused"}
    history.add(gone, 2.0)
    assert history.data(2.0)["rates"]["pulls_per_s"]["now"] == 4.0


def test_what_is_remembered_is_bounded() -> None:
    history = ServerHistory()
    for number in range(2 * MOST_LOOKS):
        history.add(report(float(number)), float(number))
    assert history.data(0.0)["looks"] == MOST_LOOKS


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2.0), (0.99, 4.0), (0.0, 1.0), (1.0, 4.0)])
def test_quantiles_are_numbers_that_were_seen(share: float, expected: float) -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], share) == expected
    assert quantile([7.0], share) == 7.0


def test_who_waits_is_news_and_gets_old() -> None:
    history = ServerHistory()
    assert not history.add(report(), 0.0)
    assert history.add(report(waits="step 2 waits for trainer 1"), 1.0)
    assert not history.add(report(waits="step 2 waits for trainer 1"), 2.0)
    assert history.waits_at(2.0 + FRESH_S) == {3: "step 2 waits for trainer 1"}
    assert history.waits_at(2.1 + FRESH_S) == {}


def test_servers_that_hang_are_asked_once_and_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "WAIT_S", 0.01)
    monkeypatch.setattr(servers, "AGAIN_S", 0.0)
    asked, answer = [], threading.Event()

    def ask(run_id: str, pids: Sequence[int]) -> JsonObject:
        asked.append((run_id, tuple(pids)))
        answer.wait(PATIENCE_S)
        return report(waits="x")

    async def story() -> None:
        news: list[str] = []
        watch = ServerWatch(ask, news.append)
        assert (await watch.look("a", [])).report is None
        for _ in range(3):
            assert (await watch.look("a", [1, 2])).report is None
        assert asked == [("a", (1, 2))]
        task = watch.begin("a", [1, 2])
        answer.set()
        assert task is not None
        await task
        assert news == ["a"]
        assert watch.history("a").waits == {3: "x"}
        for number in range(servers.MOST_RUNS):
            watch.history(str(number))
        assert watch.history("a").report is None

    asyncio.run(story())


def test_a_process_without_servers_is_no_job_with_servers() -> None:
    assert ServersOfRuns()("a", [os.getpid(), 1 << 30]) is None


def test_snapshots_are_found_below_the_log_directory(tmp_path: Path) -> None:
    assert snapshots(str(tmp_path)) == []
    for server, name, at in ((1, "snapshot-01", 100), (1, "snapshot-02", 200), (0, "log", 300)):
        path = tmp_path / "ps" / f"server.{server}" / "katkao-1" / name
        path.mkdir(parents=True)
        os.utime(path, (at, at))
    (tmp_path / "ps" / "server.x").mkdir()
    assert snapshots(str(tmp_path)) == [{"server": 1, "time": 200.0}]
