"""Checkpoints of tables that are in this process, in the format of the servers'. An adapter.

A model that was trained alone goes on in a job of many servers, and the other way round.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import umiak_native

from umiak.ps import checkpoint
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    NativeTable = umiak_native.Table | umiak_native.DenseTable


WRITERS = 16
"""Threads that write: they wait for the disk most of the time."""


def save(request: Mapping[str, Any], tables: Mapping[str, NativeTable], shards: int) -> dict[str, Any]:
    """What a server answers to the same request: its shards' files and its tables."""
    for table in tables.values():
        if isinstance(table, umiak_native.Table):
            table.freeze(request["mode"])
        else:
            table.freeze()

    per_file = umiak_native.shards_per_file(sum(table.saved_bytes() for table in tables.values()), shards)

    def written(first: int) -> Any:
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


def load(request: Mapping[str, Any], make: Callable[[str, str], NativeTable], shards: int) -> dict[str, NativeTable]:
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


def _pieces(table: NativeTable, shard: int) -> Any:
    if isinstance(table, umiak_native.Table):
        return table.scan(shard)
    chunk = table.chunk(shard)
    return [] if chunk is None else [chunk]
