"""The runs that this user submitted, one small file each, below the state directory. An adapter.

    runs/ctr-3f2a9c.json            what was submitted where, and how it ended once that is known
    runs/nodes/ctr-3f2a9c.json      how its nodes ended
    runs/places/HASH.json           the settings of its place, as they were: one file for all runs with the same ones
    runs/pending/DIGEST.ctr-3f2a9c  a submission whose answer the person has not seen yet

A run is found by its handle alone where this directory is gone, as long as its place is described; records make lists
fast, repeated submissions safe, and an end final. A record fits into the smallest piece of a disk: what is added to it
later has room on a full one.
"""

from __future__ import annotations

import json
import os

from umiak.adapters import identity, private_files
from umiak.core.decode import Malformed, decode, encode
from umiak.core.problem import DISK_FULL, UmiakError, free_space
from umiak.core.status import NodeStatus
from umiak.core.value import replace
from umiak.submit import place_record
from umiak.submit.run_record import from_plain, to_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.core.json_types import JsonObject
    from umiak.core.status import JobStatus
    from umiak.submit.places import NamedPlace
    from umiak.submit.run_record import RunRecord

SUFFIX = ".json"
PENDING, NODES, PLACES = "pending", "nodes", "places"
LARGEST = 1 << 15
"""In bytes. A record has some hundreds."""
BLOCK = 4096
"""File systems give room in pieces of this size."""
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


class Records:
    """The files of all runs."""

    def __init__(self, state_directory: str) -> None:
        self._path = os.path.join(state_directory, "runs")
        self._pending, self._nodes, self._places = (os.path.join(self._path, name) for name in (PENDING, NODES, PLACES))

    def prepare(self) -> None:
        """Make the directories. UmiakError if they can't be had."""
        try:
            for path in (os.path.dirname(self._path), self._path, self._pending, self._nodes, self._places):
                private_files.make_directory(path)
        except OSError as error:
            raise self._unwritable(error) from None

    def write(self, record: RunRecord) -> None:
        """UmiakError if it can't be written. On a full disk a record is changed in its place."""
        path, text = self._file(record.run_id), json.dumps(to_plain(record))
        try:
            private_files.write(path, text)
        except OSError as error:
            if error.errno not in DISK_FULL or not _overwritten(path, text.encode()):
                raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> UmiakError:
        is_full = error.errno in DISK_FULL
        return UmiakError.refused(
            "UM-SUBMIT-007",
            f"runs can't be recorded: {self._path}",
            why=error.strerror,
            hint=free_space("set XDG_STATE_HOME to a directory on another disk", f"df -h {self._path}")
            if is_full
            else "set XDG_STATE_HOME to a directory that you can write to",
        )

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
        records = []
        for name in self._names():
            record = self.read(name)
            if record is not None:
                records.append(record)
        return sorted(records, key=lambda record: record.submitted_s, reverse=True)

    def named(self, start: str) -> list[str]:
        """The ids of runs that begin so; the one that is just this, if there is one."""
        names = self._names()
        return [start] if start in names else sorted(name for name in names if name.startswith(start))

    def end(self, record: RunRecord, status: JobStatus | None) -> RunRecord:
        """Keep how a run ended; None: it goes on after all. UmiakError if that can't be written."""
        if status is not None and status.nodes:
            try:
                private_files.make_directory(self._nodes)
                text = json.dumps([encode(each) for each in status.nodes])
                private_files.write(os.path.join(self._nodes, f"{record.run_id}{SUFFIX}"), text)
            except OSError:
                pass  # the end itself counts, and needs less room
        ended = replace(record, status=None if status is None else replace(status, nodes=()))
        self.write(ended)
        return ended

    def ended(self, record: RunRecord) -> JobStatus | None:
        """How a run ended, as far as it was kept, with its nodes."""
        if record.status is None:
            return None
        nodes: tuple[NodeStatus, ...] = ()
        try:
            with open(os.path.join(self._nodes, f"{record.run_id}{SUFFIX}"), "rb") as file:
                nodes = tuple([decode(NodeStatus, each) for each in json.loads(file.read())])
        except (*_UNREADABLE, Malformed):
            pass  # of an older version, or of a disk that was full
        return replace(record.status, nodes=nodes)

    def keep_place(self, data: JsonObject) -> str:
        """Keep the settings of a place; the name of their file. UmiakError if they can't be written."""
        import hashlib

        text = json.dumps(data)
        name = hashlib.sha256(text.encode()).hexdigest()[:24]
        path = os.path.join(self._places, f"{name}{SUFFIX}")
        try:
            if not os.path.exists(path):
                private_files.write(path, text)
        except OSError as error:
            raise self._unwritable(error) from None
        return name

    def place(self, name: str) -> tuple[NamedPlace, list[str]] | None:
        """A place that was kept, and which of its settings were not; None if it can't be understood."""
        try:
            with open(os.path.join(self._places, f"{name}{SUFFIX}"), "rb") as file:
                data = json.loads(file.read())
            return place_record.place_of(data), [str(each) for each in data["hidden"]]
        except _UNREADABLE:
            return None

    def begin(self, record: RunRecord) -> None:
        """This process submits the run; until `told`, nobody has seen the answer.
        UmiakError if that can't be written.
        """
        own = identity.of(os.getpid())
        # First: a record without this file, left by a client that was killed, would never be completed.
        try:
            private_files.write(self._pending_file(record), json.dumps(own.to_plain() if own else {}))
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self.write(record)
        except UmiakError:
            self.told(record)
            raise

    def give_up(self, record: RunRecord) -> None:
        """This process does not know whether the run was started:
        the next submission of the same job goes on with it.
        """
        try:
            private_files.write(self._pending_file(record), "{}")
        except OSError:
            pass  # what `begin` wrote says the same when this process has ended

    def told(self, record: RunRecord) -> None:
        """The person has the answer."""
        private_files.remove(self._pending_file(record))

    def unanswered(self, digest: str) -> Iterator[RunRecord]:
        """Submissions of just this whose client ended before the person saw the answer."""
        try:
            names = sorted(name for name in os.listdir(self._pending) if name.startswith(f"{digest}."))
        except FileNotFoundError:
            return
        for name in names:
            if self._is_submitted_now(name):
                continue
            record = self.read(name.partition(".")[2])
            if record is not None:
                yield record
            else:  # its client was killed before it wrote the record
                private_files.remove(os.path.join(self._pending, name))

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
            names = os.listdir(self._path)
        except FileNotFoundError:
            return []
        return [name[: -len(SUFFIX)] for name in names if name.endswith(SUFFIX) and name[0] != "."]

    def _file(self, run_id: str) -> str:
        return f"{self._path}/{run_id}{SUFFIX}"

    def _pending_file(self, record: RunRecord) -> str:
        return os.path.join(self._pending, f"{record.digest}.{record.run_id}")


def _overwritten(path: str, data: bytes) -> bool:
    """Whether a file could be changed where it is, without more room: at once, since it is one piece of the disk."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        data = data.ljust(os.fstat(fd).st_size)  # JSON may end with spaces
        if len(data) > BLOCK or os.pwrite(fd, data, 0) != len(data):
            return False
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
