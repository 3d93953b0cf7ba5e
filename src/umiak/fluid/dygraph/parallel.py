"""`fluid.dygraph.parallel`: the same model on several processes, whose gradients are added. A program.

The processes are those that a launcher has started; they meet through `paddle.distributed`, between CPUs with gloo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle import distributed

from umiak.fluid.dygraph.layer import Layer
from umiak.fluid.record.current import in_dygraph_mode
from umiak.fluid.record.problems import bad
from umiak.fluid.record.sites import user_line
from umiak.ps.clients.paddle_group import PaddleGroup

if TYPE_CHECKING:
    from umiak.fluid.arguments import Arguments, Input, Inputs, Output

GROUP_BYTES = 128 << 20
"""Gradients are added in groups of this size."""


class ParallelEnv:
    """`fluid.dygraph.ParallelEnv`: which of the processes this one is."""

    def __init__(self) -> None:
        env = distributed.ParallelEnv()
        self.nranks: int = env.world_size
        self.local_rank: int = env.rank
        self.dev_id: int = env.device_id if paddle.is_compiled_with_cuda() else 0
        self.current_endpoint: str = env.current_endpoint
        self.trainer_endpoints: list[str] = list(env.trainer_endpoints)

    @property
    def rank(self) -> int:
        """The same as `local_rank`, which in 1.8 is the number among all processes."""
        return self.local_rank

    world_size = property(lambda self: self.nranks)
    device_id = property(lambda self: self.dev_id)


ParallelStrategy = ParallelEnv
"""What `prepare_context` returns: the same facts."""

_groups: list[PaddleGroup] = []


def prepare_context(strategy: Any = None) -> Any:
    """Meet the other processes; None if there is no other."""
    strategy = strategy or ParallelStrategy()
    if strategy.nranks < 2:
        return None
    if not in_dygraph_mode():
        raise bad("UM-FLUID-001", "prepare_context outside of dygraph.guard", "call it inside", where=user_line())
    _meet()
    return strategy


def _meet() -> None:
    if not _groups:
        _groups.append(PaddleGroup(on_cpu=paddle.device.get_device() == "cpu"))


class DataParallel(Layer):
    """A model that every process has; each has rows of its own, and the gradients of all are added."""

    def __init__(self, layers: Layer, strategy: Any = None) -> None:
        super().__init__(f"{layers.full_name()}_data_parallel")
        self._layers = layers
        self._strategy = strategy or ParallelStrategy()
        self._alike = False

    def forward(self, *inputs: Inputs, **settings: Arguments) -> Output:
        """What the model returns. Before the first time all processes take the parameters of the first one."""
        if self._strategy.nranks > 1 and not self._alike:
            _meet()
            for each in self._layers.state_dict().values():
                with paddle.no_grad():
                    distributed.broadcast(each, 0)
            self._alike = True
        return self._layers(*inputs, **settings)

    def scale_loss(self, loss: Input) -> Output:
        """The loss over the number of processes, so that added gradients are their mean."""
        return loss / self._strategy.nranks if self._strategy.nranks > 1 else loss

    def apply_collective_grads(self) -> None:
        """Let each gradient be the sum of everybody's."""
        if self._strategy.nranks < 2:
            return
        _meet()
        with paddle.no_grad():
            group: list[Any] = []
            size = 0
            for parameter in self._layers.parameters():
                gradient = None if parameter.stop_gradient else parameter._grad_ivar()  # noqa: SLF001 - 1.8's own name
                if gradient is None:
                    continue
                if gradient.is_selected_rows():
                    _rows_of_all(gradient)
                    continue
                if group and (gradient.dtype != group[0].dtype or size > GROUP_BYTES):
                    _added(group)
                    group, size = [], 0
                group.append(gradient)
                size += gradient.size * gradient.element_size()
            if group:
                _added(group)

    def state_dict(self, destination: Any = None, include_sublayers: bool = True, structured_name_prefix: str = "") -> Arguments:  # fmt: skip
        """The model's own: its names do not say that it was parallel."""
        return self._layers.state_dict(destination, include_sublayers, structured_name_prefix)  # type: ignore[no-any-return]

    def set_dict(self, stat_dict: Arguments, include_sublayers: bool = True, use_structured_name: bool = True) -> None:
        """Values for the model."""
        self._layers.set_dict(stat_dict, include_sublayers, use_structured_name)

    set_state_dict = load_dict = set_dict


def _rows_of_all(gradient: Any) -> None:
    """Let a gradient of some rows have those of everybody; an optimizer adds rows that come twice."""
    own = gradient.get_selected_rows()
    values = np.asarray(own.get_tensor())
    rows = np.asarray(own.rows(), np.int64)
    group = _groups[0]
    everybody = [np.frombuffer(each, np.int64) for each in group.gather(rows.tobytes(), "rows")]
    parts = [np.frombuffer(each, values.dtype) for each in group.gather(values.tobytes(), "values")]
    own.set_rows(np.concatenate(everybody).tolist())
    tensor = own.get_tensor()
    device = paddle.device.get_device()
    place = paddle.CPUPlace() if device == "cpu" else paddle.CUDAPlace(int(device.partition(":")[2]))
    tensor.set(np.concatenate(parts).reshape([-1, *values.shape[1:]]), place)


def _added(gradients: list[Any]) -> None:
    """All of a group in one exchange."""
    flat = paddle.concat([each.reshape([-1]) for each in gradients])
    distributed.all_reduce(flat)
    place = 0
    for each in gradients:
        part = paddle.slice(flat, [0], [place], [place + each.size])
        each.set_value(part.reshape(each.shape))
        place += each.size
