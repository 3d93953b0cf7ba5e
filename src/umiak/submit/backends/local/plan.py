"""Which launchers a job becomes on one machine, and what each is given. A decider.

    plan_of(job, "ctr-3f2a9c", directory="/home/me/ctr", python="/usr/bin/python3")   -> LocalPlan
    environment(plan, 0, master="127.0.0.1:41234")                                    what `platforms` reads back

One machine is one node: all workers of a job are started by one launcher, servers as well. Only where roles differ in their
commands or variables each worker has a launcher of its own, and these meet as nodes do.
"""

from __future__ import annotations

import os

from umiak.core.cluster import Placement, Role
from umiak.core.value import fields, replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from umiak.core.job import Job, RoleSpec

OURS = "UMIAK_"
"""Variables of a launcher around this one say nothing to those of a job."""
PLATFORM = "umiak"
_COUNTS = {Role.SERVER: "--server_num", Role.TRAINER: "--trainer_num", Role.HETER: "--heter_worker_num"}


@value
class LocalLauncher:
    """One `umiak launch`."""

    name: str
    """Of its log directory as well."""
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    """The job's variables; none of them is secret."""
    role: Role | None = None
    """Its workers' role, if it has one worker only."""
    first_rank: int = 0
    """Of its workers among all of their role."""


@value
class LocalPlan:
    """Everything that a supervisor starts."""

    run_id: str
    directory: str
    launchers: tuple[LocalLauncher, ...]
    time_limit_s: int | None = None

    def text(self) -> str:
        """As JSON, a launcher to a line."""
        import json

        plain = self.to_plain()
        launchers = ",\n  ".join(json.dumps(each) for each in plain.pop("launchers"))
        head = "".join(f" {json.dumps(name)}: {json.dumps(item)},\n" for name, item in plain.items())
        return f'{{\n{head} "launchers": [\n  {launchers}\n ]\n}}\n'

    def to_plain(self) -> dict[str, Any]:
        launchers = [{name: _plain(getattr(each, name)) for name in fields(each)} for each in self.launchers]
        return {**{name: getattr(self, name) for name in fields(self)}, "launchers": launchers}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> LocalPlan:
        launchers = [
            LocalLauncher(
                **{
                    **each,
                    "argv": tuple(each["argv"]),
                    "env": tuple((name, text) for name, text in each["env"]),
                    "role": Role(each["role"]) if each["role"] else None,
                }
            )
            for each in data["launchers"]
        ]
        return cls(**{**data, "launchers": tuple(launchers)})


def plan_of(job: Job, run_id: str, *, directory: str, logs: str, python: str) -> LocalPlan:
    """The launchers of a job. ``logs``: the directory below which each has its own."""
    root = job.files.root if job.files else "."
    launchers: Sequence[LocalLauncher]
    if is_uniform(job):
        launchers = [_one_for_all(job)]
    else:
        launchers = [each for role in job.roles for each in _one_each(job, role)]
    begin = (python, "-m", "umiak", "launch")
    restarts = ("--max_restart", str(job.max_restarts)) if job.max_restarts else ()
    common = ("--job_id", run_id, "--tee", "none", *restarts)
    return LocalPlan(
        run_id=run_id,
        directory=os.path.normpath(os.path.join(directory, root)),
        launchers=tuple(
            replace(each, argv=(*begin, *common, "--log_dir", f"{logs}/{each.name}", *each.argv)) for each in launchers
        ),
        time_limit_s=job.time_limit_s,
    )


def is_uniform(job: Job) -> bool:
    """Whether one launcher can start all of it: every role runs the same with the same variables."""
    first = job.roles[0]
    return all(
        job.command_of(each) == job.command_of(first) and job.environment_of(each) == job.environment_of(first)
        for each in job.roles
    )


def workers_of(role: RoleSpec) -> int:
    """The processes of a role. Of an elastic one so many as its job needs at least: one machine neither grows nor shrinks."""
    return role.nodes.least * (role.workers or role.resource.devices or 1)


def environment(plan: LocalPlan, index: int, *, inherited: Mapping[str, str], master: str) -> dict[str, str]:
    """The environment of a launcher, without secrets: the person's, the job's, and its place among the others."""
    from umiak.contracts.native import PS_METRICS  # of the supervisor alone: no command pays for these two
    from umiak.platforms import native

    launcher, count = plan.launchers[index], len(plan.launchers)
    placement = Placement(platform=PLATFORM, reason="", nodes=count, rank=index, role=launcher.role)
    if count > 1:
        placement = replace(placement, master=master, host="127.0.0.1")
    kept = {name: text for name, text in inherited.items() if not name.startswith(OURS) or name == PS_METRICS}
    return {**kept, **dict(launcher.env), **native.environment_of(placement)}


def _one_for_all(job: Job) -> LocalLauncher:
    trainer = job.role(Role.TRAINER) or job.roles[0]
    if job.mode.has_servers:
        flags = [word for role in job.roles for word in (_COUNTS[role.role], str(workers_of(role)))]
        flags = ["--run_mode", job.mode.value, *flags]
    elif trainer.workers or trainer.resource.devices or trainer.nodes.least > 1:
        flags = ["--nproc_per_node", str(workers_of(trainer))]
    else:
        flags = []  # one for each device that there is
    return LocalLauncher(
        name="launcher",
        argv=(*flags, *_program(job.command_of(trainer))),
        env=tuple(job.environment_of(trainer).items()),
    )


def _one_each(job: Job, role: RoleSpec) -> list[LocalLauncher]:
    """A launcher for each worker of a role: its placement says its role."""
    return [
        LocalLauncher(
            name=f"{role.role.value}-{rank}",
            argv=_program(job.command_of(role)),
            env=tuple(job.environment_of(role).items()),
            role=role.role,
            first_rank=rank,
        )
        for rank in range(workers_of(role))
    ]


def _program(command: tuple[str, ...]) -> tuple[str, ...]:
    """``--`` keeps a program whose name begins with a dash from being taken for a flag."""
    return command if command[:1] == ("-m",) else ("--", *command)


def _plain(item: Any) -> Any:
    return item.value if isinstance(item, Role) else item
