"""A minimized program that learns on the servers of a session, or alone with tables of its own. A program, for Paddle.

    trained = TrainedProgram(main, startup, session)
    trained.begin()                                   makes tables; trainer 0's first values are everybody's
    (loss,) = trained.step(feed, [cost])              one batch is learned
    (loss,) = trained.read(feed, [cost], program)     the same without learning, in any program with these parameters
    trained.save(path), trained.load(path)            tables, dense parameters, what optimizers keep, statistics

The session's strategy says what a step exchanges with others. The program itself is not changed: a trainer runs a copy in which rows come
from tables and the servers do what the optimizer's operations say (`umiak.fluid.distributed.rewriting`). `BadRequest` names everything that
servers can't do as one process does it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.core.problem import BadRequest
from umiak.fluid.distributed import rewriting, rules
from umiak.fluid.distributed.parameters import ScopeTensors, adopt, scaled_to
from umiak.fluid.distributed.rows import StepRows
from umiak.fluid.distributed.tables import survey
from umiak.fluid.record.problems import bad
from umiak.fluid.running import places
from umiak.fluid.running.executor import ReplayExecutor
from umiak.fluid.running.scope import VariableScope, global_scope
from umiak.ps import specs
from umiak.ps.layers.arguments import HowLearned, LearningSettings
from umiak.ps.paddle import floats
from umiak.ps.paddle_models.whole_weights import WholeWeight
from umiak.ps.strategies import Collective, Sync

if TYPE_CHECKING:
    from collections.abc import Collection

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.data.array_types import AnyArray
    from umiak.fluid.arguments import Feed, Inputs, Outputs, Place
    from umiak.fluid.distributed.rules import LearnedParameter
    from umiak.fluid.kernels.registry import Frame
    from umiak.fluid.record.program import RecordedProgram
    from umiak.ps.gradients import Floats
    from umiak.ps.sessions import Session
    from umiak.ps.tables.lookup import EmbeddingTable


class TrainedProgram:
    """One program, its tables and its parameters."""

    def __init__(
        self,
        program: RecordedProgram,
        startup: RecordedProgram,
        session: Session,
        *,
        name: str = "dense",
        place: Place = None,
        keeps_statistics: bool = True,
    ) -> None:
        """``name``: of the table with the dense parameters; another one for each program of a job. ``place``: where it computes, unless an
        executor is given. ``keeps_statistics``: whether checkpoints have what the program keeps besides. Embeddings whose rows begin on the servers are taken out of the startup program.
        """
        self.program, self.startup, self.session = program, startup, session
        averages = isinstance(session.strategy, Sync | Collective) and session.world > 1
        self.learning = rules.learning_of(program, startup, averages=averages)
        sites = survey(program, startup, self.learning)
        problems = [*self.learning.problems, *sites.problems]
        BadRequest.raise_any(problems)
        if not self.learning.parameters:
            raise bad("UM-FLUID-010", "this program learns nothing", "call minimize of an optimizer first")
        self.tables = sites.tables
        self.remarks = [*self.learning.remarks, *sites.remarks]
        self.remarks += [f"embedding {each} stays a dense parameter: {why}" for each, why in sites.kept.items()]
        self._rewritten = rewriting.for_training(program, self.learning, tuple(self.tables))
        self._version = program.version
        self._forget(startup, {each.name for each in self.tables.values() if not each.is_filled_here})
        self._forget(startup, self.learning.states)
        self._dense = [each for each in self.learning.parameters.values() if each.name not in self.tables]
        self._base = {each: rules.first_rate(program, startup, each) for each in self.learning.rates}
        self._name = name
        self._keeps_statistics = keeps_statistics
        self._executor = ReplayExecutor(place)
        self._readers: dict[int, tuple[int, RecordedProgram, RecordedProgram | None]] = {}
        self._scope: VariableScope | None = None
        self._optimizer: ScopeTensors | None = None
        self._opened: dict[str, EmbeddingTable] = {}
        self._known: dict[str, Any] = {}
        """The tensors of dense parameters in the scope."""
        self._order: list[LearnedParameter] = []
        """Dense parameters as the optimizer has them."""
        self._lock = threading.RLock()

    @property
    def kept_by_servers(self) -> frozenset[str]:
        """Variables of optimizers: this process has no numbers of them."""
        return self.learning.states

    # ---- the beginning

    @property
    def has_begun(self) -> bool:
        return self._optimizer is not None

    def is_filled(self, scope: VariableScope | None = None) -> bool:
        """Whether the startup program has run."""
        tensors = (scope or global_scope()).tensors
        filled = [each.name for each in self.tables.values() if each.is_filled_here]
        return all(name in tensors for name in (*(each.name for each in self._dense), *filled))

    def begin(self, scope: VariableScope | None = None, *, is_loaded: bool = False) -> None:
        """Make the tables; the first trainer's values are everybody's. Runs the startup program if nobody has.

        ``is_loaded``: a checkpoint is loaded at once, so rows are not sent.
        """
        with self._lock:
            if self._optimizer is not None:
                return
            scope = scope or global_scope()
            if not self.is_filled(scope):
                self._own_executor().replayed(self.startup, {}, scope)
            self._scope = scope
            self._optimizer = self._made(scope)
            for each in self.tables.values():
                self._send_first_rows(scope, each.name, is_loaded=is_loaded)

    def _made(self, scope: VariableScope) -> ScopeTensors:
        rates = self.learning.rates
        rule_names: dict[specs.Rule, str] = {}
        settings = {}
        for each in self._dense:
            scope.tensors[each.name].stop_gradient = False
            rule = rules.with_rate(each.rule, self._base[each.rate])
            label = rule_names.setdefault(rule, f"rule-{len(rule_names)}" if rule_names else "")
            number = rates.index(each.rate)
            label = ".".join(part for part in (label, f"optimizer-{number}" if number else "") if part)
            settings[each.name] = LearningSettings(
                rate=each.factor,
                decay=each.decay if each.decay != specs.Decay() else None,
                clip=each.clip if each.clip != specs.Clip() else None,
                is_clipped=each.is_global or self.learning.global_norm is None,
                rule=rule,
                optimizer=number,
                label=label,
            )
        limit = specs.Clip(global_norm=self.learning.global_norm)
        first = next(iter(rule_names), specs.Sgd())
        optimizer = ScopeTensors.of(
            {each.name: scope.tensors[each.name] for each in self._dense},
            HowLearned(rule=first, clip=limit, table=self._name),
            None,
            session=self.session,
            all_settings=settings,
        )
        self._known = {each.name: scope.tensors[each.name] for each in self._dense}
        by_tensor = {id(scope.tensors[each.name]): each for each in self._dense}
        self._order = [by_tensor[id(each)] for each in optimizer.learned]
        tables = []
        for planned in self.tables.values():
            table = self.table(planned.name)
            table.is_clipped = planned.learned.is_global
            table.optimizer = rates.index(planned.learned.rate)
            tables.append(table)
        optimizer.follow(tables)
        if not self._keeps_statistics:
            return optimizer
        kept = self._statistics(scope)

        def put_back(arrays: dict[str, AnyArray]) -> None:
            for name, array in arrays.items():
                scope.tensors[name].set_value(array)

        optimizer.keep_buffers(lambda: {name: scope.tensors[name].numpy() for name in kept}, put_back)
        return optimizer

    def _statistics(self, scope: VariableScope) -> list[str]:
        """What the program keeps beside what it learns: means of batch_norm, counters of steps, histograms. Each trainer has its own."""
        used = {name for block in self._rewritten.blocks for each in block.ops for name in (*each.outputs, *each.input_names)}  # fmt: skip
        variables = [each for each in self._rewritten.list_vars() if each.persistable and each.name in used]
        names = (each.name for each in variables if each.name not in self.learning.parameters)
        return sorted({name for name in names if name in scope.tensors and name not in self.learning.rates})

    def _send_first_rows(self, scope: VariableScope, name: str, *, is_loaded: bool) -> None:
        if not self.tables[name].is_filled_here:
            self.table(name).open()
            return
        tensor = scope.tensors.pop(name)  # trainers do not hold embeddings
        if is_loaded:
            self.table(name).open()
        else:
            self._whole(name).begin(tensor.numpy().astype(np.float32, copy=False))

    def _whole(self, name: str) -> WholeWeight:
        return WholeWeight(self.session, self.table(name), self.tables[name].rows, name)

    def table(self, name: str) -> EmbeddingTable:
        """One of its tables."""
        known = self._opened.get(name)
        if known is None:
            known = self._opened[name] = self.session.registry.table(name, self.tables[name].spec)
        return known

    @staticmethod
    def _forget(startup: RecordedProgram, names: Collection[str]) -> None:
        block = startup.global_block()
        kept = [each for each in block.ops if not set(each.outputs).intersection(names)]
        if len(kept) < len(block.ops):
            block.ops = kept
            startup.changed()

    # ---- one batch

    def step(
        self,
        feed: Feed,
        fetch: Inputs = (),
        *,
        share: float | None = None,
        executor: ReplayExecutor | None = None,
        scope: VariableScope | None = None,
        return_numpy: bool = True,
    ) -> Outputs:
        """Learn one batch; gives what is fetched. ``share``: this batch's part of all trainers' samples, where those differ."""
        with self._lock:
            optimizer = self._ready(scope)
            assert self._scope is not None
            executor = executor or self._own_executor()
            rows = StepRows(self.table, create=True, learns=True)
            frame = executor.replayed(
                self._rewritten, feed, self._scope, exchange=rows, fed_by=self.program, fetch=fetch
            )
            rows.collect(frame.values)
            self._limit_rows()
            gradients = [self._gradient(frame, each) for each in self._order]
            factors = tuple(self._factor(frame, each) for each in self.learning.rates)
            optimizer.learn(gradients, factors=factors if len(factors) > 1 else factors[0], share=share)
            return executor.fetched(frame, fetch, return_numpy=return_numpy)

    def read(
        self,
        feed: Feed,
        fetch: Inputs = (),
        *,
        program: RecordedProgram | None = None,
        executor: ReplayExecutor | None = None,
        scope: VariableScope | None = None,
        return_numpy: bool = True,
    ) -> Outputs:
        """Run a program with these parameters, such as a copy for tests; by default the forward part of its own. Nothing is learned, and rows
        that do not exist are not created.
        """
        with self._lock:
            self._ready(scope)
            assert self._scope is not None
            executor = executor or self._own_executor()
            chosen = self._reader(program)
            rows = StepRows(self.table, create=False, learns=False)
            frame = executor.replayed(chosen, feed, self._scope, exchange=rows, fed_by=program, fetch=fetch)
            return executor.fetched(frame, fetch, return_numpy=return_numpy)

    def _own_executor(self) -> ReplayExecutor:
        places.use(self._executor.place)
        return self._executor

    def skip(self) -> None:
        """A step without a batch, where the others' steps wait for this trainer's (sync)."""
        with self._lock:
            self._ready(None).skip()

    def _ready(self, scope: VariableScope | None) -> ScopeTensors:
        self.begin(scope)
        if self.program.version != self._version:
            self._rewritten = rewriting.for_training(self.program, self.learning, tuple(self.tables))
            self._version = self.program.version
        assert self._optimizer is not None
        assert self._scope is not None
        adopt(self._scope, self._known)
        for name in [name for name in self.tables if name in self._scope.tensors]:
            self._whole(name).set(self._scope.tensors.pop(name))
        return self._optimizer

    def _reader(self, program: RecordedProgram | None) -> RecordedProgram:
        source = self.program if program is None else program
        known = self._readers.get(id(source))
        if known is None or known[0] != source.version or known[1] is not source:
            forward = source.clone(for_test=True) if rules.is_minimized(source) else source
            reader = rewriting.for_reading(forward, tuple(self.tables))
            known = self._readers[id(source)] = (source.version, source, reader or forward)
        assert known[2] is not None
        return known[2]

    def reads(self, program: RecordedProgram) -> bool:
        """Whether a program looks into one of its tables."""
        names = self.tables
        return bool(names) and any(
            each.type == "lookup_table" and each.arguments["weight"].name in names
            for block in program.blocks
            for each in block.ops
        )

    def _limit_rows(self) -> None:
        """Gradients of rows no longer than a clip says, all of a table together."""
        for planned in self.tables.values():
            table = self.table(planned.name)
            if planned.learned.norm is not None and table.has_gradients:
                merged = table.merged()
                merged[...] = scaled_to(merged, planned.learned.norm)

    @staticmethod
    def _gradient(frame: Frame, learned: LearnedParameter) -> Floats:
        gradient = floats(frame.values[learned.gradient]).reshape(-1)
        return gradient if learned.norm is None else scaled_to(gradient, learned.norm)

    def _factor(self, frame: Frame, rate: str) -> float:
        assert self._scope is not None
        rate_now = frame.values[rate] if rate in frame.values else self._scope.tensors[rate]
        return float(rate_now.item()) / self._base[rate]

    # ---- saved and loaded

    def save(self, path: str, *, metadata: JsonMapping | None = None, mode: str = "all") -> None:
        """Tables, dense parameters with all that optimizers keep, and statistics. The first trainer saves, others do nothing."""
        self._ready(None)
        self.session.save(path, metadata=metadata, mode=mode)

    def load(self, path: str) -> JsonObject:
        """What `save` has saved, with any number of servers. Every trainer calls it, before its first step."""
        self.begin(is_loaded=True)
        return self.session.load(path)

    def values(self, names: Inputs) -> dict[str, AnyArray]:
        """Parameters as the servers have them, and other variables as the scope has them. Embeddings come with all of their rows."""
        self._ready(None)
        assert self._scope is not None
        self.session.catch_up()
        values = {}
        for name in names:
            if name in self.tables:
                values[name] = self._whole(name).numbers()
            elif name in self._scope.tensors:
                values[name] = self._scope.tensors[name].numpy()
        return values
