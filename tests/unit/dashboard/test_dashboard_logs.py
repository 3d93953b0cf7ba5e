"""Pieces of logs of any size, with anything in them; and the list of files that may be asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import chance
from tests.support.run_directories import launch_directory, train_directory
from umiak.core.runtime import log_times
from umiak.dashboard import files, log_pages, run_files
from umiak.dashboard.log_pages import LineFilter
from umiak.dashboard.rows import RunSource


def written(path: Path, data: bytes | str) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


def texts(page: log_pages.LogPiece) -> list[str]:
    return [line.text for line in page.lines]


def test_the_end_of_a_log_and_what_is_before_it(tmp_path: Path) -> None:
    lines = [f"line {number} {'x' * (number % 50)}" for number in range(10_000)]
    path = written(tmp_path / "log", "\n".join(lines) + "\n")
    page = log_pages.page(path)
    found = texts(page)
    assert found == lines[-len(found) :]
    assert page.end == page.size
    while page.begin > 0:
        page = log_pages.page(path, before=page.begin)
        found = texts(page) + found
    assert found == lines
    forward: list[str] = []
    at = 0
    while at < page.size:
        page = log_pages.page(path, after=at)
        forward += texts(page)
        at = page.end
    assert forward == lines


def test_a_log_that_is_one_line(tmp_path: Path) -> None:
    path = written(tmp_path / "log", b"x" * 300_000)
    page = log_pages.page(path)
    assert page.size - page.begin == log_pages.PAGE_BYTES
    assert len(page.lines[0].text) <= log_pages.LONGEST_LINE + 4
    assert log_pages.matching(path, LineFilter(words=("xxx",))).lines[0].offset == 0
    assert texts(log_pages.page(written(tmp_path / "empty", b""))) == []


def test_a_log_of_a_gigabyte_is_read_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.seek(1 << 30)
        file.write(b"\nalmost\nERROR at the end\n")
    reads: list[int] = []
    real = os.pread
    page = log_pages.page(str(path))
    assert texts(page)[-2:] == ["almost", "ERROR at the end"]
    os.pread = lambda fd, count, at: reads.append(count) or real(fd, count, at)  # type: ignore[assignment]
    try:
        log_pages.page(str(path))
        assert sum(reads) <= log_pages.PAGE_BYTES
        reads.clear()
        found = log_pages.first_error(str(path))
        assert found.is_searched_on
        assert not found.lines
        assert sum(reads) <= log_pages.MOST_SEARCHED + (8 << 20)
    finally:
        os.pread = real


def test_searching_finds_what_a_plain_search_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over borders of pieces as well."""
    draws = chance()
    monkeypatch.setattr(log_pages, "_STEP", 1000)
    words = ["alpha", "BETA", "gamma", "error", "WARNING low", "x" * 150, ""]
    lines = [" ".join(draws.choice(words) for _ in range(draws.randint(0, 6))) for _ in range(700)]
    path = written(tmp_path / "log", "\n".join(lines) + "\n")
    for wanted, keeps in (
        (LineFilter(words=("beta",)), lambda line: "beta" in line.lower()),
        (LineFilter(words=("gamma", "alpha")), lambda line: "gamma" in line or "alpha" in line),
        (LineFilter(words=("alpha",), level="warning"), lambda line: "alpha" in line and "WARNING" in line),
        (LineFilter(level="warning"), lambda line: "WARNING" in line),
    ):
        expected = [line.strip() for line in lines if keeps(line)]
        found: list[str] = []
        page = log_pages.matching(path, wanted)
        while True:
            found = [text.strip() for text in texts(page)] + found
            if not page.is_searched_on:
                break
            page = log_pages.matching(path, wanted, before=page.begin)
        assert found == expected


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "ValueError: no",
        "numpy.linalg.LinAlgError: singular",
        "2026-01-01 ERROR no",
        "thread 'main' panicked at src/x.rs",
        "Segmentation fault (core dumped)",
    ],
)
def test_the_first_error_is_found(tmp_path: Path, line: str) -> None:
    path = written(tmp_path / "log", f"fine\nno errors so far\nerror_rate 0.1\n{line}\nERROR later\n")
    (found,) = log_pages.first_error(path).lines
    assert found.text == line
    (later,) = log_pages.first_error(path, after=found.offset + len(line) + 1).lines
    assert later.text == "ERROR later"


def test_words_are_never_patterns(tmp_path: Path) -> None:
    """None can make the search take for ever."""
    path = written(tmp_path / "log", "a" * 5000 + "b\n(a+)+$\n")
    assert texts(log_pages.matching(path, LineFilter(words=("(a+)+$",)))) == ["(a+)+$"]


def test_lines_are_inert(tmp_path: Path) -> None:
    data = (
        b"<script>alert(1)</script>\n\x1b[31mred\x1b[0m \x1b]0;title\x07x\n50%\r100%\n\xe4\xbd\xa0 \xe4\xbd\n\x00\x08\n"
    )
    page = log_pages.page(written(tmp_path / "log", data))
    assert texts(page) == ["<script>alert(1)</script>", "red x", "100%", "你 �", ""]
    assert [line.offset for line in page.lines][:2] == [0, 26]


def test_a_piece_may_begin_within_a_letter(tmp_path: Path) -> None:
    path = written(tmp_path / "log", "你好\n" * 20_000)
    for at in range(1, 8):
        assert set(texts(log_pages.page(path, before=100_000 + at))[1:-1]) == {"你好"}


def times_of(path: Path, *records: tuple[int, int]) -> None:
    data = log_times.pair(1, 0) + b"".join(log_times.pair(*each) for each in records)
    Path(log_times.path_of(str(path))).write_bytes(data)


def test_logs_are_merged_in_the_order_of_time(tmp_path: Path) -> None:
    one, other = tmp_path / "workerlog.0", tmp_path / "workerlog.1"
    written(one, "a\nb\nc\n")
    written(other, "x\ny\n")
    times_of(one, (0, 1000), (2, 3000), (4, 5000))
    times_of(other, (0, 2000), (2, 4000))
    sources = [("workerlog.0", str(one)), ("workerlog.1", str(other)), ("gone", str(tmp_path / "gone"))]
    merged = log_pages.merged(sources, LineFilter())
    assert [(line.text, line.time_s, line.source[-1]) for line in merged] == [
        ("a", 1.0, "0"),
        ("x", 2.0, "1"),
        ("b", 3.0, "0"),
        ("y", 4.0, "1"),
        ("c", 5.0, "0"),
    ]
    assert [line.text for line in log_pages.merged(sources, LineFilter(words=("B", "y")))] == ["b", "y"]


def test_times_of_a_long_log_are_found_by_halving(tmp_path: Path) -> None:
    path = tmp_path / "workerlog.0"
    written(path, "0123456\n" * 40_000)
    times_of(path, *((at * 8, at) for at in range(40_000)))
    page = log_pages.page(str(path))
    assert [line.time_s for line in page.lines] == [line.offset // 8 / 1000 for line in page.lines]


# ---- files


def test_only_known_files_of_a_run_are_listed(tmp_path: Path) -> None:
    logs = launch_directory(tmp_path / "run" / "ctr" / "log")
    train_directory(tmp_path / "run" / "ctr")
    for name in (
        "workerlog.0",
        "workerlog.0.1",
        "serverlog.3",
        "envlog.trainer.0",
        "backup_env.0.json",
        "id_rsa",
        "workerlog.x",
    ):
        (logs / name).write_text(name)
    (logs / "workerlog.1").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("secret")
    os.mkfifo(logs / "workerlog.2")
    source = RunSource(launch_directories=(str(logs),), metrics_directory=str(tmp_path / "run" / "ctr"))
    listed = run_files.files_of(source)
    assert sorted((each.name, each.kind) for each in listed.values()) == [
        ("envlog.trainer.0", "environment"),
        ("events.jsonl", "journal"),
        ("metrics.jsonl", "metrics"),
        ("serverlog.3", "log"),
        ("state.json", "state"),
        ("workerlog.0", "log"),
        ("workerlog.0.1", "rotated"),
    ]
    assert all(each.key == key and len(key) == run_files.KEY_DIGITS for key, each in listed.items())


def test_a_link_that_came_later_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "log").symlink_to(tmp_path / "secret")
    for read in (files.RunFile.open, log_pages.page, lambda path: files.growth(path, 0, 0)):
        with pytest.raises(OSError, match="symbolic links"):
            read(str(tmp_path / "log"))


def test_files_are_read_on_from_where_they_were(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"one\ntwo\nhal")
    first = files.growth(str(path), 0, 0)
    assert (first.lines, first.offset, first.is_new_file) == ((b"one", b"two"), 8, False)
    with path.open("ab") as file:
        file.write(b"f\nthree\n")
    second = files.growth(str(path), first.offset, first.inode)
    assert second.lines == (b"half", b"three")
    path.write_bytes(b"new\n")
    third = files.growth(str(path), second.offset, second.inode)
    assert (third.lines, third.is_new_file) == ((b"new",), True)
    assert files.growth(str(path), 0, 0, most=2).lines == ()


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("step 1", ""),
        ("no error in this one", ""),
        ("WARNING: slow", "warning"),
        ("train.py:3: UserWarning: old", "warning"),
        ("2026-01-01 ERROR disk is full", "error"),
        ("ValueError: WARNING", "error"),
        ("Traceback (most recent call last):", "error"),
        ("\ud800 ERROR", "error"),
    ],
)
def test_a_line_has_the_level_by_which_it_would_be_found(line: str, level: str) -> None:
    assert log_pages.LogLineAt(offset=0, text=line).data["level"] == level
    data = line.encode(errors="replace")
    found = [name for name in log_pages.LEVELS if list(LineFilter(level=name).lines_in(data))]
    assert found == {"": [], "warning": ["warning"], "error": ["error", "warning"]}[level]
