"""`umiak train` beside a loop like PaddleRec's, beside what Paddle computes, and beside itself with more trainers.

    python -m benchmarks.train                     everything; about four minutes
    python -m benchmarks.train --only alone --quick

The model is the zoo's dnn: 26 slots of ids with rows of 9, 13 numbers, 512-256-128-32, batches of 512, Adam; slot text of `benchmarks.clicks`. What counts is the
second epoch: in the first one every row is new.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import clicks, measure, sections
from benchmarks.measure import ROOT, Bench, Figure

BATCH = 512
LIMIT_S = 400.0
CONFIG = """\
workspace: "umiak.models.rank.dnn"
mode: [single]
runner:
- {{name: single, class: train, epochs: {epochs}, seed: 1, print_interval: {told}, phases: [train]}}
- {{name: ps, class: local_cluster_train, epochs: {epochs}, seed: 1, worker_num: 2, server_num: 2, print_interval: {told}, phases: [train]}}
phase:
- {{name: train, model: "{{workspace}}/model.py", dataset_name: clicks, thread_num: 1}}
dataset:
- {{name: clicks, batch_size: 512, data_path: "data", sparse_slots: "{slots}", dense_slots: "dense_feature:13"}}
hyper_parameters:
  sparse_feature_dim: 9
  fc_sizes: [512, 256, 128, 32]
  optimizer: {{class: Adam, learning_rate: 0.001}}
"""


@dataclass(frozen=True)
class Run:
    """What was asked for."""

    quick: bool

    @property
    def rounds(self) -> int:
        return 1 if self.quick else 3

    @property
    def files(self) -> int:
        return 2 if self.quick else 4


@dataclass(frozen=True)
class Epoch:
    """One epoch of a run, and where the time of the first trainer went."""

    samples: int
    seconds: float
    cpu_s: float
    auc: float
    shares: dict[str, float]

    @property
    def rate(self) -> float:
        return self.samples / self.seconds

    @property
    def per_cpu_s(self) -> float:
        return self.samples / self.cpu_s


def main() -> int:
    """Measure and print: `sections.run`."""
    asked = sections.parser("benchmarks.train", __doc__, SECTIONS).parse_args()
    return sections.run(SECTIONS, Run(asked.quick), asked)


# ---- running


def prepared(bench: Bench, files: int, *, epochs: int = 2, told: int = 20) -> None:
    """A config and its data in the directory of a measurement."""
    data = bench.directory / "data"
    data.mkdir()
    for path in clicks.files(files):
        (data / path.name).symlink_to(path)
    slots = " ".join(["click", *(str(slot) for slot in range(1, clicks.SLOTS + 1))])
    (bench.directory / "config.yaml").write_text(CONFIG.format(epochs=epochs, told=told, slots=slots))


def trained(bench: Bench, *words: str) -> str:
    """Run `umiak train`; returns why it failed, or nothing."""
    argv = [sys.executable, "-m", "umiak.cli.main", "train", "-m", "config.yaml", *words]
    ended = bench.start(argv, {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}).wait(LIMIT_S)
    if ended is None:
        return f"not ended within {LIMIT_S:g} s"
    return f"failed with {ended.status}: {bench.last_words()}" if ended.status else ""


def last_epoch(bench: Bench, runner: str) -> Epoch:
    """The last epoch of a run."""
    events = told(bench, runner)
    row = [event for event in events if event["event"] == "epoch"][-1]
    shares = [event["shares"] for event in events if event["event"] == "progress" and event["epoch"] == row["epoch"]]
    means = {name: sum(each[name] for each in shares) / len(shares) for name in shares[0]}
    return Epoch(row["samples"], row["seconds"], row["cpu_s"], row["trained"]["auc"], means)


def told(bench: Bench, runner: str) -> list[dict[str, Any]]:
    """What a run has written down."""
    return [json.loads(line) for line in (bench.directory / "run" / runner / "metrics.jsonl").read_text().splitlines()]


def compute_per_cpu_s(seconds: float, processes: int = 1) -> float:
    """Samples that forward and backward alone do in a second of CPU time, while so many processes do it at once."""
    argv = [sys.executable, "-W", "ignore", "-m", "benchmarks.ps_net", str(seconds), "dnn"]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(argv, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for _ in range(processes)
    ]
    rates = [float(each.communicate(timeout=120)[0].split()[-1]) for each in started]
    return sum(rates) / len(rates)


# ---- sections


def alone(run: Run) -> Iterator[Figure]:
    """One process, beside the loop."""
    rate = Figure(
        "alone",
        "dnn in one process, reader included: samples per second",
        "second epoch, one thread; the peer: a Python reader, DataLoader with one process, Adam over a whole table of 1,000,001 rows",
        unit="samples/s",
        goal=20_000,
        more_is_better=True,
    )
    per_core = Figure(
        "alone-cpu",
        "The same: samples per second of CPU time",
        "of all threads and processes of a subject",
        unit="samples/s",
        goal=20_000,
        more_is_better=True,
    )
    share = Figure(
        "not-compute",
        "The same: CPU time that is not forward and backward",
        "1 - (CPU time of Paddle's forward and backward alone, rows at hand) / (CPU time of a step)",
        unit="%",
        goal=20,
    )
    for _ in range(run.rounds):
        with measure.other_work(rate), measure.bench() as bench:
            prepared(bench, run.files)
            if why := trained(bench):
                rate.note("umiak", why)
                continue
            epoch = last_epoch(bench, "single")
            compute = compute_per_cpu_s(2.0)
            rate.add("umiak", epoch.rate)
            per_core.add("umiak", epoch.per_cpu_s)
            per_core.add("forward and backward alone", compute)
            share.add("umiak", 100 * (1 - epoch.per_cpu_s / compute))
            parts = ", ".join(f"{name} {part:.0%}" for name, part in epoch.shares.items() if part >= 0.005)
            rate.note("umiak", f"of its time: {parts}; auc {epoch.auc:.3f}")
            for lazy in (False, True):
                _peer(bench, run, rate, per_core, lazy=lazy)
    yield from (rate, per_core, share)


def _peer(bench: Bench, run: Run, rate: Figure, per_core: Figure, *, lazy: bool) -> None:
    name = "like PaddleRec, lazy_mode" if lazy else "like PaddleRec"
    samples = 10_240 if run.quick else 25_600
    argv = [
        sys.executable,
        "-m",
        "benchmarks.train_paddlerec",
        str(samples),
        str(int(lazy)),
        *map(str, clicks.files(1)),
    ]
    ended = bench.start(argv, {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}).wait(LIMIT_S)
    if ended is None or ended.status:
        rate.note(name, f"failed: {bench.last_words()}")
        return
    found = json.loads(bench.last_words())
    rate.add(name, found["samples"] / found["seconds"])
    per_core.add(name, found["samples"] / found["cpu_s"])


def job(run: Run) -> Iterator[Figure]:
    """Two servers and two trainers."""
    wanted = {
        strategy: Figure(
            f"job-{strategy}",
            f"dnn with 2 trainers and 2 servers on this machine, {strategy}: samples per second of both",
            "second epoch; all four processes share this machine's cores",
            unit="samples/s",
            goal=goal,
            more_is_better=True,
        )
        for strategy, goal in (("async", 40_000), ("sync", 32_000))
    }
    for _ in range(run.rounds):
        for strategy, figure in wanted.items():
            with measure.other_work(figure), measure.bench() as bench:
                prepared(bench, run.files)
                if why := trained(bench, "-o", "mode=ps", "-o", f"runner.ps.distribute_strategy={strategy}"):
                    figure.note("umiak", why)
                    continue
                epoch = last_epoch(bench, "ps")
                figure.add("umiak", epoch.rate)
                parts = ", ".join(f"{name} {part:.0%}" for name, part in epoch.shares.items() if part >= 0.005)
                figure.note("umiak", f"of the first trainer's time: {parts}; auc {epoch.auc:.3f}")
    yield from wanted.values()


def scaling(run: Run) -> Iterator[Figure]:
    """What a second trainer brings, if the servers are elsewhere."""
    figure = Figure(
        "scaling",
        "From one trainer to two: how many times as many samples, by the trainers' CPU time",
        "async with 2 servers; 2 x (trainer's CPU time of a sample with one trainer) / (the same with two)",
        unit="x",
        goal=1.85,
        more_is_better=True,
    )
    for _ in range(run.rounds):
        cost = {}
        for trainers in (1, 2):
            with measure.other_work(figure), measure.bench() as bench:
                prepared(bench, run.files)
                if why := trained(bench, "-o", "mode=ps", "-o", f"runner.ps.worker_num={trainers}"):
                    figure.note("umiak", why)
                    break
                epoch = last_epoch(bench, "ps")
                cost[trainers] = epoch.cpu_s / epoch.samples
        if len(cost) == 2:
            figure.add("umiak", 2 * cost[1] / cost[2])
            limit = 2 * compute_per_cpu_s(2.0, processes=2) / compute_per_cpu_s(2.0)
            figure.add("forward and backward alone, one process to two", limit)
    yield figure


def start(run: Run) -> Iterator[Figure]:
    """How long it takes to begin."""
    figure = Figure(
        "first-batch",
        "From the command to the first batch done, beyond `import paddle`",
        "one process; the time of a Python that imports paddle and nothing else, measured in turn, is taken off",
        goal=0.5,
    )
    for _ in range(2 * run.rounds + 1):
        with measure.other_work(figure), measure.bench() as bench:
            prepared(bench, 1, epochs=1, told=1)
            began = time.time()
            if why := trained(bench):
                figure.note("umiak", why)
                continue
            first = next(event["time"] for event in told(bench, "single") if event["event"] == "progress")
            imported = bench.start([sys.executable, "-W", "ignore", "-c", "import paddle"]).wait(60)
            if imported is not None:
                figure.add("umiak", first - began - imported.wall_s)
                figure.add("import paddle", imported.wall_s)
    yield figure


SECTIONS = {"alone": alone, "job": job, "scaling": scaling, "start": start}


if __name__ == "__main__":
    sys.exit(main())
