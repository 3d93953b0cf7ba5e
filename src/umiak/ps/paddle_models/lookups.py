"""What an `nn.Embedding` does once its rows are in a table: reads them, and keeps their gradients for the step. An adapter, for Paddle.

A model may ask one table many times in a step, once per slot. If it says beforehand which ids a batch has (`Expected.ids`), the
rows of all of them are pulled with the first look, and the others are answered from that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle
import umiak_native
from paddle.utils import dlpack

from umiak.ps.errors import bad
from umiak.ps.paddle import LookupRows
from umiak.ps.tables.lookup import as_keys

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import NDArray

    from umiak.ps.clients.protocol import Floats
    from umiak.ps.tables.lookup import EmbeddingTable, Keys

OUT_OF_RANGE = "UM-PS-177"
USED_ELSEWHERE = "UM-PS-178"
PATIENCE = 64
"""After so many looks that no hint was about, a table gives up comparing them."""


class Expected:
    """The ids that a batch is said to have."""

    def __init__(self) -> None:
        self.ids: list[Keys] = []
        self.turn = 0
        """Grows with every batch, and whenever rows may have changed."""

    def set(self, ids: Iterable[NDArray[Any]]) -> None:
        self.ids = [as_keys(each).reshape(-1) for each in ids if each.dtype.kind in "iu"]
        self.turn += 1

    def forget(self) -> None:
        self.turn += 1


class CarriedTable:
    """A table and what the layers that read from it have in common."""

    def __init__(self, table: EmbeddingTable, rows: int, expected: Expected) -> None:
        self.table = table
        self.rows = rows
        self._expected = expected
        self._uses: list[int] = []
        """Places among the expected ids that this table was asked for, in the order of the model."""
        self._is_frugal = False
        """Whether the rows of this turn were only read."""
        self._next = 0
        self._patience = PATIENCE
        self._turn = -1
        self._pulled: list[Floats] = []

    def read(self, keys: Keys, *, create: bool) -> Floats:
        """Rows of keys that lie one after the other."""
        use = self._use(keys) if self._expected.ids and self._patience else None
        if use is None or len(self._uses) < 2:
            return self.table.rows(keys, create=create)
        if self._turn != self._expected.turn or (create and self._is_frugal):
            self._pull(create=create)
        if use >= len(self._pulled):  # it was learned after the pull of this turn
            return self.table.rows(keys, create=create)
        if create:
            self.table.begin_read()
        return self._pulled[use]

    def _pull(self, *, create: bool) -> None:
        wanted = [self._expected.ids[place] for place in self._uses if place < len(self._expected.ids)]
        together = np.concatenate(wanted)
        if int(together.max(initial=0)) >= self.rows:
            # An id that is no row: the look that brings it says so.
            together = np.minimum(together, np.uint64(self.rows - 1))
        unique, places = umiak_native.unique(together)
        rows = self.table.rows(unique, create=create).take(places, axis=0)
        ends = np.cumsum([each.size for each in wanted])
        self._pulled = np.split(rows, ends[:-1])
        self._turn, self._is_frugal = self._expected.turn, not create

    def _use(self, keys: Keys) -> int | None:
        """Which of the uses has these ids. What is found elsewhere among the expected ids is a use from now on."""
        ids = self._expected.ids
        count = len(self._uses)
        for later in range(count):
            use = (self._next + later) % count
            if self._uses[use] < len(ids) and _same(ids[self._uses[use]], keys):
                self._next = use + 1
                return use
        for place, each in enumerate(ids):
            if place not in self._uses and _same(each, keys):
                self._uses.append(place)
                self._next = 0
                return count
        self._patience -= 1
        return None


def _same(expected: Keys, keys: Keys) -> bool:
    return expected.size == keys.size and bool((expected == keys).all())


class TableForward:
    """The `forward` of one layer."""

    def __init__(self, layer: Any, name: str, table: CarriedTable, padding: int | None) -> None:
        self._layer = layer
        self._name = name
        self._table = table
        self._padding = None if padding is None else np.uint64(padding)
        self._anchor = paddle.zeros([1])
        self._anchor.stop_gradient = False

    def __call__(self, x: Any = None, input: Any = None) -> paddle.Tensor:  # noqa: A002 - Paddle's word
        ids = x if input is None else input
        array = ids if isinstance(ids, np.ndarray) else np.from_dlpack(_on_cpu(ids))
        keys = as_keys(array)
        if keys.size and int(keys.max()) >= self._table.rows:
            raise self._out_of_range(keys.view(np.int64))
        lookup = _Look(self._table, keys, self._padding)
        if self._layer.training and paddle.is_grad_enabled():
            return LookupRows.apply(self._anchor, lookup)
        return dlpack.from_dlpack(lookup.rows(create=False))

    def _out_of_range(self, ids: NDArray[np.int64]) -> Exception:
        wrong = ids[(ids < 0) | (ids >= self._table.rows)]
        return bad(
            OUT_OF_RANGE,
            f"embedding {self._name or 'weight'}: id {int(wrong.reshape(-1)[0])} is not one of its {self._table.rows} rows",
            f"ids are 0 to {self._table.rows - 1}; look at the reader, or give the embedding more rows",
        )


class _Look:
    """One call of a layer."""

    def __init__(self, table: CarriedTable, keys: Keys, padding: np.uint64 | None) -> None:
        self._table = table
        self._shape = keys.shape
        # The gradients come later, when the caller may have filled its array with the next batch.
        self._keys = keys.reshape(-1).copy()
        self._mask = None if padding is None else self._keys == padding

    def rows(self, *, create: bool) -> Floats:
        rows = self._table.read(self._keys, create=create)
        if self._mask is not None and self._mask.any():
            rows = np.where(self._mask[:, None], np.float32(0.0), rows)
        return rows.reshape(*self._shape, self._table.table.spec.dim)

    def collect(self, gradients: Floats) -> None:
        keys, rows = self._keys, gradients.reshape(self._keys.size, self._table.table.spec.dim)
        if self._mask is not None:
            keys, rows = keys[~self._mask], rows[~self._mask]
        if keys.size:
            self._table.table.collect(keys, rows)


class TableWeight:
    """Stands where a layer had its weight. Its numbers are in a table, so whatever asks for them is told so."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.__dict__.update(name=name, shape=[*shape], dtype=paddle.float32, stop_gradient=False)

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


def _on_cpu(ids: paddle.Tensor) -> paddle.Tensor:
    ids = ids.detach()
    return ids if ids.place.is_cpu_place() else ids.cpu()
