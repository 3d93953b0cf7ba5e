"""The table of what operations compute: a function of Paddle's dynamic graph for each type, put there by the modules beside this one. A program."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from umiak.data.array_types import AnyArray
    from umiak.fluid.arguments import Arguments, Function

Tensor: TypeAlias = Any
"""A tensor of Paddle's dynamic graph; Paddle has no types that could be checked."""


class SequenceLevel(tuple[int, ...]):
    """Where the sequences of one level begin and end; what follows from it is found once."""

    @cached_property
    def lengths(self) -> AnyArray:
        """How many items each sequence has."""
        return np.diff(np.asarray(self, np.int64))

    @cached_property
    def is_single(self) -> bool:
        """Whether each sequence has one item: a slot with one id in each sample."""
        return bool((self.lengths == 1).all())


def level_of(offsets: Iterable[Any]) -> SequenceLevel:
    """Offsets of any kind."""
    if isinstance(offsets, SequenceLevel):
        return offsets
    if isinstance(offsets, np.ndarray):
        return SequenceLevel(offsets.astype(np.int64, copy=False).tolist())
    return SequenceLevel(int(each) for each in offsets)


UNREAD = object()
"""What a kernel gives in place of an output that nobody reads: `Frame.is_unread`."""


class Frame:
    """What a run knows beside values: offsets of sequences by the variables' names, the scope, the operation that is running."""

    def __init__(self, values: Arguments, *, training: bool = False) -> None:
        self.values, self.training = values, training
        self.arrays: dict[str, AnyArray] = {}
        """What was fed and nobody needs as a tensor."""
        self.slots: dict[str, Any] = {}
        """What was fed and nobody needs even as an array: `umiak.fluid.running.slots`."""
        self.offsets: dict[str, tuple[SequenceLevel, ...]] = {}
        self.operation: Any = None
        self.unread: Collection[str] = ()
        """What no operation reads, and nobody fetches."""
        self.run_block: Callable[[int], None] | None = None
        self.keep: Callable[[str, Any], None] | None = None
        self.exchange: Any = None
        """What operations ask that reach other processes: `umiak.fluid.distributed`."""

    def is_unread(self) -> bool:
        """Whether the running operation computes something that nobody reads: it may give `UNREAD` and only do what else it does."""
        return bool(self.unread) and self.operation.outputs[0] in self.unread

    def offsets_of(self, parameter: str, *, level: int = -1) -> SequenceLevel:
        """Where the sequences of an argument begin and end; an error if it has none."""
        name = self.operation.arguments[parameter].name
        if name not in self.offsets:
            raise ValueError(f"{name} has no sequences: feed it as a LoDTensor, or declare it with lod_level=1")
        return self.offsets[name][level]

    def all_offsets(self, parameter: str) -> tuple[SequenceLevel, ...]:
        """All levels, () if it has none."""
        return self.offsets.get(self.operation.arguments[parameter].name, ())

    def set_offsets(self, *levels: Iterable[int], output: int = 0) -> None:
        """The sequences of an output; without levels it has none."""
        self.offsets[self.operation.outputs[output]] = tuple(level_of(each) for each in levels)


class Kernel:
    """What an operation computes, and what it needs beside its arguments."""

    def __init__(
        self,
        function: Function,
        *,
        frame: bool,
        sequences: bool,
        shapes: Function | None,
        otherwise: Function | None = None,
    ) -> None:
        self.function, self.frame, self.sequences, self.shapes = function, frame, sequences, shapes
        self.otherwise = otherwise


KERNELS: dict[str, Kernel] = {}


def kernel(
    name: str | None = None,
    *,
    frame: bool = False,
    sequences: bool = False,
    shapes: Function | None = None,
    otherwise: Function | None = None,
) -> Callable[[Function], Function]:
    """Puts a function into the table, under its own name without a final underscore.

    ``frame``: its first argument is the `Frame`. ``sequences``: it sets the offsets of its outputs itself; others hand on those of
    their inputs. ``shapes``: finds shapes and types of the outputs where a trial run would cost too much or not show them; a third
    item is the level of sequences, if it is not that of the inputs. ``otherwise``: the same, where no trial run fits.
    """

    def register(function: Function) -> Function:
        KERNELS[name or function.__name__.rstrip("_")] = Kernel(
            function, frame=frame or sequences, sequences=sequences, shapes=shapes, otherwise=otherwise
        )
        return function

    return register


def hand_on_offsets(frame: Frame, inputs: Iterable[str], outputs: Iterable[tuple[str, Any]]) -> None:
    """An output with as many rows as an input with sequences has the same sequences."""
    for name in inputs:
        offsets = frame.offsets.get(name)
        if not offsets:
            continue
        rows = offsets[-1][-1]
        for output, result in outputs:
            if output not in frame.offsets and getattr(result, "ndim", None) and result.shape[0] == rows:
                frame.offsets[output] = offsets
        return
