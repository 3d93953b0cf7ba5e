"""Runs one program again and again, with the same variables fed and fetched. An adapter, for Paddle.

    runs = RepeatedRuns()
    (loss,) = runs.run(executor, program, {"label": array}, [loss], scope)
    loss, gradient = runs.run(executor, program, {"label": array}, [loss], scope, given=["rows"], left=["rows@GRAD"])

It is what `Executor.run` does with ``return_numpy=False``, by the same compiled program: what that call looks up, checks and prepares
for each variable in each step is done once, for a model of many slots a tenth of a step. What is fed first in some shape goes through
Paddle's own check, and whatever is unusual through `Executor.run` itself. Variables that are given and left in the scope are neither fed nor
fetched, and so not copied.
"""

from __future__ import annotations

import weakref
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import paddle
from paddle.base import core
from paddle.base import executor as base_executor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

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
"""How Paddle 2 ran the batches of a dataset: operations one after the other, and each variable keeps its memory for the next batch."""
_IN_PLACE = "FLAGS_new_executor_use_inplace"
SAFE_IN_PLACE = frozenset(
    [
        *(
            "auc",
            "cast",
            "concat",
            "elementwise_add",
            "elementwise_mul",
            "fill_any_like",
            "fill_constant",
            "log_loss",
            "matmul_v2",
            "mul",
        ),
        *(
            "reduce_mean",
            "reduce_sum",
            "relu",
            "reshape2",
            "scale",
            "sigmoid",
            "sigmoid_cross_entropy_with_logits",
            "square",
            "sum",
        ),
    ]
)
"""Operations of click models, and their gradients, that give the same bits where Paddle lets them write over their input: a twentieth of a batch's CPU time.
With others Paddle 3.3.1 can crash (rank/dien of PaddleRec, which has a GRU): a program that has any runs without."""
_RUNS_TO_PLAN = 2
"""Paddle plans a program in its second run, by the flags of that moment, and keeps to it."""


class RepeatedRuns:
    """What was compiled for each program and set of variables."""

    def __init__(self) -> None:
        # They end with their executor, as those that it keeps itself: it is used as long as its scope lives.
        self._kept: weakref.WeakKeyDictionary[Any, dict[Any, _CompiledRun]] = weakref.WeakKeyDictionary()

    def run(
        self,
        executor: Any,
        program: Any,
        feed: dict[str, Any],
        fetch: Sequence[Any],
        scope: Any,
        *,
        given: Sequence[str] = (),
        left: Sequence[str] = (),
        in_order: bool = False,
    ) -> list[Any]:
        """What is fetched, as tensors, and behind it what is left in the scope, until the next run. The feed has arrays, which are copied, and
        tensors, which are not.

        ``given``: variables that the caller has put into the scope. ``in_order``: operations one after the other, as Paddle 2 ran those
        of a dataset's batch, where Paddle 3 hands them to several threads.
        """
        scope = scope or paddle.static.global_scope()
        names = tuple([each if isinstance(each, str) else each.name for each in fetch])
        if not self._is_plain(executor, program):
            feed = feed | {name: _tensor(scope, name) for name in given}
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
    def _is_plain(executor: Any, program: Any) -> bool:
        """Whether nothing else than feeding, running and fetching belongs to a run."""
        return (
            type(executor) is paddle.static.Executor
            and isinstance(executor.place, core.CPUPlace)
            and not executor._closed  # noqa: SLF001
            and type(program) is paddle.static.Program
            and not hasattr(program, "lr_scheduler")
            and program._graph is None  # noqa: SLF001
            and not program._heter_pipeline_opt  # noqa: SLF001
            and not program._pipeline_opt  # noqa: SLF001
        )


class _CompiledRun:
    def __init__(
        self,
        executor: Any,
        program: Any,
        feed: dict[str, Any],
        fetch: tuple[str, ...],
        scope: Any,
        left: Sequence[str],
    ) -> None:
        compiled, run = executor._executor_cache.get_program_and_executor(  # noqa: SLF001
            program, feed, [*fetch], _FEED, _FETCH, executor.place, scope
        )
        self._run = run._new_exe  # noqa: SLF001
        self._scope = scope  # behind it: attributes go in this order, and it needs its scope until then
        self._names = [*feed]
        block = compiled.global_block()
        self._inputs = []
        for op in block.ops:
            if op.type != _FEED:
                break
            name = op.output("Out")[0]
            self._inputs.append((name, block.var(name), int(op.attr("col"))))
        self._checked: set[Any] = set()
        self._left = [scope.var(name).get_tensor() for name in left]
        self.runs = 0

    def run(self, feed: dict[str, Any]) -> list[Any]:
        scope = self._scope
        for name, variable, column in self._inputs:
            fed = feed[name]
            is_tensor = isinstance(fed, core.DenseTensor)
            tensor = fed if is_tensor else base_executor._as_lodtensor(fed, _PLACE, variable.dtype)  # noqa: SLF001
            if isinstance(fed, np.ndarray):
                shape = (name, fed.dtype, fed.shape[1:])
            else:
                shape = (name, str(tensor._dtype()), (*tensor.shape()[1:],))  # noqa: SLF001
            if shape not in self._checked:
                base_executor.check_feed_shape_type(variable, tensor)
                if len(self._checked) < _MOST_SHAPES:
                    self._checked.add(shape)
            core.set_feed_variable(scope, tensor, _FEED, column)
        found: list[Any] = self._run.run(self._names, False)._move_to_list()  # noqa: SLF001
        self.runs += 1
        return [*found, *self._left]


_PLACE = core.CPUPlace()


def _holding(program: Any, names: Sequence[str]) -> Any:
    """A program whose variables of these names stay in the scope: a copy, for the script may save all that stays of its own."""
    if not names:
        return program
    copy = program.clone()
    for name in names:
        copy.global_block().var(name).persistable = True
    return copy


def _tensor(scope: Any, name: str) -> Any:
    return scope.find_var(name).get_tensor()


@contextmanager
def _as_of_a_dataset(program: Any) -> Iterator[None]:
    kinds = {op.type.removesuffix("_grad") for block in program.blocks for op in block.ops}
    flags = {**_AS_OF_A_DATASET, _IN_PLACE: kinds <= SAFE_IN_PLACE}
    before = paddle.get_flags([*flags])
    paddle.set_flags(flags)
    try:
        yield
    finally:
        paddle.set_flags(before)
