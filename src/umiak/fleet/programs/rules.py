"""A Paddle optimizer as a rule of the servers, its limits and its decay; and what rows begin with.
A decider, which knows Paddle's objects by their names.

    learning(paddle.optimizer.Adam(1e-3, lazy_mode=True))  ->  ProgramLearning(rule=Adam(learning_rate=0.001))

What the servers' rules can't do is a problem that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.problem import Problem
from umiak.core.value import replace, value
from umiak.ps import paddle_internals, specs
from umiak.ps.errors import BadRequest
from umiak.ps.layers import arguments
from umiak.ps.layers.arguments import LearningSettings
from umiak.ps.paddle_models import optimizers

if TYPE_CHECKING:
    from umiak.ps.paddle_types import Operation, Optimizer, Parameter, Program, Setting

KNOWN = "SGD, Momentum, Adam, AdamW, Adagrad and RMSProp"


@value
class ProgramLearning:
    """How everything learns."""

    rule: specs.Rule = specs.Sgd()
    clip: specs.Clip | None = None
    decay: specs.Decay | None = None
    schedule: Setting = None
    """One of `paddle.optimizer.lr`, or None."""
    remarks: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def learning(optimizer: Optimizer) -> ProgramLearning:
    """What an optimizer says; of one that wraps another (mixed precision), the inner one counts."""
    while type(optimizer).__name__ == "OptimizerWithMixedPrecision" and paddle_internals.setting(
        optimizer, "optimizer", None
    ):
        optimizer = paddle_internals.inner_optimizer(optimizer)
    name = type(optimizer).__name__
    rate = paddle_internals.setting(optimizer, "learning_rate", 0.001)
    schedule = rate if hasattr(rate, "base_lr") else None
    number = float(rate.base_lr) if schedule is not None else _number(rate)
    rule, remarks = _rule(name, optimizer, number or 0.0)
    wrong = []
    if number is None:
        what = f"optimizer {name}: its learning rate is neither a number nor a scheduler: {type(rate).__name__}"
        wrong.append((what, "give a number or one of paddle.optimizer.lr"))
    if rule is None:
        wrong.append((f"parameter servers have no rule for the optimizer {name}", f"they have {KNOWN}"))
    if paddle_internals.setting(optimizer, "amsgrad", False):
        wrong.append((f"optimizer {name}: parameter servers have no amsgrad", "leave out amsgrad=True"))
    problems = [Problem(code="UM-FLEET-012", what=what, hint=hint) for what, hint in wrong]
    clip, decay = None, None
    try:
        clip = arguments.clip(None, paddle_internals.setting(optimizer, "grad_clip", None))
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


def own_learning(parameter: Parameter, learning: ProgramLearning, optimizer: Optimizer) -> LearningSettings:
    """How one parameter learns otherwise, as its ParamAttr or the optimizer's own choice says."""
    rate = float((getattr(parameter, "optimize_attr", None) or {}).get("learning_rate", 1.0))
    clip = learning.clip
    clips = clip is not None and any(each is not None for each in (clip.value, clip.norm, clip.global_norm))
    is_clipped = not clips or getattr(parameter, "need_clip", True) is not False
    regularizer = getattr(parameter, "regularizer", None)
    if regularizer is not None:
        # With AdamW, Paddle leaves the regularizers of parameters out.
        decay = None if type(optimizer).__name__ == "AdamW" else arguments.decay("", None, regularizer)
        return LearningSettings(rate=rate, decay=decay, is_clipped=is_clipped)
    choose = paddle_internals.setting(optimizer, "apply_decay_param_fun", None)
    if choose is not None and not choose(parameter.name):
        return LearningSettings(rate=rate, decay=specs.Decay(), is_clipped=is_clipped)
    return LearningSettings(rate=rate, is_clipped=is_clipped)


def moves_all_rows(parameter: Parameter, learning: ProgramLearning, optimizer: Optimizer) -> bool:
    """Whether Paddle moves every row of an embedding in each step,
    because a regularizer makes a dense gradient of a sparse one.
    """
    own = own_learning(parameter, learning, optimizer)
    decay = own.decay if own.decay is not None else learning.decay or specs.Decay()
    return bool(decay.l1 or decay.l2)


def of_table(
    parameter: Parameter, learning: ProgramLearning, optimizer: Optimizer
) -> tuple[specs.Rule, specs.Clip, specs.Decay]:
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


def _rule(name: str, optimizer: Optimizer, rate: float) -> tuple[specs.Rule | None, list[str]]:
    if name not in optimizers.RULES:
        return None, []

    def number(setting: str) -> float | None:
        if setting == "initial_accumulator_value":
            return _number(getattr(optimizer, setting, None))
        return _number(paddle_internals.setting(optimizer, setting, None))

    rule = optimizers.rule_of(name, rate, number)
    if name in ("Momentum", "RMSProp"):
        return rule, [f"{name}: a row of a table moves when it is used, where Paddle's moves all rows in each step"]
    if isinstance(rule, specs.Adam) and not paddle_internals.setting(optimizer, "lazy_mode", False):
        return rule, [f"{name}: rows of tables learn as with lazy_mode=True: a row moves when it is used"]
    return rule, []


def _decay(name: str, optimizer: Optimizer) -> specs.Decay | None:
    if name == "AdamW":
        coefficient = paddle_internals.setting(optimizer, "weight_decay", None)
        if coefficient is None:
            coefficient = paddle_internals.setting(optimizer, "coeff", arguments.ADAMW_DECAY)
        return specs.Decay(decoupled=float(paddle_internals.setting(coefficient, "coeff", coefficient)))
    return arguments.decay("", None, getattr(optimizer, "regularization", None))


def _number(given: Setting) -> float | None:
    try:
        return float(given)
    except (TypeError, ValueError):
        return None


# ---- first rows

CUT_OFF_DEVIATION = 0.8796256610342398
"""Of a standard normal distribution between -2 and 2."""


@value
class FirstRows:
    """What rows begin with."""

    init: specs.Init = specs.Uniform()
    values: tuple[float, ...] | None = None
    """All rows, end to end, where the program lists them; other ids begin as ``init`` says."""
    problem: Problem | None = None


def first_rows(startup: Program, name: str) -> FirstRows:
    """What a parameter begins with, from the operation that fills it in the startup program: the last one counts.

    uniform_random min max             Uniform
    gaussian_random mean std           Normal
    truncated_gaussian_random          Normal with the deviation that a normal distribution has when it is cut off at two
    fill_constant value                Constant
    assign_value fp32_values           these very rows

    Xavier, Kaiming and the like are one of these by the time they are in a program.
    """
    writers = [op for op in startup.global_block().ops if name in op.output_arg_names]
    if not writers:
        return FirstRows()
    op = writers[-1]
    match op.type:
        case "uniform_random":
            low, high = float(op.attr("min")), float(op.attr("max"))
            return FirstRows(init=specs.Uniform(low, high) if low < high else specs.Constant(low))
        case "gaussian_random":
            return FirstRows(init=_normal(float(op.attr("mean")), float(op.attr("std"))))
        case "truncated_gaussian_random":
            return FirstRows(init=_normal(float(op.attr("mean")), CUT_OFF_DEVIATION * float(op.attr("std"))))
        case "fill_constant":
            return FirstRows(init=specs.Constant(float(op.attr("value"))))
        case "assign_value":
            return FirstRows(init=specs.Constant(0.0), values=_listed(op))
    what = f"{name}: a table on the servers can't begin with what {op.type} gives"
    hint = "use the initializer Uniform, Normal, TruncatedNormal, Constant, XavierUniform, XavierNormal or Assign"
    return FirstRows(problem=Problem(code="UM-FLEET-011", what=what, hint=hint))


def _normal(mean: float, deviation: float) -> specs.Init:
    return specs.Normal(mean, deviation) if deviation > 0 else specs.Constant(mean)


def _listed(op: Operation) -> tuple[float, ...]:
    for attribute in ("fp32_values", "values"):
        if op.has_attr(attribute) and op.attr(attribute):
            return tuple(float(number.value() if hasattr(number, "value") else number) for number in op.attr(attribute))
    return ()
