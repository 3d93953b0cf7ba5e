"""Plain Paddle's side of a comparison, for models in the form of PaddleRec 2: a loop as PaddleRec's own trainer has it. A program.

    python -m umiak.train.compare.plain_dygraph DIRECTORY SIDE [nudged] [one-epsilon]

With `nudged` every parameter is moved by the last digit of float32, up or down, before each step: what this comes to is what rounding may come to. With
`one-epsilon` Adam moves rows without a gradient as `sparse_adam` says.

It gets the batches that umiak's trainers have recorded in DIRECTORY, starts from the same values, and writes its own values after every step to
DIRECTORY/SIDE. It imports Paddle and the user's model; of umiak only the form of the records. With several trainers the gradients of their batches are added up,
each by its share, before the optimizer runs once: what `sync` promises. Each trainer has its own running statistics within an epoch, and their mean behind it, and its
own generators; the first one's are seeded once, as PaddleRec's trainer does it.
"""

from __future__ import annotations

import copy
import importlib.util
import os
import random
import sys
from contextlib import contextmanager, nullcontext
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.train.compare import records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from umiak.train.compare.values import RecordedBatch

OURS, BATCHES = "umiak", "batches"
HALVES = (paddle.float16, paddle.bfloat16)


MEANS = ("moment1", "moment2")


class PlainTraining:
    """The user's model with its own optimizers."""

    def __init__(self, directory: str, side: str, *, is_nudged: bool = False, has_one_epsilon: bool = False) -> None:
        self._directory = directory
        self._nudges = np.random.default_rng(1) if is_nudged else None
        self._facts = records.facts(directory)
        self._place = os.path.join(directory, side)
        self._writer = records.StepWriter(self._place)
        self._config = self._facts["config"]
        self._trainers = int(self._facts["trainers"])
        paddle.set_device(self._facts["device"])
        paddle.base.core.set_num_threads(self._facts["threads"])
        _seed_others(self._facts["seed"])
        self._user = _imported(self._facts["model"]).DygraphModel()
        paddle.seed(self._facts["seed"])
        self._model = self._user.create_model(self._config)
        sparse = [layer for layer in self._model.sublayers(include_self=True) if getattr(layer, "_sparse", False)]
        self._sparse = [layer.weight for layer in sparse]
        self._has_one_epsilon = has_one_epsilon
        made = self._user.create_optimizer(self._model, self._config)
        many = made if isinstance(made, (list, tuple)) else [made]
        self._optimizers = [each for each in many if isinstance(each, paddle.optimizer.Optimizer)]
        self._buffers: dict[int, dict[str, Any]] = {}
        """What no optimizer changes, of each trainer."""
        self._generators: dict[int, tuple[Any, ...]] = {}
        self._users: dict[int, Any] = {}
        """What each trainer's code remembers."""
        self._is_own_backward = False

    def run(self) -> None:
        """All steps that are recorded."""
        drawn = self._start()
        if self._trainers > 1:
            self._buffers = {rank: self._own_statistics() for rank in range(self._trainers)}
        self._users = {rank: copy.copy(self._user) if rank else self._user for rank in range(self._trainers)}
        self._writer.write(0, self._values())
        metrics: dict[int, list[Any]] = {}
        epoch = None
        for number, step in enumerate(self._steps(), start=1):
            if (now := next(each.facts["epoch"] for each in step if each)) != epoch:
                epoch = now
                metrics = {rank: user.create_metrics()[0] for rank, user in self._users.items()}
                self._agree()
                self._model.train()
            self._nudge()
            loss = self._step(step, metrics)
            self._writer.write(number, self._values(), loss=loss)
        told = {"drawn_otherwise": drawn, "own_backward": self._is_own_backward, "sparse": bool(self._sparse)}
        records.write_facts(self._place, told)

    def _steps(self) -> Iterator[tuple[RecordedBatch | None, ...]]:
        """What each trainer has in a step."""
        place = os.path.join(self._directory, BATCHES)
        return zip_longest(*[records.batches(place, rank) for rank in range(self._trainers)])

    def _start(self) -> list[str]:
        """Take over umiak's first values. Returns the names of parameters that plain Paddle has drawn otherwise from the same seed."""
        first = next(records.states(os.path.join(self._directory, OURS)))
        state = self._model.state_dict()
        drawn = []
        for name, there in first.values.items():
            if name in state and not np.array_equal(_array(state[name]), there, equal_nan=there.dtype.kind == "f"):
                drawn.append(name)
                _set(state[name], np.array(there))
        return drawn

    def _nudge(self) -> None:
        if self._nudges is not None:
            for each in self._model.parameters():
                if each.dtype == paddle.float32:
                    array = _array(each)
                    away = np.where(self._nudges.random(array.shape) < 0.5, np.float32(-np.inf), np.float32(np.inf))
                    each.set_value(np.nextafter(array, away, dtype=np.float32))

    def _step(self, step: Sequence[RecordedBatch | None], metrics: dict[int, list[Any]]) -> float | None:
        """One step of all trainers; the loss of the first."""
        loss = None
        totals: dict[int, Any] = {}
        for rank, batch in enumerate(step):
            if batch is None or batch.fields is None:
                continue
            self._turn_to(rank)
            with self._drawing(rank, batch.facts["first_seed"]):
                found = self._learn(batch, self._users[rank], metrics[rank])
            if rank == 0:
                loss = found
            if self._is_own_backward and self._trainers > 1:
                self._set_aside(totals, float(batch.facts["share"]))
            self._leave(rank)
        self._take_back(totals)
        for optimizer in self._optimizers:
            before = self._adam_before(optimizer)
            optimizer.step()
            if before:
                self._even_out(optimizer, before)
            optimizer.clear_grad()
        self._turn_to(0)
        return loss

    @contextmanager
    def _drawing(self, rank: int, first_seed: int) -> Iterator[None]:
        """From the generators of this trainer. Of the steps of a schedule those of the first one count: each would step its own."""
        if self._trainers == 1:
            yield
            return
        schedules = [each for each in (one._learning_rate for one in self._optimizers) if hasattr(each, "state_dict")]  # noqa: SLF001
        places = [each.state_dict() for each in schedules] if rank else []
        if rank in self._generators:
            _set_generators(self._generators[rank])
        elif rank:
            paddle.seed(first_seed)
            _seed_others(first_seed)
        yield
        self._generators[rank] = _generators()
        for schedule, place in zip(schedules, places, strict=False):
            schedule.set_state_dict(place)

    def _learn(self, batch: RecordedBatch, user: Any, metrics: list[Any]) -> float:
        """Forward and backward with the batch of one trainer."""
        facts = batch.facts
        with paddle.amp.auto_cast(dtype="bfloat16") if self._facts["amp"] else nullcontext():
            made = user.train_forward(self._model, metrics, _tensors(batch.fields), self._config)
        loss, told = made[-3], made[-1]
        if isinstance(made[-2], list) and len(made[-2]) == len(metrics):
            metrics[:] = made[-2]
        if loss.stop_gradient:
            self._is_own_backward = True
            shown = told.get("loss") if isinstance(told, dict) else None
            return float(np.mean(np.asarray(loss if shown is None else shown, np.float64)))
        number = float(loss.astype("float32").mean())
        learned = loss * facts["size"] if self._facts["is_summed"] else loss
        if self._trainers > 1:
            learned = learned * facts["share"]
        learned.backward()
        return number

    # ---- gradients of models that run the backward pass themselves

    def _adam_before(self, optimizer: Any) -> dict[str, tuple[Any, Any, Any]]:
        """Sparse weights with both means, if Adam moves rows without a gradient and is to have one epsilon."""
        if not self._has_one_epsilon or not isinstance(optimizer, paddle.optimizer.Adam) or optimizer._lazy_mode:  # noqa: SLF001
            return {}
        return {
            weight.name: (weight, _array(weight), [_mean(optimizer, each, weight) for each in MEANS])
            for weight in self._sparse
            if any(weight is each for each in optimizer._parameter_list)  # noqa: SLF001
        }

    def _even_out(self, optimizer: Any, before: dict[str, tuple[Any, Any, Any]]) -> None:
        from umiak.train.compare import (
            sparse_adam,
        )  # not before: a plain side has nothing of umiak that it does not need

        for weight, values, means in before.values():
            if weight.grad is None:
                continue
            now = [_mean(optimizer, each, weight) for each in MEANS]
            powers = [float(optimizer._get_accumulator(each, weight)) for each in ("beta1_pow_acc", "beta2_pow_acc")]  # noqa: SLF001
            step = sparse_adam.AdamStep(
                rate=optimizer.get_lr() * weight.optimize_attr["learning_rate"],
                beta1=optimizer._beta1,  # noqa: SLF001
                beta2=optimizer._beta2,  # noqa: SLF001
                epsilon=optimizer._epsilon,  # noqa: SLF001
                powers=(powers[0], powers[1]),
                before=values,
                first=(means[0], now[0]),
                second=(means[1], now[1]),
            )
            weight.set_value(sparse_adam.with_one_epsilon(step, _array(weight)))

    def _set_aside(self, totals: dict[int, Any], share: float) -> None:
        """Such gradients can only be weighted afterwards."""
        for number, each in enumerate(self._model.parameters()):
            if each.grad is not None:
                own = each.grad * share
                totals[number] = own if number not in totals else totals[number] + own
                each.clear_gradient(set_to_zero=False)

    def _take_back(self, totals: dict[int, Any]) -> None:
        parameters = self._model.parameters()
        for number, total in totals.items():
            parameters[number].grad = total

    # ---- running statistics

    def _statistics(self) -> dict[str, Any]:
        """What no optimizer changes."""
        return {name: each for name, each in self._model.state_dict().items() if each.stop_gradient}

    def _turn_to(self, rank: int) -> None:
        state = self._statistics()
        for name, array in self._buffers.get(rank, {}).items():
            _set(state[name], array)

    def _leave(self, rank: int) -> None:
        if self._trainers > 1:
            self._buffers[rank] = self._own_statistics()

    def _own_statistics(self) -> dict[str, Any]:
        return {name: _array(each) for name, each in self._statistics().items()}

    def _agree(self) -> None:
        """At the end of an epoch all go on with the mean."""
        ranks = [self._buffers[rank] for rank in sorted(self._buffers) if self._buffers[rank]]
        for name in ranks[0] if ranks else ():
            if ranks[0][name].dtype.kind == "f":
                total = np.sum([each[name].astype(np.float64) for each in ranks], axis=0)
                mean = (total / len(ranks)).astype(ranks[0][name].dtype)
            else:
                mean = ranks[0][name]
            for each in ranks:
                each[name] = mean
        self._turn_to(0)

    def _values(self) -> dict[str, NDArray[Any]]:
        return {name: _array(each) for name, each in self._model.state_dict().items()}


def _imported(path: str) -> Any:
    """The model's file, as PaddleRec's trainer imports it: its directory is the first of `sys.path`."""
    sys.path.insert(0, os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _array(tensor: Any) -> NDArray[Any]:
    array: NDArray[Any] = (tensor.astype("float32") if tensor.dtype in HALVES else tensor).numpy()
    return np.array(array)


def _set(tensor: Any, array: NDArray[Any]) -> None:
    tensor.set_value(paddle.to_tensor(array).astype(tensor.dtype))


def _tensors(item: Any) -> Any:
    if isinstance(item, np.ndarray):
        return paddle.to_tensor(item)
    if isinstance(item, list):
        return [_tensors(each) for each in item]
    return {name: _tensors(each) for name, each in item.items()} if isinstance(item, dict) else item


def _seed_others(number: int) -> None:
    """Numpy's and Python's, which PaddleRec's trainer leaves to chance."""
    random.seed(number)
    np.random.seed(number % (1 << 32))


def _generators() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state(), paddle.get_rng_state(), _cpu().get_state()


def _set_generators(kept: tuple[Any, ...]) -> None:
    random.setstate(kept[0])
    np.random.set_state(kept[1])
    paddle.set_rng_state(kept[2])
    _cpu().set_state(kept[3])


def _cpu() -> Any:
    return paddle.base.core.default_cpu_generator()


def _mean(optimizer: Any, name: str, weight: Any) -> NDArray[Any]:
    """What Adam keeps of a parameter; zeros before its first step."""
    kept = optimizer._accumulators.get(name, {}).get(weight.name)  # noqa: SLF001
    return np.zeros(weight.shape, np.float32) if kept is None else _array(kept)


def main(argv: list[str]) -> int:
    """The exit status."""
    directory, side, *more = argv
    PlainTraining(directory, side, is_nudged="nudged" in more, has_one_epsilon="one-epsilon" in more).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
