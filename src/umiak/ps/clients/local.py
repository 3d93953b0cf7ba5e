"""A client without servers: all tables are in this process. An adapter.

A script that runs alone, on a laptop or in a test, gets this one, with the same results as one trainer in a job. Its checkpoints are in the format of
the servers': a model that was trained alone goes on in a job of many servers, and the other way round.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import umiak_native

from umiak.ps import checkpoint
from umiak.ps.checkpoint import told
from umiak.ps.errors import bad
from umiak.ps.gradients import joined, scaled
from umiak.ps.options import FLOAT32

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.ps.gradients import Absent, Floats, Gradients, Keys, Push

    Piece: TypeAlias = (
        tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.float32]]
        | tuple[int, NDArray[np.float32], NDArray[np.float32]]
    )
    NativeTable: TypeAlias = umiak_native.Table | umiak_native.DenseTable

WRITERS = 16
"""Threads that write: they wait for the disk most of the time."""


class LocalClient:
    """The operations of `umiak.ps.clients.Client`, for one trainer: ``mean`` is over that one, and ``step`` is always the next."""

    reads_ahead = False
    """Rows are near: nothing is gained by asking for them before it is their turn."""
    _adds_up = False
    """Whether others' gradients are added to those that were pushed, in their place."""

    def __init__(self, *, shards: int = 256) -> None:
        self._shards = shards
        self._names: dict[str, int] = {}
        self._specs: list[JsonObject] = []
        self._tables: list[NativeTable] = []
        self._step = 0
        self._sparse_parts: dict[int, list[tuple[Keys, Floats]]] = {}
        self._dense_parts: dict[int, list[Floats]] = {}
        self._rooms: dict[int, Floats] = {}
        self._taken: dict[str, int] = {}
        self._described: set[str] = set()
        """Tables that the script has described; others stand as a checkpoint has them."""

    # ---- tables

    def create_table(self, name: str, spec: str, wire: str = FLOAT32) -> int:
        """``wire`` is for clients of servers: nothing is on the way here."""
        described = json.loads(spec)
        number = self._names.get(name)
        if number is None:
            number = self._add(name, _made(described, spec, self._shards))
        elif change := umiak_native.spec_change(name, self._tables[number].spec, spec):
            if name in self._described:
                self._refuse(name, umiak_native.spec_differences(self._tables[number].spec, spec))
            self._refuse(name, umiak_native.layout_differences(self._tables[number].spec, spec))
            self._add(name, self._tables[number].with_spec(spec))
            told(change)
        self._described.add(name)
        return number

    def pull(
        self,
        table: int,
        keys: Keys,
        out: Floats | None = None,
        *,
        create: bool = True,
        absent: Absent = "initial",
        step: int = 0,
    ) -> Floats:
        _check_keys(keys)
        # Each key is looked up once: batches with a few ids in most places are common.
        unique, places = umiak_native.unique(keys.reshape(-1))
        rows = self._sparse(table).pull(unique, create=create, absent=absent)
        whole = (*keys.shape, rows.shape[1])
        if out is None:
            return rows.reshape(whole) if len(unique) == keys.size else rows.take(places, axis=0).reshape(whole)
        out[...] = rows[places].reshape(whole)
        return out

    def push(
        self, table: int, keys: Keys, rows: Floats, *, step: int | None = None, scale: float = 1.0, mean: bool = False
    ) -> None:
        _check_keys(keys)
        has_statistics = bool(self._specs[table].get("accessor"))
        rows = rows.reshape(keys.size, -1 if keys.size else rows.shape[-1])
        rows = scaled(rows, scale, statistics=has_statistics)
        # With an accessor, the first column is the slot, which is no number to be added up.
        merged = umiak_native.merge([(keys.reshape(-1), rows)], 1 if has_statistics else 0)
        if step is None:
            self._sparse(table).push(*merged)
        else:
            self._sparse_parts.setdefault(table, []).append(merged)

    def set(self, table: int, keys: Keys, rows: Floats) -> None:
        self._sparse(table).set(keys, rows)

    def add(self, table: int, keys: Keys, rows: Floats) -> None:
        self._sparse(table).add(*umiak_native.merge([(keys, rows)]))

    def changed(self, table: int) -> tuple[NDArray[np.uint64], Floats]:
        """Nobody else changes anything."""
        width = int(self._specs[table]["dim"])
        return np.zeros(0, np.uint64), np.zeros((0, width), np.float32)

    def pull_dense(self, table: int, out: Floats | None = None, *, step: int = 0) -> Floats:
        if out is None:
            return self._dense(table).pull()
        self._dense(table).pull_into(out)
        return out

    def push_dense(
        self, table: int, gradients: Gradients, *, step: int | None = None, scale: float = 1.0, mean: bool = False
    ) -> None:
        self._push_dense(table, gradients, step=step, scale=scale, is_applied_now=step is None)

    def _push_dense(
        self, table: int, gradients: Gradients, *, step: int | None, scale: float, is_applied_now: bool
    ) -> None:
        assert step is not None or not self._adds_up, "collective training has steps"
        alone = gradients[0] if isinstance(gradients, list) and len(gradients) == 1 else gradients
        if is_applied_now and scale == 1.0 and not self._adds_up and not isinstance(alone, list):
            whole = alone.reshape(-1)  # nobody changes it before it is applied
        else:
            whole = self._flat(table, gradients, scale, keep=step is not None)
        if step is None:
            self._dense(table).push(whole)
        else:
            self._dense_parts.setdefault(table, []).append(whole)

    def learn_dense(
        self,
        table: int,
        gradients: Gradients,
        out: Floats,
        *,
        pushes: Sequence[Push] = (),
        step: int | None = None,
        scale: float = 1.0,
        mean: bool = False,
        next_rows: Sequence[Push] = (),
    ) -> Floats:
        for sparse, keys, rows in pushes:
            self.push(sparse, keys, rows, step=step, scale=scale, mean=mean)
        self._push_dense(table, gradients, step=step, scale=scale, is_applied_now=True)
        if step is not None:
            self.commit(step)
        self._read(next_rows)
        return self.pull_dense(table, out)

    def set_dense(self, table: int, values: Floats, *, if_unset: bool = False, step: int | None = None) -> None:
        self._dense(table).set(values, only_if_unset=if_unset)

    def set_learning_rate(self, table: int, learning_rate: float, *, step: int | None = None) -> None:
        self._tables[table].learning_rate = learning_rate

    def shrink(self, table: int) -> int:
        return self._sparse(table).shrink()

    # ---- steps

    def prepare(self, step: int) -> None:
        """Nothing: nobody else has to have it."""

    def commit(self, step: int, *, next_rows: Sequence[Push] = ()) -> None:
        # A part has each key once already, so that one part alone need not be summed.
        for table, parts in self._sparse_parts.items():
            if len(parts) == 1:
                self._sparse(table).push(*parts[0])
            else:
                self._sparse(table).push_summed(parts)
        for table, gradients in self._dense_parts.items():
            if len(gradients) == 1:
                self._dense(table).push(gradients[0])
            else:
                self._dense(table).push_summed(gradients)
        self._sparse_parts.clear()
        self._dense_parts.clear()
        self._step = step + 1
        self._read(next_rows)

    def _read(self, next_rows: Sequence[Push]) -> None:
        """Nothing has to come from elsewhere: these are pulls."""
        for table, keys, out in next_rows:
            self.pull(table, keys, out)

    def resume(self) -> int:
        return self._step

    @property
    def step(self) -> int:
        return self._step

    def finish_steps(self) -> None:
        """Nobody waits for them."""

    # ---- the job

    def barrier(self, name: str) -> None:
        """Everybody is here."""

    def gather(self, name: str, payload: bytes) -> list[bytes]:
        return [payload]

    def post(self, name: str, payload: bytes) -> list[bytes]:
        """There is nobody else."""
        return [payload]

    def take(self, name: str) -> int:
        number = self._taken.get(name, 0)
        self._taken[name] = number + 1
        return number

    def done(self) -> None:
        """There is nobody to tell."""

    def close(self) -> None:
        """Nothing is open."""

    def save(self, request: str) -> str:
        tables = {name: self._tables[number] for name, number in self._names.items()}
        return json.dumps([save_tables(json.loads(request), tables, self._shards)])

    def load(self, request: str) -> str:
        wanted = json.loads(request)
        changes = []
        # All tables are read before one takes its place: a load that fails changes nothing.
        for name, saved in load_tables(wanted, self._empty, self._shards).items():
            number = self._names.get(name)
            if number is None:
                self._add(name, saved)
            else:
                spec = self._tables[number].spec  # the script's
                changes.append(umiak_native.spec_change(name, saved.spec, spec))
                self._add(name, saved.with_spec(spec))
        self._step = wanted["step"]
        return json.dumps([{"changes": [change for change in changes if change]}])

    def _empty(self, name: str, spec: str) -> NativeTable:
        """A table of this spec without rows, if its rows can be those of the table of that name."""
        if (number := self._names.get(name)) is not None:
            self._refuse(name, umiak_native.layout_differences(spec, self._tables[number].spec))
        return _made(json.loads(spec), spec, self._shards)

    def _add(self, name: str, table: NativeTable) -> int:
        """This is the table of that name from now on; returns its number."""
        number = self._names.setdefault(name, len(self._tables))
        self._tables[number:] = [table, *self._tables[number + 1 :]]
        self._specs[number:] = [json.loads(table.spec), *self._specs[number + 1 :]]
        return number

    @staticmethod
    def _refuse(name: str, differences: list[str]) -> None:
        if differences:
            raise bad("UM-PS-008", f"table {name} is described differently: {'; '.join(differences)}")

    def status(self) -> str:
        rows = {
            name: table
            for name, number in self._names.items()
            if isinstance(table := self._tables[number], umiak_native.Table)
        }
        return json.dumps(
            [{"tables": {name: {"rows": len(table)} for name, table in rows.items()}, "step": self._step}]
        )

    def _flat(self, table: int, gradients: Gradients, scale: float, *, keep: bool) -> Floats:
        """A scaled copy of the gradients, end to end. Memory that was used before is used again: new pages cost more than the copying."""
        if keep and self._dense_parts.get(table):
            return joined(gradients, scale)  # a second part of the same step
        room = self._rooms.get(table)
        if room is None:
            room = self._rooms[table] = joined(gradients, scale)
            return room
        return joined(gradients, scale, out=room)

    def _sparse(self, table: int) -> umiak_native.Table:
        found = self._tables[table]
        assert isinstance(found, umiak_native.Table)
        return found

    def _dense(self, table: int) -> umiak_native.DenseTable:
        found = self._tables[table]
        assert isinstance(found, umiak_native.DenseTable)
        return found


def _check_keys(keys: object) -> None:
    """In the words of a connection to servers."""
    if not isinstance(keys, np.ndarray):
        raise TypeError(f"keys must be a numpy array of uint64 or int64, not {type(keys).__name__}")


def _made(described: JsonObject, spec: str, shards: int) -> NativeTable:
    kind = umiak_native.DenseTable if described["kind"] == "dense" else umiak_native.Table
    return kind(spec, shards)


# ---- checkpoints


def save_tables(request: JsonMapping, tables: Mapping[str, NativeTable], shards: int) -> JsonObject:
    """What a server answers to the same request: its shards' files and its tables."""
    for table in tables.values():
        if isinstance(table, umiak_native.Table):
            table.freeze(request["mode"])
        else:
            table.freeze()

    per_file = umiak_native.shards_per_file(sum(table.saved_bytes() for table in tables.values()), shards)

    def written(first: int) -> object:
        own = range(first, min(first + per_file, shards))
        head = {"shards": shards, "shard": first, "count": len(own), "step": request["step"], "about": {}}
        parts = [
            (name, table.spec, table.state(), [piece for shard in own for piece in _pieces(table, shard)])
            for name, table in tables.items()
        ]
        name = f"shard-{first:05}.umiak"
        return json.loads(umiak_native.write_shard_file(request["path"], name, json.dumps(head), parts))

    with ThreadPoolExecutor(WRITERS) as pool:
        files = list(pool.map(written, range(0, shards, per_file)))
    for table in tables.values():
        table.thaw()
    described = {n: {"spec": json.loads(t.spec), "state": json.loads(t.state())} for n, t in tables.items()}
    return {"shards": shards, "files": files, "tables": described}


def load_tables(request: JsonMapping, make: Callable[[str, str], NativeTable], shards: int) -> dict[str, NativeTable]:
    """Read all files into tables that ``make`` gives for a name and a spec: empty ones."""
    path = request["path"]
    manifest = checkpoint.read(path)
    if manifest.shards != shards:
        what = f"the checkpoint has {manifest.shards} virtual shards, and this job {shards}"
        raise bad("UM-PS-013", what, f"ps.init(shards={manifest.shards})")
    made: dict[str, NativeTable] = {}
    for file in manifest.files:
        table: NativeTable | None = None
        for piece in umiak_native.ShardFile(os.path.join(path, file.name)):
            if piece[0] == "table":
                _, name, spec, state = piece
                if name not in made:
                    made[name] = make(name, spec)
                    made[name].restore(state)
                table = made[name]
            elif piece[0] == "rows":
                assert isinstance(table, umiak_native.Table)
                table.load(*piece[1:])
            else:
                assert isinstance(table, umiak_native.DenseTable)
                table.load_chunk(*piece[1:])
    return made


def _pieces(table: NativeTable, shard: int) -> Sequence[Piece]:
    if isinstance(table, umiak_native.Table):
        return table.scan(shard)
    chunk = table.chunk(shard)
    return [] if chunk is None else [chunk]
