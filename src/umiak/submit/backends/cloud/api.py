"""What a cloud's API of training jobs can do, in the same words for every cloud. Values.

CloudApi      the protocol: find, create, look, page through logs, stop, list
CloudJob      a job as the cloud tells of it, with its own word for the state
CloudFailure  a request that failed, and whether the cloud may have obeyed it all the same
"""

from __future__ import annotations

from umiak.core.backoff import RETRIED_STATUSES, RequestFailure
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Protocol, TypeVar

    from umiak.core.cluster import Role
    from umiak.core.json_types import JsonObject
    from umiak.submit.backend import LogsWanted

    T = TypeVar("T")
else:
    Protocol = object  # importing typing takes longer than a command may

RETRIED = (0, 425, *RETRIED_STATUSES)
REFUSED_KEY = (401, 403)
GONE = (404, 410)


class CloudFailure(RequestFailure):
    """A request that failed. Status 0: no answer came, or none that could be read."""

    def __init__(self, status: int, what: str, *, retry_after_s: float = 0.0) -> None:
        text = f"{status}: {what}" if status else what
        super().__init__(text, is_retryable=status in RETRIED, retry_after_s=retry_after_s)
        self.status = status

    @property
    def is_unclear(self) -> bool:
        """Whether the cloud may have done what it was asked for. Too many requests: it surely has not."""
        return self.is_retryable and self.status != 429


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

    def create(self, body: JsonObject) -> str:
        """Start a job; its id."""

    def job(self, job_id: str) -> CloudJob | None:
        """A job with its nodes; None if there is none."""

    def page(self, job: CloudJob, pod: CloudPod, position: str, is_over: bool, /) -> LogPage:
        """Lines behind a position; empty: from the beginning."""

    def start(self, job: CloudJob, pod: CloudPod, wanted: LogsWanted, is_over: bool, /) -> str:
        """The position from which on there are the lines that are wanted, by their number and time;
        empty: from the beginning.
        """

    def stop(self, job_id: str) -> None:
        """Ask for the end of a job."""

    def list(self) -> Iterable[CloudJob]:
        """All jobs that umiak has made there."""


class ForwardOnly:
    """A cloud whose logs can be read from their beginning alone, or not at all."""

    def start(self, _job: CloudJob, _pod: CloudPod, _wanted: LogsWanted, _is_over: bool, /) -> str:
        return ""


class TerminalApi(CloudApi, Protocol):
    """A cloud that gives links to terminals."""

    def terminal(self, job: CloudJob, pod: CloudPod) -> str:
        """A link to a terminal in a running pod; empty: it gave none."""


def unless_gone(ask: Callable[[], T]) -> T | None:
    """What a cloud answers; None if it does not know what was asked for:
    a job that was deleted, the log of a node that has not begun.
    """
    try:
        return ask()
    except CloudFailure as error:
        if error.status in GONE:
            return None
        raise


def oldest_first(jobs: Iterable[CloudJob], name: str) -> list[CloudJob]:
    """Those of this very name."""
    return sorted((each for each in jobs if each.name == name), key=lambda each: (each.created_s or 0, each.id))


def of_all_pages(ask: Callable[[int], tuple[Sequence[T], float | str | None]], size: int) -> Iterator[T]:
    """``ask``: what is on a page, from 1 on, and how many there are on all; ``size``: of a page."""
    number = 1
    while True:
        items, total = ask(number)
        yield from items
        if not items or number * size >= int(total or 0):
            return
        number += 1
