"""Lets a reader process do without PaddlePaddle as long as its code takes base classes from it only. An adapter: it adds to the import system.

    from paddle.io import IterableDataset       a plain class of ours
    paddle.to_tensor(...), paddle.io.DataLoader, import paddle.distributed      PaddlePaddle is imported now, and everything is its own

Importing it takes seconds and hundreds of megabytes in each process, and most readers derive a class from `paddle.io` and use numpy otherwise.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

PADDLE, IO = "paddle", "paddle.io"


class MapStyleBase:
    """What map-style readers are derived from."""

    def __getitem__(self, at: int) -> object:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__")


class IterableBase(MapStyleBase):
    """What iterable readers are derived from."""

    def __iter__(self) -> Iterator[object]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


def install() -> None:
    """From now on `paddle` is imported when it is needed. Nothing is changed where it was imported already, or is not there."""
    if PADDLE not in sys.modules and importlib.util.find_spec(PADDLE) is not None:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        del path, target  # as Python calls it
        if name in (PADDLE, IO):
            return ModuleSpec(name, _Light(self), is_package=True)
        if name.startswith(f"{PADDLE}."):
            self.make_real()
            return ModuleSpec(name, _Real())
        return None

    def make_real(self) -> None:
        """PaddlePaddle itself, in the place of what stood for it."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            for name in (PADDLE, IO):
                sys.modules.pop(name, None)
            importlib.import_module(IO)


class _Light(importlib.abc.Loader):
    """Makes a module that becomes the real one when something else is asked of it."""

    def __init__(self, finder: _Finder) -> None:
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)

        def asked(name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(name)
            self._finder.make_real()
            return getattr(importlib.import_module(spec.name), name)

        module.__dict__["__getattr__"] = asked
        if spec.name == IO:
            module.__dict__.update(Dataset=MapStyleBase, IterableDataset=IterableBase)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """It is complete."""


class _Real(importlib.abc.Loader):
    """Gives the real module of a name, which it imports."""

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return importlib.import_module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """It was, when it was imported."""
