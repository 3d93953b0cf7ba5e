"""This terminal while a shell on a node has it: every key goes there, and it is as it was when that ends. An adapter.

with RawTerminal(0):
    ...
"""

from __future__ import annotations

import contextlib
import os
import termios
import tty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RawTerminal:
    """Keys are not read as lines or signals here: Ctrl-C is a key of the shell on the node."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._before: list[Any] | None = None

    def __enter__(self) -> RawTerminal:
        self._before = termios.tcgetattr(self._fd)
        tty.setraw(self._fd, termios.TCSADRAIN)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            with contextlib.suppress(termios.error):  # the terminal may be gone
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)


def size(fd: int) -> dict[str, int]:
    """Rows and columns; nothing where they can't be known."""
    try:
        seen = os.get_terminal_size(fd)
    except OSError:
        return {}
    return {"rows": seen.lines, "columns": seen.columns}
