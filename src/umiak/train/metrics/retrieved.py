"""Recall@k over a whole catalogue. A decider.

    recalls(scores, relevant=[3, 8], unknown=0, cutoffs=(10, 100))      one number for each k

Of a user's relevant items, the share that is among the ``k`` with the highest scores: all items are ranked, also those that the user has seen in training. What
has the same score has no order: the number is the mean over all orders of ties. Relevant items that are not in the catalogue are never found, and count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray


def recalls(
    scores: AnyArray, relevant: NDArray[np.int64], unknown: int, cutoffs: Sequence[int]
) -> list[tuple[int, int]]:
    """For each k the recall as a fraction: numerator and denominator, both whole, so that sums are the same in any order."""
    own = scores[relevant]
    order = np.sort(scores)[::-1]
    found = []
    for k in cutoffs:
        if k >= len(scores):
            found.append((len(relevant), len(relevant) + unknown))
            continue
        border = order[k - 1]
        above, ties = int((scores > border).sum()), int((scores == border).sum())
        # Of the ties, k - above are among the first; each of them as likely as any other.
        sure, perhaps = int((own > border).sum()), int((own == border).sum())
        found.append((sure * ties + perhaps * (k - above), (len(relevant) + unknown) * ties))
    return found
