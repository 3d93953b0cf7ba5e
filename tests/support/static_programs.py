"""Static Paddle programs of the older kind for tests: a click model in the style that people have, alone in this process."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import paddle
    from paddle.distributed import fleet

    from umiak.fleet import job, patching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLOTS, IDS, DIM = 3, 50, 4


class ClickProgram:
    """Slots of one id each: a deep part of one shared embedding, a wide part with a padding id, AUC."""

    def __init__(self, *, embedding: str = "layers", need_clip: bool = True) -> None:
        """``need_clip``: of the deep embedding."""
        chance = np.random.default_rng(5)
        deep = chance.uniform(-0.1, 0.1, (IDS, DIM)).astype(np.float32)
        wide = chance.uniform(-0.1, 0.1, (IDS, 1)).astype(np.float32)
        wide[0] = 0
        first = attribute("deep", deep, need_clip=need_clip)
        self.main, self.startup = paddle.static.Program(), paddle.static.Program()
        paddle.seed(3)
        with paddle.static.program_guard(self.main, self.startup), paddle.utils.unique_name.guard():
            self.ids = [paddle.static.data(f"slot{place}", [None, 1], "int64") for place in range(SLOTS)]
            self.label = paddle.static.data("label", [None, 1], "int64")
            if embedding == "layers":
                layer = paddle.nn.Embedding(IDS, DIM, sparse=True, weight_attr=first)
                rows = [layer(each).reshape([-1, DIM]) for each in self.ids]
            else:
                rows = [paddle.static.nn.sparse_embedding(each, [IDS, DIM], param_attr=first) for each in self.ids]
            narrow = paddle.nn.Embedding(IDS, 1, sparse=True, padding_idx=0, weight_attr=attribute("wide", wide))
            linear = paddle.sum(narrow(paddle.concat(self.ids, axis=1)), axis=1)
            hidden = paddle.static.nn.fc(paddle.concat(rows, axis=1), 8, activation="relu")
            self.predict = paddle.nn.functional.sigmoid(paddle.static.nn.fc(hidden, 1) + linear)
            clicked = paddle.cast(self.label, "float32")
            self.loss = paddle.mean(paddle.nn.functional.log_loss(self.predict, clicked))
            both = paddle.concat([1 - self.predict, self.predict], axis=1)
            self.auc, _, self.statistics = paddle.static.auc(both, self.label, num_thresholds=255)
            self.test = self.main.clone(for_test=True)

    def minimize(self, optimizer: Any) -> None:
        with paddle.static.program_guard(self.main, self.startup):
            optimizer.minimize(self.loss)

    @staticmethod
    def batch(number: int, size: int = 16) -> dict[str, Any]:
        ids = np.random.default_rng(number).integers(0, IDS, (size, SLOTS))
        found = {f"slot{place}": ids[:, place : place + 1] for place in range(SLOTS)}
        return {**found, "label": (ids.sum(1, keepdims=True) % 2).astype(np.int64)}


def attribute(name: str, values: Any, *, need_clip: bool = True) -> Any:
    return paddle.ParamAttr(name=name, initializer=paddle.nn.initializer.Assign(values), need_clip=need_clip)


@contextmanager
def older_programs() -> Iterator[None]:
    """Static programs of the older kind, with a scope of their own and fleet's calls as umiak has them."""
    patching.install()
    with paddle.pir_utils.OldIrGuard(), paddle.static.scope_guard(paddle.static.Scope()):
        try:
            yield
        finally:
            job.end()


def plain_losses(make: Callable[[], Any], steps: int, *, size: int = 16, **options: Any) -> list[float]:
    """What Paddle itself computes."""
    job.end()
    with paddle.static.scope_guard(paddle.static.Scope()):
        found = ClickProgram(**options)
        found.minimize(make())
        return losses(found, steps, size=size)


def fleet_program(make: Callable[[], Any], **options: Any) -> ClickProgram:
    """The same program on tables of this process."""
    fleet.init(fleet.PaddleCloudRoleMaker())
    found = ClickProgram(**options)
    found.minimize(fleet.distributed_optimizer(make(), fleet.DistributedStrategy()))
    return found


def losses(program: ClickProgram, steps: int, *, size: int = 16) -> list[float]:
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(program.startup)
    return [
        float(executor.run(program.main, feed=program.batch(step, size), fetch_list=[program.loss])[0])
        for step in range(steps)
    ]
