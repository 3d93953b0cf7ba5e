"""A Paddle optimizer as a rule of the servers, its limits and its decay. A decider, which knows Paddle's objects by their names.

    learning(paddle.optimizer.Adam(1e-3, lazy_mode=True))  ->  ProgramLearning(rule=Adam(learning_rate=0.001))

What the servers' rules can't do is a problem that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.problem import Problem
from umiak.core.value import replace, value
from umiak.ps import specs
from umiak.ps.errors import BadRequest
from umiak.ps.layers import arguments

if TYPE_CHECKING:
    from typing import Any

KNOWN = "SGD, Momentum, Adam, AdamW, Adagrad and RMSProp"


@value
class ProgramLearning:
    """How everything learns."""

    rule: specs.Rule = specs.Sgd()
    clip: specs.Clip | None = None
    decay: specs.Decay | None = None
    schedule: Any = None
    """One of `paddle.optimizer.lr`, or None."""
    remarks: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@value
class OwnLearning:
    """How one parameter learns otherwise than the optimizer says."""

    rate: float = 1.0
    """What its learning rate is multiplied by."""
    decay: specs.Decay | None = None
    """None: as the optimizer says."""
    is_clipped: bool = True


def learning(optimizer: Any) -> ProgramLearning:
    """What an optimizer says; of one that wraps another (mixed precision), the inner one counts."""
    while type(optimizer).__name__ == "OptimizerWithMixedPrecision" and hasattr(optimizer, "_optimizer"):
        optimizer = optimizer._optimizer  # noqa: SLF001
    name = type(optimizer).__name__
    rate: Any = getattr(optimizer, "_learning_rate", 0.001)
    schedule = rate if hasattr(rate, "base_lr") else None
    number = float(rate.base_lr) if schedule is not None else _number(rate)
    problems: list[Problem] = []
    if number is None:
        what = f"optimizer {name}: its learning rate is neither a number nor a scheduler: {type(rate).__name__}"
        hint = "give a number or one of paddle.optimizer.lr"
        problems.append(Problem(code="UM-FLEET-012", what=what, hint=hint))
    rule, remarks = _rule(name, optimizer, number or 0.0)
    if rule is None:
        what = f"parameter servers have no rule for the optimizer {name}"
        problems.append(Problem(code="UM-FLEET-012", what=what, hint=f"they have {KNOWN}"))
    if getattr(optimizer, "_amsgrad", False):
        what = f"optimizer {name}: parameter servers have no amsgrad"
        problems.append(Problem(code="UM-FLEET-012", what=what, hint="leave out amsgrad=True"))
    clip, decay = None, None
    try:
        clip = arguments.clip(None, getattr(optimizer, "_grad_clip", None))
        decay = _decay(name, optimizer)
    except BadRequest as error:
        problems += error.problems
    return ProgramLearning(
        rule=rule or specs.Sgd(),
        clip=clip,
        decay=decay,
        schedule=schedule,
        remarks=tuple(remarks),
        problems=tuple(problems),
    )


def own_learning(parameter: Any, learning: ProgramLearning, optimizer: Any) -> OwnLearning:
    """How one parameter learns otherwise, as its ParamAttr or the optimizer's own choice says."""
    rate = float((getattr(parameter, "optimize_attr", None) or {}).get("learning_rate", 1.0))
    clip = learning.clip
    clips = clip is not None and any(each is not None for each in (clip.value, clip.norm, clip.global_norm))
    is_clipped = not clips or getattr(parameter, "need_clip", True) is not False
    regularizer = getattr(parameter, "regularizer", None)
    if regularizer is not None:
        # With AdamW, Paddle leaves the regularizers of parameters out.
        decay = None if type(optimizer).__name__ == "AdamW" else arguments.decay("", None, regularizer)
        return OwnLearning(rate=rate, decay=decay, is_clipped=is_clipped)
    choose = getattr(optimizer, "_apply_decay_param_fun", None)
    if choose is not None and not choose(parameter.name):
        return OwnLearning(rate=rate, decay=specs.Decay(), is_clipped=is_clipped)
    return OwnLearning(rate=rate, is_clipped=is_clipped)


def moves_all_rows(parameter: Any, learning: ProgramLearning, optimizer: Any) -> bool:
    """Whether Paddle moves every row of an embedding in each step, because a regularizer makes a dense gradient of a sparse one."""
    own = own_learning(parameter, learning, optimizer)
    decay = own.decay if own.decay is not None else learning.decay or specs.Decay()
    return bool(decay.l1 or decay.l2)


def of_table(parameter: Any, learning: ProgramLearning, optimizer: Any) -> tuple[specs.Rule, specs.Clip, specs.Decay]:
    """Rule, limits and decay of a parameter that becomes a table."""
    own = own_learning(parameter, learning, optimizer)
    rule = learning.rule
    rate = getattr(rule, "learning_rate", None)
    if rate is not None and own.rate != 1.0:
        rule = replace(rule, learning_rate=own.rate * rate)
    clip = learning.clip or specs.Clip()
    clip = replace(clip, global_norm=None) if own.is_clipped else specs.Clip(weight=clip.weight)
    decay = own.decay if own.decay is not None else learning.decay or specs.Decay()
    if isinstance(rule, specs.Adam) and not (decay.l1 or decay.l2):  # these make dense gradients of those of some rows
        rule = replace(rule, ahead=True)
    return rule, clip, decay


def _rule(name: str, optimizer: Any, rate: float) -> tuple[specs.Rule | None, list[str]]:
    def said(attribute: str, default: float) -> float:
        number = _number(getattr(optimizer, attribute, default))
        return default if number is None else number

    match name:
        case "SGD":
            return specs.Sgd(rate), []
        case "Momentum":
            nesterov = bool(getattr(optimizer, "_use_nesterov", False))
            return specs.Momentum(rate, said("_momentum", 0.9), nesterov=nesterov), [_rests(name)]
        case "Adam" | "AdamW":
            remarks = []
            if not getattr(optimizer, "_lazy_mode", False):
                remarks.append(f"{name}: rows of tables learn as with lazy_mode=True: a row moves when it is used")
            return specs.Adam(rate, said("_beta1", 0.9), said("_beta2", 0.999), said("_epsilon", 1e-8)), remarks
        case "Adagrad":
            return specs.Adagrad(rate, said("initial_accumulator_value", 0.0), said("_epsilon", 1e-6)), []
        case "RMSProp":
            centered = bool(getattr(optimizer, "_centered", False))
            rule = specs.RmsProp(
                rate, said("_rho", 0.95), said("_epsilon", 1e-6), said("_momentum", 0.0), centered=centered
            )
            return rule, [_rests(name)]
    return None, []


def _rests(name: str) -> str:
    return f"{name}: a row of a table moves when it is used, where Paddle's moves all rows in each step"


def _decay(name: str, optimizer: Any) -> specs.Decay | None:
    if name == "AdamW":
        coefficient: Any = getattr(optimizer, "_weight_decay", None)
        if coefficient is None:
            coefficient = getattr(optimizer, "_coeff", arguments.ADAMW_DECAY)
        return specs.Decay(decoupled=float(getattr(coefficient, "_coeff", coefficient)))
    return arguments.decay("", None, getattr(optimizer, "regularization", None))


def _number(given: Any) -> float | None:
    try:
        return float(given)
    except (TypeError, ValueError):
        return None
