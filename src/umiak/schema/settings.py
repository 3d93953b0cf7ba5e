"""One declaration of a setting: its row in a table of keys, its field, its default, and how it is read. A decider.

    @settings
    class LabSettings:
        hosts: tuple[str, ...] = setting(kinds.NAMES, "Hosts.", required=True)
        device: DeviceKind = setting(DeviceKind, "Kind of accelerator.", default=DeviceKind.GPU)
        grace_s: int = setting(SPAN, "Time for workers to end.", default=30)
        access: SshAccess = group(SshAccess)

    table(LabSettings)                                    its rows: for reference pages, schemas and errors
    checked(LabSettings, section, "place lab", UNKNOWN)   a LabSettings, or UmiakError with everything that is wrong

The class becomes a value (`umiak.core.value`). What a file says is what is in it, zero and `false` as well; the default
is there only if the file says nothing. A field without `setting` is no key: the reader of the section gives it.
``ORIGIN`` of a class is that of all its keys.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.problem import UmiakError
from umiak.core.value import fields, replace, value
from umiak.schema import kinds, sections
from umiak.schema.findings import Findings
from umiak.schema.keys import Empty, Key, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Literal, TypedDict, TypeVar, overload

    from typing_extensions import Unpack, dataclass_transform

    from umiak.schema.keys import Kind
    from umiak.schema.sections import Said, UnknownKeys
    from umiak.schema.yaml_tree import Section

    T = TypeVar("T")
    D = TypeVar("D")

    class Options(TypedDict, total=False):
        """What else a declaration may say; most are fields of `umiak.schema.keys.Key`."""

        key: str
        """The key, where it is not called as the field is, without its unit."""
        default_text: str
        """The default in words, where it has a unit or depends on something."""
        empty: Empty
        """What an empty text is, where the default is another: refused if nothing is said here."""
        choices: tuple[str, ...]
        synonyms: tuple[tuple[str, str], ...]
        refused_words: tuple[tuple[str, str], ...]
        least: int
        also: tuple[int, ...]
        origin: Enum

    @overload
    def setting(
        kind: Kind[Any],
        meaning: str,
        *,
        default: D = ...,
        required: bool = ...,
        read: Callable[[Said, Findings], T],
        **row: Unpack[Options],
    ) -> T | D: ...
    @overload
    def setting(kind: Kind[T] | type[T], meaning: str, *, default: D, **row: Unpack[Options]) -> T | D: ...
    @overload
    def setting(kind: Kind[T] | type[T], meaning: str, *, required: Literal[True], **row: Unpack[Options]) -> T: ...
    def setting(kind: Any, meaning: str, **row: Any) -> Any:
        """A field that is a key of a file. ``kind``: of its values, or an Enum with its words.
        ``read``: makes the value of the whole section.
        """

    def group(
        cls: type[T], *, default: T = ..., defaults: Mapping[str, object] = ..., meanings: Mapping[str, str] = ...
    ) -> T:
        """A field whose own class declares keys of the same section; some may have another default or meaning here."""

    @dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(setting, group))
    def settings(cls: type[T]) -> type[T]:
        """A value whose fields are declared with `setting` and `group`."""
        return cls

else:

    def setting(
        kind: Kind[object] | type[Enum],
        meaning: str,
        *,
        default: object = None,
        read: Callable[[Said, Findings], object] | None = None,
        key: str = "",
        default_text: str = "",
        empty: Empty | None = None,
        **row: object,
    ) -> _Setting:
        """A field that is a key of a file."""
        enum = kind if isinstance(kind, type) else None
        if enum:
            row, kind = {"choices": words(enum), **row}, kinds.CHOICE
        empty = empty or (Empty.UNSAID if default in (None, "", (), {}) else Empty.REFUSED)
        declared = Key(name=key, meaning=meaning, kind=kind, default_said=default_text, empty=empty, **row)
        return _Setting(key=declared, enum=enum, read=read).with_default(default)

    def group(
        cls: type,
        *,
        default: object = None,
        defaults: Mapping[str, object] | None = None,
        meanings: Mapping[str, str] | None = None,
    ) -> _Group:
        """A field whose own class declares keys of the same section."""
        declared = dict(cls.__declared__)
        for name, other in (defaults or {}).items():
            declared[name] = declared[name].with_default(other)
        for name, other in (meanings or {}).items():
            declared[name] = replace(declared[name], key=replace(declared[name].key, meaning=other))
        return _Group(cls=cls, declared=declared, default=default)

    def settings(cls: type) -> type:
        """A value whose fields are declared with `setting` and `group`."""
        declared = {}
        for name in cls.__annotations__:
            item = cls.__dict__.get(name)
            if not isinstance(item, (_Setting, _Group)):
                continue
            declared[name] = item.named(name, cls.__dict__.get("ORIGIN"))
            if item.is_needed:
                delattr(cls, name)
            else:
                setattr(cls, name, item.default)
        settings = value(cls)
        settings.__declared__ = declared
        return settings


@value
class _Setting:
    """A field that is a key."""

    key: Key
    default: object = None
    enum: type[Enum] | None
    read: Callable[[Said, Findings], object] | None

    @property
    def is_needed(self) -> bool:
        """Whether who makes the value has to give it."""
        return self.key.required

    def named(self, name: str, origin: Enum | None) -> _Setting:
        key = self.key.name or name.removesuffix("_s").removesuffix("_bytes")
        return replace(self, key=replace(self.key, name=key, origin=self.key.origin or origin))

    def with_default(self, default: object) -> _Setting:
        return replace(self, default=default, key=replace(self.key, default=_written(default)))

    def rows(self) -> tuple[Key, ...]:
        return (self.key,)

    def taken(self, said: Said, findings: Findings, _: Mapping[str, object]) -> object:
        """Its value in a section."""
        if self.read:
            return self.read(said, findings)
        if not said.said(self.key.name):
            return self.default
        written = said.get(self.key.name)
        return self.enum(written) if self.enum else written


@value
class _Group:
    """A field whose class has further keys."""

    cls: type
    declared: Mapping[str, _Setting | _Group]
    default: object

    @property
    def is_needed(self) -> bool:
        return self.default is None

    def named(self, _: str, __: Enum | None) -> _Group:
        return self

    def rows(self) -> tuple[Key, ...]:
        return _rows(self.declared)

    def taken(self, said: Said, findings: Findings, others: Mapping[str, object]) -> object:
        return _filled(self.cls, self.declared, said, findings, others)


def table(cls: type) -> tuple[Key, ...]:
    """The keys that a class declares, in its order."""
    return _rows(_declared(cls))


def read(
    cls: type[T], section: Section, label: str, findings: Findings, unknown: UnknownKeys, **others: object
) -> tuple[T, Said]:
    """The value of a section, and the section; what is wrong goes to ``findings``.
    ``others``: fields that are no keys, or known better.
    """
    said = sections.read(table(cls), section, label, findings, unknown)
    return filled(cls, said, findings, **others), said


def filled(cls: type[T], said: Said, findings: Findings, **others: object) -> T:
    """The value of a section that was read with a table that has its rows."""
    return _filled(cls, _declared(cls), said, findings, others)


def taken(cls: type, said: Said, findings: Findings) -> dict[str, Any]:
    """Of the value of such a section the fields that are keys; the others are the caller's."""
    return {name: item.taken(said, findings, {}) for name, item in _declared(cls).items()}


def plain(settings: object) -> dict[str, object]:
    """A value as it stands in a file: its keys, and words instead of members of an Enum."""
    values = {
        key.name: getattr(settings, name) for name, item in _declared(type(settings)).items() for key in item.rows()
    }
    return {name: item.value if isinstance(item, Enum) else item for name, item in values.items()}


def checked(
    cls: type[T],
    section: Section,
    label: str,
    unknown: UnknownKeys,
    check: Callable[[T, Said, Findings], None] | None = None,
    **others: object,
) -> T:
    """The value of a section that is right. UmiakError with everything that is wrong;
    ``check`` finds what does not go together.
    """
    findings = Findings()
    found, said = read(cls, section, label, findings, unknown, **others)
    if check:
        check(found, said, findings)
    UmiakError.raise_any(findings.problems)
    return found


def _declared(cls: type) -> Mapping[str, _Setting | _Group]:
    declared: Mapping[str, _Setting | _Group] = cls.__declared__  # type: ignore[attr-defined]
    return declared


def _rows(declared: Mapping[str, _Setting | _Group]) -> tuple[Key, ...]:
    return tuple([key for item in declared.values() for key in item.rows()])


def _filled(
    cls: type[T],
    declared: Mapping[str, _Setting | _Group],
    said: Said,
    findings: Findings,
    others: Mapping[str, object],
) -> T:
    given = {name: others[name] for name in fields(cls) if name in others}
    taken = {name: item.taken(said, findings, others) for name, item in declared.items() if name not in given}
    return cls(**given, **taken)


def _written(default: Any) -> str | float | bool | None:
    """A default as one would write it in a file; None: there is nothing to write."""
    if default in (None, "", (), {}):
        return None
    if isinstance(default, Enum):
        return str(default.value)
    return int(default) if type(default) is float and default == int(default) else default
