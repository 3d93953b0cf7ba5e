"""Operations that reach other processes: rows of tables, and gradients of all trainers. `umiak.fluid.distributed` carries them out. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umiak.fluid.kernels.registry import Frame, Tensor, kernel

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results


@kernel(sequences=True)
def table_rows(frame: Frame, ids: list[Tensor], table: str, padding_idx: int, drops_last: list[bool]) -> Results:
    """Rows of a table, for each of several ids; an output has the sequences of its ids."""
    flat = [
        each.reshape(each.shape[:-1]) if drops and each.ndim > 1 and each.shape[-1] == 1 else each
        for each, drops in zip(ids, drops_last, strict=True)
    ]
    arrays = [each.numpy() for each in flat]
    output = frame.exchange.rows(table, arrays, frame.operation.outputs, None if padding_idx < 0 else padding_idx)
    for place, name in enumerate(frame.operation.input_names):
        if name in frame.offsets:
            frame.set_offsets(*frame.offsets[name], output=place)
    return output


@kernel(sequences=True)
def joined_slots(frame: Frame, **arguments: Any) -> Results:
    """Slots of one table side by side: `umiak.fluid.running.replay` has a step of its own for them."""
    raise NotImplementedError


@kernel(frame=True)
def mean_gradients(frame: Frame, gradients: list[Tensor]) -> list[Tensor]:
    """The mean of what all trainers have, for each gradient."""
    means: list[Tensor] = frame.exchange.means(gradients)
    return means
