"""umiak takes a distributed training job from a laptop to any cluster.

The package's face for training scripts is small: ``umiak.progress()`` tells the launcher that this
worker is alive. Everything else is reached through the ``umiak`` command.
"""

from __future__ import annotations

import os

__version__ = "0.1.0"
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
