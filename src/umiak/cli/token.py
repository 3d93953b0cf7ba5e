"""`umiak token`: a secret for a job's launchers, on standard output. A program.

export UMIAK_TOKEN="$(umiak token)"
"""

from __future__ import annotations

import os

from umiak.core.problem import Exit, UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer


def main(argv: Sequence[str], _environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak token`. The result is the exit status."""
    if argv[:1] in (["-h"], ["--help"]):
        return printer.page("token")
    if argv:
        what = f"unexpected argument: {argv[0]}"
        raise UmiakError.of("UM-CLI-005", what, hint="`umiak token` takes none")
    printer.data(os.urandom(16).hex())
    return Exit.DONE
