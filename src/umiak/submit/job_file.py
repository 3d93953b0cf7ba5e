"""A job.yaml, read: text to a `Job`, and everything that is wrong with it at once. A decider.

read("name: ctr\\ncommand: train.py\\n", "job.yaml").job
read("...on: {lab: {nodes: 4}}", "job.yaml").job_on("lab")
"""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.core.devices import DeviceKind
from umiak.core.job import FileSet, FrameworkName, Job, Replicas, Resource, RoleSpec
from umiak.core.names import is_name
from umiak.core.value import value
from umiak.schema import sections, yaml_tree
from umiak.schema.findings import Findings, Place, choices
from umiak.schema.yaml_tree import Section, kind_of
from umiak.submit import job_keys
from umiak.submit import job_keys as job_overrides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.problem import Problem
    from umiak.schema.sections import Said


@value
class JobReading:
    """What a file says. There is a job only if nothing is wrong."""

    job: Job | None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    overrides: tuple[JobOverride, ...] = ()

    def job_on(self, place: str) -> Job | None:
        """The job as one place gets it."""
        return next((each.job for each in self.overrides if each.name == place), self.job)


@value
class JobOverride:
    """What it says for one place."""

    name: str
    """Of the place."""
    at: Place
    keys: tuple[str, ...]
    """What it changes."""
    job: Job
    """As that place gets it."""


def read(text: str, source: str) -> JobReading:
    """The job of a file."""
    findings = Findings()
    tree = yaml_tree.parse(text, source, findings)
    start = Place(source=source, line=1, column=1)
    job = None
    overrides: list[JobOverride] = []
    if tree is None and findings.problems:
        pass  # what can't be parsed says nothing about keys
    elif isinstance(tree, Section) or tree is None:
        job = _job(tree or Section(place=start), findings)
        overrides = _overrides(tree, findings) if tree else []
    else:
        findings.problem("UM-CONFIG-013", start, f"a job is a mapping, and this is {kind_of(tree)}")
    wrong = findings.problems
    if wrong:
        return JobReading(job=None, problems=wrong, warnings=findings.warnings)
    return JobReading(job=job, warnings=findings.warnings, overrides=tuple(overrides))


def _overrides(tree: Section, findings: Findings) -> list[JobOverride]:
    """The job of every place that is named; what is wrong in any of them is told, and what is wrong for all once."""
    entry = tree.get(job_overrides.KEY)
    if entry is None or not isinstance(entry.node, Section):
        return []  # that it must be a mapping is told with the job's other keys
    overrides = []
    known = {(each.code, each.where) for each in findings.problems}
    for place in entry.node.entries:
        if not is_name(place.key):
            hint = "write the name of a place, as umiak.toml has it: `on: {lab: {nodes: 2}}`"
            what = f"job: on: expected a name of a place, got {yaml_tree.shortened(place.key) or 'nothing'}"
            findings.problem("UM-CONFIG-014", place.place, what, hint=hint)
            continue
        if not isinstance(place.node, Section):
            if yaml_tree.free(place.node) is not None:
                what = f"job: on: {place.key} must be a mapping, not {kind_of(place.node)}"
                hint = f"write `{place.key}: {{nodes: 2}}`"
                findings.problem("UM-CONFIG-013", place.node.place, what, hint=hint)
            continue
        for each in place.node.entries:
            if each.key in job_overrides.KEPT:
                what = f"job on {place.key}: {each.key} is the same on all places"
                findings.problem("UM-CONFIG-014", each.place, what, hint="leave it out here")
        own = Findings()
        job = _job(job_overrides.merged(tree, place.node), own, f"job on {place.key}")
        findings.add(own.without(known))
        keys = tuple([each.key for each in place.node.entries])
        overrides.append(JobOverride(name=place.key, at=place.place, keys=keys, job=job))
    return overrides


def _job(tree: Section, findings: Findings, label: str = "job") -> Job:
    section = sections.read(job_keys.JOB, tree, label, findings, job_keys.UNKNOWN)
    name = section.text("name") or ""
    if name and not is_name(name):
        findings.problem(
            "UM-CONFIG-014",
            section.place("name"),
            f"{label}: name: expected a name, got {yaml_tree.shortened(name)}",
            hint="use up to 64 letters, digits, `-`, `_` and `.`",
        )
    roles = _roles(section, findings, label)
    return Job(
        name=name,
        command=section.get("command") or (),
        roles=roles,
        framework=FrameworkName(section.get("framework")),
        image=section.text("image") or "",
        env=section.get("env") or (),
        secrets=section.get("secrets") or (),
        files=_files(section, findings),
        inputs=section.get("inputs") or (),
        outputs=section.get("outputs") or (),
        max_restarts=section.number("restarts"),
        time_limit_s=section.get("time_limit"),
    )


def _roles(said: Said, findings: Findings, label: str) -> tuple[RoleSpec, ...]:
    node = said.node("roles")
    if not isinstance(node, Section):
        if not said.said("command") and "command" not in said.wrong:
            hint = "write `command: train.py`"
            findings.problem("UM-CONFIG-011", said.place("command"), f"{label}: command is missing", hint=hint)
        return (_role(Role.TRAINER, said, said, is_own=True),)
    roles = {}
    for entry in node.entries:
        role = job_keys.ROLES.get(entry.key)
        if role is None:
            hint = choices(entry.key, job_keys.ROLES)
            findings.problem(
                "UM-CONFIG-012", entry.place, f"{label}: unknown role: {yaml_tree.shortened(entry.key)}", hint=hint
            )
        elif not isinstance(entry.node, Section) and yaml_tree.free(entry.node) is not None:
            what = f"role {entry.key} must be a mapping, not {kind_of(entry.node)}"
            findings.problem("UM-CONFIG-013", entry.node.place, what, hint=f"write `{entry.key}: {{nodes: 2}}`")
        else:
            section = entry.node if isinstance(entry.node, Section) else Section(place=entry.node.place)
            own = sections.read(job_keys.ROLE, section, f"role {entry.key}", findings, job_keys.UNKNOWN)
            roles[role] = _role(role, own, said, is_own=False)
            if not own.said("command") and not said.said("command"):
                hint = "write `command:` in the job or in the role"
                findings.problem("UM-CONFIG-011", entry.place, f"role {entry.key}: command is missing", hint=hint)
    if roles and Role.TRAINER not in roles:
        hint = "servers serve trainers: add `trainer: {nodes: 1}`"
        findings.problem("UM-CONFIG-011", node.place, f"{label}: roles has no trainer", hint=hint)
    return tuple(roles[role] for role in Role if role in roles)


def _role(role: Role, own: Said, job: Said, *, is_own: bool) -> RoleSpec:
    """A role: what it says itself counts, then what the job says for all."""

    def get(name: str) -> Any:
        return own.get(name) if own.said(name) else job.get(name)

    device = get("device")
    return RoleSpec(
        role=role,
        nodes=get("nodes") or Replicas(),
        workers=get("workers"),
        command=() if is_own else own.get("command") or (),
        resource=Resource(
            cpus=get("cpus") or 0,
            memory_bytes=get("memory") or 0,
            devices=get("devices") or 0,
            device=DeviceKind(device) if device else None,
            shared_memory_bytes=get("shared_memory") or 0,
        ),
        env=() if is_own else own.get("env") or (),
    )


def _files(section: Said, findings: Findings) -> FileSet | None:
    root = section.text("files")
    patterns = {name: section.get(name) or () for name in ("include", "exclude")}
    if root is None:
        for name in patterns:
            if section.said(name):
                what = f"{section.label}: {name} without files: nothing is sent"
                findings.problem("UM-SUBMIT-001", section.key_place(name), what, hint="add `files: .`")
        return None
    return FileSet(root=root, include=patterns["include"], exclude=patterns["exclude"])
