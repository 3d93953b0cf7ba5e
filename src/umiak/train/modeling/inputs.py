"""One batch as a model sees it. An adapter, for Paddle.

    inputs.dense()                        all dense slots side by side: [samples, width]
    inputs.ids("1", "2")                  for an embedding: one pooled row per sample and slot
    inputs.padded("history", 50)          for an embedding: one row per id, up to 50, and a mask
    inputs.numbers("click")               a slot with one id per sample as float32: [samples, 1]

`BatchInputs` has a batch of a reader; `ServedInputs` has the tensors of an inference model, which are traced. There, a sparse slot is a matrix
of ids, a row for each sample, filled up with `PADDING`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle.utils import dlpack

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import value
from umiak.train.config.values import Slots
from umiak.train.reading.batches import Batch

PADDING = -1
"""The id that stands where a sample has no more ids. It has no row."""


@value
class Ids:
    """Ids of several slots, to be pooled: a matrix with one id each, or ids and offsets slot by slot, or padded matrices."""

    matrix: NDArray[Any] | None = None
    ragged: tuple[tuple[NDArray[Any], NDArray[Any]], ...] = ()
    padded: tuple[paddle.Tensor, ...] = ()
    slots: tuple[str, ...] = ()
    """Whose they are, in this order."""

    def of_each(self) -> Iterator[tuple[str, Ids]]:
        """Each slot by itself."""
        for number, slot in enumerate(self.slots):
            here = slice(number, number + 1)
            matrix = None if self.matrix is None else np.ascontiguousarray(self.matrix[:, here])
            yield slot, Ids(matrix=matrix, ragged=self.ragged[here], padded=self.padded[here], slots=(slot,))


@value
class Padded:
    """Ids of one slot as a matrix, filled up with `PADDING`, and a mask that is 1 where there is an id and 0 behind."""

    ids: Any
    """An array in training, a tensor in an inference model."""
    mask: paddle.Tensor
    slot: str = ""


class Inputs(ABC):
    """What a batch holds."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots

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

    @abstractmethod
    def _dense(self, name: str) -> paddle.Tensor: ...


class BatchInputs(Inputs):
    """A batch of a reader."""

    def __init__(self, batch: Batch, slots: Slots, known_ragged: set[tuple[str, ...]] | None = None) -> None:
        super().__init__(slots)
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
        ids, offsets = self._sparse(name)
        lengths = np.diff(offsets)
        places = np.arange(min(length, max(int(lengths.max(initial=1)), 1)))
        present = places < lengths[:, None]
        matrix = np.full(present.shape, PADDING, np.int64)
        matrix[present] = ids[(offsets[:-1, None] + places)[present]]
        return Padded(ids=matrix, mask=paddle.to_tensor(present.astype(np.float32)), slot=name)

    def numbers(self, *names: str) -> paddle.Tensor:
        return paddle.to_tensor(self.column(*names).astype(np.float32))

    def classes(self, name: str) -> paddle.Tensor:
        return paddle.to_tensor(self.column(name)[:, 0].astype(np.int64))

    def column(self, *names: str) -> NDArray[Any]:
        """The same as an array: for metrics."""
        try:
            return self.batch.matrix(names)
        except KeyError as error:
            raise _no_slot(str(error.args[0]), self.slots.sparse) from None
        except ValueError as error:
            what = f"a label is one id per sample: {error}"
            raise UmiakError(Problem(code="UM-TRAIN-011", what=what)) from None

    def _dense(self, name: str) -> paddle.Tensor:
        found = self.batch.dense.get(name)
        if found is None:
            raise _no_slot(name, [slot.name for slot in self.slots.dense])
        return dlpack.from_dlpack(found) if found.flags.writeable else paddle.to_tensor(found)

    def _sparse(self, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
        found = self.batch.sparse.get(name)
        if found is None:
            raise _no_slot(name, self.slots.sparse)
        return found


class ServedInputs(Inputs):
    """The inputs of an inference model."""

    def __init__(self, tensors: Mapping[str, paddle.Tensor], slots: Slots) -> None:
        super().__init__(slots)
        self._tensors = tensors
        self.used: dict[str, None] = {}
        """The names of what was asked for, in the order in which it was asked for."""

    def ids(self, *names: str) -> Ids:
        return Ids(padded=tuple([self._take(name) for name in names]), slots=names)

    def padded(self, name: str, length: int) -> Padded:  # noqa: ARG002 - a served sample has the length that it has
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

    problem = Problem(
        code="UM-TRAIN-011", what=f"the model asks for a slot that is not there: {name}", hint=choices(name, known)
    )
    return UmiakError(problem)
