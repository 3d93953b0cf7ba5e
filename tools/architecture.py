"""Draws docs/architecture.svg from what `make check` proves, so that the picture can't become untrue. A part of `make docs`.

    python -m tools.architecture           write it
    python -m tools.architecture --check   write nothing; exit 1 if it would change

The rows are the layers of the import contract in pyproject.toml, the marks in a box what its modules really import, and the
words those of the table of layers in ARCHITECTURE.md.
"""

from __future__ import annotations

import functools
import re
import sys
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

import grimp
from importlinter.api import read_configuration

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
PACKAGE = "umiak"

MARKS = {"yaml": "PyYAML", "numpy": "numpy", "umiak_native": "native core", "paddle": "Paddle", "torch": "PyTorch"}
"""Packages that a layer may import, and how the picture calls them."""
NATIVE = ("umiak_native", "the native core, in Rust: used by the layers with its mark")

WIDTH, MARGIN, GAP, PADDING = 980, 20, 10, 14
ARROW = 44
"""The column at the left, with the arrow that says how imports point."""
TEXT_PX, MARK_PX, LINE = 14, 13, 19
PILL, PILL_GAP, PILL_LINE = 22, 6, 28
LETTER = 0.53
"""The width of a letter of the text, as a part of its height: generous, since every viewer has another font."""

STYLE = """\
  .page { fill: #ffffff; stroke: #d0d7de }
  .box { fill: #eef4fb; stroke: #5b8fc7 }
  .native { fill: #fdf1e3; stroke: #cf8a3a }
  .name { fill: #0b2e55; font: 600 17px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
  .text { fill: #24292f; font: 14px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif }
  .mark { fill: #7a4a0c; font: 13px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif }
  .pill { fill: #fdf1e3; stroke: #cf8a3a }
  .arrow { stroke: #57606a; fill: #57606a }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #30363d }
    .box { fill: #13233a; stroke: #4f83bd }
    .native { fill: #2d2113; stroke: #b87a31 }
    .name { fill: #d6e6fa }
    .text { fill: #e6edf3 }
    .mark { fill: #f0c890 }
    .pill { fill: #2d2113; stroke: #b87a31 }
    .arrow { stroke: #9da7b1; fill: #9da7b1 }
  }"""


def main(argv: list[str]) -> int:
    """Write the picture, or compare it with what is there."""
    text = draw(layers(), words((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")), marks())
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in argv:
        print("error: not what the code says: docs/architecture.svg\n  hint: run `make docs`", file=sys.stderr)
        return 1
    PICTURE.write_text(text, encoding="utf-8")
    print("written: docs/architecture.svg")
    return 0


def layers() -> list[list[str]]:
    """The rows of the import contract, the highest first."""
    contracts = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]
    rows = next(each["layers"] for each in contracts if each["type"] == "layers")
    return [[name.strip().removeprefix(f"{PACKAGE}.") for name in re.split(r"[|:]", row)] for row in rows]


def words(page: str) -> dict[str, str]:
    """What each layer is, from the table in ARCHITECTURE.md."""
    table = page.split("| layer | what it is |")[1].split("\n\n", maxsplit=1)[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|$", table, re.MULTILINE)
    return {name: text.replace("`", "") for name, text in rows}  # a picture has no Markdown


@functools.cache
def marks() -> dict[str, list[str]]:
    """What each layer imports besides the standard library."""
    cache = str(ROOT / ".import_linter_cache")
    graph = grimp.build_graph(PACKAGE, include_external_packages=True, cache_dir=cache)
    found: dict[str, list[str]] = {}
    for imported, mark in MARKS.items():
        importers = graph.find_modules_that_directly_import(imported) if imported in graph.modules else set()
        for name in sorted({importer.split(".")[1] for importer in importers}):
            found.setdefault(name, []).append(mark)
    return found


def draw(rows: list[list[str]], said: dict[str, str], marked: dict[str, list[str]]) -> str:
    """The picture."""
    there = [name for row in rows for name in row]
    if {*there} != {*said}:
        odd = ", ".join(sorted({*there} ^ {*said}))
        raise SystemExit(f"error: the layers of pyproject.toml and of the table in ARCHITECTURE.md differ: {odd}")
    parts: list[str] = []
    left, top = MARGIN + ARROW, MARGIN
    whole = WIDTH - left - MARGIN
    for row in rows:
        width = (whole - GAP * (len(row) - 1)) // len(row)
        made = [(name, _wrapped(said[name], width, marked.get(name, []), alone=len(row) == 1)) for name in row]
        height = max(_height(lines, marked.get(name, []), width, alone=len(row) == 1) for name, lines in made)
        for number, (name, lines) in enumerate(made):
            x = left + number * (width + GAP)
            right = left + whole if number == len(row) - 1 else x + width
            parts += _box("box", x, top, right - x, height, name, lines, marked.get(name, []), len(row) == 1)
        top += height + GAP
    arrow = _arrow(MARGIN + 14, MARGIN + 4, top - GAP)
    name, text = NATIVE
    height = _height([text], [], whole, alone=True)
    parts += _box("native", left, top, whole, height, name, [text], [], alone=True)
    top += height
    summary = "; ".join(" and ".join(row) for row in rows)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + MARGIN}" width="{WIDTH}" role="img" aria-labelledby="title desc">',
            "<!-- Made by `python -m tools.architecture`. Change pyproject.toml or ARCHITECTURE.md, not this file. -->",
            '<title id="title">The layers of umiak</title>',
            f'<desc id="desc">Imports point down only, from the first row to the last: {escape(summary)}; {NATIVE[0]}.</desc>',
            f"<style>\n{STYLE}\n</style>",
            f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{top + MARGIN - 1}" rx="8"/>',
            *arrow,
            *parts,
            "</svg>\n",
        ]
    )


def _wrapped(text: str, width: int, marked: list[str], *, alone: bool) -> list[str]:
    """The text in lines; in a row of its own it stands between the name and the marks."""
    room = width - 2 * PADDING
    if alone:
        room -= _NAME_COLUMN + sum(_pills(marked)) + GAP * len(marked)
    return textwrap.wrap(text, int(room / (TEXT_PX * LETTER)))


_NAME_COLUMN = 140
"""The room of a name whose text stands beside it."""


def _height(lines: list[str], marked: list[str], width: int, *, alone: bool) -> int:
    if alone:
        return 2 * PADDING - 4 + LINE * max(len(lines), 1)
    return 2 * PADDING + LINE * (1 + len(lines)) + PILL_LINE * len(_pill_lines(marked, width))


def _box(
    kind: str, x: int, y: int, width: int, height: int, name: str, lines: list[str], marked: list[str], alone: bool
) -> list[str]:
    parts = [f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>']
    base = y + PADDING + LINE - 7
    parts.append(f'<text class="name" x="{x + PADDING}" y="{base}">{escape(name)}</text>')
    text_x, text_y = (x + PADDING + _NAME_COLUMN, base) if alone else (x + PADDING, base + LINE + 3)
    for number, line in enumerate(lines):
        parts.append(f'<text class="text" x="{text_x}" y="{text_y + LINE * number}">{escape(line)}</text>')
    if alone:
        start = x + width - PADDING - sum(_pills(marked)) - PILL_GAP * (len(marked) - 1)
        return parts + _marks(marked, start, y + (height - PILL) // 2)
    rows = _pill_lines(marked, width)
    for number, row in enumerate(rows):
        parts += _marks(
            row, x + PADDING, y + height - PADDING - PILL_LINE * (len(rows) - number) + PILL_LINE - PILL + 4
        )
    return parts


def _marks(marked: list[str], x: int, y: int) -> list[str]:
    parts = []
    for mark, width in zip(marked, _pills(marked), strict=True):
        parts.append(f'<rect class="pill" x="{x}" y="{y}" width="{width}" height="{PILL}" rx="11"/>')
        middle = x + width / 2
        parts.append(f'<text class="mark" x="{middle:g}" y="{y + 15}" text-anchor="middle">{escape(mark)}</text>')
        x += width + PILL_GAP
    return parts


def _pills(marked: list[str]) -> list[int]:
    return [round(len(mark) * MARK_PX * LETTER) + 24 for mark in marked]


def _pill_lines(marked: list[str], width: int) -> list[list[str]]:
    """The marks of a box that shares its row, in as many lines as they need."""
    lines: list[list[str]] = []
    for mark in marked:
        if lines and sum(_pills([*lines[-1], mark])) + PILL_GAP * len(lines[-1]) <= width - 2 * PADDING:
            lines[-1].append(mark)
        else:
            lines.append([mark])
    return lines


def _arrow(x: int, top: int, bottom: int) -> list[str]:
    middle = (top + bottom) // 2
    return [
        f'<line class="arrow" x1="{x}" y1="{top}" x2="{x}" y2="{bottom - 10}" stroke-width="2"/>',
        f'<path class="arrow" d="M {x - 6} {bottom - 12} L {x + 6} {bottom - 12} L {x} {bottom} Z"/>',
        f'<text class="text" x="{x + 20}" y="{middle}" text-anchor="middle" transform="rotate(-90 {x + 20} {middle})">imports point down only</text>',
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
