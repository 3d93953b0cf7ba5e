"""Whether declared slots and those of the data fit. A decider.

PaddleRec fills a slot that a line does not have with zeros and passes over one that was not declared. A misspelled name is then trained
on as zeros in silence; its own first example did. Here both stop the run: a declared slot that no line has, and one that every
line has and nobody declared. The two are named together if one may be a slip for the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from umiak.core.nearest import nearest
from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.data import Statistics
from umiak.train.config.values import Dataset


@value
class Seen:
    """What of a reader's statistics matters here; those of several trainers can be added."""

    samples: int = 0
    missing: dict[str, int] = {}
    """For each declared slot, the samples that lack it."""
    undeclared: dict[str, int] = {}
    """For each other slot, the samples that have it."""
    blank_lines: int = 0
    bad_lines: int = 0
    """Lines that were passed over."""

    @property
    def never(self) -> tuple[str, ...]:
        """Declared slots that no sample has."""
        return tuple(name for name, times in self.missing.items() if self.samples and times == self.samples)

    @property
    def always(self) -> tuple[str, ...]:
        """Slots that every sample has and that were not declared."""
        return tuple(name for name, times in self.undeclared.items() if self.samples and times == self.samples)


def seen(statistics: Statistics) -> Seen:
    """What a reader has seen."""
    return Seen(
        samples=statistics.samples,
        missing=dict(statistics.missing),
        undeclared={name: times.samples for name, times in statistics.unknown.items()},
        blank_lines=statistics.blank_lines,
        bad_lines=statistics.bad_lines,
    )


def together(all_seen: Iterable[Seen]) -> Seen:
    """What several readers have seen, all trainers' of an epoch for instance."""
    samples = blank = bad = 0
    missing: dict[str, int] = {}
    undeclared: dict[str, int] = {}
    for each in all_seen:
        samples += each.samples
        blank += each.blank_lines
        bad += each.bad_lines
        for name, times in each.missing.items():
            missing[name] = missing.get(name, 0) + times
        for name, times in each.undeclared.items():
            undeclared[name] = undeclared.get(name, 0) + times
    return Seen(samples=samples, missing=missing, undeclared=undeclared, blank_lines=blank, bad_lines=bad)


def problems(
    dataset: Dataset, what: Seen, *, files: Sequence[str], where: str | None = None, extra_allowed: bool = False
) -> tuple[Problem, ...]:
    """What does not fit. ``where`` is the config's line that declares the slots; ``extra_allowed`` lets slots go unused."""
    lines = f"the {what.samples} lines that were read" if what.samples != 1 else "the only line"
    data = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more" if files else "the data"
    found = []
    free = list(what.always)
    declared = [*(slot.name for slot in dataset.dense_slots), *dataset.sparse_slots]
    never = () if dataset.missing_slots_allowed else what.never
    for name in sorted(never, key=declared.index):
        why: str | None
        meant = _meant(name, free, never)
        if meant is not None:
            free.remove(meant)
            why = f"every line has a slot {meant}, which is not declared"
            hint = f"did you mean `{meant}`? The names in a config must be those of the data"
        else:
            why = _others(free)
            hint = "fix its name, or remove it from the config; it would be all zeros in training"
        what_text = f"dataset {dataset.name}: slot {name} is declared, and none of {lines} of {data} has it"
        if what.samples == 1:
            what_text = f"dataset {dataset.name}: slot {name} is declared, and {lines} of {data} does not have it"
        found.append(Problem(code="UM-DATA-009", what=what_text, why=why, hint=hint, where=where))
    if free and not extra_allowed:
        found.append(
            Problem(
                code="UM-DATA-009",
                what=f"dataset {dataset.name}: every one of {lines} of {data} has {_named(free)}, not declared",
                hint="declare what is to be trained on, in sparse_slots or dense_slots; or take it out of the data",
                where=where,
            )
        )
    return tuple(found)


def _meant(name: str, free: Sequence[str], never: Sequence[str]) -> str | None:
    """The undeclared slot that a declared one may stand for: the nearest, or the only one where there is only one of each."""
    if not free:
        return None
    if len(free) == len(never) == 1:
        return free[0]
    return nearest(name, free) or _same_beginning(name, free)


def _same_beginning(name: str, free: Sequence[str]) -> str | None:
    """``dense_feature`` for ``dense_var``: the only one with the same first word."""
    first = name.partition("_")[0]
    alike = [each for each in free if "_" in name and each.partition("_")[0] == first]
    return alike[0] if len(alike) == 1 else None


def _others(free: Sequence[str]) -> str | None:
    return f"every line has {_named(free)}, not declared" if free else None


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return f"slot {shown}" if len(names) == 1 else f"slots {shown}"
