"""What every benchmark needs: programs that are started, watched and surely ended; figures, ratios and tables. An adapter.

Several things run at once on most machines, so a figure is never one number: it has a median, a minimum (what the work costs
when nobody disturbs it) and, where whole programs are measured, CPU seconds. All subjects of a figure are measured in one
run and in turn, so that whatever else goes on meets all of them alike.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import select
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from umiak.adapters import kernel_requests, process

ROOT = Path(__file__).parent.parent
FOREIGN = ("PADDLE_", "UMIAK_", "TORCH", "FLAGS_", "SLURM_", "OMPI_", "MASTER_", "POD_", "PYTHON")
"""Variables that would tell a launcher about some other job, or Python to do without its cached bytecode."""


# ---- figures


@dataclass
class Row:
    """What was measured for one subject."""

    subject: str
    values: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    note: str = ""
    """Why there are no values, or what must be known of them."""


@dataclass
class Figure:
    """One thing that was measured for several subjects. The first subject is ours."""

    name: str
    title: str
    how: str
    unit: str = "s"
    goal: float | None = None
    more_is_better: bool = False
    """Whether the goal is a least instead of a most."""
    rows: dict[str, Row] = field(default_factory=dict)
    foreign: list[float] = field(default_factory=list)
    """Cores that other work on this machine took while this was measured, one number per round."""

    def add(self, subject: str, value: float, cpu_s: float | None = None) -> None:
        row = self.row(subject)
        row.values.append(value)
        if cpu_s is not None:
            row.cpu_s.append(cpu_s)

    def note(self, subject: str, text: str) -> None:
        self.row(subject).note = text

    def row(self, subject: str) -> Row:
        return self.rows.setdefault(subject, Row(subject))

    @property
    def own(self) -> Row:
        """What was measured for ours."""
        return next(iter(self.rows.values()), Row(""))

    def verdict(self) -> str:
        """Whether our own median, or at least our best run, reaches the goal."""
        own = self.own
        if self.goal is None or not own.values:
            return ""
        sign = -1 if self.more_is_better else 1
        goal = f"goal {'>=' if self.more_is_better else '<='} {self.goal:g} {self.unit}"
        if sign * statistics.median(own.values) <= sign * self.goal:
            return f"{goal}: met"
        if min(sign * value for value in own.values) <= sign * self.goal:
            return f"{goal}: met by the best run, missed by the median"
        return f"{goal}: MISSED"

    def plain(self) -> dict[str, object]:
        """For --json."""
        rows = [
            {
                "subject": row.subject,
                "values": row.values,
                "median": statistics.median(row.values) if row.values else None,
                "min": min(row.values, default=None),
                "max": max(row.values, default=None),
                "cpu_s": row.cpu_s,
                "note": row.note,
            }
            for row in self.rows.values()
        ]
        return {
            "name": self.name,
            "title": self.title,
            "how": self.how,
            "unit": self.unit,
            "goal": self.goal,
            "verdict": self.verdict(),
            "foreign_cores": self.foreign,
            "rows": rows,
        }


def table(figure: Figure) -> str:
    """A figure as text: one line per subject, with how far it is behind the first one."""
    own = figure.own
    lines = [["", "median", "min", "max", "runs", "CPU s", "median ratio", "min ratio", ""]]
    for row in figure.rows.values():
        if not row.values:
            lines.append([row.subject, "-", "-", "-", "0", "", "", "", row.note])
            continue
        median, least = statistics.median(row.values), min(row.values)
        ratios = ["", ""]
        if row is not own and own.values:
            ratios = [_ratio(median, statistics.median(own.values)), _ratio(least, min(own.values))]
        cpu = _number(statistics.median(row.cpu_s)) if row.cpu_s else ""
        numbers = [_number(median), _number(least), _number(max(row.values)), str(len(row.values))]
        lines.append([row.subject, *numbers, cpu, *ratios, row.note])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = [f"{figure.title} [{figure.unit}]", f"  how: {figure.how}"]
    for line in lines:
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:], strict=False)),
        ]
        text.append(f"  {'  '.join([*cells, line[-1]])}".rstrip())
    if figure.foreign:
        text.append(f"  other work on this machine meanwhile: {statistics.median(figure.foreign):.1f} cores")
    if figure.verdict():
        text.append(f"  {figure.verdict()}")
    return "\n".join(text)


def _number(value: float) -> str:
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


def _ratio(theirs: float, ours: float) -> str:
    return f"{theirs / ours:.1f}x" if ours > 0 else ""


# ---- programs


@dataclass(frozen=True)
class Report:
    """A worker's first words: when it reached its first line, and who it is."""

    at: float
    pid: int
    rank: int
    world: int


@dataclass(frozen=True)
class Ended:
    """How a program ended, with everything that it waited for."""

    status: int
    wall_s: float
    cpu_s: float


class Program:
    """A started program; its end is seen at once."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str], directory: Path, log: Path) -> None:
        with log.open("ab") as output:
            self.began = time.monotonic()
            self._popen = subprocess.Popen(
                argv,
                env=dict(environ),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._popen.pid
        self.pidfd = os.pidfd_open(self.pid)
        self.ended: Ended | None = None

    def wait(self, seconds: float) -> Ended | None:
        """How it ended; None if it has not within this time."""
        if self.ended is None and _readable([self.pidfd], seconds):
            _, status, used = os.wait4(self.pid, 0)
            wall_s = time.monotonic() - self.began
            self._popen.returncode = os.waitstatus_to_exitcode(status)
            os.close(self.pidfd)
            self.ended = Ended(self._popen.returncode, wall_s, used.ru_utime + used.ru_stime)
        return self.ended

    def tree(self) -> list[int]:
        """This program and everything below it."""
        return [self.pid, *(pid for pid, _ in process.descendants(self.pid))]

    def signal_tree(self, number: int) -> None:
        for pid in self.tree():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


class Bench:
    """A directory for one measurement, the programs in it, and the pipe on which their workers report."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._fifo = directory / "reports"
        os.mkfifo(self._fifo)
        self._reports_fd = os.open(self._fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._unread = b""
        self.programs: list[Program] = []
        self._beside: list[Program] = []

    def environ(self) -> dict[str, str]:
        kept = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(FOREIGN) and not name.lower().endswith("_proxy")
        }
        # What launchers leave in the temporary directory goes away with this one.
        own = {"BENCH_REPORTS": str(self._fifo), "TMPDIR": str(self.directory)}
        return {**kept, **own, "OMP_NUM_THREADS": "1", "NO_PROXY": "*"}

    def start(self, argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Program:
        """Start a program here; what it says goes to a file."""
        log = self.directory / f"output.{len(self.programs)}"
        program = Program(argv, {**self.environ(), **(environ or {})}, self.directory, log)
        self.programs.append(program)
        return program

    def start_beside(self, argv: Sequence[str]) -> None:
        """Start what the programs need and what is none of them."""
        self._beside.append(Program(argv, self.environ(), self.directory, self.directory / "beside"))

    def reports(self, count: int, seconds: float) -> list[Report]:
        """The next reports; fewer if the time is over, or if every program has ended."""
        until = time.monotonic() + seconds
        found = self._read()
        while len(found) < count:
            alive = [program.pidfd for program in self.programs if program.wait(0) is None]
            left = until - time.monotonic()
            if left <= 0 or not alive:
                break
            _readable([self._reports_fd, *alive], left)
            found += self._read()
        return found + self._read()

    def last_words(self) -> str:
        """The last line that a program has said."""
        texts = [path.read_text(errors="replace").strip() for path in sorted(self.directory.glob("output.*"))]
        return "".join(texts[-1:]).rpartition("\n")[2]

    def close(self) -> None:
        """End everything that was started here, orphans included, and collect what it used."""
        programs = [*self.programs, *self._beside]
        process.kill_descendants(spare=[program.pid for program in programs])
        for program in programs:
            program.wait(10)
        os.close(self._reports_fd)

    def _read(self) -> list[Report]:
        with contextlib.suppress(BlockingIOError):
            self._unread += os.read(self._reports_fd, 65536)
        *lines, self._unread = self._unread.split(b"\n")
        rows = [line.split() for line in lines]
        return [Report(float(at), int(pid), int(rank), int(world)) for at, pid, rank, world in rows]


@contextlib.contextmanager
def bench() -> Iterator[Bench]:
    """A place for one measurement. Nothing that was started there outlives it."""
    directory = Path(tempfile.mkdtemp(prefix="umiak-bench-"))
    place = Bench(directory)
    try:
        yield place
    finally:
        place.close()
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def other_work(figure: Figure) -> Iterator[None]:
    """Note how many cores were busy with what is not ours."""
    before = _busy_s(), _own_s(), time.monotonic()
    yield
    busy, own, wall = _busy_s() - before[0], _own_s() - before[1], time.monotonic() - before[2]
    if wall > 0:
        figure.foreign.append(max(0.0, (busy - own) / wall))


def tidy_up() -> None:
    """From now on orphans come to this process, and SIGTERM ends it as Ctrl-C does, also in the background: with all below it."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    kernel_requests.become_subreaper()


def free_port() -> int:
    """A port of this machine that is free now; a program that can't be handed a bound socket has to take its chance."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def await_listening(port: int, seconds: float) -> bool:
    """Whether somebody listens on a port within this time. Nobody is connected to: the kernel's table is read."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for table_of in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table_of}").read_text().splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                    return True
        time.sleep(0.02)
    return False


def _readable(descriptors: Sequence[int], seconds: float) -> bool:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


# ---- processes and the machine


def cpu_s(pids: Sequence[int]) -> float:
    """CPU that the living threads of these processes have used, to the nanosecond where the kernel says it."""
    total = 0
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(path.read_text().split()[0])
    return total / 1e9


def whole_cpu_s(pids: Sequence[int], *, and_collected: bool = False) -> float:
    """CPU that these processes have used, with threads that have ended; in hundredths of a second.

    ``and_collected``: also what their children had used that have ended.
    """
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11 : 15 if and_collected else 13]))
    return total / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    """The most memory that a process has had since it was started (VmHWM)."""
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmHWM:") / 1024


def resident_mb(pid: int) -> float:
    """The memory that a process has now (VmRSS)."""
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS:") / 1024


def proportional_mb(pids: Sequence[int]) -> float:
    """Memory of several processes, pages that they share counted once (PSS)."""
    return sum(_kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") for pid in pids) / 1024


def machine() -> dict[str, object]:
    """What a reader has to know about where this ran."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory_gib": round(memory),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _kilobytes(path: Path, label: str) -> int:
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(label):
                return int(line.split()[1])
    return 0


def _busy_s() -> float:
    """CPU seconds that the whole machine has worked."""
    numbers = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, *_ = numbers
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """CPU seconds of this process and of everything that it has started, whether it still runs or has been collected."""
    total = whole_cpu_s([pid for pid, _ in process.descendants(os.getpid())], and_collected=True)
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        total += used.ru_utime + used.ru_stime
    return total
