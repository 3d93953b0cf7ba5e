"""What a key of a file is: one row of a table, and the kinds of values that keys take. Values.

    Key    one row: its name, its kind, its default, what it means
    Kind   what stands after a key, in words for messages, and the function that reads it

A table is a plain tuple of keys. It brings its kinds with it: those that every file has are in `umiak.schema.kinds`,
and a package adds its own. Readers, errors, reference pages and schemas are made from the same rows.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Generic, TypeVar

    from umiak.schema.yaml_tree import Node

    T_co = TypeVar("T_co", covariant=True)

    class _Of(Generic[T_co]): ...

else:
    T_co = None

    class _Of:
        """`typing.Generic` for type checkers only: importing `typing` costs milliseconds."""

        __slots__ = ()

        def __class_getitem__(cls, _: object) -> type:
            return cls


class WrongType(Exception):
    """Not what this kind of key takes."""


class BadValue(Exception):
    """The right type, and not a value that the key takes."""

    def __init__(self, what: str, *, why: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what, self.why, self.hint = what, why, hint


@value
class Kind(_Of[T_co]):
    """What stands after a key. ``Kind[int]``: it is read as an int."""

    phrase: str
    """For messages: ``must be ...``."""
    read: Callable[[Key, Node], T_co]
    """The value of a node; raises `WrongType` or `BadValue`."""
    code: str = "UM-CONFIG-014"
    """Of the problem that a bad value is."""


class Empty(Enum):
    """What an empty text or list is for a key that need not be there."""

    UNSAID = "as if the key were not there"
    TAKEN = "a value"
    REFUSED = "a problem, since the default is not empty"


@value
class Key:
    """One key."""

    name: str
    meaning: str
    kind: Kind[Any]
    default: str | float | bool | None = None
    default_said: str = ""
    """The default in words, where it depends on something."""
    required: bool = False
    empty: Empty = Empty.UNSAID
    choices: tuple[str, ...] = ()
    synonyms: tuple[tuple[str, str], ...] = ()
    """Other words for a choice."""
    refused_words: tuple[tuple[str, str], ...] = ()
    """Words that are known and can't be obeyed, with the reason."""
    least: int | None = None
    also: tuple[int, ...] = ()
    """Smaller numbers that are understood as well."""
    refused: str = ""
    """Why a known key can't be obeyed: an error."""
    ignored: str = ""
    """Why a known key has no effect: a warning, if it asks for something."""
    settled: str = ""
    """Why a known key need not be said: what it asks for is done anyway."""
    origin: Enum | None = None
    """Where it comes from, if not from where the others of its table do; the value is for the reference page."""


def words(kind: type[Enum]) -> tuple[str, ...]:
    """The words of a closed set, for ``choices``."""
    return tuple(str(member.value) for member in kind)


def known(key: Key) -> bool:
    """Whether a key is obeyed: the others are not suggested."""
    return not (key.refused or key.ignored or key.settled)
