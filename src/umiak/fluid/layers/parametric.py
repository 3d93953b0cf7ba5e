"""Layers with parameters: fc, embedding, convolutions, normalization. They record the parameter's first value in the startup program. A program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from umiak.fluid.record import naming
from umiak.fluid.record.attributes import ConstantInitializer, NormalInitializer
from umiak.fluid.record.current import default_main_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.recording import activated, apply, create_parameter, create_state
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Act, Attr, Input, Output, Outputs, Shape, Sizes, Value


def _listed(given: Value) -> Outputs:
    return list(given) if isinstance(given, list | tuple) else [given]


def fc(input: Input, size: int, num_flatten_dims: int = 1, param_attr: Attr = None, bias_attr: Attr = None, act: Act = None, name: str | None = None) -> Output:  # fmt: skip
    """Each input is projected by a matrix of its own, and all are added."""
    layer = name or naming.generate("fc")
    inputs = _listed(input)
    attributes = list(param_attr) if isinstance(param_attr, list | tuple) else [param_attr] * len(inputs)
    projected = []
    for each, attribute in zip(inputs, attributes, strict=True):
        flat = num_flatten_dims if num_flatten_dims >= 0 else len(each.shape) + num_flatten_dims
        columns = each.shape[flat:]
        if any(width < 0 for width in columns):
            what = f"fluid.layers.fc needs the width of its input, got {each} with num_flatten_dims={num_flatten_dims}"
            raise bad("UM-FLUID-002", what, where=user_line())
        weight = create_parameter(layer, attribute, [math.prod(columns), size], each.dtype)
        arguments = {"x": each, "y": weight, "x_num_col_dims": flat, "y_num_col_dims": 1}
        projected.append(apply("mul", arguments, name=layer))
    bias = create_parameter(layer, bias_attr, [size], inputs[0].dtype, is_bias=True)
    if bias is None and len(projected) == 1:
        return activated(projected[0], act)
    return apply("fc_sum", {"inputs": projected, "bias": bias}, name=layer, act=act)


def embedding(input: Input, size: Sizes, is_sparse: bool = False, is_distributed: bool = False, padding_idx: int | None = None, param_attr: Attr = None, dtype: str = "float32") -> Output:  # fmt: skip
    """`fluid.layers.embedding`: ids that end in a dimension of one lose it."""
    return _looked_up(
        input, size, is_sparse, padding_idx, param_attr, dtype, drops_last=True, is_distributed=is_distributed
    )


def embedding_v2(input: Input, size: Sizes, is_sparse: bool = False, is_distributed: bool = False, padding_idx: int | None = None, param_attr: Attr = None, dtype: str = "float32") -> Output:  # fmt: skip
    """`fluid.embedding`: a dimension more than the ids have."""
    return _looked_up(
        input, size, is_sparse, padding_idx, param_attr, dtype, drops_last=False, is_distributed=is_distributed
    )


def _looked_up(ids: Input, size: Sizes, is_sparse: bool, padding_idx: int | None, attribute: Attr, dtype: str, *, drops_last: bool, is_distributed: bool) -> Output:  # fmt: skip
    layer = naming.generate("embedding")
    weight = create_parameter(layer, attribute, size, dtype)
    weight.is_distributed = weight.is_distributed or is_distributed
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx
    arguments = {"weight": weight, "ids": ids, "padding_idx": padding, "is_sparse": is_sparse, "drops_last": drops_last}
    return apply("lookup_table", arguments, name=layer)


def _several(given: Value, count: int) -> list[int]:
    return [int(each) for each in given] if isinstance(given, list | tuple) else [int(given)] * count


def _padding(given: Value, count: int) -> Output:
    if isinstance(given, str):
        return given.upper()
    if isinstance(given, list | tuple) and given and isinstance(given[0], list | tuple):
        return [each for pair in list(given)[-count:] for each in pair]
    return _several(given, count)


def _biased(found: Any, layer: str, attribute: Attr, channels: int, act: Act, data_format: str) -> Output:
    bias = create_parameter(layer, attribute, [channels], found.dtype, is_bias=True)
    if bias is None:
        return activated(found, act)
    axis = 1 if data_format.startswith("NC") else len(found.shape) - 1
    return apply("bias_add", {"x": found, "bias": bias, "axis": axis}, name=layer, act=act)


def _convolution(kind: str, dimensions: int, data_format: str) -> Output:
    def convolution(input: Input, num_filters: int, filter_size: Sizes, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1, groups: int | None = None, param_attr: Attr = None, bias_attr: Attr = None, use_cudnn: bool = True, act: Act = None, name: str | None = None, data_format: str = data_format) -> Output:  # fmt: skip
        """A convolution with its bias."""
        layer = name or naming.generate(kind)
        channels = input.shape[1 if data_format.startswith("NC") else -1]
        groups = groups or 1
        sizes = _several(filter_size, dimensions)
        deviation = math.sqrt(2.0 / (math.prod(sizes) * channels))
        shape = [num_filters, channels // groups, *sizes]
        weight = create_parameter(layer, param_attr, shape, input.dtype, default=NormalInitializer(0.0, deviation, 0))
        arguments = {
            "input": input,
            "weight": weight,
            "stride": _several(stride, dimensions),
            "padding": _padding(padding, dimensions),
            "dilation": _several(dilation, dimensions),
            "groups": groups,
            "data_format": data_format,
        }
        output = apply("conv", arguments, name=layer)
        return _biased(output, layer, bias_attr, num_filters, act, data_format)

    return convolution


conv2d = _convolution("conv2d", 2, "NCHW")
conv3d = _convolution("conv3d", 3, "NCDHW")


def _transposed(kind: str, dimensions: int, data_format: str) -> Output:
    def convolution(input: Input, num_filters: int, output_size: Shape = None, filter_size: Sizes = None, padding: Sizes = 0, stride: Sizes = 1, dilation: Sizes = 1, groups: int | None = None, param_attr: Attr = None, bias_attr: Attr = None, use_cudnn: bool = True, act: Act = None, name: str | None = None, data_format: str = data_format) -> Output:  # fmt: skip
        """A transposed convolution with its bias."""
        layer = name or naming.generate(kind)
        first = data_format.startswith("NC")
        channels = input.shape[1 if first else -1]
        steps, pads, spreads = (
            _several(stride, dimensions),
            _padding(padding, dimensions),
            _several(dilation, dimensions),
        )
        if filter_size is None:
            if output_size is None or isinstance(pads, str):
                raise bad("UM-FLUID-002", f"fluid.layers.{kind} needs filter_size or output_size", where=user_line())
            spatial = input.shape[2:] if first else input.shape[1:-1]
            wanted = _several(output_size, dimensions)
            filter_size = [
                (size - (own - 1) * step + 2 * pad - 1) // by + 1
                for size, own, step, pad, by in zip(wanted, spatial, steps, pads, spreads, strict=True)
            ]
        groups = groups or 1
        shape = [channels, num_filters // groups, *_several(filter_size, dimensions)]
        weight = create_parameter(layer, param_attr, shape, input.dtype)
        arguments = {
            "input": input,
            "weight": weight,
            "stride": steps,
            "padding": pads,
            "dilation": spreads,
            "groups": groups,
            "output_size": output_size,
            "data_format": data_format,
        }
        output = apply("conv_transpose", arguments, name=layer)
        return _biased(output, layer, bias_attr, num_filters, act, data_format)

    return convolution


conv2d_transpose = _transposed("conv2d_transpose", 2, "NCHW")
conv3d_transpose = _transposed("conv3d_transpose", 3, "NCDHW")


def batch_norm(input: Input, act: Act = None, is_test: bool = False, momentum: float = 0.9, epsilon: float = 1e-05, param_attr: Attr = None, bias_attr: Attr = None, data_layout: str = "NCHW", in_place: bool = False, name: str | None = None, moving_mean_name: str | None = None, moving_variance_name: str | None = None, do_model_average_for_mean_and_var: bool = True, use_global_stats: bool = False) -> Output:  # fmt: skip
    """Normalized by the batch; the running mean and variance count when it is tested."""
    layer = name or naming.generate("batch_norm")
    channels = input.shape[1 if data_layout == "NCHW" else -1]
    weight = create_parameter(layer, param_attr, [channels], default=ConstantInitializer(1.0))
    bias = create_parameter(layer, bias_attr, [channels], is_bias=True)
    mean = _statistic(layer, moving_mean_name, channels, 0.0)
    variance = _statistic(layer, moving_variance_name, channels, 1.0)
    arguments = {
        "input": input,
        "scale": weight,
        "bias": bias,
        "mean": mean,
        "variance": variance,
        "momentum": momentum,
        "epsilon": epsilon,
        "data_layout": data_layout,
        "is_test": is_test,
        "use_global_stats": use_global_stats,
    }
    found = naming.generate(f"{layer}.tmp")
    output = default_main_program().current_block().create_var(found, (), input.dtype, lod_level=input.lod_level)
    results = apply("batch_norm", arguments, out=[output, mean, variance])
    return activated(results[0], act)


def _statistic(layer: str, name: str | None, channels: int, value: float) -> Output:
    name = name or naming.generate(f"{layer}.w")  # 1.8 numbers them as weights
    return create_state(name, [channels], "float32", value)


def layer_norm(input: Input, scale: bool = True, shift: bool = True, begin_norm_axis: int = 1, epsilon: float = 1e-05, param_attr: Attr = None, bias_attr: Attr = None, act: Act = None, name: str | None = None) -> Output:  # fmt: skip
    """Normalized over all dimensions from one on."""
    layer = name or naming.generate("layer_norm")
    shape = [math.prod(input.shape[begin_norm_axis:])]
    weight = create_parameter(layer, param_attr, shape, default=ConstantInitializer(1.0)) if scale else None
    bias = create_parameter(layer, bias_attr, shape, is_bias=True) if shift else None
    arguments = {"input": input, "scale": weight, "bias": bias, "begin_norm_axis": begin_norm_axis, "epsilon": epsilon}
    return apply("layer_norm", arguments, name=layer, act=act)


def instance_norm(input: Input, epsilon: float = 1e-05, param_attr: Attr = None, bias_attr: Attr = None, name: str | None = None) -> Output:  # fmt: skip
    """Normalized over each image's channel."""
    layer = name or naming.generate("instance_norm")
    shape = [input.shape[1]]
    weight = create_parameter(layer, param_attr, shape, default=ConstantInitializer(1.0))
    bias = create_parameter(layer, bias_attr, shape, is_bias=True)
    return apply("instance_norm", {"input": input, "scale": weight, "bias": bias, "epsilon": epsilon}, name=layer)


def group_norm(input: Input, groups: int, epsilon: float = 1e-05, param_attr: Attr = None, bias_attr: Attr = None, act: Act = None, data_layout: str = "NCHW", name: str | None = None) -> Output:  # fmt: skip
    """Normalized over groups of channels."""
    layer = name or naming.generate("group_norm")
    shape = [input.shape[1 if data_layout == "NCHW" else -1]]
    weight = create_parameter(layer, param_attr, shape, default=ConstantInitializer(1.0))
    bias = create_parameter(layer, bias_attr, shape, is_bias=True)
    arguments = {
        "input": input,
        "scale": weight,
        "bias": bias,
        "groups": groups,
        "epsilon": epsilon,
        "data_layout": data_layout,
    }
    return apply("group_norm", arguments, name=layer, act=act)


def prelu(x: Input, mode: str, param_attr: Attr = None, name: str | None = None) -> Output:
    """A slope below zero that is learned: one for all, for each channel or for each element."""
    layer = name or naming.generate("prelu")
    shapes = {"all": [1], "channel": [x.shape[1] if len(x.shape) > 1 else 1], "element": [1, *x.shape[1:]]}
    if mode not in shapes:
        raise bad("UM-FLUID-002", f"expected all, channel or element as prelu's mode, got {mode!r}", where=user_line())
    alpha = create_parameter(layer, param_attr, shapes[mode], default=ConstantInitializer(0.25))
    return apply("prelu", {"x": x, "alpha": alpha, "mode": mode}, name=layer)


def sequence_conv(input: Input, num_filters: int, filter_size: int = 3, filter_stride: int = 1, padding: bool = True, padding_start: int | None = None, bias_attr: Attr = None, param_attr: Attr = None, act: Act = None, name: str | None = None) -> Output:  # fmt: skip
    """A convolution over the items of each sequence."""
    layer = name or naming.generate("sequence_conv")
    if filter_stride != 1:
        raise bad(
            "UM-FLUID-003",
            f"sequence_conv(filter_stride={filter_stride}) does not work, nor did it in 1.8",
            where=user_line(),
        )
    weight = create_parameter(layer, param_attr, [filter_size * input.shape[1], num_filters])
    start = -(filter_size // 2) if padding_start is None else padding_start
    output = apply(
        "sequence_conv", {"input": input, "weight": weight, "start": start, "width": filter_size}, name=layer
    )
    return _biased(output, layer, bias_attr, num_filters, act, "NC")


def dynamic_gru(input: Input, size: int, param_attr: Attr = None, bias_attr: Attr = None, is_reverse: bool = False, gate_activation: str = "sigmoid", candidate_activation: str = "tanh", h_0: Input = None, origin_mode: bool = False) -> Output:  # fmt: skip
    """A GRU over each sequence; the input is three times as wide as the size."""
    layer = naming.generate("gru")
    weight = create_parameter(layer, param_attr, [size, 3 * size])
    bias = create_parameter(layer, bias_attr, [1, 3 * size], is_bias=True)
    arguments = {
        "input": input,
        "weight": weight,
        "bias": bias,
        "h_0": h_0,
        "size": size,
        "is_reverse": is_reverse,
        "gate_activation": gate_activation,
        "candidate_activation": candidate_activation,
        "origin_mode": origin_mode,
    }
    return apply("dynamic_gru", arguments, name=layer)


def gru_unit(input: Input, hidden: Input, size: int, param_attr: Attr = None, bias_attr: Attr = None, activation: str = "tanh", gate_activation: str = "sigmoid", origin_mode: bool = False) -> Output:  # fmt: skip
    """One step of a GRU: the hidden state, the reset one, and the gates. The size is three times the width."""
    layer = naming.generate("gru_unit")
    width = size // 3
    weight = create_parameter(layer, param_attr, [width, 3 * width])
    bias = create_parameter(layer, bias_attr, [1, 3 * width], is_bias=True)
    arguments = {
        "input": input,
        "hidden": hidden,
        "weight": weight,
        "bias": bias,
        "size": width,
        "activation": activation,
        "gate_activation": gate_activation,
        "origin_mode": origin_mode,
    }
    return apply("gru_unit", arguments, name=layer, outputs=3)


def dynamic_lstm(input: Input, size: int, h_0: Input = None, c_0: Input = None, param_attr: Attr = None, bias_attr: Attr = None, use_peepholes: bool = True, is_reverse: bool = False, gate_activation: str = "sigmoid", cell_activation: str = "tanh", candidate_activation: str = "tanh", dtype: str = "float32", name: str | None = None) -> Output:  # fmt: skip
    """An LSTM over each sequence: hidden states and cells. The size is four times the width."""
    layer = name or naming.generate("lstm")
    width = size // 4
    weight = create_parameter(layer, param_attr, [width, 4 * width], dtype)
    bias = create_parameter(layer, bias_attr, [1, (7 if use_peepholes else 4) * width], dtype, is_bias=True)
    arguments = {
        "input": input,
        "weight": weight,
        "bias": bias,
        "h_0": h_0,
        "c_0": c_0,
        "size": width,
        "use_peepholes": use_peepholes,
        "is_reverse": is_reverse,
        "gate_activation": gate_activation,
        "cell_activation": cell_activation,
        "candidate_activation": candidate_activation,
    }
    return apply("dynamic_lstm", arguments, name=layer, outputs=2)
