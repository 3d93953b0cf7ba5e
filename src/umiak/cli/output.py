"""How umiak speaks: data to stdout, talk to stderr. An adapter.

A Printer is handed to each command. Colour only repeats what the words say (``error:``, ``hint:``, ``note:``);
it is used on terminals, and never where NO_COLOR is set (`core.colours`).
"""

from __future__ import annotations

import os

from umiak.core import colours
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import inert

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TextIO


class Printer:
    """Writes to two streams, in colour or not."""

    def __init__(self, out: TextIO, err: TextIO, *, colour: bool = False) -> None:
        self.out = out
        self.err = err
        self.colour = colour
        self.has_data = False
        """Whether anything was written to standard output."""

    def data(self, text: str) -> None:
        """What a person asked for, and what a pipe wants. A reader that has gone away is no error of ours."""
        self.has_data = True
        try:
            _put(self.out, text if text.endswith("\n") else f"{text}\n")
        except OSError as error:
            what = f"the output can't be written: {error.strerror}"
            hint = "it went to standard output; where is that redirected to, and is there room? `df` tells"
            raise UmiakError.refused("UM-CLI-006", what, hint=hint) from None

    def talk(self, line: str) -> None:
        """One line to the person. If it can't be written, nobody could be told of that either."""
        try:
            _put(self.err, f"{self._coloured(line)}\n")
        except OSError:
            pass

    def page(self, command: str, status: int = Exit.DONE) -> int:
        """What `umiak COMMAND --help` prints. The result is the exit status that is given."""
        from umiak.cli.texts import help_text

        self.data(help_text.of(command))
        return status

    def note(self, line: str) -> None:
        self.talk(f"note: {line}")

    def problems(self, problems: Iterable[Problem], word: str = "error") -> None:
        """Everything that is wrong, each with its cause and its remedy; ``warning`` where that stops nothing."""
        for problem in problems:
            for line in problem.lines(word):
                self.talk(inert(line))

    def _coloured(self, line: str) -> str:
        if not self.colour:
            return line
        indented = line.lstrip()
        word = indented.partition(" ")[0]
        if not word.endswith(":"):
            return line
        painted = colours.painted(word, colours.MEANINGS.get(word[:-1]))
        return f"{line[: len(line) - len(indented)]}{painted}{indented[len(word) :]}"


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # Python flushes once more at its end; let that go nowhere instead of into a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            raise


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether this stream is a terminal and nobody asked for plain text."""
    return colours.are_wanted(environ) and stream.isatty()
