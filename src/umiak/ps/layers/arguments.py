"""Arguments as people of Paddle and PyTorch write them: taken where the meaning is plain, else refused by name. A decider.

    decay("adam", None, weight_decay=0.01)       ->  Decay(l2=0.01)
    decay("AdamW", None, weight_decay=None)      ->  Decay(decoupled=0.01)
    clip(None, ClipGradByGlobalNorm(1.0))        ->  Clip(global_norm=1.0)

No framework is imported: its objects are known by the names of their classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from umiak.core.problem import Problem
from umiak.core.value import fields, replace, value
from umiak.ps import paddle_internals, specs
from umiak.ps.errors import BadRequest, bad

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.ps.paddle_types import Setting

TABLE = "dense"
FROZEN = "frozen"
"""The label of parameters that do not learn when the optimizer is made: a table of their own is left alone until one is unfrozen."""
ADAMW = "adamw"
ADAMW_DECAY = 0.01
"""What it is without a word, as in Paddle and PyTorch."""

OF_OPTIMIZERS = {
    "lr": "learning_rate=...",
    "parameters": "give the model: optimizer(model, ...); everything in it that learns is found",
    "params": "give the model: optimizer(model, ...); everything in it that learns is found",
    "betas": "rule=ps.Adam(beta1=..., beta2=...)",
    "beta1": "rule=ps.Adam(beta1=...)",
    "beta2": "rule=ps.Adam(beta2=...)",
    "eps": "rule=ps.Adam(epsilon=...)",
    "epsilon": "rule=ps.Adam(epsilon=...)",
    "momentum": "rule=ps.Momentum(momentum=...)",
    "lazy_mode": "leave it out: rows always learn alone",
    "sparse": "leave it out: rows of embeddings are always sparse",
}
"""Names that an optimizer of ours does not have, and what to write instead."""

OF_EMBEDDINGS = {
    "num_embeddings": "leave it out: any 64-bit id is one, and a row is made when it is read first",
    "size": "dim=...: rows need no number",
    "embedding_dim": "dim=...",
    "padding_idx": "padding_id=...",
    "sparse": "leave it out: rows are always sparse",
    "weight_attr": "init=ps.Uniform(...), rule=ps.Adam(...), decay=ps.Decay(l2=...)",
    "name": "table=...",
    "mode": "pooling=...",
    "weight_decay": "decay=ps.Decay(l2=...)",
    "grad_clip": "clip=ps.Clip(...)",
    "max_norm": "clip=ps.Clip(weight=...)",
    "optimizer": "rule=...",
    "learning_rate": "rule=ps.Adam(learning_rate=...)",
    "lr": "rule=ps.Adam(learning_rate=...)",
}
"""The same for an embedding."""


@value
class HowLearned:
    """How the parameters of an optimizer learn, and in which table."""

    rule: specs.Rule
    clip: specs.Clip | None = None
    decay: specs.Decay | None = None
    table: str = TABLE


@value
class LearningSettings:
    """How a parameter learns: as the optimizer's rule says, but for this."""

    rate: float = 1.0
    """What its learning rate is multiplied by."""
    decay: specs.Decay | None = None
    """None: as the optimizer says."""
    is_clipped: bool = True
    """Whether its gradients are clipped, where the optimizer clips."""
    rule: specs.Rule | None = None
    """None: as the optimizer says."""
    clip: specs.Clip | None = None
    """None: as the optimizer says."""
    optimizer: int = 0
    """Whose learning rate it follows, where several optimizers learn in one step."""
    label: str = ""
    """What tells its rule from those of other manners, for its name."""

    @property
    def name(self) -> str:
        """A short name that is different for every manner."""
        parts = [self.label] if self.label else []
        parts += [f"rate-{self.rate:g}"] if self.rate != 1.0 else []
        if self.decay is not None:
            numbers = ((each, getattr(self.decay, each)) for each in fields(self.decay))
            parts += [f"{name}-{number:g}" for name, number in numbers if number] or ["no-decay"]
        if self.clip is not None:
            numbers = ((each, getattr(self.clip, each)) for each in fields(self.clip))
            parts += [f"clip-{name}-{number:g}" for name, number in numbers if number is not None]
        if not self.is_clipped:
            parts.append("no-clip")
        return ".".join(parts)


def refuse(of: str, unknown: Mapping[str, object], hints: Mapping[str, str]) -> None:
    """`BadRequest` for arguments that there are not, each with what to write."""
    problems = [
        Problem(code="UM-PS-170", what=f"{of} has no argument {name}", hint=hints.get(name)) for name in unknown
    ]
    BadRequest.raise_any(problems)


def columns(dim: int | None, more: tuple[object, ...]) -> int:
    """The number of columns of an embedding. `BadRequest` for ``Embedding()`` and ``Embedding(1000, 16)``."""
    if dim is None:
        raise bad("UM-PS-170", "Embedding needs dim, the number of columns", "Embedding(dim=16)")
    if more:
        what = f"Embedding takes one value without a name, the number of columns: {(dim, *more)!r}"
        raise bad("UM-PS-170", what, f"Embedding(dim={more[0]!r}): rows need no number, any 64-bit id is one")
    return dim


def decay(rule: object, given: specs.Decay | None, weight_decay: Setting) -> specs.Decay | None:
    """Weight decay: what was said in our words or in theirs."""
    is_adamw = isinstance(rule, str) and rule.lower() == ADAMW
    if given is not None and weight_decay is not None:
        raise bad("UM-PS-171", "decay and weight_decay are two words for the same", "give one of them")
    if given is not None:
        specs.check_part("decay", given)
        return given
    if weight_decay is None:
        return specs.Decay(decoupled=ADAMW_DECAY) if is_adamw else None
    kind = type(weight_decay).__name__
    if isinstance(weight_decay, specs.Decay):
        return weight_decay
    if kind in ("L1Decay", "L2Decay"):
        coefficient = float(paddle_internals.coefficient(weight_decay))
        return specs.Decay(l1=coefficient) if kind == "L1Decay" else specs.Decay(l2=coefficient)
    if isinstance(weight_decay, bool) or not hasattr(weight_decay, "__float__"):
        hint = "a number, one of paddle.regularizer, or decay=ps.Decay(...)"
        raise bad("UM-PS-171", f"weight_decay: not a weight decay: {weight_decay!r}", hint)
    number = float(weight_decay)
    return specs.Decay(decoupled=number) if is_adamw else specs.Decay(l2=number)


def clip(given: specs.Clip | None, grad_clip: Setting) -> specs.Clip | None:
    """Limits of gradients: what was said in our words or in theirs."""
    if given is not None and grad_clip is not None:
        raise bad("UM-PS-171", "clip and grad_clip are two words for the same", "give one of them")
    chosen: Setting = given if grad_clip is None else grad_clip
    match type(chosen).__name__:
        case "ClipGradByGlobalNorm":
            return specs.Clip(global_norm=float(chosen.clip_norm))
        case "ClipGradByValue" if chosen.min == -chosen.max:
            return specs.Clip(value=float(chosen.max))
    if chosen is not None and not isinstance(chosen, specs.Clip):
        name = "clip" if grad_clip is None else "grad_clip"
        hint = "ps.Clip(global_norm=1.0) for all gradients together, ps.Clip(value=1.0) for each number"
        raise bad("UM-PS-171", f"{name}: not a limit of gradients: {chosen!r}", hint)
    limits: specs.Clip | None = chosen
    return limits


def chosen_rule(rule: specs.Rule | str, learning_rate: float | None) -> specs.Rule:
    """A rule by name or as it is, with a learning rate of its own if one was said."""
    if isinstance(rule, str):
        by_name = {kind.__name__.lower(): kind for kind in specs.RULES.values()} | specs.RULES
        if rule.lower() not in by_name:
            raise bad("UM-PS-008", f"no such rule: {rule}", f"choose one of {', '.join(specs.RULES)}")
        rule = cast("specs.Rule", by_name[rule.lower()]())
    elif isinstance(rule, type) and rule in specs.RULES.values():
        rule = cast("specs.Rule", rule())
    elif type(rule) not in specs.RULES.values():
        names = ", ".join(specs.RULES)
        raise bad("UM-PS-008", f"rule: not a rule: {rule!r}", f"ps.Adam(learning_rate=0.001), or a name: {names}")
    if learning_rate is None or "learning_rate" not in fields(rule):
        return rule
    return replace(rule, learning_rate=float(learning_rate))


def rule(given: specs.Rule | str) -> specs.Rule | str:
    """AdamW is Adam with a decoupled decay."""
    return "adam" if isinstance(given, str) and given.lower() == ADAMW else given


def learning_rate(given: Setting) -> float | None:
    """A number, if one was said."""
    if given is None:
        return None
    try:
        return float(given)
    except (TypeError, ValueError):
        hint = "a number, or a scheduler of paddle.optimizer.lr; PyTorch's schedulers are given the optimizer"
        raise bad("UM-PS-171", f"learning_rate: not a number: {given!r}", hint) from None
