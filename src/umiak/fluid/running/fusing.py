"""Lookups of one table become one lookup of all their ids: one gather, and one gradient in place of a sum of many. A program.

A model with a table for 26 slots would add up 26 gradients, each as large as all rows that it touches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import paddle
from paddle.nn import functional

from umiak.fluid.kernels.registry import Frame, hand_on_offsets
from umiak.fluid.record.program import FORWARD, Ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.fluid.arguments import Arguments, Function
    from umiak.fluid.record.program import RecordedOperation

LOOKUP = "lookup_table"


class FusibleStep(Protocol):
    """What has to be known of a step of a replay."""

    operation: RecordedOperation
    inputs: list[str]
    outputs: tuple[str, ...]
    kept: list[str]
    detached: list[str]
    clips: list[Any]
    constants: Arguments
    function: Function

    def compute(self, frame: Frame) -> Any:
        """What the operation gives."""


class FusibleLookups:
    """Steps that look up rows of one table, and can be done where the first of them is."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.steps: list[FusibleStep] = []


def groups(steps: Sequence[FusibleStep]) -> list[FusibleLookups]:
    """The lookups of each table whose ids are there before the first of them, and whose rows nothing has changed since. Only those of two or more."""
    groups_of_lookups: list[FusibleLookups] = []
    open_groups: dict[Any, FusibleLookups] = {}
    written: dict[str, int] = {}
    for place, step in enumerate(steps):
        if step.operation.role != FORWARD:
            break
        key = _key(step)
        if key is not None:
            group = open_groups.get(key)
            names = [*step.inputs, *step.outputs]
            if group is None or any(written.get(name, -1) >= group.place for name in names):
                group = open_groups[key] = FusibleLookups(place)
                groups_of_lookups.append(group)
            group.steps.append(step)
        elif _has_block(step):
            open_groups = {}
        for name in step.outputs:
            written[name] = place
    return [group for group in groups_of_lookups if len(group.steps) > 1]


def _has_block(step: FusibleStep) -> bool:
    """Whether a step runs a block, which may write any variable."""
    return any(name in step.constants for name in ("block", "blocks"))


def _key(step: FusibleStep) -> Any:
    """What lookups must have in common; None if it is none that can be put together with others."""
    operation = step.operation
    if operation.type != LOOKUP or step.kept:
        return None
    weight, ids = operation.arguments["weight"], operation.arguments["ids"]
    if not isinstance(weight, Ref) or not isinstance(ids, Ref):
        return None
    return weight.name, tuple(sorted((name, repr(value)) for name, value in step.constants.items()))


def looked_up(group: FusibleLookups, frame: Frame) -> list[Any]:
    """The rows of each lookup."""
    values = frame.values
    arguments = group.steps[0].operation.arguments
    padding, drops_last = arguments["padding_idx"], arguments["drops_last"]
    weight = values[arguments["weight"].name]
    names = [step.operation.arguments["ids"].name for step in group.steps]
    parts, shapes, counts = [], [], []
    for name in names:
        ids = values[name]
        shape = list(ids.shape)
        shapes.append(shape[:-1] if drops_last and len(shape) > 1 and shape[-1] == 1 else shape)
        flat = ids.reshape([-1])
        parts.append(flat)
        counts.append(flat.shape[0])
    together = paddle.concat(parts)
    rows = functional.embedding(together, weight, sparse=arguments["is_sparse"])
    if padding >= 0:
        rows = rows * (together != padding).astype(rows.dtype).unsqueeze(-1)
    width = rows.shape[-1]
    pieces = paddle.split(rows, counts)
    results = [piece.reshape([*shape, width]) for piece, shape in zip(pieces, shapes, strict=True)]
    _hand_on(group, frame, results)
    return results


def one_by_one(group: FusibleLookups, frame: Frame) -> list[Any]:
    """The same without putting them together."""
    results = [step.compute(frame) for step in group.steps]
    _hand_on(group, frame, results)
    return results


def _hand_on(group: FusibleLookups, frame: Frame, results: list[Any]) -> None:
    if frame.offsets:
        for step, result in zip(group.steps, results, strict=True):
            hand_on_offsets(frame, step.inputs, [(step.outputs[0], result)])
