"""Servers and clients of the native core as processes of their own, and what a client measures. An adapter.

    python -m benchmarks.ps_programs server '{"port": 0}'       prints its port, serves until its standard input is closed
    python -m benchmarks.ps_programs client '{...}'             prints what it measured

A client measures calls of one kind in a row, each with other keys than the one before, and tells quantiles: the tenth
percentile is close to what a call takes when nobody disturbs it.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import umiak_native

IDS = 13_312
"""26 slots of 512 samples."""
DIM = 16
ROWS = 1_000_000
RULES: Mapping[str, Mapping[str, object]] = {
    "adagrad": {"rule": "adagrad", "learning_rate": 0.01, "epsilon": 1e-6},
    "adam": {"rule": "adam", "learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
}

Keys = npt.NDArray[np.uint64]


def spec(rule: str) -> str:
    """The table that everything here is measured with."""
    init = {"kind": "uniform", "low": -0.01, "high": 0.01}
    return json.dumps({"kind": "sparse", "dim": DIM, "seed": 1, "init": init, "optimizer": RULES[rule]})


def batches(rows: int = ROWS, seed: int = 0) -> list[Keys]:
    """Keys 0 to `rows` in a random order, cut into requests: no key twice."""
    keys = np.random.default_rng(seed).permutation(rows).astype(np.uint64)
    return [keys[at : at + IDS] for at in range(0, rows - IDS + 1, IDS)]


def leftover(rows: int = ROWS, seed: int = 0) -> Keys:
    """The keys that did not fill a request."""
    keys = np.random.default_rng(seed).permutation(rows).astype(np.uint64)
    return keys[rows // IDS * IDS :]


@dataclass(frozen=True)
class Calls:
    """Quantiles of the duration of single calls, and how many rows went through per second."""

    count: int
    min_s: float
    p10_s: float
    p50_s: float
    p99_s: float
    max_s: float
    rows_per_s: float


def measured(durations: Sequence[float], wall_s: float, rows: int = IDS) -> Calls:
    """What a row of calls comes to."""
    p10, p50, p99 = (float(each) for each in np.quantile(durations, (0.1, 0.5, 0.99)))
    return Calls(len(durations), min(durations), p10, p50, p99, max(durations), len(durations) * rows / wall_s)


def in_a_row(call: Callable[[Keys], object], keys: Sequence[Keys], seconds: float) -> Calls:
    """One call after the other, for some time."""
    durations: list[float] = []
    began = time.perf_counter()
    until = began + seconds
    number = 0
    while time.perf_counter() < until or number < 20:
        before = time.perf_counter()
        call(keys[number % len(keys)])
        durations.append(time.perf_counter() - before)
        number += 1
    return measured(durations, time.perf_counter() - began)


class Trainer:
    """A client with one table."""

    def __init__(self, endpoints: Sequence[str], *, rank: int = 0, world: int = 1, **config: object) -> None:
        said = {"endpoints": list(endpoints), "rank": rank, "world": world, **config}
        self.client = umiak_native.Client(json.dumps(said))
        self.client.connect()
        self.table = -1
        self._out = np.empty((IDS, DIM), np.float32)
        self._gradients = np.random.default_rng(rank).standard_normal((IDS, DIM)).astype(np.float32) * 0.01

    def open(self, name: str, rule: str) -> None:
        self.table = self.client.create_table(name, spec(rule))

    def fill(self, rows: int = ROWS) -> None:
        """Let every row exist, with its optimizer's state."""
        for keys in [*batches(rows), leftover(rows)]:
            self.push(keys)

    def pull(self, keys: Keys) -> object:
        return self.client.pull(self.table, keys, self._out[: len(keys)])

    def push(self, keys: Keys) -> None:
        self.client.push(self.table, keys, self._gradients[: len(keys)])


class Server:
    """A server in a process of its own."""

    def __init__(self, **config: object) -> None:
        self.config = dict(config)
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the server
        argv = [sys.executable, "-m", "benchmarks.ps_programs", "server", json.dumps(self.config)]
        self.popen = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            cwd=Path(__file__).parent.parent,
        )
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        if not line:
            self.popen.wait()
            self._said.seek(0)
            raise RuntimeError(f"a server did not start: {self._said.read().strip()[-300:]}")
        self.port = int(line)
        self.endpoint = f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.popen.pid

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def close(self) -> None:
        """Let it end by itself, or end it."""
        if self.popen.poll() is None:
            assert self.popen.stdin is not None
            self.popen.stdin.close()
            try:
                self.popen.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
        for stream in (self.popen.stdin, self.popen.stdout, self._said):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@contextlib.contextmanager
def servers(count: int = 1, **config: object) -> Iterator[list[Server]]:
    """Servers of one job."""
    started: list[Server] = []
    try:
        for index in range(count):
            server = Server(index=index, servers=count, **config)
            started.append(server)  # one by one: those that have begun must be ended
        yield started
    finally:
        for server in started:
            server.close()


def together(
    operation: str, endpoints: Sequence[str], seconds: float, world: int = 2, rule: str = "adagrad"
) -> list[Calls]:
    """Several clients at once, each in a process of its own."""
    wanted = [
        {
            "endpoints": list(endpoints),
            "rank": rank,
            "world": world,
            "operation": operation,
            "seconds": seconds,
            "rule": rule,
        }
        for rank in range(world)
    ]
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.ps_programs", "client", json.dumps(each)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
        )
        for each in wanted
    ]
    try:
        said = [program.communicate(timeout=seconds + 120)[0] for program in programs]
    finally:
        for program in programs:
            program.kill()
            program.wait()
    return [Calls(**json.loads(text)) for text in said]


def _serve(config: Mapping[str, Any]) -> None:
    server = umiak_native.Server(json.dumps(config))
    print(server.start(), flush=True)
    sys.stdin.read()
    server.stop()


def _measure(config: dict[str, Any]) -> None:
    operation, seconds, rule = config.pop("operation"), config.pop("seconds"), config.pop("rule")
    trainer = Trainer(config["endpoints"], rank=config["rank"], world=config["world"])
    trainer.open(rule, rule)
    keys = batches(seed=config["rank"])
    call = trainer.pull if operation == "pull" else trainer.push
    in_a_row(call, keys, 0.2)
    trainer.client.barrier("go")
    found = in_a_row(call, keys, seconds)
    trainer.client.barrier("end")
    trainer.client.close()
    print(json.dumps(asdict(found)))


def _grow(config: Mapping[str, Any]) -> None:
    table = umiak_native.Table(spec("adagrad"))
    wall, cpu = [], []
    for keys in batches(config["rows"]):
        began, used = time.perf_counter(), time.thread_time()
        table.pull(keys)
        wall.append(time.perf_counter() - began)
        cpu.append(time.thread_time() - used)
    print(json.dumps({"wall": asdict(measured(wall, sum(wall))), "cpu": asdict(measured(cpu, sum(cpu)))}))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    {"server": _serve, "client": _measure, "grow": _grow}[sys.argv[1]](json.loads(sys.argv[2]))
