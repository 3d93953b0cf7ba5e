"""How the launcher speaks on the console: lines in the form of Paddle's launcher, and the last words. An adapter.

LAUNCH INFO 2022-05-18 11:53:09,773 Run Pod: gistdo, replicas 2, status ready
"""

from __future__ import annotations

import time

from umiak.core import colours
from umiak.core.problem import Problem
from umiak.core.shown import without_sequences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.launch.events import Exit
    from umiak.launch.reports.logs import Console

_LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
RULE = "-" * 80


class LauncherOutput:
    """Says things to the person who started the launcher, on standard error."""

    def __init__(self, console: Console, level: str = "INFO") -> None:
        self._console = console
        self._least = _LEVELS.get(level.upper(), 20)

    def say(self, text: str, level: str = "INFO") -> None:
        """One line of the launcher's own."""
        if _LEVELS[level] < self._least:
            return
        now = time.time()
        stamp = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))},{int(now * 1000) % 1000:03d}"
        head = f"LAUNCH {level} {stamp}"
        if self._console.colours:
            head = colours.painted(head, colours.MEANINGS.get(level.lower()))
        self.plain("".join(f"{head} {line}\n" for line in text.splitlines() or [""]))

    def plain(self, text: str) -> None:
        """Text as it is."""
        self._console.write(text.encode(errors="backslashreplace"))

    def drain(self, seconds: float) -> None:
        """At the end: give a slow console this long to take what was said."""
        self._console.drain(seconds)

    def configuration(self, shown: Sequence[tuple[str, str]]) -> None:
        """Every option with its value, one line each."""
        if not shown:
            return
        self.say("-----------  Configuration  ----------------------")
        for name, text in shown:
            self.say(f"{name}: {text}")
        self.say("--------------------------------------------------")

    def command_for_other_nodes(self, command: str) -> None:
        """Ready to be pasted on the other nodes."""
        self.plain(f"Copy the following command to other nodes to run.\n{RULE}\n{command}\n{RULE}\n")

    def problems(self, problems: Sequence[Problem]) -> None:
        self.plain("".join(f"{line}\n" for problem in problems for line in problem.lines()))

    def goodbye(self, end: Exit) -> None:
        """How the job ended; after a failure with what the worker that failed first had to say."""
        if end.status == 0 or not end.code:
            if end.words:
                self.say(end.words)
            return
        failure, hint = end.failure, end.hint
        quoted: list[str] = []
        if failure and failure.traceback:
            quoted = ["its traceback:", *(f"  {line}" for line in failure.traceback.splitlines())]
        elif failure and failure.log_end:
            quoted = ["the end of its output:", *(f"  {line}" for line in failure.log_end.splitlines())]
        if quoted and failure and failure.log_path and not hint:
            hint = f"the whole output is on {failure.host} in {failure.log_path}"
        quoted = [without_sequences(line) for line in quoted]
        # Anyone who asked a node to stop, and got what was asked for, has seen no error.
        word = "stopped" if end.code == "UM-JOB-006" else "error"
        first, *rest = Problem(code=end.code, what=end.words, hint=hint or None).lines(word)
        self.plain("".join(f"{line}\n" for line in (first, *quoted, *rest)))
