"""Workers of a launcher as forks of it, in the place of programs: they have imported Paddle already, which takes a process two seconds of a core.

    forked_workers.LAUNCH            in the place of `launching.LAUNCH`: `umiak launch` with Paddle imported, for scripts of people
    forked_workers.install()         in a process that has imported Paddle, for `umiak train`

For tests of what a training comes to. What a test says of processes, signals, or what a worker inherits needs `Work.run`, whose workers are programs.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import multiprocessing
import os
import runpy
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import util
from pathlib import Path
from typing import Any, NoReturn

from umiak.adapters import own_modules

_ROOT = str(Path(__file__).parents[2])
_START = f"import sys; sys.path.insert(0, {_ROOT!r}); from tests.support import forked_workers; forked_workers.launch()"
LAUNCH = (sys.executable, "-c", _START)
_execute = os.execvpe
_TRAINING = (sys.executable, "-u", *own_modules.start_words("umiak.cli.main"))


def install() -> None:
    """In this process, and in those that it forks."""
    os.execvpe = _fork_goes_on  # type: ignore[assignment]


def launch() -> NoReturn:
    """`umiak launch` in a process that has imported Paddle."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import paddle  # noqa: F401
    from umiak.cli.main import main

    sys.path.remove(_ROOT)
    install()
    sys.exit(main(["launch", *sys.argv[1:]]))


def _fork_goes_on(file: str, argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """What a fork does instead of executing `umiak train`, or a script of a person; other programs are executed."""
    if tuple(argv[: len(_TRAINING)]) == _TRAINING:
        _go_on(["umiak", *argv[len(_TRAINING) :]], environ, _train)
    if [*argv[:2]] == [sys.executable, "-u"] and argv[2].endswith(".py"):
        _go_on(argv[2:], environ, _script)
    _execute(file, list(argv), dict(environ))
    raise AssertionError


def _train() -> Any:
    from umiak.cli.main import main

    return main(sys.argv[1:])


def _script() -> None:
    """As Python does it: paths of variables are looked in, and `sitecustomize` is imported, which knows that Paddle is there."""
    own = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = [str(Path(sys.argv[0]).parent), *own, *(each for each in sys.path[1:] if each not in own)]
    for name in ("sitecustomize", "umiak.cli.main"):
        sys.modules.pop(name, None)
    with contextlib.suppress(ImportError):
        import sitecustomize  # noqa: F401
    runpy.run_path(sys.argv[0], run_name="__main__")


def _go_on(argv: Sequence[str], environ: Mapping[str, str], program: Callable[[], Any]) -> NoReturn:
    _leave_what_a_program_would_not_have()
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = [*argv]
    status = 1
    try:
        status = program() or 0
        util._exit_function()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - whatever it is, this process must not go on as the launcher
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _leave_what_a_program_would_not_have() -> None:
    """Descriptors and handlers of the launcher. Numbers of descriptors stay taken: objects of the launcher may still close them."""
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the list itself
            if int(name) > 2 and int(name) != null and fcntl.fcntl(int(name), fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                os.dup2(null, int(name))
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, "w", closefd=False), encoding="utf-8", line_buffering=True)
        for number in (1, 2)
    )
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
