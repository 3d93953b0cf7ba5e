"""What an optimizer does inside `fluid.dygraph.guard`: it changes parameters by the gradients that `backward` has left on them. A program.

The kernels, states and names are those of recorded programs.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import paddle

from umiak.fluid.kernels.registry import KERNELS
from umiak.fluid.learning.dynamic_rates import LearningRateDecay
from umiak.fluid.learning.penalties import clipped_at_once, regularized
from umiak.fluid.record import naming
from umiak.fluid.record.current import in_dygraph_mode
from umiak.fluid.record.problems import bad
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Arguments, Clip, Inputs, Names, Output, Outputs, Pairs, Penalty, Rate

SCHEDULE, STEP = "LR_Scheduler", "global_step"
"""Where a state has that of the learning rate: in 1.8, and before."""


class LearningAtOnce:
    """The part of an optimizer that needs no program."""

    type: ClassVar[str] = ""
    states: ClassVar[dict[str, tuple[str, str | float]]] = {}
    """By the argument of the operation: the name in the program, and the first value, or the attribute that has it."""
    scalars: ClassVar[tuple[str, ...]] = ()
    """States of one element."""
    rated: ClassVar[bool] = True
    _learning_rate: Rate
    _settings: Arguments
    _parameters: Inputs
    _clip: Clip
    _name: str | None
    regularization: Penalty

    def _begin(self) -> None:
        self._states: dict[str, dict[str, Any]] = {}
        """The states of each parameter, by the kernel's arguments."""
        self._held: Arguments = {}
        """What was loaded before the states were there."""
        self._used: float | None = None
        if in_dygraph_mode() and self._parameters is None:
            what = f"{type(self).__name__} has no parameters to learn"
            raise bad("UM-FLUID-001", what, "give parameter_list=model.parameters()", where=user_line())

    def gradients_at_once(self, parameter_list: Inputs = None, no_grad_set: Names = None) -> Pairs:
        """The gradients that are there, as pairs."""
        left_out = {each if isinstance(each, str) else each.name for each in no_grad_set or ()}
        pairs = []
        for parameter in parameter_list or self._parameters:
            stays = parameter.stop_gradient or parameter.name in left_out
            gradient = None if stays else parameter._grad_ivar()  # noqa: SLF001 - 1.8's own name
            if gradient is not None:
                pairs.append((parameter, gradient))
        if not pairs:
            warnings.warn("minimize: no parameter has a gradient; call loss.backward() before", stacklevel=3)
        return pairs

    def apply_at_once(self, pairs: Pairs) -> Outputs:
        """Clips, penalties, then the change of each parameter."""
        with paddle.no_grad():
            if self._clip is not None or self.regularization is not None or any(_own(each) for each, _ in pairs):
                pairs = [(parameter, dense(parameter, gradient)) for parameter, gradient in pairs]
                pairs = regularized(clipped_at_once(pairs, self._clip), self.regularization)
            rate = self._rate_at_once() if pairs else None
            function = KERNELS[self.type].function if pairs else None
            for parameter, gradient in pairs:
                arguments = {"parameter": parameter, "gradient": gradient, **self._states_of(parameter)}
                if self.rated:
                    arguments |= {"rate": rate, "factor": float(parameter.optimize_attr["learning_rate"])}
                assert function is not None
                function(**arguments, **self._settings_of(parameter))
        return []

    def _settings_of(self, parameter: Any) -> Arguments:
        return {name: each for name, each in self._settings.items() if not name.startswith("initial")}

    def _rate_at_once(self) -> Output:
        given = self._learning_rate
        rate = given() if isinstance(given, LearningRateDecay) else given
        if not isinstance(rate, paddle.Tensor):
            self._used = float(rate)
            return paddle.full([1], self._used, "float32")
        self._used = float(rate.item())
        return rate

    def _states_of(self, parameter: Any) -> Arguments:
        known = self._states.get(parameter.name)
        if known is None:
            known = self._states[parameter.name] = {}
            for argument, (name, first) in self.states.items():
                shape = [1] if argument in self.scalars else parameter.shape
                dtype = "float32" if argument in self.scalars else parameter.dtype
                value = self._settings[first] if isinstance(first, str) else first
                state = paddle.full(shape, value, dtype)
                prefix = f"{self._name}_" if self._name else ""
                state.name = naming.generate(f"{parameter.name}_{prefix}{name}")
                self._load(state)
                known[argument] = state
        return known

    def _load(self, state: Any) -> None:
        if not self._held:
            return
        if state.name not in self._held:
            known = ", ".join(sorted(self._held)[:3])
            what = f"set_dict: the state has no {state.name}; it has {known}, ..."
            hint = "make model and optimizer in the same order as where it was saved"
            raise bad("UM-FLUID-007", what, hint, where=user_line())
        value = self._held[state.name]
        state.set_value(value if isinstance(value, paddle.Tensor) else np.asarray(value).reshape(state.shape))

    # ---- as programs call it

    def clear_gradients(self) -> None:
        """Gradients of its parameters are zero again."""
        for parameter in self._parameters or []:
            if not parameter.stop_gradient:
                parameter.clear_gradient()

    def current_step_lr(self) -> float:
        """The rate of the last step; before the first one, its own."""
        if self._used is not None:
            return self._used
        given = self._learning_rate
        return given.current() if isinstance(given, LearningRateDecay) else float(np.asarray(given).reshape(-1)[0])

    def set_lr(self, value: Rate) -> None:
        """Another rate from the next step on."""
        if isinstance(self._learning_rate, LearningRateDecay):
            what = f"set_lr: the rate is that of {type(self._learning_rate).__name__}"
            raise bad("UM-FLUID-001", what, "use a number as learning_rate", where=user_line())
        self._learning_rate = self._used = float(np.asarray(value).reshape(-1)[0])

    def state_dict(self) -> Arguments:
        """Its states by their names, and that of the learning rate."""
        state_dict = {state.name: state for states in self._states.values() for state in states.values()}
        if isinstance(self._learning_rate, LearningRateDecay):
            state_dict[SCHEDULE] = self._learning_rate.state_dict()
        return state_dict

    def set_dict(self, state_dict: Arguments) -> None:
        """Go on from a state; states that are not there yet are filled when they are made."""
        schedule = self._learning_rate
        if isinstance(schedule, LearningRateDecay):
            if SCHEDULE in state_dict:
                schedule.set_dict(state_dict[SCHEDULE])
            elif STEP in state_dict:
                schedule.step_num = int(np.asarray(state_dict[STEP]).reshape(-1)[0])
            else:
                what = f"set_dict: the state has none of the learning rate {type(schedule).__name__}"
                raise bad("UM-FLUID-007", what, "it is of an optimizer with a rate that is a number", where=user_line())
        left_out = (SCHEDULE, STEP, "StructuredToParameterName@@")
        self._held = {name: value for name, value in state_dict.items() if name not in left_out}
        for states in self._states.values():
            for state in states.values():
                self._load(state)

    set_state_dict = set_dict


def _own(parameter: Any) -> bool:
    """Whether a parameter has a penalty or a clip of its own."""
    return getattr(parameter, "regularizer", None) is not None or getattr(parameter, "gradient_clip_attr", None) is not None  # fmt: skip


def dense(parameter: Any, gradient: Any) -> Any:
    """A gradient of all rows, from one that has only those that were looked up."""
    if not gradient.is_selected_rows():
        return gradient
    values, rows = parameter.gradient()
    zeros = paddle.zeros(parameter.shape, parameter.dtype)
    return paddle.index_add(zeros, paddle.to_tensor(np.asarray(rows, "int64")), 0, paddle.to_tensor(values))
