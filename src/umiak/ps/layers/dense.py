"""A model's dense parameters as one dense table, and when they and the embeddings learn. An adapter, without a framework.

    learner = Learner(session, arrays, first_values, rule)
    learner.step(gradients, share)        push everything, end the step, fetch the parameters into `learner.values`

`umiak.ps.paddle` and `umiak.ps.torch` give it a face that fits their framework.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import umiak_native

from umiak.core.value import fields, replace, value
from umiak.ps import specs
from umiak.ps.gradients import Marks, Missing
from umiak.ps.layers.arguments import FROZEN, TABLE, LearningSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from umiak.data.array_types import AnyArray
    from umiak.ps.gradients import Floats
    from umiak.ps.sessions import Session
    from umiak.ps.specs import Array, Clip, Decay, DenseTable, Rule
    from umiak.ps.tables.lookup import EmbeddingTable

    Arrays = dict[str, AnyArray]
    Gradient = Floats | Missing
    """Of one parameter, or why there is none."""
    Factors = float | tuple[float, ...]
    """What learning rates are multiplied by: everybody's, or those of each optimizer."""

_LINE = 16
"""Numbers in a line of the processor's cache."""


@value
class ParameterGroup:
    """Parameters that learn alike, in a table of their own."""

    number: int
    table: str
    spec: DenseTable
    arrays: slice
    place: slice
    """Among the numbers of all parameters."""
    learning_rate: float
    optimizer: int
    is_clipped: bool


class Learner:
    """The optimizer of a model: its parameters in one table of ``arrays``, and the ``tables`` of its embeddings.

    Where some learn in another manner than the rule's, each manner has a table; arrays of one manner follow each other.
    """

    def __init__(
        self,
        session: Session,
        arrays: Iterable[Array],
        first_values: Floats,
        *,
        rule: Rule,
        clip: Clip | None,
        decay: Decay | None = None,
        table: str = TABLE,
        tables: Iterable[EmbeddingTable] = (),
        all_settings: Sequence[LearningSettings] = (),
    ) -> None:
        self._session = session
        self._communicator = session.communicator
        self.rule = rule
        self.tables = tuple(tables)
        clip, decay = clip or specs.Clip(), decay or specs.Decay()
        self._global_norm = clip.global_norm
        clip = replace(clip, global_norm=None)
        for each in self.tables:
            each.follow(rule, clip, decay)
        self.arrays = tuple(arrays)
        self.values = first_values
        self._told: Factors | None = 1.0
        self.table = table
        self._clip = clip
        self._decay = decay
        all_settings = all_settings or [LearningSettings()] * len(self.arrays)
        self._all_settings = [settings for settings, _ in groupby(all_settings)]
        self.groups = tuple(self._opened(all_settings))
        self._fingerprints = [0] * len(self.groups)
        self._marks = Marks()
        # Nobody learns them, but a script may change them for itself, such as averages: they are left alone.
        self._idle = {
            group.table
            for group, settings in zip(self.groups, self._all_settings, strict=True)
            if FROZEN in settings.label
        }
        self.squares_beside = 0.0
        """Of gradients that count in the norm of the next step, although nothing learns from them."""
        self.fetch(everything=True)

    @property
    def number(self) -> int | None:
        """Of the first table; None if there are no parameters."""
        return self.groups[0].number if self.groups else None

    @property
    def learning_rate(self) -> float:
        return _rate_of(self.rule)

    def step(self, gradients: Sequence[Gradient], *, share: float | None, factor: Factors) -> None:
        """One step: ``factor`` is what every learning rate is multiplied by from now on; with several optimizers, one for each.

        A parameter without a gradient stays as it is. A table in which all are frozen is neither pushed to nor fetched.
        """
        active = [group for group in self.groups if any(each is not Missing.FROZEN for each in gradients[group.arrays])]
        self._idle = {group.table for group in self.groups if group not in active}
        self._upload_changes(active, at_once=False)
        if factor != self._told:
            self._tell(factor)
        if self._global_norm is not None:
            gradients = self._clipped(gradients, self._global_norm)
        if not active:
            self._session.registry.push(share)
            self._communicator.end_step()
            return
        *others, last = active
        for group in others:
            self._communicator.push_dense(group.number, self._pieces(group, gradients), share=share)
        own, pushes = self._pieces(last, gradients), self._session.registry.take()
        self._communicator.learn_dense(last.number, own, self.values[last.place], pushes=pushes, share=share)
        for group in others:
            self._communicator.pull_dense(group.number, self.values[group.place])
        self._remember(active)

    def _pieces(self, group: ParameterGroup, gradients: Sequence[Gradient]) -> list[Floats]:
        """What is pushed for each of its parameters."""
        return [
            self._marks.of(each, array.size) if isinstance(each, Missing) else each
            for each, array in zip(gradients[group.arrays], group.spec.arrays, strict=True)
        ]

    def skip(self) -> None:
        """A step without gradients. Where steps are counted, the others wait for this trainer's all the same."""
        self._session.registry.forget()
        if self._communicator.counts_steps:
            self.upload_changes()
            self._communicator.end_step()
            self.fetch()

    def upload_changes(self, *, at_once: bool = False) -> None:
        """If the script has set parameters since they were fetched, the first trainer's become everybody's."""
        self._upload_changes(self.groups, at_once=at_once)

    def _upload_changes(self, groups: Sequence[ParameterGroup], *, at_once: bool) -> None:
        for group in groups:
            if self._fingerprint(group) != self._fingerprints[self.groups.index(group)]:
                self._communicator.set_dense(group.number, self.values[group.place], at_once=at_once)
                self._remember([group])

    def upload(self, *, at_once: bool = True) -> None:
        """Let the first trainer's parameters be everybody's: at once, or with the next step."""
        for group in self.groups:
            self._communicator.set_dense(group.number, self.values[group.place], at_once=at_once)
        self._remember(self.groups)

    def _remember(self, groups: Iterable[ParameterGroup]) -> None:
        """What these are now is what their tables have."""
        for group in groups:
            self._fingerprints[self.groups.index(group)] = self._fingerprint(group)

    def _fingerprint(self, group: ParameterGroup) -> int:
        """Of its parameters; where what a script sets does not count, nobody needs to look."""
        return umiak_native.fingerprint(self.values[group.place]) if self._communicator.heeds_set_dense else 0

    def forget_rates(self) -> None:
        """The tables may have been loaded, with learning rates of their own: the next step tells them what holds."""
        self._told = None

    def fetch(self, *, everything: bool = False) -> None:
        """The newest parameters, as the strategy sees fit. ``everything``: also of tables that nobody learns now."""
        groups = [group for group in self.groups if everything or group.table not in self._idle]
        for group in groups:
            self._communicator.pull_dense(group.number, self.values[group.place])
        self._remember(groups)

    def _opened(self, all_settings: Sequence[LearningSettings]) -> Iterator[ParameterGroup]:
        """A table for each manner, in the order of the arrays."""
        first = behind = 0
        for settings, alike in groupby(all_settings):
            arrays = self.arrays[first : first + len([*alike])]
            place = slice(behind, behind + sum(array.size for array in arrays))
            rule = self.rule if settings.rule is None else settings.rule
            learning_rate = settings.rate * _rate_of(rule)
            if settings.rate != 1.0 and "learning_rate" in fields(rule):
                rule = replace(rule, learning_rate=learning_rate)
            decay = self._decay if settings.decay is None else settings.decay
            clip = self._clip if settings.is_clipped else specs.Clip(weight=self._clip.weight)
            clip = clip if settings.clip is None else settings.clip
            spec = specs.DenseTable(arrays=arrays, rule=rule, decay=decay, clip=clip)
            table = f"{self.table}.{settings.name}" if settings.name else self.table
            number = self._communicator.open_dense(table, spec, self.values[place])
            numbers = slice(first, first + len(arrays))
            yield ParameterGroup(
                number=number,
                table=table,
                spec=spec,
                arrays=numbers,
                place=place,
                learning_rate=learning_rate,
                optimizer=settings.optimizer,
                is_clipped=settings.is_clipped,
            )
            first, behind = numbers.stop, place.stop

    def _clipped(self, gradients: Sequence[Gradient], most: float) -> Sequence[Gradient]:
        """Everything that this trainer is about to push, scaled down together, but for what is not to be clipped. Rows that count
        (an accessor) are left out.
        """
        tables = [table for table in self._session.registry.tables if table.is_clipped and table.spec.accessor is None]
        rows = [table.merged() for table in tables if table.has_gradients]
        beside = self.squares_beside + sum(table.padding_squares() for table in tables)
        most = float(np.float32(most))
        within = [each for group in self.groups if group.is_clipped for each in gradients[group.arrays]]
        clipped = [each for each in within if not isinstance(each, Missing)]
        norm = math.sqrt(beside + sum(umiak_native.squares(each.reshape(-1)) for each in (*clipped, *rows)))
        if not norm > most:
            return gradients
        scale = np.float32(most / norm)
        for each in rows:
            np.multiply(each, scale, out=each)
        return [
            each * scale if group.is_clipped and not isinstance(each, Missing) else each
            for group in self.groups
            for each in gradients[group.arrays]
        ]

    def _tell(self, factor: Factors) -> None:
        self._told = factor
        factors = factor if isinstance(factor, tuple) else (factor,)
        for group in self.groups:
            self._communicator.set_learning_rate(group.number, factors[group.optimizer] * group.learning_rate)
        for table in self.tables:
            own = getattr(table.spec.rule, "learning_rate", None)
            if own is not None:
                self._communicator.set_learning_rate(table.number, factors[table.optimizer] * own)


def _rate_of(rule: Rule) -> float:
    return float(getattr(rule, "learning_rate", 1.0))


def room_for(arrays: Iterable[Array]) -> Floats:
    """A flat array that holds all of these, beginning where vector instructions like it."""
    size = sum(array.size for array in arrays)
    room = np.zeros(size + _LINE, np.float32)
    skip = -room.ctypes.data // room.itemsize % _LINE
    return room[skip : skip + size]


# ---- what a model has besides


class KeptBuffers:
    """What a model has besides its parameters (running statistics, counters), in a table beside theirs, so that checkpoints have it.

    ``read`` gives them, ``write`` puts them back. Numbers of any type come back as they were: `coded` and `decoded`.
    """

    def __init__(
        self, session: Session, table: str, read: Callable[[], Arrays], write: Callable[[Arrays], None]
    ) -> None:
        self._session = session
        self._read = read
        self._write = write
        arrays = read()
        self.spec = specs.DenseTable(
            arrays=tuple([specs.Array(name=name, shape=coded(each).shape) for name, each in arrays.items()]),
            # Nothing is ever pushed: values are set.
            rule=specs.Sum(),
        )
        self.table = table
        self.number = session.communicator.open_kept(table, self.spec)
        self._put(arrays, if_unset=True)

    def store(self) -> None:
        """What this trainer has, for a checkpoint that it saves."""
        self._put(self._read(), if_unset=False)

    def restore(self) -> None:
        """What a checkpoint has brought."""
        flat = self._session.client.pull_dense(self.number)
        found, at = {}, 0
        for name, array in self._read().items():
            size = coded(array).size
            found[name] = decoded(flat[at : at + size], array)
            at += size
        self._write(found)

    def _put(self, arrays: Arrays, *, if_unset: bool) -> None:
        session = self._session
        if session.is_first or session.communicator.keeps_tables:
            flat = np.concatenate([coded(each).reshape(-1) for each in arrays.values()])
            session.client.set_dense(self.number, flat, if_unset=if_unset)


def coded(array: AnyArray) -> Floats:
    """As a table keeps it: float32 as it is; others as the 16-bit (or 8-bit) pieces that they are made of, which float32 holds exactly."""
    if array.dtype == np.float32:
        return array
    piece = np.uint8 if array.dtype.itemsize == 1 else np.uint16
    pieces = np.ascontiguousarray(array).reshape(-1).view(piece)
    return pieces.astype(np.float32).reshape(*array.shape, -1)


def decoded(flat: Floats, like: AnyArray) -> AnyArray:
    """The opposite."""
    if like.dtype == np.float32:
        return flat.reshape(like.shape)
    piece = np.uint8 if like.dtype.itemsize == 1 else np.uint16
    return flat.astype(piece).view(like.dtype).reshape(like.shape)
