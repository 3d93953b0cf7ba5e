"""Learning rates that change while operations run at once: each counts the steps of its optimizer, as in 1.8. A program."""

from __future__ import annotations

import copy
import math
import sys
import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import paddle

from umiak.fluid.record.problems import bad
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Arguments, Function, Output, Rate


def _number(rate: Rate) -> float:
    return float(np.asarray(rate).reshape(-1)[0])


class LearningRateDecay:
    """What all of them share: a count of steps, and the rate by it, which a class below computes in `step`."""

    kept: ClassVar[tuple[str, ...]] = ("step_num",)
    """What a checkpoint of the optimizer remembers."""

    def __init__(self, begin: int = 0, step: int = 1, dtype: str = "float32") -> None:
        self.step_num, self.step_size, self.dtype = begin, step, dtype

    def __call__(self) -> Output:
        """The rate of this step, as [1]; the next call is about the next step."""
        rate = self.create_lr_var(self.step())
        self.step_num += self.step_size
        return rate

    def create_lr_var(self, lr: Rate) -> Output:
        """A rate as a tensor."""
        return lr if isinstance(lr, paddle.Tensor) else paddle.full([1], float(lr), self.dtype)

    def step(self) -> Any:
        """The rate by `step_num`."""
        raise NotImplementedError

    def current(self) -> float:
        """The rate of the next step; nothing is counted."""
        return _number(copy.deepcopy(self)())

    def state_dict(self) -> Arguments:
        """What a checkpoint remembers."""
        values = {key: getattr(self, key) for key in self.kept}
        return {key: _number(value) if isinstance(value, paddle.Tensor) else value for key, value in values.items()}

    def set_dict(self, state_dict: Arguments) -> None:
        """Go on from there."""
        missing = [key for key in self.kept if key not in state_dict]
        if missing:
            what = f"{type(self).__name__}: the state has no {', '.join(missing)}"
            raise bad("UM-FLUID-007", what, "it is of another learning rate", where=user_line())
        spare = sorted(set(state_dict) - set(self.kept))
        if spare:
            warnings.warn(f"{type(self).__name__} does not know {', '.join(spare)} of this state", stacklevel=2)
        for key in self.kept:
            setattr(self, key, state_dict[key])

    set_state_dict = set_dict


class PiecewiseDecay(LearningRateDecay):
    """A rate up to each boundary, and one behind the last."""

    def __init__(self, boundaries: list[int], values: list[float], begin: int, step: int = 1, dtype: str = "float32") -> None:  # fmt: skip
        super().__init__(begin, step, dtype)
        self.boundaries, self.values = list(boundaries), list(values)

    def step(self) -> Any:
        for boundary, value in zip(self.boundaries, self.values, strict=False):
            if self.step_num < boundary:
                return value
        return self.values[-1]


class _Decayed(LearningRateDecay):
    def __init__(self, learning_rate: Rate, decay_steps: int, decay_rate: float, staircase: bool = False, begin: int = 0, step: int = 1, dtype: str = "float32") -> None:  # fmt: skip
        super().__init__(begin, step, dtype)
        self.learning_rate, self.decay_steps, self.decay_rate = _number(learning_rate), decay_steps, decay_rate
        self.staircase = staircase

    def _passed(self) -> float:
        passed = self.step_num / self.decay_steps
        return math.floor(passed) if self.staircase else passed


class NaturalExpDecay(_Decayed):
    """rate * exp(-decay_rate * step / decay_steps)."""

    def step(self) -> Any:
        return self.learning_rate * math.exp(-self.decay_rate * self._passed())


class ExponentialDecay(_Decayed):
    """rate * decay_rate ^ (step / decay_steps)."""

    def step(self) -> Any:
        return self.learning_rate * self.decay_rate ** self._passed()


class InverseTimeDecay(_Decayed):
    """rate / (1 + decay_rate * step / decay_steps)."""

    def step(self) -> Any:
        return self.learning_rate / (1 + self.decay_rate * self._passed())


class PolynomialDecay(LearningRateDecay):
    """From one rate to another in so many steps."""

    def __init__(self, learning_rate: Rate, decay_steps: int, end_learning_rate: float = 0.0001, power: float = 1.0, cycle: bool = False, begin: int = 0, step: int = 1, dtype: str = "float32") -> None:  # fmt: skip
        super().__init__(begin, step, dtype)
        self.learning_rate, self.decay_steps = _number(learning_rate), decay_steps
        self.end_learning_rate, self.power, self.cycle = end_learning_rate, power, cycle

    def step(self) -> Any:
        steps, now = self.decay_steps, self.step_num
        if self.cycle:
            steps *= max(math.ceil(now / steps), 1)
        else:
            now = min(now, steps)
        return (self.learning_rate - self.end_learning_rate) * (1 - now / steps) ** self.power + self.end_learning_rate


class CosineDecay(LearningRateDecay):
    """Half a cosine over all epochs."""

    def __init__(self, learning_rate: Rate, step_each_epoch: int, epochs: int, begin: int = 0, step: int = 1, dtype: str = "float32") -> None:  # fmt: skip
        super().__init__(begin, step, dtype)
        self.learning_rate, self.step_each_epoch, self.epochs = _number(learning_rate), step_each_epoch, epochs

    def step(self) -> Any:
        epoch = math.floor(self.step_num / self.step_each_epoch)
        return self.learning_rate * 0.5 * (math.cos(epoch * math.pi / self.epochs) + 1)


class NoamDecay(LearningRateDecay):
    """Up while it warms up, then down with the root of the step; it counts from one."""

    def __init__(self, d_model: int, warmup_steps: int, begin: int = 1, step: int = 1, dtype: str = "float32", learning_rate: Rate = 1.0) -> None:  # fmt: skip
        super().__init__(begin, step, dtype)
        self.learning_rate, self.d_model, self.warmup_steps = _number(learning_rate), d_model, warmup_steps

    def step(self) -> Any:
        now = max(self.step_num, 1)
        return self.learning_rate * self.d_model**-0.5 * min(now**-0.5, self.warmup_steps**-1.5 * now)


class LinearLrWarmup(LearningRateDecay):
    """From one rate to another in the first steps, then the one that is given, which counts from the first step on."""

    def __init__(self, learning_rate: Rate, warmup_steps: int, start_lr: float, end_lr: float, begin: int = 1, step: int = 1, dtype: str = "float32") -> None:  # fmt: skip
        super().__init__(begin, step, dtype)
        if end_lr <= start_lr:
            raise bad("UM-FLUID-002", f"LinearLrWarmup: end_lr {end_lr} is not above start_lr {start_lr}", where=user_line())  # fmt: skip
        self.learning_rate, self.warmup_steps, self.start_lr, self.end_lr = learning_rate, warmup_steps, start_lr, end_lr  # fmt: skip

    def step(self) -> Any:
        own = self.learning_rate() if isinstance(self.learning_rate, LearningRateDecay) else self.learning_rate
        if self.step_num < self.warmup_steps:
            return self.start_lr + (self.end_lr - self.start_lr) / self.warmup_steps * self.step_num
        return own


class ReduceLROnPlateau(LearningRateDecay):
    """Less when a loss does not get better any more: call `step(loss)` for each epoch."""

    kept: ClassVar[tuple[str, ...]] = ("cooldown_counter", "best_loss", "num_bad_epochs", "epoch_num", "learning_rate")

    def __init__(self, learning_rate: Rate, mode: str = "min", decay_rate: float = 0.1, patience: int = 10, verbose: bool = False, threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: float = 0, eps: float = 1e-8, dtype: str = "float32") -> None:  # fmt: skip
        super().__init__(dtype=dtype)
        if mode.lower() not in ("min", "max") or threshold_mode.lower() not in ("rel", "abs") or decay_rate >= 1.0:
            what = f"ReduceLROnPlateau(mode={mode!r}, threshold_mode={threshold_mode!r}, decay_rate={decay_rate})"
            hint = "mode is min or max, threshold_mode is rel or abs, decay_rate is below 1"
            raise bad("UM-FLUID-002", what, hint, where=user_line())
        self.mode, self.threshold_mode, self.decay_rate = mode.lower(), threshold_mode.lower(), decay_rate
        self.learning_rate = _number(learning_rate)
        self.patience, self.verbose, self.threshold, self.cooldown = patience, verbose, threshold, cooldown
        self.min_lr, self.eps = min_lr, eps
        self.cooldown_counter = self.num_bad_epochs = self.epoch_num = 0
        self.best_loss: float | None = None

    def __call__(self) -> Output:
        return self.create_lr_var(self.learning_rate)

    def step(self, loss: Any = None) -> Any:
        """Look at the loss of an epoch."""
        number = _number(loss)
        self.epoch_num += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        if self.best_loss is None or self._is_better(number, self.best_loss):
            self.best_loss, self.num_bad_epochs = number, 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            new = max(self.learning_rate * self.decay_rate, self.min_lr)
            if self.learning_rate - new > self.eps:
                if self.verbose:
                    text = f"Epoch {self.epoch_num}: reducing learning rate from {self.learning_rate} to {new}.\n"
                    sys.stdout.write(text)
                self.learning_rate = new

    def _is_better(self, loss: float, best: float) -> bool:
        by = abs(self.threshold) * (best if self.threshold_mode == "rel" else 1.0)
        return loss < best - by if self.mode == "min" else loss > best + by


class _EachEpoch(LearningRateDecay):
    """Changes when `epoch()` is called."""

    kept: ClassVar[tuple[str, ...]] = ("epoch_num", "learning_rate")

    def __init__(self, learning_rate: float) -> None:
        self.dtype = "float32"
        self.base_lr, self.epoch_num = float(learning_rate), -1
        self.learning_rate = self.base_lr
        self.epoch()

    def __call__(self) -> Output:
        return self.create_lr_var(self.learning_rate)

    def epoch(self, epoch: int | None = None) -> None:
        """The next epoch begins, or this one."""
        self.epoch_num = self.epoch_num + 1 if epoch is None else epoch
        self.learning_rate = self.get_lr()

    def get_lr(self) -> float:
        """The rate by `epoch_num`."""
        raise NotImplementedError


class StepDecay(_EachEpoch):
    """Times the decay rate every so many epochs."""

    def __init__(self, learning_rate: float, step_size: int, decay_rate: float = 0.1) -> None:
        self.step_size, self.decay_rate = step_size, decay_rate
        super().__init__(learning_rate)

    def get_lr(self) -> float:
        return self.base_lr * float(self.decay_rate) ** (self.epoch_num // self.step_size)


class MultiStepDecay(_EachEpoch):
    """Times the decay rate at each milestone."""

    def __init__(self, learning_rate: float, milestones: list[int], decay_rate: float = 0.1) -> None:
        self.milestones, self.decay_rate = list(milestones), decay_rate
        super().__init__(learning_rate)

    def get_lr(self) -> float:
        return self.base_lr * float(self.decay_rate) ** sum(each <= self.epoch_num for each in self.milestones)


class LambdaDecay(_EachEpoch):
    """Times what a function says of the epoch."""

    def __init__(self, learning_rate: float, lr_lambda: Function) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate)

    def get_lr(self) -> float:
        return self.base_lr * float(self.lr_lambda(self.epoch_num))
