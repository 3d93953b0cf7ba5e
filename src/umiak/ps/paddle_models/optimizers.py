"""How parameters learn, read off Paddle's optimizers: rule, decay, rate and clipping of each. A decider.

No framework is imported: optimizers, regularizers and clips are known by the names of their classes, and read by their attributes.
What can't be carried over is a problem; all of them are found at once.
"""

from __future__ import annotations

from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.ps import paddle_internals, specs
from umiak.ps.paddle_models.plans import LearnedBy, TrainerClip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from umiak.core.json_types import JsonMapping as Settings
    from umiak.ps.paddle_types import Optimizer, Parameter, Setting


CODE = "UM-PS-176"
CARRIED = "SGD, Momentum, Adagrad, Adam, AdamW, RMSProp"


@value
class OptimizersRead:
    """All optimizers of a model."""

    learned: dict[int, LearnedBy]
    """By the `id` of the parameter."""
    parameters: tuple[Parameter, ...]
    clips: tuple[TrainerClip, ...]
    rates: tuple[float, ...]
    problems: tuple[Problem, ...]


def read(optimizers: Sequence[Optimizer]) -> OptimizersRead:
    """What all parameters of these optimizers are told."""
    reader = _Reader()
    for number, optimizer in enumerate(optimizers):
        reader.add(number, optimizer)
    return OptimizersRead(
        learned=reader.learned,
        parameters=tuple(reader.parameters),
        clips=tuple(reader.clips),
        rates=tuple(reader.rates),
        problems=tuple(dict.fromkeys(reader.problems)),
    )


class _Reader:
    def __init__(self) -> None:
        self.learned: dict[int, LearnedBy] = {}
        self.parameters: list[Parameter] = []
        self.clips: list[TrainerClip] = []
        self.rates: list[float] = []
        self.problems: list[Problem] = []

    def add(self, number: int, optimizer: Optimizer) -> None:
        given = getattr(optimizer, "_learning_rate", 1.0)
        # What the learning rate is relative to: the first one, or where that is 0, 1.
        self.rates.append(float(getattr(given, "base_lr", given)) or 1.0)
        kind = type(optimizer).__name__
        if kind not in RULES or not type(optimizer).__module__.startswith("paddle.optimizer"):
            self._problem(f"optimizer: {kind} can't be carried over to tables", f"one of {CARRIED} can")
            return
        for what, hint in _refused(optimizer):
            self._problem(f"optimizer: {kind}: {what} can't be carried over to tables", hint)
        usual = _rule(optimizer, {}, self.rates[number])
        for place, (settings, parameters) in enumerate(_groups(optimizer)):
            rule = _rule(optimizer, settings, self.rates[number])
            labels = [f"optimizer-{number}"] if number else []
            labels += [f"group-{place}"] if rule != usual else []
            clip, group = self._limits(settings.get("grad_clip", getattr(optimizer, "_grad_clip", None)))
            for parameter in parameters:
                if id(parameter) in self.learned:
                    name = getattr(parameter, "name", "?")
                    self._problem(f"parameter {name} is given to several optimizers", "give it to one of them")
                    continue
                needs_clip = getattr(parameter, "need_clip", True) is not False
                decay = self._decay(optimizer, settings, parameter)
                self.parameters.append(parameter)
                self.learned[id(parameter)] = LearnedBy(
                    rule=rule,
                    decay=decay,
                    clip=clip if needs_clip else specs.Clip(),
                    rate=self._rate(optimizer, parameter),
                    optimizer=number,
                    clip_group=group if needs_clip else None,
                    label=".".join(labels),
                    touches_all=_touches_all(optimizer, settings, decay),
                )

    def _limits(self, clip: Setting) -> tuple[specs.Clip, int | None]:
        """What the tables do, and the place of what trainers do."""
        match type(clip).__name__:
            case "NoneType":
                return specs.Clip(), None
            case "ClipGradByValue" if clip.min == -clip.max:
                return specs.Clip(value=float(clip.max)), None
            case "ClipGradByValue":
                self.clips.append(TrainerClip(low=float(clip.min), high=float(clip.max)))
            case "ClipGradByNorm":
                self.clips.append(TrainerClip(norm=float(clip.clip_norm)))
            case "ClipGradByGlobalNorm":
                self.clips.append(TrainerClip(global_norm=float(clip.clip_norm)))
            case other:
                hint = "paddle.nn.ClipGradByValue, ClipGradByNorm and ClipGradByGlobalNorm can"
                self._problem(f"grad_clip: {other} can't be carried over to tables", hint)
                return specs.Clip(), None
        return specs.Clip(), len(self.clips) - 1

    def _decay(self, optimizer: Optimizer, settings: Settings, parameter: Parameter) -> specs.Decay:
        regularizer = getattr(parameter, "regularizer", None)
        fused = 0.0
        if regularizer is None:
            regularizer = getattr(optimizer, "regularization", None)
            if _setting(optimizer, settings, "regularization_method") == "l2_decay":
                # Momentum keeps its own L2 decay, or that of a group, beside another one of the optimizer.
                fused = float(_setting(optimizer, settings, "regularization_coeff"))
        decoupled = 0.0
        if type(optimizer).__name__ == "AdamW":
            chosen = getattr(optimizer, "_apply_decay_param_fun", None)
            if chosen is None or chosen(parameter.name):
                decoupled = float(_setting(optimizer, settings, "weight_decay") or 0.0)
        match type(regularizer).__name__:
            case "NoneType":
                return specs.Decay(l2=fused, decoupled=decoupled)
            case "L1Decay":
                return specs.Decay(l1=float(paddle_internals.coefficient(regularizer)), l2=fused, decoupled=decoupled)
            case "L2Decay":
                coefficient = float(paddle_internals.coefficient(regularizer))
                return specs.Decay(l2=coefficient + fused, decoupled=decoupled)
            case other:
                hint = "paddle.regularizer.L1Decay and L2Decay can"
                self._problem(f"regularizer: {other} can't be carried over to tables", hint)
                return specs.Decay()

    def _rate(self, optimizer: Optimizer, parameter: Parameter) -> float:
        rate = (getattr(parameter, "optimize_attr", None) or {}).get("learning_rate", 1.0)
        if not isinstance(rate, (int, float)):
            self._problem(
                f"parameter {parameter.name}: a learning rate that is no number can't be carried over to tables",
                "paddle.ParamAttr(learning_rate=0.1)",
            )
            return 1.0
        ratio = getattr(optimizer, "_lr_ratio", None)
        return float(rate) * (1.0 if ratio is None else float(ratio(parameter)))

    def _problem(self, what: str, hint: str) -> None:
        self.problems.append(Problem(code=CODE, what=what, hint=hint))


# ---- one optimizer


def _setting(optimizer: Optimizer, settings: Settings, name: str) -> Setting:
    """What a group says, or its optimizer.

    Paddle overwrites an optimizer's own attributes with those of the group that learned last, so its defaults are asked first.
    """
    if name in settings:
        return settings[name]
    kept = getattr(optimizer, "_default_dict", {})
    return kept[name] if name in kept else getattr(optimizer, f"_{name}", None)


def _rule(optimizer: Optimizer, settings: Settings, rate: float) -> specs.Rule:
    def number(name: str) -> float | None:
        """Also of a tensor with one number."""
        given = _setting(optimizer, settings, name)
        return None if given is None else float(given.item() if hasattr(given, "item") else given)

    return rule_of(type(optimizer).__name__, rate, number)


RULES: dict[str, tuple[Callable[..., specs.Rule], dict[str, str]]] = {
    "SGD": (specs.Sgd, {}),
    "Momentum": (specs.Momentum, {"momentum": "momentum", "use_nesterov": "nesterov"}),
    "Adagrad": (specs.Adagrad, {"initial_accumulator_value": "initial", "epsilon": "epsilon"}),
    "Adam": (specs.Adam, {name: name for name in ("beta1", "beta2", "epsilon")}),
    "AdamW": (specs.Adam, {name: name for name in ("beta1", "beta2", "epsilon")}),
    "RMSProp": (specs.RmsProp, {name: name for name in ("rho", "epsilon", "momentum", "centered")}),
}
"""Paddle's optimizers by their names: our rule, and its fields by the names of their settings."""


def rule_of(kind: str, rate: float, setting: Callable[[str], float | None]) -> specs.Rule:
    """Our rule for an optimizer of this kind; ``setting`` reads one of its settings by name. None: as the rule has it."""
    rule, names = RULES[kind]
    given = {ours: number for theirs, ours in names.items() if (number := setting(theirs)) is not None}
    given |= {name: bool(given[name]) for name in ("nesterov", "centered") if name in given}
    return rule(learning_rate=rate, **given)


def _groups(optimizer: Optimizer) -> Iterator[tuple[Settings, Sequence[Parameter]]]:
    """What each group of parameters says besides, and its parameters."""
    groups = getattr(optimizer, "_param_groups", None) or []
    if groups and isinstance(groups[0], dict):
        for group in groups:
            yield {name: each for name, each in group.items() if name != "params"}, group["params"]
        return
    yield {}, groups


def _refused(optimizer: Optimizer) -> Iterator[tuple[str, str]]:
    """Settings that no rule of ours has."""
    if getattr(optimizer, "_amsgrad", False):
        yield "amsgrad=True", "leave amsgrad out"
    if float(getattr(optimizer, "_rescale_grad", 1.0)) != 1.0:
        yield "rescale_grad", "multiply the loss instead"


def _touches_all(optimizer: Optimizer, settings: Settings, decay: specs.Decay) -> str:
    kind = type(optimizer).__name__
    if decay.l1 or decay.l2:
        return "weight decay moves all rows in each step"
    if kind in ("Momentum", "RMSProp"):
        return f"{kind} moves all rows in each step"
    if kind in ("Adam", "AdamW") and not _setting(optimizer, settings, "lazy_mode"):
        return f"{kind} without lazy_mode moves all rows in each step"
    return ""
