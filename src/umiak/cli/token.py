"""`umiak token`: a secret for a job's launchers, on standard output. A program.

export UMIAK_TOKEN="$(umiak token)"
"""

from __future__ import annotations

import os

from umiak.core.problem import Exit, Problem, UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer

HELP = """usage: umiak token

Print a random secret for UMIAK_TOKEN, which all launchers of a job must know.

  export UMIAK_TOKEN="$(umiak token)"             for this shell
  (umask 077; umiak token > token)                a file for UMIAK_TOKEN_FILE
"""


def main(argv: Sequence[str], _environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak token`. The result is the exit status."""
    if argv[:1] in (["-h"], ["--help"]):
        printer.data(HELP)
    elif argv:
        what = f"unexpected argument: {argv[0]}"
        raise UmiakError(Problem(code="UM-CLI-005", what=what, hint="`umiak token` takes none"))
    else:
        printer.data(os.urandom(16).hex())
    return Exit.DONE
