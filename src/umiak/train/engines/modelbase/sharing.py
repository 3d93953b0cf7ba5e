"""How a program of PaddleRec 1.8.5 learns with others: embeddings in tables, dense parameters in one, and its optimizer as their rule. An adapter, for programs of `paddle.fluid`.

learning = SharedProgram(program, scope, executor, job, prefix="", states={"auc_0.tmp_2"})
values = learning.step(feed, ["mean_0.tmp_0"], share=0.5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.core.problem import Problem
from umiak.fluid.distributed import rewriting
from umiak.fluid.distributed.rows import StepRows
from umiak.fluid.distributed.rules import OPTIMIZERS
from umiak.fluid.distributed.trained import TrainedProgram
from umiak.fluid.record.program import BACKWARD
from umiak.fluid.running.scope import scope_guard
from umiak.train.checkpoints.weights import BUFFERS
from umiak.train.engines.buffers import Buffers
from umiak.train.engines.modelbase import states

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from umiak.data.array_types import AnyArray
    from umiak.fluid.running.executor import ReplayExecutor
    from umiak.fluid.running.scope import VariableScope
    from umiak.ps.sessions import Session
    from umiak.ps.values import Opened
    from umiak.train.engines.modelbase.programs import ModelProgram


class TablesOfModel(TrainedProgram):
    """A program that learns on the tables of a job, with what a run asks of them besides."""

    def opened(self) -> dict[str, Opened]:
        """All tables, as checkpoints name them."""
        return self._ready(None).tables()

    def refresh(self, *, everything: bool = False) -> None:
        """Fetch the parameters again: others may have changed them. ``everything``: also those that are frozen, after a checkpoint was loaded."""
        if everything:
            for name in self.tables:
                if self.tables[name].is_filled_here:
                    self._whole(name).check_loaded()
        self._ready(None).refresh(everything=everything)

    def set_values(self, found: Mapping[str, AnyArray]) -> None:
        """New values of parameters, by their names; the first trainer's are everybody's. Every trainer calls it."""
        optimizer = self._ready(None)
        assert self._scope is not None
        for name in self.tables:
            if name in found:
                whole = self._whole(name)
                self.session.meet("weights")
                whole.send(whole.checked(found[name]))
                self.session.meet("weights sent")
                self.session.communicator.reload()
        for name, tensor in self._known.items():
            if name in found:
                tensor.set_value(np.ascontiguousarray(found[name], np.float32).reshape(tensor.shape))
        optimizer.upload()


class SharedProgram:
    """A program on the tables of a job."""

    is_own = False

    def __init__(
        self,
        program: ModelProgram,
        scope: VariableScope,
        executor: ReplayExecutor,
        job: Session,
        *,
        prefix: str,
        states_of_metrics: Collection[str],
        file: str,
    ) -> None:
        self._scope, self._executor = scope, executor
        self._trained = TablesOfModel(
            program.main, program.startup, job, name=f"{prefix}dense", place=executor.place, keeps_statistics=False
        )
        self.table_names: tuple[str, ...] = tuple(self._trained.tables)
        self.warnings: tuple[Problem, ...] = tuple(
            [Problem(code="UM-TRAIN-068", what=each, where=file) for each in self._trained.remarks]
        )
        self._trained.begin(scope)
        others = [name for name in _kept(program.main) if name not in states_of_metrics]
        learned = self._trained.learning
        others = [name for name in others if name not in learned.parameters and name not in learned.rates]
        self._kept = states.KeptTensors(scope, others)
        self.buffers = Buffers(paddle.nn.Layer(), job, table=f"{prefix}{BUFFERS}", learned=(), more=self._kept.tensors)
        self.buffers.on_read, self.buffers.on_set = self._kept.gather, self._kept.spread
        self._readers: dict[int, tuple[Any, Any]] = {}

    def step(self, feed: Mapping[str, Any], fetch: Sequence[str], *, share: float | None) -> dict[str, Any]:
        values = self._trained.step(dict(feed), [*fetch], share=share, executor=self._executor)
        return dict(zip(fetch, values, strict=True))

    def skip(self) -> None:
        self._trained.skip()

    def read(self, program: Any, scope: VariableScope, feed: Mapping[str, Any], fetch: Sequence[str]) -> dict[str, Any]:
        if id(program) not in self._readers:
            self._readers[id(program)] = program, rewriting.for_reading(program, self.table_names) or program
        _, reader = self._readers[id(program)]
        rows = StepRows(self._trained.table, create=False, learns=False)
        with scope_guard(scope):
            frame = self._executor.replayed(reader, dict(feed), scope, exchange=rows, fetch=fetch)
            return dict(zip(fetch, self._executor.fetched(frame, [*fetch]), strict=True))

    def tables(self) -> dict[str, Opened]:
        return {**self._trained.opened(), **self.buffers.tables()}

    def refresh(self, *, everything: bool = False) -> None:
        self._trained.refresh(everything=everything)

    def set_weights(self, found: Mapping[str, AnyArray]) -> None:
        self._trained.set_values(found)
        others = {name: array for name, array in found.items() if name in self._kept.tensors}
        states.put_back(self._scope, others)


def _kept(program: Any) -> list[str]:
    """What stays and no optimizer alone uses: running statistics, counters, parameters that do not learn."""
    ops = [each for block in program.blocks for each in block.ops]
    used = {
        name
        for each in ops
        if each.type not in OPTIMIZERS and each.role != BACKWARD
        for name in (*each.input_names, *each.outputs)
    }
    return [name for name in states.kept_names(program) if name in used]
