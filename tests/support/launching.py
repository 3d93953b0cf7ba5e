"""Launchers that really run, on this machine or on hosts of the testbed: started, listened to, looked into, always ended.

    def test_two_nodes(stage, network):
        a, b = network(2).hosts
        first = stage.launch("--nnodes 2 --master 10.88.0.1:7000", host=a)
        second = stage.launch("--nnodes 2 --master 10.88.0.1:7000", host=b)
        stage.story.until_alive(generation=1, world=2)
        stage.story.order("exit 7", rank=1)
        assert first.wait() == second.wait() == 7

What a launcher says goes to files, so nobody has to read along. What its workers do is told by themselves: they write to
the *story*, a directory that all hosts see, and they do what they are ordered there (`workers/obedient.py`).
When the test is over everything is killed, and whatever must hold for every run is checked: see `Stage.close`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from testbed import hosts, workspace
from tests.support import PATIENCE_S
from tests.support.paths import WORKERS
from umiak.launch import journal

T = TypeVar("T")
OBEDIENT = WORKERS / "obedient.py"
MARK = "LAUNCH_MARK"
KEPT_VARIABLES = ("PATH", "PYTHONPATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
END_OF_CONFIGURATION = f" {'-' * 50}\n"
LAUNCH = (sys.executable, "-m", "umiak.launch")


def until(look: Callable[[], T], what: str, *, within_s: float = PATIENCE_S, talk: Callable[[], str] = str) -> T:
    """Look again and again until there is something to see, and return it. ``talk`` explains a failure.

    At least half of the time is left to what is waited for: some look at every process of the machine.
    """
    began = time.monotonic()
    deadline = began + within_s
    while not (seen := look()):
        looked = time.monotonic()
        if looked > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what}\n{talk()}")
        time.sleep(min(max(0.01, looked - began), 1.0))
        began = time.monotonic()
    return seen


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[Stage]:
    """A stage for one test."""
    with workspace.opened("launch") as work:
        stage = Stage(directory, work)
        with stage.metronome:
            yield stage
        stage.close()


class Stage:
    """All launchers of one test and the story of their workers."""

    def __init__(self, directory: Path, work: workspace.Workspace) -> None:
        self.directory = directory
        self.story = Story(directory / "story")
        self.launchers: list[Launcher] = []
        self.formations_may_overlap = False
        """Set by a test that does what the launcher can't notice in time, such as freezing it."""
        self.metronome = Metronome()
        self._work = work
        self.story.talk = self.transcript

    def launch(
        self,
        flags: str,
        *program: str | Path,
        host: hosts.Host | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        command: tuple[str, ...] = LAUNCH,
    ) -> Launcher:
        """Start a launcher with these flags and program (the obedient worker), in a directory of its own."""
        return self.start([*command, *flags.split(), *map(str, program or (OBEDIENT,))], host=host, env=env, cwd=cwd)

    def start(
        self,
        command: list[str],
        *,
        host: hosts.Host | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
    ) -> Launcher:
        """Start a whole command, word for word."""
        number = len(self.launchers)
        place = cwd or self.directory / f"launcher{number}"
        place.mkdir(exist_ok=True)
        mark = f"{self._work.path}#{number}"
        environ = {
            **{name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
            "STORY_DIR": str(self.story.directory),
            workspace.MARK: str(self._work.path),
            MARK: mark,
            **(env or {}),
        }
        out, err = (self.directory / f"launcher{number}.{stream}" for stream in ("stdout", "stderr"))
        popen = host.popen if host else _popen
        with open(out, "ab") as to_out, open(err, "ab") as to_err:
            process = popen(
                command,
                env=environ,
                cwd=place,
                stdin=stdin,
                stdout=to_out if stdout is None else stdout,
                stderr=to_err,
                start_new_session=True,
            )
        launcher = Launcher(process, out, err, place, mark, self.transcript)
        self.launchers.append(launcher)
        return launcher

    def transcript(self) -> str:
        """What everybody has said, for a test that failed."""
        parts = [self.story.summary()]
        for number, launcher in enumerate(self.launchers):
            status = launcher.process.poll()
            talk = "".join(f"  {line}\n" for line in launcher.said.rpartition(END_OF_CONFIGURATION)[2].splitlines())
            parts.append(f"---- launcher {number}, {'running' if status is None else f'exit {status}'}\n{talk}")
        return "\n".join(parts)

    def close(self) -> None:
        """End everything, then check what holds for every run, however it went.

        Log files are readable by their owner only; the journal, given to the deciders again, makes the same decisions; and
        no two formations of a job ever lived at the same time, but for as long as this machine let everybody wait.
        """
        workspace.kill_all(self._work.path)
        for launcher in self.launchers:
            launcher.process.wait()
        for launcher in self.launchers:
            if launcher.log_dir.is_dir():
                launcher.check_files_are_private()
                launcher.check_replay()
        if not self.formations_may_overlap:
            self.story.check_formations_do_not_overlap(within_s=3 * self.metronome.worst_s)


class Metronome:
    """Notices how long this machine keeps a process waiting that wants to run.

    After a cut, each side acts when its own timers say so. On a machine that lets a launcher wait they come late.
    """

    EVERY_S = 0.02

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        before = time.monotonic()
        while not self._over.wait(self.EVERY_S):
            now = time.monotonic()
            self.worst_s = max(self.worst_s, now - before - self.EVERY_S)
            before = now


class Launcher:
    """One launcher: its process, what it said, its log directory, its family of processes."""

    def __init__(
        self,
        process: subprocess.Popen[str],
        out: Path,
        err: Path,
        directory: Path,
        mark: str,
        transcript: Callable[[], str],
    ) -> None:
        self.process = process
        self.directory = directory
        self.log_dir = directory / "log"
        self._out, self._err = out, err
        self._mark = mark
        self._transcript = transcript

    @property
    def stdout(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self._err.read_text(errors="replace")

    @property
    def said(self) -> str:
        return self.stderr + self.stdout

    def log(self, name: str) -> str:
        """A file of the log directory; empty if it is not there."""
        path = self.log_dir / name
        return path.read_text(errors="replace") if path.exists() else ""

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log("events.jsonl").splitlines()]

    def wait(self, *, within_s: float = PATIENCE_S) -> int:
        """The exit status. Nothing that this launcher started may be alive at that moment."""
        try:
            status = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the launcher has not ended within {within_s:g} s\n{self._transcript()}") from None
        left = self.family()
        assert not left, f"left behind: {[relative.words for relative in left]}\n{self._transcript()}"
        return status if status >= 0 else 128 - status

    def expect(self, text: str, *, within_s: float = PATIENCE_S) -> str:
        """Wait until the launcher has said this, on either stream; all that it said until then."""

        def heard() -> bool:
            ended = self.process.poll() is not None
            if text in self.said:
                return True
            assert not ended, f"the launcher ended without saying: {text}\n{self._transcript()}"
            return False

        until(heard, f"the launcher says: {text}", within_s=within_s, talk=self._transcript)
        return self.said

    def signal(self, number: int) -> None:
        """To the process that a person started."""
        self.process.send_signal(number)

    def family(self) -> list[Relative]:
        """Every living process that carries this launcher's mark: its two halves, workers, and whatever those started."""
        return _marked(self._mark)

    def halves(self) -> tuple[int, int]:
        """The process that was started, and the one that works for it."""
        worker = until(
            lambda: [relative.pid for relative in self.family() if relative.parent == self.process.pid],
            "the launcher has two halves",
            talk=self._transcript,
        )
        return self.process.pid, worker[0]

    def freeze(self) -> None:
        """SIGSTOP to the half that works, as soon as there is one; unless the launcher has ended."""
        until(
            lambda: self.process.poll() is not None or any(each.parent == self.process.pid for each in self.family()),
            "there is a half that works",
        )
        for relative in self.family():
            if relative.parent == self.process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(relative.pid, signal.SIGSTOP)

    def workers(self) -> list[Relative]:
        """The processes that the working half started."""
        _, working = self.halves()
        return [relative for relative in self.family() if relative.parent == working and "UMIAK_RANK" in relative.env]

    def until_nobody_is_left(self) -> None:
        """For a launcher that was killed: its processes die after it."""
        until(lambda: not self.family(), "nobody is left", talk=lambda: f"{self.family()}\n{self._transcript()}")

    def check_files_are_private(self) -> None:
        open_to_others = [path.name for path in self.log_dir.iterdir() if path.stat().st_mode & 0o077]
        assert not open_to_others, f"readable by others: {open_to_others}"

    def check_replay(self) -> int:
        """Feed the journal to the deciders again; how many decisions were compared."""
        compared = 0
        for entry, again in journal.replay(self.log("events.jsonl").splitlines()):
            assert entry["actions"] == json.loads(json.dumps(again)), f"{entry['event']} in {self.directory.name}"
            compared += 1
        return compared


@dataclass(frozen=True)
class Relative:
    """A process of a launcher's family, by its numbers on the real machine."""

    pid: int
    parent: int
    words: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def is_alive(self) -> bool:
        return _state(self.pid)[1] not in "ZX"


@dataclass(frozen=True)
class Life:
    """What one worker told of itself: who it was, and between which moments it certainly lived."""

    host: str
    pid: int
    """On its own host."""
    env: Mapping[str, str]
    told: tuple[dict[str, Any], ...]
    first: float
    last: float

    @property
    def role(self) -> str:
        return self.env["UMIAK_ROLE"]

    @property
    def rank(self) -> int:
        return int(self.env["UMIAK_RANK"])

    @property
    def generation(self) -> int:
        return int(self.env["UMIAK_GENERATION"])

    @property
    def restarts(self) -> int:
        return int(self.env["UMIAK_RESTART_COUNT"])

    @property
    def world(self) -> int:
        return int(self.env["UMIAK_WORLD_SIZE"])

    @property
    def formation(self) -> tuple[str, int, str]:
        """A job, a generation, and who took part: two halves of a job may well use the same number."""
        endpoints = self.env.get("UMIAK_TRAINERS", "") + self.env.get("UMIAK_SERVERS", "")
        return self.env["UMIAK_JOB_ID"], self.generation, endpoints

    def __str__(self) -> str:
        return (
            f"generation {self.generation}: {self.role} {self.rank} of {self.world} on {self.host}, "
            f"{self.first:.3f} to {self.last:.3f}: {', '.join(str(each['what']) for each in self.told)}"
        )

    def moment(self, what: str) -> float | None:
        """When it told this."""
        return next((each["at"] for each in self.told if each["what"] == what), None)


class Story:
    """The directory where workers tell what happens to them, and where they are told what to do."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.talk: Callable[[], str] = str
        self._numbers = itertools.count()
        directory.mkdir()

    def order(self, what: str, *, rank: int | None = None, role: str = "trainer") -> None:
        """Tell one worker, or all of them, what to do: ``end``, ``exit 7``, ``raise``, ``signal 9``, ``hang``, ...

        An order to one worker is carried out once, by the worker that has that rank then.
        """
        name = "order.all" if rank is None else f"order.{role}.{rank}"
        draft = self.directory / f"draft.{next(self._numbers)}"
        draft.write_text(what)
        draft.rename(self.directory / name)

    def lives(self, **facts: object) -> list[Life]:
        """The workers so far, in the order of their births; only those of whom these facts are true."""
        found = [_life(path) for path in self.directory.glob("*.jsonl")]
        lives = [life for life in found if life and all(getattr(life, name) == fact for name, fact in facts.items())]
        return sorted(lives, key=lambda life: life.first)

    def until_alive(self, *, count: int | None = None, **facts: object) -> list[Life]:
        """Wait for the workers of one formation: as many as its world is large, unless a count is given."""

        def look() -> list[Life]:
            formations: dict[tuple[str, int, str], list[Life]] = {}
            for life in self.lives(**facts):
                formations.setdefault(life.formation, []).append(life)
            for lives in formations.values():
                if len({(life.role, life.rank) for life in lives}) == (count or lives[0].world):
                    return sorted(lives, key=lambda life: (life.role, life.rank))
            return []

        return until(look, f"workers with {facts}, count {count}", talk=self.talk)

    def until_told(self, what: str, *, count: int = 1, **facts: object) -> list[Life]:
        """Wait until so many workers have told this."""

        def look() -> list[Life]:
            lives = [life for life in self.lives(**facts) if life.moment(what) is not None]
            return lives if len(lives) >= count else []

        return until(look, f"{count} workers with {facts} tell: {what}", talk=self.talk)

    def check_formations_do_not_overlap(self, *, within_s: float) -> None:
        """No worker of one formation lived while one of another formation did, or for no longer than this."""
        for one, other in itertools.combinations(self.lives(), 2):
            if one.env["UMIAK_JOB_ID"] == other.env["UMIAK_JOB_ID"] and one.formation != other.formation:
                both_s = min(one.last, other.last) - max(one.first, other.first)
                assert both_s < within_s, f"two formations at once, {both_s:.3f} s:\n{one}\n{other}\n{self.summary()}"

    def summary(self) -> str:
        return "\n".join(str(life) for life in self.lives())


def _life(path: Path) -> Life | None:
    told = []
    for line in path.read_text().splitlines():
        with contextlib.suppress(ValueError):  # it is just being written
            told.append(json.loads(line))
    if not told:
        return None
    birth = told[0]
    last = max(each["at"] for each in told)
    with contextlib.suppress(OSError, ValueError):
        last = max(last, float(path.with_suffix(".beat").read_text()))
    return Life(host=birth["host"], pid=birth["pid"], env=birth["env"], told=tuple(told), first=birth["at"], last=last)


def _popen(command: list[str], **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(command, text=True, **more)


def _marked(mark: str) -> list[Relative]:
    found = []
    wanted = f"{MARK}={mark}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            variables = Path("/proc", entry, "environ").read_bytes().split(b"\0")
            if wanted not in variables:
                continue
            words = Path("/proc", entry, "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue
        parent, state = _state(int(entry))
        if state not in "ZX":
            env = dict(each.decode(errors="replace").partition("=")[::2] for each in variables if each)
            found.append(Relative(int(entry), parent, tuple(words), env))
    return found


def _state(pid: int) -> tuple[int, str]:
    """A process's parent and the letter for its state; X if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0, "X"
    state, parent = text[text.rindex(")") + 2 :].split(" ", 2)[:2]
    return int(parent), state


def zombies_of(parent: int) -> int:
    """How many children of this process have ended and were not reaped."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return sum(_state(pid) == (parent, "Z") for pid in pids)


def freeze(*pids: int) -> None:
    """Stop processes, and return once they stand still."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        until(lambda pid=pid: _state(pid)[1] == "T", f"process {pid} stands still")


def thaw(*pids: int) -> None:
    """Let them go on; the first ones that do may already end the others."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
