"""What admits an id to `contrib.layers.sparse_embedding`: `fluid.entry_attr`. Values."""

from __future__ import annotations

from umiak.fluid.record.problems import bad
from umiak.fluid.record.sites import user_line
from umiak.ps import specs


class ProbabilityEntry:
    """One id in so many gets a row."""

    def __init__(self, probability: float) -> None:
        if not isinstance(probability, float) or not 0 < probability < 1:
            raise bad("UM-FLUID-001", f"ProbabilityEntry: expected a fraction between 0 and 1, got {probability!r}", where=user_line())  # fmt: skip
        self.entry = specs.Probability(probability=probability)


class CountFilterEntry:
    """An id gets a row when it has come so often."""

    def __init__(self, count_filter: int) -> None:
        if not isinstance(count_filter, int) or count_filter < 1:
            raise bad("UM-FLUID-001", f"CountFilterEntry: expected an integer of 1 or more, got {count_filter!r}", where=user_line())  # fmt: skip
        self.entry = specs.Count(count=count_filter)
