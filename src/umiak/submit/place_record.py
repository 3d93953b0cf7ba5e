"""A place as a run's record keeps it: its settings as they were when the job was submitted, without secrets. A decider.

    kept = plain_of(place, pinned={"context": "prod"})
    place_of(kept)               the same place again, from any directory
    with_secrets(place, today)   what was left out, as today's file of the same project says it

A setting that names where a secret is (`password_from`, `$PADDLECLOUD_SK`) is kept; one that holds it is not.
"""

from __future__ import annotations

from umiak.core.shown import without_password
from umiak.core.value import replace
from umiak.schema.findings import Place
from umiak.schema.yaml_tree import Entry, Listing, Scalar, Section
from umiak.submit.places import NamedPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.schema.yaml_tree import Node

SECRET_KEYS = frozenset(
    ("ak", "sk", "fs_ugi", "password", "passphrase", "secret", "secret_key", "access_key", "api_key", "token")
)
"""Settings whose text is a secret, or the name of a variable behind a dollar sign."""
_MAPPING, _LIST = "keys", "items"


def plain_of(place: NamedPlace, pinned: Mapping[str, str]) -> JsonObject:
    """For JSON. ``pinned``: settings that followed from the environment or from other files, as they are now."""
    settings = place.settings
    for name, text in pinned.items():
        if text:
            settings = settings.put(Entry(key=name, place=settings.place, node=_scalar(settings.place, text)))
    return {
        "name": place.name,
        "backend": place.backend,
        "source": settings.place.source,
        "line": settings.place.line,
        "settings": _plain(settings),
        "hidden": [each.key for each in settings.entries if _is_secret(each)],
    }


def place_of(data: JsonMapping) -> NamedPlace:
    """KeyError, ValueError or TypeError if `plain_of` has not made it."""
    at = Place(source=str(data["source"]), line=int(data["line"]), column=1 if data["line"] else 0)
    settings = _node(data["settings"], at)
    if not isinstance(settings, Section):
        raise TypeError("the settings of a place are a mapping")
    return NamedPlace(name=str(data["name"]), backend=str(data["backend"]), settings=settings)


def with_secrets(place: NamedPlace, hidden: list[str], today: NamedPlace | None) -> NamedPlace:
    """The place with the settings that were not kept, if there is one of the same name and backend that has them."""
    if today is None or today.backend != place.backend:
        return place
    settings = place.settings
    for entry in today.settings.entries:
        if entry.key in hidden:
            settings = settings.put(entry)
    return replace(place, settings=settings)


def _is_secret(entry: Entry) -> bool:
    node = entry.node
    if not isinstance(node, Scalar):
        return False
    if entry.key.replace("-", "_").lower() in SECRET_KEYS:
        return not node.text.startswith("$")
    return "://" in node.text and without_password(node.text) != node.text


def _plain(node: Node) -> Any:
    if isinstance(node, Section):
        rows = [[each.key, each.place.line, _plain(each.node)] for each in node.entries if not _is_secret(each)]
        return {_MAPPING: rows}
    if isinstance(node, Listing):
        return {_LIST: [_plain(each) for each in node.items]}
    return [node.data, node.text]


def _node(data: Any, at: Place) -> Node:
    if isinstance(data, list):
        said, text = data
        return Scalar(place=at, data=said, text=str(text))
    if _LIST in data:
        return Listing(place=at, items=tuple([_node(each, at) for each in data[_LIST]]))
    entries = []
    for key, line, each in data[_MAPPING]:
        own = Place(source=at.source, line=int(line), column=1 if line else 0)
        entries.append(Entry(key=str(key), place=own, node=_node(each, own)))
    return Section(place=at, entries=tuple(entries))


def _scalar(at: Place, text: str) -> Scalar:
    return Scalar(place=at, data=text, text=text)
