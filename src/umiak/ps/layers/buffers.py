"""What a model has besides its parameters (running statistics, counters), in a table beside theirs, so that checkpoints have it. An adapter, without a framework.

    kept = KeptBuffers(session, "dense.buffers", read, write)
    kept.store()        before a checkpoint: the first trainer's
    kept.restore()      after one was loaded

Numbers of any type come back as they were: `coded` and `decoded`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.ps import specs

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from umiak.ps.clients.protocol import Floats
    from umiak.ps.sessions import Session

    Arrays = dict[str, NDArray[Any]]


class KeptBuffers:
    """The buffers of one model. ``read`` gives them, ``write`` puts them back."""

    def __init__(
        self, session: Session, table: str, read: Callable[[], Arrays], write: Callable[[Arrays], None]
    ) -> None:
        self._session = session
        self._read = read
        self._write = write
        arrays = read()
        self.spec = specs.DenseTable(
            arrays=tuple([specs.Array(name=name, shape=coded(each).shape) for name, each in arrays.items()]),
            # Nothing is ever pushed: values are set.
            rule=specs.Sum(),
        )
        self.table = table
        self.number = session.communicator.open_kept(table, self.spec)
        self._put(arrays, if_unset=True)

    def store(self) -> None:
        """What this trainer has, for a checkpoint that it saves."""
        self._put(self._read(), if_unset=False)

    def restore(self) -> None:
        """What a checkpoint has brought."""
        flat = self._session.client.pull_dense(self.number)
        found, at = {}, 0
        for name, array in self._read().items():
            size = coded(array).size
            found[name] = decoded(flat[at : at + size], array)
            at += size
        self._write(found)

    def _put(self, arrays: Arrays, *, if_unset: bool) -> None:
        session = self._session
        if session.is_first or session.communicator.keeps_tables:
            flat = np.concatenate([coded(each).reshape(-1) for each in arrays.values()])
            session.client.set_dense(self.number, flat, if_unset=if_unset)


def coded(array: NDArray[Any]) -> Floats:
    """As a table keeps it: float32 as it is; others as the 16-bit (or 8-bit) pieces that they are made of, which float32 holds exactly."""
    if array.dtype == np.float32:
        return array
    piece = np.uint8 if array.dtype.itemsize == 1 else np.uint16
    pieces = np.ascontiguousarray(array).reshape(-1).view(piece)
    return pieces.astype(np.float32).reshape(*array.shape, -1)


def decoded(flat: Floats, like: NDArray[Any]) -> NDArray[Any]:
    """The opposite."""
    if like.dtype == np.float32:
        return flat.reshape(like.shape)
    piece = np.uint8 if like.dtype.itemsize == 1 else np.uint16
    return flat.astype(piece).view(like.dtype).reshape(like.shape)
