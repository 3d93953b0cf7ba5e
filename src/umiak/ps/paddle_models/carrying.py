"""Carries a Paddle model over to tables, and the optimizer that then learns. An adapter, for Paddle."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import paddle
import umiak_native

from umiak.ps import specs
from umiak.ps.absent import Missing
from umiak.ps.errors import BadRequest, bad
from umiak.ps.layers.common import places
from umiak.ps.layers.dense import FROZEN, TABLE, Learner, Manner, room_for
from umiak.ps.paddle import Optimizer, floats, keep_buffers
from umiak.ps.paddle_models.lookups import CarriedTable, Expected, TableForward, TableWeight
from umiak.ps.paddle_models.reading import WEIGHT, embedding_weights, padding_of
from umiak.ps.paddle_models.whole_weights import WholeWeight
from umiak.ps.tables.lookup import sparse_spec

STATE_ON_TABLES = "UM-PS-182"

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from umiak.ps.clients.protocol import Floats
    from umiak.ps.layers.dense import Gradient
    from umiak.ps.paddle_models.plans import ModelPlan, PlannedParameter, PlannedTable, TrainerClip
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
        self._clips = _clip_groups(plan, [*parameters], carried)
        self._whole: dict[int, tuple[Floats, NDArray[np.int64]]] = {}
        sparse = {each.name for each in plan.parameters if each.has_sparse_gradients}
        self._is_sparse = [name in sparse for name in parameters]
        super().__init__(parameters, learner, None, session)

    def step(self, *, share: float | None = None) -> None:
        """Push this step's gradients and fetch the parameters. ``share``: this batch's part of all trainers' samples."""
        factors = tuple(
            optimizer.get_lr() / rate for optimizer, rate in zip(self.plan.optimizers, self.plan.rates, strict=True)
        )
        self._take_changes()
        self._forget_frozen()
        gradients = self._gradients()
        for clip, numbers, tables in self._clips:
            _limit(clip, gradients, numbers, tables)
        self._learner.step(gradients, share=share, factor=factors or 1.0)
        self._show()
        self._expected.forget()

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

    def expect(self, ids: Iterable[NDArray[Any]], *, is_one_pass: bool = False) -> None:
        """A hint: the arrays of whole numbers in the batch that comes. Rows of those that a table was asked for before in the same
        place are fetched together, with the first look into the table. A wrong hint costs time and nothing else.

        ``is_one_pass``: all gradients will come in one backward pass. In a second one, Paddle refuses rows of that batch.
        """
        self._expected.set(ids)
        self._expected.is_joined = is_one_pass

    def weights(self) -> dict[str, Floats]:
        """All rows of each table, by the name that its weight has in `state_dict`."""
        return {name: carried.whole.numbers() for name, carried in self._carried.items()}

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
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

    def state_dict(self) -> dict[str, Any]:
        """What is not in tables: schedules and learning rates."""
        return {"optimizers": [_rate_state(each) for each in self.plan.optimizers]}

    def set_state_dict(self, state: dict[str, Any]) -> None:
        for each, saved in zip(self.plan.optimizers, state["optimizers"], strict=True):
            schedule = each._learning_rate  # noqa: SLF001
            if isinstance(schedule, paddle.optimizer.lr.LRScheduler):
                schedule.set_state_dict(saved)
            elif "learning_rate" in saved:
                each.set_lr(saved["learning_rate"])

    def _forget_frozen(self) -> None:
        """As in Paddle, what is frozen between the backward pass and the step does not learn either."""
        for carried in self._carried.values():
            if carried.weight.stop_gradient and carried.table.has_gradients:
                carried.table.forget()

    def _gradients(self) -> list[Gradient]:
        found: list[Gradient] = []
        for number, parameter in enumerate(self._parameters):
            if parameter.stop_gradient:
                found.append(Missing.FROZEN)
            elif (gradient := parameter.grad) is None:
                # Of gradients of some rows, `clear_grad` leaves nothing.
                found.append(Missing.ABSENT if self._is_sparse[number] else self._without)
            elif gradient.is_selected_rows():
                found.append(self._spread(number, parameter, gradient))
            else:
                found.append(self._floats(gradient))
        return found

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


def carry_over(
    model: paddle.nn.Layer, plan: ModelPlan, *, session: Session, prefix: str = "", buffers: bool = True
) -> CarriedOptimizer:
    """Let the model read rows from tables and learn through the session. Every trainer calls it.

    Tables begin with the numbers that the first trainer's model has, as Paddle and the script have made them. Their names begin with
    ``prefix``. With ``buffers``, `Session.save` saves the first trainer's buffers too. `BadRequest` has all problems of the plan.
    """
    if plan.problems:
        raise BadRequest(*plan.problems)
    expected = Expected()
    owned = {name: each for each in embedding_weights(model) for name in each.layers}
    carried = {}
    for planned in plan.tables:
        weight = owned[planned.layers[0]].weight
        called = f"{planned.layers[0]}.{WEIGHT}".removeprefix(".")
        opened = _opened(planned, session, prefix)
        table = CarriedTable(WholeWeight(session, opened, planned.rows, called), opened, expected, weight)
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


def _refuse_state(optimizer: Any) -> None:
    """The model's own optimizer has no moments any more: what it would save is empty, and what it would load is lost."""

    def refuse(*_: object, **__: object) -> Any:
        raise bad(
            STATE_ON_TABLES,
            f"{type(optimizer).__name__}: what it has learned (moments, powers) is in tables, and can't be saved or loaded with it",
            "umiak train saves it with its checkpoints, a script with fleet.save_persistables(...) or ps.save(...)",
        )

    optimizer.state_dict = optimizer.set_state_dict = optimizer.set_dict = refuse


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
    manners = {each.name: _manner(each) for each in plan.parameters}
    # Those that learn alike stand together, so that each table is one piece of the memory; the largest comes last, which a step
    # pushes and fetches in one.
    sizes: dict[Manner, int] = {}
    for name, manner in manners.items():
        sizes[manner] = sizes.get(manner, 0) + math.prod(parameters[name].shape)
    # What is frozen comes first: mostly it is left alone.
    order = sorted(sizes, key=lambda manner: (not manner.label.endswith(FROZEN), sizes[manner]))
    parameters = dict(sorted(parameters.items(), key=lambda each: order.index(manners[each[0]])))
    arrays = [specs.Array(name=name, shape=tuple(each.shape)) for name, each in parameters.items()]
    values = room_for(arrays)
    for each, place in places(parameters.values()):
        values[place] = CarriedOptimizer._floats(each).reshape(-1)  # noqa: SLF001
    learner = Learner(
        session,
        arrays,
        values,
        rule=usual.rule if usual else specs.Sgd(plan.rates[0] if plan.rates else 1.0),
        clip=None,
        table=table,
        tables=[each.table for each in carried.values()],
        manners=[manners[name] for name in parameters],
    )
    made = CarriedOptimizer(parameters, learner, session, plan=plan, carried=carried, expected=expected)
    made._fetch(everything=True)  # noqa: SLF001
    return made


def _manner(planned: PlannedParameter) -> Manner:
    return Manner(
        rate=planned.rate,
        decay=None if planned.decay == specs.Decay() else planned.decay,
        rule=planned.rule,
        clip=None if planned.clip == specs.Clip() else planned.clip,
        optimizer=planned.optimizer,
        label=".".join(each for each in (planned.label, FROZEN if planned.is_frozen else "") if each),
    )


def _named(model: paddle.nn.Layer, plan: ModelPlan) -> dict[str, paddle.Tensor]:
    """The parameters of the plan, also those that only an optimizer has."""
    from umiak.ps.paddle_models import optimizers as learning

    found = dict(model.named_parameters())
    for each in learning.read(plan.optimizers).parameters:
        found.setdefault(each.name, each)
    return {each.name: found[each.name] for each in plan.parameters}


def _opened(planned: PlannedTable, session: Session, prefix: str) -> EmbeddingTable:
    spec = sparse_spec(
        planned.dim,
        rule=planned.rule,
        init=specs.Constant(0.0),
        seed=0,
        clip=planned.clip,
        decay=planned.decay,
        entry=None,
        accessor=None,
    )
    table = session.registry.table(f"{prefix}{planned.name}", spec)
    table.optimizer = planned.optimizer
    return table


def _bind(layer: Any, name: str, table: CarriedTable) -> None:
    """The layer reads from the table, and its weight has no numbers of its own any more."""
    layer.__dict__["forward"] = TableForward(layer, name, table, padding_of(layer))
    layer.__dict__[WEIGHT] = TableWeight(name, table)
    layer.register_state_dict_hook(lambda state: table.whole.answer(state, table.weight))


def _rate_state(optimizer: Any) -> dict[str, Any]:
    schedule = optimizer._learning_rate  # noqa: SLF001
    if isinstance(schedule, paddle.optimizer.lr.LRScheduler):
        saved: dict[str, Any] = schedule.state_dict()
        return saved
    return {"learning_rate": optimizer.get_lr()}


# ---- clipping by trainers


def _clip_groups(
    plan: ModelPlan, names: list[str], carried: Mapping[str, CarriedTable]
) -> list[tuple[TrainerClip, list[int], list[EmbeddingTable]]]:
    """For each limit the places of its parameters and its tables."""
    place = {name: number for number, name in enumerate(names)}
    tables = dict(zip((each.name for each in plan.tables), carried.values(), strict=True))
    return [
        (
            clip,
            [place[each.name] for each in plan.parameters if each.clip_group == group],
            [tables[each.name].table for each in plan.tables if each.clip_group == group],
        )
        for group, clip in enumerate(plan.clips)
    ]


def _limit(clip: TrainerClip, gradients: list[Any], numbers: list[int], tables: list[EmbeddingTable]) -> None:
    """Puts limited gradients in the place of those that are too long. Rows are changed in place."""
    learned = [each for each in tables if each.has_gradients]
    rows = [each.merged() for each in learned]
    numbers = [number for number in numbers if not isinstance(gradients[number], Missing)]
    if clip.low is not None:
        for number in numbers:
            gradients[number] = np.clip(gradients[number], clip.low, clip.high)
        for each in rows:
            np.clip(each, clip.low, clip.high, out=each)
        return
    lengths = [umiak_native.squares(each.reshape(-1)) for each in (*(gradients[number] for number in numbers), *rows)]
    beside = {each.name: each.padding_squares() for each in tables}
    if clip.global_norm is not None:
        together = sum(lengths) + sum(beside.values())
        scales = [_scale(together, clip.global_norm)] * len(lengths)
    else:
        own = [0.0] * len(numbers) + [beside[each.name] for each in learned]
        scales = [_scale(sum(each), float(clip.norm or 0.0)) for each in zip(lengths, own, strict=True)]
    for number, scale in zip(numbers, scales, strict=False):
        if scale != 1.0:
            gradients[number] = gradients[number] * np.float32(scale)
    for each, scale in zip(rows, scales[len(numbers) :], strict=True):
        if scale != 1.0:
            np.multiply(each, np.float32(scale), out=each)


def _scale(squares: float, most: float) -> float:
    length = math.sqrt(squares)
    return most / length if length > most else 1.0
