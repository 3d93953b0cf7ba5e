"""Looks at a model that leave no trace: whatever its code counts, caches or draws meanwhile is afterwards as it was before. An adapter, for Paddle.

    with without_trace([user, model, *optimizers], file):
        user.train_forward(model, metrics, batch, config)

PaddleRec's trainer calls a model's code in a certain order, and a loss may depend on everything that this code remembers. What umiak asks besides must not count.
So everything that can be reached from the model, from its objects and from the modules beside its file is written down before and put back after:
attributes, elements of containers, class attributes, variables of modules, tensors, generators. Objects stay the same ones, as others refer to them.

What is not put back: files that the code writes, and state in C that can't be copied (a generator function that is under way).
"""

from __future__ import annotations

import collections
import copy
import functools
import random
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import paddle

from umiak.ps import paddle_internals
from umiak.train.engines import own_code
from umiak.train.engines.state import generators

_Found = tuple[Iterable[Any], Callable[[], None]]
"""What an object leads to, and what puts it back."""

_LEAVES = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    slice,
    np.generic,
    np.dtype,
    types.BuiltinFunctionType,
)
_FOREIGN = ("paddle.base", "paddle.jit", "logging", "threading", "umiak")
"""Objects of these are left alone: nothing of the model's is in them, and much is behind them."""


@contextmanager
def without_trace(roots: Iterable[Any], file: str) -> Iterator[None]:
    """``roots``: the objects that a model's code works with; ``file``: of the model, whose modules count as well."""
    drawn = generators.states()
    modules = own_code.modules_of(file)
    state = _State(modules)
    state.take([*roots, *modules.values()])
    try:
        yield
    finally:
        state.put_back()
        own_code.put_back(file, modules)
        generators.set_states(drawn)


class _State:
    """All objects that can be reached, each as it was."""

    def __init__(self, modules: dict[str, types.ModuleType]) -> None:
        self._names = {*modules, *(each.__name__ for each in modules.values())}
        self._own = {id(each) for each in modules.values()}
        self._kept: dict[int, Any] = {}
        """Every object that was seen, by `id`; kept, so that no other gets its `id`."""
        self._undo: list[Callable[[], None]] = []

    def take(self, roots: Iterable[Any]) -> None:
        waiting = [*roots]
        while waiting:
            item = waiting.pop()
            if isinstance(item, _LEAVES) or id(item) in self._kept:
                continue
            self._kept[id(item)] = item
            for inner, undo in self._looks(item):
                waiting += inner
                self._undo.append(undo)

    def put_back(self) -> None:
        for undo in self._undo:
            undo()

    def _looks(self, item: Any) -> Iterator[_Found]:
        """Ways in which an object remembers something."""
        if isinstance(item, types.ModuleType):
            if id(item) in self._own:
                yield _of_names(item)
        elif isinstance(item, type):
            if item.__module__ in self._names:
                yield _of_names(item)
        elif isinstance(item, types.FunctionType):
            if item.__module__ in self._names:
                yield from _of_function(item)
        elif isinstance(item, types.MethodType):
            yield (item.__self__, item.__func__), _nothing
        elif isinstance(item, functools.partial):
            yield (item.func, item.args, item.keywords), _nothing
        elif isinstance(item, paddle.Tensor):
            yield _of_tensor(item)
            yield _of_dict(getattr(item, "__dict__", {}))
        elif not _is_foreign(type(item).__module__):
            yield from _of_content(item)
            if isinstance(getattr(item, "__dict__", None), dict):
                yield _of_dict(vars(item))
            yield from _of_slots(item)


def _of_content(item: Any) -> Iterator[_Found]:
    """What a container or a generator of numbers has besides attributes."""
    if isinstance(item, dict):
        yield _of_dict(item)
    elif isinstance(item, (tuple, frozenset)):
        yield item, _nothing
    elif isinstance(item, (list, collections.deque)):
        yield _of_sequence(item)
    elif isinstance(item, set):
        yield _of_set(item)
    elif isinstance(item, bytearray):
        yield (), functools.partial(item.__setitem__, slice(None), bytes(item))
    elif isinstance(item, np.ndarray):
        inner = item.ravel().tolist() if item.dtype.hasobject else ()
        yield inner, functools.partial(_fill, item, item.copy())
    elif isinstance(item, np.random.Generator):
        bits = item.bit_generator
        yield (), functools.partial(setattr, bits, "state", copy.deepcopy(bits.state))
    elif isinstance(item, np.random.RandomState):
        yield (), functools.partial(item.set_state, item.get_state())
    elif isinstance(item, random.Random) and not isinstance(item, random.SystemRandom):
        yield (), functools.partial(item.setstate, item.getstate())


def _of_dict(item: dict[Any, Any]) -> _Found:
    kept = {name: _held(each) for name, each in item.items()}

    def undo() -> None:
        if not _is_same([*item.items()], [*kept.items()]):
            item.clear()
            item.update(kept)

    return [*kept.values(), *kept], undo


def _of_sequence(item: Any) -> _Found:
    kept = [_held(each) for each in item]

    def undo() -> None:
        if len(item) != len(kept) or any(a is not b for a, b in zip(item, kept, strict=True)):
            item.clear()
            item.extend(kept)

    return kept, undo


def _of_set(item: set[Any]) -> _Found:
    kept = {*item}

    def undo() -> None:
        item.clear()
        item.update(kept)

    return kept, undo


def _of_names(item: type | types.ModuleType) -> _Found:
    """Class attributes, or variables of a module; those of Python itself are left alone."""
    kept = {name: _held(each) for name, each in _own_names(item).items()}

    def undo() -> None:
        now = _own_names(item)
        for name in now.keys() - kept.keys():
            delattr(item, name)
        for name, each in kept.items():
            if name not in now or now[name] is not each:
                setattr(item, name, each)

    return [*kept.values(), *(item.__bases__ if isinstance(item, type) else ())], undo


def _own_names(item: type | types.ModuleType) -> dict[str, object]:
    return {name: each for name, each in vars(item).items() if not name.startswith("__")}


def _of_function(function: types.FunctionType) -> Iterator[_Found]:
    yield _of_dict(function.__dict__)
    yield (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()), _nothing
    for cell in function.__closure__ or ():
        try:
            content = _held(cell.cell_contents)
        except ValueError:  # it has none yet
            continue
        yield (content,), functools.partial(setattr, cell, "cell_contents", content)


def _of_slots(item: Any) -> Iterator[_Found]:
    for kind in type(item).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__") and hasattr(item, name):
                each = _held(getattr(item, name))
                yield (each,), functools.partial(_set_slot, item, name, each)


def _of_tensor(tensor: paddle.Tensor) -> _Found:
    """Its numbers. One whose numbers are in a table has none; the table learns from no look."""
    if not paddle_internals.is_initialized(tensor) or not tensor.size:
        return (), _nothing
    kept = paddle.Tensor.numpy(tensor).copy()

    def undo() -> None:
        if paddle_internals.is_initialized(tensor) and paddle.Tensor.numpy(tensor).tobytes() == kept.tobytes():
            return
        paddle.Tensor.set_value(tensor, paddle.to_tensor(kept, dtype=tensor.dtype))

    return (), undo


def _held(item: Any) -> Any:
    """What is put back for an item: itself. Of an iterator, which only goes on, a copy of where it is."""
    if not hasattr(type(item), "__next__") or isinstance(item, types.GeneratorType):
        return item
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return copy.copy(item)
        except Exception:  # noqa: BLE001 - whatever an iterator says that can't be copied
            return item


def _is_foreign(module: str) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in _FOREIGN)


def _is_same(now: list[tuple[Any, Any]], kept: list[tuple[Any, Any]]) -> bool:
    return len(now) == len(kept) and all(a is c and b is d for (a, b), (c, d) in zip(now, kept, strict=True))


def _fill(array: Any, kept: Any) -> None:
    if array.flags.writeable:
        array[...] = kept


def _set_slot(item: Any, name: str, each: Any) -> None:
    if getattr(item, name, None) is not each:
        object.__setattr__(item, name, each)


def _nothing() -> None:
    """What can't change needs nothing."""
