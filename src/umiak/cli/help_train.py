"""The text of `umiak train --help`, made from its table of flags. Pure."""

from __future__ import annotations

from umiak.cli.help_text import WIDTH, entry, spelling, tail, wrapped
from umiak.cli.train_flags import FLAGS

USAGE = """\
usage: umiak train -m CONFIG [flags]

Train a model as a config.yaml says: in one process, with parameter servers, or collectively. Configs
of PaddleRec 1.8.5 and of its newer layout work unchanged; every mistake in them is told at once, with
its line. On a node of a cluster, the same command is a trainer or a server by its environment.
"""

EXAMPLES = (
    ("umiak train -m config.yaml", "what `mode` says, runner after runner"),
    ("umiak train -m config.yaml --explain", "who would do what, and nothing else"),
    ("umiak train -m config.yaml --check", "what is wrong with it"),
    ("umiak train -m config.yaml -o runner.epochs=1", "one epoch, whatever the file says"),
    ("umiak train -m config.yaml -o mode=infer", "another runner of the same file"),
    ("umiak train -m config.yaml --resume", "goes on where it was stopped or killed"),
    ("umiak train -m umiak.models.rank.dnn", "a model that comes with umiak"),
)

GENERAL = (
    ("--version", "Print the version."),
    ("-h, --help", "Print this text."),
)

ENDING = """\
Exit status: 0 if all is done, 1 if training failed, 2 if the request or the config is wrong, 3 if something outside refused,
70 for a bug of umiak.
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
