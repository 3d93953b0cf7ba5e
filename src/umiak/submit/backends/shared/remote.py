"""The directories of runs on other machines, over ssh: on a login node, or on hosts that share no file system.
An adapter.

    hosts = RemoteHosts(access, ("login1",), "~/.umiak", "python3", context)
    hosts.bring(run_id, texts, secrets, found)      to all of them at once; files and launcher only where they are missing
    store = RemoteStore(hosts, "hpc")               the directory of one host, with the methods of `SharedStore`

What is done there is in `answers`, which travels with the launcher.
"""

from __future__ import annotations

import os
import time

from umiak.core.cluster import Role
from umiak.core.decode import Malformed
from umiak.core.job import FileSet
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import replace
from umiak.submit.backend import LogLine
from umiak.submit.backends.shared import answers, layout
from umiak.submit.backends.shared.files import filled_texts
from umiak.submit.backends.shared.layout import SharedRun
from umiak.submit.backends.shared.store import SharedRunEnd, end_of
from umiak.submit.backends.ssh.settings import SshSettings, host_of
from umiak.submit.logs.order import ArrivingLogs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from umiak.core.job import Handle, Job
    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.core.node_report import NodeReport
    from umiak.submit.backend import LogsWanted, Submission, SubmitContext
    from umiak.submit.backends.shared.layout import RunInfo
    from umiak.submit.backends.ssh.connections import Connections, HostFailure
    from umiak.submit.backends.ssh.settings import SshAccess, SshHost
    from umiak.submit.payload.file_manifest import FoundFiles

ASK_S = 150.0
LOOK_S = 0.25
"""Between two questions for new lines."""
LOST_S = 300.0
"""Lines of a machine that can't be reached are waited for so long."""


class RemoteHosts:
    """Some machines."""

    def __init__(
        self,
        access: SshAccess,
        words: Sequence[str],
        directory: str,
        python: str,
        context: SubmitContext,
        trusted: tuple[str, ...] = (),
    ) -> None:
        home = context.environ.get("HOME") or os.path.expanduser("~")
        config = os.path.join(context.directory, os.path.expanduser(access.config)) if access.config else ""
        usual = f"{home}/.ssh/config"
        hosts = [host_of(word) for word in words]
        self.settings = SshSettings(
            hosts=tuple([replace(host, user=host.user or access.user) for host in hosts]),
            access=replace(access, config=config or (usual if os.path.exists(usual) else "")),
            directory=directory,
            trusted_directories=trusted,
            python=python,
        )
        self._context = context
        self._opened: Connections | None = None

    @property
    def all(self) -> tuple[SshHost, ...]:
        return self.settings.hosts

    @property
    def connections(self) -> Connections:
        """Opened when first needed, and kept."""
        if self._opened is None:
            from umiak.submit.backends.ssh.connections import Connections
            from umiak.submit.payload import launcher_file

            self._opened = Connections(self.settings, self._context.environ, launcher_file.find)
        return self._opened

    def missing(self) -> list[Problem]:
        """Variables of passwords that are not set, and the package that talks to hosts. No host is asked."""
        from umiak.submit.backends.ssh import keys

        return [*keys.unset_variables(self.settings.access, self._context.environ), *keys.missing_package()]

    def problems(self) -> list[Problem]:
        """What is missing here; else, hosts that can't be used."""
        from umiak.submit.backends.ssh.connections import HostFailure

        if missing := self.missing():
            return missing
        answers = self.connections.ask(self.all, lambda _: {"do": "check"}, timeout_s=ASK_S)
        problems = []
        for host, answer in zip(self.all, answers, strict=True):
            if isinstance(answer, HostFailure):
                problems.append(answer.problem)
            elif answer["unwritable"]:
                what = f"{host.label}: can't be written: {answer['directory']}"
                hint = "name another directory of yours that all nodes see"
                problems.append(Problem(code="UM-SUBMIT-109", what=what, why=answer["unwritable"], hint=hint))
        return problems

    def ask(self, word: str, *, timeout_s: float = ASK_S, **more: object) -> list[Any]:
        """The answer of each host, or a `HostFailure`."""
        return self.connections.ask(self.all, lambda _: {"do": f"shared.{word}", **more}, timeout_s=timeout_s)

    def reports(self, run_id: str) -> dict[int, NodeReport]:
        """What launchers have written about themselves on hosts that answer, by the number of the node."""
        from umiak.core.node_report import from_text
        from umiak.submit.backends.ssh.connections import HostFailure

        answers = [each for each in self.ask("reports", run=run_id) if not isinstance(each, HostFailure)]
        by_node = {int(number): from_text(text) for each in answers for number, text in each["reports"]}
        return {number: each for number, each in by_node.items() if each}

    def bring(
        self,
        run_id: str,
        texts: Sequence[tuple[str, str, int]],
        secrets: Mapping[str, str],
        found: FoundFiles | None,
    ) -> list[HostFailure]:
        """Everything that a run needs, to all hosts at once: files only to those that lack them. What went wrong."""
        from umiak.submit.backends.ssh.connections import HostFailure
        from umiak.submit.backends.ssh.starting import FilesArchive

        archive = FilesArchive(found)
        digest = found.manifest.digest if found else ""

        async def one(host: SshHost) -> None:
            link = await self.connections.agent(host)
            answer = await link.ask({"do": "shared.prepare", "files": digest})
            if answer["needs_files"]:
                data = archive.data()
                await link.ask({"do": "files", "digest": digest, "size_bytes": len(data)}, data)
            put = {"do": "shared.put", "run": run_id, "texts": texts, "secrets": dict(secrets), "files": digest}
            await link.ask(put)

        return [each for each in self.connections.each(self.all, one) if isinstance(each, HostFailure)]


class RemoteStore:
    """The directory of one machine, the first of some hosts. What is asked of it here is done there."""

    def __init__(self, hosts: RemoteHosts, place: str) -> None:
        self._hosts = hosts
        self._place = place
        self._infos: dict[str, RunInfo] = {}
        self.root = hosts.settings.directory
        """As it was written; absolute after `resolve`."""

    @property
    def label(self) -> str:
        return self._hosts.all[0].label

    def resolve(self) -> None:
        """Find out which directory ``~`` is there."""
        self.root = str(self.asked("prepare")["directory"])

    def asked(self, word: str, *, timeout_s: float = ASK_S, **more: object) -> Any:
        """UmiakError if there is no answer."""
        from umiak.submit.backends.ssh.connections import HostFailure

        (answer,) = self._hosts.ask(word, timeout_s=timeout_s, **more)
        if isinstance(answer, HostFailure):
            raise UmiakError(answer.problem, exit_status=Exit.REFUSED)
        return answer

    def tried(self, word: str, *, timeout_s: float = ASK_S, **more: object) -> Any:
        """The answer, or the `HostFailure`."""
        return self._hosts.ask(word, timeout_s=timeout_s, **more)[0]

    # ---- as a `SharedStore`

    def run(self, run_id: str) -> SharedRun:
        return SharedRun(root=self.root, run_id=run_id)

    def known(self, handle: Handle) -> SharedRun:
        run = self.run(handle.id)
        if self.read(run, layout.RUN) is None:
            raise UmiakError.of(
                "UM-SUBMIT-146",
                f"unknown run: {handle}",
                why=f"there is no {run.path} on {self.label}",
                hint=f"are `submit_host` and `remote_dir` of the place {self._place} what they were?",
            )
        return run

    def runs(self) -> list[str]:
        return list(self.asked("runs")["runs"])

    def claims(self) -> dict[str, str]:
        return dict(self.asked("runs")["claims"])

    def problems(self) -> list[Problem]:
        return self._hosts.problems()

    def write(self, run: SharedRun, submission: Submission, directory: str) -> None:
        """Send all files of a run. Done again it gives the same, save a new token:
        what a job has begun with it keeps.
        """
        texts = filled_texts(submission.bundle, run)
        files = collected(submission.job, directory)
        failures = self._hosts.bring(run.run_id, texts, submission.secrets, files)
        UmiakError.raise_any([each.problem for each in failures], Exit.REFUSED)

    def info(self, run: SharedRun) -> RunInfo:
        if run.run_id not in self._infos:
            try:
                self._infos[run.run_id] = layout.info_from(self.read(run, layout.RUN) or "")
            except Malformed as error:
                raise UmiakError.refused(
                    "UM-SUBMIT-148",
                    f"{self.label}: the run's files can't be read: {run.path}",
                    why=str(error),
                    hint="they are from another version, or were changed: submit the job again",
                ) from None
        return self._infos[run.run_id]

    def end(self, run: SharedRun) -> SharedRunEnd | None:
        return end_of(self.read(run, layout.END))

    def read(self, run: SharedRun, name: str) -> str | None:
        text: str | None = self.asked("read", run=run.run_id, names=[name])["texts"][name]
        return text

    def reports(self, run: SharedRun) -> dict[int, NodeReport]:
        return self._hosts.reports(run.run_id)

    def ask_to_cancel(self, run: SharedRun) -> None:
        self.asked("cancel", run=run.run_id)

    def is_cancelled(self, run: SharedRun) -> bool:
        return bool(self.asked("read", run=run.run_id, names=[])["is_cancelled"])

    def forget_secrets(self, run: SharedRun) -> None:
        self.asked("forget", run=run.run_id)

    def claimed(self, run: SharedRun) -> str:
        return str(self.asked("read", run=run.run_id, names=[])["claimed"])

    def claim(self, run: SharedRun, by: str) -> str:
        return str(self.asked("claim", run=run.run_id, by=by)["claimed"])


def with_files(job: Job) -> Job:
    """The job as it is sent: with its files, or at least the scripts that its commands name."""
    names = [each for each in job.scripts if not os.path.isabs(each)]
    return job if job.files or not names else replace(job, files=FileSet(root=".", include=tuple(sorted(names))))


def collected(job: Job, directory: str) -> FoundFiles | None:
    """The files of a job."""
    if not job.files:
        return None
    from umiak.submit.payload import file_set

    return file_set.collect(job.files, directory)


def lines(
    hosts: RemoteHosts,
    run_id: str,
    wanted: LogsWanted,
    is_over: Callable[[], bool],
    tell: Callable[[str], None],
    own: str = "",
) -> Iterator[LogLine]:
    """The lines of a run from the log files of all hosts, each once. A machine that can't be reached is asked again.

    ``own``: a directory of this machine that has some of the files.
    """
    from umiak.submit.backends.ssh.connections import HostFailure

    after = dict(wanted.after)
    lost: dict[str, float] = {}
    while True:
        over = is_over()
        question: JsonObject = {
            "run": run_id,
            "role": wanted.role.value if wanted.role else None,
            "rank": wanted.rank,
            "after": after,
            "is_over": over or not wanted.follow,
            "tail": wanted.tail,
            "since_s": wanted.since_s,
            "now_s": time.time(),
        }
        here = [("", answers.answer("lines", own, "", question, hosts.settings.trusted_directories))] if own else []
        there = zip([each.label for each in hosts.all], hosts.ask("lines", **question), strict=True)
        has_more = False
        arrived = ArrivingLogs([*(label for label, _ in here), *(each.label for each in hosts.all)])
        for label, answer in (*here, *there):
            if isinstance(answer, HostFailure):
                if label not in lost:
                    tell(f"{answer.problem.what} ({answer.problem.why})")
                since = lost.setdefault(label, time.monotonic())
                is_given_up = not answer.is_unreachable or time.monotonic() - since > LOST_S
                has_more = has_more or (wanted.follow and not is_given_up)
                arrived.is_up_to_date(label)
                continue
            if lost.pop(label, None) is not None:
                tell(f"{label} is back")
            has_more = has_more or answer["has_more"]
            _add(arrived, label, answer)
        # Lines that come behind those which a machine has not sent yet are not given: they are asked for again.
        for line in arrived.ready():
            if line.position:
                after[line.source] = line.position
            yield line
        if not has_more and (over or not wanted.follow):
            return
        if not has_more or lost:
            time.sleep(LOOK_S)


def _add(arrived: ArrivingLogs, label: str, answer: JsonMapping) -> None:
    for row in answer["lines"]:
        arrived.add(label, _line(*row))
    if not answer["has_more"]:
        arrived.is_up_to_date(label)


def _line(source: str, text: str, position: str, role: str | None, rank: int | None, time_s: float | None) -> LogLine:
    return LogLine(
        source=source, text=text, position=position, role=Role(role) if role else None, rank=rank, time_s=time_s
    )
