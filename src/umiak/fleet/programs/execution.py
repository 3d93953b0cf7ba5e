"""Runs one program again and again, with the same variables fed and fetched. An adapter, for Paddle.

    runs = RepeatedRuns()
    (loss,) = runs.run(executor, program, {"label": array}, [loss], scope)
    loss, gradient = runs.run(executor, program, {"label": array}, [loss], scope, given=["rows"], left=["rows@GRAD"])

It is what `Executor.run` does with ``return_numpy=False``, by the same compiled program: what that call looks up,
checks and prepares for each variable in each step is done once, for a model of many slots a tenth of a step. What is
fed first in some shape goes through Paddle's own check, and whatever is unusual through `Executor.run` itself.
Variables that are given and left in the scope are neither fed nor fetched, and so not copied.
"""

from __future__ import annotations

import weakref
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import paddle
from paddle.base import core
from paddle.base import executor as base_executor

from umiak.ps import paddle_internals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from umiak.ps.paddle_types import Executor, Fed, Fetched, Program, Scope, Variable

paddle_run = paddle.static.Executor.run
"""Paddle's own, which `umiak.fleet.patching` replaces later."""
_FEED, _FETCH = "feed", "fetch"
_MOST_KEPT = 8
"""As many as Paddle's executor keeps."""
_MOST_SHAPES = 4096
_AS_OF_A_DATASET = {
    "FLAGS_new_executor_sequential_run": True,
    "FLAGS_eager_delete_tensor_gb": -1.0,
}
"""How Paddle 2 ran the batches of a dataset: operations one after the other,
and each variable keeps its memory for the next batch.
"""
_IN_PLACE = "FLAGS_new_executor_use_inplace"
SAFE_IN_PLACE = {
    *("auc", "cast", "concat", "elementwise_add", "elementwise_mul", "fill_any_like", "fill_constant", "log_loss"),
    *("matmul_v2", "mul", "reduce_mean", "reduce_sum", "relu", "reshape2", "scale", "sigmoid", "square", "sum"),
    "sigmoid_cross_entropy_with_logits",
}
"""Operations of click models, and their gradients, that give the same bits where Paddle lets them write over their
input: a twentieth of a batch's CPU time. With others Paddle 3.3.1 can crash (rank/dien of PaddleRec, which has a GRU):
a program that has any runs without.
"""
_RUNS_TO_PLAN = 2
"""Paddle plans a program in its second run, by the flags of that moment, and keeps to it."""


class RepeatedRuns:
    """What was compiled for each program and set of variables."""

    def __init__(self) -> None:
        # They end with their executor, as those that it keeps itself: it is used as long as its scope lives.
        self._kept: weakref.WeakKeyDictionary[Executor, dict[object, _CompiledRun]] = weakref.WeakKeyDictionary()

    def run(
        self,
        executor: Executor,
        program: Program,
        feed: dict[str, Fed],
        fetch: Sequence[Variable | str],
        scope: Scope,
        *,
        given: Sequence[str] = (),
        left: Sequence[str] = (),
        in_order: bool = False,
    ) -> list[Fetched]:
        """What is fetched, as tensors, and behind it what is left in the scope, until the next run.
        The feed has arrays, which are copied, and tensors, which are not.

        ``given``: variables that the caller has put into the scope. ``in_order``: operations one after the other,
        as Paddle 2 ran those of a dataset's batch, where Paddle 3 hands them to several threads.
        """
        scope = scope or paddle.static.global_scope()
        names = tuple([each if isinstance(each, str) else each.name for each in fetch])
        if not self._is_plain(executor, program):
            feed = feed | {name: scope.find_var(name).get_tensor() for name in given}
            all_names = [*names, *left]
            return list(
                paddle_run(executor, program, feed=feed, fetch_list=all_names, scope=scope, return_numpy=False) or []
            )
        kept = self._kept.setdefault(executor, {})
        held = (*given, *left)
        key = (program.desc.cached_hash_str(), scope.raw_address(), tuple(feed), names, held)
        compiled = kept.get(key)
        if compiled is None:
            if len(kept) == _MOST_KEPT:
                kept.pop(next(iter(kept)))
            compiled = kept[key] = _CompiledRun(executor, _holding(program, held), feed, names, scope, left)
        with _as_of_a_dataset(program) if in_order and compiled.runs < _RUNS_TO_PLAN else nullcontext():
            return compiled.run(feed)

    @staticmethod
    def _is_plain(executor: Executor, program: Program) -> bool:
        """Whether nothing else than feeding, running and fetching belongs to a run."""
        return (
            type(executor) is paddle.static.Executor
            and isinstance(executor.place, core.CPUPlace)
            and not paddle_internals.is_closed(executor)
            and type(program) is paddle.static.Program
            and not hasattr(program, "lr_scheduler")
            and not paddle_internals.has_own_way(program)
        )


class _CompiledRun:
    def __init__(
        self,
        executor: Executor,
        program: Program,
        feed: dict[str, Fed],
        fetch: tuple[str, ...],
        scope: Scope,
        left: Sequence[str],
    ) -> None:
        compiled, self._run = paddle_internals.compiled_run(executor, program, feed, fetch, (_FEED, _FETCH), scope)
        self._scope = scope  # behind it: attributes go in this order, and it needs its scope until then
        self._names = [*feed]
        block = compiled.global_block()
        self._inputs = []
        for op in block.ops:
            if op.type != _FEED:
                break
            name = op.output("Out")[0]
            self._inputs.append((name, block.var(name), int(op.attr("col"))))
        self._checked: set[object] = set()
        self._left = [scope.var(name).get_tensor() for name in left]
        self.runs = 0

    def run(self, feed: dict[str, Fed]) -> list[Fetched]:
        scope = self._scope
        for name, variable, column in self._inputs:
            fed = feed[name]
            is_tensor = isinstance(fed, core.DenseTensor)
            tensor = fed if is_tensor else paddle_internals.fed_tensor(fed, _PLACE, variable.dtype)
            if isinstance(fed, np.ndarray):
                shape = (name, fed.dtype, fed.shape[1:])
            else:
                shape = (name, str(paddle_internals.element_type(tensor)), (*tensor.shape()[1:],))
            if shape not in self._checked:
                base_executor.check_feed_shape_type(variable, tensor)
                if len(self._checked) < _MOST_SHAPES:
                    self._checked.add(shape)
            core.set_feed_variable(scope, tensor, _FEED, column)
        fetched = paddle_internals.run_compiled(self._run, self._names)
        self.runs += 1
        return [*fetched, *self._left]


_PLACE = core.CPUPlace()


def _holding(program: Program, names: Sequence[str]) -> Program:
    """A program whose variables of these names stay in the scope:
    a copy, for the script may save all that stays of its own.
    """
    if not names:
        return program
    copy = program.clone()
    for name in names:
        copy.global_block().var(name).persistable = True
    return copy


@contextmanager
def _as_of_a_dataset(program: Program) -> Iterator[None]:
    kinds = {op.type.removesuffix("_grad") for block in program.blocks for op in block.ops}
    flags = {**_AS_OF_A_DATASET, _IN_PLACE: kinds <= SAFE_IN_PLACE}
    before = paddle.get_flags([*flags])
    paddle.set_flags(flags)
    try:
        yield
    finally:
        paddle.set_flags(before)
