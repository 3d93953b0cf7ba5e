"""The help and the reference page of a command without subcommands, from its texts and its table of flags. Values, and a decider.

PAGE = CommandPage(name="deploy", usage=..., about=..., examples=(...), ending=..., flags=FLAGS)
help_of(PAGE), reference_of(PAGE, "What follows the table.")
"""

from __future__ import annotations

from umiak.cli.texts.help_text import WIDTH, default, entry, spelling, tail, wrapped
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.flags import Flag


@value
class CommandPage:
    """What is said about a command."""

    name: str
    usage: str
    about: str
    examples: tuple[tuple[str, str], ...]
    """Commands, each with what it does."""
    ending: str
    flags: tuple[Flag, ...]

    @property
    def example_lines(self) -> list[str]:
        return [f"{example:<64}# {meaning}" for example, meaning in self.examples]


def help_of(page: CommandPage) -> str:
    """What `--help` prints."""
    lines = [f"usage: {page.usage}", "", *wrapped(page.about, WIDTH), "", "Examples:"]
    lines += [f"  {line}" for line in page.example_lines]
    for group in dict.fromkeys(flag.group for flag in page.flags):
        lines += ["", f"{group}:"]
        for flag in page.flags:
            if flag.group == group:
                lines += entry(spelling(flag), flag.help, tail(flag))
    return "\n".join([*lines, "", *wrapped(page.ending, WIDTH)]) + "\n"


def reference_of(page: CommandPage, rest: str) -> str:
    """The page of docs/reference, with what follows the table of flags."""
    rows = "\n".join(
        f"| {_code(spelling(flag))} | {_code(default(flag)) or '-'} | {flag.help} |" for flag in page.flags
    )
    examples = "\n".join(page.example_lines)
    return (
        f"<!-- Made by `python docs/generate.py` from umiak.cli.{page.name}. Change these, not this file. -->\n\n"
        f"# `umiak {page.name}`\n\n```\n{page.usage}\n```\n\n{page.about}\n\n```sh\n{examples}\n```\n\n"
        f"| flag | default | meaning |\n|---|---|---|\n{rows}\n\n{page.ending}\n\n{rest}"
    )


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""
