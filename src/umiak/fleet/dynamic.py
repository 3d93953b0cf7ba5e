"""Dynamic models in a job with servers: ``fleet.distributed_model`` and ``fleet.distributed_optimizer``.
An adapter, for Paddle.

The model is carried over to tables (`umiak.ps.paddle_models`) as soon as both are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.fleet.job import deadlocks_told, say
from umiak.ps import paddle_models
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from typing import Any

    from umiak.fleet.job import FleetJob
    from umiak.ps.paddle_models import CarriedOptimizer
    from umiak.ps.paddle_types import Layer, Operation, Optimizer, Variable

    Minimized = tuple[list[Operation], list[tuple[Variable, Variable]]]


class DynamicOptimizer:
    """An optimizer whose rule runs on the servers; the learning rate is that of the script's own."""

    def __init__(self, job: FleetJob, optimizer: Optimizer) -> None:
        self._job = job
        self.inner_opt = optimizer
        self._carried: CarriedOptimizer | None = None

    def carry(self, model: Layer) -> None:
        """Let the model's embeddings be tables, and all of it learn on the servers."""
        if self._carried is not None or self._job.is_server:
            return
        plan = paddle_models.plan_of(model, self.inner_opt, is_shared=bool(self._job.session.seat.servers))
        for remark in plan.remarks:
            say(remark)
        self._carried = paddle_models.carry_over(model, plan, session=self._job.session)

    def step(self) -> None:
        """Push this step's gradients and fetch the parameters."""
        with deadlocks_told():
            self._known().step()

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Forget gradients."""
        self._known().clear_grad(set_to_zero)

    clear_gradients = clear_grad

    def minimize(self, _loss: Variable, *_more: object, **_named: object) -> Minimized:
        """A step, behind ``loss.backward()``, as Paddle's."""
        self.step()
        return [], []

    def _known(self) -> CarriedOptimizer:
        if self._carried is None:
            what = "fleet.distributed_optimizer: the model is not known, so its parameters can't be on the servers"
            raise bad("UM-FLEET-002", what, "model = fleet.distributed_model(model) before it is used first")
        return self._carried

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner_opt, name)


def distributed_model(job: FleetJob, model: Layer) -> Layer:
    """The model itself: its embeddings read from tables now, or when the optimizer is known."""
    job.model = model
    if isinstance(job.optimizer, DynamicOptimizer):
        job.optimizer.carry(model)
    return model


def distributed_optimizer(job: FleetJob, optimizer: Optimizer) -> DynamicOptimizer:
    """The optimizer on the servers."""
    distributed_optimizer = job.optimizer = DynamicOptimizer(job, optimizer)
    if job.model is not None:
        distributed_optimizer.carry(job.model)
    return distributed_optimizer
