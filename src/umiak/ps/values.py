"""Values of a checkpoint for tables that learn otherwise: another rule, another strategy. An adapter.

    values.fits(manifest, tables, shards=256)     whether `Session.load` takes it as it is, optimizer's state and all
    values.copy(path, manifest, client, tables)         only what the tables hold; moments start again

Rows are read shard by shard and set through the client, so any number of servers will do.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import numpy as np
import umiak_native

from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.ps import specs
from umiak.ps.export import PENDING
from umiak.ps.manifest import BadCheckpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.json_types import JsonMapping
    from umiak.ps.clients import Client
    from umiak.ps.manifest import Manifest
    from umiak.ps.specs import TableSpec


@value
class Opened:
    """A table of this session."""

    number: int
    spec: TableSpec


def fits(manifest: Manifest, tables: Mapping[str, Opened], *, shards: int) -> bool:
    """Whether the rows of every one of these tables in the checkpoint can be those of the job's."""
    return manifest.shards == shards and all(
        name in manifest.tables
        and not umiak_native.layout_differences(json.dumps(manifest.tables[name].spec), specs.to_json(table.spec))
        for name, table in tables.items()
    )


def copy(path: str | os.PathLike[str], manifest: Manifest, client: Client, tables: Mapping[str, Opened]) -> None:
    """Set the values of these tables. `BadCheckpoint` with everything that is missing or of another shape."""
    found = {name: manifest.tables[name].spec if name in manifest.tables else None for name in tables}
    problems = [what for name, table in tables.items() for what in _differences(name, found[name], table.spec)]
    if problems:
        hint = "start from a checkpoint of the same model"
        raise BadCheckpoint(*[Problem(code="UM-PS-116", where=str(path), what=what, hint=hint) for what in problems])
    dense = {
        name: np.zeros(sum(array.size for array in table.spec.arrays), np.float32)
        for name, table in tables.items()
        if isinstance(table.spec, specs.DenseTable)
    }
    for file in manifest.files:
        name, columns = "", (0, 0)
        for piece in umiak_native.ShardFile(os.path.join(path, file.name)):
            if piece[0] == "table":
                name = piece[1]
                columns = umiak_native.value_columns(piece[2]) if name in tables and name not in dense else (0, 0)
            elif name in dense and piece[0] == "dense":
                dense[name][piece[1] : piece[1] + piece[2].size] = piece[2]
            elif name in tables and piece[0] == "rows":
                _, keys, flags, data = piece
                there = (flags & PENDING) == 0
                first, end = columns
                rows = np.ascontiguousarray(data[there, first:end])
                if rows.size:
                    client.set(tables[name].number, keys[there], rows)
    for name, flat in dense.items():
        client.set_dense(tables[name].number, flat)


def _differences(name: str, saved: JsonMapping | None, spec: TableSpec) -> list[str]:
    if saved is None:
        return [f"there is no table {name} in it"]
    if isinstance(spec, specs.DenseTable):
        there = {each["name"]: tuple(each["shape"]) for each in saved.get("arrays", ())}
        here = {each.name: tuple(each.shape) for each in spec.arrays}
        return [
            f"table {name}: {array} has the shape {shape} here and {there.get(array, 'none')} there"
            for array, shape in here.items()
            if there.get(array) != shape
        ] or ([] if list(there) == list(here) else [f"table {name}: its arrays are {', '.join(there)}"])
    if spec.accessor is not None or saved.get("accessor"):
        differences = umiak_native.spec_differences(json.dumps(saved), specs.to_json(spec))
        return [f"table {name} has an accessor, and is described differently: {'; '.join(differences)}"]
    is_same = saved.get("dim") == spec.dim
    return [] if is_same else [f"table {name} has rows of {spec.dim} here and {saved.get('dim')} there"]
