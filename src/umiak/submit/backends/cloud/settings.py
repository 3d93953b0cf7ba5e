"""What every place in a cloud can say about itself, and how it is read. A decider.

@settings
class PaiSettings:
    common: CloudSettings = cloud.common(store="oss://bucket/folder", directory="/mnt/umiak")
    workspace: str = setting(kinds.TEXT, "Workspace id.", required=True)

cloud.read(PaiSettings, place, PAGE)      everything that is wrong with the place's table, at once
"""

from __future__ import annotations

import re

from umiak.core.problem import Problem
from umiak.schema import kinds
from umiak.schema.keys import BadValue, Kind
from umiak.schema.sections import UnknownKeys
from umiak.schema.settings import checked, group, setting, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from umiak.schema.keys import Key
    from umiak.schema.yaml_tree import Node
    from umiak.submit.places import NamedPlace

    T = TypeVar("T")

_STORE = re.compile(r"(?:obs|bos|oss)://[a-z0-9][a-z0-9.-]{1,62}(?:/[A-Za-z0-9._/-]*)?\Z")
_ADDRESS = re.compile(r"https?://[^\s/@]+\Z")


def _store(_: Key, node: Node) -> str:
    text = kinds.word_of(node).strip()
    if not _STORE.match(text) or "/../" in f"{text}/":
        raise BadValue(f"expected an object-store URL such as obs://bucket/folder, got {text}")
    return text.rstrip("/")


def _address(_: Key, node: Node) -> str:
    text = kinds.word_of(node).strip().rstrip("/")
    if not _ADDRESS.match(text):
        raise BadValue(f"expected an address such as https://host without a path, got {text}")
    return text


def _directory(_: Key, node: Node) -> str:
    text = kinds.word_of(node).strip()
    return text.rstrip("/") or text[:1]


DIRECTORY = Kind(phrase="a path", read=_directory)
STORE = Kind(phrase="a place in an object store, as in obs://bucket/folder", read=_store)
ADDRESS = Kind(phrase="an address, as in https://host", read=_address)


@settings
class CloudSettings:
    """What all clouds have in common."""

    place: str
    region: str = setting(kinds.TEXT, "Region of the cloud.", required=True)
    endpoint: str = setting(ADDRESS, "Address of the cloud's API.", default="", default_text="the one of the region")
    store: str = setting(STORE, "Where launcher, files and plans are uploaded.", required=True)
    store_endpoint: str = setting(
        ADDRESS, "Address of the object store.", default="", default_text="the one of the region"
    )
    image: str = setting(kinds.TEXT, "Container image of jobs that name none.", default="")
    directory: str = setting(
        DIRECTORY, "Directory in the container for umiak's files and the job's working directory.", default="/mnt/umiak"
    )
    python: str = setting(kinds.TEXT, "Python of the container, from 3.10 on.", default="python3")
    poll_s: float = setting(
        kinds.NUMBER, "Seconds between two looks at a job whose logs are followed.", least=0, default=2.0
    )
    timeout_s: float = setting(kinds.NUMBER, "Seconds to wait for an answer of the cloud.", least=1, default=60.0)

    @property
    def scheme(self) -> str:
        return self.store.partition("://")[0]

    @property
    def bucket(self) -> str:
        return self.store.partition("://")[2].partition("/")[0]

    @property
    def prefix(self) -> str:
        """Of all keys, with a slash at its end; empty: the whole bucket."""
        prefix = self.store.partition("://")[2].partition("/")[2]
        return f"{prefix}/" if prefix else ""


def common(*, store: str, directory: str) -> CloudSettings:
    """The field of a cloud's settings with what all clouds have:
    an example of its object store, and the default of ``directory``.
    """
    meaning = f"Where launcher, files and plans are uploaded: `{store}`. Nobody else should read it."
    return group(CloudSettings, defaults={"directory": directory}, meanings={"store": meaning})


def wrong_store(common: CloudSettings, cloud: str, scheme: str) -> list[Problem]:
    """A store that is not the cloud's own."""
    if common.scheme == scheme:
        return []
    what = f"{cloud} reads from {scheme.upper()} only: {common.store}"
    hint = f'write `store = "{scheme}://bucket/folder"` in [place.{common.place}]'
    return [Problem(code="UM-SUBMIT-271", what=what, hint=hint)]


def read(cls: type[T], place: NamedPlace, page: str) -> T:
    """The settings of a place, all of whose keys are on a page. UmiakError with everything that is wrong."""
    unknown = UnknownKeys(page=page, short={})
    return checked(cls, place.settings, f"place {place.name}", unknown, place=place.name)
