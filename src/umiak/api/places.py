"""`umiak.place`: submit jobs from Python and follow them, as `umiak submit` and its commands do. A program.

lab = umiak.place("lab")
run = lab.submit(umiak.Job(name="ctr", command=("train.py", "--lr", "0.1")))
for line in run.logs(follow=True):
    print(line.source, line.text)
run.wait().exit_code
"""

from __future__ import annotations

import os

from umiak.core.bundle import shown
from umiak.core.cluster import Role
from umiak.core.job import Handle, Job, Replicas, Resource, RoleSpec
from umiak.core.problem import BadRequest, Exit, UmiakError
from umiak.submit import configuration
from umiak.submit.backend import DEFAULT_GRACE_S, LogsWanted
from umiak.submit.flow import Flow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umiak.core.status import JobStatus
    from umiak.submit.backend import LogLine
    from umiak.submit.flow import KnownRun
    from umiak.submit.places import NamedPlace
    from umiak.submit.reach.running import CommandResult

__all__ = ["Job", "JobPlace", "Replicas", "Resource", "Role", "RoleSpec", "SubmittedRun", "place"]


def place(name: str | None = None, *, directory: str | os.PathLike[str] | None = None) -> JobPlace:
    """A place of umiak.toml or of the user's config.toml; without a name the default, else ``local``, this machine.

    ``directory`` is where the job runs from, and where umiak.toml is looked for upward;
    the working directory if it is not said.
    """
    flow = Flow(configuration.context(os.environ, None if directory is None else os.fspath(directory)))
    return JobPlace(flow, flow.place(name))


class JobPlace:
    """Where jobs can be submitted to."""

    def __init__(self, flow: Flow, named: NamedPlace) -> None:
        self._flow, self._named = flow, named
        self.name, self.backend = named.name, named.backend

    def __repr__(self) -> str:
        return f"<umiak.place {self.name!r}, backend {self.backend}>"

    def submit(self, job: Job, *, key: str | None = None) -> SubmittedRun:
        """Start a job. `BadRequest` has everything that is wrong with it;
        with the same ``key`` again it is the same run.
        """
        self._check(job)
        submitted = self._flow.submit(job, self._named, key=key)
        self._flow.told(submitted)
        return SubmittedRun(self._flow, self._flow.find(str(submitted.handle)))

    def dry_run(self, job: Job) -> str:
        """Every file and command of a submission, without secrets; at its end what this machine lacks for it."""
        try:
            plan = self._flow.dry_run(job, self._named)
        except UmiakError as error:
            raise BadRequest(*error.problems) from None
        missing = "".join(f"# {line}\n" for each in plan.missing for line in each.lines("missing"))
        return "\n".join([shown(plan.bundle), *([missing] if missing else [])])

    def find(self, run: str) -> SubmittedRun:
        """A run by its handle, its id, or the beginning of one."""
        return SubmittedRun(self._flow, self._flow.find(run))

    def _check(self, job: Job) -> None:
        BadRequest.raise_any(self._flow.check(job, self._named))


class SubmittedRun:
    """A submitted job. It goes on when this process ends."""

    def __init__(self, flow: Flow, known: KnownRun) -> None:
        self._flow, self._known = flow, known

    def __repr__(self) -> str:
        return f"<umiak run {self.handle}>"

    @property
    def handle(self) -> Handle:
        """Enough to find it from anywhere: ``str(run.handle)``."""
        return self._known.handle

    def status(self) -> JobStatus:
        """How it is now."""
        return self._flow.status(self._known)

    def logs(
        self,
        *,
        follow: bool = False,
        role: Role | str | None = None,
        rank: int | None = None,
        after: Mapping[str, str] | None = None,
        tail: int | None = None,
        since_s: float | None = None,
    ) -> Iterator[LogLine]:
        """Its lines; with ``follow`` until it is over. ``after``: the position of the last line that was seen, by
        source. ``tail``: only the last lines of each source. ``since_s``: only lines since this time, in seconds since
        1970.
        """
        wanted = LogsWanted(
            follow=follow,
            role=None if role is None else Role(role),
            rank=rank,
            after=after or {},
            tail=tail,
            since_s=since_s,
        )
        return self._flow.logs(self._known, wanted)

    def wait(self, timeout_s: float | None = None) -> JobStatus:
        """Until it is over, or so long; how it is then."""
        return self._flow.wait(self._known, timeout_s)

    def cancel(self, grace_s: float = DEFAULT_GRACE_S) -> JobStatus:
        """End it: SIGTERM, and SIGKILL after the grace. Nothing is asked of a run that is over."""
        status = self.status()
        if status.state.is_over:
            return status
        self._known.backend.cancel(self._known.handle, grace_s)
        return self.status()

    def exec(
        self,
        command: Sequence[str],
        *,
        node: str | int | None = None,
        role: Role | str | None = None,
        rank: int | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        """Run a command beside a worker, as `umiak exec` does:
        on a node by its number or name, or on that of a rank; else on the first.
        """
        from umiak.submit.reach import running

        words = running.WantedCommand(
            words=tuple(command),
            node="" if node is None else str(node),
            role="" if role is None else Role(role).value,
            rank=rank,
        )
        return running.captured(self._known.backend, self._known.handle, words, stdin)

    def fetch(
        self,
        to: str | os.PathLike[str] | None = None,
        *,
        paths: Sequence[str] = (),
        node: str | int | None = None,
        overwrite: bool = False,
    ) -> list[str]:
        """Bring its files here, as `umiak fetch` does; the paths of all that are here now.
        `umiak.UmiakError` if some are missing.
        """
        from umiak.submit.reach.fetching import Fetch
        from umiak.submit.reach.nodes import reachable

        directory = os.fspath(to) if to is not None else self.handle.id.replace("/", "-")
        backend, name = reachable(self._known.backend, self.handle), "" if node is None else str(node)
        with Fetch(backend, self.handle, directory, paths=paths, node=name, overwrites=overwrite) as fetch:
            result = fetch.bring()
            UmiakError.raise_any(result.problems, Exit.REFUSED)
            return sorted(os.path.join(fetch.target.path, each.path) for each in result.done)
