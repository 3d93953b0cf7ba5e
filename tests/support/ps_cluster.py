"""Parameter servers and trainers in one process, for tests: real servers on loopback, a thread per trainer.

with Cluster(servers=2, trainers=2) as cluster:
    results = cluster.train("sync", lambda job: ...)
"""

from __future__ import annotations

import concurrent.futures
import json
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import umiak_native

from umiak.core.value import replace
from umiak.ps import strategies
from umiak.ps.environment import PsSeat, SeatRole
from umiak.ps.options import SessionOptions
from umiak.ps.servers import serving
from umiak.ps.sessions import Session

T = TypeVar("T")
TOKEN = "for this test"


class Cluster:
    """So many servers, and jobs for so many trainers."""

    def __init__(
        self, *, servers: int = 2, trainers: int = 2, shards: int = 16, tls: Any = None, **config: Any
    ) -> None:
        self.trainers = trainers
        self.shards = shards
        self.tls = tls
        if tls:
            config["tls"] = {name: tls[name] for name in serving.TLS_OF_SERVERS}
        self.servers = [
            umiak_native.Server(
                json.dumps({"index": i, "servers": servers, "world": trainers, "shards": shards, **config}),
                TOKEN.encode(),
            )
            for i in range(servers)
        ]
        self.endpoints: tuple[str, ...] = ()

    def __enter__(self) -> Cluster:
        self.endpoints = tuple(f"127.0.0.1:{server.start()}" for server in self.servers)
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.stop()

    def job(self, strategy: str, rank: int = 0, **flags: Any) -> Session:
        seat = PsSeat(role=SeatRole.TRAINER, rank=rank, world=self.trainers, servers=self.endpoints, token=TOKEN)
        found = strategies.translated(strategy, flags)
        assert not found.problems
        options = SessionOptions(shards=self.shards, tls=self.tls, timeout_s=found.timeout_s or 60.0)
        return Session(seat, found.strategy, options)

    def train(self, strategy: str, trainer: Callable[[Session], T], **flags: Any) -> list[T]:
        """Run a function for every trainer, each in its thread; the results in rank order."""

        def run(rank: int) -> T:
            with self.job(strategy, rank, **flags) as job:
                return trainer(job)

        with concurrent.futures.ThreadPoolExecutor(self.trainers) as pool:
            return list(pool.map(run, range(self.trainers)))


def with_prefetch(job: Session, prefetch: int) -> Session:
    job.options = replace(job.options, prefetch=prefetch)
    return job


def count_pulls(job: Session) -> list[int]:
    """The tables that rows are pulled of from now on, other than with the end of a step."""
    pulled: list[int] = []
    really = job.communicator._pull

    def counted(table: int, keys: np.ndarray, **how: Any) -> np.ndarray:
        pulled.append(table)
        return really(table, keys, **how)

    job.communicator._pull = counted  # type: ignore[method-assign]
    return pulled


class ThreadGroup:
    """Trainers in threads of this process, that exchange as `umiak.ps.clients.collective.Group` says."""

    def __init__(self, rank: int, brought: list[object], meet: threading.Barrier) -> None:
        self.rank, self.world, self._brought, self._meet = rank, len(brought), brought, meet

    def gather(self, payload: bytes, name: str = "") -> list[bytes]:
        del name
        return [*self._exchanged(payload)]

    def add(self, array: np.ndarray) -> None:
        array[...] = np.add.reduce(self._exchanged(array.copy()))

    def _exchanged(self, mine: Any) -> list[Any]:
        self._brought[self.rank] = mine
        self._meet.wait()
        found = [*self._brought]
        self._meet.wait()
        return found
