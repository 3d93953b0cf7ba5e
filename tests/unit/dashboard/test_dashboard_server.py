"""The server as it stands, asked over real sockets: what it answers, what it refuses, and who may not hold it up."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import PATIENCE_S
from tests.support.run_directories import (
    WALL,
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
from umiak.core.problem import UmiakError
from umiak.dashboard import program
from umiak.dashboard.http import statics
from umiak.dashboard.http.feed import Feed, FeedFull
from umiak.dashboard.index import id_of
from umiak.dashboard.options import DashboardOptions
from umiak.dashboard.program import Dashboard
from umiak.dashboard.rows import RunKind, RunRow
from umiak.web.guard import HEADERS

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

TOKEN = "t" * 40


class Reply:
    """What came back."""

    def __init__(self, head: bytes, body: bytes) -> None:
        first, *rest = head.decode("latin-1").rstrip().split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {name.lower(): text for name, text in (line.split(": ", 1) for line in rest)}
        self.body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body

    @property
    def data(self) -> JsonObject:
        found: JsonObject = json.loads(self.body)
        return found


async def read_reply(reader: asyncio.StreamReader, *, has_body: bool = True) -> Reply:
    head = await reader.readuntil(b"\r\n\r\n")
    found = Reply(head, b"")
    if not has_body or "content-length" not in found.headers:
        return found
    return Reply(head, await reader.readexactly(int(found.headers["content-length"])))


async def ask(dashboard: Dashboard, path: str, method: str = "GET", **headers: str) -> Reply:
    reader, writer = await asyncio.open_connection("127.0.0.1", dashboard.port)
    given = {"Host": f"localhost:{dashboard.port}", "Authorization": f"Bearer {TOKEN}", **headers}
    text = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items() if value)
    writer.write(f"{method} {path} HTTP/1.1\r\n{text}\r\n".encode())
    try:
        return await read_reply(reader, has_body=method != "HEAD")
    finally:
        writer.close()


def with_dashboard(path: Path, story: Callable[[Dashboard], Awaitable[None]]) -> None:
    @contextlib.asynccontextmanager
    async def started() -> AsyncIterator[Dashboard]:
        dashboard = Dashboard(DashboardOptions(directories=(str(path),), token=TOKEN), version="1.2.3")
        await dashboard.start()
        try:
            yield dashboard
        finally:
            await dashboard.close()

    async def run() -> None:
        async with started() as dashboard:
            await story(dashboard)

    asyncio.run(run())


# ---- what it answers


def test_runs_are_data_at_the_addresses_of_their_pages(tmp_path: Path) -> None:
    failed = journal(exited(1, 60.0, failure(1)))
    launch_directory(tmp_path / "ctr" / "log", failed, state="failed", reason="trainer 1 failed", exit_code=1)
    (tmp_path / "ctr" / "log" / "workerlog.1").write_text("fine\nValueError: <b>broken</b>\n")
    run_id = id_of(str(tmp_path / "ctr" / "log"))

    async def story(dashboard: Dashboard) -> None:
        listed = (await ask(dashboard, "/runs.json?q=state:failed&limit=5")).data
        assert [row["id"] for row in listed["runs"]] == [run_id]
        assert (listed["total"], listed["all"], listed["is_complete"]) == (1, 1, True)
        assert (await ask(dashboard, "/runs?q=state:running")).data["total"] == 0
        found = (await ask(dashboard, f"/runs/{run_id}")).data
        assert found["sentence"].startswith("failed ")
        assert found["first_failure"]["error"] == "ValueError: <b>broken</b>"
        assert [each["state"] for each in found["workers"][0]["workers"]] == ["running", "failed"]
        (log,) = [each for each in found["files"] if each["kind"] == "log"]
        page = (await ask(dashboard, f"/runs/{run_id}/log.json?file={log['key']}")).data
        assert [line["text"] for line in page["lines"]] == ["fine", "ValueError: <b>broken</b>"]
        merged = (await ask(dashboard, f"/runs/{run_id}/log.json?find=broken")).data
        assert [line["source"] for line in merged["lines"]] == ["workerlog.1"]
        error = (await ask(dashboard, f"/runs/{run_id}/log.json?file={log['key']}&error=1")).data
        assert [line["at"] for line in error["lines"]] == [5]
        assert (await ask(dashboard, "/about.json")).data["version"] == "1.2.3"

    with_dashboard(tmp_path, story)


def test_the_best_earlier_run_and_what_was_different(tmp_path: Path) -> None:
    for number, name in enumerate(("before", "now")):
        points = [progress(100, 0.5, WALL + 100 * number), progress(200, 0.4, WALL + 100 * number + 1)]
        directory = train_directory(tmp_path / "run" / name, *points, outcome={"stopped": False})
        with_config(directory, "/ctr.yaml", runner__epochs=number, same=1)
    before, now = (id_of(str(tmp_path / "run" / name)) for name in ("before", "now"))

    async def story(dashboard: Dashboard) -> None:
        found = (await ask(dashboard, f"/runs/{now}/earlier")).data
        assert (found["row"]["id"], found["count"], found["is_less_better"]) == (before, 1, True)
        assert found["curves"]["train/loss"]["y"] == [0.5, 0.4]
        assert found["different"] == {"runner.epochs": [0, 1]}
        assert (await ask(dashboard, f"/runs/{before}/earlier")).data["row"] is None
        assert (await ask(dashboard, f"/runs/{now}")).data["config"]["file"] == "/ctr.yaml"
        assert (await ask(dashboard, f"/compare?runs={now},{before}")).data["different"] == ["runner.epochs"]
        assert (await ask(dashboard, "/runs/nobody/earlier")).status == 404

    with_dashboard(tmp_path, story)


def test_curves_and_comparisons(tmp_path: Path) -> None:
    for name, loss in (("a", 0.5), ("b", 0.4)):
        train_directory(tmp_path / "run" / name, progress(100, 0.7), progress(200, loss), outcome={"stopped": False})
    ids = [id_of(str(tmp_path / "run" / name)) for name in "ab"]

    async def story(dashboard: Dashboard) -> None:
        curves = (await ask(dashboard, f"/runs/{ids[0]}/curves.json")).data["curves"]
        assert curves["train/loss"] == {"x": [100.0, 200.0], "time": [1.7e9, 1.7e9], "y": [0.7, 0.5]}
        compared = (await ask(dashboard, f"/compare.json?runs={','.join(ids)},nothing")).data
        assert [run["row"]["metric_value"] for run in compared["runs"]] == [0.5, 0.4]

    with_dashboard(tmp_path, story)


def test_files_are_sent_in_pieces(tmp_path: Path) -> None:
    launch_directory(tmp_path / "log")
    content = bytes(range(256)) * 5000
    (tmp_path / "log" / "workerlog.0").write_bytes(content)
    run_id = id_of(str(tmp_path / "log"))

    async def story(dashboard: Dashboard) -> None:
        files = (await ask(dashboard, f"/runs/{run_id}/files.json")).data["files"]
        path = next(f"/files/{run_id}/{each['key']}" for each in files if each["kind"] == "log")
        whole = await ask(dashboard, path)
        assert (whole.status, whole.body == content) == (200, True)
        assert whole.headers["content-type"] == "application/octet-stream"
        assert whole.headers["content-disposition"] == "attachment; filename*=UTF-8''workerlog.0"
        piece = await ask(dashboard, path, Range="bytes=1000-1999")
        assert (piece.status, piece.body) == (206, content[1000:2000])
        assert piece.headers["content-range"] == f"bytes 1000-1999/{len(content)}"
        assert (await ask(dashboard, path, Range="bytes=99999999-")).status == 416
        head = await ask(dashboard, path, "HEAD")
        assert (head.headers["content-length"], head.body) == (str(len(content)), b"")

    with_dashboard(tmp_path, story)


def test_the_page_and_its_files(tmp_path: Path) -> None:
    async def story(dashboard: Dashboard) -> None:
        page = await ask(dashboard, "/runs/anything?tab=logs", Accept="text/html", Authorization="")
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        for name, file in statics.load().items():
            packed = await ask(dashboard, f"/static/{name}", Authorization="", Accept_Encoding="gzip")
            assert (packed.headers["content-encoding"], packed.body) == ("gzip", file.body)
            again = await ask(dashboard, f"/static/{name}", If_None_Match=packed.headers["etag"])
            assert again.status == (304 if name != statics.PAGE else 200)
            assert (await ask(dashboard, f"/static/{name}", Authorization="")).body == file.body

    with_dashboard(tmp_path, story)


# ---- what it refuses


@pytest.mark.parametrize(
    "path",
    [
        "/static/../program.py",
        "/static/%2e%2e/program.py",
        "/static/..%2fprogram.py",
        "/static//etc/passwd",
        "/static/vendor/../../program.py",
        "/static/vendor/MANIFEST.json",
        "/static/",
        "/files/{id}/..%2f..%2fsecret",
        "/files/{id}/../../secret",
        "/files/{id}/workerlog.0",
        "/files/{id}/%00",
        "/files/../secret",
        "/files/{id}",
        "/runs/..%2fsecret",
        "/runs/{id}/log?file=../secret",
        "/runs/{id}/log?file=workerlog.0",
        "/runs/{id}/secret",
        "/runs/{id}/log/x",
        "/etc/passwd",
        "/%2fetc%2fpasswd",
        "/nothing",
    ],
)
def test_no_path_leads_to_a_file(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("secret")
    launch_directory(tmp_path / "runs" / "log")
    (tmp_path / "runs" / "log" / "workerlog.0").write_text("secret")
    run_id = id_of(str(tmp_path / "runs" / "log"))

    async def story(dashboard: Dashboard) -> None:
        reply = await ask(dashboard, path.replace("{id}", run_id))
        assert reply.status == 404
        assert b"secret" not in reply.body

    with_dashboard(tmp_path / "runs", story)


def test_every_answer_has_the_policy(tmp_path: Path) -> None:
    async def story(dashboard: Dashboard) -> None:
        for path, headers in (
            ("/runs.json", {}),
            ("/", {"Accept": "text/html"}),
            ("/nothing", {}),
            ("/runs.json", {"Authorization": ""}),
            ("/runs.json", {"Host": "evil.example"}),
            ("/static/app.js", {}),
        ):
            reply = await ask(dashboard, path, **headers)
            missing = {name for name in HEADERS if name.lower() not in reply.headers}
            assert missing == set(), path
            assert reply.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]

    with_dashboard(tmp_path, story)


def test_a_token_becomes_a_session(tmp_path: Path) -> None:
    async def story(dashboard: Dashboard) -> None:
        origin = f"http://localhost:{dashboard.port}"
        given = {"Authorization": "", "Origin": origin, "X-Umiak-Dashboard-Token": TOKEN}
        reply = await ask(dashboard, "/session", "POST", **given)
        assert reply.status == 204
        cookie = reply.headers["set-cookie"].partition(";")[0]
        assert TOKEN not in cookie
        assert (await ask(dashboard, "/runs.json", Authorization="", Cookie=cookie)).status == 200
        assert (await ask(dashboard, "/runs.json", Authorization="")).status == 401
        forged = await ask(dashboard, "/session", "POST", **{**given, "Origin": "http://evil.example"})
        assert (forged.status, "set-cookie" in forged.headers) == (403, False)

    with_dashboard(tmp_path, story)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_answered_and_closed(tmp_path: Path, data: bytes, status: int) -> None:
    async def story(dashboard: Dashboard) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", dashboard.port)
        writer.write(data)
        assert (await read_reply(reader)).status == status
        assert await reader.read() == b""
        writer.close()

    with_dashboard(tmp_path, story)


def test_one_connection_asks_several_times(tmp_path: Path) -> None:
    async def story(dashboard: Dashboard) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", dashboard.port)
        for _ in range(3):
            writer.write(
                b"GET /about.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
            )
            assert (await read_reply(reader)).status == 200
        writer.close()

    with_dashboard(tmp_path, story)


def test_the_body_of_a_refused_request_is_no_request(tmp_path: Path) -> None:
    async def story(dashboard: Dashboard) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", dashboard.port)
        inner = b"GET /about.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
        writer.write(b"GET /runs.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(inner) + inner)
        assert (await read_reply(reader)).status == 401
        assert await reader.read() == b""
        writer.close()

    with_dashboard(tmp_path, story)


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    async def story(dashboard: Dashboard) -> None:
        options = DashboardOptions(directories=(str(tmp_path),), port=dashboard.port)
        with pytest.raises(UmiakError, match="can't listen"):
            await Dashboard(options).start()

    with_dashboard(tmp_path, story)


# ---- what changes


async def next_event(reader: asyncio.StreamReader) -> tuple[str, JsonObject]:
    found_id, data = "", {}
    while True:
        line = (await asyncio.wait_for(reader.readline(), PATIENCE_S)).decode().rstrip("\n")
        if line.startswith("id: "):
            found_id = line[4:]
        elif line.startswith("data: "):
            data = json.loads(line[6:])
        elif not line and data:
            return found_id, data


async def listen(
    dashboard: Dashboard, topics: str, last: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", dashboard.port)
    given = f"Last-Event-ID: {last}\r\n" if last else ""
    head = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{given}"
    writer.write(f"GET /events?topics={topics} HTTP/1.1\r\n{head}\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def test_a_page_hears_of_new_points_and_catches_up_after_sleep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "WATCHED_EVERY_S", 0.02)
    monkeypatch.setattr(program, "IDLE_EVERY_S", 0.02)
    directory = train_directory(tmp_path / "run" / "ctr")
    run_id = id_of(str(directory))

    async def story(dashboard: Dashboard) -> None:
        with locked(directory / "metrics.jsonl") as file:
            position = (await ask(dashboard, f"/runs/{run_id}/curves.json")).data["position"]
            topics = f"run:{run_id},curves:{run_id}"
            reader, writer = await listen(dashboard, topics)
            first_id, hello = await next_event(reader)
            assert hello["topic"] == "hello"
            file.write(lines(progress(300, 0.5)))
            file.flush()
            while True:
                last_id, event = await next_event(reader)
                if event["topic"].startswith("curves:"):
                    break
            assert event["from"] == position
            assert ["train/loss", 300.0, 1.7e9, 0.5] in event["points"]
            writer.close()
            again, writer = await listen(dashboard, topics, last=first_id)
            while True:
                missed_id, missed = await next_event(again)
                if missed["topic"].startswith("curves:"):
                    break
            assert (missed_id, missed) == (last_id, event)
            writer.close()
            other, writer = await listen(dashboard, topics, last="ffffffff-7")
            assert (await next_event(other))[1]["topic"] == "hello"
            writer.close()

    with_dashboard(tmp_path, story)


def test_what_was_read_for_an_answer_is_told_to_those_who_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WATCHED_EVERY_S", "IDLE_EVERY_S"):
        monkeypatch.setattr(program, name, 0.3)
    directory = train_directory(tmp_path / "run" / "ctr")
    launch_directory(directory / "log")
    run_id = id_of(str(directory))

    async def heard(reader: asyncio.StreamReader, topic: str) -> JsonObject:
        while (event := (await next_event(reader))[1])["topic"] != topic or event.get("what") == "time":
            pass
        return event

    async def story(dashboard: Dashboard) -> None:
        await ask(dashboard, f"/runs/{run_id}/curves.json")
        assert dashboard.app is not None
        watched = dashboard.app.runs.watched(run_id)
        assert watched is not None
        reader, writer = await listen(dashboard, f"run:{run_id},curves:{run_id}")
        assert (await heard(reader, f"curves:{run_id}"))["to"] == watched.position
        for name, text, topic in (
            ("metrics.jsonl", lines(progress(300, 0.5)), f"curves:{run_id}"),
            ("log/events.jsonl", lines({"t": 70.0, "who": "node", "event": {"is": "Start"}}), f"run:{run_id}"),
        ):
            with (directory / name).open("a") as file:
                file.write(text)
            watched.update()
            assert (await heard(reader, topic)).get("to") in (watched.position, None)
        writer.close()

    with_dashboard(tmp_path, story)


def test_a_page_asks_again_although_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a run goes on changes without an event, and so does whether a worker is silent."""
    for name in ("WATCHED_EVERY_S", "IDLE_EVERY_S", "TOLD_AGAIN_S"):
        monkeypatch.setattr(program, name, 0.02)
    directory = launch_directory(tmp_path / "log")

    async def story(dashboard: Dashboard) -> None:
        with locked(directory / "events.jsonl"):
            reader, writer = await listen(dashboard, f"run:{id_of(str(directory))}")
            while (await next_event(reader))[1].get("what") != "time":
                pass
            writer.close()

    with_dashboard(tmp_path, story)


def test_what_was_said_of_a_run_gets_old() -> None:
    over = {"kind": RunKind.LAUNCHED, "name": "a", "state": "succeeded", "ended_s": 1000.0}
    assert program.again_after_s(RunRow(id="a", **over), 1010.0) == program.TOLD_AGAIN_S  # type: ignore[arg-type]
    assert program.again_after_s(RunRow(id="a", **over), 2000.0) == program.OVER_AGAIN_S  # type: ignore[arg-type]
    assert program.again_after_s(None, 2000.0) == program.TOLD_AGAIN_S


def test_a_look_that_fails_is_told_and_others_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LIVE_EVERY_S", "IDLE_EVERY_S"):
        monkeypatch.setattr(program, name, 0.01)

    async def story(dashboard: Dashboard) -> None:
        await ask(dashboard, "/runs")
        reader, writer = await listen(dashboard, "runs")
        await next_event(reader)

        def broken() -> bool:
            raise RuntimeError("<b>odd</b>")

        monkeypatch.setattr(dashboard.index, "refresh_live", broken)
        while not (problems := (await ask(dashboard, "/about")).data["problems"]):
            await asyncio.sleep(0.01)
        assert problems == ["looking again has failed: RuntimeError: <b>odd</b>"]
        monkeypatch.undo()
        while (await ask(dashboard, "/about")).data["problems"]:
            await asyncio.sleep(0.01)
        train_directory(tmp_path / "run" / "ctr")
        dashboard.index.took_s = dashboard.index.cpu_s = 0.0
        while (await next_event(reader))[1]["topic"] != "runs":
            pass
        writer.close()

    with_dashboard(tmp_path, story)


def test_a_watcher_that_does_not_listen_takes_no_memory() -> None:
    async def run() -> None:
        feed = Feed(most_watchers=2, heartbeat_s=0.01)
        slow = feed.stream(("a", "b"), "")
        assert b"hello" in await anext(slow)
        for number in range(10_000):
            feed.publish("a", {"number": number})
            feed.publish(f"other{number}", {})
        feed.publish("b", {})
        piece = await anext(slow)
        assert piece.count(b"data: ") == 2
        assert b'"number":9999' in piece
        assert await anext(slow) == b": still here\n\n"
        second = feed.stream(("a",), "")
        await anext(second)
        with pytest.raises(FeedFull):
            feed.stream(("a",), "")
        await second.aclose()  # type: ignore[attr-defined]
        assert feed.watchers == 1
        assert len(feed._newest) <= 4096

    asyncio.run(run())
