"""Lets programs of this environment import umiak's `paddle.fluid`.

Imported by `umiak_paddle_fluid.pth` whenever Python starts in this environment. It puts an importer at the end of `sys.meta_path`, which does nothing until
a program imports `paddle.fluid` and Paddle itself has none.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

NAME = "paddle.fluid"


class FluidWhenAskedFor:
    """Installs umiak's importer when `paddle.fluid` is asked for, and nobody else has it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A module's place; None if it is none of these, or umiak is not installed."""
        if name != NAME:
            return None
        try:
            from umiak.fluid.installing import FluidImporter, install
        except ImportError:
            sys.stderr.write("umiak-paddle-fluid: umiak is not installed here, so there is no paddle.fluid\n")
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        install()
        return FluidImporter().find_spec(name, path, target)


sys.meta_path.append(FluidWhenAskedFor())  # type: ignore[arg-type]
