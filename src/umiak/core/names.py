"""What may be a host, a port or a node's name, which hosts are this machine for everybody,
and which ports are taken by default. A decider.

    is_host("10.0.0.1")  is_host("fe80::1%eth0")  is_host("worker-0.job.svc")      True
    is_host("a; touch x #")  is_host("")  is_host("-h")                           False
    is_loopback("127.0.1.1")  is_loopback("::1")  is_loopback("localhost")        True
    is_loopback("127.example.org")  is_loopback("10.0.0.1")                       False

A host that another node names ends up in a worker's environment, in a command that a person copies and on consoles,
so it may hold nothing that a shell or a terminal takes for more than a word.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

LONGEST_HOST = 253
LONGEST_NAME = 64
LAST_PORT = 65535


class DefaultPort:
    """Ports that are used where neither a person nor a platform names one."""

    START = 6070
    """The first port of workers whose hosts are listed; the launchers meet one below it."""
    GLOO = 6767
    """Where the first server opens the store of Paddle's barrier."""
    MASTER = 6768
    """Where launchers meet on the first host; below the kernel's ephemeral range."""
    STORE = 6769
    """Where the first trainer opens its store if the endpoints of all workers are listed."""
    OLD_FIRST = 6170
    """The first port that Paddle's old launcher gives to workers that are listed without one."""
    ETCD = 2379
    KUBEFLOW = 36543
    """Where the pods of kubeflow.org's PaddleJob meet, at its first one."""


_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_NAME = _WORD | frozenset("-._")
_HOST = _NAME | frozenset(":%")
_MAPPED = "::ffff:"
"""Stands before the IPv4 address of a peer on an IPv6 socket."""


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


def is_loopback(host: str) -> bool:
    """Whether everybody means their own machine by it, so that no other machine can reach it. Nothing is looked up.

    Written by hand, as importing ``ipaddress`` takes milliseconds of every launch.
    """
    if ":" not in host:
        return host.lower() == "localhost" or _is_loopback_ipv4(host)
    if host.startswith(_MAPPED):
        return _is_loopback_ipv4(host[len(_MAPPED) :])
    zeros, _, last = host.rpartition(":")
    return ":" in zeros and not zeros.strip("0:") and last.lstrip("0") == "1"


def _is_loopback_ipv4(host: str) -> bool:
    """127.0.0.0/8, also in short as 127.1. A name such as 127.example.org may be any machine."""
    first, *others = host.split(".")
    return first == "127" and 1 <= len(others) <= 3 and all(_is_octet(part) for part in others)


def _is_octet(text: str) -> bool:
    return is_digits(text) and len(text) <= 3 and int(text) <= 255


def is_port(number: int) -> bool:
    """Whether somebody can listen there."""
    return 0 < number <= LAST_PORT


def is_digits(text: str) -> bool:
    """Whether this is a number in the digits 0 to 9. ``str.isdecimal`` takes those of every script."""
    return text.isascii() and text.isdecimal()
