"""How a model learns: the rule, its settings, the schedule of the learning rate, clipping. A decider.

    hyper_parameters:
      optimizer:
        class: Adam
        learning_rate: 0.001
        clip_value: 10
        schedule: {class: cosine, steps: 100000, warmup_steps: 1000}

A schedule is a function of the step alone, or of what evaluations have told (`plateau`), so that a run which is resumed needs no memory of it:

    factor(Schedule(kind="exponential", gamma=0.5, every=100), 250) == 0.25
"""

from __future__ import annotations

import math

from umiak.core.value import fields
from umiak.schema import kinds, sections
from umiak.schema.yaml_tree import Section
from umiak.train.config.keys import UNKNOWN
from umiak.train.config.kinds import ours, row
from umiak.train.config.values import Learning, Schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.findings import Findings
    from umiak.schema.sections import Said


SCHEDULES: dict[str, tuple[str, ...]] = {
    "constant": (),
    "exponential": ("gamma", "every"),
    "step": ("gamma", "every"),
    "inverse_time": ("gamma", "every"),
    "polynomial": ("steps", "end", "power"),
    "cosine": ("steps", "end"),
    "plateau": ("gamma", "end", "metric", "mode", "patience", "threshold", "threshold_mode", "cooldown"),
}
"""The kinds, and what each needs to know."""

_NAMES = {
    "ExponentialDecay": "exponential",
    "StepDecay": "step",
    "InverseTimeDecay": "inverse_time",
    "PolynomialDecay": "polynomial",
    "CosineAnnealingDecay": "cosine",
    "ReduceOnPlateau": "plateau",
}

RULES: dict[str, dict[str, str]] = {
    "sgd": {},
    "momentum": {"momentum": "momentum", "use_nesterov": "nesterov"},
    "adagrad": {"epsilon": "epsilon", "initial_accumulator_value": "initial"},
    "adam": {"beta1": "beta1", "beta2": "beta2", "epsilon": "epsilon"},
    "adamw": {"beta1": "beta1", "beta2": "beta2", "epsilon": "epsilon"},
    "adam_row": {"beta1": "beta1", "beta2": "beta2", "epsilon": "epsilon"},
    "adagrad_scaled": {"initial_accumulator_value": "initial_g2sum"},
    "adagrad_shared": {"initial_accumulator_value": "initial_g2sum"},
    "ftrl": {"l1": "l1", "l2": "l2"},
    "rmsprop": {"rho": "rho", "epsilon": "epsilon", "momentum": "momentum", "centered": "centered"},
}
"""The rules by name, and the keys that each takes, with its own names for them."""

ADAMW_DECAY = 0.01
"""What `adamw` is without a word, as in Paddle."""
_NO_DECAY = ("ftrl",)

OPTIMIZER = (
    row(
        "class",
        kinds.CHOICE,
        "Optimizer: [what each does](ps.md#rules). Embedding rows are updated only when they occur in a batch, also with Adam "
        "(lazy mode).",
        default="adam",
        choices=tuple(RULES),
        synonyms=(("std-adagrad", "adagrad_scaled"),),
    ),
    row("learning_rate", kinds.NUMBER, "Learning rate.", default_said="depends on `class`"),
    ours("beta1", kinds.NUMBER, "`adam`, `adam_row`: decay rate of the first moment.", default_said="0.9"),
    ours("beta2", kinds.NUMBER, "`adam`, `adam_row`: decay rate of the second moment.", default_said="0.999"),
    ours(
        "epsilon",
        kinds.NUMBER,
        "`adam`, `adam_row`, `adagrad`, `rmsprop`: added to the denominator.",
        default_said="depends on `class`",
    ),
    ours("momentum", kinds.NUMBER, "`momentum`, `rmsprop`: momentum.", default_said="0.9; `rmsprop`: 0"),
    ours("rho", kinds.NUMBER, "`rmsprop`: decay rate.", default_said="0.95"),
    ours("centered", kinds.TRUTH, "`rmsprop`: subtract the mean gradient.", default_said="`false`"),
    ours("use_nesterov", kinds.TRUTH, "`momentum`: Nesterov momentum.", default_said="`false`"),
    ours(
        "initial_accumulator_value",
        kinds.NUMBER,
        "`adagrad` and its variants: initial sum of squares.",
        default_said="depends on `class`",
    ),
    ours("l1", kinds.NUMBER, "`ftrl`: L1 regularization.", default_said="0"),
    ours("l2", kinds.NUMBER, "`ftrl`: L2 regularization.", default_said="0"),
    ours(
        "clip_value",
        kinds.NUMBER,
        "Clip each gradient to plus and minus this, except for parameters with `ParamAttr(need_clip=False)`.",
        default_said="no clipping",
    ),
    ours(
        "clip_norm",
        kinds.NUMBER,
        "Clip by norm: scale a trainer's gradient of all dense parameters together, except those with "
        "`ParamAttr(need_clip=False)`, and that of each row, down to this norm.",
        default_said="no clipping",
    ),
    ours(
        "clip_global_norm",
        kinds.NUMBER,
        "Clip by global norm: scale all gradients of a trainer's step together, dense parameters (except those with "
        "`ParamAttr(need_clip=False)`) and rows, down to this norm before they are sent, as "
        "`paddle.nn.ClipGradByGlobalNorm` does. Each trainer clips its own gradients. Tables with an accessor are not "
        "included.",
        default_said="no clipping",
    ),
    ours(
        "weight_decay",
        kinds.NUMBER,
        "L2 regularization: added to each gradient after clipping, times the weight; decoupled with `adamw`. Of "
        "embeddings only the rows in the batch decay, and tables with table parameters do not. "
        "`ParamAttr(regularizer=...)` of a parameter takes precedence.",
        least=0,
        default_said="0; `adamw`: 0.01",
    ),
    ours(
        "decoupled_weight_decay",
        kinds.NUMBER,
        "Decoupled weight decay: each step subtracts this part of the weight, times the learning rate.",
        least=0,
        default_said="0",
    ),
    ours("schedule", kinds.MAPPING, "Learning rate schedule: [schedules](#schedule).", default_said="constant"),
    row("strategy", kinds.TEXT, settled="The runner's `distribute_strategy` says it."),
    row("lazy_mode", kinds.TRUTH, settled="Embedding rows are always updated lazily."),
)

SCHEDULE = (
    row(
        "class",
        kinds.CHOICE,
        "`exponential`: times `gamma` to the power of steps / `every`. `step`: the same in whole powers. `inverse_time`: "
        "divided by 1 + `gamma` x steps / `every`. `polynomial` and `cosine`: from 1 to `end` in `steps`. `plateau`: times "
        "`gamma` when an evaluation is no better. Paddle's names (`ExponentialDecay`, ...) are accepted.",
        default="constant",
        choices=tuple(SCHEDULES),
        synonyms=tuple(_NAMES.items()),
    ),
    row("gamma", kinds.NUMBER, "Decay factor.", default_said="0.1"),
    row("every", kinds.WHOLE, "Number of batches of a trainer between decays.", default=1, least=1),
    row("steps", kinds.WHOLE, "Number of batches of a trainer over which the rate decays.", least=1),
    row(
        "end",
        kinds.NUMBER,
        "Final learning rate, as a fraction of the initial one; of `plateau` the least.",
        default_said="0",
    ),
    row("power", kinds.NUMBER, "`polynomial`: exponent; 1 is linear.", default_said="1"),
    row("warmup_steps", kinds.WHOLE, "Number of batches of linear warmup at the beginning.", default=0, least=0),
    row(
        "metric",
        kinds.TEXT,
        "`plateau`: metric of the evaluation, as it is printed.",
        default_said="`auc`, or else the loss",
    ),
    row(
        "mode",
        kinds.CHOICE,
        "`plateau`: which is better.",
        choices=("max", "min"),
        default_said="`min` for losses, else `max`",
    ),
    row("patience", kinds.WHOLE, "`plateau`: evaluations without progress that are let pass.", default=0, least=0),
    row("threshold", kinds.NUMBER, "`plateau`: progress is more than this.", least=0, default_said="0.0001"),
    row(
        "threshold_mode",
        kinds.CHOICE,
        "`plateau`: `rel`: of the best so far; `abs`: as it is.",
        default="rel",
        choices=("rel", "abs"),
    ),
    row(
        "cooldown",
        kinds.WHOLE,
        "`plateau`: evaluations that do not count after the rate has fallen.",
        default=0,
        least=0,
    ),
)

ABOVE_ZERO = ("learning_rate", "clip_value", "clip_norm", "clip_global_norm", "epsilon")
BELOW_ONE = ("beta1", "beta2", "momentum", "rho")


def read(hyper_parameters: Section | None, findings: Findings) -> Learning:
    """What ``hyper_parameters.optimizer`` says; what is wrong with it goes to ``findings``."""
    entry = hyper_parameters.get("optimizer") if hyper_parameters is not None else None
    if entry is None:
        return Learning()
    if not isinstance(entry.node, Section):
        findings.problem(
            "UM-CONFIG-013",
            entry.node.place,
            "hyper_parameters: optimizer must be a mapping",
            hint="write `optimizer: {class: Adam, learning_rate: 0.001}`",
        )
        return Learning()
    said = sections.read(OPTIMIZER, entry.node, "optimizer", findings, UNKNOWN)
    rule = str(said.get("class"))
    settings: dict[str, float | bool] = {}
    for key in (key.name for key in OPTIMIZER if said.said(key.name)):
        if key in RULES[rule]:
            settings[RULES[rule][key]] = said.get(key)
        elif any(key in others for others in RULES.values()):
            what = f"optimizer: no effect: {said.spoken(key)}"
            findings.warning("UM-CONFIG-018", said.key_place(key), what, why=f"{rule} does not know it")
        _check_range(key, said, findings)
    if said.said("learning_rate"):
        settings["learning_rate"] = said.get("learning_rate")
    schedule = said.node("schedule")
    l2, decoupled = _decay(rule, said, findings)
    return Learning(
        rule="adam" if rule == "adamw" else rule,
        settings=settings,
        schedule=_schedule(schedule, findings) if isinstance(schedule, Section) else Schedule(),
        clip_value=said.get("clip_value"),
        clip_norm=said.get("clip_norm"),
        clip_global_norm=said.get("clip_global_norm"),
        weight_decay=l2,
        decoupled_weight_decay=decoupled,
    )


def factor(schedule: Schedule, step: int) -> float:
    """What the learning rate is multiplied by in a step; steps count from 0."""
    if step < schedule.warmup_steps:
        return (step + 1) / (schedule.warmup_steps + 1)
    step -= schedule.warmup_steps
    turns = step / schedule.every
    rest = 1.0 - min(step / schedule.steps, 1.0)
    match schedule.kind:
        case "exponential":
            return float(schedule.gamma**turns)
        case "step":
            return float(schedule.gamma ** math.floor(turns))
        case "inverse_time":
            return 1.0 / (1.0 + schedule.gamma * turns)
        case "polynomial":
            return float(schedule.end + (1.0 - schedule.end) * rest**schedule.power)
        case "cosine":
            return schedule.end + (1.0 - schedule.end) * (1.0 - math.cos(math.pi * rest)) / 2.0
    return 1.0


def _decay(rule: str, said: Said, findings: Findings) -> tuple[float, float]:
    """Weight decay: what is added to gradients, and what is taken from weights."""
    names = ("weight_decay", "decoupled_weight_decay")
    if rule in _NO_DECAY:
        for name in names:
            if said.said(name):
                what = f"optimizer: no effect: {said.spoken(name)}"
                findings.warning("UM-CONFIG-018", said.key_place(name), what, why=f"{rule} has l1 and l2 of its own")
        return 0.0, 0.0
    l2, decoupled = (float(said.get(name)) if said.said(name) else None for name in names)
    if rule == "adamw":
        if l2 is not None and decoupled is not None:
            what = "optimizer: weight_decay and decoupled_weight_decay: with adamw they are the same"
            findings.problem("UM-CONFIG-014", said.place("decoupled_weight_decay"), what, hint="say one of them")
        chosen = [each for each in (l2, decoupled) if each is not None]
        return 0.0, chosen[0] if chosen else ADAMW_DECAY
    return l2 or 0.0, decoupled or 0.0


def _check_range(key: str, said: Said, findings: Findings) -> None:
    number = said.get(key)
    if key in ABOVE_ZERO and number <= 0:
        findings.problem("UM-CONFIG-014", said.place(key), f"optimizer: {said.spoken(key)}: not above 0: {number:g}")
    if key in BELOW_ONE and not 0 <= number < 1:
        what = f"optimizer: {said.spoken(key)}: not in [0, 1): {number:g}"
        findings.problem("UM-CONFIG-014", said.place(key), what)


def _schedule(node: Section, findings: Findings) -> Schedule:
    said = sections.read(SCHEDULE, node, "schedule", findings, UNKNOWN)
    kind = str(said.get("class"))
    if "steps" in SCHEDULES[kind] and not said.said("steps") and "steps" not in said.wrong:
        what = f"schedule: steps is required by {kind} and missing"
        findings.problem("UM-CONFIG-011", said.place("class"), what, hint="write `steps:` with a number of batches")
    for key in fields(Schedule):
        if key not in ("kind", "warmup_steps", *SCHEDULES[kind]) and said.said(key):
            what = f"schedule: no effect: {said.spoken(key)}"
            findings.warning("UM-CONFIG-018", said.key_place(key), what, why=f"{kind} does not know it")
    if kind == "plateau" and said.said("gamma") and not 0 < said.get("gamma") < 1:
        what = f"schedule: {said.spoken('gamma')}: not between 0 and 1: {said.get('gamma'):g}"
        findings.problem("UM-CONFIG-014", said.place("gamma"), what)
    given = {key: said.get(key) for key in fields(Schedule) if key != "kind" and said.said(key)}
    return Schedule(kind=kind, **given)
