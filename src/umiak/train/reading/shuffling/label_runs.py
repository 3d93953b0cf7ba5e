"""Whether labels come in long stretches of one class, as in files that are sorted by them. A decider.

    runs = LabelRuns()
    runs.add(negatives=512, positives=0, file=lambda: "part-0")     some samples, in the order in which they are learned from
    found = long_run([runs.seen(), ...])                            of all trainers, when an epoch is over

Where samples come in no particular order and the rarer class has the share q, a stretch of L samples without it occurs n * (1 - q)^L times in n samples. A stretch is told
if that is next to never: L above 2 * (ln n + 5) / q, which gives far less than one in a hundred thousand whatever n and q are. It must also be a tenth of what the trainer
reads: clicks do come in bursts, by hour or by campaign, and that is no reason to worry. So 1 % of clicks in small batches never do, and a sorted file always does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from umiak.core.problem import Problem
from umiak.core.value import replace, value

LOOK_EVERY = 256
"""Samples, at least, from one look at the counts to the next."""
LEAST_RUN = 500
"""Shorter stretches are not told, whatever the labels are."""
LEAST_SAMPLES = 1000
"""So many samples of one class alone are told, though nothing is known about the other one."""
LEAST_SHARE = 0.1
"""Of a trainer's samples."""


@value
class LabelsSeen:
    """The labels that one trainer has seen, and the longest stretch of one class."""

    negatives: int = 0
    positives: int = 0
    label: int = 0
    length: int = 0
    start: int = 0
    """How many samples came before the stretch."""
    file: str | None = None
    """Where it began."""

    @property
    def total(self) -> int:
        return self.negatives + self.positives


@value
class LongRun:
    """A stretch that is hardly a chance."""

    rank: int
    seen: LabelsSeen
    others: int
    """Samples of the other class, of all trainers."""
    total: int


class LabelRuns:
    """Counts labels as they come. Several samples at a time: a stretch consists of whole such groups."""

    def __init__(self) -> None:
        self._counts = [0, 0]
        self._label: int | None = None
        self._length = 0
        self._start = 0
        self._file: str | None = None
        self._longest = LabelsSeen()

    def add(self, *, negatives: int, positives: int, file: Callable[[], str | None]) -> None:
        """Some samples more. ``file`` says where they come from, and is asked where a stretch begins."""
        size = negatives + positives
        label = None if negatives and positives else int(positives > 0)
        if size and (label is None or label != self._label):
            self._label, self._length = label, 0
            self._start, self._file = sum(self._counts), None if label is None else file()
        self._counts[0] += negatives
        self._counts[1] += positives
        if size and label is not None:
            self._length += size
            if self._length > self._longest.length:
                self._longest = LabelsSeen(label=label, length=self._length, start=self._start, file=self._file)

    def seen(self) -> LabelsSeen:
        return replace(self._longest, negatives=self._counts[0], positives=self._counts[1])


class LabelWatch:
    """Counts the labels of a stage from what its metrics have counted, every few samples."""

    def __init__(self, classes: Callable[[], tuple[int, int] | None]) -> None:
        """``classes``: negative and positive samples so far; None: nobody tells them apart."""
        self._classes = classes
        self._before = classes()
        self._runs = LabelRuns()
        self._waiting = 0

    def passed(self, samples: int, file: Callable[[], str | None]) -> None:
        """So many samples more were counted."""
        self._waiting += samples
        if self._waiting >= LOOK_EVERY:
            self._look(file)

    def seen(self) -> LabelsSeen | None:
        self._look(lambda: None)
        return self._runs.seen() if self._before is not None else None

    def _look(self, file: Callable[[], str | None]) -> None:
        self._waiting = 0
        now = self._classes() if self._before is not None else None
        if now is not None and self._before is not None:
            self._runs.add(negatives=now[0] - self._before[0], positives=now[1] - self._before[1], file=file)
            self._before = now


def long_run(seen: Sequence[LabelsSeen | None]) -> LongRun | None:
    """The longest stretch of all trainers, if it is hardly a chance; ``seen`` is in order of rank."""
    known = [(rank, each) for rank, each in enumerate(seen) if each is not None]
    counts = [sum(each.negatives for _, each in known), sum(each.positives for _, each in known)]
    total = sum(counts)
    found = []
    for rank, each in known:
        others = counts[1 - each.label]
        is_long = (
            each.length >= max(LEAST_RUN, LEAST_SHARE * each.total)
            and each.length * others > 2 * (math.log(total) + 5) * total
            if others
            else total >= LEAST_SAMPLES
        )
        if is_long:
            found.append(LongRun(rank=rank, seen=each, others=others, total=total))
    return max(found, key=lambda run: run.seen.length, default=None)


def problem(run: LongRun, dataset: str, *, window: int) -> Problem:
    """What is told about it. ``window``: of the shuffle that was asked for."""
    seen = run.seen
    if not run.others:
        return Problem(
            code="UM-DATA-180",
            what=f"dataset {dataset}: all {run.total:,} labels of the epoch are {seen.label}",
            why="there is nothing to tell apart, and AUC has no meaning",
            hint="is the label the first of the slots, and is this all of the data?",
        )
    where = f", from {seen.file} on" if seen.file else ""
    who = f"samples {seen.start + 1:,} to {seen.start + seen.length:,} of trainer {run.rank}"
    wider = f"`shuffle: {max(100_000, 10 * window)}` in the runner"
    return Problem(
        code="UM-DATA-180",
        what=f"dataset {dataset}: {seen.length:,} samples in a row have label {seen.label}: {who}{where}",
        why=f"{run.others:,} of the {run.total:,} labels of the epoch are {1 - seen.label}, so this data seems to be sorted; a model "
        "that is trained on it forgets one class while it learns the other, whatever the metrics of the training say",
        hint=f"a larger window: {wider}; files that are compressed, or opened by a RecDataset, are not cut: shuffle these beforehand"
        if window
        else f"shuffle it: {wider}",
    )
