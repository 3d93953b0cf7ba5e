"""Trains a config with umiak and with plain Paddle, each in processes of its own, and compares what they have recorded. A program.

    compare(CompareRequest(ours=[...], kind=ModelKind.DYGRAPH, mode="sync"), say=print)  ->  CompareOutcome

umiak's side reads the data and is recorded first: batches, seeds, first values. The plain side gets the same batches and first values. Where both differ, plain
Paddle is run once more: a model that differs from itself is not deterministic. Everything is in a private temporary directory, which goes at the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from umiak.adapters import own_modules
from umiak.core.problem import Exit, UmiakError
from umiak.core.value import value
from umiak.train.compare import records
from umiak.train.compare.differences import compared, unexplained
from umiak.train.compare.values import CompareOutcome, CompareVerdict, ModelKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

    from umiak.train.compare.values import Comparison

PLAIN, AGAIN, NUDGED = "plain", "plain-again", "plain-nudged"
PROGRAMS = {
    ModelKind.DYGRAPH: "umiak.train.compare.plain_dygraph",
    ModelKind.STATIC: "umiak.train.compare.plain_static",
}
MOST_NUDGES = 3
"""Of parameters, each with other chances: how far rounding grows in a model that multiplies it is chance itself."""


@value
class Explanation:
    """What umiak does otherwise on purpose, as a word that makes the plain side do the same."""

    verdict: CompareVerdict
    word: str
    fact: str
    """Of the plain side: whether it has what this is about."""
    reason: str


EXPLANATIONS = (
    Explanation(
        verdict=CompareVerdict.LAZY_ROWS,
        word="lazy",
        fact="sparse",
        reason="with `lazy_mode=True`: rows of tables move in steps that use them, where Paddle's Adam moves all rows in each step",
    ),
    Explanation(
        verdict=CompareVerdict.SPARSE_GRADIENTS,
        word="one-epsilon",
        fact="sparse",
        reason="with one epsilon for all rows: for sparse gradients on CPUs, Paddle's Adam adds epsilon to the root of rows that have no gradient "
        "in a step without the correction that other rows get",
    ),
    Explanation(
        verdict=CompareVerdict.SPARSE_GRADIENTS,
        word="all-rows",
        fact="spreads",
        reason="with gradients of all rows, as of `sparse=False`: of those of some rows, this optimizer of Paddle computes another step on CPUs. "
        "Momentum and RMSProp leave out rows whose ids are not in ascending order in the batch",
    ),
    Explanation(
        verdict=CompareVerdict.CLIPPED_APART,
        word="clip-apart",
        fact="clips_apart",
        reason="if each trainer's gradients are clipped before they are added up: no trainer knows the norm of the sum",
    ),
)
TAIL_LINES = 15
QUIET = {"GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}


@value
class CompareRequest:
    """What is to be compared."""

    ours: tuple[str, ...]
    """The command of umiak's side, in which ``{directory}`` stands for the place of records."""
    kind: ModelKind
    mode: str
    tolerance: float
    environ: dict[str, str]
    facts: dict[str, object] = {}
    """What umiak's side looks for in the directory of records."""


def as_process(words: Sequence[str], environ: Mapping[str, str], log: str) -> int:
    """Run a side, with its output in a file. Returns its exit status."""
    with open(log, "wb") as output:
        return subprocess.call(words, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


start: Callable[[Sequence[str], Mapping[str, str], str], int] = as_process
"""How a side is started. A program that compares many models may fork processes that have imported Paddle already."""


def compare(request: CompareRequest, say: Callable[[str], None]) -> CompareOutcome:
    """UmiakError if a side fails, with the end of what it said."""
    before = signal.signal(signal.SIGTERM, _end)  # otherwise the records, all values of every step, would stay
    directory = tempfile.mkdtemp(prefix="umiak-compare-")
    try:
        return _compared(request, directory, say)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _compared(request: CompareRequest, directory: str, say: Callable[[str], None]) -> CompareOutcome:
    if request.facts:
        records.write_facts(directory, request.facts)
    say(f"umiak trains ({request.mode}) ...")
    words = [each.replace("{directory}", directory) for each in request.ours]
    _run(words, request.environ, directory, records.OURS)
    say("plain Paddle trains with the same batches ...")
    _plain(request, directory, PLAIN)
    found = _difference(directory, records.OURS, PLAIN, request.tolerance)
    if not found.steps:
        raise UmiakError.of(
            "UM-TRAIN-583",
            "no step was taken, so nothing was compared",
            hint="the data has no samples, or fewer than a batch: look at the dataset and at batch_size",
            exit_status=Exit.JOB_FAILED,
        )
    facts = records.facts(directory)
    verdict, reasons = CompareVerdict.EQUAL, [*_known(directory)]
    if not found.is_equal:
        say("they differ: plain Paddle trains once more, to see whether it differs from itself ...")
        verdict, why = _why(request, directory, found)
        reasons += why
    return CompareOutcome(
        verdict=verdict,
        comparison=found,
        kind=request.kind,
        trainers=int(facts.get("trainers", 1)),
        servers=int(facts.get("servers", 0)),
        mode=request.mode,
        tolerance=request.tolerance,
        reasons=tuple(reasons),
        remarks=(*facts.get("remarks", ()), *records.facts(os.path.join(directory, records.OURS)).get("remarks", ())),
    )


def _why(request: CompareRequest, directory: str, found: Comparison) -> tuple[CompareVerdict, list[str]]:
    """What explains a difference."""
    _plain(request, directory, AGAIN)
    itself = _difference(directory, PLAIN, AGAIN, request.tolerance)
    why = []
    if not itself.is_equal:
        why.append(
            f"two runs of plain Paddle differ from step {itself.first_step} on by up to {itself.largest:.2g}: "
            "the model draws or computes something that no seed decides"
        )
        if not unexplained(found, itself):
            return CompareVerdict.NOT_DETERMINISTIC, why
    facts = records.facts(os.path.join(directory, PLAIN))
    possible = [each for each in EXPLANATIONS if facts.get(each.fact)]
    changed: dict[str, Comparison] = {}
    nudged: list[Comparison] = []
    for seed in range(1, MOST_NUDGES + 1):
        side = f"{NUDGED}-{seed}"
        _plain(request, directory, side, f"nudged={seed}")
        nudged.append(_difference(directory, PLAIN, side, request.tolerance))
        left = unexplained(found, *nudged)
        if not left:
            why.append(
                f"plain Paddle differs from itself by up to {max(each.largest for each in nudged):.2g} if its parameters change in their last digit before each step: "
                "rounding grows that far, for example where a gradient is zero but for rounding and Adam divides it by its own size"
            )
            return CompareVerdict.ROUNDING, why
        for each in possible:
            if each.word not in changed:
                side = f"{PLAIN}-{each.word}"
                _plain(request, directory, side, each.word)
                changed[each.word] = _difference(directory, records.OURS, side, request.tolerance)
            if not unexplained(changed[each.word], *nudged):
                why.append(f"umiak is within {changed[each.word].largest:.2g} of plain Paddle {each.reason}")
                return each.verdict, why
    if len(left) < len(found.differing):
        why.append(f"rounding explains all but {', '.join(left)}")
    return CompareVerdict.DIFFERS, why


def _plain(request: CompareRequest, directory: str, side: str, *more: str) -> None:
    words = [sys.executable, *own_modules.start_words(PROGRAMS[request.kind]), directory, side, *more]
    _run(words, request.environ, directory, side)


def _difference(directory: str, one: str, other: str, tolerance: float) -> Comparison:
    ours, plain = (records.states(os.path.join(directory, side)) for side in (one, other))
    return compared(ours, plain, tolerance, unread=records.facts(os.path.join(directory, PLAIN)).get("padding"))


def _known(directory: str) -> list[str]:
    """What is to be known about the plain side: first values that its seed does not lead to, functions that it lacks."""
    facts = records.facts(os.path.join(directory, PLAIN))
    names, found = facts.get("drawn_otherwise", []), []
    if facts.get("repaired"):
        found.append(
            "this Paddle can't build the program: functions that it lacks for static programs of the older form are umiak's on both sides"
        )
    found += [
        f"row {row} of {name}, its padding index, is not compared: Paddle's executor moves it, though nothing ever reads it"
        for name, row in facts.get("padding", {}).items()
    ]
    if not names:
        return found
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return [
        *found,
        f"first values of {shown} are drawn otherwise than by plain Paddle from this seed; plain Paddle started from umiak's",
    ]


def _run(words: list[str], environ: Mapping[str, str], directory: str, side: str) -> None:
    """One side. UmiakError with the end of its output if it fails."""
    log = os.path.join(directory, f"{side}.log")
    status = start(words, {**QUIET, **environ}, log)
    if status == 0:
        return
    with open(log, encoding="utf-8", errors="replace") as output:
        lines = [line.rstrip() for line in output if line.strip()]
    who, code = ("umiak", "UM-TRAIN-581") if side == records.OURS else ("plain Paddle", "UM-TRAIN-582")
    hint = (
        "train without --compare to see all of it"
        if side == records.OURS
        else "PaddleRec's own trainer would fail as well"
    )
    raise UmiakError.of(
        code,
        f"{who} fails with status {status}, so nothing can be compared",
        why="\n".join(lines[-TAIL_LINES:]) or "it said nothing",
        hint=hint,
        exit_status=Exit.JOB_FAILED,
    )
