"""`save_dygraph` and `load_dygraph`: states of layers and optimizers in `.pdparams` and `.pdopt`, as 1.8 writes them. An adapter.

They are pickles of arrays; nothing else is made of what a file says.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import paddle

from umiak.data import array_pickles
from umiak.fluid.record.problems import bad
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Arguments, Folder, Value

WEIGHTS, OPTIMIZER = ".pdparams", ".pdopt"


def save_dygraph(state_dict: Arguments, model_path: Folder) -> None:
    """A state with parameters becomes `PATH.pdparams`, any other one `PATH.pdopt`."""
    if not state_dict:
        raise bad("UM-FLUID-007", "save_dygraph: the state is empty", "a state of SGD is", where=user_line())
    base = str(model_path)
    if not os.path.basename(base):
        raise bad("UM-FLUID-007", f"save_dygraph: expected folder/name, got {base}", where=user_line())
    parameters = any(isinstance(each, paddle.base.framework.EagerParamBase) for each in state_dict.values())
    content = {key: each.numpy() if isinstance(each, paddle.Tensor) else each for key, each in state_dict.items()}
    names = {key: each.name for key, each in state_dict.items() if isinstance(each, paddle.Tensor)}
    content[array_pickles.NAMES] = names
    write(Path(f"{base}{WEIGHTS if parameters else OPTIMIZER}"), content)


def write(path: Path, content: Arguments) -> None:
    """A whole file, or the one before: it is put in place when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as opened:
            pickle.dump(content, opened, protocol=2)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def load_dygraph(model_path: Folder, keep_name_table: bool = False) -> tuple[Arguments, Arguments | None]:
    """The state of the layers, and that of the optimizer, None if there is none."""
    base = str(model_path)
    for ending in (WEIGHTS, OPTIMIZER):
        base = base.removesuffix(ending)
    states = [read(f"{base}{ending}") for ending in (WEIGHTS, OPTIMIZER)]
    weights, optimizer = (state if state is None or keep_name_table else without_names(state) for state in states)
    if weights is None:
        what = f"load_dygraph: expected {base}{WEIGHTS}, found nothing"
        raise bad("UM-FLUID-007", what, "give the path that save_dygraph was given", where=user_line())
    return weights, optimizer


def read(file: str) -> Arguments | None:
    """The state in a file; None if it is not there."""
    try:
        state = array_pickles.read(file)
    except FileNotFoundError:
        return None
    except (array_pickles.UnreadablePickle, OSError) as error:
        raise bad("UM-FLUID-007", f"can't read {file}", why=str(error), where=user_line()) from None
    if not isinstance(state, dict):
        raise bad("UM-FLUID-007", f"can't read {file}", why=f"it holds a {type(state).__name__}", where=user_line())
    return {name: _array(each) for name, each in state.items()}


def _array(item: Value) -> Value:
    """Newer versions of Paddle write a pair of a name and an array."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], np.ndarray):
        return item[1]
    return item


def without_names(state: Arguments) -> Arguments:
    """A state without the table of names."""
    return {name: each for name, each in state.items() if name != array_pickles.NAMES}
