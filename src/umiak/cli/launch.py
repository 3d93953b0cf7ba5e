"""`umiak launch`: reads the command line and hands the job to the launcher. A program.

    read(argv, environ)             what is asked for, or an UmiakError with everything that is wrong
    main(argv, environ, printer)    the command itself

The launcher is imported only once the request is known to be right: a mistake is told in milliseconds.
"""

from __future__ import annotations

import gc

from umiak.cli.launch_flags import FLAGS, with_own
from umiak.compat import paddle_launch, torchrun
from umiak.core.problem import Exit, UmiakError
from umiak.core.value import value
from umiak.launch.options import LaunchOptions
from umiak.schema import command_line
from umiak.schema.flags import FlagFindings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed


@value
class Request:
    """What a person asks `umiak launch` for."""

    options: LaunchOptions
    notes: tuple[str, ...] = ()
    """One line each: what was said twice and how it was decided."""


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak launch`. The result is the exit status."""
    parsed, notes = _parse(argv, environ)
    if parsed.wants_help:
        from umiak.cli.texts import help_text

        printer.data(help_text.launch())
        return Exit.DONE
    if parsed.wants_version:
        from umiak.adapters.version import version

        printer.data(f"umiak {version()}")
        return Exit.DONE
    request = _request(parsed, notes)
    gc.disable()  # until everything is imported, and made that lives as long as this process
    from umiak.launch import program

    return program.run(request.options, request.notes, environ)


def read(argv: Sequence[str], environ: Mapping[str, str]) -> Request:
    """What is asked for. UmiakError carries every problem of the command line at once."""
    return _request(*_parse(argv, environ))


def _parse(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[Parsed, tuple[str, ...]]:
    environ, notes = paddle_launch.inherited(environ)
    return command_line.parse(FLAGS, argv, environ, command="umiak launch"), notes


def _request(parsed: Parsed, notes: tuple[str, ...]) -> Request:
    findings = FlagFindings(parsed)
    in_our_words = torchrun.translated(parsed, findings)
    options = with_own(paddle_launch.options(in_our_words, findings), in_our_words, findings)
    options = torchrun.with_torchrun(options, parsed, findings)
    if findings.problems:
        raise UmiakError(*findings.problems, exit_status=Exit.BAD_REQUEST)
    return Request(options=options, notes=(*notes, *findings.notes))
