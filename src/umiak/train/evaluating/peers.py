"""What an evaluation asks of the other trainers. A value: `umiak.train.run.peers` is one.

peers.add(counts)       the sum over all trainers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from umiak.core.json_types import JsonObject


class MeasuringPeers(Protocol):
    """What is asked of the other trainers: `umiak.train.run.peers`."""

    rank: int
    world: int

    def tell(self, message: JsonObject, name: str = "tell") -> list[JsonObject]: ...
    def add(self, vector: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def all_of(self, payload: bytes) -> list[bytes]: ...
