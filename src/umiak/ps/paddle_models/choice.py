"""Which embeddings become tables, and what their rows begin with. A decider.

rule                                             with servers, collectively      alone
sparse=True, or named, or large enough           table                           table, if Paddle moves the rows of a batch only
weight used by something else, not float32, ...  parameter                       parameter
"""

from __future__ import annotations

import math

from umiak.core.value import replace, value
from umiak.ps import specs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from umiak.ps.paddle_models.optimizers import LearnedBy
    from umiak.ps.paddle_models.plans import TableChoice

MOST_VALUES = 1 << 20
"""A weight with at most so many numbers is sent as it is, though its initializer could be a rule on the servers."""
SPREAD = 6.0
"""Standard errors that a weight may be off before it counts as set by something else than its initializer."""


@value
class EmbeddingFacts:
    """An embedding, or several with the same weight, as the model has it."""

    layers: tuple[str, ...]
    rows: int
    dim: int
    is_sparse: bool
    is_tied: bool = False
    """Whether the weight is also that of another kind of layer."""
    obstacle: str = ""
    """Why its weight has to stay where it is."""


@value
class TableDecision:
    """Whether it becomes a table, why, and what is different then."""

    is_table: bool
    why: str
    remark: str = ""


def decide(facts: EmbeddingFacts, learned: LearnedBy, *, is_shared: bool, choice: TableChoice) -> TableDecision:
    """One rule for all: `--explain` shows its reasons."""
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
    if not learned.touches_all:
        return TableDecision(is_table=True, why=why)
    lazily = f"{name}: rows learn lazily, only in steps that use them, although {learned.touches_all} in Paddle"
    if is_shared or choice.lazy or named:
        return TableDecision(is_table=True, why=why, remark=lazily)
    return TableDecision(is_table=False, why=f"{learned.touches_all}, and alone nothing is changed about that")


def learned_as(facts: EmbeddingFacts, learned: LearnedBy, choice: TableChoice) -> LearnedBy:
    """How the weight really learns in Paddle: gradients of ``sparse=True`` go through another computation than others."""
    is_used_elsewhere = any(each in choice.elsewhere for each in facts.layers) or facts.is_tied
    decays = learned.decay.l1 or learned.decay.l2  # which makes dense gradients of them
    if not facts.is_sparse or is_used_elsewhere or decays or not isinstance(learned.rule, specs.Adam):
        return learned
    label = ".".join(each for each in (learned.label, "sparse") if each)
    return replace(learned, rule=replace(learned.rule, ahead=True), label=label)


def initial_rule(kind: str, settings: Mapping[str, Any], rows: int, dim: int) -> specs.Init | None:
    """An initializer of Paddle (by the name of its class, with its attributes) as a rule; None if there is none."""
    match kind:
        case "Constant" | "ConstantInitializer":
            return specs.Constant(float(settings["_value"]))
        case "Uniform" | "UniformInitializer" if not settings.get("_diag_num"):
            return specs.Uniform(float(settings["_low"]), float(settings["_high"]))
        case "Normal" | "NormalInitializer":
            return specs.Normal(float(settings["_mean"]), float(settings["_std_dev"]))
        case "XavierNormal" | "XavierUniform" | "XavierInitializer":
            fans = (rows if settings["_fan_in"] is None else float(settings["_fan_in"])) + (
                dim if settings["_fan_out"] is None else float(settings["_fan_out"])
            )
            gain = float(settings.get("_gain", 1.0))
            return _around_zero(gain * math.sqrt(2.0 / fans), is_uniform=bool(settings["_uniform"]))
        case "KaimingNormal" | "KaimingUniform" | "MSRAInitializer" if settings.get("_mode", "fan_in") == "fan_in":
            fan = rows if settings["_fan_in"] is None else float(settings["_fan_in"])
            slope = float(settings.get("_negative_slope", 0.0))
            gain = math.sqrt(2.0 / (1.0 + slope * slope))
            return _around_zero(gain / math.sqrt(fan), is_uniform=bool(settings["_uniform"]))
        case _:
            return None


def _around_zero(deviation: float, *, is_uniform: bool) -> specs.Init:
    return (
        specs.Uniform(-math.sqrt(3.0) * deviation, math.sqrt(3.0) * deviation)
        if is_uniform
        else specs.Normal(0.0, deviation)
    )


@value
class WeightFacts:
    """What a weight's numbers look like, without the row of a padding index."""

    count: int
    least: float
    most: float
    mean: float
    deviation: float


def is_from(init: specs.Init, weight: WeightFacts) -> bool:
    """Whether the weight still is what this rule gives, as far as its numbers tell."""
    if isinstance(init, specs.Constant):
        return math.isclose(weight.least, init.value, rel_tol=1e-6) and math.isclose(
            weight.most, init.value, rel_tol=1e-6
        )
    if isinstance(init, specs.Uniform):
        mean, deviation = (init.low + init.high) / 2, (init.high - init.low) / math.sqrt(12.0)
        slack = 1e-6 * max(abs(init.low), abs(init.high))
        if weight.least < init.low - slack or weight.most > init.high + slack:
            return False
    else:
        mean, deviation = init.mean, init.deviation
    error = deviation / math.sqrt(max(weight.count, 1))
    return abs(weight.mean - mean) <= SPREAD * error and abs(weight.deviation - deviation) <= SPREAD * error
