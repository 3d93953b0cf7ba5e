"""The laws of backends, as a check that any backend's tests can call, also those of other packages. A program.

    def test_the_laws(tmp_path):
        assert broken_laws(lambda: backend_at("lab", tmp_path), Job(name="try", command=("train.py",))) == []

It submits the job for real, asks about it as another process
would (each time through a new backend), and waits for its end.

    render     the same for the same run id, another one for another; without a secret in it
    submit     with the same run id again: the same handle, and nothing is started twice
    status     known to a backend that has not submitted it; it ends
    logs       the same lines whenever they are read; from a position on just the rest; the last ones, and those since some time
    cancel     ends a job that runs, and leaves alone one that is over
    list       has it
    nodes      if it has them: none of a job that is over; its files can be listed, or an error says why not
    a handle that is not known, and secrets in files that others can read or that are rendered
"""

from __future__ import annotations

import os
import stat
import time

from umiak.contracts.start import TOKEN
from umiak.core.bundle import shown
from umiak.core.job import Handle, handle
from umiak.core.problem import UmiakError
from umiak.core.status import State
from umiak.core.value import replace
from umiak.submit import configuration
from umiak.submit.backend import LogsWanted, Secrets, Submission
from umiak.submit.flow import Flow
from umiak.submit.logs import reading as log_reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from umiak.core.job import Job
    from umiak.core.status import JobStatus
    from umiak.submit.backend import Backend, LogLine

__all__ = ["backend_at", "broken_laws"]

LOOK_S = 0.05
CLOCKS_S = 30.0
"""So far clocks may be apart."""
LARGEST = 64 << 20
"""Bytes of a file that is searched."""


def backend_at(place: str, directory: str | os.PathLike[str]) -> Backend:
    """A new backend for a place of the umiak.toml in a directory, as `umiak submit --on PLACE` there would have it."""
    flow = Flow(configuration.context(os.environ, os.fspath(directory)))
    return flow.backend(flow.place(place))


def broken_laws(
    make: Callable[[], Backend],
    job: Job,
    *,
    finish: Callable[[Handle], object] | None = None,
    starts: Callable[[], int] | None = None,
    searched: Iterable[str | os.PathLike[str]] = (),
    allowed: Callable[[str], bool] = lambda _: False,
    within_s: float = 60.0,
) -> list[str]:
    """What a backend does not keep to, in sentences; nothing if it keeps all laws.

    ``make``: a new backend for the same place, as another process would have it. ``job``: must end with 0 by itself;
    where somebody has to end it, ``finish`` does. ``starts``: how many jobs the place has started so far. ``searched``:
    directories in which secrets are looked for; a file that its owner alone can read may have them if ``allowed`` says
    so.
    """
    return _Examination(make, job, finish, starts, within_s).run([os.fspath(each) for each in searched], allowed)


class _Examination:
    """One run, from its submission to its end."""

    def __init__(
        self,
        make: Callable[[], Backend],
        job: Job,
        finish: Callable[[Handle], object] | None,
        starts: Callable[[], int] | None,
        within_s: float,
    ) -> None:
        self.make, self.job, self.finish, self.starts, self.within_s = make, job, finish, starts, within_s
        self.broken: list[str] = []
        self.secrets = Secrets({name: os.urandom(16).hex() for name in (TOKEN, *job.secrets)})
        self.other_token = os.urandom(16).hex()

    def run(self, searched: list[str], allowed: Callable[[str], bool]) -> list[str]:
        problems = list(self.make().check(self.job))
        self._law(not problems, f"check: the job is refused: {[each.what for each in problems]}")
        self._render()
        if self.broken:
            return self.broken
        made = self._submit(f"{self.job.name}-{os.urandom(4).hex()}")
        if made is None:
            return self.broken
        if self.finish:
            self.finish(made)
        ended = self._ended(made)
        self._law(ended.state is State.SUCCEEDED, f"status: it ended as {ended.state.value}: {ended.reason}")
        self._law(ended.exit_status == 0, f"status: the exit status of a job that succeeded is {ended.exit_status}")
        self._logs(made)
        self._attempt("cancel: of a job that is over", lambda: self.make().cancel(made, 1.0))
        self._law(self._status(made).state is ended.state, "cancel: it changed the state of a job that was over")
        self._law(made in list(self.make().list()), "list: it does not have the job")
        self._reach(made)
        self._unknown(made)
        for each in searched:
            self._search(each, allowed)
        return self.broken

    def _law(self, is_kept: bool, sentence: str) -> None:
        if not is_kept:
            self.broken.append(sentence)

    def _attempt(self, what: str, act: Callable[[], object]) -> None:
        try:
            act()
        except UmiakError as error:
            self.broken.append(f"{what}: {error}")

    def _render(self) -> None:
        first, again, other = (shown(self.make().render(self.job, run_id)) for run_id in ("a-1", "a-1", "a-2"))
        self._law(first == again, "render: two bundles of one run differ")
        self._law(first != other, "render: two runs have one bundle")

    def _submit(self, run_id: str) -> Handle | None:
        before = self.starts() if self.starts else 0
        bundle = self.make().render(self.job, run_id)
        self._law(not self._secret_in(shown(bundle)), "render: a secret is in the bundle")
        submission = Submission(run_id=run_id, job=self.job, bundle=bundle, secrets=self.secrets)
        try:
            first = self.make().submit(submission)
            # As after a lost answer: the same run, by another process, with a token of its own.
            again = replace(submission, secrets=Secrets({**self.secrets, TOKEN: self.other_token}))
            second = self.make().submit(again)
        except UmiakError as error:
            self.broken.append(f"submit: {error}")
            return None
        self._law(first == second, f"submit: the same run has two handles: {first} and {second}")
        self._law(handle(str(first)) == first, f"submit: the handle is not what its text says: {first}")
        if self.starts:
            count = self.starts() - before
            self._law(count == 1, f"submit: {count} jobs were started for one run")
        return first

    def _status(self, made: Handle) -> JobStatus:
        return self.make().status(made)

    def _ended(self, made: Handle) -> JobStatus:
        until = time.monotonic() + self.within_s
        while True:
            found = self._status(made)
            if found.state.is_over:
                return found
            if time.monotonic() > until:
                self.broken.append(f"status: it is {found.state.value} after {self.within_s:g} s")
                self.make().cancel(made, 0.0)
                return self._status(made)
            time.sleep(LOOK_S)

    def _logs(self, made: Handle) -> None:
        lines = self._read(made, LogsWanted())
        again = self._read(made, LogsWanted(follow=True))
        self._law(_texts(lines) == _texts(again), "logs: two readings of a job that is over differ")
        self._law(not any(self._secret_in(line.text) for line in lines), "logs: a secret is in them")
        half = lines[: len(lines) // 2]
        after = {line.source: line.position for line in half}
        rest = self._read(made, LogsWanted(after=after))
        self._law(
            _texts([*half, *rest]) == _texts(lines), "logs: read on from a position, lines are missing or come twice"
        )
        self._ends_of_logs(made, lines)

    def _ends_of_logs(self, made: Handle, lines: list[LogLine]) -> None:
        """By way of `log_reading`, as everybody reads them: a backend may begin late, and must not begin too late."""
        own: dict[str, list[LogLine]] = {}
        for line in lines:
            own.setdefault(line.source, []).append(line)
        for count in (0, 1, 2):
            ends = [line for several in own.values() for line in several[len(several) - min(count, len(several)) :]]
            for follow in (False, True):
                read = self._read(made, LogsWanted(tail=count, follow=follow))
                self._law(
                    _texts(read) == _texts(ends),
                    f"logs: the last {count} lines of each source are not those of the whole",
                )
        times = [line.time_s for line in lines if line.time_s is not None]
        if not times:
            return
        everything = self._read(made, LogsWanted(since_s=min(times) - CLOCKS_S))
        self._law(_texts(everything) == _texts(lines), "logs: lines are missing that were written since the asked time")
        nothing = self._read(made, LogsWanted(since_s=max(times) + CLOCKS_S))
        self._law(all(line.time_s is None for line in nothing), "logs: lines were written before the asked time")

    def _read(self, made: Handle, wanted: LogsWanted) -> list[LogLine]:
        return [line for line in log_reading.lines(self.make(), made, wanted) if not line.is_note]

    def _reach(self, made: Handle) -> None:
        """As `umiak exec` and `umiak fetch` would: see `NodeAccess`."""
        from umiak.submit.reach import fetch_plan
        from umiak.submit.reach.nodes import reachable
        from umiak.submit.reach.session import NodeSession

        try:
            backend = reachable(self.make(), made)
        except UmiakError:
            return  # it need not be
        try:
            nodes = backend.nodes(made)
        except UmiakError as error:
            self._law(all(each.code for each in error.problems), "nodes: an error without a code")
        else:
            self._law(False, f"nodes: a job that is over has some: {nodes}")
        try:
            roots = backend.files(made)
            for root in roots:
                session = NodeSession(root.name, backend.open(root.node))
                try:
                    _, problems = fetch_plan.safe_files(root.name, session.listing(root, ()).files)
                finally:
                    session.close()
                self.broken += [f"files: {each.what}" for each in problems]
            names = [root.name for root in roots]
            self._law(len({*names}) == len(names), f"files: two directories of one name: {names}")
        except UmiakError as error:
            self._law(all(each.code for each in error.problems), "files: an error without a code")

    def _unknown(self, made: Handle) -> None:
        stranger = replace(made, id=f"{made.id}-nobody")
        try:
            self.make().status(stranger)
        except UmiakError as error:
            self._law(all(each.code for each in error.problems), "status: an error without a code")
        except Exception as error:  # noqa: BLE001 - just this is looked for
            self.broken.append(f"status: of a job that is not known: {type(error).__name__}, not UmiakError")
        else:
            self.broken.append("status: a job that is not known has one")

    def _search(self, directory: str, allowed: Callable[[str], bool]) -> None:
        for below, _, names in os.walk(directory):
            for path in (os.path.join(below, name) for name in names):
                if not os.path.isfile(path) or os.path.getsize(path) > LARGEST:
                    continue
                with open(path, "rb") as file:
                    has_one = self._secret_in(file.read().decode("latin-1"))
                is_private = not stat.S_IMODE(os.stat(path).st_mode) & 0o077
                if has_one and not (is_private and allowed(path)):
                    self.broken.append(f"secrets: one stands in a file: {path}")

    def _secret_in(self, text: str) -> bool:
        return any(secret in text for secret in (*self.secrets.values(), self.other_token))


def _texts(lines: Iterable[LogLine]) -> list[tuple[str, str]]:
    return sorted((line.source, line.text) for line in lines)
