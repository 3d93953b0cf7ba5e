"""Loads an inference model of umiak for MLflow: `_load_pyfunc(path)`, as its python_function flavor asks for. An adapter, for Paddle.

This file is copied into the directory of a model. It needs numpy and paddlepaddle, nothing of umiak.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np


def _load_pyfunc(path: str) -> UmiakModel:
    """What MLflow calls, with the directory of the data."""
    return UmiakModel(path)


class UmiakModel:
    """A model whose inputs are columns: of a DataFrame, or of a dictionary of lists or arrays."""

    def __init__(self, path: str) -> None:
        from paddle import inference

        with open(os.path.join(path, "signature.json"), encoding="utf-8") as file:
            self.signature: dict[str, Any] = json.load(file)
        config = inference.Config(os.path.join(path, "inference.json"), os.path.join(path, "inference.pdiparams"))
        config.disable_glog_info()
        self._predictor = inference.create_predictor(config)

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """A row for each row: a DataFrame for a DataFrame, else a dictionary of arrays."""
        del params
        arrays = {each["name"]: _array(each, model_input) for each in self.signature["inputs"]}
        sizes = {name: array.shape[0] for name, array in arrays.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"columns of different lengths: {sizes}")
        for name in self._predictor.get_input_names():
            self._predictor.get_input_handle(name).copy_from_cpu(arrays[name])
        self._predictor.run()
        found = {}
        names = [each["name"] for each in self.signature["outputs"]]
        for name, own in zip(names, self._predictor.get_output_names(), strict=True):
            wide = self._predictor.get_output_handle(own).copy_to_cpu()
            wide = wide.reshape(wide.shape[0], -1)
            for number in range(wide.shape[1]):
                found[name if wide.shape[1] == 1 else f"{name}_{number}"] = wide[:, number]
        if not hasattr(model_input, "columns"):
            return found
        import pandas as pd

        return pd.DataFrame(found, index=model_input.index)


def _array(of: dict[str, Any], table: Any) -> Any:
    """A column as the model takes it: a value or a list in each row; ids are filled up to the longest list."""
    if of["name"] not in table:
        raise ValueError(f"column {of['name']} is missing: the model needs it")
    column = table[of["name"]]
    rows = [_values(each) for each in (column.tolist() if hasattr(column, "tolist") else column)]
    padding, width = of.get("padding"), (of["shape"][1:] or [1])[0]
    if padding is not None and width is None:
        longest = max([1, *(len(each) for each in rows)])
        rows = [each + [padding] * (longest - len(each)) for each in rows]
    array = np.array(rows)
    if of["dtype"].startswith("int") and array.dtype.kind == "f":
        raise ValueError(f"column {of['name']} has fractions, or rows without an id: the model wants ids")
    array = np.ascontiguousarray(array.astype(of["dtype"]))
    shape = [
        len(rows),
        *(array.shape[number] if size is None else size for number, size in enumerate(of["shape"]) if number),
    ]
    if array.size != np.prod(shape, dtype=np.int64):
        raise ValueError(f"column {of['name']} has the shape {list(array.shape)}, and the model wants {of['shape']}")
    return array.reshape(shape)


def _values(item: Any) -> list[Any]:
    if item is None:
        return []
    return list(item) if isinstance(item, (list, tuple, np.ndarray)) else [item]
