"""What the launcher says on the console, and its last words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support import Sink
from umiak.core.problem import Problem
from umiak.launch.events import Exit
from umiak.launch.protocol import Failure, FailureKind
from umiak.launch.reports.output import LauncherOutput

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"


def said(level: str = "INFO", *, colours: bool = False) -> tuple[LauncherOutput, Any]:
    sink = Sink(colours=colours)
    return LauncherOutput(sink, level), sink.text  # type: ignore[arg-type]


def failure(**more: Any) -> Failure:
    return Failure(
        kind=FailureKind.EXITED, at=0.0, node="a", host="10.0.0.1", log_path="/job/log/workerlog.0", exit_code=3, **more
    )


def test_a_line_has_the_form_of_paddles_launcher() -> None:
    output, shown = said()
    output.say("Run Pod: gistdo, replicas 2, status ready")
    assert re.fullmatch(rf"LAUNCH INFO {STAMP} Run Pod: gistdo, replicas 2, status ready\n", shown())


def test_every_line_of_a_text_has_it() -> None:
    output, shown = said()
    output.say("one\ntwo", "WARNING")
    assert [re.sub(STAMP, "@", line) for line in shown().splitlines()] == [
        "LAUNCH WARNING @ one",
        "LAUNCH WARNING @ two",
    ]


@pytest.mark.parametrize(("level", "count"), [("DEBUG", 3), ("INFO", 3), ("warning", 2), ("ERROR", 1), ("nonsense", 3)])
def test_what_is_below_the_level_is_not_said(level: str, count: int) -> None:
    output, shown = said(level)
    for each in ("INFO", "WARNING", "ERROR"):
        output.say("text", each)
    assert len(shown().splitlines()) == count


def test_colours_mark_what_the_words_say_already() -> None:
    plain, plain_text = said()
    coloured, coloured_text = said(colours=True)
    for output in (plain, coloured):
        output.say("text", "ERROR")
        output.say("text", "INFO")
    assert "\x1b[" not in plain_text()
    without = re.sub(r"\x1b\[[\d;]*m", "", coloured_text())
    assert re.sub(STAMP, "@", without) == re.sub(STAMP, "@", plain_text())
    assert coloured_text() != without


def test_text_that_is_no_text_is_shown_all_the_same() -> None:
    output, shown = said()
    output.plain("half a character: \ud800\n")
    assert shown() == "half a character: \\ud800\n"


def test_a_job_that_ended_well_is_told_in_one_line() -> None:
    output, shown = said()
    output.goodbye(Exit(status=0, words="the job is done"))
    assert shown().endswith("the job is done\n")
    assert "error" not in shown()


def test_a_failure_is_told_with_its_code_its_traceback_and_where_the_rest_is() -> None:
    output, shown = said()
    words = "trainer 0 on node 10.0.0.1 failed with exit code 3"
    why = failure(traceback="Traceback (most recent call last):\nValueError: no data", log_end="something else")
    output.goodbye(Exit(status=3, words=words, code="UM-JOB-001", failure=why))
    assert shown().splitlines() == [
        f"error: {words} [UM-JOB-001]",
        "its traceback:",
        "  Traceback (most recent call last):",
        "  ValueError: no data",
        "  hint: the whole output is on 10.0.0.1 in /job/log/workerlog.0",
    ]


def test_without_a_traceback_the_last_lines_are_told() -> None:
    output, shown = said()
    output.goodbye(Exit(status=3, words="it failed", code="UM-JOB-001", failure=failure(log_end="one\ntwo")))
    assert shown().splitlines()[1:4] == ["the end of its output:", "  one", "  two"]


def test_without_any_output_there_is_nothing_to_quote() -> None:
    output, shown = said()
    output.goodbye(Exit(status=3, words="it failed", code="UM-JOB-001", failure=failure()))
    assert shown() == "error: it failed [UM-JOB-001]\n"


def test_the_hint_of_the_one_who_ended_it_wins() -> None:
    output, shown = said()
    output.goodbye(Exit(status=3, words="no master", code="UM-MEET-002", hint="is it running?"))
    assert shown().splitlines() == ["error: no master [UM-MEET-002]", "  hint: is it running?"]


def test_problems_are_told_all_at_once() -> None:
    output, shown = said()
    output.problems(
        [Problem(code="UM-X-001", what="one", why="because"), Problem(code="UM-X-002", what="two", hint="do it")]
    )
    assert shown().splitlines() == [
        "error: one [UM-X-001]",
        "  because: because",
        "error: two [UM-X-002]",
        "  hint: do it",
    ]


def test_the_command_for_other_nodes_stands_on_a_line_of_its_own() -> None:
    output, shown = said()
    output.command_for_other_nodes("umiak launch --master 10.0.0.1:6170 train.py")
    assert "umiak launch --master 10.0.0.1:6170 train.py" in shown().splitlines()
