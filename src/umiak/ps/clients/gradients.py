"""Gradients of rows, multiplied without touching what rows count. A decider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from umiak.ps.clients.protocol import Floats

STATISTICS = 3
"""Columns before the gradients of a pushed row with an accessor: slot, show, click."""


def scaled(rows: Floats, scale: float, *, statistics: bool) -> Floats:
    """Rows whose gradients are multiplied; what is counted stays. The rows themselves if there is nothing to do."""
    if scale == 1.0:
        return rows
    product: Floats = rows * np.float32(scale)
    if statistics:
        product[:, :STATISTICS] = rows[:, :STATISTICS]
    return product
