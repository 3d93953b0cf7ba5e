"""From a job to a run: check, render, submit, and a record of it. A program.

    flow = Flow(context)
    flow.check(job, place), flow.render(job, place, run_id)     what a dry run shows
    submitted = flow.submit(job, place)                         starts it, once
    flow.told(submitted)                                        the person has seen the handle

A submission whose client ended before it could tell the handle is found when the same job is submitted again soon: it is completed,
or its handle is told, and nothing is started twice (`repeats` has the rule).

A run's record finds its place, wherever it is asked for, and keeps its end: of a run that is known to be over nobody is asked.
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
from umiak.core.status import JobStatus, State
from umiak.core.value import fields, is_value, replace, value
from umiak.submit import configuration, place_record, registry, repeats, run_choice
from umiak.submit.backend import AnswerLost, OfflineCheck, Pinning, Reviving, Secrets, Sizing, Submission
from umiak.submit.places import LOCAL
from umiak.submit.records import Records
from umiak.submit.run_record import RunRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from umiak.core.bundle import Bundle
    from umiak.core.job import Job
    from umiak.submit.backend import Backend, LogLine, LogsWanted, SubmitContext
    from umiak.submit.places import NamedPlace, PlacesReading

SOON_S, LATER_S = 0.05, 2.0
"""Between two looks at a run that is waited for: first often, then less and less."""
AWAY_S = 300.0
"""A place that is waited for may be unreachable for so long."""
NAME_HINT = "use up to 64 letters, digits, `-`, `_` and `.`"
UNREACHABLE = "unreachable"
"""What a place of several hosts says while none of those that matter can be asked."""
DRY = "dry-run"
"""In place of the random part of a run's id, so that two dry runs print the same."""


@value
class Submitted:
    """A run, and whether it was there before."""

    record: RunRecord
    handle: Handle
    is_repeated: bool = False
    """An earlier submission of the same job whose answer got lost, or one with the same key."""
    unrecorded: Problem | None = None
    """Why its handle could not be written down: it was started all the same."""


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
        self._readings: dict[str, PlacesReading] = {}
        self._backends: dict[tuple[NamedPlace, str], Backend] = {}

    @property
    def reading(self) -> PlacesReading:
        """All places, also if something is wrong in their files."""
        return self._reading_of(self.context.directory)

    def _reading_of(self, directory: str) -> PlacesReading:
        """All places as somebody in this directory sees them."""
        if directory not in self._readings:
            self._readings[directory] = configuration.read(replace(self.context, directory=directory))
        return self._readings[directory]

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

    def backend(self, place: NamedPlace, directory: str = "") -> Backend:
        """``directory``: where its relative paths count from, if not from here."""
        key = place, directory or self.context.directory
        if key not in self._backends:
            self._backends[key] = registry.make(place, replace(self.context, directory=key[1]))
        return self._backends[key]

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
        from umiak.submit.payload import made_of

        self.records.prepare()
        backend = self.backend(place)
        pinned = backend.pinned() if isinstance(backend, Pinning) else {}
        fresh = RunRecord(
            run_id=run_id_of(job.name, key),
            name=job.name,
            place=place.name,
            backend=place.backend,
            directory=self.context.directory,
            digest=digest_of(job, place.name, self.context.directory),
            submitted_s=time.time(),
            place_file=self.records.keep_place(place_record.plain_of(place, pinned)),
            files=made_of.content_hash(job, self.context.directory),
        )
        earlier = self._unanswered(fresh) if key is None else self._with_key(fresh, key)
        for record in earlier:
            submitted = self._sent(job, place, record)
            if key is None and (why := self._why_over(submitted.record)):
                self._tell_another(submitted.record, why)
                continue
            return replace(submitted, is_repeated=True)
        return self._sent(job, place, fresh)

    def told(self, submitted: Submitted) -> None:
        """The person has seen the handle: the same job submitted again is another run."""
        if submitted.unrecorded is None:
            self.records.told(submitted.record)

    def _unanswered(self, fresh: RunRecord) -> Iterator[RunRecord]:
        """Earlier submissions of just this that nobody has seen the answer of."""
        request = repeats.Request(place_file=fresh.place_file, files=fresh.files, now_s=fresh.submitted_s)
        for record in self.records.unanswered(fresh.digest):
            if why := repeats.why_another(record, request):
                self._tell_another(record, why)
            else:
                yield record

    def _why_over(self, record: RunRecord) -> str:
        try:
            return repeats.why_over(self._state_of(record))
        except UmiakError:
            return ""  # nobody knows, and nothing may be started twice

    def _tell_another(self, record: RunRecord, why: str) -> None:
        self.context.tell(
            f"note: {record.handle or record.run_id} was submitted before, and nobody saw its handle; "
            f"this is a new run, because {why}"
        )
        self.records.told(record)

    def _with_key(self, fresh: RunRecord, key: str) -> list[RunRecord]:
        found = self.records.read(fresh.run_id)
        if found is None:
            return []
        is_other = found.digest != fresh.digest
        if is_other or repeats.other_files(found, fresh.files):
            what = "another command, place or directory" if is_other else "other files"
            raise UmiakError(
                Problem(
                    code="UM-SUBMIT-009",
                    what=f"the key was used for another job: {key}",
                    why=f"{found.handle or found.run_id} has {what}",
                    hint="use another key for another job, or for the same one with changed files",
                )
            )
        return [found]

    def _sent(self, job: Job, place: NamedPlace, record: RunRecord) -> Submitted:
        unrecorded = None
        if not record.handle:
            record = self._send(job, place, record)
            try:
                self.records.write(record)
            except UmiakError as error:
                unrecorded = error.problems[0]
        return Submitted(record=record, handle=handle(record.handle), unrecorded=unrecorded)

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
        return replace(record, handle=str(given))

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
        """How a run is. Its end is kept in its record, and is final: its place is not asked any more then."""
        record = run.record
        if record is None:
            return run.backend.status(run.handle)
        known = self.records.ended(record)
        if known is not None and record.is_final:
            return known
        try:
            status = run.backend.status(run.handle)
        except UmiakError:
            if known is None:
                raise
            return known  # it is lost, and its place does not know better
        if known is not None and (status.state is State.LOST or status.said == UNREACHABLE):
            return known
        status = replace(status, submitted_s=status.submitted_s or record.submitted_s)
        self._keep(run, record, status)
        return status

    def _keep(self, run: KnownRun, record: RunRecord, status: JobStatus) -> None:
        is_over = status.state.is_over
        if is_over and isinstance(run.backend, Reviving) and run.backend.may_come_back(status):
            return
        if not is_over and record.status is None:
            return
        try:
            self.records.end(record, status if is_over else None)
        except UmiakError as error:  # the answer is as good without
            for line in error.problems[0].lines("warning"):
                self.context.tell(line)

    def unfinished_at(self, source: str) -> list[KnownRun]:
        """The runs on the place that this file describes, as far as they are not over; the ends of the others are kept now."""
        found = []
        for record in self.records.all():
            kept = self.records.place(record.place_file) if record.place_file and not record.is_final else None
            if kept is None or kept[0].settings.place.source != source or not record.handle:
                continue
            try:
                run = self._known(handle(record.handle), record)
                is_over = self.status(run).state.is_over
            except UmiakError:
                is_over = False
            if not is_over:
                found.append(run)
        return found

    def lose(self, run: KnownRun, reason: str) -> None:
        """Keep that nobody can know any more how a run ended."""
        if run.record is not None:
            status = JobStatus(state=State.LOST, reason=reason, submitted_s=run.record.submitted_s)
            self.records.end(run.record, status)

    def logs(self, run: KnownRun, wanted: LogsWanted) -> Iterator[LogLine]:
        """The lines of a run. Of one that is known to be over no more come: they are there, or an error says why not."""
        record = run.record
        if record is None or not record.is_final:
            yield from run.backend.logs(run.handle, wanted)
            return
        try:
            yield from run.backend.logs(run.handle, replace(wanted, follow=False))
        except UmiakError as error:
            first = error.problems[0]
            state = record.status.state.value if record.status else ""
            raise UmiakError(
                Problem(
                    code="UM-SUBMIT-360",
                    what=f"the lines of {run.handle} can't be read",
                    why=f"{first.what} [{first.code}]{f': {first.why}' if first.why else ''}",
                    hint=f"the run is over ({state}), and `umiak status {run.handle}` shows what was kept; "
                    "its lines are with its place alone",
                ),
                exit_status=Exit.REFUSED,
            ) from None

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
        directory = record.directory if record else self.context.directory
        backend: Any
        try:
            backend = self.backend(self._place_of(asked, record), directory)
        except UmiakError as error:
            if record is None or not record.is_final:
                raise
            backend = _NoBackend(error)
        return KnownRun(handle=asked, backend=backend, record=record)

    def _place_of(self, asked: Handle, record: RunRecord | None) -> NamedPlace:
        """The place of a run: as its record has it, so that another project's place of the same name never speaks for it. Records of
        older versions don't have it: the file of the directory where the job was submitted counts, else that of this one."""
        kept = self.records.place(record.place_file) if record and record.place_file else None
        if kept is not None and record is not None:
            place, hidden = kept
            today = self._reading_of(record.directory).places.get(place.name) if hidden else None
            return place_record.with_secrets(place, hidden, today)
        for reading in (*([self._reading_of(record.directory)] if record else []), self.reading):
            found = reading.places.get(asked.place)
            if found is not None and found.backend == asked.backend:
                return found
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


class _NoBackend:
    """In place of a backend that can't be had any more, of a run whose end is known: every question is answered by the reason."""

    def __init__(self, error: UmiakError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


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
