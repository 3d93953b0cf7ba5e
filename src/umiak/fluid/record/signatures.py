"""Signatures of layers that are one operation each, parsed from their rows. A decider."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from umiak.core.value import value
from umiak.fluid.surface import layer_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.fluid.arguments import Arguments

_ROW = re.compile(r"(\w+)\((.*)\)(?: -> (\d))?")
REQUIRED = object()
"""In place of a default."""
ABOUT_THE_CALL = ("name", "act", "out", "cond", "output", "device")
"""Arguments that say where an output goes, not what is computed."""


@value
class Signature:
    """One layer: its arguments in their order, each with its default, and its number of outputs."""

    name: str
    arguments: Arguments
    outputs: int

    def bound(self, given: tuple[Any, ...], named: Arguments) -> Arguments:
        """All arguments of a call by their names; a TypeError as Python's own functions raise it."""
        names = list(self.arguments)
        if len(given) > len(names):
            raise TypeError(f"{self.name}() takes {len(names)} arguments but {len(given)} were given")
        arguments = dict(zip(names, given, strict=False))
        for name, argument in named.items():
            if name not in self.arguments:
                raise TypeError(f"{self.name}() got an unexpected argument '{name}'; it has {', '.join(names)}")
            if name in arguments:
                raise TypeError(f"{self.name}() got two values for '{name}'")
            arguments[name] = argument
        missing = [name for name, default in self.arguments.items() if default is REQUIRED and name not in arguments]
        if missing:
            raise TypeError(f"{self.name}() misses {', '.join(missing)}")
        return {name: arguments.get(name, default) for name, default in self.arguments.items()}


def parsed(texts: Iterable[str]) -> dict[str, Signature]:
    """The signatures of some tables."""
    signatures = {}
    for row in (line for text in texts for line in text.strip().splitlines()):
        match = _ROW.fullmatch(row)
        assert match, row
        name, arguments, outputs = match.groups()
        function = ast.parse(f"def f({arguments}): pass").body[0]
        assert isinstance(function, ast.FunctionDef)
        names = [argument.arg for argument in function.args.args]
        defaults = [ast.literal_eval(each) for each in function.args.defaults]
        values = [REQUIRED] * (len(names) - len(defaults)) + defaults
        signatures[name] = Signature(
            name=name, arguments=dict(zip(names, values, strict=True)), outputs=int(outputs or 1)
        )
    return signatures


LAYERS = parsed(layer_rows.TEXTS)
