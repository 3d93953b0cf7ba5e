"""Batches, one of which is read ahead so that its rows can be asked for before it is its turn. An adapter.

    for batch in ahead(batches, lambda batch: {embedding: batch.ids}, next_rows): ...

The caller has one batch at a time, and one more has been read when it gets it. So what counts batches, to go on there
later, counts those that were given out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from umiak.ps.communicators.next_rows import Look, NextRows

    Looks: TypeAlias = Mapping[Any, Any] | Iterable[tuple[Any, Any]]
    """Layers, or tables, and the ids that they are asked for."""

Batch = TypeVar("Batch")


def ahead(batches: Iterable[Batch], ids_of: Callable[[Batch], Looks], next_rows: NextRows) -> Iterator[Batch]:
    """The batches. While the caller has one, what the next one looks up is expected."""
    source = iter(batches)
    try:
        batch = next(source)
    except StopIteration:
        return
    for following in source:
        next_rows.expect(looked_up(ids_of(following)))
        yield batch
        batch = following
    next_rows.expect(())
    yield batch


def looked_up(looks: Looks) -> Iterator[Look]:
    """Tables and keys. `BadRequest` for what is neither a layer nor a table."""
    pairs = looks.items() if isinstance(looks, Mapping) else looks
    for layer, ids in pairs:
        if not hasattr(layer, "looks"):
            hint = "ids_of=lambda batch: {model.embedding: batch.ids}, or pairs of these"
            raise bad("UM-PS-010", f"prefetch: neither an Embedding nor a sparse table: {type(layer).__name__}", hint)
        yield from layer.looks(ids)
