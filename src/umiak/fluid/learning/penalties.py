"""Regularizers and clips of gradients, and what each of them records. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umiak.fluid.record.current import default_main_program
from umiak.fluid.record.program import OPTIMIZE, RecordedProgram
from umiak.fluid.record.recording import apply
from umiak.fluid.record.remarks import left_out

if TYPE_CHECKING:
    from umiak.fluid.arguments import Clip, Input, Inputs, Output, Outputs


class L2DecayRegularizer:
    """A penalty on squares: the coefficient times the parameter is added to its gradient."""

    power = 2

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        self.coefficient = regularization_coeff

    def __call__(self, parameter: Input, gradient: Input) -> Output:
        if not self.coefficient:
            return gradient
        arguments = {"gradient": gradient, "parameter": parameter, "coefficient": self.coefficient, "power": self.power}
        return apply("decay", arguments, role=OPTIMIZE)

    def __str__(self) -> str:
        return f"L{self.power}Decay, regularization_coeff={self.coefficient}"


class L1DecayRegularizer(L2DecayRegularizer):
    """A penalty on sizes: the coefficient times the sign of the parameter is added to its gradient."""

    power = 1


class GradientClipByValue:
    """Each element between two bounds."""

    def __init__(self, max: float, min: float | None = None, need_clip: Clip = None) -> None:
        self.max, self.min, self.need_clip = float(max), float(-max if min is None else min), need_clip

    def __call__(self, pairs: Outputs) -> Outputs:
        """The clipped gradients."""
        return [
            (parameter, apply("clip_gradient", {"gradient": gradient, "min": self.min, "max": self.max}, role=OPTIMIZE))
            if chosen(self, parameter)
            else (parameter, gradient)
            for parameter, gradient in pairs
        ]


class GradientClipByNorm:
    """Each gradient no longer than this."""

    def __init__(self, clip_norm: float, need_clip: Clip = None) -> None:
        self.clip_norm, self.need_clip = float(clip_norm), need_clip

    def __call__(self, pairs: Outputs) -> Outputs:
        """The clipped gradients."""
        return [
            (parameter, apply("clip_gradient_norm", {"gradient": gradient, "clip_norm": self.clip_norm}, role=OPTIMIZE))
            if chosen(self, parameter)
            else (parameter, gradient)
            for parameter, gradient in pairs
        ]


class GradientClipByGlobalNorm:
    """All gradients together no longer than this."""

    def __init__(self, clip_norm: float, group_name: str = "default_group", need_clip: Clip = None) -> None:
        left_out("clip.GradientClipByGlobalNorm", group_name=group_name)
        self.clip_norm, self.need_clip = float(clip_norm), need_clip

    def __call__(self, pairs: Outputs) -> Outputs:
        """The clipped gradients."""
        clipped = [pair for pair in pairs if chosen(self, pair[0])]
        if not clipped:
            return pairs
        arguments = {"gradients": [gradient for _, gradient in clipped], "clip_norm": self.clip_norm}
        outputs = apply("clip_by_global_norm", arguments, outputs=len(clipped), role=OPTIMIZE)
        new = dict(
            zip(
                (parameter.name for parameter, _ in clipped),
                outputs if isinstance(outputs, tuple | list) else [outputs],
                strict=True,
            )
        )
        return [(parameter, new.get(parameter.name, gradient)) for parameter, gradient in pairs]


class ErrorClipByValue:
    """Of one variable, by its `_set_error_clip`: the gradient that goes through it is kept between two bounds."""

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max, self.min = float(max), float(-max if min is None else min)

    def __str__(self) -> str:
        return f"ByValue, min={self.min:f}, max={self.max:f}"


def chosen(clip: Clip, parameter: Input) -> bool:
    """Whether a clip is for this parameter."""
    return clip.need_clip is None or bool(clip.need_clip(parameter))


_of_programs: dict[int, tuple[RecordedProgram, Any]] = {}


def set_gradient_clip(clip: Clip, param_list: Inputs = None, program: RecordedProgram | None = None) -> None:
    """A clip for parameters of a program, or for all that it has."""
    program = program or default_main_program()
    if param_list is None:
        _of_programs[program.number] = (program, clip)
        for parameter in program.all_parameters():
            parameter.gradient_clip_attr = clip
        return
    for each in param_list:
        chosen_one: Any = program.global_block().var(each) if isinstance(each, str) else each
        chosen_one.gradient_clip_attr = clip


def clipped(pairs: Outputs, of_optimizer: Clip) -> Outputs:
    """The gradients by the optimizer's clip, or by those of the parameters: clips come before regularizers."""
    if of_optimizer is not None:
        return list(of_optimizer(pairs))
    groups: dict[int, tuple[Any, Outputs]] = {}
    for parameter, gradient in pairs:
        clip = parameter.gradient_clip_attr
        if clip is None:
            clip = _of_programs.get(parameter.block.program.number, (None, None))[1]
        groups.setdefault(id(clip), (clip, []))[1].append((parameter, gradient))
    found = {}
    for clip, members in groups.values():
        for parameter, gradient in clip(members) if clip is not None else members:
            found[parameter.name] = gradient
    return [(parameter, found[parameter.name]) for parameter, _ in pairs]


def clipped_at_once(pairs: Outputs, of_optimizer: Clip) -> Outputs:
    """The same inside of `dygraph.guard`, where a clip is the optimizer's, or that of a parameter."""
    if of_optimizer is not None:
        return list(of_optimizer(pairs))
    clipped: Outputs = []
    for parameter, gradient in pairs:
        clip = getattr(parameter, "gradient_clip_attr", None)
        clipped += [(parameter, gradient)] if clip is None else clip([(parameter, gradient)])
    return clipped


def regularized(pairs: Outputs, of_optimizer: Clip) -> Outputs:
    """The gradients with the penalty of each parameter, or with the optimizer's."""
    regularized = []
    for parameter, gradient in pairs:
        penalty = parameter.regularizer if parameter.regularizer is not None else of_optimizer
        regularized.append((parameter, gradient if penalty is None else penalty(parameter, gradient)))
    return regularized
