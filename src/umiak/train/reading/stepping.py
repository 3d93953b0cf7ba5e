"""Steps in common: trainers that train together though their data does not come out even. A decider.

All trainers take every step. One that has run out takes part without samples, until nobody has any; so nobody waits for somebody
who has left, and no sample is dropped. In each step a trainer's gradient, a mean over its own samples, counts by its share:

    sizes of the batches    512 512 40    (trainer 2's last one)
    shares                  0.481 0.481 0.038
    sizes of the next       512 90 0
    shares                  0.850 0.150 0.0

The sum of shares times means is the mean over all samples of the step, as if one trainer had them all.
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.train.reading.batches import Batch


@value
class Step:
    """One trainer's part in a step of all."""

    batch: Batch | None
    """None: this trainer has run out."""
    sizes: tuple[int, ...]
    """Samples of every trainer in this step."""
    rank: int

    @property
    def size(self) -> int:
        return self.sizes[self.rank]

    @property
    def total(self) -> int:
        """Samples of all trainers."""
        return sum(self.sizes)

    @property
    def share(self) -> float:
        """What this trainer's gradient counts where gradients are summed."""
        return self.size / self.total
