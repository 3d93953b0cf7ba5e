"""The strategies of parameter servers: how trainers and servers work together, and when what is sent. Values and a decider.

    ps.init(ps.Sync())                   every step is applied once, with everybody's gradients
    ps.init(ps.Geo(every=50))            everybody trains its own copy; differences are exchanged every 50 steps
    by_name("geo")  ->  Geo(every=100)

What each guarantees is said at its class in `umiak.ps.communicators`, which carries it out, and in
docs/explanation/ps-strategies.md. Paddle's words for the settings are known here alone:

    translated("half_async", {"FLAGS_communicator_max_merge_var_num": 8})  ->  Translated(strategy=HalfAsync(merge=8))
"""

from __future__ import annotations

from umiak.core.cluster import StrategyName
from umiak.core.problem import Problem
from umiak.core.value import fields, positional_value, replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
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


# ---- in Paddle's words

FIELDS = {
    "max_merge_var_num": "merge",
    "send_queue_size": "queue",
    "max_send_grad_num_before_recv": "pull_every",
    "is_sgd_optimizer": "sum_merged",
    "k_steps": "every",
    "geo_need_push_nums": "every",
}
"""Each flag, and the field of a strategy that it is."""
TIMEOUT = "rpc_deadline"
"""The one flag that is not the strategy's: in milliseconds, ``timeout_s`` of `umiak.ps.options.SessionOptions`."""
NO_EFFECT = {
    "thread_pool_size": "one thread per connection is enough: requests to all servers are on their way together",
    "min_send_grad_num_before_recv": "the dense parameters are fetched by the training loop, not by a thread beside it",
    "independent_recv_thread": "the same",
    "send_wait_times": "a queue is sent as soon as something is in it",
    "fake_rpc": "a test switch of Paddle's",
    "merge_sparse_grad": "gradients of the same key are always merged",
    "merge_sparse_bucket": "the same",
    "rpc_retry_times": "connections are retried until the timeout",
    "need_global_step": "`session.step` is the step",
    "launch_barrier": "the launcher starts trainers when all servers are there",
}
_MAY_BE_ZERO = ("queue", "sum_merged")


@value
class Translated:
    """What a strategy's name and flags come to."""

    strategy: Strategy = Async()
    timeout_s: float | None = None
    """None: nothing was said of it."""
    problems: tuple[Problem, ...] = ()


def translated(name: str, flags: Mapping[str, object]) -> Translated:
    """The strategy of that name with these settings of Paddle's communicator, or everything that is wrong with them.

    A name may be said with or without its ``FLAGS_`` and ``FLAGS_communicator_``. Names that mean nothing here, or nothing for this
    strategy, are taken and ignored, because configurations carry them along; an unknown one is an error.
    """
    wrong: list[Problem] = []
    strategy: Strategy = Async()
    try:
        strategy = by_name(name)
    except ValueError:
        wrong += problems(name)
    found: dict[str, object] = {}
    timeout_s = None
    for flag, given in flags.items():
        short = flag.removeprefix("FLAGS_").removeprefix("communicator_")
        if short in NO_EFFECT:
            continue
        field = FIELDS.get(short)
        if field is None and short != TIMEOUT:
            hint = f"known: {', '.join((*FIELDS, TIMEOUT, *NO_EFFECT))}"
            wrong.append(Problem(code="UM-PS-007", what=f"no such setting: {flag}", hint=hint))
            continue
        number = _number(given)
        least = 0 if field in _MAY_BE_ZERO else 1
        if number is None or number < least:
            what = f"{flag}: expected an integer, {least} or more: {given}"
            wrong.append(Problem(code="UM-PS-007", what=what))
        elif field is None:
            timeout_s = number / 1000
        elif field in fields(strategy):
            found[field] = bool(number) if field == "sum_merged" else number
    return Translated(strategy=replace(strategy, **found), timeout_s=timeout_s, problems=tuple(wrong))


def beside_a_value(strategy: Strategy, flags: Mapping[str, object]) -> list[Problem]:
    """What is wrong with flags that were said although the strategy is a value, whose fields they should have been."""
    kind = f"ps.{type(strategy).__name__}(...)"
    hint = f"its fields: {', '.join(fields(strategy)) or 'none'}; or by name: ps.init({strategy.name.value!r}, ...)"
    return [Problem(code="UM-PS-007", what=f"{flag}: a setting beside {kind}", hint=hint) for flag in flags]


def _number(given: object) -> int | None:
    try:
        return int(given)  # type: ignore[call-overload,no-any-return]
    except (TypeError, ValueError):
        return None
