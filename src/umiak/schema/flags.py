"""What a flag is, and what was said with it, between a command line and its meaning. Values.

    Flag       one row of a table: its names, its environment variables, what kind of value it takes
    Setting    one flag's value, with who said it: the command line, the environment, or nobody
    Parsed     a whole command line, read; the meaning is found elsewhere (`umiak.launch.command_line`)
    FlagFindings   problems and notes, collected while a meaning is looked for

The reading itself is in umiak.schema.command_line.
Tables of flags are plain tuples, so that help, reference documentation and tests are made from the same rows.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType

from umiak.core.problem import Problem
from umiak.core.shown import without_password
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias, TypedDict

    from typing_extensions import Unpack

    Value: TypeAlias = "str | int | float | bool | None"

    class FlagRow(TypedDict, total=False):
        """What a row of a table may say beside name, help and group: fields of `Flag`."""

        origin: FlagOrigin
        kind: FlagKind
        default: Value
        metavar: str
        letter: str
        many: bool
        aliases: tuple[str, ...]
        old: tuple[str, ...]
        elsewhere: tuple[str, ...]
        env: tuple[str, ...]
        choices: tuple[str, ...]
        synonyms: tuple[tuple[str, str], ...]
        least: float
        most: float
        words: tuple[str, ...]
        ignored: str
        refused: str


class FlagKind(Enum):
    """What stands after a flag; the values are phrases for hints: ``expected ...``."""

    TEXT = "text"
    NUMBER = "an integer"
    SECONDS = "seconds, as in 30, 1.5, 90s, 10m or 2h"
    SIZE = "bytes, as in 1048576, 512K, 256M or 1G"
    TRUTH = "a boolean, or the flag alone for True"
    SWITCH = "the flag alone, or with =True or =False"
    CHOICE = "one of a few words"


class FlagOrigin(Enum):
    """Where a flag comes from."""

    PADDLE = "paddle"
    OLD = "old"
    UMIAK = "umiak"
    TORCHRUN = "torchrun"


class FlagSource(Enum):
    """Who said it."""

    COMMAND = "command line"
    ENVIRONMENT = "environment"
    DEFAULT = "default"


@value
class Flag:
    """One flag. Names are written with underscores and without dashes; hyphens are understood as well."""

    name: str
    help: str
    group: str
    origin: FlagOrigin = FlagOrigin.PADDLE
    kind: FlagKind = FlagKind.TEXT
    default: Value = None
    metavar: str = "TEXT"
    letter: str = ""
    """A short name of one letter: ``-m``."""
    many: bool = False
    """Whether it may be said several times, and be followed by several words; `Parsed.texts` has them all."""
    aliases: tuple[str, ...] = ()
    """Other names with the same standing: ``gpus`` for ``devices``."""
    old: tuple[str, ...] = ()
    """Names that the flag had in older launchers."""
    elsewhere: tuple[str, ...] = ()
    """What other launchers call it: not understood, but suggested to those who type it."""
    env: tuple[str, ...] = ()
    """Environment variables that say the same; the first one that is set counts."""
    choices: tuple[str, ...] = ()
    synonyms: tuple[tuple[str, str], ...] = ()
    """Further words for a choice: ``("20", "INFO")``."""
    least: float | None = None
    """The smallest number that makes sense."""
    most: float = 1e9
    """The largest one; of most flags nobody will ever want to know it."""
    words: tuple[str, ...] = ()
    """Words that may stand in the place of a number: ``auto``."""
    ignored: str = ""
    """Why the flag changes nothing here. Saying it is a warning with this text."""
    refused: str = ""
    """Why the flag is known but can't be obeyed. Saying it with a value that asks for something is an error."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every name that is understood, the real one first."""
        return (self.name, *self.aliases, *self.old)

    @property
    def takes_value(self) -> bool:
        """Whether the next word always belongs to the flag."""
        return self.kind not in (FlagKind.TRUTH, FlagKind.SWITCH)


def flag(name: str, help_: str, group: str, **more: Unpack[FlagRow]) -> Flag:
    """A row, with what follows from its kind where it says nothing:
    the metavar, and False where there are two values.
    """
    implied = _IMPLIED.get(more.get("kind", FlagKind.TEXT), {})
    if "choices" in more:
        implied = {"kind": FlagKind.CHOICE, "metavar": "|".join(more["choices"])}
    row: FlagRow = {**implied, **more}
    return Flag(name=name, help=help_, group=group, **row)


_IMPLIED: dict[FlagKind, FlagRow] = {
    FlagKind.NUMBER: {"metavar": "N"},
    FlagKind.SECONDS: {"metavar": "SECONDS"},
    FlagKind.SIZE: {"metavar": "SIZE"},
    FlagKind.TRUTH: {"metavar": "BOOL", "default": False},
    FlagKind.SWITCH: {"default": False},
}


@value
class Setting:
    """The value of one flag, and who said it."""

    flag: Flag
    value: Value
    source: FlagSource = FlagSource.DEFAULT
    said_as: str = ""
    """The flag as it was typed (``--gpus``), or the variable (``PADDLE_DEVICES``)."""
    text: str = ""
    """The value as it was typed."""

    @property
    def said(self) -> bool:
        """Whether anybody said it, and said more than nothing: ``--ips=`` from an empty shell variable says nothing."""
        return self.source is not FlagSource.DEFAULT and self.value != ""

    @property
    def spoken(self) -> str:
        """The setting as one would type it: ``--nnodes 2``, ``PADDLE_NNODES=2``, ``--check``."""
        shown = without_password(self.text)
        if self.source is FlagSource.ENVIRONMENT:
            return f"{self.said_as}={shown}"
        return f"{self.said_as} {shown}".rstrip()


@value
class Parsed:
    """A command line, read. Every flag of the table has a setting; a value that can't be read counts as not said."""

    settings: Mapping[str, Setting]
    program: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    """Of commands that take arguments between their flags."""
    is_module: bool = False
    argv: tuple[str, ...] = ()
    texts: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """For flags that may be said several times: every word, in order."""
    wants_help: bool = False
    wants_version: bool = False
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    """One line for each setting that two sources say differently."""

    def __getitem__(self, name: str) -> Setting:
        return self.settings[name]

    def said(self, name: str) -> bool:
        return self.settings[name].said

    def text(self, name: str) -> str:
        """The text of a flag; empty when there is none."""
        value = self.settings[name].value
        return "" if value is None else str(value)

    def number(self, name: str) -> int | None:
        """The number of a flag; ``None`` if there is none, or a word stands in its place."""
        setting = self.settings[name]
        value = setting.value
        return None if value is None or value == "" or value in setting.flag.words else int(value)

    def word(self, name: str) -> str | None:
        """The word that stands in the place of a number."""
        setting = self.settings[name]
        return str(setting.value) if setting.value in setting.flag.words else None

    def seconds(self, name: str) -> float | None:
        value = self.settings[name].value
        return None if value is None or value == "" else float(value)

    def truth(self, name: str) -> bool:
        return self.settings[name].value is True


class FlagFindings:
    """Problems and notes, collected. The only thing here that changes; it lives for one translation."""

    def __init__(self, parsed: Parsed) -> None:
        self.problems = list(parsed.problems)
        self.notes = list(parsed.notes)

    def problem(self, code: str, what: str, *, why: str | None = None, hint: str | None = None) -> None:
        self.problems.append(Problem(code=code, what=what, why=why, hint=hint))

    def note(self, text: str) -> None:
        self.notes.append(text)
