"""`fluid.contrib.mixed_precision`: losses are scaled as 1.8 does it; everything is computed in float32, and that is said. A program."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from umiak.fluid.record import naming
from umiak.fluid.record.current import default_startup_program, program_guard
from umiak.fluid.record.program import OPTIMIZE
from umiak.fluid.record.recording import append_plain, apply, create_state
from umiak.fluid.record.remarks import left_out

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.fluid.arguments import AnyProgram, Input, Inputs, Names, Output, Outputs, Pairs

WHITE = frozenset({"conv2d", "matmul", "mul"})
BLACK = frozenset(
    {"exp", "square", "log", "mean", "sum", "cos_sim", "softmax", "softmax_with_cross_entropy"}
    | {"sigmoid_cross_entropy_with_logits", "cross_entropy", "cross_entropy2"}
)


class AutoMixedPrecisionLists:
    """Which operations 1.8 computed in float16, and which not."""

    def __init__(self, custom_white_list: Iterable[str] | None = None, custom_black_list: Iterable[str] | None = None, custom_black_varnames: Iterable[str] | None = None) -> None:  # fmt: skip
        white, black = set(custom_white_list or ()), set(custom_black_list or ())
        if white & black:
            raise ValueError(f"{', '.join(sorted(white & black))}: in the white list and in the black list")
        self.white_list, self.black_list = (WHITE | white) - black, (BLACK | black) - white
        self.black_varnames = set(custom_black_varnames) if custom_black_varnames is not None else None


class OptimizerWithMixedPrecision:
    """An optimizer of a scaled loss: gradients are divided again, and zeros if one of them is not finite."""

    def __init__(self, optimizer: Any, amp_lists: AutoMixedPrecisionLists, first: float, settings: dict[str, float] | None) -> None:  # fmt: skip
        self._optimizer, self._amp_lists, self._settings = optimizer, amp_lists, settings
        self._scaled: Any = None
        self._scaling = create_state(naming.generate("loss_scaling"), [1], "float32", float(first))
        names = ("num_good_steps", "num_bad_steps") if settings else ()
        self._counts = [create_state(naming.generate(name), [1], "int32", 0) for name in names]

    def get_loss_scaling(self) -> Output:
        """The factor."""
        return self._scaling

    def get_scaled_loss(self) -> Output:
        """The loss times the factor."""
        return self._scaled

    def backward(self, loss: Input, startup_program: AnyProgram = None, parameter_list: Inputs = None, no_grad_set: Names = None, callbacks: object = None) -> Pairs:  # fmt: skip
        """The gradients of the scaled loss, divided again."""
        what = "contrib.mixed_precision: everything is computed in float32, the lists of operations have no effect"
        warnings.warn(what, stacklevel=2)
        with program_guard(loss.block.program, startup_program or default_startup_program()):
            self._scaled = loss * self._scaling
            pairs = self._optimizer.backward(self._scaled, startup_program, parameter_list, no_grad_set, callbacks)
            return [
                (parameter, apply("divided", {"gradient": gradient, "scaling": self._scaling}, role=OPTIMIZE))
                for parameter, gradient in pairs
            ]

    def apply_gradients(self, params_grads: Pairs) -> Outputs:
        """What the optimizer does with them, and the next factor."""
        if self._settings:
            gradients = [gradient for _, gradient in params_grads]
            arguments = {"gradients": gradients, "scaling": self._scaling, "counts": self._counts, **self._settings}
            writes = [*gradients, self._scaling, *self._counts]
            append_plain("update_loss_scaling", arguments, writes, role=OPTIMIZE)
        return self._optimizer.apply_gradients(params_grads)  # type: ignore[no-any-return]

    def minimize(self, loss: Input, startup_program: AnyProgram = None, parameter_list: Inputs = None, no_grad_set: Names = None) -> Output:  # fmt: skip
        """Let the program learn."""
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        with program_guard(loss.block.program, startup_program or default_startup_program()):
            return self.apply_gradients(pairs), pairs


def decorate(optimizer: Any, amp_lists: AutoMixedPrecisionLists | None = None, init_loss_scaling: float = 2**15, incr_every_n_steps: int = 1000, decr_every_n_nan_or_inf: int = 2, incr_ratio: float = 2.0, decr_ratio: float = 0.8, use_dynamic_loss_scaling: bool = True) -> OptimizerWithMixedPrecision:  # fmt: skip
    """An optimizer with a scaled loss."""
    settings = {
        "grows_after": incr_every_n_steps,
        "shrinks_after": decr_every_n_nan_or_inf,
        "grows_by": incr_ratio,
        "shrinks_by": decr_ratio,
    }
    left_out("contrib.mixed_precision.decorate", amp_lists=amp_lists)
    lists = amp_lists or AutoMixedPrecisionLists()
    return OptimizerWithMixedPrecision(
        optimizer, lists, init_loss_scaling, settings if use_dynamic_loss_scaling else None
    )
