"""The settings of a PaddleCloud place, read from its section: values, and everything that is wrong with them at once.
A decider.

    reading = read(place.settings, environ)
    reading.settings.cluster, reading.settings.secrets, reading.problems

Secrets are given by reference, ``sk: $PADDLECLOUD_SK``.
In many people's files they stand in plain text; that is accepted, told, and never shown or copied.
"""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.core.devices import DeviceKind
from umiak.core.job import Replicas, Resource, RoleSpec
from umiak.core.names import is_name
from umiak.core.value import replace, value
from umiak.schema.findings import Findings
from umiak.schema.settings import read as read_settings
from umiak.schema.settings import table
from umiak.schema.yaml_tree import Section, shortened
from umiak.submit.backend import Secrets
from umiak.submit.backends.paddlecloud import keys
from umiak.submit.backends.paddlecloud.keys import (
    ClientSettings,
    ClusterSettings,
    ClusterType,
    CommunicatorSettings,
    NodeSettings,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeVar

    from umiak.core.job import Job
    from umiak.core.problem import Problem
    from umiak.schema.findings import Place
    from umiak.schema.sections import Said

    T = TypeVar("T")

AK, SK, FS_UGI = "ak", "sk", "fs_ugi"
VARIABLES = {AK: "PADDLECLOUD_AK", SK: "PADDLECLOUD_SK", FS_UGI: "PADDLECLOUD_FS_UGI"}
"""Where secrets are looked for that a file does not say."""
UNSET = "UM-SUBMIT-222"
ON_CPUS, ON_GPUS = 2, 1
"""Cores of a trainer, where nobody says it."""


@value
class PaddleCloudSettings:
    """What a backend.yaml says, with its defaults."""

    source: str
    cluster: ClusterType
    timeout_s: float
    config: NodeSettings
    flags: CommunicatorSettings
    submit: ClientSettings
    secrets: Secrets
    """By key; one that is missing is the client's own business."""
    plain_secrets: tuple[Place, ...] = ()
    """Where secrets stand in the file."""

    @property
    def is_mpi(self) -> bool:
        return self.cluster is ClusterType.MPI


@value
class SettingsReading:
    """What a section says. There are settings only if nothing is wrong but that variables are not set."""

    settings: PaddleCloudSettings | None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    unset: tuple[Problem, ...] = ()
    """Variables that it names and that are not set here: among the problems as well."""
    unset_keys: tuple[str, ...] = ()
    """The keys that name them."""


def read(section: Section, environ: Mapping[str, str]) -> SettingsReading:
    """The settings of a place."""
    findings = Findings()
    top, place = read_settings(ClusterSettings, _normal(section, ClusterSettings), "backend", findings, keys.UNKNOWN)
    config, config_part = _part(NodeSettings, place, "config", findings)
    submit, submit_part = _part(ClientSettings, place, "submit", findings)
    flags, _ = _part(CommunicatorSettings, config_part, "communicator", findings)
    secrets, plain, unset_keys = Secrets(), [], []
    for part, name in ((submit_part, AK), (submit_part, SK), (config_part, FS_UGI)):
        text = _secret(part, name, environ, findings)
        if text:
            secrets[name] = text
        elif part.said(name):
            unset_keys.append(name)
        if text and part.said(name) and not keys.REFERENCE.match(part.get(name)):
            plain.append(part.place(name))
    _check(place, config_part, submit_part, findings)
    unset = tuple([each for each in findings.problems if each.code == UNSET])
    if len(unset) < len(findings.problems):
        return SettingsReading(settings=None, problems=findings.problems, warnings=findings.warnings)
    own_settings = PaddleCloudSettings(
        source=section.place.source,
        cluster=top.cluster,
        timeout_s=top.timeout_s,
        config=config,
        flags=flags,
        submit=submit,
        secrets=secrets,
        plain_secrets=tuple(plain),
    )
    return SettingsReading(
        settings=own_settings, problems=unset, warnings=findings.warnings, unset=unset, unset_keys=tuple(unset_keys)
    )


def sized(job: Job, settings: PaddleCloudSettings) -> Job:
    """A config's job with the numbers of nodes, cores and GPUs
    that the settings have for its shape, and their name for it.
    """
    wanted = settings.submit
    job = replace(job, name=wanted.job_name or job.name)
    if settings.is_mpi:
        if not job.mode.has_servers:
            return job
        return replace(job, roles=(_role(Role.SERVER, wanted.nodes), _role(Role.TRAINER, wanted.nodes)))
    trainer = job.role(Role.TRAINER)
    if job.mode.has_servers:
        return replace(
            job,
            roles=(
                _role(Role.SERVER, wanted.servers, Resource(cpus=wanted.server_cpus)),
                _role(
                    Role.TRAINER,
                    wanted.trainers,
                    replace(trainer.resource if trainer else Resource(), cpus=wanted.cpus or ON_CPUS),
                ),
            ),
        )
    device = trainer.resource.device if trainer else None
    is_on_cpus = trainer is not None and trainer.workers is not None and not trainer.resource.devices
    if is_on_cpus:
        resource = Resource(cpus=wanted.cpus or ON_CPUS)
    else:
        resource = Resource(cpus=wanted.cpus or ON_GPUS, devices=wanted.gpus, device=device or DeviceKind.GPU)
    return replace(job, roles=(_role(Role.TRAINER, wanted.trainers, resource),))


def _role(role: Role, count: int, resource: Resource | None = None) -> RoleSpec:
    return RoleSpec(role=role, nodes=Replicas(least=count, most=count), resource=resource or Resource())


def _part(cls: type[T], outer: Said, name: str, findings: Findings) -> tuple[T, Said]:
    node = outer.node(name)
    if not isinstance(node, Section):  # what is missing as a whole was told as such
        return read_settings(cls, Section(place=outer.place(name)), name, Findings(), keys.UNKNOWN)
    return read_settings(cls, _normal(node, cls), name, findings, keys.UNKNOWN)


def _normal(section: Section, cls: type) -> Section:
    """``k8s-cpu-cores`` is ``k8s_cpu_cores``; the last of them counts."""
    names = {key.name for key in table(cls)}
    normal = Section(place=section.place)
    for entry in section.entries:
        name = entry.key.replace("-", "_")
        normal = normal.put(replace(entry, key=name, said_as=entry.key) if name in names else entry)
    return normal


def _secret(said: Said, name: str, environ: Mapping[str, str], findings: Findings) -> str:
    """Its value, from the file, from the variable that the file names, or from the usual one."""
    written = said.text(name) or ""
    reference = keys.REFERENCE.match(written)
    if not written:
        return environ.get(VARIABLES[name], "")
    if not reference:
        findings.warning(
            "UM-SUBMIT-221",
            said.place(name),
            f"{said.label}: {name} stands in the file as plain text",
            why="everybody who can read the file, or an old version of it, has it",
            hint=f"write `{name}: ${VARIABLES[name]}` and export {VARIABLES[name]}",
        )
        return written
    variable = reference[1] or reference[2]
    if not environ.get(variable):
        what = f"{said.label}: {name}: the variable is not set: {variable}"
        findings.problem(UNSET, said.place(name), what, hint=f"export {variable}")
    return environ.get(variable, "")


def _check(place: Said, config: Said, submit: Said, findings: Findings) -> None:
    name = submit.text("job_name")
    if name and not is_name(name):
        hint = "use up to 64 letters, digits, `-`, `_` and `.`"
        findings.problem(
            "UM-CONFIG-014",
            submit.place("job_name"),
            f"submit: job_name: expected a name, got {shortened(name)}",
            hint=hint,
        )
    if not place.said("cluster_type"):
        return
    if place.get("cluster_type") == ClusterType.MPI.value:
        if not config.said("train_data_path") and "train_data_path" not in config.wrong:
            hint = "write the path in the file system of fs_name: it is brought to ./train_data of each node"
            what = "config: train_data_path is missing, and an mpi cluster needs it"
            findings.problem("UM-SUBMIT-225", config.place("train_data_path"), what, hint=hint)
    elif not config.said("afs_remote_mount_point"):
        what = "config: afs_remote_mount_point is not said: nodes have no ./afs"
        findings.warning("UM-SUBMIT-226", config.place("afs_remote_mount_point"), what)
    if not config.said("output_path"):
        what = "config: output_path is not said: what the job writes stays on its nodes"
        findings.warning("UM-SUBMIT-226", config.place("output_path"), what)
