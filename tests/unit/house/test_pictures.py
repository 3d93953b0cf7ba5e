"""The pictures of README.md: complete, small, text as text, readable on light and dark pages and on narrow ones."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.paths import ROOT
from tools import pictures
from umiak.submit.registry import OURS

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = [pictures.PLACES, pictures.RECOVERY]


def texts(path: Path) -> list[str]:
    return [each.text or "" for each in ET.fromstring(path.read_text(encoding="utf-8")).iter(f"{SVG}text")]


def test_the_picture_of_places_is_fresh_and_has_them_all() -> None:
    assert pictures.main(["--check"]) == 0
    assert {*pictures.BACKENDS} == {*OURS}
    assert {name for name, _ in pictures.BACKENDS.values()} <= {*texts(pictures.PLACES)}


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_small_and_narrow_and_is_shown(path: Path) -> None:
    root = ET.fromstring(path.read_text(encoding="utf-8"))
    assert float(root.attrib["width"]) <= 600
    assert path.stat().st_size < 20_000
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
        "svg", "title", "desc", "style", "rect", "text", "line", "path",
    }  # fmt: skip
    for readme in ("README.md", "README.zh.md"):
        assert f"]({path.relative_to(ROOT).as_posix()})" in (ROOT / readme).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_words_stay_inside_of_a_picture(path: Path) -> None:
    root = ET.fromstring(path.read_text(encoding="utf-8"))
    width = float(root.attrib["width"])
    letters = {"name": 9.0, "text": 7.5, "code": 9.2, "line": 8.2}
    for text in root.iter(f"{SVG}text"):
        wide = len(text.text or "") * letters[text.attrib["class"].split()[0]]
        left = float(text.attrib["x"]) - {"middle": wide / 2, "end": wide}.get(text.attrib.get("text-anchor", ""), 0.0)
        assert left >= 0, text.text
        assert left + wide <= width, text.text


def test_the_picture_of_places_is_readable_in_the_dark() -> None:
    root = ET.fromstring(pictures.PLACES.read_text(encoding="utf-8"))
    light, dark = (root.findtext(f"{SVG}style") or "").split("@media (prefers-color-scheme: dark)")
    for kind in {each.attrib["class"] for each in root.iter() if "class" in each.attrib}:
        assert f".{kind} {{" in light
        assert f".{kind} {{" in dark


def test_the_recorded_run_lost_a_server_and_a_trainer_and_came_to_the_same() -> None:
    shown = texts(pictures.RECOVERY)
    assert [line.split("# ")[1] for line in shown if "kill -9" in line] == ["server 1", "trainer 1"]
    assert [line.split()[2] for line in shown if "umiak: restarting" in line] == ["server", "trainer"]
    assert any(line.startswith("The weights are the same, bit for bit") for line in shown)


def test_a_recording_is_shortened_to_what_matters() -> None:
    steps = [f"step {number}" for number in range(9)]
    run = ["$ umiak launch x", *steps[:4], "  $ kill -9 1    # server 1", *steps[4:], "", "====", "2. again", "===="]
    chart = ["", "AUC on unseen samples:", "chart", "No step was lost, and none counted twice.", "Done"]
    assert pictures.shortened(["====", "1. first", "====", *run, *steps, *chart]) == [
        "$ umiak launch x",
        "step 0",
        "...",
        "step 3",
        "  $ kill -9 1    # server 1",
        "step 4",
        "...",
        "step 8",
        "",
        "AUC on unseen samples:",
        "chart",
        "No step was lost, and none counted twice.",
    ]
