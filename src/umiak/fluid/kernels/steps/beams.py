"""Beam search: the best continuations of each sequence, as sequences of two levels, and the way back through all steps. A program."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.kernels.registry import Frame, Tensor, kernel

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results


def _search_shapes(pre_scores: Tensor, **_settings: Any) -> Results:
    return [((-1, 1), "int64", 2), ((-1, 1), pre_scores.dtype, 2), ((-1,), "int32", 0)]


@kernel(sequences=True, shapes=_search_shapes)
def beam_search(frame: Frame, pre_ids: Tensor, pre_scores: Tensor, ids: Tensor, scores: Tensor, beam_size: int, end_id: int, level: int, is_accumulated: bool) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Of each source the best candidates of all its prefixes: ids, scores, and which prefix each follows. A prefix that has ended goes on as it is;
    a source all of whose prefixes ended, and end again, is left out."""
    levels = frame.all_offsets("scores")
    if not levels:
        frame.offsets_of("scores")
    bounds = list(levels[level])
    for below in levels[level + 1 :]:
        bounds = [below[each] for each in bounds]
    before, so_far = pre_ids.numpy().reshape(-1), pre_scores.numpy().reshape(-1)
    values = scores.numpy().reshape(len(before), -1)
    numbers = np.broadcast_to(np.arange(values.shape[1]), values.shape) if ids is None else ids.numpy().reshape(values.shape)  # fmt: skip
    if not is_accumulated:
        values = so_far[:, None] + np.log(values)
    chosen: list[list[tuple[float, int]]] = [[] for _ in before]
    for begin, end in pairwise(bounds):
        candidates = []
        for row in range(begin, end):
            ended = before[row] == end_id
            own = [(so_far[row], end_id)] if ended else zip(values[row], numbers[row], strict=True)
            candidates += [(float(value), row, place, int(number)) for place, (value, number) in enumerate(own)]
        best = sorted(candidates, key=lambda each: (-each[0], -each[1], each[2]))[:beam_size]
        if all(number == end_id == before[row] for _, row, _, number in best):
            continue
        for value, row, _, number in best:
            chosen[row].append((value, number))
    flat = [each for row in chosen for each in row]
    lower = np.cumsum([0, *map(len, chosen)]).tolist()
    for output in (0, 1):
        frame.set_offsets(bounds, lower, output=output)
    return (
        paddle.to_tensor(np.asarray([number for _, number in flat], np.int64).reshape(-1, 1)),
        paddle.to_tensor(np.asarray([value for value, _ in flat], so_far.dtype).reshape(-1, 1)),
        paddle.to_tensor(np.repeat(np.arange(len(chosen)), list(map(len, chosen))).astype(np.int32)),
    )


def _decode_shapes(**_given: Any) -> Results:
    return [((-1,), "int64", 2), ((-1,), "float32", 2)]


@kernel(sequences=True, shapes=_decode_shapes)
def beam_search_decode(frame: Frame, ids: Any, scores: Any, beam_size: int, end_id: int) -> tuple[Tensor, Tensor]:
    """The sentences of each source from what every step selected, the best one first: ids, and the scores up to each of them."""
    steps = [
        (numbers.numpy().reshape(-1), values.numpy().reshape(-1), *levels)
        for numbers, values, levels in zip(ids, scores, ids.offsets, strict=True)
    ]
    per_source, sentences = [0], []
    for source in range(len(steps[0][2]) - 1):
        paths = sorted(_paths(steps, source, end_id), key=lambda path: -path[1][0])
        per_source.append(per_source[-1] + len(paths))
        sentences += paths
    lower = np.cumsum([0, *[len(numbers) for numbers, _ in sentences]]).tolist()
    for output in (0, 1):
        frame.set_offsets(per_source, lower, output=output)
    flat = [[each for path in sentences for each in reversed(path[side])] for side in (0, 1)]
    dtype = steps[0][1].dtype
    return paddle.to_tensor(np.asarray(flat[0], np.int64)), paddle.to_tensor(np.asarray(flat[1], dtype))


def _paths(steps: list[Any], source: int, end_id: int) -> list[tuple[list[int], list[float]]]:
    """From the last step back: ids and scores of each sentence, without ends one after another."""
    paths: list[tuple[list[int], list[float]]] = []
    places: list[int] = []
    for numbers, values, upper, lower in reversed(steps):
        prefixes = range(upper[source], upper[source + 1])
        if not paths:
            for prefix in prefixes:
                for row in range(lower[prefix], lower[prefix + 1]):
                    paths.append(([int(numbers[row])], [float(values[row])]))
                    places.append(prefix)
            continue
        for number, row in enumerate(places):
            if numbers[row] != end_id:
                paths[number][0].append(int(numbers[row]))
                paths[number][1].append(float(values[row]))
            places[number] = next(prefix for prefix in prefixes if lower[prefix] <= row < lower[prefix + 1])
    return paths


@kernel()
def pick_beams(x: Tensor, index: Tensor) -> Tensor:
    """Of each row the beams with these numbers: [rows, beams, ...]."""
    rows = paddle.arange(x.shape[0], dtype="int64").unsqueeze(1)
    places = paddle.stack([paddle.expand(rows, index.shape), index.astype("int64")], 2)
    if x.dtype == paddle.bool:
        return paddle.gather_nd(x.astype("int64"), places).astype("bool")
    return paddle.gather_nd(x, places)


@kernel()
def ended_beams(log_probabilities: Tensor, finished: Tensor, end_token: int) -> Tensor:
    """Beams that have ended can only end again, at no cost."""
    only = np.full(log_probabilities.shape[-1], -1e9, np.float32)
    only[end_token] = 0
    ending = paddle.to_tensor(only).astype(log_probabilities.dtype).reshape([1, 1, -1])
    return paddle.where(finished.unsqueeze(2), ending, log_probabilities)
