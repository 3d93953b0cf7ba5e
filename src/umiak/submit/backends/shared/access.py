"""How a place that is no list of ssh hosts reaches machines over ssh: the keys for it, those of places with ``backend = "ssh"``. A decider.

[place.hpc]
backend = "slurm"
submit_host = "me@login1"
key = "~/.ssh/id_cluster"
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.submit.backends.ssh import settings as ssh
from umiak.submit.backends.ssh.settings import SshHost, SshSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.schema.sections import Said

NAMES = ("user", "key", "passphrase_from", "password_from", "known_hosts", "config", "connect_timeout")
KEYS = tuple([each for each in ssh.KEYS if each.name in NAMES])


@value
class SshAccess:
    """What is said about it, with defaults."""

    user: str = ""
    key: str = ""
    passphrase_from: str = ""
    password_from: str = ""
    known_hosts: str = ""
    config: str = ""
    connect_timeout_s: float = 10.0


def read(said: Said) -> SshAccess:
    """From a section that was read with a table that has `KEYS`."""
    texts = {name: said.text(name) or "" for name in NAMES[:-1]}
    return SshAccess(**texts, connect_timeout_s=float(said.get("connect_timeout")))


def settings_of(
    access: SshAccess, words: Iterable[str], directory: str, python: str, config: str, trusted: tuple[str, ...] = ()
) -> SshSettings:
    """For connections to these hosts, written as ``host``, ``user@host`` or ``user@host:22``. ``config``: the path of the ssh config;
    ``trusted``: for `own_directory`."""
    hosts = []
    for word in words:
        user, host, port = ssh.split(word)
        label = host if port is None else f"{host}:{port}"
        hosts.append(SshHost(label=label, host=host, user=user or access.user, port=port))
    return SshSettings(
        hosts=tuple(hosts),
        user=access.user,
        key=access.key,
        passphrase_from=access.passphrase_from,
        password_from=access.password_from,
        known_hosts=access.known_hosts,
        config=config,
        directory=directory,
        trusted_directories=trusted,
        python=python,
        connect_timeout_s=access.connect_timeout_s,
    )
