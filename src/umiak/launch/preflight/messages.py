"""What the workers of a check and its collector say to one another: values only, carried as frames of JSON.

    door -> any caller        Here                       who listens, before anything else is said
    member -> collector       AskTime  Report  Probed
    collector -> member       Time  Probe  Outcome

Nothing here is secret, and nothing here is believed beyond its use in a table: the workers know no token.
"""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.core.value import value

FROM_STRANGER_BYTES = 256 * 1024
"""The largest frame that a collector takes."""
FROM_COLLECTOR_BYTES = 4 * 1024 * 1024
BANNER_BYTES = 1024
MOST_FAILURES = 1000
"""More failed connections of one node than these are only counted."""


@value
class Here:
    """Sent by every listening worker on each connection, so that a wrong machine or program is noticed."""

    node: str
    endpoint: str


@value
class AskTime:
    """What time is it at the collector?"""


@value
class Time:
    """It is so late at the collector."""

    at: float


@value
class Facts:
    """What a node knows of itself; told by its first worker."""

    hostname: str
    own_address: str
    """What the host name means on the node itself; empty: nothing."""
    umiak: str
    python: str
    frameworks: dict[str, str]
    """Versions by name, such as ``paddle``: ``3.3.1``; what is not installed is left out."""
    device_kind: str
    """``gpu``, ``npu``, ...; empty: no devices."""
    device_count: int
    program: str
    """What the job would run; empty: nothing was named whose contents could be compared."""
    program_hash: str
    """Of its contents; empty: it is not there."""
    log_dir: str
    log_writable: bool
    log_free_bytes: int
    shm_bytes: int
    """Free room in /dev/shm; -1: there is none."""
    open_files: int
    """How many a worker may open."""
    token: bool
    """Whether the launcher has a token."""


@value
class Report:
    """One worker listens on its port. Its node's first worker adds the node's facts."""

    node: str
    """The node's name."""
    node_rank: int
    host: str
    role: Role
    rank: int
    doors: tuple[str, ...]
    """Where this worker listens; first at its seat's endpoint."""
    clock_offset_s: float
    """This node's clock minus the collector's."""
    round_trip_s: float
    launcher: str = ""
    """Where the node's launcher listens, if other launchers may need it later."""
    facts: Facts | None = None


@value
class Probe:
    """Connect to every door of the job but your own node's, and to these launchers."""

    own: tuple[str, ...]
    launchers: tuple[str, ...]


@value
class Unreachable:
    """A connection that does not work."""

    endpoint: str
    why: str


@value
class Probed:
    """How the connections went."""

    tried: int
    failed: int
    unreachable: tuple[Unreachable, ...]
    """The failed ones, as far as they fit."""


@value
class Outcome:
    """The verdict, for every node."""

    ready: bool
    summary: str
    """One line."""


TO_COLLECTOR = (AskTime, Report, Probed)
TO_MEMBER = (Here, Time, Probe, Outcome)
