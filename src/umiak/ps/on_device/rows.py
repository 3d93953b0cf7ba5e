"""Looking rows up where the ids are: each id once, rows spread and gradients merged on the device. An adapter: PyTorch.

    found = DeviceLookup(table, ids, offsets, ...)      the ids' keys are on their way to this machine
    out = found.rows(create=True, ...)                  rows are pulled, and copied to the device
    out.sum().backward()                                one row of gradients per key, still on the device
    collect(session.registry, others)                   all tables' gradients, and others beside them, with one wait

Which keys there are is found with shapes that depend on the number of ids alone, so that nobody waits for their number before it
is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from umiak.ps.on_device.copies import Copies

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from umiak.data.array_types import AnyArray
    from umiak.ps.gradients import Absent
    from umiak.ps.on_device.copies import Fetched
    from umiak.ps.tables.lookup import EmbeddingTable, Keys, TableRegistry


class DeviceLookup:
    """One look into a table. As `umiak.ps.tables.lookup.Lookup`, for ids on a device and tables without an accessor."""

    def __init__(
        self,
        table: EmbeddingTable,
        ids: torch.Tensor,
        offsets: torch.Tensor | None = None,
        *,
        pooling: str = "sum",
        padding: int | None = None,
    ) -> None:
        self.table = table
        self.scale = 1.0
        self._copies = Copies.of(ids.device)
        self._offsets, self._pooling, self._padding = offsets, pooling, padding
        with torch.no_grad():
            self._unique, inverse, count = distinct(ids.detach().reshape(-1).long())
        self._inverse = inverse if offsets is not None else inverse.view(ids.shape)
        self._coming: Fetched | None = self._copies.fetch([self._unique, count])
        self._keys: Keys | None = None

    @property
    def keys(self) -> Keys:
        """Each id once; waits for them the first time."""
        if self._keys is None:
            assert self._coming is not None
            unique, count = self._coming.arrays()
            self._keys = unique[: int(count[0])].view(np.uint64)
            self._coming = None
        return self._keys

    def rows(self, *, create: bool, absent: Absent = "initial") -> torch.Tensor:
        """For training with ``create``: their gradients are kept for the end of the step."""
        pulled = self.table.rows(self.keys, create=create, absent=absent)
        rows = self._copies.bring(pulled)
        if create:
            rows = rows.requires_grad_()
            rows.register_post_accumulate_grad_hook(
                self._learned
            )  # which keeps this lookup, and not the other way round
        if self._padding is not None:
            rows = rows * (self._unique[: len(rows)] != self._padding).unsqueeze(1)
        if self._offsets is None:
            return torch.nn.functional.embedding(self._inverse, rows)
        return torch.nn.functional.embedding_bag(
            self._inverse, rows, self._offsets, mode=self._pooling, include_last_offset=True
        )

    def _learned(self, leaf: torch.Tensor) -> None:
        """A backward pass has been here; a second one adds to the same rows."""
        late = gradients_of(self.table)
        if all(known is not leaf for _, known in late.reached):
            late.reached.append((self, leaf))

    def collect(self, gradients: AnyArray) -> None:
        """They have come."""
        keys = self.keys
        if self._padding is not None:
            real = keys != np.int64(self._padding).view(np.uint64)
            keys, gradients = keys[real], gradients[real]
        self.table.collect(keys, gradients)


def distinct(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Each number once in ascending order, with nothing that counts behind them; where each of ``ids`` is among them; how many they are.

    As `torch.unique`, which makes the program wait until the device knows how many.
    """
    if not len(ids):
        return ids, ids, ids.new_zeros(1)
    ordered, order = ids.sort()
    which = torch.zeros_like(ids)
    which[1:] = ordered[1:] != ordered[:-1]
    which = which.cumsum(0)
    unique = torch.empty_like(ids).scatter_(0, which, ordered)
    inverse = torch.empty_like(ids).scatter_(0, order, which)
    return unique, inverse, which[-1:] + 1


def chained(slots: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Several CSR slots of one table, one after the other, as one."""
    behind, offsets = 0, [slots[0][1][:1]]
    for values, ends in slots:
        offsets.append(ends[1:] + behind)
        behind += len(values)
    return torch.cat([values for values, _ in slots]), torch.cat(offsets)


class LateGradients:
    """What a table has of gradients on devices."""

    def __init__(self, table: EmbeddingTable) -> None:
        self._table = table
        self.reached: list[tuple[DeviceLookup, torch.Tensor]] = []
        """Lookups that a backward pass has reached, in this order, and the rows that have the gradients."""

    def arrive(self) -> None:
        """Wait for what is here."""
        if self.reached:
            bring([self])

    def take(self) -> list[tuple[DeviceLookup, torch.Tensor]]:
        """One row of gradients per key, for each lookup."""
        found = []
        for lookup, leaf in self.reached:
            gradient, leaf.grad = leaf.grad, None
            assert gradient is not None
            found.append((lookup, gradient if lookup.scale == 1.0 else gradient * lookup.scale))
        self.reached = []
        return found

    def forget(self) -> None:
        self.take()


def gradients_of(table: EmbeddingTable) -> LateGradients:
    """Those of this table."""
    if not isinstance(table.late, LateGradients):
        table.late = LateGradients(table)
    return table.late


def bring(late: Iterable[LateGradients], others: Sequence[torch.Tensor] = ()) -> list[AnyArray]:
    """Let the gradients of all of these be collected in their tables, with one wait per device; returns ``others`` as arrays."""
    taken = [each for table in late for each in table.take()]
    wanted = [*(gradient.float() for _, gradient in taken), *others]
    places: dict[torch.device, list[int]] = {}
    for place, tensor in enumerate(wanted):
        places.setdefault(tensor.device, []).append(place)
    coming = [(own, Copies.of(device).fetch([wanted[place] for place in own])) for device, own in places.items()]
    arrays = {place: array for own, fetched in coming for place, array in zip(own, fetched.arrays(), strict=True)}
    for place, (lookup, _) in enumerate(taken):
        lookup.collect(arrays[place])
    return [arrays[place] for place in range(len(taken), len(wanted))]


def collect(registry: TableRegistry, others: Sequence[torch.Tensor] = ()) -> list[AnyArray]:
    """The same for all tables of a session."""
    late = [table.late for table in registry.tables if isinstance(table.late, LateGradients)]
    return bring(late, others)
