"""What a field of a resource is: one row of a table, from which reader, CRD and reference page are made. Values.

    ResourceField(name="withGloo", kind=FieldKind.INTEGER, meaning="...", least=0, most=2, is_old=True)

A field that the old operator had is ``is_old``: the schema of the CRD says no more than its type, so that no manifest
that people have is refused by the API server. What is wrong with it is found by ``reading`` and ``checks``, and told in
a condition.
"""

from __future__ import annotations

from enum import Enum
from functools import partial

from umiak.core.value import positional_value, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class FieldKind(Enum):
    """What stands in a field; the values are phrases for messages: ``must be ...``."""

    TEXT = "text"
    INTEGER = "an integer"
    BOOLEAN = "a boolean"
    TIME = "a time such as 2026-01-31T12:00:00Z"
    OBJECT = "an object"
    LIST = "a list of objects"
    TEMPLATE = "a pod template: an object"
    QUANTITIES = "an object of quantities such as 4 or 8Gi"
    TEXTS = "an object of texts"
    NUMBERS = "an object of integers"
    WORDS = "a list of texts"
    CODES = "a list of integers"


TEXT, INTEGER, BOOLEAN, TIME, OBJECT, LIST, TEMPLATE, QUANTITIES, TEXTS, NUMBERS, WORDS, CODES = FieldKind
"""Its members, for tables."""


@value
class CelRule:
    """A rule in the Common Expression Language, which API servers since 1.25 check when an object is written."""

    rule: str
    message: str


@positional_value
class ResourceField:
    """One field."""

    name: str
    meaning: str
    kind: FieldKind = FieldKind.TEXT
    fields: tuple[ResourceField, ...] = ()
    """Of an object, or of each object of a list."""
    default: str = ""
    """In words, for the reference page: nothing is filled in by the API server."""
    least: int | None = None
    most: int | None = None
    words: tuple[str, ...] = ()
    """All that it, or an item of its list, may say.
    An unknown word in an old field is a warning, in a new one an error.
    """
    required: bool = False
    is_old: bool = False
    """A field of the old operators' resources: the schema has neither limits nor words for it."""
    is_closed: bool = False
    """Whether the CRD lists the words, so that the API server refuses others."""
    unused: str = ""
    """Why the field has no effect here. Setting it is a warning with this text."""
    keys: tuple[str, ...] = ()
    """Of a list: the fields that tell its items apart."""
    rules: tuple[CelRule, ...] = ()
    remembered: str = ""
    """Of a number, or an object of numbers or texts, in ``status``:
    the field of `JobReport` that it is read into and written from.
    """


old_field = partial(ResourceField, is_old=True)


def described(fields: tuple[ResourceField, ...], path: str) -> Iterator[tuple[str, ResourceField]]:
    """Every field with its path, parents first."""
    for field in fields:
        inside = f"{path}.{field.name}"
        yield inside, field
        yield from described(field.fields, f"{inside}[]" if field.kind is FieldKind.LIST else inside)
