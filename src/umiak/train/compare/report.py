"""A comparison as people read it, and as JSON. A decider."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from umiak.train.compare.values import CompareVerdict

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.train.compare.values import CompareOutcome, ParameterDifference

MOST_ROWS = 40
"""Parameters that a table shows; JSON has all of them."""


def text(outcome: CompareOutcome) -> str:
    """A table of what differs, then losses, and one sentence with the verdict."""
    comparison = outcome.comparison
    lines = []
    if comparison.differing:
        rows: list[tuple[str, ...]] = [("parameter", "shape", "first step", "largest", "relative", "moved")]
        rows += [_row(each) for each in comparison.differing[:MOST_ROWS]]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines += [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        left = len(comparison.differing) - MOST_ROWS
        lines += [f"... and {left} more: --json lists all"] if left > 0 else []
        lines += [""]
    ours, plain = comparison.last_losses
    lines.append(f"loss of step {comparison.steps}: umiak {_number(ours)}, plain Paddle {_number(plain)}")
    word = "note" if outcome.verdict is CompareVerdict.EQUAL else "reason"
    lines += [f"{word}: {each}" for each in outcome.reasons]
    lines += [f"remark: {each}" for each in outcome.remarks]
    lines.append(sentence(outcome))
    return "\n".join(lines)


BUT = {
    CompareVerdict.NOT_DETERMINISTIC: "so do two runs of plain Paddle with the same seed and batches",
    CompareVerdict.ROUNDING: "so does plain Paddle from itself if its parameters change in their last digit",
    CompareVerdict.SPARSE_GRADIENTS: "not if Paddle computes with gradients of some rows as with those of all",
    CompareVerdict.LAZY_ROWS: "not if Paddle's Adam has `lazy_mode=True`: tables move a row in steps that use it",
    CompareVerdict.CLIPPED_APART: "not if each trainer's gradients are clipped before they are added up",
}
"""What takes the edge off a difference."""


def sentence(outcome: CompareOutcome) -> str:
    """The verdict."""
    comparison = outcome.comparison
    who = how(outcome)
    count = f"{len(comparison.parameters)} parameters and buffers"
    if outcome.verdict is CompareVerdict.EQUAL:
        return (
            f"equal: after each of {_steps(comparison.steps)} {count} and the loss of umiak ({who}) are plain Paddle's "
            f"within {outcome.tolerance:g}; the largest difference is {comparison.largest:.2g}"
        )
    apart = f"{len(comparison.differing)} of {count}" if comparison.differing else "the loss"
    said = f"umiak ({who}) and plain Paddle differ by more than {outcome.tolerance:g} from step {comparison.first_step} on: {apart}"
    if outcome.verdict is CompareVerdict.DIFFERS:
        return f"differs: {said}"
    return f"{outcome.verdict.value}: {said}; but {BUT[outcome.verdict]}"


def how(outcome: CompareOutcome) -> str:
    """Who trained, in words."""
    if outcome.trainers == 1 and not outcome.servers:
        return "alone"
    servers = f"{outcome.servers} server{'s' if outcome.servers > 1 else ''} and " if outcome.servers else ""
    return f"{servers}{outcome.trainers} trainer{'s' if outcome.trainers > 1 else ''}, {outcome.mode}"


def data(outcome: CompareOutcome) -> JsonObject:
    """The same for programs. An infinite number is null."""
    comparison = outcome.comparison
    ours, plain = comparison.last_losses
    return {
        "verdict": outcome.verdict.value,
        "model": outcome.kind.value,
        "trainers": outcome.trainers,
        "servers": outcome.servers,
        "mode": outcome.mode,
        "steps": comparison.steps,
        "tolerance": outcome.tolerance,
        "first_step": comparison.first_step,
        "largest": _json(comparison.largest),
        "loss": {
            "first_step": comparison.first_loss_step,
            "largest": _json(comparison.largest_loss),
            "umiak": _json(ours),
            "plain": _json(plain),
        },
        "reasons": list(outcome.reasons),
        "remarks": list(outcome.remarks),
        "parameters": [
            {
                "name": each.name,
                "shape": list(each.shape),
                "first_step": each.first_step,
                "largest": _json(each.largest),
                "relative": _json(each.relative),
                "moved": _json(each.moved),
                "note": each.note,
            }
            for each in comparison.parameters
        ],
    }


def _row(each: ParameterDifference) -> tuple[str, ...]:
    shape = "x".join(map(str, each.shape)) or "1"
    first = "start" if each.first_step == 0 else str(each.first_step)
    largest = each.note or f"{each.largest:.2e}"
    return each.name, shape, first, largest, f"{each.relative:.2e}", f"{each.moved:.2e}"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _number(number: float | None) -> str:
    return "none" if number is None else f"{number:.8g}"


def _json(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else number
