"""When operations run at once: `fluid.dygraph.guard`, `enable_dygraph`, `no_grad`, and what a program asks of the tracer. A program."""

from __future__ import annotations

from contextlib import ContextDecorator, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import paddle

from umiak.fluid.dygraph.tensors import as_in_18
from umiak.fluid.record import naming
from umiak.fluid.record.current import dynamic_mode, in_dygraph_mode, is_training, program_guard, set_training
from umiak.fluid.record.program import RecordedProgram
from umiak.fluid.running import places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.fluid.arguments import Function, Output, Place


@contextmanager
def guard(place: Place = None) -> Iterator[None]:
    """Operations of the block run at once. Its programs, which hold `random_seed` alone, and its names are new."""
    with ExitStack() as stack:
        stack.enter_context(program_guard(RecordedProgram(), RecordedProgram()))
        stack.enter_context(naming.guard())
        stack.enter_context(dynamic_mode())
        stack.enter_context(as_in_18())
        stack.enter_context(_on(place))
        yield


@contextmanager
def _on(place: Place) -> Iterator[None]:
    """Compute on this device, afterwards on the one before."""
    before = paddle.device.get_device()
    if place is not None:
        places.use(place)
    try:
        yield
    finally:
        if paddle.device.get_device() != before:
            paddle.device.set_device(before)


_enabled: list[ExitStack] = []


def enable_dygraph(place: Place = None) -> None:
    """Operations run at once from here on."""
    if not in_dygraph_mode():
        stack = ExitStack()
        stack.enter_context(guard(place))
        _enabled.append(stack)


def disable_dygraph() -> None:
    """Operations are recorded from here on."""
    if _enabled:
        _enabled.pop().close()


class _NoGradient(ContextDecorator):
    """A block or a function without gradients, computed as when it is tested: 1.8 has one switch for both."""

    def __init__(self) -> None:
        self._before: list[tuple[bool, Any]] = []

    def __enter__(self) -> None:
        without = paddle.no_grad()
        without.__enter__()
        self._before.append((set_training(False), without))

    def __exit__(self, *error: object) -> None:
        training, without = self._before.pop()
        set_training(training)
        without.__exit__(*error)


def no_grad(func: Function | None = None) -> Output:
    """`with no_grad():`, `@no_grad` or `@no_grad()`."""
    return _NoGradient() if func is None else _NoGradient()(func)


class Tracer:
    """What `fluid.framework._dygraph_tracer()` is asked for."""

    @property
    def _train_mode(self) -> bool:
        return is_training()

    @_train_mode.setter
    def _train_mode(self, training: bool) -> None:
        set_training(training)

    def train_mode(self) -> None:
        """Operations are for training."""
        set_training(True)

    def eval_mode(self) -> None:
        """They are for tests."""
        set_training(False)


def dygraph_tracer() -> Tracer | None:
    """The tracer; None where operations are recorded."""
    return Tracer() if in_dygraph_mode() else None
