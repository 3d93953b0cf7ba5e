"""`kubectl umiak`, the program `kubectl-umiak` that kubectl finds on the PATH: passes on to `umiak`. A program."""

from __future__ import annotations

import os
import sys

from umiak.cli import main as umiak
from umiak.cli.kubectl import words as kubectl_words
from umiak.cli.output import Printer, wants_colour
from umiak.core.problem import Exit, UmiakError
from umiak.submit.configuration import VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. The result is the exit status, as that of `umiak`."""
    words_given = list(sys.argv[1:] if argv is None else argv)
    if words_given[:1] in (["-V"], ["--version"]):
        return umiak.main(words_given)
    printer = Printer(sys.stdout, sys.stderr, colour=wants_colour(sys.stderr, os.environ))
    try:
        asked = kubectl_words.translated(words_given)
    except UmiakError as error:
        printer.problems(error.problems)
        return error.exit_status
    if asked.wants_help:
        from umiak.cli.kubectl.words import PAGE
        from umiak.cli.texts.help_text import rendered

        if words_given:
            printer.data(rendered(PAGE))
            return Exit.DONE
        printer.talk(rendered(PAGE).rstrip("\n"))
        return Exit.BAD_REQUEST
    if asked.places:
        os.environ[VARIABLE] = asked.places
    return umiak.main(asked.words)


if __name__ == "__main__":
    sys.exit(main())
