"""How a plain Paddle model is carried over to tables: what becomes a table, what stays a parameter, how each learns, and why. Values, and a decider.

`umiak.ps.paddle_models.plan_of` makes it, `--explain` prints its `lines`, and `umiak.ps.paddle_models.carry_over` carries it out.
"""

from __future__ import annotations

import math

from umiak.core.value import fields, replace, value
from umiak.ps import specs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.problem import Problem
    from umiak.ps.paddle_types import Optimizer


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
    """Whether rows of tables learn lazily, also where Paddle moves all of them in each step: a row only moves when it is used."""


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
class LearnedBy:
    """How one parameter learns."""

    rule: specs.Rule = specs.Adam()
    decay: specs.Decay = specs.Decay()
    clip: specs.Clip = specs.Clip()
    rate: float = 1.0
    """What the optimizer's learning rate is multiplied by."""
    optimizer: int = 0
    """Whose learning rate it follows: the place among the optimizers."""
    clip_group: int | None = None
    """The place of its limits in `ModelPlan.clips`."""
    label: str = ""
    """What tells the rule of its group from that of its optimizer."""
    touches_all: str = ""
    """Why Paddle moves every row of a sparse embedding in each step; nothing where only the rows of the batch learn."""


@value
class PlannedTable:
    """An embedding, or several that share their weight, whose rows are in a table."""

    name: str
    """Of the first layer; the table's name is a prefix and this."""
    layers: tuple[str, ...]
    rows: int
    dim: int
    why: str
    learned: LearnedBy = LearnedBy()
    """Its rule has its own learning rate."""
    is_frozen: bool = False
    """Whether it does not learn when training begins."""
    every_row: bool = False
    """Whether a step moves all rows, as Paddle's does."""
    has_sparse_gradients: bool = True
    """Whether Paddle's gradients are those of some rows: a batch without ids is then no step, and `clear_grad` leaves nothing of them."""


@value
class PlannedParameter:
    """A parameter that stays in the model, and is a part of a dense table."""

    name: str
    shape: tuple[int, ...]
    why: str = ""
    """Said of embeddings, which might have become tables."""
    learned: LearnedBy = LearnedBy()
    is_frozen: bool = False
    """Whether it does not learn when training begins."""
    has_sparse_gradients: bool = False
    """Whether its gradients are those of some rows: `clear_grad` leaves nothing of them."""
    is_mixed: bool = False
    """Whether they are in steps that only use it through a layer with ``sparse=True``, and in others those of all rows."""

    @property
    def needs_all_rows(self) -> bool:
        """Whether Paddle computes otherwise in a step that only brings a gradient of some rows, or fails in it."""
        return self.is_mixed and isinstance(self.learned.rule, specs.Adam)


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
    optimizers: tuple[Optimizer, ...] = ()
    """The model's own optimizers, which go on saying the learning rate."""

    def lines(self) -> list[str]:
        """For ``--explain``: a line per table, per kind of parameter, and per remark."""
        found = [
            f"table {each.name}: {each.rows} rows of {each.dim}, {self._settings_of(each)}: {each.why}"
            + ("; a step moves all of its rows, as in Paddle" if each.every_row else "")
            for each in self.tables
        ]
        kinds: dict[str, list[PlannedParameter]] = {}
        for each in (each for each in self.parameters if not each.is_frozen):
            kinds.setdefault(self._settings_of(each), []).append(each)
        for settings, alike in kinds.items():
            size = sum(math.prod(each.shape) for each in alike)
            found.append(f"dense: {len(alike)} parameters with {size} numbers, {settings}")
        found += [f"stays a parameter: {each.name}: {each.why}" for each in self.parameters if each.why]
        found += [f"does not learn: {', '.join(self.frozen)}"] if self.frozen else []
        later = [each.name for each in self.tables if each.is_frozen]
        later += [each.name for each in self.parameters if each.is_frozen]
        found += [f"does not learn before it is unfrozen: {', '.join(later)}"] if later else []
        return found + [f"remark: {each}" for each in self.remarks]

    def _settings_of(self, planned: PlannedTable | PlannedParameter) -> str:
        """How it learns, in a few words."""
        learned = planned.learned
        parts = [shown(learned.rule)]
        if isinstance(planned, PlannedParameter) and learned.rate != 1.0:
            parts.append(f"learning rate times {learned.rate:g}")
        parts += [shown(each) for each in (learned.decay, learned.clip) if each not in (specs.Decay(), specs.Clip())]
        if learned.clip_group is not None:
            parts.append(shown(self.clips[learned.clip_group]))
        return ", ".join(parts)


def shown(item: object) -> str:
    """A value with what it says: ``Clip(value=1)``."""
    said = {name: getattr(item, name) for name in fields(item)}
    usual = specs.Decay, specs.Clip, TrainerClip
    if isinstance(item, usual):
        said = {name: each for name, each in said.items() if each}
    numbers = [f"{name}={each:g}" if isinstance(each, float) else f"{name}={each}" for name, each in said.items()]
    return f"{type(item).__name__.removeprefix('Trainer')}({', '.join(numbers)})"


# ---- choosing


@value
class EmbeddingFacts:
    """An embedding, or several with the same weight, as the model has it."""

    layers: tuple[str, ...]
    rows: int
    dim: int
    is_sparse: bool
    is_tied: bool = False
    """Whether the weight is also that of another kind of layer."""
    is_mixed: bool = False
    """Whether only some of its layers have ``sparse=True``: the sum of their gradients is one of all rows."""
    obstacle: str = ""
    """Why its weight has to stay where it is."""


@value
class TableDecision:
    """Whether it becomes a table, why, and what is different then."""

    is_table: bool
    why: str
    remark: str = ""
    every_row: bool = False
    """Whether a step is to move all rows of the table."""


def decide(facts: EmbeddingFacts, learned: LearnedBy, *, is_shared: bool, choice: TableChoice) -> TableDecision:
    """Which embeddings become tables. One rule for all: `--explain` shows its reasons.

    sparse=True, or named, or large enough               table; where Paddle moves all rows in each step, so does the table
    weight used by something else, not float32, ...      parameter
    Adam, and only some of its layers with sparse=True   with servers or collectively a table that learns lazily, alone a parameter
    """
    name = facts.layers[0]
    named = any(each in choice.tables for each in facts.layers)
    large = choice.least_rows is not None and facts.rows >= choice.least_rows
    if any(each in choice.elsewhere for each in facts.layers):
        return TableDecision(is_table=False, why="its weight is used past its forward")
    if any(each in choice.parameters for each in facts.layers):
        return TableDecision(is_table=False, why="to stay a parameter by the config")
    if not (named or large or facts.is_sparse):
        return TableDecision(
            is_table=False, why="no sparse=True" if choice.least_rows is None else "no sparse=True, and small"
        )
    if facts.obstacle:
        return TableDecision(is_table=False, why=facts.obstacle)
    why = "to become a table by the config" if named else "sparse=True" if facts.is_sparse else f"{facts.rows} rows"
    touches_all, is_two_adams = learned.touches_all, facts.is_mixed and isinstance(learned.rule, specs.Adam)
    if is_two_adams:
        touches_all = (
            touches_all or "a layer without sparse=True has the same weight, and Adam moves all rows in each step"
        )
    if not touches_all:
        return TableDecision(is_table=True, why=why)
    if not is_two_adams and not choice.lazy:
        return TableDecision(is_table=True, why=why, every_row=True)
    lazily = f"{name}: rows learn lazily, only in steps that use them, although {touches_all} in Paddle"
    if is_shared or choice.lazy or named:
        return TableDecision(is_table=True, why=why, remark=lazily)
    return TableDecision(is_table=False, why=f"{touches_all}, and alone nothing is changed about that")


def has_sparse_gradients(facts: EmbeddingFacts, choice: TableChoice) -> bool:
    """Whether Paddle's gradients of the weight are those of the rows of a batch."""
    is_used_elsewhere = any(each in choice.elsewhere for each in facts.layers) or facts.is_tied
    return facts.is_sparse and not facts.is_mixed and not is_used_elsewhere


def learned_as(facts: EmbeddingFacts, learned: LearnedBy, choice: TableChoice) -> LearnedBy:
    """How the weight really learns in Paddle: gradients of ``sparse=True`` go through another computation than others."""
    decays = learned.decay.l1 or learned.decay.l2  # which makes dense gradients of them
    if not isinstance(learned.rule, specs.Adam):
        return learned
    if not facts.is_sparse and not learned.touches_all:
        return replace(
            learned, touches_all="Adam with lazy_mode moves all rows in each step where there is no sparse=True"
        )
    if not has_sparse_gradients(facts, choice) or decays:
        return learned
    label = ".".join(each for each in (learned.label, "sparse") if each)
    return replace(learned, rule=replace(learned.rule, ahead=True), label=label)
