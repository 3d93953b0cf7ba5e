"""Programs whose gradients are averaged over all trainers, without servers. A program, for Paddle.

    average(main, startup)      main has been minimized; from now on executors run it with the others

Every run takes the mean of each gradient over all trainers behind the backward pass, before clips, penalties and optimizers, so that all compute
what one process computes with the joined batch. Behind the startup program everybody has the first trainer's parameters.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle import distributed
from paddle.nn import functional

from umiak.contracts import paddle as worker_names
from umiak.fluid.distributed.role_makers import collective_place
from umiak.fluid.record.program import BACKWARD, RecordedOperation, Ref
from umiak.ps.clients.paddle_group import PaddleGroup

if TYPE_CHECKING:
    from umiak.data.array_types import AnyArray
    from umiak.fluid.arguments import Feed, Inputs, Outputs
    from umiak.fluid.record.program import RecordedProgram
    from umiak.fluid.running.executor import ReplayExecutor
    from umiak.fluid.running.scope import VariableScope

MEAN = "mean_gradients"
_HEAD = 8


class _Process:
    group: PaddleGroup | None = None


def group() -> PaddleGroup | None:
    """All trainers of this job; None if this process is alone. They meet when it is asked for first."""
    if collective_place().seat.world == 1:
        return None
    if _Process.group is None:
        _Process.group = PaddleGroup(on_cpu=paddle.device.get_device() == "cpu")
    return _Process.group


def use_endpoints(rank: int, endpoints: list[str], own: str) -> None:
    """What a program says of its trainers, where no launcher has said it: Paddle reads it in the environment."""
    if len(endpoints) < 2 or collective_place().seat.world > 1:
        return
    os.environ.update(worker_names.of_endpoints(rank, endpoints, own))


def average(program: RecordedProgram, startup: RecordedProgram) -> None:
    """Let a minimized program learn with the others."""
    program.runner = AveragingRunner(program)
    startup.runner = SameStartRunner(startup, [each.name for each in program.all_parameters()])


class AveragingRunner:
    """Runs such a program."""

    def __init__(self, program: RecordedProgram) -> None:
        self._program = program
        self._version = -1
        self._changed = program

    def run(
        self, executor: ReplayExecutor, feed: Feed, fetch: Inputs, *, scope: VariableScope, return_numpy: bool
    ) -> Outputs:
        """One step."""
        trainers = group()
        if trainers is None:
            frame = executor.replayed(self._program, feed, scope)
        else:
            if self._version != self._program.version:
                self._changed, self._version = averaging(self._program), self._program.version
            exchange = GradientExchange(trainers)
            frame = executor.replayed(self._changed, feed, scope, exchange=exchange, fed_by=self._program)
        return executor.fetched(frame, fetch, return_numpy=return_numpy)


def averaging(program: RecordedProgram) -> RecordedProgram:
    """A copy that averages the gradients of each backward pass."""
    new = program.clone()
    block = new.global_block()
    ops = []
    for operation in block.ops:
        ops.append(operation)
        if operation.role == BACKWARD and operation.outputs:
            gradients = [Ref(name=name) for name in operation.outputs]
            ops.append(RecordedOperation(type=MEAN, arguments={"gradients": gradients}, outputs=operation.outputs, site=operation.site))  # fmt: skip
    block.ops = ops
    new.changed()
    return new


class SameStartRunner:
    """Runs a startup program, and gives everybody the first trainer's parameters."""

    def __init__(self, startup: RecordedProgram, names: list[str]) -> None:
        self._startup, self._names = startup, names

    def run(
        self, executor: ReplayExecutor, feed: Feed, fetch: Inputs, *, scope: VariableScope, return_numpy: bool
    ) -> Outputs:
        """First values."""
        frame = executor.replayed(self._startup, feed, scope)
        trainers = group()
        if trainers is not None:
            for name in sorted(self._names):
                tensor = scope.tensors.get(name)
                if tensor is not None:
                    distributed.broadcast(tensor, src=0)
        return executor.fetched(frame, fetch, return_numpy=return_numpy)


class GradientExchange:
    """What `mean_gradients` asks: `umiak.fluid.kernels.exchange`."""

    def __init__(self, trainers: PaddleGroup) -> None:
        self._trainers = trainers

    def means(self, gradients: list[Any]) -> list[Any]:
        """The mean of each over all trainers; those of some rows of an embedding stay so."""
        means = list(gradients)
        dense = [place for place, each in enumerate(means) if not each.is_selected_rows()]
        for dtype in dict.fromkeys(str(means[place].dtype) for place in dense):
            alike = [place for place in dense if str(means[place].dtype) == dtype]
            flat = paddle.concat([means[place].reshape([-1]) for place in alike])
            distributed.all_reduce(flat)
            flat = flat / self._trainers.world
            parts = paddle.split(flat, [means[place].size for place in alike])
            for place, part in zip(alike, parts, strict=True):
                means[place] = part.reshape(means[place].shape)
        for place, each in enumerate(means):
            if each.is_selected_rows():
                means[place] = self._mean_rows(each)
        return means

    def _mean_rows(self, gradient: Any) -> Any:
        ids = np.asarray(gradient.rows(), np.int64)
        rows = gradient.get_selected_rows().get_tensor()
        height = int(gradient.get_selected_rows().height())
        values = np.array(rows, np.float32).reshape(len(ids), -1)
        parts = [_unpacked(each, values.shape[1]) for each in self._trainers.gather(_packed(ids, values), "rows")]
        ids = np.concatenate([part for part, _ in parts])
        values = np.concatenate([part for _, part in parts]) / np.float32(self._trainers.world)
        return rows_gradient(ids, values, height)


def _packed(ids: AnyArray, values: AnyArray) -> bytes:
    return len(ids).to_bytes(_HEAD, "little") + ids.tobytes() + values.tobytes()


def _unpacked(content: bytes, width: int) -> tuple[AnyArray, AnyArray]:
    count = int.from_bytes(content[:_HEAD], "little")
    ids = np.frombuffer(content, np.int64, count, _HEAD)
    return ids, np.frombuffer(content, np.float32, count * width, _HEAD + ids.nbytes).reshape(count, width)


def rows_gradient(ids: AnyArray, values: AnyArray, height: int) -> Any:
    """A gradient of some rows of an embedding, as a backward pass makes it."""
    with paddle.enable_grad():
        weight = paddle.empty([height, values.shape[1]], "float32")
        weight.stop_gradient = False
        rows = functional.embedding(paddle.to_tensor(ids), weight, sparse=True)
        (gradient,) = paddle.grad([rows], [weight], [paddle.to_tensor(values)])
    return gradient
