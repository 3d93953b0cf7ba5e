"""What an `nn.Embedding` does once its rows are in a table: reads them, and keeps their gradients for the step. An adapter, for Paddle.

A model may ask one table many times in a step, once per slot. If it says beforehand which ids a batch has (`Expected.ids`), the
rows of all of them are pulled with the first look, and the others are answered from that. Where a step has one backward pass
(`Expected.is_joined`), all those looks are one node of the graph as well.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import paddle

from umiak.ps.errors import bad
from umiak.ps.paddle import LookupRows, floats, tensor_of
from umiak.ps.tables.lookup import as_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from umiak.data.array_types import AnyArray
    from umiak.ps.gradients import Floats
    from umiak.ps.paddle_models.whole_weights import WholeWeight
    from umiak.ps.paddle_types import Context, Layer
    from umiak.ps.tables.lookup import EmbeddingTable, Keys

OUT_OF_RANGE = "UM-PS-177"
USED_ELSEWHERE = "UM-PS-178"
NO_KEYS = np.empty(0, np.uint64)
PATIENCE = 64
"""After so many looks that no hint was about, a table gives up comparing them."""


class Expected:
    """The ids that a batch is said to have."""

    def __init__(self) -> None:
        self.ids: list[Keys] = []
        self.turn = 0
        """Grows with every batch, and whenever rows may have changed."""
        self.is_joined = False
        """Whether gradients come in one backward pass: a node of the graph answers only once."""

    def set(self, ids: Iterable[AnyArray]) -> None:
        self.ids = keys_of(ids)
        self.turn += 1

    def forget(self) -> None:
        self.turn += 1


def keys_of(arrays: Iterable[AnyArray]) -> list[Keys]:
    """Those that may be ids, as keys."""
    return [as_keys(each).reshape(-1) for each in arrays if each.dtype.kind in "iu"]


class CarriedTable:
    """A table and what the layers that read from it have in common."""

    def __init__(self, whole: WholeWeight, table: EmbeddingTable, expected: Expected, weight: paddle.Tensor) -> None:
        self.table = table
        self.whole = whole
        """All of its rows."""
        self.rows = whole.shape[0]
        self.learns_by_zeros = False
        """Whether all rows also move in a step without a gradient of any: Paddle's gradient is then one of zeros."""
        self.has_zeros = False
        """Whether zeros stand where its gradient may be: it had one, and that was cleared."""
        self.learns_padding = False
        """Whether gradients of a padding id count: Paddle's of ``sparse=True`` have them, although the id reads as zeros."""
        self.weight = weight
        """The model's parameter: without its numbers, but freezing it is said there."""
        self._expected = expected
        whole.on_set = expected.forget
        self._uses: list[_Use] = []
        """What this table was asked for among the expected ids, in the order of the model."""
        self._next = 0
        self._patience = PATIENCE
        self._turn = -1
        self._is_frugal = False
        """Whether the rows of this turn were only read."""
        self._pulled: Floats | None = None
        """The rows of this turn, and, by use, where among them its rows are."""
        self._places: list[slice] = []
        self._joined_turn = -1
        self._joined: list[paddle.Tensor | None] = []
        self._anchor = paddle.zeros([1])
        self._anchor.stop_gradient = False

    def cleared(self, *, set_to_zero: bool) -> None:
        """What backward passes have brought is forgotten after this."""
        self.has_zeros = set_to_zero and (self.has_zeros or self.table.has_gradients)

    def collect_zeros(self) -> None:
        """Let the step that comes move all rows, if the gradient of none is there and Paddle has zeros for them."""
        if self.learns_by_zeros and self.has_zeros and not self.weight.stop_gradient and not self.table.has_gradients:
            self.table.collect(NO_KEYS, np.empty((0, self.table.spec.dim), np.float32))

    def learned(self, keys: Keys, padding: np.uint64 | None) -> paddle.Tensor:
        """Rows that learn. The keys stay as they are: gradients come later."""
        use = self._use(keys, padding)
        if use is not None and self._expected.is_joined and len(self._uses) > 1:
            if self._joined_turn != self._expected.turn:
                self._join()
            # Given once: what the model changes in place must not be what it gets for the same ids a second time.
            given = self._joined[use] if use < len(self._joined) else None
            if given is not None:
                self._joined[use] = None
                return given
        return LookupRows.apply(self._anchor, _Look(self, keys, padding, use))

    def seen(self, keys: Keys, padding: np.uint64 | None) -> paddle.Tensor:
        """Rows that are only read."""
        return tensor_of(_Look(self, keys, padding, self._use(keys, padding)).rows(create=False))

    def read(self, keys: Keys, use: int | None, *, create: bool) -> Floats:
        """Rows of keys that lie one after the other; ``use``: which of the uses they are."""
        if use is None or len(self._uses) < 2:
            return self.table.rows(keys, create=create)
        if self._turn != self._expected.turn or (create and self._is_frugal):
            self._pull(create=create)
        if self._pulled is None or use >= len(self._places):  # it was learned after the pull of this turn
            return self.table.rows(keys, create=create)
        if create:
            self.table.begin_read()
        rows: Floats = self._pulled[self._places[use]].copy()
        return rows

    def joined_rows(self) -> Floats:
        """Rows for all uses, which learn, one after the other. They are not to be changed."""
        if self._turn != self._expected.turn or self._is_frugal:
            self._pull(create=True)
        assert self._pulled is not None
        return self._pulled

    def coming(self, arrays: Sequence[AnyArray]) -> Iterator[Keys]:
        """The keys that will be asked for together in a batch that has these arrays of whole numbers, if that is known."""
        ids = keys_of(arrays)
        if not self._uses or self.weight.stop_gradient or any(use.place >= len(ids) for use in self._uses):
            return
        keys = self._together([ids[use.place] for use in self._uses])
        # A single id that is no row is refused, several are pulled together before that is noticed.
        if len(self._uses) > 1 or int(keys.max(initial=0)) < self.rows:
            yield keys

    def _together(self, wanted: Sequence[Keys]) -> Keys:
        """What is pulled at once for all uses."""
        keys = wanted[0] if len(wanted) == 1 else np.concatenate(wanted)
        if len(wanted) > 1 and int(keys.max(initial=0)) >= self.rows:
            # An id that is no row: the look that brings it says so.
            keys = np.minimum(keys, np.uint64(self.rows - 1))
        return keys

    def _pull(self, *, create: bool) -> None:
        wanted = self._wanted()
        keys = self._together(wanted)
        self._pulled = self.table.rows(keys, create=create)
        ends = itertools.accumulate(each.size for each in wanted)
        self._places = [slice(end - each.size, end) for end, each in zip(ends, wanted, strict=True)]
        self._turn, self._is_frugal = self._expected.turn, not create

    def _join(self) -> None:
        self._joined_turn, self._joined = self._expected.turn, []
        wanted = self._wanted()
        known = [use.shape_for(each.size) for use, each in zip(self._uses, wanted, strict=True)]
        shapes = [shape for shape in known if shape is not None]
        if len(shapes) < len(known) or not all(each.size for each in wanted):
            return
        look = _JoinedLook(self, wanted, shapes, [use.padding for use in self._uses])
        self._joined = [*JoinedRows.apply(self._anchor, look)]

    def _wanted(self) -> list[Keys]:
        ids = self._expected.ids
        return [ids[use.place] if use.place < len(ids) else NO_KEYS for use in self._uses]

    def _use(self, shaped: Keys, padding: np.uint64 | None) -> int | None:
        """Which of the uses has these ids. What is found elsewhere among the expected ids is a use from now on."""
        ids = self._expected.ids
        if not ids or not self._patience:
            return None
        keys = shaped.reshape(-1)
        count = len(self._uses)
        for later in range(count):
            use = self._uses[(self._next + later) % count]
            if use.place < len(ids) and use.padding == padding and _same(ids[use.place], keys):
                self._next = (self._next + later) % count + 1
                use.shape = shaped.shape
                return self._next - 1
        taken = [use.place for use in self._uses if use.padding == padding]
        for place, each in enumerate(ids):
            if place not in taken and _same(each, keys):
                self._uses.append(_Use(place, padding, shaped.shape))
                self._next = 0
                return count
        self._patience -= 1
        return None


class _Use:
    """One of the looks that a model has in each step."""

    def __init__(self, place: int, padding: np.uint64 | None, shape: tuple[int, ...]) -> None:
        self.place = place
        """Among the expected ids."""
        self.padding = padding
        self.shape = shape
        """That the ids had last time."""

    def shape_for(self, count: int) -> tuple[int, ...] | None:
        """That so many ids will have, if only the number of samples is another."""
        sample = math.prod(self.shape[1:])
        return (count // sample, *self.shape[1:]) if self.shape and sample and count % sample == 0 else None


def _same(expected: Keys, keys: Keys) -> bool:
    return expected.size == keys.size and bool((expected == keys).all())


class TableForward:
    """The `forward` of one layer."""

    def __init__(self, layer: Layer, weight: TableWeight, table: CarriedTable, padding: int | None) -> None:
        self._layer = layer
        self._weight = weight
        self._name: str = weight.__dict__["name"]
        self._table = table
        self._padding = None if padding is None else np.uint64(padding)
        self._is_sparse = bool(getattr(layer, "_sparse", False))

    def __call__(self, x: paddle.Tensor = None, input: paddle.Tensor = None) -> paddle.Tensor:  # noqa: A002 - Paddle's word
        ids = x if input is None else input
        if self._layer.__dict__.get("weight") is not self._weight:
            raise bad(
                USED_ELSEWHERE,
                f"embedding {self._name or 'weight'}: its rows are in a table, and it was given another weight since",
                "give layers their weights before the model is carried over; weight.set_value(...) sets all rows",
            )
        self._table.whole.take_written()
        # A copy: the gradients come later, when the caller may have filled its array with the next batch.
        keys = as_keys(ids.copy() if isinstance(ids, np.ndarray) else ids.numpy())
        if keys.size and int(keys.max()) >= self._table.rows:
            raise bad(
                OUT_OF_RANGE,
                f"embedding {self._name or 'weight'}: id {keys[keys >= self._table.rows].view(np.int64)[0]} is not one of its {self._table.rows} rows",
                f"ids are 0 to {self._table.rows - 1}; look at the reader, or give the embedding more rows",
            )
        # As in Paddle, a layer that is only evaluated (`eval()`) learns all the same if there is a backward pass.
        if paddle.is_grad_enabled() and not self._table.weight.stop_gradient:
            self._table.table.is_of_all_rows |= not self._is_sparse
            return self._table.learned(keys, self._padding)
        return self._table.seen(keys, self._padding)


class _Look:
    """One call of a layer."""

    def __init__(self, table: CarriedTable, keys: Keys, padding: np.uint64 | None, use: int | None) -> None:
        self._table = table
        self._shape = keys.shape
        self._use = use
        self._keys = keys.reshape(-1)
        self._mask = None if padding is None else self._keys == padding

    def rows(self, *, create: bool) -> Floats:
        rows = self._table.read(self._keys, self._use, create=create)
        if self._mask is not None and self._mask.any():
            rows = np.where(self._mask[:, None], np.float32(0.0), rows)
        return rows.reshape(*self._shape, self._table.table.spec.dim)

    def collect(self, gradients: Floats) -> None:
        _collect(self._table, self._keys, gradients, self._mask)


class _JoinedLook:
    """All the calls of a step that are known before."""

    def __init__(
        self,
        table: CarriedTable,
        wanted: Sequence[Keys],
        shapes: Sequence[tuple[int, ...]],
        paddings: Sequence[np.uint64 | None],
    ) -> None:
        self._table = table
        self._wanted = wanted
        self._shapes = shapes
        self._keys = np.concatenate(wanted)
        self._mask = None
        if any(padding is not None for padding in paddings):
            masks = [
                np.zeros(keys.shape, bool) if padding is None else keys == padding
                for keys, padding in zip(wanted, paddings, strict=True)
            ]
            self._mask = np.concatenate(masks)

    def parts(self) -> tuple[paddle.Tensor, ...]:
        """What each call answers."""
        rows = self._table.joined_rows()
        if self._mask is not None:
            rows = np.where(self._mask[:, None], np.float32(0.0), rows)
        dim = self._table.table.spec.dim
        first = self._shapes[0]
        if all(shape == first for shape in self._shapes):
            whole = tensor_of(rows.reshape(-1, *first[1:], dim))
            return tuple(paddle.split(whole, len(self._shapes)))
        parts = paddle.split(tensor_of(rows), [each.size for each in self._wanted])
        return tuple([part.reshape([*shape, dim]) for part, shape in zip(parts, self._shapes, strict=True)])

    def collect(self, gradients: Sequence[paddle.Tensor | None]) -> None:
        """One gradient for each part; None: the loss does not depend on it."""
        there = [number for number, each in enumerate(gradients) if each is not None]
        keys, mask = self._keys, self._mask
        if len(there) < len(gradients):
            keys = np.concatenate([self._wanted[number] for number in there])
            if mask is not None:
                ends = np.cumsum([each.size for each in self._wanted])
                masks = np.split(mask, ends[:-1])
                mask = np.concatenate([masks[number] for number in there])
        brought = [each for each in gradients if each is not None]
        if len({self._shapes[number] for number in there}) == 1:
            with paddle.no_grad():
                rows = floats(paddle.concat(brought))
        else:
            rows = np.concatenate([floats(each).reshape(-1) for each in brought])
        _collect(self._table, keys, rows, mask)


class JoinedRows(paddle.autograd.PyLayer):  # type: ignore[misc]
    """Forward: one pull for all looks of a step. Backward: gradients are kept for the end of the step."""

    @staticmethod
    def forward(ctx: Context, anchor: paddle.Tensor, look: _JoinedLook) -> tuple[paddle.Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.look = look
        ctx.nothing = anchor.detach()
        return look.parts()

    @staticmethod
    def backward(ctx: Context, *gradients: paddle.Tensor | None) -> paddle.Tensor:
        ctx.look.collect(gradients)
        return ctx.nothing


def _collect(carried: CarriedTable, keys: Keys, gradients: Floats, mask: NDArray[np.bool_] | None) -> None:
    rows = gradients.reshape(keys.size, carried.table.spec.dim)
    if mask is not None and not carried.learns_padding:
        keys, rows = keys[~mask], rows[~mask]
    if keys.size or carried.learns_by_zeros:
        carried.table.collect(keys, rows)


class TableWeight:
    """Stands where a layer had its weight. Its numbers are in a table, so whatever asks for them is told so."""

    def __init__(self, name: str, table: CarriedTable) -> None:
        shape = [table.rows, table.table.spec.dim]
        self.__dict__.update(name=name, shape=shape, dtype=paddle.float32, _table=table)

    @property
    def stop_gradient(self) -> bool:
        return bool(self._table.weight.stop_gradient)

    @stop_gradient.setter
    def stop_gradient(self, is_frozen: bool) -> None:
        self._table.weight.stop_gradient = is_frozen

    @property
    def trainable(self) -> bool:
        return not self.stop_gradient

    @trainable.setter
    def trainable(self, learns: bool) -> None:
        self.stop_gradient = not learns

    def numpy(self) -> Floats:
        """All rows as they are now."""
        whole: WholeWeight = self._table.whole
        return whole.numbers()

    def __array__(self, dtype: DTypeLike = None, *_: object, **__: object) -> AnyArray:
        return self.numpy().astype(dtype or np.float32, copy=False)

    def set_value(self, values: ArrayLike) -> None:
        """Other rows. The first trainer's are everybody's."""
        self._table.whole.set(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise bad(
            USED_ELSEWHERE,
            f"embedding {self.__dict__['name'] or 'weight'}: its rows are in a table, and its weight is used all the same (.{name})",
            "keep it as a parameter of the model: give the layer's name where tables are chosen",
        )

    def __repr__(self) -> str:
        return f"TableWeight({self.__dict__['name']}, {self.__dict__['shape']})"
