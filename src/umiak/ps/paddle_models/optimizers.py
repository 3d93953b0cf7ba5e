"""How parameters learn, read off Paddle's optimizers: rule, decay, rate and clipping of each. A decider.

No framework is imported: optimizers, regularizers and clips are known by the names of their classes, and read by their attributes.
What can't be carried over is a problem; all of them are found at once.
"""

from __future__ import annotations

from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.ps import specs
from umiak.ps.paddle_models.plans import TrainerClip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    Settings = Mapping[str, Any]
    """What a parameter group says, over what its optimizer does."""

CODE = "UM-PS-176"
CARRIED = "SGD, Momentum, Adagrad, Adam, AdamW, RMSProp"


@value
class LearnedBy:
    """How one parameter learns."""

    rule: specs.Rule
    decay: specs.Decay = specs.Decay()
    clip: specs.Clip = specs.Clip()
    rate: float = 1.0
    optimizer: int = 0
    clip_group: int | None = None
    """The place of its limits in `OptimizersRead.clips`."""
    label: str = ""
    """What tells the rule of its group from that of its optimizer."""
    touches_all: str = ""
    """Why Paddle moves every row of a sparse embedding in each step; nothing where only the rows of the batch learn."""


@value
class OptimizersRead:
    """All optimizers of a model."""

    learned: dict[int, LearnedBy]
    """By the `id` of the parameter."""
    parameters: tuple[Any, ...]
    clips: tuple[TrainerClip, ...]
    rates: tuple[float, ...]
    problems: tuple[Problem, ...]


def read(optimizers: Sequence[Any]) -> OptimizersRead:
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
        self.parameters: list[Any] = []
        self.clips: list[TrainerClip] = []
        self.rates: list[float] = []
        self.problems: list[Problem] = []

    def add(self, number: int, optimizer: Any) -> None:
        self.rates.append(_base_rate(optimizer))
        kind = type(optimizer).__name__
        make = RULES.get(kind) if type(optimizer).__module__.startswith("paddle.optimizer") else None
        if make is None:
            self._problem(f"optimizer: {kind} can't be carried over to tables", f"one of {CARRIED} can")
            return
        for what, hint in _refused(optimizer):
            self._problem(f"optimizer: {kind}: {what} can't be carried over to tables", hint)
        usual = make(optimizer, {}, self.rates[number])
        for place, (settings, parameters) in enumerate(_groups(optimizer)):
            rule = make(optimizer, settings, self.rates[number])
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

    def _limits(self, clip: Any) -> tuple[specs.Clip, int | None]:
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

    def _decay(self, optimizer: Any, settings: Settings, parameter: Any) -> specs.Decay:
        regularizer: Any = getattr(parameter, "regularizer", None)
        if regularizer is None:
            regularizer = getattr(optimizer, "regularization", None)
            if _setting(optimizer, settings, "regularization_method") == "l2_decay":
                # Momentum keeps its own L2 decay beside.
                return specs.Decay(l2=float(_setting(optimizer, settings, "regularization_coeff")))
        decoupled = 0.0
        if type(optimizer).__name__ == "AdamW":
            chosen = getattr(optimizer, "_apply_decay_param_fun", None)
            if chosen is None or chosen(parameter.name):
                decoupled = float(_setting(optimizer, settings, "weight_decay") or 0.0)
        match type(regularizer).__name__:
            case "NoneType":
                return specs.Decay(decoupled=decoupled)
            case "L1Decay":
                return specs.Decay(l1=float(regularizer._coeff), decoupled=decoupled)  # noqa: SLF001
            case "L2Decay":
                return specs.Decay(l2=float(regularizer._coeff), decoupled=decoupled)  # noqa: SLF001
            case other:
                hint = "paddle.regularizer.L1Decay and L2Decay can"
                self._problem(f"regularizer: {other} can't be carried over to tables", hint)
                return specs.Decay()

    def _rate(self, optimizer: Any, parameter: Any) -> float:
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


def _setting(optimizer: Any, settings: Settings, name: str) -> Any:
    """What a group says, or its optimizer.

    Paddle overwrites an optimizer's own attributes with those of the group that learned last, so its defaults are asked first.
    """
    if name in settings:
        return settings[name]
    kept = getattr(optimizer, "_default_dict", {})
    return kept[name] if name in kept else getattr(optimizer, f"_{name}", None)


def _sgd(optimizer: Any, settings: Settings, rate: float) -> specs.Rule:
    del optimizer, settings
    return specs.Sgd(rate)


def _momentum(optimizer: Any, settings: Settings, rate: float) -> specs.Rule:
    momentum = float(_setting(optimizer, settings, "momentum"))
    return specs.Momentum(rate, momentum, nesterov=bool(_setting(optimizer, settings, "use_nesterov")))


def _adagrad(optimizer: Any, settings: Settings, rate: float) -> specs.Rule:
    initial = float(_setting(optimizer, settings, "initial_accumulator_value") or 0.0)
    return specs.Adagrad(rate, initial, float(_setting(optimizer, settings, "epsilon")))


def _adam(optimizer: Any, settings: Settings, rate: float) -> specs.Rule:
    beta1, beta2, epsilon = (_number(_setting(optimizer, settings, name)) for name in ("beta1", "beta2", "epsilon"))
    return specs.Adam(rate, beta1, beta2, epsilon)


def _rmsprop(optimizer: Any, settings: Settings, rate: float) -> specs.Rule:
    rho, epsilon, momentum = (float(_setting(optimizer, settings, name)) for name in ("rho", "epsilon", "momentum"))
    return specs.RmsProp(rate, rho, epsilon, momentum, centered=bool(_setting(optimizer, settings, "centered")))


RULES: dict[str, Callable[[Any, Settings, float], specs.Rule]] = {
    "SGD": _sgd,
    "Momentum": _momentum,
    "Adagrad": _adagrad,
    "Adam": _adam,
    "AdamW": _adam,
    "RMSProp": _rmsprop,
}
"""Paddle's optimizers by their names."""


def _number(number: Any) -> float:
    """Also of a tensor with one number."""
    return float(number.item() if hasattr(number, "item") else number)


def _base_rate(optimizer: Any) -> float:
    """What the learning rate is relative to: the first one, or where that is 0, 1."""
    given = getattr(optimizer, "_learning_rate", 1.0)
    return float(getattr(given, "base_lr", given)) or 1.0


def _groups(optimizer: Any) -> Iterator[tuple[Settings, Sequence[Any]]]:
    """What each group of parameters says besides, and its parameters."""
    groups = getattr(optimizer, "_param_groups", None) or []
    if groups and isinstance(groups[0], dict):
        for group in groups:
            yield {name: each for name, each in group.items() if name != "params"}, group["params"]
        return
    yield {}, groups


def _refused(optimizer: Any) -> Iterator[tuple[str, str]]:
    """Settings that no rule of ours has."""
    if getattr(optimizer, "_amsgrad", False):
        yield "amsgrad=True", "leave amsgrad out"
    if float(getattr(optimizer, "_rescale_grad", 1.0)) != 1.0:
        yield "rescale_grad", "multiply the loss instead"


def _touches_all(optimizer: Any, settings: Settings, decay: specs.Decay) -> str:
    kind = type(optimizer).__name__
    if decay.l1 or decay.l2:
        return "weight decay moves all rows in each step"
    if kind in ("Momentum", "RMSProp"):
        return f"{kind} moves all rows in each step"
    if kind in ("Adam", "AdamW") and not _setting(optimizer, settings, "lazy_mode"):
        return f"{kind} without lazy_mode moves all rows in each step"
    return ""
