"""What a place with ``backend = "slurm"`` may say in umiak.toml. A decider.

[place.hpc]
backend = "slurm"
directory = "/shared/me/umiak"
partition = "gpu"
account = "vision"
"""

from __future__ import annotations

import re

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.schema import kinds, sections
from umiak.schema.findings import Findings
from umiak.schema.keys import BadValue, Key, Kind
from umiak.schema.sections import UnknownKeys
from umiak.schema.yaml_tree import shortened
from umiak.submit import job_keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.yaml_tree import Node
    from umiak.submit.places import NamedPlace

UNKNOWN = UnknownKeys(
    page="docs/how-to/submit-slurm.md", short={"queue": "partition", "project": "account", "time": "time_limit"}
)
STOP_TIME_S = 60
_ARGUMENT = re.compile(r"--[a-z][a-z0-9-]*(=.*)?\Z")
_NO_ARRAYS = ("--array",)
_OURS = ("--job-name", "--comment", "--output", "--error", "--open-mode", "--wrap", "--parsable", "--wait", "--ntasks")


def _line(_: Key, node: Node) -> str:
    text = kinds.word_of(node).strip()
    if not text.isprintable():
        raise BadValue(f"more than one line: {shortened(text)}")
    return text


def _lines(key: Key, node: Node) -> tuple[str, ...]:
    found: tuple[str, ...] = kinds.NAMES.read(key, node)
    for each in found:
        if not each.isprintable():
            raise BadValue(f"more than one line: {shortened(each)}", hint="write a list of lines")
    return found


def _arguments(key: Key, node: Node) -> tuple[str, ...]:
    found = _lines(key, node)
    for each in found:
        option = each.partition("=")[0]
        if not _ARGUMENT.match(each):
            raise BadValue(f"not a long option of sbatch: {shortened(each)}", hint="write it as `--mail-type=END`")
        if option in _NO_ARRAYS:
            raise BadValue("job arrays are not supported", hint="submit one run for each task")
        if option in _OURS:
            raise BadValue(f"set by umiak itself: {option}")
    return found


LINE = Kind(phrase="text in one line", read=_line)
LINES = Kind(phrase="a line or a list of lines", read=_lines)
ARGUMENTS = Kind(phrase="a list of options of sbatch", read=_arguments)

KEYS = (
    Key(
        name="directory",
        meaning="Directory that this machine and all nodes see, for runs, logs and job files.",
        kind=LINE,
        default="~/.umiak",
    ),
    Key(name="partition", meaning="Partition.", kind=LINE, default_said="the cluster's"),
    Key(name="account", meaning="Account to charge.", kind=LINE, default_said="yours"),
    Key(name="qos", meaning="Quality of service.", kind=LINE, default_said="the account's"),
    Key(name="constraint", meaning="Features that nodes must have.", kind=LINE),
    Key(
        name="gres",
        meaning="Name of accelerators in Slurm, as in `gpu:a100`; the count comes from the job.",
        kind=LINE,
        default_said="the job's kind of device, or `gpu`",
    ),
    Key(
        name="time_limit",
        meaning="Time limit of jobs that set none.",
        kind=job_keys.SPAN,
        default_said="the partition's",
    ),
    Key(
        name="stop_time",
        meaning="How long before the time limit the workers get SIGTERM.",
        kind=job_keys.SPAN,
        default=STOP_TIME_S,
    ),
    Key(
        name="requeue",
        meaning="Let Slurm start a job again after a node failure or a preemption.",
        kind=kinds.TRUTH,
        default=True,
    ),
    Key(
        name="export",
        meaning="Your environment variables that jobs get: `all`, or `none` but the usual (HOME, PATH, ...). Secrets are never among them.",
        kind=kinds.CHOICE,
        choices=("all", "none"),
        default="all",
    ),
    Key(name="python", meaning="Python on the nodes, 3.10 or later.", kind=LINE, default="python3"),
    Key(name="setup", meaning="Shell lines to run first, as in `module load cuda/12`.", kind=LINES),
    Key(name="arguments", meaning="Further options of sbatch, as in `--exclusive`.", kind=ARGUMENTS),
    Key(name="commands", meaning="Directory of sbatch, squeue and the others.", kind=LINE, default_said="your PATH"),
)


@value
class SlurmSettings:
    """What is said about a place, with defaults."""

    directory: str
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    gres: str = ""
    time_limit_s: int | None = None
    stop_time_s: int = STOP_TIME_S
    requeue: bool = True
    exports_all: bool = True
    python: str = "python3"
    setup: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    commands: str = ""


def read(place: NamedPlace) -> SlurmSettings:
    """The settings of a place. UmiakError with everything that is wrong."""
    findings = Findings()
    said = sections.read(KEYS, place.settings, f"place {place.name}", findings, UNKNOWN)
    if findings.problems:
        raise UmiakError(*findings.problems)
    texts = ("directory", "partition", "account", "qos", "constraint", "gres", "python", "commands")
    return SlurmSettings(
        **{name: said.text(name) or "" for name in texts},
        time_limit_s=said.get("time_limit"),
        stop_time_s=said.number("stop_time"),
        requeue=said.truth("requeue"),
        exports_all=said.get("export") == "all",
        setup=said.names("setup"),
        arguments=said.names("arguments"),
    )
