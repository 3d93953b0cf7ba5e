"""A run as a picture: curves of the loss and of the metrics over samples, as SVG. A decider.

    svg([Curve(name="loss", points=((1000, 0.69), (2000, 0.61)), marks=((2000, 0.65),))])

Each curve has a panel of its own, because a loss and an AUC share no axis. ``points`` are joined by a line; ``marks`` are dots, for what was seen on other data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from umiak.core.value import value

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 34, 36
COLOURS = ("#1f6feb", "#1a7f37", "#bf3989", "#9a6700")
DOT = "#d1242f"
MOST_POINTS = 600

Points = tuple[tuple[float, float], ...]


@value
class Curve:
    """One number over the samples of a run."""

    name: str
    points: Points
    marks: Points = ()
    """What it was on other data, after each epoch."""


def svg(curves: Sequence[Curve], title: str = "") -> str:
    """The whole picture."""
    shown = [curve for curve in curves if curve.points or curve.marks]
    height = TOP + HEIGHT * len(shown)
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" fill="#1f2328">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    ends = [at for curve in shown for at, _ in (*curve.points, *curve.marks)]
    for number, curve in enumerate(shown):
        parts += _panel(curve, TOP + HEIGHT * number, max(ends), COLOURS[number % len(COLOURS)])
    return "\n".join([*parts, "</svg>", ""])


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from low to high."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _panel(curve: Curve, top: int, end: float, colour: str) -> list[str]:
    numbers = [number for _, number in (*curve.points, *curve.marks)]
    low, high = min(numbers), max(numbers)
    margin = (high - low) * 0.08 or abs(high) * 0.05 or 0.05
    low, high = low - margin, high + margin
    bottom = top + HEIGHT - BOTTOM
    head = top + 18

    def across(at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * at / (end or 1)

    def up(number: float) -> float:
        return bottom - (bottom - head) * (number - low) / (high - low)

    parts = [f'<text x="{LEFT}" y="{top + 10}" font-weight="bold">{escape(curve.name)}</text>']
    for number in ticks(low, high):
        y = up(number)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d8dee4"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number:g}</text>')
    for at in ticks(0, end):
        x = across(at)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{_count(at)}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{bottom + 30}" text-anchor="end">samples</text>')
    path = " ".join(f"{across(at):.1f},{up(number):.1f}" for at, number in _thinned(curve.points))
    parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
    parts += [
        f'<circle cx="{across(at):.1f}" cy="{up(number):.1f}" r="4" fill="{DOT}"><title>{number:.4f}</title></circle>'
        for at, number in curve.marks
    ]
    if curve.marks:
        x = WIDTH - RIGHT
        parts.append(f'<text x="{x}" y="{top + 10}" text-anchor="end" fill="{DOT}">\u25cf evaluated</text>')
    return parts


def _thinned(points: Points) -> Points:
    """As many points as can be told apart; the last one is among them."""
    every = -(-len(points) // MOST_POINTS)
    return points if every <= 1 else (*points[::every], points[-1])


def _count(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"


LABELS = 11
"""Columns at the left of a drawing for a terminal."""
NARROWEST, WIDEST = 12, 68


def drawing(curve: Curve, width: int = WIDEST, height: int = 10) -> list[str]:
    """One curve with characters, for a terminal: ``*`` training, ``o`` other data."""
    numbers = [number for _, number in (*curve.points, *curve.marks)]
    if not numbers:
        return []
    low, high = min(numbers), max(numbers)
    end = max(at for at, _ in (*curve.points, *curve.marks)) or 1
    rows = [[" "] * width for _ in range(height)]
    for points, letter in ((curve.points, "*"), (curve.marks, "o")):
        for at, number in points:
            row = round((high - number) / ((high - low) or 1) * (height - 1))
            rows[row][min(width - 1, int(at / end * (width - 1)))] = letter
    labels = [f"{high - (high - low) * row / (height - 1):9.4f}" for row in range(height)]
    other = "  (o: evaluated)" if curve.marks else ""
    return [
        f"  {curve.name}{other}",
        *(f"{label} |{''.join(row).rstrip()}" for label, row in zip(labels, rows, strict=True)),
        f"{'':9} +{'-' * width}",
        f"{'':11}0{f'{_count(end)} samples':>{width - 1}}",
    ]
