"""The modules below `paddle.fluid`, made from the tables of names; what is in them is imported when it is used. A program.

A name that does not work is there as well: it says why as soon as it is used, with the line of the user's file, so that a program
may import what it does not need.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, NoReturn

from umiak.core.nearest import nearest
from umiak.fluid.surface.layer_rows import TEXTS
from umiak.fluid.surface.names import NAMES
from umiak.fluid.surface.refusals import reason

ROWS = frozenset(line.partition("(")[0] for text in TEXTS for line in text.strip().splitlines())
REFUSED_MODULES = [
    "contrib.decoder",
    "core.ops",
]
"""Modules in which nothing works yet; they can be imported."""


LAYER_MODULES = (
    "control_flow",
    "io",
    "learning_rate_scheduler",
    "loss",
    "metric_op",
    "nn",
    "ops",
    "sequence_lod",
    "tensor",
)
"""Files of 1.8 that have layers: each is `fluid.layers` here, with what only the file itself had."""


def works(name: str) -> bool:
    """Whether a name, without ``fluid.``, works."""
    head, _, last = name.rpartition(".")
    return name in NAMES or (head == "layers" and last in ROWS)


def module_names() -> frozenset[str]:
    """All modules, without ``fluid.``."""
    module_names = {"layers", "reader", *(f"layers.{each}" for each in LAYER_MODULES)}
    for name in (*(each.rpartition(".")[0] for each in NAMES), *REFUSED_MODULES):
        parts = name.split(".")
        module_names.update(".".join(parts[:count]) for count in range(1, len(parts) + 1) if parts[0])
    return frozenset(module_names)


MODULES = module_names()


class RefusedName:
    """A name that does not work: any use of it is an error that says why."""

    def __init__(self, name: str) -> None:
        self.__dict__["_refused"] = name

    def _say(self) -> NoReturn:
        from umiak.fluid.record.problems import bad
        from umiak.fluid.record.sites import user_line

        name = self.__dict__["_refused"]
        why, instead = reason(name)
        close = _meant(name)
        hint = f"did you mean fluid.{close}? Otherwise use: {instead}" if close else f"use instead: {instead}"
        raise bad("UM-FLUID-003", f"fluid.{name} does not work yet", hint, why=why, where=user_line())

    def __call__(self, *_given: object, **_named: object) -> Any:
        self._say()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._say()

    def __setattr__(self, name: str, value: object) -> None:
        self._say()

    def __mro_entries__(self, bases: object) -> tuple[type, ...]:
        self._say()

    def __repr__(self) -> str:
        return f"<fluid.{self.__dict__['_refused']}: does not work yet>"


class FluidModule(ModuleType):
    """`paddle.fluid` or a module below it."""

    def __init__(self, full_name: str, own: str) -> None:
        super().__init__(full_name, "Programs of fluid 1.8, run by umiak on today's Paddle.")
        self._file = f"{own}."
        if own.startswith("layers.") and own.removeprefix("layers.") in LAYER_MODULES:
            own = "layers"
        self._own = f"{own}." if own else ""
        self.__path__: list[str] = []
        self.__all__ = sorted(each for each in self.__dir__() if not each.startswith("_"))

    def __dir__(self) -> list[str]:
        own = self._own
        names = [name.removeprefix(own) for name in (*NAMES, *MODULES) if name.startswith(own)]
        return sorted({name for name in names if "." not in name} | (ROWS if own == "layers." else set()))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__dict__['_file']}{name}"
        member = resolved(full) if full in NAMES else self._found(f"{self.__dict__['_own']}{name}")
        setattr(self, name, member)
        return member

    def _found(self, full: str) -> Any:
        if works(full):
            return resolved(full)
        if full == "layers.Variable":  # which those files import, too
            return resolved("framework.Variable")
        if full in MODULES:
            return importlib.import_module(f"{self.__name__}.{full.removeprefix(self._own)}")
        if self._own == "" and full[0].islower() and not known_refusal(full):
            close = nearest(full, self.__dir__())
            raise AttributeError(f"fluid has no {full}" + (f"; did you mean {close}?" if close else ""))
        return RefusedName(full)


def _meant(name: str) -> str:
    """The name of the same module that was probably meant, if it works."""
    head, _, last = name.rpartition(".")
    beside = [each.rpartition(".")[2] for each in NAMES if each.rpartition(".")[0] == head]
    close = nearest(last, [*beside, *(ROWS if head == "layers" else ())])
    return f"{head}.{close}".lstrip(".") if close else ""


def known_refusal(name: str) -> bool:
    """Whether a row says why, other than the last one for everything."""
    return reason(name) != reason("?")


def resolved(name: str) -> Any:
    """What stands behind a name that works, without ``fluid.``."""
    if name not in NAMES:
        rows = importlib.import_module("umiak.fluid.layers.rows")
        return rows.layer(name.rpartition(".")[2])
    module, _, attribute = NAMES[name].partition(":")
    own = module.removeprefix("=") if module.startswith("=") else f"umiak.fluid.{module}"
    return getattr(importlib.import_module(own), attribute)
