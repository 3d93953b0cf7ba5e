"""What saving, losing and keeping cost: checkpoints while training goes on, a killed server, the log. An adapter."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure, ps_job, ps_programs
from benchmarks.measure import Figure
from benchmarks.ps_programs import IDS, Server, Trainer

INTERVAL_MS = 100


def figures(*, quick: bool) -> Iterator[Figure]:
    """All of them."""
    yield from checkpoint(1 if quick else 3)
    yield from recovery(1 if quick else 3)
    yield from durability(quick=quick)


def checkpoint(rounds: int) -> Iterator[Figure]:
    """A save of a million rows while a trainer pulls and pushes."""
    from umiak.ps import checkpoint as checkpoints

    stall = Figure(
        "checkpoint-stall",
        "Longest pull or push while 1 M rows are saved",
        f"one server, one client with {IDS:,} ids per request, alternately pull and push (Adagrad); the save is asked for by "
        "another client at the same time",
        unit="ms",
        goal=50.0,
    )
    whole = Figure("checkpoint", "The save itself, 1 M rows with state (128 MB), fsync included", "same runs", unit="s")
    with ps_programs.servers(world=2) as (server,), tempfile.TemporaryDirectory(prefix="umiak-bench-") as directory:
        trainer, saver = (Trainer([server.endpoint], rank=rank, world=2) for rank in range(2))
        trainer.open("saved", "adagrad")
        trainer.fill()
        keys = ps_programs.batches()
        for number in range(rounds):
            path = str(Path(directory) / f"save-{number}")
            took: list[float] = []

            def save(path: str = path, took: list[float] = took) -> None:
                began = time.monotonic()
                checkpoints.save(saver.client, path)
                took.append(time.monotonic() - began)

            with measure.other_work(stall):
                before = _alternate(trainer, keys, 1.0)
                thread = threading.Thread(target=save)
                thread.start()
                during = _alternate(trainer, keys, 60.0, thread)
                thread.join()
            stall.add("during a save", max(during) * 1e3)
            stall.add("in the second before", max(before) * 1e3)
            stall.note("during a save", f"{len(during)} calls, {sum(each > 0.01 for each in during)} above 10 ms")
            if took:
                whole.add("umiak", took[0])
            else:
                whole.note("umiak", "failed: see what was printed")
        for each in (trainer, saver):
            each.client.close()
    yield from (stall, whole)


def _alternate(
    trainer: Trainer, keys: list[ps_programs.Keys], seconds: float, beside: threading.Thread | None = None
) -> list[float]:
    durations: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until and (beside is None or beside.is_alive()):
        call = trainer.push if len(durations) % 2 else trainer.pull
        began = time.perf_counter()
        call(keys[len(durations) % len(keys)])
        durations.append(time.perf_counter() - began)
    return durations


def recovery(rounds: int) -> Iterator[Figure]:
    """A server with a log is killed and started again; the client is in the middle of its work."""
    figure = Figure(
        "recovery",
        "A server of 1 M rows killed with SIGKILL and started again: until the trainer's next pull is answered",
        f"log every {INTERVAL_MS} ms, no snapshot yet: 1 M rows come back from 76 logged pushes of 13 k rows; from the kill, with "
        "the start of Python, recovery, the client's reconnecting and replaying",
        unit="s",
    )
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="umiak-bench-") as directory, measure.other_work(figure):
            config = {"port": measure.free_port(), "log": {"dir": directory, "interval_ms": INTERVAL_MS}}
            server = Server(**config)
            trainer = Trainer([server.endpoint])
            trainer.open("kept", "adagrad")
            trainer.fill()
            keys = ps_programs.batches()[0]
            expected = trainer.client.pull(trainer.table, keys)
            killed = time.monotonic()
            server.kill()
            server = Server(**config)
            figure.add("started and recovered", time.monotonic() - killed)
            found = trainer.client.pull(trainer.table, keys)
            figure.add("next pull answered", time.monotonic() - killed)
            if not (expected == found).all():
                figure.note("next pull answered", "WRONG: rows differ from those before the kill")
            trainer.client.close()
            server.close()
    yield figure


def durability(*, quick: bool) -> Iterator[Figure]:
    """Pushes with the log off and on."""
    figure = Figure(
        "durability",
        "Push (Adagrad) with and without the log: median of one request",
        f"{IDS:,} ids and gradients (905 KB) per request, 1 M rows, in turn; the log is made durable every {INTERVAL_MS} ms",
        unit="ms",
    )
    rates = Figure("durability-rate", "The same: rows per second", "same calls", unit="M rows/s", more_is_better=True)
    with tempfile.TemporaryDirectory(prefix="umiak-bench-") as directory:
        settings: dict[str, dict[str, object]] = {
            "log off": {},
            "log on": {"log": {"dir": directory, "interval_ms": INTERVAL_MS}},
        }
        started = {name: Server(**config) for name, config in settings.items()}
        trainers = {name: Trainer([server.endpoint]) for name, server in started.items()}
        for trainer in trainers.values():
            trainer.open("kept", "adagrad")
            trainer.fill()
        for _ in range(2 if quick else 4):
            with measure.other_work(figure):
                for name, trainer in trainers.items():
                    calls = ps_programs.in_a_row(trainer.push, ps_programs.batches(), 1.0)
                    figure.add(name, calls.p50_s * 1e3)
                    rates.add(name, calls.rows_per_s / 1e6)
                    figure.note(name, f"99th percentile {calls.p99_s * 1e3:.1f} ms, longest {calls.max_s * 1e3:.0f} ms")
        for name, server in started.items():
            trainers[name].client.close()
            server.close()
    yield from (figure, rates)
    job = Figure(
        "durability-train",
        "The asynchronous job with the log on",
        "as train-async",
        unit="samples/s",
        more_is_better=True,
    )
    for _ in range(1 if quick else 2):
        with measure.other_work(job):
            ps_job.add(job, "log on", ps_job.run("async", 100 if quick else 300, "--durability-ms", str(INTERVAL_MS)))
            ps_job.add(job, "log off", ps_job.run("async", 100 if quick else 300))
    yield job
