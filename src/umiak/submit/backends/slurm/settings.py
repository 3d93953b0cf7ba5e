"""What a place with ``backend = "slurm"`` may say in umiak.toml. A decider.

[place.hpc]
backend = "slurm"
directory = "/shared/me/umiak"
partition = "gpu"
account = "vision"

With ``submit_host = "login1"`` jobs are submitted there, over ssh,
and ``remote_dir`` is the directory that it shares with the nodes.
"""

from __future__ import annotations

import re

from umiak.core.names import is_host
from umiak.core.value import replace
from umiak.schema import kinds
from umiak.schema.keys import BadValue, Kind
from umiak.schema.sections import UnknownKeys
from umiak.schema.settings import checked, group, setting, settings
from umiak.schema.yaml_tree import shortened
from umiak.submit.backends.ssh import settings as ssh
from umiak.submit.backends.ssh.settings import SshAccess
from umiak.submit.job_keys import SPAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.findings import Findings
    from umiak.schema.keys import Key
    from umiak.schema.sections import Said
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
DIRECTORY = "~/.umiak"
_ARGUMENT = re.compile(r"--[a-z][a-z0-9-]*(=.*)?\Z")
_NO_ARRAYS = ("--array",)
_OURS = ("--job-name", "--comment", "--output", "--error", "--open-mode", "--wrap", "--parsable", "--wait", "--ntasks")


def _host(key: Key, node: Node) -> str:
    text = _line(key, node)
    _, host, port = ssh.split(text)
    if not is_host(host) or port == 0:
        raise BadValue(f"expected a host, got {shortened(text)}", hint="write it as host, user@host or user@host:22")
    return text


def _line(_: Key, node: Node) -> str:
    text = kinds.word_of(node).strip()
    if not text.isprintable():
        raise BadValue(f"more than one line: {shortened(text)}")
    return text


def _lines(key: Key, node: Node) -> tuple[str, ...]:
    lines: tuple[str, ...] = kinds.NAMES.read(key, node)
    for each in lines:
        if not each.isprintable():
            raise BadValue(f"more than one line: {shortened(each)}", hint="write a list of lines")
    return lines


def _arguments(key: Key, node: Node) -> tuple[str, ...]:
    arguments = _lines(key, node)
    for each in arguments:
        option = each.partition("=")[0]
        if not _ARGUMENT.match(each):
            raise BadValue(
                f"expected a long option of sbatch, got {shortened(each)}", hint="write it as `--mail-type=END`"
            )
        if option in _NO_ARRAYS:
            raise BadValue("job arrays are not supported", hint="submit one run for each task")
        if option in _OURS:
            raise BadValue(f"set by umiak itself: {option}")
    return arguments


HOST = Kind(phrase="a host, as in me@login1", read=_host)
LINE = Kind(phrase="text in one line", read=_line)
LINES = Kind(phrase="a line or a list of lines", read=_lines)
ARGUMENTS = Kind(phrase="a list of options of sbatch", read=_arguments)

_NEED_HOST = ("remote_dir", "submit_python", *ssh.ACCESS)


@settings
class SlurmSettings:
    """A place with Slurm."""

    directory: str = setting(
        LINE, "Directory that this machine and all nodes see, for runs, logs and job files.", default=DIRECTORY
    )
    trusted_directories: tuple[str, ...] = ssh.TRUSTED
    partition: str = setting(LINE, "Partition.", default="", default_text="the cluster's")
    account: str = setting(LINE, "Account to charge.", default="", default_text="yours")
    qos: str = setting(LINE, "Quality of service.", default="", default_text="the account's")
    constraint: str = setting(LINE, "Features that nodes must have.", default="")
    gres: str = setting(
        LINE,
        "Name of accelerators in Slurm, as in `gpu:a100`; the count comes from the job.",
        default="",
        default_text="the job's kind of device, or `gpu`",
    )
    time_limit_s: int | None = setting(
        SPAN, "Time limit of jobs that set none.", default=None, default_text="the partition's"
    )
    stop_time_s: int = setting(SPAN, "How long before the time limit the workers get SIGTERM.", default=60)
    requeue: bool = setting(
        kinds.TRUTH, "Let Slurm start a job again after a node failure or a preemption.", default=True
    )
    export: str = setting(
        kinds.CHOICE,
        "Your environment variables that jobs get: `all`, or `none` but the usual (HOME, PATH, ...). Secrets are never among them.",
        choices=("all", "none"),
        default="all",
    )
    python: str = setting(LINE, "Python on the nodes, 3.10 or later.", default="python3")
    setup: tuple[str, ...] = setting(LINES, "Shell lines to run first, as in `module load cuda/12`.", default=())
    arguments: tuple[str, ...] = setting(ARGUMENTS, "Further options of sbatch, as in `--exclusive`.", default=())
    commands: str = setting(LINE, "Directory of sbatch, squeue and the others.", default="", default_text="the PATH")
    submit_host: str = setting(
        HOST, "Login node where jobs are submitted over ssh.", default="", default_text="this machine is one"
    )
    remote_dir: str = setting(
        LINE,
        "With `submit_host`, instead of `directory`: directory that it shares with all nodes.",
        default=DIRECTORY,
    )
    submit_python: str = setting(
        LINE,
        "Python on `submit_host`, 3.10 or later, without the lines of `setup`.",
        default="",
        default_text="`python`",
    )
    access: SshAccess = group(SshAccess, default=SshAccess())


def read(place: NamedPlace) -> SlurmSettings:
    """The settings of a place; with a submit host, ``directory`` is the one there.
    UmiakError with everything that is wrong.
    """
    settings = checked(SlurmSettings, place.settings, f"place {place.name}", UNKNOWN, _check)
    return replace(settings, directory=settings.remote_dir) if settings.submit_host else settings


def _check(_: SlurmSettings, table: Said, findings: Findings) -> None:
    for name in _NEED_HOST if "submit_host" not in table.wrong and not table.said("submit_host") else ():
        if table.said(name):
            what = f"{table.label}: {name} is for places with `submit_host`"
            hint = 'write `submit_host = "login1"`, or leave it out'
            findings.problem("UM-CONFIG-014", table.key_place(name), what, hint=hint)
    if table.said("submit_host") and table.said("directory"):
        what = f"{table.label}: both submit_host and directory are said"
        hint = "the directory on the submit host is `remote_dir`"
        findings.problem("UM-CONFIG-014", table.key_place("directory"), what, hint=hint)
