"""How a program of PaddleRec 1.8.5 learns in one process: as it is recorded, its optimizer and all. An adapter, for programs of `paddle.fluid`.

    learning = WholeProgram(program, scope, executor, job, prefix="")
    values = learning.step(feed, ["mean_0.tmp_0"], share=None)

Everything that stays from one batch to the next is in one table, so that checkpoints have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import paddle

from umiak.fluid.running.scope import scope_guard
from umiak.train.checkpoints.weights import MODEL
from umiak.train.engines.buffers import Buffers
from umiak.train.engines.modelbase import states

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.core.problem import Problem
    from umiak.data.array_types import AnyArray
    from umiak.fluid.running.executor import ReplayExecutor
    from umiak.fluid.running.scope import VariableScope
    from umiak.ps.sessions import Session
    from umiak.ps.values import Opened
    from umiak.train.engines.modelbase.programs import ModelProgram


class ModelLearning(Protocol):
    """What the engine asks."""

    is_own: bool
    """Whether the program's own optimizer learns, and nothing is in tables but what checkpoints keep."""
    buffers: Buffers
    table_names: tuple[str, ...]
    warnings: tuple[Problem, ...]

    def step(self, feed: Mapping[str, Any], fetch: Sequence[str], *, share: float | None) -> dict[str, Any]:
        """One step with a batch; what was fetched, by names."""

    def skip(self) -> None:
        """A step without a batch."""

    def read(self, program: Any, scope: VariableScope, feed: Mapping[str, Any], fetch: Sequence[str]) -> dict[str, Any]:
        """One pass over a program that is evaluated."""

    def tables(self) -> dict[str, Opened]:
        """What a checkpoint has."""

    def refresh(self, *, everything: bool = False) -> None:
        """The tables have changed."""

    def set_weights(self, found: Mapping[str, AnyArray]) -> None:
        """Values of variables, by names. Every trainer calls it."""


class WholeProgram:
    """The program as it is."""

    is_own = True
    table_names: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def __init__(
        self, program: ModelProgram, scope: VariableScope, executor: ReplayExecutor, job: Session, *, prefix: str
    ) -> None:
        self._program, self._scope, self._executor = program, scope, executor
        self._kept = states.KeptTensors(scope, states.kept_names(program.main))
        self.buffers = Buffers(paddle.nn.Layer(), job, table=f"{prefix}{MODEL}", learned=(), more=self._kept.tensors)
        self.buffers.on_read, self.buffers.on_set = self._kept.gather, self._kept.spread

    def step(self, feed: Mapping[str, Any], fetch: Sequence[str], *, share: float | None) -> dict[str, Any]:
        del share
        return run(self._executor, self._program.main, self._scope, feed, fetch)

    def skip(self) -> None:
        """Nobody waits."""

    def read(self, program: Any, scope: VariableScope, feed: Mapping[str, Any], fetch: Sequence[str]) -> dict[str, Any]:
        return run(self._executor, program, scope, feed, fetch)

    def tables(self) -> dict[str, Opened]:
        return self.buffers.tables()

    def refresh(self, *, everything: bool = False) -> None:
        """Nobody else changes anything."""

    def set_weights(self, found: Mapping[str, AnyArray]) -> None:
        self._kept.gather()
        states.put_back(self._scope, found)
        self.buffers.put()


class LoadedProgram:
    """A program that is evaluated with the weights of a checkpoint, and learns nothing."""

    is_own = True
    table_names: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def __init__(self, scope: VariableScope, executor: ReplayExecutor, job: Session) -> None:
        self._scope, self._executor = scope, executor
        self.buffers = Buffers(paddle.nn.Layer(), job, table=MODEL, learned=())

    def step(self, feed: Mapping[str, Any], fetch: Sequence[str], *, share: float | None) -> dict[str, Any]:
        raise NotImplementedError("a model that is evaluated does not learn")

    def skip(self) -> None:
        """Nobody waits."""

    def read(self, program: Any, scope: VariableScope, feed: Mapping[str, Any], fetch: Sequence[str]) -> dict[str, Any]:
        return run(self._executor, program, scope, feed, fetch)

    def tables(self) -> dict[str, Opened]:
        return {}

    def refresh(self, *, everything: bool = False) -> None:
        """Nothing is shared."""

    def set_weights(self, found: Mapping[str, AnyArray]) -> None:
        states.put_back(self._scope, found)


def run(
    executor: ReplayExecutor,
    program: Any,
    scope: VariableScope,
    feed: Mapping[str, Any],
    fetch: Sequence[str],
) -> dict[str, Any]:
    """One pass over a program; what was fetched, by names."""
    with scope_guard(scope):
        values = executor.run(program, dict(feed), [*fetch], scope=scope)
    return dict(zip(fetch, values, strict=True))
