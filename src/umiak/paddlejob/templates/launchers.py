"""What is known of the launcher in a template's command, and where it and the job don't go together. A decider.

    PADDLE   ``python -m paddle.distributed.launch`` or ``fleetrun``
    SCRIPT   an interpreter with a script, and no launcher

Of a command in the image, and of a shell's, nothing is known, and nothing is said.
"""

from __future__ import annotations

from enum import Enum

from umiak.paddlejob.names import role_path
from umiak.paddlejob.resource import Intranet, JobApi, PodRole
from umiak.paddlejob.templates.main_container import main_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping
    from umiak.paddlejob.field_reader import FieldNotes
    from umiak.paddlejob.resource import PaddleJob

_PADDLE = ("paddle.distributed.launch", "paddle.distributed.run", "paddle.distributed.fleet.launch")
_UNKNOWN = ("umiak", "torchrun", "launch")
"""A word with one of these may name a launcher."""


class Launcher(Enum):
    """Who starts the training in a pod."""

    PADDLE = "paddle"
    SCRIPT = "script"
    UNKNOWN = "unknown"


def launcher_of(template: JsonMapping) -> Launcher:
    """By the command of the main container."""
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(containers, list) or not containers or not isinstance(containers[main_index(containers)], dict):
        return Launcher.UNKNOWN
    main = containers[main_index(containers)]
    words = [str(word) for key in ("command", "args") if isinstance(main.get(key), list) for word in main[key] if word]
    if not words or not isinstance(main.get("command"), list):
        return Launcher.UNKNOWN
    name = words[0].rpartition("/")[2]
    if name == "fleetrun" or any(module in word for word in words for module in _PADDLE):
        return Launcher.PADDLE
    is_script = name.startswith("python") and any(word.endswith(".py") for word in words[1:])
    if not is_script or any(mark in word for word in words for mark in _UNKNOWN):
        return Launcher.UNKNOWN
    return Launcher.SCRIPT


def check_launchers(job: PaddleJob, notes: FieldNotes) -> None:
    """Warn where pods of a job would not be one training with the launcher that they start."""
    spec, has_servers = job.spec, job.spec.role(PodRole.PS) is not None
    is_several = sum(max(role.replicas, role.most or 0) for role in spec.roles) > 1
    meets = job.api is JobApi.KUBEFLOW or spec.is_elastic
    for role in spec.roles if is_several else ():
        launcher = launcher_of(role.template)
        where = f"{role_path(role.role, job.api)}.template"
        if launcher is Launcher.SCRIPT and meets:
            notes.warning(
                "UM-PDJ-071",
                where,
                "starts a script without a launcher",
                why="pods of this job are told where they meet, and no ranks: launchers agree on them",
                hint="begin the command with `umiak launch`, or `python -m paddle.distributed.launch`",
            )
        elif launcher is Launcher.PADDLE and has_servers and job.api is JobApi.KUBEFLOW:
            notes.warning(
                "UM-PDJ-072",
                where,
                "Paddle's launcher starts one server and one trainer in each pod",
                why="it knows no pods of one role",
                hint="use `umiak launch` for servers in Master and trainers in Worker",
            )
        elif launcher is Launcher.PADDLE and spec.intranet is Intranet.SERVICE and not meets:
            notes.warning(
                "UM-PDJ-072",
                where,
                "Paddle's launcher starts nothing in pods with names"
                + (", and fails" if has_servers else ": it waits"),
                why="it looks for the address of its pod in the lists of servers and trainers",
                hint="write `intranet: PodIP`, or use `umiak launch`",
            )
