"""The backend `paddlecloud`: the submission folder, the client, and what they tell. An adapter.

A run has a folder in the working directory, which people can look at, edit and submit again with ``sh job.sh``.
Below umiak's state directory is, for its owner alone, which job of the platform it became.

The client knows no request twice. So a job's name on the platform is its run's id,
and where an answer is missing the job is looked for by that name before it is sent again.
"""

from __future__ import annotations

import json
import os
import time

from umiak.adapters import private_files
from umiak.core.job import Handle
from umiak.core.problem import Problem, UmiakError
from umiak.core.status import JobStatus
from umiak.submit.backend import AnswerLost, FilesSent, OfflineCheck, Secrets, Sizing
from umiak.submit.backends.paddlecloud import answers, checks, client, rendering, settings, upload
from umiak.submit.backends.paddlecloud.answers import BACKEND
from umiak.submit.backends.paddlecloud.rendering import Folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.core.bundle import Bundle
    from umiak.core.job import Job
    from umiak.submit.backend import LogLine, LogsWanted, Submission, SubmitContext
    from umiak.submit.backends.paddlecloud.settings import PaddleCloudSettings, SettingsReading
    from umiak.submit.payload.file_manifest import FoundFiles
    from umiak.submit.places import NamedPlace

LOOK_S = 1.0
"""Between two looks at a job that is followed or ended."""
KILL_S = 120.0
"""How long the platform may take to end a job, beyond the grace."""


def make(place: NamedPlace, context: SubmitContext) -> PaddleCloudBackend:
    """The entry point of this backend."""
    return PaddleCloudBackend(place, context)


class PaddleCloudBackend(Sizing, OfflineCheck, FilesSent):
    """One PaddleCloud."""

    def __init__(self, place: NamedPlace, context: SubmitContext) -> None:
        self._place = place
        self._context = context
        self._root = os.path.join(context.state_directory, BACKEND)
        self._read: SettingsReading | None = None
        self._archives: dict[str, FoundFiles] = {}

    # ---- submitting

    def sized(self, job: Job) -> Job:
        """With the numbers of the settings."""
        return settings.sized(job, self._settings())

    def check(self, job: Job) -> list[Problem]:
        """Everything that is wrong with settings, job and files, and what is missing here."""
        return [*self.missing_here(job), *self.check_offline(job)]

    def missing_here(self, _: Job, /) -> list[Problem]:
        """The client, and keys for it."""
        reading, environ = self._reading(), self._context.environ
        if reading.settings is None:
            return []  # which is an error by itself
        # Keys whose variables are not set were told with their lines.
        has_keys = client.has_own_keys(environ) or bool({settings.AK, settings.SK} & {*reading.unset_keys})
        missing = checks.missing(reading.settings, has_client=client.is_installed(environ), has_own_keys=has_keys)
        return [*reading.unset, *missing]

    def check_offline(self, job: Job) -> list[Problem]:
        reading = self._reading()
        if reading.settings is None:
            return list(reading.problems)
        self._archives.clear()  # what was found for an earlier job may have changed
        try:
            folder, _, wrong = self._folder(job, "check")
        except UmiakError as error:
            return list(error.problems)
        problems = checks.problems(folder, self._context.environ)
        for problem in (*reading.warnings, *checks.warnings(folder)):
            for line in problem.lines("warning"):
                self._context.tell(line)
        return [*problems, *wrong]

    def files_sent(self, job: Job) -> FoundFiles | None:
        """The files of the job, or those that the settings name."""
        settings = self._settings()
        if not settings.submit.files:
            return self._archive(job)
        return upload.found(settings, self._context.directory)

    def render(self, job: Job, run_id: str) -> Bundle:
        """The folder, without secrets."""
        return rendering.bundle_of(self._folder(job, run_id)[0])

    def submit(self, submission: Submission) -> Handle:
        """Write the folder and run its job.sh, unless the platform has the job."""
        run_id = submission.run_id
        folder, files, _ = self._folder(submission.job, run_id)
        keys = folder.settings.secrets
        asked = client.CloudClient(self._context.environ, self._prepared(keys))
        record = self._record(run_id)
        if record is not None:
            job_id = record.get("job_id") or self._found(asked, run_id)
            if job_id:
                return self._accepted(run_id, job_id, folder)
        archive = self._archive(submission.job) if not folder.is_flat else None
        secrets = Secrets({**submission.secrets, **keys})
        upload.write(folder, files, archive, secrets, self._context.directory)
        for line in rendering.printed(folder):
            self._context.tell(line)
        self._write_record(run_id, {"folder": folder.path})
        output = client.run(submission.bundle.commands[0], self._context.environ, folder.settings.timeout_s)
        for line in client.covered(f"{output.out}\n{output.err}", secrets).splitlines():
            if line.strip():
                self._context.tell(line)
        answer = answers.submitted(output)
        job_id = answer.job_id
        if answer.unclear:
            job_id = self._found(asked, run_id)
            if not job_id and output.status is None:
                raise AnswerLost(self._place.name, answer.unclear)
        if not job_id:
            private_files.remove(self._record_path(run_id))
            raise UmiakError.refused(
                "UM-SUBMIT-231",
                f"PaddleCloud did not take the job: {submission.job.name}",
                why=client.covered(answer.refusal or answer.unclear, secrets),
                hint=f"the folder is {folder.path}: correct the settings, or edit it and run `sh job.sh` there",
            )
        self._context.tell("end submit")
        return self._accepted(run_id, job_id, folder)

    def _found(self, asked: client.CloudClient, run_id: str) -> str:
        """The platform's id for a run whose answer is missing. `AnswerLost` if nobody can tell."""
        try:
            return asked.find(run_id)
        except OSError as error:
            raise AnswerLost(self._place.name, f"its jobs can't be listed: {error}") from None

    def _accepted(self, run_id: str, job_id: str, folder: Folder) -> Handle:
        record = {"run_id": run_id, "job_id": job_id, "folder": folder.path, "home": folder.client_home}
        self._write_record(run_id, record)
        private_files.write(self._job_path(job_id), json.dumps(record))
        return Handle(backend=BACKEND, place=self._place.name, id=job_id)

    # ---- asking

    def status(self, handle: Handle) -> JobStatus:
        """One question to the client."""
        data = self._ask(handle, "state", handle.id)
        word = str(data.get("jobStatus", ""))
        state = answers.state(word)
        if state is None:
            raise UmiakError.refused(
                "UM-SUBMIT-237",
                f"PaddleCloud says a state that is not known here: {word or 'nothing'}",
                hint=f"`paddlecloud job info {handle.id}` shows the job",
            )
        reason = str(data.get("message") or "") if state.is_over else ""
        return JobStatus(state=state, said=word, reason=reason)

    def logs(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        """The output of every node, by the addresses that the platform tells."""
        from umiak.submit.backends.paddlecloud.logs import NodeLog

        readers: dict[str, NodeLog] = {}
        while True:
            # Asked before the logs are read: what was written before the end is then read as well.
            is_over = self.status(handle).state.is_over
            for node in answers.nodes(self._ask(handle, "info", handle.id)):
                reader = NodeLog(node, wanted.after.get(f"{node.role.value}.{node.rank}", ""), wanted.tail)
                if wanted.asks_for(node.role, node.rank) and reader.is_known:
                    readers.setdefault(node.name, reader)
            missing = []
            for name, each in readers.items():
                try:
                    yield from each.lines(is_over=is_over)
                except OSError as error:
                    missing.append(f"{name}: {error}")
            if missing and (is_over or not wanted.follow):
                raise UmiakError.refused(
                    "UM-SUBMIT-234",
                    f"logs can't be had: {', '.join(missing)}",
                    hint=f"`paddlecloud job info {handle.id}` tells where they are",
                )
            if is_over or not wanted.follow:
                return
            time.sleep(LOOK_S)

    def cancel(self, handle: Handle, grace_s: float) -> None:
        """Through the client. How long workers have before they are killed is the platform's business."""
        if self.status(handle).state.is_over:
            return
        self._ask(handle, "kill", handle.id)
        until = time.monotonic() + grace_s + KILL_S
        while not self.status(handle).state.is_over:
            if time.monotonic() >= until:
                raise UmiakError.refused(
                    "UM-SUBMIT-240",
                    f"the job does not end: {handle}",
                    why=f"PaddleCloud was asked to kill it {grace_s + KILL_S:g} s ago",
                    hint=f"`paddlecloud job info {handle.id}` shows it",
                )
            time.sleep(LOOK_S)

    def _ask(self, handle: Handle, *words: str) -> dict[str, object]:
        record = self._plain(self._job_path(handle.id)) or {}
        home = record.get("home") or ""
        asked = client.CloudClient(self._context.environ, home if os.path.isdir(home) else self._known_home())
        data, wrong = asked.ask(*words)
        if wrong:
            raise self._not_told(wrong, handle)
        return data

    def _not_told(self, why: str, handle: Handle | None = None) -> UmiakError:
        what = f"PaddleCloud does not tell about {handle}" if handle else "PaddleCloud does not list its jobs"
        hint = "is the job yours, and are the keys right? `paddlecloud job list` asks the same"
        return UmiakError.refused("UM-SUBMIT-232", what, why=why, hint=hint)

    # ---- what is known

    def _reading(self) -> SettingsReading:
        if self._read is None:
            self._read = settings.read(self._place.settings, self._context.environ)
        return self._read

    def _settings(self) -> PaddleCloudSettings:
        reading = self._reading()
        if reading.settings is None:
            raise UmiakError(*reading.problems)
        return reading.settings

    def _folder(self, job: Job, run_id: str) -> tuple[Folder, dict[str, str], list[Problem]]:
        settings = self._settings()
        files, wrong = upload.find(settings, self._context.directory)
        names, plan = tuple(sorted(files)), ""
        if not settings.submit.files:
            archive = self._archive(job)
            plan = rendering.node_plan_text(job, run_id, archive.manifest.digest if archive else "")
            names = (*((rendering.ARCHIVE,) if job.files else ()), rendering.LAUNCHER)
        folder = Folder(
            job=job,
            settings=settings,
            run_id=run_id,
            path=os.path.join(self._context.directory, run_id),
            client_home=client.home_of(self._context.state_directory, settings.secrets),
            files=names,
            node_plan=plan,
        )
        return folder, files, wrong

    def _archive(self, job: Job) -> FoundFiles | None:
        if job.files is None:
            return None
        known = repr(job.files)
        if known not in self._archives:  # hashed once for check, render and submit; what changes in between is noticed
            from umiak.submit.payload import file_set

            self._archives[known] = file_set.collect(job.files, self._context.directory)
        return self._archives[known]

    def _prepared(self, secrets: Secrets) -> str:
        home = client.home_of(self._context.state_directory, secrets)
        try:
            for path in (
                self._context.state_directory,
                self._root,
                *[os.path.join(self._root, n) for n in ("runs", "jobs")],
            ):
                private_files.make_directory(path)
            if home:
                client.prepare_home(home, secrets, self._context.environ)
        except OSError as error:
            raise UmiakError.refused(
                "UM-SUBMIT-235",
                f"the keys of the client can't be written: {error.filename or home}",
                why=error.strerror,
                hint="set XDG_STATE_HOME to a directory that you can write to",
            ) from None
        return home

    def _known_home(self) -> str:
        """For jobs that were not submitted here: the keys of the settings or of the environment, if they say any."""
        names = (settings.AK, settings.SK)
        secrets = Secrets({name: self._context.environ.get(settings.VARIABLES[name], "") for name in names})
        reading = self._reading() if self._place.settings.entries else None
        if reading is not None and reading.settings is not None:
            secrets = reading.settings.secrets
        return self._prepared(secrets) if secrets.get(settings.AK) and secrets.get(settings.SK) else ""

    def _record(self, run_id: str) -> dict[str, str] | None:
        return self._plain(self._record_path(run_id))

    def _write_record(self, run_id: str, record: dict[str, str]) -> None:
        private_files.write(self._record_path(run_id), json.dumps(record))

    def _record_path(self, run_id: str) -> str:
        return os.path.join(self._root, "runs", f"{run_id}.json")

    def _job_path(self, job_id: str) -> str:
        return os.path.join(self._root, "jobs", f"{job_id}.json")

    def _plain(self, path: str) -> dict[str, str] | None:
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) else None

    def list(self) -> list[Handle]:
        """Every job of this person."""
        try:
            jobs = list(client.CloudClient(self._context.environ, self._known_home()).jobs())
        except OSError as error:
            raise self._not_told(str(error)) from None
        return [Handle(backend=BACKEND, place=self._place.name, id=job_id) for _, job_id in jobs if job_id]
