"""Rows by id for models: in a process of its own, on parameter servers, or in an inference model. An adapter, for Paddle.

    self.embedding = tables.embedding(16)                       in a model's __init__
    rows = self.embedding(inputs.ids("1", "2"))                 [samples, slots, 16]: the ids of a slot are added up
    rows = self.embedding.each(inputs.padded("history", 50))    [samples, ids, 16]: zeros behind a sample's last id

Where rows live is decided by the `umiak.ps` job that `Tables` was given. With ``table_parameters`` a table has an accessor: of a row's ``dim`` numbers the
first comes with the id, and the others when it was shown and clicked often enough, until then they are zeros. A model need not know. An id that has no row reads as zeros outside of training, in
evaluation and in an inference model alike.

With ``embedding_tables: per_slot`` in the config an embedding is a `SlotEmbedding`: each slot that the model looks up in it has a table of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from numpy.typing import NDArray

from umiak.core.problem import UmiakError
from umiak.ps import specs
from umiak.ps.paddle import Embedding as Rows
from umiak.ps.sessions import Session
from umiak.train.config.slots import SlotFeature
from umiak.train.config.values import Slots, TableParameters
from umiak.train.modeling import accessing, lookups
from umiak.train.modeling.inputs import PADDING, BatchInputs, Ids, Padded, ServedInputs, filled_up

if TYPE_CHECKING:
    from umiak.data.array_types import AnyArray
    from umiak.ps.communicators.next_rows import Look

LOWEST = 1e30
"""Below minus this nothing is looked for: what stands behind the last id of a sample is no maximum."""


class Tables:
    """Makes the embeddings of a model. Those with the same ``table`` share their rows."""

    def __init__(
        self,
        job: Session,
        *,
        seed: int = 0,
        prefix: str = "",
        settings: dict[str, Any] | None = None,
        counted: Mapping[str, TableParameters] | None = None,
        per_slot: bool = False,
        features: Sequence[SlotFeature] = (),
        dropout: float = 0.0,
    ) -> None:
        """``counted``: tables with an accessor. ``per_slot``: each slot has its own table, where the model does not share one on purpose.
        ``features``: what is said of slots. ``dropout``: the share of the numbers of vectors that are zeros in training."""
        self._job = job
        self._seed = seed
        self._prefix = prefix
        self._settings = settings or {}
        self._counted = counted or {}
        self._count = BatchCounts()
        self._per_slot = per_slot
        self._lives = {each.name: each for each in features if each.table}
        self._poolings = {each.name: each.pooling for each in features if each.pooling != "sum"}
        self._dropout = dropout
        self._undivided: list[SlotEmbedding] = []
        self.asked = AskedSlots()
        self.made: list[Embedding] = []
        self.names: list[str] = []
        """Of the tables, as the model calls them."""
        self.are_counting = False
        """Whether one of them has an accessor."""

    def embedding(
        self,
        dim: int,
        *,
        table: str = "embedding",
        pooling: str | None = None,
        init: specs.Init | None = None,
        rule: specs.Rule | str | None = None,
        shared: bool = False,
    ) -> Embedding | SlotEmbedding:
        """Rows of ``dim`` numbers. ``pooling`` is what becomes of several ids of a slot; None: as its feature says, or a sum. ``rule`` is how they learn, if not as the optimizer says; of a table with an accessor its
        parameters say that, and how rows begin. ``shared``: equal ids of all slots are one row, whatever the config says.
        """
        settings = {"init": init, "rule": rule, "seed": self._seed, "session": self._job, **self._settings}
        counted = self._counted.get(table)
        if counted is not None:
            settings |= accessing.settings(table, dim, counted, self._settings.get("clip") or specs.Clip())
            self.are_counting = True
        if counted is not None or rule == "ftrl" or isinstance(rule, (specs.Ftrl, specs.Sum)):
            settings.pop("decay", None)  # they have their own ways to forget
        self.names.append(table)

        def make(name: str, life: SlotFeature | None = None) -> Embedding:
            count = self._count if counted else None
            own = settings if life is None else {**settings, **accessing.life_of(life, is_counted=counted is not None)}
            kinds = self._poolings if pooling is None else {}
            made = Embedding(dim, table=name, pooling=pooling or "sum", settings=own, count=count, poolings=kinds)
            made.dropout = self._dropout if dim > 1 else 0.0
            made.asked = self.asked
            self.made.append(made)
            return made

        is_divided = self._per_slot and not shared
        if not is_divided and not self._lives:
            return make(f"{self._prefix}{table}")

        def table_of(slot: str) -> tuple[str, SlotFeature | None]:
            life = self._lives.get(slot)
            return slot if is_divided else life.table if life else "", life

        self._undivided.append(SlotEmbedding(dim, f"{self._prefix}{table}", make, table_of))
        return self._undivided[-1]

    def divide(self, model: paddle.nn.Layer, slots: Slots) -> None:
        """Make a table for each slot that the model looks up: it is asked about two samples that have nothing."""
        if not self._undivided:
            return
        tensors = {name: paddle.full([2, 1], PADDING, "int64") for name in slots.sparse}
        tensors |= {each.name: paddle.zeros([2, each.width]) for each in slots.dense}
        was_training = model.training
        model.eval()
        with ExitStack() as served, paddle.no_grad():
            for each in self.made:
                served.enter_context(each.served(np.zeros(0, np.int64), np.zeros((0, each.dim), np.float32)))
            model(ServedInputs(tensors, slots))
        if was_training:
            model.train()
        for each in self._undivided:
            each.divide()
        self._undivided.clear()

    def expect(self, inputs: BatchInputs | None) -> None:
        """The batch that is learned next: its rows come with the end of this step, if the model looks up the same slots as of this batch."""
        next_rows = self._job.communicator.next_rows
        if inputs is None or not inputs.size or next_rows.was_wrong:
            next_rows.expect(())
        else:
            next_rows.expect(self.asked.looks(inputs))

    @contextmanager
    def counting(self, clicks: NDArray[np.float32] | None, samples: float) -> Iterator[None]:
        """What is looked up meanwhile is shown, and clicked as ``clicks`` says; gradients are multiplied by ``samples``."""
        self._count.clicks, self._count.samples = clicks, samples
        try:
            yield
        finally:
            self._count.clicks, self._count.samples = None, 1.0


class SlotEmbedding(paddle.nn.Layer):  # type: ignore[misc]
    """A table for each slot, or for slots whose rows come and go together, as one layer."""

    def __init__(
        self,
        dim: int,
        table: str,
        make: Callable[[str, SlotFeature | None], Embedding],
        table_of: Callable[[str], tuple[str, SlotFeature | None]],
    ) -> None:
        """``table_of``: which one a slot is looked up in, and when its rows come and go."""
        super().__init__()
        self.dim = dim
        self.table = table
        self._make, self._table_of = make, table_of
        self._slots: dict[str, None] = {}
        """Those that were looked up, until there are tables."""
        self._tables: dict[str, Embedding] | None = None

    def forward(self, ids: Ids) -> paddle.Tensor:
        """One row for each sample and slot: the sum, or the mean, of its ids' rows."""
        if self._tables is None:
            self._slots |= dict.fromkeys(ids.slots)
            return paddle.zeros([ids.padded[0].shape[0], len(ids.slots), self.dim])
        groups: dict[int, list[int]] = {}
        for number, slot in enumerate(ids.slots):
            groups.setdefault(id(self._of(slot)), []).append(number)
        order = [number for numbers in groups.values() for number in numbers]
        rows = [self._of(ids.slots[numbers[0]])(ids.of(numbers)) for numbers in groups.values()]
        found = rows[0] if len(rows) == 1 else paddle.concat(rows, axis=1)
        if order == sorted(order):
            return found
        places = sorted(range(len(order)), key=order.__getitem__)
        return paddle.index_select(found, paddle.to_tensor(places, "int64"), axis=1)

    def each(self, padded: Padded) -> paddle.Tensor:
        """One row for each id."""
        if self._tables is None:
            self._slots[padded.slot] = None
            return paddle.zeros([*padded.ids.shape, self.dim])
        return self._of(padded.slot).each(padded)

    def divide(self) -> None:
        """Make the tables of all slots that were looked up so far."""
        made: dict[str, Embedding] = {}
        self._tables = {}
        for slot in self._slots:
            name, life = self._table_of(slot)
            if name not in made:
                made[name] = self._make(f"{self.table}.{name}" if name else self.table, life)
            self._tables[slot] = made[name]
        self.embeddings = paddle.nn.LayerList([*made.values()])

    def _of(self, slot: str) -> Embedding:
        found = (self._tables or {}).get(slot)
        if found is not None:
            return found
        raise UmiakError.of(
            "UM-TRAIN-071",
            f"the model looks up slot {slot} in table {self.table}, and has not when it was asked about samples without ids",
            why="with `embedding_tables: per_slot` the tables of all slots are made before training",
            hint="let forward() look up the same slots always, or make the embedding with shared=True",
        )


class AskedSlots:
    """Which slots a model looks up in a step, and where: so it is known what it will look up of the next batch."""

    def __init__(self) -> None:
        self._pooled: list[tuple[Embedding, tuple[str, ...]]] = []
        self._each: list[tuple[Embedding, str, int | None]] = []

    def begin(self) -> None:
        """A step begins."""
        self._pooled, self._each = [], []

    def note_pooled(self, embedding: Embedding, slots: tuple[str, ...]) -> None:
        self._pooled.append((embedding, slots))

    def note_each(self, embedding: Embedding, padded: Padded) -> None:
        self._each.append((embedding, padded.slot, padded.length))

    def looks(self, inputs: BatchInputs) -> Iterator[Look]:
        """The same of another batch."""
        for embedding, slots in self._pooled:
            yield from embedding.looks(inputs.ids(*slots))
        for embedding, slot, length in self._each:
            ids, offsets = inputs.batch.sparse[slot]
            yield from embedding.looks_of_each(filled_up(ids, offsets, slot, length))


class BatchCounts:
    """What is to be counted of the batch that is learned."""

    def __init__(self) -> None:
        self.clicks: NDArray[np.float32] | None = None
        """One number per sample."""
        self.samples = 1.0
        """What gradients are multiplied by."""


class Embedding(paddle.nn.Layer):  # type: ignore[misc]
    """A table as a layer."""

    def __init__(
        self,
        dim: int,
        *,
        table: str,
        pooling: str,
        settings: dict[str, Any],
        count: BatchCounts | None = None,
        poolings: Mapping[str, str] | None = None,
    ) -> None:
        """``poolings``: of slots with another one than ``pooling``."""
        super().__init__()
        self.dim = dim
        self.table = table
        self.pooling = pooling
        self.poolings = poolings or {}
        self.dropout = 0.0
        self.asked = AskedSlots()
        self.looked_up: set[str] = set()
        """Slots."""
        self._settings = settings
        self._count = count
        # With an accessor, the first number of a row is not counted.
        self._width = dim if count is None else dim - 1
        self._pooled = Rows(self._width, table=table, pooling=pooling, **settings)
        self._each: Rows | None = None
        self._lookup = lookups.SEARCHED
        self._rows_of: Callable[[str, paddle.Tensor], paddle.Tensor] | None = None

    def forward(self, ids: Ids) -> paddle.Tensor:
        """One row for each sample and slot: the sum, the mean or the maximum of its ids' rows."""
        if ids.padded:
            return paddle.stack([self._pool(each, slot) for slot, each in self._named(ids)], axis=1)
        self.looked_up.update(ids.slots)
        self.asked.note_pooled(self, ids.slots)
        if ids.matrix is not None:
            return self._dropped(self._pooled(ids.matrix, **self._counts()))
        if self.poolings.keys().isdisjoint(ids.slots):
            return self._dropped(self._pooled.slots([*ids.ragged], **self._counts()))
        return self._dropped(self._pooled_by_slot(ids))

    def each(self, padded: Padded) -> paddle.Tensor:
        """One row for each id."""
        if self._is_served:
            return self._find(padded.ids, padded.slot)
        self.looked_up.add(padded.slot)
        self.asked.note_each(self, padded)
        return self._dropped(self._rows_of_each(padded))

    def _rows_of_each(self, padded: Padded) -> paddle.Tensor:
        return self._single(padded.ids, **self._counts())

    @property
    def _single(self) -> Rows:
        if self._each is None:
            self._each = Rows(self._width, table=self.table, padding_id=PADDING, **self._settings)
        return self._each

    # ---- what a call would look up

    def looks(self, ids: Ids) -> Iterator[Look]:
        """What `forward` looks up of these."""
        if ids.matrix is not None:
            yield from self._pooled.looks(ids.matrix)
            return
        kinds = [self.poolings.get(slot, self.pooling) for slot in ids.slots]
        if added := [each for each, kind in zip(ids.ragged, kinds, strict=True) if kind != "max"]:
            yield from self._pooled.looks(added)
        for own, slot, kind in zip(ids.ragged, ids.slots, kinds, strict=True):
            if kind == "max":
                yield from self.looks_of_each(filled_up(*own, slot))

    def looks_of_each(self, padded: Padded) -> Iterator[Look]:
        """What `each` looks up of these."""
        yield from self._single.looks(padded.ids)

    def _pooled_by_slot(self, ids: Ids) -> paddle.Tensor:
        """Slots of several kinds: sums and means are looked up together, and each maximum by itself."""
        kinds = [self.poolings.get(slot, self.pooling) for slot in ids.slots]
        added = [number for number, kind in enumerate(kinds) if kind != "max"]
        found: dict[int, paddle.Tensor] = {}
        if added:
            sums = self._pooled.slots([ids.ragged[number] for number in added], **self._counts())
            shares = [_shares(ids.ragged[number][1], kinds[number]) for number in added]
            pooled = sums * paddle.to_tensor(np.stack(shares, axis=1)).unsqueeze(2)
            if len(added) == len(kinds):
                return pooled
            found = dict(zip(added, paddle.split(pooled, len(added), axis=1), strict=True))
        for number, kind in enumerate(kinds):
            if kind == "max":
                padded = filled_up(*ids.ragged[number], ids.slots[number])
                found[number] = _largest(self._rows_of_each(padded), padded.mask).unsqueeze(1)
        return paddle.concat([found[number] for number in range(len(kinds))], axis=1)

    def _dropped(self, rows: paddle.Tensor) -> paddle.Tensor:
        return paddle.nn.functional.dropout(rows, self.dropout) if self.dropout and self.training else rows

    def _counts(self) -> dict[str, Any]:
        """What a look is told of the batch."""
        return {} if self._count is None else {"clicks": self._count.clicks, "gradient_scale": self._count.samples}

    @property
    def number(self) -> int:
        """The table's number for a client of the job."""
        return self._pooled.rows.number

    # ---- in an inference model

    @contextmanager
    def served(
        self, keys: NDArray[np.int64], rows: NDArray[np.float32], lookup: lookups.RowLookup = lookups.SEARCHED
    ) -> Iterator[None]:
        """Meanwhile, rows are these: what is traced carries them with it."""
        order = np.argsort(keys, kind="stable")
        # Behind the last row stands what an unknown id reads.
        known = np.concatenate([rows[order], np.zeros((1, self.dim), np.float32)])
        behind = keys[order] if keys.size else np.array([PADDING], np.int64)
        self.register_buffer("served_keys", paddle.to_tensor(lookup.prepared(behind)))
        self.register_buffer("served_rows", paddle.to_tensor(known))
        self._lookup = lookup
        try:
            yield
        finally:
            del self.served_keys, self.served_rows

    @contextmanager
    def given(self, rows_of: Callable[[str, paddle.Tensor], paddle.Tensor]) -> Iterator[None]:
        """Meanwhile, who asks brings the rows: what there is for the ids of a slot."""
        self._rows_of = rows_of
        try:
            yield
        finally:
            self._rows_of = None

    @property
    def _is_served(self) -> bool:
        return self._rows_of is not None or "served_keys" in self._buffers

    def _named(self, ids: Ids) -> Iterator[tuple[str, paddle.Tensor]]:
        return zip(ids.slots, ids.padded, strict=True)

    def _find(self, ids: paddle.Tensor, slot: str) -> paddle.Tensor:
        if self._rows_of is not None:
            return self._rows_of(slot, ids)
        found = self._lookup.find(self.served_keys, self.served_rows, ids)
        return found.reshape([-1, paddle.shape(ids)[1], self.dim])

    def _pool(self, ids: paddle.Tensor, slot: str) -> paddle.Tensor:
        found, kind = self._find(ids, slot), self.poolings.get(slot, self.pooling)
        if kind == "max":
            return _largest(found, (ids != PADDING).astype("float32"))
        pooled = found.sum(axis=1)
        if kind == "mean":
            counts = (ids != PADDING).astype("float32").sum(axis=1, keepdim=True)
            pooled = pooled / paddle.clip(counts, min=1.0)
        return pooled


def _shares(offsets: AnyArray, kind: str) -> NDArray[np.float32]:
    """What the sum of each sample's rows is multiplied by."""
    counts = np.diff(offsets).astype(np.float32)
    if kind == "mean":
        np.divide(np.float32(1), np.maximum(counts, 1), out=counts)
        return counts
    return np.ones_like(counts)


def _largest(rows: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
    """Of each number the largest among a sample's rows; zeros where there are none."""
    is_there = mask.unsqueeze(2)
    largest = (rows * is_there + (is_there - 1) * LOWEST).max(axis=1)
    return largest * mask.max(axis=1, keepdim=True)
