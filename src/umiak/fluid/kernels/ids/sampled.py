"""Losses over many classes: drawn ones, trees of them, centres; and what models of clicks compute with shows. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.nn import functional

from umiak.fluid.kernels.registry import Tensor, kernel

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results


def drawn(kind: str, classes: int, shape: list[int], seed: int, weights: Any = None) -> Any:
    """Classes: evenly, by the logarithm of their number, or by given weights. A seed other than zero draws the same every time."""
    chance = paddle.uniform(shape, "float64", 0.0, 1.0, seed).numpy()
    if kind == "uniform":
        return np.minimum((chance * classes).astype(np.int64), classes - 1)
    if kind == "log_uniform":
        return (np.exp(chance * np.log(classes)).astype(np.int64) - 1) % max(classes - 1, 1)
    sums = np.cumsum(np.asarray(weights, np.float64))
    return np.minimum(np.searchsorted(sums / sums[-1], chance, side="right"), classes - 1).astype(np.int64)


def probability(kind: str, classes: int, numbers: Any, weights: Any = None) -> Any:
    """How probable it is to draw these classes."""
    if kind == "uniform":
        return np.full(numbers.shape, 1.0 / classes)
    if kind == "log_uniform":
        return np.log((numbers + 2.0) / (numbers + 1.0)) / np.log(classes)
    return np.asarray(weights, np.float64)[numbers]


@kernel()
def nce(input: Tensor, label: Tensor, weight: Tensor, bias: Tensor, sample_weight: Tensor, num_total_classes: int, num_neg_samples: int, sampler: str, custom_dist: list[float] | None, seed: int) -> Tensor:  # fmt: skip
    """True classes against drawn ones, each a yes or no."""
    rows, true = label.shape[0], label.shape[1]
    negative = drawn(sampler, num_total_classes, [rows, num_neg_samples], seed, custom_dist)
    classes = np.concatenate([label.numpy().astype(np.int64), negative], 1)
    expected = probability(sampler, num_total_classes, classes, custom_dist) * num_neg_samples
    flat = paddle.to_tensor(classes.reshape(-1))
    vectors = paddle.gather(weight, flat).reshape([*classes.shape, -1])
    logits = paddle.sum(vectors * input.unsqueeze(1), -1)
    if bias is not None:
        logits = logits + paddle.gather(bias.reshape([-1]), flat).reshape(classes.shape)
    output, by = functional.sigmoid(logits), paddle.to_tensor(expected).astype(input.dtype)
    right = paddle.to_tensor(np.arange(classes.shape[1]) < true).reshape([1, -1])
    costs = -paddle.log(paddle.where(right, output, by) / (output + by))
    total = paddle.sum(costs, 1, keepdim=True)
    if sample_weight is not None:
        total = total * sample_weight.reshape([-1, 1])
    return total / (num_neg_samples + 1)


@kernel()
def hsigmoid(input: Tensor, label: Tensor, weight: Tensor, bias: Tensor, num_classes: int, path_table: Tensor, path_code: Tensor) -> Tensor:  # fmt: skip
    """The way through a tree of classes, each fork a yes or no."""
    return functional.hsigmoid_loss(input, label, num_classes, weight, bias, path_table, path_code)


@kernel()
def sampled_softmax_with_cross_entropy(logits: Tensor, label: Tensor, num_samples: int, num_true: int, remove_accidental_hits: bool, customized_samples: Tensor, customized_probabilities: Tensor, seed: int) -> Tensor:  # fmt: skip
    """Cross entropy among the true class and drawn ones, each logit less the logarithm of its probability to be drawn."""
    labels = label.numpy().reshape(-1, 1).astype(np.int64)
    if customized_samples is None:
        samples, by = _drawn_once(labels, logits.shape[1], num_samples, seed)
    else:
        samples, by = customized_samples.numpy(), customized_probabilities.numpy()
    picked = paddle.take_along_axis(logits, paddle.to_tensor(samples), 1)
    if remove_accidental_hits:
        hits = np.concatenate([np.zeros_like(labels, bool), samples[:, 1:] == labels], 1)
        picked = picked - paddle.to_tensor(hits * 1e20).astype(logits.dtype)
    picked = picked - paddle.to_tensor(np.log(by)).astype(logits.dtype)
    loss = -functional.log_softmax(paddle.clip(picked, -1e20, 1e20), 1)[:, :1]
    return loss / num_true


def _drawn_once(labels: Any, classes: int, count: int, seed: int) -> tuple[Any, Any]:
    """Each row's label and drawn classes, none of them twice and the same for all rows; and how probable it was that they come."""
    if count > classes:
        raise ValueError(f"{count} different classes can't be drawn from {classes}")
    chosen: list[int] = []
    tries = 0
    while len(chosen) < count:
        tries += 1
        (number,) = drawn("log_uniform", classes + 1, [1], seed + tries if seed else 0)
        if number not in chosen:
            chosen.append(int(number))
    samples = np.concatenate([labels, np.broadcast_to(np.asarray(chosen, np.int64), (len(labels), count))], 1)
    once = probability("log_uniform", classes + 1, samples)
    return samples, once * count if tries == count else -np.expm1(tries * np.log1p(-once))


@kernel()
def teacher_student_sigmoid_loss(input: Tensor, label: Tensor, soft_max_up_bound: float, soft_max_lower_bound: float) -> Tensor:  # fmt: skip
    """Of clicks and of a teacher's values: a label is -2 or -1 for no and yes without a value, value or 1 + value with one. Beyond the
    bounds there is no gradient.
    """
    inside = paddle.clip(input, soft_max_lower_bound, soft_max_up_bound)
    input = inside + (input - inside).detach()
    base = functional.relu(input) + paddle.log1p(paddle.exp(-paddle.abs(input)))
    clicked = paddle.logical_or(paddle.logical_and(label >= -1.0, label < 0.0), label >= 1.0)
    value = paddle.where(label >= 1.0, label - 1.0, label)
    taught = paddle.where(label >= 0.0, base - input * value, paddle.zeros_like(base))
    return base - paddle.where(clicked, input, paddle.zeros_like(input)) + taught


@kernel()
def center_loss(input: Tensor, label: Tensor, centers: Tensor, alpha: Tensor, update_center: bool) -> Results:
    """Half the squared distance to the centre of each label, and the centres a bit nearer to their instances."""
    rate = alpha.reshape([1]) if isinstance(alpha, paddle.Tensor) else alpha
    ids = label.reshape([-1]).astype("int64")
    away = input - paddle.gather(centers, ids).detach()
    loss = paddle.sum(away * away, 1, keepdim=True) / 2
    if not update_center:
        return loss, centers
    totals = paddle.index_add(paddle.zeros_like(centers), ids, 0, away.detach())
    counts = paddle.index_add(paddle.ones([centers.shape[0], 1], input.dtype), ids, 0, paddle.ones([ids.shape[0], 1], input.dtype))  # fmt: skip
    return loss, (centers + rate * totals / counts).detach()


@kernel()
def npair_loss(anchor: Tensor, positive: Tensor, labels: Tensor, l2_reg: float) -> Tensor:
    """Anchors against all positives: the same labels are to be near, others far."""
    flat = labels.reshape([-1, 1])
    alike = paddle.equal(flat, flat.t()).astype(anchor.dtype)
    alike = alike / paddle.sum(alike, 1, keepdim=True)
    lengths = paddle.mean(paddle.sum(anchor * anchor, 1)) + paddle.mean(paddle.sum(positive * positive, 1))
    scores = functional.log_softmax(paddle.matmul(anchor, positive, transpose_y=True), 1)
    entropy = -paddle.sum(alike * scores, 1, keepdim=True)
    return (paddle.mean(paddle.sum(alike * entropy, 0)) + lengths * 0.25 * l2_reg).reshape([1])


@kernel()
def continuous_value_model(input: Tensor, cvm: Tensor, use_cvm: bool) -> Tensor:
    """Shows and clicks in the first two places as logarithms, or without them. As in 1.8 their gradient is what `cvm` holds."""
    seen = _Shows.apply(input, cvm, use_cvm)
    return seen if use_cvm else seen[:, 2:]


class _Shows(paddle.autograd.PyLayer):  # type: ignore[misc]
    """The logarithms, with the gradient of 1.8."""

    @staticmethod
    def forward(context: Any, input: Tensor, cvm: Tensor, use_cvm: bool) -> Tensor:
        """log(show + 1), and log(click + 1) less that."""
        context.save_for_backward(cvm)
        if not use_cvm:
            return paddle.assign(input)
        shows = paddle.log(input[:, :1] + 1)
        return paddle.concat([shows, paddle.log(input[:, 1:2] + 1) - shows, input[:, 2:]], 1)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        """Of the first two places what is given for them."""
        (cvm,) = context.saved_tensor()
        own = paddle.concat([cvm.astype(gradient.dtype), gradient[:, 2:]], 1)
        return (own, None) if not cvm.stop_gradient else own


@kernel()
def data_norm(input: Tensor, size: Tensor, total: Tensor, squares: Tensor, scale: Tensor, bias: Tensor, slot_dim: int) -> Tensor:  # fmt: skip
    """Normalized by what was counted of the data so far; slots that were never shown are zeros."""
    mean, spread = (total / size).detach(), paddle.sqrt(size / squares).detach()
    output = (input - mean) * spread
    if scale is not None:
        output = output * scale + bias
    return output * _shown(input, slot_dim) if slot_dim > 0 else output


def _shown(input: Tensor, slot_dim: int) -> Tensor:
    """Ones for the places of slots whose first one is not zero."""
    first = input.reshape([input.shape[0], -1, slot_dim])[:, :, :1]
    seen = (paddle.abs(first) >= 1e-7).astype(input.dtype)
    return paddle.expand(seen, [*seen.shape[:2], slot_dim]).reshape(input.shape).detach()


@kernel()
def data_norm_counted(input: Tensor, size: Tensor, total: Tensor, squares: Tensor, slot_dim: int, decay: float, epsilon: float) -> Results:  # fmt: skip
    """What was counted, with this batch: only in programs that learn."""
    if not paddle.is_grad_enabled():
        return size, total, squares
    with paddle.no_grad():
        seen = _shown(input, slot_dim) if slot_dim > 0 else paddle.ones_like(input)
        count, away = paddle.sum(seen, 0), (input - total / size) * seen
        sums, spread = paddle.sum(input * seen, 0), paddle.sum(away * away, 0)
        if slot_dim > 0:  # each slot counts once in a batch, with its means
            by = paddle.clip(count, min=1.0)
            return _grown(size, paddle.clip(count, max=1.0), decay), _grown(total, sums / by, decay), _grown(squares, spread / by + count * epsilon, decay)  # fmt: skip
        return _grown(size, count, decay), _grown(total, sums, decay), _grown(squares, spread + count * epsilon, decay)


def _grown(before: Tensor, new: Tensor, decay: float) -> Tensor:
    return before * decay + new


@kernel()
def spectral_norm(weight: Tensor, u: Tensor, v: Tensor, dim: int, power_iters: int, eps: float) -> Tensor:
    """By its largest singular value, found with so many steps from u and v, which stay as they are."""
    order = [dim, *[each for each in range(weight.ndim) if each != dim]]
    matrix = paddle.transpose(weight, order).reshape([weight.shape[dim], -1])
    with paddle.no_grad():
        left, right = u, v
        for _ in range(power_iters):
            right = paddle.matmul(matrix, left, transpose_x=True)
            right = right / (paddle.sqrt(paddle.sum(right * right)) + eps)
            left = paddle.matmul(matrix, right)
            left = left / (paddle.sqrt(paddle.sum(left * left)) + eps)
    return weight / paddle.sum(left * paddle.matmul(matrix, right))


@kernel()
def bilinear_tensor_product(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W y with a matrix for each output."""
    output = paddle.einsum("bi,kij,bj->bk", x, weight, y)
    return output if bias is None else output + bias
