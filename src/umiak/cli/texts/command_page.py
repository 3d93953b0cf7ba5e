"""What the help and the reference page of a command say. Values.

PAGE = CommandPage(usage=("umiak deploy [flags]",), about=..., examples=((..., ...),), flags=FLAGS, ending=...)

The table of commands (`umiak.cli.commands`) names the page of each;
`umiak.cli.texts.help_text` prints it, and docs/generate.py writes its tables into docs/reference.
"""

from __future__ import annotations

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.flags import Flag


@value
class CommandPage:
    """The help of one command."""

    usage: tuple[str, ...]
    about: str
    examples: tuple[tuple[str, str], ...] = ()
    """Commands, each with what it does."""
    flags: tuple[Flag, ...] = ()
    lists: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """More names with their meanings, below a title:
    that of a group of flags, which they follow then, or one of their own.
    """
    ending: str = ""

    @property
    def groups(self) -> tuple[str, ...]:
        """The titles below which flags and lists stand."""
        return tuple(dict.fromkeys([*(flag.group for flag in self.flags), *(title for title, _ in self.lists)]))

    @property
    def example_lines(self) -> list[str]:
        """The examples as a shell takes them, with their meanings as comments in one column."""
        column = max((len(command) for command, _ in self.examples), default=0) + 2
        return [f"{command:<{column}}# {meaning}" if meaning else command for command, meaning in self.examples]
