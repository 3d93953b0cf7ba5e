"""Which line of the user's file is running: operations remember it, and errors name it. Reads the stack of this thread. An adapter."""

from __future__ import annotations

import contextlib
import inspect
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_OWN = (str(_PACKAGE), str(_PACKAGE.parent / "train" / "engines"), contextlib.__file__)
"""This package, what records for a model of PaddleRec (its base and its metrics), and what ends a `with` block of ours."""


def user_line() -> str:
    """``file:line`` of the innermost frame that is neither ours nor of Paddle, which calls layers."""
    paddle = getattr(sys.modules.get("paddle"), "__file__", None)
    between = (*_OWN, "<frozen", str(Path(paddle).parent)) if paddle else (*_OWN, "<frozen")
    frame = inspect.currentframe()
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(between):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"
