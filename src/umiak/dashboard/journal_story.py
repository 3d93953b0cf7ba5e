"""What a launcher's journal says about a run: generations with the cause of each restart, workers, failures, the end. A decider.

    story = JournalStory()
    for line in lines:
        story.feed(line)
    story.generations, story.workers, story.failures

Times of a journal are of a clock that begins anywhere; they are turned into seconds since 1970 here. A line that can't be understood is
counted and left out: a journal of another version, or one whose disk was full, still shows what it can.
"""

from __future__ import annotations

from umiak.core import light_json
from umiak.core.shown import signal_name
from umiak.core.value import replace, value
from umiak.dashboard.finite import time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping, JsonObject

MOST_FAILURES = 100
MOST_GENERATIONS = 1000
LONGEST_TEXT = 4000


@value
class GenerationSpan:
    """One formation of the job."""

    number: int
    nodes: int
    workers: int
    began_s: float
    ended_s: float | None = None
    cause: str = ""
    """Why it ended."""


@value
class WorkerSight:
    """One worker of the newest generation."""

    key: str
    """Such as ``trainer.0``: its name on its node."""
    role: str
    rank: int
    node: str
    host: str
    state: str
    """starting, running, done, failed, stopped."""
    generation: int
    starts: int = 1
    since_s: float = 0.0
    reason: str = ""


@value
class FailureSight:
    """One failure, the first first."""

    at_s: float
    generation: int
    worker: str
    node: str
    host: str
    rank: int | None
    role: str
    text: str
    """How it ended, in words."""
    error: str = ""
    """The last line of its traceback, or of its log."""
    excerpt: str = ""
    again_s: float | None = None
    """When the worker was started again, alone, in the same generation."""

    @property
    def who(self) -> str:
        """Such as ``trainer 1 on node 10.0.0.2``."""
        worker = f"{self.role} {self.rank}" if self.role and self.rank is not None else self.worker
        node = self.host or self.node
        if not worker:
            return f"node {node}"
        return f"{worker} on node {node}" if node else worker


class JournalStory:
    """Fed with the lines of one journal. What it has is of the newest run in it."""

    def __init__(self) -> None:
        self.bad_lines = 0
        self._reset()

    def _reset(self) -> None:
        self.run = ""
        self.job_id = ""
        self.mode = ""
        self.began_s = 0.0
        self.least = self.most = 1
        self.settings: JsonObject = {}
        self.waiting = ""
        self.generations: list[GenerationSpan] = []
        self.workers: dict[str, WorkerSight] = {}
        self.failures: list[FailureSight] = []
        self.exit_status: int | None = None
        self.words = self.code = self.hint = ""
        self._clock: float | None = None
        self._sizes: dict[str, tuple[int, int, int]] = {}

    def feed(self, line: bytes | str) -> None:
        """One line, which need not be a whole one."""
        try:
            entry = light_json.loads(line)
            self._take(dict(entry))  # a list is no entry
        except (ValueError, OverflowError, TypeError, KeyError, AttributeError, RecursionError):
            self.bad_lines += 1

    def _take(self, entry: JsonMapping) -> None:
        if "run" in entry:
            self._begin(entry)
        elif "formation" in entry:
            self._sizes[str(entry["formation"])] = _size_of(entry["cluster"])
        elif "event" in entry:
            now_s = self._wall(time_of(entry["t"]))
            event, actions = entry["event"], entry.get("actions", ())
            if entry["who"] == "node":
                self._node_event(now_s, event, actions)
            else:
                self._master_event(now_s, event)

    def _begin(self, entry: JsonMapping) -> None:
        self._reset()
        self.run, self.began_s = str(entry["run"]), time_of(entry["wall"])
        terms = entry["setting"]["terms"]
        self.settings = {f"launch.{name}": each for name, each in terms.items() if _is_plain(each)}
        self.job_id, self.mode = str(terms.get("job_id", "")), str(terms.get("mode", ""))
        self.least, self.most = int(terms.get("least", 1)), int(terms.get("most", 1))

    def _wall(self, t: float) -> float:
        if self._clock is None:
            self._clock = t
        return self.began_s + (t - self._clock)

    # ---- events

    def _node_event(self, now_s: float, event: JsonMapping, actions: object) -> None:
        kind = event["is"]
        if kind == "MessageFromMaster":
            self._message(now_s, event["message"])
        elif kind == "WorkerExited":
            self._exited(now_s, event)
        elif kind == "WorkerHung":
            self._failed(event["failure"], int(event["generation"]), "hung")
            self._set(str(event["key"]), state="failed", since_s=now_s, reason="hung")
        for action in actions if isinstance(actions, list) else ():
            if action["is"] == "StartWorkers":
                self._started(now_s, action)
            elif action["is"] == "Exit":
                self._ended(now_s, action)

    def _message(self, now_s: float, message: JsonMapping) -> None:
        match message["is"]:
            case "Waiting":
                self.waiting = str(message["text"])[:LONGEST_TEXT]
            case "Form":
                self._formed(now_s, str(message["cluster"]["formation"]))
            case "Stop":
                self._close(now_s, str(message.get("why", "")))
            case "RestartWorker":
                key = str(message["key"])
                worker = self.workers.get(key)
                self._set(key, state="starting", since_s=now_s, starts=worker.starts + 1 if worker else 1)
                self._again(key, now_s)
            case "Finish":
                self._close(now_s, "")

    def _formed(self, now_s: float, formation: str) -> None:
        self.waiting = ""
        number, nodes, workers = self._sizes[formation]
        self._close(now_s, "")
        self.generations.append(GenerationSpan(number=number, nodes=nodes, workers=workers, began_s=now_s))
        del self.generations[:-MOST_GENERATIONS]
        self.workers = {}

    def _close(self, now_s: float, cause: str) -> None:
        last = self.generations[-1] if self.generations else None
        if last is not None and last.ended_s is None:
            self.generations[-1] = replace(last, ended_s=now_s, cause=cause[:LONGEST_TEXT])

    def _started(self, now_s: float, action: JsonMapping) -> None:
        number = self.generations[-1].number if self.generations else 0
        for seat in action["seats"]:
            role, rank = str(seat["role"]), int(seat["rank"])
            key = f"{role}.{int(seat['local_rank'])}"
            earlier = self.workers.get(key)
            self.workers[key] = WorkerSight(
                key=key,
                role=role,
                rank=rank,
                node=str(seat.get("node", "")),
                host=str(seat.get("host", "")),
                state="running",
                generation=number,
                starts=earlier.starts if earlier else 1,
                since_s=now_s,
            )

    def _exited(self, now_s: float, event: JsonMapping) -> None:
        key, failure = str(event["key"]), event.get("failure")
        if failure is None:
            self._set(key, state="done", since_s=now_s)
            return
        text = how_it_ended(failure)
        is_stopped = bool(self.generations) and self.generations[-1].ended_s is not None
        self._set(key, state="stopped" if is_stopped else "failed", since_s=now_s, reason=text)
        if not is_stopped:
            self._failed(failure, int(event["generation"]), text)

    def _master_event(self, now_s: float, event: JsonMapping) -> None:
        if event["is"] in ("NodeClosed", "NodeSilent"):
            name = str(event["name"])
            if self.exit_status is None and self.generations and self.generations[-1].ended_s is None:
                lost = {"kind": "node-lost", "at": event.get("at") or now_s, "node": name, "host": ""}
                self._failed(lost, self.generations[-1].number, "was lost")
            return
        if event["is"] != "MessageFromNode":
            return
        message = event["message"]
        if message["is"] == "Failed":
            self._failed(message["failure"], int(message["generation"]), how_it_ended(message["failure"]))

    def _failed(self, failure: JsonMapping, generation: int, text: str) -> None:
        sight = FailureSight(
            at_s=time_of(failure.get("at") or 0.0),
            generation=generation,
            worker=str(failure.get("key") or ""),
            node=str(failure.get("node") or ""),
            host=str(failure.get("host") or ""),
            rank=failure.get("rank"),
            role=str(failure.get("role") or ""),
            text=text,
            error=_last_line(str(failure.get("traceback") or failure.get("log_end") or "")),
            excerpt=str(failure.get("traceback") or failure.get("log_end") or "")[-LONGEST_TEXT:],
        )
        if all(replace(each, again_s=None) != sight for each in self.failures):
            self.failures.append(sight)
            if len(self.failures) > MOST_FAILURES:
                del self.failures[MOST_FAILURES // 2]  # the first ones tell how it began, the last ones how it is now

    def _again(self, key: str, now_s: float) -> None:
        """What failed of this worker is not the end of it."""
        self.failures = [
            replace(each, again_s=now_s) if each.worker == key and each.again_s is None else each
            for each in self.failures
        ]

    def _ended(self, now_s: float, action: JsonMapping) -> None:
        self.exit_status = int(action["status"])
        self._close(now_s, "")
        fatal = next((each for each in self.failures if each.again_s is None), None)
        last = self.generations[-1] if self.generations else None
        if self.exit_status and fatal is not None and last and not last.cause and fatal.generation == last.number:
            self.generations[-1] = replace(last, cause=f"{fatal.who} {fatal.text}")
        self.words, self.code, self.hint = (str(action.get(name) or "") for name in ("words", "code", "hint"))
        for key, worker in self.workers.items():
            if worker.state in ("running", "starting"):
                self._set(key, state="stopped" if self.exit_status else "done", since_s=now_s)

    def _set(self, key: str, **changes: object) -> None:
        if key in self.workers:
            self.workers[key] = replace(self.workers[key], **changes)


def how_it_ended(failure: JsonMapping) -> str:
    """In words, without who."""
    match failure.get("kind"):
        case "hung":
            return "made no progress"
        case "node-lost":
            return "was lost"
        case "node-left":
            return "left"
        case "not-started":
            return f"could not be started: {failure.get('what') or ''}".rstrip(": ")
    if failure.get("out_of_memory"):
        return "was killed: out of memory"
    if failure.get("signal") is not None:
        return f"was killed by {signal_name(int(failure['signal']))}"
    return f"failed with exit code {failure.get('exit_code')}"


def _size_of(cluster: JsonMapping) -> tuple[int, int, int]:
    """Generation, nodes and workers. Columns of nodes are lists, or one number for all of them, or runs of equal steps."""
    size = int(cluster["size"])
    nodes = cluster.get("nodes", {})
    workers = sum(_total(nodes.get(name, 0), size) for name in ("trainers", "servers", "heters"))
    return int(cluster["generation"]), size, workers


def _total(column: object, size: int) -> int:
    if isinstance(column, int):
        return column * size
    if isinstance(column, list) and len(column) == size:
        return sum(each for each in column if isinstance(each, int))
    return 0


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:500] if lines else ""


def _is_plain(item: object) -> bool:
    return item is None or isinstance(item, bool | int | float | str)
