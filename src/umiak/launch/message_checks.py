"""What another launcher said, decoded and checked: every number in its range, every text harmless. A pure decider.

    from_node({"is": "Ready", "generation": 2})      -> Ready(generation=2)
    from_node({"is": "Ready", "generation": -2})     Malformed: Ready.generation: -2, expected 0 to 2147483647

`core.decode` checks types. Here stands what a type can't say: a rank is not negative, a port is one, a duration is
finite, a host is only what a host may be. It is asked for every message, in both directions, right after decoding, so
that behind it everything is valid. Texts for people are made harmless instead of being refused: a worker's last lines
may hold anything.

A field is checked by its name. One whose name has no rule of its own is checked by its type, strictly:
a number from 0 up, a text of one printable line.
"""

from __future__ import annotations

from enum import Enum
from operator import attrgetter

from umiak.core.cluster import MOST_NODES, MOST_WORKERS_ON_NODE, Cluster, Node
from umiak.core.decode import Malformed, decode_tagged, short
from umiak.core.names import LAST_PORT, are_hosts, are_names, is_digits, is_host, is_name
from umiak.core.shown import inert, one_line
from umiak.core.value import fields, is_value, replace
from umiak.launch.protocol import FROM_MASTER, FROM_NODE, Form, Join, Offer, Stopped, Terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from umiak.core.json_types import JsonObject
    from umiak.launch.protocol import FromMaster, FromNode

    T = TypeVar("T")
    Rule = Callable[[Any, str], object]

MOST = 2**31 - 1
LONGEST_S = 1e9
"""Thirty years: longer than any time-out means anything."""
LONGEST_LINE = 16_384
LONGEST_OUTPUT = 1 << 20
LAST_SIGNAL = 64


def from_node(content: object, *, master: str = "", joined: Offer | None = None) -> FromNode:
    """A message of a node. Malformed if it is not one, or out of range.

    ``master`` is the master's own name, which no other node has;
    ``joined`` is what this one offered, once it has joined.
    """
    message: FromNode = checked(decode_tagged(FROM_NODE, content))  # type: ignore[assignment]
    if isinstance(message, Join) and message.offer.name == master:
        raise Malformed(f"Join.offer.name: {master}, which is the master's")
    if isinstance(message, Join) and joined and message.offer.name != joined.name:
        raise Malformed(f"Join.offer.name: {message.offer.name}, but the node joined as {joined.name}")
    if isinstance(message, Stopped) and joined and len(message.ports) not in (0, len(joined.ports)):
        raise Malformed(f"Stopped.ports: {len(message.ports)}, but the node joined with {len(joined.ports)}")
    return message


def from_master(content: object, *, own: Offer) -> FromMaster:
    """A message of the master to the node that offers this. Malformed if it is not one, or out of range."""
    message: FromMaster = checked(decode_tagged(FROM_MASTER, content))  # type: ignore[assignment]
    if isinstance(message, Form):
        given = next((node for node in message.cluster.nodes if node.name == own.name), None)
        if given is None:
            raise Malformed(f"Form.cluster: this node ({own.name}) is not in it")
        for name in ("trainers", "servers", "heters", "first_local_rank", "local_size"):
            if getattr(given, name) != getattr(own, name):
                raise Malformed(
                    f"Form.cluster: {name} of this node is {getattr(given, name)}, not {getattr(own, name)}"
                )
    return message


def harmless(item: T) -> T:
    """The same value with every text in it as one line that steers no terminal; for what is only shown."""
    safe: object = item
    if isinstance(item, str) and not isinstance(item, Enum):
        safe = one_line(item)
    elif isinstance(item, tuple):
        safe = tuple([harmless(each) for each in item])
    elif isinstance(item, dict):
        safe = {harmless(key): harmless(each) for key, each in item.items()}
    elif is_value(item):
        safe = type(item)(**{name: harmless(getattr(item, name)) for name in fields(item)})
    return safe  # type: ignore[return-value]


def checked(message: T) -> T:
    """The same message with harmless texts. Malformed if any of its fields is out of range."""
    if isinstance(message, Cluster):
        _check_cluster(message)
        return message
    changes: JsonObject = {}
    for name in fields(message):
        item = getattr(message, name)
        clean = _checked_field(item, name, f"{type(message).__name__}.{name}")
        if clean is not item:
            changes[name] = clean
    if isinstance(message, Offer):
        _check_sizes(*_sizes(message), "Offer")
    elif isinstance(message, Terms):
        _check_terms(message)
    return replace(message, **changes) if changes else message


def _checked_field(item: object, name: str, where: str) -> object:
    if item is None or isinstance(item, (bool, Enum)):
        return item
    if is_value(item):
        return checked(item)
    if isinstance(item, tuple):
        return _checked_items(item, name, where)
    if isinstance(item, dict):
        return {_text(key, where): _checked_field(each, "", where) for key, each in item.items()}
    rule = RULES.get(name) or _RULES_BY_TYPE[type(item)]
    return rule(item, where)


def _checked_items(items: tuple[object, ...], name: str, where: str) -> tuple[object, ...]:
    if name == "ports":
        for port in items:
            _number(1, LAST_PORT)(port, where)
        return items
    return tuple([_checked_field(each, name, where) for each in items])


# ---- values as a whole


def _sizes(offer: Offer | Node) -> tuple[int, int]:
    return offer.trainers + offer.servers + offer.heters, len(offer.ports)


def _check_sizes(workers: int, ports: int, where: str) -> None:
    if not 0 < workers <= MOST_WORKERS_ON_NODE:
        raise Malformed(f"{where}: {workers} workers, 1 to {MOST_WORKERS_ON_NODE} are taken")
    if not workers < ports <= MOST_WORKERS_ON_NODE + 2:
        raise Malformed(f"{where}.ports: {ports} for {workers} workers and a store")


def _check_terms(terms: Terms) -> None:
    if not 0 < terms.least <= terms.most <= MOST_NODES:
        raise Malformed(f"Terms: {terms.least} to {terms.most} nodes")
    if not -1 <= terms.elastic_level <= 1:
        raise Malformed(f"Terms.elastic_level: {short(terms.elastic_level)}")


def _check_cluster(cluster: Cluster) -> None:
    for name in fields(cluster):
        if name != "nodes":
            _checked_field(getattr(cluster, name), name, f"Cluster.{name}")
    _number(1, MOST)(cluster.generation, "Cluster.generation")
    names = {*cluster.names}
    if len(names) != len(cluster.nodes) or cluster.coordinator not in names:
        raise Malformed("Cluster: a name stands in it twice, or the master's is not in it")
    # By columns, because all launchers of a large job do this at once; of numbers the smallest and the largest will do.
    # Their ports are ports already: decoding a cluster sees to that.
    for name in fields(Node):
        column = [*map(attrgetter(name), cluster.nodes)]
        if name in ("name", "host"):
            suspects = [] if (are_names if name == "name" else are_hosts)(column) else column
        elif name == "ports":
            continue
        else:
            suspects = [min(column), max(column)]
        for item in suspects:
            _checked_field(item, name, f"Node.{name}")
    for workers, ports in {*map(_sizes, cluster.nodes)}:
        _check_sizes(workers, ports, "Node")


# ---- one field


def _number(least: int, most: int) -> Rule:
    def check(number: object, where: str) -> object:
        if type(number) is not int or not least <= number <= most:
            raise Malformed(f"{where}: {short(number)}, expected {least} to {most}")
        return number

    return check


def _seconds(number: float, where: str) -> float:
    # Written so that a number that is none (NaN) is refused as well.
    if not 0 <= number <= LONGEST_S:
        raise Malformed(f"{where}: {short(number)}, expected seconds from 0 to {LONGEST_S:g}")
    return number


def _moment(number: float, where: str) -> float:
    if not 0 <= number <= 1e12:
        raise Malformed(f"{where}: {short(number)}, expected a time")
    return number


def _host(text: str, where: str) -> str:
    if not is_host(text):
        raise Malformed(f"{where}: not a host: {short(text)}")
    return text


def _name(text: str, where: str) -> str:
    if not is_name(text):
        raise Malformed(f"{where}: not a name: {short(text)}")
    return text


def _key(text: str, where: str) -> str:
    """A worker's name on its node, ``trainer.0``; empty where no worker is meant."""
    role, _, number = text.partition(".")
    if text and not (role in ("server", "trainer", "heter") and is_digits(number) and len(number) < 10):
        raise Malformed(f"{where}: not a worker: {short(text)}")
    return text


def _text(text: str, where: str) -> str:
    """A text that is compared or stored, not only shown: it must be harmless as it is."""
    if len(text) > 255 or not text.isprintable():
        raise Malformed(f"{where}: not a printable text: {short(text)}")
    return text


def _line(text: str, _where: str) -> str:
    """A line for people."""
    return one_line(text, LONGEST_LINE)


def _output(text: str, where: str) -> str:
    """The end of a worker's output."""
    if len(text) > LONGEST_OUTPUT:
        raise Malformed(f"{where}: a text of {len(text)} characters")
    return inert(text)


_count = _number(0, MOST)

RULES: dict[str, Rule] = {
    "name": _name,
    "node": _name,
    "coordinator": _name,
    "basis": _name,
    "host": _host,
    "port": _number(1, LAST_PORT),
    "link_port": _number(0, LAST_PORT),
    "rank": _count,
    "home": _number(0, MOST),
    "trainers": _number(0, MOST_WORKERS_ON_NODE),
    "servers": _number(0, MOST_WORKERS_ON_NODE),
    "heters": _number(0, MOST_WORKERS_ON_NODE),
    "first_local_rank": _number(0, MOST_WORKERS_ON_NODE),
    "local_size": _number(0, MOST_WORKERS_ON_NODE),
    "elastic_level": _number(-1, 1),
    "exit_status": _number(0, 255),
    "exit_code": _number(0, 255),
    "signal": _number(1, LAST_SIGNAL),
    "at": _moment,
    "key": _key,
    "text": _line,
    "why": _line,
    "words": _line,
    "hint": _line,
    "what": _line,
    "log_path": _line,
    "log_end": _output,
    "traceback": _output,
}
_RULES_BY_TYPE: dict[type, Rule] = {int: _count, float: _seconds, str: _text}
