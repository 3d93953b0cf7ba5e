"""Labels for the items of sequences: conditional random fields, their best path, and the chunks that labels stand for. A program."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.kernels.registry import Frame, Tensor, kernel
from umiak.fluid.kernels.sequences import lengths_of, padded

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results


def _crf_shapes(input: Tensor, label: Tensor, transition: Tensor, length: Tensor) -> Results:
    return [((-1, 1), input.dtype, 0)]


def _as_batch(frame: Frame, name: str, tensor: Tensor, length: Tensor) -> tuple[Tensor, Any]:
    """[sequences, longest, ...] and the lengths."""
    if length is not None:
        return tensor, length.numpy().reshape(-1)
    offsets = frame.offsets_of(name)
    lengths = lengths_of(offsets)
    return padded(tensor, offsets, max([*lengths, 1]), 0), np.asarray(lengths)


@kernel(sequences=True, shapes=_crf_shapes)
def linear_chain_crf(frame: Frame, input: Tensor, label: Tensor, transition: Tensor, length: Tensor) -> Tensor:
    """For each sequence the negative logarithm of its labels' probability; the first two rows of transitions are those of the beginning and of the end."""
    scores, lengths = _as_batch(frame, "input", input, length)
    labels, _ = _as_batch(frame, "label", label, length)
    rows, longest, _ = scores.shape
    labels = labels.reshape([rows, longest]).astype("int64")
    begin, end, between = transition[0], transition[1], transition[2:]
    alpha = begin + scores[:, 0]
    own = paddle.gather(begin, labels[:, 0])
    mask = paddle.to_tensor(
        (np.arange(longest)[None, :] < lengths[:, None]).astype(str(input.dtype).rpartition(".")[2])
    )
    picked = paddle.take_along_axis(scores, labels.unsqueeze(-1), 2).squeeze(-1)
    own = own + paddle.sum(picked * mask, 1)
    for step in range(1, longest):
        new = paddle.logsumexp(alpha.unsqueeze(2) + between.unsqueeze(0), 1) + scores[:, step]
        inside = mask[:, step : step + 1]
        alpha = new * inside + alpha * (1 - inside)
        moves = paddle.gather_nd(between, paddle.stack([labels[:, step - 1], labels[:, step]], 1))
        own = own + moves * inside.squeeze(-1)
    last = paddle.to_tensor(np.stack([np.arange(rows), np.maximum(lengths - 1, 0)], 1).astype(np.int64))
    own = own + paddle.gather(end, paddle.gather_nd(labels, last))
    cost = paddle.logsumexp(alpha + end, 1) - own
    frame.set_offsets()
    return (cost * mask[:, 0]).unsqueeze(-1)


def best_path(scores: Any, transition: Any) -> Any:
    """The labels of one sequence with the largest score."""
    alpha, before = transition[0] + scores[0], []
    for row in scores[1:]:
        sums = alpha[:, None] + transition[2:]
        before.append(sums.argmax(0))
        alpha = sums.max(0) + row
    path = [int((alpha + transition[1]).argmax())]
    for places in reversed(before):
        path.append(int(places[path[-1]]))
    return path[::-1]


def _path_shapes(input: Tensor, transition: Tensor, label: Tensor, length: Tensor) -> Results:
    return [((-1, 1), "int64", 1) if length is None else (tuple(input.shape[:2]), "int64", 0)]


@kernel(sequences=True, shapes=_path_shapes)
def crf_decoding(frame: Frame, input: Tensor, transition: Tensor, label: Tensor, length: Tensor) -> Tensor:
    """The best labels of each sequence; with labels ones where they agree, and zeros."""
    values, weights = input.numpy(), transition.numpy()
    if length is None:
        offsets = frame.offsets_of("input")
        parts = [values[begin:end] for begin, end in pairwise(offsets)]
        path = np.asarray([each for part in parts if len(part) for each in best_path(part, weights)], np.int64)
        path = path.reshape(-1, 1)
        frame.set_offsets(*frame.all_offsets("input"))
    else:
        path = np.zeros(values.shape[:2], np.int64)
        for row, size in enumerate(length.numpy().reshape(-1)):
            if size:
                path[row, :size] = best_path(values[row, :size], weights)
    if label is None:
        return paddle.to_tensor(path)
    equal = (path == label.numpy().reshape(path.shape)).astype(np.int64)
    if length is not None:
        equal *= np.arange(path.shape[1])[None, :] < length.numpy().reshape(-1, 1)
    return paddle.to_tensor(equal)


SCHEMES = {"IOB": ("begin", "inside"), "IOE": ("inside", "end"), "IOBES": ("begin", "inside", "end", "single"), "plain": ("",)}  # fmt: skip


def chunks(labels: list[int], scheme: str, types: int) -> set[tuple[int, int, int]]:
    """First item, last item and type of each chunk. A label is type * tags + tag; the type behind the last one is outside."""
    tags = SCHEMES[scheme]
    output, start, before = set(), -1, (types, "")
    for place, label in enumerate([*labels, types * len(tags)]):
        kind, tag = label // len(tags), tags[label % len(tags)]
        if start >= 0 and _ends(before, kind, tag, types):
            output.add((start, place - 1, before[0]))
            start = -1
        if _begins(before, kind, tag, types):
            start = place
        before = (kind, tag)
    return output


def _ends(before: tuple[int, str], kind: int, tag: str, types: int) -> bool:
    if before[0] == types:
        return False
    return kind != before[0] or before[1] in ("end", "single") or (before[1] != "" and tag in ("begin", "single"))


def _begins(before: tuple[int, str], kind: int, tag: str, types: int) -> bool:
    if kind == types or before[0] == types:
        return kind != types
    return kind != before[0] or tag in ("begin", "single") or (tag != "" and before[1] in ("end", "single"))


@kernel(sequences=True, shapes=lambda **_given: [((1,), "float32", 0)] * 3 + [((1,), "int64", 0)] * 3)
def chunk_eval(frame: Frame, input: Tensor, label: Tensor, chunk_scheme: str, num_chunk_types: int, excluded_chunk_types: list[int] | None, seq_length: Tensor) -> Results:  # fmt: skip
    """Precision, recall and F1 of chunks, and how many were found, are there and agree. Types may be excluded from those that agree."""
    sides = []
    for name, tensor in (("input", input), ("label", label)):
        values = tensor.numpy()
        if seq_length is None:
            offsets = frame.offsets_of(name)
            sides.append([values[begin:end].reshape(-1) for begin, end in pairwise(offsets)])
        else:
            lengths = seq_length.numpy().reshape(-1)
            sides.append([row.reshape(-1)[:size] for row, size in zip(values, lengths, strict=True)])
    counts = [0, 0, 0]
    for output, wanted in zip(*sides, strict=True):
        left, right = (chunks(each.tolist(), chunk_scheme, num_chunk_types) for each in (output, wanted))
        counts[0] += len(left)
        counts[1] += len(right)
        counts[2] += sum(chunk[2] not in (excluded_chunk_types or ()) for chunk in left & right)
    precision, recall = (counts[2] / count if count else 0.0 for count in counts[:2])
    f1 = 2 * precision * recall / (precision + recall) if counts[2] else 0.0
    return [
        *(paddle.full([1], each, "float32") for each in (precision, recall, f1)),
        *(paddle.full([1], each, "int64") for each in counts),
    ]
