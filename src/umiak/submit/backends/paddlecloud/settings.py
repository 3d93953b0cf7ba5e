"""The settings of a PaddleCloud place, read from its section: values, and everything that is wrong with them at once. A decider.

    reading = read(place.settings, environ)
    reading.settings.cluster, reading.settings.secrets, reading.problems

Secrets are given by reference, ``sk: $PADDLECLOUD_SK``. In many people's files they stand in plain text; that is accepted, told, and
never shown or copied.
"""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.core.devices import DeviceKind
from umiak.core.job import Replicas, Resource, RoleSpec
from umiak.core.names import is_name
from umiak.core.value import replace, value
from umiak.schema import sections
from umiak.schema.findings import Findings
from umiak.schema.yaml_tree import Section, shortened
from umiak.submit.backend import Secrets
from umiak.submit.backends.paddlecloud import keys
from umiak.submit.backends.paddlecloud.keys import ClusterType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.job import Job
    from umiak.core.problem import Problem
    from umiak.schema.findings import Place
    from umiak.schema.keys import Key
    from umiak.schema.sections import Said

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
    paddle_version: str
    use_python3: bool
    fs_name: str
    paths: tuple[tuple[str, str], ...]
    """Of the remote file system, by their keys; those that were not said are empty."""
    flags: tuple[tuple[str, str], ...]
    """Of the communicator; empty: as many as there are threads."""
    priority: str
    job_name: str
    group: str
    start_cmd: str
    files: tuple[str, ...]
    nodes: int
    trainers: int
    cpus: int | None
    gpus: int
    servers: int
    server_cpus: int
    job_version: str
    image: str
    wall_time: str
    permission: str
    secrets: Secrets
    """By key; one that is missing is the client's own business."""
    plain_secrets: tuple[Place, ...] = ()
    """Where secrets stand in the file."""

    @property
    def is_mpi(self) -> bool:
        return self.cluster is ClusterType.MPI

    def path(self, name: str) -> str:
        return dict(self.paths)[name]


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
    place = sections.read(keys.PLACE, _normal(section, keys.PLACE), "backend", findings, keys.UNKNOWN)
    config = _part(place, "config", keys.CONFIG, findings)
    submit = _part(place, "submit", keys.SUBMIT, findings)
    flags = _part(config, "communicator", keys.COMMUNICATOR, findings)
    secrets, plain, unset_keys = Secrets(), [], []
    for said, name in ((submit, AK), (submit, SK), (config, FS_UGI)):
        text = _secret(said, name, environ, findings)
        if text:
            secrets[name] = text
        elif said.said(name):
            unset_keys.append(name)
        if text and said.said(name) and not keys.REFERENCE.match(said.get(name)):
            plain.append(said.place(name))
    _check(place, config, submit, findings)
    unset = tuple([each for each in findings.problems if each.code == UNSET])
    if len(unset) < len(findings.problems):
        return SettingsReading(settings=None, problems=findings.problems, warnings=findings.warnings)
    made = PaddleCloudSettings(
        source=section.place.source,
        cluster=ClusterType(place.get("cluster_type")),
        timeout_s=float(place.get("timeout")),
        paddle_version=config.text("paddle_version") or "",
        use_python3=config.truth("use_python3"),
        fs_name=config.text("fs_name") or "",
        paths=tuple([(key.name, config.text(key.name) or "") for key in keys.CONFIG if key.kind is keys.REMOTE]),
        flags=tuple([(key.name, _number(flags, key.name)) for key in keys.COMMUNICATOR]),
        priority=submit.text("priority") or "",
        job_name=submit.text("job_name") or "",
        group=submit.text("group") or "",
        start_cmd=submit.text("start_cmd") or "",
        files=submit.get("files") or (),
        nodes=submit.number("nodes"),
        trainers=submit.number("k8s_trainers"),
        cpus=submit.get("k8s_cpu_cores"),
        gpus=submit.number("k8s_gpu_card"),
        servers=submit.number("k8s_ps_num"),
        server_cpus=submit.number("k8s_ps_cores"),
        job_version=submit.text("job_version") or "",
        image=submit.text("image_addr") or "",
        wall_time=submit.text("wall_time") or "",
        permission=submit.text("permission") or "",
        secrets=secrets,
        plain_secrets=tuple(plain),
    )
    return SettingsReading(
        settings=made, problems=unset, warnings=findings.warnings, unset=unset, unset_keys=tuple(unset_keys)
    )


def sized(job: Job, settings: PaddleCloudSettings) -> Job:
    """A config's job with the numbers of nodes, cores and GPUs that the settings have for its shape, and their name for it."""
    job = replace(job, name=settings.job_name or job.name)
    if settings.is_mpi:
        if not job.mode.has_servers:
            return job
        return replace(job, roles=(_role(Role.SERVER, settings.nodes), _role(Role.TRAINER, settings.nodes)))
    trainer = job.role(Role.TRAINER)
    if job.mode.has_servers:
        return replace(
            job,
            roles=(
                _role(Role.SERVER, settings.servers, Resource(cpus=settings.server_cpus)),
                _role(
                    Role.TRAINER,
                    settings.trainers,
                    replace(trainer.resource if trainer else Resource(), cpus=settings.cpus or ON_CPUS),
                ),
            ),
        )
    device = trainer.resource.device if trainer else None
    is_on_cpus = trainer is not None and trainer.workers is not None and not trainer.resource.devices
    if is_on_cpus:
        resource = Resource(cpus=settings.cpus or ON_CPUS)
    else:
        resource = Resource(cpus=settings.cpus or ON_GPUS, devices=settings.gpus, device=device or DeviceKind.GPU)
    return replace(job, roles=(_role(Role.TRAINER, settings.trainers, resource),))


def _role(role: Role, count: int, resource: Resource | None = None) -> RoleSpec:
    return RoleSpec(role=role, nodes=Replicas(least=count, most=count), resource=resource or Resource())


def _part(said: Said, name: str, table: tuple[Key, ...], findings: Findings) -> Said:
    node = said.node(name)
    section = node if isinstance(node, Section) else Section(place=said.place(name))
    if not isinstance(node, Section):
        table = tuple([replace(key, required=False) for key in table])  # what is missing as a whole was told as such
    return sections.read(table, _normal(section, table), name, findings, keys.UNKNOWN)


def _normal(section: Section, table: tuple[Key, ...]) -> Section:
    """``k8s-cpu-cores`` is ``k8s_cpu_cores``; the last of them counts."""
    names = {key.name for key in table}
    made = Section(place=section.place)
    for entry in section.entries:
        name = entry.key.replace("-", "_")
        made = made.put(replace(entry, key=name, said_as=entry.key) if name in names else entry)
    return made


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
            "UM-CONFIG-014", submit.place("job_name"), f"submit: job_name: not a name: {shortened(name)}", hint=hint
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


def _number(said: Said, name: str) -> str:
    found = said.get(name)
    return "" if found is None else str(int(found))
