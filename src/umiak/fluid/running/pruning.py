"""Programs without the operations that nothing of what is fetched needs: `Executor.run(use_prune=True)`. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umiak.fluid.record.program import RecordedOperation
from umiak.fluid.record.reaching import leading_to

if TYPE_CHECKING:
    from umiak.fluid.arguments import Inputs, Outputs
    from umiak.fluid.record.program import RecordedProgram


def split(fetch_list: Inputs) -> tuple[Outputs, list[RecordedOperation]]:
    """The variables of a fetch list, and the operations that `minimize` has returned, which programs may put there as well."""
    if fetch_list is None:
        return [], []
    flat = _flat(fetch_list if isinstance(fetch_list, list) else [fetch_list])
    return [each for each in flat if not isinstance(each, RecordedOperation)], [
        each for each in flat if isinstance(each, RecordedOperation)
    ]


def _flat(given: Any) -> Outputs:
    items: Outputs = []
    for each in given:
        if _is_of_minimize(each):
            items += each[0]
        elif isinstance(each, list | tuple):
            items += _flat(each)
        else:
            items.append(each)
    return items


def _is_of_minimize(given: Any) -> bool:
    """Operations, and pairs of parameters and gradients."""
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], list) or not given[0]:
        return False
    return all(isinstance(each, RecordedOperation) for each in given[0])


class PrunedPrograms:
    """Copies of programs, kept as long as these do not change."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[str, ...], bool], tuple[RecordedProgram, int, RecordedProgram]] = {}

    def of(self, program: RecordedProgram, names: list[str], learning: list[RecordedOperation]) -> RecordedProgram:
        """The operations that some variables and operations need."""
        key = program.number, tuple(names), bool(learning)
        known = self._known.get(key)
        if known is None or known[0] is not program or known[1] != program.version:
            pruned = program.clone()
            block = pruned.global_block()
            block.ops = leading_to(program.global_block(), set(names), learning)[1]
            pruned.changed()
            known = self._known[key] = program, program.version, pruned
        return known[2]
