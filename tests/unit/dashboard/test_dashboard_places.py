"""Places on the page: what they said is read with care, and one that hangs is ended."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import eventually
from umiak.cli.dashboard.places import commands_of
from umiak.dashboard.outside.given import KnownPlace, PlaceCommands
from umiak.dashboard.outside.place_view import MOST_QUEUED, NoAnswer, queue_of, verdict_of
from umiak.dashboard.outside.places import PlaceWatch

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject


def finding(verdict: str) -> JsonObject:
    return {"verdict": verdict, "code": "", "reason": f"it is {verdict}\x1b", "hint": None}


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [(["ok"], "ok"), (["ok", "warning"], "warning"), (["problem", "ok", "warning"], "problem"), ([], "ok")],
)
def test_the_worst_finding_is_the_verdict(verdicts: list[str], worst: str) -> None:
    told = verdict_of({"checks": [{"findings": [finding(each) for each in verdicts]}]})
    assert told["verdict"] == worst
    assert [each["text"] for each in told["findings"]] == [f"it is {each}\\x1b" for each in verdicts]


def test_a_queue_is_counted_and_its_end_is_left_out() -> None:
    told = [{"run": f"r{number}", "state": "queued"} for number in range(MOST_QUEUED + 5)]
    told += [{"run": "old", "name": "ctr", "state": "succeeded"}, {"run": None, "handle": "ray://x/1", "state": None}]
    found = queue_of(told)
    assert found["counts"] == {"queued": MOST_QUEUED + 5, "succeeded": 1, "unknown": 1}
    assert (len(found["runs"]), found["left_out"]) == (MOST_QUEUED, 6)


@pytest.mark.parametrize("told", [None, 7, {}, {"checks": 1}, "text"])
def test_what_is_no_answer_is_refused(told: object) -> None:
    with pytest.raises(NoAnswer, match="no answer"):
        verdict_of(told)
    with pytest.raises(NoAnswer, match="no answer"):
        queue_of(told)
    with pytest.raises(NoAnswer, match="unreachable: timed out"):
        queue_of({"problems": [{"what": "unreachable", "why": "timed out"}]})


def commands(doctor: str, queue: str = "print('[]')") -> PlaceCommands:
    scripts = {"doctor": doctor, "queue": queue}
    return PlaceCommands(
        known=lambda: ([KnownPlace(name="lab", backend="ssh", source="umiak.toml")], []),
        questions={name: lambda _, name=name: (sys.executable, "-c", scripts[name]) for name in scripts},  # type: ignore[misc]
    )


def asked(given: PlaceCommands, *, limit_s: float = 60.0, until: str = "queue") -> JsonObject:
    async def story() -> JsonObject:
        news: list[int] = []
        watch = PlaceWatch(given, lambda: news.append(1), limit_s=limit_s)
        try:
            while True:
                (place,) = watch.data(time.time())["places"]
                if place[until]["age_s"] is not None:
                    assert news
                    found: JsonObject = place
                    return found
                watch.ask_stale()
                watch.ask_stale()  # which asks nobody twice
                await asyncio.sleep(0.01)
        finally:
            await watch.close()

    return asyncio.run(story())


def test_answers_are_kept_with_their_age(tmp_path: Path) -> None:
    once = f"import os; os.mkdir({str(tmp_path / 'once')!r}); "
    ok = once + f"print({json.dumps({'checks': [{'findings': [finding('ok')]}]})!r})"
    place = asked(commands(ok, "print('{')"))
    assert place["doctor"]["answer"]["verdict"] == "ok"
    assert place["doctor"]["problem"] == ""
    assert place["queue"]["problem"] == "what it said can't be understood"


def test_a_place_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    inner = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    place = asked(commands(outer), limit_s=2.0, until="doctor")
    assert place["doctor"]["problem"] == "it has not answered within 2 s"
    pid = (tmp_path / "pid").read_text()
    assert eventually(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in Path(f"/proc/{pid}/stat").read_text())


def test_a_flood_is_no_answer() -> None:
    place = asked(commands("while True: print('x' * 100_000)"), until="doctor")
    assert place["doctor"]["problem"] == "its answer is too long"


def test_the_places_of_this_person_and_their_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "umiak.toml").write_text('[place.lab]\nbackend = "slurm"\n[placed.x]\n')
    given = commands_of({"HOME": str(tmp_path)})
    known, problems = given.known()
    assert {each.name: each.backend for each in known}["lab"] == "slurm"
    assert "unknown table or key: placed" in problems[0]
    (tmp_path / "umiak.toml").write_text('default_place = "lab"\n[place.lab]\nbackend = "slurm"\n')
    assert [each.name for each in given.known()[0] if each.is_default] == ["lab"]
    assert "--on=lab" in given.questions["doctor"]("lab")
    assert (
        asked(
            PlaceCommands(
                known=lambda: ([KnownPlace(name="local", backend="local", source="")], []), questions=given.questions
            )
        )["doctor"]["answer"]["verdict"]
        == "ok"
    )
