"""Clips gradients by limits that hold for several parameters together, in the trainer, before they are pushed. An adapter, without a framework.

for clip, numbers, tables in groups(plan, names, carried):
    limit(clip, gradients, numbers, tables)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import umiak_native

from umiak.ps.gradients import Missing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from umiak.ps.paddle_models.lookups import CarriedTable
    from umiak.ps.paddle_models.plans import ModelPlan, TrainerClip
    from umiak.ps.tables.lookup import EmbeddingTable


def groups(
    plan: ModelPlan, names: list[str], carried: Mapping[str, CarriedTable]
) -> list[tuple[TrainerClip, list[int], list[EmbeddingTable]]]:
    """For each limit the places of its parameters and its tables."""
    place = {name: number for number, name in enumerate(names)}
    tables = dict(zip((each.name for each in plan.tables), carried.values(), strict=True))
    return [
        (
            clip,
            [place[each.name] for each in plan.parameters if each.learned.clip_group == group],
            [tables[each.name].table for each in plan.tables if each.learned.clip_group == group],
        )
        for group, clip in enumerate(plan.clips)
    ]


def limit(clip: TrainerClip, gradients: list[Any], numbers: list[int], tables: list[EmbeddingTable]) -> None:
    """Puts limited gradients in the place of those that are too long. Rows are changed in place."""
    learned = [each for each in tables if each.has_gradients]
    rows = [each.merged() for each in learned]
    numbers = [number for number in numbers if not isinstance(gradients[number], Missing)]
    if clip.low is not None:
        for number in numbers:
            gradients[number] = np.clip(gradients[number], clip.low, clip.high)
        for each in rows:
            np.clip(each, clip.low, clip.high, out=each)
        return
    lengths = [umiak_native.squares(each.reshape(-1)) for each in (*(gradients[number] for number in numbers), *rows)]
    beside = {each.name: each.padding_squares() for each in tables}
    if clip.global_norm is not None:
        together = sum(lengths) + sum(beside.values())
        scales = [_scale(together, clip.global_norm)] * len(lengths)
    else:
        own = [0.0] * len(numbers) + [beside[each.name] for each in learned]
        scales = [_scale(sum(each), float(clip.norm or 0.0)) for each in zip(lengths, own, strict=True)]
    for number, scale in zip(numbers, scales, strict=False):
        if scale != 1.0:
            # In place for the norm of all: there, as in Paddle, the parameter's own gradient is another one from then on.
            memory = gradients[number] if clip.global_norm is not None else None
            gradients[number] = np.multiply(gradients[number], np.float32(scale), out=memory)
    for each, scale in zip(rows, scales[len(numbers) :], strict=True):
        if scale != 1.0:
            np.multiply(each, np.float32(scale), out=each)


def _scale(squares: float, most: float) -> float:
    length = math.sqrt(squares)
    return most / length if length > most else 1.0
