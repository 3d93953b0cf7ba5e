"""The runs of `umiak submit` for the dashboard, which does not know that command. An adapter.

runs = SubmittedRuns(Records(state_directory), state_directory)
runs()                      the newest answer; records are read again only if they changed
"""

from __future__ import annotations

import os

from umiak.dashboard.rows import SubmissionSight
from umiak.submit.places import LOCAL
from umiak.submit.records import SUFFIX, Records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.submit.run_record import RunRecord

RUNS = "runs"


class SubmittedRuns:
    """All records of this user, kept as long as their files are the same."""

    def __init__(self, state_directory: str) -> None:
        self._records = Records(state_directory)
        self._directory = os.path.join(state_directory, RUNS)
        self._local = os.path.join(state_directory, LOCAL)
        self._known: dict[str, tuple[int, SubmissionSight]] = {}

    def __call__(self) -> list[SubmissionSight]:
        try:
            entries = list(os.scandir(self._directory))
        except OSError:
            return []
        known: dict[str, tuple[int, SubmissionSight]] = {}
        for entry in entries:
            if not entry.name.endswith(SUFFIX) or entry.name[0] == ".":
                continue
            try:
                stamp = entry.stat(follow_symlinks=False).st_mtime_ns
            except OSError:
                continue
            name = entry.name[: -len(SUFFIX)]
            before = self._known.get(name)
            if before is None or before[0] != stamp:
                record = self._records.read(name)
                before = (stamp, self._run_of(record) if record else _unreadable(name))
            known[name] = before
        self._known = known
        return [run for _, run in known.values()]

    def _run_of(self, record: RunRecord) -> SubmissionSight:
        status = record.status
        is_local = record.backend == LOCAL
        return SubmissionSight(
            run_id=record.run_id,
            name=record.name,
            place=record.place,
            handle=record.handle,
            directory=record.directory,
            submitted_s=record.submitted_s,
            state=status.state.value if status else "",
            reason=status.reason if status else "" if record.handle else "its submission was not completed: repeat it",
            started_s=status.started_s if status else None,
            ended_s=status.ended_s if status else None,
            exit_code=status.exit_code if status else None,
            log_directory=os.path.join(self._local, record.run_id, "log") if is_local else "",
        )


def _unreadable(name: str) -> SubmissionSight:
    return SubmissionSight(
        run_id=name, name=name, place="", state="unreadable", reason="its record can't be understood"
    )
