"""Operations of `contrib.layers`: trees of items, parts of rows, and sums over a training. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.kernels.registry import KERNELS, Frame, Tensor, kernel
from umiak.fluid.kernels.sequences import sequence_pool

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results


def _part(tensor: Tensor, start: int, length: int) -> Tensor:
    start = start + tensor.shape[1] if start < 0 else start
    return tensor[:, start : tensor.shape[1] if length < 0 else start + length]


@kernel()
def partial_concat(input: list[Tensor], start_index: int, length: int) -> Tensor:
    """Some columns of each input, side by side."""
    return paddle.concat([_part(each, start_index, length) for each in input], 1)


@kernel()
def partial_sum(input: list[Tensor], start_index: int, length: int) -> Tensor:
    """Some columns of all inputs, added."""
    return paddle.add_n([_part(each, start_index, length) for each in input])


@kernel()
def fused_elemwise_activation(x: Tensor, y: Tensor, functor_list: list[str], axis: int, scale: float) -> Tensor:
    """Of two functions the outer one of the inner one: one takes both inputs, the other one value."""

    def one(name: str, value: Tensor) -> Tensor:
        return value * scale if name == "scale" else KERNELS[name].function(value)

    outer, inner = functor_list
    if outer.startswith("elementwise"):
        return KERNELS[outer].function(x, one(inner, y), axis)
    return one(outer, KERNELS[inner].function(x, y, axis))


@kernel(sequences=True)
def fused_embedding_seq_pool(frame: Frame, input: Tensor, weight: Tensor, padding_idx: int) -> Tensor:
    """The sum of the rows of each sequence of ids; the padding counts as zeros."""
    ids = input.reshape([-1]).astype("int64")
    rows = paddle.gather(weight, ids)
    if padding_idx >= 0:
        rows = rows * (ids != padding_idx).astype(rows.dtype).unsqueeze(-1)
    return sequence_pool(frame, rows, "sum", False, 0.0)


@kernel()
def tdm_child(x: Tensor, tree: Tensor, child_nums: int, dtype: str) -> tuple[Tensor, Tensor]:
    """The children of nodes of a tree, zeros where there are none, and ones for those that are items. A row of the tree is item, layer,
    ancestor and children."""
    nodes, rows = x.numpy().astype(np.int64), tree.numpy()
    if nodes.size and (nodes.min() < 0 or nodes.max() >= len(rows)):
        raise ValueError(f"nodes are between 0 and {len(rows) - 1}, got {nodes.min()} to {nodes.max()}")
    children = rows[nodes][..., 3 : 3 + child_nums]
    none = (nodes == 0) | (rows[nodes][..., 3] == 0)
    children = np.where(none[..., None], 0, children)
    items = np.where(none[..., None], 0, rows[children][..., 0] != 0)
    return paddle.to_tensor(children.astype(dtype)), paddle.to_tensor(items.astype(dtype))


def _sample_shapes(dtype: str, **settings: Any) -> Results:
    width = sum(each + settings["output_positive"] for each in settings["counts"])
    return [((-1, width), dtype, 0)] * 3


@kernel(shapes=_sample_shapes)
def tdm_sampler(x: Tensor, travel: Tensor, layer: Tensor, counts: list[int], sizes: list[int], output_positive: bool, seed: int, dtype: str) -> tuple[Tensor, ...]:  # fmt: skip
    """For each item and layer of a tree the node on the item's way, and others of the layer: nodes, labels, and zeros where the way has ended."""
    items, ways, nodes = x.numpy().reshape(-1), travel.numpy(), layer.numpy().reshape(-1)
    if items.size and (items.min() < 0 or items.max() >= len(ways)):
        raise ValueError(f"items are between 0 and {len(ways) - 1}, got {items.min()} to {items.max()}")
    bounds = np.cumsum([0, *sizes])
    chance = np.random.default_rng(seed or int(paddle.randint(0, 2**31 - 1, [1]).item()))
    outputs: list[list[list[int]]] = [[], [], []]
    for item in items:
        row: list[list[int]] = [[], [], []]
        for number, (positive, count) in enumerate(zip(ways[item], counts, strict=True)):
            own = nodes[bounds[number] : bounds[number + 1]]
            width = count + output_positive
            if positive == 0:
                for side in row:
                    side.extend([0] * width)
                continue
            others = chance.choice(own[own != positive], count, replace=False).tolist()
            row[0] += [int(positive)] * output_positive + others
            row[1] += [1] * output_positive + [0] * count
            row[2] += [1] * width
        for rows, values in zip(outputs, row, strict=True):
            rows.append(values)
    width = sum(each + output_positive for each in counts)
    return tuple(paddle.to_tensor(np.asarray(side, dtype).reshape(len(items), width)) for side in outputs)


@kernel()
def ctr_metric_bundle(input: Tensor, label: Tensor, sums: list[Tensor]) -> Results:
    """Sums over all runs: squared and absolute errors, predictions, their sigmoids, clicks and instances."""
    away, wanted = input - label.astype(input.dtype), label.astype(input.dtype)
    now = (paddle.sum(away * away), paddle.sum(paddle.abs(away)), paddle.sum(input), paddle.sum(paddle.nn.functional.sigmoid(input)), paddle.sum(wanted), paddle.full([], label.shape[0], input.dtype))  # fmt: skip
    return [(total + each.reshape([1])).detach() for total, each in zip(sums, now, strict=True)]
