"""Problems: what went wrong, said so that a person can fix it. Values, plus the one exception that carries them.

A problem has a stable code (``UM-LAUNCH-001``) with a heading in docs/reference/errors.md, what happened
with the offending value, why if that is known, and a hint with the command or change that fixes it.
Problems are collected and raised together, so that a file with five mistakes is fixed in one go.
"""

from __future__ import annotations

import errno

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self


class Exit:
    """The exit status of every umiak command. ``launch`` passes on the code of the worker that failed first."""

    DONE = 0
    JOB_FAILED = 1
    BAD_REQUEST = 2
    REFUSED = 3
    DIFFERS = 4
    OUR_BUG = 70


@value
class Problem:
    """One thing that is wrong. ``where`` is ``file:line`` or another place a person can go to."""

    code: str
    what: str
    why: str | None = None
    hint: str | None = None
    where: str | None = None

    def lines(self, word: str = "error") -> list[str]:
        """The problem as it is printed: ``error:`` (or ``warning:``), the cause, then ``hint:``."""
        place = f"{self.where}: " if self.where else ""
        lines = [f"{word}: {place}{self.what} [{self.code}]"]
        if self.why:
            lines.append(f"  because: {self.why}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return lines


class UmiakError(Exception):
    """An expected failure: its problems are printed without a traceback, and the command ends with ``exit_status``."""

    def __init__(self, *problems: Problem, exit_status: int = Exit.BAD_REQUEST) -> None:
        super().__init__("; ".join(problem.what for problem in problems))
        self.problems = problems
        self.exit_status = exit_status

    @classmethod
    def of(
        cls,
        code: str,
        what: str,
        *,
        why: str | None = None,
        hint: str | None = None,
        where: str | None = None,
        exit_status: int = Exit.BAD_REQUEST,
    ) -> Self:
        """One thing that is wrong: ``raise UmiakError.of("UM-LAUNCH-201", "no such script: train.py")``."""
        return cls(Problem(code=code, what=what, why=why, hint=hint, where=where), exit_status=exit_status)

    @classmethod
    def refused(
        cls, code: str, what: str, *, why: str | None = None, hint: str | None = None, where: str | None = None
    ) -> Self:
        """One thing outside of umiak that fails: the same request may succeed later."""
        return cls.of(code, what, why=why, hint=hint, where=where, exit_status=Exit.REFUSED)

    @classmethod
    def raise_any(cls, problems: Iterable[Problem], exit_status: int = Exit.BAD_REQUEST) -> None:
        """All of them in one error; nothing if there are none."""
        if all_problems := tuple(problems):
            raise cls(*all_problems, exit_status=exit_status)


class BadRequest(UmiakError):
    """A mistake in a call from Python that a person can correct:
    its text, which ends a traceback, has causes and hints as well.
    """

    def __str__(self) -> str:
        return "\n".join(line for problem in self.problems for line in problem.lines())


DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""The numbers of errors where a disk is full, or a quota."""


def free_space(instead: str, look: str = "df -h") -> str:
    """The hint where a disk is full: ``instead`` names another place, ``look`` is the command that shows the room."""
    return f"free disk space, or {instead}; `{look}` shows how much is left"
