"""The runs that this user submitted, one small file each, below the state directory. An adapter.

    runs/ctr-3f2a9c.json            what was submitted where, and how it ended once that is known
    runs/pending/DIGEST.ctr-3f2a9c  a submission whose answer the person has not seen yet

A run is found by its handle alone where this directory is gone; records make lists fast and repeated submissions safe.
"""

from __future__ import annotations

import json
import os

from umiak.adapters import identity, private_files
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import replace
from umiak.submit.run_record import from_plain, to_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.status import JobStatus
    from umiak.submit.run_record import RunRecord

SUFFIX = ".json"
PENDING = "pending"
LARGEST = 1 << 15
"""In bytes. A record has some hundreds."""
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


class Records:
    """The files of all runs."""

    def __init__(self, state_directory: str) -> None:
        self._path = os.path.join(state_directory, "runs")
        self._pending = os.path.join(self._path, PENDING)

    def prepare(self) -> None:
        """Make the directories. UmiakError if they can't be had."""
        try:
            for path in (os.path.dirname(self._path), self._path, self._pending):
                private_files.make_directory(path)
        except OSError as error:
            raise UmiakError(
                Problem(
                    code="UM-SUBMIT-007",
                    what=f"runs can't be recorded: {error.filename or self._path}",
                    why=error.strerror,
                    hint="set XDG_STATE_HOME to a directory that you can write to",
                ),
                exit_status=Exit.REFUSED,
            ) from None

    def write(self, record: RunRecord) -> None:
        private_files.write(self._file(record.run_id), json.dumps(to_plain(record)))

    def read(self, run_id: str) -> RunRecord | None:
        """None if there is none, or it can't be understood."""
        try:
            fd = os.open(self._file(run_id), os.O_RDONLY | os.O_CLOEXEC)  # half the time of `open`, for 10,000 of them
            try:
                text = os.read(fd, LARGEST)
            finally:
                os.close(fd)
            return from_plain(json.loads(text.decode()))
        except _UNREADABLE:
            return None

    def remove(self, run_id: str) -> None:
        private_files.remove(self._file(run_id))

    def all(self) -> list[RunRecord]:
        """Every record that can be understood, the newest first."""
        found = []
        for name in self._names():
            record = self.read(name)
            if record is not None:
                found.append(record)
        return sorted(found, key=lambda record: record.submitted_s, reverse=True)

    def named(self, start: str) -> list[str]:
        """The ids of runs that begin so; the one that is just this, if there is one."""
        names = self._names()
        return [start] if start in names else sorted(name for name in names if name.startswith(start))

    def end(self, record: RunRecord, status: JobStatus) -> RunRecord:
        """Keep how a run ended."""
        ended = replace(record, status=status)
        self.write(ended)
        return ended

    def begin(self, record: RunRecord) -> None:
        """This process submits the run; until `told`, nobody has seen the answer."""
        own = identity.of(os.getpid())
        # First: a record without this file, left by a client that was killed, would never be completed.
        private_files.write(self._pending_file(record), json.dumps(own.to_plain() if own else {}))
        self.write(record)

    def give_up(self, record: RunRecord) -> None:
        """This process does not know whether the run was started: the next submission of the same job goes on with it."""
        private_files.write(self._pending_file(record), "{}")

    def told(self, record: RunRecord) -> None:
        """The person has the answer."""
        private_files.remove(self._pending_file(record))

    def unanswered(self, digest: str) -> RunRecord | None:
        """A submission of just this whose client ended before the person saw the answer."""
        try:
            names = sorted(name for name in os.listdir(self._pending) if name.startswith(f"{digest}."))
        except FileNotFoundError:
            return None
        for name in names:
            if self._is_submitted_now(name):
                continue
            record = self.read(name.partition(".")[2])
            if record is not None:
                return record
            private_files.remove(os.path.join(self._pending, name))  # its client was killed before it wrote the record
        return None

    def is_submitting(self, record: RunRecord) -> bool:
        """Whether a client submits it right now."""
        return self._is_submitted_now(os.path.basename(self._pending_file(record)))

    def _is_submitted_now(self, name: str) -> bool:
        try:
            with open(os.path.join(self._pending, name), "rb") as file:
                return identity.is_alive(identity.ProcessIdentity.from_plain(json.loads(file.read())))
        except _UNREADABLE:
            return False

    def _names(self) -> list[str]:
        try:
            found = os.listdir(self._path)
        except FileNotFoundError:
            return []
        return [name[: -len(SUFFIX)] for name in found if name.endswith(SUFFIX) and name[0] != "."]

    def _file(self, run_id: str) -> str:
        return f"{self._path}/{run_id}{SUFFIX}"

    def _pending_file(self, record: RunRecord) -> str:
        return os.path.join(self._pending, f"{record.digest}.{record.run_id}")
