"""What `umiak.run` gives back: results by rank, or an error that knows every rank that failed. Values.

results = umiak.run(train, nproc_per_node=2)
results[1]            what the function returned on rank 1
results.log_dir       where the workers' output is
"""

from __future__ import annotations

from typing import Any

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Results(tuple[Any, ...]):
    """What the function returned, by rank; empty for a script."""

    log_dir: str
    """The directory with the output of all workers, as an absolute path."""

    def __new__(cls, returned: Iterable[Any], *, log_dir: str) -> Results:
        """The values in the order of the ranks."""
        results = super().__new__(cls, returned)
        results.log_dir = log_dir
        return results


@value
class RankFailure:
    """How one rank failed."""

    rank: int
    what: str
    """One line: ``ValueError: no such column``, ``killed by SIGKILL (9)``, ``exit code 3``."""
    traceback: str = ""
    """The traceback in the worker; empty if it had no exception."""
    signal: int | None = None
    exit_code: int | None = None
    exception: BaseException | None = None
    """A copy of the worker's exception; None if it could not be copied."""


class RunError(UmiakError):
    """A call of `umiak.run` that failed. Its text is the whole story, with the remote traceback."""

    def __init__(
        self,
        *problems: Problem,
        exit_status: int = Exit.BAD_REQUEST,
        failures: tuple[RankFailure, ...] = (),
        details: str = "",
    ) -> None:
        super().__init__(*problems, exit_status=exit_status)
        self.failures = failures
        """Every rank that failed, the first failure first."""
        self._details = details

    def __str__(self) -> str:
        lines = [line for problem in self.problems for line in problem.lines()]
        lines[:1] = [lines[0].removeprefix("error: ")] if lines else []
        return "\n".join([*lines, self._details]) if self._details else "\n".join(lines)
