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
from umiak.core.value import value
from umiak.schema import kinds
from umiak.schema.keys import BadValue, Kind
from umiak.schema.sections import UnknownKeys
from umiak.schema.settings import checked, group, setting, settings
from umiak.schema.yaml_tree import shortened
from umiak.submit.backends.slurm.settings import LINE, LINES
from umiak.submit.backends.ssh import settings as ssh
from umiak.submit.backends.ssh.settings import SshAccess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.findings import Findings
    from umiak.schema.keys import Key
    from umiak.schema.sections import Said
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
    names: tuple[str, ...] = kinds.NAMES.read(key, node)
    return hosts_in("\n".join(names))


HOSTS = Kind(phrase="a list of hosts, as in node0 or node0:8", read=_hosts)


@settings
class MpiSettings:
    """A place with mpirun."""

    directory: str = setting(
        LINE, "Directory for runs, logs and job files, which this machine and all hosts see.", default="~/.umiak"
    )
    trusted_directories: tuple[str, ...] = ssh.TRUSTED
    is_shared: bool = setting(
        kinds.TRUTH,
        "Whether `directory` is on a file system that all hosts share; `false`: each host has its own, and launcher and files are "
        "sent to all of them over ssh.",
        key="shared",
        default=True,
    )
    hosts: tuple[MpiHost, ...] = setting(HOSTS, "Hosts, with slots where they differ from 1: `node0:8`.", default=())
    hostfile: str = setting(LINE, "File with the hosts, of Open MPI or of MPICH.", default="")
    mpirun: str = setting(LINE, "Command that starts MPI programs.", default="mpirun")
    family: Family | None = setting(
        Family, "Whose `mpirun` it is.", default=None, default_text="what `mpirun --version` says"
    )
    python: str = setting(LINE, "Python on the hosts, 3.10 or later.", default="python3")
    setup: tuple[str, ...] = setting(LINES, "Shell lines to run first, as in `module load openmpi`.", default=())
    arguments: tuple[str, ...] = setting(LINES, "Further words for mpirun.", default=())
    access: SshAccess = group(SshAccess, default=SshAccess())


def read(place: NamedPlace) -> MpiSettings:
    """The settings of a place. UmiakError with everything that is wrong."""
    return checked(MpiSettings, place.settings, f"place {place.name}", UNKNOWN, _check)


def _check(settings: MpiSettings, table: Said, findings: Findings) -> None:
    if table.said("hosts") and table.said("hostfile"):
        what = f"{table.label}: both hosts and hostfile are said"
        findings.problem("UM-CONFIG-014", table.key_place("hostfile"), what, hint="leave one of them out")
    for name in ssh.ACCESS if settings.is_shared else ():
        if table.said(name):
            what = f"{table.label}: {name} is for places with `shared = false`"
            hint = "mpirun has settings of its own for ssh; leave it out, or write `shared = false`"
            findings.problem("UM-CONFIG-014", table.key_place(name), what, hint=hint)


def hosts_in(text: str) -> tuple[MpiHost, ...]:
    """The hosts of a host file: ``node0 slots=8`` of Open MPI, ``node0:8`` of MPICH. `BadValue` if it is none."""
    hosts: dict[str, MpiHost] = {}
    for line in text.splitlines():
        name, *rest = line.partition("#")[0].split() or [""]
        if not name:
            continue
        host, _, count = name.rpartition(":") if name.count(":") == 1 else (name, "", "")
        for word in rest:
            key, equals, number = word.partition("=")
            count = number if key == "slots" else count if equals else "?"
        if not is_host(host or name) or (count and not (is_digits(count) and 0 < int(count) < 10**6)):
            raise BadValue(
                f"expected a host, got {shortened(line)}", hint="write `node0`, `node0:8` or `node0 slots=8`"
            )
        if host in hosts:
            raise BadValue(f"the same host twice: {host}")
        hosts[host] = MpiHost(name=host, slots=int(count or 1))
    return tuple(hosts.values())


def family_of(version: str) -> Family | None:
    """From what ``mpirun --version`` prints."""
    lower = version.lower()
    if "open mpi" in lower or "openrte" in lower or "prrte" in lower:
        return Family.OPENMPI
    return Family.MPICH if "hydra" in lower or "mpich" in lower or "intel(r) mpi" in lower else None
