"""Gradients of a program: `fluid.append_backward` and `fluid.gradients`. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.value import replace
from umiak.fluid.record.current import program_guard
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import BACKWARD, GRADIENT, Block, Variable
from umiak.fluid.record.reaching import ancestors
from umiak.fluid.record.recording import append_plain
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Input, Inputs, Names, Outputs


def append_backward(loss: Input, parameter_list: Inputs = None, no_grad_set: Names = None, callbacks: object = None, checkpoints: object = None) -> Outputs:  # fmt: skip
    """Record the gradients of a loss; pairs of parameters and gradients."""
    if callbacks:
        what = "append_backward(callbacks=) does not work: gradients are one operation"
        raise bad("UM-FLUID-003", what, "change the pairs that it returns, or use ErrorClipByValue", where=user_line())
    if not isinstance(loss, Variable):
        raise bad("UM-FLUID-001", f"expected a variable of the program as loss, got {loss!r}", where=user_line())
    if any(size != 1 for size in loss.shape):
        hint = "take layers.mean or layers.reduce_sum of it"
        raise bad("UM-FLUID-002", f"expected a loss of one element, got {loss}", hint, where=user_line())
    program = loss.block.program
    block = program.global_block()
    left_out = {each if isinstance(each, str) else each.name for each in no_grad_set or ()}
    names = [each if isinstance(each, str) else each.name for each in parameter_list or program.all_parameters()]
    used = ancestors(block, loss.name)
    parameters = [block.var(name) for name in names if name not in left_out and name in used]
    parameters = [each for each in parameters if getattr(each, "trainable", True)]
    if not parameters:
        raise bad("UM-FLUID-002", f"no parameter that learns leads to {loss}", where=user_line())
    gradients_of_all = [_gradient_of(block, each) for each in parameters]
    for number, operation in enumerate(block.ops):
        if operation.role == BACKWARD:
            block.ops[number] = replace(operation, arguments={**operation.arguments, "last": False})
    with program_guard(program):
        arguments = {"loss": loss, "targets": parameters, "last": True}
        append_plain("backward", arguments, gradients_of_all, role=BACKWARD, block=block)
    return list(zip(parameters, gradients_of_all, strict=True))


def _gradient_of(block: Block, variable: Variable) -> Variable:
    name = f"{variable.name}{GRADIENT}"
    known = block.vars.get(name)
    if known is not None:
        return known
    return block.add(Variable(block, name, variable.shape, variable.dtype, stop_gradient=True))


def gradients(targets: Inputs, inputs: Inputs, target_gradients: Input = None, no_grad_set: Names = None) -> Outputs:
    """The gradients of variables by others, as variables."""
    if no_grad_set:
        names = ", ".join(sorted(each if isinstance(each, str) else each.name for each in no_grad_set))
        what = f"gradients: no_grad_set is not heeded: {names}"
        raise bad("UM-FLUID-001", what, "set stop_gradient of these variables to True", where=user_line())
    targets, inputs = _listed(targets), _listed(inputs)
    given = _listed(target_gradients) if target_gradients is not None else []
    block = targets[0].block.program.global_block()
    gradients = [_gradient_of(block, each) for each in inputs]
    arguments = {"targets": targets, "inputs": inputs, "target_gradients": given}
    append_plain("gradients", arguments, gradients, role="forward", block=block)
    return gradients


def _listed(variables: Inputs) -> Outputs:
    return list(variables) if isinstance(variables, list | tuple) else [variables]
