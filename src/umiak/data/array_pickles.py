"""Reads files that `paddle.save` or Paddle 1.8 wrote, which are pickles of arrays, and nothing that could run code. An adapter.

A pickle can run any code when it is read in the usual way. So these are read by a reader that makes numpy arrays, numbers, texts and plain
containers of them, and refuses everything else.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

NAMES = "StructuredToParameterName@@"
"""The key under which Paddle writes the names that parameters have in its optimizers."""
_PARTS = "UnpackBigParamInfor@@"
"""The key under which Paddle says how arrays of more than 1 GB were cut."""

_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("builtins", "tuple"): tuple,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}
_NUMPY = {"_reconstruct", "scalar", "_frombuffer"}
"""What numpy's own arrays and numbers are made with."""
_CODECS = ("_codecs", "encode")
"""How Python 3 writes bytes for Python 2."""


class UnreadablePickle(ValueError):
    """It can't be read, and why."""


class _ArraysOnly(pickle.Unpickler):
    """Makes arrays and plain containers."""

    def find_class(self, module: str, name: str) -> Any:
        found = _ALLOWED.get((module, name))
        if found is not None:
            return found
        if name in _NUMPY and module in ("numpy.core.multiarray", "numpy._core.multiarray", "numpy._core.numeric"):
            return super().find_class(module, name)
        if (module, name) == _CODECS:
            return _latin1
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only arrays are read")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(f"it refers to something outside of the file: {pid!r}")


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it has bytes written as {encoding}, and only latin1 is read")
    return text.encode("latin1")


def read(file: str) -> Any:
    """What a file holds, if it is arrays, numbers, texts and plain containers. UnreadablePickle if it is not, OSError if it is not there."""
    try:
        with open(file, "rb") as opened:
            # Texts of Python 2 are bytes; arrays among them are read right as latin1 alone.
            found = _ArraysOnly(opened, encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise UnreadablePickle(" ".join(str(error).split()) or type(error).__name__) from error
    return _joined(found) if isinstance(found, dict) else found


def _joined(found: JsonObject) -> JsonObject:
    """The same with arrays whole that were cut because they are large."""
    for name, how in (found.pop(_PARTS, None) or {}).items():
        pieces = [found.pop(part) for part in how["slices"]]
        found[name] = np.concatenate([each.reshape(-1) for each in pieces]).reshape(how["OriginShape"])
    return found
