"""Lets `import paddle.fluid` find umiak's: an importer at the end of `sys.meta_path`, so that a real `paddle.fluid` goes first. A program."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

from umiak.fluid.modules import MODULES, FluidModule

if TYPE_CHECKING:
    from types import ModuleType

NAME = "paddle.fluid"


class FluidImporter:
    """Finds `paddle.fluid` and what is below it."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """A module's place; None if it is none of these."""
        if name != NAME and not (name.startswith(f"{NAME}.") and name.removeprefix(f"{NAME}.") in MODULES):
            return None
        return ModuleSpec(name, self, origin=__file__, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module made from the table of names."""
        return FluidModule(spec.name, spec.name.removeprefix(NAME).removeprefix("."))

    def exec_module(self, module: ModuleType) -> None:
        """Programs of fluid find the files of `paddle.dataset` on this machine, and may give variables to functions of `paddle`."""
        if module.__name__ == NAME:
            from umiak.fluid.data import local_files

            local_files.install()
            importlib.import_module("umiak.fluid.of_paddle").install()


def install() -> FluidImporter:
    """Let this process import umiak's `paddle.fluid`, unless Paddle has its own. To do it again changes nothing."""
    for finder in sys.meta_path:
        if isinstance(finder, FluidImporter):
            return finder
    importer = FluidImporter()
    sys.meta_path.append(importer)
    return importer
