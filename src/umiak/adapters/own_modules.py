"""How this umiak starts a module of its own in another process, installed or as the one file that came with a job.
An adapter.

command("umiak.launch.preflight")     python -u -P -m umiak.launch.preflight
                                      python -u /run/7/umiak-launcher.pyz -m umiak.launch.preflight
start_words("umiak.launch")            -P -m umiak.launch
directories()                         where another Python of this machine would find umiak and its native core
"""

from __future__ import annotations

import os
import sys

OWN = "umiak"


def command(module: str) -> tuple[str, ...]:
    """The words to execute, without the module's own."""
    file = launcher_file()
    return (sys.executable, "-u", *((file, "-m", module) if file else start_words(module)))


def start_words(module: str) -> tuple[str, ...]:
    """How an interpreter of this version starts a module without looking for modules in the working directory.

    `python -m` puts the working directory before everything else: there,
    a `json.py` that somebody else has left would run as this user. Before Python 3.11 there is no flag against it.
    """
    if sys.version_info >= (3, 11):
        return ("-P", "-m", module)
    start = f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return ("-c", f"import sys; del sys.path[0]; import runpy; {start}")


def is_own(module: str) -> bool:
    """Whether this is a module of ours; a person's own is started as Python does it."""
    return module == OWN or module.startswith(f"{OWN}.")


def launcher_file() -> str:
    """The file that this launcher runs from; empty if it is installed. Said by the file's first module."""
    path: str = getattr(sys.modules["umiak"], "__launcher_file__", "")
    return path


def directories() -> tuple[str, ...]:
    """What holds the packages `umiak` and `umiak_native`.
    Nothing in the file that came with a job: it has no parameter servers.
    """
    from _frozen_importlib_external import PathFinder  # importlib.machinery costs a millisecond

    if launcher_file():
        return ()
    directories: dict[str, None] = {}
    for name in ("umiak", "umiak_native"):
        loaded = sys.modules.get(name)
        spec = loaded.__spec__ if loaded else PathFinder.find_spec(name)
        if spec and spec.origin:
            directories[_above(spec.origin)] = None
    return tuple(directories)


def _above(origin: str) -> str:
    directory = os.path.dirname(os.path.abspath(origin))
    return os.path.dirname(directory) if os.path.basename(origin).startswith("__init__.") else directory
