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

import torch

from umiak.ps import arguments, layers
from umiak.ps.dense import TABLE, chosen_rule
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from umiak.ps import specs
    from umiak.ps.client import Floats
    from umiak.ps.lookup import Lookup
    from umiak.ps.sessions import Session

__all__ = ["Embedding", "Optimizer", "optimizer"]


class Embedding(layers.Embedding, torch.nn.Module):  # type: ignore[misc]
    """Rows by id: ``Embedding(dim=16)(ids)`` has the shape of ``ids`` and one dimension of 16 more.

    With CSR slots, ``values`` and ``offsets`` (one more than bags), one row per bag: ``Embedding(16, pooling="mean")``.
    Everything else is as in `umiak.ps.paddle.Embedding`.
    """

    def _new_anchor(self) -> torch.Tensor:
        return torch.zeros(1, requires_grad=True)

    def _array(self, ids: torch.Tensor) -> NDArray[Any]:
        found: NDArray[Any] = ids.detach().cpu().numpy()
        return found

    def _pull(self, lookup: Lookup) -> torch.Tensor:
        if self.training and torch.is_grad_enabled():
            return _Rows.apply(self._anchor[0], lookup)
        return torch.from_numpy(lookup.rows(create=False, absent=self._absent))


class _Rows(torch.autograd.Function):  # type: ignore[misc]
    """Forward: a pull. Backward: gradients are kept for the end of the step."""

    @staticmethod
    def forward(ctx: Any, _anchor: torch.Tensor, lookup: Lookup) -> torch.Tensor:
        ctx.lookup = lookup
        return torch.from_numpy(lookup.rows(create=True))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, None]:  # type: ignore[override, unused-ignore]
        ctx.lookup.collect(_floats(gradient))
        return None, None


class Optimizer(layers.Optimizer):
    """Learns everything that the servers hold. As PyTorch's optimizers: `step`, `zero_grad`, `state_dict`."""

    def zero_grad(self) -> None:
        """Forget gradients that were not pushed."""
        for parameter in self._parameters:
            parameter.grad = None
        self._session.registry.forget()

    clear_grad = zero_grad

    def state_dict(self) -> dict[str, Any]:
        """What is not on the servers. Moments and parameters are in the servers' checkpoint."""
        return {"factor": self._factor}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._factor = state["factor"]

    @staticmethod
    def _floats(tensor: torch.Tensor) -> Floats:
        return _floats(tensor)

    def _scheduled(self) -> float:
        factor: float = self._schedule(self._session.step)
        return factor

    def _share_memory(self) -> None:
        """Let parameters on the CPU be views of the array that is fetched into; the others are copied to."""
        flat = torch.from_numpy(self._learner.values)
        self._copied: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        self._shared: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        self._shown: list[torch.Tensor] = []
        for parameter, place in layers.places(self._parameters):
            view = flat[place].view(parameter.shape)
            if parameter.device.type == "cpu" and parameter.dtype == torch.float32:
                parameter.data = view
                self._shared.append((parameter, view))
            else:
                self._copied.append((parameter, view))

    def _show(self) -> None:
        with torch.no_grad():
            for parameter, view in self._copied:
                parameter.copy_(view)
        # On their own device, where comparing is cheap.
        self._shown = [parameter.detach().clone() for parameter, _ in self._copied]

    def _take_changes(self) -> None:
        moved = False
        with torch.no_grad():
            for (parameter, view), shown in zip(self._copied, self._shown, strict=True):
                if parameter.dtype != shown.dtype or not torch.equal(parameter.nan_to_num(), shown.nan_to_num()):
                    view.copy_(parameter)
            for parameter, view in self._shared:
                if parameter.data_ptr() != view.data_ptr():
                    # It was given other memory, for example by `parameter.data = ...`.
                    view.copy_(parameter)
                    moved = True
        if moved:
            self._share_memory()
            self._show()


def optimizer(
    model: torch.nn.Module,
    rule: specs.Rule | str = "adam",
    *,
    learning_rate: float | None = None,
    schedule: Callable[[int], float] | None = None,
    clip: specs.Clip | None = None,
    decay: specs.Decay | None = None,
    weight_decay: float | None = None,
    grad_clip: specs.Clip | None = None,
    table: str = TABLE,
    session: Session | None = None,
    **unknown: object,
) -> Optimizer:
    """An optimizer for a model: its dense parameters, and those of its embeddings that have no rule of their own.

    ``schedule`` tells for each step what all learning rates are multiplied by, as in `torch.optim.lr_scheduler.LambdaLR`.
    ``decay`` and ``clip`` also hold for those embeddings, unless they say their own. ``weight_decay`` is PyTorch's word: L2, with
    ``"AdamW"`` decoupled.
    """
    arguments.refuse("optimizer", unknown, arguments.OF_OPTIMIZERS)
    if not isinstance(model, torch.nn.Module):
        raise bad("UM-PS-171", f"model: not a torch.nn.Module: {type(model).__name__}", "optimizer(model, ...)")
    clip, decay = arguments.clip(clip, grad_clip), arguments.decay(rule, decay, weight_decay)
    parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
    chosen = chosen_rule(arguments.rule(rule), arguments.learning_rate(learning_rate))
    embeddings = model.modules()
    return Optimizer.of(
        parameters, chosen, schedule, clip=clip, decay=decay, table=table, session=session, embeddings=embeddings
    )


def _floats(tensor: torch.Tensor) -> Floats:
    found: Floats = tensor.detach().to(device="cpu", dtype=torch.float32).contiguous().numpy()
    return found
