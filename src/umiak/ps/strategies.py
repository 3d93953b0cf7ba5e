"""The strategies of parameter servers: how trainers and servers work together, and when what is sent. Values and a decider.

    ps.init(ps.Sync())                   every step is applied once, with everybody's gradients
    ps.init(ps.Geo(every=50))            everybody trains its own copy; differences are exchanged every 50 steps
    by_name("geo")  ->  Geo(every=100)

What each guarantees is said in its module of `umiak.ps.communicators`, which carry them out, and in
docs/explanation/ps-strategies.md. Paddle's words for the settings are in `umiak.ps.paddle_flags`.
"""

from __future__ import annotations

from umiak.core.problem import Problem
from umiak.core.strategy_name import StrategyName
from umiak.core.value import fields, positional_value, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@value
class Sync:
    """Every step is applied once, with the gradients of all trainers; bit for bit what one process would compute."""

    name = StrategyName.SYNC


@value
class Async:
    """Gradients are applied as they arrive, and nobody waits for anybody."""

    name = StrategyName.ASYNC

    queue: int = 0
    """How many steps may wait to be sent while training goes on; 0: a step's gradients are sent in the step."""
    merge: int = 1
    """With a queue: how many waiting steps at most become one push."""
    sum_merged: bool = False
    """Whether merged gradients are summed instead of averaged."""
    pull_every: int = 1
    """After how many steps the dense parameters are fetched."""


@positional_value
class HalfAsync:
    """As `Async`, with the gradients of several steps merged into one push."""

    name = StrategyName.HALF_ASYNC

    merge: int = 4
    """How many steps' gradients become one push."""
    sum_merged: bool = False
    """Whether merged gradients are summed instead of averaged."""


@positional_value
class Geo:
    """Everybody trains its own copy, and differences are exchanged now and then."""

    name = StrategyName.GEO

    every: int = 100
    """After how many steps differences are exchanged."""


@value
class Hybrid:
    """Rows as in `Async`, dense parameters as in `Sync`."""

    name = StrategyName.HYBRID


@value
class Collective:
    """As `Sync` without servers: every trainer has all tables, and gradients are exchanged. For `umiak train`, which makes its client."""

    name = "collective"


Strategy = Sync | Async | HalfAsync | Geo | Hybrid
"""What `ps.init` takes."""

KINDS: dict[StrategyName, type[Any]] = {kind.name: kind for kind in (Sync, Async, HalfAsync, Geo, Hybrid)}

_LEAST = {"queue": 0}
"""The smallest number of a field, where it is not 1."""

for _kind in KINDS.values():
    # What is called otherwise here.
    _kind.__hints__ = {
        "k_steps": "ps.Geo(every=...)",
        "every": "ps.Geo(every=...)",
        "merge": "ps.HalfAsync(merge=...)",
        "max_merge_var_num": "ps.HalfAsync(merge=...)",
        "send_queue_size": "ps.Async(queue=...)",
        "timeout_s": "ps.init(..., timeout_s=...)",
    }


def by_name(name: StrategyName | str) -> Strategy:
    """The strategy of that name with all defaults. ValueError if there is none."""
    made: Strategy = KINDS[StrategyName(name)]()
    return made


def problems(strategy: object) -> list[Problem]:
    """Everything that is wrong with what should be a strategy."""
    if type(strategy) not in KINDS.values():
        choices = ", ".join(f"ps.{kind.__name__}()" for kind in KINDS.values())
        names = ", ".join(KINDS)
        return [
            Problem(code="UM-PS-007", what=f"no such strategy: {strategy}", hint=f"choose {choices}; by name {names}")
        ]
    return [
        Problem(code="UM-PS-007", what=f"{type(strategy).__name__}: {wrong}")
        for field in fields(strategy)
        if (wrong := _wrong(field, getattr(strategy, field)))
    ]


def _wrong(field: str, given: object) -> str | None:
    if field == "sum_merged":
        return None if isinstance(given, bool) else f"{field}: expected a boolean: {given!r}"
    least = _LEAST.get(field, 1)
    if isinstance(given, int) and not isinstance(given, bool) and given >= least:
        return None
    return f"{field}: expected an integer, {least} or more: {given!r}"
