"""Parameter servers for PaddlePaddle: an embedding layer and an optimizer. An adapter.

    model = Net()                                  # with ps.paddle.Embedding(dim=16) in it
    optimizer = ps.paddle.optimizer(model, "adam", learning_rate=1e-3)
    for batch in batches:
        loss = model(batch)
        loss.backward()
        optimizer.step()                           # push everything, fetch the dense parameters
        optimizer.clear_grad()

The rows of an `Embedding` live on the servers and are read in the forward pass; the other parameters live there in one table,
and in the model as a copy that `step` renews. Arrays go between Paddle and the network without being copied on the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle
from paddle.utils import dlpack

from umiak import ps
from umiak.ps import lookup, specs
from umiak.ps.dense import TABLE, Learner, chosen_rule, room_for

if TYPE_CHECKING:
    from typing import Any

    from umiak.ps.client import Floats
    from umiak.ps.job import Job
    from umiak.ps.lookup import Keys

    Ids = Any
    """A tensor or an array of whole numbers."""

__all__ = ["Embedding", "Optimizer", "optimizer"]


class Embedding(paddle.nn.Layer):  # type: ignore[misc]
    """Rows by id: ``Embedding(dim=16)(ids)`` has the shape of ``ids`` and one dimension of 16 more.

    With CSR slots, ``values`` and ``offsets``, it gives one row per bag: ``Embedding(dim=16, pooling="sum")(values, offsets)``.
    Ids are any 64-bit numbers; a row comes into being when it is read first in training. Layers with the same ``table`` share
    their rows. In `eval()` or `paddle.no_grad()` rows are only read.

    ``rule`` is how rows learn (`umiak.ps.Adam(...)`, ...); by default as the optimizer says. ``padding_id`` reads as zeros and
    never learns.
    """

    def __init__(
        self,
        dim: int,
        *,
        table: str = "embedding",
        rule: specs.Optimizer | str | None = None,
        init: specs.Init | None = None,
        seed: int = 0,
        clip: specs.Clip | None = None,
        entry: specs.Entry | None = None,
        accessor: specs.Accessor | None = None,
        pooling: str = "sum",
        padding_id: int | None = None,
        job: Job | None = None,
    ) -> None:
        super().__init__()
        chosen = None if rule is None else chosen_rule(rule, None)
        spec = lookup.sparse_spec(
            dim, optimizer=chosen, init=init, seed=seed, clip=clip, entry=entry, accessor=accessor
        )
        self.rows = (job or ps.job()).book.table(table, spec, follows=rule is None)
        self.dim = dim if accessor is None else 1 + dim
        self._pooling = lookup.checked_pooling(pooling)
        self._padding = padding_id
        # What the gradient's way back hangs on: rows are no parameters of the model.
        self._anchor = [_anchor()]

    def forward(
        self, ids: Ids, offsets: Ids | None = None, *, clicks: Ids | None = None, slot: int = 0
    ) -> paddle.Tensor:
        return self._read(_keys(ids), None if offsets is None else _keys(offsets), clicks, slot)

    def slots(self, slots: list[tuple[Ids, Ids]], *, clicks: Ids | None = None) -> paddle.Tensor:
        """Several CSR slots of the same batch with one pull: shape [batch, slots, dim], pooled."""
        values, offsets = lookup.chained([(_keys(values), _keys(ends)) for values, ends in slots])
        pooled = self._read(values, offsets, clicks, 0)
        return pooled.reshape([len(slots), -1, self.dim]).transpose([1, 0, 2])

    def _read(self, keys: Keys, offsets: Keys | None, clicks: Ids | None, slot: int) -> paddle.Tensor:
        reading = lookup.Reading(
            self.rows,
            keys,
            offsets,
            pooling=self._pooling,
            padding=self._padding,
            clicks=None if clicks is None else np.asarray(clicks, np.float32),
            slot=slot,
        )
        if self.training and paddle.is_grad_enabled():
            return _Rows.apply(self._anchor[0], reading)
        return dlpack.from_dlpack(reading.rows(create=False))

    def extra_repr(self) -> str:
        return f"{self.rows.name}, dim={self.dim}"


class _Rows(paddle.autograd.PyLayer):  # type: ignore[misc]
    """Forward: a pull. Backward: gradients are kept for the end of the step."""

    @staticmethod
    def forward(ctx: Any, anchor: paddle.Tensor, reading: lookup.Reading) -> paddle.Tensor:
        ctx.reading = reading
        ctx.nothing = anchor.detach()
        return dlpack.from_dlpack(reading.rows(create=True))

    @staticmethod
    def backward(ctx: Any, gradient: paddle.Tensor) -> paddle.Tensor:
        ctx.reading.collect(_floats(gradient))
        return ctx.nothing


class Optimizer:
    """Learns everything that the servers hold. As Paddle's optimizers: `step`, `clear_grad`, `minimize`, `get_lr`, `set_lr`."""

    def __init__(self, parameters: dict[str, paddle.Tensor], learner: Learner, schedule: Any, job: Job) -> None:
        self._parameters = [*parameters.values()]
        self._learner = learner
        self._schedule = schedule
        self._job = job
        self._factor = 1.0
        self._gradients = np.zeros_like(learner.values)
        self._shares_memory = _share_memory(self._parameters, learner.values)

    def step(self, *, share: float | None = None) -> None:
        """Push this step's gradients and fetch the parameters. ``share``: this batch's part of all trainers' samples."""
        if self._schedule is not None:
            self._factor = self._schedule() / self._schedule.base_lr
        self._learner.step(self._gather(), share=share, factor=self._factor)
        self._show()

    def clear_grad(self, set_to_zero: bool = False) -> None:
        """Forget gradients that were not pushed."""
        for parameter in self._parameters:
            parameter.clear_gradient(set_to_zero)
        self._job.book.forget()

    clear_gradients = clear_grad

    def minimize(self, loss: paddle.Tensor) -> None:
        loss.backward()
        self.step()
        self.clear_grad()

    def refresh(self) -> None:
        """Fetch the parameters anew, for example after `ps.load`."""
        self._learner.fetch()
        self._show()

    def get_lr(self) -> float:
        return self._factor * self._learner.learning_rate

    def set_lr(self, learning_rate: float) -> None:
        """From the next step on. The learning rates of tables with rules of their own change in proportion."""
        self._factor = learning_rate / self._learner.learning_rate

    def state_dict(self) -> dict[str, Any]:
        """What is not on the servers: the schedule. Moments and parameters are in the servers' checkpoint."""
        return {"factor": self._factor, "schedule": self._schedule.state_dict() if self._schedule else None}

    def set_state_dict(self, state: dict[str, Any]) -> None:
        self._factor = state["factor"]
        if self._schedule is not None and state["schedule"]:
            self._schedule.set_state_dict(state["schedule"])

    def _gather(self) -> Floats | None:
        """All gradients end to end; zeros where a parameter took no part."""
        behind = 0
        for parameter in self._parameters:
            size = parameter.size
            gradient = parameter.grad
            part = self._gradients[behind : behind + size]
            if gradient is None:
                part.fill(0)
            else:
                part[:] = _floats(gradient).reshape(-1)
            behind += size
        return self._gradients if self._parameters else None

    def _show(self) -> None:
        """The fetched parameters in the model, where it has memory of its own."""
        if not self._shares_memory:
            _copy_in(self._parameters, self._learner.values)


def optimizer(
    model: paddle.nn.Layer,
    rule: specs.Optimizer | str = "adam",
    *,
    learning_rate: Any = None,
    clip: specs.Clip | None = None,
    table: str = TABLE,
    job: Job | None = None,
) -> Optimizer:
    """An optimizer for a model: its dense parameters, and those of its embeddings that have no rule of their own.

    ``learning_rate`` is a number or one of Paddle's schedulers; embeddings with rules of their own follow a scheduler in
    proportion. The first trainer's parameters become everybody's.
    """
    schedule = learning_rate if isinstance(learning_rate, paddle.optimizer.lr.LRScheduler) else None
    chosen = chosen_rule(rule, schedule.base_lr if schedule else learning_rate)
    parameters = {name: each for name, each in model.named_parameters() if not each.stop_gradient}
    arrays = [specs.Array(name=name, shape=tuple(each.shape)) for name, each in parameters.items()]
    values = room_for(arrays)
    _copy_out([*parameters.values()], values)
    own = job or ps.job()
    learner = Learner(own, arrays, values, rule=chosen, clip=clip, table=table)
    made = Optimizer(parameters, learner, schedule, own)
    made.refresh()
    return made


# ---- between Paddle and numpy


def _keys(ids: Ids) -> Keys:
    if isinstance(ids, np.ndarray):
        return lookup.as_keys(ids)
    return lookup.as_keys(np.from_dlpack(ids.detach() if ids.place.is_cpu_place() else ids.cpu()))


def _floats(tensor: paddle.Tensor) -> Floats:
    """A tensor's numbers; on the CPU its own memory."""
    tensor = tensor.detach()
    if tensor.dtype != paddle.float32:
        tensor = tensor.astype(paddle.float32)
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    if not tensor.place.is_cpu_place():
        tensor = tensor.cpu()
    return np.from_dlpack(tensor).view(np.float32)


def _anchor() -> paddle.Tensor:
    anchor = paddle.zeros([1])
    anchor.stop_gradient = False
    return anchor


def _share_memory(parameters: list[paddle.Tensor], values: Floats) -> bool:
    """Let the parameters be views of one flat array, so that fetching needs no copy. False where that can't be."""
    alike = all(each.place.is_cpu_place() and each.dtype == paddle.float32 for each in parameters)
    if not parameters or not alike or not hasattr(paddle.Tensor, "_slice"):
        return False
    flat = dlpack.from_dlpack(values)
    behind = 0
    for each in parameters:
        view = flat._slice(behind, behind + each.size).get_tensor()  # noqa: SLF001
        view._set_dims(each.shape)  # noqa: SLF001
        each.get_tensor()._share_data_with(view)  # noqa: SLF001
        behind += each.size
    return True


def _copy_out(parameters: list[paddle.Tensor], values: Floats) -> None:
    behind = 0
    for each in parameters:
        values[behind : behind + each.size] = _floats(each).reshape(-1)
        behind += each.size


def _copy_in(parameters: list[paddle.Tensor], values: Floats) -> None:
    behind = 0
    for each in parameters:
        part = values[behind : behind + each.size].reshape(each.shape)
        each.set_value(part if each.dtype == paddle.float32 else paddle.to_tensor(part).astype(each.dtype))
        behind += each.size
