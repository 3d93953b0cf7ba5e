"""umiak takes a distributed training job from a laptop to any cluster.

The package's face for training scripts is small: ``umiak.progress()`` tells the launcher that this
worker is alive. Everything else is reached through the ``umiak`` command.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    __version__: str
    """As it was installed; `unknown` in a source tree that was not. Written in native/Cargo.toml alone."""
else:

    def __getattr__(name: str) -> str:
        """``umiak.__version__``, looked up only where somebody asks for it: it takes longer than the start of a launcher may."""
        if name != "__version__":
            raise AttributeError(f"module 'umiak' has no attribute {name!r}")
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("umiak")
        except PackageNotFoundError:
            return "unknown"


__all__ = ["__version__", "progress"]


def progress() -> None:
    """Tell the launcher that this worker is getting on, so that ``--hang_timeout`` does not end it.

    Call it once a step, or as often as you like: it costs about a microsecond. Outside ``umiak launch``, or
    without ``--hang_timeout``, it does nothing.

        for batch in batches:
            train(batch)
            umiak.progress()
    """
    path = os.environ.get("UMIAK_PROGRESS_FILE")
    if path:
        os.utime(path)
