"""The backend `mpi`: hosts that mpirun reaches. An adapter.

mpirun runs on this machine, below a supervisor of local runs that outlives the client; files and logs are in a
directory that all hosts see, or, with ``shared = false``, in one of each host's own, to which everything is sent over
ssh. How a run is can be asked on this machine only, where its supervisor is.
"""

from __future__ import annotations

import os
import sys

from umiak.adapters import private_files, trusted_files
from umiak.core.bundle import PRIVATE, Bundle, BundleFile, placeholder
from umiak.core.cluster import Role
from umiak.core.job import Handle
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.status import NodeStatus
from umiak.core.value import replace
from umiak.schema.keys import BadValue
from umiak.submit.backend import FilesSent, OfflineCheck, Secrets
from umiak.submit.backends.local import backend as local
from umiak.submit.backends.mpi import script, settings
from umiak.submit.backends.mpi.nodes import MpiNodes
from umiak.submit.backends.shared import layout, problems
from umiak.submit.backends.shared.files import SharedStore, filled_texts
from umiak.submit.node import own_directory
from umiak.submit.node.files import PLAN, RunFiles
from umiak.submit.node.plan import PlannedLauncher, RunPlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
    from umiak.submit.backends.mpi.settings import Family, MpiHost, MpiSettings
    from umiak.submit.backends.shared.layout import SharedRun
    from umiak.submit.backends.shared.remote import RemoteHosts
    from umiak.submit.payload.file_manifest import FoundFiles
    from umiak.submit.places import NamedPlace

NAME = "mpi"
VERSION_S = 30.0
CLEAN = "clean"
"""In the directory of a run: its secrets are on no host any more."""


def make(place: NamedPlace, context: SubmitContext) -> MpiBackend:
    """The entry point of this backend."""
    return MpiBackend(place.name, context, settings.read(place))


class _Supervised(local.LocalBackend):
    """Local runs whose only launcher is job.sh, kept apart from those of the place `local`."""

    def __init__(self, place: str, context: SubmitContext) -> None:
        super().__init__(place, context)
        self._root = os.path.join(context.state_directory, NAME)

    def run_files(self, run_id: str) -> RunFiles:
        return self._files(run_id)

    def known(self, handle: Handle) -> RunFiles:
        return self._known(handle)


class MpiBackend(OfflineCheck, FilesSent):
    """Some hosts."""

    def __init__(self, place: str, context: SubmitContext, said: MpiSettings) -> None:
        self._place = place
        self._context = context
        self._settings = said
        self._store = SharedStore.of(said.directory, context, place, said.trusted_directories)
        self._local = _Supervised(place, context)
        self._reached = MpiNodes(place, said, context)

    # ---- submitting

    def check(self, job: Job) -> list[Problem]:
        """Whether there is an mpirun, and enough hosts."""
        wrong = [*_problems_of(self._family), *self.check_offline(job), *self._store.problems()]
        if wrong or self._settings.is_shared:
            return wrong
        return self._others(script.chosen(job, self._hosts(), _own_name())).problems()

    def check_offline(self, job: Job) -> list[Problem]:
        """What is wrong with the job and the hosts of the place, without asking one."""
        wrong = problems.elastic_roles(job, self._place)
        wrong += _problems_of(self._hosts)
        if not wrong and len(self._hosts()) < job.nodes.least:
            what = f"place {self._place}: {job.nodes.least} nodes are wanted, and it has {len(self._hosts())} hosts"
            wrong.append(Problem(code="UM-SUBMIT-152", what=what, hint="ask for fewer nodes, or name more `hosts`"))
        wrong += problems.missing(job, self._context.directory, os.path.exists)
        return wrong or self.file_problems(job)

    def missing_here(self, job: Job, /) -> list[Problem]:
        """mpirun, the directory, and what reaching other hosts needs."""
        wrong = [*_problems_of(self._family), *self._store.problems()]
        if not self._settings.is_shared and not _problems_of(self._hosts):
            wrong += self._others(script.chosen(job, self._hosts(), _own_name())).missing()
        return wrong

    def files_sent(self, job: Job) -> FoundFiles | None:
        """What is copied to the run's directory; without `files` the job works where it was submitted."""
        job = self._sent(job)
        if not job.files:
            return None
        from umiak.submit.backends.shared.remote import collected

        return collected(job, self._context.directory)

    def render(self, job: Job, run_id: str) -> Bundle:
        """Scripts, host file and plans, and the supervisor that starts them."""
        return self._rendered(job, run_id, self._family())

    def render_offline(self, job: Job, run_id: str) -> Bundle:
        """Without an mpirun here, what Open MPI's would be given."""
        if not _problems_of(self._family):
            return self.render(job, run_id)
        unknown = placeholder("whose mpirun it is", is_missing=True)
        remark = f"{unknown}: the plan is for Open MPI's; `family =` in [place.{self._place}] says whose it is"
        bundle = self._rendered(job, run_id, settings.Family.OPENMPI)
        return replace(bundle, requests=(remark, *bundle.requests))

    def _rendered(self, job: Job, run_id: str, family: Family) -> Bundle:
        run = self._store.run(run_id)
        hosts = script.chosen(job, self._hosts(), _own_name())
        is_shared = self._settings.is_shared
        job = self._sent(job)
        work = own_directory.if_own(self._context.directory) if is_shared and not job.files else ""
        scripts = script.scripts(job, run, self._settings, script.Mpirun(family=family, hosts=hosts), work)
        info = layout.info_of(job, run, self._context.directory if is_shared else run.work)
        stop = (script.STOP_SIGNAL,)
        bundle = layout.bundle_of(job, run, info, scripts, self._command(run_id), stop, is_shared=is_shared)
        if not is_shared:
            names = ", ".join([each.name for each in script.others(hosts, _own_name())])
            remark = f"over ssh, at once, to {names}: all files below {run.path}; secrets through standard input; launcher and job files "
            bundle = replace(bundle, requests=(*bundle.requests, f"{remark}only if they are not there"))
        plan = BundleFile(
            path=os.path.join(self._local.run_files(run_id).path, PLAN), text=_plan(job, run).text(), mode=PRIVATE
        )
        return replace(bundle, files=(*bundle.files, plan))

    def submit(self, submission: Submission) -> Handle:
        """Write everything and start a supervisor, unless the run has one."""
        run = self._store.run(submission.run_id)
        own = self._local.run_files(submission.run_id)
        if own.supervisor() is None:
            submission = replace(submission, job=self._sent(submission.job))
            self._store.write(run, submission, self._context.directory, only=run.path)
            if not self._settings.is_shared:
                self._bring(run, submission)
            plan = [each for each in submission.bundle.files if each.path.startswith(f"{own.path}/")]
            bundle = Bundle(files=tuple(plan), commands=submission.bundle.commands)
            # The nodes read secrets from their file: neither supervisor nor mpirun needs them.
            self._local.submit(replace(submission, bundle=bundle, secrets=Secrets()))
        return Handle(backend=NAME, place=self._place, id=submission.run_id)

    # ---- asking

    def status(self, handle: Handle) -> JobStatus:
        """What the supervisor's files and processes say."""
        run = self._run(handle)
        status = self._local.status(handle)
        if status.state.is_over:
            self._forget_secrets(run)
        nodes, rank = [], 0
        hosts = settings.hosts_in(self._store.read(run, script.HOSTFILE) or "")
        for group in self._store.info(run).roles:
            mine = hosts[rank : rank + group.nodes]
            nodes += [
                NodeStatus(name=each.name, host=each.name, role=Role(group.role), rank=number, state=status.state)
                for number, each in enumerate(mine)
            ]
            rank += group.nodes
        from umiak.submit.backends.shared import reports

        # The only launcher that the supervisor knows is job.sh, which has written nothing about itself.
        told = self._store.reports(run)
        if not self._settings.is_shared:
            told = {**self._others_of(run).reports(run.run_id), **told}
        return reports.merged(replace(status, nodes=tuple(nodes)), told, is_elastic=self._store.info(run).is_elastic)

    def logs(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        """The lines of all hosts, from the files of the run."""
        from umiak.submit.backends.shared import logs

        run = self._run(handle)

        def is_over() -> bool:
            return self._local.status(handle).state.is_over

        others = None if self._settings.is_shared else self._others_of(run)
        if others and others.all:
            from umiak.submit.backends.shared import remote

            yield from remote.lines(others, run.run_id, wanted, is_over, self._context.tell, run.root)
        else:
            yield from logs.follow(run, self._store.info(run), wanted, is_over)

    def cancel(self, handle: Handle, grace_s: float) -> None:
        """Through the supervisor."""
        run = self._run(handle)
        if not self._local.status(handle).state.is_over:
            self._store.ask_to_cancel(run)  # for nodes that mpirun starts after its signal
            if not self._settings.is_shared:
                self._others_of(run).ask("cancel", run=run.run_id)
        self._local.cancel(handle, grace_s)
        self._forget_secrets(run)

    def list(self) -> list[Handle]:
        """Every run of this user that was started on this machine."""
        return [replace(each, backend=NAME) for each in self._local.list()]

    # ---- its nodes

    def nodes(self, handle: Handle) -> Sequence[JobNode]:
        """The hosts of the run."""
        from umiak.submit.reach.nodes import check_running

        check_running(handle, self._local.status(handle))
        return self._nodes(self._run(handle))

    def files(self, handle: Handle) -> Sequence[RunFileRoots]:
        """What they have of it."""
        run = self._run(handle)
        return self._reached.files(run, self._store.info(run), self._nodes(run))

    def open(self, node: JobNode) -> NodeChannel:
        """A program on a host."""
        return self._reached.open(node)

    def _nodes(self, run: SharedRun) -> Sequence[JobNode]:
        return self._reached.of(run, self._store.read(run, script.HOSTFILE) or "")

    # ---- hosts that share no file system

    def _sent(self, job: Job) -> Job:
        """The job with the files that hosts need."""
        if self._settings.is_shared:
            return job
        from umiak.submit.backends.shared.remote import with_files

        return with_files(job)

    def _bring(self, run: SharedRun, submission: Submission) -> None:
        """Send everything to all other hosts.
        UmiakError with every host that could not be reached: nothing is started then.
        """
        from umiak.submit.backends.shared.remote import collected

        texts = filled_texts(submission.bundle, run, run.path)
        files = collected(submission.job, self._context.directory)
        failures = self._others_of(run).bring(run.run_id, texts, submission.secrets, files)
        if failures:
            self._store.forget_secrets(run)
            raise UmiakError(*[each.problem for each in failures], exit_status=Exit.REFUSED)

    def _forget_secrets(self, run: SharedRun) -> None:
        """Hosts remove theirs when they have read them;
        what is left by a run that never began there is removed from here, once.
        """
        self._store.forget_secrets(run)
        if self._settings.is_shared or self._store.read(run, CLEAN) is not None:
            return
        from umiak.submit.backends.ssh.connections import HostFailure

        answers = self._others_of(run).ask("forget", run=run.run_id)
        if not any(isinstance(each, HostFailure) for each in answers):
            private_files.write(run.file(CLEAN), "")

    def _others_of(self, run: SharedRun) -> RemoteHosts:
        return self._others(settings.hosts_in(self._store.read(run, script.HOSTFILE) or ""), run.root)

    def _others(self, hosts: tuple[MpiHost, ...], root: str = "") -> RemoteHosts:
        from umiak.submit.backends.shared.remote import RemoteHosts

        names = [each.name for each in script.others(hosts, _own_name())]
        settings = self._settings
        trusted = settings.trusted_directories
        return RemoteHosts(settings.access, names, root or self._store.root, settings.python, self._context, trusted)

    # ---- finding

    def _run(self, handle: Handle) -> SharedRun:
        """Where a run lies, also if the place's directory is another one now."""
        path = self._local.known(handle).plan().directory
        run = layout.SharedRun(root=os.path.dirname(os.path.dirname(path)), run_id=os.path.basename(path))
        self._store.info(run)
        return run

    def _command(self, run_id: str) -> tuple[str, ...]:
        return (sys.executable, "-m", local.SUPERVISOR, self._local.run_files(run_id).path)

    def _hosts(self) -> tuple[MpiHost, ...]:
        own = self._settings
        if not own.hostfile:
            if own.hosts:
                return own.hosts
            hint = 'write `hosts = ["node0", "node1"]` or `hostfile = "PATH"`'
            raise UmiakError.of("UM-SUBMIT-151", f"place {self._place}: no hosts", hint=hint)
        path = os.path.join(self._context.directory, os.path.expanduser(own.hostfile))
        try:
            return settings.hosts_in(trusted_files.read_text(path, self._context.environ, "host file"))
        except (OSError, ValueError, BadValue) as error:
            what = f"place {self._place}: the host file can't be read: {path}"
            raise UmiakError.of("UM-SUBMIT-151", what, why=str(error), hint="see `hostfile =` of the place") from None

    def _family(self) -> Family:
        if self._settings.family:
            return self._settings.family
        import shlex
        import shutil
        import subprocess

        words = shlex.split(self._settings.mpirun)
        program = shutil.which(words[0], path=self._context.environ.get("PATH", os.defpath)) if words else None
        version = ""
        if program:
            try:
                done = subprocess.run(
                    [program, *words[1:], "--version"],
                    check=False,
                    env=dict(self._context.environ),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    timeout=VERSION_S,
                )
                version = done.stdout
            except (OSError, subprocess.TimeoutExpired) as error:
                version = str(error)
        family = settings.family_of(version)
        if family is None:
            raise UmiakError.of(
                "UM-SUBMIT-150",
                f"place {self._place}: no mpirun of Open MPI or MPICH: {self._settings.mpirun}",
                why=f"`--version` says: {version.strip()[:200]}" if program else "there is no such command here",
                hint="name the command with `mpirun =`, or say whose it is with `family =`",
            )
        return family


def _plan(job: Job, run: SharedRun) -> RunPlan:
    return RunPlan(
        run_id=run.run_id,
        directory=run.path,
        launchers=(PlannedLauncher(name="mpirun", argv=("/bin/bash", run.file(layout.JOB))),),
        time_limit_s=job.time_limit_s,
    )


def _problems_of(look: Callable[[], object]) -> tuple[Problem, ...]:
    try:
        look()
    except UmiakError as error:
        return error.problems
    return ()


def _own_name() -> str:
    import socket

    return socket.gethostname()
