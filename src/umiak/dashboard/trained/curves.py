"""Curves of a run from the lines of its metrics.jsonl, thinned to what a screen can show. A decider.

    curves = Curves()
    new = curves.feed(lines)             the points that these lines added
    curves.as_data()                     {"train/loss": {"x": [...], "time": [...], "y": [...]}, ...}

A curve never has more than `MOST_POINTS` points: when it would, neighbours become two, the lowest and the highest of them, so that no spike is
lost. ``x`` is the number of samples since the run began, over all epochs.
"""

from __future__ import annotations

import math

from umiak.core import light_json
from umiak.core.value import value
from umiak.dashboard.finite import time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.core.json_types import JsonMapping, JsonObject

MOST_POINTS = 2000
MOST_CURVES = 64
"""More names than that are left out, and counted."""
MOST_EVENTS = 500


@value
class CurvePoint:
    """One point of one curve."""

    curve: str
    x: float
    time_s: float
    y: float

    @property
    def row(self) -> list[float | str]:
        return [self.curve, self.x, self.time_s, self.y]


class MetricCurve:
    """One series of numbers."""

    def __init__(self) -> None:
        self.x: list[float] = []
        self.time_s: list[float] = []
        self.y: list[float] = []

    def add(self, point: CurvePoint) -> None:
        self.x.append(point.x)
        self.time_s.append(point.time_s)
        self.y.append(point.y)
        if len(self.x) > MOST_POINTS:
            self._thin()

    def _thin(self) -> None:
        """Of every four points the lowest and the highest stay, in their order. The newest stays whatever it is."""
        kept: list[int] = []
        last = len(self.y) - 1
        for begin in range(0, last, 4):
            group = range(begin, min(begin + 4, last))
            low, high = min(group, key=self.y.__getitem__), max(group, key=self.y.__getitem__)
            kept += sorted({low, high})
        kept.append(last)
        for column in (self.x, self.time_s, self.y):
            column[:] = [column[at] for at in kept]


class Curves:
    """All curves of one run, fed as its file grows."""

    def __init__(self) -> None:
        self.curves: dict[str, MetricCurve] = {}
        self.events: list[JsonObject] = []
        """Epochs, checkpoints and other things that happened."""
        self.latest: JsonObject = {}
        """The newest report of progress."""
        self.bad_lines = 0
        self.left_out = 0
        self.began_s: float | None = None
        self._before = 0
        """Samples of epochs that are over."""

    def feed(self, lines: Iterable[bytes]) -> list[CurvePoint]:
        """What these lines add."""
        new: list[CurvePoint] = []
        for line in lines:
            try:
                new += self._take(light_json.loads(line))
            except (ValueError, OverflowError, TypeError, KeyError, AttributeError, RecursionError):
                self.bad_lines += 1
        return new

    def _take(self, entry: JsonMapping) -> list[CurvePoint]:
        time_s, event = time_of(entry["time"]), str(entry["event"])
        if self.began_s is None:
            self.began_s = time_s
        if event == "progress":
            self.latest = dict(entry)
            x = float(self._before + int(entry.get("samples") or 0))
            numbers = {f"train/{name}": each for name, each in (entry.get("recent") or {}).items()}
            numbers["speed/samples_per_s"] = entry.get("samples_per_s")
            numbers |= {f"share/{name}": each for name, each in (entry.get("shares") or {}).items()}
            return self._add(x, time_s, numbers)
        points: list[CurvePoint] = []
        if event in ("epoch", "pass"):
            samples = int(entry.get("samples") or 0)
            x = float(self._before + (0 if event == "pass" else samples))
            numbers = {f"evaluated/{name}": each for name, each in (entry.get("evaluated") or {}).items()}
            numbers |= {f"epoch/{name}": each for name, each in (entry.get("trained") or {}).items()}
            points = self._add(x, time_s, numbers)
            self._before += samples
        self.events.append(dict(entry))
        del self.events[:-MOST_EVENTS]
        return points

    def _add(self, x: float, time_s: float, numbers: JsonMapping) -> list[CurvePoint]:
        added = []
        for name, number in numbers.items():
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                continue
            if name not in self.curves and len(self.curves) >= MOST_CURVES:
                self.left_out += 1
                continue
            point = CurvePoint(curve=name, x=x, time_s=time_s, y=float(number))
            self.curves.setdefault(name, MetricCurve()).add(point)
            added.append(point)
        return added

    @property
    def samples(self) -> int:
        """Since the run began, over all epochs."""
        ends = [curve.x[-1] for curve in self.curves.values() if curve.x]
        return int(max(ends, default=self._before))

    def as_data(self) -> JsonObject:
        return {name: {"x": each.x, "time": each.time_s, "y": each.y} for name, each in self.curves.items()}


def last_metric(curves: Curves) -> tuple[str, float | None, tuple[float, ...]]:
    """The number that the list shows: its name, the newest value, and the last values for a sparkline. Evaluations count more than batches,
    an AUC more than other metrics, and those more than the loss."""
    names = sorted(curves.curves, key=_importance)
    for name in names:
        if name.startswith(("train/", "evaluated/", "epoch/")) and curves.curves[name].y:
            values = curves.curves[name].y
            return name, values[-1], tuple([round(each, 6) for each in values[-SPARKLINE:]])
    return "", None, ()


SPARKLINE = 24


def metric_name(curve: str) -> str:
    """As people call it: ``train/auc`` is ``auc``, ``evaluated/auc`` is ``auc (evaluated)``."""
    kind, _, metric = curve.partition("/")
    return metric if kind == "train" else f"{metric} ({kind})" if kind in ("evaluated", "epoch") else curve


def _importance(name: str) -> tuple[int, int, str]:
    kind, _, metric = name.partition("/")
    order = 0 if metric == "auc" else 2 if metric == "loss" else 1 if "." not in metric else 3
    return order, ("train", "evaluated", "epoch").index(kind) if kind in ("train", "evaluated", "epoch") else 9, name
