"""What a job becomes on a Ray cluster: one launcher in each bundle of a placement group. A decider.

    run = run_of(job, "ctr-3f2a9c", settings)      RayRun: all that the driver needs, sent as run.json
    node_plans(job, "ctr-3f2a9c")                  what a node of each role does
    request(run, settings, packages)               what the dashboard is asked for

Nodes are numbered in rank order: servers, then trainers, then heter workers. No secret is in any of it:
whatever Ray is given can be read by everybody who reaches it. The token of a run is made on the cluster, by the driver.
"""

from __future__ import annotations

from umiak.core.bundle import placeholder
from umiak.core.cluster import ROLES, Placement, Role
from umiak.core.decode import decode, encode
from umiak.core.job import FileSet
from umiak.core.value import value
from umiak.platforms import native
from umiak.submit.payload import node_plan
from umiak.submit.payload.node_plan import PlaceTraits, SentFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.job import Job, RoleSpec
    from umiak.core.json_types import JsonObject
    from umiak.submit.backends.ray.settings import RaySettings
    from umiak.submit.payload.node_plan import NodePlan

DRIVER = "umiak.submit.backends.ray.driver"
LAUNCHER = "umiak-launcher.pyz"
RUN = "run.json"
PLATFORM = "umiak"
MARK = "umiak"
"""In the metadata of every job of ours."""
PLACE = "ray_node"
"""In the file beside the driver's log: the key of a line that says on which of Ray's nodes one of the run is."""
UNKNOWN_DIGEST = placeholder("hash of the files")
"""In a plan that was rendered before anybody looked at the files."""
START_S = 300
"""So far apart launchers may start: Ray brings packages to each node first."""
STOP_WAIT_S = 24 * 3600
"""How long Ray lets a driver that it has asked to stop go on.
The driver keeps the grace that was asked for; Ray's own are 3 seconds.
"""


@value
class RayNode:
    """One bundle, and the launcher in it."""

    name: str
    """``trainer.0``."""
    role: Role | None = None
    """Where a job has roles."""
    plan: str
    """The file with what it does."""
    bundle: tuple[tuple[str, float], ...]


@value
class RayRun:
    """What the driver reads."""

    run_id: str
    strategy: str
    nodes: tuple[RayNode, ...]
    job_python: str = ""
    directory: str = ""
    keep_directories: bool = False
    time_limit_s: int | None = None
    least: int = 0
    """Of an elastic run: so many nodes begin, and the others join when there is room. 0: it needs all."""

    def text(self) -> str:
        """As JSON, a node to a line."""
        import json

        plain = encode(self)
        nodes = ",\n  ".join(json.dumps(each) for each in plain.pop("nodes"))
        head = "".join(f" {json.dumps(name)}: {json.dumps(item)},\n" for name, item in plain.items())
        return f'{{\n{head} "nodes": [\n  {nodes}\n ]\n}}\n'


def from_text(text: str) -> RayRun:
    """`Malformed` or ValueError if it is none."""
    import json

    return decode(RayRun, json.loads(text))


def run_of(job: Job, run_id: str, settings: RaySettings) -> RayRun:
    """The nodes of a job in rank order."""
    nodes = []
    for role in sorted(job.roles, key=lambda each: ROLES.index(each.role)):
        # A launcher that is told its role starts one worker: with roles, several workers are as many bundles.
        workers = (role.workers or role.resource.devices or 1) if job.mode.has_servers else 1
        nodes += [
            RayNode(
                name=f"{role.role.value}.{number}",
                role=role.role if job.mode.has_servers else None,
                plan=plan_name(role),
                bundle=bundle_of(role, settings, share=workers),
            )
            for number in range(role.nodes.most * workers)
        ]
    return RayRun(
        run_id=run_id,
        strategy=settings.strategy,
        nodes=tuple(nodes),
        job_python=settings.job_python,
        directory=settings.directory,
        keep_directories=settings.keep_directories,
        time_limit_s=job.time_limit_s,
        least=job.nodes.least if job.nodes.is_elastic else 0,
    )


def bundle_of(role: RoleSpec, settings: RaySettings, share: int = 1) -> tuple[tuple[str, float], ...]:
    """What one node takes from the cluster, or one of so many parts of it.
    Ray places nothing that takes nothing, so that it is a CPU at least.
    """
    wanted = role.resource
    resources = {"CPU": wanted.cpus / share if wanted.cpus else 1.0}
    if wanted.devices:
        resources[settings.resource_of(wanted.device)] = wanted.devices / share
    if wanted.memory_bytes:
        resources["memory"] = float(wanted.memory_bytes // share)
    resources.update(settings.resources)
    return tuple(resources.items())


def node_plans(job: Job, run_id: str, digest: str = UNKNOWN_DIGEST) -> dict[str, NodePlan]:
    """What the nodes of each role do, by the name of the file. The driver puts in where that is on a node."""
    files = SentFiles(digest=digest, store="store", archive=archive_name(digest)) if files_of(job) else None
    traits = PlaceTraits(directory="work", tee="all", log_directory="../logs", start_s=START_S, files=files)
    return {plan_name(role): node_plan.of(job, role, run_id, traits) for role in job.roles}


def files_of(job: Job) -> FileSet | None:
    """What is sent: what the job says, or else the scripts that its commands name."""
    if job.files:
        return job.files
    names = tuple(name.removeprefix("./") for name in job.scripts if not name.startswith("/"))
    return FileSet(include=names) if names else None


def plan_name(role: RoleSpec) -> str:
    """The file with what nodes of a role do."""
    return f"node-{role.role.value}.json"


def archive_name(digest: str) -> str:
    """Of the job's files, inside of their package."""
    return f"umiak-files-{digest}.tar.gz"


def grace_name(run_id: str) -> str:
    """Under this name a client leaves the grace for the driver, before it stops a run."""
    return f"_umiak_grace_{run_id}.zip"


def status_file(run_id: str) -> str:
    """Beside the driver's log, where Ray's API finds it: how its nodes are."""
    return f"umiak-{run_id}.log"


def request(run: RayRun, python: str, working_dir: str, modules: Sequence[str]) -> JsonObject:
    """The body of the request that starts a job. The run's id is Ray's submission id:
    a second one with the same id is refused.
    """
    import shlex

    environ = {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S)}
    return {
        "entrypoint": f"exec {shlex.quote(python or 'python')} {LAUNCHER} -m {DRIVER} {RUN}",
        "submission_id": run.run_id,
        "runtime_env": {
            "working_dir": f"gcs://{working_dir}",
            **({"py_modules": [f"gcs://{each}" for each in modules]} if modules else {}),
            "env_vars": environ,
        },
        "metadata": {MARK: run.run_id},
    }


def placement(run: RayRun, rank: int, hosts: Sequence[str], master: str) -> Placement:
    """What a node is told of its place among the others."""
    node = run.nodes[rank]
    if len(run.nodes) == 1:
        return Placement(platform=PLATFORM, reason="", nodes=1, rank=0, role=node.role)
    return Placement(
        platform=PLATFORM,
        reason="",
        nodes=len(run.nodes),
        rank=rank,
        # A list of hosts names each once; with several nodes of a job on one host the master is enough.
        hosts=tuple(hosts) if len(set(hosts)) == len(hosts) else (),
        master=master,
        host=hosts[rank],
        role=node.role,
    )


def environment(run: RayRun, rank: int, hosts: Sequence[str], master: str) -> dict[str, str]:
    """The same as variables, from which `platforms.detect` rebuilds it."""
    return native.environment_of(placement(run, rank, hosts, master))
