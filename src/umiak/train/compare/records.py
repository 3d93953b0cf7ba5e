"""What two sides of a comparison leave in files: batches, losses, and the values of all parameters after each step. An adapter.

    writer = StepWriter("DIR/umiak")
    writer.write(0, values)                     before the first step
    writer.write(1, values, loss=0.69)          after it

    for state in states("DIR/umiak"): ...       state.step, state.loss, state.values
    write_batch("DIR/batches", rank=0, step=0, fields=[...], facts={"share": 0.5})

Arrays are `.npy` files, which are mapped into memory when they are read; everything else is JSON, and nothing is pickled. Of a parameter that has not changed
nothing is written again, and of a large matrix the rows that have changed. The directory is private: the program that compares makes it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import numpy as np

from umiak.train.compare.values import RecordedBatch, RecordedState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.data.array_types import AnyArray

OURS, BATCHES = "umiak", "batches"
"""Directories: the values of umiak's side, and what its trainers got."""
FACTS = "facts.json"
INDEX = "index.json"
LARGE = 1 << 16
"""Numbers in a matrix of which changed rows are written, and not all."""


class StepWriter:
    """The values of one side, step by step."""

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self._directory = directory
        self._before: dict[str, AnyArray] = {}

    def write(self, step: int, values: Mapping[str, AnyArray], loss: float | None = None) -> None:
        place = os.path.join(self._directory, _step(step))
        os.makedirs(place)
        arrays: JsonObject = {}
        for number, (name, given) in enumerate(values.items()):
            array = np.ascontiguousarray(given).reshape(np.shape(given))
            before = self._before.get(name)
            if before is None or before.shape != array.shape or before.dtype != array.dtype:
                np.save(os.path.join(place, f"{number}.npy"), array, allow_pickle=False)
                arrays[name] = {"file": f"{number}.npy"}
                self._before[name] = array.copy()
            else:
                arrays[name] = _written_change(place, number, array, before)
        _write_json(os.path.join(place, INDEX), {"step": step, "loss": loss, "arrays": arrays})


def states(directory: str) -> Iterator[RecordedState]:
    """Step by step. Arrays must not be changed, and hold until the next state is asked for."""
    there: dict[str, AnyArray] = {}
    for name in sorted(each for each in _listed(directory) if each.startswith("step-")):
        place = os.path.join(directory, name)
        if not os.path.exists(os.path.join(place, INDEX)):
            return  # a process that failed was writing it
        index = _read_json(os.path.join(place, INDEX))
        for parameter, told in index["arrays"].items():
            if "rows" in told:
                if not there[parameter].flags.writeable:
                    there[parameter] = np.array(there[parameter])
                there[parameter][_array(place, told["rows"])] = _array(place, told["file"])
            elif "file" in told:
                there[parameter] = _array(place, told["file"])
        yield RecordedState(
            step=index["step"],
            loss=index["loss"],
            values={parameter: there[parameter] for parameter in index["arrays"]},
        )


def write_batch(directory: str, *, rank: int, step: int, fields: Any, facts: JsonMapping) -> None:
    """What a trainer gets in a step; fields without arrays (None) if it has run out."""
    place = os.path.join(directory, f"trainer-{rank}", _step(step))
    os.makedirs(place)
    arrays: list[AnyArray] = []
    skeleton = _packed(fields, arrays)
    for number, array in enumerate(arrays):
        np.save(os.path.join(place, f"{number}.npy"), array, allow_pickle=False)
    _write_json(os.path.join(place, INDEX), {"fields": skeleton, "facts": dict(facts)})


def batches(directory: str, rank: int) -> Iterator[RecordedBatch]:
    """Those of a trainer, in order."""
    root = os.path.join(directory, f"trainer-{rank}")
    for name in sorted(_listed(root)):
        place = os.path.join(root, name)
        if not os.path.exists(os.path.join(place, INDEX)):
            return
        told = _read_json(os.path.join(place, INDEX))
        yield RecordedBatch(fields=_unpacked(told["fields"], place), facts=told["facts"])


def write_facts(directory: str, facts: JsonMapping) -> None:
    """What the other side has to know."""
    os.makedirs(directory, exist_ok=True)
    _write_json(os.path.join(directory, FACTS), facts)


def facts(directory: str) -> JsonObject:
    """What was written about a side; nothing if there is nothing."""
    path = os.path.join(directory, FACTS)
    found: JsonObject = _read_json(path) if os.path.exists(path) else {}
    return found


def _step(step: int) -> str:
    return f"step-{step:08d}"


def _listed(directory: str) -> list[str]:
    return os.listdir(directory) if os.path.isdir(directory) else []


def _written_change(place: str, number: int, array: AnyArray, before: AnyArray) -> JsonObject:
    """Write what of an array is another one than ``before``, which becomes equal to it."""
    bits = _bits(array)
    changed = np.flatnonzero(bits != _bits(before))
    if not changed.size:
        return {"same": True}
    file = f"{number}.npy"
    if array.ndim == 2 and array.size >= LARGE:
        rows = np.unique(changed // (bits.size // len(array)))
        if rows.size < len(array) // 2:
            np.save(os.path.join(place, f"{number}.rows.npy"), rows, allow_pickle=False)
            np.save(os.path.join(place, file), array[rows], allow_pickle=False)
            before[rows] = array[rows]
            return {"file": file, "rows": f"{number}.rows.npy"}
    np.save(os.path.join(place, file), array, allow_pickle=False)
    before[...] = array
    return {"file": file}


def _bits(array: AnyArray) -> AnyArray:
    """Numbers as they are stored: a NaN is equal to itself here."""
    return array.reshape(-1).view(f"u{min(array.itemsize, 8)}")


def _array(place: str, file: str) -> AnyArray:
    path = os.path.join(place, file)
    try:
        array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:  # nothing in it that could be mapped
        array = np.load(path, allow_pickle=False)
    return array


def _packed(item: Any, arrays: list[AnyArray]) -> Any:
    if isinstance(item, np.ndarray):
        arrays.append(item)
        return {"array": len(arrays) - 1}
    if isinstance(item, (list, tuple)):
        return {"list": [_packed(each, arrays) for each in item]}
    if isinstance(item, dict):
        return {"dict": {str(name): _packed(each, arrays) for name, each in item.items()}}
    return {"plain": item.item() if isinstance(item, np.generic) else item}


def _unpacked(told: JsonObject, place: str) -> Any:
    if "array" in told:
        # A copy: tensors are made of it, and models may change theirs.
        return np.array(_array(place, f"{told['array']}.npy"))
    if "list" in told:
        return [_unpacked(each, place) for each in told["list"]]
    if "dict" in told:
        return {name: _unpacked(each, place) for name, each in told["dict"].items()}
    return told["plain"]


def _write_json(path: str, told: JsonMapping) -> None:
    partial = f"{path}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(told, file)
    os.replace(partial, path)


def _read_json(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)
