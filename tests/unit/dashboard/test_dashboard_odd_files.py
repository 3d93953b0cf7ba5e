"""Whatever stands in the files of runs, each address answers with data that a browser can read, and no run hides another."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support import chance
from tests.support.run_directories import (
    exited,
    failure,
    journal,
    launch_directory,
    lines,
    message,
    progress,
    train_directory,
    with_config,
)
from tests.unit.dashboard.test_dashboard_server import ask, listen, next_event, with_dashboard
from umiak.dashboard import program
from umiak.dashboard.http.json_text import json_text
from umiak.dashboard.index import id_of
from umiak.dashboard.program import Dashboard

ODD: tuple[object, ...] = (
    float("nan"), float("inf"), -float("inf"), 1e300, -1e300, 10**30, -1, 0, True, None, "", "x", "\x1b[2J", "\ud800", [], {}, [[]], {"a": {"b": [1]}},
)  # fmt: skip
RUNS = 30
PARTS = ("", "/curves", "/earlier", "/files", "/log", "/servers", "/stack?worker=trainer.0")


def strictly(body: bytes) -> Any:
    """As a browser reads it: NaN is no JSON."""

    def refused(word: str) -> Any:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(body, parse_constant=refused)


def places(item: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything that is in it."""
    yield way
    pairs = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
    for name, each in pairs:
        yield from places(each, (*way, name))


def changed(item: Any, way: tuple[Any, ...], odd: object) -> Any:
    """With something odd at one place."""
    if not way:
        return odd
    made = copy.deepcopy(item)
    inner = made
    for name in way[:-1]:
        inner = inner[name]
    inner[way[-1]] = odd
    return made


def test_odd_values_anywhere_are_answered(tmp_path: Path) -> None:
    draws = chance()
    story = journal(exited(1, 60.0, failure(1)), message(60.5, "Stop", why="x", generation=1))
    epoch = {"time": 1.0, "event": "epoch", "epoch": 0, "samples": 400, "seconds": 4.0, "evaluated": {"loss": 0.2}}
    said = {}
    for number in range(RUNS):
        directory = train_directory(
            tmp_path / "run" / str(number), progress(100, 0.5), epoch, outcome={"stopped": False}
        )
        with_config(directory, "/ctr.yaml", rate=0.1, name="a")
        log = launch_directory(directory / "log", story)
        files = [directory / "metrics.jsonl", directory / "outcome.json", directory / "config.json"]
        path = draws.choice([*files, *2 * [log / "events.jsonl", directory / "metrics.jsonl"], log / "state.json"])
        entries = [json.loads(text) for text in path.read_text().splitlines()]
        at = draws.randrange(len(entries))
        way, odd = draws.choice(list(places(entries[at]))), draws.choice(ODD)
        entries[at] = changed(entries[at], way, odd)
        path.write_text(lines(*entries))
        said[id_of(str(directory))] = f"{path.name}, line {at + 1}, {way}: {odd!r}"

    async def told(dashboard: Dashboard) -> None:
        assert dashboard.app is not None
        await dashboard.app.refresh()
        rows = strictly((await ask(dashboard, "/runs.json?limit=500")).body)["runs"]
        assert {row["id"] for row in rows} == set(said)
        for run_id, what in said.items():
            for part in PARTS:
                reply = await ask(dashboard, f"/runs/{run_id}{part}")
                assert reply.status in (200, 404), (what, part, reply.body)
                if reply.status == 200:
                    strictly(reply.body)
            assert (await ask(dashboard, f"/runs/{run_id}")).status == 200, what
        compared = await ask(dashboard, f"/compare?runs={','.join(list(said)[:10])}")
        assert len(strictly(compared.body)["runs"]) == 10

    with_dashboard(tmp_path, told)


def test_a_loss_that_is_no_number_reaches_the_page(tmp_path: Path, monkeypatch: Any) -> None:
    """As a run writes it whose training has diverged."""
    monkeypatch.setattr(program, "WATCHED_EVERY_S", 0.02)
    monkeypatch.setattr(program, "IDLE_EVERY_S", 0.02)
    directory = train_directory(tmp_path / "run" / "ctr", progress(100, 0.5))
    run_id = id_of(str(directory))

    async def told(dashboard: Dashboard) -> None:
        await ask(dashboard, f"/runs/{run_id}/curves")
        reader, writer = await listen(dashboard, f"run:{run_id},curves:{run_id}")
        await next_event(reader)
        with (directory / "metrics.jsonl").open("a") as file:
            file.write(lines(progress(200, float("nan"))))
        while not (line := await reader.readline()).startswith(b"data:") or b"curves:" not in line:
            pass
        strictly(line[5:])
        found = strictly((await ask(dashboard, f"/runs/{run_id}")).body)
        assert found["latest"]["recent"] == {"loss": None}
        writer.close()

    with_dashboard(tmp_path, told)


def test_what_is_no_number_is_nothing() -> None:
    nan, infinite = float("nan"), float("inf")
    assert (
        json_text({"a": [1.5, nan, {"b": -infinite}], "c": (infinite, "NaN")})
        == '{"a":[1.5,null,{"b":null}],"c":[null,"NaN"]}'
    )
    assert json_text({"a": 1.5, "b": "\u00e9\ud800"}) == '{"a":1.5,"b":"\\u00e9\\ud800"}'
