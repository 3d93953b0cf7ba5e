"""Each layer of one operation: its numbers against numpy, its gradient against two evaluations. Real Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.fluid_programs import computed, derivative, fluid

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
A = np.array([[0.3, -1.2, 2.5], [1.7, 0.6, -0.4]], np.float32)
B = np.array([[1.1, 0.7, -2.0], [0.4, 1.5, 0.9]], np.float32)
C = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 10 - 1.05
IDS = np.array([[2], [0]], np.int64)
P = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], np.float32)
Z = np.array([[0.9], [0.2]], np.float32)
Y = np.array([[1.0], [0.0]], np.float32)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


ONE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "abs": (layers.abs, np.abs),
    "cos": (layers.cos, np.cos),
    "exp": (layers.exp, np.exp),
    "sigmoid": (layers.sigmoid, sigmoid),
    "logsigmoid": (layers.logsigmoid, lambda x: np.log(sigmoid(x))),
    "sin": (layers.sin, np.sin),
    "softplus": (layers.softplus, lambda x: np.log1p(np.exp(x))),
    "softsign": (layers.softsign, lambda x: x / (1 + np.abs(x))),
    "square": (layers.square, np.square),
    "tanh": (layers.tanh, np.tanh),
    "relu": (layers.relu, lambda x: np.maximum(x, 0)),
    "relu6": (lambda x: layers.relu6(x, threshold=2.0), lambda x: np.clip(x, 0, 2)),
    "leaky_relu": (layers.leaky_relu, lambda x: np.where(x > 0, x, 0.02 * x)),
    "elu": (layers.elu, lambda x: np.where(x > 0, x, np.exp(x) - 1)),
    "swish": (lambda x: layers.swish(x, 2.0), lambda x: x * sigmoid(2 * x)),
    "hard_sigmoid": (lambda x: layers.hard_sigmoid(x, offset=0.4), lambda x: np.clip(0.2 * x + 0.4, 0, 1)),
    "hard_swish": (layers.hard_swish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "brelu": (lambda x: layers.brelu(x, -1.0, 1.0), lambda x: np.clip(x, -1, 1)),
    "soft_relu": (layers.soft_relu, lambda x: np.log1p(np.exp(x))),
    "stanh": (layers.stanh, lambda x: 1.7159 * np.tanh(0.67 * x)),
    "thresholded_relu": (layers.thresholded_relu, lambda x: np.where(x > 1, x, 0)),
    "hard_shrink": (layers.hard_shrink, lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    "softshrink": (layers.softshrink, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)),
    "pow": (lambda x: layers.pow(x, 2.0), np.square),
    "clip": (lambda x: layers.clip(x, -0.5, 1.0), lambda x: np.clip(x, -0.5, 1)),
    "clip_by_norm": (lambda x: layers.clip_by_norm(x, 1.0), lambda x: x / np.sqrt((x * x).sum())),
    "scale": (lambda x: layers.scale(x, 3.0, 1.0), lambda x: 3 * x + 1),
    "scale, bias first": (lambda x: layers.scale(x, 3.0, 1.0, bias_after_scale=False), lambda x: 3 * (x + 1)),
    "cumsum": (layers.cumsum, lambda x: np.cumsum(x, -1)),
    "cumsum, others": (
        lambda x: layers.cumsum(x, axis=1, exclusive=True, reverse=True),
        lambda x: np.cumsum(x[:, ::-1], 1)[:, ::-1] - x,
    ),
    "softmax": (layers.softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "log_softmax": (layers.log_softmax, lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    "mean": (layers.mean, lambda x: x.mean().reshape(1)),
    "reduce_sum": (layers.reduce_sum, lambda x: x.sum().reshape(1)),
    "reduce_sum, dim": (lambda x: layers.reduce_sum(x, dim=1, keep_dim=True), lambda x: x.sum(1, keepdims=True)),
    "reduce_sum, dims": (lambda x: layers.reduce_sum(x, dim=[0, 1]), lambda x: x.sum().reshape(1)),
    "reduce_mean": (lambda x: layers.reduce_mean(x, dim=[1]), lambda x: x.mean(1)),
    "reduce_max": (lambda x: layers.reduce_max(x, dim=-1), lambda x: x.max(-1)),
    "reduce_min": (layers.reduce_min, lambda x: x.min().reshape(1)),
    "reduce_prod": (lambda x: layers.reduce_prod(x, dim=0), lambda x: x.prod(0)),
    "l2_normalize": (lambda x: layers.l2_normalize(x, axis=1), lambda x: x / np.sqrt((x * x).sum(1, keepdims=True))),
    "reshape": (lambda x: layers.reshape(x, [-1, 1]), lambda x: x.reshape(-1, 1)),
    "reshape, zero, act": (lambda x: layers.reshape(x, [0, 3, 1], act="relu"), lambda x: np.maximum(x, 0)[..., None]),
    "transpose": (lambda x: layers.transpose(x, perm=[1, 0]), lambda x: x.T),
    "unsqueeze": (lambda x: layers.unsqueeze(x, axes=[1]), lambda x: x[:, None]),
    "squeeze": (lambda x: layers.squeeze(layers.unsqueeze(x, [2]), axes=[2]), lambda x: x),
    "expand": (lambda x: layers.expand(x, [1, 2]), lambda x: np.tile(x, (1, 2))),
    "split along the last": (lambda x: layers.split(x, 3)[1], lambda x: x[:, 1:2]),
    "split, sizes": (lambda x: layers.split(x, [2, 1], dim=1)[0], lambda x: x[:, :2]),
    "slice": (lambda x: layers.slice(x, axes=[1], starts=[0], ends=[2]), lambda x: x[:, :2]),
    "strided_slice": (lambda x: layers.strided_slice(x, [1], [0], [3], [2]), lambda x: x[:, ::2]),
    "getitem": (lambda x: x[:, 1:], lambda x: x[:, 1:]),
    "unstack": (lambda x: layers.unstack(x, axis=1)[2], lambda x: x[:, 2]),
    "stack": (lambda x: layers.stack([x, x], axis=1), lambda x: np.stack([x, x], 1)),
    "concat": (lambda x: layers.concat([x, x], axis=1), lambda x: np.concatenate([x, x], 1)),
    "concat along the first": (lambda x: layers.concat([x, x]), lambda x: np.concatenate([x, x])),
    "reverse": (lambda x: layers.reverse(x, axis=1), lambda x: x[:, ::-1]),
    "pad": (lambda x: layers.pad(x, [0, 0, 1, 2], 0.5), lambda x: np.pad(x, ((0, 0), (1, 2)), constant_values=0.5)),
    "sum": (lambda x: layers.sum([x, x, x]), lambda x: 3 * x),
    "sums": (lambda x: layers.sums([x, x]), lambda x: 2 * x),
    "operators": (lambda x: 1 - x * 2 + x / 4, lambda x: 1 - x * 2 + x / 4),
    "power and minus": (lambda x: -(x**2) - 1, lambda x: -(x**2) - 1),
    "gather": (lambda x: layers.gather(x, layers.assign(np.array([1, 0, 1], "int64"))), lambda x: x[[1, 0, 1]]),
    "dropout is not scaled when trained": (lambda x: layers.dropout(x, 0.0), lambda x: x),
    "dropout is scaled when tested": (lambda x: layers.dropout(x, 0.25, is_test=True), lambda x: 0.75 * x),
    "dropout, upscale": (
        lambda x: layers.dropout(x, 0.25, is_test=True, dropout_implementation="upscale_in_train"),
        lambda x: x,
    ),
    "label_smooth": (lambda x: layers.label_smooth(x, epsilon=0.1), lambda x: 0.9 * x + 0.1 / 3),
    "assign": (layers.assign, lambda x: x),
    "increment": (lambda x: layers.increment(x, 2.0, in_place=False), lambda x: x + 2),
}


@pytest.mark.parametrize("name", ONE)
def test_one_tensor(name: str) -> None:
    call, expected = ONE[name]
    np.testing.assert_allclose(computed(call, {"x": A}), expected(A), rtol=1e-4, atol=1e-5)
    ours, theirs = derivative(call, {"x": A})
    assert ours == pytest.approx(theirs, rel=2e-3, abs=2e-4)


POSITIVE = {
    "log": (layers.log, np.log),
    "sqrt": (layers.sqrt, np.sqrt),
    "rsqrt": (layers.rsqrt, lambda x: 1 / np.sqrt(x)),
    "reciprocal": (layers.reciprocal, lambda x: 1 / x),
    "elementwise_pow": (lambda x: layers.elementwise_pow(x, x), lambda x: x**x),
}


@pytest.mark.parametrize("name", POSITIVE)
def test_one_positive_tensor(name: str) -> None:
    call, expected = POSITIVE[name]
    np.testing.assert_allclose(computed(call, {"x": P}), expected(P), rtol=1e-4)
    ours, theirs = derivative(call, {"x": P})
    assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-4)


ROW, MIDDLE = C[0, 0], C[0, :, 0]
TWO: dict[str, tuple[Callable[..., Any], dict[str, Any], Any]] = {
    "add": (layers.elementwise_add, {"x": A, "y": B}, A + B),
    "add, act": (lambda x, y: layers.elementwise_add(x, y, act="relu"), {"x": A, "y": B}, np.maximum(A + B, 0)),
    "sub": (layers.elementwise_sub, {"x": A, "y": B}, A - B),
    "mul": (layers.elementwise_mul, {"x": A, "y": B}, A * B),
    "div": (layers.elementwise_div, {"x": A, "y": B}, A / B),
    "max": (layers.elementwise_max, {"x": A, "y": B}, np.maximum(A, B)),
    "min": (layers.elementwise_min, {"x": A, "y": B}, np.minimum(A, B)),
    "operators": (lambda x, y: x * y - x / y, {"x": A, "y": B}, A * B - A / B),
    "broadcast from the first": (
        lambda x, y: layers.elementwise_mul(x, layers.reduce_sum(y, dim=1), axis=0),
        {"x": C, "y": A},
        C * A.sum(1)[:, None, None],
    ),
    "broadcast in the middle": (
        lambda x, y: layers.elementwise_add(x, layers.reduce_sum(y, dim=0), axis=1),
        {"x": C, "y": A},
        C + A.sum(0)[None, :, None],
    ),
    "matmul": (lambda x, y: layers.matmul(x, y, transpose_y=True, alpha=0.5), {"x": A, "y": B}, 0.5 * A @ B.T),
    "mul of matrices": (
        lambda x, y: layers.mul(x, layers.transpose(y, [1, 0]), x_num_col_dims=1),
        {"x": A, "y": B},
        A @ B.T,
    ),
    "cos_sim": (
        layers.cos_sim,
        {"x": A, "y": B},
        ((A * B).sum(1) / np.sqrt((A * A).sum(1) * (B * B).sum(1)))[:, None],
    ),
    "square_error_cost": (layers.square_error_cost, {"x": A, "y": B}, (A - B) ** 2),
    "mse_loss": (layers.mse_loss, {"x": A, "y": B}, ((A - B) ** 2).mean().reshape(1)),
    "smooth_l1": (
        layers.smooth_l1,
        {"x": A, "y": B},
        np.where(np.abs(A - B) < 1, 0.5 * (A - B) ** 2, np.abs(A - B) - 0.5).sum(1, keepdims=True),
    ),
    "huber_loss": (
        lambda x, y: layers.huber_loss(x, y, 1.0),
        {"x": A, "y": B},
        np.where(np.abs(A - B) <= 1, 0.5 * (A - B) ** 2, np.abs(A - B) - 0.5),
    ),
    "cross_entropy takes probabilities": (
        layers.cross_entropy,
        {"x": P, "label": IDS},
        -np.log(P[[0, 1], [2, 0]])[:, None],
    ),
    "cross_entropy of parts": (
        lambda x, label: layers.cross_entropy(x, label, soft_label=True),
        {"x": P, "label": P[::-1].copy()},
        -(P[::-1] * np.log(P)).sum(1, keepdims=True),
    ),
    "cross_entropy, ignored": (
        lambda x, label: layers.cross_entropy(x, label, ignore_index=0),
        {"x": P, "label": IDS},
        np.array([[-np.log(0.3)], [0.0]]),
    ),
    "softmax_with_cross_entropy": (
        layers.softmax_with_cross_entropy,
        {"x": A, "label": IDS},
        (np.log(np.exp(A).sum(1)) - A[[0, 1], [2, 0]])[:, None],
    ),
    "sigmoid_cross_entropy_with_logits": (
        layers.sigmoid_cross_entropy_with_logits,
        {"x": A, "fixed": P},
        np.maximum(A, 0) - A * P + np.log1p(np.exp(-np.abs(A))),
    ),
    "log_loss": (
        layers.log_loss,
        {"x": Z, "label": Y},
        -Y * np.log(Z + 1e-4) - (1 - Y) * np.log(1 - Z + 1e-4),
    ),
    "rank_loss": (
        lambda x, y, label: layers.rank_loss(label, x, y),
        {"x": Z, "y": Y, "label": Y},
        np.log1p(np.exp(Z - Y)) - Y * (Z - Y),
    ),
    "margin_rank_loss": (
        lambda x, y, label: layers.margin_rank_loss(label, x, y, 0.3),
        {"x": Z, "y": Y, "label": 2 * Y - 1},
        np.maximum(-(2 * Y - 1) * (Z - Y) + 0.3, 0),
    ),
    "bpr_loss": (
        layers.bpr_loss,
        {"x": A, "label": IDS},
        np.array(
            [[-sum(np.log(sigmoid(A[row, own] - A[row, k])) for k in range(3) if k != own) / 2] for row, own in ((0, 2), (1, 0))]
        ),
    ),
    "gather_nd": (layers.gather_nd, {"x": A, "ids": np.array([[1, 2], [0, 0]], np.int64)}, A[[1, 0], [2, 0]]),
    "expand_as": (layers.expand_as, {"x": A, "y": np.zeros((4, 3), np.float32)}, np.tile(A, (2, 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO)
def test_several_tensors(name: str) -> None:
    call, arrays, expected = TWO[name]
    np.testing.assert_allclose(computed(call, arrays), expected, rtol=1e-4, atol=1e-5)
    ours, theirs = derivative(call, arrays)
    assert ours == pytest.approx(theirs, rel=2e-3, abs=2e-4)


WITHOUT_GRADIENT: dict[str, tuple[Callable[..., Any], dict[str, Any], Any]] = {
    "argmax along the first": (layers.argmax, {"x": A}, A.argmax(0)),
    "argmin": (lambda x: layers.argmin(x, axis=1), {"x": A}, A.argmin(1)),
    "topk": (lambda x: layers.topk(x, 2)[1], {"x": A}, np.argsort(-A, 1)[:, :2]),
    "argsort": (lambda x: layers.argsort(x, descending=True)[0], {"x": A}, -np.sort(-A, 1)),
    "one_hot replaces the last dimension": (lambda x: layers.one_hot(x, 4), {"x": IDS}, np.eye(4)[[2, 0]]),
    "fluid.one_hot adds one": (lambda x: fluid.one_hot(x, 4), {"x": IDS}, np.eye(4)[[[2], [0]]]),
    "shape": (layers.shape, {"x": A}, [2, 3]),
    "floor": (layers.floor, {"x": A}, np.floor(A)),
    "ceil": (layers.ceil, {"x": A}, np.ceil(A)),
    "sign": (layers.sign, {"x": A}, np.sign(A)),
    "round": (layers.round, {"x": A}, np.round(A)),
    "where is nonzero": (lambda x: layers.where(x > 1.0), {"x": A}, np.argwhere(A > 1)),
    "cast": (lambda x: layers.cast(x, "int64"), {"x": A}, A.astype(np.int64)),
    "less_than": (layers.less_than, {"x": A, "y": B}, A < B),
    "equal": (lambda x, y: x == y, {"x": A, "y": A.copy()}, A == A),
    "logical_not": (lambda x: layers.logical_not(x > 0.5), {"x": A}, ~(A > 0.5)),
    "logical_and": (lambda x, y: layers.logical_and(x > 0.5, y > 0.5), {"x": A, "y": B}, (A > 0.5) & (B > 0.5)),
    "mod": (lambda x: layers.elementwise_mod(x, x + 1), {"x": IDS}, IDS % (IDS + 1)),
    "floordiv": (lambda x: layers.elementwise_floordiv(x, x + 1), {"x": IDS}, IDS // (IDS + 1)),
    "fill_constant_batch_size_like": (
        lambda x: layers.fill_constant_batch_size_like(x, [1, 4], "float32", 0.5),
        {"x": A},
        np.full((2, 4), 0.5),
    ),
    "zeros_like": (layers.zeros_like, {"x": A}, np.zeros((2, 3))),
    "accuracy": (layers.accuracy, {"x": P, "label": IDS}, [0.5]),
    "accuracy of two": (lambda x, label: layers.accuracy(x, label, k=2), {"x": P, "label": IDS}, [1.0]),
    "sequence_mask": (lambda x: layers.sequence_mask(x, maxlen=3), {"x": np.array([1, 3], np.int64)}, [[1, 0, 0], [1, 1, 1]]),
    "isfinite": (layers.isfinite, {"x": A}, [True]),
    "is_empty": (layers.is_empty, {"x": A}, [False]),
    "has_nan": (lambda x: layers.has_nan(layers.log(x)), {"x": A}, [True]),
    "multiplex": (
        lambda x, y, ids: layers.multiplex([x, y], ids),
        {"x": A, "y": B, "ids": np.array([[1], [0]], np.int32)},
        np.stack([B[0], A[1]]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_without_gradient(name: str) -> None:
    call, arrays, expected = WITHOUT_GRADIENT[name]
    np.testing.assert_allclose(computed(call, arrays), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: layers.fill_constant([2, 2], "int64", 3), [[3, 3], [3, 3]]),
        (lambda: layers.zeros([2], "float32"), [0, 0]),
        (lambda: layers.ones([1, 2], "int64"), [[1, 1]]),
        (lambda: layers.range(0, 6, 2, "int64"), [0, 2, 4]),
        (lambda: layers.linspace(0, 1, 3, "float32"), [0, 0.5, 1]),
        (lambda: layers.eye(2), [[1, 0], [0, 1]]),
        (lambda: layers.assign(np.array([1.5, 2.5])), [1.5, 2.5]),
        (lambda: layers.diag(np.array([1.0, 2.0], "float32")), [[1, 0], [0, 2]]),
    ],
)
def test_what_is_made_of_nothing(call: Callable[[], Any], expected: Any) -> None:
    np.testing.assert_allclose(computed(call, {}), expected)
