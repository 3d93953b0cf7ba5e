"""A config as a job: what `umiak train --on PLACE` submits. A decider.

    job_of(plan, parsed, name="ctr", model="config.yaml", nodes=2)

The job's command is `umiak train` itself. On its place `umiak launch` starts it once for each server and trainer,
and each finds out from its environment which one it is. So nodes need umiak and Paddle.
"""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.core.devices import DeviceKind
from umiak.core.job import FileSet, FrameworkName, Job, Replicas, Resource, RoleSpec
from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.train.config.values import Device, FleetMode, RunnerClass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.flags import Parsed
    from umiak.train.plan.plan import Plan, Run

CPU_NUM = "CPU_NUM"
"""Threads of a trainer, as PaddleRec's nodes have it: the largest `thread_num` of the phases."""
COMMAND = ("-m", "umiak", "train")


@value
class ProcessCounts:
    """What a runner needs on each of its nodes."""

    trainers: int = 1
    """0: one for each device that is there."""
    servers: int = 0
    devices: int = 0
    device: DeviceKind | None = None


def job_of(plan: Plan, parsed: Parsed, *, name: str, model: str, nodes: int, is_sent: bool) -> Job:
    """The job of a config. ``model``: as nodes see it; ``is_sent``: whether the working directory goes to them."""
    threads = max([stage.threads for run in plan.runs for stage in run.stages], default=1)
    return Job(
        name=name,
        command=(*COMMAND, *words(parsed, model)),
        roles=_roles(_counts(plan), nodes),
        framework=FrameworkName.PADDLE,
        env=((CPU_NUM, str(threads)),) if threads > 1 else (),
        files=FileSet() if is_sent else None,
    )


def words(parsed: Parsed, model: str) -> tuple[str, ...]:
    """What follows `umiak train` on a node: all that was said, but where to run it."""
    found = ["-m", model]
    for said in parsed.texts.get("override", ()):
        found += ["-o", said]
    for name in ("run_dir", "topology"):
        if parsed.said(name):
            found += [f"--{name}", parsed.text(name)]
    return (*found, *(f"--{name}" for name in ("resume", "quiet") if parsed.truth(name)))


def name_of(model: str, directory: str) -> str:
    """A job's name for a config: that of its file,
    of its directory if the file is just called config.yaml, or of its model.
    """
    path = model.rstrip("/").removesuffix(".yaml").removesuffix(".yml")
    above, _, last = path.rpartition("/")
    if last in ("config", ".", ""):
        last = above.rpartition("/")[2] if above not in ("", ".") else directory.rstrip("/").rpartition("/")[2]
    if "/" not in model and model == path:
        last = last.rpartition(".")[2]
    kept = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-" for letter in last)
    return kept.strip("-.")[:64] or "train"


def _counts(plan: Plan) -> ProcessCounts:
    """Of all runners: a runner that evaluates takes the first trainer of whatever is there,
    the others must need the same.
    """
    trained = {run.name: _counts_of(run) for run in plan.runs if run.kind is not RunnerClass.INFER}
    if len(set(trained.values())) > 1:
        raise UmiakError.of(
            "UM-TRAIN-009",
            f"runners that need different processes can't be one job: {', '.join(trained)}",
            why="servers and trainers of a job are started once, for all of its runners",
            hint=f"submit them one after another: `-o mode={next(iter(trained))}`",
        )
    return next(iter(trained.values()), ProcessCounts())


def _counts_of(run: Run) -> ProcessCounts:
    runner = run.runner
    device = None if runner.device is Device.CPU else DeviceKind(runner.device.value)
    chosen = len(runner.device_ids)
    if runner.kind is RunnerClass.TRAIN and runner.workers == 1:
        return ProcessCounts(devices=1 if device else 0, device=device)
    if runner.fleet_mode is FleetMode.PS:
        return ProcessCounts(trainers=runner.workers, servers=runner.servers, devices=chosen, device=device)
    finds_out = device is not None and not chosen and runner.workers == 1
    return ProcessCounts(
        trainers=0 if finds_out else runner.workers,
        devices=chosen or (0 if finds_out or not device else runner.workers),
        device=device,
    )


def _roles(counts: ProcessCounts, nodes: int) -> tuple[RoleSpec, ...]:
    resource = Resource(devices=counts.devices, device=counts.device if counts.devices else None)
    if not counts.servers:
        return (RoleSpec(nodes=_count(nodes), workers=counts.trainers or None, resource=resource),)
    return (
        RoleSpec(role=Role.SERVER, nodes=_count(nodes * counts.servers)),
        RoleSpec(role=Role.TRAINER, nodes=_count(nodes * counts.trainers), resource=resource),
    )


def _count(number: int) -> Replicas:
    return Replicas(least=number, most=number)
