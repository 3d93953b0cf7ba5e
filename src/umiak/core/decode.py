"""Values to plain data and back, with every field checked: for frames from the network, journals and files. A decider.

    encode(Node(name="a", ...))      -> {"name": "a", ...}
    decode(Node, {"name": "a", ...}) -> Node(...), or a Malformed that says which field is wrong and how

A member of a closed union carries its class name under ``is``:

    encode_tagged(Go(generation=2))            -> {"is": "Go", "generation": 2}
    decode_tagged((Go, Stop), {"is": "Go"...}) -> Go(...)

A class may bring its own denser form with ``to_plain`` and ``from_plain``.
Nothing is ever executed or unpickled: a class is chosen by the caller, or from the caller's list.
"""

from __future__ import annotations

import sys
import types
from enum import Enum

from umiak.core.value import fields, is_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from umiak.core.json_types import JsonObject

    T = TypeVar("T")
    Reader = Callable[[object, str], object]


class Malformed(ValueError):
    """Data that is not what it should be; the text names the place and the value."""


def encode(item: object) -> Any:
    """Plain data (dict, list, str, number, None) for a value or a tuple of values."""
    if isinstance(item, Enum):
        return item.value
    if item is None or isinstance(item, (str, int, float)):
        return item
    if isinstance(item, (tuple, list)):
        return [encode(each) for each in item]
    if isinstance(item, dict):
        return {key: encode(each) for key, each in item.items()}
    if hasattr(item, "to_plain"):
        return item.to_plain()
    if is_value(item):
        return {name: encode(getattr(item, name)) for name in fields(item)}
    raise TypeError(f"not a value: {item!r}")


def encode_tagged(item: object) -> JsonObject:
    """Like encode, with the class name under ``is``."""
    return {"is": type(item).__name__, **encode(item)}


def decode(cls: type[T], data: object, where: str = "") -> T:
    """A value of this class from plain data; unknown and missing fields and wrong types raise Malformed."""
    if not isinstance(data, dict):
        raise Malformed(f"{where or cls.__name__}: expected an object, got {short(data)}")
    own_reader: Callable[[JsonObject, str], T] | None = getattr(cls, "from_plain", None)
    if own_reader:
        return own_reader(data, where or cls.__name__)
    readers = _readers(cls)
    given: JsonObject = {}
    for name, item in data.items():
        if name == "is" and item == cls.__name__:
            continue
        if name not in readers:
            raise Malformed(f"{where or cls.__name__}: unknown field {short(name)}")
        given[name] = readers[name](item, f"{where or cls.__name__}.{name}")
    try:
        return cls(**given)
    except TypeError as error:
        raise Malformed(f"{where or cls.__name__}: {error}") from None


def decode_tagged(classes: Sequence[type[T]], data: object) -> T:
    """A value of whichever of these classes ``is`` names."""
    if not isinstance(data, dict):
        raise Malformed(f"expected an object, got {short(data)}")
    for cls in classes:
        if cls.__name__ == data.get("is"):
            return decode(cls, {key: item for key, item in data.items() if key != "is"})
    raise Malformed(f"unknown kind: {short(data.get('is'))}")


_readers_by_class: dict[type, dict[str, Reader]] = {}


def _readers(cls: type) -> dict[str, Reader]:
    if cls not in _readers_by_class:
        names = vars(sys.modules[cls.__module__])
        annotations = cls.__annotations__
        # Our own annotations, as written in our own source: they are text because of the __future__ import.
        _readers_by_class[cls] = {name: _reader(eval(annotations[name], dict(names))) for name in fields(cls)}  # noqa: S307
    return _readers_by_class[cls]


def _reader(kind: Any) -> Reader:
    """The function that reads one field of this type."""
    if isinstance(kind, types.UnionType):
        return _union_reader(kind.__args__)
    if isinstance(kind, types.GenericAlias):
        return _container_reader(kind)
    if kind is float:
        return _float_reader
    if kind in (int, str, bool):
        return _plain_reader(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum_reader(kind)
    if is_value(kind):
        return lambda data, where: decode(kind, data, where)
    raise TypeError(f"no reader for {kind!r}")


def _plain_reader(kind: type) -> Reader:
    def read(data: object, where: str) -> object:
        if type(data) is not kind:
            raise Malformed(f"{where}: expected {kind.__name__}, got {short(data)}")
        return data

    return read


def _float_reader(data: object, where: str) -> float:
    if type(data) not in (int, float):
        raise Malformed(f"{where}: expected a number, got {short(data)}")
    try:
        return float(data)  # type: ignore[arg-type]
    except OverflowError:
        raise Malformed(f"{where}: a number that is too large") from None


def _enum_reader(kind: type[Enum]) -> Reader:
    def read(data: object, where: str) -> Enum:
        try:
            return kind(data)
        except ValueError:
            known = ", ".join(str(member.value) for member in kind)
            raise Malformed(f"{where}: expected one of {known}, got {short(data)}") from None

    return read


def _union_reader(kinds: tuple[type, ...]) -> Reader:
    some = [kind for kind in kinds if kind is not type(None)]
    if len(some) == 1:
        reader = _reader(some[0])
        return lambda data, where: None if data is None else reader(data, where)
    return lambda data, _where: decode_tagged(some, data)


def _container_reader(kind: types.GenericAlias) -> Reader:
    if kind.__origin__ is tuple and kind.__args__[-1] is ...:
        reader = _reader(kind.__args__[0])

        def read_list(data: object, where: str) -> tuple[object, ...]:
            if not isinstance(data, (list, tuple)):
                raise Malformed(f"{where}: expected a list, got {short(data)}")
            return tuple([reader(item, where) for item in data])

        return read_list
    if kind.__origin__ is tuple:
        readers = [_reader(each) for each in kind.__args__]

        def read_row(data: object, where: str) -> tuple[object, ...]:
            if not isinstance(data, (list, tuple)) or len(data) != len(readers):
                raise Malformed(f"{where}: expected {len(readers)} items, got {short(data)}")
            return tuple([each(item, where) for each, item in zip(readers, data, strict=True)])

        return read_row
    if kind.__origin__ is dict:
        reader = _reader(kind.__args__[1])

        def read_dict(data: object, where: str) -> JsonObject:
            if not isinstance(data, dict):
                raise Malformed(f"{where}: expected an object, got {short(data)}")
            return {key: reader(item, f"{where}.{key}") for key, item in data.items()}

        return read_dict
    raise TypeError(f"no reader for {kind!r}")


def short(data: object) -> str:
    """Anything at all in a few words, for a message about it."""
    try:
        text = repr(data)
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        text = f"a {type(data).__name__} that can't be shown"
    return text if len(text) <= 60 else text[:57] + "..."
