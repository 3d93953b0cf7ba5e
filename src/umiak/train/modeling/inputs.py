"""One batch as a model sees it. An adapter, for Paddle.

    inputs.dense()                        all dense slots side by side: [samples, width]
    inputs.ids("1", "2")                  for an embedding: one pooled row per sample and slot
    inputs.padded("history", 50)          for an embedding: one row per id, up to 50, and a mask
    inputs.mean(losses, "click")          the mean over the samples, by their weights and those of the label's classes, if there are any
    inputs.numbers("click")               a slot with one id per sample as float32: [samples, 1]

`BatchInputs` has a batch of a reader; `ServedInputs` has the tensors of an inference model, which are traced. There, a sparse slot is a matrix
of ids, a row for each sample, filled up with `PADDING`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.utils import dlpack

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.train.config.objectives.settings import EVERY_LABEL
from umiak.train.config.values import Slots
from umiak.train.reading.batches import Batch

if TYPE_CHECKING:
    from umiak.data.array_types import AnyArray

PADDING = -1
"""The id that stands where a sample has no more ids. It has no row."""


@value
class Ids:
    """Ids of several slots, to be pooled: a matrix with one id each, or ids and offsets slot by slot, or padded matrices."""

    matrix: AnyArray | None = None
    ragged: tuple[tuple[AnyArray, AnyArray], ...] = ()
    padded: tuple[paddle.Tensor, ...] = ()
    slots: tuple[str, ...] = ()
    """Whose they are, in this order."""

    def of(self, numbers: Sequence[int]) -> Ids:
        """Some of the slots."""
        if len(numbers) == len(self.slots):
            return self
        matrix = None if self.matrix is None else np.ascontiguousarray(self.matrix[:, list(numbers)])
        ragged = tuple([self.ragged[number] for number in numbers]) if self.ragged else ()
        padded = tuple([self.padded[number] for number in numbers]) if self.padded else ()
        return Ids(matrix=matrix, ragged=ragged, padded=padded, slots=tuple([self.slots[each] for each in numbers]))


@value
class Padded:
    """Ids of one slot as a matrix, filled up with `PADDING`, and a mask that is 1 where there is an id and 0 behind."""

    ids: Any
    """An array in training, a tensor in an inference model."""
    mask: paddle.Tensor
    slot: str = ""
    length: int | None = None
    """So many ids of each sample at most; None: all."""


class Inputs(ABC):
    """What a batch holds."""

    def __init__(self, slots: Slots, class_weights: Mapping[str, Sequence[float]] | None = None) -> None:
        """``class_weights``: of labels, or of all of them under an empty name."""
        self.slots = slots
        self.class_weights = class_weights or {}
        self.weighed: set[str] = set()
        """Labels by whose classes losses were weighed."""

    def dense(self, *names: str) -> paddle.Tensor:
        """Dense slots side by side; all of them if none is named."""
        parts = [self._dense(name) for name in names or [slot.name for slot in self.slots.dense]]
        return parts[0] if len(parts) == 1 else paddle.concat(parts, axis=1)

    @abstractmethod
    def ids(self, *names: str) -> Ids:
        """Sparse slots, to be pooled by an embedding."""

    @abstractmethod
    def padded(self, name: str, length: int) -> Padded:
        """One sparse slot as it is, up to ``length`` ids of each sample; as wide as the longest of the batch needs."""

    @abstractmethod
    def numbers(self, *names: str) -> paddle.Tensor:
        """Sparse slots with one id per sample as float32, side by side: labels."""

    @abstractmethod
    def classes(self, name: str) -> paddle.Tensor:
        """A sparse slot with one id per sample as int64, of shape [samples]: classes, positions."""

    def mean(self, losses: paddle.Tensor, *labels: str) -> paddle.Tensor:
        """The mean of a loss for each sample, or of one for each sample and label, named in this order. Each counts as often as the weight of its
        sample and that of its label's class say."""
        weights = None if self.slots.weight is None else self.numbers(self.slots.weight)
        if self.class_weights and labels:
            by_class = self._weights_of_classes(labels)
            weights = by_class if weights is None else by_class * weights
        return losses.mean() if weights is None else (losses.reshape([weights.shape[0], -1]) * weights).mean()

    def _weights_of_classes(self, labels: Sequence[str]) -> paddle.Tensor:
        """Of each sample and label."""
        columns = []
        for label in labels:
            self.weighed.add(label)
            said = self.numbers(label)[:, 0]
            weights = self.class_weights.get(label) or self.class_weights.get(EVERY_LABEL)
            if weights is None:
                columns.append(paddle.ones_like(said))
                continue
            classes = said.astype("int64")
            known = (classes >= 0) & (classes < len(weights)) & (classes.astype("float32") == said)
            if not bool(known.all()):
                raise UmiakError.of(
                    "UM-TRAIN-064",
                    f"label {label} has a class that has no weight: {float(said[~known][0]):g}",
                    why=f"`class_weights` has {len(weights)}, for the classes from 0 on",
                    hint="write a weight for each class, or leave this label out of `class_weights`",
                )
            columns.append(paddle.gather(paddle.to_tensor(weights, "float32"), classes))
        return paddle.stack(columns, axis=1)

    @abstractmethod
    def _dense(self, name: str) -> paddle.Tensor: ...


class BatchInputs(Inputs):
    """A batch of a reader."""

    def __init__(
        self,
        batch: Batch,
        slots: Slots,
        known_ragged: set[tuple[str, ...]] | None = None,
        class_weights: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        super().__init__(slots, class_weights)
        self.batch = batch
        self.size = batch.size
        # Which slots have not one id each is remembered from batch to batch: to find out costs more than to know.
        self._ragged = set() if known_ragged is None else known_ragged

    def ids(self, *names: str) -> Ids:
        if names not in self._ragged:
            try:
                return Ids(matrix=self.batch.matrix(names), slots=names)
            except ValueError:
                self._ragged.add(names)
            except KeyError as error:
                raise _no_slot(str(error.args[0]), self.slots.sparse) from None
        return Ids(ragged=tuple(self._sparse(name) for name in names), slots=names)

    def padded(self, name: str, length: int) -> Padded:
        return filled_up(*self._sparse(name), name, length)

    def numbers(self, *names: str) -> paddle.Tensor:
        return paddle.to_tensor(self.column(*names).astype(np.float32))

    def classes(self, name: str) -> paddle.Tensor:
        return paddle.to_tensor(self.column(name)[:, 0].astype(np.int64))

    def column(self, *names: str) -> AnyArray:
        """The same as an array: for metrics."""
        try:
            return self.batch.matrix(names)
        except KeyError as error:
            raise _no_slot(str(error.args[0]), self.slots.sparse) from None
        except ValueError as error:
            what = f"a label is one id per sample: {error}"
            raise UmiakError.of("UM-TRAIN-011", what) from None

    def _dense(self, name: str) -> paddle.Tensor:
        found = self.batch.dense.get(name)
        if found is None:
            raise _no_slot(name, [slot.name for slot in self.slots.dense])
        return dlpack.from_dlpack(found) if found.flags.writeable else paddle.to_tensor(found)

    def _sparse(self, name: str) -> tuple[AnyArray, AnyArray]:
        found = self.batch.sparse.get(name)
        if found is None:
            raise _no_slot(name, self.slots.sparse)
        return found


def filled_up(ids: AnyArray, offsets: AnyArray, slot: str, length: int | None = None) -> Padded:
    """The ids of each sample as a row, up to ``length`` of them; as wide as the longest needs, and one at least."""
    lengths = np.diff(offsets)
    longest = max(int(lengths.max(initial=1)), 1)
    places = np.arange(longest if length is None else min(length, longest))
    present = places < lengths[:, None]
    matrix = np.full(present.shape, PADDING, np.int64)
    matrix[present] = ids[(offsets[:-1, None] + places)[present]]
    return Padded(ids=matrix, mask=paddle.to_tensor(present.astype(np.float32)), slot=slot, length=length)


class ServedInputs(Inputs):
    """The inputs of an inference model."""

    def __init__(self, tensors: Mapping[str, paddle.Tensor], slots: Slots) -> None:
        super().__init__(slots)
        self._tensors = tensors
        self.used: dict[str, None] = {}
        """The names of what was asked for, in the order in which it was asked for."""

    def ids(self, *names: str) -> Ids:
        return Ids(padded=tuple([self._take(name) for name in names]), slots=names)

    def padded(self, name: str, length: int) -> Padded:
        del length  # a served sample has the length that it has
        ids = self._take(name)
        return Padded(ids=ids, mask=(ids != PADDING).astype("float32"), slot=name)

    def numbers(self, *names: str) -> paddle.Tensor:
        return paddle.concat([self._take(name)[:, :1] for name in names], axis=1).astype("float32")

    def classes(self, name: str) -> paddle.Tensor:
        return self._take(name)[:, 0]

    def _dense(self, name: str) -> paddle.Tensor:
        return self._take(name)

    def _take(self, name: str) -> paddle.Tensor:
        if name not in self._tensors:
            raise _no_slot(name, [*self._tensors])
        self.used[name] = None
        return self._tensors[name]


def _no_slot(name: str, known: Sequence[str]) -> UmiakError:
    from umiak.schema.findings import choices

    return UmiakError.of(
        "UM-TRAIN-011", f"the model asks for a slot that is not there: {name}", hint=choices(name, known)
    )
