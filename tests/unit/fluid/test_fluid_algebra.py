"""Layers of matrices, selections and images that 1.8 has beside the common ones: against numpy, gradients against two evaluations. Real Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.fluid_programs import computed, derivative, fluid, programs

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
CHANCE = np.random.default_rng(8)
X, Y = CHANCE.normal(size=(3, 3)).astype(np.float32), CHANCE.normal(size=(3, 3)).astype(np.float32)
BATCH, MORE = CHANCE.normal(size=(2, 3, 4)).astype(np.float32), CHANCE.normal(size=(2, 4, 3)).astype(np.float32)
IMAGE, OTHER = CHANCE.normal(size=(2, 4, 4, 4)).astype(np.float32), CHANCE.normal(size=(2, 3, 4, 4)).astype(np.float32)
SOLID = CHANCE.normal(size=(1, 2, 4, 4, 4)).astype(np.float32)
LABEL = np.array([[-2.0], [-1.0], [0.3], [1.4]], np.float32)
CLICKS = CHANCE.normal(size=(4, 1)).astype(np.float32)


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


def spread(x: Any) -> Any:
    """1.8's order of `space_to_depth`: element (k, j, i) goes to line and column of the image that is twice as large."""
    rows, channels, height, width = x.shape
    result = np.zeros((rows, channels // 4, height * 2, width * 2), x.dtype)
    for k in range(channels):
        offset, channel = divmod(k, channels // 4)
        result[:, channel, offset // 2 :: 2, offset % 2 :: 2] = x[:, k]
    return result.reshape(rows, channels * 4, height // 2, width // 2)


def neighbours(x: Any) -> Any:
    squares = np.pad(x * x, [(0, 0), (1, 1), (0, 0), (0, 0)])
    return x / (2 + 0.5 * sum(squares[:, place : place + 4] for place in range(3))) ** 0.75


def waves(x: Any) -> Any:
    places, by = np.arange(3)[:, None], 10000.0 ** np.arange(2)[None, :]
    return 0.5 * x + 2 * np.concatenate([np.sin(places / by), np.cos(places / by)], 1)


def taught(x: Any, z: Any) -> Any:
    plain = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    with_value = 2 * plain - x * np.where(z >= 1, z - 1, z) - x * (z >= 1)
    return np.concatenate([plain[:1], plain[1:2] - x[1:2], with_value[2:]])


def near_and_far(x: Any, y: Any, ids: Any) -> Any:
    alike = (ids == ids.T) / (ids == ids.T).sum(1, keepdims=True)
    scores = x @ y.T
    entropy = np.log(np.exp(scores).sum(1, keepdims=True)) - (alike * scores).sum(1, keepdims=True)
    return np.reshape((alike * entropy).sum(0).mean() + 0.0005 * ((x * x).sum(1).mean() + (y * y).sum(1).mean()), [1])


SMOOTH: dict[str, tuple[Callable[..., Any], list[Any], Callable[..., Any]]] = {
    "log1p": (layers.log1p, [np.abs(X)], np.log1p),
    "mish": (layers.mish, [X * 20], lambda x: x * np.tanh(softplus(x))),
    "logsumexp": (layers.logsumexp, [X], lambda x: np.log(np.exp(x).sum()).reshape(1)),
    "logsumexp, dim": (
        lambda x: layers.logsumexp(x, dim=1, keepdim=True),
        [X],
        lambda x: np.log(np.exp(x).sum(1, keepdims=True)),
    ),
    "clamp": (lambda x: layers.clamp(x, max=0.5), [X], lambda x: np.minimum(x, 0.5)),
    "addmm": (
        lambda a, x: layers.addmm(a, x, layers.matmul(x, x, transpose_x=True), 2.0, 0.5),
        [X, Y],
        lambda a, x: 0.5 * a + 2 * x @ (x.T @ x),
    ),
    "addcmul": (lambda a, x, y: layers.addcmul(a, x, y, 2.0), [X, Y, X], lambda a, x, y: a + 2 * x * y),
    "bmm": (layers.bmm, [BATCH, MORE], np.matmul),
    "dot": (layers.dot, [X, Y], lambda x, y: (x * y).sum(1, keepdims=True)),
    "dist": (layers.dist, [X, Y], lambda x, y: np.sqrt(((x - y) ** 2).sum()).reshape(1)),
    "cross": (lambda x, y: layers.cross(x, y, dim=1), [X, Y], np.cross),
    "kron": (layers.kron, [X, Y], np.kron),
    "t": (layers.t, [X], np.transpose),
    "tril": (lambda x: layers.tril(x, -1), [X], lambda x: np.tril(x, -1)),
    "triu": (layers.triu, [X], np.triu),
    "trace": (layers.trace, [X], lambda x: np.trace(x).reshape(1)),
    "diag_embed": (layers.diag_embed, [X], lambda x: np.stack([np.diag(row) for row in x])),
    "diag_embed, aside": (
        lambda x: layers.diag_embed(x, -1, 0, 2),
        [X],
        lambda x: np.stack([np.diag(row, -1) for row in x], 1),
    ),
    "fsp_matrix": (
        layers.fsp_matrix,
        [IMAGE, OTHER],
        lambda x, y: np.einsum("bchw,bdhw->bcd", x, y) / 16,
    ),
    "index_select": (lambda x: layers.index_select(x, layers.assign(np.array([2, 0])), 1), [X], lambda x: x[:, [2, 0]]),
    "flip": (lambda x: layers.flip(x, [1]), [X], lambda x: x[:, ::-1]),
    "roll": (lambda x: layers.roll(x, 1, 1), [X], lambda x: np.roll(x, 1, 1)),
    "lrn": (lambda x: layers.lrn(x, 3, 2.0, 0.5), [IMAGE], neighbours),
    "space_to_depth": (lambda x: layers.space_to_depth(x, 2), [IMAGE], spread),
    "unfold": (
        lambda x: layers.unfold(x, [2, 2], strides=2),
        [IMAGE],
        lambda x: x.reshape(2, 4, 2, 2, 2, 2).transpose(0, 1, 3, 5, 2, 4).reshape(2, 16, 4),
    ),
    "add_position_encoding": (lambda x: layers.add_position_encoding(x, 0.5, 2.0), [BATCH], waves),
    "resize_trilinear": (
        lambda x: layers.resize_trilinear(x, [7, 7, 7]),
        [SOLID],
        lambda x: halves(halves(halves(x, 2), 3), 4),
    ),
    "interpolate": (lambda x: layers.interpolate(x, [7, 7]), [IMAGE], lambda x: halves(halves(x, 2), 3)),
    "image_resize_short": (lambda x: layers.image_resize_short(x, 7), [IMAGE], lambda x: halves(halves(x, 2), 3)),
    "adaptive_pool3d": (
        lambda x: layers.adaptive_pool3d(x, 2, "avg"),
        [SOLID],
        lambda x: x.reshape(1, 2, 2, 2, 2, 2, 2, 2).mean((3, 5, 7)),
    ),
    "teacher_student_sigmoid_loss": (layers.teacher_student_sigmoid_loss, [CLICKS, LABEL], taught),
    "npair_loss": (
        lambda x, y: layers.npair_loss(x, y, layers.assign(np.array([[1], [2], [1]]))),
        [X, Y],
        lambda x, y: near_and_far(x, y, np.array([[1], [2], [1]])),
    ),
    "merge_selected_rows": (layers.merge_selected_rows, [X], lambda x: x),
    "get_tensor_from_selected_rows": (layers.get_tensor_from_selected_rows, [X], lambda x: x),
    "affine_grid": (
        lambda theta: layers.affine_grid(theta, [2, 3, 2, 3]),
        [CHANCE.normal(size=(2, 2, 3)).astype(np.float32)],
        lambda theta: np.einsum("hwk,bck->bhwc", np.array([[[x, y, 1] for x in (-1, 0, 1)] for y in (-1, 1)]), theta),
    ),
    "grid_sampler": (
        layers.grid_sampler,
        [IMAGE, np.array([[[[-1.0, -1.0], [1 / 3, -1.0]], [[0.0, 1.0], [5.0, 0.0]]]] * 2, np.float32)],
        lambda x, grid: np.stack([np.stack([x[:, :, 0, 0], x[:, :, 0, 2]], 2), np.stack([(x[:, :, 3, 1] + x[:, :, 3, 2]) / 2, 0 * x[:, :, 0, 0]], 2)], 2),
    ),
}  # fmt: skip


def halves(x: Any, axis: int) -> Any:
    """Between each two neighbours one more."""
    x = np.moveaxis(x, axis, 0)
    result = np.empty((2 * len(x) - 1, *x.shape[1:]), x.dtype)
    result[::2], result[1::2] = x, (x[1:] + x[:-1]) / 2
    return np.moveaxis(result, 0, axis)


@pytest.mark.parametrize("name", SMOOTH)
def test_numbers_and_gradients(name: str) -> None:
    call, inputs, expected = SMOOTH[name]
    arrays = {f"x{place}": each for place, each in enumerate(inputs)}
    if name in ("grid_sampler", "teacher_student_sigmoid_loss"):  # their second input is no place for a gradient
        arrays = dict(zip(("x", "fixed"), inputs, strict=True))
    np.testing.assert_allclose(computed(call, arrays), expected(*inputs), rtol=1e-4, atol=1e-5)
    ours, measured = derivative(call, arrays)
    assert ours == pytest.approx(measured, rel=1e-4, abs=1e-6)


PLAIN: dict[str, tuple[Callable[..., Any], list[Any], Any]] = {
    "elementwise_equal": (layers.elementwise_equal, [X, np.where(X > 0, X, Y)], X > 0),
    "allclose": (layers.allclose, [X, X + 1e-9], [True]),
    "index_sample": (layers.index_sample, [X, np.array([[2, 0], [1, 1], [0, 2]])], np.stack([X[0, [2, 0]], X[1, [1, 1]], X[2, [0, 2]]])),
    "shard_index": (lambda x: layers.shard_index(x, 20, 2, 0), [np.array([[1], [12], [6]])], [[1], [-1], [6]]),
    "nonzero": (layers.nonzero, [X > 0], np.argwhere(X > 0)),
    "full": (lambda: layers.full([2, 3], 1.5), [], np.full((2, 3), 1.5)),
    "full_like": (lambda x: layers.full_like(x, 2.0), [X], np.full((3, 3), 2.0)),
    "arange": (lambda: layers.arange(1, 7, 2), [], [1.0, 3.0, 5.0]),
    "similarity_focus": (lambda x: layers.similarity_focus(x, 1, [0]), [np.array([[[[0.8, 0.1], [0.4, 0.5]], [[0.9, 0.7], [0.9, 0.9]]]], np.float32)], np.array([[[[1, 0], [0, 1]], [[1, 0], [0, 1]]]])),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_numbers_alone(name: str) -> None:
    call, inputs, expected = PLAIN[name]
    found = computed(call, {f"x{place}": each for place, each in enumerate(inputs)})
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_several_outputs() -> None:
    ids = np.array([3, 1, 3, 7, 1, 3])
    values, index = computed(layers.unique, {"x": ids})
    assert (values.tolist(), index.tolist()) == ([3, 1, 7], [0, 1, 0, 2, 1, 0])
    assert [each.tolist() for each in computed(layers.unique_with_counts, {"x": ids})][2] == [3, 2, 1]
    rows, columns = computed(lambda x: layers.nonzero(x, as_tuple=True), {"x": X > 0})
    assert np.concatenate([rows, columns], 1).tolist() == np.argwhere(X > 0).tolist()
    found, wanted = np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2])
    mean, wrong, right = computed(lambda x, y: layers.mean_iou(x, y, 4), {"x": found, "y": wanted})
    assert mean[0] == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)
    assert (wrong.tolist(), right.tolist()) == ([0, 1, 1, 0], [1, 1, 1, 0])
    left, below = computed(lambda x, y: layers.meshgrid([x, y]), {"x": X[0], "y": Y[0, :2]})
    np.testing.assert_array_equal(left, np.repeat(X[0][:, None], 2, 1))
    np.testing.assert_array_equal(below, np.repeat(Y[0, None, :2], 3, 0))
    largest, places = computed(lambda x: layers.adaptive_pool2d(x, 2, "max", require_index=True), {"x": IMAGE})
    np.testing.assert_array_equal(np.take_along_axis(IMAGE.reshape(2, 4, 16), places.reshape(2, 4, 4), 2), largest.reshape(2, 4, 4))  # fmt: skip
    with pytest.raises(fluid.core.EnforceNotMet, match="places of max alone"):
        computed(lambda x: layers.adaptive_pool2d(x, 2, "avg", require_index=True), {"x": IMAGE})


@pytest.mark.parametrize(
    ("row", "seed", "hashed"),
    [(b"", 0, 0xEF46DB3751D8E999), (b"a", 0, 0xD24EC4F1A98C6E5B), (b"as", 0, 0x1C330FB2D66BE179), (b"asdf", 0, 0x415872F599CEA71E),
     (b"Call me Ishmael. Some years ago--never mind how long precisely-", 0, 0x02A2E85470D6FD96)],
)  # fmt: skip
def test_hashes_of_bytes_are_xxh64(row: bytes, seed: int, hashed: int) -> None:
    from umiak.fluid.kernels.ids.hashing import xxh64

    assert xxh64(row, seed) == hashed


def test_hashes_of_ids() -> None:
    from umiak.fluid.kernels.ids.hashing import xxh64

    ids = np.arange(10).reshape(2, 5)
    found = computed(lambda x: layers.hash(x, 1000, 3), {"x": ids})
    assert found.shape == (2, 3, 1)
    assert found[1, 2, 0] == xxh64(ids[1].tobytes(), 2) % 1000


def test_what_is_drawn() -> None:
    with programs() as made:
        whole, order = layers.randint(3, 9, [500]), layers.randperm(50)
        normal, crops = layers.randn([2000]), layers.random_crop(layers.assign(IMAGE), [2, 3])
        drawn = made.run(fetch=[whole, order, normal, crops])
    assert set(drawn[0]) == {3, 4, 5, 6, 7, 8}
    assert sorted(drawn[1]) == list(range(50))
    assert drawn[1].tolist() != list(range(50))
    assert abs(drawn[2].mean()) < 0.1
    assert drawn[2].std() == pytest.approx(1, abs=0.1)
    assert drawn[3].shape == (2, 4, 2, 3)
    parts = np.lib.stride_tricks.sliding_window_view(IMAGE[0, 0], (2, 3)).reshape(-1, 6)
    assert (parts == drawn[3][0, 0].reshape(6)).all(1).any()


def test_arrays_are_joined() -> None:
    with programs() as made:
        array = layers.create_array("float32")
        for place in range(2):
            at = layers.fill_constant([1], "int64", place)
            array = layers.array_write(layers.assign(X + place), at, array=array)
        joined, sizes = layers.tensor_array_to_tensor(array, axis=1)
        stacked, _ = layers.tensor_array_to_tensor(array, axis=0, use_stack=True)
        found = made.run(fetch=[joined, sizes, stacked])
    np.testing.assert_array_equal(found[0], np.concatenate([X, X + 1], 1))
    assert found[1].tolist() == [3, 3]
    np.testing.assert_array_equal(found[2], np.stack([X, X + 1]))
