"""Plain Paddle's side of a comparison, for models in the form of PaddleRec 2: a loop as PaddleRec's own trainer has it. A program.

    python -m umiak.train.compare.plain_dygraph DIRECTORY SIDE [nudged=SEED] [one-epsilon] [all-rows] [lazy] [clip-apart]

What goes in and out, and what the words mean, is said by `plain_side`. With several trainers the gradients of their batches are added up,
each by its share, before the optimizer runs once: what `sync` promises. Each trainer has its own running statistics within an epoch, and their mean behind it, and its
own generators; the first one's are seeded once, as PaddleRec's trainer does it.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import os
import random
import sys
from contextlib import contextmanager, nullcontext
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
import paddle

from umiak.train.compare import plain_side, records
from umiak.train.compare.plain_side import PlainOptions, PlainSide

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType
    from typing import Any

    from umiak.data.array_types import AnyArray
    from umiak.ps.paddle_types import Optimizer, Tensor
    from umiak.train.compare.values import RecordedBatch


HALVES = (paddle.float16, paddle.bfloat16)
MEANS, POWERS = ("moment1", "moment2"), ("beta1_pow_acc", "beta2_pow_acc")
LAZY, CLIP, GRADIENT = "_lazy_mode", "_grad_clip", "_grad_ivar"
Generators = tuple[object, ...]


class PlainTraining(PlainSide):
    """The user's model with its own optimizers."""

    def __init__(self, directory: str, side: str, options: PlainOptions) -> None:
        super().__init__(directory, side, options)
        self._config = self._facts["config"]
        paddle.set_device(self._facts["device"])
        paddle.base.core.set_num_threads(self._facts["threads"])
        _seed_others(self._facts["seed"])
        self._user = _imported(self._facts["model"]).DygraphModel()
        paddle.seed(self._facts["seed"])
        self._model = self._user.create_model(self._config)
        sparse = [layer for layer in self._model.sublayers(include_self=True) if getattr(layer, "_sparse", False)]
        self._sparse = [layer.weight for layer in sparse]
        made = self._user.create_optimizer(self._model, self._config)
        many = made if isinstance(made, (list, tuple)) else [made]
        self._optimizers = [each for each in many if isinstance(each, paddle.optimizer.Optimizer)]
        for each in self._optimizers:
            if options.is_lazy and isinstance(each, paddle.optimizer.Adam):
                setattr(each, LAZY, True)
        clips = [each._grad_clip for each in self._optimizers]
        has_clips = any(each is not None for each in clips)
        self._can_clip_apart = has_clips and self._trainers > 1 and not self._sparse
        self._clips = clips if options.clips_apart else []
        """Of each optimizer, where trainers clip their own gradients."""
        for each in self._optimizers if options.clips_apart else ():
            setattr(each, CLIP, None)
        self._buffers: dict[int, dict[str, AnyArray]] = {}
        """What no optimizer changes, of each trainer."""
        self._generators: dict[int, Generators] = {}
        self._users: dict[int, Any] = {}
        """What each trainer's code remembers."""
        self._is_own_backward = False

    def run(self) -> None:
        """All steps that are recorded."""
        drawn = self._start(self._model.state_dict())
        if self._trainers > 1:
            self._buffers = {rank: self._own_statistics() for rank in range(self._trainers)}
        self._users = {rank: copy.copy(self._user) if rank else self._user for rank in range(self._trainers)}
        self._writer.write(0, self._values())
        metrics: dict[int, list[object]] = {}
        epoch = None
        for number, step in enumerate(zip_longest(*self._recorded()), start=1):
            if (now := next(each.facts["epoch"] for each in step if each)) != epoch:
                epoch = now
                metrics = {rank: user.create_metrics()[0] for rank, user in self._users.items()}
                self._agree()
                self._model.train()
            self._nudge()
            loss = self._step(step, metrics)
            self._writer.write(number, self._values(), loss=loss)
        told = {"drawn_otherwise": drawn, "own_backward": self._is_own_backward, "sparse": bool(self._sparse)}
        records.write_facts(self._place, {**told, "spreads": bool(self._sparse), "clips_apart": self._can_clip_apart})

    def _array(self, name: str) -> AnyArray:
        return _array(self._model.state_dict()[name])

    def _set(self, name: str, array: AnyArray) -> None:
        _fill(self._model.state_dict()[name], array)

    def _nudge(self) -> None:
        if self._nudges is None:
            return
        from umiak.train.compare import (
            deviations,  # not before: a plain side has nothing of umiak that it does not need
        )

        for each in self._model.parameters():
            if each.dtype == paddle.float32:
                each.set_value(deviations.nudged(_array(each), self._nudges))

    def _step(self, step: Sequence[RecordedBatch | None], metrics: dict[int, list[object]]) -> float | None:
        """One step of all trainers; the loss of the first."""
        loss = None
        totals: dict[int, Tensor] = {}
        for rank, batch in enumerate(step):
            if batch is None or batch.fields is None:
                continue
            self._turn_to(rank)
            with self._drawing(rank, batch.facts["first_seed"]):
                found = self._learn(batch, self._users[rank], metrics[rank])
            if rank == 0:
                loss = found
            if self._clips:
                self._clip_own()
            if self._weights_afterwards:
                self._set_aside(totals, float(batch.facts["share"]))
            self._leave(rank)
        self._take_back(totals)
        if self._options.spreads_rows:
            self._spread_rows()
        for optimizer in self._optimizers:
            before = self._adam_before(optimizer)
            optimizer.step()
            if before:
                self._even_out(optimizer, before)
            optimizer.clear_grad()
        for weight in self._sparse:
            vars(weight).pop(GRADIENT, None)
        self._turn_to(0)
        return loss

    @contextmanager
    def _drawing(self, rank: int, first_seed: int) -> Iterator[None]:
        """From the generators of this trainer. Of the steps of a schedule those of the first one count: each would step its own."""
        if self._trainers == 1:
            yield
            return
        rates = [each._learning_rate for each in self._optimizers]
        schedules = [each for each in rates if hasattr(each, "state_dict")]
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

    def _learn(self, batch: RecordedBatch, user: Any, metrics: list[object]) -> float:
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
        if self._trainers > 1 and not self._weights_afterwards:
            learned = learned * facts["share"]
        learned.backward()
        return number

    def _spread_rows(self) -> None:
        for weight in self._sparse:
            if weight.grad is not None and weight.grad.is_selected_rows():
                selected = weight.grad.get_selected_rows()
                found = np.zeros(weight.shape, np.float32)
                np.add.at(
                    found, np.array(selected.rows()), np.array(selected.get_tensor()).reshape(-1, weight.shape[1])
                )
                # Paddle refuses to put one kind of gradient in the place of the other; its optimizers ask for it in this way.
                weight._grad_ivar = functools.partial(paddle.to_tensor, found)

    # ---- gradients of models that run the backward pass themselves

    def _adam_before(self, optimizer: Optimizer) -> list[tuple[Tensor, AnyArray, list[AnyArray]]]:
        """Sparse weights with both means, if Adam moves rows without a gradient and is to have one epsilon."""
        is_moving = isinstance(optimizer, paddle.optimizer.Adam) and not optimizer._lazy_mode
        if not self._options.has_one_epsilon or not is_moving:
            return []
        return [
            (weight, _array(weight), [_mean(optimizer, each, weight) for each in MEANS])
            for weight in self._sparse
            if any(weight is each for each in optimizer._parameter_list)
        ]

    def _even_out(self, optimizer: Optimizer, before: list[tuple[Tensor, AnyArray, list[AnyArray]]]) -> None:
        from umiak.train.compare import deviations

        for weight, values, means in before:
            if weight.grad is None:
                continue
            now = [_mean(optimizer, each, weight) for each in MEANS]
            powers = [float(optimizer._get_accumulator(each, weight)) for each in POWERS]
            step = deviations.AdamStep(
                rate=optimizer.get_lr() * weight.optimize_attr["learning_rate"],
                beta1=optimizer._beta1,
                beta2=optimizer._beta2,
                epsilon=optimizer._epsilon,
                powers=(powers[0], powers[1]),
                before=values,
                first=(means[0], now[0]),
                second=(means[1], now[1]),
            )
            weight.set_value(deviations.with_one_epsilon(step, _array(weight)))

    @property
    def _weights_afterwards(self) -> bool:
        """Whether gradients get their trainer's share behind the backward pass."""
        return self._trainers > 1 and (self._is_own_backward or bool(self._clips))

    def _clip_own(self) -> None:
        """What each trainer does to its gradients before they are added up."""
        for optimizer, clip in zip(self._optimizers, self._clips, strict=True):
            if clip is not None:
                learned = [(each, each.grad) for each in optimizer._parameter_list if each.grad is not None]
                for parameter, gradient in clip(learned):
                    parameter.grad = gradient

    def _set_aside(self, totals: dict[int, Tensor], share: float) -> None:
        """Such gradients can only be weighted afterwards."""
        for number, each in enumerate(self._model.parameters()):
            if each.grad is not None:
                own = each.grad * share
                totals[number] = own if number not in totals else totals[number] + own
                each.clear_gradient(set_to_zero=False)

    def _take_back(self, totals: dict[int, Tensor]) -> None:
        parameters = self._model.parameters()
        for number, total in totals.items():
            parameters[number].grad = total

    # ---- running statistics

    def _statistics(self) -> dict[str, Tensor]:
        """What no optimizer changes."""
        return {name: each for name, each in self._model.state_dict().items() if each.stop_gradient}

    def _turn_to(self, rank: int) -> None:
        state = self._statistics()
        for name, array in self._buffers.get(rank, {}).items():
            _fill(state[name], array)

    def _leave(self, rank: int) -> None:
        if self._trainers > 1:
            self._buffers[rank] = self._own_statistics()

    def _own_statistics(self) -> dict[str, AnyArray]:
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

    def _values(self) -> dict[str, AnyArray]:
        return {name: _array(each) for name, each in self._model.state_dict().items()}


def _imported(path: str) -> ModuleType:
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


def _array(tensor: Tensor) -> AnyArray:
    array: AnyArray = (tensor.astype("float32") if tensor.dtype in HALVES else tensor).numpy()  # a copy
    return array


def _fill(tensor: Tensor, array: AnyArray) -> None:
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


def _generators() -> Generators:
    cpu = plain_side.cpu_generator().get_state()
    return random.getstate(), np.random.get_state(), paddle.get_rng_state(), cpu


def _set_generators(kept: Generators) -> None:
    setters = (random.setstate, np.random.set_state, paddle.set_rng_state, plain_side.cpu_generator().set_state)
    for set_state, state in zip(setters, kept, strict=True):
        set_state(state)


def _mean(optimizer: Optimizer, name: str, weight: Tensor) -> AnyArray:
    """What Adam keeps of a parameter; zeros before its first step."""
    kept = optimizer._accumulators.get(name, {}).get(weight.name)
    return np.zeros(weight.shape, np.float32) if kept is None else _array(kept)


if __name__ == "__main__":
    sys.exit(plain_side.main(sys.argv[1:], PlainTraining))
