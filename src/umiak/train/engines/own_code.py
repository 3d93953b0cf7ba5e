"""The code of a model: its file, the modules beside it, and failures in it with their place. An adapter.

    kind = imported("models/dnn/dygraph_model.py").DygraphModel      `import net` there finds models/dnn/net.py
    with running(file): ...                                          what goes wrong here is the model's

Two models may each have a `net.py`: modules that stand beside a model are its own. While its code runs, `sys.modules` has them under their names, and its
directory is the first of `sys.path`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

import umiak_native

from umiak.core.problem import Exit, UmiakError
from umiak.core.value import replace
from umiak.train.engines import model_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType, TracebackType

NO_SCALAR = "only 0-dimensional arrays can be converted"
NEWER_NUMPY = (
    "since numpy 2.4 an array of one number is no scalar, which PaddlePaddle 3.3.1 and PaddleRec's code rely on: "
    "`python -m pip install 'numpy<2.4'`"
)
_beside: dict[str, dict[str, ModuleType]] = {}
"""The modules beside each model, by directory; those of the current one are in `sys.modules`."""
_current: list[str] = []
"""The directory whose modules are there now."""


def imported(path: str, where: str | None = None) -> ModuleType:
    """A model's file as a module. UmiakError if it is not there, is written for `paddle.fluid`, or fails."""
    name = _name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        what = f"the model's file is not there, or is no Python file: {path}"
        raise UmiakError.of("UM-TRAIN-013", what, where=where)
    with open(path, "rb") as text:
        _refuse_old(model_text.look(text.read(), path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with running(path):
        spec.loader.exec_module(module)
    return module


def modules_of(file: str) -> dict[str, ModuleType]:
    """The module of a model's file, if it was imported, and those beside it that were."""
    directory = os.path.dirname(os.path.abspath(file))
    _turn_to(directory)
    names = [name for name in (_name(file), *_names_below(directory)) if name in sys.modules]
    return {name: sys.modules[name] for name in names}


def put_back(file: str, modules: Mapping[str, ModuleType]) -> None:
    """Let these be the imported modules of a model again, as `modules_of` has given them: others are imported when they are asked for."""
    for name in modules_of(file):
        del sys.modules[name]
    sys.modules.update(modules)


@contextmanager
def running(file: str) -> Iterator[None]:
    """What goes wrong here is the model's."""
    _turn_to(os.path.dirname(os.path.abspath(file)))
    try:
        yield
    except UmiakError as error:
        own = _own_frames(error, file)
        if own:
            # What it has asked of umiak, by a line of its own.
            error.problems = tuple(
                [replace(each, where=each.where or _place(error, own, file)) for each in error.problems]
            )
        raise
    except umiak_native.PsError:
        raise
    except (Exception, SystemExit) as error:
        raise failure(error, file) from error


def failure(error: BaseException, file: str) -> UmiakError:
    """The failure of a model's code, with its place in the model's file, or in one beside it. Its traceback begins there: the way to it is ours."""
    own = _own_frames(error, file)
    is_text = isinstance(error, SyntaxError)
    traceback.print_exception(type(error), error, own[0] if own else None if is_text else error.__traceback__)
    told = " ".join(str(error).split())
    if isinstance(error, SystemExit):
        told = f"{error.code}: a model that ends its process ends the training"
    what = f"the model's code failed: {type(error).__name__}: {told if len(told) <= 300 else told[:297] + '...'}"
    hint = NEWER_NUMPY if isinstance(error, TypeError) and NO_SCALAR in told else None
    return UmiakError.of("UM-TRAIN-021", what, hint=hint, where=_place(error, own, file), exit_status=Exit.JOB_FAILED)


def _place(error: BaseException, own: list[TracebackType], file: str) -> str:
    if isinstance(error, SyntaxError):
        name = os.path.join(os.path.dirname(file), os.path.basename(error.filename or file))
        return name if error.lineno is None else f"{name}:{error.lineno}"
    if not own:
        return file
    # As the config has the directory.
    found = os.path.relpath(own[-1].tb_frame.f_code.co_filename, os.path.dirname(os.path.abspath(file)))
    return f"{os.path.join(os.path.dirname(file), found)}:{own[-1].tb_lineno}"


def _own_frames(error: BaseException, file: str) -> list[TracebackType]:
    is_own = _is_beside(os.path.dirname(os.path.abspath(file)))
    return [at for at in _frames(error.__traceback__) if is_own(at.tb_frame.f_code.co_filename)]


def _is_beside(directory: str) -> Callable[[str], bool]:
    return lambda name: os.path.abspath(name).startswith(f"{directory}{os.sep}")


def _frames(at: TracebackType | None) -> Iterator[TracebackType]:
    while at is not None:
        yield at
        at = at.tb_next


def _refuse_old(seen: model_text.Text) -> None:
    """What is no Python is told when it is run, with the line itself."""
    old = [problem for problem in seen.problems if problem.code == model_text.OLD]
    UmiakError.raise_any(old)


def _name(file: str) -> str:
    """Under which the module of a model's file stands in `sys.modules`."""
    return f"umiak_model_{abs(hash(os.path.abspath(file)))}"


def _turn_to(directory: str) -> None:
    """Let this directory's modules be those that are imported by their names."""
    if _current == [directory]:
        return
    for other in _current:
        _beside[other] = {name: sys.modules.pop(name) for name in _names_below(other)}
        sys.path[:] = [each for each in sys.path if each != other]
    # A module of the same name from elsewhere stays where nobody of this model asks for it: its importers have it already.
    for name in [each for each in _there(directory) if each in sys.modules and not _is_part_of_python(each)]:
        for inner in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            del sys.modules[inner]
    sys.modules.update(_beside.pop(directory, {}))
    sys.path.insert(0, directory)
    _current[:] = [directory]


def _names_below(directory: str) -> list[str]:
    """Modules that were imported from this directory, and those in packages that were. A module in it that has a longer name is not the model's."""
    tops = {name for name in _there(directory) if _is_from(sys.modules.get(name), directory)}
    return [name for name in sys.modules if name.partition(".")[0] in tops]


def _is_from(module: ModuleType | None, directory: str) -> bool:
    file = getattr(module, "__file__", None) or ""
    return _is_beside(directory)(file)


def _there(directory: str) -> list[str]:
    """Names under which something in this directory can be imported."""
    try:
        found = sorted(os.listdir(directory))
    except OSError:
        return []
    files = [name[:-3] for name in found if name.endswith(".py")]
    return [*files, *(name for name in found if os.path.isfile(os.path.join(directory, name, "__init__.py")))]


def _is_part_of_python(name: str) -> bool:
    """What must not be imported again: the standard library, and what trainers themselves stand on."""
    return name in sys.stdlib_module_names or name in ("numpy", "paddle", "umiak", "umiak_native")
