"""The flags of `umiak submit`: a table, and the job that they describe where there is no file. A decider."""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.core.decode import Malformed
from umiak.core.job import FrameworkName, Job, Replicas, Resource, RoleSpec, replicas
from umiak.core.names import is_name
from umiak.schema.flags import Flag, FlagKind, FlagOrigin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.flags import FlagFindings, Parsed

WHERE = "Where and how"
JOB = "The job, without a file"

FLAGS = (
    Flag(
        name="on",
        help="Place to run the job on, as umiak.toml or your own config.toml name it. Default: default_place, else local, "
        "this machine.",
        group=WHERE,
        origin=FlagOrigin.UMIAK,
        metavar="PLACE",
        elsewhere=("place", "backend"),
    ),
    Flag(
        name="dry_run",
        help="Print every file and command, secrets masked, every file that would be sent, and what is missing here; start nothing. "
        "Neither an account nor a client of the place is needed.",
        group=WHERE,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="allow_secret_files",
        help="Send files that look like secrets as well, such as .env or private keys. Default: they are an error.",
        group=WHERE,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="foreground",
        help="Follow the logs until the job is over; Ctrl-C cancels it. The exit status is the job's.",
        group=WHERE,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
        elsewhere=("follow", "wait", "attach"),
    ),
    Flag(
        name="key",
        help="Name of this submission, for scripts: with the same key again the same run is returned, also if it is over, and nothing is started.",
        group=WHERE,
        origin=FlagOrigin.UMIAK,
        metavar="TEXT",
    ),
    Flag(
        name="json",
        help="Print JSON.",
        group=WHERE,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="schema",
        help="Print the JSON schema of job.yaml, for editors.",
        group=WHERE,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="name",
        help="Name of the job. Default: that of the script.",
        group=JOB,
        origin=FlagOrigin.UMIAK,
        metavar="NAME",
    ),
    Flag(
        name="nnodes",
        help="Number of nodes; 2:4 for an elastic job.",
        group=JOB,
        origin=FlagOrigin.UMIAK,
        default="1",
        metavar="N[:N]",
    ),
    Flag(
        name="nproc_per_node",
        help="Worker processes per node. Default: one per device, or 1.",
        group=JOB,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        least=1,
        metavar="N",
    ),
    Flag(
        name="devices",
        help="Accelerators per node.",
        group=JOB,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        default=0,
        least=0,
        metavar="N",
        aliases=("gpus",),
    ),
    Flag(
        name="server_num",
        help="Number of parameter servers.",
        group=JOB,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        least=1,
        metavar="N",
    ),
    Flag(
        name="trainer_num",
        help="With --server_num: number of trainers.",
        group=JOB,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        least=1,
        metavar="N",
    ),
    Flag(
        name="framework",
        help="Framework that the script imports; local and ssh hosts are checked for it.",
        group=JOB,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        choices=tuple(each.value for each in FrameworkName),
        default=FrameworkName.NONE.value,
        metavar="NAME",
    ),
    Flag(
        name="env",
        help="Environment variable of the workers. Repeatable.",
        group=JOB,
        origin=FlagOrigin.UMIAK,
        many=True,
        metavar="NAME=VALUE",
    ),
    Flag(
        name="secret",
        help="Name of a variable to pass on from your environment without writing it anywhere. Repeatable.",
        group=JOB,
        origin=FlagOrigin.UMIAK,
        many=True,
        metavar="NAME",
    ),
    Flag(
        name="max_restart",
        help="Restarts after a failure.",
        group=JOB,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        default=0,
        least=0,
        metavar="N",
    ),
    Flag(
        name="time_limit",
        help="Time after which the job is stopped.",
        group=JOB,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        least=1,
        metavar="SECONDS",
    ),
)

OF_A_JOB = tuple(flag.name for flag in FLAGS if flag.group == JOB)


def job_of(parsed: Parsed, findings: FlagFindings) -> Job:
    """The job of a command line; what is wrong with it goes to ``findings``."""
    name = parsed.text("name") or _name_of(parsed.program)
    if not is_name(name):
        hint = "say one with --name: up to 64 letters, digits, `-`, `_` and `.`"
        findings.problem("UM-SUBMIT-015", f"not a name of a job: {name or 'nothing'}", hint=hint)
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
    found = []
    for text in parsed.texts.get("env", ()):
        name, equals, value = text.partition("=")
        if not equals or not _is_variable(name):
            findings.problem("UM-SUBMIT-015", f"not a variable: --env {name}", hint="write --env NAME=VALUE")
        found.append((name, value))
    return tuple(found)


def _secrets(parsed: Parsed, findings: FlagFindings) -> tuple[str, ...]:
    names = parsed.texts.get("secret", ())
    for name in names:
        if not _is_variable(name):
            # Somebody may have written the secret itself: it is not repeated.
            hint = "write --secret NAME; the value is taken from your environment"
            findings.problem("UM-SUBMIT-015", "not the name of a variable: --secret", hint=hint)
    return tuple(names)


def _is_variable(name: str) -> bool:
    return name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
