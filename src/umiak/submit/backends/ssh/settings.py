"""What a place with ``backend = "ssh"`` says: its keys, read and checked. A decider.

    [place.lab]
    backend = "ssh"
    hosts = ["node0", "root@10.0.0.2:2222", "gpu*"]

Names and patterns are those of ``~/.ssh/config``; `expanded` looks them up in its text. No password and no passphrase stands here:
only the name of the variable that has it.
"""

from __future__ import annotations

import fnmatch
import posixpath

from umiak.core.names import LAST_PORT, is_digits, is_host
from umiak.core.value import value
from umiak.schema import kinds, sections
from umiak.schema.findings import Findings
from umiak.schema.keys import BadValue, Key, Kind
from umiak.schema.kinds import word_of
from umiak.schema.sections import UnknownKeys
from umiak.schema.yaml_tree import Listing, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


@value
class SshSettings:
    """All that is said about a place."""

    hosts: tuple[SshHost, ...]
    user: str = ""
    key: str = ""
    passphrase_from: str = ""
    password_from: str = ""
    known_hosts: str = ""
    config: str = ""
    directory: str = DIRECTORY
    trusted_directories: tuple[str, ...] = ()
    """At and below which everything is taken for the user's own."""
    python: str = "python3"
    connect_timeout_s: float = 10.0
    parallel: int = 64
    lost_after_s: float = 300.0
    keep_days: float = 30.0


def _hosts(_: Key, node: Node) -> tuple[str, ...]:
    words = tuple([word_of(each) for each in node.items]) if isinstance(node, Listing) else tuple(word_of(node).split())
    if not words:
        raise BadValue("no hosts", hint='write `hosts = ["node0", "root@10.0.0.2:2222"]`')
    for word in words:
        user, host, port = split(word)
        is_pattern = any(letter in host for letter in "*?") and is_host(host.replace("*", "x").replace("?", "x"))
        if not (is_host(host) or is_pattern) or (user and not user.isprintable()) or port == 0:
            raise BadValue(
                f"not a host: {shortened(word) or 'nothing'}", hint="write it as host, user@host or user@host:22"
            )
    return words


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
    found: tuple[str, ...] = kinds.NAMES.read(key, node)
    for each in found:
        if not each.startswith("/") or each != posixpath.normpath(each) or not each.isprintable():
            hint = "write it as the error prints it that names the directory"
            raise BadValue(f"expected an absolute path without `..` and `//`: {shortened(each)}", hint=hint)
    return found


HOSTS = Kind(phrase="a list of hosts", read=_hosts)
DIRECTORIES = Kind(phrase="a list of directories", read=_directories)
TRUSTED = Key(
    name="trusted_directories",
    meaning="Directories that others can write to and that are used all the same, with everything below: those who can write there can run "
    "programs as you. Their real paths, without links.",
    kind=DIRECTORIES,
)

KEYS = (
    Key(
        name="hosts",
        meaning="Hosts in the order of their ranks: `host`, `user@host:port`, or patterns of your ssh config.",
        kind=HOSTS,
        required=True,
    ),
    Key(name="user", meaning="User on the hosts.", kind=kinds.NAME, default_said="your ssh config's, or your own name"),
    Key(
        name="key",
        meaning="Private key file.",
        kind=kinds.PATH,
        default_said="your ssh config's, the agent's, `~/.ssh/id_*`",
    ),
    Key(name="passphrase_from", meaning="Variable that holds the passphrase of the key.", kind=kinds.NAME),
    Key(name="password_from", meaning="Variable that holds the password.", kind=kinds.NAME),
    Key(
        name="known_hosts",
        meaning="File with the keys of the hosts.",
        kind=kinds.PATH,
        default_said="your ssh config's, or `~/.ssh/known_hosts`",
    ),
    Key(name="config", meaning="ssh config to read.", kind=kinds.PATH, default_said="`~/.ssh/config`"),
    Key(
        name="addresses",
        meaning="Addresses by which the hosts reach one another, in the order of `hosts`.",
        kind=kinds.NAMES,
        default_said="those of `hosts`",
    ),
    Key(
        name="directory",
        meaning="Directory for runs, files and launchers on the hosts.",
        kind=kinds.PATH,
        default=DIRECTORY,
    ),
    TRUSTED,
    Key(
        name="python",
        meaning="Python on the hosts, 3.10 or newer; the job runs with it.",
        kind=kinds.TEXT,
        default="python3",
    ),
    Key(name="connect_timeout", meaning="Seconds to wait for a connection.", kind=kinds.NUMBER, least=0, default=10),
    Key(name="parallel", meaning="Hosts to talk to at the same time.", kind=kinds.WHOLE, least=1, default=64),
    Key(
        name="lost_after",
        meaning="Seconds after which a host that can't be reached counts as lost.",
        kind=kinds.NUMBER,
        least=0,
        default=300,
    ),
    Key(
        name="keep_days",
        meaning="Days for which `umiak hosts clean` keeps ended runs.",
        kind=kinds.NUMBER,
        least=0,
        default=30,
    ),
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
    said = sections.read(KEYS, section, f"place {place}", findings, UNKNOWN)
    words = said.get("hosts") or ()
    hosts, missing = expanded(words, config_text)
    for word in missing:
        findings.problem(
            "UM-SUBMIT-100",
            said.place("hosts"),
            f"place {place}: no host of the ssh config has this pattern: {word}",
            hint="write hosts by their names, or add `Host` entries to your ssh config",
        )
    labels = [each.label for each in hosts]
    if twice := sorted({each for each in labels if labels.count(each) > 1}):
        findings.problem("UM-SUBMIT-100", said.place("hosts"), f"place {place}: listed twice: {', '.join(twice)}")
    addresses = said.names("addresses")
    if addresses and len(addresses) != len(hosts):
        what = f"place {place}: {len(addresses)} addresses for {len(hosts)} hosts"
        findings.problem(
            "UM-SUBMIT-100", said.place("addresses"), what, hint="write one address for each host, or none"
        )
        addresses = ()
    made = [
        SshHost(
            label=each.label,
            host=each.host,
            user=each.user or str(said.get("user") or ""),
            port=each.port,
            address=addresses[index] if addresses else each.address,
        )
        for index, each in enumerate(hosts)
    ]
    return SshSettings(
        hosts=tuple(made),
        user=said.text("user") or "",
        key=said.text("key") or "",
        passphrase_from=said.text("passphrase_from") or "",
        password_from=said.text("password_from") or "",
        known_hosts=said.text("known_hosts") or "",
        config=config,
        directory=said.text("directory") or DIRECTORY,
        trusted_directories=said.names("trusted_directories"),
        python=said.text("python") or "python3",
        connect_timeout_s=float(said.get("connect_timeout")),
        parallel=int(said.get("parallel")),
        lost_after_s=float(said.get("lost_after")),
        keep_days=float(said.get("keep_days")),
    )


def expanded(words: Sequence[str], config_text: str) -> tuple[list[SshHost], list[str]]:
    """The hosts of a list, patterns replaced by the names of the ssh config that they match; and patterns without any."""
    entries = config_entries(config_text)
    named = [name for names, _ in entries for name in names if not any(letter in name for letter in "*?!")]
    found, missing = [], []
    for word in words:
        user, host, port = split(word)
        if any(letter in host for letter in "*?"):
            names = [name for name in dict.fromkeys(named) if fnmatch.fnmatchcase(name, host)]
            missing += [] if names else [word]
        else:
            names = [host]
        for name in names:
            label = name if port is None else f"{name}:{port}"
            found.append(SshHost(label=label, host=name, user=user, port=port, address=_address(name, entries)))
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
    said = config_of(host.host, text)
    address, port = said.get("hostname", host.host).replace("%h", host.host), said.get("port", "22")
    if any(word in said for word in OTHER_WAYS) or "%" in address or not is_digits(port):
        return None
    return address, host.port or int(port)


def config_of(name: str, text: str) -> dict[str, str]:
    """All that an ssh config says about a host: of each keyword the first."""
    return _said_of(name, config_entries(text))


def _said_of(name: str, entries: Iterable[tuple[list[str], dict[str, str]]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for patterns, said in entries:
        if _matches(name, patterns):
            found = {**said, **found}
    return found


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
