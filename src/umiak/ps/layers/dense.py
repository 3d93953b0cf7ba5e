"""A model's dense parameters as one dense table, and when they and the embeddings learn. An adapter, without a framework.

    learner = Learner(session, arrays, first_values, rule)
    learner.step(gradients, share)        push everything, end the step, fetch the parameters into `learner.values`

`umiak.ps.paddle` and `umiak.ps.torch` give it a face that fits their framework.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, cast

import numpy as np
import umiak_native

from umiak.core.value import fields, replace, value
from umiak.ps import specs
from umiak.ps.absent import Marks, Missing
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from umiak.ps.clients.protocol import Floats
    from umiak.ps.sessions import Session
    from umiak.ps.specs import Array, Clip, Decay, DenseTable, Rule
    from umiak.ps.tables.lookup import EmbeddingTable

    Gradient = Floats | Missing
    """Of one parameter, or why there is none."""
    Factors = float | tuple[float, ...]
    """What learning rates are multiplied by: everybody's, or those of each optimizer."""

TABLE = "dense"
FROZEN = "frozen"
"""The label of parameters that do not learn when the optimizer is made: a table of their own is left alone until one is unfrozen."""
_LINE = 16
"""Numbers in a line of the processor's cache."""


@value
class HowLearned:
    """How the parameters of an optimizer learn, and in which table."""

    rule: Rule
    clip: Clip | None = None
    decay: Decay | None = None
    table: str = TABLE


@value
class Manner:
    """How a parameter learns: as the optimizer's rule says, but for this."""

    rate: float = 1.0
    """What its learning rate is multiplied by."""
    decay: Decay | None = None
    """None: as the optimizer says."""
    is_clipped: bool = True
    """Whether its gradients are clipped, where the optimizer clips."""
    rule: Rule | None = None
    """None: as the optimizer says."""
    clip: Clip | None = None
    """None: as the optimizer says."""
    optimizer: int = 0
    """Whose learning rate it follows, where several optimizers learn in one step."""
    label: str = ""
    """What tells its rule from those of other manners, for its name."""

    @property
    def name(self) -> str:
        """A short name that is different for every manner."""
        parts = [self.label] if self.label else []
        parts += [f"rate-{self.rate:g}"] if self.rate != 1.0 else []
        if self.decay is not None:
            numbers = ((each, getattr(self.decay, each)) for each in fields(self.decay))
            parts += [f"{name}-{number:g}" for name, number in numbers if number] or ["no-decay"]
        if self.clip is not None:
            numbers = ((each, getattr(self.clip, each)) for each in fields(self.clip))
            parts += [f"clip-{name}-{number:g}" for name, number in numbers if number is not None]
        if not self.is_clipped:
            parts.append("no-clip")
        return ".".join(parts)


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
        manners: Sequence[Manner] = (),
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
        manners = manners or [Manner()] * len(self.arrays)
        self._manners = [manner for manner, _ in groupby(manners)]
        self.groups = tuple(self._opened(manners))
        self._fingerprints = [0] * len(self.groups)
        self._marks = Marks()
        # Nobody learns them, but a script may change them for itself, such as averages: they are left alone.
        self._idle = {
            group.table for group, manner in zip(self.groups, self._manners, strict=True) if FROZEN in manner.label
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

    def _opened(self, manners: Sequence[Manner]) -> Iterator[ParameterGroup]:
        """A table for each manner, in the order of the arrays."""
        first = behind = 0
        for manner, alike in groupby(manners):
            arrays = self.arrays[first : first + len([*alike])]
            place = slice(behind, behind + sum(array.size for array in arrays))
            rule = self.rule if manner.rule is None else manner.rule
            learning_rate = manner.rate * _rate_of(rule)
            if manner.rate != 1.0 and "learning_rate" in fields(rule):
                rule = replace(rule, learning_rate=learning_rate)
            decay = self._decay if manner.decay is None else manner.decay
            clip = self._clip if manner.is_clipped else specs.Clip(weight=self._clip.weight)
            clip = clip if manner.clip is None else manner.clip
            spec = specs.DenseTable(arrays=arrays, rule=rule, decay=decay, clip=clip)
            table = f"{self.table}.{manner.name}" if manner.name else self.table
            number = self._communicator.open_dense(table, spec, self.values[place])
            numbers = slice(first, first + len(arrays))
            yield ParameterGroup(
                number=number,
                table=table,
                spec=spec,
                arrays=numbers,
                place=place,
                learning_rate=learning_rate,
                optimizer=manner.optimizer,
                is_clipped=manner.is_clipped,
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


def chosen_rule(rule: Rule | str, learning_rate: float | None) -> Rule:
    """A rule by name or as it is, with a learning rate of its own if one was said."""
    if isinstance(rule, str):
        by_name = {kind.__name__.lower(): kind for kind in specs.RULES.values()} | specs.RULES
        if rule.lower() not in by_name:
            raise bad("UM-PS-008", f"no such rule: {rule}", f"choose one of {', '.join(specs.RULES)}")
        rule = cast("Rule", by_name[rule.lower()]())
    elif isinstance(rule, type) and rule in specs.RULES.values():
        rule = cast("Rule", rule())
    elif type(rule) not in specs.RULES.values():
        names = ", ".join(specs.RULES)
        raise bad("UM-PS-008", f"rule: not a rule: {rule!r}", f"ps.Adam(learning_rate=0.001), or a name: {names}")
    if learning_rate is None or "learning_rate" not in fields(rule):
        return rule
    return replace(rule, learning_rate=float(learning_rate))


def room_for(arrays: Iterable[Array]) -> Floats:
    """A flat array that holds all of these, beginning where vector instructions like it."""
    size = sum(array.size for array in arrays)
    room = np.zeros(size + _LINE, np.float32)
    skip = -room.ctypes.data // room.itemsize % _LINE
    return room[skip : skip + size]
