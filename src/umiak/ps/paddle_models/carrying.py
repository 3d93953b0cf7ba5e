"""Carries a Paddle model over to tables, and the optimizer that then learns. An adapter, for Paddle."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING

import numpy as np
import paddle
import umiak_native

from umiak.ps import specs
from umiak.ps.errors import BadRequest, bad
from umiak.ps.layers.common import places
from umiak.ps.layers.dense import TABLE, Learner, Manner, room_for
from umiak.ps.paddle import Optimizer
from umiak.ps.paddle_models.lookups import CarriedTable, Expected, TableForward, TableWeight
from umiak.ps.paddle_models.reading import WEIGHT, embedding_weights, padding_of
from umiak.ps.tables.lookup import sparse_spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from umiak.ps.clients.protocol import Floats
    from umiak.ps.paddle_models.plans import ModelPlan, PlannedParameter, PlannedTable, TrainerClip
    from umiak.ps.sessions import Session
    from umiak.ps.tables.lookup import EmbeddingTable

PART_BYTES = 4 << 20
"""How much of a weight is sent or fetched at a time."""
FIRST_LOOK_S = 0.02


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
        super().__init__(parameters, learner, None, session)

    def step(self, *, share: float | None = None) -> None:
        """Push this step's gradients and fetch the parameters. ``share``: this batch's part of all trainers' samples."""
        factors = tuple(
            optimizer.get_lr() / rate for optimizer, rate in zip(self.plan.optimizers, self.plan.rates, strict=True)
        )
        self._take_changes()
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

    def refresh(self) -> None:
        super().refresh()
        self._expected.forget()

    def expect(self, ids: Iterable[NDArray[Any]], *, is_one_pass: bool = False) -> None:
        """A hint: the arrays of whole numbers in the batch that comes. Rows of those that a table was asked for before in the same
        place are fetched together, with the first look into the table. A wrong hint costs time and nothing else.

        ``is_one_pass``: all gradients will come in one backward pass. In a second one, Paddle refuses rows of that batch.
        """
        self._expected.set(ids)
        self._expected.is_joined = is_one_pass

    def weights(self) -> dict[str, Floats]:
        """All rows of each table, by the name that its weight has in `state_dict`."""
        found = {}
        for name, carried in self._carried.items():
            parts = [carried.table.rows(keys, create=False) for keys in _parts(carried)]
            found[name] = np.concatenate(parts)
        return found

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """The opposite: every trainer calls it, and the first trainer's are everybody's. Names that are no table's are left alone."""
        for name, carried in self._carried.items():
            if name not in weights:
                continue
            values = np.ascontiguousarray(weights[name], np.float32)
            whole = (carried.rows, carried.table.spec.dim)
            if values.shape != whole:
                raise bad("UM-PS-171", f"{name}: not of the shape {list(whole)}: {list(values.shape)}")
            self._session.meet("weights")
            _send(self._session, carried, values)
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

    def _gradients(self) -> list[Floats]:
        found = []
        for number, parameter in enumerate(self._parameters):
            gradient = parameter.grad
            if gradient is None:
                found.append(self._nothing(math.prod(parameter.shape)))
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
    model: paddle.nn.Layer, plan: ModelPlan, *, session: Session, prefix: str = "", seed: int = 0
) -> CarriedOptimizer:
    """Let the model read rows from tables and learn through the session. Every trainer calls it.

    Names of tables begin with ``prefix``. ``seed`` is that of new rows where they begin by a rule. `BadRequest` has all
    problems of the plan.
    """
    if plan.problems:
        raise BadRequest(*plan.problems)
    expected = Expected()
    owned = {name: each for each in embedding_weights(model) for name in each.layers}
    carried = {}
    for planned in plan.tables:
        table = CarriedTable(_opened(planned, session, prefix, seed), planned.rows, expected)
        weight = owned[planned.layers[0]].weight
        if planned.init is None:
            _set_first(session, table, _numbers(weight))
        for name, layer in owned[planned.layers[0]].layers.items():
            table.table.counts_padding |= planned.clip_group is not None and bool(getattr(layer, "_sparse", False))
            _bind(layer, name, table)
        # The model's own optimizer still has the tensor: its memory goes all the same.
        weight.clear_gradient()
        weight._clear_data()  # noqa: SLF001
        carried[f"{planned.layers[0]}.{WEIGHT}".removeprefix(".")] = table
    learned = {each.name for each in plan.parameters}
    parameters = _named(model, plan)
    for name, each in model.named_parameters():
        if name not in learned:
            each.stop_gradient = True
    return _optimizer(parameters, plan, carried, expected, session=session, table=f"{prefix}{TABLE}")


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
    order = sorted(sizes, key=lambda manner: sizes[manner])
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
    made._fetch()  # noqa: SLF001
    return made


def _manner(planned: PlannedParameter) -> Manner:
    return Manner(
        rate=planned.rate,
        decay=None if planned.decay == specs.Decay() else planned.decay,
        rule=planned.rule,
        clip=None if planned.clip == specs.Clip() else planned.clip,
        optimizer=planned.optimizer,
        label=planned.label,
    )


def _named(model: paddle.nn.Layer, plan: ModelPlan) -> dict[str, paddle.Tensor]:
    """The parameters of the plan, also those that only an optimizer has."""
    from umiak.ps.paddle_models import optimizers as learning

    found = dict(model.named_parameters())
    for each in learning.read(plan.optimizers).parameters:
        found.setdefault(each.name, each)
    return {each.name: found[each.name] for each in plan.parameters}


def _opened(planned: PlannedTable, session: Session, prefix: str, seed: int) -> EmbeddingTable:
    spec = sparse_spec(
        planned.dim,
        rule=planned.rule,
        init=planned.init or specs.Constant(0.0),
        seed=seed,
        clip=planned.clip,
        decay=planned.decay,
        entry=None,
        accessor=None,
    )
    table = session.registry.table(f"{prefix}{planned.name}", spec)
    table.optimizer = planned.optimizer
    return table


def _bind(layer: Any, name: str, table: CarriedTable) -> None:
    """The layer reads from the table, and has no weight of its own any more."""
    layer.__dict__["forward"] = TableForward(layer, name, table, padding_of(layer))
    del layer._parameters[WEIGHT]  # noqa: SLF001
    layer.__dict__[WEIGHT] = TableWeight(name, (table.rows, table.table.spec.dim))


# ---- the numbers of a weight, to tables and back


def _set_first(session: Session, carried: CarriedTable, values: Floats) -> None:
    """The first trainer's weight as the first rows, unless the servers have rows: then this trainer has been restarted."""
    number = carried.table.open()
    del number
    if session.communicator.keeps_tables or session.is_first:
        if session.communicator.keeps_tables or _row_count(session, carried) < carried.rows:
            _send(session, carried, values)
        return
    deadline = time.monotonic() + session.options.timeout_s
    pause_s = FIRST_LOOK_S
    while _row_count(session, carried) < carried.rows:
        if time.monotonic() > deadline:
            raise bad(
                "UM-PS-009",
                f"trainer 0 has not given table {carried.table.name} its first rows within {session.options.timeout_s:g} s",
                "every trainer must carry over the same model; if trainer 0 starts slowly: ps.init(timeout_s=...)",
            )
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.5)


def _row_count(session: Session, carried: CarriedTable) -> int:
    servers = json.loads(session.client.status())
    name = carried.table.name
    return sum(int(server["tables"][name]["rows"]) for server in servers if name in server["tables"])


def _send(session: Session, carried: CarriedTable, values: Floats) -> None:
    """The first trainer's rows are everybody's. Where each trainer has its own tables, everybody calls it."""
    keeps = session.communicator.keeps_tables
    if not keeps and not session.is_first:
        return
    for keys in _parts(carried):
        rows = np.ascontiguousarray(values[int(keys[0]) : int(keys[-1]) + 1])
        if keeps and session.world > 1:
            first, *_ = session.gather(rows.tobytes() if session.is_first else b"", "rows")
            rows = np.frombuffer(first, np.float32).reshape(rows.shape)
        session.client.set(carried.table.number, keys, rows)


def _parts(carried: CarriedTable) -> Iterable[NDArray[np.uint64]]:
    """All ids of a table, some at a time."""
    most = max(1, PART_BYTES // (4 * carried.table.spec.dim))
    for first in range(0, carried.rows, most):
        yield np.arange(first, min(first + most, carried.rows), dtype=np.uint64)


def _numbers(weight: paddle.Tensor) -> Floats:
    numbers: Floats = weight.detach().numpy()
    return numbers


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


def _limit(clip: TrainerClip, gradients: list[Floats], numbers: list[int], tables: list[EmbeddingTable]) -> None:
    """Puts limited gradients in the place of those that are too long. Rows are changed in place."""
    learned = [each for each in tables if each.has_gradients]
    rows = [each.merged() for each in learned]
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
