"""Starts the launcher with what was read from a command line, or put together by a program. A program.

    status = start.launch(reading.read(argv, environ), environ)

The launcher is imported only here, once the request is known to be right: a mistake is told in milliseconds.
"""

from __future__ import annotations

import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.launch.command_line.reading import Request


def launch(request: Request, environ: Mapping[str, str]) -> int:
    """Run this node's part of the job; the exit status."""
    gc.disable()  # until everything is imported, and made that lives as long as this process
    from umiak.launch import program

    return program.run(request.options, request.notes, environ)
