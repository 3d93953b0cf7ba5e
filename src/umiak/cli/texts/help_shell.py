"""The pages of `umiak token` and `umiak completion`. Values."""

from __future__ import annotations

from umiak.cli.texts.command_page import CommandPage

TOKEN = CommandPage(
    usage=("umiak token",),
    about="Print a random secret for UMIAK_TOKEN, which all launchers of a job must know.",
    examples=(
        ('export UMIAK_TOKEN="$(umiak token)"', "for this shell"),
        ("(umask 077; umiak token > token)", "a file for UMIAK_TOKEN_FILE"),
    ),
)
COMPLETION = CommandPage(
    usage=("umiak completion bash|zsh|fish",),
    about="Print a script that completes the commands and flags of umiak, models of the zoo, your runs, and places of umiak.toml. "
    "No Python is started while you type. Write it again after an update of umiak.",
    examples=(
        ("mkdir -p ~/.local/share/bash-completion/completions", "bash"),
        ("umiak completion bash > ~/.local/share/bash-completion/completions/umiak", ""),
        ('umiak completion zsh > "${fpath[1]}/_umiak"', "zsh"),
        ("umiak completion fish > ~/.config/fish/completions/umiak.fish", "fish"),
    ),
    ending="bash without the package bash-completion: source that file in ~/.bashrc. zsh takes any directory of $fpath. Then start a new shell.",
)
