"""Which embeddings become tables. A decider.

rule                                             with servers, collectively      alone
sparse=True, or named, or large enough           table                           table, if Paddle moves the rows of a batch only
weight used by something else, not float32, ...  parameter                       parameter
"""

from __future__ import annotations

from umiak.core.value import replace, value
from umiak.ps import specs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.ps.paddle_models.optimizers import LearnedBy
    from umiak.ps.paddle_models.plans import TableChoice


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


def has_sparse_gradients(facts: EmbeddingFacts, choice: TableChoice) -> bool:
    """Whether Paddle's gradients of the weight are those of the rows of a batch."""
    is_used_elsewhere = any(each in choice.elsewhere for each in facts.layers) or facts.is_tied
    return facts.is_sparse and not is_used_elsewhere


def learned_as(facts: EmbeddingFacts, learned: LearnedBy, choice: TableChoice) -> LearnedBy:
    """How the weight really learns in Paddle: gradients of ``sparse=True`` go through another computation than others."""
    decays = learned.decay.l1 or learned.decay.l2  # which makes dense gradients of them
    if not has_sparse_gradients(facts, choice) or decays or not isinstance(learned.rule, specs.Adam):
        return learned
    label = ".".join(each for each in (learned.label, "sparse") if each)
    return replace(learned, rule=replace(learned.rule, ahead=True), label=label)
