"""What engines for Paddle have in common: the device, the seed of a step, gradients that have to be there, a loss that is no number. An adapter, for Paddle."""

from __future__ import annotations

import math

import paddle

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.train.config.values import Device


def use(device: Device) -> None:
    """Compute on this kind of device from now on."""
    try:
        paddle.set_device(device.value)
    except (ValueError, RuntimeError) as error:
        raise UmiakError(
            Problem(
                code="UM-TRAIN-024",
                what=f"device {device.value} can't be used here",
                why=str(error).strip().splitlines()[-1],
                hint="write `device: cpu`, or install the build of PaddlePaddle for it",
            ),
            exit_status=Exit.REFUSED,
        ) from error


def seed_of_step(seed: int, step: int, rank: int) -> int:
    """What is random in a step depends on the seed, the step and the trainer alone: so a resumed run goes the same way."""
    return (seed * 1_000_003 + step) * 4099 + rank


DIVERGED_HINT = (
    "use a smaller learning rate, or clip gradients (`clip_value`, `clip_norm`); the latest checkpoint is not affected"
)


def not_finite() -> UmiakError:
    """Predictions that a metric can do nothing with."""
    what = "the model's predictions are not finite numbers"
    return UmiakError(Problem(code="UM-TRAIN-014", what=what, hint=DIVERGED_HINT), exit_status=Exit.JOB_FAILED)


def diverged(loss: float, step: int) -> UmiakError:
    """The loss is no number."""
    return UmiakError(
        Problem(
            code="UM-TRAIN-014",
            what=f"the loss is {'NaN' if math.isnan(loss) else loss} at step {step}",
            hint=DIVERGED_HINT,
        ),
        exit_status=Exit.JOB_FAILED,
    )


def nothing_learned(file: str) -> UmiakError:
    """No parameter got a gradient."""
    return UmiakError(
        Problem(
            code="UM-TRAIN-063",
            what="the loss depends on no parameter of the model, so nothing would be learned",
            why="none of them received a gradient in the first batch",
            hint="look for detach(), numpy(), no_grad() or a constant between the parameters and the loss",
            where=file,
        ),
        exit_status=Exit.JOB_FAILED,
    )
