"""What a person sees of a run, and what is written down: lines, a live line, a table, ``metrics.jsonl``. An adapter.

The first trainer tells; the others are silent. On a terminal one line is renewed in place; elsewhere every report is a line. Talk goes to
stderr; ``--json`` sends what ``metrics.jsonl`` gets to stdout, too.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from umiak.core.problem import Problem
from umiak.train.checkpoints.progress import EpochRow, finite
from umiak.train.reports import chart
from umiak.train.reports import text as report_text
from umiak.train.reports.rundir import RunDirectory
from umiak.train.reports.scalars import Scalars
from umiak.train.reports.text import ProgressReport

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

LIVE_EVERY_S = 0.2
NOT_A_TERMINAL = 80 - len("[trainer 0] ")


class Reporter:
    """One run's talk."""

    def __init__(
        self,
        run_dir: RunDirectory | None,
        *,
        err: TextIO | None = None,
        out: TextIO | None = None,
        is_json: bool = False,
        is_silent: bool = False,
        is_quiet: bool = False,
        goes_on: bool = False,
        columns: int | None = None,
    ) -> None:
        self._err = err or sys.stderr
        self._out = out or sys.stdout
        self._run_dir = run_dir
        self._is_json = is_json
        self._is_silent = is_silent
        self._is_quiet = is_quiet
        """What goes well is not said, only written down."""
        self._columns = columns
        self._is_live = columns is not None or self._err.isatty()
        self._is_blocked = False
        """Talk could not be written."""
        self._shown = 0
        self._last = 0.0
        self.on_closed: Callable[[], None] = lambda: None
        """Called when the reader of stdout or stderr has gone."""
        self._file: TextIO | None = None
        self._scalars: Scalars | None = None
        self._samples = 0
        """Of epochs that are over."""
        self._points: dict[str, list[tuple[float, float]]] = {}
        self._marks: dict[str, list[tuple[float, float]]] = {}
        if run_dir is not None and not is_silent:
            self._file = run_dir.open_metrics(goes_on=goes_on)
            run_dir.forget_outcome()
            self._scalars = Scalars(run_dir.path, self.note)

    def info(self, line: str) -> None:
        """One line that stays."""
        if not self._is_quiet:
            self._say(line)

    def note(self, text: str) -> None:
        """Something that may not be what was meant; ``--quiet`` does not leave it out."""
        self._say(f"note: {text}")

    def warning(self, problem: Problem) -> None:
        """Something that is probably wrong, with its cause and its remedy; ``--quiet`` does not leave it out."""
        for line in problem.lines("warning"):
            self._say(line)

    def stopped(self, line: str) -> None:
        """Why the run ends before its time: a part of its exit status, so ``--quiet`` does not leave it out."""
        self._say(line)

    def go_on(self, rows: Sequence[EpochRow]) -> None:
        """These epochs were told by an earlier run: the picture begins behind them."""
        self._samples = sum(row.samples for row in rows)

    def report(self, report: ProgressReport) -> None:
        """How it goes."""
        if self._is_silent:
            return
        self._write({"event": "progress", **_plain(report)})
        self._note(report.recent, self._samples + report.samples, "train")
        if self._is_quiet:
            return
        line = report_text.progress(report)
        if self._is_live:
            now = time.monotonic()
            if now - self._last < LIVE_EVERY_S:
                return
            self._last = now
            self._shown = self._columns or os.get_terminal_size(self._err.fileno()).columns - 1
            # A carriage return ends it, not begins it: a launcher shows lines when they have ended.
            self._put(self._err, f"{line[: self._shown].ljust(self._shown)}\r")
        else:
            self._put(self._err, f"{line}\n")

    def epoch(self, row: EpochRow, epochs: int, *, of_several: bool = False) -> None:
        """An epoch is done, or one of its phases."""
        if self._is_silent:
            return
        self._write({"event": "epoch" if row.lag is None and not row.day else "pass", **_row(row)})
        self._note(row.evaluated, self._samples + (0 if row.day else row.samples), "evaluate")
        self._samples += row.samples
        self.info(report_text.epoch(row, epochs, of_several=of_several))

    def event(self, name: str, **what: Any) -> None:
        """Something for the record."""
        if not self._is_silent:
            self._write({"event": name, **what})

    def end(self, rows: Sequence[EpochRow], title: str = "") -> None:
        """The table of epochs, and the picture."""
        if self._is_silent or not rows:
            return
        width = self._width()
        for line in report_text.table(rows, width):
            self.info(line)
        curves = [
            chart.Curve(name=name, points=tuple(self._points[name]), marks=tuple(self._marks.get(name, ())))
            for name in self._points
        ]
        if curves and self._run_dir is not None:
            self._run_dir.write_plot(chart.svg(curves, title))
            told = next((curve for curve in curves if curve.name == "auc"), curves[0])
            for line in chart.drawing(told, width=max(chart.NARROWEST, min(chart.WIDEST, width - chart.LABELS))):
                self.info(line)
            self.info(f"plot: {self._run_dir.plot}")

    def outcome(self, *, is_stopped: bool, is_resumable: bool, saved: str | None) -> None:
        """How it ended, for the one who has started this process."""
        if self._run_dir is not None and not self._is_silent:
            self._run_dir.write_outcome({"resumable": is_resumable, "stopped": is_stopped, "saved": saved})

    def close(self) -> None:
        self._clear()
        if self._is_blocked:
            self._drop_unwritten()
        if self._scalars is not None:
            self._scalars.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _say(self, line: str) -> None:
        if not self._is_silent:
            self._clear()
            self._put(self._err, f"{line}\n")

    def _width(self) -> int:
        """Of the lines that people read; where there is no terminal, with room for a launcher's tag in 80 columns."""
        if self._columns is not None:
            return self._columns
        try:
            return os.get_terminal_size(self._err.fileno()).columns - 1
        except (OSError, ValueError):
            return NOT_A_TERMINAL

    def _note(self, numbers: Mapping[str, float | None], samples: int, kind: str) -> None:
        """For the picture, and for anyone else who likes to see numbers."""
        for name, number in numbers.items():
            if "." in name or number is None or not math.isfinite(number):
                continue
            (self._points if kind == "train" else self._marks).setdefault(name, []).append((samples, number))
            if self._scalars is not None:
                self._scalars.put(f"{kind}/{name}", number, samples)

    def _clear(self) -> None:
        if self._shown:
            self._put(self._err, f"{' ' * self._shown}\r")
            self._shown = 0

    def _write(self, what: JsonObject) -> None:
        text = json.dumps({"time": round(time.time(), 3), **what})
        if self._file is not None:
            self._file.write(f"{text}\n")
            self._file.flush()
        if self._is_json:
            self._put(self._out, f"{text}\n")

    def _drop_unwritten(self) -> None:
        """Python's own last flush would turn what still can't be written into an exit status of 120."""
        try:
            self._err.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._err.fileno())

    def _put(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            # What is written from now on, by Python's own last flush too, goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            self.on_closed()
        except OSError:
            # The disk of a log is full: no reason to end a training. What was asked for on stdout must be whole.
            if stream is not self._err:
                raise
            self._is_blocked = True


def _plain(report: ProgressReport) -> JsonObject:
    return {
        "epoch": report.epoch,
        "stage": report.stage,
        "batch": report.batch,
        "samples": report.samples,
        "samples_per_s": round(report.samples_per_s, 1),
        "metrics": finite(report.metrics),
        "recent": finite(report.recent),
        "left_s": None if report.left_s is None else round(report.left_s, 1),
        "shares": {name: round(share, 4) for name, share in report.shares.items()},
        **({"lag": report.lag} if report.lag is not None else {}),
    }


def _row(row: EpochRow) -> JsonObject:
    return {
        "epoch": row.epoch,
        "stage": row.stage,
        "samples": row.samples,
        "seconds": round(row.seconds, 3),
        "cpu_s": round(row.cpu_s, 3),
        "trained": row.trained,
        "evaluated": row.evaluated,
        **({"day": row.day, "pass": row.number} if row.day else {}),
        **({"model": row.model} if row.model else {}),
        **({"blank_lines": row.blank_lines} if row.blank_lines else {}),
        **({"bad_lines": row.bad_lines} if row.bad_lines else {}),
        **({"pass": row.epoch + 1, "lag": row.lag} if row.lag is not None else {}),
    }
