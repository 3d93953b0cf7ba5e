"""Operations of networks: dropout, losses, convolutions, pools, normalization. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
from paddle.nn import functional

from umiak.fluid.kernels.chance import kept
from umiak.fluid.kernels.registry import Tensor, kernel
from umiak.fluid.kernels.tensors import flatten, numbers

if TYPE_CHECKING:
    from umiak.fluid.arguments import Arguments, Results, Settings, Shape, Sizes


@kernel()
def softmax(input: Tensor, use_cudnn: bool, axis: int) -> Tensor:
    """Probabilities along an axis."""
    return functional.softmax(input, axis)


@kernel()
def log_softmax(input: Tensor, axis: int | None, dtype: str | None) -> Tensor:
    """Their logarithms."""
    return functional.log_softmax(input, -1 if axis is None else axis, dtype)


@kernel()
def dropout(x: Tensor, dropout_prob: float, is_test: bool, seed: int | None, dropout_implementation: str) -> Tensor:
    """1.8's default does not scale while it trains, and scales when it is tested."""
    scales = dropout_implementation == "upscale_in_train"
    if seed and not is_test:
        output = x * kept(x, dropout_prob, int(seed))
        return output / (1.0 - dropout_prob) if scales and dropout_prob < 1.0 else output
    mode = "upscale_in_train" if scales else "downscale_in_infer"
    return functional.dropout(x, dropout_prob, training=not is_test, mode=mode)


# ---- losses


@kernel()
def cross_entropy(input: Tensor, label: Tensor, soft_label: bool, ignore_index: int) -> Tensor:
    """Of probabilities, not of logits; [N, 1]."""
    tiny = 1e-20
    if soft_label:
        return -paddle.sum(label * paddle.log(paddle.clip(input, tiny)), -1, keepdim=True)
    ids = label if label.ndim == input.ndim else label.unsqueeze(-1)
    if paddle.in_dynamic_mode() and ids.place.is_cpu_place() and not (ids.numpy() == ignore_index).any():
        return -paddle.log(paddle.clip(paddle.take_along_axis(input, ids, -1), tiny))
    kept = ids != ignore_index
    picked = paddle.take_along_axis(input, paddle.where(kept, ids, paddle.zeros_like(ids)), -1)
    return paddle.where(kept, -paddle.log(paddle.clip(picked, tiny)), paddle.zeros_like(picked))


@kernel()
def softmax_with_cross_entropy(logits: Tensor, label: Tensor, soft_label: bool, ignore_index: int, axis: int) -> Tensor:
    """Of logits; [N, 1], and the probabilities."""
    return functional.softmax_with_cross_entropy(
        logits, label, soft_label=soft_label, ignore_index=ignore_index, return_softmax=True, axis=axis
    )


@kernel()
def sigmoid_cross_entropy_with_logits(x: Tensor, label: Tensor, ignore_index: int, normalize: bool) -> Tensor:
    """Of logits, each for itself."""
    kept = (label != ignore_index).astype(x.dtype)
    loss = functional.binary_cross_entropy_with_logits(x, label, reduction="none") * kept
    return loss / paddle.clip(paddle.sum(kept), 1e-5) if normalize else loss


@kernel()
def square_error_cost(input: Tensor, label: Tensor) -> Tensor:
    """(input - label) squared."""
    return paddle.square(input - label)


@kernel()
def mse_loss(input: Tensor, label: Tensor) -> Tensor:
    """The mean of it, as [1]."""
    return paddle.mean(paddle.square(input - label)).reshape([1])


@kernel()
def log_loss(input: Tensor, label: Tensor, epsilon: float) -> Tensor:
    """Of one probability."""
    return -label * paddle.log(input + epsilon) - (1 - label) * paddle.log(1 - input + epsilon)


@kernel()
def smooth_l1(x: Tensor, y: Tensor, inside_weight: Tensor, outside_weight: Tensor, sigma: float | None) -> Tensor:
    """Squares near zero, lines further away; summed over a row, [N, 1]."""
    square = (sigma or 1.0) ** 2
    difference = x - y if inside_weight is None else (x - y) * inside_weight
    size = paddle.abs(difference)
    loss = paddle.where(size < 1 / square, 0.5 * square * difference * difference, size - 0.5 / square)
    loss = loss if outside_weight is None else loss * outside_weight
    return paddle.sum(flatten(loss, 1), 1, keepdim=True)


@kernel()
def huber_loss(input: Tensor, label: Tensor, delta: float) -> Tensor:
    """Squares up to delta, lines beyond."""
    size = paddle.abs(label - input)
    return paddle.where(size <= delta, 0.5 * size * size, delta * (size - 0.5 * delta))


@kernel()
def kldiv_loss(x: Tensor, target: Tensor, reduction: str) -> Tensor:
    """Of log-probabilities and probabilities."""
    output = functional.kl_div(x, target, reduction)
    return output.reshape([1]) if output.ndim == 0 else output


@kernel()
def rank_loss(label: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Of pairs."""
    return functional.softplus(left - right) - label * (left - right)


@kernel()
def margin_rank_loss(label: Tensor, left: Tensor, right: Tensor, margin: float) -> Tensor:
    """Of pairs, with a margin."""
    return functional.relu(-label * (left - right) + margin)


@kernel()
def bpr_loss(input: Tensor, label: Tensor) -> Tensor:
    """The mean over all other classes of -log sigmoid(own score - score)."""
    classes = input.shape[-1]
    own = paddle.take_along_axis(input, label, -1)
    others = functional.log_sigmoid(own - input) * (1 - functional.one_hot(label.squeeze(-1), classes))
    return -paddle.sum(others, -1, keepdim=True) / (classes - 1)


@kernel()
def dice_loss(input: Tensor, label: Tensor, epsilon: float) -> Tensor:
    """One minus the overlap, as [1]."""
    return functional.dice_loss(input, label, epsilon).reshape([1])


@kernel()
def label_smooth(label: Tensor, prior_dist: Tensor, epsilon: float, dtype: str) -> Tensor:
    """Nearer to even."""
    return functional.label_smooth(label, prior_dist, epsilon)


@kernel()
def accuracy(input: Tensor, label: Tensor, k: int) -> Tensor:
    """The part of the rows whose label is among the best k, as [1]."""
    _, places = paddle.topk(input, min(k, input.shape[-1]))
    hits = paddle.any(places == label.reshape([-1, 1]).astype(places.dtype), 1)
    return paddle.mean(hits.astype("float32")).reshape([1])


# ---- images


def conv_shapes(
    input: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, data_format: str
) -> Results:
    """The shape of a convolution's output."""
    channels = input.shape[1 if data_format.startswith("NC") else -1]
    if channels != weight.shape[1] * groups:
        raise ValueError(f"{channels} channels do not fit a filter of {weight.shape[1]} channels in {groups} groups")
    first = data_format.startswith("NC")
    sizes = input.shape[2:] if first else input.shape[1:-1]
    pads = _pads(padding, sizes, weight.shape[2:], stride, dilation)
    output = tuple(
        -1 if size < 0 else (size + before + behind - by * (width - 1) - 1) // step + 1
        for size, width, step, by, (before, behind) in zip(sizes, weight.shape[2:], stride, dilation, pads, strict=True)
    )
    if any(each <= 0 and each != -1 for each in output):
        raise ValueError(f"an image of {list(sizes)} is too small for a filter of {list(weight.shape[2:])}")
    channels = weight.shape[0]
    shape = (input.shape[0], channels, *output) if first else (input.shape[0], *output, channels)
    return [(shape, input.dtype)]


def _pads(padding: Sizes, sizes: Sizes, filters: Sizes, stride: Sizes, dilation: Sizes) -> list[tuple[int, int]]:
    if isinstance(padding, str):
        if padding == "VALID":
            return [(0, 0)] * len(filters)
        needed = [
            max((-(-size // step) - 1) * step + by * (width - 1) + 1 - size, 0) if size >= 0 else 0
            for size, width, step, by in zip(sizes, filters, stride, dilation, strict=True)
        ]
        return [(each // 2, each - each // 2) for each in needed]
    flat = numbers(padding)
    if len(flat) == 2 * len(filters):
        return list(zip(flat[::2], flat[1::2], strict=True))
    flat = flat * len(filters) if len(flat) == 1 else flat
    return [(each, each) for each in flat]


@kernel(shapes=conv_shapes)
def conv(
    input: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, data_format: str
) -> Tensor:
    """A convolution of two or of three dimensions, without its bias."""
    function = functional.conv2d if weight.ndim == 4 else functional.conv3d
    return function(input, weight, None, stride, padding, dilation, groups, data_format)


@kernel()
def conv_transpose(input: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, output_size: Shape, data_format: str) -> Tensor:  # fmt: skip
    """A transposed convolution, without its bias."""
    function = functional.conv2d_transpose if weight.ndim == 4 else functional.conv3d_transpose
    sizes = None if output_size is None else numbers(output_size)
    settings = {
        "stride": stride,
        "padding": padding,
        "groups": groups,
        "dilation": dilation,
    }  # in another order in each
    return function(input, weight, output_size=sizes, data_format=data_format, **settings)


def _pooled(input: Tensor, dimensions: int, settings: Arguments) -> Tensor:
    first = settings["data_format"].startswith("NC")
    if settings["global_pooling"]:
        axes = list(range(2, 2 + dimensions)) if first else list(range(1, 1 + dimensions))
        if settings["pool_type"] == "max":
            sizes = [input.shape[axis] for axis in axes]
            return getattr(functional, f"max_pool{dimensions}d")(input, sizes, 1, data_format=settings["data_format"])
        return paddle.mean(input, axes, keepdim=True)
    name = f"{settings['pool_type']}_pool{dimensions}d"
    more = {} if settings["pool_type"] == "max" else {"exclusive": settings["exclusive"]}
    function = getattr(functional, name)
    return function(
        input,
        settings["pool_size"],
        settings["pool_stride"],
        settings["pool_padding"],
        ceil_mode=settings["ceil_mode"],
        data_format=settings["data_format"],
        **more,
    )


@kernel()
def pool2d(input: Tensor, **settings: Settings) -> Tensor:
    """The maximum or the mean of windows; 1.8's stride is 1."""
    return _pooled(input, 2, settings)


@kernel()
def pool3d(input: Tensor, **settings: Settings) -> Tensor:
    """The same with three dimensions."""
    return _pooled(input, 3, settings)


@kernel()
def image_resize(input: Tensor, out_shape: Shape, scale: Any, resample: str, actual_shape: Shape, align_corners: bool, align_mode: int, data_format: str) -> Tensor:  # fmt: skip
    """An image of another size."""
    wanted = actual_shape if actual_shape is not None else out_shape
    sizes = None if wanted is None else numbers(wanted)
    factor = scale.item() if isinstance(scale, paddle.Tensor) else scale
    images = input if data_format.startswith("NC") else paddle.moveaxis(input, -1, 1)
    if sizes is None:
        sizes = [int(size * factor) for size in images.shape[2:]]
    mode = resample.lower()
    if mode == "nearest" and align_corners:
        output = _nearest(images, sizes)
    else:
        corners = align_corners if mode != "nearest" else False
        output = functional.interpolate(images, sizes, mode=mode, align_corners=corners, align_mode=align_mode)
    return output if data_format.startswith("NC") else paddle.moveaxis(output, 1, -1)


def _nearest(images: Tensor, sizes: list[int]) -> Tensor:
    """The nearest pixel, corners on corners."""
    for axis, size in zip((2, 3), sizes, strict=True):
        whole = images.shape[axis]
        step = (whole - 1) / (size - 1) if size > 1 else 0.0
        places = [min(int(step * place + 0.5), whole - 1) for place in range(size)]
        images = paddle.index_select(images, paddle.to_tensor(places), axis)
    return images


@kernel()
def resize_bilinear(input: Tensor, **settings: Settings) -> Tensor:
    """By interpolation."""
    return image_resize(input, resample="BILINEAR", **settings)


@kernel()
def resize_trilinear(input: Tensor, **settings: Settings) -> Tensor:
    """The same for bodies."""
    return image_resize(input, resample="TRILINEAR", **settings)


@kernel()
def interpolate(input: Tensor, **settings: Settings) -> Tensor:
    """`image_resize` by another name."""
    return image_resize(input, **settings)


@kernel()
def resize_nearest(input: Tensor, **settings: Settings) -> Tensor:
    """By the nearest pixel."""
    return image_resize(input, resample="NEAREST", align_mode=1, **settings)


@kernel()
def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """Channels to pixels."""
    return functional.pixel_shuffle(x, upscale_factor)


@kernel()
def shuffle_channel(x: Tensor, group: int) -> Tensor:
    """Channels of groups in turn."""
    return functional.channel_shuffle(x, group)


@kernel()
def temporal_shift(x: Tensor, seg_num: int, shift_ratio: float) -> Tensor:
    """A part of the channels from the frame before, a part from the frame behind."""
    return functional.temporal_shift(x, seg_num, shift_ratio)


@kernel()
def affine_channel(x: Tensor, scale: Tensor, bias: Tensor, data_layout: str) -> Tensor:
    """A factor and a bias for each channel."""
    shape = [1, -1] + [1] * (x.ndim - 2) if data_layout == "NCHW" else [-1]
    return x * scale.reshape(shape) + bias.reshape(shape)


@kernel()
def maxout(x: Tensor, groups: int, axis: int) -> Tensor:
    """The maximum over groups of channels."""
    return functional.maxout(x, groups, axis)


@kernel()
def prelu(x: Tensor, alpha: Tensor, mode: str) -> Tensor:
    """A slope below zero that is learned."""
    if mode == "channel":
        alpha = alpha.reshape([1, -1] + [1] * (x.ndim - 2))
    return functional.relu(x) - alpha * functional.relu(-x)


@kernel()
def gather_tree(ids: Tensor, parents: Tensor) -> Tensor:
    """The beams of a search, from their ends back."""
    return functional.gather_tree(ids, parents)


# ---- normalization


@kernel()
def batch_norm(input: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, momentum: float, epsilon: float, data_layout: str, is_test: bool, use_global_stats: bool) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Normalized by the batch, or by the running mean and variance, which are changed in place while training."""
    layout = data_layout if input.ndim != 2 else "NCHW"
    output = functional.batch_norm(
        input,
        mean,
        variance,
        scale,
        bias,
        training=not is_test,
        momentum=momentum,
        epsilon=epsilon,
        data_format=layout if input.ndim == 4 else ("NC" if input.ndim == 2 else layout),
        use_global_stats=use_global_stats or is_test,
    )
    return output, mean, variance


@kernel()
def layer_norm(input: Tensor, scale: Tensor, bias: Tensor, begin_norm_axis: int, epsilon: float) -> Tensor:
    """Normalized over all dimensions from one on."""
    return functional.layer_norm(input, input.shape[begin_norm_axis:], scale, bias, epsilon)


@kernel()
def instance_norm(input: Tensor, scale: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """Normalized over each image's channel."""
    return functional.instance_norm(input, weight=scale, bias=bias, eps=epsilon)


@kernel()
def group_norm(input: Tensor, scale: Tensor, bias: Tensor, groups: int, epsilon: float, data_layout: str) -> Tensor:
    """Normalized over groups of channels."""
    return functional.group_norm(input, groups, epsilon, scale, bias, data_layout)


# ---- parameters


@kernel()
def fc_sum(inputs: list[Tensor], bias: Tensor) -> Tensor:
    """The projections of all inputs together, and the bias."""
    output = inputs[0] if len(inputs) == 1 else paddle.add_n(list(inputs))
    return output if bias is None else output + bias


@kernel()
def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A projection of the last dimension."""
    return functional.linear(x, weight, bias)


@kernel()
def bias_add(x: Tensor, bias: Tensor, axis: int) -> Tensor:
    """A bias along one dimension."""
    return x + bias.reshape([-1] + [1] * (x.ndim - axis - 1))


def lookup_shapes(weight: Tensor, ids: Tensor, padding_idx: int, is_sparse: bool, drops_last: bool) -> Results:
    """Rows in place of ids."""
    shape = ids.shape[:-1] if drops_last and len(ids.shape) > 1 and ids.shape[-1] == 1 else ids.shape
    return [((*shape, weight.shape[-1]), weight.dtype)]


@kernel(shapes=lookup_shapes)
def lookup_table(weight: Tensor, ids: Tensor, padding_idx: int, is_sparse: bool, drops_last: bool) -> Tensor:
    """Rows by their ids; zeros for the padding id, which learns nothing."""
    if drops_last and ids.ndim > 1 and ids.shape[-1] == 1:
        ids = ids.reshape(ids.shape[:-1])
    padding = None if padding_idx < 0 else padding_idx
    output = functional.embedding(ids, weight, sparse=is_sparse)
    if padding is None:
        return output
    return output * (ids != padding).astype(output.dtype).unsqueeze(-1)
