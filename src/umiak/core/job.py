"""A job: what is wanted, and nothing of where it will run. Values.

    Job        a name, a command, its roles, what it brings and what it must not show
    RoleSpec   a group of equal nodes: how many, what each of them starts and needs
    Replicas   how many nodes: a number, or the least and the most of an elastic job
    Resource   what one node needs

A place (a cluster, a cloud, a list of hosts) decides the rest: queues, hosts, registries, prices.
So one job runs on many.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.cluster import MOST_NODES, Mode, Role, node_range
from umiak.core.decode import Malformed
from umiak.core.names import is_name
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.devices import DeviceKind


class FrameworkName(str, Enum):
    """What the script imports: it decides what is looked for on the nodes before a job is sent there."""

    PADDLE = "paddle"
    TORCH = "torch"
    JAX = "jax"
    NONE = "none"


@value
class Replicas:
    """How many nodes of one role."""

    least: int = 1
    most: int = 1

    @property
    def is_elastic(self) -> bool:
        return self.least < self.most

    def __str__(self) -> str:
        return f"{self.least}:{self.most}" if self.is_elastic else str(self.most)


def replicas(text: str) -> Replicas:
    """``2`` or ``2:4``. `Malformed` if it is neither."""
    try:
        least, most = node_range(text.strip())
    except ValueError:
        raise Malformed(f"expected a number of nodes, or least:most, from 1 to {MOST_NODES}: {text}") from None
    return Replicas(least=least, most=most)


@value
class Resource:
    """What one node needs. 0: whatever the place gives."""

    cpus: float = 0
    memory_bytes: int = 0
    devices: int = 0
    device: DeviceKind | None = None
    """None: of any kind."""
    shared_memory_bytes: int = 0
    """Of ``/dev/shm``, where a place limits it."""


@value
class RoleSpec:
    """A group of equal nodes."""

    role: Role = Role.TRAINER
    nodes: Replicas = Replicas()
    workers: int | None = None
    """Processes on each node; None: one per device, or one."""
    command: tuple[str, ...] = ()
    """Where it differs from the job's."""
    resource: Resource = Resource()
    env: tuple[tuple[str, str], ...] = ()
    """In addition to the job's."""


@value
class Transfer:
    """Data that a node has before the job begins, or that is brought home when it ended."""

    url: str
    """Where it is kept: ``s3://bucket/day1``, ``hdfs://...``, or a directory that all nodes have."""
    path: str
    """Where the job sees it, from its working directory."""


@value
class FileSet:
    """What is sent along: a directory without what its .gitignore leaves out, or only what these patterns name."""

    root: str = "."
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    allow_secret_files: bool = False
    """Whether files that look like secrets are sent as well; else they are an error, unless `include` names them."""


@value
class Job:
    """What is wanted."""

    name: str
    command: tuple[str, ...]
    """A script with its arguments, ``-m`` and a module, or a program; `umiak launch` starts it on every node."""
    roles: tuple[RoleSpec, ...] = (RoleSpec(),)
    framework: FrameworkName = FrameworkName.NONE
    image: str = ""
    """Where nodes are containers."""
    env: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()
    """Names of variables whose values are taken from the environment of the person who submits;
    they are written nowhere.
    """
    files: FileSet | None = None
    """None: nothing is sent."""
    inputs: tuple[Transfer, ...] = ()
    outputs: tuple[Transfer, ...] = ()
    max_restarts: int = 0
    time_limit_s: int | None = None

    @property
    def mode(self) -> Mode:
        """How the workers work together, as the roles say."""
        named = {each.role for each in self.roles}
        if Role.HETER in named:
            return Mode.PS_HETER
        return Mode.PS if Role.SERVER in named else Mode.COLLECTIVE

    @property
    def nodes(self) -> Replicas:
        """Of all roles together."""
        least = sum(each.nodes.least for each in self.roles)
        return Replicas(least=least, most=sum(each.nodes.most for each in self.roles))

    def role(self, role: Role) -> RoleSpec | None:
        return next((each for each in self.roles if each.role is role), None)

    @property
    def main_role(self) -> RoleSpec:
        """The role that stands for the job where only one can: its trainers, if it has some."""
        return self.role(Role.TRAINER) or self.roles[0]

    @property
    def scripts(self) -> tuple[str, ...]:
        """The files that its commands name, from its working directory."""
        commands = [self.command_of(role) for role in self.roles]
        return tuple(dict.fromkeys(words[0] for words in commands if words and words[0].endswith(".py")))

    def command_of(self, spec: RoleSpec) -> tuple[str, ...]:
        return spec.command or self.command

    def environment_of(self, spec: RoleSpec) -> Mapping[str, str]:
        """The variables of a role's workers, besides those that say who they are."""
        return {**dict(self.env), **dict(spec.env)}


@value
class Handle:
    """A submitted job: enough to ask for it from any shell, ``slurm://hpc/4242``."""

    backend: str
    place: str
    """As the configuration names it; empty where a backend needs none."""
    id: str

    def __str__(self) -> str:
        return f"{self.backend}://{self.place}/{self.id}"


def handle(text: str) -> Handle:
    """A handle as it is printed. `Malformed` if it is none."""
    backend, mark, rest = text.strip().partition("://")
    place, slash, job = rest.partition("/")
    parts = [backend, *([place] if place else []), *job.split("/")]
    if not (mark and slash and all(map(is_name, parts))):
        raise Malformed(f"expected a handle such as slurm://hpc/4242: {text}")
    return Handle(backend=backend, place=place, id=job)
