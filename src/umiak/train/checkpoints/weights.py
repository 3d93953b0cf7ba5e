"""All weights of a model in full size, read from the files of a checkpoint of ours. An adapter, without a framework.

    weights.read("saved/0", "", {"embedding.weight": StateEntry(shape=(60, 4), same_as="embedding.weight"), ...})

What is a table there and what is a parameter, and what learned it, makes no difference: rows of sparse tables and arrays of dense ones have the names of the model's state.
Names of layers that share a weight are one entry there, under any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.core.value import value
from umiak.ps import export
from umiak.ps.errors import bad
from umiak.ps.layers.dense import decoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from umiak.data.array_types import AnyArray

BUFFERS = "dense.buffers"
"""What no optimizer changes, where tables learn."""
MODEL = "dense.model"
"""All of a model's state, where its own optimizers learn."""
WEIGHT = "weight"
NOT_ALL_ROWS = "UM-PS-181"


@value
class StateEntry:
    """What a model's state has under a name."""

    shape: tuple[int, ...]
    same_as: str
    """The first of all names of the same tensor."""
    dtype: str = "float32"


def read(path: str, prefix: str, state: Mapping[str, StateEntry]) -> dict[str, AnyArray]:
    """What of the state is there. Tables that begin with ``prefix`` are the model's."""
    found: dict[str, AnyArray] = {}
    for name, array in _named(path, prefix, state):
        if name in state:
            found[state[name].same_as] = array
    return {name: found[entry.same_as] for name, entry in state.items() if entry.same_as in found}


def _named(path: str, prefix: str, state: Mapping[str, StateEntry]) -> Iterator[tuple[str, AnyArray]]:
    for table, spec in export.specs_of(path).items():
        if not table.startswith(prefix):
            continue
        own = table.removeprefix(prefix)
        if spec["kind"] == "sparse":
            name = f"{own}.{WEIGHT}" if own != WEIGHT else WEIGHT
            if name in state:
                yield name, _rows(path, table, name, state[name])
            continue
        for name, flat in export.arrays(path, table).items():
            if name in state:
                like = np.empty(state[name].shape, state[name].dtype)
                is_coded = own in (BUFFERS, MODEL)
                yield name, decoded(flat, like) if is_coded else flat.reshape(like.shape).astype(like.dtype)


def _rows(path: str, table: str, name: str, entry: StateEntry) -> AnyArray:
    keys, rows = export.rows(path, table)
    if len(keys) < entry.shape[0]:
        raise bad(
            NOT_ALL_ROWS,
            f"table {table} of {path} has {len(keys)} of the {entry.shape[0]} rows of {name}",
            "load a checkpoint that was saved with all rows: earlier versions left rows out that no batch had used",
        )
    whole = np.zeros((max(entry.shape[0], len(keys)), rows.shape[1]), np.float32)
    whole[keys.astype(np.int64)] = rows
    return whole
