"""A PyTorch trainer on a GPU: its tables on servers on the same machine, beside the same model with its tables in GPU memory. A program.

    python -m benchmarks.ps_gpu                      everything: correctness, rates, where the time goes, memory
    python -m benchmarks.ps_gpu --device cpu --batch 64 --steps 4 --rows 1000        whether it runs

The model: 26 slots and 13 numbers, rows of 16, layers of 400, 400 and 400; ids of each slot as Zipf has them. Batches are made before, lie
in pinned memory and go to the GPU in the loop, for all subjects alike. Needs PyTorch, numpy and the native core, and no network.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from benchmarks import ps_programs
from umiak import ps
from umiak.ps import strategies
from umiak.ps.environment import PsSeat, SeatRole
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session

SLOTS, NUMBERS, DIM, WIDTH = 26, 13, 16, 400
SKEW = 1.05
BATCHES = 24
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def batches(size: int, rows: int, device: torch.device, seed: int = 0) -> list[Batch]:
    """Ids, numbers and labels. Each slot has ids of its own, the frequent ones anywhere among them."""
    random = np.random.default_rng(seed)
    shares = np.arange(1, rows + 1, dtype=np.float64) ** -SKEW
    ends = np.cumsum(shares) / shares.sum()
    found = []
    for _ in range(BATCHES):
        ranks = np.searchsorted(ends, random.random((size, SLOTS))).clip(0, rows - 1)
        ids = (ranks * 7_368_787 + 11) % rows + np.arange(SLOTS) * rows
        numbers = random.random((size, NUMBERS), dtype=np.float32)
        labels = (random.random((size, 1)) < 0.3).astype(np.float32)
        tensors = [torch.from_numpy(each) for each in (ids, numbers, labels)]
        found.append(tuple(each.pin_memory() if device.type == "cuda" else each for each in tensors))
    return found


def layers() -> torch.nn.Sequential:
    """The dense part, the same each time."""
    torch.manual_seed(1)
    sizes = [SLOTS * DIM + NUMBERS, WIDTH, WIDTH, WIDTH]
    hidden = [[torch.nn.Linear(one, other), torch.nn.ReLU()] for one, other in itertools.pairwise(sizes)]
    return torch.nn.Sequential(*itertools.chain(*hidden), torch.nn.Linear(WIDTH, 1))


class Model(torch.nn.Module):  # type: ignore[misc]
    """Rows of all slots beside the numbers, and layers above."""

    def __init__(self, rows: torch.nn.Module) -> None:
        super().__init__()
        self.rows, self.top = rows, layers()

    def forward(self, ids: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        top: torch.Tensor = self.top(torch.cat([self.rows(ids).flatten(1), numbers], 1))
        return top


class Bench:
    """The subjects, on one device."""

    def __init__(self, device: torch.device, size: int, rows: int, steps: int) -> None:
        self.device, self.size, self.rows, self.steps = device, size, rows, steps
        self.data = batches(size, rows, device)

    def source(self, count: int) -> Iterator[Batch]:
        for batch in itertools.islice(itertools.cycle(self.data), count):
            yield tuple(each.to(self.device, non_blocking=True) for each in batch)

    def measured(self, loop: Callable[[Iterator[Batch]], Iterator[object]]) -> dict[str, float]:
        """Milliseconds per step: the median over pieces of the loop, without the first third."""
        times: list[float] = []
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        for _ in loop(self.source(self.steps)):
            if len(times) % 8 == 0 and self.device.type == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter())
        pieces = [(times[at + 8] - times[at]) / 8 for at in range(0, len(times) - 8, 8)]
        later = pieces[len(pieces) // 3 :] or [(times[-1] - times[0]) / max(len(times) - 1, 1)]
        memory = torch.cuda.max_memory_allocated() / 2**20 if self.device.type == "cuda" else 0.0
        return {"ms": 1e3 * statistics.median(later), "MiB": memory}

    def plain(self, *, is_compiled: bool = False) -> dict[str, float]:
        """Tables in GPU memory: PyTorch alone."""
        rows = torch.nn.Embedding(SLOTS * self.rows, DIM, sparse=True)
        model = Model(rows).to(self.device)
        if is_compiled:
            model.top = torch.compile(model.top)
        fused = self.device.type == "cuda"
        dense = torch.optim.Adam(model.top.parameters(), lr=1e-3, fused=fused)
        sparse = torch.optim.SparseAdam([*rows.parameters()], lr=1e-3)

        def loop(source: Iterator[Batch]) -> Iterator[object]:
            for ids, numbers, labels in source:
                loss = _loss(model(ids, numbers), labels)
                loss.backward()
                for optimizer in (dense, sparse):
                    optimizer.step()
                    optimizer.zero_grad()
                yield loss

        return self.measured(loop)

    def servers(
        self,
        strategy: str,
        count: int = 4,
        *,
        wire: str = "float32",
        prefetch: bool = True,
        is_compiled: bool = False,
        is_half: bool = False,
    ) -> dict[str, float]:
        """Tables on servers, each a process of this machine."""
        with job(strategy, count, wire) as session:
            model = Model(ps.torch.Embedding(dim=DIM, session=session)).to(self.device)
            optimizer = ps.torch.optimizer(model, "adam", learning_rate=1e-3, session=session)
            top = torch.compile(model.top) if is_compiled else model.top
            clock = Clock(session)

            def loop(source: Iterator[Batch]) -> Iterator[object]:
                ahead = session.prefetch(source, lambda batch: {model.rows: batch[0]}) if prefetch else source
                for ids, numbers, labels in ahead:
                    optimizer.zero_grad()
                    with clock.part("rows"):
                        rows = model.rows(ids)
                    with torch.autocast(self.device.type, torch.bfloat16, enabled=is_half), clock.part("layers"):
                        out = top(torch.cat([rows.flatten(1), numbers], 1))
                    with clock.part("backward"):
                        loss = _loss(out.float(), labels)
                        loss.backward()
                    with clock.part("step"):
                        optimizer.step()
                    yield loss

            return {**self.measured(loop), **clock.shares(self.steps)}


class Clock:
    """Where a loop's time goes, in milliseconds per step: what it waits for the GPU, and for servers."""

    def __init__(self, session: Session) -> None:
        self._spent: dict[str, float] = {}
        communicator = session.communicator
        learn, pull = communicator.learn_dense, communicator.pull

        def learned(*words: Any, **more: Any) -> None:
            with self.part("exchange"):
                learn(*words, **more)

        def pulled(*words: Any, **more: Any) -> Any:
            with self.part("pull"):
                return pull(*words, **more)

        communicator.learn_dense = learned  # type: ignore[method-assign]
        communicator.pull = pulled  # type: ignore[method-assign]

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._spent[name] = self._spent.get(name, 0.0) + time.perf_counter() - began

    def shares(self, steps: int) -> dict[str, float]:
        return {name: 1e3 * spent / steps for name, spent in self._spent.items()}


def _loss(out: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.binary_cross_entropy_with_logits(out, labels)


@contextlib.contextmanager
def job(strategy: str, count: int, wire: str = "float32") -> Iterator[Session]:
    """A session with servers of its own; without any, tables in this process."""
    if not count:
        yield ps.use(Session(PsSeat(), ps.Async(), SessionOptions()))
        return
    with ps_programs.servers(count) as servers:
        seat = PsSeat(role=SeatRole.TRAINER, servers=tuple(each.endpoint for each in servers))
        chosen = strategies.by_name(strategy)
        with ps.use(Session(seat, chosen, SessionOptions(wire=wire))) as session:
            yield session


def differences(device: torch.device, rows: int, steps: int = 20) -> dict[str, float]:
    """The same steps on the CPU and on the device: how far losses, rows and parameters are apart at most."""
    results = []
    for place in (torch.device("cpu"), device):
        bench = Bench(place, 256, rows, steps)
        with job("async", 0) as session:
            model = Model(ps.torch.Embedding(dim=DIM, session=session)).to(place)
            optimizer = ps.torch.optimizer(model, "adam", learning_rate=1e-3, session=session)
            losses = []
            for ids, numbers, labels in bench.source(steps):
                optimizer.zero_grad()
                loss = _loss(model(ids, numbers), labels)
                loss.backward()
                optimizer.step()
                losses.append(float(loss.detach()))
            keys = np.unique(bench.data[0][0].numpy()).view(np.uint64)
            dense = torch.cat([each.detach().cpu().reshape(-1) for each in model.top.parameters()]).numpy()
            results.append((np.array(losses), model.rows.rows.rows(keys, create=False), dense))
    names = ("loss", "rows", "dense")
    return {name: float(np.abs(one - other).max()) for name, one, other in zip(names, *results, strict=True)}


def main() -> int:
    """Print a table, and all numbers as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--rows", type=int, default=100_000, help="of each slot")
    parser.add_argument("--steps", type=int, default=96)
    parser.add_argument("--only", nargs="*", default=[], help="subjects whose name has one of these words")
    words = parser.parse_args()
    device = torch.device(words.device)
    torch.set_float32_matmul_precision("highest")
    found: dict[str, Any] = {"differences": differences(device, words.rows)}
    print(f"CPU and {device} after 20 steps, at most:", found["differences"], flush=True)
    for size in words.batch:
        bench = Bench(device, size, words.rows, words.steps)
        subjects: dict[str, Callable[[], dict[str, float]]] = {
            "tables in GPU memory": bench.plain,
            "async, pulled": functools.partial(bench.servers, "async", prefetch=False),
            "async": functools.partial(bench.servers, "async"),
            "async, 8 servers": functools.partial(bench.servers, "async", 8),
            "async, bf16 wire": functools.partial(bench.servers, "async", wire="bfloat16"),
            "sync": functools.partial(bench.servers, "sync"),
            "async, compiled, amp": functools.partial(bench.servers, "async", is_compiled=True, is_half=True),
        }
        for name, subject in subjects.items():
            if words.only and not any(word in name for word in words.only):
                continue
            try:
                result = subject()
            except Exception as error:  # noqa: BLE001 - the others are worth their time on a machine that is lent
                print(f"{size:6} {name:24} failed: {error!r}", flush=True)
                continue
            found[f"{size} {name}"] = result
            base = found.get(f"{size} tables in GPU memory", result)["ms"]
            shares = ", ".join(f"{part} {spent:.2f}" for part, spent in result.items() if part not in ("ms", "MiB"))
            print(
                f"{size:6} {name:24} {result['ms']:8.2f} ms  {base / result['ms']:5.2f}  {result['MiB']:6.0f} MiB  {shares}",
                flush=True,
            )
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
