"""What a communicator asks of the servers, as a protocol, and who answers. An adapter.

    connect(seat, ...)     umiak_native.Client: the servers of a job
    local.LocalClient      tables in this process, for a script that runs alone

A program that trains with numpy has typed tables (`umiak.ps.tables.numpy_tables`); what these do not do, it can ask a client itself: `umiak.ps.client()`.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Protocol

import umiak_native

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    import numpy as np
    from numpy.typing import NDArray

    from umiak.ps.environment import PsSeat

    Keys = NDArray[np.uint64] | NDArray[np.int64]
    Floats = NDArray[np.float32]
    Gradients = Floats | list[Floats]
    """Of all elements of a dense table: one array, or several that follow each other."""
    Push = tuple[int, Keys, Floats]
    """Gradients of rows: table, keys, rows."""
    Absent = Literal["initial", "zeros"]
    """What a row that is only read, and is not there, reads as: what it would begin with, or zeros."""

TLS_OF_CLIENTS = ("ca", "cert", "key", "name")


class Client(Protocol):
    """The operations of `umiak_native.Client` that training needs; they are described there."""

    def create_table(self, name: str, spec: str) -> int: ...
    def pull(
        self,
        table: int,
        keys: Keys,
        out: Floats | None = None,
        *,
        create: bool = True,
        absent: Absent = "initial",
        step: int = 0,
    ) -> Floats: ...
    def push(
        self, table: int, keys: Keys, rows: Floats, *, step: int | None = None, scale: float = 1.0, mean: bool = False
    ) -> None: ...
    def set(self, table: int, keys: Keys, rows: Floats) -> None: ...
    def add(self, table: int, keys: Keys, rows: Floats) -> None: ...
    def changed(self, table: int) -> tuple[NDArray[np.uint64], Floats]: ...
    def pull_dense(self, table: int, out: Floats | None = None, *, step: int = 0) -> Floats: ...
    def push_dense(
        self, table: int, gradients: Gradients, *, step: int | None = None, scale: float = 1.0, mean: bool = False
    ) -> None: ...
    def learn_dense(
        self,
        table: int,
        gradients: Gradients,
        out: Floats,
        *,
        pushes: list[Push] = ...,
        step: int | None = None,
        scale: float = 1.0,
        mean: bool = False,
    ) -> Floats: ...
    def set_dense(self, table: int, values: Floats, *, if_unset: bool = False, step: int | None = None) -> None: ...
    def set_learning_rate(self, table: int, learning_rate: float, *, step: int | None = None) -> None: ...
    def shrink(self, table: int) -> int: ...
    def prepare(self, step: int) -> None: ...
    def commit(self, step: int) -> None: ...
    def resume(self) -> int: ...
    @property
    def step(self) -> int | None: ...
    def finish_steps(self) -> None: ...
    def barrier(self, name: str) -> None: ...
    def gather(self, name: str, payload: bytes) -> list[bytes]: ...
    def post(self, name: str, payload: bytes) -> list[bytes]: ...
    def take(self, name: str) -> int: ...
    def done(self) -> None: ...
    def save(self, request: str) -> str: ...
    def load(self, request: str) -> str: ...
    def status(self) -> str: ...
    def close(self) -> None: ...


def connect(seat: PsSeat, *, shards: int, timeout_s: float, tls: Mapping[str, str] | None) -> umiak_native.Client:
    """A trainer's connection to all servers of its job; waits for them for up to ``timeout_s``."""
    config: dict[str, Any] = {
        "endpoints": list(seat.servers),
        "rank": seat.rank,
        "world": seat.world,
        "job": seat.job,
        "shards": shards,
        "timeout_s": timeout_s,
        "tls": {name: tls[name] for name in TLS_OF_CLIENTS if name in tls} if tls else None,
    }
    client = umiak_native.Client(json.dumps(config), os.fsencode(seat.token) if seat.token else None)
    client.connect()
    return client
