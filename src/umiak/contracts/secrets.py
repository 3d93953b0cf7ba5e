"""Environments that may be shown. A decider: guesses which variables hold a secret, and hides those whole.

    redacted({"HF_TOKEN": "hf_abc", "HOME": "/root"})  ->  {"HF_TOKEN": "***", "HOME": "/root"}

It errs on the side of hiding: a name that looks secret is hidden whatever it holds (SSH_AUTH_SOCK), and so is a value
that carries a password in a URL, a private key or a known kind of token under any name.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

HIDDEN = "***"

# A name is split at everything that is no letter or digit. One of its words is one of these ...
_WORDS = frozenset(
    [
        "PASS",
        "PWD",
        "AUTH",
        "AUTHORIZATION",
        "AUTHENTICATION",
        "PRIVATE",
        "ACCESS",
        "SIGNATURE",
        "SIG",
        "SAS",
        "COOKIES",
        "JWT",
        "BEARER",
        "OTP",
        "PAT",
        "SALT",
        "KEYFILE",
        "UGI",
    ]
)
# ... or ends like this (MYAPIKEY, not KEYBOARD; HFTOKEN, not TOKENIZERS) ...
_ENDINGS = ("TOKEN", "TOKENS", "KEY", "KEYS", "AUTH", "COOKIE", "DSN")
# ... or the words, run together, contain this (PASS_PHRASE, secretKeyBase).
_PARTS = ("SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "CREDENTIAL", "APIKEY", "ACCESSKEY", "PRIVATEKEY")

# Working directories, which have a secret's name.
_HARMLESS = frozenset(("PWD", "OLDPWD"))

# What tokens of widely used services begin with.
_TOKEN_STARTS = ("ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "hf_", "sk-", "xoxb-", "xoxp-", "AKIA", "ASIA", "eyJ")
# What a value says, in small letters, when it holds a secret among other things (JSON, headers, query of a URL).
_TELLING = (
    "-----begin",
    "password",
    "passwd",
    "secret",
    "authorization",
    "bearer ",
    "token=",
    'token"',
    "key=",
    "sig=",
    "signature=",
)


def redacted(environ: Mapping[str, str]) -> dict[str, str]:
    """The same names in the same order, with secret values replaced by ``***``."""
    return {name: HIDDEN if _names_secret(name) or _holds_secret(text) else text for name, text in environ.items()}


def _names_secret(name: str) -> bool:
    upper = name.upper()
    if upper in _HARMLESS:
        return False
    words = "".join(each if each.isalnum() else " " for each in upper).split()
    if any(word in _WORDS or word.endswith(_ENDINGS) for word in words):
        return True
    together = "".join(words)
    return any(part in together for part in _PARTS)


def _holds_secret(text: str) -> bool:
    if len(text) >= 16 and text.startswith(_TOKEN_STARTS):
        return True
    lower = text.lower()
    if any(sign in lower for sign in _TELLING):
        return True
    # scheme://user:password@host, scheme://token@host, user:password@host
    return ":" in text.rpartition("@")[0]
