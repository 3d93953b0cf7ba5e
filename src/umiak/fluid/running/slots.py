"""A slot of a batch as a feed: its ids become arrays only where somebody needs them as such. A program.

feed = {name: SlotIds(batch, slot, lambda: LoDTensor(ids, [offsets])) for name, slot in ...}
matrix = together(feed.values())            one id in each slot of each sample: a row for each sample, in one step
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umiak.data.array_types import AnyArray
    from umiak.fluid.running.scope import LoDTensor

    class SlotBatch(Protocol):
        """What has the ids."""

        def matrix(self, slots: Sequence[str]) -> AnyArray:
            """A row for each sample, a column for each slot. ValueError: not one id in each."""


class SlotIds:
    """The ids of one slot, which are one level of sequences of single numbers."""

    __slots__ = ("_made", "_make", "batch", "slot")

    def __init__(self, batch: SlotBatch, slot: str, make: Callable[[], LoDTensor]) -> None:
        self.batch, self.slot, self._make = batch, slot, make
        self._made: LoDTensor | None = None

    def sequences(self) -> LoDTensor:
        """As they are fed otherwise."""
        if self._made is None:
            self._made = self._make()
        return self._made


def together(slots: Sequence[SlotIds]) -> AnyArray | None:
    """The ids of all slots, a row for each sample; None if they are not of one batch, or one of them has another number of ids."""
    batch = slots[0].batch
    if any(each.batch is not batch for each in slots):
        return None
    try:
        matrix = batch.matrix([each.slot for each in slots])
    except ValueError:
        return None
    return matrix if len(matrix) else None
