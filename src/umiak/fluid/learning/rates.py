"""Learning rates that change: each counts the runs of its program in `@LR_DECAY_COUNTER@`, as in 1.8. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.fluid.learning import dynamic_rates
from umiak.fluid.record.current import default_main_program, in_dygraph_mode
from umiak.fluid.record.program import OPTIMIZE, Variable
from umiak.fluid.record.recording import append_plain, apply, create_state

if TYPE_CHECKING:
    from umiak.fluid.arguments import Output, Outputs, Rate

COUNTER = "@LR_DECAY_COUNTER@"


def autoincreased_step_counter(counter_name: str | None = None, begin: int = 1, step: int = 1) -> Variable:
    """A counter of runs: its value in the first one is ``begin``."""
    name = counter_name or "@STEP_COUNTER@"
    known = default_main_program().global_block().has_var(name)
    counter = create_state(name, [1], "int64", begin - step)
    if not known:
        append_plain("count_steps", {"counter": counter, "step": step}, [counter], role=OPTIMIZE, first=True)
    return counter


def decay_step_counter(begin: int = 0) -> Output:
    """The counter of learning rates, as float32."""
    return apply("cast", {"x": autoincreased_step_counter(COUNTER, begin, 1), "dtype": "float32"}, role=OPTIMIZE)


def _rate(kind: str, settings: Outputs, begin: int = 0) -> Output:
    counter = autoincreased_step_counter(COUNTER, begin, 1)
    rate = apply(
        "learning_rate", {"counter": counter, "kind": kind, "settings": settings}, name="learning_rate", role=OPTIMIZE
    )
    rate.persistable = True
    return rate


def exponential_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Output:
    """rate * decay_rate ^ (step / decay_steps)."""
    if in_dygraph_mode():
        return dynamic_rates.ExponentialDecay(learning_rate, decay_steps, decay_rate, staircase)
    return _rate("exponential", [learning_rate, decay_steps, decay_rate, staircase])


def natural_exp_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Output:
    """rate * exp(-decay_rate * step / decay_steps)."""
    if in_dygraph_mode():
        return dynamic_rates.NaturalExpDecay(learning_rate, decay_steps, decay_rate, staircase)
    return _rate("natural_exp", [learning_rate, decay_steps, decay_rate, staircase])


def inverse_time_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Output:
    """rate / (1 + decay_rate * step / decay_steps)."""
    if in_dygraph_mode():
        return dynamic_rates.InverseTimeDecay(learning_rate, decay_steps, decay_rate, staircase)
    return _rate("inverse_time", [learning_rate, decay_steps, decay_rate, staircase])


def polynomial_decay(learning_rate: float, decay_steps: int, end_learning_rate: float = 0.0001, power: float = 1.0, cycle: bool = False) -> Output:  # fmt: skip
    """From one rate to another in so many steps."""
    if in_dygraph_mode():
        return dynamic_rates.PolynomialDecay(learning_rate, decay_steps, end_learning_rate, power, cycle)
    return _rate("polynomial", [learning_rate, decay_steps, end_learning_rate, power, cycle])


def piecewise_decay(boundaries: list[int], values: list[float]) -> Output:
    """A rate up to each boundary, and one behind the last."""
    if in_dygraph_mode():
        return dynamic_rates.PiecewiseDecay(boundaries, values, 0)
    if len(values) != len(boundaries) + 1:
        raise ValueError(
            f"piecewise_decay takes one value more than boundaries, got {len(values)} and {len(boundaries)}"
        )
    return _rate("piecewise", [list(boundaries), list(values)])


def noam_decay(d_model: int, warmup_steps: int, learning_rate: float = 1.0) -> Output:
    """Up while it warms up, then down with the root of the step; it counts from one."""
    if in_dygraph_mode():
        return dynamic_rates.NoamDecay(d_model, warmup_steps, learning_rate=learning_rate)
    return _rate("noam", [d_model, warmup_steps, learning_rate], begin=1)


def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> Output:
    """Half a cosine over all epochs."""
    if in_dygraph_mode():
        return dynamic_rates.CosineDecay(learning_rate, step_each_epoch, epochs)
    return _rate("cosine", [learning_rate, step_each_epoch, epochs])


def linear_lr_warmup(learning_rate: Rate, warmup_steps: int, start_lr: float, end_lr: float) -> Output:
    """From one rate to another in the first steps, then the one that is given."""
    if in_dygraph_mode():
        return dynamic_rates.LinearLrWarmup(learning_rate, warmup_steps, start_lr, end_lr)
    counter = autoincreased_step_counter(COUNTER, 0, 1)
    arguments = {
        "counter": counter,
        "rate": learning_rate,
        "warmup_steps": warmup_steps,
        "start": start_lr,
        "end": end_lr,
    }
    rate = apply("warmup", arguments, name="learning_rate_warmup", role=OPTIMIZE)
    rate.persistable = True
    return rate
