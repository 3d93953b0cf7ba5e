"""Which operations and variables of a program lead to others. Values in, values out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    from umiak.fluid.record.program import Block, RecordedOperation


def ancestors(block: Block, name: str) -> set[str]:
    """All variables that lead to one; of operations with blocks of their own, all that those name."""
    return leading_to(block, {name})[0]


def leading_to(
    block: Block, names: set[str], also: Collection[RecordedOperation] = ()
) -> tuple[set[str], list[RecordedOperation]]:
    """All variables that lead to some, or to operations, and the operations on the way."""
    wanted, on_the_way = set(names), []
    kept = {id(each) for each in also}
    for operation in reversed(block.ops):
        inside = [each for each in operation.arguments.values() if isinstance(each, int) and operation.type in BLOCKS]
        reached = [block.program.blocks[number] for number in (*inside, *_lists(operation))]
        written = {*operation.outputs, *(out for each in reached for op in each.ops for out in op.outputs)}
        if wanted & written or id(operation) in kept:
            on_the_way.append(operation)
            wanted.update(operation.input_names)
            wanted.update(name for each in reached for op in each.ops for name in op.input_names)
    return wanted, on_the_way[::-1]


BLOCKS = ("run_if", "loop", "static_rnn", "dynamic_rnn")
"""Operations whose integers name a block."""


def _lists(operation: Any) -> list[int]:
    return list(operation.arguments["blocks"]) if operation.type == "cond" else []
