"""Optimizers around or beside another: lookahead, recomputation, DGC as momentum, private gradients. A program."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

from umiak.fluid.learning.optimizers import FluidOptimizer, MomentumOptimizer
from umiak.fluid.record.current import default_startup_program, program_guard
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import FORWARD, OPTIMIZE, Variable
from umiak.fluid.record.recording import append_plain, create_state
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import AnyProgram, Clip, Input, Inputs, Names, Output, Outputs, Pairs, Penalty, Rate


class LookaheadOptimizer:
    """Every k runs the parameters go a part of the way from where they were k runs ago to where they are."""

    def __init__(self, inner_optimizer: Any, alpha: float = 0.5, k: int = 5) -> None:
        if not 0.0 <= alpha <= 1.0 or not isinstance(k, int) or k < 1:
            what = f"LookaheadOptimizer takes alpha between 0 and 1 and k of 1 at least, got alpha={alpha}, k={k}"
            raise bad("UM-FLUID-001", what, where=user_line())
        self.inner_optimizer, self.alpha, self.k, self.type = inner_optimizer, float(alpha), k, "lookahead"

    def minimize(self, loss: Input, startup_program: AnyProgram = None) -> Output:
        """As the inner optimizer, and the steps back."""
        outcome = self.inner_optimizer.minimize(loss, startup_program=startup_program)
        program, startup = loss.block.program, startup_program or default_startup_program()
        with program_guard(program, startup):
            step = create_state("lookahead_step", [1], "int32", 0)
            append_plain("count_steps", {"counter": step, "step": 1}, [step], role=OPTIMIZE)
            for fast in program.global_block().all_parameters():
                slow = self._beside(fast, startup)
                arguments = {"fast": fast, "slow": slow, "step": step, "alpha": self.alpha, "k": self.k}
                append_plain("lookahead", arguments, [fast, slow], role=OPTIMIZE)
        return outcome

    @staticmethod
    def _beside(fast: Any, startup: Any) -> Variable:
        """A variable that begins as the parameter does."""
        slow = Variable(fast.block, f"{fast.name}@SLOW", fast.shape, fast.dtype, persistable=True, stop_gradient=True)
        fast.block.add(slow)
        block = startup.global_block()
        own = block.add(slow.copy_into(block))
        append_plain("assign", {"input": block.var(fast.name)}, [own], role=FORWARD, block=block)
        return slow


class RecomputeOptimizer:
    """Another optimizer: nothing is computed twice here, so the checkpoints save no memory."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._checkpoints: Outputs | None = None

    def _set_checkpoints(self, checkpoints: Outputs) -> None:
        self._checkpoints = checkpoints

    def load(self, stat_dict: object) -> None:
        """Refused, as in 1.8."""
        raise NotImplementedError("RecomputeOptimizer.load was not there in 1.8 either")

    def backward(self, loss: Input, startup_program: AnyProgram = None, parameter_list: Inputs = None, no_grad_set: Names = None, callbacks: object = None) -> Output:  # fmt: skip
        """The gradients of the other optimizer."""
        warnings.warn(
            "optimizer.RecomputeOptimizer: nothing is recomputed, its checkpoints have no effect", stacklevel=2
        )
        return self._optimizer.backward(loss, startup_program, parameter_list, no_grad_set, callbacks)

    def apply_gradients(self, params_grads: Pairs) -> Outputs:
        """What the other optimizer does with gradients."""
        return self._optimizer.apply_gradients(params_grads)  # type: ignore[no-any-return]

    def apply_optimize(self, loss: Input, startup_program: AnyProgram, params_grads: Pairs) -> Outputs:
        """The same, for a loss of another program."""
        return self._optimizer.apply_optimize(loss, startup_program, params_grads)  # type: ignore[no-any-return]

    def minimize(self, loss: Input, startup_program: AnyProgram = None, parameter_list: Inputs = None, no_grad_set: Names = None) -> Output:  # fmt: skip
        """As the other optimizer."""
        if self._checkpoints is None:
            raise bad("UM-FLUID-001", "RecomputeOptimizer.minimize comes behind _set_checkpoints", where=user_line())
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, pairs), pairs


class DGCMomentumOptimizer(MomentumOptimizer):
    """Momentum: gradients are not made sparse before they are sent."""

    def __init__(self, learning_rate: Rate, momentum: float, rampup_begin_step: int, rampup_step: int = 1, sparsity: Outputs | None = None, parameter_list: Inputs = None, use_nesterov: bool = False, num_trainers: int | None = None, regularization: Penalty = None, grad_clip: Clip = None, name: str | None = None) -> None:  # fmt: skip
        rampup = {"rampup_begin_step": rampup_begin_step, "rampup_step": rampup_step, "sparsity": sparsity}
        left_out("optimizer.DGCMomentumOptimizer", **rampup, num_trainers=num_trainers)
        super().__init__(learning_rate, momentum, parameter_list, use_nesterov, regularization, grad_clip, name)


class DpsgdOptimizer(FluidOptimizer):
    """Against a shortened gradient with noise, one number for each parameter and run."""

    type: ClassVar[str] = "dpsgd"

    def __init__(self, learning_rate: Rate = 0.001, clip: float = 0.9, batch_size: float = 0.999, sigma: float = 1e-8, parameter_list: Inputs = None) -> None:  # fmt: skip
        super().__init__(learning_rate, {"clip": clip, "batch_size": batch_size, "sigma": sigma}, parameter_list)
