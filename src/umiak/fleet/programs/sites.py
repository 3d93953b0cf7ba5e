"""Where a static program looks rows up, and which of its parameters become tables. Values and a decider.

    found = survey(program)
    found.lookups      each lookup that leaves the program: ids in, rows out
    found.tables       the parameters they read, which become tables
    found.kept         parameters that stay although they are looked up, each with its reason

A program is known by its blocks, operations and variables alone: Paddle is not imported. `sparse_embedding` is the
operation ``lookup_table``, whose ids end in a dimension of 1 that rows do not have; `embedding` and `nn.Embedding` are
``lookup_table_v2``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.problem import Problem
from umiak.core.value import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from umiak.ps.paddle_types import Block, Operation, Program, Variable

OLD, NEW = "lookup_table", "lookup_table_v2"
LOOKUPS = (OLD, NEW)
NO_PADDING = -1
FLOAT32 = "float32"
RESHAPE = "reshape2"
CVM = "cvm"
"""The operation of `continuous_value_model`."""
SHAPING = {
    *("reshape", "reshape2", "squeeze", "squeeze2", "unsqueeze", "unsqueeze2", "flatten2", "flatten_contiguous_range"),
    *("sequence_pool", "sum", "elementwise_add", "assign", "lod_reset"),
}
"""Operations that leave the columns of rows where they are."""


@value
class LookupSite:
    """One lookup of a program."""

    table: str
    """The parameter's name."""
    ids: str
    """The variable that has them,"""
    output: str
    """and the one that has the rows."""
    padding: int | None = None
    """An id that reads as zeros and never learns."""
    drops_last: bool = False
    """Whether the last dimension of the ids, which is 1, is not one of the rows."""
    learns: bool = True
    """Whether its rows get gradients; else they are only read."""
    is_test: bool = False
    """Whether the program says that rows are only read."""
    replaced: str = ""
    """The variable that had the rows before the program made them flat, which is left out:
    the ids' dimensions are not those of the rows.
    """


@value
class TableSite:
    """A parameter that becomes a table."""

    name: str
    rows: int
    """As many as the program declares; tables have any number."""
    dim: int
    entry: str = ""
    """What admits a row, in Paddle's words: ``count_filter_entry:10``; empty: every id at once."""
    slots: Mapping[str, int] = {}
    """The slot's number of each lookup's output."""
    feeds_cvm: bool = False
    """Whether its rows go into `continuous_value_model`: then their first two columns are shows and clicks."""


@value
class ProgramSurvey:
    """What of a program leaves it."""

    lookups: tuple[LookupSite, ...] = ()
    tables: Mapping[str, TableSite] = {}
    kept: Mapping[str, str] = {}
    problems: tuple[Problem, ...] = ()


def survey(program: Program, known: Iterable[str] = (), *, stay: Mapping[str, str] | None = None) -> ProgramSurvey:
    """The lookups of a program. ``known`` are names that are tables already, whatever the lookup says of itself;
    ``stay`` has reasons for others to stay parameters, which no `sparse_embedding` does.
    """
    block = program.global_block()
    ops = [op for op in block.ops if op.type in LOOKUPS]
    names = list(dict.fromkeys(op.input("W")[0] for op in ops))
    known = {*known}
    reasons: dict[str, str] = {}
    problems: list[Problem] = []
    for name in names:
        own = [op for op in ops if op.input("W")[0] == name]
        reason = None if name in known else _why_it_stays(program, block, name, own)
        if reason is None and not any(_is_true(op, "is_distributed") for op in own):
            reason = (stay or {}).get(name)
        if reason is None:
            continue
        reasons[name] = reason
        if any(_is_true(op, "is_distributed") for op in own):
            what = f"sparse_embedding {name} can't be a table on the servers: {reason}"
            hint = "look its rows up by ids of the feed, in float32, and use the parameter nowhere else"
            problems.append(Problem(code="UM-FLEET-010", what=what, hint=hint))
    moved = [op for op in ops if op.input("W")[0] not in reasons]
    problems += _unseen_counts(block, moved)
    tables = {name: _table(block, name, moved) for name in names if name not in reasons}
    return ProgramSurvey(
        lookups=tuple(_lookup(block, op) for op in moved), tables=tables, kept=reasons, problems=tuple(problems)
    )


def padded(program: Program, names: Iterable[str]) -> tuple[LookupSite, ...]:
    """Sparse lookups of these parameters that have an id which never learns."""
    block, names = program.global_block(), {*names}
    own = [op for op in block.ops if op.type in LOOKUPS and op.input("W")[0] in names and _is_true(op, "is_sparse")]
    return tuple(site for site in (_lookup(block, op) for op in own) if site.padding is not None and site.learns)


def flattens(op: Operation, dim: int) -> bool:
    """Whether an operation makes a list of rows, of so many columns, and nothing else."""
    computed = [name for each in ("Shape", "ShapeTensor") for name in op.input(each)] if op.type == RESHAPE else []
    return op.type == RESHAPE and not computed and [*op.attr("shape")] == [-1, dim]


def producers(block: Block, names: Iterable[str], given: Iterable[str] = ()) -> list[Operation]:
    """All operations of a block that these variables are computed by, in order; ``given`` ones are not computed."""
    wanted, known = {*names}, {*given}
    chosen = []
    for op in reversed(block.ops):
        if wanted.difference(known).intersection(op.output_arg_names):
            wanted.update(op.input_arg_names)
            chosen.append(op)
    return chosen[::-1]


def _why_it_stays(program: Program, block: Block, name: str, own: list[Operation]) -> str | None:
    """The reason why a parameter stays in the program, or None."""
    if not all(_is_true(op, "is_sparse") or _is_true(op, "is_distributed") for op in own):
        return "it is not sparse"
    variable = block.vars.get(name)
    if variable is None:
        return "it is not a parameter of the main block"
    if _dtype(variable) != FLOAT32:
        return f"its numbers are {_dtype(variable)}"
    users = [op for each in program.blocks for op in each.ops if name in op.input_arg_names]
    if len(users) > len(own):
        other = next(op.type for op in users if not any(op is each for each in own))
        return f"the program also uses it in {other}"
    for op in own:
        before = producers(block, op.input("Ids"))
        if any(each.type in LOOKUPS for each in before):
            return f"the ids {op.input('Ids')[0]} are computed from looked-up rows"
    return None


def _lookup(block: Block, op: Operation) -> LookupSite:
    padding = op.attr("padding_idx") if op.has_attr("padding_idx") else NO_PADDING
    output, weight = block.vars[op.output("Out")[0]], block.vars.get(op.input("W")[0])
    return LookupSite(
        table=op.input("W")[0],
        ids=op.input("Ids")[0],
        output=op.output("Out")[0],
        padding=None if padding == NO_PADDING else int(padding),
        drops_last=op.type == OLD,
        learns=not output.stop_gradient and getattr(weight, "trainable", True),
        is_test=_is_true(op, "is_test"),
    )


def _table(block: Block, name: str, moved: list[Operation]) -> TableSite:
    own = [op for op in moved if op.input("W")[0] == name]
    rows, dim = block.vars[name].shape
    entries = (op.attr("entry") for op in own if op.has_attr("entry"))
    entry = next((each for each in entries if each and each != "none"), "")
    slots = {op.output("Out")[0]: int(op.attr("slot")) for op in own if op.has_attr("slot")}
    feeds_cvm = any(_feeds_cvm(block, op) for op in own)
    return TableSite(name=name, rows=int(rows), dim=int(dim), entry=entry, slots=slots, feeds_cvm=feeds_cvm)


def _feeds_cvm(block: Block, lookup: Operation) -> bool:
    """Whether the rows of a lookup come to `continuous_value_model` with their columns where they were."""
    known = {lookup.output("Out")[0]}
    for op in block.ops:
        if op.type == CVM and known.intersection(op.input("X")):
            return True
        if op.type in SHAPING and known.intersection(op.input_arg_names):
            known.update(op.output_arg_names)
    return False


def _unseen_counts(block: Block, moved: list[Operation]) -> list[Problem]:
    """`continuous_value_model` of something that is computed from rows: nobody could say which rows to count for."""
    problems = []
    direct = {op.output("Out")[0] for op in moved if _feeds_cvm(block, op)}
    for cvm in (op for op in block.ops if op.type == CVM):
        before = [op for op in producers(block, cvm.input("X"), direct) if any(op is each for each in moved)]
        if before:
            name = before[0].input("W")[0]
            what = f"continuous_value_model of {cvm.input('X')[0]}, which is computed from the rows of {name}"
            hint = "give it the rows themselves, or their sums"
            problems.append(Problem(code="UM-FLEET-016", what=what, hint=hint))
    return problems


def _is_true(op: Operation, attribute: str) -> bool:
    return bool(op.has_attr(attribute) and op.attr(attribute))


def _dtype(variable: Variable) -> str:
    """``float32`` of ``paddle.float32``, ``VarType.FP32`` and the like."""
    name = str(variable.dtype).rsplit(".", 1)[-1].lower()
    return FLOAT32 if name == "fp32" else name


def updates(program: Program) -> list[str]:
    """The operations of a program that move its parameters: what an optimizer has added to it."""
    operations = [op for block in getattr(program, "blocks", ()) for op in block.ops]
    return [op.type for op in operations if {"Param", "Grad"} <= {*getattr(op, "input_names", ())}]
