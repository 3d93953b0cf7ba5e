"""Problems of fluid programs, said with the operation, the line of the user's file, shapes and types. Values."""

from __future__ import annotations

from umiak.core.problem import BadRequest


class FluidError(BadRequest):
    """A mistake in a program; `fluid.core.EnforceNotMet`."""


class EOFException(Exception):
    """A loader that was started has no batch left: ``reset`` it, and start it again for the next epoch."""


def bad(
    code: str, what: str, hint: str | None = None, *, why: str | None = None, where: str | None = None
) -> FluidError:
    """An error with one problem."""
    return FluidError.of(code, what, why=why, hint=hint, where=where)


def cause(error: BaseException) -> str:
    """What Paddle or numpy says, without its stacks."""
    text = str(error)
    if "Error Message Summary:" in text:
        text = text.split("Error Message Summary:")[1]
    lines = [line.strip() for line in text.splitlines() if line.strip(" -")]
    lines = [line for line in lines if not line.startswith(("[Hint", "[operator", "C++ Traceback", "(at "))]
    text = " ".join(lines[:3]).partition(" (at /")[0]
    return f"{type(error).__name__}: {text or 'no message'}"
