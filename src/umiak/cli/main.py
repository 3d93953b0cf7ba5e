"""The `umiak` command: finds the subcommand, runs it, and turns whatever happens into an exit status. A program.

A subcommand is a module of umiak.cli with ``main(argv, environ, printer) -> int``, named in the table of
commands (`cli.commands`) and imported only when it is called, so that one command never pays for another.
"""

from __future__ import annotations

import gc
import os
import sys

from umiak.cli.commands import COMMANDS
from umiak.cli.output import Printer, wants_colour
from umiak.core.problem import DISK_FULL, Exit, Problem, UmiakError, free_space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

INTERRUPTED = 130
JSON_COMMANDS = frozenset(
    ["submit", "status", "logs", "wait", "cancel", "list", "hosts", "machines", "image", "kubeconfig", "doctor"]
)
PROBLEM_FIELDS = ("code", "what", "why", "hint", "where")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. The result is the exit status; see umiak.core.problem.Exit."""
    words = list(sys.argv[1:] if argv is None else argv)
    environ = os.environ
    _complete_streams()
    printer = Printer(sys.stdout, sys.stderr, colour=wants_colour(sys.stderr, environ))
    try:
        return _run(words, environ, printer)
    except UmiakError as error:
        printer.problems(error.problems)
        if _wants_json(words) and not printer.has_data:
            import json

            rows = [{name: getattr(each, name) for name in PROBLEM_FIELDS} for each in error.problems]
            printer.data(json.dumps({"problems": rows}, ensure_ascii=False))
        return error.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        if error.errno not in DISK_FULL or words[:1] == [] or words[0] not in JSON_COMMANDS:
            _admit(error, printer)
            return Exit.OUR_BUG
        printer.problems([_full(error)])
        return Exit.REFUSED
    except Exception as error:  # noqa: BLE001 - the last line of defence
        _admit(error, printer)
        return Exit.OUR_BUG


def _run(words: list[str], environ: Mapping[str, str], printer: Printer) -> int:
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words:
        printer.talk(_help().rstrip("\n"))
        return Exit.BAD_REQUEST
    if words[0] in ("-h", "--help"):
        printer.data(_help())
        return Exit.DONE
    if words[0] in ("-V", "--version"):
        from umiak.adapters.version import version

        printer.data(f"umiak {version()}")
        return Exit.DONE
    command = COMMANDS.get(words[0])
    if command is None:
        raise UmiakError(_unknown(words[0]))
    gc.disable()  # what is imported is never garbage, and looking through it again and again takes milliseconds
    # Not importlib: it brings `warnings` with it, a millisecond on the way of every launch.
    module = __import__(command.module, fromlist=["main"])
    gc.enable()
    status: int = module.main(words[1:], environ, printer)
    return status


def _wants_json(words: list[str]) -> bool:
    """Whether a command that is read by programs has failed: standard output is JSON then as well.
    A job's own words don't count.
    """
    own = words[: words.index("--")] if "--" in words else words
    return own[:1] != [] and own[0] in JSON_COMMANDS and "--json" in own


def _complete_streams() -> None:
    """Where the caller closed a standard stream (``2>&-``): nothing else that is opened may get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def _help() -> str:
    from umiak.cli.texts import help_text

    return help_text.of_all()


def _unknown(word: str) -> Problem:
    from umiak.core.nearest import nearest

    meant = nearest(word.lower(), COMMANDS)
    if meant:
        hint = f"did you mean `umiak {meant}`?"
    elif word.endswith(".py"):
        hint = f"to start a script, write `umiak launch {word}`"
    else:
        hint = "`umiak --help` lists all commands"
    kind = "flag" if word.startswith("-") else "command"
    return Problem(code="UM-CLI-004", what=f"unknown {kind}: {word}", hint=hint)


def _full(error: OSError) -> Problem:
    """A disk of this machine, wherever on the way it was needed."""
    return Problem(
        code="UM-SUBMIT-362",
        what=f"there is no room on a disk of this machine: {error.filename or 'a temporary file'}",
        why=error.strerror,
        hint=free_space("name directories on another disk with XDG_STATE_HOME, XDG_CACHE_HOME and TMPDIR"),
    )


def _admit(error: Exception, printer: Printer) -> None:
    from umiak.adapters.version import bug_report

    for line in bug_report(error):
        printer.talk(line)


if __name__ == "__main__":
    sys.exit(main())
