"""Whole jobs: two servers and two trainers on this machine, from slot text to gradients. An adapter.

All of them train the same network on the same files with batches of 512, and every trainer and server has one thread for
its arithmetic. A rate is the samples of both trainers by the time from the first one's first timed batch to the last one's
last; what goes before is the warm-up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import clicks, measure, ps_net, ps_peer
from benchmarks.measure import ROOT, Figure

SCRIPT = Path(__file__).with_name("programs") / "ps_train.py"
SERVERS = TRAINERS = 2
WARM_UP = 30
LIMIT_S = 120.0
GOALS = {"async": 40_000.0, "sync": 32_000.0}


@dataclass(frozen=True)
class Outcome:
    """What a job came to. `shares` says where a trainer's time went, in milliseconds per step."""

    samples_per_s: float | None
    note: str
    shares: dict[str, float]
    loss: float = float("nan")
    trainer_ms: float = float("nan")
    """CPU time of a trainer per step."""
    server_ms: float = float("nan")
    """CPU time of all servers per step of one trainer."""


def run(strategy: str, steps: int, *words: str, limit_s: float = LIMIT_S) -> Outcome:
    """One job under `umiak launch`."""
    per_trainer = -(-(steps + WARM_UP) * ps_net.BATCH // clicks.LINES_PER_FILE)
    paths = clicks.files(TRAINERS * per_trainer)
    with measure.bench() as bench:
        told = bench.directory / "told"
        launch = [str(Path(sys.executable).with_name("umiak")), "launch", "--log_dir", "log"]
        roles = ["--server_num", str(SERVERS), "--trainer_num", str(TRAINERS)]
        script = [str(SCRIPT), "--strategy", strategy, "--steps", str(steps), *words, *map(str, paths)]
        environ = {
            "BENCH_TOLD": str(told),
            "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)]),
        }
        program = bench.start([*launch, *roles, *script], environ)
        ended = program.wait(limit_s)
        if ended is None or ended.status:
            why = f"failed with {ended.status}" if ended else f"not ended within {limit_s:g} s"
            return Outcome(None, f"{why}: {_last_words(bench.directory)}", {})
        return outcome(told.read_text(), steps)


def outcome(told: str, steps: int) -> Outcome:
    """What the lines of all trainers come to."""
    lines = [line for line in map(json.loads, told.splitlines()) if "rank" in line]
    wall_s = max(line["end"] for line in lines) - min(line["begin"] for line in lines)
    samples = sum(line["samples"] for line in lines)
    names = lines[0]["shares"]
    shares = {name: 1e3 * sum(line["shares"][name] for line in lines) / len(lines) / steps for name in names}
    steps_of_all = samples / ps_net.BATCH
    return Outcome(
        samples / wall_s,
        "",
        shares,
        sum(line["loss"] for line in lines) / len(lines),
        1e3 * sum(line["cpu_s"] for line in lines) / steps_of_all,
        1e3 * sum(line["served_cpu_s"] for line in lines) / steps_of_all,
    )


def compute_bound(seconds: float, *, adam: bool) -> tuple[float, float]:
    """As many processes as there are trainers, at once, with rows at hand and no servers.

    Samples per second of all of them, and the CPU time of one step in milliseconds.
    """
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    argv = [sys.executable, "-m", "benchmarks.ps_net", str(seconds), *(["adam"] if adam else [])]
    programs = [
        subprocess.Popen(argv, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for _ in range(TRAINERS)
    ]
    said = [program.communicate(timeout=seconds + 60)[0].split() for program in programs]
    per_cpu_s = sum(float(each[1]) for each in said) / len(said)
    return sum(float(each[0]) for each in said), 1e3 * ps_net.BATCH / per_cpu_s


def figures(*, quick: bool, peer: bool) -> Iterator[Figure]:
    """Asynchronous and synchronous, beside the bound, and beside the peer if it is wanted."""
    steps = 100 if quick else 300
    wanted = {
        strategy: Figure(
            f"train-{strategy}",
            f"Click-through model, {TRAINERS} trainers and {SERVERS} servers, {strategy}: samples per second of both trainers",
            "Paddle 3.3, 26 sparse and 13 dense slots, dim 16, 400-400-400, batch 512, slot text read in the loop, dense "
            "parameters and embeddings on the servers (Adam); bound: forward and backward of two processes with rows at hand",
            unit="samples/s",
            goal=goal,
            more_is_better=True,
        )
        for strategy, goal in GOALS.items()
    }
    cpu = Figure(
        "train-cpu",
        "The same jobs: CPU time of one step of one trainer, with the servers' share",
        "of all threads of the trainer, and of the servers by trainers; two cores that do nothing else do two of these at a "
        "time, and other work on the machine changes it much less than the time on the clock",
        unit="ms",
    )
    why_no_peer = ps_peer.install() if peer else ""
    for number in range(1 if quick else 3):
        for strategy, figure in wanted.items():
            with measure.other_work(figure):
                job = run(strategy, steps)
            add(figure, "umiak", job)
            if job.samples_per_s is not None:
                cpu.add(strategy, job.trainer_ms + job.server_ms)
                cpu.add(f"{strategy}: trainer", job.trainer_ms)
                cpu.add(f"{strategy}: servers", job.server_ms)
            for name, adam in (("bound", False), ("bound with dense Adam", True)):
                rate, step_ms = compute_bound(2.0, adam=adam)
                figure.add(name, rate)
                cpu.add(name, step_ms)
        if peer and number < 2:
            with measure.other_work(wanted["async"]):
                _peer(wanted["async"], why_no_peer, files=3 if quick else 4)
    yield from (*wanted.values(), cpu)


def add(figure: Figure, subject: str, outcome: Outcome) -> None:
    """A job's rate, and where its time went."""
    if outcome.samples_per_s is None:
        figure.note(subject, outcome.note)
        return
    figure.add(subject, outcome.samples_per_s)
    shares = ", ".join(f"{name} {milliseconds:.1f}" for name, milliseconds in outcome.shares.items())
    figure.note(subject, f"ms per step: {shares}; last loss {outcome.loss:.3f}")


def _peer(figure: Figure, missing: str, files: int) -> None:
    for subject, reader in (("paddle 2.6.2", "slots"), ("paddle 2.6.2, text converted before", "plain")):
        if missing:
            figure.note(subject, missing)
            continue
        found = ps_peer.run(reader, ps_net.BATCH, files, LIMIT_S)
        if found.samples_per_s is None:
            figure.note(subject, found.note)
        else:
            figure.add(subject, found.samples_per_s)


def _last_words(directory: Path) -> str:
    """The end of what went wrong: of the launcher's output, or else of a worker's log."""
    for path in [*sorted(directory.glob("output.*")), *sorted(directory.glob("log/*"))]:
        if path.is_file():
            text = path.read_text(errors="replace").strip()
            if text:
                return text.splitlines()[-1][:200]
    return "nothing was said"
