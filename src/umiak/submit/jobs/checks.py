"""What is wrong with a job wherever it goes, and keys of it that a place can't obey. A decider.

    wrong_values(job), leaks(job, environ), unset_secrets(job, environ)
    without_effect(job, "slurm"), refused(job, "slurm", "hpc")

What one place alone needs is checked by its backend.
"""

from __future__ import annotations

from umiak.core.names import is_name
from umiak.core.problem import Problem
from umiak.core.shown import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.job import Job, RoleSpec

NAME_HINT = "use up to 64 letters, digits, `-`, `_` and `.`"
NO_CONTAINERS = {
    "local": "this machine's own processes",
    "ssh": "processes of the hosts",
    "slurm": "processes of Slurm's nodes",
    "mpi": "processes of the hosts",
    "ray": "processes of Ray's nodes",
}
"""Backends whose nodes are no containers, and what they are."""
NO_EFFECT: Mapping[str, tuple[str, ...]] = {
    "local": ("shared_memory",),
    "ssh": ("cpus", "memory", "device", "shared_memory"),
    "slurm": ("shared_memory",),
    "mpi": ("cpus", "memory", "device", "shared_memory"),
    "ray": ("shared_memory",),
    "paddlecloud": ("memory", "shared_memory"),
    "modelarts": ("cpus", "memory", "device", "shared_memory"),
    "bml": ("cpus", "memory", "device", "shared_memory"),
    "aihc": ("device",),
    "pai": ("device",),
}
"""Keys of a role for which a backend has no use."""
INSTEAD = {
    "modelarts": "`flavor =` of the place says what nodes have",
    "bml": "`resource =` of the place says what nodes have",
    "aihc": "`device =` of the place says which devices nodes have",
    "pai": "`spec =` or `quota =` of the place says what nodes have",
}
KIND_HINT = "workers use the devices that their node has"
ONE_WORKER = ("ssh", "slurm", "mpi", "kubernetes", "paddlecloud", "modelarts", "aihc", "bml", "pai")
"""Backends that start one worker on each node of a job with parameter servers, whatever `workers` says."""


def wrong_values(job: Job) -> list[Problem]:
    """Of a job that was made in Python: files and flags were checked when they were read."""
    problems_by_key: list[tuple[str, str]] = []
    if not is_name(job.name):
        problems_by_key.append((f"expected a name of a job, got {one_line(job.name, 80) or 'nothing'}", NAME_HINT))
    if not job.roles:
        problems_by_key.append(("the job has no roles", "leave `roles` out, or name one"))
    if any(not job.command_of(each) for each in job.roles):
        problems_by_key.append(("the job has no command", 'write `command=("train.py", "--lr", "0.1")`'))
    for each in job.roles:
        if not 1 <= each.nodes.least <= each.nodes.most:
            what = f"{each.role.value}: expected a number of nodes, got {each.nodes.least} to {each.nodes.most}"
            problems_by_key.append((what, "write `Replicas(least=2, most=2)`"))
    roles = [each.role for each in job.roles]
    problems_by_key += [
        (f"the same role twice: {each.value}", "write each role once") for each in {*roles} if roles.count(each) > 1
    ]
    return [Problem(code="UM-SUBMIT-015", what=what, hint=hint) for what, hint in problems_by_key]


def unset_secrets(job: Job, environ: Mapping[str, str]) -> list[Problem]:
    """Secrets that this machine does not have."""
    return [
        Problem(
            code="UM-SUBMIT-008",
            what=f"a secret of the job is not set here: {name}",
            why="secrets are taken from your environment by their names",
            hint=f"export {name}, or remove it from `secrets`",
        )
        for name in job.secrets
        if not environ.get(name)
    ]


def leaks(job: Job, environ: Mapping[str, str]) -> list[Problem]:
    """A secret whose value stands in the job itself would be in rendered files and lists of processes."""
    problems = []
    texts = [*job.command, *(text for _, text in job.env)]
    for role in job.roles:
        texts += [*role.command, *(text for _, text in role.env)]
    for name in job.secrets:
        secret = environ.get(name, "")
        if len(secret) >= 8 and any(secret in text for text in texts):
            problems.append(
                Problem(
                    code="UM-SUBMIT-014",
                    what=f"the value of {name} stands in a command or in `env`",
                    why="arguments and rendered files can be read by others",
                    hint=f"name it in `secrets` and let the program read the variable {name}",
                )
            )
    return problems


def refused(job: Job, backend: str, place: str) -> list[Problem]:
    """An image, where nodes are no containers: the job would run without what is in it."""
    if not job.image or backend not in NO_CONTAINERS:
        return []
    return [
        Problem(
            code="UM-SUBMIT-370",
            what=f"place {place} does not run containers: image: {one_line(job.image, 200)}",
            why=f"jobs are {NO_CONTAINERS[backend]}: they would run without what is in the image",
            hint=f"leave `image` out; in a file for several places, take it away for this one: `on: {{{place}: {{image: null}}}}`",
        )
    ]


def without_effect(job: Job, backend: str) -> list[Problem]:
    """Keys that say something, and change nothing on this backend."""
    names = []
    for role in job.roles:
        label = f"roles.{role.role.value}." if job.mode.has_servers else ""
        names += [
            Problem(
                code="UM-SUBMIT-371",
                what=f"{label}{key} has no effect on {backend}",
                hint=INSTEAD.get(backend) or (KIND_HINT if key == "device" else None),
            )
            for key in NO_EFFECT.get(backend, ())
            if _says(role, key)
        ]
        if job.mode.has_servers and (role.workers or 1) > 1 and backend in ONE_WORKER:
            what = f"{label}workers has no effect on {backend} in a job with parameter servers: each node has one"
            names.append(Problem(code="UM-SUBMIT-371", what=what, hint="say more `nodes` for the role"))
    return list(dict.fromkeys(names))


def _says(role: RoleSpec, key: str) -> bool:
    wanted = role.resource
    values: dict[str, object] = {
        "cpus": wanted.cpus,
        "memory": wanted.memory_bytes,
        "devices": wanted.devices,
        "device": wanted.device,
        "shared_memory": wanted.shared_memory_bytes,
    }
    return bool(values[key])
