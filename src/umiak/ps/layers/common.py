"""An embedding layer and an optimizer as far as every framework has them alike. An adapter, without a framework.

    class Embedding(layers.Embedding, torch.nn.Module): ...
    class Optimizer(layers.Optimizer): ...

`umiak.ps.paddle` and `umiak.ps.torch` complete them with what raises `NotImplementedError` here: the way between the
framework's tensors and numpy, who keeps gradients, and whose memory the parameters are in.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import umiak_native

from umiak.ps import sessions, specs
from umiak.ps.errors import bad
from umiak.ps.gradients import Missing
from umiak.ps.layers import arguments
from umiak.ps.layers.arguments import FROZEN, HowLearned, LearningSettings, chosen_rule
from umiak.ps.layers.dense import KeptBuffers, Learner, room_for
from umiak.ps.tables import lookup
from umiak.ps.values import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any

    from typing_extensions import Self

    from umiak.data.array_types import AnyArray
    from umiak.ps.communicators.next_rows import Look
    from umiak.ps.gradients import Absent, Floats
    from umiak.ps.layers.dense import Arrays, Gradient
    from umiak.ps.paddle_types import Setting
    from umiak.ps.sessions import Session
    from umiak.ps.tables.lookup import Keys

    Tensor = Any
    """A tensor of the framework."""
    Ids = Any
    """A tensor or an array of whole numbers."""


class Embedding:
    """What an embedding layer is besides being one of its framework's layers, which stands behind it among the base classes."""

    def __init__(
        self,
        dim: int | None = None,
        *more: object,
        table: str = "embedding",
        rule: specs.Rule | str | None = None,
        init: specs.Init | None = None,
        seed: int = 0,
        clip: specs.Clip | None = None,
        decay: specs.Decay | None = None,
        entry: specs.Entry | None = None,
        expire: specs.Expire | None = None,
        accessor: specs.Accessor | None = None,
        pooling: str = "sum",
        padding_id: int | None = None,
        absent: Absent = "initial",
        session: Session | None = None,
        **unknown: object,
    ) -> None:
        super().__init__()
        arguments.refuse("Embedding", unknown, arguments.OF_EMBEDDINGS)
        dim = arguments.columns(dim, more)
        chosen = None if rule is None else chosen_rule(rule, None)
        spec = lookup.sparse_spec(
            dim,
            rule=chosen,
            init=init,
            seed=seed,
            clip=clip,
            decay=decay,
            entry=entry,
            expire=expire,
            accessor=accessor,
        )
        # What was not said is the optimizer's; rows that count (an accessor) do not decay.
        said = {"rule": chosen, "clip": clip, "decay": decay if accessor is None else spec.decay}
        follows = tuple(name for name, part in said.items() if part is None) if rule is None else ()
        self.rows = (session or sessions.session()).registry.table(table, spec, follows=follows)
        self.dim = dim if accessor is None else 1 + dim
        self._pooling = lookup.checked_pooling(pooling)
        self._padding = padding_id
        self._absent = lookup.checked_absent(absent)
        # What the gradient's way back hangs on: rows are no parameters of the model.
        self._anchor = [self._new_anchor()]

    def forward(
        self,
        ids: Ids,
        offsets: Ids | None = None,
        *,
        clicks: Ids | None = None,
        slot: int = 0,
        gradient_scale: float = 1.0,
    ) -> Tensor:
        behind = None if offsets is None else self._keys(offsets)
        return self._read(self._keys(ids), behind, clicks, slot, gradient_scale)

    def slots(self, slots: list[tuple[Ids, Ids]], *, clicks: Ids | None = None, gradient_scale: float = 1.0) -> Tensor:
        """Several CSR slots of the same batch with one pull: shape [batch, slots, dim], pooled."""
        values, offsets = lookup.chained([(self._keys(values), self._keys(ends)) for values, ends in slots])
        pooled = self._read(values, offsets, clicks, 0, gradient_scale)
        return pooled.reshape([len(slots), -1, self.dim]).moveaxis(0, 1)

    def looks(self, ids: Any) -> Iterator[Look]:
        """What a call with these ids looks up, for `Session.prefetch`: ids, (values, offsets), or a list of these."""
        if isinstance(ids, tuple):
            yield self.rows, umiak_native.unique(self._keys(ids[0]))[0]
        elif isinstance(ids, list) and ids and isinstance(ids[0], tuple):
            values, _ = lookup.chained([(self._keys(values), self._keys(ends)) for values, ends in ids])
            yield self.rows, umiak_native.unique(values)[0]
        else:
            yield self.rows, self._keys(ids)

    def extra_repr(self) -> str:
        return f"{self.rows.name}, dim={self.dim}"

    def _keys(self, ids: Ids) -> Keys:
        if isinstance(ids, (list, tuple, range, int, str)):
            ids = lookup.listed(ids)
        return lookup.as_keys(ids if isinstance(ids, np.ndarray) else self._array(ids))

    def _read(self, keys: Keys, offsets: Keys | None, clicks: Ids | None, slot: int, gradient_scale: float) -> Tensor:
        found = lookup.Lookup(
            self.rows,
            keys,
            offsets,
            pooling=self._pooling,
            padding=self._padding,
            clicks=None if clicks is None else np.asarray(clicks, np.float32),
            slot=slot,
            gradient_scale=gradient_scale,
        )
        return self._pull(found)

    # ---- each framework's own

    def _new_anchor(self) -> Tensor:
        """A tensor that has a gradient."""
        raise NotImplementedError

    def _array(self, ids: Tensor) -> AnyArray:
        """A tensor's numbers as they are."""
        raise NotImplementedError

    def _pull(self, found: lookup.Lookup) -> Tensor:
        """The rows. In training they are created, and their gradients collected; otherwise they are only read, and those
        that are absent as `_absent` says.
        """
        raise NotImplementedError


def how_learned(
    rule: specs.Rule | str,
    learning_rate: Setting,
    *,
    clip: specs.Clip | None,
    grad_clip: Setting,
    decay: specs.Decay | None,
    weight_decay: Setting,
    table: str,
) -> HowLearned:
    """What was said in our words, or in those of a framework: ``grad_clip``, ``weight_decay``, ``"AdamW"``. `BadRequest` for what has no meaning."""
    return HowLearned(
        clip=arguments.clip(clip, grad_clip),
        decay=arguments.decay(rule, decay, weight_decay),
        rule=chosen_rule(arguments.rule(rule), arguments.learning_rate(learning_rate)),
        table=table,
    )


class Optimizer:
    """Learns everything that the servers hold."""

    begins_without = Missing.ABSENT
    """What a parameter is treated by before a backward pass has ever reached it."""

    def __init__(self, parameters: dict[str, Tensor], learner: Learner, schedule: Setting, session: Session) -> None:
        self._parameters = [*parameters.values()]
        self._learner = learner
        self._schedule = schedule
        self._session = session
        self._factor = 1.0
        self._without: list[Gradient] = [self.begins_without] * len(self._parameters)
        """What each parameter is treated by if no backward pass reaches it."""
        self._pushed: set[int] = set()
        """The parameters of whose gradients a step has had some since they were cleared."""
        self._buffers: KeptBuffers | None = None
        self._share_memory()
        session.optimizers.add(self)

    @classmethod
    def of(
        cls,
        parameters: dict[str, Tensor],
        how: HowLearned,
        schedule: Setting,
        *,
        session: Session | None,
        embeddings: Iterable[object] = (),
        all_settings: Mapping[str, LearningSettings] | None = None,
    ) -> Self:
        """With the parameters in one table. The first trainer's become everybody's. Of the layers, `Embedding`s count.

        ``all_settings`` has parameters that learn otherwise than the rule says: those that are alike share a table.
        """
        own = session or sessions.session()
        all_settings = all_settings or {}
        # Those that learn alike stand together, so that each table is one piece of the memory.
        order = list(dict.fromkeys([LearningSettings(), *all_settings.values()]))
        # Frozen ones are mostly left alone: what is pushed and fetched last, in one, is not among them.
        order.sort(key=lambda settings: settings.label != FROZEN)
        parameters = dict(
            sorted(parameters.items(), key=lambda each: order.index(all_settings.get(each[0], LearningSettings())))
        )
        arrays, values = cls.laid_out(parameters)
        tables = {each.rows.name: each.rows for each in embeddings if isinstance(each, Embedding)}
        learner = Learner(
            own,
            arrays,
            values,
            rule=how.rule,
            clip=how.clip,
            decay=how.decay,
            table=how.table,
            tables=tables.values(),
            all_settings=[all_settings.get(name, LearningSettings()) for name in parameters],
        )
        made = cls(parameters, learner, schedule, own)
        made.fetch_values(everything=True)
        return made

    @classmethod
    def laid_out(cls, parameters: dict[str, Tensor]) -> tuple[list[specs.Array], Floats]:
        """What parameters are as arrays of a table, and their values end to end."""
        arrays = [specs.Array(name=name, shape=tuple(each.shape)) for name, each in parameters.items()]
        values = room_for(arrays)
        for each, place in places(parameters.values()):
            values[place] = cls.floats(each).reshape(-1)
        return arrays, values

    def step(self, *, share: float | None = None) -> None:
        """Push this step's gradients and fetch the parameters. ``share``: this batch's part of all trainers' samples."""
        self._factor = self._current_factor()
        self._take_changes()
        gradients = self._gradients()
        self._learner.step(gradients, share=share, factor=self._factor)
        self._remember_pushed(gradients)
        self._show()

    def tables(self) -> dict[str, Opened]:
        """All tables that this optimizer changes, as they are kept."""
        kept = self._session.communicator.as_kept
        found = {each.name: Opened(number=each.number, spec=kept(each.spec)) for each in self._learner.tables}
        for group in self._learner.groups:
            found[group.table] = Opened(number=group.number, spec=kept(group.spec))
        if self._buffers is not None:
            found[self._buffers.table] = Opened(number=self._buffers.number, spec=self._buffers.spec)
        return found

    def keep_buffers(self, read: Callable[[], Arrays], write: Callable[[Arrays], None]) -> None:
        """Let checkpoints have what a model has besides its parameters."""
        if read():
            self._buffers = KeptBuffers(self._session, f"{self._learner.table}.buffers", read, write)

    def store_buffers(self) -> None:
        """Before a checkpoint: this trainer's buffers are in it."""
        if self._buffers is not None:
            self._buffers.store()

    def restore_buffers(self, loaded: Collection[str]) -> None:
        """After a checkpoint with these tables was loaded."""
        if self._buffers is not None and self._buffers.table in loaded:
            self._buffers.restore()

    def upload(self) -> None:
        """Let the first trainer's parameters, as the script has set them, be everybody's, before the next step.

        Every trainer calls it, between the same two steps. Without it, the next `step` notices on the first trainer what was
        set. The state of the rule (Adam's moments, ...) stays.
        """
        self._session.meet("upload")
        self._take_changes()
        self._learner.upload()
        self._session.meet("uploaded")
        self._session.communicator.restart_dense()
        self.fetch_values(everything=True)

    def upload_changes(self, *, at_once: bool = True) -> None:
        """What the script has set is sent: the first trainer's is on the servers when this returns. Without ``at_once``, where steps
        are counted, with the next step."""
        self._take_changes()
        self._learner.upload_changes(at_once=at_once)

    def refresh(self, *, everything: bool = False) -> None:
        """Fetch the parameters again: others may have changed them. `ps.load` does so by itself.

        ``everything``: also those that are frozen, which a checkpoint has brought.
        """
        self._learner.forget_rates()
        self.fetch_values(everything=everything)

    def fetch_values(self, *, everything: bool = False) -> None:
        self._learner.fetch(everything=everything)
        self._show()

    def get_lr(self) -> float:
        return self._factor * self._learner.learning_rate

    def set_lr(self, learning_rate: float) -> None:
        """From the next step on. The learning rates of tables with rules of their own change in proportion."""
        if not 0 <= learning_rate < math.inf:
            raise bad("UM-PS-171", f"learning_rate: not a rate that can be used: {learning_rate}", "0 or more")
        self._factor = learning_rate / self._learner.learning_rate

    def _remember_pushed(self, gradients: Iterable[Gradient]) -> None:
        self._pushed.update([number for number, each in enumerate(gradients) if not isinstance(each, Missing)])

    def _gradients(self) -> list[Gradient]:
        """Those of all parameters, in their own memory where that can be, or why there is none."""
        found: list[Gradient] = []
        for parameter, without in zip(self._parameters, self._without, strict=True):
            if self._is_frozen(parameter):
                found.append(Missing.FROZEN)
            elif (gradient := parameter.grad) is None:
                found.append(without)
            else:
                found.append(self._arrived(gradient))
        return found

    def _arrived(self, gradient: Tensor) -> Floats:
        """A gradient's numbers."""
        return self.floats(gradient)

    # ---- each framework's own

    @staticmethod
    def _is_frozen(parameter: Tensor) -> bool:
        """Whether it is not to learn in this step, whatever gradient it has."""
        raise NotImplementedError

    @staticmethod
    def floats(tensor: Tensor) -> Floats:
        """A tensor's numbers; on the CPU its own memory."""
        raise NotImplementedError

    def _current_factor(self) -> float:
        """What all learning rates are multiplied by in this step."""
        raise NotImplementedError

    def _share_memory(self) -> None:
        """Let parameters be views of the array that is fetched into, where that can be."""
        raise NotImplementedError

    def _show(self) -> None:
        """The fetched parameters in the model, where it has memory of its own."""
        raise NotImplementedError

    def _take_changes(self) -> None:
        """Bring into the array that is fetched into what the script has set in parameters with memory of their own."""
        raise NotImplementedError


def places(tensors: Iterable[Tensor]) -> Iterator[tuple[Tensor, slice]]:
    """Each tensor with its place in a flat array that has all of them end to end."""
    behind = 0
    for each in tensors:
        size = math.prod(each.shape)
        yield each, slice(behind, behind + size)
        behind += size
