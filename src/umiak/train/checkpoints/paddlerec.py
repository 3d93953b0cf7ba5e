"""Checkpoints as PaddleRec 2 has them: `rec.pdparams` and `rec.pdopt` in a directory for each epoch. An adapter.

    paddlerec.is_there("output_model/2")            weights are there, and no checkpoint of ours
    paddlerec.weights("output_model/2")             arrays by the names that `state_dict` has
    paddlerec.has_variables("increment/2")          a file for each variable is there, as 1.8.5 saves them

The files are pickles, and are read by `umiak.data.array_pickles`, which makes arrays and nothing that could run code.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.core.problem import UmiakError
from umiak.data import array_pickles
from umiak.ps.manifest import FILE_NAME

if TYPE_CHECKING:
    from umiak.data.array_types import AnyArray

WEIGHTS, OPTIMIZER = "rec.pdparams", "rec.pdopt"


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether a directory has PaddleRec's weights and is no checkpoint of ours."""
    return os.path.isfile(os.path.join(path, WEIGHTS)) and not os.path.exists(os.path.join(path, FILE_NAME))


def has_variables(path: str | os.PathLike[str]) -> bool:
    """Whether a directory has a file for each variable, as PaddleRec 1.8.5 saves them, and is no checkpoint of ours."""
    if os.path.exists(os.path.join(path, FILE_NAME)):
        return False
    try:
        files = [each for each in Path(path).iterdir() if each.is_file() and not each.name.startswith(".")]
        return any(_begins_as_variable(each) for each in files)
    except OSError:
        return False


def _begins_as_variable(file: Path) -> bool:
    """Version 0 of the file, no levels of sequences, version 0 of the tensor."""
    with open(file, "rb") as opened:
        return opened.read(16) == bytes(16)


def below(path: str | os.PathLike[str]) -> list[Path]:
    """The directories of epochs in a directory, by number."""
    try:
        found = [
            each for each in Path(path).iterdir() if each.name.isdecimal() and (is_there(each) or has_variables(each))
        ]
    except OSError:
        return []
    return sorted(found, key=lambda each: int(each.name))


def weights(path: str | os.PathLike[str]) -> dict[str, AnyArray]:
    """The arrays of a directory's weights. UmiakError if the file is something else."""
    file = os.path.join(path, WEIGHTS)
    found = read(file)
    if not isinstance(found, dict):
        raise _unreadable(file, f"it holds a {type(found).__name__}")
    return {name: each for name, item in found.items() if (each := _array(item)) is not None}


def read(file: str) -> Any:
    """What a file of `paddle.save` holds, if it is arrays, numbers, texts and plain containers. UmiakError if not."""
    try:
        return array_pickles.read(file)
    except array_pickles.UnreadablePickle as error:
        raise _unreadable(file, str(error)) from error
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from error


def _array(item: Any) -> AnyArray | None:
    """A weight, which newer versions of Paddle write as a pair of its name and its numbers."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], np.ndarray):
        item = item[1]
    return item if isinstance(item, np.ndarray) else None


def _unreadable(file: str, why: str) -> UmiakError:
    return UmiakError.refused(
        "UM-TRAIN-069",
        f"weights of PaddleRec can't be read: {file}",
        why=why,
        hint="it must be a file that paddle.save made of a model's state_dict",
    )
