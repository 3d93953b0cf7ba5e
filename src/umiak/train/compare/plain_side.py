"""What both plain sides of a comparison have in common: their words, what they read, where they write. An adapter, for Paddle.

    python -m umiak.train.compare.plain_dygraph DIRECTORY SIDE [nudged=SEED] [one-epsilon] [all-rows] [lazy] [clip-apart]

A side gets the batches and first values that umiak's trainers have recorded in DIRECTORY, and writes its own values after every step to DIRECTORY/SIDE. Nothing of
the trainer is imported, so neither are its ways to draw, to make tensors and to reach what Paddle calls private.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.core.value import value
from umiak.train.compare import records

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from umiak.data.array_types import AnyArray
    from umiak.train.compare.values import RecordedBatch


@value
class PlainOptions:
    """What a side does otherwise than Paddle does it, to see what explains a difference."""

    nudge_seed: int | None = None
    """Every parameter is moved by the last digit of float32, up or down, before each step."""
    has_one_epsilon: bool = False
    """Adam moves rows without a gradient as `deviations` says."""
    spreads_rows: bool = False
    """Gradients of some rows are made gradients of all rows before the optimizer gets them."""
    is_lazy: bool = False
    """Adam leaves them alone (`lazy_mode`)."""
    clips_apart: bool = False
    """Each trainer's gradients are clipped before they are added up."""


class PlainSide(ABC):
    """Plain Paddle with what was recorded."""

    def __init__(self, directory: str, side: str, options: PlainOptions) -> None:
        self._directory = directory
        self._place = os.path.join(directory, side)
        self._options = options
        self._facts = records.facts(directory)
        self._trainers = int(self._facts["trainers"])
        self._writer = records.StepWriter(self._place)
        self._nudges = None if options.nudge_seed is None else np.random.default_rng(options.nudge_seed)

    @abstractmethod
    def run(self) -> None:
        """All steps that are recorded."""

    @abstractmethod
    def _array(self, name: str) -> AnyArray: ...
    @abstractmethod
    def _set(self, name: str, array: AnyArray) -> None: ...

    def _recorded(self) -> list[Iterator[RecordedBatch]]:
        """The batches of each trainer."""
        place = os.path.join(self._directory, records.BATCHES)
        return [records.batches(place, rank) for rank in range(self._trainers)]

    def _start(self, known: Container[str]) -> list[str]:
        """Take over umiak's first values. Returns the names of parameters that plain Paddle has drawn otherwise from the same seed."""
        first = next(records.states(os.path.join(self._directory, records.OURS)))
        drawn = []
        for name, there in first.values.items():
            if name in known and not np.array_equal(self._array(name), there, equal_nan=there.dtype.kind == "f"):
                drawn.append(name)
                self._set(name, np.array(there))
        return drawn


def cpu_generator() -> Any:
    """Paddle's own, of the CPU."""
    return paddle.base.core.default_cpu_generator()


def main(argv: list[str], kind: Callable[[str, str, PlainOptions], PlainSide]) -> int:
    """The exit status of a program that is such a side."""
    directory, side, *words = argv
    seeds = [int(word.partition("=")[2]) for word in words if word.startswith("nudged=")]
    options = PlainOptions(
        nudge_seed=seeds[0] if seeds else None,
        has_one_epsilon="one-epsilon" in words,
        spreads_rows="all-rows" in words,
        is_lazy="lazy" in words,
        clips_apart="clip-apart" in words,
    )
    kind(directory, side, options).run()
    return 0
