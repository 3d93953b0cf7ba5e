"""Training in words: a line of progress, an epoch's line, the table at the end. A decider."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from umiak.core.value import value

if TYPE_CHECKING:
    from umiak.train.checkpoints.progress import EpochRow
    from umiak.train.config.days import Pass

SHOWN = 4
"""So many names of many are told."""
LEAST_SHARE = 0.005
"""Smaller parts of the time are not told."""


@value
class ProgressReport:
    """How training goes at one moment."""

    epoch: int
    epochs: int
    stage: str
    batch: int
    """Batches of all trainers in this stage."""
    samples: int
    """Samples of all trainers in this stage."""
    samples_per_s: float
    metrics: dict[str, float]
    """Since the beginning of the epoch."""
    recent: dict[str, float]
    """Since the last report."""
    left_s: float | None
    shares: dict[str, float]
    """Of this trainer's time."""
    title: str = ""
    """What is trained on, in a few words, if not an epoch."""
    lag: int | None = None
    """Messages of a stream that are there and were not read."""


def progress(report: ProgressReport) -> str:
    """``epoch 1/4  batch 120  31,200 samples/s  loss 0.4312  auc 0.7812  3m 12s left  compute 70%, push 16%``"""
    parts = [
        report.title or f"epoch {report.epoch + 1}/{report.epochs}",
        f"batch {report.batch:,}",
        f"{report.samples_per_s:,.0f} samples/s",
        *numbers(report.metrics),
    ]
    if report.left_s is not None:
        parts.append(f"{duration(report.left_s)} left")
    if report.lag is not None:
        parts.append(f"lag {report.lag:,}")
    shares = [f"{name} {share:.0%}" for name, share in report.shares.items() if share >= LEAST_SHARE]
    return "  ".join([*parts, ", ".join(shares)])


def epoch(row: EpochRow, epochs: int, *, of_several: bool = False) -> str:
    """An epoch, one of its phases, or a pass, is done."""
    title = row.model or (day_pass(row.day, row.number) if row.day else f"epoch {row.epoch + 1}/{epochs}")
    title = title if row.lag is None else stream_pass(row.epoch)
    parts = [
        f"{title}, {row.stage}, done" if of_several else f"{title} done",
        f"{row.samples:,} samples in {duration(row.seconds)}",
        *numbers(row.trained),
    ]
    skipped = [(row.blank_lines, "blank"), (row.bad_lines, "bad")]
    parts[1] += "".join(
        f", {count:,} {what} line{'' if count == 1 else 's'} skipped" for count, what in skipped if count
    )
    if row.lag is not None:
        parts.append(f"lag {row.lag:,}")
    if row.evaluated:
        parts.append(f"{'before it' if row.day else 'evaluated'}: {'  '.join(numbers(row.evaluated))}")
    return "  ".join(parts)


def day_pass(day: str, number: int) -> str:
    """A pass of online learning."""
    return f"{day} pass {number}"


def stream_pass(number: int) -> str:
    """A pass over messages of a stream, counted from 0."""
    return f"pass {number + 1}"


def waiting(wanted: Pass, awaited: Sequence[str]) -> str:
    """``20260131 pass 2 waits for data/20260131/0030/done``"""
    return f"{day_pass(wanted.day, wanted.number)} waits for {some(awaited)}"


def some(names: Sequence[str]) -> str:
    """The first of many names."""
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown


def table(rows: Sequence[EpochRow], columns: int | None = None) -> list[str]:
    """All epochs, or passes, one below the other; where that is wider than so many columns, side by side, a line for each number."""
    trained = list(dict.fromkeys(name for row in rows for name in row.trained if "." not in name))
    evaluated = list(dict.fromkeys(name for row in rows for name in row.evaluated if "." not in name))
    several = len({row.stage for row in rows}) > 1
    online = any(row.day for row in rows)
    streaming = any(row.lag is not None for row in rows)
    title = "model" if any(row.model for row in rows) else "pass" if online or streaming else "epoch"
    head = [title, *(["phase"] if several else []), "samples", "seconds", "samples/s", *trained]
    head += [f"{'before: ' if online else 'evaluated '}{name}" for name in evaluated]
    lines = [head]
    for row in rows:
        speed = row.samples / row.seconds if row.seconds else 0.0
        cells = [
            row.model or (f"{row.day}/{row.number}" if row.day else str(row.epoch + 1)),
            *([row.stage] if several else []),
            f"{row.samples:,}",
            f"{row.seconds:.1f}",
            f"{speed:,.0f}",
        ]
        cells += [_number(row.trained.get(name)) for name in trained]
        cells += [_number(row.evaluated.get(name)) for name in evaluated]
        lines.append(cells)
    shown = _aligned(lines)
    if columns is None or len(shown[0]) <= columns:
        return shown
    return _turned(lines, columns)


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]


def _turned(lines: Sequence[Sequence[str]], columns: int) -> list[str]:
    """Columns become lines, in as many blocks as are needed; each has at least one row of the table."""
    head, *rows = lines
    shown: list[str] = []
    while rows:
        count = len(rows)
        while True:
            block = [line.rstrip() for line in _aligned([*zip(head, *rows[:count], strict=True)])]
            if count == 1 or max(map(len, block)) <= columns:
                break
            count -= 1
        shown += block
        rows = rows[count:]
    return shown


def numbers(metrics: Mapping[str, float | None]) -> list[str]:
    """``loss 0.4312``, without the parts of metrics that have several."""
    return [f"{name} {_number(each)}" for name, each in metrics.items() if "." not in name]


def duration(seconds: float) -> str:
    """``3m 12s``"""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, whole = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m {whole:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m"


def _number(each: float | None) -> str:
    return "-" if each is None or math.isnan(each) else f"{each:.4f}"
