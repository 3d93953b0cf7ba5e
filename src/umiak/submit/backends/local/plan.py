"""Which launchers a job becomes on one machine, and what each is given. A decider.

    plan_of(job, "ctr-3f2a9c", directory="/home/me/ctr", python="/usr/bin/python3")   -> RunPlan

One machine is one node: all workers of a job are started by one launcher, servers as well. Only where roles differ in their
commands or variables each worker has a launcher of its own, and these meet as nodes do.
"""

from __future__ import annotations

import os

from umiak.contracts.start import GRACE
from umiak.core.cluster import Role
from umiak.core.value import replace
from umiak.submit.node.plan import LONGEST_GRACE_S, PlannedLauncher, RunPlan
from umiak.submit.payload.node_plan import NodePlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umiak.core.job import Job, RoleSpec

NODE = "node.json"
"""Beside a run's plan, if data is to be transferred."""
_COUNTS = {Role.SERVER: "--server_num", Role.TRAINER: "--trainer_num", Role.HETER: "--heter_worker_num"}


def plan_of(
    job: Job, run_id: str, *, directory: str, logs: str, python: str, start: Callable[[str], tuple[str, ...]]
) -> RunPlan:
    """The launchers of a job. ``logs``: the directory below which each has its own; ``start``: how Python starts a module of ours."""
    root = job.files.root if job.files else "."
    launchers: Sequence[PlannedLauncher]
    if is_uniform(job):
        launchers = [_one_for_all(job)]
    else:
        launchers = [each for role in job.roles for each in _one_each(job, role)]
    begin = (python, *start("umiak"), "launch")
    if job.inputs or job.outputs:
        begin = (python, *start("umiak.submit.payload.node_start"), f"{os.path.dirname(logs)}/{NODE}")
    restarts = ("--max_restart", str(job.max_restarts)) if job.max_restarts else ()
    common = ("--job_id", run_id, "--tee", "none", *restarts)
    if GRACE not in dict(job.env):
        # The supervisor keeps the grace that `umiak cancel` was given: the launchers' own must not be shorter.
        common += ("--grace", str(LONGEST_GRACE_S))
    return RunPlan(
        run_id=run_id,
        directory=os.path.normpath(os.path.join(directory, root)),
        launchers=tuple(
            replace(each, argv=(*begin, *common, "--log_dir", f"{logs}/{each.name}", *each.argv)) for each in launchers
        ),
        time_limit_s=job.time_limit_s,
    )


def node_of(job: Job, run_id: str, directory: str) -> NodePlan:
    """What happens before and behind the launcher. The words for the launcher stand in the plan of the run."""
    return NodePlan(run_id=run_id, directory=directory, launch=(), inputs=job.inputs, outputs=job.outputs)


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


def _one_for_all(job: Job) -> PlannedLauncher:
    trainer = job.role(Role.TRAINER) or job.roles[0]
    if job.mode.has_servers:
        flags = [word for role in job.roles for word in (_COUNTS[role.role], str(workers_of(role)))]
        flags = ["--run_mode", job.mode.value, *flags]
    elif trainer.workers or trainer.resource.devices or trainer.nodes.least > 1:
        flags = ["--nproc_per_node", str(workers_of(trainer))]
    else:
        flags = []  # one for each device that there is
    return PlannedLauncher(
        name="launcher",
        argv=(*flags, *_program(job.command_of(trainer))),
        env=tuple(job.environment_of(trainer).items()),
    )


def _one_each(job: Job, role: RoleSpec) -> list[PlannedLauncher]:
    """A launcher for each worker of a role: its placement says its role."""
    return [
        PlannedLauncher(
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
