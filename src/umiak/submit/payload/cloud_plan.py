"""What a container of a cloud is told before it knows who it is: `cloud_start` reads it. Values, and a decider."""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.core.decode import Malformed, decode, encode
from umiak.core.value import value


@value
class RolePlan:
    """The nodes of a role, and the plan that they have in common."""

    role: Role
    nodes: int
    plan: str
    """From the directory of the start file."""


@value
class CloudStart:
    """What a container is told. Paths are absolute, or relative to the directory of the start file."""

    roles: tuple[RolePlan, ...]
    secrets: str
    """Where the cloud brought them."""
    private: str
    """Where they are copied to, for this node's user alone."""


def as_text(start: CloudStart) -> str:
    """As JSON, in lines that people can read."""
    import json

    return json.dumps(encode(start), indent=1) + "\n"


def from_text(text: str) -> CloudStart:
    """`Malformed` if it is none."""
    import json

    try:
        return decode(CloudStart, json.loads(text))
    except ValueError as error:
        raise Malformed(str(error)) from None
