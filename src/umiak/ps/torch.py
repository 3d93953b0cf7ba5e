"""Parameter servers for PyTorch: an embedding layer and an optimizer, of the same shape as Paddle's. An adapter.

    model = Net()                                  # with ps.torch.Embedding(dim=16) in it
    optimizer = ps.torch.optimizer(model, "adam", learning_rate=1e-3)
    for batch in batches:
        loss = model(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

The parameters of the model become views of one array that `step` fetches into; rows and gradients are not copied on the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from umiak import ps
from umiak.ps import lookup, specs
from umiak.ps.dense import TABLE, Learner, chosen_rule, room_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from umiak.ps.client import Floats
    from umiak.ps.job import Job
    from umiak.ps.lookup import Keys

    Ids = Any
    """A tensor or an array of whole numbers."""

__all__ = ["Embedding", "Optimizer", "optimizer"]


class Embedding(torch.nn.Module):  # type: ignore[misc]
    """Rows by id: ``Embedding(dim=16)(ids)`` has the shape of ``ids`` and one dimension of 16 more.

    With CSR slots, ``values`` and ``offsets`` (one more than bags), one row per bag: ``Embedding(16, pooling="mean")``.
    Everything else is as in `umiak.ps.paddle.Embedding`.
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
        self._anchor = [torch.zeros(1, requires_grad=True)]

    def forward(
        self, ids: Ids, offsets: Ids | None = None, *, clicks: Ids | None = None, slot: int = 0
    ) -> torch.Tensor:
        return self._read(_keys(ids), None if offsets is None else _keys(offsets), clicks, slot)

    def slots(self, slots: list[tuple[Ids, Ids]], *, clicks: Ids | None = None) -> torch.Tensor:
        """Several CSR slots of the same batch with one pull: shape [batch, slots, dim], pooled."""
        values, offsets = lookup.chained([(_keys(values), _keys(ends)) for values, ends in slots])
        pooled = self._read(values, offsets, clicks, 0)
        return pooled.reshape(len(slots), -1, self.dim).transpose(0, 1)

    def _read(self, keys: Keys, offsets: Keys | None, clicks: Ids | None, slot: int) -> torch.Tensor:
        reading = lookup.Reading(
            self.rows,
            keys,
            offsets,
            pooling=self._pooling,
            padding=self._padding,
            clicks=None if clicks is None else np.asarray(clicks, np.float32),
            slot=slot,
        )
        if self.training and torch.is_grad_enabled():
            return _Rows.apply(self._anchor[0], reading)
        return torch.from_numpy(reading.rows(create=False))

    def extra_repr(self) -> str:
        return f"{self.rows.name}, dim={self.dim}"


class _Rows(torch.autograd.Function):  # type: ignore[misc]
    """Forward: a pull. Backward: gradients are kept for the end of the step."""

    @staticmethod
    def forward(ctx: Any, _anchor: torch.Tensor, reading: lookup.Reading) -> torch.Tensor:
        ctx.reading = reading
        return torch.from_numpy(reading.rows(create=True))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, None]:  # type: ignore[override, unused-ignore]
        ctx.reading.collect(_floats(gradient))
        return None, None


class Optimizer:
    """Learns everything that the servers hold. As PyTorch's optimizers: `step`, `zero_grad`, `state_dict`."""

    def __init__(
        self,
        parameters: dict[str, torch.nn.Parameter],
        learner: Learner,
        schedule: Callable[[int], float] | None,
        job: Job,
    ) -> None:
        self._parameters = [*parameters.values()]
        self._learner = learner
        self._schedule = schedule
        self._job = job
        self._factor = 1.0
        self._gradients = np.zeros_like(learner.values)
        self._share_memory()

    def step(self, *, share: float | None = None) -> None:
        """Push this step's gradients and fetch the parameters. ``share``: this batch's part of all trainers' samples."""
        if self._schedule is not None:
            self._factor = self._schedule(self._job.step)
        self._learner.step(self._gather(), share=share, factor=self._factor)
        self._show()

    def zero_grad(self) -> None:
        """Forget gradients that were not pushed."""
        for parameter in self._parameters:
            parameter.grad = None
        self._job.book.forget()

    clear_grad = zero_grad

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
        """What is not on the servers. Moments and parameters are in the servers' checkpoint."""
        return {"factor": self._factor}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._factor = state["factor"]

    def _gather(self) -> Floats | None:
        behind = 0
        for parameter in self._parameters:
            part = self._gradients[behind : behind + parameter.numel()]
            if parameter.grad is None:
                part.fill(0)
            else:
                part[:] = _floats(parameter.grad).reshape(-1)
            behind += parameter.numel()
        return self._gradients if self._parameters else None

    def _share_memory(self) -> None:
        """Let parameters on the CPU be views of the array that is fetched into; the others are copied to."""
        flat = torch.from_numpy(self._learner.values)
        self._copied: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        behind = 0
        for parameter in self._parameters:
            view = flat[behind : behind + parameter.numel()].view(parameter.shape)
            if parameter.device.type == "cpu" and parameter.dtype == torch.float32:
                parameter.data = view
            else:
                self._copied.append((parameter, view))
            behind += parameter.numel()

    def _show(self) -> None:
        with torch.no_grad():
            for parameter, view in self._copied:
                parameter.copy_(view)


def optimizer(
    model: torch.nn.Module,
    rule: specs.Optimizer | str = "adam",
    *,
    learning_rate: float | None = None,
    schedule: Callable[[int], float] | None = None,
    clip: specs.Clip | None = None,
    table: str = TABLE,
    job: Job | None = None,
) -> Optimizer:
    """An optimizer for a model: its dense parameters, and those of its embeddings that have no rule of their own.

    ``schedule`` tells for each step what all learning rates are multiplied by, as in `torch.optim.lr_scheduler.LambdaLR`.
    """
    own = job or ps.job()
    parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
    arrays = [specs.Array(name=name, shape=tuple(each.shape)) for name, each in parameters.items()]
    values = room_for(arrays)
    behind = 0
    for each in parameters.values():
        values[behind : behind + each.numel()] = _floats(each).reshape(-1)
        behind += each.numel()
    learner = Learner(own, arrays, values, rule=chosen_rule(rule, learning_rate), clip=clip, table=table)
    made = Optimizer(parameters, learner, schedule, own)
    made.refresh()
    return made


def _keys(ids: Ids) -> Keys:
    return lookup.as_keys(ids if isinstance(ids, np.ndarray) else ids.detach().cpu().numpy())


def _floats(tensor: torch.Tensor) -> Floats:
    found: Floats = tensor.detach().to(device="cpu", dtype=torch.float32).contiguous().numpy()
    return found
