"""Checkpoints as PaddleRec 2 has them: `rec.pdparams` and `rec.pdopt` in a directory for each epoch. An adapter.

    paddlerec.is_there("output_model/2")            weights are there, and no checkpoint of ours
    paddlerec.weights("output_model/2")             arrays by the names that `state_dict` has

The files are pickles, which can run any code when they are read in the usual way. So they are read by a reader that makes numpy arrays, numbers, texts and
plain containers of them, and refuses everything else.
"""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.ps.manifest import FILE_NAME

if TYPE_CHECKING:
    from typing import BinaryIO

    from numpy.typing import NDArray

WEIGHTS, OPTIMIZER = "rec.pdparams", "rec.pdopt"
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


class _ArraysOnly(pickle.Unpickler):
    """Makes arrays and plain containers."""

    def find_class(self, module: str, name: str) -> Any:
        found = _ALLOWED.get((module, name))
        if found is not None:
            return found
        if name in _NUMPY and module in ("numpy.core.multiarray", "numpy._core.multiarray", "numpy._core.numeric"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only arrays are read")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(f"it refers to something outside of the file: {pid!r}")


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether a directory has PaddleRec's weights and is no checkpoint of ours."""
    return os.path.isfile(os.path.join(path, WEIGHTS)) and not os.path.exists(os.path.join(path, FILE_NAME))


def below(path: str | os.PathLike[str]) -> list[Path]:
    """The directories of epochs in a directory, by number."""
    try:
        found = [each for each in Path(path).iterdir() if each.name.isdecimal() and is_there(each)]
    except OSError:
        return []
    return sorted(found, key=lambda each: int(each.name))


def weights(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The arrays of a directory's weights. UmiakError if the file is something else."""
    file = os.path.join(path, WEIGHTS)
    found = read(file)
    if not isinstance(found, dict):
        raise _unreadable(file, f"it holds a {type(found).__name__}")
    return {name: each for name, item in found.items() if (each := _array(item)) is not None}


def read(file: str) -> Any:
    """What a file of `paddle.save` holds, if it is arrays, numbers, texts and plain containers. UmiakError if not."""
    try:
        with open(file, "rb") as opened:
            found = _read(opened)
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise _unreadable(file, " ".join(str(error).split()) or type(error).__name__) from error
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from error
    return _joined(found) if isinstance(found, dict) else found


def _read(opened: BinaryIO) -> Any:
    return _ArraysOnly(opened).load()


def _array(item: Any) -> NDArray[Any] | None:
    """A weight, which newer versions of Paddle write as a pair of its name and its numbers."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], np.ndarray):
        item = item[1]
    return item if isinstance(item, np.ndarray) else None


def _joined(found: dict[str, Any]) -> dict[str, Any]:
    """The same with arrays whole that were cut because they are large."""
    for name, how in (found.pop(_PARTS, None) or {}).items():
        pieces = [found.pop(part) for part in how["slices"]]
        found[name] = np.concatenate([each.reshape(-1) for each in pieces]).reshape(how["OriginShape"])
    return found


def _unreadable(file: str, why: str) -> UmiakError:
    return UmiakError(
        Problem(
            code="UM-TRAIN-069",
            what=f"weights of PaddleRec can't be read: {file}",
            why=why,
            hint="it must be a file that paddle.save made of a model's state_dict",
        ),
        exit_status=Exit.REFUSED,
    )
