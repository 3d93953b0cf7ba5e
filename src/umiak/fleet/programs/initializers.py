"""What a table's rows begin with, from the operation that fills the parameter in the startup program. A decider.

uniform_random min max             Uniform
gaussian_random mean std           Normal
truncated_gaussian_random          Normal with the deviation that a normal distribution has when it is cut off at two
fill_constant value                Constant
assign_value fp32_values           these very rows

Xavier, Kaiming and the like are one of these by the time they are in a program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.ps import specs

if TYPE_CHECKING:
    from typing import Any

CUT_OFF_DEVIATION = 0.8796256610342398
"""Of a standard normal distribution between -2 and 2."""


@value
class FirstRows:
    """What rows begin with."""

    init: specs.Init = specs.Uniform()
    values: tuple[float, ...] | None = None
    """All rows, end to end, where the program lists them; other ids begin as ``init`` says."""
    problem: Problem | None = None


def first_rows(startup: Any, name: str) -> FirstRows:
    """What a parameter begins with. The last operation that writes it counts."""
    writers = [op for op in startup.global_block().ops if name in op.output_arg_names]
    if not writers:
        return FirstRows()
    op = writers[-1]
    match op.type:
        case "uniform_random":
            low, high = float(op.attr("min")), float(op.attr("max"))
            return FirstRows(init=specs.Uniform(low, high) if low < high else specs.Constant(low))
        case "gaussian_random":
            return FirstRows(init=_normal(float(op.attr("mean")), float(op.attr("std"))))
        case "truncated_gaussian_random":
            return FirstRows(init=_normal(float(op.attr("mean")), CUT_OFF_DEVIATION * float(op.attr("std"))))
        case "fill_constant":
            return FirstRows(init=specs.Constant(float(op.attr("value"))))
        case "assign_value":
            return FirstRows(init=specs.Constant(0.0), values=_listed(op))
    what = f"{name}: a table on the servers can't begin with what {op.type} gives"
    hint = "use the initializer Uniform, Normal, TruncatedNormal, Constant, XavierUniform, XavierNormal or Assign"
    return FirstRows(problem=Problem(code="UM-FLEET-011", what=what, hint=hint))


def _normal(mean: float, deviation: float) -> specs.Init:
    return specs.Normal(mean, deviation) if deviation > 0 else specs.Constant(mean)


def _listed(op: Any) -> tuple[float, ...]:
    for attribute in ("fp32_values", "values"):
        if op.has_attr(attribute) and op.attr(attribute):
            return tuple(float(number.value() if hasattr(number, "value") else number) for number in op.attr(attribute))
    return ()
