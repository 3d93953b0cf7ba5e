"""Makes sure of the native core before anything uses it: that it is there, and of the same version as umiak. An adapter.

Importing this module is the check; `umiak.data` and `umiak.ps` do so first.
"""

from __future__ import annotations

from umiak import __version__
from umiak.core.problem import BadRequest


class NativeCoreError(BadRequest, ImportError):
    """The native core can't be used. An ImportError too, since it is an import that raises it."""


def check(ours: str, native: str) -> None:
    """Whether a native core of this version fits; it does where ours is unknown, as in a source tree that was not installed."""
    if ours not in ("unknown", native):
        raise NativeCoreError.of(
            "UM-DATA-073",
            f"umiak and its native core are of different versions: umiak {ours}, umiak-native {native}",
            why="they share the format of tables and messages, and are made for each other alone",
            hint=_command(),
        )


def _command() -> str:
    from umiak.adapters import installation

    return installation.command("ps")


try:
    import numpy as np  # noqa: F401 - the native core hands out its arrays
    import umiak_native
except ImportError as missing:
    name = (
        "umiak's native core" if missing.name == "umiak_native" else f"{missing.name}, which umiak's native core needs,"
    )
    raise NativeCoreError.of("UM-DATA-005", f"{name} is not installed", why=str(missing), hint=_command()) from missing

check(__version__, getattr(umiak_native, "__version__", "0"))
