"""What umiak's launcher puts into a Python worker.
Python imports this file by itself at start-up; see contracts/injected.py. An adapter.

This directory holds nothing else, and comes first on the PYTHONPATH of workers that need one of these things:

UMIAK_STACK_SIGNAL  (``--hang_timeout``) When the worker gets this signal, the stacks of all its threads are appended to
                    UMIAK_STACK_FILE, even if it is stuck in C code: faulthandler needs no turn of the interpreter.
UMIAK_FLEET         (jobs with parameter servers, unless ``--no_compat``) As soon as the worker has imported paddle,
                    `umiak.fleet.patching.install()` is called. A worker without paddle notices nothing.

UMIAK_FLUID         (unless ``--no_compat``) When the worker imports paddle.fluid and its Paddle has none, it is umiak's.

Then the directory takes itself off sys.path and the ``sitecustomize`` that it stands in front of,
if there is one, is imported as if nothing had happened.

A worker must never fail because of this file, and any Python may import it: keep its syntax old and its imports few.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OLDEST_PYTHON = (3, 10)
_OWN_PACKAGES = ("umiak", "umiak_native")


def _show_stacks_on_signal() -> None:
    number, path = os.environ.get("UMIAK_STACK_SIGNAL"), os.environ.get("UMIAK_STACK_FILE")
    if not number or not path:
        return
    import faulthandler

    # A bare descriptor that nobody closes, so that it lives as long as the process does. A log directory may be one
    # where others write as well: their links are not followed, and their pipes not waited for.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        return
    faulthandler.register(int(number), file=descriptor, all_threads=True, chain=False)


class _WaitForPaddle:
    """In front of sys.meta_path until paddle is imported: finds nothing itself, but learns when that has happened."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        # umiak's own programs, such as `umiak train`, use its servers without fleet.
        if name != "paddle" or "umiak.cli.main" in sys.modules:
            return None
        for finder in [each for each in sys.meta_path if each is not self]:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                if spec.loader is not None:
                    self._call_after(spec.loader)
                return spec
        return None

    def _call_after(self, loader: "Any") -> None:
        run = loader.exec_module

        def exec_module(module: "Any") -> None:
            run(module)
            del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            _give_fleet_to_umiak(module)

        loader.exec_module = exec_module


class _LaunchersUmiak:
    """At the end of sys.meta_path: umiak from where the launcher has it, and no other package from there."""

    def __init__(self, directories: "list[str]") -> None:
        self._directories = directories

    def find_spec(self, name: str, _path: "Any" = None, _target: "Any" = None) -> "Any":
        from _frozen_importlib_external import PathFinder

        return PathFinder.find_spec(name, self._directories) if name in _OWN_PACKAGES else None


class _FluidOfUmiak:
    """At the end of sys.meta_path: `paddle.fluid` of umiak, where Paddle has none.
    Nothing is imported before a program asks for it.
    """

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != "paddle.fluid" and not name.startswith("paddle.fluid."):
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        try:
            _find_umiak()
            importer = __import__("umiak.fluid.installing", fromlist=["install"]).install()
        except Exception as error:  # noqa: BLE001
            why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            sys.stderr.write(f"umiak: there is no paddle.fluid in this worker ({why})\n")
            return None
        # Asked here: Python goes through sys.meta_path itself, which has just changed.
        return importer.find_spec(name, path, target)


def _find_umiak() -> None:
    """Let this worker import the launcher's umiak, if its Python has none."""
    directories = os.environ.get("UMIAK_FLEET_FROM", "")
    is_new = sys.version_info >= _OLDEST_PYTHON and sys.implementation.name == "cpython"
    if directories and is_new and not any(isinstance(each, _LaunchersUmiak) for each in sys.meta_path):
        sys.meta_path.append(_LaunchersUmiak(directories.split(os.pathsep)))


def _give_fleet_to_umiak(paddle: "Any") -> None:
    """Let umiak answer what fleet asks of parameter servers.
    Whatever goes wrong, the worker has paddle as it is, and a line says why.
    """
    core = getattr(getattr(paddle, "base", None), "core", None)
    if hasattr(core, "DistFleetWrapper"):
        _leave_to_paddle("this Paddle has parameter servers of its own")
        return
    _find_umiak()
    try:
        # By its name: the launcher itself does not stand on parameter servers.
        __import__("umiak.fleet.patching", fromlist=["install"]).install()
    except Exception as error:  # noqa: BLE001
        _leave_to_paddle(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")


def _leave_to_paddle(why: str) -> None:
    # What this process starts need not say it again.
    os.environ.pop("UMIAK_FLEET", None)
    sys.stderr.write(f"umiak: the calls of paddle.distributed.fleet stay Paddle's own in this worker ({why})\n")


def _wait_for_paddle() -> None:
    if not os.environ.get("UMIAK_FLEET"):
        return
    if "paddle" in sys.modules:  # by a .pth file
        _give_fleet_to_umiak(sys.modules["paddle"])
    else:
        sys.meta_path.insert(0, _WaitForPaddle())


def _stand_aside() -> None:
    here = os.path.dirname(__file__)
    sys.path[:] = [entry for entry in sys.path if entry.rstrip(os.sep) != here]


def _import_shadowed() -> None:
    # The same as importlib.machinery and importlib.util, which take six milliseconds to import.
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

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

try:
    _wait_for_paddle()
except Exception:  # noqa: BLE001, S110
    pass

if os.environ.get("UMIAK_FLUID"):
    sys.meta_path.append(_FluidOfUmiak())

_stand_aside()
# What the other module raises goes to Python's site module, which reports it and goes on, as it would without us.
_import_shadowed()
