"""What every place in a cloud can say about itself, and how it is read. A decider.

said = settings.read(TABLE, place)       everything that is wrong with the place's table, at once
settings.common(said)                    CloudSettings
"""

from __future__ import annotations

import re

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.schema import kinds, sections
from umiak.schema.findings import Findings
from umiak.schema.keys import BadValue, Key, Kind
from umiak.schema.sections import UnknownKeys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.sections import Said
    from umiak.schema.yaml_tree import Node
    from umiak.submit.places import NamedPlace

_STORE = re.compile(r"(?:obs|bos|oss)://[a-z0-9][a-z0-9.-]{1,62}(?:/[A-Za-z0-9._/-]*)?\Z")
_ADDRESS = re.compile(r"https?://[^\s/@]+\Z")


def _store(_: Key, node: Node) -> str:
    text = kinds.word_of(node).strip()
    if not _STORE.match(text) or "/../" in f"{text}/":
        raise BadValue(f"not a place in an object store: {text}", hint="write it as obs://bucket/folder")
    return text.rstrip("/")


def _address(_: Key, node: Node) -> str:
    text = kinds.word_of(node).strip().rstrip("/")
    if not _ADDRESS.match(text):
        raise BadValue(f"not an address: {text}", hint="write it as https://host, without a path")
    return text


STORE = Kind(phrase="a place in an object store, as in obs://bucket/folder", read=_store)
ADDRESS = Kind(phrase="an address, as in https://host", read=_address)


def table(*own: Key, store: str, directory: str) -> tuple[Key, ...]:
    """The keys of a cloud: its own, and those that all clouds have."""
    return (
        Key(name="region", meaning="Region of the cloud.", kind=kinds.TEXT, required=True),
        Key(name="endpoint", meaning="Address of the cloud's API.", kind=ADDRESS, default_said="the one of the region"),
        Key(
            name="store",
            meaning=f"Where launcher, files and plans are uploaded: `{store}`. Nobody else should read it.",
            kind=STORE,
            required=True,
        ),
        Key(
            name="store_endpoint",
            meaning="Address of the object store.",
            kind=ADDRESS,
            default_said="the one of the region",
        ),
        Key(name="image", meaning="Container image of jobs that name none.", kind=kinds.TEXT),
        Key(
            name="directory",
            meaning="Directory in the container for umiak's files and the job's working directory.",
            kind=kinds.PATH,
            default=directory,
        ),
        Key(name="python", meaning="Python of the container, from 3.10 on.", kind=kinds.TEXT, default="python3"),
        Key(
            name="poll",
            meaning="Seconds between two looks at a job whose logs are followed.",
            kind=kinds.NUMBER,
            least=0,
            default=2,
        ),
        Key(
            name="timeout",
            meaning="Seconds to wait for an answer of the cloud.",
            kind=kinds.NUMBER,
            least=0,
            default=60,
        ),
        *own,
    )


@value
class CloudSettings:
    """What all clouds have in common."""

    place: str
    region: str
    endpoint: str
    """Empty: the one of the region."""
    store: str
    store_endpoint: str
    image: str
    directory: str
    python: str
    poll_s: float
    timeout_s: float

    @property
    def scheme(self) -> str:
        return self.store.partition("://")[0]

    @property
    def bucket(self) -> str:
        return self.store.partition("://")[2].partition("/")[0]

    @property
    def prefix(self) -> str:
        """Of all keys, with a slash at its end; empty: the whole bucket."""
        found = self.store.partition("://")[2].partition("/")[2]
        return f"{found}/" if found else ""


def read(keys: tuple[Key, ...], place: NamedPlace, page: str) -> Said:
    """What a place says. UmiakError with everything that is wrong."""
    findings = Findings()
    unknown = UnknownKeys(page=page, short={})
    said = sections.read(keys, place.settings, f"place {place.name}", findings, unknown)
    if findings.problems:
        raise UmiakError(*findings.problems)
    return said


def common(said: Said, place: str) -> CloudSettings:
    """The part that every cloud has."""

    def text(name: str) -> str:
        return said.text(name) or ""

    return CloudSettings(
        place=place,
        region=text("region"),
        endpoint=text("endpoint"),
        store=text("store"),
        store_endpoint=text("store_endpoint"),
        image=text("image"),
        directory=text("directory").rstrip("/"),
        python=text("python"),
        poll_s=float(said.get("poll")),
        timeout_s=float(said.get("timeout")) or 60.0,
    )
