"""What a place with ``backend = "mpi"`` may say in umiak.toml, and the host files of mpirun. A decider.

[place.cluster]
backend = "mpi"
hosts = ["node0", "node1"]
directory = "/shared/me/umiak"

With ``shared = false`` the directory is one of each host's own, and everything is sent there over ssh.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.names import is_digits, is_host
from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.schema import kinds, sections
from umiak.schema.findings import Findings
from umiak.schema.keys import BadValue, Key, Kind, words
from umiak.schema.sections import UnknownKeys
from umiak.schema.yaml_tree import shortened
from umiak.submit.backends.shared import access
from umiak.submit.backends.shared.access import SshAccess
from umiak.submit.backends.slurm.settings import LINE, LINES
from umiak.submit.backends.ssh import settings as ssh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.yaml_tree import Node
    from umiak.submit.places import NamedPlace

UNKNOWN = UnknownKeys(page="docs/how-to/submit-mpi.md", short={"machinefile": "hostfile", "nodes": "hosts"})


class Family(str, Enum):
    """Whose mpirun it is."""

    OPENMPI = "openmpi"
    MPICH = "mpich"


@value
class MpiHost:
    """A machine, and how many processes of MPI programs it takes; a run starts one launcher on it."""

    name: str
    slots: int = 1


def _hosts(key: Key, node: Node) -> tuple[MpiHost, ...]:
    found: tuple[str, ...] = kinds.NAMES.read(key, node)
    return hosts_in("\n".join(found))


HOSTS = Kind(phrase="a list of hosts, as in node0 or node0:8", read=_hosts)

KEYS = (
    Key(
        name="directory",
        meaning="Directory for runs, logs and job files, which this machine and all hosts see.",
        kind=LINE,
        default="~/.umiak",
    ),
    ssh.TRUSTED,
    Key(
        name="shared",
        meaning="Whether `directory` is on a file system that all hosts share; `false`: each host has its own, and launcher and files are "
        "sent to all of them over ssh.",
        kind=kinds.TRUTH,
        default=True,
    ),
    Key(name="hosts", meaning="Hosts, with slots where they differ from 1: `node0:8`.", kind=HOSTS),
    Key(name="hostfile", meaning="File with the hosts, of Open MPI or of MPICH.", kind=LINE),
    Key(name="mpirun", meaning="Command that starts MPI programs.", kind=LINE, default="mpirun"),
    Key(
        name="family",
        meaning="Whose `mpirun` it is.",
        kind=kinds.CHOICE,
        choices=words(Family),
        default_said="what `mpirun --version` says",
    ),
    Key(name="python", meaning="Python on the hosts, 3.10 or later.", kind=LINE, default="python3"),
    Key(name="setup", meaning="Shell lines to run first, as in `module load openmpi`.", kind=LINES),
    Key(name="arguments", meaning="Further words for mpirun.", kind=LINES),
    *access.KEYS,
)


@value
class MpiSettings:
    """What is said about a place, with defaults."""

    directory: str
    trusted_directories: tuple[str, ...] = ()
    hosts: tuple[MpiHost, ...] = ()
    hostfile: str = ""
    mpirun: str = "mpirun"
    family: Family | None = None
    """None: it is found out."""
    python: str = "python3"
    setup: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    is_shared: bool = True
    access: SshAccess = SshAccess()


def read(place: NamedPlace) -> MpiSettings:
    """The settings of a place. UmiakError with everything that is wrong."""
    findings = Findings()
    said = sections.read(KEYS, place.settings, f"place {place.name}", findings, UNKNOWN)
    if said.said("hosts") and said.said("hostfile"):
        what = f"place {place.name}: both hosts and hostfile are said"
        findings.problem("UM-CONFIG-014", said.key_place("hostfile"), what, hint="leave one of them out")
    for name in access.NAMES if said.truth("shared") else ():
        if said.said(name):
            what = f"place {place.name}: {name} is for places with `shared = false`"
            hint = "mpirun has settings of its own for ssh; leave it out, or write `shared = false`"
            findings.problem("UM-CONFIG-014", said.key_place(name), what, hint=hint)
    if findings.problems:
        raise UmiakError(*findings.problems)
    return MpiSettings(
        **{name: said.text(name) or "" for name in ("directory", "hostfile", "mpirun", "python")},
        trusted_directories=said.names("trusted_directories"),
        hosts=said.names("hosts"),  # type: ignore[arg-type]
        family=Family(said.get("family")) if said.get("family") else None,
        setup=said.names("setup"),
        arguments=said.names("arguments"),
        is_shared=said.truth("shared"),
        access=access.read(said),
    )


def hosts_in(text: str) -> tuple[MpiHost, ...]:
    """The hosts of a host file: ``node0 slots=8`` of Open MPI, ``node0:8`` of MPICH. `BadValue` if it is none."""
    found: dict[str, MpiHost] = {}
    for line in text.splitlines():
        name, *rest = line.partition("#")[0].split() or [""]
        if not name:
            continue
        host, _, count = name.rpartition(":") if name.count(":") == 1 else (name, "", "")
        for word in rest:
            key, equals, number = word.partition("=")
            count = number if key == "slots" else count if equals else "?"
        if not is_host(host or name) or (count and not (is_digits(count) and 0 < int(count) < 10**6)):
            raise BadValue(f"not a host: {shortened(line)}", hint="write `node0`, `node0:8` or `node0 slots=8`")
        if host in found:
            raise BadValue(f"the same host twice: {host}")
        found[host] = MpiHost(name=host, slots=int(count or 1))
    return tuple(found.values())


def family_of(version: str) -> Family | None:
    """From what ``mpirun --version`` prints."""
    lower = version.lower()
    if "open mpi" in lower or "openrte" in lower or "prrte" in lower:
        return Family.OPENMPI
    return Family.MPICH if "hydra" in lower or "mpich" in lower or "intel(r) mpi" in lower else None
