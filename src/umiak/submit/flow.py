"""From a job to a run: check, render, submit, and a record of it. A program.

    flow = Flow(context)
    flow.dry_run(job, place)                                    what it would write, send and run
    flow.check(job, place)                                      everything that is wrong
    submitted = flow.submit(job, place)                         starts it, once
    flow.told(submitted)                                        the person has seen the handle

A submission whose client ended before it could tell the handle is found when the same job is submitted again soon: it
is completed, or its handle is told, and nothing is started twice (`repeats` has the rule). Runs that are there are
asked about as `KnownRuns` does it.
"""

from __future__ import annotations

import json
import os
import time

from umiak.core.job import Handle, handle
from umiak.core.problem import Problem, UmiakError
from umiak.core.value import fields, is_value, replace, value
from umiak.submit import place_record, run_choice
from umiak.submit.backend import AnswerLost, Pinning, Secrets, Sizing, Submission
from umiak.submit.jobs import checks, dry_run
from umiak.submit.known_runs import KnownRun, KnownRuns
from umiak.submit.run_record import RunRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from umiak.core.job import Job
    from umiak.submit.jobs.dry_run import SubmissionPlan
    from umiak.submit.places import NamedPlace

__all__ = ["Flow", "KnownRun", "KnownRuns", "Submitted"]


@value
class Submitted:
    """A run, and whether it was there before."""

    record: RunRecord
    handle: Handle
    is_repeated: bool = False
    """An earlier submission of the same job whose answer got lost, or one with the same key."""
    unrecorded: Problem | None = None
    """Why its handle could not be written down: it was started all the same."""


class Flow(KnownRuns):
    """Submits jobs and finds runs, for one person in one place."""

    def sized(self, job: Job, place: NamedPlace) -> Job:
        """A job that does not say how many nodes it has, on a place whose settings may: `Sizing`."""
        backend = self.backend(place)
        return backend.sized(job) if isinstance(backend, Sizing) else job

    def check(self, job: Job, place: NamedPlace) -> list[Problem]:
        """Everything that is wrong, at once."""
        unset = checks.unset_secrets(job, self.context.environ)
        if wrong := checks.wrong_values(job):
            return [*wrong, *unset]
        problems = [*checks.leaks(job, self.context.environ), *checks.refused(job, place.backend, place.name)]
        return [*unset, *problems, *self.backend(place).check(job)]

    def warnings(self, job: Job, place: NamedPlace) -> list[Problem]:
        """What a person should know about a job that is submitted all the same."""
        return dry_run.warnings(job, place, self.backend(place))

    def dry_run(self, job: Job, place: NamedPlace) -> SubmissionPlan:
        """What a submission would write, send and run. UmiakError with everything that is wrong with the job."""
        return dry_run.make(job, place, self.backend(place), self.context)

    def submit(self, job: Job, place: NamedPlace, *, key: str | None = None) -> Submitted:
        """Start a job that was checked.
        With the same ``key`` again it is the same run, however often it is asked for.
        """
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
        request = run_choice.RepeatedRequest(place_file=fresh.place_file, files=fresh.files, now_s=fresh.submitted_s)
        for record in self.records.unanswered(fresh.digest):
            if why := run_choice.why_another(record, request):
                self._tell_another(record, why)
            else:
                yield record

    def _why_over(self, record: RunRecord) -> str:
        try:
            return run_choice.why_over(self._state_of(record))
        except UmiakError:
            return ""  # nobody knows, and nothing may be started twice

    def _tell_another(self, record: RunRecord, why: str) -> None:
        self.context.tell(
            f"note: {record.handle or record.run_id} was submitted before, and nobody saw its handle; "
            f"this is a new run, because {why}"
        )
        self.records.told(record)

    def _with_key(self, fresh: RunRecord, key: str) -> list[RunRecord]:
        record = self.records.read(fresh.run_id)
        if record is None:
            return []
        is_other = record.digest != fresh.digest
        if is_other or run_choice.other_files(record, fresh.files):
            what = "another command, place or directory" if is_other else "other files"
            raise UmiakError.of(
                "UM-SUBMIT-009",
                f"the key was used for another job: {key}",
                why=f"{record.handle or record.run_id} has {what}",
                hint="use another key for another job, or for the same one with changed files",
            )
        return [record]

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
            bundle=self.backend(place).render(job, record.run_id),
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


def _plain(item: Any) -> Any:
    if is_value(item):
        return {name: _plain(getattr(item, name)) for name in fields(item)}
    if isinstance(item, (list, tuple)):
        return [_plain(each) for each in item]
    return item
