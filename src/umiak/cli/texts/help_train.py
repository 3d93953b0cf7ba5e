"""The text of `umiak train --help`, made from its table of flags. A decider."""

from __future__ import annotations

from umiak.cli.texts.help_text import WIDTH, entry, spelling, tail, wrapped
from umiak.cli.train_flags import FLAGS

USAGE = """\
usage: umiak train -m CONFIG [flags]

Train a model from a config.yaml: in one process, with parameter servers, or data parallel with
all-reduce. Configs of PaddleRec 1.8.5 and of its newer layout work unchanged; all mistakes are
reported at once, with their lines. On a node of a cluster, the environment makes the same command
a trainer or a server.
"""

EXAMPLES = (
    ("umiak train -m config.yaml", "the runners in `mode`, one after another"),
    ("umiak train -m config.yaml --explain", "print the plan"),
    ("umiak train -m config.yaml --check", "report mistakes"),
    ("umiak train -m config.yaml -o runner.epochs=1", "override a value"),
    ("umiak train -m config.yaml -o mode=infer", "another runner of the same file"),
    ("umiak train -m config.yaml --compare plain", "the same steps as plain Paddle?"),
    ("umiak train -m config.yaml --resume", "resume from the latest checkpoint"),
    ("umiak train -m umiak.models.rank.dnn", "a model of the zoo"),
    ("umiak train -m config.yaml --on lab", "submit it to the place lab"),
    ("umiak train -m config.yaml -b backend.yaml", "submit it to PaddleCloud"),
)

GENERAL = (
    ("--version", "Print the version."),
    ("-h, --help", "Print this help."),
)

ENDING = """\
Exit status: 0 on success, 1 if training failed, 2 for a wrong command line or config, 3 for a failure outside of umiak
(network, disk, permissions), 4 if --compare finds a difference, 70 for a bug of umiak.
"""


def train() -> str:
    """The help of `umiak train`."""
    lines = [USAGE, "Examples:"]
    lines += [f"  {example:<50}# {meaning}" for example, meaning in EXAMPLES]
    for group in dict.fromkeys(flag.group for flag in FLAGS):
        lines += ["", f"{group}:"]
        for flag in FLAGS:
            if flag.group == group:
                lines += entry(spelling(flag), flag.help, tail(flag))
    lines += ["", "General:"]
    for name, meaning in GENERAL:
        lines += entry(name, meaning)
    return "\n".join([*lines, "", *wrapped(ENDING, WIDTH)]) + "\n"
