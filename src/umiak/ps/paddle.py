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

import contextvars
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import paddle
from paddle.utils import dlpack

from umiak.ps import paddle_internals, specs
from umiak.ps.errors import bad
from umiak.ps.gradients import Missing
from umiak.ps.layers import arguments
from umiak.ps.layers import common as layers
from umiak.ps.layers.arguments import FROZEN, TABLE, LearningSettings
from umiak.ps.tables.memory import floats_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from umiak.core.json_types import JsonObject
    from umiak.data.array_types import AnyArray
    from umiak.ps.gradients import Floats
    from umiak.ps.layers.dense import Gradient
    from umiak.ps.paddle_types import Context, Setting
    from umiak.ps.sessions import Session
    from umiak.ps.tables.lookup import Lookup

_HAS_ROWS = contextvars.ContextVar("has_rows", default=False)
__all__ = ["Embedding", "Optimizer", "optimizer"]


class Embedding(layers.Embedding, paddle.nn.Layer):  # type: ignore[misc]
    """Rows by id: ``Embedding(dim=16)(ids)`` has the shape of ``ids`` and one dimension of 16 more.

    With CSR slots, ``values`` and ``offsets``, it gives one row per bag: ``Embedding(dim=16, pooling="sum")(values, offsets)``.
    Ids are any 64-bit numbers; a row comes into being when it is read first in training. Layers with the same ``table`` share
    their rows. In `eval()` or `paddle.no_grad()` rows are only read.

    ``rule`` is how rows learn (`umiak.ps.Adam(...)`, ...); by default as the optimizer says. ``padding_id`` reads as zeros and
    never learns. ``absent="zeros"``: rows that do not exist are zeros where they are only read, and not what they would begin
    with.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.register_state_dict_hook(self._refuse_state)

    def _refuse_state(self, _state: object) -> None:
        if _HAS_ROWS.get():
            return
        raise bad(
            "UM-PS-183",
            f"state_dict: the rows of table {self.rows.name} are not in the model, so it can't have them",
            "ps.save(path) saves all of the model, ps.load(path) loads it; parameters alone: model.state_dict(use_hook=False)",
        )

    def _new_anchor(self) -> paddle.Tensor:
        anchor = paddle.zeros([1])
        anchor.stop_gradient = False
        return anchor

    def _array(self, ids: paddle.Tensor) -> AnyArray:
        return np.from_dlpack(ids.detach() if ids.place.is_cpu_place() else ids.cpu())

    def _pull(self, lookup: Lookup) -> paddle.Tensor:
        if self.training and paddle.is_grad_enabled():
            return LookupRows.apply(self._anchor[0], lookup)
        return tensor_of(lookup.rows(create=False, absent=self._absent))


@contextmanager
def rows_elsewhere() -> Iterator[None]:
    """Within it, `state_dict` gives parameters and buffers alone: the caller has the rows in other files."""
    token = _HAS_ROWS.set(True)
    try:
        yield
    finally:
        _HAS_ROWS.reset(token)


class LookupRows(paddle.autograd.PyLayer):  # type: ignore[misc]
    """Forward: a pull. Backward: gradients are kept for the end of the step."""

    @staticmethod
    def forward(ctx: Context, _anchor: paddle.Tensor, lookup: Lookup) -> paddle.Tensor:
        ctx.lookup = lookup
        return tensor_of(lookup.rows(create=True))

    @staticmethod
    def backward(ctx: Context, gradient: paddle.Tensor) -> None:
        ctx.lookup.collect(floats(gradient))


class Optimizer(layers.Optimizer):
    """Learns everything that the servers hold. As Paddle's optimizers: `step`, `clear_grad`, `minimize`, `get_lr`, `set_lr`.

    As there, a parameter without a gradient stays as it is in a step, and ``stop_gradient`` counts when it is set: parameters may be
    frozen and unfrozen at any time.
    """

    begins_without = Missing.CLEARED

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Forget gradients that were not pushed.

        As in Paddle, with ``set_to_zero`` a parameter that has learned and is not reached by the next backward pass has a gradient of
        zeros then: moments and weight decay still move it. Without, it stays as it is.
        """
        for number, parameter in enumerate(self._parameters):
            if parameter.stop_gradient:
                continue
            self._without[number] = self._behind_clearing(number, set_to_zero=set_to_zero)
            parameter.clear_gradient(False)
            self._pushed.discard(number)
        self._forget_rows()

    def _forget_rows(self) -> None:
        """What backward passes have brought for rows."""
        self._session.registry.forget()

    def _behind_clearing(self, number: int, *, set_to_zero: bool) -> Gradient:
        """What stands where a gradient may be now. Where there is none, Paddle makes no zeros either."""
        if not set_to_zero:
            return Missing.ABSENT
        before, is_there = self._without[number], self._parameters[number].grad is not None
        if number in self._pushed and (is_there or not isinstance(before, Missing)):
            # Zeros are not filled in: whether they count, the tables know, which have had a gradient.
            return Missing.CLEARED
        return np.zeros(self._parameters[number].shape, np.float32) if is_there else before

    clear_gradients = clear_grad

    def minimize(self, loss: paddle.Tensor) -> None:
        loss.backward()
        self.step()
        self.clear_grad()

    def state_dict(self) -> JsonObject:
        """What is not on the servers: the schedule. Moments and parameters are in the servers' checkpoint."""
        return {"factor": self._factor, "schedule": self._schedule.state_dict() if self._schedule else None}

    def set_state_dict(self, state: JsonObject) -> None:
        self._factor = state["factor"]
        if self._schedule is not None and state["schedule"]:
            self._schedule.set_state_dict(state["schedule"])

    @property
    def learned(self) -> list[paddle.Tensor]:
        """All parameters whose numbers are in its tables, those that are frozen now too."""
        return [*self._parameters]

    @staticmethod
    def _is_frozen(parameter: paddle.Tensor) -> bool:
        return bool(parameter.stop_gradient)

    @staticmethod
    def floats(tensor: paddle.Tensor) -> Floats:
        return floats(tensor)

    def _current_factor(self) -> float:
        if self._schedule is None:
            return self._factor
        factor: float = self._schedule() / self._schedule.base_lr
        return factor

    def _share_memory(self) -> None:
        values = self._learner.values
        self._shares_memory = _share_memory(self._parameters, values)
        self._addresses = [
            values.ctypes.data + values.itemsize * place.start for _, place in layers.places(self._parameters)
        ]
        self._shown: list[paddle.Tensor] = []

    def _show(self) -> None:
        if self._shares_memory:
            return
        for each, place in layers.places(self._parameters):
            part = self._learner.values[place].reshape(each.shape)
            each.set_value(part if each.dtype == paddle.float32 else paddle.to_tensor(part).astype(each.dtype))
        # On their own device, where comparing is cheap.
        self._shown = [each.detach().clone() for each in self._parameters]

    def _take_changes(self) -> None:
        values = self._learner.values
        if not self._shares_memory:
            for (each, place), shown in zip(layers.places(self._parameters), self._shown, strict=True):
                if each.dtype != shown.dtype or not bool(((each == shown) | (each != each)).all()):
                    values[place] = floats(each).reshape(-1)
            return
        if [each.data_ptr() for each in self._parameters] == self._addresses:
            return
        for (each, place), address in zip(layers.places(self._parameters), self._addresses, strict=True):
            if each.data_ptr() != address:
                # It was given other memory, for example by `model.to(...)`.
                values[place] = floats(each).reshape(-1)
        self._share_memory()
        self._show()


def optimizer(
    model: paddle.nn.Layer,
    rule: specs.Rule | str = "adam",
    *,
    learning_rate: Setting = None,
    clip: specs.Clip | None = None,
    decay: specs.Decay | None = None,
    weight_decay: Setting = None,
    grad_clip: Setting = None,
    table: str = TABLE,
    session: Session | None = None,
    buffers: bool = True,
    **unknown: object,
) -> Optimizer:
    """An optimizer for a model: its dense parameters, and those of its embeddings that have no rule of their own.

    ``decay`` and ``clip`` also hold for those embeddings, unless they say their own. ``weight_decay`` and ``grad_clip`` are
    Paddle's words for them: a number (L2; with ``"AdamW"`` decoupled) or one of `paddle.regularizer`, and
    `paddle.nn.ClipGradByGlobalNorm` or `paddle.nn.ClipGradByValue`. A parameter's `paddle.ParamAttr` holds before it:
    ``learning_rate``, which multiplies that of the optimizer, ``regularizer``, and ``need_clip=False``, which leaves its gradients as they are.

    ``learning_rate`` is a number or one of Paddle's schedulers; embeddings with rules of their own follow a scheduler in
    proportion. The first trainer's parameters become everybody's. With ``buffers``, `umiak.ps.save` saves the first trainer's buffers
    (running statistics of `BatchNorm`, ...) too, and `umiak.ps.load` gives them to every trainer.
    """
    schedule = learning_rate if isinstance(learning_rate, paddle.optimizer.lr.LRScheduler) else None
    arguments.refuse("optimizer", unknown, arguments.OF_OPTIMIZERS)
    if not isinstance(model, paddle.nn.Layer):
        raise bad("UM-PS-171", f"model: not a paddle.nn.Layer: {type(model).__name__}", "optimizer(model, ...)")
    rate = schedule.base_lr if schedule else learning_rate
    said = {"clip": clip, "grad_clip": grad_clip, "decay": decay, "weight_decay": weight_decay}
    how = layers.how_learned(rule, rate, table=table, **said)
    # Those that are frozen now may learn later.
    statistics = running_statistics(model)
    named = ((name, each) for name, each in model.named_parameters() if id(each) not in statistics)
    parameters = {name: each for name, each in named if can_learn(each)}
    inner = model.sublayers(include_self=True)
    limits = how.clip
    clips = limits is not None and any(each is not None for each in (limits.value, limits.norm, limits.global_norm))
    all_settings = {
        name: settings
        for name, each in parameters.items()
        if (settings := _settings_of(each, clips=clips)) != LearningSettings()
    }
    made = Optimizer.of(parameters, how, schedule, session=session, embeddings=inner, all_settings=all_settings)
    if buffers:
        keep_buffers(made, model)
    return made


def keep_buffers(optimizer: Optimizer, model: paddle.nn.Layer) -> None:
    """Let checkpoints have everything of the model's state that the optimizer has not."""
    learned = {id(each) for each in optimizer.learned}
    kept = {name: each for name, each in model.state_dict(use_hook=False).items() if id(each) not in learned}
    kept = {name: each for name, each in kept.items() if each.size and paddle_internals.is_initialized(each)}

    def read() -> dict[str, AnyArray]:
        return {name: each.numpy() for name, each in kept.items()}

    def write(arrays: dict[str, AnyArray]) -> None:
        for name, array in arrays.items():
            kept[name].set_value(array)

    optimizer.keep_buffers(read, write)


def _settings_of(parameter: paddle.Tensor, *, clips: bool) -> LearningSettings:
    """What its `paddle.ParamAttr` says; ``clips``: whether the optimizer clips gradients."""
    is_clipped = not clips or needs_clip(parameter)
    label = FROZEN if parameter.stop_gradient else ""
    rate = float((getattr(parameter, "optimize_attr", None) or {}).get("learning_rate", 1.0))
    regularizer = getattr(parameter, "regularizer", None)
    if regularizer is None:
        return LearningSettings(rate=rate, is_clipped=is_clipped, label=label)
    coefficient = float(getattr(regularizer, "_coeff", 0.0))
    is_l1 = isinstance(regularizer, paddle.regularizer.L1Decay)
    decay = specs.Decay(l1=coefficient) if is_l1 else specs.Decay(l2=coefficient)
    return LearningSettings(rate=rate, decay=decay, is_clipped=is_clipped, label=label)


def running_statistics(model: paddle.nn.Layer) -> set[int]:
    """The `id` of what Paddle's layers have among their parameters although they compute it themselves, in each forward pass."""
    norms = paddle.nn.layer.norm
    kinds = {
        paddle_internals.batch_norms(): ("_mean", "_variance"),
        norms.BatchNorm: ("_mean", "_variance"),
        norms.SpectralNorm: ("weight_u", "weight_v"),
    }
    return {
        id(paddle_internals.parameters_of(layer).get(name))
        for layer in model.sublayers(include_self=True)
        for kind, names in kinds.items()
        if isinstance(layer, kind)
        for name in names
    }


def can_learn(parameter: paddle.Tensor) -> bool:
    """Whether it learns, or may later. What is frozen and of another type than tables have stays what it is."""
    return not parameter.stop_gradient or parameter.dtype == paddle.float32


def needs_clip(parameter: paddle.Tensor) -> bool:
    """Whether its gradients take part in clipping: ``ParamAttr(need_clip=...)``."""
    return getattr(parameter, "need_clip", True) is not False


# ---- between Paddle and numpy


def floats(tensor: paddle.Tensor) -> Floats:
    """A tensor's numbers; on the CPU its own memory."""
    if not tensor.stop_gradient:
        tensor = tensor.detach()
    if tensor.dtype != paddle.float32:
        tensor = tensor.astype(paddle.float32)
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    if not tensor.place.is_cpu_place():
        tensor = tensor.cpu()
    return floats_at(tensor.data_ptr(), tensor.shape, tensor)


def tensor_of(rows: Floats) -> paddle.Tensor:
    """A tensor in an array's memory."""
    return dlpack.from_dlpack(rows.__dlpack__())


def _share_memory(parameters: list[paddle.Tensor], values: Floats) -> bool:
    """Let the parameters be views of one flat array, so that fetching needs no copy. False where that can't be."""
    alike = all(each.place.is_cpu_place() and each.dtype == paddle.float32 for each in parameters)
    if not parameters or not alike or not hasattr(paddle.Tensor, "_slice"):
        return False
    flat = dlpack.from_dlpack(values)
    for each, place in layers.places(parameters):
        memory = paddle_internals.part_of(flat, place.start, place.stop).get_tensor()
        paddle_internals.share(each.get_tensor(), memory, each.shape)
    return True
