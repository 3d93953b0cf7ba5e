"""Times of files that others have written. A decider.

time_of(12.5)       12.5
time_of(nan)        ValueError, as for a word
"""

from __future__ import annotations

import math


def time_of(found: object) -> float:
    """A time. ValueError, or TypeError, if it is none: nothing can be said of a moment that is no number."""
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        raise TypeError(f"expected a time, got {type(found).__name__}")
    number = float(found)
    if not math.isfinite(number):
        raise ValueError(f"expected a time, got {number}")
    return number
