"""The text of ``--help``, made from the tables of flags: examples first, then every flag in its group. A decider.

Also what the reference documentation shares with it: how a flag's names, default and variables are written.
"""

from __future__ import annotations

from umiak.cli.launch_flags import FLAGS
from umiak.compat.paddle_flags import OLDER, REFUSED
from umiak.schema.flags import Flag, FlagKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

WIDTH = 100
INDENT = 26

USAGE = """\
usage: umiak launch [flags] train.py [arguments of the script]
       umiak launch [flags] -m package.module [arguments of the module]
       umiak launch [flags] program [arguments of the program]

Start a training program on this node, as part of a job on one or many nodes. Sets the rank and
address variables that PaddlePaddle, PyTorch and JAX expect. The flags of `python -m
paddle.distributed.launch` and of torchrun work unchanged; - and _ are interchangeable.
"""

EXAMPLES = (
    ("umiak launch --nproc_per_node 2 train.py --lr 0.1", "two workers on this node"),
    ("umiak launch --devices 0,1,2,3 train.py", "one worker for each of four GPUs"),
    ("umiak launch --nnodes 2 train.py", "prints the command for the other node"),
    ("umiak launch --nnodes 2 --master 10.0.0.1:8090 train.py", "on both nodes, with one UMIAK_TOKEN"),
    ("umiak launch --nnodes 2:4 --job_id ctr train.py", "elastic: runs with 2, 3 or 4 nodes"),
    ("umiak launch --server_num 2 --trainer_num 4 train.py", "parameter servers and trainers"),
    ("umiak launch --max_restart 3 train.py", "restarts after a failure"),
    ("umiak launch --standalone --nproc-per-node=gpu train.py", "flags of torchrun"),
    ("umiak launch --check --nnodes 2", "checks the nodes, starts nothing"),
)

GENERAL = (
    ("-m MODULE", "Run a Python module instead of a script. All following arguments are passed to it."),
    ("--", "End of flags: the next argument is the program."),
    ("--version", "Print the version."),
    ("-h, --help", "Print this help."),
)

ENDING = """\
Exit status: that of the worker that failed first (128 + n for signal n), 0 on success, 2 for a wrong command line,
3 for a failure outside of umiak (network, disk, permissions), 70 for a bug of umiak. The command line overrides the environment.
"""


def launch() -> str:
    """The help of `umiak launch`."""
    lines = [USAGE, "Examples:"]
    lines += [f"  {example:<58}# {meaning}" for example, meaning in EXAMPLES]
    for group in groups():
        lines += ["", f"{group}:"]
        if group == REFUSED:
            names = ", ".join(f"--{flag.name}" for flag in FLAGS if flag.group == group)
            lines += [f"  {line}" for line in wrapped(names, WIDTH - 2)]
            continue
        for flag in FLAGS:
            if flag.group == group:
                lines += entry(spelling(flag), flag.help, tail(flag))
        if group == OLDER:
            for flag in FLAGS:
                if flag.old:
                    lines += entry(", ".join(f"--{old}" for old in flag.old), f"Now --{flag.name}.")
    lines += ["", "General:"]
    for name, meaning in GENERAL:
        lines += entry(name, meaning)
    return "\n".join([*lines, "", *wrapped(ENDING)]) + "\n"


def commands(known: Mapping[str, str]) -> str:
    """The help of `umiak` itself."""
    lines = ["usage: umiak COMMAND [...]", "", "Run a distributed training job on a laptop or on any cluster.", ""]
    lines.append("Commands:")
    for name, meaning in known.items():
        lines += entry(name, meaning[0].upper() + meaning[1:] + ".")
    lines += ["", "Run `umiak COMMAND --help` for the flags of a command, `umiak --version` for the version."]
    return "\n".join(lines) + "\n"


def groups() -> tuple[str, ...]:
    """The groups in the order of the tables, with what is old or refused at the end."""
    found = dict.fromkeys(flag.group for flag in FLAGS)
    return (*(group for group in found if group not in (OLDER, REFUSED)), OLDER, REFUSED)


def old_names() -> tuple[tuple[str, Flag], ...]:
    """Every old name with the flag that it stands for."""
    return tuple((old, flag) for flag in FLAGS for old in flag.old)


def spelling(flag: Flag) -> str:
    """``--devices, --gpus, --npus, --xpus N,...``."""
    letter = (f"-{flag.letter}",) if flag.letter else ()
    names = ", ".join((*letter, *(f"--{name}" for name in (flag.name, *flag.aliases))))
    if flag.kind is FlagKind.SWITCH:
        return names
    return f"{names} [{flag.metavar}]" if flag.kind is FlagKind.TRUTH else f"{names} {flag.metavar}"


def default(flag: Flag) -> str:
    """The default as one would type it; empty if there is none to speak of."""
    found = flag.default
    if found is None or found == "" or flag.kind is FlagKind.SWITCH or flag.refused:
        return ""
    if flag.kind is FlagKind.SIZE and isinstance(found, int):
        return f"{found >> 20}M"
    return f"{found:g}" if isinstance(found, float) else str(found)


def tail(flag: Flag) -> str:
    """The default and the variables in brackets."""
    parts = [f"default: {default(flag)}"] if default(flag) else []
    if flag.env:
        parts.append(f"env: {', '.join(flag.env)}")
    return f"[{'; '.join(parts)}]" if parts else ""


def entry(name: str, text: str, ending: str = "") -> list[str]:
    """A name with its explanation beside it, or below it where the name is long; the ending is not torn apart."""
    lines = wrapped(text, WIDTH - INDENT)
    if ending and len(lines[-1]) + 1 + len(ending) <= WIDTH - INDENT:
        lines[-1] += f" {ending}"
    elif ending:
        lines += wrapped(ending, WIDTH - INDENT)
    head = f"  {name}"
    if len(head) > INDENT - 2:
        return [head, *(" " * INDENT + line for line in lines)]
    return [f"{head:<{INDENT}}{lines[0]}", *(" " * INDENT + line for line in lines[1:])]


def wrapped(text: str, width: int = WIDTH) -> list[str]:
    """Lines of at most this width, broken at blanks."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if len(longer) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
