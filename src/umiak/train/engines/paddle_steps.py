"""What engines for Paddle have in common: the device, the seed of a step, tensors and arrays, gradients that have to be there, a loss that is no number. An adapter, for Paddle."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import paddle

from umiak.core.problem import Exit, UmiakError
from umiak.train.config.values import Device

if TYPE_CHECKING:
    from typing import Any

    from umiak.data.array_types import AnyArray

HALVES = (paddle.float16, paddle.bfloat16)
"""Kinds of numbers that arrays have as float32."""


def use(device: Device) -> None:
    """Compute on this kind of device from now on."""
    try:
        paddle.set_device(device.value)
    except (ValueError, RuntimeError) as error:
        raise UmiakError.refused(
            "UM-TRAIN-024",
            f"device {device.value} can't be used here",
            why=str(error).strip().splitlines()[-1],
            hint="write `device: cpu`, or install the build of PaddlePaddle for it",
        ) from error


def seed_of_step(seed: int, step: int, rank: int) -> int:
    """What is random in a step depends on the seed, the step and the trainer alone: so a resumed run goes the same way."""
    return (seed * 1_000_003 + step) * 4099 + rank


def array_of(tensor: paddle.Tensor) -> AnyArray:
    """A tensor's numbers; a copy."""
    array: AnyArray = (tensor.astype("float32") if tensor.dtype in HALVES else tensor).numpy()
    return array


def tensors_of(item: Any) -> Any:
    """The same with tensors in the place of arrays, however deep in lists and dictionaries."""
    if isinstance(item, np.ndarray):
        return paddle.to_tensor(item)
    if isinstance(item, (list, tuple)):
        return [tensors_of(each) for each in item]
    return {name: tensors_of(each) for name, each in item.items()} if isinstance(item, dict) else item


DIVERGED_HINT = (
    "use a smaller learning rate, or clip gradients (`clip_value`, `clip_norm`); the latest checkpoint is not affected"
)


def not_finite() -> UmiakError:
    """Predictions that a metric can do nothing with."""
    what = "the model's predictions are not finite numbers"
    return UmiakError.of("UM-TRAIN-014", what, hint=DIVERGED_HINT, exit_status=Exit.JOB_FAILED)


def diverged(loss: float, step: int) -> UmiakError:
    """The loss is no number."""
    return UmiakError.of(
        "UM-TRAIN-014",
        f"the loss is {'NaN' if math.isnan(loss) else loss} at step {step}",
        hint=DIVERGED_HINT,
        exit_status=Exit.JOB_FAILED,
    )


def nothing_learned(file: str) -> UmiakError:
    """No parameter got a gradient."""
    return UmiakError.of(
        "UM-TRAIN-063",
        "the loss depends on no parameter of the model, so nothing would be learned",
        why="none of them received a gradient in the first batch",
        hint="look for detach(), numpy(), no_grad() or a constant between the parameters and the loss",
        where=file,
        exit_status=Exit.JOB_FAILED,
    )
