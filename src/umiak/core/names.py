"""What may be a host, a port or a node's name: the plain characters that all of them consist of. A decider.

    is_host("10.0.0.1")  is_host("fe80::1%eth0")  is_host("worker-0.job.svc")      True
    is_host("a; touch x #")  is_host("")  is_host("-h")                           False

A host that another node names ends up in a worker's environment, in a command that a person copies and on consoles, so it
may hold nothing that a shell or a terminal takes for more than a word.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

LONGEST_HOST = 253
LONGEST_NAME = 64
LAST_PORT = 65535


_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_NAME = _WORD | frozenset("-._")
_HOST = _NAME | frozenset(":%")


def is_host(text: str) -> bool:
    """Whether this can be a host name or an address, of IPv6 also with a zone."""
    return are_hosts((text,))


def is_name(text: str) -> bool:
    """Whether this can be the name of a node."""
    return are_names((text,))


def are_names(texts: Collection[str]) -> bool:
    """Whether each can be the name of a node: asked of a thousand at once."""
    return _are(texts, _NAME, LONGEST_NAME, "-.")


def are_hosts(texts: Collection[str]) -> bool:
    """Whether each can be a host name or an address."""
    return _are({*texts}, _HOST, LONGEST_HOST, "-.%")


def _are(texts: Collection[str], letters: frozenset[str], longest: int, never_first: str) -> bool:
    lengths = {*map(len, texts)}
    fit = 0 not in lengths and max(lengths, default=1) <= longest and letters.issuperset("".join(texts))
    return fit and not any(text[0] in never_first for text in texts)


def is_port(number: int) -> bool:
    """Whether somebody can listen there."""
    return 0 < number <= LAST_PORT


def is_digits(text: str) -> bool:
    """Whether this is a number in the digits 0 to 9. ``str.isdecimal`` takes those of every script."""
    return text.isascii() and text.isdecimal()
