"""Layers for images and normalization, and those that draw: against numpy. Real Paddle."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.fluid_programs import computed, derivative, fluid, programs, variables_of

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
CHANCE = np.random.default_rng(5)
IMAGE = CHANCE.normal(size=(2, 4, 5, 6)).astype(np.float32)
SOLID = CHANCE.normal(size=(2, 2, 3, 4, 4)).astype(np.float32)
FILTER = CHANCE.normal(size=(4, 2, 3, 2)).astype(np.float32)
SOLID_FILTER = CHANCE.normal(size=(3, 2, 2, 2, 2)).astype(np.float32)
BACK_FILTER = CHANCE.normal(size=(4, 3, 3, 2)).astype(np.float32)
SOLID_BACK_FILTER = CHANCE.normal(size=(2, 3, 2, 2, 2)).astype(np.float32)
FOUR = CHANCE.normal(size=4).astype(np.float32)
FOUR_MORE = CHANCE.normal(size=4).astype(np.float32)
WIDE = CHANCE.normal(size=120).astype(np.float32)


def given(values: Any) -> Any:
    return fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(np.asarray(values, np.float32)))


def windows(shape: Any, filters: Any, stride: int) -> Any:
    """The places of a filter, and the part of the image under each."""
    counts = [(size - width) // stride + 1 for size, width in zip(shape, filters, strict=True)]
    for place in itertools.product(*map(range, counts)):
        yield place, tuple(slice(at * stride, at * stride + width) for at, width in zip(place, filters, strict=True))


def convolved(x: Any, w: Any, stride: int, pad: int, groups: int = 1) -> Any:
    x = np.pad(x, [(0, 0), (0, 0), *[(pad, pad)] * (x.ndim - 2)])
    counts = [(size - width) // stride + 1 for size, width in zip(x.shape[2:], w.shape[2:], strict=True)]
    result = np.zeros((len(x), len(w), *counts))
    inside, outside = x.shape[1] // groups, len(w) // groups
    for place, part in windows(x.shape[2:], w.shape[2:], stride):
        for group in range(groups):
            seen = x[(slice(None), slice(group * inside, (group + 1) * inside), *part)]
            own = w[group * outside : (group + 1) * outside]
            axes = list(range(1, x.ndim))
            result[(slice(None), slice(group * outside, (group + 1) * outside), *place)] = np.tensordot(
                seen, own, (axes, axes)
            )
    return result


def spread(x: Any, w: Any, stride: int, pad: int) -> Any:
    """A transposed convolution: each value adds its filter to the output."""
    sizes = [(size - 1) * stride + width for size, width in zip(x.shape[2:], w.shape[2:], strict=True)]
    result = np.zeros((len(x), w.shape[1], *sizes))
    for place in itertools.product(*map(range, x.shape[2:])):
        part = tuple(slice(at * stride, at * stride + width) for at, width in zip(place, w.shape[2:], strict=True))
        result[(slice(None), slice(None), *part)] += np.tensordot(x[(slice(None), slice(None), *place)], w, (1, 0))
    return result[(..., *[slice(pad, size - pad) for size in sizes])]


def pooled(x: Any, width: int, stride: int, function: Any) -> Any:
    filters = [width] * (x.ndim - 2)
    counts = [(size - width) // stride + 1 for size in x.shape[2:]]
    result = np.zeros((*x.shape[:2], *counts))
    for place, part in windows(x.shape[2:], filters, stride):
        result[(..., *place)] = function(x[(..., *part)], axis=tuple(range(2, x.ndim)))
    return result


def normalized(x: Any, axes: Any) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def per_channel(values: Any) -> Any:
    return np.asarray(values)[None, :, None, None]


def resized(x: Any, sizes: Any, kind: str) -> Any:
    """Corners on corners."""
    for axis, size in zip((2, 3), sizes, strict=True):
        places = np.arange(size) * (x.shape[axis] - 1) / (size - 1)
        if kind == "nearest":
            x = np.take(x, (places + 0.5).astype(int), axis)
            continue
        low = np.minimum(places.astype(int), x.shape[axis] - 2)
        part = (places - low).reshape([-1 if k == axis else 1 for k in range(4)])
        x = np.take(x, low, axis) * (1 - part) + np.take(x, low + 1, axis) * part
    return x


def shifted(x: Any) -> Any:
    """Of segments of two: the first quarter of the channels from the frame before, the second from the one behind."""
    frames, result = x.reshape(-1, 2, *x.shape[1:]), np.zeros((len(x) // 2, 2, *x.shape[1:]))
    result[:, 1, :1], result[:, 0, 1:2], result[:, :, 2:] = frames[:, 0, :1], frames[:, 1, 1:2], frames[:, :, 2:]
    return result.reshape(x.shape)


IMAGES: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "conv2d": (
        lambda x: layers.conv2d(x, 4, (3, 2), 2, 1, groups=2, param_attr=given(FILTER), bias_attr=given(FOUR)),
        IMAGE,
        convolved(IMAGE, FILTER, 2, 1, 2) + per_channel(FOUR),
    ),
    "conv3d": (
        lambda x: layers.conv3d(x, 3, 2, param_attr=given(SOLID_FILTER), bias_attr=False),
        SOLID,
        convolved(SOLID, SOLID_FILTER, 1, 0),
    ),
    "conv2d_transpose": (
        lambda x: layers.conv2d_transpose(
            x, 3, filter_size=(3, 2), padding=1, stride=2, param_attr=given(BACK_FILTER), bias_attr=False, act="relu"
        ),
        IMAGE,
        np.maximum(spread(IMAGE, BACK_FILTER, 2, 1), 0),
    ),
    "conv2d_transpose, output_size": (
        lambda x: layers.conv2d_transpose(x, 3, [7, 7], param_attr=given(BACK_FILTER), bias_attr=False),
        IMAGE,
        spread(IMAGE, BACK_FILTER, 1, 0),
    ),
    "conv3d_transpose": (
        lambda x: layers.conv3d_transpose(x, 3, filter_size=2, param_attr=given(SOLID_BACK_FILTER), bias_attr=False),
        SOLID,
        spread(SOLID, SOLID_BACK_FILTER, 1, 0),
    ),
    "pool2d": (lambda x: layers.pool2d(x, 2, "max", 2), IMAGE, pooled(IMAGE, 2, 2, np.max)),
    "pool2d, stride of one, mean": (lambda x: layers.pool2d(x, 3, "avg"), IMAGE, pooled(IMAGE, 3, 1, np.mean)),
    "pool2d, global": (
        lambda x: layers.pool2d(x, pool_type="avg", global_pooling=True),
        IMAGE,
        IMAGE.mean((2, 3), keepdims=True),
    ),
    "pool3d": (lambda x: layers.pool3d(x, 2, "max", 1), SOLID, pooled(SOLID, 2, 1, np.max)),
    "adaptive_pool2d": (
        lambda x: layers.adaptive_pool2d(x, [1, 2], "avg"),
        IMAGE,
        np.stack([IMAGE[..., :3].mean((2, 3)), IMAGE[..., 3:].mean((2, 3))], -1)[:, :, None],
    ),
    "resize_bilinear": (lambda x: layers.resize_bilinear(x, [9, 4]), IMAGE, resized(IMAGE, (9, 4), "bilinear")),
    "resize_nearest": (lambda x: layers.resize_nearest(x, [9, 4]), IMAGE, resized(IMAGE, (9, 4), "nearest")),
    "image_resize": (lambda x: layers.image_resize(x, scale=2.0), IMAGE, resized(IMAGE, (10, 12), "bilinear")),
    "pixel_shuffle": (
        lambda x: layers.pixel_shuffle(x, 2),
        IMAGE,
        IMAGE.reshape(2, 1, 2, 2, 5, 6).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 10, 12),
    ),
    "shuffle_channel": (lambda x: layers.shuffle_channel(x, 2), IMAGE, IMAGE[:, [0, 2, 1, 3]]),
    "temporal_shift": (lambda x: layers.temporal_shift(x, 2), IMAGE, shifted(IMAGE)),
    "affine_channel": (
        lambda x: layers.affine_channel(x, layers.assign(FOUR), layers.assign(FOUR_MORE)),
        IMAGE,
        IMAGE * per_channel(FOUR) + per_channel(FOUR_MORE),
    ),
    "maxout": (lambda x: layers.maxout(x, 2), IMAGE, IMAGE.reshape(2, 2, 2, 5, 6).max(2)),
    "pad2d": (
        lambda x: layers.pad2d(x, [1, 0, 2, 3], pad_value=0.5),
        IMAGE,
        np.pad(IMAGE, ((0, 0), (0, 0), (1, 0), (2, 3)), constant_values=0.5),
    ),
    "pad2d, reflect": (
        lambda x: layers.pad2d(x, [1, 0, 2, 3], mode="reflect"),
        IMAGE,
        np.pad(IMAGE, ((0, 0), (0, 0), (1, 0), (2, 3)), mode="reflect"),
    ),
    "pad_constant_like": (
        lambda x: layers.pad_constant_like(layers.zeros([2, 4, 6, 7], "float32"), layers.cast(x, "float32"), 2.0),
        IMAGE,
        np.pad(IMAGE, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=2),
    ),
    "crop": (lambda x: layers.crop(x, [2, 2, 3, 2], [0, 1, 2, 3]), IMAGE, IMAGE[:, 1:3, 2:5, 3:5]),
    "crop_tensor": (lambda x: layers.crop_tensor(x, [-1, 2, 3, -1], [0, 1, 2, 3]), IMAGE, IMAGE[:, 1:3, 2:5, 3:]),
    "flatten": (lambda x: layers.flatten(x, 2), IMAGE, IMAGE.reshape(8, 30)),
    "batch_norm": (
        lambda x: layers.batch_norm(x, param_attr=given(FOUR), bias_attr=given(FOUR_MORE)),
        IMAGE,
        normalized(IMAGE, (0, 2, 3)) * per_channel(FOUR) + per_channel(FOUR_MORE),
    ),
    "layer_norm": (
        lambda x: layers.layer_norm(x, param_attr=given(WIDE), bias_attr=given(WIDE[::-1])),
        IMAGE,
        normalized(IMAGE, (1, 2, 3)) * WIDE.reshape(4, 5, 6) + WIDE[::-1].reshape(4, 5, 6),
    ),
    "layer_norm, of the last": (
        lambda x: layers.layer_norm(x, scale=False, shift=False, begin_norm_axis=3),
        IMAGE,
        normalized(IMAGE, 3),
    ),
    "instance_norm": (
        lambda x: layers.instance_norm(x, param_attr=given(FOUR), bias_attr=given(FOUR_MORE)),
        IMAGE,
        normalized(IMAGE, (2, 3)) * per_channel(FOUR) + per_channel(FOUR_MORE),
    ),
    "group_norm": (
        lambda x: layers.group_norm(x, 2, param_attr=given(FOUR), bias_attr=given(FOUR_MORE)),
        IMAGE,
        normalized(IMAGE.reshape(2, 2, 2, 5, 6), (2, 3, 4)).reshape(IMAGE.shape) * per_channel(FOUR)
        + per_channel(FOUR_MORE),
    ),
    "prelu": (
        lambda x: layers.prelu(x, "channel", given(FOUR)),
        IMAGE,
        np.where(IMAGE > 0, IMAGE, IMAGE * per_channel(FOUR)),
    ),
    "img_conv_group": (
        lambda x: fluid.nets.img_conv_group(x, [4], 2, conv_padding=0, conv_act="relu", param_attr=given(np.ones((4, 4, 3, 3)))),
        IMAGE,
        pooled(np.maximum(convolved(IMAGE, np.ones((4, 4, 3, 3)), 1, 0), 0), 2, 1, np.max),
    ),
    "glu": (lambda x: fluid.nets.glu(x, 1), IMAGE, IMAGE[:, :2] / (1 + np.exp(-IMAGE[:, 2:]))),
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_images(name: str) -> None:
    call, image, expected = IMAGES[name]
    np.testing.assert_allclose(computed(call, {"x": image}), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "name", ["pad2d", "crop", "resize_bilinear", "temporal_shift", "maxout", "pixel_shuffle", "layer_norm, of the last"]
)
def test_gradients_of_images(name: str) -> None:
    call, image, _ = IMAGES[name]
    ours, theirs = derivative(call, {"x": image})
    assert ours == pytest.approx(theirs, rel=2e-3, abs=2e-4)


def test_bilinear_weights_make_an_image_larger() -> None:
    weight = fluid.ParamAttr(initializer=fluid.initializer.Bilinear())
    line = np.arange(5.0, dtype=np.float32)[None, None, None, :].repeat(5, 2)
    found = computed(
        lambda x: layers.conv2d_transpose(x, 1, filter_size=4, padding=1, stride=2, param_attr=weight, bias_attr=False),
        {"x": line},
    )
    np.testing.assert_allclose(found[0, 0, 4, 1:-1], np.arange(8) / 2 + 0.25, rtol=1e-5)


def test_attention_of_queries_to_keys() -> None:
    q, k, v = (CHANCE.normal(size=(2, 3, 4)).astype(np.float32) for _ in range(3))
    scores = np.exp(q @ k.transpose(0, 2, 1) / 2)
    expected = scores / scores.sum(-1, keepdims=True) @ v
    found = computed(fluid.nets.scaled_dot_product_attention, {"q": q, "k": k, "v": v})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_beams_are_read_from_their_ends() -> None:
    ids = np.array([[[2, 2], [6, 1]], [[3, 9], [6, 1]], [[0, 1], [9, 0]]], np.int64)
    parents = np.array([[[0, 0], [1, 1]], [[1, 0], [1, 0]], [[0, 0], [0, 1]]], np.int64)
    found = computed(layers.gather_tree, {"ids": ids, "parents": parents})
    assert found.tolist() == [[[2, 2], [1, 6]], [[3, 3], [6, 1]], [[0, 1], [9, 0]]]


# ---- what is drawn


def test_an_index_is_drawn_by_the_probabilities_of_its_row() -> None:
    rows = np.tile(np.array([[0.2, 0.0, 0.8]], np.float32), (4000, 1))
    with programs() as made:
        drawn = layers.sampling_id(*variables_of({"x": rows}).values())
        (found,) = made.run({"x": rows}, [drawn])
    counts = np.bincount(found.astype(int), minlength=3) / len(rows)
    assert counts == pytest.approx([0.2, 0.0, 0.8], abs=0.03)


def test_numbers_are_drawn_with_their_spread() -> None:
    with programs() as made:
        x = fluid.data("x", [None, 3], "float32")
        drawn = [
            layers.uniform_random([100, 50], min=1.0, max=3.0),
            layers.gaussian_random([100, 50], mean=2.0, std=0.5),
            layers.uniform_random_batch_size_like(x, [1, 900], min=1.0, max=3.0),
            layers.gaussian_random_batch_size_like(x, [1, 900], mean=2.0, std=0.5),
        ]
        found = made.run({"x": np.zeros((5, 3), np.float32)}, drawn)
    assert [each.shape for each in found] == [(100, 50), (100, 50), (5, 900), (5, 900)]
    for even in found[::2]:
        assert 1 <= even.min() < 1.05
        assert 2.95 < even.max() <= 3
    for around in found[1::2]:
        assert around.mean() == pytest.approx(2, abs=0.05)
        assert around.std() == pytest.approx(0.5, abs=0.03)
