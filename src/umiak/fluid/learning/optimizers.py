"""Optimizers of `fluid.optimizer`: `minimize` records gradients, clips, penalties and one operation for each parameter. A program.

What they keep (moments, powers of beta, the learning rate) are variables of the program with 1.8's names, so that
`save_persistables` saves them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from umiak.fluid.learning.at_once import LearningAtOnce
from umiak.fluid.learning.gradients import append_backward
from umiak.fluid.learning.penalties import clipped, regularized
from umiak.fluid.record import naming
from umiak.fluid.record.current import default_startup_program, in_dygraph_mode, program_guard
from umiak.fluid.record.program import OPTIMIZE, Variable
from umiak.fluid.record.recording import append_plain, create_state

if TYPE_CHECKING:
    from umiak.fluid.arguments import (
        AnyProgram,
        Arguments,
        Clip,
        Input,
        Inputs,
        Names,
        Output,
        Outputs,
        Pairs,
        Penalty,
        Rate,
    )


class FluidOptimizer(LearningAtOnce):
    """What all of them share. A class below says its operation, its states and its settings."""

    def __init__(
        self,
        learning_rate: Rate,
        settings: Arguments,
        parameter_list: Inputs = None,
        regularization: Penalty = None,
        grad_clip: Clip = None,
        name: str | None = None,
    ) -> None:
        self._learning_rate, self._settings = learning_rate, settings
        self._parameters, self.regularization, self._clip = parameter_list, regularization, grad_clip
        self._name = name
        self._rates: dict[int, tuple[Any, Variable]] = {}
        self._begin()

    def minimize(self, loss: Input, startup_program: AnyProgram = None, parameter_list: Inputs = None, no_grad_set: Names = None, grad_clip: Clip = None) -> Output:  # fmt: skip
        """Let the program learn: returns the operations, and pairs of parameters and gradients."""
        if grad_clip is not None:
            self._clip = grad_clip
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        if in_dygraph_mode():
            return self.apply_at_once(pairs), pairs
        with program_guard(loss.block.program, startup_program or default_startup_program()):
            return self.apply_gradients(pairs), pairs

    def backward(self, loss: Input, startup_program: AnyProgram = None, parameter_list: Inputs = None, no_grad_set: Names = None, callbacks: object = None) -> Output:  # fmt: skip
        """The gradients alone."""
        if in_dygraph_mode():
            return self.gradients_at_once(parameter_list, no_grad_set)
        with program_guard(loss.block.program, startup_program or default_startup_program()):
            return append_backward(loss, parameter_list or self._parameters, no_grad_set, callbacks)

    def apply_gradients(self, params_grads: Pairs) -> Outputs:
        """Clips, penalties and the operations that change parameters."""
        if in_dygraph_mode():
            return self.apply_at_once(params_grads)
        pairs = sorted(params_grads, key=lambda pair: str(pair[0].name))
        pairs = regularized(clipped(pairs, self._clip), self.regularization)
        rate = self.rate_of(pairs[0][0].block.program)
        for parameter, gradient in pairs:
            self._append(parameter, gradient, rate)
        return [each for each in pairs[0][0].block.program.global_block().ops if each.type == self.type]

    def apply_optimize(self, loss: Input, startup_program: AnyProgram, params_grads: Pairs) -> Outputs:
        """The same, for a loss of another program."""
        if in_dygraph_mode():
            return self.apply_at_once(params_grads)
        with program_guard(loss.block.program, startup_program or default_startup_program()):
            return self.apply_gradients(params_grads)

    def rate_of(self, program: AnyProgram) -> Variable:
        """The variable with the learning rate."""
        if isinstance(self._learning_rate, Variable):
            return self._learning_rate
        known = self._rates.get(program.number)
        if known is None:
            rate = create_state(naming.generate("learning_rate"), [1], "float32", float(self._learning_rate))
            known = self._rates[program.number] = (program, rate)
        return known[1]

    def _global_learning_rate(self, program: AnyProgram = None) -> Output:
        """As some programs ask for it."""
        known = [rate for owner, rate in self._rates.values() if program is None or owner is program]
        return self._learning_rate if isinstance(self._learning_rate, Variable) else (known[0] if known else None)

    def _append(self, parameter: Input, gradient: Input, rate: Variable) -> None:
        states = {}
        for argument, (name, first) in self.states.items():
            shape = [1] if argument in self.scalars else parameter.shape
            value = self._settings[first] if isinstance(first, str) else first
            prefix = f"{self._name}_" if self._name else ""
            full = naming.generate(f"{parameter.name}_{prefix}{name}")
            states[argument] = create_state(
                full, shape, "float32" if argument in self.scalars else parameter.dtype, value
            )
        arguments = {"parameter": parameter, "gradient": gradient, **states}
        if self.rated:
            arguments |= {"rate": rate, "factor": float(parameter.optimize_attr["learning_rate"])}
        append_plain(
            self.type, {**arguments, **self._settings_of(parameter)}, [parameter, *states.values()], role=OPTIMIZE
        )


class SGDOptimizer(FluidOptimizer):
    """Against the gradient."""

    type = "sgd"

    def __init__(self, learning_rate: Rate, parameter_list: Inputs = None, regularization: Penalty = None, grad_clip: Clip = None, name: str | None = None) -> None:  # fmt: skip
        super().__init__(learning_rate, {}, parameter_list, regularization, grad_clip, name)


class MomentumOptimizer(FluidOptimizer):
    """With a velocity."""

    type = "momentum"
    states: ClassVar[dict[str, tuple[str, str | float]]] = {"velocity": ("velocity", 0.0)}

    def __init__(self, learning_rate: Rate, momentum: float, parameter_list: Inputs = None, use_nesterov: bool = False, regularization: Penalty = None, grad_clip: Clip = None, name: str | None = None) -> None:  # fmt: skip
        super().__init__(
            learning_rate, {"mu": momentum, "nesterov": use_nesterov}, parameter_list, regularization, grad_clip, name
        )


class LarsMomentumOptimizer(MomentumOptimizer):
    """With a rate for each parameter, by its length and that of its gradient."""

    type = "lars_momentum"

    def __init__(self, learning_rate: Rate, momentum: float, lars_coeff: float = 0.001, lars_weight_decay: float = 0.0005, parameter_list: Inputs = None, regularization: Penalty = None, grad_clip: Clip = None, name: str | None = None) -> None:  # fmt: skip
        super().__init__(learning_rate, momentum, parameter_list, False, regularization, grad_clip, name)
        self._settings = {"mu": momentum, "lars_coeff": lars_coeff, "lars_weight_decay": lars_weight_decay}


class AdagradOptimizer(FluidOptimizer):
    """Over the square root of the sum of squares."""

    type = "adagrad"
    states: ClassVar[dict[str, tuple[str, str | float]]] = {"moment": ("moment", "initial")}

    def __init__(self, learning_rate: Rate, epsilon: float = 1e-06, parameter_list: Inputs = None, regularization: Penalty = None, grad_clip: Clip = None, name: str | None = None, initial_accumulator_value: float = 0.0) -> None:  # fmt: skip
        settings = {"epsilon": epsilon, "initial": initial_accumulator_value}
        super().__init__(learning_rate, settings, parameter_list, regularization, grad_clip, name)


class DecayedAdagradOptimizer(FluidOptimizer):
    """Adagrad whose sum decays."""

    type = "decayed_adagrad"
    states: ClassVar[dict[str, tuple[str, str | float]]] = {"moment": ("moment", 0.0)}

    def __init__(self, learning_rate: Rate, decay: float = 0.95, epsilon: float = 1e-06, parameter_list: Inputs = None, regularization: Penalty = None, grad_clip: Clip = None, name: str | None = None) -> None:  # fmt: skip
        super().__init__(
            learning_rate, {"decay": decay, "epsilon": epsilon}, parameter_list, regularization, grad_clip, name
        )


POWERS: dict[str, tuple[str, str | float]] = {
    "beta1_power": ("beta1_pow_acc", "beta1"),
    "beta2_power": ("beta2_pow_acc", "beta2"),
}


class AdamOptimizer(FluidOptimizer):
    """With the means of the gradient and of its square."""

    type = "adam"
    states: ClassVar[dict[str, tuple[str, str | float]]] = {
        "moment1": ("moment1", 0.0),
        "moment2": ("moment2", 0.0),
        **POWERS,
    }
    scalars = ("beta1_power", "beta2_power")

    def __init__(self, learning_rate: Rate = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08, parameter_list: Inputs = None, regularization: Penalty = None, grad_clip: Clip = None, name: str | None = None, lazy_mode: bool = False) -> None:  # fmt: skip
        settings = {"beta1": float(beta1), "beta2": float(beta2), "epsilon": epsilon, "lazy_mode": lazy_mode}
        super().__init__(learning_rate, settings, parameter_list, regularization, grad_clip, name)


class AdamaxOptimizer(FluidOptimizer):
    """Adam with the largest gradient in place of the mean of squares."""

    type = "adamax"
    states: ClassVar[dict[str, tuple[str, str | float]]] = {"moment": ("moment", 0.0), "inf_norm": ("inf_norm", 0.0), "beta1_power": POWERS["beta1_power"]}  # fmt: skip
    scalars = ("beta1_power",)

    def __init__(self, learning_rate: Rate = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08, parameter_list: Inputs = None, regularization: Penalty = None, grad_clip: Clip = None, name: str | None = None) -> None:  # fmt: skip
        settings = {"beta1": float(beta1), "beta2": float(beta2), "epsilon": epsilon}
        super().__init__(learning_rate, settings, parameter_list, regularization, grad_clip, name)


class AdadeltaOptimizer(FluidOptimizer):
    """By the means of squares of gradients and of updates."""

    type = "adadelta"
    states: ClassVar[dict[str, tuple[str, str | float]]] = {"squares": ("_avg_squared_grad", 0.0), "updates": ("_avg_squared_update", 0.0)}  # fmt: skip
    rated = False

    def __init__(self, learning_rate: Rate, epsilon: float = 1e-06, rho: float = 0.95, parameter_list: Inputs = None, regularization: Penalty = None, grad_clip: Clip = None, name: str | None = None) -> None:  # fmt: skip
        super().__init__(
            learning_rate, {"epsilon": epsilon, "rho": rho}, parameter_list, regularization, grad_clip, name
        )


class RMSPropOptimizer(FluidOptimizer):
    """Over the root of the mean of squares."""

    type = "rmsprop"
    states: ClassVar[dict[str, tuple[str, str | float]]] = {"mean_square": ("mean_square", 0.0), "velocity": ("momentum", 0.0), "mean_gradient": ("mean_grad", 0.0)}  # fmt: skip

    def __init__(self, learning_rate: Rate, rho: float = 0.95, epsilon: float = 1e-06, momentum: float = 0.0, centered: bool = False, parameter_list: Inputs = None, regularization: Penalty = None, grad_clip: Clip = None, name: str | None = None) -> None:  # fmt: skip
        settings = {"epsilon": epsilon, "rho": rho, "mu": momentum, "centered": centered}
        super().__init__(learning_rate, settings, parameter_list, regularization, grad_clip, name)


class FtrlOptimizer(FluidOptimizer):
    """Follow the regularized leader."""

    type = "ftrl"
    states: ClassVar[dict[str, tuple[str, str | float]]] = {"squared": ("squared", 0.0), "linear": ("linear", 0.0)}

    def __init__(self, learning_rate: Rate, l1: float = 0.0, l2: float = 0.0, lr_power: float = -0.5, parameter_list: Inputs = None, regularization: Penalty = None, grad_clip: Clip = None, name: str | None = None) -> None:  # fmt: skip
        super().__init__(
            learning_rate, {"l1": l1, "l2": l2, "power": lr_power}, parameter_list, regularization, grad_clip, name
        )


class LambOptimizer(FluidOptimizer):
    """Adam with a rate for each parameter, by its length."""

    type = "lamb"
    states: ClassVar[dict[str, tuple[str, str | float]]] = AdamOptimizer.states
    scalars = AdamOptimizer.scalars

    def __init__(self, learning_rate: Rate = 0.001, lamb_weight_decay: float = 0.01, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-06, parameter_list: Inputs = None, regularization: Penalty = None, grad_clip: Clip = None, exclude_from_weight_decay_fn: Any = None, name: str | None = None) -> None:  # fmt: skip
        self._without_decay = exclude_from_weight_decay_fn
        settings = {"beta1": float(beta1), "beta2": float(beta2), "epsilon": epsilon, "weight_decay": lamb_weight_decay}
        super().__init__(learning_rate, settings, parameter_list, regularization, grad_clip, name)

    def _settings_of(self, parameter: Input) -> Arguments:
        settings = super()._settings_of(parameter)
        without = self._without_decay is not None and self._without_decay(parameter)
        return {**settings, "weight_decay": 0.0} if without else settings
