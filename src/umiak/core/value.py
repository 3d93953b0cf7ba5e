"""Frozen, slotted, keyword-only classes, made without the standard ``dataclasses`` module. Values.

A value says what something *is*; it has no behaviour beyond questions about itself and is never
changed, only replaced (``replace(node, host="10.0.0.2")``). Type checkers treat ``@value`` exactly
like ``@dataclass(frozen=True, slots=True, kw_only=True)``.

Why not ``dataclasses`` itself: importing it and building forty classes costs 35-50 ms, more than the
rest of ``umiak launch`` together, because it imports ``inspect`` and compiles several methods per
class. Here methods are shared closures, so a class costs some microseconds
(docs/decisions/0002-values-without-dataclasses.md).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Protocol, TypeVar

    from typing_extensions import dataclass_transform

    T = TypeVar("T")

    class Made(Protocol):
        """What `value` has made of a class: what the functions below know of their ``self``."""

        __fields__: tuple[str, ...]
        __defaults_by_name__: dict[str, Any]
        __changeable__: tuple[str, ...]
        __setters__: tuple[tuple[str, Callable[[object, object], None]], ...]

    @dataclass_transform(kw_only_default=True, frozen_default=True)
    def value(cls: type[T]) -> type[T]:
        """A frozen, slotted, keyword-only class with the annotated attributes as its fields."""
        return cls

    @dataclass_transform(frozen_default=True)
    def positional_value(cls: type[T]) -> type[T]:
        """A value that may also be written without its fields' names, in their order: ``Uniform(-0.1, 0.1)``."""
        return cls

else:

    def value(cls: type) -> type:
        """Turn annotated class attributes into the fields of a frozen, slotted, keyword-only class."""
        names = tuple(cls.__annotations__)
        defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        body = {
            key: item
            for key, item in cls.__dict__.items()
            if key not in defaults and key not in ("__dict__", "__weakref__")
        }
        body.update(
            __slots__=names,
            __fields__=names,
            __defaults_by_name__=defaults,
            __changeable__=tuple(name for name, default in defaults.items() if type(default) in (dict, list, set)),
            __match_args__=names,
            __init__=_init,
            __repr__=_repr,
            __eq__=_eq,
            __hash__=_hash,
            __setattr__=_refuse_change,
            __delattr__=_refuse_change,
            __reduce__=_reduce,
        )
        new_class = type(cls)(cls.__name__, cls.__bases__, body)
        new_class.__qualname__ = cls.__qualname__
        # How the fields are really written, once: the slot descriptors go round the frozen __setattr__.
        new_class.__setters__ = tuple((name, new_class.__dict__[name].__set__) for name in names)
        return new_class

    def positional_value(cls: type) -> type:
        """A value that may also be written without its fields' names, in their order: ``Uniform(-0.1, 0.1)``."""
        new_class = value(cls)
        new_class.__init__ = _positional_init
        return new_class


def fields(item: Any) -> tuple[str, ...]:
    """The field names of a value or of its class, in the order of their declaration."""
    names: tuple[str, ...] = item.__fields__
    return names


def is_value(item: object) -> bool:
    """Whether this is a value (or the class of one)."""
    return hasattr(item, "__fields__")


def from_row(cls: type[T], row: Iterable[object]) -> T:
    """A value from all of its fields in order, already known to be right: several times faster than by keyword."""
    item = object.__new__(cls)
    for (_, set_field), each in zip(cls.__setters__, row, strict=False):  # type: ignore[attr-defined]
        set_field(item, each)
    return item


def from_columns(cls: type[T], columns: Iterable[Sequence[object]], count: int) -> tuple[T, ...]:
    """Many values from their fields, one column each in order, already known to be right:
    no loop of Python's own over them.
    """
    from collections import deque  # milliseconds that a program with few values does not need

    items = tuple([object.__new__(cls) for _ in range(count)])
    for (_, set_field), column in zip(cls.__setters__, columns, strict=False):  # type: ignore[attr-defined]
        deque(map(set_field, items, column), maxlen=0)
    return items


def replace(item: T, **changes: Any) -> T:
    """A copy of a value with some fields changed."""
    return type(item)(**{**dict(_items(item)), **changes})


def from_fields(cls: type[T], source: object, **others: object) -> T:
    """A value with every field that another value has under the same name, and with others:
    a field that both have is in both.
    """
    shared = [name for name in fields(cls) if name not in others and name in fields(source)]
    return cls(**{name: getattr(source, name) for name in shared}, **others)


def _items(item: object) -> Iterator[tuple[str, object]]:
    return ((name, getattr(item, name)) for name in fields(item))


def _init(self: Made, *unnamed: object, **given: object) -> None:
    if unnamed:
        raise TypeError(_named_instead(type(self), unnamed))
    filled = {**self.__defaults_by_name__, **given}
    for name in self.__changeable__:  # no two values share what could be changed in one of them
        if name not in given:
            filled[name] = filled[name].copy()
    try:
        for name, set_field in self.__setters__:
            set_field(self, filled[name])
    except KeyError as missing:
        raise TypeError(f"{type(self).__name__} needs {missing.args[0]}=") from None
    if len(filled) > len(self.__fields__):
        raise TypeError(_no_such_field(type(self), [name for name in filled if name not in self.__fields__]))


def _positional_init(self: Made, *given: object, **named: object) -> None:
    names = self.__fields__[: len(given)]
    if len(given) > len(names):
        raise TypeError(f"{type(self).__name__} takes {len(names)} values, not {len(given)}: {', '.join(names)}")
    if twice := [name for name in names if name in named]:
        raise TypeError(f"{type(self).__name__} is given {', '.join(twice)} twice")
    _init(self, **dict(zip(names, given, strict=True)), **named)


def _repr(self: object) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={item!r}' for name, item in _items(self))})"


def _eq(self: Made, other: object) -> bool:
    if type(self) is not type(other):
        return False
    return all(getattr(self, name) == getattr(other, name) for name in self.__fields__)


def _hash(self: object) -> int:
    return hash((type(self).__name__, *(item for _, item in _items(self))))


def _reduce(self: object) -> tuple[object, ...]:
    """How ``copy`` and ``pickle`` make another one: the frozen ``__setattr__`` would refuse their usual way."""
    return from_row, (type(self), tuple(item for _, item in _items(self)))


def _named_instead(cls: type[Made], unnamed: tuple[object, ...]) -> str:
    """What a call with arguments that have no name should have been."""
    call = ", ".join(f"{name}={item!r}" for name, item in zip(cls.__fields__, unnamed, strict=False))
    return f"{cls.__name__} takes its fields by name: {cls.__name__}({call})"


def _no_such_field(cls: type[Made], names: list[str]) -> str:
    hints = getattr(cls, "__hints__", {})
    advice = "".join(f"; {name}: {hints[name]}" for name in names if name in hints)
    return f"{cls.__name__} has no field {', '.join(names)}: it has {', '.join(cls.__fields__) or 'none'}{advice}"


def _refuse_change(self: object, name: str, *_: object) -> None:
    raise AttributeError(f"{type(self).__name__} is a value, {name} can't be changed; use replace()")
