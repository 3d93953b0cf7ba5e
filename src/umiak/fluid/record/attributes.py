"""Settings of parameters: `ParamAttr`, `WeightNormParamAttr` refused elsewhere, and initializers as operations of the startup program. Values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from umiak.fluid.record.problems import bad

if TYPE_CHECKING:
    from umiak.fluid.arguments import Arguments, Attr, Clip, Penalty, Value


class Initializer:
    """First values of a parameter: the operation of the startup program that makes them."""

    def operation(self, shape: tuple[int, ...]) -> tuple[str, Arguments]:
        """Its type and its arguments beside shape and type."""
        raise NotImplementedError


class ConstantInitializer(Initializer):
    """One value everywhere."""

    def __init__(self, value: float = 0.0, force_cpu: bool = False) -> None:
        self.value = value

    def operation(self, shape: tuple[int, ...]) -> tuple[str, Arguments]:
        return "fill_constant", {"value": self.value}


class UniformInitializer(Initializer):
    """Evenly between two bounds."""

    def __init__(self, low: float = -1.0, high: float = 1.0, seed: int = 0, diag_num: int = 0, diag_step: int = 0, diag_val: float = 1.0) -> None:  # fmt: skip
        if diag_num:
            raise bad(
                "UM-FLUID-003",
                f"initializer.Uniform(diag_num={diag_num}, diag_step={diag_step}, diag_val={diag_val}) does not work yet",
                "use NumpyArrayInitializer",
            )
        self.low, self.high, self.seed = low, high, seed

    def operation(self, shape: tuple[int, ...]) -> tuple[str, Arguments]:
        return "uniform_random", {"min": self.low, "max": self.high, "seed": self.seed}


class NormalInitializer(Initializer):
    """Around a mean."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        self.mean, self.deviation, self.seed = loc, scale, seed

    def operation(self, shape: tuple[int, ...]) -> tuple[str, Arguments]:
        return "gaussian_random", {"mean": self.mean, "std": self.deviation, "seed": self.seed}


class TruncatedNormalInitializer(NormalInitializer):
    """Around a mean, nothing further away than two deviations."""

    def operation(self, shape: tuple[int, ...]) -> tuple[str, Arguments]:
        return "truncated_gaussian_random", {"mean": self.mean, "std": self.deviation, "seed": self.seed}


def fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """How many values go into and out of one output, as 1.8 counts them."""
    if not shape:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    if len(shape) == 2:
        return shape[0], shape[1]
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


class XavierInitializer(Initializer):
    """By the number of inputs and outputs; even by default."""

    def __init__(
        self, uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0
    ) -> None:
        self.uniform, self.fan_in, self.fan_out, self.seed = uniform, fan_in, fan_out, seed

    def operation(self, shape: tuple[int, ...]) -> tuple[str, Arguments]:
        fan_in, fan_out = fans(shape)
        fan_in = fan_in if self.fan_in is None else self.fan_in
        fan_out = fan_out if self.fan_out is None else self.fan_out
        return _spread(math.sqrt(2.0 / (fan_in + fan_out)), self.uniform, self.seed)


class MSRAInitializer(Initializer):
    """By the number of inputs; even by default."""

    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> None:
        self.uniform, self.fan_in, self.seed = uniform, fan_in, seed

    def operation(self, shape: tuple[int, ...]) -> tuple[str, Arguments]:
        fan_in = fans(shape)[0] if self.fan_in is None else self.fan_in
        return _spread(math.sqrt(2.0 / fan_in), self.uniform, self.seed)


def _spread(deviation: float, uniform: bool, seed: int) -> tuple[str, Arguments]:
    if uniform:
        limit = math.sqrt(3.0) * deviation
        return "uniform_random", {"min": -limit, "max": limit, "seed": seed}
    return "gaussian_random", {"mean": 0.0, "std": deviation, "seed": seed}


class NumpyArrayInitializer(Initializer):
    """Values that are given."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def operation(self, shape: tuple[int, ...]) -> tuple[str, Arguments]:
        if tuple(self.value.shape) != tuple(shape):
            raise bad(
                "UM-FLUID-002",
                f"NumpyArrayInitializer has values of shape {list(self.value.shape)}, the parameter is {list(shape)}",
            )
        return "assign_value", {"values": self.value}


class BilinearInitializer(Initializer):
    """Weights of a transposed convolution that makes an image larger by interpolation."""

    def operation(self, shape: tuple[int, ...]) -> tuple[str, Arguments]:
        if len(shape) != 4 or shape[2] != shape[3]:
            raise bad(
                "UM-FLUID-002", f"initializer.Bilinear is for 4 dimensions with a square filter, not {list(shape)}"
            )
        return "bilinear_weights", {}


class ParamAttr:
    """What is set of one parameter."""

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Penalty = None,
        trainable: bool = True,
        gradient_clip: Clip = None,
        do_model_average: bool = True,
    ) -> None:
        self.name, self.initializer, self.learning_rate = name, initializer, learning_rate
        self.regularizer, self.trainable, self.gradient_clip = regularizer, trainable, gradient_clip
        self.do_model_average = do_model_average

    @staticmethod
    def of(attribute: Attr) -> ParamAttr | None:
        """What `param_attr=` may be: nothing, a name, an initializer, a regularizer, a switch. None is: no parameter."""
        if attribute is None or attribute is True:
            return ParamAttr()
        if attribute is False:
            return None
        if isinstance(attribute, ParamAttr):
            return attribute
        if isinstance(attribute, str):
            return ParamAttr(name=attribute)
        if isinstance(attribute, Initializer):
            return ParamAttr(initializer=attribute)
        if hasattr(attribute, "coefficient"):
            return ParamAttr(regularizer=attribute)
        expected = "a ParamAttr, a name, an initializer, a regularizer or False"
        raise bad("UM-FLUID-002", f"expected {expected} for a parameter, got {attribute!r}")
