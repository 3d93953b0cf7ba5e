"""Makes a Python worker show where it hangs. Python imports this file by itself at start-up; see contracts/stacks.py. An adapter.

This directory holds nothing else, and comes first on the PYTHONPATH of workers that run under ``--hang_timeout``. When
such a worker gets the signal UMIAK_STACK_SIGNAL, the stacks of all its threads are appended to UMIAK_STACK_FILE, even
if it is stuck in C code: faulthandler needs no turn of the interpreter. Then the directory takes itself off sys.path
and the ``sitecustomize`` that it stands in front of, if there is one, is imported as if nothing had happened.

A worker must never fail because of this file, and any Python may import it: keep its syntax old and its imports few.
"""

import os
import sys


def _show_stacks_on_signal() -> None:
    number, path = os.environ.get("UMIAK_STACK_SIGNAL"), os.environ.get("UMIAK_STACK_FILE")
    if not number or not path:
        return
    import faulthandler

    # A bare descriptor that nobody closes, so that it lives as long as the process does.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    faulthandler.register(int(number), file=descriptor, all_threads=True, chain=False)


def _stand_aside() -> None:
    here = os.path.dirname(__file__)
    sys.path[:] = [entry for entry in sys.path if entry.rstrip(os.sep) != here]


def _import_shadowed() -> None:
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _show_stacks_on_signal()
except Exception:  # noqa: BLE001, S110
    pass

_stand_aside()
# What the other module raises goes to Python's site module, which reports it and goes on, as it would without us.
_import_shadowed()
