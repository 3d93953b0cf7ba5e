"""The tables of this process's programs, opened when they are used first. An adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.value import replace
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from umiak.fleet.programs.rewriting import PlannedRows
    from umiak.ps.clients.protocol import Floats
    from umiak.ps.sessions import Session
    from umiak.ps.tables.lookup import EmbeddingTable


class ProgramTables:
    """Tables by the names of the parameters that they were, in the order in which they were found: that is a table's number."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._planned: dict[str, PlannedRows] = {}
        self.first: dict[str, Floats] = {}
        """Rows that startup programs have given tables which have not begun yet: the last one counts."""
        self.begun: set[str] = set()
        """Tables whose first rows are on the servers."""

    def add(self, planned: PlannedRows) -> None:
        """One more table, unless another program has it already."""
        name = planned.site.name
        known = self._planned.get(name)
        if known is None:
            self._planned[name] = planned
        elif (replace(known.spec, init=planned.spec.init), known.counting) != (planned.spec, planned.counting):
            what = f"two programs share the table {name} and describe it differently: {known.spec} and {planned.spec}"
            raise bad("UM-FLEET-014", what, "use the same optimizer, entry and size in both")

    def __iter__(self) -> Iterator[str]:
        return iter(self._planned)

    def __len__(self) -> int:
        return len(self._planned)

    def __getitem__(self, name: str) -> EmbeddingTable:
        table = self._session.registry.table(name, self._planned[name].spec)
        table.is_clipped = self._planned[name].is_clipped
        table.counts_padding = self._planned[name].counting is None
        return table

    def planned(self, name: str) -> PlannedRows:
        return self._planned[name]

    def all(self, names: Iterable[str]) -> list[EmbeddingTable]:
        return [self[name] for name in names]
