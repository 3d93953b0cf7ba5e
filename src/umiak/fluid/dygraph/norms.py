"""Layers of `fluid.dygraph` that normalize. A program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from umiak.fluid.dygraph.layer import Layer
from umiak.fluid.kernels.registry import KERNELS
from umiak.fluid.record.attributes import ConstantInitializer, NormalInitializer, ParamAttr
from umiak.fluid.record.current import is_training
from umiak.fluid.record.problems import bad
from umiak.fluid.record.recording import activated, apply
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Act, Attr, DType, Input, Output, Shape

ONE = ConstantInitializer(1.0)


class BatchNorm(Layer):
    """Normalized by the batch; the running mean and variance count when it is tested."""

    def __init__(self, num_channels: int, act: Act = None, is_test: bool = False, momentum: float = 0.9, epsilon: float = 1e-05, param_attr: Attr = None, bias_attr: Attr = None, dtype: DType = "float32", data_layout: str = "NCHW", in_place: bool = False, moving_mean_name: str | None = None, moving_variance_name: str | None = None, do_model_average_for_mean_and_var: bool = True, use_global_stats: bool = False, trainable_statistics: bool = False) -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        self._act, self._trainable_statistics = act, trainable_statistics
        self._settings = {
            "momentum": momentum,
            "epsilon": epsilon,
            "data_layout": data_layout,
            "use_global_stats": use_global_stats,
        }
        self.weight = self.create_parameter([num_channels], param_attr, default_initializer=ONE)
        self.bias = self.create_parameter([num_channels], bias_attr, is_bias=True)
        self._mean = self._statistic(moving_mean_name, num_channels, 0.0)
        self._variance = self._statistic(moving_variance_name, num_channels, 1.0)

    def _statistic(self, name: str | None, channels: int, value: float) -> Output:
        """In 1.8 it is a parameter that does not learn, numbered as weights are."""
        attribute = ParamAttr(name=name, initializer=ConstantInitializer(value), trainable=False)
        return self.create_parameter([channels], attribute)

    def forward(self, input: Input) -> Output:
        """The normalized images or rows."""
        learns = (self.training and is_training()) or self._trainable_statistics
        output, _, _ = KERNELS["batch_norm"].function(
            input,
            scale=self.weight,
            bias=self.bias,
            mean=self._mean,
            variance=self._variance,
            is_test=not learns,
            **self._settings,
        )
        return activated(output, self._act)


class LayerNorm(Layer):
    """Normalized over the last dimensions."""

    def __init__(self, normalized_shape: Shape, scale: bool = True, shift: bool = True, epsilon: float = 1e-05, param_attr: Attr = None, bias_attr: Attr = None, act: Act = None, dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        self._shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        self._epsilon, self._act = epsilon, act
        size = [math.prod(self._shape)]
        self.weight = self.create_parameter(size, param_attr, default_initializer=ONE) if scale else None
        self.bias = self.create_parameter(size, bias_attr, is_bias=True) if shift else None

    def forward(self, input: Input) -> Output:
        """Each row with mean 0 and deviation 1, before scale and shift."""
        first = len(input.shape) - len(self._shape)
        if list(input.shape[first:]) != self._shape:
            what = f"LayerNorm of {self._shape} does not fit {list(input.shape)}"
            raise bad("UM-FLUID-002", what, where=user_line())
        arguments = {"input": input, "scale": self.weight, "bias": self.bias}
        return apply("layer_norm", {**arguments, "begin_norm_axis": first, "epsilon": self._epsilon}, act=self._act)


class InstanceNorm(Layer):
    """Normalized over each image's channel."""

    def __init__(self, num_channels: int, epsilon: float = 1e-05, param_attr: Attr = None, bias_attr: Attr = None, dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        self._epsilon = epsilon
        self.scale = self.create_parameter([num_channels], param_attr, default_initializer=ONE)
        self.bias = self.create_parameter([num_channels], bias_attr, is_bias=True)

    def forward(self, input: Input) -> Output:
        """The normalized images."""
        arguments = {"input": input, "scale": self.scale, "bias": self.bias, "epsilon": self._epsilon}
        return apply("instance_norm", arguments)


class GroupNorm(Layer):
    """Normalized over groups of channels."""

    def __init__(self, channels: int, groups: int, epsilon: float = 1e-05, param_attr: Attr = None, bias_attr: Attr = None, act: Act = None, data_layout: str = "NCHW", dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        if data_layout != "NCHW":
            raise bad("UM-FLUID-003", f"GroupNorm(data_layout={data_layout!r}) does not work, nor did it in 1.8", where=user_line())  # fmt: skip
        self._settings = {"groups": groups, "epsilon": epsilon, "data_layout": data_layout}
        self._act = act
        self.weight = self.create_parameter([channels], param_attr, default_initializer=ONE)
        self.bias = self.create_parameter([channels], bias_attr, is_bias=True)

    def forward(self, input: Input) -> Output:
        """The normalized images."""
        arguments = {"input": input, "scale": self.weight, "bias": self.bias, **self._settings}
        return apply("group_norm", arguments, act=self._act)


class SpectralNorm(Layer):
    """A weight over its largest singular value, which is found by power iterations."""

    def __init__(self, weight_shape: Shape, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        self._settings = {"dim": dim, "power_iters": power_iters, "eps": eps}
        height = weight_shape[dim]
        width = math.prod(weight_shape) // height
        drawn = ParamAttr(initializer=NormalInitializer(0.0, 1.0), trainable=False)
        self.weight_u = self.create_parameter([height], drawn)
        self.weight_v = self.create_parameter([width], drawn)

    def forward(self, weight: Input) -> Output:
        """The weight, divided."""
        arguments = {"weight": weight, "u": self.weight_u, "v": self.weight_v, **self._settings}
        return apply("spectral_norm", arguments)
