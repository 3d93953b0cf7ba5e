"""What a place with ``backend = "ssh"`` says: its keys, read and checked. A decider.

    [place.lab]
    backend = "ssh"
    hosts = ["node0", "root@10.0.0.2:2222", "gpu*"]

Names and patterns are those of ``~/.ssh/config``; `expanded` looks them up in its text.
No password and no passphrase stands here: only the name of the variable that has it.
"""

from __future__ import annotations

import fnmatch
import posixpath

from umiak.core.names import LAST_PORT, is_digits, is_host
from umiak.core.value import replace, value
from umiak.schema import kinds
from umiak.schema.keys import BadValue, Kind
from umiak.schema.kinds import word_of
from umiak.schema.sections import UnknownKeys
from umiak.schema.settings import group, setting, settings, table
from umiak.schema.settings import read as read_settings
from umiak.schema.yaml_tree import Listing, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.schema.findings import Findings
    from umiak.schema.keys import Key
    from umiak.schema.yaml_tree import Node, Section

PAGE = "docs/how-to/submit-ssh.md"
DIRECTORY = "~/.umiak"


@value
class SshHost:
    """One host as it was written."""

    label: str
    """Without the user: ``node0``, ``10.0.0.2:2222``. Unique in a place."""
    host: str
    user: str = ""
    port: int | None = None
    address: str = ""
    """By which the other hosts reach it."""

    @property
    def directory_name(self) -> str:
        """The label as a name of a directory."""
        return "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in self.label)

    @property
    def written(self) -> str:
        """As one writes it in a list of hosts."""
        return f"{self.user}@{self.label}" if self.user else self.label


def _hosts(_: Key, node: Node) -> tuple[SshHost, ...]:
    words = tuple([word_of(each) for each in node.items]) if isinstance(node, Listing) else tuple(word_of(node).split())
    if not words:
        raise BadValue("expected at least one host, got none", hint='write `hosts = ["node0", "root@10.0.0.2:2222"]`')
    for word in words:
        user, host, port = split(word)
        is_pattern = any(letter in host for letter in "*?") and is_host(host.replace("*", "x").replace("?", "x"))
        if not (is_host(host) or is_pattern) or (user and not user.isprintable()) or port == 0:
            raise BadValue(
                f"expected a host, got {shortened(word) or 'nothing'}",
                hint="write it as host, user@host or user@host:22",
            )
    return tuple([host_of(word) for word in words])


def split(word: str) -> tuple[str, str, int | None]:
    """``user@host:port`` in its parts; a port that is none is 0."""
    user, _, rest = word.rpartition("@")
    if rest.startswith("["):
        host, _, tail = rest[1:].partition("]")
        colon, port = tail[:1], tail[1:]
    elif rest.count(":") == 1:
        host, colon, port = rest.partition(":")
    else:
        host, colon, port = rest, "", ""
    if not colon:
        return user, host, None
    return user, host, int(port) if is_digits(port) and len(port) < 6 and int(port) <= LAST_PORT else 0


def _directories(key: Key, node: Node) -> tuple[str, ...]:
    directories: tuple[str, ...] = kinds.NAMES.read(key, node)
    for each in directories:
        if not each.startswith("/") or each != posixpath.normpath(each) or not each.isprintable():
            hint = "write it as the error prints it that names the directory"
            raise BadValue(f"expected an absolute path without `..` and `//`: {shortened(each)}", hint=hint)
    return directories


HOSTS = Kind(phrase="a list of hosts", read=_hosts)
DIRECTORIES = Kind(phrase="a list of directories", read=_directories)


@settings
class SshAccess:
    """How machines are reached over ssh: also of places that are no list of hosts,
    as one of Slurm with ``submit_host``.
    """

    user: str = setting(
        kinds.NAME, "User on the hosts.", default="", default_text="your ssh config's, or your own name"
    )
    key: str = setting(
        kinds.PATH, "Private key file.", default="", default_text="your ssh config's, the agent's, `~/.ssh/id_*`"
    )
    passphrase_from: str = setting(kinds.NAME, "Variable that holds the passphrase of the key.", default="")
    password_from: str = setting(kinds.NAME, "Variable that holds the password.", default="")
    known_hosts: str = setting(
        kinds.PATH,
        "File with the keys of the hosts.",
        default="",
        default_text="your ssh config's, or `~/.ssh/known_hosts`",
    )
    config: str = setting(kinds.PATH, "ssh config to read.", default="", default_text="`~/.ssh/config`")
    connect_timeout_s: float = setting(kinds.NUMBER, "Seconds to wait for a connection.", least=0, default=10.0)


ACCESS = tuple([key.name for key in table(SshAccess)])
TRUSTED: tuple[str, ...] = setting(
    DIRECTORIES,
    "Directories that others can write to and that are used all the same, with everything below: those who can write there can run "
    "programs as you. Their real paths, without links.",
    default=(),
)
"""``trusted_directories`` of any place that writes to directories of other machines."""


@settings
class SshSettings:
    """A place of hosts."""

    hosts: tuple[SshHost, ...] = setting(
        HOSTS,
        "Hosts in the order of their ranks: `host`, `user@host:port`, or patterns of your ssh config.",
        required=True,
    )
    access: SshAccess = group(SshAccess, default=SshAccess())
    addresses: tuple[str, ...] = setting(
        kinds.NAMES,
        "Addresses by which the hosts reach one another, in the order of `hosts`.",
        default=(),
        default_text="those of `hosts`",
    )
    directory: str = setting(kinds.PATH, "Directory for runs, files and launchers on the hosts.", default=DIRECTORY)
    trusted_directories: tuple[str, ...] = TRUSTED
    python: str = setting(kinds.TEXT, "Python on the hosts, 3.10 or newer; the job runs with it.", default="python3")
    parallel: int = setting(kinds.WHOLE, "Hosts to talk to at the same time.", least=1, default=64)
    lost_after_s: float = setting(
        kinds.NUMBER, "Seconds after which a host that can't be reached counts as lost.", least=0, default=300.0
    )
    keep_days: float = setting(
        kinds.NUMBER, "Days for which `umiak hosts clean` keeps ended runs.", least=0, default=30.0
    )


OTHER_WAYS = ("proxycommand", "proxyjump", "addressfamily", "bindaddress", "bindinterface", "canonicalizehostname")
"""Keywords of an ssh config that say how a connection is made."""
UNKNOWN = UnknownKeys(
    page=PAGE,
    short={
        "host": "hosts",
        "identity_file": "key",
        "timeout": "connect_timeout",
        "password": "password_from",
        "workdir": "directory",
    },
)


def read(section: Section, place: str, findings: Findings, config_text: str = "", *, config: str = "") -> SshSettings:
    """The settings of a place; what is wrong goes to ``findings``. ``config_text``: that of the ssh config."""
    settings, table = read_settings(SshSettings, section, f"place {place}", findings, UNKNOWN, config=config)
    hosts, missing = expanded(settings.hosts or (), config_text)
    for host in missing:
        findings.problem(
            "UM-SUBMIT-100",
            table.place("hosts"),
            f"place {place}: no host of the ssh config has this pattern: {host.written}",
            hint="write hosts by their names, or add `Host` entries to your ssh config",
        )
    labels = [host.label for host in hosts]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        findings.problem("UM-SUBMIT-100", table.place("hosts"), f"place {place}: listed twice: {', '.join(twice)}")
    addresses = settings.addresses or tuple([host.address for host in hosts])
    if len(addresses) != len(hosts):
        what = f"place {place}: {len(addresses)} addresses for {len(hosts)} hosts"
        hint = "write one address for each host, or none"
        findings.problem("UM-SUBMIT-100", table.place("addresses"), what, hint=hint)
    named = [
        replace(host, user=host.user or settings.access.user, address=address)
        for host, address in zip(hosts, addresses, strict=False)
    ]
    return replace(settings, hosts=tuple(named))


def host_of(word: str) -> SshHost:
    """The host that is written as ``host``, ``user@host`` or ``user@host:22``."""
    user, host, port = split(word)
    return SshHost(label=host if port is None else f"{host}:{port}", host=host, user=user, port=port)


def expanded(hosts: Iterable[SshHost], config_text: str) -> tuple[list[SshHost], list[SshHost]]:
    """The hosts of a list, patterns replaced by the names of the ssh config that they match;
    and patterns without any.
    """
    entries = config_entries(config_text)
    known = [name for names, _ in entries for name in names if not any(letter in name for letter in "*?!")]
    found, missing = [], []
    for host in hosts:
        names = [host.host]
        if any(letter in host.host for letter in "*?"):
            names = [name for name in dict.fromkeys(known) if fnmatch.fnmatchcase(name, host.host)]
            missing += [] if names else [host]
        for name in names:
            label = name if host.port is None else f"{name}:{host.port}"
            found.append(replace(host, label=label, host=name, address=_address(name, entries)))
    return found, missing


def config_entries(text: str) -> list[tuple[list[str], dict[str, str]]]:
    """The ``Host`` blocks of an ssh config: their patterns, and what they say first."""
    entries: list[tuple[list[str], dict[str, str]]] = [(["*"], {})]
    for line in text.splitlines():
        word, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        rest = rest.strip().strip('"')
        if not word or word.startswith("#"):
            continue
        if word.lower() == "host":
            entries.append((rest.split(), {}))
        elif word.lower() == "match":
            entries.append(([], {}))
        else:
            entries[-1][1].setdefault(word.lower(), rest)
    return entries


def config_for(name: str, text: str) -> str | None:
    """The part of an ssh config that is about one host: of a file with many hosts a reader then has little to read.

    None: it has parts whose meaning is not known here.
    """
    lines: list[str] = []
    is_ours = True
    for line in text.splitlines():
        word, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        if word.lower() in ("match", "include", "proxyjump"):  # the last one needs the entry of another host
            return None
        if word.lower() == "host":
            is_ours = _matches(name, rest.split())
            if is_ours:
                lines.append("Host *")
        elif is_ours and word and not word.startswith("#"):
            lines.append(line.replace("%n", name))
    return "".join(f"{line}\n" for line in lines)


def tcp_address(host: SshHost, text: str) -> tuple[str, int] | None:
    """Where a host listens; None if its ssh config may have another way to it than a plain connection."""
    if config_for(host.host, text) is None:
        return None
    config = config_of(host.host, text)
    address, port = config.get("hostname", host.host).replace("%h", host.host), config.get("port", "22")
    if any(word in config for word in OTHER_WAYS) or "%" in address or not is_digits(port):
        return None
    return address, host.port or int(port)


def config_of(name: str, text: str) -> dict[str, str]:
    """All that an ssh config says about a host: of each keyword the first."""
    return _said_of(name, config_entries(text))


def _said_of(name: str, entries: Iterable[tuple[list[str], dict[str, str]]]) -> dict[str, str]:
    options: dict[str, str] = {}
    for patterns, said in entries:
        if _matches(name, patterns):
            options = {**said, **options}
    return options


def _address(name: str, entries: Iterable[tuple[list[str], dict[str, str]]]) -> str:
    return _said_of(name, entries).get("hostname", name).replace("%h", name)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    is_match = False
    for pattern in patterns:
        if fnmatch.fnmatchcase(name, pattern.lstrip("!")):
            if pattern.startswith("!"):
                return False
            is_match = True
    return is_match
