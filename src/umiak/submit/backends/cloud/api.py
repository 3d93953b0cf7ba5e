"""What a cloud's API of training jobs can do, in the same words for every cloud. Values.

CloudApi      the protocol: find, create, look, page through logs, stop, list
CloudJob      a job as the cloud tells of it, with its own word for the state
CloudFailure  a request that failed, and whether the cloud may have obeyed it all the same
"""

from __future__ import annotations

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Protocol

    from umiak.core.cluster import Role
    from umiak.submit.backend import LogsWanted
else:
    Protocol = object  # importing typing takes longer than a command may

AGAIN = (0, 408, 425, 429, 500, 502, 503, 504)
REFUSED_KEY = (401, 403)
GONE = (404, 410)


class CloudFailure(Exception):
    """A request that failed. Status 0: no answer came, or none that could be read."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(f"{status}: {what}" if status else what)
        self.status = status

    @property
    def is_worth_another_try(self) -> bool:
        return self.status in AGAIN

    @property
    def is_unclear(self) -> bool:
        """Whether the cloud may have done what it was asked for. Too many requests: it surely has not."""
        return self.is_worth_another_try and self.status != 429


@value
class CloudPod:
    """One node of a job."""

    id: str
    """For the API."""
    role: Role
    rank: int
    """Among the nodes of its role."""
    word: str = ""
    """The cloud's word for its state; empty if it tells none."""
    exit_code: int | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        return f"{self.role.value}.{self.rank}"


@value
class CloudJob:
    """A job as its cloud sees it now."""

    id: str
    name: str
    word: str
    reason: str = ""
    exit_code: int | None = None
    pods: tuple[CloudPod, ...] = ()
    created_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None


@value
class LogPage:
    """Some lines of a node, each with the position behind it."""

    lines: tuple[tuple[str, str], ...] = ()
    position: str = ""
    """Where the next page begins, also if this one has no lines."""
    has_more: bool = False
    """Whether the next page can be asked for at once."""


class CloudApi(Protocol):
    """One cloud. Every method sends requests, and raises `CloudFailure`; it tries nothing again."""

    def named(self, name: str) -> Sequence[CloudJob]:
        """The jobs of this very name, the oldest first."""

    def create(self, body: dict[str, Any]) -> str:
        """Start a job; its id."""

    def job(self, job_id: str) -> CloudJob | None:
        """A job with its nodes; None if there is none."""

    def page(self, job: CloudJob, pod: CloudPod, position: str, *, is_over: bool) -> LogPage:
        """Lines behind a position; empty: from the beginning."""

    def start(self, job: CloudJob, pod: CloudPod, wanted: LogsWanted, *, is_over: bool) -> str:
        """The position from which on there are the lines that are wanted, by their number and time; empty: from the beginning."""

    def stop(self, job_id: str) -> None:
        """Ask for the end of a job."""

    def list(self) -> Iterable[CloudJob]:
        """All jobs that umiak has made there."""


class TerminalApi(CloudApi, Protocol):
    """A cloud that gives links to terminals."""

    def terminal(self, job: CloudJob, pod: CloudPod) -> str:
        """A link to a terminal in a running pod; empty: it gave none."""
