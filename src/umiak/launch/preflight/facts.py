"""What a node can tell about itself without importing any framework. An adapter; it only reads."""

from __future__ import annotations

import os
import resource
import sys

from umiak.adapters import hostinfo
from umiak.adapters.version import FRAMEWORKS, version, version_of
from umiak.launch.preflight.messages import Facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.launch.preflight.task import CheckTask

LARGEST_PROGRAM_BYTES = 64 * 1024 * 1024


def gather(task: CheckTask) -> Facts:
    """This node's facts."""
    hostname, own_address = hostinfo.own_name()
    logs, shared = hostinfo.room(task.log_dir), hostinfo.room(hostinfo.SHARED_MEMORY)
    return Facts(
        hostname=hostname,
        own_address=own_address,
        umiak=version(),
        python=".".join(str(part) for part in sys.version_info[:3]),
        frameworks=frameworks(),
        device_kind=task.device_kind,
        device_count=task.device_count,
        program=task.program,
        program_hash=fingerprint(task.program, is_module=task.is_module) if task.program else "",
        log_dir=task.log_dir,
        log_writable=logs is not None and logs.is_writable,
        log_free_bytes=logs.free_bytes if logs else 0,
        shm_bytes=shared.free_bytes if shared else -1,
        open_files=_open_files(),
        token=task.token,
    )


def frameworks() -> dict[str, str]:
    """The installed frameworks with their versions, as their distributions say it."""
    versions = {}
    for distribution in FRAMEWORKS["paddle"]:
        if number := version_of(distribution):
            # Like torch's, with the build behind a plus.
            build = distribution.partition("-")[2]
            versions["paddle"] = f"{number}+{build}" if build else number
    for name in ("torch", "jax"):
        numbers = [number for number in map(version_of, FRAMEWORKS[name]) if number]
        if numbers:
            versions[name] = numbers[0]
    return versions


def fingerprint(program: str, *, is_module: bool) -> str:
    """SHA-256 of a script's or module's contents; empty if there is none to read."""
    import hashlib

    path = _module_file(program) if is_module else program
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read(LARGEST_PROGRAM_BYTES)).hexdigest()
    except OSError:
        return ""


def _module_file(name: str) -> str:
    """The file that ``python -m name`` would run. Found step by step, so that no package is imported on the way."""
    from importlib.machinery import PathFinder

    packages: list[str] | None = None
    parts = name.split(".")
    for number in range(1, len(parts)):
        spec = PathFinder.find_spec(".".join(parts[:number]), packages)
        packages = spec.submodule_search_locations if spec else None
        if packages is None:
            return ""
    spec = PathFinder.find_spec(name, packages)
    if spec is None or spec.submodule_search_locations is None:
        return (spec.origin or "") if spec else ""
    files = [os.path.join(directory, "__main__.py") for directory in spec.submodule_search_locations]
    return next((file for file in files if os.path.isfile(file)), "")


def _open_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
