"""A batch as a program's feed: fields by their places, slots by their names. An adapter, for programs of `paddle.fluid`.

feed = feed_of(batch, program.inputs, file)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from umiak.core.problem import Exit, UmiakError
from umiak.fluid.kernels.registry import SequenceLevel, level_of
from umiak.fluid.running.scope import LoDTensor
from umiak.fluid.running.slots import SlotIds
from umiak.train.reading.batches import StackedBatch
from umiak.train.reading.datasets import places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.data.array_types import AnyArray
    from umiak.train.reading.batches import Batch


def feed_of(batch: Batch, inputs: Sequence[Any], file: str) -> dict[str, Any]:
    """What the program is fed, by the names of its inputs."""
    fields = _fields(batch, inputs, file)
    feed = {}
    known: dict[bytes, SequenceLevel] = {}
    for number, (variable, item) in enumerate(zip(inputs, fields, strict=True)):
        try:
            if isinstance(item, _Slot):
                feed[variable.name] = _slot(variable, item, batch, known)
            else:
                feed[variable.name] = _fed(variable, item)
        except (TypeError, ValueError) as error:
            what = f"field {number} of the samples does not fit the input {variable}: {error}"
            raise _misfit(what, file) from error
    return feed


def _fields(batch: Batch, inputs: Sequence[Any], file: str) -> list[Any]:
    if isinstance(batch, StackedBatch):
        if len(batch.arrays) != len(inputs):
            listed = ", ".join(each.name for each in inputs)
            what = f"samples have {len(batch.arrays)} fields, and the model's input_data {len(inputs)} inputs: {listed}"
            raise _misfit(what, file)
        return [*batch.arrays]
    slots: dict[str, Any] = {slot: np.asarray(each) for slot, each in batch.dense.items()}
    slots |= {slot: _Slot(slot, *given) for slot, given in batch.sparse.items()}
    names = [each.name for each in inputs]
    if {*names} <= {*slots}:
        return [slots[name] for name in names]
    # As in PaddleRec, inputs that have names of their own take slots in order: dense ones first.
    if len(names) == len(slots):
        return [*slots.values()]
    missing = [name for name in names if name not in slots]
    what = f"the dataset declares {len(slots)} slots, and the model's input_data {len(names)} inputs, of which no slots are: {', '.join(missing)}"
    raise _misfit(what, file)


class _Slot(NamedTuple):
    """What a sparse slot has."""

    name: str
    ids: AnyArray
    offsets: AnyArray


def _slot(variable: Any, slot: _Slot, batch: Any, known: dict[bytes, SequenceLevel]) -> Any:
    """The ids of a slot; as arrays only if somebody asks, where these are certain to fit."""
    if variable.lod_level != 1:
        return _fed(variable, {places.ROWS: slot.ids, places.LENGTHS: [np.diff(slot.offsets)]})
    if variable.dtype == "int64" and all(size == 1 for size in variable.shape[1:]):
        return SlotIds(batch, slot.name, lambda: _sequences(variable, slot, known))
    return _sequences(variable, slot, known)


def _sequences(variable: Any, slot: _Slot, known: dict[bytes, SequenceLevel]) -> LoDTensor:
    """Most slots of a batch have as many ids in each sample as one another: the same offsets are looked at once."""
    key = slot.offsets.tobytes()
    if key not in known:
        known[key] = level_of(slot.offsets)
    return LoDTensor(_sized(variable, slot.ids), [known[key]])


def _sized(variable: Any, rows: AnyArray) -> AnyArray:
    rows, sizes = rows.astype(variable.dtype, copy=False), variable.shape[1:]
    return rows.reshape([len(rows), *sizes]) if all(size >= 0 for size in sizes) else rows


def _fed(variable: Any, item: Any) -> Any:
    if variable.lod_level:
        rows, offsets = places.sequences(item, variable.lod_level)
        return LoDTensor(_sized(variable, rows), offsets)
    if isinstance(item, dict) and all((each == each[0]).all() for each in item[places.LENGTHS] if len(each)):
        item = _even(item)
    array = places.whole(item).astype(variable.dtype, copy=False)
    sizes = [int(size) for size in variable.shape]
    if array.ndim == len(sizes) and all(own in (-1, size) for own, size in zip(sizes, array.shape, strict=True)):
        return array
    unknown = sum(size < 0 for size in sizes)
    if unknown <= 1:
        return array.reshape(sizes)
    if array.ndim == len(sizes):
        return array
    return array.reshape([len(array), *sizes[1:]])


def _even(item: dict[str, Any]) -> Any:
    """Sequences that are all as long as one another, as an array."""
    rows, lengths = item[places.ROWS], item[places.LENGTHS]
    sizes = [len(lengths[0]), *(int(each[0]) for each in lengths if len(each))]
    return rows.reshape([*sizes, *rows.shape[1:]])


def _misfit(what: str, file: str) -> UmiakError:
    hint = "a reader gives the fields of a sample in the order of input_data; a sequence needs lod_level"
    return UmiakError.of("UM-TRAIN-594", what, hint=hint, where=file, exit_status=Exit.JOB_FAILED)
