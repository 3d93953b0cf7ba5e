"""Runs one program again and again, with the same variables fed and fetched. An adapter, for Paddle.

    runs = RepeatedRuns()
    loss, gradient = runs.run(executor, program, {"label": array, "rows": tensor}, [loss, "rows@GRAD"], scope)

It is what `Executor.run` does with ``return_numpy=False``, by the same compiled program: what that call looks up, checks and prepares
for each variable in each step is done once, for a model of many slots a tenth of a step. What is fed first in some shape goes through
Paddle's own check, and whatever is unusual through `Executor.run` itself.
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
_IN_ORDER = "FLAGS_new_executor_sequential_run"


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
        in_order: bool = False,
    ) -> list[Any]:
        """What is fetched, as tensors. The feed has arrays, which are copied, and tensors, which are not.

        ``in_order``: operations one after the other, as Paddle 2 ran those of a dataset's batch, where Paddle 3 hands them to several threads.
        """
        scope = scope or paddle.static.global_scope()
        names = tuple([each if isinstance(each, str) else each.name for each in fetch])
        if not self._is_plain(executor, program):
            found = paddle_run(executor, program, feed=feed, fetch_list=[*names], scope=scope, return_numpy=False)
            return list(found or [])
        kept = self._kept.setdefault(executor, {})
        key = (program.desc.cached_hash_str(), scope.raw_address(), tuple(feed), names)
        compiled = kept.get(key)
        if compiled is None:
            if len(kept) == _MOST_KEPT:
                kept.pop(next(iter(kept)))
            compiled = _CompiledRun(executor, program, feed, names, scope)
            with _operations_in_order() if in_order else nullcontext():
                found = compiled.run(feed)
            kept[key] = compiled
            return found
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
    def __init__(self, executor: Any, program: Any, feed: dict[str, Any], fetch: tuple[str, ...], scope: Any) -> None:
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
        return found


_PLACE = core.CPUPlace()


@contextmanager
def _operations_in_order() -> Iterator[None]:
    """A program that runs for the first time meanwhile is planned without threads; it keeps that."""
    before = paddle.get_flags(_IN_ORDER)
    paddle.set_flags({_IN_ORDER: True})
    try:
        yield
    finally:
        paddle.set_flags(before)
