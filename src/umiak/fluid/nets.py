"""`fluid.nets`: a few layers together. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.fluid.layers import basics, parametric, rows

if TYPE_CHECKING:
    from umiak.fluid.arguments import Act, Attr, Input, Output, Outputs, Sizes, Value


def simple_img_conv_pool(input: Input, num_filters: int, filter_size: Sizes, pool_size: Sizes, pool_stride: Sizes, pool_padding: Sizes = 0, pool_type: str = "max", global_pooling: bool = False, conv_stride: Sizes = 1, conv_padding: Sizes = 0, conv_dilation: Sizes = 1, conv_groups: int = 1, param_attr: Attr = None, bias_attr: Attr = None, act: Act = None, use_cudnn: bool = True) -> Output:  # fmt: skip
    """A convolution and a pool."""
    layer = parametric.conv2d(
        input, num_filters, filter_size, conv_stride, conv_padding, conv_dilation, conv_groups, param_attr, bias_attr, True, act
    )  # fmt: skip
    return rows.call("pool2d", layer, pool_size, pool_type, pool_stride, pool_padding, global_pooling)


def img_conv_group(input: Input, conv_num_filter: Sizes, pool_size: Sizes, conv_padding: Sizes = 1, conv_filter_size: Sizes = 3, conv_act: Act = None, param_attr: Attr = None, conv_with_batchnorm: Value = False, conv_batchnorm_drop_rate: Value = 0.0, pool_stride: Sizes = 1, pool_type: str = "max", use_cudnn: bool = True) -> Output:  # fmt: skip
    """Convolutions one behind another, then a pool."""
    count = len(conv_num_filter)

    def each_of(given: Value) -> Outputs:
        return list(given) if isinstance(given, list | tuple) else [given] * count

    settings = [
        each_of(each)
        for each in (conv_padding, conv_filter_size, param_attr, conv_with_batchnorm, conv_batchnorm_drop_rate)
    ]
    layer = input
    for filters, padding, size, attribute, normalized, drop in zip(conv_num_filter, *settings, strict=True):
        act = None if normalized else conv_act
        layer = parametric.conv2d(layer, filters, size, 1, padding, param_attr=attribute, act=act)
        if normalized:
            layer = parametric.batch_norm(layer, act=conv_act)
            if abs(drop) > 1e-5:
                layer = rows.call("dropout", layer, drop)
    return rows.call("pool2d", layer, pool_size, pool_type, pool_stride)


def sequence_conv_pool(input: Input, num_filters: int, filter_size: int, param_attr: Attr = None, act: Act = "sigmoid", pool_type: str = "max", bias_attr: Attr = None) -> Output:  # fmt: skip
    """A convolution over sequences and a pool."""
    layer = parametric.sequence_conv(
        input, num_filters, filter_size, param_attr=param_attr, bias_attr=bias_attr, act=act
    )
    return rows.call("sequence_pool", layer, pool_type)


def glu(input: Input, dim: int = -1) -> Output:
    """One half times the sigmoid of the other."""
    first, second = basics.split(input, 2, dim)
    return rows.call("elementwise_mul", first, rows.call("sigmoid", second))


def scaled_dot_product_attention(
    queries: Input, keys: Input, values: Value, num_heads: int = 1, dropout_rate: float = 0.0
) -> Output:
    """Attention of queries to keys, in heads."""
    width = keys.shape[-1] // num_heads

    def heads(x: Input) -> Output:
        if num_heads == 1:
            return x
        parts = rows.call("reshape", x, [0, 0, num_heads, x.shape[-1] // num_heads])
        return rows.call("transpose", parts, [0, 2, 1, 3])

    if num_heads > 1:
        queries, keys, values = (parametric.fc(each, each.shape[-1], num_flatten_dims=2, bias_attr=False) for each in (queries, keys, values))  # fmt: skip
    q, k, v = heads(queries), heads(keys), heads(values)
    weights = rows.call("softmax", rows.call("matmul", rows.call("scale", q, width**-0.5), k, transpose_y=True))
    if dropout_rate:
        weights = rows.call("dropout", weights, dropout_rate)
    context = rows.call("matmul", weights, v)
    if num_heads == 1:
        return context
    context = rows.call("transpose", context, [0, 2, 1, 3])
    return rows.call("reshape", context, [0, 0, context.shape[2] * context.shape[3]])
