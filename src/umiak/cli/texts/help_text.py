"""The text of ``--help``, made from a command's page: examples first, then every flag in its group. A decider.

Also what the reference documentation shares with it: how a flag's names and default are written.
"""

from __future__ import annotations

from importlib import import_module

from umiak.cli.commands import COMMANDS
from umiak.cli.texts.command_page import CommandPage
from umiak.schema.flags import Flag, FlagKind

WIDTH = 100
INDENT = 26


def page_of(command: str) -> CommandPage:
    """The page of a command of the table."""
    module, _, name = COMMANDS[command].page.partition(":")
    page: CommandPage = getattr(import_module(module), name or "PAGE")
    return page


def of(command: str) -> str:
    """What `umiak COMMAND --help` prints."""
    return rendered(page_of(command))


def of_all() -> str:
    """What `umiak --help` prints."""
    return rendered(
        CommandPage(
            usage=("umiak COMMAND [...]",),
            about="Run a distributed training job on a laptop or on any cluster.",
            examples=(
                ("umiak launch --nproc_per_node 2 train.py", "two workers on this machine"),
                ("umiak submit job.yaml --on lab", "a job on a place of umiak.toml"),
            ),
            lists=(("Commands", tuple((name, _sentence(each.summary)) for name, each in COMMANDS.items())),),
            ending="Run `umiak COMMAND --help` for the flags of a command, `umiak --version` for the version.",
        )
    )


def rendered(page: CommandPage) -> str:
    """A page as text, with all lines at most as wide as WIDTH but for long examples."""
    lines = [f"{'       ' if number else 'usage: '}{usage}" for number, usage in enumerate(page.usage)]
    lines += ["", *wrapped(page.about)]
    if page.examples:
        lines += ["", "Examples:", *(f"  {line}" for line in page.example_lines)]
    for group in page.groups:
        lines += ["", f"{group}:"]
        flags = [flag for flag in page.flags if flag.group == group]
        refused = [f"--{flag.name}" for flag in flags if flag.refused]
        lines += [f"  {line}" for line in wrapped(", ".join(refused), WIDTH - 2)] if refused else []
        for flag in flags:
            lines += [] if flag.refused else entry(spelling(flag), flag.help, tail(flag))
        for title, names in page.lists:
            for name, meaning in names if title == group else ():
                lines += entry(name, meaning)
    return "\n".join([*lines, *(["", *wrapped(page.ending)] if page.ending else [])]) + "\n"


def spelling(flag: Flag) -> str:
    """``--devices, --gpus, --npus, --xpus N,...``."""
    letter = (f"-{flag.letter}",) if flag.letter else ()
    names = ", ".join((*letter, *(f"--{name}" for name in (flag.name, *flag.aliases))))
    if flag.kind is FlagKind.SWITCH:
        return names
    return f"{names} [{flag.metavar}]" if flag.kind is FlagKind.TRUTH else f"{names} {flag.metavar}"


def default(flag: Flag) -> str:
    """The default as one would type it; empty if there is none to speak of."""
    known = flag.default
    if known is None or known == "" or flag.kind is FlagKind.SWITCH or flag.refused:
        return ""
    if flag.kind is FlagKind.SIZE and isinstance(known, int):
        return f"{known >> 20}M"
    return f"{known:g}" if isinstance(known, float) else str(known)


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


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
