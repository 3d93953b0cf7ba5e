"""What a process asks of the kernel about itself and its family:
another program, orphans to adopt, a signal at its parent's death. An adapter, Linux only.

Apart from `process`, because it is needed on many hosts at once, before a launcher starts there: `ctypes` takes
3 ms to import, of which its C half, which is all that two calls of a C function need, takes less than one.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """From now on orphaned descendants become children of this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def ask_for_death_signal(number: int) -> None:
    """From now on this process is sent this signal when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def become(argv: Sequence[str], environ: Mapping[str, str], program: str = "") -> NoReturn:
    """Be this program from now on, without a shell; OSError if it can't be.
    ``program``: its file, if not by its own first word.
    """
    os.execvpe(program or argv[0], list(argv), dict(environ))  # noqa: S606 - no shell is wanted


try:
    import _ctypes

    _ADDRESS = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # this program itself

    def _prctl(request: int, argument: int) -> None:
        _ctypes.call_function(_ADDRESS, (request, argument, 0, 0, 0))
except (ImportError, AttributeError, OSError):  # not CPython, or one that has them elsewhere
    import ctypes

    _function = ctypes.CDLL(None, use_errno=True).prctl

    def _prctl(request: int, argument: int) -> None:
        _function(request, argument, 0, 0, 0)
