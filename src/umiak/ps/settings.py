"""How a strategy sends and receives, in the words of Paddle's communicator. Values and a decider.

    read({"FLAGS_communicator_max_merge_var_num": 4}, "half_async")  ->  Settings(merge=4)

A name may be said with or without its ``FLAGS_`` and ``FLAGS_communicator_``. Names that mean nothing here are taken and
ignored, because configurations carry them along; an unknown one is an error.
"""

from __future__ import annotations

from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.ps.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

STRATEGIES = ("sync", "async", "half_async", "geo", "hybrid")


@value
class Settings:
    """What the flags come to."""

    merge: int = 1
    """How many steps' gradients go into one push: half_async always, async only with a queue."""
    queue: int = 0
    """How many steps may wait to be sent while training goes on (async); 0: a step's gradients are sent in the step."""
    pull_every: int = 1
    """After how many pushes the dense parameters are fetched anew (async)."""
    sum_merged: bool = False
    """Whether merged gradients are summed instead of averaged."""
    geo_steps: int = 100
    """After how many steps differences are exchanged (geo)."""
    timeout_s: float = 60.0
    """How long a server may be away or silent."""


# The flag, the field, and what turns the flag's number into the field's.
_FIELDS = {
    "max_merge_var_num": "merge",
    "send_queue_size": "queue",
    "max_send_grad_num_before_recv": "pull_every",
    "is_sgd_optimizer": "sum_merged",
    "k_steps": "geo_steps",
    "geo_need_push_nums": "geo_steps",
    "rpc_deadline": "timeout_s",
}
NO_EFFECT = {
    "thread_pool_size": "one thread per connection is enough: requests to all servers are on their way together",
    "min_send_grad_num_before_recv": "the dense parameters are fetched by the training loop, not by a thread beside it",
    "independent_recv_thread": "the same",
    "send_wait_times": "a queue is sent as soon as something is in it",
    "fake_rpc": "a test switch of Paddle's",
    "merge_sparse_grad": "gradients of the same key are always merged",
    "merge_sparse_bucket": "the same",
    "rpc_retry_times": "connections are retried until the timeout",
    "need_global_step": "`job.step` is the step",
    "launch_barrier": "the launcher starts trainers when all servers are there",
}
_HALF_ASYNC_MERGE = 4


def read(flags: Mapping[str, object], strategy: str, *more: Problem) -> Settings:
    """The settings of a strategy. `BadRequest` with every flag that is unknown or senseless, and what else was wrong."""
    problems = [*more]
    if strategy not in STRATEGIES:
        what = f"no such strategy: {strategy}"
        problems.append(Problem(code="UM-PS-007", what=what, hint=f"choose one of {', '.join(STRATEGIES)}"))
    found: dict[str, object] = {"merge": _HALF_ASYNC_MERGE} if strategy == "half_async" else {}
    for name, given in flags.items():
        short = name.removeprefix("FLAGS_").removeprefix("communicator_")
        if short in NO_EFFECT:
            continue
        if short not in _FIELDS:
            hint = f"known: {', '.join((*_FIELDS, *NO_EFFECT))}"
            problems.append(Problem(code="UM-PS-007", what=f"no such setting: {name}", hint=hint))
            continue
        number = _number(given)
        field = _FIELDS[short]
        least = 0 if field in ("queue", "sum_merged") else 1
        if number is None or number < least:
            what = f"{name}: expected an integer, {least} or more: {given}"
            problems.append(Problem(code="UM-PS-007", what=what))
            continue
        found[field] = {"sum_merged": bool(number), "timeout_s": number / 1000}.get(field, number)
    if problems:
        raise BadRequest(*problems)
    return Settings(**found)  # type: ignore[arg-type]


def _number(given: object) -> int | None:
    try:
        return int(given)  # type: ignore[call-overload,no-any-return]
    except (TypeError, ValueError):
        return None
