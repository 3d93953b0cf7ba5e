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

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray

from umiak.core.problem import Problem, UmiakError
from umiak.ps import specs
from umiak.ps.paddle import Embedding as Rows
from umiak.ps.sessions import Session
from umiak.train.config.values import Slots, TableParameters
from umiak.train.modeling import accessing
from umiak.train.modeling.inputs import PADDING, Ids, Padded, ServedInputs


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
    ) -> None:
        """``counted``: tables with an accessor. ``per_slot``: each slot has its own table, where the model does not share one on purpose."""
        self._job = job
        self._seed = seed
        self._prefix = prefix
        self._settings = settings or {}
        self._counted = counted or {}
        self._count = BatchCounts()
        self._per_slot = per_slot
        self._undivided: list[SlotEmbedding] = []
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
        pooling: str = "sum",
        init: specs.Init | None = None,
        rule: specs.Rule | str | None = None,
        shared: bool = False,
    ) -> Embedding | SlotEmbedding:
        """Rows of ``dim`` numbers. ``rule`` is how they learn, if not as the optimizer says; of a table with an accessor its
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

        def make(name: str) -> Embedding:
            count = self._count if counted else None
            made = Embedding(dim, table=name, pooling=pooling, settings=settings, count=count)
            self.made.append(made)
            return made

        if not self._per_slot or shared:
            return make(f"{self._prefix}{table}")
        self._undivided.append(SlotEmbedding(dim, f"{self._prefix}{table}", make))
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

    @contextmanager
    def counting(self, clicks: NDArray[np.float32] | None, samples: float) -> Iterator[None]:
        """What is looked up meanwhile is shown, and clicked as ``clicks`` says; gradients are multiplied by ``samples``."""
        self._count.clicks, self._count.samples = clicks, samples
        try:
            yield
        finally:
            self._count.clicks, self._count.samples = None, 1.0


class SlotEmbedding(paddle.nn.Layer):  # type: ignore[misc]
    """A table for each slot, as one layer."""

    def __init__(self, dim: int, table: str, make: Callable[[str], Embedding]) -> None:
        super().__init__()
        self.dim = dim
        self.table = table
        self._make = make
        self._slots: dict[str, None] = {}
        """Those that were looked up, until there are tables."""
        self._tables: dict[str, Embedding] | None = None

    def forward(self, ids: Ids) -> paddle.Tensor:
        """One row for each sample and slot: the sum, or the mean, of its ids' rows."""
        if self._tables is None:
            self._slots |= dict.fromkeys(ids.slots)
            return paddle.zeros([ids.padded[0].shape[0], len(ids.slots), self.dim])
        rows = [self._of(slot)(own) for slot, own in ids.of_each()]
        return rows[0] if len(rows) == 1 else paddle.concat(rows, axis=1)

    def each(self, padded: Padded) -> paddle.Tensor:
        """One row for each id."""
        if self._tables is None:
            self._slots[padded.slot] = None
            return paddle.zeros([*padded.ids.shape, self.dim])
        return self._of(padded.slot).each(padded)

    def divide(self) -> None:
        """Make the tables of all slots that were looked up so far."""
        self._tables = {slot: self._make(f"{self.table}.{slot}") for slot in self._slots}
        self.embeddings = paddle.nn.LayerList([*self._tables.values()])

    def _of(self, slot: str) -> Embedding:
        found = (self._tables or {}).get(slot)
        if found is not None:
            return found
        raise UmiakError(
            Problem(
                code="UM-TRAIN-071",
                what=f"the model looks up slot {slot} in table {self.table}, and has not when it was asked about samples without ids",
                why="with `embedding_tables: per_slot` the tables of all slots are made before training",
                hint="let forward() look up the same slots always, or make the embedding with shared=True",
            )
        )


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
        self, dim: int, *, table: str, pooling: str, settings: dict[str, Any], count: BatchCounts | None = None
    ) -> None:
        super().__init__()
        self.dim = dim
        self.table = table
        self.pooling = pooling
        self._settings = settings
        self._count = count
        # With an accessor, the first number of a row is not counted.
        self._width = dim if count is None else dim - 1
        self._pooled = Rows(self._width, table=table, pooling=pooling, **settings)
        self._each: Rows | None = None

    def forward(self, ids: Ids) -> paddle.Tensor:
        """One row for each sample and slot: the sum, or the mean, of its ids' rows."""
        if ids.padded:
            return paddle.stack([self._pool(each) for each in ids.padded], axis=1)
        if ids.matrix is not None:
            return self._pooled(ids.matrix, **self._counts())
        return self._pooled.slots([*ids.ragged], **self._counts())

    def each(self, padded: Padded) -> paddle.Tensor:
        """One row for each id."""
        if self._is_served:
            return self._find(padded.ids)
        if self._each is None:
            self._each = Rows(self._width, table=self.table, padding_id=PADDING, **self._settings)
        return self._each(padded.ids, **self._counts())

    def _counts(self) -> dict[str, Any]:
        """What a look is told of the batch."""
        return {} if self._count is None else {"clicks": self._count.clicks, "gradient_scale": self._count.samples}

    @property
    def number(self) -> int:
        """The table's number for a client of the job."""
        return self._pooled.rows.number

    # ---- in an inference model

    @contextmanager
    def served(self, keys: NDArray[np.int64], rows: NDArray[np.float32]) -> Iterator[None]:
        """Meanwhile, rows are these: what is traced carries them with it."""
        order = np.argsort(keys, kind="stable")
        # Behind the last row stands what an unknown id reads.
        known = np.concatenate([rows[order], np.zeros((1, self.dim), np.float32)])
        behind = keys[order] if keys.size else np.array([PADDING], np.int64)
        self.register_buffer("served_keys", paddle.to_tensor(behind))
        self.register_buffer("served_rows", paddle.to_tensor(known))
        try:
            yield
        finally:
            del self.served_keys, self.served_rows

    @property
    def _is_served(self) -> bool:
        return "served_keys" in self._buffers

    def _find(self, ids: paddle.Tensor) -> paddle.Tensor:
        keys, rows = self.served_keys, self.served_rows
        last = rows.shape[0] - 1
        place = paddle.searchsorted(keys, ids)
        here = paddle.gather(keys, paddle.clip(place, max=keys.shape[0] - 1).flatten()).reshape(paddle.shape(ids))
        known = paddle.logical_and(here == ids, ids != PADDING)
        chosen = paddle.where(known, place, paddle.full_like(place, last))
        found = paddle.gather(rows, chosen.flatten())
        return found.reshape([-1, paddle.shape(ids)[1], self.dim])

    def _pool(self, ids: paddle.Tensor) -> paddle.Tensor:
        pooled = self._find(ids).sum(axis=1)
        if self.pooling == "mean":
            counts = (ids != PADDING).astype("float32").sum(axis=1, keepdim=True)
            pooled = pooled / paddle.clip(counts, min=1.0)
        return pooled
