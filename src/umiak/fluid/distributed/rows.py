"""The rows of one run of a program: pulled where it looks them up, and their gradients collected for the push. A program, for Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.record.program import GRADIENT
from umiak.ps.paddle import floats, tensor_of
from umiak.ps.tables.lookup import Lookup, as_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from umiak.data.array_types import AnyArray
    from umiak.ps.tables.lookup import EmbeddingTable, Keys


class _Pulled:
    """One pull: its lookup, and the outputs that share it, each with its shape."""

    def __init__(self, lookup: Lookup, outputs: Sequence[str], shapes: list[tuple[int, ...]]) -> None:
        self.lookup, self.outputs, self.shapes = lookup, outputs, shapes


class StepRows:
    """What `table_rows` asks: `umiak.fluid.kernels.exchange`."""

    def __init__(self, table: Callable[[str], EmbeddingTable], *, create: bool, learns: bool) -> None:
        self._table, self._create, self._learns = table, create, learns
        self._pulled: list[_Pulled] = []

    def rows(self, table: str, arrays: list[AnyArray], outputs: Sequence[str], padding: int | None) -> list[Any]:
        """The rows of several ids, with one pull."""
        flat = [each.reshape(-1) for each in arrays]
        keys = as_keys(flat[0] if len(flat) == 1 else np.concatenate(flat))
        lookup = Lookup(self._table(table), keys, self._each(keys.size), padding=padding)
        rows = lookup.rows(create=self._create)
        width = rows.shape[-1]
        shapes = [(*each.shape, width) for each in arrays]
        if self._learns:
            self._pulled.append(_Pulled(lookup, tuple(outputs), shapes))
        parts = np.split(rows, np.cumsum([each.size for each in flat])[:-1])
        on_cpu = paddle.device.get_device() == "cpu"
        found = []
        for part, shape in zip(parts, shapes, strict=True):
            shaped = part.reshape(shape)
            tensor = tensor_of(shaped) if on_cpu and part.size else paddle.to_tensor(shaped)
            tensor.stop_gradient = not self._learns
            found.append(tensor)
        return found

    @staticmethod
    def _each(count: int) -> Keys:
        """Offsets of bags with one key each: keys that several of them have are pulled and pushed once."""
        return np.arange(count + 1, dtype=np.uint64)

    def collect(self, values: Mapping[str, Any]) -> None:
        """The gradients of outputs among the values of a run, for the next push. Those that share a pull have all a gradient, or none."""
        for pulled in self._pulled:
            if f"{pulled.outputs[0]}{GRADIENT}" not in values:
                continue
            pairs = zip(pulled.outputs, pulled.shapes, strict=True)
            parts = [floats(values[f"{name}{GRADIENT}"]).reshape(-1, shape[-1]) for name, shape in pairs]
            pulled.lookup.collect(parts[0] if len(parts) == 1 else np.concatenate(parts))
