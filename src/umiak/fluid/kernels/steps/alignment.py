"""Sequences of different lengths against each other: CTC, and the edits between two. A program."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.nn import functional

from umiak.fluid.kernels.registry import Frame, Tensor, kernel
from umiak.fluid.kernels.sequences import lengths_of, padded

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results


def _ctc_shapes(input: Tensor, label: Tensor, **_settings: Any) -> Results:
    return [((-1, 1), input.dtype, 0)]


@kernel(sequences=True, shapes=_ctc_shapes)
def warpctc(frame: Frame, input: Tensor, label: Tensor, blank: int, norm_by_times: bool, input_length: Tensor, label_length: Tensor) -> Tensor:  # fmt: skip
    """For each sequence the negative logarithm of its label's probability over all alignments; with lengths the input is [steps, sequences, classes]."""
    frame.set_offsets()
    if input_length is None:
        offsets, of_label = frame.offsets_of("input"), frame.offsets_of("label")
        lengths, label_lengths = lengths_of(offsets), lengths_of(of_label)
        logits = paddle.transpose(padded(input, offsets, max([*lengths, 1]), 0.0), [1, 0, 2])
        label = padded(label.reshape([-1]), of_label, max([*label_lengths, 1]), 0)
        input_length, label_length = (paddle.to_tensor(np.asarray(each, np.int64)) for each in (lengths, label_lengths))
    else:
        logits = input
    sizes = [each.reshape([-1]).astype("int64") for each in (input_length, label_length)]
    output = functional.ctc_loss(
        logits, label.astype("int32"), *sizes, blank, reduction="none", norm_by_times=norm_by_times
    )
    return output.reshape([-1, 1])


def merged(ids: Any, blank: int) -> list[int]:
    """Ids without repetition one after another, and without blanks."""
    return [int(each) for place, each in enumerate(ids) if each != blank and (place == 0 or each != ids[place - 1])]


def _greedy_shapes(input: Tensor, **_settings: Any) -> Results:
    return [((-1, 1), "int64", 1)]


@kernel(sequences=True, shapes=_greedy_shapes)
def ctc_greedy_decoder(frame: Frame, input: Tensor, blank: int) -> Tensor:
    """The most probable class of each step, merged; if all sequences are empty a single -1."""
    ids, offsets = input.numpy().argmax(-1).reshape(-1), frame.offsets_of("input")
    output = [merged(ids[begin:end], blank) for begin, end in pairwise(offsets)]
    frame.set_offsets(np.cumsum([0, *map(len, output)]).tolist())
    flat = [each for part in output for each in part] or [-1]
    return paddle.to_tensor(np.asarray(flat, np.int64).reshape(-1, 1))


@kernel()
def ctc_greedy_decoder_padded(input: Tensor, blank: int, input_length: Tensor, padding_value: int) -> Results:
    """The same for [sequences, steps, classes], padded, and the new lengths."""
    ids = input.numpy().argmax(-1)
    result, lengths = np.full(ids.shape, padding_value, np.int64), []
    for row, (own, size) in enumerate(zip(ids, input_length.numpy().reshape(-1), strict=True)):
        output = merged(own[:size], blank)
        result[row, : len(output)] = output
        lengths.append([len(output)])
    return paddle.to_tensor(result), paddle.to_tensor(np.asarray(lengths, np.int64))


def edits(left: Any, right: Any) -> int:
    """How many items have to be put in, taken out or replaced."""
    line = list(range(len(right) + 1))
    for row, one in enumerate(left, 1):
        before, line[0] = line[0], row
        for column, other in enumerate(right, 1):
            before, line[column] = line[column], min(before + (one != other), line[column] + 1, line[column - 1] + 1)
    return line[-1]


def _parts(frame: Frame, name: str, tensor: Tensor, length: Tensor, ignored: list[int]) -> list[Any]:
    values = tensor.numpy()
    if length is None:
        offsets = frame.offsets_of(name)
        parts = [values[begin:end].reshape(-1) for begin, end in pairwise(offsets)]
    else:
        parts = [row.reshape(-1)[:size] for row, size in zip(values, length.numpy().reshape(-1), strict=True)]
    return [[each for each in part.tolist() if each not in ignored] for part in parts]


def _edit_shapes(**_given: Any) -> Results:
    return [((-1, 1), "float32", 0), ((1,), "int64", 0)]


@kernel(sequences=True, shapes=_edit_shapes)
def edit_distance(frame: Frame, input: Tensor, label: Tensor, normalized: bool, ignored_tokens: list[int] | None, input_length: Tensor, label_length: Tensor) -> Results:  # fmt: skip
    """For each pair of sequences the number of edits, by the length of the label if it is normalized; and how many pairs there are."""
    ignored = list(ignored_tokens or ())
    left, right = _parts(frame, "input", input, input_length, ignored), _parts(frame, "label", label, label_length, ignored)  # fmt: skip
    empty = [number for number, part in enumerate(right) if not part]
    if normalized and empty:
        raise ValueError(f"the labels {empty} are empty, and the distance is to be divided by their length")
    output = [edits(one, other) / (len(other) if normalized else 1) for one, other in zip(left, right, strict=True)]
    frame.set_offsets()
    frame.set_offsets(output=1)
    return paddle.to_tensor(np.asarray(output, np.float32).reshape(-1, 1)), paddle.full([1], len(output), "int64")
