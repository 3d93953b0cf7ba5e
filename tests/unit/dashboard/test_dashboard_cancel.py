"""Cancelling a run from the page: who may, what is then done, and that without --allow nobody may."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support import PATIENCE_S, eventually
from tests.support.run_directories import launch_directory, train_directory
from tests.unit.dashboard.test_dashboard_server import TOKEN, ask
from umiak.dashboard.files import Locks
from umiak.dashboard.http.gate import action_of
from umiak.dashboard.index import id_of
from umiak.dashboard.options import DashboardOptions
from umiak.dashboard.outside import cancelling
from umiak.dashboard.outside.cancelling import CannotCancel
from umiak.dashboard.outside.given import GivenSources
from umiak.dashboard.program import Dashboard
from umiak.dashboard.rows import RunSource, SubmissionSight

HOLDER = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (open("stopped", "w").close(), os._exit(0)))
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
open("ready", "w").close()
time.sleep(600)
"""


def with_allowed(
    path: Path, story: Callable[[Dashboard], Awaitable[None]], allowed: str = "cancel", **more: object
) -> None:
    async def run() -> None:
        options = DashboardOptions(
            directories=(str(path),), token=TOKEN, allowed=frozenset({allowed} if allowed else ())
        )
        dashboard = Dashboard(options, GivenSources(**more))  # type: ignore[arg-type]
        await dashboard.start()
        try:
            await story(dashboard)
        finally:
            await dashboard.close()

    asyncio.run(run())


def holder(directory: Path, file: str) -> subprocess.Popen[bytes]:
    started = subprocess.Popen([sys.executable, "-c", HOLDER, file], cwd=directory)
    eventually((directory / "ready").exists)
    return started


def test_a_launcher_is_told_to_end(tmp_path: Path) -> None:
    log = launch_directory(tmp_path / "log", state="running", changed_s=1.0)
    process = holder(log, "events.jsonl")
    try:

        async def story(dashboard: Dashboard) -> None:
            path = f"/runs/{id_of(str(log))}/cancel"
            assert (await ask(dashboard, "/about.json")).data["allowed"] == ["cancel"]
            done = await ask(dashboard, path, "POST")
            assert (done.status, done.data["text"][:16]) == (200, "SIGTERM was sent")
            assert await asyncio.to_thread(process.wait, 60) == 0
            assert (log / "stopped").exists()
            again = await ask(dashboard, path, "POST")
            assert again.status == 409
            assert (await ask(dashboard, "/runs/nothing/cancel", "POST")).status == 404
            assert (await ask(dashboard, path)).status == 404  # reading it does nothing

        with_allowed(tmp_path, story)
    finally:
        process.kill()
        process.wait()


def test_a_launcher_comes_before_the_trainer_that_it_started(tmp_path: Path) -> None:
    directory = train_directory(tmp_path / "run" / "ctr")
    log = launch_directory(directory / "log", state="running")
    trainer, launcher = holder(directory, "metrics.jsonl"), holder(log, "events.jsonl")
    source = RunSource(launch_directories=(str(log),), metrics_directory=str(directory))
    try:
        cancelling.stop(source)
        assert launcher.wait(PATIENCE_S) == 0
        assert trainer.poll() is None
        eventually(lambda: not Locks().holds(str(log / "events.jsonl")))
        cancelling.stop(source)  # what is left without a launcher
        assert trainer.wait(PATIENCE_S) == 0
        with pytest.raises(CannotCancel, match="it is over, or runs elsewhere"):
            cancelling.stop(source)
    finally:
        for each in (trainer, launcher):
            each.kill()
            each.wait()


@pytest.mark.parametrize(
    ("allowed", "headers", "status"),
    [
        ("", {}, 403),
        ("", {"Authorization": ""}, 403),
        ("cancel", {"Authorization": ""}, 403),
        ("cancel", {"Authorization": "", "Origin": "OWN"}, 401),
        ("cancel", {"Authorization": "Bearer wrong"}, 401),
        ("cancel", {"Origin": "http://evil.example"}, 403),
        ("cancel", {"Sec_Fetch_Site": "cross-site"}, 403),
        ("cancel", {"Host": "evil.example"}, 421),
        ("cancel", {"Authorization": "", "Cookie": "SESSION"}, 403),
        ("cancel", {"Authorization": "", "Cookie": "SESSION", "Origin": "OWN"}, 403),
        ("cancel", {"Authorization": "", "Cookie": "SESSION", "Origin": "OWN", "X_Umiak_Dashboard_Action": "x"}, 403),
        ("cancel", {"Authorization": "", "Cookie": "SESSION", "X_Umiak_Dashboard_Action": "KEY"}, 403),
        ("cancel", {"Authorization": "", "Origin": "OWN", "X_Umiak_Dashboard_Action": "KEY"}, 401),
        ("cancel", {"Authorization": "", "Cookie": "SESSION", "Origin": "OWN", "X_Umiak_Dashboard_Action": "KEY"}, 200),
        ("", {"Authorization": "", "Cookie": "SESSION", "Origin": "OWN", "X_Umiak_Dashboard_Action": "KEY"}, 403),
    ],
)
def test_who_may_cancel(tmp_path: Path, allowed: str, headers: dict[str, str], status: int) -> None:
    """A cookie alone does nothing, however it came; neither does the key of the page alone."""
    log = launch_directory(tmp_path / "log", state="running")
    process = holder(log, "events.jsonl")

    async def story(dashboard: Dashboard) -> None:
        host = f"localhost:{dashboard.port}"
        entered = await ask(
            dashboard, "/session", "POST", X_Umiak_Dashboard_Token=TOKEN, Origin=f"http://{host}", Authorization=""
        )
        session = entered.headers["set-cookie"].partition(";")[0]
        key = (await ask(dashboard, "/about.json", Authorization="", Cookie=session)).data["action_key"]
        assert bool(key) == bool(allowed)
        words = {"SESSION": session, "OWN": f"http://{host}", "KEY": key or "none"}
        given = {name: words.get(text, text) for name, text in headers.items()}
        reply = await ask(dashboard, f"/runs/{id_of(str(log))}/cancel", "POST", **given)
        assert reply.status == status, reply.body

    try:
        with_allowed(tmp_path, story, allowed)
        if status == 200:
            assert process.wait(PATIENCE_S) == 0
        assert (log / "stopped").exists() == (status == 200)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("said", "status", "text"),
    [
        ({"state": "cancelled"}, 200, "it is cancelled"),
        ({"problems": [{"what": "no rights"}]}, 409, "no rights"),
        (None, 409, "`umiak cancel` has failed"),
    ],
)
def test_a_submitted_run_is_cancelled_at_its_place(tmp_path: Path, said: object, status: int, text: str) -> None:
    runs = [SubmissionSight(run_id="ctr-3f", name="ctr", place="lab", submitted_s=1.0)]
    told = "" if said is None else json.dumps(said)
    script = f"import sys; open({str(tmp_path / 'asked')!r}, 'w').write(sys.argv[1]); print({told!r})"

    async def story(dashboard: Dashboard) -> None:
        reply = await ask(dashboard, "/runs/ctr-3f/cancel", "POST")
        assert reply.status == status
        assert text in reply.body.decode()

    with_allowed(tmp_path, story, submitted=lambda: runs, cancel=lambda run: (sys.executable, "-c", script, run))
    assert (tmp_path / "asked").read_text() == "ctr-3f"


def test_the_process_of_another_user_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = launch_directory(tmp_path / "log", state="running")
    process = holder(log, "events.jsonl")

    def refused(_pidfd: int, _number: int) -> None:
        raise PermissionError

    try:
        monkeypatch.setattr(signal, "pidfd_send_signal", refused)
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(CannotCancel, match="another user"):
            cancelling.stop(RunSource(launch_directories=(str(log),)))
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        process.kill()
        process.wait()


def test_only_one_kind_of_address_changes_anything() -> None:
    assert action_of("/runs/ctr-3f/cancel") == "cancel"
    for path in (
        "/runs/cancel",
        "/runs//cancel",
        "/runs/a/b/cancel",
        "/runs/a/cancel/",
        "/runs/a/scale",
        "/session",
        "/",
    ):
        assert action_of(path) == ""
