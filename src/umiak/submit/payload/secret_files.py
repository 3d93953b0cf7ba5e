"""Which files look like secrets: private keys, passwords, tokens. A decider.

    why("certs/ca.pem", b"-----BEGIN CERTIFICATE-----")         ""
    why("certs/server.pem", b"-----BEGIN PRIVATE KEY-----")     "a private key"

A name alone decides where such a file is nothing but a secret (``.netrc``, ``id_rsa``). Where it mostly is something
else (``*.pem``, ``.npmrc``, ``*.json``), the first bytes decide as well, so that a public certificate is no false
alarm. An empty file hides nothing.
"""

from __future__ import annotations

import re

from umiak.core.problem import Problem
from umiak.core.shown import one_line
from umiak.submit.payload import ignore_rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.submit.payload.ignore_rules import IgnoreRule

HEAD_BYTES = 1 << 16
"""So much of a file is looked at."""
NAMED = 100
"""How many files the message names."""
HINT = (
    "leave them out with .umiakignore, .gitignore or `exclude:`, and name variables in `secrets:`; if the job needs them, "
    "name them in `include:`, or say --allow_secret_files"
)

_NAMES: tuple[tuple[str, str], ...] = (
    (".env", "variables with passwords and keys, mostly"),
    (".env.*", "variables with passwords and keys, mostly"),
    (".envrc", "variables with passwords and keys, mostly"),
    ("id_rsa id_dsa id_ecdsa id_ecdsa_sk id_ed25519 id_ed25519_sk", "a private key of ssh"),
    ("*.ppk", "a private key of PuTTY"),
    ("*.p12 *.pfx *.jks *.keystore", "a store of private keys"),
    ("*.keytab", "keys of Kerberos"),
    ("*.kdbx", "a store of passwords"),
    (".netrc _netrc .pgpass .git-credentials .htpasswd .passwd-s3fs", "passwords"),
    (".vault-token .s3cfg .boto", "keys of a service"),
    (".aws/credentials", "keys of AWS"),
    (".config/gcloud/credentials.db .config/gcloud/access_tokens.db", "keys of Google's cloud"),
    ("application_default_credentials.json", "keys of Google's cloud"),
    ("client_secret*.json", "keys of Google's cloud"),
    ("kaggle.json", "a key of Kaggle"),
    (".cache/huggingface/token .huggingface/token", "a token of Hugging Face"),
)
"""Patterns as of a .gitignore, and what such files hold."""
_HARMLESS = ignore_rules.globs((".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults"))

_BEGINS = re.compile(rb"\s*-----BEGIN [A-Z0-9 ]*PRIVATE KEY")
_PRIVATE = re.compile(rb"PRIVATE KEY( BLOCK)?-----")
_PUBLIC = re.compile(rb"-----BEGIN (?:[A-Z0-9 ]*PUBLIC KEY|[A-Z0-9 ]*CERTIFICATE|X509 CRL|DH PARAMETERS|EC PARAMETERS)")
_CONTENTS: tuple[tuple[str, re.Pattern[bytes], str], ...] = (
    ("*.pem *.crt *.cer *.cert", _PRIVATE, "a private key"),
    ("*.json", re.compile(rb'"private_key"\s*:\s*"-----BEGIN'), "keys of a service account"),
    (
        "credentials credentials.json credentials.y*ml credentials.toml credentials.ini credentials.csv",
        re.compile(rb"(?i)(secret|password|token|access.?key|private.?key|refresh)"),
        "credentials",
    ),
    (".npmrc .yarnrc .yarnrc.yml", re.compile(rb"(?i)_auth|_password|npmAuthToken"), "a token of a registry"),
    (".pypirc pip.conf", re.compile(rb"(?im)^\s*password\s*[:=]|://[^\s/:@]+:[^\s/@]+@"), "a password of a registry"),
    (".my.cnf", re.compile(rb"(?im)^\s*password"), "a password"),
    (
        ".docker/config.json .dockercfg .dockerconfigjson",
        re.compile(rb'"(auth|identitytoken|password)"'),
        "a login of a registry",
    ),
    (
        ".kube/config kubeconfig kubeconfig.* *.kubeconfig",
        re.compile(rb"client-key-data|token:|password:|client-key:"),
        "access to a Kubernetes cluster",
    ),
)
"""Patterns of names, what must be in such a file, and what it then is."""


def why(path: str, head: bytes | None) -> str:
    """What a file seems to hold that nobody should send; empty: nothing of that kind.
    ``head``: its first `HEAD_BYTES`; None: it is a link, of which the name alone counts.
    """
    if head == b"":
        return ""
    if head is not None and _BEGINS.match(head):
        return "a private key"
    lower = path.lower()
    if not _MAYBE.fullmatch(lower.rpartition("/")[2]):
        return ""
    for rules, meaning in _BY_NAME:
        if _fits(rules, lower):
            return "" if _fits(_HARMLESS, lower) else meaning
    if head is None:
        return ""
    if _fits(_KEY, lower) and not _PUBLIC.search(head):
        # What is in a file of this name is a key in one form or another, unless it says that it is public.
        return "a private key"
    for rules, content, meaning in _BY_CONTENT:
        if _fits(rules, lower) and content.search(head):
            return meaning
    return ""


def is_named_by(patterns: Sequence[str], path: str) -> bool:
    """Whether one of these patterns names this very file, as ``.env`` and ``certs/*.pem`` do,
    and ``*``, ``config/`` and ``src/**`` don't: they take whatever is there.
    """
    telling = [each for each in patterns if not each.startswith("!") and each.rpartition("/")[2].strip("*?. ")]
    return ignore_rules.is_ignored(ignore_rules.globs(telling), path, is_directory=False)


def problem(found: Mapping[str, str], hint: str = HINT) -> Problem:
    """What is said about all of them. ``found``: what each seems to hold, by its path."""
    named = [f"{one_line(path)} ({meaning})" for path, meaning in [*found.items()][:NAMED]]
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    files = "a file that looks like a secret" if len(found) == 1 else f"{len(found)} files that look like secrets"
    return Problem(
        code="UM-SUBMIT-057",
        what=f"{files} would be sent to the nodes: {', '.join(named)}{more}",
        why="files are copied to every node, and others may read them there",
        hint=hint,
    )


def _fits(rules: Sequence[IgnoreRule], path: str) -> bool:
    """Patterns with a slash, such as ``.aws/credentials``, fit at any depth."""
    parts = path.split("/")
    return any(
        ignore_rules.is_ignored(rules, "/".join(parts[count:]), is_directory=False)
        for count in range(max(0, len(parts) - 3), len(parts))
    )


_BY_NAME = [(ignore_rules.globs(patterns.split()), meaning) for patterns, meaning in _NAMES]
_BY_CONTENT = [(ignore_rules.globs(patterns.split()), content, meaning) for patterns, content, meaning in _CONTENTS]
_KEY = ignore_rules.globs(("*.key",))
_PATTERNS = " ".join(
    ["*.key", *(patterns for patterns, _ in _NAMES), *(patterns for patterns, _, _ in _CONTENTS)]
).split()
_LAST_PARTS = {pattern.rpartition("/")[2] for pattern in _PATTERNS}
_MAYBE = re.compile("|".join(sorted(re.escape(each).replace(r"\*", ".*") for each in _LAST_PARTS)))
"""Fits the last part of every path that a pattern fits: of thousands of files, few are looked at more closely."""
