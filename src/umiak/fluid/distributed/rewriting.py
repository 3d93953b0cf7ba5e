"""The program that a trainer runs: lookups read rows of tables, and what the servers do is left out. A decider.

    for_training(program, plan)         a changed copy of a minimized program
    for_reading(program, names)         of any program that looks into these tables; None if it does not

Lookups into one table whose ids are known before anything else is computed become one operation, so that a step has one pull.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from umiak.core.value import replace
from umiak.fluid.distributed.tables import LOOKUP
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import BACKWARD, FORWARD, GRADIENT, RecordedOperation, Ref
from umiak.fluid.record.reaching import ancestors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from umiak.fluid.distributed.rules import MinimizedLearning
    from umiak.fluid.record.program import RecordedProgram

ROWS = "table_rows"
"""The operation that reads rows."""
MOVABLE = frozenset(
    [
        "cast",
        "reshape",
        "slice",
        "strided_slice",
        "split",
        "concat",
        "squeeze",
        "unsqueeze",
        "flatten",
        "scale",
        "assign",
        "stack",
        "unstack",
        "elementwise_add",
        "elementwise_mod",
        "lod_reset",
    ]
)
"""What may be computed earlier than it was recorded: it draws nothing and changes nothing."""


def for_training(program: RecordedProgram, learning: MinimizedLearning, tables: Collection[str]) -> RecordedProgram:
    """A copy of a minimized program without what servers do, and with gradients of rows in place of those of tables."""
    new = program.clone()
    block = new.global_block()
    kept = [each for place, each in enumerate(block.ops) if place not in learning.done_elsewhere]
    outputs = {each.outputs[0]: each.arguments["weight"].name for each in kept if _reads(each, tables)}
    pushed: set[str] = set()
    changed = []
    for operation in kept:
        if operation.role == BACKWARD:
            leading = ancestors(program.global_block(), operation.arguments["loss"].name)
            learned = {each.name for each in operation.arguments["targets"]}
            own = [name for name, table in outputs.items() if table in learned and name in leading]
            pushed.update(own)
            operation = _with_rows(operation, tables, own)  # noqa: PLW2901 - the changed one goes on
            for name in own:
                block.create_var(f"{name}{GRADIENT}", block.vars[name].shape, stop_gradient=True)
        elif operation.type == LOOKUP and not _reads(operation, tables):
            operation = replace(operation, arguments={**operation.arguments, "is_sparse": False})  # noqa: PLW2901
        changed.append(operation)
    block.ops = _with_reads(changed, tables, pushed)
    new.changed()
    return new


def for_reading(program: RecordedProgram, tables: Collection[str]) -> RecordedProgram | None:
    """A copy that reads rows; None if it has nothing to do with these tables."""
    if not any(_reads(each, tables) for block in program.blocks for each in block.ops):
        return None
    for block in program.blocks[1:]:
        for each in block.ops:
            if _reads(each, tables):
                what = f"{each.arguments['weight'].name} is a table on the servers, and is looked up inside a condition or a loop"
                raise bad("UM-FLUID-010", what, "look it up before", where=each.site)
    new = program.clone()
    new.global_block().ops = _with_reads(new.global_block().ops, tables)
    new.changed()
    return new


def _reads(operation: RecordedOperation, tables: Collection[str]) -> bool:
    return operation.type == LOOKUP and operation.arguments["weight"].name in tables


def _with_rows(backward: RecordedOperation, tables: Collection[str], rows: Iterable[str]) -> RecordedOperation:
    """A backward pass that goes to rows where it went to tables."""
    pairs = zip(backward.arguments["targets"], backward.outputs, strict=True)
    stay = [(target, output) for target, output in pairs if target.name not in tables]
    stay += [(Ref(name=name), f"{name}{GRADIENT}") for name in rows]
    targets, outputs = [target for target, _ in stay], tuple(output for _, output in stay)
    return replace(backward, arguments={**backward.arguments, "targets": targets}, outputs=outputs)


def _with_reads(
    ops: list[RecordedOperation], tables: Collection[str], pushed: Collection[str] = ()
) -> list[RecordedOperation]:
    """Operations with reads in place of lookups."""
    moved: set[int] = set()
    groups: dict[tuple[str, int, bool], list[RecordedOperation]] = {}
    chains = _Chains(ops)
    for place, operation in enumerate(ops):
        if _reads(operation, tables):
            chain = chains.of(operation.arguments["ids"].name, place)
            if chain is not None:
                moved |= chain | {place}
                key = (
                    operation.arguments["weight"].name,
                    operation.arguments["padding_idx"],
                    operation.outputs[0] in pushed,
                )
                groups.setdefault(key, []).append(operation)
    first = [each for place, each in enumerate(ops) if place in moved and not _reads(each, tables)]
    first += [_read(each) for each in groups.values()]
    rest = [each for place, each in enumerate(ops) if place not in moved]
    return first + [_read([each]) if _reads(each, tables) else each for each in rest]


class _Chains:
    """What has to be computed before ids are known."""

    def __init__(self, ops: list[RecordedOperation]) -> None:
        self._ops = ops
        self._writes = Counter(name for each in ops for name in each.outputs)
        self._writer = {name: place for place, each in enumerate(ops) for name in each.outputs}

    def of(self, name: str, before: int) -> set[int] | None:
        """Places of operations; None if they can't be moved to the front."""
        place = self._writer.get(name)
        if place is None:
            return set()
        operation = self._ops[place]
        is_movable = operation.type in MOVABLE and operation.role == FORWARD and place < before
        if not is_movable or any(self._writes[each] > 1 for each in operation.outputs):
            return None
        places = {place}
        for each in operation.input_names:
            further = self.of(each, place)
            if further is None:
                return None
            places |= further
        return places


def _read(lookups: list[RecordedOperation]) -> RecordedOperation:
    first = lookups[0]
    return RecordedOperation(
        type=ROWS,
        arguments={
            "ids": [each.arguments["ids"] for each in lookups],
            "table": first.arguments["weight"].name,
            "padding_idx": first.arguments["padding_idx"],
            "drops_last": [each.arguments["drops_last"] for each in lookups],
        },
        outputs=tuple(each.outputs[0] for each in lookups),
        site=first.site,
    )
