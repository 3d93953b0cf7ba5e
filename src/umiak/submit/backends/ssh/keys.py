"""What keeps this machine from reaching hosts over ssh: a package, a private key. An adapter: it looks at key files.

Keys of OpenSSH with a passphrase are opened with the package bcrypt, which comes with the extra `ssh`.
The ssh agent needs neither it nor the passphrase.
"""

from __future__ import annotations

import base64
import os

from umiak.core.problem import Problem
from umiak.core.shown import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.submit.backends.ssh.settings import SshAccess, SshSettings

USUAL = ("id_ed25519_sk", "id_ecdsa_sk", "id_ed448", "id_ed25519", "id_ecdsa", "id_rsa", "id_dsa")
"""Names of the keys in ~/.ssh that are tried where none is named."""
MOST_BYTES = 1 << 16
MAGIC = b"openssh-key-v1\0"


def unusable(settings: SshSettings, why: str) -> Problem:
    """A key that was named, in the place or in an ssh config. ``why``: what asyncssh says."""
    name = settings.access.key or "of your ssh config"
    agent = _agent(settings.access.key or "KEY")
    if "bcrypt" in why:
        why = f"the key {name} has a passphrase, and OpenSSH's format of such keys needs it"
        return _no_package("bcrypt", why, f"; or {agent}, which needs no bcrypt")
    if not settings.access.passphrase_from and "assphrase" in why:
        return locked(name)
    hint = f"is the passphrase in {settings.access.passphrase_from} the one of this key? or {agent}"
    return Problem(
        code="UM-SUBMIT-115",
        what=f"the key can't be used: {name}",
        why=one_line(why, 200),
        hint=hint if settings.access.passphrase_from else f"is it a private key that you can read? or {agent}",
    )


def locked(name: str) -> Problem:
    """A key whose passphrase is not known here."""
    return Problem(
        code="UM-SUBMIT-115",
        what=f"the key has a passphrase, and nobody said it: {name}",
        hint=f'{_agent(name)}; or name the variable that holds it: `passphrase_from = "LAB_PASSPHRASE"` of the place',
    )


def locked_key(settings: SshSettings, identity_file: str) -> str:
    """The key that was named, in the place or as the ``IdentityFile`` of an ssh config, if asyncssh has passed it over:
    it does so, without a word, with one whose passphrase it does not have. Empty: there is none.
    """
    path = os.path.expanduser(settings.access.key or identity_file.strip('"'))
    return path if path and not settings.access.passphrase_from and has_passphrase(path) else ""


def passed_over(settings: SshSettings, environ: Mapping[str, str]) -> list[str]:
    """Keys in ~/.ssh that were not tried, because they have a passphrase that nobody said: in words."""
    if settings.access.key or settings.access.passphrase_from:
        return []
    home = environ.get("HOME") or os.path.expanduser("~")
    names = [f"~/.ssh/{name}" for name in USUAL if has_passphrase(f"{home}/.ssh/{name}")]
    return [f"not tried, since it has a passphrase: {', '.join(names)}"] if names else []


def _agent(name: str) -> str:
    return f"load it into the ssh agent: `ssh-add {name}`"


def has_passphrase(path: str) -> bool:
    """Whether a file is a private key that is encrypted."""
    try:
        with open(path, "rb") as file:
            text = file.read(MOST_BYTES)
    except OSError:
        return False
    if b"ENCRYPTED" in text.partition(b"\n\n")[0]:
        return True
    head, _, rest = text.partition(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    if head.strip() or not rest:
        return False
    try:
        data = base64.b64decode(b"".join(rest.partition(b"-----END")[0].split()))
    except ValueError:
        return False
    length = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 4], "big")
    cipher = data[len(MAGIC) + 4 : len(MAGIC) + 4 + length]
    return data.startswith(MAGIC) and cipher not in (b"", b"none")


def missing_package() -> list[Problem]:
    """Nothing, if asyncssh can be imported."""
    from importlib.util import find_spec

    try:
        is_there = find_spec("asyncssh") is not None
    except (ImportError, ValueError):
        is_there = False
    return [] if is_there else [no_asyncssh()]


def no_asyncssh() -> Problem:
    """What is told where it can't be imported."""
    return _no_package("asyncssh", "machines that are reached over ssh need it")


def _no_package(name: str, why: str, instead: str = "") -> Problem:
    from umiak.adapters import installation

    hint = f"install the extra `ssh`: {installation.command('ssh')}{instead}"
    return Problem(code="UM-SUBMIT-111", what=f"a package is missing: {name}", why=why, hint=hint)


def unset_variables(access: SshAccess, environ: Mapping[str, str], where: str = "") -> list[Problem]:
    """Of passwords and passphrases."""
    named = {"password_from": access.password_from, "passphrase_from": access.passphrase_from}
    what = "names a variable that is not set"
    return [
        Problem(code="UM-SUBMIT-114", what=f"{where}{key} {what}: {name}", hint=f"export {name}")
        for key, name in named.items()
        if name and not environ.get(name)
    ]
