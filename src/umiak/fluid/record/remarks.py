"""Says of an argument that it has no effect: once, with its name, its value and the line of the user's file. An adapter."""

from __future__ import annotations

import warnings

from umiak.fluid.record.sites import user_line
from umiak.fluid.surface import without_effect

_told: set[str] = set()
_KNOWN = without_effect.remarked()


def left_out_of_layer(name: str, given: dict[str, object]) -> None:
    """The same for a layer that is one operation."""
    known = {key: each for key, each in given.items() if (f"layers.{name}", key) in _KNOWN}
    left_out(f"layers.{name}", **known)


def left_out(function: str, **given: object) -> None:
    """Arguments of a function that have no effect, as they were given: what is usual needs no word."""
    for name, value in given.items():
        usual, why = _KNOWN[function, name]
        if value is usual or (isinstance(value, bool | int | float | str) and value == usual):
            continue
        text = f"{user_line()}: {function}({name.strip('_')}={value!r:.60}) has no effect: {why}"
        if text not in _told:
            _told.add(text)
            warnings.warn(text, stacklevel=3)
