"""Parts that several models of the zoo are built from. An adapter, for Paddle.

Ways in, from a batch to tensors:

    Flat      everything side by side, [samples, width]: rows of all sparse features, and the dense ones
    Fields    one vector for each feature, [samples, fields, dim]: a dense feature has a vector too, times its value
    Wide      a weight for each id and each dense feature: one number per sample

And ways on: `Tower`, `second_order`, `Dots`, `Crosses` of `CrossVector`, `CrossMatrix` or `CrossMixture`, `Interactions`, `Attention`. Sizes are arguments; nothing here
knows a config.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional

from umiak.models import Constant

if TYPE_CHECKING:
    from umiak.models import Inputs, Slots, Tables

# ---- ways in


class Flat(nn.Layer):  # type: ignore[misc]
    """Rows of sparse features and the values of dense ones, side by side. Rows are as long as each feature says, or else ``dim``."""

    def __init__(self, features: Sequence[str], slots: Slots, dim: int, tables: Tables) -> None:
        super().__init__()
        self.features = tuple(features)
        self.dense_width = slots.dense_width
        self.by_dim: dict[int, list[str]] = {}
        for name in self.features:
            self.by_dim.setdefault(slots.dim(name, dim), []).append(name)
        self.width = sum(each * len(names) for each, names in self.by_dim.items()) + self.dense_width
        dims = [*self.by_dim] or [dim]
        usual = dims[0] if len(dims) == 1 else dim
        names_of_tables = ["embedding" if each == usual else f"embedding_{each}" for each in dims]
        self.embeddings = nn.LayerList(
            [tables.embedding(each, table=table) for each, table in zip(dims, names_of_tables, strict=True)]
        )

    def forward(self, inputs: Inputs) -> paddle.Tensor:
        if not self.features:
            return inputs.dense()
        looked_up = zip(self.embeddings, self.by_dim.values(), strict=True)
        parts = [embedding(inputs.ids(*names)).flatten(1) for embedding, names in looked_up]
        parts += [inputs.dense()] if self.dense_width else []
        return parts[0] if len(parts) == 1 else paddle.concat(parts, axis=1)


class Fields(nn.Layer):  # type: ignore[misc]
    """A vector for each feature; that of a dense one is its value times a vector that is learned. All are as long as the features say, or else ``dim``."""

    def __init__(self, features: Sequence[str], slots: Slots, dim: int, tables: Tables) -> None:
        super().__init__()
        self.features = tuple(features)
        self.dense_width = slots.dense_width
        self.count = len(self.features) + self.dense_width
        self.dim = dim = slots.common_dim(self.features, dim)
        self.embedding = tables.embedding(dim)
        if self.dense_width:
            self.vectors = self.create_parameter(
                [1, self.dense_width, dim], default_initializer=nn.initializer.Uniform(-0.01, 0.01)
            )

    def forward(self, inputs: Inputs) -> paddle.Tensor:
        if not self.features:
            return inputs.dense().unsqueeze(2) * self.vectors
        rows = self.embedding(inputs.ids(*self.features))
        if not self.dense_width:
            return rows
        return paddle.concat([rows, inputs.dense().unsqueeze(2) * self.vectors], axis=1)


class Wide(nn.Layer):  # type: ignore[misc]
    """A linear model: a weight for each id, one for each dense feature, and a bias."""

    def __init__(self, features: Sequence[str], slots: Slots, tables: Tables) -> None:
        super().__init__()
        self.features = tuple(features)
        self.weights = tables.embedding(1, table="wide", init=Constant())
        self.dense = nn.Linear(slots.dense_width, 1) if slots.dense_width else None
        self.bias = None if self.dense else self.create_parameter([1], is_bias=True)

    def forward(self, inputs: Inputs) -> paddle.Tensor:
        if not self.features and self.dense is not None:
            return self.dense(inputs.dense())
        first = self.weights(inputs.ids(*self.features)).sum(axis=1)
        return first + (self.dense(inputs.dense()) if self.dense else self.bias)


# ---- ways on


class Tower(nn.Sequential):  # type: ignore[misc]
    """Fully connected layers, each with its activation; with ``out``, a linear layer of that size at the end."""

    def __init__(
        self, width: int, sizes: Sequence[int], *, out: int | None = None, activation: type[nn.Layer] = nn.ReLU
    ) -> None:
        layers = []
        for size in sizes:
            layers += [nn.Linear(width, size), activation()]
            width = size
        if out is not None:
            layers.append(nn.Linear(width, out))
            width = out
        super().__init__(*layers)
        self.width = width


def second_order(fields: paddle.Tensor) -> paddle.Tensor:
    """The products of all pairs of vectors, added up: [samples, fields, dim] to [samples, 1]; in linear time."""
    square_of_sum = fields.sum(axis=1).square()
    # Not fields.square(): paddle.inference 3.3 with oneDNN, its default, squares in place what others may still read.
    sum_of_squares = (fields * fields).sum(axis=1)
    return 0.5 * (square_of_sum - sum_of_squares).sum(axis=1, keepdim=True)


class Dots(nn.Layer):  # type: ignore[misc]
    """The product of each pair of vectors: [samples, fields, dim] to [samples, pairs]."""

    def __init__(self, fields: int) -> None:
        super().__init__()
        row, column = np.tril_indices(fields, -1)
        self.width = len(row)
        self.register_buffer("places", paddle.to_tensor(row * fields + column))

    def forward(self, fields: paddle.Tensor) -> paddle.Tensor:
        products = paddle.matmul(fields, fields, transpose_y=True).flatten(1)
        return paddle.index_select(products, self.places, axis=1)


class CrossVector(nn.Layer):  # type: ignore[misc]
    """A cross layer of DCN: x' = x0 (x . w) + b + x."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Linear(width, 1, bias_attr=False)
        self.bias = self.create_parameter([width], is_bias=True)

    def forward(self, first: paddle.Tensor, x: paddle.Tensor) -> paddle.Tensor:
        return first * self.weight(x) + self.bias + x


class CrossMatrix(nn.Layer):  # type: ignore[misc]
    """A cross layer of DCN-V2: x' = x0 * (W x + b) + x."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Linear(width, width)

    def forward(self, first: paddle.Tensor, x: paddle.Tensor) -> paddle.Tensor:
        return first * self.weight(x) + x


class CrossMixture(nn.Layer):  # type: ignore[misc]
    """The same with a matrix that is made of experts of a low rank, U tanh(C tanh(V x)), which a gate weighs."""

    def __init__(self, width: int, rank: int, experts: int) -> None:
        super().__init__()
        self.down = self.create_parameter([experts, width, rank])
        self.inner = self.create_parameter([experts, rank, rank])
        self.up = self.create_parameter([experts, rank, width])
        self.bias = self.create_parameter([width], is_bias=True)
        self.gate = nn.Linear(width, experts)

    def forward(self, first: paddle.Tensor, x: paddle.Tensor) -> paddle.Tensor:
        narrow = paddle.tanh(paddle.matmul(x.unsqueeze(0), self.down))
        wide = paddle.matmul(paddle.tanh(paddle.matmul(narrow, self.inner)), self.up)
        shares = functional.softmax(self.gate(x), axis=1).transpose([1, 0]).unsqueeze(2)
        return first * ((wide * shares).sum(axis=0) + self.bias) + x


class Crosses(nn.LayerList):  # type: ignore[misc]
    """Cross layers one after the other; each multiplies with what the first was given."""

    def forward(self, first: paddle.Tensor) -> paddle.Tensor:
        x = first
        for layer in self:
            x = layer(first, x)
        return x


class Interactions(nn.Layer):  # type: ignore[misc]
    """The compressed interaction network of xDeepFM: each layer has products of one more field, summed over their numbers in the end."""

    def __init__(self, fields: int, sizes: Sequence[int]) -> None:
        super().__init__()
        before = [fields, *sizes[:-1]]
        self.layers = nn.LayerList([Products(last, fields, size) for last, size in zip(before, sizes, strict=True)])
        self.width = sum(sizes)

    def forward(self, fields: paddle.Tensor) -> paddle.Tensor:
        first = fields.transpose([0, 2, 1])
        x, products = first, []
        for layer in self.layers:
            x = layer(x, first)
            products.append(x.sum(axis=1))
        return paddle.concat(products, axis=1)


class Products(nn.Layer):  # type: ignore[misc]
    """One layer of it: sums of w x y over all vectors x of the layer before and all fields y; [samples, dim, vectors]."""

    def __init__(self, before: int, fields: int, size: int) -> None:
        super().__init__()
        self.before, self.fields, self.size = before, fields, size
        self.weight = self.create_parameter([before * fields, size])

    def forward(self, x: paddle.Tensor, first: paddle.Tensor) -> paddle.Tensor:
        if self.size >= self.fields:
            return paddle.matmul((x.unsqueeze(3) * first.unsqueeze(2)).flatten(2), self.weight)
        # The same, over the fields first: where few vectors are made, all products would be the largest thing in memory.
        weight = self.weight.reshape([self.before, self.fields, self.size]).transpose([1, 2, 0])
        weighed = paddle.matmul(first, weight.flatten(1)).reshape([0, 0, self.size, self.before])
        return paddle.matmul(weighed, x.unsqueeze(3)).squeeze(3)


class Attention(nn.Layer):  # type: ignore[misc]
    """The local activation unit of DIN: a weight for each row of a history, from the row and the target; the weighted sum of the rows.

    Weights are not made to sum up to 1: how much of a history is alike says something as well.
    """

    def __init__(self, dim: int, sizes: Sequence[int]) -> None:
        super().__init__()
        self.unit = Tower(4 * dim, sizes, out=1, activation=nn.Sigmoid)

    def forward(self, history: paddle.Tensor, mask: paddle.Tensor, target: paddle.Tensor) -> paddle.Tensor:
        beside = paddle.expand_as(target.unsqueeze(1), history)
        weights = self.unit(paddle.concat([history, beside, history - beside, history * beside], axis=2))
        return (weights * mask.unsqueeze(2) * history).sum(axis=1)
