"""What every place can do: the protocol of backends, and the values that go in and out. Values.

    backend = make(place, context)                          the entry point: Callable[[NamedPlace, SubmitContext], Backend]
    backend.check(job)                                   everything that is wrong, at once
    backend.render(job, run_id)                          Bundle: what would be written and run; no I/O
    backend.submit(submission)                           Handle; with the same run id again, the same job
    backend.status(handle), .logs(handle, wanted), .cancel(handle), .list()
    backend.examine()                                    if it has it: how the place is, for `umiak doctor --on PLACE`
    backend.check_offline(job), .missing_here(job), .render_offline(job, run_id)    if it has them: for a dry run
    backend.nodes(handle), .files(handle), .open(node)   if it has them: for `umiak exec` and `umiak fetch`
    backend.terminal(handle, node)                       if it has it: a link to a terminal, for `umiak exec` without a command

A backend raises `UmiakError` if its place refused and nothing was started, and `AnswerLost` if it can't know.
After a lost answer the same submission is sent again with the same run id, which must not start the job twice.
"""

from __future__ import annotations

from types import MappingProxyType

from umiak.core.bundle import Bundle, BundleFile, SecretFile
from umiak.core.cluster import Role
from umiak.core.job import Handle, Job
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import Secrets
from umiak.core.status import JobStatus, NodeStatus, State
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Protocol, TypeAlias

    from umiak.submit.payload.file_manifest import FoundFiles
    from umiak.submit.places import NamedPlace

    BackendFactory: TypeAlias = "Callable[[NamedPlace, SubmitContext], Backend]"
else:
    Protocol = object  # importing typing takes longer than a command may

__all__ = [
    "OURSELVES",
    "AnswerLost",
    "Backend",
    "Bundle",
    "BundleFile",
    "Handle",
    "Job",
    "JobNode",
    "JobStatus",
    "LogLine",
    "LogsWanted",
    "NodeAccess",
    "NodeChannel",
    "NodeStatus",
    "Problem",
    "RunFileRoots",
    "SecretFile",
    "Secrets",
    "State",
    "Submission",
    "SubmitContext",
    "TerminalLink",
    "UmiakError",
    "WebTerminals",
]
"""All that a backend is written with, also one of another package."""

DEFAULT_GRACE_S = 30.0


class Backend(Protocol):
    """One place."""

    def check(self, job: Job) -> Iterable[Problem]:
        """Everything that keeps this job from running there."""

    def render(self, job: Job, run_id: str) -> Bundle:
        """What a submission would write and run. Pure: the same job and run id, the same bundle."""

    def submit(self, submission: Submission) -> Handle:
        """Start it, unless it was started with this run id before."""

    def status(self, handle: Handle) -> JobStatus:
        """How it is now."""

    def logs(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        """Its lines. Following ends when the job is over and every line was given."""

    def cancel(self, handle: Handle, grace_s: float) -> None:
        """Stop it: SIGTERM, and SIGKILL after the grace.
        It is over when this returns. Nothing if it was over before.
        """

    def list(self) -> Iterable[Handle]:
        """The jobs that this place knows of."""


class Examinable(Protocol):
    """A backend that can say how its place is, without a job:
    `umiak doctor --on PLACE` asks for it where there is it.
    """

    def examine(self) -> Iterable[PlaceCheck]:
        """Hosts, keys, versions, rights: each with its problem, or as something that works."""


class NodeAccess(Protocol):
    """A backend that can start a program on the nodes of a run:
    `umiak exec` and `umiak fetch` ask for it where there is it.

    The program is `umiak.submit.node.session`: it does what these commands want, and speaks in frames. A backend has
    only to start it in any way that leaves its standard input and output to the client, and to say where the files of a
    run are.
    """

    def nodes(self, handle: Handle) -> Sequence[JobNode]:
        """The nodes on which the run's workers are now, in the order of their ranks.
        UmiakError if it is not running.
        """

    def files(self, handle: Handle) -> Sequence[RunFileRoots]:
        """Where the run's files are, also after its end. UmiakError if they are gone."""

    def open(self, node: JobNode, /) -> NodeChannel:
        """Start the program on a node. UmiakError if it can't be reached."""


class WebTerminals(Protocol):
    """A backend whose place gives links to terminals on the nodes of a run:
    `umiak exec` without a command prints one.
    """

    def terminal(self, handle: Handle, node: str, /) -> TerminalLink:
        """A link to a terminal on a node, by its name in the status. UmiakError if the place gives none."""


class NodeChannel(Protocol):
    """Standard input and output of a program on a node."""

    def read(self) -> bytes:
        """What comes next, in pieces of any size; empty at its end, whatever the reason."""

    def write(self, data: bytes) -> None:
        """All of it; waits while the other side does not take it. OSError if it has gone."""

    def close(self) -> None:
        """Let go: the program sees the end of its input, and ends. Again: nothing."""

    def last_words(self) -> str:
        """After the end: what else was said, as by ssh or srun; empty: nothing."""


@value
class JobNode:
    """One node of a run, as its backend knows it."""

    run_id: str
    """The job's id on the node: in the environment of its workers."""
    name: str
    """As `umiak status` calls it."""
    address: str = ""
    """How its backend reaches it, in its own words."""
    command: tuple[str, ...] = ()
    """What starts the program there, where that can't be known from the address alone."""


@value
class TerminalLink:
    """A way to a terminal, for who has it: it is no place's own, but a person's for a moment."""

    url: str
    about: str
    """How long it is valid, and what opens it."""


@value
class RunFileRoots:
    """Directories of a run on one node, or, where all nodes share them, on one for all."""

    name: str
    """The directory in which they are put by `umiak fetch`."""
    node: JobNode
    base: str = ""
    """The run's directory there, which the program gets as its argument where it has none."""
    only: tuple[str, ...] = ()
    """Of the base: patterns of the directories that are given; ``work*``, ``log``."""
    others: tuple[tuple[str, str], ...] = ()
    """More directories: what they are called, and their paths."""
    in_place: str = ""
    """A working directory that is not the run's own, but the person's: given only where files in it are named."""
    plans: str = ""
    """Where the plans of its nodes are, from the base."""
    node_number: int | None = None
    """By which it may be asked for as well; None: it is of all nodes."""
    parts: tuple[tuple[str, str], ...] = ()
    """Of what all nodes share: the names of nodes, in the order of their numbers,
    and the directory in it that is of this one alone.
    """


@value
class PlaceCheck:
    """One thing about a place."""

    text: str
    """What was looked at, with the value: ``10.0.0.1: python 3.11.7, 12 ms``."""
    problem: Problem | None = None
    """Why it does not work; ``None``: it does."""
    is_warning: bool = False
    """Whether jobs run all the same."""


class Sizing:
    """A backend whose place's settings say how many nodes there are, for jobs that come from a config: mixed in."""

    def sized(self, job: Job) -> Job:
        """The job with the numbers of the settings."""
        raise NotImplementedError


class Pinning:
    """A backend whose place depends on more than its settings,
    such as the current context of a kubeconfig: mixed in.
    """

    def pinned(self) -> Mapping[str, str]:
        """Settings that lead to the same place when all of that has changed. Kept with every run; no secrets."""
        raise NotImplementedError


class Reviving:
    """A backend whose place may start a job again that was over, as Slurm does after the loss of a node: mixed in."""

    def may_come_back(self, status: JobStatus) -> bool:
        """Whether this end may not be the last word: it is not kept, and the place is asked again."""
        raise NotImplementedError


class OfflineCheck:
    """A backend that can check and show a job without its place,
    and on a machine that lacks what submitting needs: mixed in.

    A dry run asks for what is wrong with the job, which is an error, and for what is missing here,
    which is only listed: no machine is asked, and neither SDK nor keys nor commands of a cluster are needed.
    """

    def check_offline(self, job: Job) -> list[Problem]:
        """Everything that is wrong with the job and the place's settings, as far as it can be seen from here."""
        raise NotImplementedError

    def missing_here(self, _job: Job, /) -> list[Problem]:
        """What this machine lacks for a submission: an SDK, a key, a command."""
        return []

    def render_offline(self, job: Job, run_id: str) -> Bundle:
        """As `Backend.render`, with a `placeholder` for what is not known here."""
        rendered: Bundle = self.render(job, run_id)  # type: ignore[attr-defined]
        return rendered


class Remarks:
    """A backend that has something to say about a job that it starts all the same: mixed in."""

    def remarks(self, job: Job) -> list[Problem]:
        """What a person should know before it starts."""
        raise NotImplementedError


class FilesSent:
    """A backend that says which files of the job travel: mixed in.
    Of one that does not, it is what the job's `files` name.
    """

    def files_sent(self, job: Job) -> FoundFiles | None:
        """What is sent; None: nothing is. UmiakError with everything that keeps the files from being sent."""
        raise NotImplementedError

    def file_problems(self, job: Job) -> list[Problem]:
        """Everything that keeps them from being sent."""
        try:
            self.files_sent(job)
        except UmiakError as error:
            return list(error.problems)
        return []


class SinceByPlace:
    """A backend whose place gives only lines since the asked time,
    though its lines have no times of their own: mixed in.
    """


def nobody_listens(_: str) -> None:
    """Where nobody wants to hear what a backend does."""


@value
class SubmitContext:
    """Where a person submits from."""

    environ: Mapping[str, str]
    directory: str
    """Absolute: the working directory."""
    state_directory: str
    """Absolute: umiak's own, for its user alone."""
    tell: Callable[[str], None] = nobody_listens
    """One line to the person, about what a submission does; never with a secret in it."""


@value
class Submission:
    """A job on its way."""

    run_id: str
    """Ours, unique: it keeps a job from being started twice."""
    job: Job
    bundle: Bundle
    secrets: Secrets
    """The job's token and the secrets that it names."""


@value
class LogsWanted:
    """Which lines of a job."""

    follow: bool = False
    role: Role | None = None
    """None: all roles; with a rank: trainers."""
    rank: int | None = None
    after: Mapping[str, str] = MappingProxyType({})
    """For each source the position of the last line that was seen, as the line had it."""
    tail: int | None = None
    """Only so many lines of the end of each source. A backend need not count: `log_reading` does, for all. It saves
    reading what comes before, and where the lines of several sources come in one stream it gives enough of them.
    """
    since_s: float | None = None
    """Only lines since this time, in seconds since 1970.
    A backend whose lines have times gives no earlier ones, or leaves it to `log_reading`.
    """
    only_new: bool = False
    """What was written before the positions of ``after`` is not wanted of any source,
    also not of those that are not among them: a backend may begin to read there.
    """

    def asks_for(self, role: Role | None, rank: int | None) -> bool:
        """Whether the lines of this worker are wanted. With a rank alone, a trainer is meant."""
        wanted = self.role or (Role.TRAINER if self.rank is not None else None)
        return (wanted is None or role is wanted) and (self.rank is None or rank == self.rank)


OURSELVES = "umiak"
"""The source of lines that a backend itself writes among those of a job: a connection was lost, lines are missing."""


@value
class LogLine:
    """One line of one process."""

    source: str
    """Who wrote it: ``trainer.0``, ``launcher``."""
    text: str
    position: str = ""
    """Behind this line, in the backend's own words: `LogsWanted.after` goes on there."""
    role: Role | None = None
    rank: int | None = None
    time_s: float | None = None
    """When it was written, in seconds since 1970; None: nobody knows."""

    @property
    def is_note(self) -> bool:
        """Whether it is about the log, and not of it."""
        return self.source == OURSELVES


class AnswerLost(UmiakError):
    """Nobody knows whether the job was started: the connection broke, or no answer came in time."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(
            Problem(
                code="UM-SUBMIT-002",
                what=f"no answer from {place}: the job may have been started",
                why=why,
                hint="repeat the same command: a job that was started is found, and not started twice",
            ),
            exit_status=Exit.REFUSED,
        )
