"""Layers of `fluid.dygraph` that project, look up, pool or drop: arguments and defaults as in 1.8. A program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from umiak.fluid.dygraph.layer import Layer, of_one
from umiak.fluid.record.attributes import ConstantInitializer, NormalInitializer
from umiak.fluid.record.problems import bad
from umiak.fluid.record.recording import activated, apply
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Act, Attr, DType, Input, Output, Shape, Sizes


class Linear(Layer):
    """A projection of the last dimension."""

    def __init__(self, input_dim: int, output_dim: int, param_attr: Attr = None, bias_attr: Attr = None, act: Act = None, dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        self._act = act
        self.weight = self.create_parameter([input_dim, output_dim], param_attr)
        self.bias = self.create_parameter([output_dim], bias_attr, is_bias=True)

    def forward(self, input: Input) -> Output:
        """The projection of each row."""
        return apply("linear", {"x": input, "weight": self.weight, "bias": self.bias}, act=self._act)


class Embedding(Layer):
    """Rows by their ids: a dimension more than the ids have."""

    def __init__(self, size: Sizes, is_sparse: bool = False, is_distributed: bool = False, padding_idx: int | None = None, param_attr: Attr = None, dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        left_out("dygraph.Embedding", is_distributed=is_distributed)
        padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx
        self._settings = {"padding_idx": padding, "is_sparse": is_sparse, "drops_last": False}
        self.weight = self.create_parameter(size, param_attr)

    def forward(self, input: Input) -> Output:
        """A row for each id."""
        return apply("lookup_table", {"weight": self.weight, "ids": input, **self._settings})


class _Convolution(Layer):
    """What convolutions of two and of three dimensions share."""

    dimensions = 2
    data_format = "NCHW"

    def __init__(self, num_channels: int, num_filters: int, filter_size: Sizes, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1, groups: int | None = None, param_attr: Attr = None, bias_attr: Attr = None, use_cudnn: bool = True, act: Act = None, dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        groups = groups or 1
        if num_channels % groups:
            what = f"{type(self).__name__}: {num_channels} channels can't be divided into {groups} groups"
            raise bad("UM-FLUID-002", what, where=user_line())
        sizes = of_one(filter_size, self.dimensions)
        deviation = math.sqrt(2.0 / (math.prod(sizes) * num_channels))
        self._act = act
        self._settings = {
            "stride": of_one(stride, self.dimensions),
            "padding": of_one(padding, self.dimensions),
            "dilation": of_one(dilation, self.dimensions),
            "groups": groups,
            "data_format": self.data_format,
        }
        shape = [num_filters, num_channels // groups, *sizes]
        self.weight = self.create_parameter(shape, param_attr, default_initializer=NormalInitializer(0.0, deviation))
        self.bias = self.create_parameter([num_filters], bias_attr, is_bias=True)

    def forward(self, input: Input) -> Output:
        """The convolved images."""
        output = apply("conv", {"input": input, "weight": self.weight, **self._settings})
        return biased(output, self.bias, 1, self._act)


class Conv2D(_Convolution):
    """A convolution of images."""


class Conv3D(_Convolution):
    """A convolution of films."""

    dimensions = 3
    data_format = "NCDHW"


def biased(found: Input, bias: Input, axis: int, act: Act) -> Output:
    """With a bias along one dimension, if there is one, and an activation."""
    if bias is None:
        return activated(found, act)
    return apply("bias_add", {"x": found, "bias": bias, "axis": axis}, act=act)


class _Transposed(Layer):
    """What transposed convolutions share."""

    dimensions = 2
    data_format = "NCHW"

    def _prepare(self, channels: int, filters: int, filter_size: Sizes, output_size: Shape, settings: dict[str, Sizes], attributes: tuple[Attr, Attr], act: Act) -> None:  # fmt: skip
        groups = int(settings["groups"] or 1)
        self._act = act
        self._settings = {
            **{key: of_one(settings[key], self.dimensions) for key in ("stride", "padding", "dilation")},
            "groups": groups,
            "output_size": output_size,
            "data_format": self.data_format,
        }
        shape = [channels, filters // groups, *of_one(filter_size, self.dimensions)]
        self.weight = self.create_parameter(shape, attributes[0])
        self.bias = self.create_parameter([filters], attributes[1], is_bias=True)

    def forward(self, input: Input) -> Output:
        """The images, made larger."""
        output = apply("conv_transpose", {"input": input, "weight": self.weight, **self._settings})
        return biased(output, self.bias, 1, self._act)


class Conv2DTranspose(_Transposed):
    """A transposed convolution of images."""

    def __init__(self, num_channels: int, num_filters: int, filter_size: Sizes, output_size: Shape = None, padding: Sizes = 0, stride: Sizes = 1, dilation: Sizes = 1, groups: int | None = None, param_attr: Attr = None, bias_attr: Attr = None, use_cudnn: bool = True, act: Act = None, dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        self._prepare(num_channels, num_filters, filter_size, output_size, settings, (param_attr, bias_attr), act)


class Conv3DTranspose(_Transposed):
    """A transposed convolution of films."""

    dimensions = 3
    data_format = "NCDHW"

    def __init__(self, num_channels: int, num_filters: int, filter_size: Sizes, padding: Sizes = 0, stride: Sizes = 1, dilation: Sizes = 1, groups: int | None = None, param_attr: Attr = None, bias_attr: Attr = None, use_cudnn: bool = True, act: Act = None, dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        self._prepare(num_channels, num_filters, filter_size, None, settings, (param_attr, bias_attr), act)


class Pool2D(Layer):
    """The maximum or the mean of windows; 1.8's stride is 1."""

    def __init__(self, pool_size: Sizes = -1, pool_type: str = "max", pool_stride: Sizes = 1, pool_padding: Sizes = 0, global_pooling: bool = False, use_cudnn: bool = True, ceil_mode: bool = False, exclusive: bool = True) -> None:  # fmt: skip
        super().__init__()
        if pool_type not in ("max", "avg"):
            raise bad("UM-FLUID-002", f"Pool2D: expected max or avg as pool_type, got {pool_type!r}", where=user_line())
        if not global_pooling and pool_size == -1:
            what = "Pool2D needs pool_size, or global_pooling=True"
            raise bad("UM-FLUID-002", what, where=user_line())
        self._settings = {
            "pool_size": pool_size,
            "pool_type": pool_type,
            "pool_stride": pool_stride,
            "pool_padding": pool_padding,
            "global_pooling": global_pooling,
            "use_cudnn": use_cudnn,
            "ceil_mode": ceil_mode,
            "exclusive": exclusive,
            "data_format": "NCHW",
        }

    def forward(self, input: Input) -> Output:
        """Smaller images."""
        return apply("pool2d", {"input": input, **self._settings})


class Dropout(Layer):
    """Elements become zero by chance while it trains."""

    def __init__(self, p: float = 0.5, seed: int | None = None, dropout_implementation: str = "downgrade_in_infer", is_test: bool = False) -> None:  # fmt: skip
        super().__init__()
        if dropout_implementation not in ("downgrade_in_infer", "upscale_in_train"):
            what = f"Dropout: expected downgrade_in_infer or upscale_in_train, got {dropout_implementation!r}"
            raise bad("UM-FLUID-002", what, where=user_line())
        self._settings = {"dropout_prob": p, "seed": seed, "dropout_implementation": dropout_implementation}

    def forward(self, input: Input) -> Output:
        """The elements that are left."""
        return apply("dropout", {"x": input, "is_test": not self.training, **self._settings})


class GRUUnit(Layer):
    """One step of a GRU; the size is three times the width."""

    def __init__(self, size: int, param_attr: Attr = None, bias_attr: Attr = None, activation: str = "tanh", gate_activation: str = "sigmoid", origin_mode: bool = False, dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        width = size // 3
        self._settings = {
            "size": width,
            "activation": activation,
            "gate_activation": gate_activation,
            "origin_mode": origin_mode,
        }
        self.weight = self.create_parameter([width, 3 * width], param_attr)
        self.bias = self.create_parameter([1, 3 * width], bias_attr, is_bias=True)

    def forward(self, input: Input, hidden: Input) -> Output:
        """The hidden state, the reset one, and the gates."""
        arguments = {"input": input, "hidden": hidden, "weight": self.weight, "bias": self.bias, **self._settings}
        return apply("gru_unit", arguments, outputs=3)


class PRelu(Layer):
    """A slope below zero that is learned: one for all, for each channel or for each element."""

    def __init__(self, mode: str, channel: int | None = None, input_shape: Shape = None, param_attr: Attr = None, dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(name_scope="prelu", dtype=dtype)
        needed = {"all": 1, "channel": channel, "element": input_shape}
        if needed.get(mode) is None:
            what = f"PRelu(mode={mode!r}) needs {'channel' if mode == 'channel' else 'input_shape'}"
            if mode not in needed:
                what = f"PRelu: expected all, channel or element as mode, got {mode!r}"
            raise bad("UM-FLUID-002", what, where=user_line())
        shapes = {"all": [1], "channel": [1, channel or 1, 1, 1], "element": list(input_shape or ())}
        self._mode = mode
        self.weight = self.create_parameter(shapes[mode], param_attr, default_initializer=ConstantInitializer(1.0))

    def forward(self, input: Input) -> Output:
        """Negative elements times the slope."""
        return apply("prelu", {"x": input, "alpha": self.weight, "mode": self._mode})


class BilinearTensorProduct(Layer):
    """x times a matrix times y, for each output."""

    def __init__(self, input1_dim: int, input2_dim: int, output_dim: int, name: str | None = None, act: Act = None, param_attr: Attr = None, bias_attr: Attr = None, dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        self._act = act
        self.weight = self.create_parameter([output_dim, input1_dim, input2_dim], param_attr)
        self.bias = self.create_parameter([1, output_dim], bias_attr, is_bias=True)

    def forward(self, x: Input, y: Input) -> Output:
        """A row of outputs for each pair of rows."""
        return apply(
            "bilinear_tensor_product", {"x": x, "y": y, "weight": self.weight, "bias": self.bias}, act=self._act
        )


class NCE(Layer):
    """The cost of a class against some that are drawn, in place of all."""

    def __init__(self, num_total_classes: int, dim: int, sample_weight: Input = None, param_attr: Attr = None, bias_attr: Attr = None, num_neg_samples: int | None = None, sampler: str = "uniform", custom_dist: Input = None, seed: int = 0, is_sparse: bool = False, dtype: DType = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        left_out("dygraph.NCE", is_sparse=is_sparse)
        self._sample_weight = sample_weight
        if sampler not in ("uniform", "log_uniform", "custom_dist"):
            what = f"NCE: expected uniform, log_uniform or custom_dist as sampler, got {sampler!r}"
            raise bad("UM-FLUID-002", what, where=user_line())
        self._settings = {
            "num_total_classes": num_total_classes,
            "num_neg_samples": 10 if num_neg_samples is None else int(num_neg_samples),
            "sampler": sampler,
            "custom_dist": None if custom_dist is None else [float(each) for each in custom_dist],
            "seed": seed,
        }
        self.weight = self.create_parameter([num_total_classes, dim], param_attr)
        self.bias = self.create_parameter([num_total_classes, 1], bias_attr, is_bias=True)

    def forward(self, input: Input, label: Input, sample_weight: Input = None) -> Output:
        """The cost of each row."""
        sample_weight = self._sample_weight if sample_weight is None else sample_weight
        arguments = {"input": input, "label": label, "weight": self.weight, "bias": self.bias}
        return apply("nce", {**arguments, "sample_weight": sample_weight, **self._settings})
