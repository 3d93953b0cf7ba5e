"""Which embeddings of a recorded program become tables, and what those are on the servers. A decider.

    survey(program, startup, learning)     of a program that is going to be trained

An embedding becomes a table if it is looked up with ``is_sparse`` or ``is_distributed`` and nothing else reads it. What stays a parameter
is said with its reason.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from zlib import crc32

from umiak.core.problem import Problem
from umiak.core.value import replace, value
from umiak.fluid.distributed.rules import OPTIMIZERS, LearnedParameter, first_rate, with_rate
from umiak.fluid.record.program import FORWARD
from umiak.ps import specs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from umiak.fluid.distributed.rules import MinimizedLearning
    from umiak.fluid.record.program import Parameter, RecordedOperation, RecordedProgram

LOOKUP = "lookup_table"
MOST_FIRST_BYTES = 1 << 30
"""Rows of a larger embedding begin by rule, on the servers: it might not fit a trainer's memory."""
CUT_OFF_DEVIATION = 0.8796256610342398
"""Of a standard normal distribution between -2 and 2."""


@value
class RowsTable:
    """An embedding as a table."""

    name: str
    rows: int
    spec: specs.SparseTable
    learned: LearnedParameter
    is_filled_here: bool
    """Whether the startup program fills all of its rows, and the first trainer sends them."""


@value
class SurveyedTables:
    """All embeddings of a program that are looked up sparsely."""

    tables: Mapping[str, RowsTable] = {}
    kept: Mapping[str, str] = {}
    """Those that stay parameters, and why."""
    remarks: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def survey(program: RecordedProgram, startup: RecordedProgram, learning: MinimizedLearning) -> SurveyedTables:
    """What becomes of the embeddings of a program."""
    tables: dict[str, RowsTable] = {}
    kept: dict[str, str] = {}
    remarks: list[str] = []
    problems: list[Problem] = []
    block = program.global_block()
    for name in dict.fromkeys(sparse_weights(program)):
        weight: Parameter = block.vars[name]  # type: ignore[assignment]
        reason = _reason_to_stay(program, weight, learning)
        if reason is not None:
            kept[name] = reason
            continue
        learned = learning.parameters[name]
        begun = _first_rows(startup, name)
        if isinstance(begun, str):
            hint = "use the initializer Uniform, Normal, TruncatedNormal, Constant or Xavier"
            what = f"{name}: a table on the servers can't begin with what {begun} gives"
            problems.append(Problem(code="UM-FLUID-010", what=what, hint=hint))
            begun = specs.Constant(0.0)
        is_small = 4 * math.prod(weight.shape) <= MOST_FIRST_BYTES
        is_filled = is_small and not weight.is_server_table
        if not is_filled:
            remarks.append(
                f"{name}: its rows begin on the servers, as its initializer says; the startup program does not fill it"
            )
        spec = _spec(weight, learned, begun, first_rate(program, startup, learned.rate))
        tables[name] = RowsTable(name=name, rows=weight.shape[0], spec=spec, learned=learned, is_filled_here=is_filled)
        remarks += _moving(program, name)
    return SurveyedTables(tables=tables, kept=kept, remarks=tuple(remarks), problems=tuple(problems))


def sparse_weights(program: RecordedProgram) -> Iterator[str]:
    """Parameters that are looked up sparsely."""
    for operation in program.global_block().ops:
        if operation.type == LOOKUP:
            name = operation.arguments["weight"].name
            weight = program.global_block().vars.get(name)
            if operation.arguments["is_sparse"] or getattr(weight, "is_distributed", False):
                yield name


def _reason_to_stay(program: RecordedProgram, weight: Parameter, learning: MinimizedLearning) -> str | None:
    learned = learning.parameters.get(weight.name)
    if learned is None:
        return "it does not learn"
    if learned.gradient != learned.raw:
        return "the program changes its gradient before it learns"
    if (learned.decay.l1 or learned.decay.l2) and not weight.is_distributed:
        return "a regularizer moves all rows in each step"
    others = [each for block in program.blocks for each in block.ops if weight.name in each.input_names and not _is_lookup(block.idx, each, weight.name)]  # fmt: skip
    if others:
        return f"{others[0].type} reads it as well"
    return None


def _is_lookup(block: int, operation: RecordedOperation, name: str) -> bool:
    if operation.role != FORWARD:
        return operation.type in (*OPTIMIZERS, "backward", "decay")
    return block == 0 and operation.type == LOOKUP and operation.arguments["ids"].name != name


def _spec(weight: Parameter, learned: LearnedParameter, init: specs.Init, rate: float) -> specs.SparseTable:
    rule = with_rate(learned.rule, rate * learned.factor)
    if isinstance(rule, specs.Adam) and not (learned.decay.l1 or learned.decay.l2):
        rule = replace(rule, ahead=True)  # as Paddle's Adam does with gradients of some rows
    return specs.SparseTable(
        dim=weight.shape[1],
        seed=crc32(weight.name.encode()),
        init=init,
        rule=rule,
        clip=learned.clip,
        decay=learned.decay,
        entry=weight.entry or specs.Always(),
    )


def _moving(program: RecordedProgram, name: str) -> list[str]:
    """Where a table differs from one process, which moves every row in each step."""
    for operation in program.global_block().ops:
        if operation.type in OPTIMIZERS and operation.arguments["parameter"].name == name:
            lazy = operation.type in ("sgd", "adagrad", "ftrl") or operation.arguments.get("lazy_mode")
            if not lazy:
                how = "as with lazy_mode=True" if operation.type == "adam" else "in its own steps"
                return [
                    f"{name}: a row of a table moves when it is used, {how}; in one process {operation.type} moves all rows in each step"
                ]
    return []


def _first_rows(startup: RecordedProgram, name: str) -> specs.Init | str:
    """What rows begin with, from the operation that fills the embedding; its type if servers can't."""
    writers = [each for each in startup.global_block().ops if name in each.outputs]
    if not writers:
        return specs.Uniform()
    given = writers[-1].arguments
    match writers[-1].type:
        case "uniform_random":
            low, high = float(given["min"]), float(given["max"])
            return specs.Uniform(low, high) if low < high else specs.Constant(low)
        case "gaussian_random":
            return _normal(given["mean"], given["std"])
        case "truncated_gaussian_random":
            return _normal(given["mean"], CUT_OFF_DEVIATION * given["std"])
        case "fill_constant":
            return specs.Constant(float(given["value"]))
        case "assign_value":
            return specs.Constant(0.0)  # the startup program fills the rows that are given
    return writers[-1].type


def _normal(mean: float, deviation: float) -> specs.Init:
    return specs.Normal(float(mean), float(deviation)) if deviation > 0 else specs.Constant(float(mean))
