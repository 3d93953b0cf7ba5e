"""Requests with raw features for a model that was trained with a section `features:`. An adapter: its lock lies beside the inference model.

    raw = of(version.path, signature)                     None: the model takes slots
    raw.request(b'{"instances": [{"user": "x", "price": 3}]}') -> InferenceRequest

The lock alone says what becomes of columns; a model that does not fit it is refused when it is loaded, not when somebody asks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.core.problem import UmiakError
from umiak.core.shown import one_line
from umiak.data import features
from umiak.data.features.lock_files import NAME
from umiak.schema.features.section import NumberingKind
from umiak.serving.protocol import InferenceRequest, instances_of
from umiak.web.messages import HttpRefusal

if TYPE_CHECKING:
    from umiak.serving.protocol import ServedInput, ServedSignature


def of(path: str, signature: ServedSignature) -> RawFeatures | None:
    """That of the lock in a directory, if there is one. UmiakError if it is damaged, or of another model."""
    lock = os.path.join(path, NAME)
    return RawFeatures(features.read_lock(lock), signature) if os.path.exists(lock) else None


class RawFeatures:
    """Columns in, inputs of the model out."""

    def __init__(self, lock: features.FeatureLock, signature: ServedSignature) -> None:
        """ValueError if the model has an input that is no feature, or one of another form."""
        self.transform = features.FeatureTransform(lock)
        self._inputs = signature.inputs
        fed = {each.name: each for each in lock.section.fed}
        for wanted in self._inputs:
            feature = fed.get(wanted.name)
            if feature is None:
                raise ValueError(
                    f"the lock of features has no {wanted.name}, which is an input: it is of another model"
                )
            if feature.has_ids != wanted.is_sparse or (not wanted.is_sparse and wanted.shape[1:] != (feature.dim,)):
                raise ValueError(
                    f"feature {wanted.name} is of another form than the input: the lock is of another model"
                )
        self._tables = {each.name: each.table for each in fed.values() if _is_numbered(each)}

    def request(self, body: bytes) -> InferenceRequest:
        """HttpRefusal if it is none."""
        instances = instances_of(body)
        try:
            batch = self.transform.rows(instances)
        except UmiakError as error:
            problem = error.problems[0]
            raise HttpRefusal(
                400, one_line(f"{problem.what}: {problem.hint}" if problem.hint else problem.what)
            ) from error
        arrays = {each.name: self._array(each, batch.features[each.name]) for each in self._inputs}
        return InferenceRequest(arrays=arrays, rows=batch.rows)

    def _array(self, wanted: ServedInput, column: features.FeatureColumn) -> Any:
        if column.ids is None:
            return column.numbers
        table = self._tables.get(wanted.name)
        keys = column.ids if table is None else features.keys_of(table, column.ids)
        lengths = np.ones(len(keys), np.int64) if column.lengths is None else column.lengths
        array = np.full((len(lengths), max(1, int(lengths.max(initial=1)))), wanted.padding or 0, np.int64)
        array[np.arange(array.shape[1]) < lengths[:, None]] = keys.view(np.int64)
        return array


def _is_numbered(feature: features.Feature) -> bool:
    """Whether its ids are small numbers, which a model looks up as keys that no other table has."""
    return feature.numbering is not None and feature.numbering.kind is not NumberingKind.OPEN
