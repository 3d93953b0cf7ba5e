"""Settings of Paddle's communicator, translated: the one place that knows their names. A decider.

    translated("half_async", {"FLAGS_communicator_max_merge_var_num": 8})  ->  Translated(strategy=HalfAsync(merge=8))

A name may be said with or without its ``FLAGS_`` and ``FLAGS_communicator_``. Names that mean nothing here, or nothing for this
strategy, are taken and ignored, because configurations carry them along; an unknown one is an error.
"""

from __future__ import annotations

from umiak.core.problem import Problem
from umiak.core.value import fields, replace, value
from umiak.ps import strategies
from umiak.ps.strategies import Strategy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

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

    strategy: Strategy = strategies.Async()
    timeout_s: float | None = None
    """None: nothing was said of it."""
    problems: tuple[Problem, ...] = ()


def translated(name: str, flags: Mapping[str, object]) -> Translated:
    """The strategy of that name with these flags, or everything that is wrong with them."""
    problems: list[Problem] = []
    strategy: Strategy = strategies.Async()
    try:
        strategy = strategies.by_name(name)
    except ValueError:
        problems += strategies.problems(name)
    found: dict[str, object] = {}
    timeout_s = None
    for flag, given in flags.items():
        short = flag.removeprefix("FLAGS_").removeprefix("communicator_")
        if short in NO_EFFECT:
            continue
        field = FIELDS.get(short)
        if field is None and short != TIMEOUT:
            hint = f"known: {', '.join((*FIELDS, TIMEOUT, *NO_EFFECT))}"
            problems.append(Problem(code="UM-PS-007", what=f"no such setting: {flag}", hint=hint))
            continue
        number = _number(given)
        least = 0 if field in _MAY_BE_ZERO else 1
        if number is None or number < least:
            what = f"{flag}: expected an integer, {least} or more: {given}"
            problems.append(Problem(code="UM-PS-007", what=what))
        elif field is None:
            timeout_s = number / 1000
        elif field in fields(strategy):
            found[field] = bool(number) if field == "sum_merged" else number
    return Translated(strategy=replace(strategy, **found), timeout_s=timeout_s, problems=tuple(problems))


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
