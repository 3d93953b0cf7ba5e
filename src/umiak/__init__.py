"""umiak takes a distributed training job from a laptop to any cluster.

The package's face is small: ``umiak.run()`` runs a function or a script in several processes, ``umiak.place()`` submits jobs,
``umiak.progress()`` tells the launcher that this worker is alive. Everything else is reached through the ``umiak`` command.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    __version__: str
    """As it was installed; `unknown` in a source tree that was not. Written in native/Cargo.toml alone."""
    from umiak.api.places import Job as Job
    from umiak.api.places import Replicas as Replicas
    from umiak.api.places import Resource as Resource
    from umiak.api.places import Role as Role
    from umiak.api.places import RoleSpec as RoleSpec
    from umiak.api.places import place as place
    from umiak.api.results import Results as Results
    from umiak.api.results import RunError as RunError
    from umiak.api.run import run as run
else:
    _ELSEWHERE = {
        "run": "run",
        "Results": "results",
        "RunError": "results",
        **dict.fromkeys(("Job", "Replicas", "Resource", "Role", "RoleSpec", "place"), "places"),
    }

    def __getattr__(name: str) -> object:
        """What takes longer to import than the start of a launcher may, looked up only where somebody asks for it."""
        if name in _ELSEWHERE:
            from importlib import import_module

            return getattr(import_module(f"umiak.api.{_ELSEWHERE[name]}"), name)
        if name != "__version__":
            raise AttributeError(f"module 'umiak' has no attribute {name!r}")
        from umiak.adapters.version import version

        return version()


__all__ = [
    "Job",
    "Replicas",
    "Resource",
    "Results",
    "Role",
    "RoleSpec",
    "RunError",
    "__version__",
    "place",
    "progress",
    "run",
]


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
