"""Carries a Paddle model over to tables, and the optimizer that then learns. An adapter, for Paddle."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
import paddle
import umiak_native

from umiak.ps import paddle_internals, specs
from umiak.ps.errors import BadRequest, bad
from umiak.ps.gradients import Missing
from umiak.ps.layers.arguments import FROZEN, TABLE, LearningSettings
from umiak.ps.layers.dense import Learner
from umiak.ps.paddle import Optimizer, floats, keep_buffers
from umiak.ps.paddle_models import clipping
from umiak.ps.paddle_models.lookups import CarriedTable, Expected, TableForward, TableWeight
from umiak.ps.paddle_models.reading import WEIGHT, embedding_weights
from umiak.ps.paddle_models.whole_weights import WholeWeight
from umiak.ps.tables.lookup import sparse_spec

STATE_ON_TABLES = "UM-PS-182"
SOME_ROWS_ONLY = "UM-PS-185"

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, NoReturn

    from numpy.typing import NDArray

    from umiak.core.json_types import JsonObject
    from umiak.data.array_types import AnyArray
    from umiak.ps.gradients import Floats
    from umiak.ps.layers.dense import Gradient
    from umiak.ps.paddle_models.plans import ModelPlan, PlannedParameter, PlannedTable
    from umiak.ps.paddle_types import Layer
    from umiak.ps.sessions import Session
    from umiak.ps.tables.lookup import EmbeddingTable


class CarriedOptimizer(Optimizer):
    """As `umiak.ps.paddle.Optimizer`: `step`, `clear_grad`, `minimize`, `get_lr`, `set_lr`, `refresh`, `tables`, `upload`.

    The learning rate is that of the model's own optimizer: its schedule, its `set_lr`.
    """

    def __init__(
        self,
        parameters: dict[str, paddle.Tensor],
        learner: Learner,
        session: Session,
        *,
        plan: ModelPlan,
        carried: Mapping[str, CarriedTable],
        expected: Expected,
    ) -> None:
        self.plan = plan
        self._expected = expected
        self._carried = carried
        """By the name that the weight has in `state_dict`."""
        self._clips = clipping.groups(plan, [*parameters], carried)
        self._whole: dict[int, tuple[Floats, NDArray[np.int64]]] = {}
        planned = {each.name: each for each in plan.parameters}
        self._planned = [planned[name] for name in parameters]
        super().__init__(parameters, learner, None, session)

    def step(self, *, share: float | None = None) -> None:
        """Push this step's gradients and fetch the parameters. ``share``: this batch's part of all trainers' samples."""
        factors = tuple(
            optimizer.get_lr() / rate for optimizer, rate in zip(self.plan.optimizers, self.plan.rates, strict=True)
        )
        self._take_changes()
        gradients = self._gradients()
        # As in Paddle, a step leaves gradients as they were: who does not clear them has them in the next one as well.
        held = {each.table: each.table.held() for each in self._carried.values() if each.table.has_gradients}
        for carried in self._carried.values():
            carried.whole.take_written()
            # What is frozen between the backward pass and the step does not learn either.
            if carried.weight.stop_gradient and carried.table in held:
                carried.table.forget()
        for clip, numbers, tables in self._clips:
            clipping.limit(clip, gradients, numbers, tables)
            if clip.global_norm is not None:
                held |= {each: each.held() for each in tables if each.has_gradients and each.is_of_all_rows}
                self._write_back(numbers, gradients)
        for carried in self._carried.values():
            carried.collect_zeros()
        self._learner.step(gradients, share=share, factor=factors or 1.0)
        self._remember_pushed(gradients)
        for table, kept in held.items():
            table.hold(kept)
        self._show()
        self._expected.forget()

    def clear_grad(self, set_to_zero: bool = True) -> None:
        for carried in self._carried.values():
            if not carried.weight.stop_gradient:
                carried.cleared(set_to_zero=set_to_zero)
        super().clear_grad(set_to_zero)

    clear_gradients = clear_grad

    def get_lr(self) -> float:
        """Of the first optimizer."""
        return float(self.plan.optimizers[0].get_lr())

    def set_lr(self, learning_rate: float) -> None:
        """From the next step on, of the first optimizer; others change in proportion. As in Paddle, not where a schedule says it."""
        factor = learning_rate / self.get_lr() if self.get_lr() else 1.0
        first, *others = self.plan.optimizers
        for each in others:
            each.set_lr(factor * each.get_lr())
        first.set_lr(float(learning_rate))

    def refresh(self, *, everything: bool = False) -> None:
        if everything:
            for carried in self._carried.values():
                carried.whole.check_loaded()
        super().refresh(everything=everything)
        self._expected.forget()

    @property
    def learned(self) -> list[paddle.Tensor]:
        return [*super().learned, *(carried.weight for carried in self._carried.values())]

    def expect(self, ids: Iterable[AnyArray], *, is_one_pass: bool = False) -> None:
        """A hint: the arrays of whole numbers in the batch that comes. Rows of those that a table was asked for before in the same
        place are fetched together, with the first look into the table. A wrong hint costs time and nothing else.

        ``is_one_pass``: all gradients will come in one backward pass. In a second one, Paddle refuses rows of that batch.
        """
        self._expected.set(ids)
        self._expected.is_joined = is_one_pass

    def expect_behind(self, ids: Sequence[AnyArray] | None) -> None:
        """A hint of the same kind about the batch behind the one that is learned: its rows come with the end of this step. None: it is
        not known. To be said once the model has looked up what it needs of this batch."""
        next_rows = self._session.communicator.next_rows
        if ids is None or next_rows.was_wrong:
            next_rows.expect(())
            return
        next_rows.expect((each.table, keys) for each in self._carried.values() for keys in each.coming(ids))

    def weights(self) -> dict[str, Floats]:
        """All rows of each table, by the name that its weight has in `state_dict`."""
        return {name: carried.whole.numbers() for name, carried in self._carried.items()}

    def set_weights(self, weights: Mapping[str, AnyArray]) -> None:
        """The opposite: every trainer calls it, and the first trainer's are everybody's. Names that are no table's are left alone."""
        for name, carried in self._carried.items():
            if name not in weights:
                continue
            values = carried.whole.checked(weights[name])
            self._session.meet("weights")
            carried.whole.send(values)
            self._session.meet("weights sent")
            self._session.communicator.reload()
        self._expected.forget()

    def state_dict(self) -> JsonObject:
        """What is not in tables: schedules and learning rates."""
        return {"optimizers": [_rate_state(each) for each in self.plan.optimizers]}

    def set_state_dict(self, state: JsonObject) -> None:
        for each, saved in zip(self.plan.optimizers, state["optimizers"], strict=True):
            schedule = paddle_internals.rate_or_schedule(each)
            if isinstance(schedule, paddle.optimizer.lr.LRScheduler):
                schedule.set_state_dict(saved)
            elif "learning_rate" in saved:
                each.set_lr(saved["learning_rate"])

    def _forget_rows(self) -> None:
        # As in Paddle, an optimizer does not clear what is frozen.
        kept = [(each.table, each.table.held()) for each in self._carried.values() if each.weight.stop_gradient]
        super()._forget_rows()
        for table, held in kept:
            table.hold(held)

    def _behind_clearing(self, number: int, *, set_to_zero: bool) -> Gradient:
        if self._planned[number].is_mixed and _is_of_some_rows(self._parameters[number].grad):
            return Missing.ABSENT
        return super()._behind_clearing(number, set_to_zero=set_to_zero)

    def _gradients(self) -> list[Gradient]:
        found: list[Gradient] = []
        for number, parameter in enumerate(self._parameters):
            if parameter.stop_gradient:
                found.append(Missing.FROZEN)
            elif (gradient := parameter.grad) is None:
                # Of gradients of some rows, `clear_grad` leaves nothing.
                found.append(Missing.ABSENT if self._planned[number].has_sparse_gradients else self._without[number])
            elif gradient.is_selected_rows():
                self._check_spreading(self._planned[number])
                found.append(self._spread(number, parameter, gradient))
            else:
                found.append(self.floats(gradient))
        return found

    def _write_back(self, numbers: list[int], gradients: list[Gradient]) -> None:
        """Let parameters have gradients that were scaled in place, where these are copies of theirs."""
        for number in numbers:
            own, scaled = self._parameters[number].grad, gradients[number]
            if isinstance(scaled, Missing) or own is None or own.is_selected_rows():
                continue
            if own.data_ptr() != scaled.ctypes.data:
                own.set_value(paddle.to_tensor(scaled.reshape(own.shape)).astype(own.dtype))

    def _check_spreading(self, planned: PlannedParameter) -> None:
        """`BadRequest` where Paddle computes otherwise with the gradient of some rows than with that of all, which a table gets."""
        if not planned.needs_all_rows:
            return
        raise bad(
            SOME_ROWS_ONLY,
            f"{planned.name}: this step has only used it through an embedding with sparse=True, and others use it elsewhere as well",
            "Paddle's Adam then computes otherwise than in other steps: make the embedding with sparse=False, or use both in each step",
        )

    def _spread(self, number: int, parameter: paddle.Tensor, gradient: paddle.Tensor) -> Floats:
        """The gradient of some rows as that of all. Memory is kept from step to step: only rows of the last step need be zeroed."""
        selected = gradient.get_selected_rows()
        rows = np.array(selected.get_tensor(), np.float32)
        keys, summed = umiak_native.merge([(np.array(selected.rows(), np.uint64), rows.reshape(len(rows), -1))])
        if number in self._whole:
            whole, before = self._whole[number]
            whole[before] = 0
        else:
            whole = np.zeros(parameter.shape, np.float32)
        at = keys.view(np.int64)
        whole[at] = summed
        self._whole[number] = whole, at
        return whole


def _is_of_some_rows(gradient: paddle.Tensor) -> bool:
    return gradient is not None and bool(gradient.is_selected_rows())


def carry_over(
    model: paddle.nn.Layer, plan: ModelPlan, *, session: Session, prefix: str = "", buffers: bool = True
) -> CarriedOptimizer:
    """Let the model read rows from tables and learn through the session. Every trainer calls it.

    Tables begin with the numbers that the first trainer's model has, as Paddle and the script have made them. Their names begin with
    ``prefix``. With ``buffers``, `Session.save` saves the first trainer's buffers too. `BadRequest` has all problems of the plan.
    """
    BadRequest.raise_any(plan.problems)
    expected = Expected()
    owned = {name: each for each in embedding_weights(model) for name in each.layers}
    carried = {}
    for planned in plan.tables:
        weight = owned[planned.layers[0]].weight
        called = f"{planned.layers[0]}.{WEIGHT}".removeprefix(".")
        opened = _opened(planned, session, prefix)
        table = CarriedTable(WholeWeight(session, opened, planned.rows, called), opened, expected, weight)
        table.learns_by_zeros = planned.every_row and not planned.has_sparse_gradients
        table.whole.on_clear = functools.partial(_clear, table)
        table.whole.begin(floats(weight))
        for name, layer in owned[planned.layers[0]].layers.items():
            table.learns_padding |= bool(getattr(layer, "_sparse", False))
            _bind(layer, name, table)
        table.whole.stand_in(weight)
        carried[called] = table
    learned = {each.name for each in plan.parameters}
    in_tables = {id(each.weight) for each in carried.values()}
    parameters = _named(model, plan)
    for name, each in model.named_parameters():
        if name not in learned and id(each) not in in_tables:
            each.stop_gradient = True
    for each in plan.optimizers:
        _refuse_state(each)
    made = _optimizer(parameters, plan, carried, expected, session=session, table=f"{prefix}{TABLE}")
    if buffers:
        keep_buffers(made, model)
    return made


def _clear(table: CarriedTable, set_to_zero: bool) -> None:
    """The script clears the gradient of the weight itself."""
    table.cleared(set_to_zero=set_to_zero)


def _refuse_state(optimizer: paddle.optimizer.Optimizer) -> None:
    """The model's own optimizer has no moments any more: what it would save is empty, and what it would load is lost."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise bad(
            STATE_ON_TABLES,
            f"{type(optimizer).__name__}: what it has learned (moments, powers) is in tables, and can't be saved or loaded with it",
            "umiak train saves it with its checkpoints, a script with fleet.save_persistables(...) or ps.save(...)",
        )

    def refuse_step(*_: object, **__: object) -> Any:
        raise bad(
            STATE_ON_TABLES,
            f"{type(optimizer).__name__}: what it learns is in tables, so it takes no steps of its own",
            "call step() of what fleet.distributed_optimizer(...) or carry_over(...) has returned",
        )

    optimizer.state_dict = optimizer.set_state_dict = optimizer.set_dict = refuse
    optimizer.step = optimizer.minimize = refuse_step


def _optimizer(
    parameters: dict[str, paddle.Tensor],
    plan: ModelPlan,
    carried: Mapping[str, CarriedTable],
    expected: Expected,
    *,
    session: Session,
    table: str,
) -> CarriedOptimizer:
    usual = plan.parameters[0] if plan.parameters else None
    all_settings = {each.name: _settings_of(each) for each in plan.parameters}
    # Those that learn alike stand together, so that each table is one piece of the memory; the largest comes last, which a step
    # pushes and fetches in one.
    sizes: dict[LearningSettings, int] = {}
    for name, settings in all_settings.items():
        sizes[settings] = sizes.get(settings, 0) + math.prod(parameters[name].shape)
    # What is frozen comes first: mostly it is left alone.
    order = sorted(sizes, key=lambda settings: (not settings.label.endswith(FROZEN), sizes[settings]))
    parameters = dict(sorted(parameters.items(), key=lambda each: order.index(all_settings[each[0]])))
    arrays, values = CarriedOptimizer.laid_out(parameters)
    learner = Learner(
        session,
        arrays,
        values,
        rule=usual.learned.rule if usual else specs.Sgd(plan.rates[0] if plan.rates else 1.0),
        clip=None,
        table=table,
        tables=[each.table for each in carried.values()],
        all_settings=[all_settings[name] for name in parameters],
    )
    made = CarriedOptimizer(parameters, learner, session, plan=plan, carried=carried, expected=expected)
    made.fetch_values(everything=True)
    return made


def _settings_of(planned: PlannedParameter) -> LearningSettings:
    learned = planned.learned
    return LearningSettings(
        rate=learned.rate,
        decay=None if learned.decay == specs.Decay() else learned.decay,
        rule=learned.rule,
        clip=None if learned.clip == specs.Clip() else learned.clip,
        optimizer=learned.optimizer,
        label=".".join(each for each in (learned.label, FROZEN if planned.is_frozen else "") if each),
    )


def _named(model: paddle.nn.Layer, plan: ModelPlan) -> dict[str, paddle.Tensor]:
    """The parameters of the plan, also those that only an optimizer has."""
    from umiak.ps.paddle_models import optimizers as learning

    found = dict(model.named_parameters())
    for each in learning.read(plan.optimizers).parameters:
        found.setdefault(each.name, each)
    return {each.name: found[each.name] for each in plan.parameters}


def _opened(planned: PlannedTable, session: Session, prefix: str) -> EmbeddingTable:
    learned = planned.learned
    spec = sparse_spec(
        planned.dim,
        rule=learned.rule,
        init=specs.Constant(0.0),
        clip=learned.clip,
        decay=learned.decay,
        every_row=planned.every_row,
    )
    table = session.registry.table(f"{prefix}{planned.name}", spec)
    table.optimizer = learned.optimizer
    return table


def _bind(layer: Layer, name: str, table: CarriedTable) -> None:
    """The layer reads from the table, and its weight has no numbers of its own any more."""
    weight = layer.__dict__[WEIGHT] = TableWeight(name, table)
    layer.__dict__["forward"] = TableForward(layer, weight, table, paddle_internals.padding_of(layer))
    layer.register_state_dict_hook(lambda state: table.whole.answer(state, table.weight))


def _rate_state(optimizer: paddle.optimizer.Optimizer) -> JsonObject:
    schedule = paddle_internals.rate_or_schedule(optimizer)
    if isinstance(schedule, paddle.optimizer.lr.LRScheduler):
        saved: JsonObject = schedule.state_dict()
        return saved
    return {"learning_rate": optimizer.get_lr()}
