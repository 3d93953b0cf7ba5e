"""Draws the pictures of README.md: where a job goes, and a terminal with a real run. The first one is a part of `make docs`.

    python -m tools.pictures            write docs/pictures/places.svg
    python -m tools.pictures --check    write nothing; exit 1 if it would change
    python -m tools.pictures --record   run the demo, and write docs/pictures/recovery.svg of what it printed

Texts stay text, both are readable on a light and on a dark page, and still so on a telephone: no wider than 600 points.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from umiak.submit.registry import OURS

ROOT = Path(__file__).resolve().parents[1]
PLACES = ROOT / "docs" / "pictures" / "places.svg"
RECOVERY = ROOT / "docs" / "pictures" / "recovery.svg"

BACKENDS = {
    "local": ("this machine", "processes"),
    "ssh": ("your hosts", "ssh"),
    "slurm": ("Slurm", "sbatch"),
    "mpi": ("MPI", "mpirun"),
    "ray": ("Ray", "its job API"),
    "kubernetes": ("Kubernetes", "PaddleJob, JobSet, Job"),
    "paddlecloud": ("PaddleCloud", "paddlecloud job"),
    "modelarts": ("ModelArts", "Huawei Cloud"),
    "aihc": ("AIHC", "Baidu AI Cloud"),
    "bml": ("BML", "Baidu AI Cloud"),
    "pai": ("PAI", "Alibaba Cloud"),
}
"""Every backend, as people call it, and how a job reaches it."""
RENTED = ("rented machines", "umiak machines up")

SANS = '-apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif'
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
STYLE = f"""\
  .page {{ fill: #ffffff; stroke: #d0d7de }}
  .box {{ fill: #eef4fb; stroke: #5b8fc7 }}
  .node {{ fill: #fdf1e3; stroke: #cf8a3a }}
  .name {{ fill: #0b2e55; font: 600 16px {SANS} }}
  .text {{ fill: #24292f; font: 14px {SANS} }}
  .code {{ fill: #0b2e55; font: 15px {MONO} }}
  .arrow {{ stroke: #57606a; fill: #57606a }}
  @media (prefers-color-scheme: dark) {{
    .page {{ fill: #0d1117; stroke: #30363d }}
    .box {{ fill: #13233a; stroke: #4f83bd }}
    .node {{ fill: #2d2113; stroke: #b87a31 }}
    .name {{ fill: #d6e6fa }}
    .text {{ fill: #e6edf3 }}
    .code {{ fill: #d6e6fa }}
    .arrow {{ stroke: #9da7b1; fill: #9da7b1 }}
  }}"""
WIDTH, MARGIN, GAP, COLUMNS = 580, 20, 10, 3
BOX_HEIGHT = 54


def main(argv: Sequence[str]) -> int:
    """Write the picture, compare it, or record a run."""
    if "--record" in argv:
        RECOVERY.write_text(terminal(shortened(recorded())), encoding="utf-8")
        return 0
    text = places()
    if PLACES.exists() and PLACES.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in argv:
        print("error: not what the code says: docs/pictures/places.svg\n  hint: run `make docs`", file=sys.stderr)
        return 1
    PLACES.write_text(text, encoding="utf-8")
    print("written: docs/pictures/places.svg")
    return 0


# ---- where a job goes


def places() -> str:
    """A job on its way from a laptop to any place."""
    if {*BACKENDS} != {*OURS}:
        raise SystemExit(f"error: BACKENDS of tools/pictures.py lacks or has too much: {sorted({*BACKENDS} ^ {*OURS})}")
    boxes = [*BACKENDS.values(), RENTED]
    middle = WIDTH // 2
    parts = [
        _box("box", middle - 130, 20, 260, 62),
        _text("name", middle, 45, "your laptop"),
        _text("code", middle, 69, "train.py  job.yaml"),
        *_arrow(middle - 76, 84, 132),
        *_arrow(middle + 76, 132, 84),
        _text("code", middle - 88, 106, "umiak submit", "end"),
        _text("code", middle - 88, 125, "--on PLACE job.yaml", "end"),
        _text("code", middle + 88, 106, "umiak status, logs,", "start"),
        _text("code", middle + 88, 125, "exec, fetch, cancel", "start"),
    ]
    top = 140
    width = (WIDTH - 2 * MARGIN - (COLUMNS - 1) * GAP) // COLUMNS
    for number, (name, how) in enumerate(boxes):
        row, column = divmod(number, COLUMNS)
        x, y = MARGIN + column * (width + GAP), top + row * (BOX_HEIGHT + GAP)
        parts.append(_box("box", x, y, width, BOX_HEIGHT))
        parts.append(_text("name", x + width // 2, y + 23, name))
        parts.append(_text("text", x + width // 2, y + 42, how))
    top += -(-len(boxes) // COLUMNS) * (BOX_HEIGHT + GAP)
    parts += [*_arrow(middle, top, top + 24)]
    top += 30
    parts.append(_box("node", MARGIN, top, WIDTH - 2 * MARGIN, 84))
    parts.append(_text("name", middle, top + 25, "on every node the same"))
    parts.append(_text("code", middle, top + 48, "umiak launch train.py"))
    parts.append(
        _text("text", middle, top + 70, "finds the other nodes, starts trainers and servers, restarts what fails")
    )
    height = top + 84 + MARGIN
    names = ", ".join(name for name, _ in boxes)
    described = f"umiak submit sends train.py and job.yaml from a laptop to a place: {names}. On every node there, umiak launch starts the workers."
    return _svg(
        height, "Where a job goes", described, STYLE, [_box("page", 0.5, 0.5, WIDTH - 1, height - 1, 8), *parts]
    )


def _svg(height: int, title: str, described: str, style: str, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" aria-labelledby="title desc">',
            "<!-- Made by `python -m tools.pictures`: change that, not this file. -->",
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(described)}</desc>',
            f"<style>\n{style}\n</style>",
            *parts,
            "</svg>\n",
        ]
    )


def _box(kind: str, x: float, y: float, width: float, height: float, radius: int = 6) -> str:
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>'


def _text(kind: str, x: int, y: int, text: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _arrow(x: int, start: int, end: int) -> list[str]:
    back = end - 9 if end > start else end + 9
    return [
        f'<line class="arrow" x1="{x}" y1="{start}" x2="{x}" y2="{back}" stroke-width="2"/>',
        f'<path class="arrow" d="M {x - 6} {back} L {x + 6} {back} L {x} {end} Z"/>',
    ]


# ---- a recorded run

TERMINAL_COLUMNS = 64
TERMINAL_STYLE = f"""\
  .screen {{ fill: #161b22; stroke: #30363d }}
  .line {{ fill: #e6edf3; font: 13.5px {MONO}; white-space: pre }}
  .typed {{ fill: #79c0ff }}
  .killed {{ fill: #ff7b72 }}
  .umiak {{ fill: #f0c890 }}
  .good {{ fill: #7ee787 }}"""
COLOURS = {
    r"\s+\$ kill .*": "killed",
    r"\$ .*|    \S.*": "typed",
    r"  umiak: .*": "umiak",
    r"The weights are .*|No step was .*|sha256 .*|.*\d \|-+": "good",
}
LINE = 17


def recorded() -> list[str]:
    """What the first part of the demo prints, in a fresh directory. SystemExit if it fails."""
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "demo.py"), "recovery"],
            cwd=directory,
            env={**os.environ, "COLUMNS": str(TERMINAL_COLUMNS + 1)},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"error: the demo ended with {done.returncode}:\n{done.stdout}")
    return done.stdout.splitlines()


def shortened(lines: Sequence[str]) -> list[str]:
    """The run with kills and the comparison. Of the steps, the first, the last and those beside a kill."""
    begin = next(number for number, line in enumerate(lines) if line.startswith("$ umiak launch"))
    second = next(number for number, line in enumerate(lines) if line.startswith("2. "))
    chart = next(number for number, line in enumerate(lines) if line.startswith("AUC on unseen"))
    end = next(number for number, line in enumerate(lines) if line.startswith("No step was lost"))
    run = [line for line in lines[begin : second - 1] if line.strip("= ")]
    kept: list[str] = []
    for number, line in enumerate(run):
        beside = [*run[max(0, number - 1) : number], *run[number + 1 : number + 2]]
        if line.startswith("step ") and len(beside) == 2 and all(each.startswith("step ") for each in beside):
            if kept[-1] != "...":
                kept.append("...")
        else:
            kept.append(line)
    return [*kept, *lines[chart - 1 : end + 1]]


def terminal(lines: Sequence[str]) -> str:
    """A dark terminal with these lines, on any page."""
    height = 2 * 14 + LINE * len(lines)
    parts = [_box("screen", 0.5, 0.5, WIDTH - 1, height - 1, 8)]
    for number, line in enumerate(lines):
        colour = next((kind for pattern, kind in COLOURS.items() if re.fullmatch(pattern, line)), "")
        kind = f"line {colour}".rstrip()
        if line.strip():
            parts.append(f'<text class="{kind}" x="16" y="{14 + LINE * number + 13}">{escape(line)}</text>')
    described = "A parameter server and a trainer are killed in the middle of a run. umiak starts both again, and the weights are those of an undisturbed run, bit for bit."
    return _svg(height, "A run that loses a server and a trainer", described, TERMINAL_STYLE, parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
