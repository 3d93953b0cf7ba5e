"""What a node can tell about itself without importing any framework. An adapter; it only reads."""

from __future__ import annotations

import os
import resource
import socket
import sys

from umiak.adapters import hostinfo
from umiak.adapters.version import version
from umiak.launch.preflight.messages import Facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.launch.preflight.errand import Errand

PADDLES = {"paddlepaddle": ""} | {f"paddlepaddle-{kind}": f"+{kind}" for kind in ("gpu", "xpu", "npu", "dcu", "gcu")}
"""Paddle's distributions, and what their version is called here: like torch's, with the build behind a plus."""
FRAMEWORKS = {"torch": ("torch", "torch-npu"), "jax": ("jax",)}
LARGEST_PROGRAM_BYTES = 64 * 1024 * 1024


def gather(errand: Errand) -> Facts:
    """This node's facts."""
    hostname = socket.gethostname()
    meant = hostinfo.resolve(hostname)
    writable, free_bytes = _room(errand.log_dir)
    return Facts(
        hostname=hostname,
        own_address="" if meant == hostname else meant,
        umiak=version(),
        python=".".join(str(part) for part in sys.version_info[:3]),
        frameworks=frameworks(),
        device_kind=errand.device_kind,
        device_count=errand.device_count,
        program=errand.program,
        program_hash=fingerprint(errand.program, is_module=errand.is_module) if errand.program else "",
        log_dir=errand.log_dir,
        log_writable=writable,
        log_free_bytes=free_bytes,
        shm_bytes=_room("/dev/shm")[1] if os.path.isdir("/dev/shm") else -1,  # noqa: S108 - no file is made there
        open_files=_open_files(),
        token=errand.token,
    )


def frameworks() -> dict[str, str]:
    """The installed frameworks with their versions, as their distributions say it."""
    found = {}
    for distribution, build in PADDLES.items():
        version = _version(distribution)
        if version:
            found["paddle"] = f"{version}{build}"
    for name, distributions in FRAMEWORKS.items():
        versions = [version for version in map(_version, distributions) if version]
        if versions:
            found[name] = versions[0]
    return found


def fingerprint(program: str, *, is_module: bool) -> str:
    """SHA-256 of a script's or module's contents; empty if there is none to read."""
    import hashlib

    path = _module_file(program) if is_module else program
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read(LARGEST_PROGRAM_BYTES)).hexdigest()
    except OSError:
        return ""


def _version(distribution: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
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


def _room(directory: str) -> tuple[bool, int]:
    """Whether files can be made in a directory, and how many bytes fit."""
    try:
        room = os.statvfs(directory)
    except OSError:
        return False, 0
    return os.access(directory, os.W_OK | os.X_OK), room.f_bavail * room.f_frsize


def _open_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
