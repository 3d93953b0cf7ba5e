"""What the pages of the documentation show is what happens: commands below `<!-- run: 0 -->` are run, and what they print is compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.house.test_docs import PAGES, page_name

RUN = re.compile(
    r"^<!-- (?:file: (?P<file>[\w.]+)|run: (?P<status>\d+)) -->\n```(?:python|console|yaml)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RUNNING = [page for page in PAGES if RUN.search(page.read_text(encoding="utf-8"))]


@pytest.mark.timeout(900)  # some pages start a framework ten times
@pytest.mark.parametrize("page", RUNNING, ids=page_name)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(RUN.findall(text)) == text.count("<!-- file: ") + text.count("<!-- run: ")
    for block in RUN.finditer(text):
        if block["file"]:
            (tmp_path / block["file"]).write_text(block["body"])
            continue
        wanted = int(block["status"])
        for command, *expected in blocks(block["body"]):
            status, printed = run(command, tmp_path)
            assert status == wanted, f"{command}\n{printed}"
            wanted = 0  # a status is that of the first command; the others look at what it left
            for line in expected:
                assert any(matches(line, each) for each in printed.splitlines()), (
                    f"{command}\n{line}\nnot in\n{printed}"
                )


def blocks(body: str) -> Iterator[list[str]]:
    """Each command of a console block with the lines below it."""
    found: list[list[str]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append([line[2:]])
        elif line and line != "...":
            found[-1].append(line)
    yield from found


def matches(expected: str, line: str) -> bool:
    """Three dots stand for anything."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), line) is not None


def run(command: str, directory: Path) -> tuple[int, str]:
    environ = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(directory),
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,  # for a command that hangs; how fast a machine is decides nothing
        check=False,
    )
    return done.returncode, done.stdout


def test_there_are_pages_that_are_run() -> None:
    assert len(RUNNING) >= 4
