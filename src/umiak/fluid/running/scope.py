"""Scopes: what stays from one run to the next, by name, and tensors with sequences as people make and get them. A program."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.kernels.registry import level_of
from umiak.fluid.record.problems import bad

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.fluid.arguments import DType, Feed, Place, Shape, Value
    from umiak.fluid.kernels.registry import SequenceLevel


class LoDTensor:
    """Values with their sequences, as levels of offsets."""

    def __init__(self, values: Value = None, lod: Value = ()) -> None:
        self._values = None if values is None else np.asarray(values)
        self._levels = tuple(level_of(each) for each in lod)

    def set(self, array: Value, place: Place = None) -> None:
        """New values."""
        self._values = np.asarray(array)

    def set_lod(self, lod: Value) -> None:
        """Offsets, a list for each level."""
        self._levels = tuple(level_of(each) for each in lod)

    def set_recursive_sequence_lengths(self, lengths: Value) -> None:
        """The same as lengths."""
        self._levels = tuple(level_of([0, *np.cumsum(level).astype(int).tolist()]) for level in lengths)

    @property
    def levels(self) -> tuple[SequenceLevel, ...]:
        """The same as runs have it."""
        return self._levels

    def lod(self) -> list[list[int]]:
        return [list(each) for each in self._levels]

    def recursive_sequence_lengths(self) -> list[list[int]]:
        return [[end - begin for begin, end in pairwise(level)] for level in self._levels]

    def has_valid_recursive_sequence_lengths(self) -> bool:
        """Whether the last offset is the number of rows."""
        return not self._levels or (self._values is not None and self._levels[-1][-1] == len(self._values))

    def shape(self) -> list[int]:
        return [] if self._values is None else list(self._values.shape)

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> Any:
        return np.asarray(self._values, dtype)

    def __str__(self) -> str:
        return f"LoDTensor(lod={self.lod()}, values={self._values})"


class ScopeTensor:
    """The tensor of a scope's variable, which can be set."""

    def __init__(self, scope: VariableScope, name: str) -> None:
        self._scope, self._name = scope, name

    def set(self, array: Value, place: Place = None) -> None:
        """New values."""
        old = self._scope.tensors.get(self._name)
        array = np.asarray(array)
        if old is None:
            self._scope.tensors[self._name] = paddle.to_tensor(array)
            return
        old.set_value(array.astype(str(old.dtype).removeprefix("paddle.")))

    def shape(self) -> list[int]:
        return list(np.asarray(self).shape)

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> Any:
        tensor = self._scope.tensors.get(self._name)
        if tensor is None:
            raise bad("UM-FLUID-005", f"{self._name} has no value in this scope", "run the startup program, or load it")
        return np.asarray(tensor.numpy(), dtype)


class ScopeVariable:
    """A variable of a scope."""

    def __init__(self, scope: VariableScope, name: str) -> None:
        self._scope, self.name = scope, name

    def get_tensor(self) -> ScopeTensor:
        return ScopeTensor(self._scope, self.name)


class VariableScope:
    """`fluid.Scope`: tensors by name."""

    def __init__(self) -> None:
        self.tensors: Feed = {}
        self.seeded: set[int] = set()
        """Programs whose `random_seed` was set here."""

    def var(self, name: str) -> ScopeVariable:
        """A variable, which may be new."""
        return ScopeVariable(self, name)

    def find_var(self, name: str) -> ScopeVariable | None:
        """A variable; None if there is none."""
        return ScopeVariable(self, name) if name in self.tensors else None

    def new_scope(self) -> VariableScope:
        return VariableScope()

    def drop_kids(self) -> None:
        """Nothing: a run keeps nothing here that is not persistable."""


_scopes = [VariableScope()]


def global_scope() -> VariableScope:
    """The scope that runs use if they are given none."""
    return _scopes[-1]


@contextmanager
def scope_guard(scope: VariableScope) -> Iterator[None]:
    """Another one for the block."""
    _scopes.append(scope)
    try:
        yield
    finally:
        _scopes.pop()


def create_lod_tensor(data: Value, recursive_seq_lens: Value, place: Place = None) -> LoDTensor:
    """From values, or a list of sequences, and their lengths."""
    if isinstance(data, LoDTensor):
        return create_lod_tensor(np.asarray(data), recursive_seq_lens, place)
    if isinstance(data, list):
        data = np.concatenate([np.asarray(each).reshape([len(each), -1]) for each in data]).astype("int64")
    tensor = LoDTensor(data)
    tensor.set_recursive_sequence_lengths(recursive_seq_lens)
    if not tensor.has_valid_recursive_sequence_lengths():
        raise bad("UM-FLUID-006", f"lengths {recursive_seq_lens} do not add up to the {len(data)} rows of the data")
    return tensor


def create_random_int_lodtensor(
    recursive_seq_lens: Value, base_shape: Shape, place: Place, low: int, high: int
) -> LoDTensor:
    """Drawn integers."""
    rows = sum(recursive_seq_lens[-1])
    values = np.random.randint(low, high + 1, [rows, *base_shape]).astype("int64")
    return create_lod_tensor(values, recursive_seq_lens, place)
