"""geo: every trainer trains its own copy, and differences are exchanged now and then. An adapter.

A trainer keeps two numbers for each that it has touched: ``latest``, which its own optimizer changes in every step, and
``old``, what it knows of the servers. After ``every`` steps (100) it sends ``(latest - old) / trainers``, which the servers add,
and takes over what others have sent meanwhile: ``latest += server - old; old = server``. What is left of its own difference
is part of the next one. Between exchanges nothing goes over
the network but the first read of a row. A row starts with the same numbers here and there, so none is ever sent first.

Guarantees: what was sent is added exactly once. A trainer sees others' work so many steps late, and its optimizer's state (Adam's
moments, ...) is its own: it is in no checkpoint, and dies with the trainer, together with up to so many steps of work. Two runs
differ. Tables with an accessor, an entry rule or rows that expire can't be trained this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import umiak_native

from umiak.core.value import replace
from umiak.ps import specs
from umiak.ps.communicators.base import Communicator
from umiak.ps.errors import bad
from umiak.ps.gradients import joined, scaled

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from umiak.ps.clients import Client
    from umiak.ps.communicators.base import TrainerPlace
    from umiak.ps.gradients import Absent, Floats, Gradients, Keys
    from umiak.ps.specs import DenseTable, SparseTable, Spec
    from umiak.ps.strategies import Geo

LOCAL_SHARDS = 16


class GeoCommunicator(Communicator):
    """Local tables, exchanged now and then."""

    may_be_behind = True
    sets_own_rows = True
    rounds_dense = False  # differences, of values that are read

    def __init__(self, client: Client, strategy: Geo, **place: Unpack[TrainerPlace]) -> None:
        super().__init__(client, **place)
        self._every = strategy.every
        self._rows: dict[int, _Rows] = {}
        self._dense: dict[int, _Dense] = {}

    def as_kept(self, spec: Spec) -> Spec:
        """Servers only add differences up."""
        return _added_up(spec)

    def open(self, name: str, spec: SparseTable) -> int:
        if spec.accessor is not None or spec.expire is not None or not isinstance(spec.entry, specs.Always):
            what = f"table {name}: geo can't train a table with an accessor, an entry rule or rows that expire"
            raise bad("UM-PS-008", what, "use async")
        table = super().open(name, self.as_kept(spec))
        if table not in self._rows:
            self._rows[table] = _Rows(self.client, table, spec, self.world)
        return table

    def open_dense(self, name: str, spec: DenseTable, values: Floats) -> int:
        table = super().open_dense(name, self.as_kept(spec), values)
        if table not in self._dense:
            self._dense[table] = _Dense(self.client, table, spec, self.world)
        return table

    def pull(self, table: int, keys: Keys, *, create: bool = True, absent: Absent = "initial") -> Floats:
        """With ``absent="zeros"``, rows that neither this trainer's copy nor the servers have are zeros."""
        return self._rows[table].pull(keys, create=create, absent=absent)

    def push(self, table: int, keys: Keys, rows: Floats, *, share: float | None = None) -> None:
        self._rows[table].push(keys, scaled(rows, self._scale(share), statistics=False))

    def pull_dense(self, table: int, out: Floats | None = None) -> Floats:
        return self._dense[table].pull(out)

    def push_dense(self, table: int, gradients: Gradients, *, share: float | None = None) -> None:
        self._dense[table].push(gradients, self._scale(share))

    def set(self, table: int, keys: Keys, rows: Floats) -> None:
        self._rows[table].set(keys, rows)

    @property
    def heeds_set_dense(self) -> bool:
        return True

    def set_dense(self, table: int, values: Floats, *, at_once: bool = False) -> None:
        """Everybody's own count for its own copy, until the next exchange brings the first trainer's."""
        if not at_once:
            self._dense[table].restart(values.copy())
        if self.rank == 0:
            self.client.set_dense(table, values)

    def restart_dense(self) -> None:
        for table, copy in self._dense.items():
            copy.restart(self.client.pull_dense(table))

    def end_step(self) -> None:
        super().end_step()
        if self.step % self._every == 0:
            self.flush()

    def flush(self) -> None:
        """Exchange now."""
        for copy in self._copies():
            copy.send()
            copy.take()

    def catch_up(self) -> None:
        for copy in self._copies():
            copy.take()

    def reload(self) -> None:
        for copy in self._copies():
            copy.forget()

    def set_learning_rate(self, table: int, learning_rate: float) -> None:
        """This trainer's own: every trainer says it for itself."""
        local = self._rows[table].latest if table in self._rows else self._dense[table].latest
        local.learning_rate = learning_rate

    def _copies(self) -> list[_Rows | _Dense]:
        return [*self._rows.values(), *self._dense.values()]


def _added_up(spec: Spec) -> Spec:
    added = replace(spec, rule=specs.Sum(), clip=specs.Clip(), decay=specs.Decay())
    return replace(added, every_row=False) if isinstance(added, specs.SparseTable) else added


class _Rows:
    """This trainer's copy of a sparse table: the rows that it has touched."""

    def __init__(self, client: Client, table: int, spec: SparseTable, world: int) -> None:
        self._client, self._table, self._world = client, table, np.float32(world)
        self._spec = spec
        self.forget()

    def forget(self) -> None:
        """Start again from what the servers have."""
        spec = self._spec
        self.latest = umiak_native.Table(specs.to_json(spec), LOCAL_SHARDS)
        zeros = replace(_added_up(spec), init=specs.Constant())
        self._old = umiak_native.Table(specs.to_json(zeros), LOCAL_SHARDS)
        # One number per key: 1 for rows that are here.
        self._known = umiak_native.Table(specs.to_json(replace(zeros, dim=1)), LOCAL_SHARDS)
        self._touched: list[NDArray[np.uint64]] = []
        self._client.changed(self._table)  # the servers remember from now on what others change

    def pull(self, keys: Keys, *, create: bool, absent: Absent) -> Floats:
        unique, inverse = umiak_native.unique(keys.reshape(-1))
        known = self._known.pull(unique, create=False)[:, 0] != 0
        missing = unique[~known]
        if missing.size and not create:
            # What is only read is not taken into the copy: evaluation must not make it larger.
            rows = self.latest.pull(unique, create=False)
            rows[~known] = self._client.pull(self._table, missing, create=False, absent=absent)
            return rows[inverse].reshape(*keys.shape, -1)
        if missing.size:
            rows = self._client.pull(self._table, missing)
            self.latest.set(missing, rows)
            self._old.set(missing, rows)
            self._known.set(missing, np.ones((missing.size, 1), np.float32))
        rows = self.latest.pull(unique)
        return rows[inverse].reshape(*keys.shape, -1)

    def set(self, keys: Keys, rows: Floats) -> None:
        """Here and on the servers. What was learned of these rows and not yet sent is overwritten, too."""
        self._client.set(self._table, keys, rows)
        self.latest.set(keys, rows)
        self._old.set(keys, rows)
        self._known.set(keys, np.ones((keys.size, 1), np.float32))

    def push(self, keys: Keys, rows: Floats) -> None:
        unique, summed = umiak_native.merge([(keys.reshape(-1), rows.reshape(keys.size, -1))])
        self.latest.push(unique, summed)
        self._touched.append(unique)

    def send(self) -> None:
        if not self._touched:
            return
        keys, _ = umiak_native.unique(np.concatenate(self._touched))
        self._touched = []
        difference = (self.latest.pull(keys) - self._old.pull(keys)) / self._world
        self._old.add(keys, difference)
        self._client.add(self._table, keys, difference)

    def take(self) -> None:
        keys, rows = self._client.changed(self._table)
        # Rows that this trainer has never touched are read when it does.
        mine = self._known.pull(keys, create=False)[:, 0] != 0
        keys, rows = keys[mine], rows[mine]
        self.latest.add(keys, rows - self._old.pull(keys))
        self._old.set(keys, rows)


class _Dense:
    """This trainer's copy of a dense table."""

    def __init__(self, client: Client, table: int, spec: DenseTable, world: int) -> None:
        self._client, self._table, self._world = client, table, np.float32(world)
        self._spec = spec
        self.forget()

    def forget(self) -> None:
        """Start again from what the servers have."""
        self._touched = False
        self._old = self._client.pull_dense(self._table)
        self.latest = umiak_native.DenseTable(specs.to_json(self._spec))
        self.latest.set(self._old)

    def restart(self, values: Floats) -> None:
        """Go on with these, which the servers have or are about to have. The optimizer's state stays."""
        self._touched = False
        self._old = values
        self.latest.set(values)

    def pull(self, out: Floats | None) -> Floats:
        values = self.latest.pull()
        if out is None:
            return values
        out[...] = values
        return out

    def push(self, gradients: Gradients, scale: float) -> None:
        self.latest.push(joined(gradients, scale))
        self._touched = True

    def send(self) -> None:
        if not self._touched:
            return
        self._touched = False
        difference = (self.latest.pull() - self._old) / self._world
        self._old = self._old + difference
        self._client.push_dense(self._table, difference)

    def take(self) -> None:
        now = self._client.pull_dense(self._table)
        self.latest.set(self.latest.pull() + (now - self._old))
        self._old = now
