"""What a place with ``backend = "slurm"`` may say in umiak.toml. A decider.

[place.hpc]
backend = "slurm"
directory = "/shared/me/umiak"
partition = "gpu"
account = "vision"

With ``submit_host = "login1"`` jobs are submitted there, over ssh, and ``remote_dir`` is the directory that it shares with the nodes.
"""

from __future__ import annotations

import re

from umiak.core.names import is_host
from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.schema import kinds, sections
from umiak.schema.findings import Findings
from umiak.schema.keys import BadValue, Key, Kind
from umiak.schema.sections import UnknownKeys
from umiak.schema.yaml_tree import shortened
from umiak.submit import job_keys
from umiak.submit.backends.shared import access
from umiak.submit.backends.shared.access import SshAccess
from umiak.submit.backends.ssh import settings as ssh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.yaml_tree import Node
    from umiak.submit.places import NamedPlace

UNKNOWN = UnknownKeys(
    page="docs/how-to/submit-slurm.md",
    short={
        "queue": "partition",
        "project": "account",
        "time": "time_limit",
        "login": "submit_host",
        "login_node": "submit_host",
        "host": "submit_host",
        "remote_directory": "remote_dir",
    },
)
STOP_TIME_S = 60
DIRECTORY = "~/.umiak"
_ARGUMENT = re.compile(r"--[a-z][a-z0-9-]*(=.*)?\Z")
_NO_ARRAYS = ("--array",)
_OURS = ("--job-name", "--comment", "--output", "--error", "--open-mode", "--wrap", "--parsable", "--wait", "--ntasks")


def _host(key: Key, node: Node) -> str:
    text = _line(key, node)
    _, host, port = ssh.split(text)
    if not is_host(host) or port == 0:
        raise BadValue(f"not a host: {shortened(text)}", hint="write it as host, user@host or user@host:22")
    return text


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


HOST = Kind(phrase="a host, as in me@login1", read=_host)
LINE = Kind(phrase="text in one line", read=_line)
LINES = Kind(phrase="a line or a list of lines", read=_lines)
ARGUMENTS = Kind(phrase="a list of options of sbatch", read=_arguments)

KEYS = (
    Key(
        name="directory",
        meaning="Directory that this machine and all nodes see, for runs, logs and job files.",
        kind=LINE,
        default=DIRECTORY,
    ),
    ssh.TRUSTED,
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
    Key(name="commands", meaning="Directory of sbatch, squeue and the others.", kind=LINE, default_said="the PATH"),
    Key(
        name="submit_host",
        meaning="Login node where jobs are submitted over ssh.",
        kind=HOST,
        default_said="this machine is one",
    ),
    Key(
        name="remote_dir",
        meaning="With `submit_host`, instead of `directory`: directory that it shares with all nodes.",
        kind=LINE,
        default=DIRECTORY,
    ),
    Key(
        name="submit_python",
        meaning="Python on `submit_host`, 3.10 or later, without the lines of `setup`.",
        kind=LINE,
        default_said="`python`",
    ),
    *access.KEYS,
)
_NEED_HOST = ("remote_dir", "submit_python", *access.NAMES)


@value
class SlurmSettings:
    """What is said about a place, with defaults."""

    directory: str
    trusted_directories: tuple[str, ...] = ()
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
    submit_host: str = ""
    """Empty: Slurm's commands are on this machine."""
    submit_python: str = ""
    access: SshAccess = SshAccess()


def read(place: NamedPlace) -> SlurmSettings:
    """The settings of a place. UmiakError with everything that is wrong."""
    findings = Findings()
    said = sections.read(KEYS, place.settings, f"place {place.name}", findings, UNKNOWN)
    for name in _NEED_HOST if "submit_host" not in said.wrong and not said.said("submit_host") else ():
        if said.said(name):
            what = f"place {place.name}: {name} is for places with `submit_host`"
            hint = 'write `submit_host = "login1"`, or leave it out'
            findings.problem("UM-CONFIG-014", said.key_place(name), what, hint=hint)
    if said.said("submit_host") and said.said("directory"):
        what = f"place {place.name}: both submit_host and directory are said"
        hint = "the directory on the submit host is `remote_dir`"
        findings.problem("UM-CONFIG-014", said.key_place("directory"), what, hint=hint)
    if findings.problems:
        raise UmiakError(*findings.problems)
    texts = ("partition", "account", "qos", "constraint", "gres", "python", "commands", "submit_host", "submit_python")
    return SlurmSettings(
        directory=said.text("remote_dir" if said.said("submit_host") else "directory") or DIRECTORY,
        trusted_directories=said.names("trusted_directories"),
        access=access.read(said),
        **{name: said.text(name) or "" for name in texts},
        time_limit_s=said.get("time_limit"),
        stop_time_s=said.number("stop_time"),
        requeue=said.truth("requeue"),
        exports_all=said.get("export") == "all",
        setup=said.names("setup"),
        arguments=said.names("arguments"),
    )
