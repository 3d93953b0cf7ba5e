"""Reads what people write for where nodes are: ``10.0.0.1:80``, ``etcd://a:2379,b:2379``. A decider.

Every function takes the text of one flag and gives a value, or raises ValueError with a phrase that says what is wrong
with it, to which the caller adds the flag: ``no port: --master 10.0.0.1``.
"""

from __future__ import annotations

from umiak.core.cluster import join_host_port, split_host_port
from umiak.core.names import DefaultPort, is_digits, is_host, is_loopback

ETCD = "etcd://"


def master(text: str) -> str:
    """``host:port`` or ``etcd://host:port[,host:port]``, in one spelling. Paddle's ``http://`` prefix is dropped."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return endpoint(text)
    if scheme == "http":
        return endpoint(rest.rstrip("/"))
    if scheme != "etcd":
        raise ValueError(f"neither a host and port nor an etcd address, but {scheme}")
    return ETCD + ",".join(endpoint(one, default_port=DefaultPort.ETCD) for one in split(rest.rstrip("/"), ","))


def endpoint(text: str, *, default_port: int | None = None) -> str:
    """``host:port``, with IPv6 in brackets."""
    host, port = _host_and_port(text)
    if port is None:
        port = default_port
    if port is None:
        raise ValueError("no port, and IPv6 needs [ ] before one" if ":" in host else "no port")
    return join_host_port(host, port)


def endpoints(text: str) -> tuple[str, ...]:
    """A list of ``host:port``; each may stand in it once."""
    endpoints = tuple(endpoint(one) for one in split(text, ","))
    _refuse_repetition(endpoints)
    return endpoints


def hosts(text: str) -> tuple[str, ...]:
    """A list of hosts. ModelArts hands out ``host:port`` here; the port is another program's and is dropped."""
    hosts = tuple(host(one) for one in split(text, ","))
    _refuse_repetition(hosts)
    near = [one for one in hosts if is_loopback(one)]
    if near and len(near) < len(hosts):
        raise ValueError(f"{near[0]} is this node for every node, and stands beside addresses of others")
    return hosts


def host(text: str) -> str:
    """A host name or address; a port is dropped."""
    return _host_and_port(text)[0]


def host_of(endpoint: str) -> str:
    """The host of an endpoint that was read before."""
    return split_host_port(endpoint)[0]


def devices(text: str) -> tuple[str, ...]:
    """Device numbers, or names that begin with a letter (``GPU-8932f937``)."""
    devices = split(text, ",")
    if not all(is_digits(one) or (one.isascii() and one[0].isalpha()) for one in devices):
        raise ValueError("not a list of device numbers")
    return devices


def split(text: str, separator: str) -> tuple[str, ...]:
    """The items of a list; none of them may be empty, but a separator at the end is forgiven."""
    items = tuple(item.strip() for item in text.strip().rstrip(separator).split(separator))
    if not all(items):
        raise ValueError(f"nothing between two {separator!r}")
    return items


def _host_and_port(text: str) -> tuple[str, int | None]:
    if "@" in text:
        raise ValueError("a user name or password has no place in it")
    found, port = split_host_port(text.strip())
    if not is_host(found):
        raise ValueError(f"not a host: {found}")
    return found, port


def _refuse_repetition(items: tuple[str, ...]) -> None:
    for item in items:
        if items.count(item) > 1:
            raise ValueError(f"{item} stands in it twice")
