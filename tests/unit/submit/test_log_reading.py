"""Which lines of a run are given: the last ones, those since some time, in which order, and what rotation has dropped."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import Sink, chance
from umiak.cli.runs import moments
from umiak.core import shown
from umiak.core.cluster import Role
from umiak.core.job import Handle
from umiak.launch.reports import log_times as writing
from umiak.launch.reports.logs import WorkerLog
from umiak.submit.backend import OURSELVES, LogLine, LogsWanted
from umiak.submit.logs import reading as log_reading
from umiak.submit.logs.order import ArrivingLogs, by_time
from umiak.submit.node.line_times import LaunchTimes
from umiak.submit.node.logs import LogReader, LogSource

RUN = Handle(backend="cloud", place="lab", id="ctr-1")


class Clock:
    """Time that passes when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_700_000_000.0
        monkeypatch.setattr(writing.time, "time", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def source(path: Path) -> LogSource:
    return LogSource(name="trainer.0", path=str(path / "workerlog.0"), role=Role.TRAINER, rank=0)


def worker_log(path: Path, most_bytes: int = 1 << 20) -> WorkerLog:
    return WorkerLog(str(path / "workerlog.0"), most_bytes=most_bytes, overwrite=False, console=None)


def read(path: Path, position: str = "", **more: object) -> list[LogLine]:
    reader = LogReader(source(path), position, **more)  # type: ignore[arg-type]
    try:
        return list(reader.lines(is_over=True))
    finally:
        reader.close()


def texts(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines if not line.is_note]


# ---- files


def test_lines_have_the_time_at_which_they_were_written(tmp_path: Path, clock: Clock) -> None:
    log = worker_log(tmp_path)
    expected = []
    for number in range(5):
        log.feed(f"line {number}\nand ".encode())
        expected += [("line 0", clock.now_s)] if not number else [(f"and line {number}", clock.now_s)]
        clock.now_s += 7.5
    log.close()
    again = worker_log(tmp_path)  # another launcher goes on in the same file
    again.feed(b"the end\n")
    again.close()
    assert [(line.text, line.time_s) for line in read(tmp_path)] == [*expected, ("and the end", clock.now_s)]


def test_the_last_lines_are_those_of_the_whole_across_rotation(tmp_path: Path, clock: Clock) -> None:
    draw = chance()
    log = worker_log(tmp_path, most_bytes=3000)
    for number in range(300):
        log.feed(f"{number} {'x' * draw.randrange(60)}\n".encode())
        clock.now_s += 1
    log.close()
    whole = read(tmp_path)
    for count in (1, 2, 50, len(whole) - 2, len(whole) - 1):
        assert texts(read(tmp_path, tail=count))[-count:] == texts(whole)[-count:]
        assert len(read(tmp_path, tail=count)) <= count
        at = whole[-count].time_s
        assert texts(read(tmp_path, since_s=at)) == texts(whole)[-count:]
    assert read(tmp_path, since_s=clock.now_s) == []


def test_a_line_counts_where_the_file_is_said_to_have_changed_before_it(tmp_path: Path, clock: Clock) -> None:
    """A kernel gives a file the time of its last tick, a few milliseconds before the time that the launcher has seen."""
    log = worker_log(tmp_path)
    log.feed(b"early\n")
    clock.now_s += 60
    log.feed(b"late\n")
    log.close()
    os.utime(tmp_path / "workerlog.0", (clock.now_s - 0.004, clock.now_s - 0.004))
    assert texts(read(tmp_path, since_s=clock.now_s)) == ["late"]


def test_a_tail_does_not_read_what_is_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "workerlog.0", "wb") as file:
        file.truncate(1 << 40)  # a hole of a terabyte
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + b"".join(b"line %d\n" % number for number in range(1000)))
    assert texts(read(tmp_path, tail=3)) == ["line 997", "line 998", "line 999"]


def test_who_reads_is_told_what_rotation_has_dropped(tmp_path: Path, clock: Clock) -> None:
    log = worker_log(tmp_path, most_bytes=300)
    written = [f"line {number:04d}" for number in range(200)]
    for text in written[:150]:
        log.feed(f"{text}\n".encode())
    first = read(tmp_path)
    dropped = len(written[:150]) * 10 - sum(len(text) + 1 for text in texts(first))
    assert first[0].is_note
    assert f"trainer.0: {dropped} bytes before these lines were dropped" in first[0].text
    position = first[-1].position
    for text in written[150:160]:
        log.feed(f"{text}\n".encode())
    assert texts(read(tmp_path, position)) == written[150:160]
    assert not any(line.is_note for line in read(tmp_path, position)), "nothing is missing behind the position"
    for text in [*written[160:], *written, *written]:
        log.feed(f"{text}\n".encode())
    log.close()
    assert read(tmp_path, position)[0].is_note, "what came after the position is gone"
    assert not any(line.is_note for line in read(tmp_path, tail=5)), "five lines are there"
    assert read(tmp_path, tail=5000)[0].is_note


def test_a_position_is_found_again_after_rotation_and_nothing_is_said_to_be_missing(tmp_path: Path) -> None:
    log = worker_log(tmp_path, most_bytes=500)
    seen: list[LogLine] = []
    for number in range(120):
        log.feed(f"line {number}\n".encode())
        seen += read(tmp_path, seen[-1].position if seen else "")
    log.close()
    assert [line.text for line in seen] == [f"line {number}" for number in range(120)]


def test_a_log_without_times_is_read_as_ever(tmp_path: Path) -> None:
    """Of a launcher that was older, or could not write them."""
    (tmp_path / "workerlog.0").write_bytes(b"a\nb\nc\n")
    os.utime(tmp_path / "workerlog.0", (1000, 1000))
    assert [line.time_s for line in read(tmp_path)] == [None] * 3
    assert texts(read(tmp_path, tail=2)) == ["b", "c"]
    assert texts(read(tmp_path, since_s=900.0)) == ["a", "b", "c"]
    assert texts(read(tmp_path, since_s=1003.0)) == [], "nothing was written to the file since then"


def test_times_take_little_room(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("umiak.core.runtime.log_times.ALWAYS_BYTES", 1000)
    log = worker_log(tmp_path)
    for _ in range(5000):
        log.feed(b"x")
        clock.now_s += 0.02
    log.close()
    assert (tmp_path / "times.workerlog.0").stat().st_size < 1000 + 5000


def test_a_file_of_times_that_is_in_the_way_stops_no_log(tmp_path: Path) -> None:
    (tmp_path / "times.workerlog.0").mkdir()
    log = worker_log(tmp_path, most_bytes=50)
    for number in range(10):
        assert log.feed(f"line {number}\n".encode()) == ""
    log.close()
    assert texts(read(tmp_path))[-1] == "line 9"


def test_the_lines_of_a_launcher_say_their_time() -> None:
    times = LaunchTimes()
    first = times.of("LAUNCH INFO 2022-05-18 11:53:09,773 Run Pod: gistdo")
    second = times.of("LAUNCH WARNING 2022-05-18 11:53:10,000 x")
    assert first is not None
    assert second is not None
    assert round(second - first, 3) == 0.227
    for text in ("", "LAUNCH", "LAUNCH INFO yesterday 11:53:09,773 x", "LAUNCH INFO 2022-05-18 11:53:0x,773 x", "INFO"):
        assert times.of(text) is None


# ---- order


def line(name: str, text: str, time_s: float | None = None, position: str = "") -> LogLine:
    return LogLine(source=name, text=text, time_s=time_s, position=position)


def test_logs_are_in_the_order_of_time_and_each_keeps_its_own() -> None:
    first = [line("a", "1", 1.0), line("a", "4", 4.0), line("a", "behind 4"), line("a", "clock set back", 2.0)]
    second = [line("b", "2", 2.0), line("b", "3", 3.0), line("b", "5", 5.0)]
    without = [line("c", "x"), line("c", "y")]
    merged = [each.text for each in by_time([first, second, without])]
    assert merged == ["x", "y", "1", "2", "3", "4", "behind 4", "clock set back", "5"]


def test_machines_wait_for_one_another_until_they_are_up_to_date() -> None:
    logs = ArrivingLogs(["a", "b"])
    logs.add("a", line("a", "3", 3.0))
    assert [*logs.ready()] == [], "b may have something earlier"
    logs.add("b", line("b", "1", 1.0))
    assert [each.text for each in logs.ready()] == ["1"]
    logs.add("a", line("a", "4", 4.0))
    logs.is_up_to_date("b")
    assert [each.text for each in logs.ready()] == ["3", "4"]
    logs.is_up_to_date("a")
    for name, time_s in (("a", 9.0), ("b", 8.0)):
        logs.add(name, line(name, name, time_s))
        assert [each.text for each in logs.ready()] == [name], "as it arrives"


# ---- any backend


class Plain:
    """A backend that knows nothing of tails and times."""

    def __init__(self, lines: list[LogLine], later: list[LogLine]) -> None:
        self._lines, self._later = lines, later
        self.asked: list[LogsWanted] = []

    def logs(self, _: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        self.asked.append(wanted)
        passed: Mapping[str, str] = wanted.after
        for each in [*self._lines, *(self._later if wanted.follow else [])]:
            if each.position > passed.get(each.source, ""):
                yield each


def wanted_lines(backend: Plain, **more: object) -> list[str]:
    wanted = LogsWanted(**more)  # type: ignore[arg-type]
    return [f"{each.source} {each.text}" for each in log_reading.lines(backend, RUN, wanted)]  # type: ignore[arg-type]


def test_a_backend_that_can_not_count_gives_the_last_lines_and_then_new_ones() -> None:
    old = [line("a", str(number), position=f"{number:03d}") for number in range(10)]
    old += [line("b", str(number), position=f"{number:03d}") for number in range(2)]
    new = [line("a", "10", position="010"), line("c", "0", position="000x")]
    assert wanted_lines(Plain(old, new), tail=3) == ["a 7", "a 8", "a 9", "b 0", "b 1"]
    assert wanted_lines(Plain(old, new), tail=1, follow=True) == ["a 9", "b 1", "a 10", "c 0"]
    assert wanted_lines(Plain(old, new), tail=0, follow=True) == ["a 10", "c 0"]
    assert wanted_lines(Plain(old, []), tail=0) == []


def test_lines_before_the_asked_time_are_left_out_and_who_has_none_is_named() -> None:
    old = [line("a", "1", 1.0, "1"), line("a", "2", 2.0, "2"), line("a", "of 2", None, "3"), line("b", "x", None, "1")]
    found = wanted_lines(Plain(old, [line("a", "3", 3.0, "4")]), since_s=2.0, follow=True)
    assert found == ["a 2", "a of 2", f"{OURSELVES} b: {log_reading.NO_TIMES}", "b x", "a 3"]


# ---- what a person types, and sees


@pytest.mark.parametrize(
    ("text", "ago_s"),
    [
        ("90s", 90),
        ("10m", 600),
        ("2 h ago", 7200),
        ("1.5d", 129600),
        ("08:30", 1800),
        ("09:30", 84600),
        ("2026-11-18T08:00Z", 3600),
    ],
)
def test_moments(text: str, ago_s: float) -> None:
    import datetime as dt

    now_s = dt.datetime(2026, 11, 18, 9, tzinfo=dt.timezone.utc).timestamp()
    assert now_s - moments.moment(text, now_s=now_s, zone=dt.timezone.utc) == ago_s


@pytest.mark.parametrize("text", ["10", "", "yesterday", "2030-01-01", "h", "-5m", "25:00", "1:2:3:4"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any
        moments.moment(text, now_s=1_700_000_000.0)


STEERING = {
    "\x1b[31mred\x1b[0m": "red",
    "\x1b]0;title\x07after": "after",
    "\x1b]52;c;aGk=\x1b\\after": "after",
    "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
    "\x1b]0;no end": "0;no end",
    "\x1b[2J\x1b[Hclear": "clear",
    "\x1bPq#0\x1b\\picture": "picture",
    "\x9b31mred \x9d0;t\x9cx": "red x",
    "\x1b(Bset \x1bc": "set ",
    "10%|#  |\r 50%|## |\r100%|###|\r": "100%|###|",
    "bell\x07 null\x00 back\x08": "bell null back",
    "\x1b\x1b[31mtwice": "twice",
    "\u202eturned": "\\u202eturned",
    "tab\tand \u4e2d\u6587": "tab\tand \u4e2d\u6587",
}


@pytest.mark.parametrize(("text", "plain"), STEERING.items())
def test_nothing_steers_a_terminal(text: str, plain: str) -> None:
    assert shown.without_sequences(text) == plain


def test_any_text_comes_out_without_control_characters() -> None:
    draw = chance()
    letters = "\x1b[]P^_;0139mHJ\x07\\\r\x08\x00\x9b\x9c\x9d ab\u4e2d"
    for _ in range(3000):
        text = "".join(draw.choices(letters, k=draw.randrange(30)))
        plain = shown.without_sequences(text)
        assert not any(letter < " " or "\x7f" <= letter <= "\x9f" for letter in plain), repr(text)
        on_terminal = shown.colours_only(text.encode()).decode()
        assert shown.colours_only(on_terminal.encode()).decode() == on_terminal, repr(text)
        rest = on_terminal
        while "\x1b" in rest:
            rest = rest.partition("\x1b")[2]
            assert rest.lstrip("0123456789;:<=>?[")[:1] == "m", repr(text)


def test_a_worker_does_not_steer_the_terminal_of_its_launcher(tmp_path: Path) -> None:
    output = b"\x1b]0;owned\x07\x1b[2Jhello \x1b[32mgreen\x1b[0m\n10%\r"
    for is_terminal in (True, False):
        sink = Sink(is_terminal=is_terminal)
        log = WorkerLog(str(tmp_path / "workerlog.1"), most_bytes=1 << 20, overwrite=True, console=sink)  # type: ignore[arg-type]
        log.feed(output)
        log.close()
        expected = b"hello \x1b[32mgreen\x1b[0m\n10%\r" if is_terminal else output
        assert sink.shown == expected
        assert (tmp_path / "workerlog.1").read_bytes() == output, "the file has all"
