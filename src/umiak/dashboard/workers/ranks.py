"""What each worker of a run does now, from all that is known of it. A decider.

    looks = rank_looks(worker_sights, launcher, listed_files, processes, waits, now_s)
    looks[0].phase                    starting, running, waiting, silent, done, failed, stopped
    silent(looks), waiting(looks)     the ones that a person wants to know of first

A journal says that a worker was started; whether it does anything is told by its log, by `umiak.progress()`, and by parameter servers, which know who
waits for whom.
"""

from __future__ import annotations

from umiak.core.value import fields, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from umiak.core.json_types import JsonObject
    from umiak.dashboard.journal_story import WorkerSight
    from umiak.dashboard.run_files import ListedFile

QUIET_S = 120.0
"""A worker that has written nothing for so long is shown as silent."""
PHASES = ("failed", "silent", "waiting", "starting", "running", "stopped", "done")
"""What a person wants to know of first."""


@value
class ProcessSight:
    """A worker as the kernel of this machine sees it."""

    pid: int
    does: str
    """In words: computing, sleeping, ..."""
    cpu_s: float
    memory_bytes: int
    threads: int

    @property
    def data(self) -> JsonObject:
        return {name: getattr(self, name) for name in fields(ProcessSight)}


@value
class RankLook:
    """One worker now."""

    key: str
    launcher: str
    role: str
    rank: int
    host: str
    state: str
    """As the journal has it."""
    phase: str
    starts: int
    since_s: float
    reason: str = ""
    waits: str = ""
    """What it waits for, as the servers tell."""
    wrote_s: float | None = None
    """When it last wrote a line, or said that it gets on."""
    log: str = ""
    """The key of its log among the files."""
    stacks: str = ""
    """The key of the stacks that the launcher had it write."""
    process: ProcessSight | None = None
    """If it runs on this machine."""

    @property
    def name(self) -> str:
        return f"{self.role} {self.rank}"

    @property
    def data(self) -> JsonObject:
        found: JsonObject = {name: getattr(self, name) for name in fields(RankLook)}
        return {**found, "process": self.process.data if self.process else None}


def rank_looks(
    workers: Iterable[WorkerSight],
    launcher: str,
    files: Iterable[ListedFile],
    processes: Mapping[str, ProcessSight],
    waits: Mapping[int, str],
    now_s: float,
    *,
    is_over: bool = False,
) -> list[RankLook]:
    """The workers of one launcher, servers first. ``waits``: by a trainer's rank. ``is_over``: the run is, so that none of them runs any more, also
    where nobody was left to write that down."""
    of_kind = {(each.kind, f"{each.role}.{each.number}"): each for each in files if each.launcher == launcher}
    looks = []
    for worker in sorted(workers, key=lambda each: (each.role != "server", each.role, each.rank)):
        log, stacks = of_kind.get(("log", worker.key)), of_kind.get(("stacks", worker.key))
        progress = of_kind.get(("progress", worker.key))
        wrote = [each.changed_s for each in (log, progress) if each is not None]
        wrote_s = max(wrote, default=None)
        is_up = worker.state in ("starting", "running")
        waits_for = waits.get(worker.rank, "") if worker.role == "trainer" else ""
        looks.append(
            RankLook(
                key=worker.key,
                launcher=launcher,
                role=worker.role,
                rank=worker.rank,
                host=worker.host,
                state=worker.state,
                phase="stopped" if is_over and is_up else _phase(worker, waits_for, wrote_s, now_s),
                starts=worker.starts,
                since_s=worker.since_s,
                reason=worker.reason,
                waits=waits_for if worker.state == "running" else "",
                wrote_s=wrote_s,
                log=log.key if log else "",
                stacks=stacks.key if stacks and stacks.size_bytes else "",
                process=processes.get(worker.key) if worker.state in ("starting", "running") else None,
            )
        )
    return looks


def silent(looks: Iterable[RankLook]) -> list[RankLook]:
    """Those that have written nothing for long, the longest first."""
    return sorted((each for each in looks if each.phase == "silent"), key=lambda each: each.wrote_s or 0.0)


def waiting(looks: Iterable[RankLook]) -> list[RankLook]:
    """Those that wait for others."""
    return [each for each in looks if each.phase == "waiting"]


def _phase(worker: WorkerSight, waits: str, wrote_s: float | None, now_s: float) -> str:
    if worker.state != "running":
        return worker.state
    if waits:
        return "waiting"
    # A server says nothing for hours, and is well.
    is_quiet = worker.role != "server" and wrote_s is not None and now_s - max(wrote_s, worker.since_s) > QUIET_S
    return "silent" if is_quiet else "running"
