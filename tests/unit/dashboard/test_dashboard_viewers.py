"""Many viewers: what they cost does not grow with each of them, and no run notices one."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import multiprocessing
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.run_directories import (
    exited,
    failure,
    journal,
    launch_directory,
    lines,
    locked,
    progress,
    train_directory,
    with_config,
)
from tests.unit.dashboard.test_dashboard_server import TOKEN, ask, listen, next_event
from umiak.dashboard import program
from umiak.dashboard.details import WatchedRun
from umiak.dashboard.files import RunFile
from umiak.dashboard.http import answers
from umiak.dashboard.http.answers import SharedAnswers
from umiak.dashboard.http.feed import Feed
from umiak.dashboard.index import id_of
from umiak.dashboard.options import DashboardOptions
from umiak.dashboard.program import Dashboard
from umiak.web.messages import HttpRefusal, RequestHead

VIEWERS = 20
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = (
    "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.setxattr", "os.symlink", "os.truncate", "os.utime",
)  # fmt: skip
"""Audit events of whatever changes a file or a directory."""


@contextlib.asynccontextmanager
async def quiet_dashboard(path: Path) -> AsyncIterator[Dashboard]:
    """One that looks again only when it is told to."""
    dashboard = Dashboard(DashboardOptions(directories=(str(path),), token=TOKEN))
    await dashboard.start()
    for task in dashboard._tasks:
        task.cancel()
    await asyncio.gather(*dashboard._tasks, return_exceptions=True)
    try:
        yield dashboard
    finally:
        await dashboard.close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LIVE_EVERY_S", "WATCHED_EVERY_S", "SERVERS_EVERY_S", "IDLE_EVERY_S"):
        monkeypatch.setattr(program, name, 0.0)


def test_what_is_looked_at_does_not_grow_with_viewers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = train_directory(tmp_path / "run" / "ctr")
    run_id = id_of(str(directory))
    opened: list[str] = []
    as_it_is = RunFile.open.__func__  # type: ignore[attr-defined]

    def counted(kind: type[RunFile], path: str) -> RunFile:
        opened.append(path)
        found: RunFile = as_it_is(kind, path)
        return found

    monkeypatch.setattr(RunFile, "open", classmethod(counted))

    async def looked(dashboard: Dashboard) -> list[str]:
        """What is opened for one more line of metrics."""
        assert dashboard.app is not None
        opened.clear()
        await asyncio.to_thread(dashboard.index.refresh_live)
        await dashboard._watch(dashboard.app)
        await dashboard._watch_others(dashboard.app)
        return sorted(opened)

    async def story() -> None:
        async with quiet_dashboard(tmp_path) as dashboard:
            await ask(dashboard, f"/runs/{run_id}/curves")
            counts, writers = [], []
            for number in range(1, VIEWERS + 1):
                reader, writer = await listen(dashboard, f"runs,run:{run_id},curves:{run_id}")
                await next_event(reader)
                writers.append(writer)
                if number in (1, VIEWERS):
                    file.write(lines(progress(1000 * number, 0.5)))
                    file.flush()
                    counts.append(await looked(dashboard))
                    while (await next_event(reader))[1]["topic"] != f"curves:{run_id}":
                        pass
            assert counts[0] == counts[1]
            assert len(counts[0]) < 10
            for writer in writers:
                writer.close()

    with locked(directory / "metrics.jsonl") as file:
        asyncio.run(story())


def test_after_an_event_all_pages_are_answered_with_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "SHARED_S", 1e9)  # also on a machine that takes seconds for it
    directory = train_directory(tmp_path / "run" / "ctr")
    run_id = id_of(str(directory))
    made: list[str] = []
    as_it_is = WatchedRun.data

    def counted(self: WatchedRun, *words: Any, **more: Any) -> Any:
        made.append(self.position)
        return as_it_is(self, *words, **more)

    monkeypatch.setattr(WatchedRun, "data", counted)

    async def story() -> None:
        async with quiet_dashboard(tmp_path) as dashboard:
            assert dashboard.app is not None
            await ask(dashboard, f"/runs/{run_id}/curves")
            watchers = [await listen(dashboard, f"run:{run_id},curves:{run_id}") for _ in range(VIEWERS)]
            for reader, _ in watchers:
                await next_event(reader)
            for step in (300, 400):
                file.write(lines(progress(step, step / 1000)))
                file.flush()
                await dashboard._watch(dashboard.app)
                for reader, _ in watchers:
                    await next_event(reader)
                made.clear()
                replies = await asyncio.gather(*(ask(dashboard, f"/runs/{run_id}") for _ in watchers))
                assert {reply.data["latest"]["metrics"]["loss"] for reply in replies} == {step / 1000}
                assert len(made) == 1
            for _, writer in watchers:
                writer.close()

    with locked(directory / "metrics.jsonl") as file:
        asyncio.run(story())


def test_an_answer_is_never_older_than_an_event() -> None:
    async def run() -> None:
        feed = Feed()
        shared, head = SharedAnswers(feed), RequestHead(method="GET", path="/runs", query={}, headers={})
        made: list[int] = []

        async def make() -> dict[str, object]:
            made.append(1)
            await asyncio.sleep(0)
            if len(made) == 6:
                raise HttpRefusal(404, "there is no such run")
            return {"number": len(made)}

        async def asked() -> bytes:
            return (await shared.answer(head, make)).body

        assert (await asked(), await asked()) == (b'{"number":1}\n', b'{"number":2}\n'), "few watch"
        watchers = [feed.stream(("a",), "") for _ in range(answers.CROWD)]
        for each in watchers:
            await anext(each)
        assert list(await asyncio.gather(asked(), asked(), asked())) == [b'{"number":3}\n'] * 3
        feed.publish("a", {})
        assert list(await asyncio.gather(asked(), asked())) == [b'{"number":4}\n'] * 2
        other = RequestHead(method="GET", path="/runs", query={"q": "b"}, headers={})
        assert (await shared.answer(other, make)).body == b'{"number":5}\n'
        feed.publish("a", {})
        refused = await asyncio.gather(asked(), asked(), return_exceptions=True)
        assert [str(each) for each in refused] == ["there is no such run"] * 2
        for each in watchers:
            await each.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())


# ---- a run notices nothing


def state_of(root: Path) -> dict[str, object]:
    """Every file and directory: what is in it, and when it was changed."""
    found: dict[str, object] = {}
    for path in sorted([root, *root.rglob("*")]):
        seen = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_mode, content
    return found


def watched_by_many(root: Path, run_ids: list[str], answer: Any) -> None:
    """In a process of its own, whose every call is looked at: a hook of audits can't be taken away again."""
    touched: list[str] = []

    def audit(event: str, words: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(words[2], int) and words[2] & WRITES and str(words[0]).startswith(str(root)):
            touched.append(f"{event} {words[0]} {words[2]:o}")
        elif event in CHANGES or event.startswith("fcntl.") or event in ("os.kill", "os.killpg", "signal.pthread_kill"):
            touched.append(f"{event} {words}")

    async def story() -> None:
        dashboard = Dashboard(DashboardOptions(directories=(str(root),), token=TOKEN))
        await dashboard.start()
        sys.addaudithook(audit)
        statuses = []
        watchers = []
        for run_id in run_ids:
            listed = (await ask(dashboard, f"/runs/{run_id}")).data
            paths = [f"/files/{run_id}/{each['key']}" for each in listed["files"]]
            paths += [f"/runs/{run_id}/log?file={each['key']}" for each in listed["files"]]
            paths += [
                f"/runs/{run_id}/{part}"
                for part in ("curves", "earlier", "files", "servers", "log", "stack?worker=trainer.0")
            ]
            statuses += [(await ask(dashboard, path)).status for path in [*paths, "/runs", "/places", "/about"]]
            topics = f"runs,places,run:{run_id},curves:{run_id},servers:{run_id},log:{run_id}:"
            watchers += [await listen(dashboard, topics) for _ in range(VIEWERS)]
        statuses.append((await ask(dashboard, f"/compare?runs={','.join(run_ids)}")).status)
        assert dashboard.app is not None
        for _ in range(3):
            await dashboard.app.refresh()
            for look in (dashboard._look, dashboard._watch, dashboard._watch_others):
                await look(dashboard.app)
        for _, writer in watchers:
            writer.close()
        await dashboard.close()
        answer.send((touched, statuses))

    asyncio.run(story())


def test_a_run_that_is_watched_by_twenty_is_only_read(tmp_path: Path) -> None:
    """Nothing is opened for writing, locked, signalled or changed, whatever is asked for."""
    trained = train_directory(tmp_path / "run" / "ctr")
    with_config(trained, "/ctr.yaml", rate=1)
    (trained / "curve.svg").write_text("<svg/>")
    story = journal(exited(1, 60.0, failure(1)))
    for log in (trained / "log", tmp_path / "other" / "log"):
        launch_directory(log, story, state="running")
        for name in ("workerlog.0", "stacks.trainer.0", "progress.trainer.0", "launcher.log"):
            (log / name).write_text("step 1\nERROR no\n")
    ids = [id_of(str(path)) for path in (trained, tmp_path / "other" / "log")]
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    with locked(trained / "metrics.jsonl"), locked(trained / "log" / "events.jsonl"):
        before = state_of(tmp_path)
        process = fork.Process(target=watched_by_many, args=(tmp_path, ids, theirs))
        process.start()
        theirs.close()
        touched, statuses = ours.recv()
        process.join()
        assert state_of(tmp_path) == before
    assert touched == []
    assert set(statuses) <= {200, 404}
    assert statuses.count(200) > 30
