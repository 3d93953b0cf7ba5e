"""A place in a cloud: what all clouds do alike, over the API of one of them. An adapter.

A cloud's own backend says which request a job becomes, which keys it needs, and how its API is reached. Everything else
is here: checks, uploads, a job that is created once, state, logs that are polled, the end, and links to terminals where
the API gives them.
"""

from __future__ import annotations

import json
import time

from umiak.core.bundle import Bundle, BundleFile, SecretFile
from umiak.core.cluster import Role
from umiak.core.job import Handle
from umiak.core.problem import Problem, UmiakError
from umiak.core.shown import one_line
from umiak.core.status import JobStatus, NodeStatus, State
from umiak.submit import states
from umiak.submit.backend import AnswerLost, FilesSent, LogLine, OfflineCheck, TerminalLink
from umiak.submit.backends.cloud import layout, sdk
from umiak.submit.backends.cloud.api import REFUSED_KEY, CloudFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol, TypeVar

    from umiak.core.job import Handle, Job
    from umiak.core.json_types import JsonObject
    from umiak.submit.backend import LogsWanted, Submission, SubmitContext
    from umiak.submit.backends.cloud.api import CloudApi, CloudJob, CloudPod, TerminalApi
    from umiak.submit.backends.cloud.layout import CloudLayout
    from umiak.submit.backends.cloud.settings import CloudSettings
    from umiak.submit.backends.cloud.uploads import Uploads
    from umiak.submit.payload.file_manifest import FoundFiles
    from umiak.submit.payload.launcher_file import LauncherFile

    T = TypeVar("T")

    class CloudPlace(Protocol):
        """The settings of a place in some cloud."""

        @property
        def common(self) -> CloudSettings: ...

    class CloudRequest(Protocol):
        """The module ``request`` of a cloud. ``own``: the settings that it declares."""

        def problems(self, job: Job, own: Any) -> list[Problem]:
            """What this cloud can't do."""

        def body(self, job: Job, layout: CloudLayout, own: Any) -> JsonObject:
            """The request that creates the job, without secrets."""


STOPPED_S = 60.0
"""How much longer than the grace a cloud may take to end a job."""


class CloudBackend(OfflineCheck, FilesSent):
    """One place. What differs between clouds is in the attributes and in the methods that raise here."""

    NAME = ""
    EXTRA = ""
    SDK = ""
    """The module that must be there; empty: none is needed."""
    KEYS: tuple[str, ...] = ()
    """The variables that must be set."""
    ACCOUNT = ("", "", "")
    """The variables of the account: key, secret, and a session's token."""
    STORE = ""
    """Its object store, a name of `umiak.adapters.stores.s3.VENDORS`."""
    MOST_NAME = 63
    IS_ONE_DIRECTORY = False
    FIRST_DELAY_S = sdk.FIRST_DELAY_S

    REQUEST: CloudRequest
    """The module that makes the cloud's requests."""
    ENDPOINT = ""
    """The address of its API, in which the region may stand."""

    def __init__(self, own: CloudPlace, context: SubmitContext) -> None:
        self.own, self.settings = own, own.common
        self.context = context
        self._api: CloudApi | None = None
        self._found: dict[str, FoundFiles] = {}
        self._launcher: LauncherFile | None = None

    # ---- what a cloud says

    def address(self) -> str:
        """Where the request goes, for people."""
        raise NotImplementedError

    def connect(self, keys: dict[str, str]) -> CloudApi:
        """The API. ``keys``: those that must be set, and the token of a session, which may be empty."""
        raise NotImplementedError

    def body(self, job: Job, plan: CloudLayout) -> JsonObject:
        """The request that creates the job, without secrets."""
        return self.REQUEST.body(job, plan, self.own)

    def endpoint(self) -> str:
        return self.settings.endpoint or self.ENDPOINT.format(region=self.settings.region)

    # ---- submitting

    def check(self, job: Job) -> list[Problem]:
        """Everything at once; no request is sent."""
        return [*self.missing_here(job), *self.check_offline(job)]

    def missing_here(self, _: Job, /) -> list[Problem]:
        """The SDK and the keys of the account."""
        missing = []
        if self.SDK and not sdk.is_installed(self.SDK):
            missing.append(sdk.missing(self.SDK, self.EXTRA))
        unset = [name for name in self.KEYS if not self.context.environ.get(name)]
        if unset:
            missing.append(sdk.keys_missing(self.NAME, unset))
        return missing

    def check_offline(self, job: Job) -> list[Problem]:
        """What this cloud can't do, and files that can't be sent."""
        wrong = []
        if job.nodes.is_elastic:
            hint = "write `nodes:` as one number"
            what = f"{self.NAME} has no elastic jobs: nodes: {job.nodes}"
            wrong.append(Problem(code="UM-SUBMIT-264", what=what, hint=hint))
        if not (job.image or self.settings.image):
            hint = f"write `image:` in the job, or `image =` in [place.{self.settings.place}]"
            wrong.append(Problem(code="UM-SUBMIT-265", what=f"{self.NAME} needs a container image", hint=hint))
        self._found.clear()  # what was found for an earlier job may have changed
        return [*wrong, *self.REQUEST.problems(job, self.own), *self.file_problems(job)]

    def render(self, job: Job, run_id: str) -> Bundle:
        """Reads the job's files and the launcher, since their hashes are in it; the same ones give the same bundle."""
        plan = self.layout(job, run_id)
        at = f"{self.settings.scheme}://{self.settings.bucket}"
        files: list[BundleFile | SecretFile] = [BundleFile(path=f"{at}/{key}", text=text) for key, text in plan.objects]
        from umiak.contracts.start import TOKEN

        names = (TOKEN, *job.secrets)
        files.append(SecretFile(path=f"{at}/{plan.secrets_key}", variable=", ".join(names)))
        requests = [f"PUT {at}/{plan.launcher_key}, unless it is there"]
        requests += [f"PUT {at}/{plan.files_key}, unless it is there"] if plan.files_key else []
        body = json.dumps(self.body(job, plan), indent=1, ensure_ascii=False)
        return Bundle(files=tuple(files), requests=(*requests, f"{self.address()}\n{body}"))

    def submit(self, submission: Submission) -> Handle:
        """Find the job by its name, or upload what it needs and create it."""
        job = submission.job
        plan = self.layout(job, submission.run_id)
        body = self.body(job, plan)
        try:
            known = self._with_retries(lambda: self.api.named(plan.name))
            if known:
                return self._handle(known[0].id)
            # Nobody knows of the job yet, so a failure here leaves nothing but files.
            self.uploads().bring(plan, self._launcher_file(), self.files_sent(job), submission.secrets)
            return self._handle(sdk.created(self.api, plan.name, body, first_delay_s=self.FIRST_DELAY_S))
        except CloudFailure as error:
            if error.is_unclear:
                raise AnswerLost(self.settings.place, str(error)) from None
            raise self._failed(error, "the job was not started") from None

    def layout(self, job: Job, run_id: str) -> CloudLayout:
        files = self.files_sent(job)
        return layout.of(
            job,
            run_id,
            self.settings,
            launcher_sha256=self._launcher_file().sha256,
            digest=files.manifest.digest if files else "",
            most_name=self.MOST_NAME,
            is_one_directory=self.IS_ONE_DIRECTORY,
        )

    # ---- asking

    def status(self, handle: Handle) -> JobStatus:
        """As the cloud says. Secrets of a run that is over are removed from the store."""
        cloud_job = self._job(handle)
        if cloud_job is None:
            return JobStatus(state=State.LOST, reason=f"{self.NAME} has no job of this id")
        status = self._status(cloud_job)
        if status.state.is_over:
            self._forget_secrets(cloud_job)
        return status

    def logs(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        """Node by node, again and again while they are followed."""
        places = dict(wanted.after)
        is_last = False
        while True:
            # Asked before the logs are read: what was written before the end is then read as well.
            cloud_job = self._known(handle)
            is_over = self._state(cloud_job.word).is_over
            for pod in cloud_job.pods:
                if wanted.asks_for(pod.role, pod.rank):
                    yield from _lines(self, cloud_job, pod, places, wanted, is_over=is_over)
            if not wanted.follow or is_last:
                return
            is_last = is_over  # lines may come a little later than the end does: one more look
            time.sleep(self.settings.poll_s)

    def cancel(self, handle: Handle, grace_s: float) -> None:
        """Ask for the end, and wait for it. How long workers may take to end is the cloud's to decide."""
        until = time.monotonic() + grace_s + STOPPED_S
        cloud_job = self._known(handle)
        if not self._state(cloud_job.word).is_over:
            try:
                self._with_retries(lambda: self.api.stop(handle.id))
            except CloudFailure as error:
                if not self._state(self._known(handle).word).is_over:  # else it ended by itself meanwhile
                    raise self._failed(error, "the job was not stopped") from None
        while not self._state(cloud_job.word).is_over:
            if time.monotonic() > until:
                what = f"{self.settings.place} has not stopped the job in time: {handle.id}"
                raise UmiakError.refused("UM-SUBMIT-266", what, hint=f"look again later: umiak status {handle}")
            time.sleep(self.settings.poll_s)
            cloud_job = self._known(handle)
        self._forget_secrets(cloud_job)

    def list(self) -> Iterator[Handle]:
        """Those that umiak has made."""
        for each in self.asked(lambda: list(self.api.list()), "its jobs can't be listed"):
            yield self._handle(each.id)

    # ---- parts

    @property
    def api(self) -> CloudApi:
        if self._api is None:
            unset = [name for name in self.KEYS if not self.context.environ.get(name)]
            if unset:
                raise UmiakError(sdk.keys_missing(self.NAME, unset))
            names = (*self.KEYS, self.ACCOUNT[2])
            self._api = self.connect({name: self.context.environ.get(name, "") for name in names})
        return self._api

    def uploads(self) -> Uploads:
        from umiak.submit.backends.cloud.uploads import Uploads

        return Uploads(self.settings.store, self._store_keys(), first_delay_s=self.FIRST_DELAY_S)

    def _store_keys(self) -> dict[str, str]:
        """The variables of the object store, which takes the key of the account unless it has one of its own."""
        from umiak.adapters.stores.s3 import VENDORS

        vendor, environ = VENDORS[self.STORE], self.context.environ
        names = (*vendor.key_names, f"{vendor.prefix}_SESSION_TOKEN")
        own = {name: environ.get(of_account, "") for name, of_account in zip(names, self.ACCOUNT, strict=True)}
        own |= {
            f"{vendor.prefix}_REGION": self.settings.region,
            f"{vendor.prefix}_ENDPOINT": self.settings.store_endpoint,
        }
        return {**own, **{name: environ[name] for name in own if environ.get(name)}}

    def _status(self, job: CloudJob) -> JobStatus:
        nodes = [
            NodeStatus(
                name=pod.name,
                role=pod.role,
                rank=pod.rank,
                state=states.state_of(self.NAME, pod.word) or self._state(job.word),
                exit_code=pod.exit_code,
                reason=pod.reason,
            )
            for pod in job.pods
        ]
        # Servers wait for their trainers: whether a job has failed is for its trainers to say.
        failed = [each for each in nodes if each.exit_code and each.role is not Role.SERVER]
        failed = failed or [each for each in nodes if each.exit_code]
        state = self._state(job.word)
        exit_code = job.exit_code if job.exit_code is not None else (failed[0].exit_code if failed else None)
        return JobStatus(
            state=state,
            said=job.word,
            reason=job.reason or (failed[0].reason if failed else ""),
            exit_code=(exit_code or 0) if state is State.SUCCEEDED else exit_code,
            nodes=tuple(nodes),
            submitted_s=job.created_s,
            started_s=job.started_s,
            ended_s=job.ended_s,
        )

    def _state(self, word: str) -> State:
        state = states.state_of(self.NAME, word)
        if state is None:
            what = f"{self.settings.place} says a state that umiak does not know: {word or 'none'}"
            hint = "look at the job in the console of the cloud"
            raise UmiakError.refused("UM-SUBMIT-267", what, hint=hint)
        return state

    def _known(self, handle: Handle) -> CloudJob:
        cloud_job = self._job(handle)
        if cloud_job is None:
            what = f"{self.settings.place} has no such job: {handle.id}"
            hint = "it was deleted, or belongs to another region or project: `umiak list` prints your runs"
            raise UmiakError.refused("UM-SUBMIT-268", what, hint=hint)
        return cloud_job

    def _job(self, handle: Handle) -> CloudJob | None:
        return self.asked(lambda: self.api.job(handle.id), "the job can't be asked for")

    def asked(self, act: Callable[[], T], what: str) -> T:
        try:
            return self._with_retries(act)
        except CloudFailure as error:
            raise self._failed(error, what) from None

    def _with_retries(self, act: Callable[[], T]) -> T:
        return sdk.with_retries(act, first_delay_s=self.FIRST_DELAY_S)

    def _failed(self, error: CloudFailure, what: str) -> UmiakError:
        code, hint = "UM-SUBMIT-262", "what the cloud says about it is above; its console may say more"
        if error.status in REFUSED_KEY:
            code, hint = "UM-SUBMIT-263", f"look at {', '.join(self.KEYS)}: is the key valid, and may it do this?"
        elif error.is_retryable:
            code, hint = "UM-SUBMIT-269", "look at the network and at the endpoint of the place, and try again"
        return UmiakError.refused(code, f"{self.settings.place}: {what}", why=str(error), hint=hint)

    def _forget_secrets(self, job: CloudJob) -> None:
        self.uploads().remove(f"{layout.run_key_of(self.settings, job.name)}{layout.SECRETS}")

    def _handle(self, job_id: str) -> Handle:
        return Handle(backend=self.NAME, place=self.settings.place, id=job_id)

    def files_sent(self, job: Job) -> FoundFiles | None:
        if job.files is None:
            return None
        from umiak.submit.payload import file_set

        key = repr(job.files)
        if key not in self._found:
            self._found[key] = file_set.collect(job.files, self.context.directory)
        return self._found[key]

    def _launcher_file(self) -> LauncherFile:
        if self._launcher is None:
            from umiak.submit.payload import launcher_file

            self._launcher = launcher_file.find()
        return self._launcher


def _lines(
    backend: CloudBackend, job: CloudJob, pod: CloudPod, places: dict[str, str], wanted: LogsWanted, *, is_over: bool
) -> Iterator[LogLine]:
    if pod.name not in places and (wanted.tail is not None or wanted.since_s is not None):
        places[pod.name] = backend.asked(
            lambda: backend.api.start(job, pod, wanted, is_over), f"the log of {pod.name} can't be read"
        )
    while True:
        at = places.get(pod.name, "")
        page = backend.asked(
            lambda at=at: backend.api.page(job, pod, at, is_over),  # type: ignore[misc]
            f"the log of {pod.name} can't be read",
        )
        for text, position in page.lines:
            places[pod.name] = position
            yield LogLine(source=pod.name, text=text, position=position, role=pod.role, rank=pod.rank)
        places[pod.name] = page.position or places.get(pod.name, "")
        if not page.has_more:
            return


SCHEMES = ("wss://", "https://", "ws://", "http://")


class TerminalBackend(CloudBackend):
    """A place in such a cloud."""

    TERMINAL = ""
    """What is said about a link: how long it is valid, and what opens it."""

    def terminal(self, handle: Handle, node: str) -> TerminalLink:
        """Asked for once: a link is of one person, and not valid for long."""
        job = self._known(handle)
        pod = next((each for each in job.pods if each.name == node), None)
        api: TerminalApi = self.api  # type: ignore[assignment]
        url = self.asked(lambda: api.terminal(job, pod), f"no link to a terminal on {node}") if pod else ""
        if not url.startswith(SCHEMES) or not url.isprintable() or " " in url:
            raise UmiakError.refused(
                "UM-SUBMIT-492",
                f"{self.settings.place} gave no link to a terminal on {node}",
                why=one_line(url, 100) or "its answer has none",
                hint="is the node running? `umiak status` says so; the console of the cloud has a terminal as well",
            )
        return TerminalLink(url=url, about=self.TERMINAL)
