"""Looks at this umiak's own installation, and at the room where it writes. An adapter; it only reads."""

from __future__ import annotations

import os
import sys
import tempfile

import umiak
from umiak.adapters import own_modules
from umiak.adapters.version import version, version_of
from umiak.doctor.facts import DirectoryFacts, DiskFacts, InstallFacts
from umiak.doctor.gathering import trial_process
from umiak.doctor.gathering.trial_process import answer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.doctor.request import DoctorRequest

# In a process of its own: looking at the file system of a server that is gone may take for ever.
_LOOK = """\
import json, os, sys
told = []
for path in sys.argv[1:]:
    try:
        room = os.statvfs(path)
        told.append([os.access(path, os.W_OK | os.X_OK), room.f_bavail * room.f_frsize, ""])
    except OSError as error:
        told.append([False, 0, error.strerror])
print(json.dumps(told))
"""


def install(request: DoctorRequest, limit_s: float) -> InstallFacts:
    """This umiak, and others that are found."""
    native, native_error = _native(request, limit_s)
    commands = _commands(request.environ.get("PATH", ""))
    return InstallFacts(
        version=version(),
        python=".".join(str(part) for part in sys.version_info[:3]),
        location=_package_directory(),
        native_version=native,
        native_error=native_error,
        packages=_packages(request.directory),
        command=commands[0] if commands else "",
        command_is_ours=not commands or _is_ours(commands[0]),
        other_commands=tuple(command for command in commands[1:] if not _is_ours(command)),
    )


def disk(request: DoctorRequest, limit_s: float) -> DiskFacts:
    """Log directory, runs, caches, temporary files."""
    home = request.environ.get("HOME") or os.path.expanduser("~")
    state = request.environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    cache = request.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    wanted = {
        "logs": os.path.join(request.directory, request.log_dir),
        "runs": os.path.join(state, "umiak"),
        "cache": os.path.join(cache, "umiak"),
        "temporary files": request.environ.get("TMPDIR") or tempfile.gettempdir(),
    }
    nearest = {purpose: _nearest(path) for purpose, path in wanted.items()}
    ran = trial_process.run(
        [sys.executable, "-I", "-S", "-c", _LOOK, *nearest.values()],
        environ=request.environ,
        directory="/",
        limit_s=limit_s * 0.8,
    )
    answers = answer_of(ran.out) or [[False, 0, "no answer from this file system"]] * len(wanted)
    return DiskFacts(
        directories=tuple(
            DirectoryFacts(
                purpose=purpose,
                path=path,
                at=nearest[purpose],
                writable=bool(answers[number][0]),
                free_bytes=int(answers[number][1]),
                error=str(answers[number][2]),
            )
            for number, (purpose, path) in enumerate(wanted.items())
        )
    )


def _native(request: DoctorRequest, limit_s: float) -> tuple[str, str]:
    """Version of the native core, and why it can't be imported."""
    installed = version_of("umiak-native")
    if not installed:
        return "", ""
    command = own_modules.command("umiak.doctor.trials.importing")
    ran = trial_process.run(
        [*command, "umiak_native", f"{limit_s:g}"],
        environ=request.environ,
        directory=request.directory,
        limit_s=limit_s * 0.8,
    )
    answer = answer_of(ran.out)
    if isinstance(answer, dict):
        return installed, str(answer.get("error", ""))
    why = "it hangs" if ran.facts.status is None else f"it ends Python with status {ran.facts.status}"
    return installed, why


def _package_directory() -> str:
    return os.path.dirname(os.path.realpath(umiak.__file__ or ""))


def _packages(directory: str) -> tuple[str, ...]:
    """Packages called umiak, in the order in which Python looks for them when a script of this directory runs."""
    paths = [directory, *(path for path in sys.path if path and not path.endswith(".zip"))]
    packages = [os.path.realpath(os.path.join(path, "umiak")) for path in paths]
    return tuple(dict.fromkeys(each for each in packages if os.path.isfile(os.path.join(each, "__init__.py"))))


def _commands(path: str) -> list[str]:
    commands = [os.path.join(each, "umiak") for each in path.split(os.pathsep) if each]
    return list(dict.fromkeys(each for each in commands if os.path.isfile(each) and os.access(each, os.X_OK)))


def _is_ours(command: str) -> bool:
    """Whether a command runs in the environment of this Python."""
    if os.path.dirname(command) == os.path.dirname(sys.executable):
        return True
    try:
        with open(command, "rb") as file:
            first = file.readline(4096).decode(errors="replace")
    except OSError:
        return False
    return first.startswith("#!") and first[2:].split()[:1] == [sys.executable]


def _nearest(path: str) -> str:
    """The path, or the directory above it in which it would be made."""
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path
