"""`umiak completion`: a script for a shell, on standard output. A program.

umiak completion bash > ~/.local/share/bash-completion/completions/umiak
"""

from __future__ import annotations

import os

from umiak.cli.commands import COMMANDS
from umiak.core.problem import Exit, Problem, UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer

HELP = """usage: umiak completion bash|zsh|fish

Print a script that completes the commands and flags of umiak, models of the zoo, your runs, and places of
umiak.toml. No Python is started while you type. Write it again after an update of umiak.

  bash   mkdir -p ~/.local/share/bash-completion/completions
         umiak completion bash > ~/.local/share/bash-completion/completions/umiak
         (without the package bash-completion: source that file in ~/.bashrc)
  zsh    umiak completion zsh > DIR/_umiak, with DIR a directory of $fpath; then start a new shell
  fish   umiak completion fish > ~/.config/fish/completions/umiak.fish
"""


def main(argv: Sequence[str], _environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak completion`. The result is the exit status."""
    if argv[:1] in (["-h"], ["--help"]):
        printer.data(HELP)
        return Exit.DONE
    if not argv:
        printer.talk(HELP.rstrip("\n"))
        return Exit.BAD_REQUEST
    shells = COMMANDS["completion"].words
    if argv[0] not in shells:
        from umiak.core.nearest import nearest

        meant = nearest(argv[0].lower(), shells)
        hint = (f"did you mean `{meant}`? " if meant else "") + f"it is one of {', '.join(shells)}"
        raise UmiakError(Problem(code="UM-CLI-003", what=f"unknown shell: {argv[0]}", hint=hint))
    if argv[1:]:
        what = f"unexpected argument: {argv[1]}"
        raise UmiakError(Problem(code="UM-CLI-005", what=what, hint=f"`umiak completion {argv[0]}` takes none"))
    from umiak.cli.texts import completion_scripts

    printer.data(completion_scripts.SHELLS[argv[0]](zoo()))
    return Exit.DONE


def zoo() -> list[str]:
    """The models that come with umiak: ``umiak.models.rank.dnn``. Nothing of them is imported."""
    root = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models")
    found = []
    for kind in sorted(os.listdir(root)):
        if os.path.isdir(os.path.join(root, kind)):
            names = sorted(os.listdir(os.path.join(root, kind)))
            found += [
                f"umiak.models.{kind}.{name}" for name in names if os.path.exists(f"{root}/{kind}/{name}/config.yaml")
            ]
    return found
