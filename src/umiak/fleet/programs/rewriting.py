"""Takes lookups out of a static program: their outputs become data, and one backward pass gives all gradients.
An adapter, for Paddle.

    plan = for_training(program, startup, loss, optimizer)     changes both programs
    plan = for_reading(program, tables)                        a changed copy: rows are only read

Ids that the program computes from its feed are computed by a small program of their own, before rows are pulled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle

from umiak.core.problem import Problem
from umiak.core.value import replace, value
from umiak.fleet.programs import accessors, rules, sites
from umiak.ps import paddle_internals, specs
from umiak.ps.errors import BadRequest, bad
from umiak.ps.layers.arguments import LearningSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from umiak.core.json_types import JsonMapping
    from umiak.fleet.programs.accessors import RowCounting
    from umiak.fleet.programs.rules import ProgramLearning
    from umiak.fleet.programs.sites import LookupSite, TableSite
    from umiak.ps.paddle_types import Block, Operation, Optimizer, Parameter, Program, Variable

MOVES_ALL = "weight decay moves all rows in each step"
MOST_FIRST_BYTES = 1 << 30
"""Rows of a larger embedding begin by rule, on the servers: it might not fit a trainer's memory."""


@value
class DenseParameter:
    """A parameter that stays in the program and learns on the servers."""

    name: str
    shape: tuple[int, ...]
    gradient: str
    """The variable that has it."""
    settings: LearningSettings = LearningSettings()


@value
class PlannedRows:
    """A table of a program: what it is on the servers, and rows that the program lists."""

    site: TableSite
    spec: specs.SparseTable
    values: tuple[float, ...] | None = None
    is_clipped: bool = True
    """Whether its gradients take part where all are scaled down together."""
    counting: RowCounting | None = None
    """What its rows count; None: nothing."""
    is_filled_here: bool = False
    """Whether the startup program fills all of its rows, and the first trainer sends them:
    then they are those of plain Paddle.
    """


@value
class ProgramPlan:
    """A program without its lookups, and what each step has to do beside running it."""

    program: Program
    lookups: tuple[LookupSite, ...] = ()
    ids_program: Program = None
    """What computes the ids that are not fed; None where all are."""
    computed: tuple[str, ...] = ()
    """Those ids."""
    gradients: Mapping[str, str] = {}
    """The gradient of each lookup's output that has one."""
    parameters: tuple[DenseParameter, ...] = ()
    fused: Mapping[str, tuple[str, ...]] = {}
    """Variables that consist of several parameters, and of which."""
    tables: Mapping[str, PlannedRows] = {}
    learning: ProgramLearning = rules.ProgramLearning()
    kept: Mapping[str, str] = {}
    """Embeddings that stay parameters, and why."""
    padded: tuple[tuple[LookupSite, str], ...] = ()
    """Lookups that stay in the program, with an id that never learns,
    and the variables with the gradients of their outputs: Paddle counts those of that id in the norm of all.
    """
    remarks: tuple[str, ...] = ()


def for_training(
    program: Program,
    startup: Program,
    loss: Variable,
    optimizer: Optimizer,
    *,
    parameters: Iterable[Parameter] | None = None,
    is_alone: bool = False,
    can_count: bool = True,
    said: Mapping[str, JsonMapping] | None = None,
) -> ProgramPlan:
    """Change a program and its startup program, so that rows are fed and gradients can be fetched. `BadRequest` has all problems.

    ``is_alone``: there are no servers, so nothing is changed about embeddings of which Paddle moves every row in each step.
    ``can_count``: whether the strategy can train rows that count. ``said``: what is said of tables, by their names.
    """
    learning = rules.learning(optimizer)
    decaying = [each.name for each in program.all_parameters() if rules.moves_all_rows(each, learning, optimizer)]
    found = sites.survey(program, stay=dict.fromkeys(decaying, MOVES_ALL) if is_alone else None)
    block = program.global_block()
    tables, remarks = _planned_tables(found, block, startup, learning, optimizer, said or {}, can_count=can_count)
    remarks += [
        f"{name}: rows decay in steps that use them only, although {MOVES_ALL} in Paddle"
        for name, planned in tables.items()
        if name in decaying and planned.counting is None
    ]
    ids_program, computed = _ids_program(program, found.lookups)
    _take_out(program, found.lookups, tables)
    lookups = _made_flat(program, found.lookups)
    forget(startup, [name for name, each in tables.items() if not each.is_filled_here])
    for name in (name for name, each in tables.items() if each.is_filled_here):
        make_dense(startup.global_block().vars[name])
    padded, notes = _padded(program, found.kept, tables, learning, optimizer)
    _learn_densely(block, found.kept)
    learned = [site for site in lookups if site.learns]
    dense = _learning_parameters(program, parameters)
    rows, beside, others = _gradient_names(block, loss, learned, padded, dense)
    return ProgramPlan(
        program=program,
        lookups=lookups,
        ids_program=ids_program,
        computed=computed,
        gradients={site.output: name for site, name in zip(learned, rows, strict=True) if name is not None},
        parameters=tuple(
            DenseParameter(
                name=parameter.name,
                shape=tuple(parameter.shape),
                gradient=name,
                settings=rules.own_learning(parameter, learning, optimizer),
            )
            for parameter, name in zip(dense, others, strict=True)
            if name is not None
        ),
        fused=_fused(startup),
        tables=tables,
        learning=learning,
        kept=found.kept,
        padded=tuple((site, name) for site, name in zip(padded, beside, strict=True) if name is not None),
        remarks=(*remarks, *notes),
    )


def _planned_tables(
    found: sites.ProgramSurvey,
    block: Block,
    startup: Program,
    learning: rules.ProgramLearning,
    optimizer: Optimizer,
    configs: Mapping[str, JsonMapping],
    *,
    can_count: bool,
) -> tuple[dict[str, PlannedRows], list[str]]:
    """The parameters that become tables, and remarks. `BadRequest` has all problems."""
    firsts = {name: rules.first_rows(startup, name) for name in found.tables}
    problems = [*found.problems, *learning.problems, *(first.problem for first in firsts.values() if first.problem)]
    remarks = [
        f"sparse_table_configs: no effect: {name} is none of the tables {', '.join(found.tables) or '(there are none)'}"
        for name in configs
        if name not in found.tables
    ]
    tables: dict[str, PlannedRows] = {}
    for name, site in found.tables.items():
        config = configs.get(name, {})
        try:
            spec = table_spec(site, block.vars[name], learning, optimizer, firsts[name].init)
            own = rules.own_learning(block.vars[name], learning, optimizer)
            planned = PlannedRows(site=site, spec=spec, values=firsts[name].values, is_clipped=own.is_clipped)
            if accessors.counts(site, config):
                planned = _counted(planned, config, block, problems, remarks, can_count=can_count)
            else:
                remarks += accessors.unused(name, config, is_counted=False)
            tables[name] = _begun_as_in_paddle(planned, startup, remarks)
        except BadRequest as error:
            problems += error.problems
    BadRequest.raise_any(problems)
    return tables, remarks


def _padded(
    program: Program,
    kept: Iterable[str],
    tables: Mapping[str, PlannedRows],
    learning: rules.ProgramLearning,
    optimizer: Optimizer,
) -> tuple[list[LookupSite], list[str]]:
    """Lookups with ids that never learn, where all gradients are clipped together; and remarks about that."""
    if learning.clip is None or learning.clip.global_norm is None:
        return [], []
    counted = [name for name, planned in tables.items() if planned.counting is not None]
    parameters = program.global_block().vars
    padded = [
        site
        for site in sites.padded(program, kept)
        if rules.own_learning(parameters[site.table], learning, optimizer).is_clipped
    ]
    return padded, [f"{name}: its rows count shows and clicks, and are not clipped with the others" for name in counted]


def _gradient_names(
    block: Block,
    loss: Variable,
    lookups: Sequence[LookupSite],
    padded: Sequence[LookupSite],
    dense: Sequence[Parameter],
) -> tuple[list[str | None], list[str | None], list[str | None]]:
    """Of rows that were looked up, of padded ones, and of parameters: None where the loss does not depend on it."""
    targets = [*(block.vars[site.output] for site in (*lookups, *padded)), *dense]
    gradients = paddle.static.gradients([loss], targets) if targets else []
    names = [None if gradient is None else gradient.name for gradient in gradients]
    behind = len(lookups) + len(padded)
    return names[: len(lookups)], names[len(lookups) : behind], names[behind:]


def for_reading(program: Program, known: Mapping[str, LookupSite], tables: Iterable[str]) -> ProgramPlan | None:
    """The same for a program that only reads, as a copy; None if it has nothing to do with these tables.

    ``known`` are outputs that earlier rewriting has made data: a copy of a rewritten program has them as well.
    """
    names = {*tables}
    block = program.global_block()
    used = {name for each in program.blocks for op in each.ops for name in op.input_arg_names}
    outputs = {name for op in block.ops for name in op.output_arg_names}
    data = tuple(site for name, site in known.items() if name in block.vars and name in used and name not in outputs)
    found = sites.survey(program, names)
    lookups = tuple(site for site in found.lookups if site.table in names)
    if not lookups and not data:
        return None
    copy = program.clone()
    ids_program, computed = _ids_program(program, (*data, *lookups))
    # Their parameters go as well: the scope may have others' variables of these names.
    _take_out(copy, lookups, {site.table for site in lookups if site.table in copy.global_block().vars})
    return ProgramPlan(program=copy, lookups=(*data, *lookups), ids_program=ids_program, computed=computed)


def _fused(startup: Program) -> dict[str, tuple[str, ...]]:
    """Variables in which the startup program lays several parameters one behind the other, and these."""
    return {
        op.output("FusedOutput")[0]: tuple(op.input("Input"))
        for op in startup.global_block().ops
        if op.type == "coalesce_tensor" and not op.attr("use_align")
    }


def _counted(
    planned: PlannedRows,
    said: JsonMapping,
    block: Block,
    problems: list[Problem],
    remarks: list[str],
    *,
    can_count: bool,
) -> PlannedRows:
    """A table whose rows count; what is wrong or left out is added to the lists."""
    name = planned.site.name
    if not can_count:
        if planned.site.feeds_cvm:
            what = f"continuous_value_model of rows of {name}: in geo rows do not count shows and clicks"
            problems.append(Problem(code="UM-FLEET-016", what=what, hint="a_sync_configs = {'k_steps': 0}"))
        remarks.append(f"{name}: in geo its rows do not count shows and clicks")
        remarks += accessors.unused(name, said, is_counted=False)
        return planned
    names = accessors.counted(planned.site, said, planned.spec)
    problems += names.problems
    remarks += names.remarks
    if planned.values:
        what = f"{name}: rows that count shows and clicks can't begin with a list of values"
        hint = "use the initializer Uniform, Normal or Constant"
        problems.append(Problem(code="UM-FLEET-011", what=what, hint=hint))
    counting = names.counting
    missing = [each for each in (counting.shows, counting.clicks) if each and each not in block.vars]
    if missing and not counting.is_gradient:
        remarks.append(
            f"{name}: the program has no variable {' and no '.join(missing)} of its ShowClickEntry: an id counts as shown once and not clicked"
        )
    if missing:
        counting = replace(counting, shows="", clicks="")
    return replace(planned, spec=names.spec, counting=counting)


def _begun_as_in_paddle(planned: PlannedRows, startup: Program, remarks: list[str]) -> PlannedRows:
    """Rows that the startup program fills, where that is possible and means the same;
    a remark where they are too many.
    """
    site, name = planned.site, planned.site.name
    is_written = any(name in op.output_arg_names for op in startup.global_block().ops)
    if not is_written or planned.counting is not None or planned.spec.entry != specs.Always():
        return planned  # rows that are admitted, or count, must not be there before they are used
    size = site.rows * site.dim * 4
    if size > MOST_FIRST_BYTES:
        if not isinstance(planned.spec.init, specs.Constant):
            remarks.append(
                f"{name}: {size / 2**30:.1f} GiB are too many to send, so its rows begin with random numbers of the servers"
            )
        return planned
    return replace(planned, is_filled_here=True, values=None)


def make_dense(weight: Variable) -> None:
    """Let a variable be a tensor: `sparse_embedding` declares another kind."""
    shape, dtype = [*weight.shape], weight.dtype
    weight.desc.set_type(paddle.base.core.VarDesc.VarType.DENSE_TENSOR)
    weight.desc.set_shape(shape)
    weight.desc.set_dtype(dtype)


def table_spec(
    site: TableSite, parameter: Parameter, learning: ProgramLearning, optimizer: Optimizer, init: specs.Init
) -> specs.SparseTable:
    """What a table is on the servers."""
    rule, clip, decay = rules.of_table(parameter, learning, optimizer)
    return specs.SparseTable(dim=site.dim, init=init, rule=rule, clip=clip, decay=decay, entry=entry_of(site.entry))


def entry_of(text: str) -> specs.Entry:
    """What admits a row: ``count_filter_entry:10``, ``probability_entry:0.1``."""
    kind, _, rest = text.partition(":")
    match kind:
        case "count_filter_entry":
            return specs.Count(count=max(int(rest), 1))
        case "probability_entry":
            return specs.Probability(probability=float(rest))
        case "" | "none" | "show_click_entry":
            return specs.Always()
    raise bad(
        "UM-FLEET-013", f"no such entry of a table: {text}", "CountFilterEntry, ProbabilityEntry or ShowClickEntry"
    )


def _ids_program(program: Program, lookups: Iterable[LookupSite]) -> tuple[Program, tuple[str, ...]]:
    """A program that computes ids which are not data, and their names."""
    block = program.global_block()
    outputs = {name for op in block.ops for name in op.output_arg_names}
    computed = tuple(dict.fromkeys(site.ids for site in lookups if site.ids in outputs))
    if not computed:
        return None, ()
    return paddle_internals.pruned(program, computed), computed


def _take_out(program: Program, lookups: Iterable[LookupSite], tables: Iterable[str]) -> None:
    """Remove lookups and their parameters; what they gave is data."""
    block = program.global_block()
    learns = {site.output: site.learns for site in lookups}
    for index in reversed(range(len(block.ops))):
        op = block.ops[index]
        if op.type in sites.LOOKUPS and op.output("Out")[0] in learns:
            paddle_internals.remove_op(block, index)
    for name, is_learned in learns.items():
        output = block.vars[name]
        output.is_data = True
        output.stop_gradient = not is_learned
    for name in tables:
        paddle_internals.remove_variable(block, name)


def _made_flat(program: Program, lookups: Iterable[LookupSite]) -> tuple[LookupSite, ...]:
    """Rows that the program does nothing with but to put them into one list, come as such a list:
    each slot has two operations less.
    """
    block = program.global_block()
    users: dict[str, list[Operation]] = {}
    for op in (op for each in program.blocks for op in each.ops):
        for name in op.input_arg_names:
            users.setdefault(name, []).append(op)
    ops, left_out = [], []
    for site in lookups:
        using = users.get(site.output, [])
        is_ragged = block.vars[site.ids].lod_level > 0
        if len(using) == 1 and not is_ragged and sites.flattens(using[0], block.vars[site.output].shape[-1]):
            flat = using[0].output("Out")[0]
            block.vars[flat].is_data = True
            block.vars[flat].stop_gradient = not site.learns
            left_out.append(flat)
            ops.append(replace(site, output=flat, replaced=site.output))
        else:
            ops.append(site)
    for index in reversed(range(len(block.ops))):
        op = block.ops[index]
        if op.type == sites.RESHAPE and op.output("Out")[0] in left_out:
            paddle_internals.remove_op(block, index)
    return tuple(ops)


def forget(startup: Program, tables: Iterable[str]) -> None:
    """Let the startup program not fill the parameters that are tables: they may be larger than this machine."""
    names = {*tables}
    block = startup.global_block()
    for index in reversed(range(len(block.ops))):
        if names.intersection(block.ops[index].output_arg_names):
            paddle_internals.remove_op(block, index)
    for name in names & {*block.vars}:
        paddle_internals.remove_variable(block, name)


def _learn_densely(block: Block, kept: Iterable[str]) -> None:
    """An embedding that stays has a gradient like any other parameter's."""
    names = {*kept}
    for op in block.ops:
        if op.type in sites.LOOKUPS and op.input("W")[0] in names and op.has_attr("is_sparse"):
            paddle_internals.set_attribute(op, "is_sparse", False)


def _learning_parameters(program: Program, chosen: Iterable[Parameter] | None) -> list[Parameter]:
    names = None if chosen is None else {getattr(each, "name", each) for each in chosen}
    learning = (each for each in program.all_parameters() if each.trainable and not each.stop_gradient)
    return [each for each in learning if names is None or each.name in names]
