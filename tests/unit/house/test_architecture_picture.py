"""docs/architecture.svg shows the layers that the import contract proves, and can be read."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.paths import ROOT
from tools import architecture

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def picture() -> ET.Element:
    return ET.fromstring(architecture.PICTURE.read_text(encoding="utf-8"))


def test_it_is_fresh() -> None:
    assert architecture.main(["--check"]) == 0


def test_it_has_every_layer_in_its_row(picture: ET.Element) -> None:
    rows: dict[float, list[str]] = {}
    for text in picture.iter(f"{SVG}text"):
        if text.get("class") == "name":
            rows.setdefault(float(text.attrib["y"]), []).append(text.text or "")
    assert [rows[y] for y in sorted(rows)] == [*architecture.layers(), [architecture.NATIVE[0]]]


def test_marks_are_what_is_imported() -> None:
    found = architecture.marks()
    assert "PyTorch" in found["ps"]
    assert "native core" in found["data"]
    assert not {"core", "adapters", "platforms", "contracts", "launch"} & {*found}


def test_another_contract_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = architecture.PICTURE.read_text(encoding="utf-8")
    rows = architecture.layers()
    monkeypatch.setattr(architecture, "layers", lambda: [*rows[1:], rows[0]])
    monkeypatch.setattr(architecture, "PICTURE", tmp_path / "architecture.svg")
    architecture.PICTURE.write_text(before, encoding="utf-8")
    assert architecture.main(["--check"]) == 1
    assert "make docs" in capsys.readouterr().err
    assert architecture.PICTURE.read_text(encoding="utf-8") == before
    assert architecture.main([]) == 0
    assert architecture.main(["--check"]) == 0
    monkeypatch.setattr(architecture, "layers", lambda: [["attic"], *rows])
    with pytest.raises(SystemExit, match="attic"):
        architecture.main(["--check"])


def test_words_stay_inside_of_their_boxes_and_apart(picture: ET.Element) -> None:
    boxes = [
        tuple(float(each.attrib[name]) for name in ("x", "y", "width", "height")) for each in picture.iter(f"{SVG}rect")
    ]
    sizes = {"name": 17, "text": 14, "mark": 13}
    taken = []
    for text in picture.iter(f"{SVG}text"):
        size = sizes[text.attrib["class"]]
        if "transform" in text.attrib:
            continue
        x, y, width = float(text.attrib["x"]), float(text.attrib["y"]), len(text.text or "") * size * 0.53
        x -= width / 2 if text.get("text-anchor") == "middle" else 0
        around = [box for box in boxes if box[0] <= x <= box[0] + box[2] and box[1] <= y <= box[1] + box[3]]
        inner = min(around, key=lambda box: box[2] * box[3])
        assert x + width <= inner[0] + inner[2], text.text
        assert inner[1] <= y - size * 0.7, text.text
        taken.append((x, y - size, x + width, y))
    for number, (left, top, right, bottom) in enumerate(taken):
        for other in taken[number + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] + 4 or other[3] - 4 <= top


def test_marks_stay_inside_of_their_boxes(picture: ET.Element) -> None:
    rectangles = [
        (each.attrib["class"], *(float(each.attrib[name]) for name in ("x", "y", "width", "height")))
        for each in picture.iter(f"{SVG}rect")
    ]
    boxes = [rest for kind, *rest in rectangles if kind == "box"]
    pills = [rest for kind, *rest in rectangles if kind == "pill"]
    assert len(pills) > 5
    for x, y, width, height in pills:
        assert any(
            left <= x and x + width <= left + wide and top <= y and y + height <= top + high
            for left, top, wide, high in boxes
        ), (x, y)


def test_it_has_no_markdown(picture: ET.Element) -> None:
    assert [text.text for text in picture.iter(f"{SVG}text") if "`" in (text.text or "")] == []


def test_it_is_readable_in_the_dark(picture: ET.Element) -> None:
    style = picture.findtext(f"{SVG}style") or ""
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    used = {each.attrib["class"] for each in picture.iter() if "class" in each.attrib}
    for name in used:
        assert f".{name} {{" in light
        assert f".{name} {{" in dark


def test_it_belongs_to_the_page_of_those_who_change_umiak() -> None:
    """A newcomer to README.md is shown what a job does, not how modules import one another."""
    shown = re.compile(r"!\[[^\]]+\]\(docs/architecture\.svg\)")
    assert shown.search((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert not shown.search((ROOT / "README.md").read_text(encoding="utf-8"))
