"""Embedding tables as a layer of any framework sees them: keys in, rows out, gradients back. An adapter, without a framework.

table = registry.table("ads", spec)      one per name, however many layers share it
rows = table.rows(keys)                  forward
table.collect(keys, gradients)           backward, any number of times
registry.push()                          end of a step: one push per table
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import umiak_native

from umiak.core.value import replace
from umiak.ps import specs
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from typing import Any, Protocol

    from numpy.typing import ArrayLike, NDArray

    from umiak.core.json_types import JsonObject
    from umiak.data.array_types import AnyArray
    from umiak.ps.communicators import Communicator
    from umiak.ps.communicators.next_rows import NextRows
    from umiak.ps.gradients import Absent, Floats, Push
    from umiak.ps.specs import Clip, Decay, Rule, SparseTable

    Keys = NDArray[np.uint64]

    class Late(Protocol):
        """Gradients of a table that are still where they were computed, such as on a GPU."""

        @property
        def reached(self) -> list[Any]: ...
        def arrive(self) -> None: ...
        def forget(self) -> None: ...


class HeldGradients(NamedTuple):
    """What a table has of gradients behind a step, until somebody clears them."""

    batches: list[list[tuple[Keys, Floats]]]
    is_of_all_rows: bool


class EmbeddingTable:
    """One embedding table. It is made on the servers when it is used first, so that an optimizer can still say its rule."""

    def __init__(self, name: str, spec: SparseTable, communicator: Communicator, *, follows: tuple[str, ...]) -> None:
        self.name = name
        self.spec = spec
        self.follows = follows
        """Which parts of its spec are the optimizer's: ``rule``, ``clip``, ``decay``."""
        self.optimizer = 0
        """Whose learning rate it follows, where several optimizers learn in one step."""
        self.is_clipped = True
        """Whether its gradients take part where all are scaled down together."""
        self.counts_padding = False
        """Whether those of ids that never learn count in the norm, as in Paddle, where gradients of ``sparse=True`` have them."""
        self.is_of_all_rows = False
        """Whether what was collected would be a gradient of all rows without tables: one that is not sparse."""
        self._communicator = communicator
        self._number: int | None = None
        self._batches: list[list[tuple[Keys, Floats]]] = [[]]
        """What backward passes have brought, each batch's apart: a batch ends where rows are read after that."""
        self._merged: tuple[Keys, Floats] | None = None
        """What `merged` has made of it, if somebody has asked."""
        self.late: Late | None = None
        """What comes when somebody asks for it: gradients on another device."""
        self._padding: dict[int, Floats] = {}
        """The gradients of ids that never learn, summed, where they count in the norm of all."""

    @property
    def number(self) -> int:
        return self.open()

    @property
    def next_rows(self) -> NextRows:
        """What is read ahead of its step."""
        return self._communicator.next_rows

    def open(self) -> int:
        """Make it on the servers, unless it is there; returns its number."""
        if self._number is None:
            self._number = self._communicator.open(self.name, self.spec)
        return self._number

    def follow(self, rule: Rule, clip: Clip, decay: Decay) -> None:
        """Take this rule, unless a rule of its own was said; and limits and decay that were not said."""
        given = {"rule": rule, "clip": clip, "decay": decay}
        spec = replace(self.spec, **{name: given[name] for name in self.follows})
        if self._number is None:
            self.spec = spec
        elif self.spec != spec:
            raise bad(
                "UM-PS-008",
                f"table {self.name} is in use with another rule than the optimizer's: {self.spec.rule}",
                "make the optimizer before the model is used first, or say the rule where the Embedding is made",
            )

    def rows(self, keys: Keys, *, create: bool = True, absent: Absent = "initial") -> Floats:
        """Rows of keys of any shape. ``absent``: what missing ones read as that are not created."""
        if create:
            self.begin_read()
        return self._communicator.pull(self.number, keys, create=create, absent=absent)

    def begin_read(self) -> None:
        """Rows are read for training: what a backward pass has brought before is a batch of its own."""
        self._let_arrive()
        if self._batches[-1]:
            self._batches.append([])

    def collect(self, keys: Keys, rows: Floats) -> None:
        """Gradients for the end of the step; one row per key. The arrays are kept until then, not copied."""
        self._batches[-1].append((keys.reshape(-1), rows.reshape(keys.size, -1 if keys.size else rows.shape[-1])))

    def take(self) -> tuple[Keys, Floats] | None:
        """Everything that was collected, as one push, and forget it; a key's gradients are summed, those of each batch first.

        So two batches of one trainer add up to the same bits as one batch of each of two trainers.
        """
        self._let_arrive()
        batches = [batch for batch in self._batches if batch]
        self.forget()
        if not batches:
            return None
        parts = batches[0]
        if len(batches) > 1:
            last_counts = 1 if self.spec.accessor is not None else 0
            parts = [umiak_native.merge([*batch], last_counts) for batch in batches]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([keys for keys, _ in parts]), np.concatenate([rows for _, rows in parts])

    @property
    def has_gradients(self) -> bool:
        return any(self._batches) or bool(self.late is not None and self.late.reached)

    def _let_arrive(self) -> None:
        if self.late is not None:
            self.late.arrive()

    def held(self) -> HeldGradients:
        """The gradients that were collected, for `hold`: whatever is done with them meanwhile, these stay as they are."""
        self._let_arrive()
        self._merged = None
        return HeldGradients([[*batch] for batch in self._batches if batch], self.is_of_all_rows)

    def hold(self, held: HeldGradients) -> None:
        """Let these be there again: what comes is added to them, as in Paddle where nobody clears gradients."""
        self._batches, self.is_of_all_rows = [*held.batches] or [[]], held.is_of_all_rows
        self._merged = None

    def merged(self) -> Floats:
        """The gradients that were collected, one row per key, to be looked at or multiplied in place before `push`.

        The same array until more is collected. With an accessor, rows begin with what is counted.
        """
        self._let_arrive()
        parts = [part for batch in self._batches for part in batch]
        if len(parts) == 1 and parts[0] is self._merged:
            return parts[0][1]
        last_counts = 1 if self.spec.accessor is not None else 0
        batches = [umiak_native.merge([*batch], last_counts) for batch in self._batches if batch]
        self._merged = batches[0] if len(batches) == 1 else umiak_native.merge([*batches], last_counts)
        self._batches = [[self._merged]]
        return self._merged[1]

    def collect_padding(self, keys: Keys, rows: Floats) -> None:
        """Gradients of ids that never learn: they only count in the norm of all gradients."""
        for key in np.unique(keys):
            self._padding[int(key)] = self._padding.get(int(key), np.float32(0)) + rows[keys == key].sum(axis=0)

    def padding_squares(self) -> float:
        """The squares of what `collect_padding` was given, one sum per id."""
        return float(sum(umiak_native.squares(np.ascontiguousarray(each)) for each in self._padding.values()))

    def forget(self) -> None:
        if self.late is not None:
            self.late.forget()
        self._batches = [[]]
        self._merged = None
        self.is_of_all_rows = False
        self._padding = {}


class TableRegistry:
    """All embedding tables of a session, by name."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._tables: dict[str, EmbeddingTable] = {}

    @property
    def tables(self) -> tuple[EmbeddingTable, ...]:
        return tuple(self._tables.values())

    def table(self, name: str, spec: SparseTable, *, follows: tuple[str, ...] = ()) -> EmbeddingTable:
        """The table of that name; a second layer that says something else about it is a mistake."""
        known = self._tables.get(name)
        if known is None:
            known = self._tables[name] = EmbeddingTable(name, spec, self._communicator, follows=follows)
        elif replace(spec, **{part: getattr(known.spec, part) for part in known.follows}) != known.spec:
            raise bad(
                "UM-PS-008",
                f"two layers share the table {name} and describe it differently: {known.spec} and {spec}",
                "describe it the same way in both, or give them tables of their own: Embedding(..., table=...)",
            )
        return known

    def open(self) -> None:
        """Make all tables on the servers, also those that were not used yet."""
        for table in self._tables.values():
            table.open()

    def take(self) -> list[Push]:
        """What was collected for all tables: one push for each that has any."""
        found = ((table, table.take()) for table in self._tables.values())
        return [(table.number, *taken) for table, taken in found if taken is not None]

    def push(self, share: float | None = None) -> None:
        for each in self.take():
            self._communicator.push(*each, share=share)

    @property
    def has_gradients(self) -> bool:
        """Whether anything was collected for the next push."""
        return any(table.has_gradients for table in self._tables.values())

    def forget(self) -> None:
        for table in self._tables.values():
            table.forget()


class Lookup:
    """One look into a table: keys, or bags of them (CSR: one offset more than bags), and what comes back.

    ``padding`` is an id that reads as zeros and never learns. With an accessor every key counts as shown once, and as
    clicked where ``clicks``, one number per sample or bag, says so; show and click are not among the columns. Gradients are
    multiplied by ``gradient_scale``.
    """

    def __init__(
        self,
        table: EmbeddingTable,
        keys: Keys,
        offsets: Keys | None = None,
        *,
        pooling: str = "sum",
        padding: int | None = None,
        clicks: Floats | None = None,
        slot: int = 0,
        gradient_scale: float = 1.0,
    ) -> None:
        self._table = table
        self._scale = gradient_scale
        self._pooling = pooling
        self._offsets = None if offsets is None else offsets.view(np.int64).copy()
        self._slot = slot
        self._shown: tuple[Floats, Floats] | None = None
        if offsets is None:
            # The gradients come later, when the caller may have filled its array with the next batch.
            self._keys = keys.copy()
        else:
            self._keys, self._inverse = umiak_native.unique(keys)
        self._mask = None if padding is None else self._keys == np.int64(padding).view(np.uint64)
        if table.spec.accessor is not None:
            self._shown = self._shows_and_clicks(keys, clicks)

    def rows(self, *, create: bool, absent: Absent = "initial") -> Floats:
        rows = self._table.rows(self._keys, create=create, absent=absent)
        if self._shown is not None:
            rows = np.ascontiguousarray(rows[..., 2:])
        if self._mask is not None:
            rows[self._mask] = 0
        if self._offsets is None:
            return rows
        return umiak_native.pool(rows, self._inverse, self._offsets, self._pooling)

    def collect(self, gradients: Floats) -> None:
        """Gradients of what `rows` gave."""
        if self._offsets is not None:
            count = self._keys.size
            gradients = umiak_native.pool_grad(gradients, self._inverse, self._offsets, count, self._pooling)
        keys, rows = self._keys.reshape(-1), gradients.reshape(self._keys.size, -1)
        if self._scale != 1.0:
            rows = rows * np.float32(self._scale)
        if self._shown is not None:
            shows, clicks = self._shown
            slots = np.full(keys.size, self._slot, np.float32)
            rows = np.concatenate([np.stack([slots, shows, clicks], axis=1), rows], axis=1)
        if self._mask is not None:
            real = ~self._mask.reshape(-1)
            if self._table.counts_padding:
                self._table.collect_padding(keys[~real], rows[~real])
            keys, rows = keys[real], rows[real]
        self._table.collect(keys, rows)

    def _shows_and_clicks(self, keys: Keys, clicks: Floats | None) -> tuple[Floats, Floats]:
        """How often each of `_keys` was shown and clicked."""
        samples = keys.shape[0] if self._offsets is None else len(self._offsets) - 1
        clicked = np.zeros(samples, np.float32) if clicks is None else np.asarray(clicks, np.float32).reshape(-1)
        if self._offsets is None:
            each = np.repeat(clicked, keys.size // max(samples, 1))
            return np.ones(keys.size, np.float32), each
        each = np.repeat(np.resize(clicked, samples), np.diff(self._offsets))
        count = self._keys.size
        shows = np.bincount(self._inverse, minlength=count).astype(np.float32)
        return shows, np.bincount(self._inverse, weights=each, minlength=count).astype(np.float32)


def checked_pooling(word: str) -> str:
    """The word, if it is a way of pooling."""
    if word not in ("sum", "mean"):
        raise bad("UM-PS-010", f"no such pooling: {word}", "choose sum or mean")
    return word


def checked_absent(word: Absent) -> Absent:
    """The word, if it is what absent rows can read as."""
    if word not in ("initial", "zeros"):
        raise bad("UM-PS-010", f"no such way to read absent rows: {word}", "choose initial or zeros")
    return word


def chained(slots: list[tuple[Keys, Keys]]) -> tuple[Keys, Keys]:
    """Several CSR slots of one table, one after the other, as one: one pull instead of many."""
    bags = [len(ends) - 1 for _, ends in slots]
    if len({*bags}) > 1:
        counts = ", ".join(f"slot {slot}: {count}" for slot, count in enumerate(bags))
        raise bad(
            "UM-PS-130",
            f"slots with different numbers of bags: {counts}",
            "every slot has one bag per sample of the batch, empty ones too: one offset more than samples",
        )
    values = np.concatenate([values for values, _ in slots])
    offsets = [np.zeros(1, np.uint64)]
    behind = 0
    for own, ends in slots:
        offsets.append(ends[1:] + np.uint64(behind))
        behind += len(own)
    return values, np.concatenate(offsets)


def listed(ids: ArrayLike) -> AnyArray:
    """Ids of a list, or a single one, as an array."""
    try:
        found = np.asarray(ids)
        return found if found.size else found.astype(np.int64)
    except ValueError:
        raise bad(
            "UM-PS-010", "ids: the lists in it have different lengths", "give all ids in one list, and offsets"
        ) from None


def as_keys(ids: AnyArray) -> Keys:
    """Ids as the 64-bit keys that tables have; a negative id is the key with the same bits."""
    if ids.dtype == np.uint64:
        return ids
    if not np.issubdtype(ids.dtype, np.integer):
        raise bad("UM-PS-010", f"ids must be integers, these are {ids.dtype}", "ids.astype('int64')")
    # Never both kinds of 64 bits: numpy would turn a mixture into floats.
    return ids.astype(np.int64, copy=False).view(np.uint64)


def sparse_spec(
    dim: int,
    *,
    rule: Rule | None = None,
    init: specs.Init | None = None,
    seed: int = 0,
    clip: specs.Clip | None = None,
    decay: specs.Decay | None = None,
    entry: specs.Entry | None = None,
    expire: specs.Expire | None = None,
    accessor: specs.Accessor | None = None,
    every_row: bool = False,
) -> SparseTable:
    """A table's spec from what a layer was told; what was not said has its default."""
    said: JsonObject = {"rule": rule, "init": init, "clip": clip, "decay": decay, "entry": entry}
    said |= {"accessor": accessor, "expire": expire}
    spec = specs.SparseTable(
        dim=dim, seed=seed, every_row=every_row, **{name: item for name, item in said.items() if item is not None}
    )
    specs.check(spec)
    return spec
