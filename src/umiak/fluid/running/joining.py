"""Slots of one table that end side by side become one value: one lookup or one pull for all of them, and no operation for each. A decider.

    rows_1 = lookup_table(Rows, ids_1)    pool_1 = sequence_pool(rows_1, "sum")
    rows_2 = lookup_table(Rows, ids_2)    pool_2 = sequence_pool(rows_2, "sum")        x = concat([pool_1, pool_2, dense], 1)

becomes

    columns = joined_slots(...)           x = concat([columns, dense], 1)

Where each sample has one id in each slot, which only a run shows, the rows of a batch are those columns as they are. Otherwise the operations above are run one by one,
which is why a joined one keeps them. What they write is not there then for anybody else: who fetches it runs the program as it was recorded.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from umiak.core.value import replace, value
from umiak.fluid.record.program import BACKWARD, FORWARD, GRADIENT, RecordedOperation, Ref, Variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.fluid.arguments import Argument
    from umiak.fluid.record.program import RecordedProgram

JOINED = "joined_slots"
LOOKUP, ROWS = "lookup_table", "table_rows"
POOLS = ("sequence_pool", "sequence_first_step", "sequence_last_step")
"""Operations that leave a sequence of one item as it is."""
SHAPES = ("reshape", "squeeze", "flatten")
"""Operations that change nothing but a shape."""


@value
class JoinedProgram:
    """A program's operations, and what they don't write any more."""

    ops: tuple[RecordedOperation, ...]
    hidden: frozenset[str] = frozenset()
    arrays: frozenset[str] = frozenset()
    """What is fed and only read by joined operations, which want no tensors."""


@value
class _Slot:
    """From a lookup to the concat."""

    ids: str
    drops: bool
    rows: str
    chain: tuple[int, ...]
    last: str
    concat: int
    column: int


def joined(program: RecordedProgram) -> JoinedProgram | None:
    """The operations of a program's first block with joined slots; None if there are none."""
    joining = _Joining(program)
    for places in joining.groups():
        joining.join(places)
    return joining.made() if joining.count else None


class _Joining:
    """One pass over a program."""

    def __init__(self, program: RecordedProgram) -> None:
        self._program, self._block = program, program.global_block()
        self._ops: list[RecordedOperation | None] = list(self._block.ops)
        self._writes = Counter(name for block in program.blocks for each in block.ops for name in each.outputs)
        self._readers: dict[str, list[int]] = {}
        for place, each in enumerate(self._block.ops):
            for name in each.input_names:
                self._readers.setdefault(name, []).append(place)
        for each in (op for block in program.blocks[1:] for op in block.ops):
            for name in (*each.input_names, *each.outputs):
                self._readers.setdefault(name, []).extend([-1, -1])  # as good as many
        self._hidden: set[str] = set()
        self.count = 0

    def groups(self) -> list[list[int]]:
        """Places of operations that read rows of one table: a read of several, or lookups with the same settings."""
        reads: list[list[int]] = []
        lookups: dict[tuple[str, ...], list[int]] = {}
        for place, each in enumerate(self._block.ops):
            if each.role != FORWARD:
                break
            if each.type == ROWS and len(each.outputs) > 1:
                reads.append([place])
            elif each.type == LOOKUP and all(isinstance(each.arguments[name], Ref) for name in ("weight", "ids")):
                names = sorted(set(each.arguments) - {"ids", "drops_last"})
                lookups.setdefault(tuple(repr(each.arguments[name]) for name in names), []).append(place)
        return [*reads, *(places for places in lookups.values() if len(places) > 1)]

    def join(self, places: list[int]) -> None:
        """Put one operation in place of these and what follows them, if nothing speaks against it."""
        slots = self._slots([self._block.ops[place] for place in places])
        if slots is None or not self._holds(places, slots):
            return
        first, concat = places[0], slots[0].concat
        sources = [self._block.ops[place] for place in places]
        old = self._ops[concat]
        assert old is not None
        columns, rows = f"{slots[0].last}@COLUMNS", f"{slots[0].rows}@JOINED"
        chains = tuple(tuple(self._block.ops[place] for place in slot.chain) for slot in slots)
        given = sources[0].arguments
        self._ops[first] = RecordedOperation(
            type=JOINED,
            arguments={
                "ids": [Ref(name=slot.ids) for slot in slots],
                "weight": given.get("weight"),
                "sources": sources,
                "rows": [slot.rows for slot in slots],
                "chains": chains,
                "lasts": [slot.last for slot in slots],
                "table": given.get("table"),
                "padding_idx": given["padding_idx"],
                "is_sparse": given.get("is_sparse", True),
                "drops_last": [slot.drops for slot in slots],
            },
            outputs=(columns, rows),
            site=sources[0].site,
        )
        for place in (*places[1:], *(place for slot in slots for place in slot.chain)):
            self._ops[place] = None
        inputs = list(old.arguments["input"])
        begin = slots[0].column
        inputs[begin : begin + len(slots)] = [Ref(name=columns)]
        self._ops[concat] = replace(old, arguments={**old.arguments, "input": inputs})
        for place, each in enumerate(self._ops):
            if each is not None and each.role == BACKWARD:
                self._ops[place] = _to_joined(each, [slot.rows for slot in slots], rows)
        hidden = {name for place in places for name in self._block.ops[place].outputs}
        hidden |= {name for chain in chains for each in chain for name in each.outputs}
        self._hidden |= hidden | {f"{slot.rows}{GRADIENT}" for slot in slots}
        self.count += 1

    def made(self) -> JoinedProgram:
        """What came of it."""
        ops = tuple(each for each in self._ops if each is not None)
        ids = {ref.name for each in ops if each.type == JOINED for ref in each.arguments["ids"]}
        others = {name for each in ops if each.type != JOINED for name in (*each.input_names, *each.outputs)}
        others |= {name for block in self._program.blocks[1:] for each in block.ops for name in each.input_names}
        arrays = frozenset(name for name in ids - others if not self._is_kept(name))
        return JoinedProgram(ops=ops, hidden=frozenset(self._hidden), arrays=arrays)

    # ---- what speaks against it

    def _slots(self, sources: Sequence[RecordedOperation]) -> list[_Slot] | None:
        """The way of each lookup to the concat, by columns; None if they don't meet in one, side by side."""
        slots = [
            self._slot(ref.name, rows, drops=drops)
            for each in sources
            for ref, drops, rows in zip(
                _listed(each.arguments["ids"]), _listed(each.arguments["drops_last"]), each.outputs, strict=True
            )
        ]
        known_slots = sorted((each for each in slots if each is not None), key=lambda each: each.column)
        if len(known_slots) < len(slots) or len({each.concat for each in known_slots}) > 1:
            return None
        first = known_slots[0].column
        if [each.column for each in known_slots] != [*range(first, first + len(known_slots))]:
            return None
        return known_slots

    def _slot(self, ids: str, rows: str, *, drops: bool) -> _Slot | None:
        chain: list[int] = []
        name = rows
        while True:
            readers = [place for place in self._readers.get(name, ()) if name != rows or not self._is_backward(place)]
            if len(readers) != 1 or readers[0] < 0 or not self._is_plain(name):
                return None
            reader = self._block.ops[readers[0]]
            if reader.role != FORWARD:
                return None
            if reader.type == "concat":
                break
            if reader.type not in (*POOLS, *SHAPES) or reader.input_names != [name] or len(reader.outputs) != 1:
                return None
            chain.append(readers[0])
            name = reader.outputs[0]
        inputs = reader.arguments["input"]
        is_list = isinstance(inputs, list | tuple) and all(isinstance(each, Ref) for each in inputs)
        variable, width = self._block.vars[name], self._block.vars[rows].shape[-1]
        if not is_list or reader.arguments["axis"] not in (1, -1) or tuple(variable.shape) != (-1, width):
            return None
        column = [each.name for each in inputs].index(name)
        return _Slot(ids=ids, drops=drops, rows=rows, chain=tuple(chain), last=name, concat=readers[0], column=column)

    def _holds(self, places: list[int], slots: Sequence[_Slot]) -> bool:
        """Whether ids are there before the first lookup and stay as they are, and the gradient goes to all rows or to none."""
        first, concat = places[0], slots[0].concat
        written = {name for each in self._block.ops[first:concat] for name in each.outputs}
        weight = self._block.ops[first].arguments.get("weight")
        if written & {*(slot.ids for slot in slots), *([weight.name] if weight else [])}:
            return False
        names = {slot.rows for slot in slots}
        backward = [each for each in self._ops if each is not None and each.role == BACKWARD]
        targets = [names & {ref.name for ref in each.arguments["targets"]} for each in backward]
        return sum(bool(each) for each in targets) <= 1 and all(each in (set(), names) for each in targets)

    def _is_plain(self, name: str) -> bool:
        """Whether a variable is nothing but a step between two operations."""
        variable = self._block.vars.get(name)
        return (
            isinstance(variable, Variable)
            and self._writes[name] == 1
            and not variable.persistable
            and not variable.stop_gradient
            and variable.error_clip is None
        )

    def _is_backward(self, place: int) -> bool:
        return place >= 0 and self._block.ops[place].role == BACKWARD

    def _is_kept(self, name: str) -> bool:
        variable = self._block.vars.get(name)
        return variable is None or variable.persistable or not variable.stop_gradient


def _listed(argument: Argument) -> list[Any]:
    return list(argument) if isinstance(argument, list | tuple) else [argument]


def _to_joined(backward: RecordedOperation, rows: Sequence[str], joined: str) -> RecordedOperation:
    """A backward pass that goes to the rows of all slots at once where it went to those of each."""
    pairs = zip(backward.arguments["targets"], backward.outputs, strict=True)
    stay = [(target, output) for target, output in pairs if target.name not in rows]
    if len(stay) == len(backward.outputs):
        return backward
    stay.append((Ref(name=joined), f"{joined}{GRADIENT}"))
    targets, outputs = [target for target, _ in stay], tuple(output for _, output in stay)
    return replace(backward, arguments={**backward.arguments, "targets": targets}, outputs=outputs)
