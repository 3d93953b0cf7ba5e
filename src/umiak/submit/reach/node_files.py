"""The files of a run on a node, as the node says that they are. Values."""

from __future__ import annotations

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@value
class NodeFile:
    """A file of a node, as the node says."""

    path: str
    size_bytes: int
    mtime_ns: int = 0
    mode: int = 0o644
    target: str | None = None
    """Of a link."""


@value
class NodeListing:
    """What a node has of a run."""

    files: tuple[NodeFile, ...]
    left_out: Mapping[str, tuple[str, ...]]
    """By reason (``inputs``, ``unreadable``, ``special``, ``in_place``), the first of them."""
    counts: Mapping[str, int]


@value
class OpenedFile:
    """Before its pieces come: what it is now, and where they begin."""

    size_bytes: int
    mtime_ns: int
    offset: int
