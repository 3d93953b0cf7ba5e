"""From a job to a run: check, render, submit, and a record of it. A program.

    flow = Flow(context)
    flow.check(job, place), flow.render(job, place, run_id)     what a dry run shows
    submitted = flow.submit(job, place)                         starts it, once
    flow.told(submitted)                                        the person has seen the handle

A submission whose client ended before it could tell the handle is found when the same job is submitted again: it is completed,
or its handle is told, and nothing is started twice.
"""

from __future__ import annotations

import json
import os
import time

from umiak.core.decode import Malformed
from umiak.core.job import Handle, handle
from umiak.core.names import is_name
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import one_line
from umiak.core.status import State
from umiak.core.value import fields, is_value, replace, value
from umiak.submit import configuration, registry, run_choice
from umiak.submit.backend import AnswerLost, OfflineCheck, Secrets, Sizing, Submission
from umiak.submit.places import LOCAL
from umiak.submit.records import Records
from umiak.submit.run_record import RunRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from umiak.core.bundle import Bundle
    from umiak.core.job import Job
    from umiak.core.status import JobStatus
    from umiak.submit.backend import Backend, SubmitContext
    from umiak.submit.places import NamedPlace, PlacesReading

SOON_S, LATER_S = 0.05, 2.0
"""Between two looks at a run that is waited for: first often, then less and less."""
AWAY_S = 300.0
"""A place that is waited for may be unreachable for so long."""
NAME_HINT = "use up to 64 letters, digits, `-`, `_` and `.`"
DRY = "dry-run"
"""In place of the random part of a run's id, so that two dry runs print the same."""


@value
class Submitted:
    """A run, and whether it was there before."""

    record: RunRecord
    handle: Handle
    is_repeated: bool = False
    """An earlier submission of the same job whose answer got lost, or one with the same key."""


@value
class KnownRun:
    """A run that somebody asks about."""

    handle: Handle
    backend: Backend
    record: RunRecord | None = None


class Flow:
    """Submits jobs and finds runs, for one person in one place."""

    def __init__(self, context: SubmitContext) -> None:
        self.context = context
        self.records = Records(context.state_directory)
        self._reading: PlacesReading | None = None
        self._backends: dict[str, Backend] = {}

    @property
    def reading(self) -> PlacesReading:
        """All places, also if something is wrong in their files."""
        if self._reading is None:
            self._reading = configuration.read(self.context)
        return self._reading

    @property
    def places(self) -> PlacesReading:
        """All places. UmiakError with everything that is wrong."""
        if self.reading.problems:
            raise UmiakError(*self.reading.problems)
        return self.reading

    def place(self, name: str | None) -> NamedPlace:
        """A place by its name; none: the default. UmiakError with everything that is wrong in the files, also in this place's table."""
        wrong = self.reading.problems
        asked = self.reading.places.get(name or self.reading.default)
        if wrong and asked is not None:
            try:
                self.backend(asked)
            except UmiakError as error:
                wrong = (*wrong, *error.problems)
        if wrong:
            raise UmiakError(*wrong)
        return configuration.place(self.reading, name)

    def backend(self, place: NamedPlace) -> Backend:
        if place.name not in self._backends:
            self._backends[place.name] = registry.make(place, self.context)
        return self._backends[place.name]

    # ---- submitting

    def sized(self, job: Job, place: NamedPlace) -> Job:
        """A job that does not say how many nodes it has, on a place whose settings may: `Sizing`."""
        backend = self.backend(place)
        return backend.sized(job) if isinstance(backend, Sizing) else job

    def check(self, job: Job, place: NamedPlace, *, is_dry: bool = False) -> list[Problem]:
        """Everything that is wrong, at once. ``is_dry``: nothing will be started, see `OfflineCheck`."""
        missing = [
            Problem(
                code="UM-SUBMIT-008",
                what=f"a secret of the job is not set here: {name}",
                why="secrets are taken from your environment by their names",
                hint=f"export {name}, or remove it from `secrets`",
            )
            for name in job.secrets
            if not self.context.environ.get(name)
        ]
        # Of a job that was made in Python: files and flags were checked when they were read.
        if wrong := _wrong_values(job):
            return [*wrong, *missing]
        backend = self.backend(place)
        found = backend.check_offline(job) if is_dry and isinstance(backend, OfflineCheck) else backend.check(job)
        return [*missing, *_leaks(job, self.context.environ), *found]

    def render(self, job: Job, place: NamedPlace, run_id: str | None = None) -> Bundle:
        """What a submission would write and run."""
        return self.backend(place).render(job, run_id or f"{job.name}-{DRY}")

    def submit(self, job: Job, place: NamedPlace, *, key: str | None = None) -> Submitted:
        """Start a job that was checked. With the same ``key`` again it is the same run, however often it is asked for."""
        self.records.prepare()
        digest = digest_of(job, place.name, self.context.directory)
        record = self._earlier(job, digest, key)
        is_repeated = record is not None
        if record is None:
            record = RunRecord(
                run_id=run_id_of(job.name, key),
                name=job.name,
                place=place.name,
                backend=place.backend,
                directory=self.context.directory,
                digest=digest,
                submitted_s=time.time(),
            )
        if not record.handle:
            record = self._send(job, place, record)
        return Submitted(record=record, handle=handle(record.handle), is_repeated=is_repeated)

    def told(self, submitted: Submitted) -> None:
        """The person has seen the handle: the same job submitted again is another run."""
        self.records.told(submitted.record)

    def _earlier(self, job: Job, digest: str, key: str | None) -> RunRecord | None:
        if key is None:
            return self.records.unanswered(digest)
        found = self.records.read(run_id_of(job.name, key))
        if found is not None and found.digest != digest:
            raise UmiakError(
                Problem(
                    code="UM-SUBMIT-009",
                    what=f"the key was used for another job: {key}",
                    why=f"{found.handle or found.run_id} has another command, place or directory",
                    hint="use another key for another job",
                )
            )
        return found

    def _send(self, job: Job, place: NamedPlace, record: RunRecord) -> RunRecord:
        self.records.begin(record)
        submission = Submission(
            run_id=record.run_id,
            job=job,
            bundle=self.render(job, place, record.run_id),
            secrets=secrets_of(job, self.context.environ),
        )
        try:
            given = self.backend(place).submit(submission)
        except BaseException as error:
            if isinstance(error, UmiakError) and not isinstance(error, AnswerLost):
                self.records.told(record)
                self.records.remove(record.run_id)
            else:
                self.records.give_up(record)
            raise
        record = replace(record, handle=str(given))
        self.records.write(record)
        return record

    # ---- asking

    def find(self, text: str) -> KnownRun:
        """The run of a handle, of a run's id or of the beginning of one."""
        if "://" not in text:
            names = self.records.named(text) if text else []
            record = self._chosen(text, [each for name in names if (each := self.records.read(name)) is not None])
        else:
            try:
                asked = handle(text)
            except Malformed as error:
                hint = "`umiak list` prints the handles of your runs"
                raise UmiakError(Problem(code="UM-SUBMIT-010", what=str(error), hint=hint)) from None
            record = self._record_of(asked)
            if record is None:
                return self._known(asked, None)
        if record is None:
            hint = (
                "`umiak list` prints your runs; for a run of somebody else, or from another machine, write its handle"
            )
            raise UmiakError(Problem(code="UM-SUBMIT-012", what=f"unknown run: {text}", hint=hint))
        if not record.handle:
            raise UmiakError(
                Problem(
                    code="UM-SUBMIT-013",
                    what=f"the submission of {record.run_id} was not completed",
                    why=f"{record.place} has not answered",
                    hint=f"repeat the same `umiak submit` in {record.directory}",
                ),
                exit_status=Exit.REFUSED,
            )
        return self._known(handle(record.handle), record)

    def newest_running(self) -> KnownRun:
        """The newest run that is not over. UmiakError if there is none, or if it can't be known which it is."""
        record = run_choice.newest_running(self.records.all(), self._state_of)
        return self._known(handle(record.handle), record)

    def _chosen(self, text: str, found: list[RunRecord]) -> RunRecord | None:
        return run_choice.chosen(text, found, self._state_of) if found else None

    def _state_of(self, record: RunRecord) -> State:
        if not record.handle:
            return State.STARTING if self.records.is_submitting(record) else State.LOST
        return self.status(self._known(handle(record.handle), record)).state

    def status(self, run: KnownRun) -> JobStatus:
        """How a run is; its end is kept in its record."""
        status = run.backend.status(run.handle)
        if run.record is not None:
            known = run.record.status
            if status.state is State.LOST and known is not None and known.state.is_over:
                return known  # the place has forgotten it meanwhile, as clusters do
            status = replace(status, submitted_s=status.submitted_s or run.record.submitted_s)
            if status.state.is_over and run.record.status != replace(status, nodes=()):
                self.records.end(run.record, replace(status, nodes=()))
        return status

    def wait(self, run: KnownRun, timeout_s: float | None = None) -> JobStatus:
        """The last status of a run; after the timeout, whatever it is."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        pause_s = SOON_S
        status: JobStatus | None = None
        answered_at = time.monotonic()
        while True:
            try:
                status = self.status(run)
                answered_at = time.monotonic()
            except UmiakError as error:
                # A place that has answered before is away for a while, as a network is that a laptop has left.
                if status is None or error.exit_status != Exit.REFUSED or time.monotonic() - answered_at > AWAY_S:
                    raise
            left_s = None if until is None else until - time.monotonic()
            if status.state.is_over or (left_s is not None and left_s <= 0):
                return status
            time.sleep(pause_s if left_s is None else min(pause_s, left_s))
            pause_s = min(LATER_S, pause_s * 1.3)

    def _known(self, asked: Handle, record: RunRecord | None) -> KnownRun:
        return KnownRun(handle=asked, backend=self.backend(self._place_of(asked)), record=record)

    def _place_of(self, asked: Handle) -> NamedPlace:
        """The place of a handle. A backend that needs no settings is found though the project's file is elsewhere, and what is wrong
        with other places keeps nobody from asking about a run."""
        place = self.reading.places.get(asked.place)
        if place is not None and place.backend == asked.backend:
            return place
        if self.reading.problems and asked.backend != LOCAL:
            raise UmiakError(*self.reading.problems)
        from umiak.schema.findings import Place as Spot
        from umiak.schema.yaml_tree import Section
        from umiak.submit.places import NamedPlace

        nothing = Section(place=Spot(source=str(asked)))
        return NamedPlace(name=asked.place, backend=asked.backend, settings=nothing)

    def _record_of(self, asked: Handle) -> RunRecord | None:
        """Of a handle, or of the beginning of one."""
        direct = self.records.read(asked.id) if "/" not in asked.id else None  # mostly it is this one, of 10,000
        if direct is not None and direct.handle == str(asked):
            return direct
        return self._chosen(str(asked), run_choice.with_handle(self.records.all(), str(asked)))


def run_id_of(name: str, key: str | None = None) -> str:
    """An id for a run: random, or always the same one for a key."""
    import hashlib

    part = hashlib.sha256(key.encode()).hexdigest()[:12] if key is not None else os.urandom(4).hex()
    return f"{name[:48]}-{part}"


def digest_of(job: Job, place: str, directory: str) -> str:
    """The same for the same request."""
    import hashlib

    text = json.dumps([_plain(job), place, directory], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def secrets_of(job: Job, environ: Mapping[str, str]) -> Secrets:
    """What must reach the nodes unseen: a token of this run's own, and the secrets that the job names."""
    from umiak.contracts.start import TOKEN

    return Secrets({**{name: environ[name] for name in job.secrets}, TOKEN: os.urandom(16).hex()})


def _wrong_values(job: Job) -> list[Problem]:
    found: list[tuple[str, str]] = []
    if not is_name(job.name):
        found.append((f"not a name of a job: {one_line(job.name, 80) or 'nothing'}", NAME_HINT))
    if not job.roles:
        found.append(("the job has no roles", "leave `roles` out, or name one"))
    if any(not job.command_of(each) for each in job.roles):
        found.append(("the job has no command", 'write `command=("train.py", "--lr", "0.1")`'))
    for each in job.roles:
        if not 1 <= each.nodes.least <= each.nodes.most:
            what = f"{each.role.value}: not a number of nodes: {each.nodes.least} to {each.nodes.most}"
            found.append((what, "write `Replicas(least=2, most=2)`"))
    roles = [each.role for each in job.roles]
    found += [
        (f"the same role twice: {each.value}", "write each role once") for each in {*roles} if roles.count(each) > 1
    ]
    return [Problem(code="UM-SUBMIT-015", what=what, hint=hint) for what, hint in found]


def _leaks(job: Job, environ: Mapping[str, str]) -> list[Problem]:
    """A secret whose value stands in the job itself would be in rendered files and lists of processes."""
    found = []
    texts = [*job.command, *(text for _, text in job.env)]
    for role in job.roles:
        texts += [*role.command, *(text for _, text in role.env)]
    for name in job.secrets:
        secret = environ.get(name, "")
        if len(secret) >= 8 and any(secret in text for text in texts):
            found.append(
                Problem(
                    code="UM-SUBMIT-014",
                    what=f"the value of {name} stands in a command or in `env`",
                    why="arguments and rendered files can be read by others",
                    hint=f"name it in `secrets` and let the program read the variable {name}",
                )
            )
    return found


def _plain(item: Any) -> Any:
    if is_value(item):
        return {name: _plain(getattr(item, name)) for name in fields(item)}
    if isinstance(item, (list, tuple)):
        return [_plain(each) for each in item]
    return item
