"""Lists, tuples and dictionaries of variables, however deep: `fluid.layers.utils`. Values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def is_sequence(seq: Any) -> bool:
    """Whether it holds others: a list, a tuple, a dictionary."""
    return isinstance(seq, list | tuple | dict)


def _members(structure: Any) -> list[Any]:
    return [structure[key] for key in sorted(structure)] if isinstance(structure, dict) else list(structure)


def flatten(nest: Any) -> list[Any]:
    """All that is no structure, in order; dictionaries by their keys in order."""
    return [one for each in _members(nest) for one in flatten(each)] if is_sequence(nest) else [nest]


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """Other values in the form of a structure."""
    if not is_sequence(flat_sequence):
        raise TypeError(f"expected a list of values, got {type(flat_sequence).__name__}")
    flat = list(flat_sequence)
    wanted = len(flatten(structure))
    if wanted != len(flat):
        raise ValueError(f"the structure {structure} holds {wanted} values, got {len(flat)}: {flat}")
    return _packed(structure, iter(flat))


def _packed(structure: Any, values: Iterator[Any]) -> Any:
    if not is_sequence(structure):
        return next(values)
    if isinstance(structure, dict):
        parts = {key: _packed(structure[key], values) for key in sorted(structure)}
        return type(structure)((key, parts[key]) for key in structure)
    members = [_packed(each, values) for each in structure]
    return type(structure)(*members) if hasattr(structure, "_fields") else type(structure)(members)


def map_structure(func: Callable[..., Any], *structure: Any) -> Any:
    """A function of the values at each place, in the form of the first structure."""
    return pack_sequence_as(structure[0], [func(*each) for each in zip(*map(flatten, structure), strict=False)])


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """A ValueError or a TypeError if two structures differ."""
    if is_sequence(nest1) != is_sequence(nest2) or (is_sequence(nest1) and len(nest1) != len(nest2)):
        raise ValueError(f"two structures differ: {nest1} and {nest2}")
    if not is_sequence(nest1):
        return
    if check_types and type(nest1) is not type(nest2):
        raise TypeError(f"two structures differ in type: {type(nest1).__name__} and {type(nest2).__name__}")
    if isinstance(nest1, dict) and set(nest1) != set(nest2):
        raise ValueError(f"two dictionaries differ in keys: {sorted(nest1)} and {sorted(nest2)}")
    for one, other in zip(_members(nest1), _members(nest2), strict=True):
        assert_same_structure(one, other, check_types)


def convert_to_list(value: Any, n: int, name: str, dtype: type = int) -> list[Any]:
    """One value n times, or a list of n."""
    if isinstance(value, dtype):
        return [value] * n
    expected = f"{name} is a value of {dtype.__name__}, or a list of {n} of them"
    if not isinstance(value, list | tuple) or len(value) != n:
        raise ValueError(f"{expected}, got {value!r}")
    for each in value:
        try:
            dtype(each)
        except (ValueError, TypeError):
            raise ValueError(f"{expected}, got {value!r}, and {each!r} is none") from None
    return list(value)
