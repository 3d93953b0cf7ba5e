"""How this umiak starts a module of its own in another process, installed or as the one file that came with a job. An adapter.

command("umiak.launch.preflight")     python -u -m umiak.launch.preflight
                                      python -u /run/7/umiak-launcher.pyz -m umiak.launch.preflight
"""

from __future__ import annotations

import sys


def command(module: str) -> tuple[str, ...]:
    """The words to execute, without the module's own."""
    file = launcher_file()
    return (sys.executable, "-u", *([file] if file else []), "-m", module)


def launcher_file() -> str:
    """The file that this launcher runs from; empty if it is installed. Said by the file's first module."""
    path: str = getattr(sys.modules["umiak"], "__launcher_file__", "")
    return path
