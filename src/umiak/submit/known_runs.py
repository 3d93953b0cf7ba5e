"""Runs that were submitted: which place each is on, how it is, its lines and its end. A program.

    runs = KnownRuns(context)
    run = runs.find("ctr-3f")
    runs.status(run), runs.logs(run, wanted), runs.wait(run)

A run's record finds its place, wherever it is asked for, and keeps its end:
of a run that is known to be over nobody is asked.
"""

from __future__ import annotations

import time

from umiak.core.decode import Malformed
from umiak.core.job import Handle, handle
from umiak.core.problem import Exit, UmiakError
from umiak.core.status import JobStatus, State
from umiak.core.value import replace, value
from umiak.submit import configuration, place_record, registry, run_choice
from umiak.submit.backend import Reviving
from umiak.submit.logs import reading as log_reading
from umiak.submit.places import LOCAL
from umiak.submit.records import Records
from umiak.submit.run_record import RunRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from umiak.submit.backend import Backend, LogLine, LogsWanted, SubmitContext
    from umiak.submit.places import NamedPlace, PlacesReading

SOON_S, LATER_S = 0.05, 2.0
"""Between two looks at a run that is waited for: first often, then less and less."""
AWAY_S = 300.0
"""A place that is waited for may be unreachable for so long."""
UNREACHABLE = "unreachable"
"""What a place of several hosts says while none of those that matter can be asked."""


@value
class KnownRun:
    """A run that somebody asks about."""

    handle: Handle
    backend: Backend
    record: RunRecord | None = None


class KnownRuns:
    """The places and the runs of one person, seen from one directory."""

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
        UmiakError.raise_any(self.reading.problems)
        return self.reading

    def place(self, name: str | None) -> NamedPlace:
        """A place by its name; none: the default.
        UmiakError with everything that is wrong in the files, also in this place's table.
        """
        wrong = self.reading.problems
        asked = self.reading.places.get(name or self.reading.default)
        if wrong and asked is not None:
            try:
                self.backend(asked)
            except UmiakError as error:
                wrong = (*wrong, *error.problems)
        UmiakError.raise_any(wrong)
        return configuration.place(self.reading, name)

    def backend(self, place: NamedPlace, directory: str = "") -> Backend:
        """``directory``: where its relative paths count from, if not from here."""
        key = place, directory or self.context.directory
        if key not in self._backends:
            self._backends[key] = registry.make(place, replace(self.context, directory=key[1]))
        return self._backends[key]

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
                raise UmiakError.of("UM-SUBMIT-010", str(error), hint=hint) from None
            record = self._record_of(asked)
            if record is None:
                return self._known(asked, None)
        if record is None:
            hint = (
                "`umiak list` prints your runs; for a run of somebody else, or from another machine, write its handle"
            )
            raise UmiakError.of("UM-SUBMIT-012", f"unknown run: {text}", hint=hint)
        if not record.handle:
            raise UmiakError.refused(
                "UM-SUBMIT-013",
                f"the submission of {record.run_id} was not completed",
                why=f"{record.place} has not answered",
                hint=f"repeat the same `umiak submit` in {record.directory}",
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
        """The runs on the place that this file describes, as far as they are not over;
        the ends of the others are kept now.
        """
        runs = []
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
                runs.append(run)
        return runs

    def lose(self, run: KnownRun, reason: str) -> None:
        """Keep that nobody can know any more how a run ended."""
        if run.record is not None:
            status = JobStatus(state=State.LOST, reason=reason, submitted_s=run.record.submitted_s)
            self.records.end(run.record, status)

    def logs(self, run: KnownRun, wanted: LogsWanted) -> Iterator[LogLine]:
        """The lines of a run. Of one that is known to be over no more come:
        they are there, or an error says why not.
        """
        record = run.record
        if record is None or not record.is_final:
            yield from log_reading.lines(run.backend, run.handle, wanted)
            return
        try:
            yield from log_reading.lines(run.backend, run.handle, replace(wanted, follow=False))
        except UmiakError as error:
            first = error.problems[0]
            state = record.status.state.value if record.status else ""
            raise UmiakError.refused(
                "UM-SUBMIT-360",
                f"the lines of {run.handle} can't be read",
                why=f"{first.what} [{first.code}]{f': {first.why}' if first.why else ''}",
                hint=f"the run is over ({state}), and `umiak status {run.handle}` shows what was kept; "
                "its lines are with its place alone",
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
        """The place of a run: as its record has it, so that another project's place of the same name never speaks for
        it. Records of older versions don't have it: the file of the directory where the job was submitted counts, else
        that of this one.
        """
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
    """In place of a backend that can't be had any more, of a run whose end is known:
    every question is answered by the reason.
    """

    def __init__(self, error: UmiakError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error
