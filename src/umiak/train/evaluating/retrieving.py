"""Recall@k over the whole catalogue, in one evaluation: who chose what is gathered from all trainers, then each user's items are ranked once. A program.

    retrieved = Retrieved(retrieval, catalogue, engine, label="click", group="user")
    retrieved.update(batch)
    numbers = retrieved.added(peers)            {"recall@10": 0.31, "recall.groups": 6040, ...}

A user's own features are those of one of its samples: the one whose contents have the smallest hash, whichever trainer has it. That trainer ranks. So the numbers
are the same with one trainer and with many.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from umiak.core.problem import UmiakError
from umiak.data.features.row_choice import hash_of_rows
from umiak.train.engines.engine import ScoringEngine
from umiak.train.metrics.grouped import UNIT
from umiak.train.metrics.metric import NAN
from umiak.train.metrics.retrieved import recalls
from umiak.train.reading.batches import Arrays
from umiak.train.reading.tables.catalogue import beside, taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umiak.data.array_types import AnyArray
    from umiak.schema.features.section import FeatureSection
    from umiak.train.config.objectives.retrieval import Retrieval
    from umiak.train.engines.engine import Engine
    from umiak.train.evaluating.peers import MeasuringPeers
    from umiak.train.reading.batches import Batch
    from umiak.train.reading.tables.catalogue import Catalogue

PIECE = 40_000
"""Records that a trainer sends at a time: a message has at most 1 MiB."""
MOST_ROWS = 8192
"""So many items are scored at a time."""
_OWNER = np.dtype([("group", "<u8"), ("hash", "<f8")])
_CHOICE = np.dtype([("group", "<u8"), ("item", "<i8")])


class Retrieved:
    """Users, what they chose, and how that is ranked."""

    def __init__(
        self, retrieval: Retrieval, catalogue: Catalogue, engine: ScoringEngine, *, label: str, group: str
    ) -> None:
        self._cutoffs = retrieval.recall
        self._catalogue = catalogue
        self._engine = engine
        self._label, self._group, self._key = label, group, retrieval.features[0]
        self._users: dict[int, tuple[float, Arrays]] = {}
        """The smallest hash of a user's rows, and that row."""
        self._choices: list[NDArray[np.void]] = []

    def update(self, batch: Batch) -> None:
        """Remember who chose what."""
        groups = _as_keys(batch.sparse[self._group][0])
        chosen = np.flatnonzero(batch.sparse[self._label][0] > 0)
        choices = np.empty(len(chosen), _CHOICE)
        choices["group"] = groups[chosen]
        choices["item"] = batch.sparse[self._key][0][chosen]
        self._choices.append(np.unique(choices))
        theirs = tuple(
            name for name in (*batch.sparse, *batch.dense) if name not in (*self._catalogue.slots, self._label)
        )
        columns = [
            (batch.sparse[name][0], np.diff(batch.sparse[name][1])) for name in sorted(theirs) if name in batch.sparse
        ]
        columns += [(batch.dense[name].astype(np.float64), None) for name in sorted(theirs) if name in batch.dense]  # type: ignore[misc]
        hashes = hash_of_rows(columns, batch.size)  # type: ignore[arg-type]
        order = np.lexsort((hashes, groups))
        first = order[np.flatnonzero(np.diff(groups[order], prepend=groups[order][:1] ^ np.uint64(1)))]
        for row in first.tolist():
            group, place = int(groups[row]), float(hashes[row])
            if group not in self._users or place < self._users[group][0]:
                self._users[group] = place, taken(batch, np.array([row]), theirs)

    def added(self, peers: MeasuringPeers) -> dict[str, float]:
        """What all trainers have found together. Every trainer calls it."""
        choices = np.unique(np.concatenate(_of_all(self._chosen(), peers)))
        mine = self._mine(peers)
        sums = [0] * len(self._cutoffs)
        groups = unknown = 0
        starts = np.flatnonzero(np.diff(choices["group"], prepend=choices["group"][:1] ^ np.uint64(1)))
        for start, end in zip(starts, [*starts[1:], len(choices)][: len(starts)], strict=True):
            group = int(choices["group"][start])
            if group not in mine:
                continue
            places = self._catalogue.places(choices["item"][start:end])
            known = places[places >= 0]
            groups, unknown = groups + 1, unknown + int((places < 0).sum())
            found = recalls(self._scores(self._users[group][1]), known, len(places) - len(known), self._cutoffs)
            sums = [total + round(Fraction(*each) * UNIT) for total, each in zip(sums, found, strict=True)]
        told = peers.tell({"sums": sums, "counts": [groups, len(mine) - groups, unknown]}, "recall")
        groups, left_out, unknown = (sum(each["counts"][at] for each in told) for at in range(3))
        numbers = {
            f"recall@{k}": sum(each["sums"][at] for each in told) / (groups * UNIT) if groups else NAN
            for at, k in enumerate(self._cutoffs)
        }
        return numbers | {"recall.groups": groups, "recall.left_out_groups": left_out, "recall.unknown_items": unknown}

    def _chosen(self) -> NDArray[np.void]:
        return np.unique(np.concatenate(self._choices)) if self._choices else np.empty(0, _CHOICE)

    def _mine(self, peers: MeasuringPeers) -> set[int]:
        """The users whose row this trainer has."""
        if peers.world == 1:
            return {*self._users}
        own = np.empty(len(self._users), _OWNER)
        own["group"] = [*self._users]
        own["hash"] = [place for place, _ in self._users.values()]
        best: dict[int, tuple[float, int]] = {}
        for rank, found in enumerate(_of_each(own, peers)):
            for group, place in zip(found["group"].tolist(), found["hash"].tolist(), strict=True):
                best[group] = min(best.get(group, (place, rank)), (place, rank))
        return {group for group, (_, rank) in best.items() if rank == peers.rank}

    def _scores(self, user: Arrays) -> AnyArray:
        """Of all items."""
        found = []
        for start in range(0, self._catalogue.items.size, MOST_ROWS):
            index = np.arange(start, min(start + MOST_ROWS, self._catalogue.items.size))
            batch = beside(taken(user, np.zeros(len(index), np.int64)), taken(self._catalogue.items, index))
            found.append(self._engine.scores(batch))
        return np.concatenate(found)


def of_evaluation(
    retrieval: Retrieval, catalogue: Catalogue | None, engine: Engine, section: FeatureSection | None
) -> Retrieved | None:
    """None: nothing is looked for."""
    if catalogue is None or not retrieval.recall or section is None or section.group is None:
        return None
    first = engine.first_metric
    if first is None or not isinstance(engine, ScoringEngine):
        what = "retrieval: recall needs a model that says which label and which result its first metric looks at"
        raise UmiakError.of("UM-TRAIN-605", what, hint="leave `recall:` out, or let `metrics()` of the model name one")
    group = next((each.name for each in section.fed if each.column == section.group), section.group)
    return Retrieved(retrieval, catalogue, engine, label=first.label, group=group)


def _of_each(own: NDArray[np.void], peers: MeasuringPeers) -> list[NDArray[np.void]]:
    """Everybody's records, trainer by trainer."""
    most = max(each["records"] for each in peers.tell({"records": len(own)}, "records"))
    found: list[list[NDArray[np.void]]] = [[] for _ in range(peers.world)]
    for at in range(0, most or 1, PIECE):
        for rank, each in enumerate(peers.all_of(own[at : at + PIECE].tobytes())):
            found[rank].append(np.frombuffer(each, own.dtype))
    return [np.concatenate(each) for each in found]


def _as_keys(values: AnyArray) -> NDArray[np.uint64]:
    return (values.astype(np.float64) if values.dtype.kind == "f" else values).view(np.uint64)


def _of_all(own: NDArray[np.void], peers: MeasuringPeers) -> list[NDArray[np.void]]:
    return [own] if peers.world == 1 else _of_each(own, peers)
