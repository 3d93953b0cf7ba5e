"""The backend `local`: this machine. An adapter.

A run is a directory below the state directory, with a supervisor of its own that outlives the client. State, logs and
end are read from files and from the kernel, so any shell of the same user can ask, also after client or supervisor were
killed.
"""

from __future__ import annotations

import json
import os
import sys
import time

from umiak.adapters import own_modules, private_files
from umiak.adapters.devices import find
from umiak.core.bundle import PRIVATE, Bundle, BundleFile
from umiak.core.job import FrameworkName, Handle
from umiak.core.problem import Problem, UmiakError
from umiak.submit.backend import AnswerLost, FilesSent, OfflineCheck, Remarks
from umiak.submit.backends.local import plan
from umiak.submit.node import control
from umiak.submit.node.files import ALREADY, ARRIVED, PLAN, STARTED, SUPERVISOR_LOG, RunFiles
from umiak.submit.payload import node_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.core.devices import Devices
    from umiak.core.job import Job
    from umiak.core.status import JobStatus
    from umiak.submit.backend import (
        JobNode,
        LogLine,
        LogsWanted,
        NodeChannel,
        RunFileRoots,
        Submission,
        SubmitContext,
    )
    from umiak.submit.node.plan import RunPlan
    from umiak.submit.places import NamedPlace

NAME = "local"
DIRECTORY = "local"
SUPERVISOR = "umiak.submit.node.supervisor"
ANSWER_S = 60.0


def make(place: NamedPlace, context: SubmitContext) -> LocalBackend:
    """The entry point of this backend."""
    if place.settings.entries:
        entry = place.settings.entries[0]
        what = f"place {place.name}: unknown key: {entry.key}"
        hint = 'a place with `backend = "local"` has no settings'
        raise UmiakError.of("UM-SUBMIT-025", what, hint=hint, where=str(entry.place))
    return LocalBackend(place.name, context)


class LocalBackend(OfflineCheck, FilesSent, Remarks):
    """This machine."""

    def __init__(self, place: str, context: SubmitContext) -> None:
        self._place = place
        self._context = context
        self._root = os.path.join(context.state_directory, DIRECTORY)
        self._devices: Devices | None = None

    # ---- submitting

    def check(self, job: Job) -> list[Problem]:
        """Whether this machine has what the job needs."""
        return [*self.check_offline(job), *self.missing_here(job)]

    def check_offline(self, job: Job) -> list[Problem]:
        """What is wrong with the job."""
        return plan.problems(job, self._machine(job))

    def missing_here(self, job: Job, /) -> list[Problem]:
        """The framework."""
        return plan.missing(job, self._machine(job))

    def remarks(self, job: Job) -> list[Problem]:
        """What is less here than the job asks for."""
        return list(plan.fit(job, self._machine(job)).remarks)

    def files_sent(self, job: Job) -> None:
        """Nothing: the job works in the directory itself."""

    def _machine(self, job: Job) -> plan.Machine:
        directory = self._plan(job, "run").directory
        missing = [each for each in job.scripts if not os.path.exists(os.path.join(directory, each))]
        if not os.path.isdir(directory):
            missing = [directory]
        if self._devices is None and any(role.resource.devices for role in job.roles):
            self._devices = find(self._context.environ)  # a look at drivers, which most jobs do without
        devices = self._devices
        return plan.Machine(
            cpus=os.cpu_count() or 1,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            devices=len(devices.ids) if devices else 0,
            device=devices.kind if devices else None,
            has_framework=_is_installed(job.framework),
            missing_files=frozenset(missing),
        )

    def render(self, job: Job, run_id: str) -> Bundle:
        """The plan, and the supervisor that reads it."""
        job = self._fitted(job)
        run = self._plan(job, run_id)
        from umiak.contracts.start import TOKEN

        names = ", ".join([TOKEN, *job.secrets])
        path = self._files(run_id).path
        files = [BundleFile(path=os.path.join(path, PLAN), text=run.text(), mode=PRIVATE)]
        if plan.has_data(job):
            logs = self._files(run_id).logs
            for launcher, node in plan.nodes_of(job, run_id, directory=run.directory, logs=logs):
                name = os.path.join(path, f"{launcher.name}.json")
                files.append(BundleFile(path=name, text=node_plan.as_text(node), mode=PRIVATE))
        return Bundle(
            files=tuple(files),
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
                raise UmiakError.refused(
                    "UM-SUBMIT-026",
                    f"the run can't be started: {error.filename or files.path}",
                    why=error.strerror,
                    hint="is there room, and may you write there? XDG_STATE_HOME names another directory",
                ) from None
        return Handle(backend=NAME, place=self._place, id=submission.run_id)

    def _start(self, submission: Submission, files: RunFiles) -> None:
        import subprocess  # 10 ms that a look at a run does not need

        with open(os.path.join(files.path, SUPERVISOR_LOG), "ab", opener=_private) as log:
            started = subprocess.Popen(
                submission.bundle.commands[0],
                cwd=files.path,
                env=dict(self._context.environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
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
            raise UmiakError.refused(
                "UM-SUBMIT-027",
                f"the supervisor of the run failed: {submission.run_id}",
                why=f"exit status {started.returncode}",
                hint=f"see {os.path.join(files.path, SUPERVISOR_LOG)}",
            )

    # ---- asking

    def status(self, handle: Handle) -> JobStatus:
        """From files and processes; nothing is waited for."""
        return control.status(self._known(handle))

    def logs(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        """The lines of all workers and launchers, each file from its beginning or from where the caller was."""
        for line in control.lines(self._known(handle), wanted):
            if line is None:
                time.sleep(control.LOOK_S)
            else:
                yield line

    def cancel(self, handle: Handle, grace_s: float) -> None:
        """Through the supervisor; without one, its launchers are ended from here."""
        control.cancel(self._known(handle), grace_s, str(handle))

    def list(self) -> list[Handle]:
        """Every run of this user on this machine."""
        try:
            names = sorted(os.listdir(self._root))
        except FileNotFoundError:
            return []
        return [Handle(backend=NAME, place=self._place, id=name) for name in names]

    # ---- its nodes

    def nodes(self, handle: Handle) -> tuple[JobNode, ...]:
        """This machine."""
        from umiak.submit.reach.nodes import check_running

        check_running(handle, self.status(handle))
        return (self._node(handle),)

    def files(self, handle: Handle) -> tuple[RunFileRoots, ...]:
        """The run's logs, and the directory in which it works."""
        from umiak.submit.backend import RunFileRoots

        files = self._known(handle)
        return (
            RunFileRoots(
                name=NAME,
                node=self._node(handle),
                base=files.path,
                only=("log",),
                in_place=files.plan().directory,
                node_number=0,
            ),
        )

    def open(self, _: JobNode) -> NodeChannel:
        """A process of this machine."""
        from umiak.submit.reach import channels

        return channels.on_this_machine(self._context.environ)

    def _node(self, handle: Handle) -> JobNode:
        from umiak.submit.backend import JobNode

        return JobNode(run_id=handle.id, name=NAME)

    def _known(self, handle: Handle) -> RunFiles:
        files = self._files(handle.id)
        if not files.exists:
            raise UmiakError.of(
                "UM-SUBMIT-012",
                f"unknown run: {handle}",
                why=f"there is no {files.path}",
                hint="`umiak list` prints your runs; is XDG_STATE_HOME what it was when the job was submitted?",
            )
        return files

    def _fitted(self, job: Job) -> Job:
        return plan.fit(job, self._machine(job)).job

    def _files(self, run_id: str) -> RunFiles:
        return RunFiles(os.path.join(self._root, run_id))

    def _plan(self, job: Job, run_id: str) -> RunPlan:
        return plan.plan_of(
            job,
            run_id,
            directory=self._context.directory,
            logs=self._files(run_id).logs,
            python=sys.executable,
            start=own_modules.start_words,
        )


def _is_installed(framework: FrameworkName) -> bool:
    if framework is FrameworkName.NONE:
        return True
    from importlib.util import find_spec

    return find_spec(framework.value) is not None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, private_files.PRIVATE_FILE)
