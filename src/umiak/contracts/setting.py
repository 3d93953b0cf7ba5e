"""What a launcher decided about its workers and the cluster does not say. A value."""

from __future__ import annotations

from umiak.core.cluster import Mode
from umiak.core.devices import Devices
from umiak.core.value import value

SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
"""The signals that end a job when its launcher gets them, as torchrun writes them down for its workers."""


@value
class WorkerSetting:
    """The same for every worker of one node and one generation."""

    mode: Mode = Mode.COLLECTIVE
    log_dir: str
    """Absolute. The backup of a worker's contract goes there (``PADDLE_BACKUP_ENV_PATH``)."""
    max_restarts: int = 0
    restart_count: int = 0
    with_gloo: int = 1
    """Paddle's ``PADDLE_WITH_GLOO`` with parameter servers: 0 no barrier, 1 between trainers, 2 between all."""
    gloo_port: int | None = None
    """Where gloo meets on the first server's host; ``None``: at the port that its node holds for that."""
    devices: Devices | None = None
    """``None``: the workers compute on the CPU."""
    heter_device: str | None = None
    """What heter workers compute on if a person said it:
    ``cpu``, ``gpu`` or ``xpu``; ``None``: on the devices, if any.
    """
    backend: str | None = None
    """The collective library that a person asked for (``PADDLE_DISTRI_BACKEND``); ``None`` and ``auto``: what fits."""
    endpoints_limit: int = 48_000
    """A list of endpoints as long as this is left out of the environment and kept in the backup only."""
    role_name: str = "default"
    """torchrun's ``--role``, for ROLE_NAME."""
    signals: str = SIGNALS
    """torchrun's ``--signals-to-handle``."""
