"""Parameter servers for PyTorch: an embedding layer and an optimizer, of the same shape as Paddle's. An adapter.

    model = Net()                                  # with ps.torch.Embedding(dim=16) in it
    optimizer = ps.torch.optimizer(model, "adam", learning_rate=1e-3)
    for batch in batches:
        loss = model(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

The parameters of the model become views of one array that `step` fetches into; rows and gradients are not copied on the CPU.
On a GPU, each id is found once there, rows are spread and gradients merged there (`umiak.ps.on_device`), and a step waits for the GPU once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from umiak.ps.errors import bad
from umiak.ps.gradients import STATISTICS
from umiak.ps.layers import arguments
from umiak.ps.layers import common as layers
from umiak.ps.layers.arguments import FROZEN, TABLE, LearningSettings
from umiak.ps.on_device import dense, rows
from umiak.ps.on_device.copies import Copies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from umiak.core.json_types import JsonObject
    from umiak.data.array_types import AnyArray
    from umiak.ps import specs
    from umiak.ps.communicators.next_rows import Look
    from umiak.ps.gradients import Floats
    from umiak.ps.layers.dense import Learner
    from umiak.ps.paddle_types import Context, Setting
    from umiak.ps.sessions import Session
    from umiak.ps.tables.lookup import EmbeddingTable, Lookup

__all__ = ["Embedding", "Optimizer", "optimizer"]


class Embedding(layers.Embedding, torch.nn.Module):  # type: ignore[misc]
    """Rows by id: ``Embedding(dim=16)(ids)`` has the shape of ``ids`` and one dimension of 16 more.

    With CSR slots, ``values`` and ``offsets`` (one more than bags), one row per bag: ``Embedding(16, pooling="mean")``.
    Everything else is as in `umiak.ps.paddle.Embedding`.
    """

    _prepared: list[tuple[tuple[int, ...], object, rows.DeviceLookup]]
    """Lookups of batches that are read ahead, the tensors that they are of, and what these are known by."""

    def forward(
        self,
        ids: Any,
        offsets: Any = None,
        *,
        clicks: Any = None,
        slot: int = 0,
        gradient_scale: float = 1.0,
    ) -> torch.Tensor:
        if not is_elsewhere(ids):
            return super().forward(ids, offsets, clicks=clicks, slot=slot, gradient_scale=gradient_scale)
        if self._counts or clicks is not None:
            here = super().forward(ids, offsets, clicks=clicks, slot=slot, gradient_scale=gradient_scale)
            return here.to(ids.device)
        return self._on_device(self._prepared_for([(ids, offsets)]), gradient_scale)

    def slots(self, slots: list[tuple[Any, Any]], *, clicks: Any = None, gradient_scale: float = 1.0) -> torch.Tensor:
        if not slots or not is_elsewhere(slots[0][0]):
            return super().slots(slots, clicks=clicks, gradient_scale=gradient_scale)
        if self._counts or clicks is not None:
            return super().slots(slots, clicks=clicks, gradient_scale=gradient_scale).to(slots[0][0].device)
        pooled = self._on_device(self._prepared_for(slots), gradient_scale)
        return pooled.view(len(slots), -1, self.dim).transpose(0, 1)

    def looks(self, ids: Any) -> Iterator[Look]:
        slots = ids if isinstance(ids, list) and ids and isinstance(ids[0], tuple) else [_pair(ids)]
        if not is_elsewhere(slots[0][0]) or self._counts:
            yield from super().looks(ids)
            return
        lookup = self._lookup(slots)
        # One batch is ahead of another, and the script may have left out what it said before.
        self._prepared = [*self._prepared[-1:], (_identity(slots), slots, lookup)]
        self.rows.next_rows.room = Copies.of(slots[0][0].device).room
        yield self.rows, lambda: lookup.keys

    @property
    def _counts(self) -> bool:
        """Whether rows count what was shown, which is done on the CPU."""
        return self.rows.spec.accessor is not None or self.rows.counts_padding

    def _prepared_for(self, slots: list[tuple[Any, Any]]) -> rows.DeviceLookup:
        """What `looks` has begun for these very tensors, or a new one."""
        own = _identity(slots)
        for number, (identity, _, lookup) in enumerate(self._prepared):
            if identity == own:
                del self._prepared[number]
                return lookup
        return self._lookup(slots)

    def _lookup(self, slots: list[tuple[Any, Any]]) -> rows.DeviceLookup:
        ids, offsets = slots[0] if len(slots) == 1 else rows.chained(slots)
        return rows.DeviceLookup(self.rows, ids, offsets, pooling=self._pooling, padding=self._padding)

    def _on_device(self, lookup: rows.DeviceLookup, gradient_scale: float) -> torch.Tensor:
        lookup.scale = gradient_scale
        if self.training and torch.is_grad_enabled():
            return lookup.rows(create=True)
        with torch.no_grad():
            return lookup.rows(create=False, absent=self._absent)

    def _new_anchor(self) -> torch.Tensor:
        self._prepared = []
        return torch.zeros(1, requires_grad=True)

    def _array(self, ids: torch.Tensor) -> AnyArray:
        found: AnyArray = ids.detach().cpu().numpy()
        return found

    def _pull(self, lookup: Lookup) -> torch.Tensor:
        if self.training and torch.is_grad_enabled():
            return _Rows.apply(self._anchor[0], lookup)
        return torch.from_numpy(lookup.rows(create=False, absent=self._absent))


class _Rows(torch.autograd.Function):  # type: ignore[misc]
    """Forward: a pull. Backward: gradients are kept for the end of the step."""

    @staticmethod
    def forward(ctx: Context, _anchor: torch.Tensor, lookup: Lookup) -> torch.Tensor:
        ctx.lookup = lookup
        return torch.from_numpy(lookup.rows(create=True))

    @staticmethod
    def backward(ctx: Context, gradient: torch.Tensor) -> tuple[None, None]:  # type: ignore[override, unused-ignore]
        ctx.lookup.collect(_floats(gradient))
        return None, None


class Optimizer(layers.Optimizer, torch.optim.Optimizer):  # type: ignore[misc]
    """Learns everything that the servers hold. A `torch.optim.Optimizer`, so that schedulers, `torch.amp.GradScaler` and others take it.

    It has one group of parameters: the model's dense ones, and one for each embedding table, whose ``grad`` are the rows that were
    collected for the next push. ``lr`` of the group holds from the next step on; tables with rules of their own follow in proportion.
    """

    _elsewhere: list[dense.DeviceParameters]
    _here: dict[int, Floats]
    """Gradients that have come from devices, by which tensors they are."""
    _changed: list[bool]
    """Of each of `_elsewhere`, if that is known already."""

    def __init__(
        self, parameters: dict[str, torch.Tensor], learner: Learner, schedule: Setting, session: Session
    ) -> None:
        layers.Optimizer.__init__(self, parameters, learner, schedule, session)
        group = [*self._parameters, *(_TableParameter.of(table) for table in learner.tables)]
        torch.optim.Optimizer.__init__(self, [{"params": group}], {"lr": learner.learning_rate})

    def step(self, closure: Callable[[], Any] | None = None, *, share: float | None = None) -> Any:
        """Push this step's gradients and fetch the parameters. ``closure`` computes them first; returns what it returns.

        ``share``: this batch's part of all trainers' samples.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if getattr(self, "found_inf", None) is not None and not self._take_scaled():
            self._take_changes()
            self._learner.skip()
            self._show()
            return loss
        self._bring()
        try:
            layers.Optimizer.step(self, share=share)
        finally:
            self._here = {}
        return loss

    def _bring(self) -> None:
        """Everything that a step needs from devices, with one wait: gradients of rows, of parameters, and whether the script has set any."""
        groups: dict[torch.device, list[torch.Tensor]] = {}
        for parameter in self._parameters:
            if parameter.requires_grad and parameter.grad is not None and is_elsewhere(parameter.grad):
                groups.setdefault(parameter.grad.device, []).append(parameter.grad)
        joined = [torch.cat([each.reshape(-1).float() for each in group]) for group in groups.values()]
        changed = [each.has_changed() for each in self._elsewhere]
        arrays = rows.collect(self._session.registry, [*joined, *changed])
        self._changed = [bool(each) for each in arrays[len(joined) :]]
        for array, group in zip(arrays, groups.values(), strict=False):
            for each, place in layers.places(group):
                self._here[id(each)] = array[place]

    def _arrived(self, gradient: torch.Tensor) -> Floats:
        found = self._here.get(id(gradient))
        return _floats(gradient) if found is None else found

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients that were not pushed."""
        for parameter in self._parameters:
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.detach_().zero_()
        self._session.registry.forget()

    clear_grad = zero_grad

    def add_param_group(self, param_group: JsonObject) -> None:
        """The one group there is: its tables are made with the optimizer."""
        if self.param_groups:
            hint = (
                "make the optimizer when the model is whole: optimizer(model, ...) finds everything in it that learns"
            )
            raise bad("UM-PS-171", "an optimizer of parameter servers has one group of parameters", hint)
        super().add_param_group(param_group)

    def get_lr(self) -> float:
        return float(self.param_groups[0]["lr"])

    def set_lr(self, learning_rate: float) -> None:
        layers.Optimizer.set_lr(self, learning_rate)
        self.param_groups[0]["lr"] = learning_rate

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether a GradScaler leaves it to `step` what becomes of gradients that are not finite: a step that is skipped here
        must be taken all the same where the other trainers wait for it.
        """
        return self._session.world > 1 and self._session.communicator.counts_steps

    def _take_scaled(self) -> bool:
        """Divide all gradients by what a GradScaler has multiplied them by, unless it has. False if they are not finite."""
        if float(self.found_inf):
            return False
        if self.grad_scale is not None:
            factor = 1.0 / float(self.grad_scale)
            for parameter in self.param_groups[0]["params"]:
                gradient = parameter.grad
                if gradient is not None:
                    gradient.mul_(factor)
        return True

    @staticmethod
    def _is_frozen(parameter: torch.Tensor) -> bool:
        return not parameter.requires_grad and parameter.grad is None

    @staticmethod
    def floats(tensor: torch.Tensor) -> Floats:
        return _floats(tensor)

    def _current_factor(self) -> float:
        group, base = self.param_groups[0], self._learner.learning_rate
        if self._schedule is not None:
            factor: float = self._schedule(self._session.step)
            group["lr"] = factor * base
            return factor
        rate = float(group["lr"])
        return 1.0 if rate == base else rate / base

    def _share_memory(self) -> None:
        """Let parameters on the CPU be views of the array that is fetched into; the others are copied to."""
        flat = torch.from_numpy(self._learner.values)
        self._copied: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        self._shared: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        self._shown: list[torch.Tensor] = []
        self._here, self._changed = {}, []
        placed = []
        for parameter, place in layers.places(self._parameters):
            view = flat[place].view(parameter.shape)
            if parameter.dtype == torch.float32 and is_elsewhere(parameter):
                placed.append((parameter, place))
            elif parameter.device.type == "cpu" and parameter.dtype == torch.float32:
                parameter.data = view
                self._shared.append((parameter, view))
            else:
                self._copied.append((parameter, view))
        self._elsewhere = dense.by_device(self._learner.values, placed)

    def _show(self) -> None:
        with torch.no_grad():
            for each in self._elsewhere:
                each.show()
            for parameter, view in self._copied:
                parameter.copy_(view)
        # On their own device, where comparing is cheap.
        self._shown = [parameter.detach().clone() for parameter, _ in self._copied]

    def _take_changes(self) -> None:
        moved = any(each.has_moved() for each in self._elsewhere)
        known = self._changed or [bool(each.has_changed()) for each in self._elsewhere]
        self._changed = []
        for each, changed in zip(self._elsewhere, known, strict=True):
            if changed or each.has_moved():
                each.take()
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


class _TableParameter(torch.Tensor):  # type: ignore[misc]
    """An embedding table among the parameters of an optimizer. It is empty; its gradients are those of the rows that were looked up.

    They are merged when somebody asks for them, and what is done to them in place is done to what will be pushed.
    """

    @classmethod
    def of(cls, table: EmbeddingTable) -> _TableParameter:
        made: _TableParameter = torch.zeros(0, table.spec.dim).as_subclass(cls)
        made._table = table
        return made

    @property
    def grad(self) -> torch.Tensor | None:
        if not self._table.has_gradients:
            return None
        rows = self._table.merged()
        return torch.from_numpy(rows if self._table.spec.accessor is None else rows[:, STATISTICS:])

    @grad.setter
    def grad(self, gradient: torch.Tensor | None) -> None:
        own = self.grad
        if gradient is None:
            self._table.forget()
        elif own is not None:
            own.copy_(gradient)


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

    The schedulers of `torch.optim.lr_scheduler` take it. ``schedule`` is for those who need none: it tells for each step what all learning
    rates are multiplied by, and holds before them.
    ``decay`` and ``clip`` also hold for those embeddings, unless they say their own. ``weight_decay`` is PyTorch's word: L2, with
    ``"AdamW"`` decoupled.
    """
    arguments.refuse("optimizer", unknown, arguments.OF_OPTIMIZERS)
    if not isinstance(model, torch.nn.Module):
        raise bad("UM-PS-171", f"model: not a torch.nn.Module: {type(model).__name__}", "optimizer(model, ...)")
    said: JsonObject = {"clip": clip, "grad_clip": grad_clip, "decay": decay, "weight_decay": weight_decay}
    how = layers.how_learned(rule, learning_rate, table=table, **said)
    # Those that are frozen now may learn later.
    parameters = {
        name: each for name, each in model.named_parameters() if each.requires_grad or each.dtype == torch.float32
    }
    all_settings = {name: LearningSettings(label=FROZEN) for name, each in parameters.items() if not each.requires_grad}
    made = Optimizer.of(
        parameters, how, schedule, session=session, embeddings=model.modules(), all_settings=all_settings
    )
    learned = {id(each) for each in parameters.values()}
    kept = {name: each for name, each in model.state_dict(keep_vars=True).items() if id(each) not in learned}
    kept = {name: each for name, each in kept.items() if isinstance(each, torch.Tensor) and each.numel()}

    def read() -> dict[str, AnyArray]:
        return {name: _plain(each) for name, each in kept.items()}

    def write(arrays: dict[str, AnyArray]) -> None:
        with torch.no_grad():
            for name, array in arrays.items():
                kept[name].copy_(torch.from_numpy(array))

    made.keep_buffers(read, write)
    return made


def is_elsewhere(ids: object) -> bool:
    """Whether it is a tensor in another memory than the CPU's."""
    return isinstance(ids, torch.Tensor) and ids.device.type != "cpu"


def _pair(ids: Any) -> tuple[Any, Any]:
    return ids if isinstance(ids, tuple) else (ids, None)


def _identity(slots: Sequence[tuple[Any, Any]]) -> tuple[int, ...]:
    """What tensors are known by as long as they are there and nobody has written into them."""
    tensors = [each for slot in slots for each in slot if each is not None]
    return tuple(number for each in tensors for number in (id(each), each._version))  # noqa: SLF001 - what PyTorch itself looks at


def _plain(tensor: torch.Tensor) -> AnyArray:
    plain = tensor.detach().cpu()
    found: AnyArray = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    return found


def _floats(tensor: torch.Tensor) -> Floats:
    found: Floats = tensor.detach().to(device="cpu", dtype=torch.float32).contiguous().numpy()
    return found
