"""How a plain Paddle model is carried over to tables: what becomes a table, what stays a parameter, how each learns, and why. Values.

`umiak.ps.paddle_models.plan_of` makes it, `--explain` prints its `lines`, and `umiak.ps.paddle_models.carry_over` carries it out.
"""

from __future__ import annotations

from umiak.core.value import fields, value
from umiak.ps import specs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.problem import Problem


@value
class TableChoice:
    """Which embeddings are to become tables, besides those with ``sparse=True``. Names are those of layers (``embedding``, ``user.embedding``)."""

    tables: tuple[str, ...] = ()
    """Layers that become tables in any case."""
    parameters: tuple[str, ...] = ()
    """Layers that stay parameters in any case."""
    elsewhere: tuple[str, ...] = ()
    """Layers whose weight is used past their `forward`, as `used_elsewhere` finds them: they stay parameters as well."""
    least_rows: int | None = None
    """An embedding with at least so many rows becomes a table, without ``sparse=True`` as well."""
    lazy: bool = False
    """Whether a run alone also has tables where their rows then learn lazily: a row only moves when it is used."""


@value
class PlannedTable:
    """An embedding, or several that share their weight, whose rows are in a table."""

    name: str
    """Of the first layer; the table's name is a prefix and this."""
    layers: tuple[str, ...]
    rows: int
    dim: int
    why: str
    rule: specs.Rule = specs.Adam()
    decay: specs.Decay = specs.Decay()
    clip: specs.Clip = specs.Clip()
    optimizer: int = 0
    """Whose learning rate it follows: the place among the optimizers."""
    clip_group: int | None = None
    """The place in `ModelPlan.clips` of what limits its gradients."""
    is_frozen: bool = False
    """Whether it does not learn when training begins."""


@value
class PlannedParameter:
    """A parameter that stays in the model, and is a part of a dense table."""

    name: str
    shape: tuple[int, ...]
    why: str = ""
    """Said of embeddings, which might have become tables."""
    rule: specs.Rule = specs.Adam()
    decay: specs.Decay = specs.Decay()
    clip: specs.Clip = specs.Clip()
    rate: float = 1.0
    """What the optimizer's learning rate is multiplied by."""
    label: str = ""
    """What tells its rule from those of other parameters, for the name of a table."""
    optimizer: int = 0
    clip_group: int | None = None
    """The place in `ModelPlan.clips` of what limits its gradients."""
    is_frozen: bool = False
    """Whether it does not learn when training begins."""
    has_sparse_gradients: bool = False
    """Whether its gradients are those of some rows: `clear_grad` leaves nothing of them."""


@value
class TrainerClip:
    """What gradients that are clipped together are limited to before they leave the trainer. ``None`` is nothing."""

    low: float | None = None
    high: float | None = None
    """Each number is kept within these."""
    norm: float | None = None
    """The gradient of each parameter is scaled down to this length."""
    global_norm: float | None = None
    """All of them together are scaled down to this length."""


@value
class ModelPlan:
    """What `carry_over` will do."""

    tables: tuple[PlannedTable, ...] = ()
    parameters: tuple[PlannedParameter, ...] = ()
    """Those that learn and stay in the model."""
    frozen: tuple[str, ...] = ()
    """Parameters that no optimizer changes."""
    clips: tuple[TrainerClip, ...] = ()
    rates: tuple[float, ...] = ()
    """The learning rate of each optimizer's rule, which its schedule is relative to."""
    remarks: tuple[str, ...] = ()
    """What is otherwise than in Paddle, and is carried over all the same."""
    problems: tuple[Problem, ...] = ()
    """What can't be carried over; `carry_over` refuses a plan that has any."""
    uncarried: tuple[Problem, ...] = ()
    """Those of `problems` that are about optimizers alone: where nobody shares the model, Paddle's own can learn instead."""
    optimizers: tuple[Any, ...] = ()
    """The model's own optimizers, which go on saying the learning rate."""

    def lines(self) -> list[str]:
        """For ``--explain``: a line per table, per kind of parameter, and per remark."""
        found = [
            f"table {each.name}: {each.rows} rows of {each.dim}, {self._manner(each)}: {each.why}"
            for each in self.tables
        ]
        kinds: dict[str, list[PlannedParameter]] = {}
        for each in (each for each in self.parameters if not each.is_frozen):
            kinds.setdefault(self._manner(each), []).append(each)
        for manner, alike in kinds.items():
            size = sum(_size(each.shape) for each in alike)
            found.append(f"dense: {len(alike)} parameters with {size} numbers, {manner}")
        found += [f"stays a parameter: {each.name}: {each.why}" for each in self.parameters if each.why]
        found += [f"does not learn: {', '.join(self.frozen)}"] if self.frozen else []
        later = [each.name for each in self.tables if each.is_frozen]
        later += [each.name for each in self.parameters if each.is_frozen]
        found += [f"does not learn before it is unfrozen: {', '.join(later)}"] if later else []
        return found + [f"remark: {each}" for each in self.remarks]

    def _manner(self, planned: PlannedTable | PlannedParameter) -> str:
        """How it learns, in a few words."""
        parts = [shown(planned.rule)]
        if isinstance(planned, PlannedParameter) and planned.rate != 1.0:
            parts.append(f"learning rate times {planned.rate:g}")
        parts += [shown(each) for each in (planned.decay, planned.clip) if each not in (specs.Decay(), specs.Clip())]
        if planned.clip_group is not None:
            parts.append(shown(self.clips[planned.clip_group]))
        return ", ".join(parts)


def shown(item: Any) -> str:
    """A value with what it says: ``Clip(value=1)``."""
    said = {name: getattr(item, name) for name in fields(item)}
    usual = specs.Decay, specs.Clip, TrainerClip
    if isinstance(item, usual):
        said = {name: each for name, each in said.items() if each}
    numbers = [f"{name}={each:g}" if isinstance(each, float) else f"{name}={each}" for name, each in said.items()]
    return f"{type(item).__name__.removeprefix('Trainer')}({', '.join(numbers)})"


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for each in shape:
        size *= each
    return size
