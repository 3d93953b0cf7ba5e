"""Runs a program whose embeddings are tables: ids, pull, run, push. An adapter, for Paddle.

    runner.step({"slot": ids, "label": label}, [loss])      one batch is learned; gives what is fetched, as arrays
    runner.read(feed, [loss])                               the same without learning

A feed has an array for each variable, or for a ragged slot a pair (values, offsets).
Lookups into one table are one pull and one push per step. Several threads may call it; they take turns.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import paddle

from umiak.core.value import value
from umiak.fleet.programs import parameters
from umiak.fleet.programs.execution import RepeatedRuns
from umiak.fleet.programs.feeding import FedArray, FloatViews, ScopeRows, array_of, fed, tensor_of
from umiak.fleet.programs.tables import CountedLookup, FirstRowSender
from umiak.ps.errors import bad
from umiak.ps.layers.arguments import HowLearned
from umiak.ps.tables.lookup import Lookup, as_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray
    from umiak.fleet.programs.parameters import ScopeOptimizer
    from umiak.fleet.programs.rewriting import ProgramPlan
    from umiak.fleet.programs.sites import LookupSite
    from umiak.fleet.programs.tables import ProgramTables
    from umiak.ps.gradients import Floats
    from umiak.ps.paddle_types import Executor, Fed, Fetched, Program, Scope, Tensor, Variable
    from umiak.ps.sessions import Session
    from umiak.ps.tables.lookup import Keys


@value
class LookupGroup:
    """Lookups that are one pull."""

    table: str
    padding: int | None
    is_pushed: bool
    lookups: tuple[LookupSite, ...]

    @property
    def is_learned(self) -> bool:
        """Whether rows come into being where they are read in training."""
        return not any(site.is_test for site in self.lookups)


class PulledRows:
    """The rows of a group in one step."""

    def __init__(
        self, group: LookupGroup, arrays: Sequence[FedArray], lookup: Lookup | CountedLookup, rows: NDArray[np.float32]
    ) -> None:
        self.group = group
        self.arrays = arrays
        """The ids of each lookup."""
        self.lookup = lookup
        self.rows = rows
        """Of all of them, one after the other."""

    def shapes(self) -> list[tuple[int, ...]]:
        """Of each lookup's rows."""
        width = self.rows.shape[-1]
        return [
            (each.array.size, width) if site.replaced else (*_unflat(site, each), width)
            for site, each in zip(self.group.lookups, self.arrays, strict=True)
        ]

    def tensors(self) -> dict[str, Tensor]:
        """Each lookup's rows, for a feed."""
        parts = zip(self.group.lookups, self.arrays, self._parts(), self.shapes(), strict=True)
        return {
            site.output: tensor_of(FedArray(array=part.reshape(shape), offsets=each.offsets))
            for site, each, part, shape in parts
        }

    def replaced(self, names: set[str]) -> dict[str, Tensor]:
        """Those of these variables that had rows before they were made flat."""
        parts = zip(self.group.lookups, self.arrays, self._parts(), strict=True)
        return {
            site.replaced: tensor_of(FedArray(array=part.reshape(*_unflat(site, each), part.shape[-1])))
            for site, each, part in parts
            if site.replaced in names
        }

    def _parts(self) -> list[NDArray[np.float32]]:
        ends = np.cumsum([each.array.size for each in self.arrays])
        return np.split(self.rows, ends[:-1])


class ProgramRunner:
    """A rewritten program, its tables and its parameters in a session."""

    def __init__(
        self, plan: ProgramPlan, session: Session, tables: ProgramTables, *, original: Program, number: int = 0
    ) -> None:
        """``number``: among the programs of the job that are trained."""
        self.plan = plan
        self._dense_table = f"dense{number + 1}" if number else "dense"
        self.original = original
        """The program with its lookups."""
        self.session = session
        self._tables = tables
        self.first_rows = FirstRowSender(session, tables, plan.tables, f"fleet.first.{self._dense_table}")
        self.optimizer: ScopeOptimizer | None = None
        self._lock = threading.RLock()
        self._executor: Executor = None
        self._runs = RepeatedRuns()
        self._views = FloatViews()
        self._ahead: tuple[Mapping[str, Fed], dict[str, FedArray]] | None = None
        """The feed of the next step, and its ids."""
        self._joined: dict[int, ScopeRows] = {}
        """Of each group, in the scope of the last step."""
        learned = {each.name for each in plan.parameters}
        beside = [each.name for each in plan.program.all_parameters() if each.name not in learned]
        self.buffers = [name for name in beside if name not in plan.fused]
        """Parameters that nobody learns, such as the means of batch_norm:
        each trainer has its own, and saves have the first one's.
        """
        self._groups = _groups(plan)
        self._replaced = {site.replaced for site in plan.lookups if site.replaced}
        self._operations = 0
        self._used: set[str] = set()
        order = [site for group in self._groups if group.is_pushed for site in group.lookups]
        self._row_gradients = [plan.gradients[site.output] for site in order]
        self._gradients = self._row_gradients
        """Also those of the parameters, in the optimizer's order, when there is one."""
        self._padded = [name for site, gradient in plan.padded for name in (site.ids, gradient)]
        made = {name for op in plan.program.global_block().ops for name in op.output_arg_names}
        known = [each.counting for each in plan.tables.values() if each.counting and not each.counting.is_gradient]
        self._count_names = [*dict.fromkeys(name for each in known for name in (each.shows, each.clicks) if name)]
        """Variables that say how often a sample was shown and clicked."""
        self._computed_counts = [name for name in self._count_names if name in made]

    # ---- one batch

    def step(
        self,
        feed: Mapping[str, Fed],
        fetch: Sequence[Variable | str] = (),
        *,
        share: float | None = None,
        executor: Executor = None,
        scope: Scope = None,
        return_numpy: bool = True,
        in_order: bool = False,
        following: Mapping[str, Fed] | None = None,
    ) -> list[Fetched]:
        """Learn one batch. ``fetch`` are variables or their names.
        ``share``: this batch's part of all trainers' samples. ``in_order``: operations one after the other.
        ``following``: the feed of the next step, if it is known, whose rows come with the end of this one.
        """
        with self._lock:
            optimizer = self.bind(scope)
            padded = self._padded
            ready, pulled = self._prepared(feed, fetch, executor, scope, create=True)
            given = [name for number, each in enumerate(pulled) for name in self._put(number, each, scope)]
            found = self._run(
                self.plan.program,
                ready,
                [*fetch, *padded, *self._computed_counts],
                executor,
                scope,
                given=given,
                left=self._gradients,
                in_order=in_order,
            )
            behind = len(fetch)
            beside = self._padding_squares(found[behind : behind + len(padded)]) if padded else 0.0
            behind += len(padded)
            counted = len(self._computed_counts)
            counts = self._counts(feed, found[behind : behind + counted]) if self._count_names else {}
            gradients = self._views.of(found[behind + counted :])
            behind = 0
            for each in pulled:
                if each.group.is_pushed:
                    own = gradients[behind : behind + len(each.arrays)]
                    behind += len(own)
                    self._collect(each, own, counts)
            self._expect(following, executor, scope)
            optimizer.learn([each.reshape(-1) for each in gradients[behind:]], share=share, squares_beside=beside)
            return _given(found[: len(fetch)], return_numpy=return_numpy)

    def read(
        self,
        feed: Mapping[str, Fed],
        fetch: Sequence[Variable | str] = (),
        *,
        executor: Executor = None,
        scope: Scope = None,
        return_numpy: bool = True,
    ) -> list[Fetched]:
        """Run the program with rows as they are; nothing is learned, and rows that do not exist are not created."""
        with self._lock:
            ready, pulled = self._prepared(feed, fetch, executor, scope, create=False)
            for each in pulled:
                ready |= each.tensors()
            found = self._run(self.plan.program, ready, [*fetch], executor, scope)
            return _given(found, return_numpy=return_numpy)

    def skip(self) -> None:
        """A step without a batch, where the others' steps wait for this trainer's (sync)."""
        with self._lock:
            self.bind(None).skip()

    # ---- parts of it

    def bind(self, scope: Scope, *, is_loaded: bool = False) -> ScopeOptimizer:
        """The optimizer; made with the parameters as the startup program left them, when it is needed first.
        ``is_loaded``: a checkpoint is loaded behind it.
        """
        if self.optimizer is None:
            scope = scope or paddle.static.global_scope()
            missing = [each.name for each in self.plan.parameters if not parameters.is_filled(scope, each.name)]
            if missing:
                what = f"the program is to be trained, and its parameters have no values yet: {', '.join(missing[:3])}"
                raise bad("UM-FLEET-020", what, "exe.run(paddle.static.default_startup_program()) first")
            learning = self.plan.learning
            self.optimizer = parameters.ScopeOptimizer.of(
                {each.name: parameters.ScopeParameter(scope, each.name, each.shape) for each in self.plan.parameters},
                HowLearned(rule=learning.rule, clip=learning.clip, decay=learning.decay, table=self._dense_table),
                learning.schedule,
                session=self.session,
                all_settings={
                    each.name: each.settings for each in self.plan.parameters if each.settings != type(each.settings)()
                },
            )
            self.optimizer.keep_buffers(
                lambda: parameters.read(scope, self.buffers), lambda arrays: parameters.write(scope, arrays)
            )
            self.optimizer.fused = {
                name: [parameters.ScopeParameter(scope, part, ()) for part in parts]
                for name, parts in self.plan.fused.items()
            }
            gradients = {each.name: each.gradient for each in self.plan.parameters}
            self._gradients = [*self._row_gradients, *(gradients[name] for name in self.optimizer.names)]
            following = [
                name
                for name, each in self.plan.tables.items()
                if each.counting is None or each.counting.follows_schedule
            ]
            self.optimizer.follow(self._tables.all(following))
            self.first_rows.send(is_loaded=is_loaded)
        return self.optimizer

    @property
    def can_bind(self) -> bool:
        """Whether the startup program has run."""
        scope = paddle.static.global_scope()
        return all(parameters.is_filled(scope, each.name) for each in self.plan.parameters)

    def _prepared(
        self,
        feed: Mapping[str, Fed],
        fetch: Sequence[Variable | str],
        executor: Executor,
        scope: Scope,
        *,
        create: bool,
    ) -> tuple[dict[str, Fed], list[PulledRows]]:
        """A feed without the rows, and the rows of all lookups."""
        ids = self._ids(feed, executor, scope) if self._ahead is None or self._ahead[0] is not feed else self._ahead[1]
        self._ahead = None
        needed = self._inputs() | {getattr(each, "name", each) for each in fetch}
        ready = fed({name: each for name, each in feed.items() if name in needed})
        pulled: list[PulledRows] = []
        for group in self._groups:
            arrays = [ids[site.ids] for site in group.lookups]
            lookup = self._looked_up(group, _keys(arrays), arrays)
            rows = lookup.rows(create=create and group.is_learned)
            pulled.append(PulledRows(group, arrays, lookup, rows))
            if not self._replaced.isdisjoint(needed):
                ready |= pulled[-1].replaced(needed)
        return ready, pulled

    def _expect(self, following: Mapping[str, Fed] | None, executor: Executor, scope: Scope) -> None:
        """Let the rows of the next step come with the end of this one."""
        if not self.session.reads_ahead:
            return
        next_rows, looks = self.session.communicator.next_rows, []
        if following is not None and not next_rows.was_wrong:
            ids = self._ids(following, executor, scope)
            self._ahead = following, ids
            groups = [each for each in self._groups if each.is_learned]
            looks = [(self._tables[each.table], _keys([ids[site.ids] for site in each.lookups])) for each in groups]
        next_rows.expect(looks)

    def _inputs(self) -> set[str]:
        """What operations of the program use. A script may have added some since the last step."""
        count = sum(len(block.ops) for block in self.plan.program.blocks)
        if count != self._operations:
            self._operations = count
            self._used = {name for block in self.plan.program.blocks for op in block.ops for name in op.input_arg_names}
        return self._used

    def _put(self, number: int, pulled: PulledRows, scope: Scope) -> list[str]:
        """The rows of the group with this number into the scope; returns the names of their variables."""
        scope = scope or paddle.static.global_scope()
        names = [site.output for site in pulled.group.lookups]
        joined = self._joined.get(number)
        if joined is None or joined.scope is not scope:
            joined = self._joined[number] = ScopeRows(scope, names)
        joined.put(pulled.rows, pulled.shapes(), [each.offsets for each in pulled.arrays])
        return names

    def _collect(self, pulled: PulledRows, gradients: Sequence[Floats], counts: Mapping[str, AnyArray]) -> None:
        """What a group's lookups have to learn, for the next push."""
        dim = gradients[0].shape[-1]
        alone = len(gradients) == 1
        whole = gradients[0] if alone else np.concatenate([part.reshape(-1, dim) for part in gradients])
        if isinstance(pulled.lookup, CountedLookup):
            pulled.lookup.collect(whole, counts)
        else:
            pulled.lookup.collect(whole)

    def _looked_up(self, group: LookupGroup, keys: Keys, arrays: list[FedArray]) -> Lookup | CountedLookup:
        table, planned = self._tables[group.table], self._tables.planned(group.table)
        if planned.counting is None:
            return Lookup(table, keys, padding=group.padding)
        slots = [planned.site.slots.get(site.replaced or site.output, 0) for site in group.lookups]
        return CountedLookup(table, planned.counting, keys, arrays, slots, padding=group.padding)

    def _counts(self, feed: Mapping[str, Fed], computed: list[Fetched]) -> dict[str, AnyArray]:
        """Their numbers, of the feed or of the program."""
        found = {name: np.array(each) for name, each in zip(self._computed_counts, computed, strict=True)}
        names = [name for name in self._count_names if name not in found]
        missing = [name for name in names if name not in feed]
        if missing:
            what = f"the feed lacks what its ShowClickEntry names: {', '.join(missing)}"
            raise bad("UM-FLEET-021", what, f"feed: {', '.join(feed) or 'empty'}")
        return found | {name: array_of(feed[name]).array for name in names}

    def _padding_squares(self, found: list[Fetched]) -> float:
        """Of the gradients of ids that never learn, in lookups that stay in the program:
        Paddle sums them per parameter.
        """
        sums: dict[str, AnyArray] = {}
        for (site, _), ids, gradient in zip(self.plan.padded, found[::2], found[1::2], strict=True):
            rows = np.array(gradient)
            own = rows.reshape(-1, rows.shape[-1])[np.array(ids).reshape(-1) == site.padding]
            sums[site.table] = sums.get(site.table, 0) + own.sum(axis=0)
        return float(sum(np.square(each, dtype=np.float64).sum() for each in sums.values()))

    def _ids(self, feed: Mapping[str, Fed], executor: Executor, scope: Scope) -> dict[str, FedArray]:
        plan = self.plan
        names = dict.fromkeys(site.ids for site in plan.lookups if site.ids not in plan.computed)
        missing = [name for name in names if name not in feed]
        if missing:
            raise bad(
                "UM-FLEET-021", f"the feed lacks ids: {', '.join(missing)}", f"feed: {', '.join(feed) or 'empty'}"
            )
        found = {name: array_of(feed[name]) for name in names}
        if plan.ids_program is not None:
            known = plan.ids_program.global_block().vars
            ready = fed({name: each for name, each in feed.items() if name in known})
            computed = self._run(plan.ids_program, ready, [*plan.computed], executor, scope)
            found |= {name: array_of(each) for name, each in zip(plan.computed, computed, strict=True)}
        return found

    def _run(
        self,
        program: Program,
        feed: dict[str, Fed],
        fetch: list[Variable | str],
        executor: Executor,
        scope: Scope,
        **how: Any,
    ) -> list[Fetched]:
        if executor is None:
            if self._executor is None:
                self._executor = paddle.static.Executor(paddle.CPUPlace())
            executor = self._executor
        return self._runs.run(executor, program, feed, fetch, scope, **how)


def _keys(arrays: Sequence[FedArray]) -> Keys:
    """The ids of several lookups, one after the other."""
    flat = [each.array.reshape(-1) for each in arrays]
    return as_keys(flat[0] if len(flat) == 1 else np.concatenate(flat))


def _groups(plan: ProgramPlan) -> list[LookupGroup]:
    found: dict[tuple[str, int | None, bool], list[LookupSite]] = {}
    for site in plan.lookups:
        found.setdefault((site.table, site.padding, site.output in plan.gradients), []).append(site)
    return [
        LookupGroup(table=key[0], padding=key[1], is_pushed=key[2], lookups=tuple(each)) for key, each in found.items()
    ]


def _unflat(site: LookupSite, ids: FedArray) -> tuple[int, ...]:
    """The dimensions of a lookup's rows, but the last."""
    return ids.array.shape[:-1] if site.drops_last else ids.array.shape


def _given(found: list[Fetched], *, return_numpy: bool) -> list[Fetched]:
    """As the caller of an executor expects it."""
    return [np.array(each) for each in found] if return_numpy else found
