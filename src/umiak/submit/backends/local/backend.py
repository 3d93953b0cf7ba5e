"""The backend `local`: this machine. An adapter.

A run is a directory below the state directory, with a supervisor of its own that outlives the client. State, logs and end are read
from files and from the kernel, so any shell of the same user can ask, also after client or supervisor were killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from umiak.adapters import identity, private_files
from umiak.adapters.devices import find
from umiak.core.bundle import PRIVATE, Bundle, BundleFile
from umiak.core.job import FrameworkName, Handle
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.submit.backend import AnswerLost
from umiak.submit.backends.local import checks, logs, plan, state
from umiak.submit.backends.local.files import ALREADY, ARRIVED, PLAN, STARTED, LocalRunFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.core.job import Job
    from umiak.core.status import JobStatus
    from umiak.submit.backend import LogLine, LogsWanted, Submission, SubmitContext
    from umiak.submit.places import NamedPlace

NAME = "local"
DIRECTORY = "local"
SUPERVISOR = "umiak.submit.backends.local.supervisor"
LOOK_S = 0.05
"""Between two looks at what can't be waited for: files that others write, processes of others."""
ANSWER_S = 60.0
KILLED_S = 10.0
"""How long processes may take to end after SIGKILL."""


def make(place: NamedPlace, context: SubmitContext) -> LocalBackend:
    """The entry point of this backend."""
    if place.settings.entries:
        entry = place.settings.entries[0]
        what = f"place {place.name}: unknown key: {entry.key}"
        hint = 'a place with `backend = "local"` has no settings'
        raise UmiakError(Problem(code="UM-SUBMIT-025", what=what, hint=hint, where=str(entry.place)))
    return LocalBackend(place.name, context)


class LocalBackend:
    """This machine."""

    def __init__(self, place: str, context: SubmitContext) -> None:
        self._place = place
        self._context = context
        self._root = os.path.join(context.state_directory, DIRECTORY)

    # ---- submitting

    def check(self, job: Job) -> list[Problem]:
        """Whether this machine has what the job needs."""
        directory = self._plan(job, "run").directory
        missing = [each for each in checks.scripts(job) if not os.path.exists(os.path.join(directory, each))]
        if not os.path.isdir(directory):
            missing = [directory]
        devices = find(self._context.environ)
        machine = checks.Machine(
            cpus=os.cpu_count() or 1,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            devices=len(devices.ids) if devices else 0,
            device=devices.kind if devices else None,
            has_framework=_is_installed(job.framework),
            missing_files=frozenset(missing),
        )
        return checks.problems(job, machine)

    def render(self, job: Job, run_id: str) -> Bundle:
        """The plan, and the supervisor that reads it."""
        text = self._plan(job, run_id).text()
        from umiak.contracts.start import TOKEN

        names = ", ".join([TOKEN, *job.secrets])
        return Bundle(
            files=(BundleFile(path=os.path.join(self._files(run_id).path, PLAN), text=text, mode=PRIVATE),),
            commands=((sys.executable, "-m", SUPERVISOR, self._files(run_id).path),),
            requests=(f"standard input of the command: {names} (values are not shown)",),
        )

    def submit(self, submission: Submission) -> Handle:
        """Write the plan and start a supervisor, unless the run has one."""
        files = self._files(submission.run_id)
        if files.supervisor() is None:
            try:
                private_files.make_directory(self._root)
                private_files.make_directory(files.path)
                for file in submission.bundle.files:
                    assert isinstance(file, BundleFile)
                    private_files.write(file.path, file.text)
                self._start(submission, files)
            except OSError as error:
                problem = Problem(
                    code="UM-SUBMIT-026",
                    what=f"the run can't be started: {error.filename or files.path}",
                    why=error.strerror,
                    hint="is there room, and may you write there? XDG_STATE_HOME names another directory",
                )
                raise UmiakError(problem, exit_status=Exit.REFUSED) from None
        return Handle(backend=NAME, place=self._place, id=submission.run_id)

    def _start(self, submission: Submission, files: LocalRunFiles) -> None:
        import subprocess  # 10 ms that a look at a run does not need

        with open(os.path.join(files.path, "supervisor.log"), "ab", opener=_private) as talk:
            started = subprocess.Popen(
                submission.bundle.commands[0],
                cwd=files.path,
                env=dict(self._context.environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=talk,
                start_new_session=True,
                text=True,
            )
        message = json.dumps({"secrets": dict(submission.secrets), "end": ARRIVED})
        try:
            answer, _ = started.communicate(message, timeout=ANSWER_S)
        except subprocess.TimeoutExpired:
            started.kill()
            started.communicate()
            raise AnswerLost(self._place, f"its supervisor said nothing for {ANSWER_S:g} s") from None
        if answer not in (STARTED, ALREADY):
            problem = Problem(
                code="UM-SUBMIT-027",
                what=f"the supervisor of the run failed: {submission.run_id}",
                why=f"exit status {started.returncode}",
                hint=f"see {os.path.join(files.path, 'supervisor.log')}",
            )
            raise UmiakError(problem, exit_status=Exit.REFUSED)

    # ---- asking

    def status(self, handle: Handle) -> JobStatus:
        """From files and processes; nothing is waited for."""
        return self._status(self._known(handle))

    def logs(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        """The lines of all workers and launchers, each file from its beginning or from where the caller was."""
        files = self._known(handle)
        its_plan = files.plan()
        readers: dict[str, logs.LogReader] = {}
        try:
            while True:
                # Asked before the files are read: what was written before the end is then read as well.
                is_over = self._status(files).state.is_over
                for source in logs.sources(files, its_plan, wanted):
                    if source.name not in readers:
                        readers[source.name] = logs.LogReader(source, wanted.after.get(source.name, ""))
                for reader in readers.values():
                    yield from reader.lines(is_over=is_over)
                if is_over or not wanted.follow:
                    return
                time.sleep(LOOK_S)
        finally:
            for reader in readers.values():
                reader.close()

    def cancel(self, handle: Handle, grace_s: float) -> None:
        """Through the supervisor; without one, its launchers are ended from here."""
        files = self._known(handle)
        if self._status(files).state.is_over:
            return
        files.ask_to_cancel(grace_s)
        if files.supervisor() is None and files.claim():  # from now on nobody else starts it
            files.write_end(state.LocalEnd(exit_code=0, ended_s=time.time(), is_cancelled=True, exit_codes={}))
            return
        deadline = time.monotonic() + grace_s + KILLED_S
        is_killed = False
        own = files.supervisor()
        if own is not None:
            identity.send(own, signal.SIGTERM)
        while not self._status(files).state.is_over:
            launchers = files.launchers()
            if launchers and (own is None or not identity.is_alive(own)):
                # Its launchers got SIGTERM when it was killed. The half of a launcher that is left ends all workers.
                is_late = time.monotonic() >= deadline - KILLED_S
                for each in launchers.processes.values():
                    identity.send(each, signal.SIGKILL if is_late else signal.SIGTERM)
                is_killed = is_killed or is_late
            if time.monotonic() >= deadline + KILLED_S:
                problem = Problem(
                    code="UM-SUBMIT-028",
                    what=f"the run does not end: {handle}",
                    why="its processes are still there after SIGKILL"
                    if is_killed
                    else "its supervisor does not answer",
                    hint=f"`ps -ef` shows them; the run's directory is {files.path}",
                )
                raise UmiakError(problem, exit_status=Exit.REFUSED)
            time.sleep(LOOK_S)

    def list(self) -> list[Handle]:
        """Every run of this user on this machine."""
        try:
            names = sorted(os.listdir(self._root))
        except FileNotFoundError:
            return []
        return [Handle(backend=NAME, place=self._place, id=name) for name in names]

    def _status(self, files: LocalRunFiles) -> JobStatus:
        try:
            its_plan = files.plan()
            facts = files.facts(time.time())
        except (OSError, ValueError, KeyError) as error:
            why = f"{type(error).__name__}: {error}"
            what = f"the run's files can't be read: {files.path}"
            raise UmiakError(Problem(code="UM-SUBMIT-029", what=what, why=why), exit_status=Exit.REFUSED) from None
        if facts.is_other_boot and facts.end is None and files.host() != _host():
            problem = Problem(
                code="UM-SUBMIT-030",
                what=f"the run is on another machine: {files.host()}",
                why="its state can be seen there only",
                hint=f"ssh {files.host()} umiak status ...",
            )
            raise UmiakError(problem, exit_status=Exit.REFUSED)
        return state.status_of(its_plan, facts)

    def _known(self, handle: Handle) -> LocalRunFiles:
        files = self._files(handle.id)
        if not files.exists:
            problem = Problem(
                code="UM-SUBMIT-012",
                what=f"unknown run: {handle}",
                why=f"there is no {files.path}",
                hint="`umiak list` prints your runs; is XDG_STATE_HOME what it was when the job was submitted?",
            )
            raise UmiakError(problem)
        return files

    def _files(self, run_id: str) -> LocalRunFiles:
        return LocalRunFiles(os.path.join(self._root, run_id))

    def _plan(self, job: Job, run_id: str) -> plan.LocalPlan:
        return plan.plan_of(
            job, run_id, directory=self._context.directory, logs=self._files(run_id).logs, python=sys.executable
        )


def _is_installed(framework: FrameworkName) -> bool:
    if framework is FrameworkName.NONE:
        return True
    from importlib.util import find_spec

    return find_spec(framework.value) is not None


def _host() -> str:
    import socket

    return socket.gethostname()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, private_files.PRIVATE_FILE)
