"""The flags of `umiak submit`: a table, and the job that they describe where there is no file. A decider."""

from __future__ import annotations

from umiak.cli.shared_flags import FRAMEWORK, JSON, ON, SCHEMA, flag, of_submission, shared
from umiak.core.cluster import Role
from umiak.core.decode import Malformed
from umiak.core.job import FrameworkName, Job, Replicas, Resource, RoleSpec, replicas
from umiak.core.names import is_name
from umiak.schema.flags import FlagKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.flags import FlagFindings, Parsed

WHERE = "Where and how"
JOB = "The job, without a file"

FLAGS = (
    shared(
        ON,
        "Place to run the job on, as umiak.toml or your own config.toml name it. Default: default_place, else local, "
        "this machine.",
        WHERE,
    ),
    *of_submission(WHERE),
    shared(JSON, "Print JSON.", WHERE),
    shared(SCHEMA, "Print the JSON schema of job.yaml, for editors.", WHERE),
    flag("name", "Name of the job. Default: that of the script.", JOB, metavar="NAME"),
    flag("nnodes", "Number of nodes; 2:4 for an elastic job.", JOB, default="1", metavar="N[:N]"),
    flag(
        "nproc_per_node",
        "Worker processes per node. Default: one per device, or 1.",
        JOB,
        kind=FlagKind.NUMBER,
        least=1,
    ),
    flag(
        "devices",
        "Accelerators per node.",
        JOB,
        kind=FlagKind.NUMBER,
        default=0,
        least=0,
        aliases=("gpus",),
    ),
    flag("server_num", "Number of parameter servers.", JOB, kind=FlagKind.NUMBER, least=1),
    flag("trainer_num", "With --server_num: number of trainers.", JOB, kind=FlagKind.NUMBER, least=1),
    shared(FRAMEWORK, "Framework that the script imports; local and ssh hosts are checked for it.", JOB),
    flag("env", "Environment variable of the workers. Repeatable.", JOB, many=True, metavar="NAME=VALUE"),
    flag(
        "secret",
        "Name of a variable to pass on from your environment without writing it anywhere. Repeatable.",
        JOB,
        many=True,
        metavar="NAME",
    ),
    flag("max_restart", "Restarts after a failure.", JOB, kind=FlagKind.NUMBER, default=0, least=0),
    flag("time_limit", "Time after which the job is stopped.", JOB, kind=FlagKind.SECONDS, least=1),
)

OF_A_JOB = tuple(each.name for each in FLAGS if each.group == JOB)


def job_of(parsed: Parsed, findings: FlagFindings) -> Job:
    """The job of a command line; what is wrong with it goes to ``findings``."""
    name = parsed.text("name") or _name_of(parsed.program)
    if not is_name(name):
        hint = "say one with --name: up to 64 letters, digits, `-`, `_` and `.`"
        findings.problem("UM-SUBMIT-015", f"expected a name of a job, got {name or 'nothing'}", hint=hint)
    return Job(
        name=name,
        command=parsed.program,
        roles=_roles(parsed, findings),
        framework=FrameworkName(parsed.text("framework")),
        env=_variables(parsed, findings),
        secrets=_secrets(parsed, findings),
        max_restarts=parsed.number("max_restart") or 0,
        time_limit_s=int(parsed.seconds("time_limit") or 0) or None,
    )


def _name_of(program: tuple[str, ...]) -> str:
    """``train`` for ``models/train.py`` and for ``-m models.train``."""
    first = program[1:2] if program[:1] == ("-m",) else program[:1]
    word = first[0] if first else ""
    word = word.rpartition(".")[2] if program[:1] == ("-m",) else word.rpartition("/")[2].removesuffix(".py")
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-" for letter in word)


def _roles(parsed: Parsed, findings: FlagFindings) -> tuple[RoleSpec, ...]:
    try:
        nodes = replicas(parsed.text("nnodes"))
    except Malformed as error:
        findings.problem(
            "UM-SUBMIT-015", f"--nnodes: {error}", hint="write `--nnodes 2`, or `--nnodes 2:4` for an elastic job"
        )
        nodes = Replicas()
    resource = Resource(devices=parsed.number("devices") or 0)
    servers, trainers = parsed.number("server_num"), parsed.number("trainer_num")
    if servers is None:
        if trainers is not None:
            findings.problem("UM-SUBMIT-015", f"{parsed['trainer_num'].spoken} without --server_num", hint="add it")
        return (RoleSpec(nodes=nodes, workers=parsed.number("nproc_per_node"), resource=resource),)
    for name in ("nnodes", "nproc_per_node"):
        if parsed.said(name):
            hint = "say how many servers and trainers there are: --server_num 2 --trainer_num 4"
            findings.problem("UM-SUBMIT-015", f"{parsed[name].spoken} with --server_num", hint=hint)
    count = trainers or 1
    return (
        RoleSpec(role=Role.SERVER, nodes=Replicas(least=servers, most=servers)),
        RoleSpec(role=Role.TRAINER, nodes=Replicas(least=count, most=count), resource=resource),
    )


def _variables(parsed: Parsed, findings: FlagFindings) -> tuple[tuple[str, str], ...]:
    variables = []
    for text in parsed.texts.get("env", ()):
        name, equals, value = text.partition("=")
        if not equals or not _is_variable(name):
            findings.problem("UM-SUBMIT-015", f"expected NAME=VALUE, got --env {name}", hint="write --env NAME=VALUE")
        variables.append((name, value))
    return tuple(variables)


def _secrets(parsed: Parsed, findings: FlagFindings) -> tuple[str, ...]:
    names = parsed.texts.get("secret", ())
    for name in names:
        if not _is_variable(name):
            # Somebody may have written the secret itself: it is not repeated.
            hint = "write --secret NAME; the value is taken from your environment"
            findings.problem("UM-SUBMIT-015", "expected the name of a variable after --secret", hint=hint)
    return tuple(names)


def _is_variable(name: str) -> bool:
    return name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
