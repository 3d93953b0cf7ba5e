"""The backend `slurm`. An adapter.

A run is a directory on a file system that the submitting machine and all nodes see, and a job of Slurm with the run's
id for a name. Nothing of it is kept on this machine, so any login node of the cluster can ask. With `submit_host` the
submitting machine is another one, and everything that is done there is asked over ssh.
"""

from __future__ import annotations

import os
import time

from umiak.core.job import Handle
from umiak.core.names import is_digits, is_host
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.status import State
from umiak.core.value import replace
from umiak.submit.backend import AnswerLost, FilesSent, OfflineCheck, Reviving
from umiak.submit.backends.shared import layout, problems
from umiak.submit.backends.shared.files import SharedStore
from umiak.submit.backends.slurm import script, settings
from umiak.submit.backends.slurm.commands import SlurmCommands
from umiak.submit.node import own_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from umiak.core.bundle import Bundle
    from umiak.core.job import Job
    from umiak.core.status import JobStatus
    from umiak.submit.backend import (
        JobNode,
        LogLine,
        LogsWanted,
        NodeChannel,
        PlaceCheck,
        RunFileRoots,
        Submission,
        SubmitContext,
    )
    from umiak.submit.backends.shared.layout import SharedRun
    from umiak.submit.backends.shared.remote import RemoteHosts, RemoteStore
    from umiak.submit.backends.slurm.settings import SlurmSettings
    from umiak.submit.payload.file_manifest import FoundFiles
    from umiak.submit.places import NamedPlace

NAME = "slurm"
NEEDED = ("sbatch", "squeue", "scontrol", "scancel")
LOOK_S = 0.25
ASK_S = 3.0
"""Between two questions to Slurm while logs are followed: its controller has others to answer."""
KILLED_S = 10.0
"""How long steps may take to end after SIGKILL, before Slurm is asked to end the whole job."""
ENDED_S = 90.0
"""How long Slurm may take for that; it waits 30 s between its own SIGTERM and SIGKILL."""
MAY_COME_BACK = ("NODE_FAIL", "PREEMPTED", "BOOT_FAIL")
"""Jobs in these states may be requeued, and need their secrets then."""
REQUEUED_S = 600.0
"""Slurm requeues a job within this time after its end, or not at all."""
NONE = "cancelled"
"""The claim of a run that was cancelled before it had a job: no job gets it any more."""


def make(place: NamedPlace, context: SubmitContext) -> SlurmBackend:
    """The entry point of this backend."""
    return SlurmBackend(place.name, context, settings.read(place))


class SlurmBackend(Reviving, OfflineCheck, FilesSent):
    """One cluster."""

    def __init__(self, place: str, context: SubmitContext, said: SlurmSettings) -> None:
        self._place = place
        self._context = context
        self._settings = said
        self._hosts: RemoteHosts | None = None
        self._store: SharedStore | RemoteStore
        self._slurm: SlurmCommands
        if said.submit_host:
            from umiak.submit.backends.shared.remote import RemoteHosts, RemoteStore
            from umiak.submit.backends.slurm.commands import RemoteSlurmCommands

            python = said.submit_python or said.python
            trusted = said.trusted_directories
            self._hosts = RemoteHosts(said.access, (said.submit_host,), said.directory, python, context, trusted)
            self._store = RemoteStore(self._hosts, place)
            self._slurm = RemoteSlurmCommands(place, self._store, said.commands)
            return
        self._store = SharedStore.of(said.directory, context, place, said.trusted_directories)
        self._slurm = SlurmCommands(place, context.environ, said.commands)

    # ---- submitting

    def check(self, job: Job) -> list[Problem]:
        """What can be known without asking Slurm: it refuses the rest itself."""
        wrong = self.check_offline(job)
        unusable = self._store.problems()
        if unusable and self._hosts:
            return [*wrong, *unusable]  # nothing else can be asked there
        return [*wrong, *(self._slurm.no_command(each) for each in self._slurm.missing(NEEDED)), *unusable]

    def check_offline(self, job: Job) -> list[Problem]:
        """What is wrong with the job, without a look at the submit host."""
        wrong = problems.elastic_roles(job, self._place)
        wrong += problems.missing(job, self._context.directory, os.path.exists)
        return wrong or self.file_problems(job)

    def missing_here(self, _: Job, /) -> list[Problem]:
        """Slurm's commands and its directory, or what reaching the submit host needs."""
        if self._hosts:
            return self._hosts.missing()
        return [*(self._slurm.no_command(each) for each in self._slurm.missing(NEEDED)), *self._store.problems()]

    def files_sent(self, job: Job) -> FoundFiles | None:
        """What is copied to the run's directory; without `files` the job works where it was submitted."""
        if not job.files and not self._hosts:
            return None
        from umiak.submit.backends.shared.remote import collected, with_files

        return collected(with_files(job) if self._hosts else job, self._context.directory)

    def examine(self) -> Iterator[PlaceCheck]:
        """For `umiak doctor`: the submit host, its directory, and Slurm's commands there."""
        from umiak.submit.backend import PlaceCheck

        unusable = self._store.problems()
        missing = (
            [] if unusable and self._hosts else [self._slurm.no_command(each) for each in self._slurm.missing(NEEDED)]
        )
        yield from (PlaceCheck(text=each.what, problem=each) for each in (*unusable, *missing))
        if not unusable and not missing:
            where = f" on {self._settings.submit_host}" if self._hosts else ""
            yield PlaceCheck(text=f"{', '.join(NEEDED)}{where}; directory {self._store.root}")

    def render(self, job: Job, run_id: str) -> Bundle:
        """The sbatch script, what it starts on nodes, and the plans."""
        run = self._store.run(run_id)
        limit_s, stop_s = script.times(job, self._settings)
        directory = self._context.directory
        if self._hosts:
            from umiak.submit.backends.shared.remote import with_files

            job, directory = with_files(job), run.work
        info = replace(layout.info_of(job, run, directory), time_limit_s=limit_s, stop_time_s=stop_s)
        work = own_directory.if_own(directory) if not job.files else ""
        scripts = script.scripts(job, run, self._settings, work)
        words = ("sbatch", "--parsable", run.file(layout.JOB))
        bundle = layout.bundle_of(job, run, info, scripts, words)
        if not self._hosts:
            return bundle
        host = self._settings.submit_host
        remark = (
            f"over ssh to {host}: all files, secrets through standard input; launcher and files only if it lacks them"
        )
        return replace(bundle, requests=(remark, *bundle.requests), commands=(("ssh", host, *words),))

    def submit(self, submission: Submission) -> Handle:
        """Write everything and submit it, unless Slurm has a job for this run."""
        if isinstance(self._store, SharedStore):
            return self._submit(submission)
        from umiak.submit.backends.shared.remote import with_files

        self._store.resolve()  # scripts need paths without `~`
        bundle = self.render(submission.job, submission.run_id)
        return self._submit(replace(submission, job=with_files(submission.job), bundle=bundle))

    def _submit(self, submission: Submission) -> Handle:
        run = self._store.run(submission.run_id)
        handle = Handle(backend=NAME, place=self._place, id=submission.run_id)
        if self._store.read(run, layout.RUN) is not None and self._started(run):
            return handle
        self._store.write(run, submission, self._context.directory)
        text = self._store.read(run, layout.JOB) or ""
        env = script.sbatch_environment(self._slurm.environ(), tuple(submission.secrets), self._settings, text)
        try:
            job_id = self._slurm.submit(run.file(layout.JOB), env)
        except AnswerLost:
            if not self._started(run):
                raise
            return handle
        if self._store.claim(run, job_id) != job_id:
            self._slurm.cancel(job_id)  # an earlier one has come through after all
        return handle

    def _started(self, run: SharedRun) -> bool:
        """Whether an earlier try has come through. `AnswerLost` if Slurm can't be asked: it may have."""
        try:
            return bool(self._job_id(run, ask=True))
        except UmiakError as error:
            raise AnswerLost(self._place, error.problems[0].why or error.problems[0].what) from None

    # ---- asking

    def status(self, handle: Handle) -> JobStatus:
        """What Slurm says, and what the run itself wrote."""
        return self._status(self._known(handle))

    def may_come_back(self, status: JobStatus) -> bool:
        """A job that was preempted, or has lost a node, is requeued if the place says so."""
        is_young = status.ended_s is None or time.time() - status.ended_s < REQUEUED_S
        return status.said in MAY_COME_BACK and self._settings.requeue and is_young

    def logs(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        """The lines of all nodes, from the files of the run."""
        from umiak.submit.backends.shared import logs

        run = self._known(handle)
        asked = {"at": -ASK_S, "is_over": False}

        def is_over() -> bool:
            try:
                is_due = time.monotonic() - asked["at"] >= (LOOK_S if self._store.end(run) else ASK_S)
                if is_due and not asked["is_over"]:
                    asked["is_over"] = self._status(run).state.is_over
                    asked["at"] = time.monotonic()
            except UmiakError:
                if not wanted.follow:
                    raise  # who follows goes on: files can be read without Slurm
                asked["at"] = time.monotonic()
            return bool(asked["is_over"])

        if self._hosts:
            from umiak.submit.backends.shared import remote

            yield from remote.lines(self._hosts, run.run_id, wanted, is_over, self._context.tell)
        else:
            yield from logs.follow(run, self._store.info(run), wanted, is_over)

    def cancel(self, handle: Handle, grace_s: float) -> None:
        """SIGTERM to the launchers, SIGKILL after the grace; a job that waits is taken from the queue."""
        run = self._known(handle)
        if self._status(run).state.is_over:
            return
        self._store.ask_to_cancel(run)
        job_id = self._job_id(run, ask=True) or self._store.claim(run, NONE)
        if job_id == NONE:
            return
        began = time.monotonic()
        steps = iter([(grace_s, "KILL"), (grace_s + KILLED_S, "")])
        if self._status(run).state is State.QUEUED:
            self._slurm.cancel(job_id)
        else:
            self._slurm.signal(job_id, "TERM")
        due = next(steps, None)
        while not (status := self._status(run)).state.is_over:
            waited_s = time.monotonic() - began
            if status.state is State.QUEUED:  # it was requeued meanwhile, or just began to wait
                self._slurm.cancel(job_id)
            elif due and waited_s >= due[0]:
                if due[1]:
                    self._slurm.signal(job_id, due[1])
                else:
                    self._slurm.cancel(job_id)
                due = next(steps, None)
            elif waited_s >= grace_s + KILLED_S + ENDED_S:
                raise UmiakError.refused(
                    "UM-SUBMIT-147",
                    f"the run does not end: {handle}",
                    why=f"Slurm says that job {job_id} is {status.said}",
                    hint=f"`scontrol show job {job_id}` tells more; a node that does not answer keeps a job from ending",
                )
            time.sleep(LOOK_S)
        self._store.forget_secrets(run)

    def list(self) -> list[Handle]:
        """Every run in the place's directory."""
        return [Handle(backend=NAME, place=self._place, id=each) for each in self._store.runs()]

    # ---- its nodes

    def nodes(self, handle: Handle) -> Sequence[JobNode]:
        """The nodes that Slurm has given to the job; each is reached by a step of it."""
        from umiak.platforms.slurm import expand
        from umiak.submit.backend import JobNode
        from umiak.submit.backends.slurm import script
        from umiak.submit.reach.nodes import check_running

        run = self._known(handle)
        check_running(handle, self._status(run))
        return [
            JobNode(
                run_id=run.run_id,
                name=host,
                address=host,
                command=script.step_words(each.id, host, self._settings, run),
            )
            for each in self._slurm.jobs(self._job_id(run, ask=True))
            for host in expand(each.nodes)
            if is_host(host)
        ]

    def files(self, handle: Handle) -> Sequence[RunFileRoots]:
        """The run's directory, which this machine sees, or the submit host."""
        from umiak.submit.backend import JobNode
        from umiak.submit.backends.shared import layout

        run = self._known(handle)
        node = JobNode(run_id=run.run_id, name=self._settings.submit_host or self._place)
        try:
            names = [each.name for each in self._status(run).nodes]
        except UmiakError:
            names = []  # Slurm does not answer: its files are here all the same
        return [layout.roots_of(run, self._store.info(run), node, names)]

    def open(self, node: JobNode) -> NodeChannel:
        """A step on a node of the job; where no node is meant, on this machine or the submit host."""
        from umiak.submit.backends.slurm import script
        from umiak.submit.reach import channels

        environ = script.step_environment(self._slurm.environ())
        if self._hosts:
            from umiak.submit.backends.ssh.channel import open_session

            question: dict[str, object] = {"do": "session", "run": node.run_id}
            if node.command:
                question = {"do": "become", "words": node.command, "env": environ, "path": self._settings.commands}
            return open_session(self._hosts.connections, self._hosts.all[0], question)
        if not node.command:
            return channels.on_this_machine(self._context.environ)
        program = self._slurm.find(node.command[0])
        if program is None:
            raise UmiakError(self._slurm.no_command(node.command[0]), exit_status=Exit.REFUSED)
        return channels.ProcessChannel((program, *node.command[1:]), environ)

    # ---- finding

    def _status(self, run: SharedRun) -> JobStatus:
        from umiak.submit.backends.shared import reports
        from umiak.submit.backends.slurm import state  # 12 ms that a dry run does not need

        job_id = self._job_id(run, ask=True)
        jobs = self._slurm.jobs(job_id) if is_digits(job_id) else ()
        end = self._store.end(run)
        facts = state.SlurmFacts(
            job_id=job_id,
            jobs=jobs,
            is_cancelled=job_id == NONE or self._store.is_cancelled(run),
            exit_code=end.exit_code if end else None,
            ended_s=end.ended_s if end else None,
        )
        status = state.status_of(self._store.info(run), facts)
        if status.state.is_over and status.said not in MAY_COME_BACK and status.state is not State.LOST:
            self._store.forget_secrets(run)
        return reports.merged(status, self._store.reports(run), is_elastic=self._store.info(run).is_elastic)

    def _job_id(self, run: SharedRun, *, ask: bool = False) -> str:
        """The job that the run belongs to; empty: none. ``ask``: Slurm may know one that could not be written down."""
        claimed = self._store.claimed(run)
        jobs = self._slurm.named(run.run_id) if ask and not claimed else []
        return self._store.claim(run, jobs[0]) if jobs else claimed

    def _known(self, handle: Handle) -> SharedRun:
        """The run of a handle, which may name Slurm's number of the job: ``slurm://hpc/4242``."""
        if is_digits(handle.id):
            for each, job_id in self._store.claims().items():
                if job_id == handle.id:
                    return self._store.run(each)
        return self._store.known(handle)
