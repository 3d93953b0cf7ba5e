"""The backend `ray`: a running Ray cluster, through the job API of its dashboard. An adapter.

No `ray` is needed here. A job is two packages (what is the run's own, and the job's files, which are sent once) and one
request, whose submission id is the run's id. Everything else is asked from the cluster, so any shell that reaches it
can ask.
"""

from __future__ import annotations

import json
import time

from umiak.adapters import trusted_files
from umiak.core.bundle import Bundle, BundleFile, placeholder
from umiak.core.job import Handle
from umiak.core.problem import Problem, UmiakError
from umiak.submit.backend import AnswerLost, FilesSent
from umiak.submit.backends.ray import checks, plan
from umiak.submit.backends.ray import settings as settings_of_place
from umiak.submit.backends.ray.sessions.access import SessionAccess
from umiak.submit.backends.ray.state import has_ended
from umiak.submit.payload import node_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from typing import NoReturn

    from umiak.adapters.stores.http_retry import Unanswered
    from umiak.core.job import Job
    from umiak.core.status import JobStatus
    from umiak.submit.backend import LogLine, LogsWanted, Submission, SubmitContext
    from umiak.submit.backends.ray.api import RayApi
    from umiak.submit.backends.ray.log_lines import LogParser
    from umiak.submit.payload.file_manifest import FoundFiles
    from umiak.submit.places import NamedPlace

NAME = "ray"
LOOK_S = 0.2
KILLED_S = 60.0
"""How long a driver may take to end, after the grace."""
SILENCE_S = 1.0
"""After so long without a line of a followed log it is asked whether the job is over."""
RUN_PACKAGE = f"_umiak_{placeholder('hash of the run')}.zip"
FILES_PACKAGE = f"_umiak_{plan.UNKNOWN_DIGEST}.zip"
"""As a dry run shows them: nothing was packed yet."""


def make(place: NamedPlace, context: SubmitContext) -> RayBackend:
    """The entry point of this backend."""
    return RayBackend(place.name, settings_of_place.read(place), context)


class RayBackend(SessionAccess, FilesSent):
    """One cluster."""

    def __init__(self, place: str, settings: settings_of_place.RaySettings, context: SubmitContext) -> None:
        self._place = place
        self.settings = settings
        self._context = context
        self._found: dict[str, FoundFiles] = {}
        self._known_api: RayApi | None = None

    # ---- submitting

    def check(self, job: Job) -> list[Problem]:
        """What can be seen from here; the cluster is not asked."""
        problems: list[Problem] = []
        sent: set[str] = set()
        self._found.clear()  # what was found for an earlier job may have changed
        if plan.files_of(job):
            try:
                sent = {each.path for each in self._files(job).manifest.files}
            except UmiakError as error:
                problems += error.problems
        if settings_of_place.headers(self.settings, self._context.environ) is None:
            problems.append(self._bad_headers())
        # Files that can't be read are one problem, not a second one for the script among them.
        missing = [
            each for each in checks.problems(job, self.settings, sent) if not problems or each.code != "UM-SUBMIT-326"
        ]
        return [*problems, *missing]

    def files_sent(self, job: Job) -> FoundFiles | None:
        return self._files(job) if plan.files_of(job) else None

    def render(self, job: Job, run_id: str) -> Bundle:
        """The files of the run, and the requests."""
        run = plan.run_of(job, run_id, self.settings)
        plans = plan.node_plans(job, run_id)
        files = [BundleFile(path=plan.RUN, text=run.text())]
        files += [BundleFile(path=name, text=node_plan.as_text(each)) for name, each in sorted(plans.items())]
        modules = [FILES_PACKAGE] if plan.files_of(job) else []
        body = json.dumps(plan.request(run, self.settings.python, RUN_PACKAGE, modules), indent=1)
        base = self.settings.address
        names = f"{plan.LAUNCHER}, {', '.join(each.path for each in files)}"
        return Bundle(
            files=tuple(files),
            requests=(
                *(
                    f"PUT {base}/api/packages/gcs/{each}\nthe files of the job, unless the cluster has them"
                    for each in modules
                ),
                f"PUT {base}/api/packages/gcs/{RUN_PACKAGE}\n{names}",
                f"POST {base}/api/jobs/\n{body}",
            ),
        )

    def submit(self, submission: Submission) -> Handle:
        """Send packages and start the job, unless the cluster has one with the run's id. The run's token is made there."""
        from umiak.adapters.stores.http_retry import Unanswered

        handle = Handle(backend=NAME, place=self._place, id=submission.run_id)
        try:
            if self.api.job(submission.run_id) is not None:
                return handle
            body = self._send_packages(submission)
        except Unanswered as error:
            self.refuse(error)
        try:
            self.api.start(body)
        except Unanswered as error:
            self._after(error, submission.run_id)
        return handle

    def _send_packages(self, submission: Submission) -> dict[str, object]:
        from umiak.submit.backends.ray import package
        from umiak.submit.payload import launcher_file

        job, run_id = submission.job, submission.run_id
        digest, packages = "", []
        if plan.files_of(job):
            found = self._files(job)
            digest = found.manifest.digest
            packages = [package.pack_files(found, plan.archive_name(digest))]
        run = plan.run_of(job, run_id, self.settings)
        with open(launcher_file.find().path, "rb") as file:
            files = {plan.LAUNCHER: file.read(), plan.RUN: run.text().encode()}
        for name, each in plan.node_plans(job, run_id, digest).items():
            files[name] = node_plan.as_text(each).encode()
        own = package.pack(files)
        for each_package in (*packages, own):
            if not self.api.has_package(each_package.name):
                self.api.send_package(each_package.name, each_package.data)
        return plan.request(run, self.settings.python, own.name, [each.name for each in packages])

    def _after(self, error: Unanswered, run_id: str) -> None:
        """A request to start a job has failed: perhaps the cluster has started it all the same."""
        from umiak.adapters.stores.http_retry import Unanswered
        from umiak.submit.backends.ray.api import NeverSent

        if isinstance(error, NeverSent):
            self.refuse(error)
        try:
            is_there = self.api.job(run_id) is not None
        except Unanswered:
            is_there = False
            if error.status:
                raise AnswerLost(self._place, str(error)) from None
        if is_there:
            return
        if error.status:
            self.refuse(error)
        # It may still be on its way.
        raise AnswerLost(self._place, str(error)) from None

    # ---- asking

    def status(self, handle: Handle) -> JobStatus:
        """As Ray sees it now."""
        from umiak.adapters.stores.http_retry import Unanswered

        try:
            return self._status(handle)
        except Unanswered as error:
            self.refuse(error)

    def _status(self, handle: Handle) -> JobStatus:
        from umiak.submit.backends.ray import state

        job = self.job(handle)
        groups, actors = [], []
        if job.get("status") == "RUNNING":
            groups = self.api.states("placement_groups", "name", handle.id)
            actors = self.actors(job, handle)
        status = state.status_of(job, groups, actors, state.reports_in(self.status_lines(job, handle)))
        if status is None:
            raise UmiakError.refused(
                "UM-SUBMIT-328",
                f"{self._place} has a state that umiak does not know: {job.get('status')}",
                hint=f"see the cluster's dashboard: {self.settings.address}",
            )
        return status

    def job(self, handle: Handle) -> dict[str, object]:
        job = self.api.job(handle.id)
        if job is None:
            raise UmiakError.of(
                "UM-SUBMIT-012",
                f"unknown run: {handle}",
                why=f"{self.settings.address} does not know it: Ray forgets its jobs when its head is restarted",
                hint="`umiak list` prints your runs; is the address of the place what it was?",
            )
        return job

    def logs(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        """The driver's log, which has the lines of all nodes."""
        from umiak.adapters.stores.http_retry import Unanswered
        from umiak.submit.backends.ray.log_lines import LogParser

        parser = LogParser(wanted)
        try:
            while True:
                job = self.job(handle)
                # Asked before the log is read: what was written before the end is then read as well.
                is_over = has_ended(job)
                node = str(job.get("driver_node_id") or "")
                if node:
                    parser.restart()
                    yield from self._read(handle, node, parser, follow=wanted.follow and not is_over)
                if is_over:
                    yield from parser.end()
                if is_over or not wanted.follow:
                    return
                time.sleep(LOOK_S)
        except Unanswered as error:
            self.refuse(error)

    def _read(self, handle: Handle, node: str, parser: LogParser, *, follow: bool) -> Iterator[LogLine]:
        """All that there is; following, until the job is over or the connection breaks."""
        from umiak.adapters.stores.http_retry import Unanswered

        pieces = self.api.growing_log(handle.id, node, SILENCE_S) if follow else self.api.log(handle.id, node)
        try:
            for piece in pieces:
                yield from parser.feed(piece)
                if follow and not piece and has_ended(self.job(handle)):
                    return
        except Unanswered as error:
            if not follow:
                raise
            del error  # it is read again, and what was given is not given again

    def cancel(self, handle: Handle, grace_s: float) -> None:
        """Through Ray: it sends the driver SIGTERM, which finds the grace in the cluster."""
        from umiak.adapters.stores.http_retry import Unanswered

        try:
            if self._status(handle).state.is_over:
                return
            name = plan.grace_name(handle.id)
            self.api.has_package(name)  # so that Ray forgets it in a while
            self.api.send_package(name, f"{grace_s:g}".encode())
            self.api.stop(handle.id)
            deadline = time.monotonic() + grace_s + KILLED_S
            while not self._status(handle).state.is_over:
                if time.monotonic() >= deadline:
                    raise UmiakError.refused(
                        "UM-SUBMIT-329",
                        f"the run does not end: {handle}",
                        why=f"Ray was asked to stop it {grace_s + KILLED_S:g} s ago",
                        hint=f"see its driver in the dashboard: {self.settings.address}",
                    )
                time.sleep(LOOK_S)
        except Unanswered as error:
            self.refuse(error)

    def list(self) -> list[Handle]:
        """The jobs of the cluster that umiak has submitted."""
        from umiak.adapters.stores.http_retry import Unanswered

        try:
            jobs = self.api.jobs()
        except Unanswered as error:
            self.refuse(error)
        ids = [each.get("submission_id") for each in jobs if plan.MARK in (each.get("metadata") or {})]
        return [Handle(backend=NAME, place=self._place, id=str(each)) for each in ids if each]

    # ---- the connection

    @property
    def api(self) -> RayApi:
        if self._known_api is None:
            from umiak.submit.backends.ray.api import RayApi

            headers = settings_of_place.headers(self.settings, self._context.environ)
            if headers is None:
                raise UmiakError(self._bad_headers())
            self._known_api = RayApi(self.settings.address, headers, self._tls())
        return self._known_api

    def _tls(self) -> ssl.SSLContext | None:
        if not self.settings.address.startswith("https:"):
            return None
        import ssl

        if self.settings.ca_file:
            trusted_files.check(self.settings.ca_file, self._context.environ)
        try:
            context = ssl.create_default_context(cafile=self.settings.ca_file or None)
        except OSError as error:
            what = f"place {self._place}: ca_file can't be read: {self.settings.ca_file}"
            raise UmiakError.of("UM-SUBMIT-330", what, why=error.strerror or str(error)) from None
        if not self.settings.verify_tls:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def refuse(self, error: Unanswered) -> NoReturn:
        hint = (
            f"is Ray's dashboard at {self.settings.address}? `curl {self.settings.address}/api/version` answers there"
        )
        if error.status in (401, 403):
            names = f"{self.settings.token_variable} or {self.settings.headers_variable}"
            hint = f"put the token or the headers that the cluster wants into {names}"
        raise UmiakError.refused(
            "UM-SUBMIT-331",
            f"{self._place} refused, or can't be reached: {self.settings.address}",
            why=str(error),
            hint=hint,
        ) from None

    def _bad_headers(self) -> Problem:
        return Problem(
            code="UM-SUBMIT-332",
            what=f"expected a JSON object of headers, got something else in the variable {self.settings.headers_variable}",
            hint=f'export {self.settings.headers_variable}=\'{{"Authorization": "..."}}\'',
        )

    def _files(self, job: Job) -> FoundFiles:
        asked = plan.files_of(job)
        assert asked is not None
        key = repr(asked)
        if key not in self._found:
            from umiak.submit.payload import file_set

            self._found[key] = file_set.collect(asked, self._context.directory)
        return self._found[key]
