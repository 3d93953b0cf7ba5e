"""A job.yaml, read: text to a `Job`, and everything that is wrong with it at once. A decider.

read("name: ctr\\ncommand: train.py\\n", "job.yaml").job
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


def read(text: str, source: str) -> JobReading:
    """The job of a file."""
    findings = Findings()
    tree = yaml_tree.parse(text, source, findings)
    start = Place(source=source, line=1, column=1)
    job = None
    if tree is None and findings.problems:
        pass  # what can't be parsed says nothing about keys
    elif isinstance(tree, Section) or tree is None:
        job = _job(tree or Section(place=start), findings)
    else:
        findings.problem("UM-CONFIG-013", start, f"a job is a mapping, and this is {kind_of(tree)}")
    wrong = findings.problems
    return JobReading(job=None if wrong else job, problems=wrong, warnings=findings.warnings)


def _job(tree: Section, findings: Findings) -> Job:
    said = sections.read(job_keys.JOB, tree, "job", findings, job_keys.UNKNOWN)
    name = said.text("name") or ""
    if name and not is_name(name):
        findings.problem(
            "UM-CONFIG-014",
            said.place("name"),
            f"job: name: not a name: {yaml_tree.shortened(name)}",
            hint="use up to 64 letters, digits, `-`, `_` and `.`",
        )
    roles = _roles(said, findings)
    return Job(
        name=name,
        command=said.get("command") or (),
        roles=roles,
        framework=FrameworkName(said.get("framework")),
        image=said.text("image") or "",
        env=said.get("env") or (),
        secrets=said.get("secrets") or (),
        files=_files(said, findings),
        inputs=said.get("inputs") or (),
        outputs=said.get("outputs") or (),
        max_restarts=said.number("restarts"),
        time_limit_s=said.get("time_limit"),
    )


def _roles(said: Said, findings: Findings) -> tuple[RoleSpec, ...]:
    node = said.node("roles")
    if not isinstance(node, Section):
        if not said.said("command") and "command" not in said.wrong:
            hint = "write `command: train.py`"
            findings.problem("UM-CONFIG-011", said.place("command"), "job: command is missing", hint=hint)
        return (_role(Role.TRAINER, said, said, is_own=True),)
    found = {}
    for entry in node.entries:
        role = job_keys.ROLES.get(entry.key)
        if role is None:
            hint = choices(entry.key, job_keys.ROLES)
            findings.problem(
                "UM-CONFIG-012", entry.place, f"job: unknown role: {yaml_tree.shortened(entry.key)}", hint=hint
            )
        elif not isinstance(entry.node, Section) and yaml_tree.free(entry.node) is not None:
            what = f"role {entry.key} must be a mapping, not {kind_of(entry.node)}"
            findings.problem("UM-CONFIG-013", entry.node.place, what, hint=f"write `{entry.key}: {{nodes: 2}}`")
        else:
            section = entry.node if isinstance(entry.node, Section) else Section(place=entry.node.place)
            own = sections.read(job_keys.ROLE, section, f"role {entry.key}", findings, job_keys.UNKNOWN)
            found[role] = _role(role, own, said, is_own=False)
            if not own.said("command") and not said.said("command"):
                hint = "write `command:` in the job or in the role"
                findings.problem("UM-CONFIG-011", entry.place, f"role {entry.key}: command is missing", hint=hint)
    if found and Role.TRAINER not in found:
        hint = "servers serve trainers: add `trainer: {nodes: 1}`"
        findings.problem("UM-CONFIG-011", node.place, "job: roles has no trainer", hint=hint)
    return tuple(found[role] for role in Role if role in found)


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


def _files(said: Said, findings: Findings) -> FileSet | None:
    root = said.text("files")
    patterns = {name: said.get(name) or () for name in ("include", "exclude")}
    if root is None:
        for name in patterns:
            if said.said(name):
                what = f"job: {name} without files: nothing is sent"
                findings.problem("UM-SUBMIT-001", said.key_place(name), what, hint="add `files: .`")
        return None
    return FileSet(root=root, include=patterns["include"], exclude=patterns["exclude"])
