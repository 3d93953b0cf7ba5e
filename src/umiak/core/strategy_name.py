"""The names of the strategies of parameter servers, as configs and scripts write them. Values.

This is the one list of them: `umiak.ps.strategies` has a class for each, and the configs of `umiak train` take these words.
"""

from __future__ import annotations

from enum import Enum


class StrategyName(str, Enum):
    """How trainers and parameter servers work together."""

    SYNC = "sync"
    ASYNC = "async"
    HALF_ASYNC = "half_async"
    GEO = "geo"
    HYBRID = "hybrid"

    @property
    def waits_for_others(self) -> bool:
        """Whether a step of one trainer waits for those of the others."""
        return self in (StrategyName.SYNC, StrategyName.HYBRID)
