"""How a model in the form of PaddleRec 2 learns: through tables, or alone, where tables do not have its optimizers, by Paddle's own. An adapter, for Paddle.

learning = DygraphLearning(model, optimizers, job, config, options)
learning.decide("dygraph_model.py", elsewhere=None)                    UmiakError with everything that can't be done
learning.optimizer, learning.buffers                                   what learns, and what else a checkpoint has
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace
from umiak.ps import checkpoint as ps_checkpoint
from umiak.ps.manifest import BadCheckpoint, Manifest
from umiak.ps.paddle_models import ModelPlan, TableChoice, carry_over, plan_of
from umiak.train.checkpoints.weights import BUFFERS, MODEL
from umiak.train.engines import model_text
from umiak.train.engines.buffers import Buffers
from umiak.train.engines.state import own_optimizers
from umiak.train.engines.state.own_optimizers import OwnOptimizers, ScheduleState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umiak.core.json_types import JsonMapping
    from umiak.ps.paddle_models import CarriedOptimizer
    from umiak.ps.paddle_types import Optimizer
    from umiak.ps.sessions import Session
    from umiak.train.engines.engine import EngineOptions


class DygraphLearning:
    """What learns a model, and what is kept of it."""

    optimizer: CarriedOptimizer | OwnOptimizers
    buffers: Buffers

    def __init__(
        self,
        model: paddle.nn.Layer,
        optimizers: Sequence[Optimizer],
        job: Session,
        config: JsonMapping,
        options: EngineOptions,
    ) -> None:
        self._model = model
        self._optimizers = optimizers
        self._job = job
        self._config = config
        self._options = options
        self._is_shared = job.world > 1 or bool(job.seat.servers)
        self.schedules = ScheduleState(optimizers)
        self.plan = ModelPlan()
        self.is_own = False
        """Whether the model's own optimizers learn, and nothing is in tables but what checkpoints keep."""

    def decide(self, file: str, elsewhere: Callable[[], tuple[str, ...]] | None) -> None:
        """``elsewhere`` finds weights that are used past their layers."""
        if self._options.checkpoint:
            # Nothing learns where a checkpoint is evaluated. So whatever the code does with a weight, it has all of it.
            self.is_own = True
            self.optimizer = OwnOptimizers(self._model, (), self._job, prefix=self._options.prefix)
            self.buffers = Buffers(paddle.nn.Layer(), self._job, table=MODEL, learned=())
            return
        self._plan(choice_of(self._config), elsewhere)
        self.is_own = self._learns_on_its_own(file)
        if self.is_own:
            self._let_own_learn()
        else:
            self._let_tables_learn()

    def _let_own_learn(self) -> None:
        job, prefix = self._job, self._options.prefix
        self.optimizer = own = OwnOptimizers(self._model, self._optimizers, job, prefix=prefix)
        self.buffers = Buffers(self._model, job, table=f"{prefix}{MODEL}", learned=())
        self.buffers.on_read, self.buffers.on_set = own.store, own.fetch

    def _let_tables_learn(self) -> None:
        job, prefix = self._job, self._options.prefix
        self.optimizer = made = carry_over(self._model, self.plan, session=job, prefix=prefix, buffers=False)
        self.buffers = Buffers(
            self._model,
            job,
            table=f"{prefix}{BUFFERS}",
            learned=made.learned,
            more=self.schedules.tensors(),
        )
        self.buffers.on_read, self.buffers.on_set = self.schedules.store, self.schedules.load

    def _plan(self, choice: TableChoice, elsewhere: Callable[[], tuple[str, ...]] | None) -> None:
        self.plan = plan_of(self._model, self._optimizers, is_shared=self._is_shared, choice=choice)
        if elsewhere is not None and (names := elsewhere()):
            # They must stay parameters.
            choice = replace(choice, elsewhere=names)
            self.plan = plan_of(self._model, self._optimizers, is_shared=self._is_shared, choice=choice)

    def _learns_on_its_own(self, file: str) -> bool:
        """Whether optimizers that tables do not have learn in this process. UmiakError with everything that is in the way."""
        choice = choice_of(self._config)
        problems = problems_of(self._model, self.plan, self._optimizers, choice, is_shared=self._is_shared)
        UmiakError.raise_any(located(each, file) for each in problems)
        return learns_on_its_own(self.plan, choice, is_shared=self._is_shared)


def learns_on_its_own(plan: ModelPlan, choice: TableChoice, *, is_shared: bool) -> bool:
    """Whether Paddle's own optimizers learn, of a model that can be trained."""
    needs_all_rows = any(each.needs_all_rows for each in plan.parameters)
    return bool(plan.problems) or (needs_all_rows and not is_shared and not _wants_tables(choice))


def problems_of(
    model: paddle.nn.Layer, plan: ModelPlan, optimizers: Sequence[Optimizer], choice: TableChoice, *, is_shared: bool
) -> list[Problem]:
    """What keeps a model from being trained: where it is shared, or tables are asked for, tables must be able to learn as its optimizers say; alone, Paddle's own do."""
    if is_shared or _wants_tables(choice) or not plan.uncarried:
        return [*plan.problems]
    others = [each for each in plan.problems if each not in plan.uncarried]
    return [*others, *own_optimizers.problems(model, optimizers)]


def _wants_tables(choice: TableChoice) -> bool:
    return bool(choice.tables) or choice.lazy or choice.least_rows is not None


def located(problem: Problem, file: str) -> Problem:
    """With the line where the optimizer is made, or the file."""
    if problem.where or not problem.what.startswith("optimizer"):
        return replace(problem, where=problem.where or file)
    with open(file, encoding="utf-8", errors="replace") as text:
        line = model_text.line_of_optimizer(text.read())
    return replace(problem, where=f"{file}:{line}" if line else file)


def own_lines(model: paddle.nn.Layer, optimizers: Sequence[Optimizer]) -> list[str]:
    """For ``--explain``, where nothing is in tables."""
    kinds = ", ".join(type(each).__name__ for each in optimizers)
    count = sum(not each.stop_gradient for each in model.parameters())
    return [f"{count} parameters learn in this process, by Paddle's own {kinds}; nothing is in tables"]


def choice_of(config: JsonMapping) -> TableChoice:
    """What a config says about embeddings."""
    least = config.get("runner.table_embeddings_above")
    return TableChoice(
        tables=_names(config.get("runner.table_embeddings")),
        parameters=_names(config.get("runner.dense_embeddings")),
        least_rows=None if least is None else int(least),
        lazy=is_said(config, "runner.lazy_embeddings", default=False),
    )


def is_said(config: JsonMapping, key: str, *, default: bool) -> bool:
    """True or False of a config; an override of a key that the config does not have is a text."""
    return str(config.get(key, default)).lower() == str(True).lower()


def manifest_of(path: str) -> Manifest | None:
    """That of a checkpoint of ours; None if it is none."""
    try:
        return ps_checkpoint.read(path)
    except BadCheckpoint:
        return None


def is_own(manifest: Manifest, prefix: str) -> bool:
    """Whether a checkpoint of ours was saved where the model's own optimizers learned."""
    return f"{prefix}{MODEL}" in manifest.tables


def tables_in(manifest: Manifest, prefix: str) -> tuple[str, ...]:
    """The embeddings that are tables in a checkpoint of ours."""
    sparse = [
        name for name, table in manifest.tables.items() if table.spec["kind"] == "sparse" and name.startswith(prefix)
    ]
    return tuple([name.removeprefix(prefix) for name in sparse])


def _names(said: Any) -> tuple[str, ...]:
    if said is None:
        return ()
    return tuple(said.replace(",", " ").split()) if isinstance(said, str) else tuple([str(each) for each in said])
