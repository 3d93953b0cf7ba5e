"""`umiak completion`: a script for a shell, on standard output. A program.

umiak completion bash > ~/.local/share/bash-completion/completions/umiak
"""

from __future__ import annotations

import os

from umiak.cli.commands import COMMANDS
from umiak.core.problem import Exit, UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer


def main(argv: Sequence[str], _environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak completion`. The result is the exit status."""
    if argv[:1] in (["-h"], ["--help"]):
        return printer.page("completion")
    if not argv:
        from umiak.cli.texts import help_text

        printer.talk(help_text.of("completion").rstrip("\n"))
        return Exit.BAD_REQUEST
    shells = COMMANDS["completion"].words
    if argv[0] not in shells:
        from umiak.core.nearest import nearest

        meant = nearest(argv[0].lower(), shells)
        hint = (f"did you mean `{meant}`? " if meant else "") + f"it is one of {', '.join(shells)}"
        raise UmiakError.of("UM-CLI-003", f"unknown shell: {argv[0]}", hint=hint)
    if argv[1:]:
        what = f"unexpected argument: {argv[1]}"
        raise UmiakError.of("UM-CLI-005", what, hint=f"`umiak completion {argv[0]}` takes none")
    from umiak.cli.texts import completion_scripts

    printer.data(completion_scripts.SHELLS[argv[0]](zoo()))
    return Exit.DONE


def zoo() -> list[str]:
    """The models that come with umiak: ``umiak.models.rank.dnn``. Nothing of them is imported."""
    root = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models")
    zoo = []
    for kind in sorted(os.listdir(root)):
        if os.path.isdir(os.path.join(root, kind)):
            names = sorted(os.listdir(os.path.join(root, kind)))
            zoo += [
                f"umiak.models.{kind}.{name}" for name in names if os.path.exists(f"{root}/{kind}/{name}/config.yaml")
            ]
    return zoo
