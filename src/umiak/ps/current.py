"""The session of this process: made by `init`, found by everything that is not given another one. An adapter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from umiak.ps import environment, paddle_flags, strategies
from umiak.ps.errors import BadRequest
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.problem import Problem
    from umiak.ps.strategies import Strategy

_current: Session | None = None


def init(
    strategy: Strategy | str = "async",
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
) -> Session:
    """This process's part in its job, found out from the environment; it becomes the session that everything here uses.

    ``strategy`` is a value: ``ps.Sync()``, ``ps.Async()``, ``ps.HalfAsync(merge=4)``, ``ps.Geo(every=100)`` or ``ps.Hybrid()``.
    Or it is a name, ``"half_async"``, and ``flags`` are its settings as Paddle's communicator has them: ``max_merge_var_num=4``.
    ``durability_ms`` lets a killed server come back with everything. ``metrics=9100`` lets servers tell Prometheus how they are.
    The reference (docs/reference/ps.md) has them all. Connects to nothing yet. `BadRequest` with everything that is wrong.
    """
    chosen, said_s, problems = _chosen(strategy, flags)
    timeouts = (each for each in (timeout_s, said_s) if each is not None)
    options = SessionOptions(
        shards=shards,
        durability_ms=durability_ms,
        state_dir=state_dir,
        on_loss=on_loss,
        grace_s=grace_s,
        timeout_s=next(timeouts, SessionOptions().timeout_s),
        metrics=metrics,
        tls=tls,
    )
    problems = [*options.problems(), *problems]
    if problems:
        raise BadRequest(*problems)
    seat = environment.seat(os.environ if environ is None else environ)
    return use(Session(seat, chosen, options))


def use(session: Session) -> Session:
    """Let this be the session that everything here uses."""
    global _current  # noqa: PLW0603 - a process has one seat
    _current = session
    return session


def session() -> Session:
    """The session of this process; `init` with all defaults if nobody has called it."""
    return _current or init()


def _chosen(strategy: Strategy | str, flags: Mapping[str, object]) -> tuple[Strategy, float | None, list[Problem]]:
    """The strategy, the timeout if a flag says one, and what is wrong with both."""
    if isinstance(strategy, str):
        found = paddle_flags.translated(strategy, flags)
        return found.strategy, found.timeout_s, [*found.problems]
    problems = strategies.problems(strategy)
    if not problems:
        problems = paddle_flags.beside_a_value(strategy, flags)
    return strategy, None, problems
