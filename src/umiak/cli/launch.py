"""`umiak launch`: reads the command line and hands the job to the launcher. A program."""

from __future__ import annotations

from umiak.core.problem import Exit
from umiak.launch import start
from umiak.launch.command_line import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak launch`. The result is the exit status."""
    parsed, notes = reading.parsed(argv, environ)
    if parsed.wants_help:
        from umiak.cli.texts import help_launch, help_text  # by their names, for the launcher's file

        printer.data(help_text.rendered(help_launch.PAGE))
        return Exit.DONE
    if parsed.wants_version:
        from umiak.adapters.version import version

        printer.data(f"umiak {version()}")
        return Exit.DONE
    return start.launch(reading.request(parsed, notes), environ)
