"""The lines that training from a dataset prints, as Paddle prints them. A decider.

time: [2026-11-17 05:50:43], batch: [2], the loss[1]:[25.982], h[4]:[0.427268 0.460417 0.540477 0.616482]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def line(clock: str, batch: int, names: Sequence[str], arrays: Sequence[Any]) -> str:
    """What is fetched of a batch; ``clock`` is the local time."""
    values = ", ".join(f"{name}{_shown(np.asarray(array))}" for name, array in zip(names, arrays, strict=True))
    return f"time: [{clock}], batch: [{batch}], {values}"


def _shown(array: Any) -> str:
    flat = array.reshape(-1)
    return f"[{flat.size}]:[{' '.join(map(_number, flat.tolist()))}]"


def _number(number: Any) -> str:
    """As a stream of C++ writes it: six digits at most, no zeros behind them, 1 and 0 for booleans."""
    return f"{number:g}" if isinstance(number, float) else str(int(number))
