"""The parameter server beside what this machine can do at best and, if asked, beside Paddle 2.6.2's own.

    python -m benchmarks.ps                       everything of ours; about five minutes
    python -m benchmarks.ps --peer paddle         also Paddle 2.6.2's parameter server (makes .venv-paddle262, 500 MB)
    python -m benchmarks.ps --only pull --only push --json figures.json

Requests are 13,312 different ids of rows of 16 numbers unless it is said otherwise. Limits are measured in the same rounds
as what they limit, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure, ps_faults, ps_job, ps_programs, sections
from benchmarks.measure import ROOT, Figure
from benchmarks.ps_programs import IDS, ROWS, Keys, Trainer

GOAL_PER_ROW = 1.35 * 136
"""Bytes: 64 of values, 64 of Adagrad's state and 8 of the key, and a third more."""


@dataclass(frozen=True)
class Run:
    """What was asked for."""

    quick: bool
    peer: bool

    @property
    def rounds(self) -> int:
        return 2 if self.quick else 5

    @property
    def seconds(self) -> float:
        """For one row of calls."""
        return 0.5 if self.quick else 1.5


def main() -> int:
    """Measure and print: `sections.run`."""
    parser = sections.parser("benchmarks.ps", __doc__, SECTIONS)
    parser.add_argument("--peer", choices=["paddle"], help="also measure this one's own parameter server")
    asked = parser.parse_args()
    return sections.run(SECTIONS, Run(asked.quick, asked.peer == "paddle"), asked)


# ---- limits


class Limits:
    """The program that measures what the machine can do; built when it is needed first."""

    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="umiak-bench-")  # goes with this object
        self._program = Path(self._place.name) / "limits"
        source = ROOT / "native" / "examples" / "limits.rs"
        argv = ["rustc", "--edition", "2024", "-C", "opt-level=3", str(source), "-o", str(self._program)]
        subprocess.run(argv, check=True, timeout=300)

    def once(self, rows: int = ROWS) -> dict[str, float]:
        """The medians in seconds."""
        done = subprocess.run(
            [self._program, "0.3", str(rows)], check=True, capture_output=True, text=True, timeout=120
        )
        found = json.loads(done.stdout)
        return {name: each["p50_us"] / 1e6 for name, each in found.items() if isinstance(each, dict)}


# ---- one client, one server


class Requests:
    """Figures of one kind of request: how many rows go through, and how long one takes."""

    def __init__(self, name: str, title: str, how: str, *, rate_goal: float | None, goal: float | None) -> None:
        rate = f"{title}, one client and one server: rows per second"
        self.rate = Figure(name, rate, how, unit="M rows/s", goal=rate_goal, more_is_better=True)
        median = f"{title}: median of one request"
        self.median = Figure(f"{name}-p50", median, "same calls", unit="ms", goal=goal)
        self.tenth = Figure(f"{name}-p10", f"{title}: tenth percentile", "same calls", unit="ms", goal=goal)
        self.least = Figure(f"{name}-min", f"{title}: shortest request", "same calls", unit="ms", goal=goal)
        self.tail = Figure(f"{name}-p99", f"{title}: 99th percentile", "same calls", unit="ms")
        cpu = "same calls; all threads of both processes; other work on the machine hardly changes it"
        self.cpu = Figure(f"{name}-cpu", f"{title}: CPU time of one request", cpu, unit="ms")

    def measure(self, call: Callable[[Keys], object], keys: list[Keys], seconds: float, server: int) -> None:
        """One call after the other, with the foreign load meanwhile."""
        with measure.other_work(self.rate):
            used = measure.cpu_s([server]), time.process_time()
            calls = ps_programs.in_a_row(call, keys, seconds)
            here, there = time.process_time() - used[1], measure.cpu_s([server]) - used[0]
        self.cpu.add("both", 1e3 * (here + there) / calls.count)
        self.cpu.add("server", 1e3 * there / calls.count)
        self.cpu.add("client", 1e3 * here / calls.count)
        self.rate.add("umiak", calls.rows_per_s / 1e6)
        self.least.add("umiak", calls.min_s * 1e3)
        for figure, seconds in ((self.median, calls.p50_s), (self.tenth, calls.p10_s), (self.tail, calls.p99_s)):
            figure.add("umiak", seconds * 1e3)

    def limit(self, **parts: float) -> None:
        """What the same request takes at best, in seconds: the sum of its parts."""
        whole = sum(parts.values())
        self.rate.add("limit", IDS / whole / 1e6)
        self.median.add("limit", whole * 1e3)
        for name, seconds in parts.items():
            self.median.add(f"limit: {name}", seconds * 1e3)

    def __iter__(self) -> Iterator[Figure]:
        return iter((self.rate, self.median, self.tenth, self.least, self.tail, self.cpu))


def pull(run: Run) -> Iterator[Figure]:
    """Rows that exist, asked for by one client of one server."""
    requests = Requests(
        "pull",
        "Pull",
        f"{IDS:,} different ids per request out of 1 M rows, dim 16, TCP over loopback; limit: exchange of the same bytes, "
        "look-up and gather one after the other",
        rate_goal=20.0,
        goal=None,
    )
    limits = Limits()
    with ps_programs.servers() as (server,):
        trainer = Trainer([server.endpoint])
        trainer.open("pull", "adagrad")
        trainer.fill()
        keys = ps_programs.batches()
        for _ in range(run.rounds):
            requests.measure(trainer.pull, keys, run.seconds, server.pid)
            best = limits.once()
            requests.limit(exchange=best["exchange_pull"], lookup=best["lookup"], gather=best["gather"])
        trainer.client.close()
    yield from requests


def push(run: Run) -> Iterator[Figure]:
    """Gradients for rows that exist."""
    how = (
        f"{IDS:,} different ids and gradients per request, 1 M rows, dim 16, from the call until the server has applied it; "
        "limit: exchange of the same bytes, look-up, and a gather each for values and state, one after the other"
    )
    every = {
        "adagrad": Requests("push-adagrad", "Push with Adagrad", how, rate_goal=None, goal=0.85),
        "adam": Requests("push-adam", "Push with Adam", how, rate_goal=None, goal=1.3),
    }
    limits = Limits()
    with ps_programs.servers() as (server,):
        trainer = Trainer([server.endpoint])
        keys = ps_programs.batches()
        for rule in every:
            trainer.open(rule, rule)
            trainer.fill()
        for _ in range(run.rounds):
            best = limits.once()
            for rule, requests in every.items():
                trainer.open(rule, rule)
                requests.measure(trainer.push, keys, run.seconds, server.pid)
                rows = 2 * best["gather"] if rule == "adagrad" else 3 * best["gather"]
                requests.limit(exchange=best["exchange_push"], lookup=best["lookup"], rows=rows)
        trainer.client.close()
    for requests in every.values():
        yield from requests


# ---- two and two


def cluster(run: Run) -> Iterator[Figure]:
    """Two clients and two servers at once."""
    for operation, goal in (("pull", 20.0), ("push", 12.0)):
        figure = Figure(
            f"{operation}-2x2",
            f"{operation.capitalize()} (Adagrad), two clients and two servers: rows per second of both",
            f"four processes; {IDS:,} different ids per request, half of them on each server",
            unit="M rows/s",
            goal=goal,
            more_is_better=True,
        )
        with ps_programs.servers(2, world=2) as started:
            endpoints = [server.endpoint for server in started]
            filler = Trainer(endpoints, world=2)
            filler.open("adagrad", "adagrad")
            filler.fill()
            filler.client.close()
            for _ in range(run.rounds):
                with measure.other_work(figure):
                    found = ps_programs.together(operation, endpoints, run.seconds, world=2)
                figure.add("umiak", sum(calls.rows_per_s for calls in found) / 1e6)
                figure.add("p50 in ms", max(calls.p50_s for calls in found) * 1e3)
        yield figure


# ---- growth


def grow(run: Run) -> Iterator[Figure]:
    """A table that grows from nothing to ten million rows."""
    rows = 2_000_000 if run.quick else 10_000_000
    stall = Figure(
        "grow",
        f"Longest call while a table grows to {rows / 1e6:g} M rows",
        f"every call pulls {IDS:,} ids that are new; Adagrad, dim 16; through a server and with the table in the process that asks. "
        "CPU time: what the server, or the thread, worked during the longest one, which waiting for other work does not lengthen",
        unit="ms",
        goal=10.0,
    )
    usual = Figure("grow-p50", "The same: median call", "same calls", unit="ms")
    memory = Figure(
        "memory",
        "Memory per row, dim 16, Adagrad",
        "growth of the process's resident memory from before the first row, by rows; 136 bytes are values, state and key",
        unit="B",
        goal=GOAL_PER_ROW,
    )
    for _ in range(1 if run.quick else 2):
        with measure.other_work(stall):
            _grow_server(rows, stall, usual, memory)
            _grow_here(rows, stall, usual)
    yield from (stall, usual, memory)


def _grow_server(rows: int, stall: Figure, usual: Figure, memory: Figure) -> None:
    with ps_programs.servers() as (server,):
        trainer = Trainer([server.endpoint])
        trainer.open("grow", "adagrad")
        before = measure.resident_mb(server.pid)
        durations: list[float] = []
        served: list[float] = []
        for number, keys in enumerate(ps_programs.batches(rows), 1):
            began, used = time.perf_counter(), measure.cpu_s([server.pid])
            trainer.pull(keys)
            durations.append(time.perf_counter() - began)
            served.append(measure.cpu_s([server.pid]) - used)
            trainer.push(keys)  # what was never written to is not resident
            if number == ROWS // IDS:
                memory.add("at 1 M rows", (measure.resident_mb(server.pid) - before) * 2**20 / (number * IDS))
        memory.add(f"at {rows / 1e6:g} M rows", (measure.resident_mb(server.pid) - before) * 2**20 / (number * IDS))
        trainer.client.close()
    calls, cpu = (ps_programs.measured(each, sum(each)) for each in (durations, served))
    stall.add("through a server", calls.max_s * 1e3)
    stall.add("through a server, CPU time", cpu.max_s * 1e3)
    late = sum(each > 0.01 for each in durations)
    words = f"{late} of {calls.count} calls above 10 ms; 99th percentile {calls.p99_s * 1e3:.1f} ms"
    stall.note("through a server", words)
    usual.add("through a server", calls.p50_s * 1e3)
    usual.add("through a server, CPU time", cpu.p50_s * 1e3)


def _grow_here(rows: int, stall: Figure, usual: Figure) -> None:
    argv = [sys.executable, "-m", "benchmarks.ps_programs", "grow", json.dumps({"rows": rows})]
    done = subprocess.run(argv, check=False, cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode:
        stall.note("in the process", f"failed: {done.stderr.strip()[-160:]}")
        return
    found = json.loads(done.stdout)
    stall.add("in the process", found["wall"]["max_s"] * 1e3)
    stall.add("in the process, CPU time", found["cpu"]["max_s"] * 1e3)
    usual.add("in the process", found["wall"]["p50_s"] * 1e3)
    usual.add("in the process, CPU time", found["cpu"]["p50_s"] * 1e3)


# ---- whole jobs


def train(run: Run) -> Iterator[Figure]:
    """Two trainers and two servers, from text to gradients."""
    yield from ps_job.figures(quick=run.quick, peer=run.peer)


def faults(run: Run) -> Iterator[Figure]:
    """What saving, losing and keeping cost."""
    yield from ps_faults.figures(quick=run.quick)


SECTIONS: dict[str, Callable[[Run], Iterator[Figure]]] = {
    "pull": pull,
    "push": push,
    "cluster": cluster,
    "grow": grow,
    "train": train,
    "faults": faults,
}

if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
