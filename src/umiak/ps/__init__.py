"""Parameter servers: embedding tables larger than one machine, trained by many.

    from umiak import ps

    job = ps.init(strategy="sync")
    if job.is_server:
        raise SystemExit(job.serve())

    import paddle
    model = Net()                                     # with ps.paddle.Embedding(dim=16) in it
    optimizer = ps.paddle.optimizer(model, "adam", learning_rate=1e-3)
    for batch in batches:
        loss = model(batch)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()

Start it with ``umiak launch --server_num 2 --trainer_num 2 train.py``, or alone with ``python train.py``: then this process
keeps the tables itself. ``ps.paddle`` and ``ps.torch`` are imported when they are named first, and their framework with them;
`ps.client()` is for anything that trains with numpy.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

import umiak.data.native_core  # noqa: F401 - first: it says what is missing
from umiak.ps import environment, settings
from umiak.ps.errors import BadRequest, bad
from umiak.ps.job import Job, Options
from umiak.ps.specs import (
    Accessor,
    Adagrad,
    AdagradScaled,
    AdagradShared,
    Adam,
    AdamRow,
    Always,
    Clip,
    Constant,
    Count,
    Decay,
    Ftrl,
    Momentum,
    Normal,
    Probability,
    RmsProp,
    Score,
    Sgd,
    Sum,
    Uniform,
    paddle_rule,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

    from umiak.ps.client import Client

__all__ = [
    "Accessor",
    "Adagrad",
    "AdagradScaled",
    "AdagradShared",
    "Adam",
    "AdamRow",
    "Always",
    "BadRequest",
    "Clip",
    "Constant",
    "Count",
    "Decay",
    "Ftrl",
    "Job",
    "Momentum",
    "Normal",
    "Probability",
    "RmsProp",
    "Score",
    "Sgd",
    "Sum",
    "Uniform",
    "barrier",
    "client",
    "finish",
    "init",
    "is_server",
    "job",
    "load",
    "paddle_rule",
    "save",
    "serve",
]

_current: Job | None = None


def init(
    strategy: str = "async",
    *,
    shards: int = 256,
    durability_ms: int | None = None,
    state_dir: str | None = None,
    on_loss: str = "fail",
    grace_s: float = 60.0,
    timeout_s: float | None = None,
    metrics: int | str | None = None,
    tls: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    **flags: object,
) -> Job:
    """This process's part in its job, found out from the environment; it becomes the one that everything here uses.

    ``strategy`` is sync, async, half_async, geo or hybrid; ``flags`` are its settings in the words of Paddle's communicator
    (``max_merge_var_num=4``, ``k_steps=100``, ...). ``durability_ms`` lets a killed server come back with everything.
    ``metrics=9100`` lets servers tell Prometheus how they are. The reference (docs/reference/ps.md) has them all. Connects to nothing yet. `BadRequest` with everything that is wrong.
    """
    options = Options(
        shards=shards,
        durability_ms=durability_ms,
        state_dir=state_dir,
        on_loss=on_loss,
        grace_s=grace_s,
        metrics=metrics,
        tls=tls,
    )
    if timeout_s is not None:
        if not isinstance(timeout_s, (int, float)):
            raise bad("UM-PS-007", f"timeout_s: not a number of seconds: {timeout_s!r}", "timeout_s=60")
        flags["rpc_deadline"] = timeout_s * 1000
    chosen = settings.read(flags, strategy, *options.problems())
    seat = environment.seat(os.environ if environ is None else environ)
    return use(Job(seat, strategy, chosen, options))


def use(job: Job) -> Job:
    """Let this be the job that everything here uses."""
    global _current  # noqa: PLW0603 - a process has one seat
    _current = job
    return job


def job() -> Job:
    """The job of this process; `init` with all defaults if nobody has called it."""
    return _current or init()


def is_server() -> bool:
    """Whether this process is a parameter server."""
    return job().is_server


def serve() -> int:
    """Serve this process's shards until the job is over; returns the exit status."""
    return job().serve()


def client() -> Client:
    """The connection to the servers, for programs of your own: `umiak_native.Client` says what it can do."""
    return job().client


def barrier() -> None:
    """Wait until every trainer that lives has come here."""
    job().barrier()


def save(path: str, *, metadata: Mapping[str, Any] | None = None, mode: str = "all") -> None:
    """Save all tables: `Job.save`."""
    job().save(path, metadata=metadata, mode=mode)


def load(path: str) -> dict[str, Any]:
    """Load all tables: `Job.load`."""
    return job().load(path)


def finish() -> None:
    """This trainer is done: `Job.finish`."""
    job().finish()


def __getattr__(name: str) -> ModuleType:
    """``ps.paddle`` and ``ps.torch`` bring their framework, so they are imported when they are asked for."""
    if name in ("paddle", "torch"):
        return importlib.import_module(f"umiak.ps.{name}")
    told = f"module 'umiak.ps' has no attribute {name!r}"
    if name == "AdamW":
        raise AttributeError(f'{told}: write optimizer(model, "AdamW"), or ps.Adam with decay=ps.Decay(decoupled=0.01)')
    near = [each for each in __all__ if each.lower() == name.lower()]
    raise AttributeError(f"{told}: write ps.{near[0]}" if near else told)
