"""Predictions as columns: what is kept of a batch, and what a model has answered. A decider.

    columns = columns_of(batch, answers, keep=("user",))      {"user": ["7", "9"], "probability": ["0.031", "0.2"]}
    csv_text(columns)                                         "7,0.031\\n9,0.2\\n"

Numbers are written with as many digits as it takes to read the very same number again.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from umiak.core.problem import UmiakError
from umiak.schema.findings import choices
from umiak.train.reading import batches
from umiak.train.reading.batches import Arrays, StackedBatch, mask_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.data.array_types import AnyArray
    from umiak.train.reading.batches import Batch

Column = "AnyArray | list[str]"
"""Numbers, or texts where a slot has any number of ids."""


def columns_of(batch: Batch, answers: Mapping[str, AnyArray], keep: Sequence[str]) -> dict[str, AnyArray | list[str]]:
    """A column for each slot that is kept, and for each number that the model has answered with."""
    found: dict[str, AnyArray | list[str]] = {name: _kept(batch, name) for name in keep}
    for name, array in answers.items():
        if array.ndim == 0 or array.shape[0] != batch.size:
            raise UmiakError.of(
                "UM-PREDICT-003",
                f"output {name} of the model has {array.shape[0] if array.ndim else 1} rows for a batch of {batch.size} samples",
                hint="a prediction needs an output with a row for each sample",
            )
        wide = array.reshape(batch.size, -1)
        for number in range(wide.shape[1]):
            found[name if wide.shape[1] == 1 else f"{name}_{number}"] = wide[:, number]
    if len(found) == len(keep):
        raise UmiakError.of(
            "UM-PREDICT-003",
            "the model has no output with a row for each sample",
            hint="a model of PaddleRec 1.8.5 answers with what save_inference_fetch_varnames names",
        )
    return found


def csv_head(names: Sequence[str]) -> str:
    """The first line."""
    return ",".join(_quoted(name) for name in names) + "\n"


def csv_text(columns: Mapping[str, AnyArray | list[str]]) -> str:
    """A line for each sample."""
    texts = [each if isinstance(each, list) else _numbers(each) for each in columns.values()]
    lines = [",".join(row) for row in zip(*texts, strict=True)]
    return "\n".join([*lines, ""]) if lines else ""


def _kept(batch: Batch, name: str) -> AnyArray | list[str]:
    if isinstance(batch, Arrays) and name in batch.kept:
        return batch.kept[name]
    there: list[str] = [*batch.dense, *batch.sparse]
    if isinstance(batch, StackedBatch):
        there = [str(number) for number in range(len(batch.arrays))]
    if name not in there:
        raise UmiakError.of("UM-PREDICT-004", f"--keep: the data has no slot {name}", hint=choices(name, there))
    try:
        return batches.column(batch, name)
    except ValueError:
        pass
    if name in batch.dense:
        return [" ".join(_numbers(row)) for row in batch.dense[name]]
    if name in batch.sparse:
        ids, offsets = batch.sparse[name]
        texts = _numbers(ids)
        return [" ".join(texts[begin:end]) for begin, end in itertools.pairwise(offsets)]
    raise UmiakError.of("UM-PREDICT-004", f"--keep: field {name} has not exactly one number in every sample")


def _numbers(array: AnyArray) -> list[str]:
    """The shortest text that stands for the same number; of texts, as CSV has them, and nothing where nothing is there."""
    if isinstance(array, np.ma.MaskedArray):
        gone = mask_of(array).tolist()
        return ["" if missing else text for text, missing in zip(_numbers(np.asarray(array)), gone, strict=True)]
    if array.dtype.kind == "O":
        return ["" if each is None else _quoted(each) for each in array]
    if array.dtype.kind in "iub":
        return [str(each) for each in array.tolist()]
    texts: list[str] = np.asarray(array).astype(np.str_).tolist()
    return texts


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(letter in name for letter in ',"\r\n') else name
