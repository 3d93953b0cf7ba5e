"""A stage with its data: the files, the slots, the processes of a reader class. An adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from umiak.core.decode import decode, encode
from umiak.core.problem import UmiakError
from umiak.train import reading
from umiak.train.config.slots import DenseSlot
from umiak.train.config.tabular import datasets
from umiak.train.config.values import NodeData, Slots
from umiak.train.plan.plan import Stage, visible_settings
from umiak.train.reading import dividing, finding
from umiak.train.reading.batches import Batch
from umiak.train.reading.datasets import division
from umiak.train.reading.dividing import Holder, Holding
from umiak.train.reading.shuffling import pieces
from umiak.train.reading.tables import sources
from umiak.train.run.peers import Peers

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.data.features.lock import FeatureLock
    from umiak.data.parts import Part
    from umiak.train.config.values import Free
    from umiak.train.reading.checking import Seen
    from umiak.train.reading.datasets.division import DatasetPart
    from umiak.train.reading.shuffling.pieces import PartGroup
    from umiak.train.reading.streams.samples import StreamSource
    from umiak.train.reading.tables.samples import RowSource

BATCHES_PER_PART = 8
"""A part that is handed out has at least so many batches."""


class StageData:
    """One stage with what it needs."""

    is_stream = False
    """Whether nobody knows when its next samples come."""

    def __init__(
        self,
        stage: Stage,
        config: str,
        written: Free,
        peers: Peers,
        runner: str = "",
        *,
        below: Sequence[str] | None = None,
        without: str | None = None,
        node_data: NodeData = NodeData.SHARED,
        is_checked: bool = True,
        lock: FeatureLock | None = None,
        predicted: Sequence[str] | None = None,
    ) -> None:
        """``below``: of its files only those in these directories; ``without``: but none of this name. ``is_checked``: the first lines must
        have the slots that are declared. ``lock``: of its features, if it has any; ``predicted``: no labels are read then, and these columns of tables are kept as they are."""
        self.stage = stage
        self.dataset = stage.dataset
        self._peers = peers
        self._without = without
        self._node_data = node_data
        self._is_checked = is_checked
        self.rows = self._source(lock, predicted)
        """How its tables are read, or its stream; None: its files are neither."""
        self.turn_to(below)
        self._told: JsonObject = {"config": config, "settings": visible_settings(written, stage, runner)}
        self.pool = reading.processes(self.dataset, **self._told)

    def _source(self, lock: FeatureLock | None, predicted: Sequence[str] | None) -> RowSource | StreamSource | None:
        return sources.source(self.dataset, lock, predicted=predicted)

    def turn_to(self, below: Sequence[str] | None) -> None:
        """The files of these directories, from now on. Every trainer calls it."""
        self.found = reading.find(self.dataset, below=below, without=self._without)
        self.samples: int | None = None
        """In an epoch, once one is over."""
        self.holding = self._held()
        self.first_seen = self._seen() if self._is_checked else None

    def _seen(self) -> Seen | None:
        """What the first lines have."""
        dataset = self.dataset
        return reading.check(
            dataset,
            self.found,
            extra_allowed=dataset.extra_slots_allowed,
            bad_lines=dataset.bad_lines,
            rows=self.rows,
        )

    def _held(self) -> Holding:
        """Who divides these files: all trainers, or those that see the very same ones."""
        peers, found = self._peers, self.found
        if self._node_data is NodeData.SHARED:
            reading.agree(peers.agree_on(found.digest, "files"), self.dataset.name)
            return Holding(rank=peers.rank, world=peers.world, size=found.size)
        own = Holder(held=finding.held(found), digest=found.digest, size=found.size)
        told = [decode(Holder, each) for each in peers.tell(encode(own), "files")]
        reading.agree([each.digest for each in told if each.held == own.held], self.dataset.name)
        return dividing.held(told, peers.rank)

    @property
    def more(self) -> JsonObject:
        """What every reading of it is told."""
        native = {"bad_lines": self.dataset.bad_lines, "threads": self.stage.threads} if self.dataset.has_slots else {}
        tables = {} if self.rows is None else {"rows": self.rows}
        return {**self._told, "pool": self.pool, **native, **tables}

    def slots(self) -> Slots:
        """As declared, or as the first sample has them."""
        if self.dataset.features is not None:
            return datasets.slots(self.dataset)
        if self.dataset.has_slots:
            return Slots(sparse=self.dataset.sparse_slots, dense=self.dataset.dense_slots)
        if self.dataset.reads_files:
            return Slots()  # its batches have fields without names
        batch = self.first_batch()
        if batch is None:
            what = f"dataset {self.dataset.name} has no samples, so nothing says what its slots are"
            raise UmiakError.of("UM-TRAIN-019", what)
        dense = [DenseSlot(name=name, shape=(array.shape[1],)) for name, array in batch.dense.items()]
        return Slots(sparse=tuple(batch.sparse), dense=tuple(dense))

    def first_batch(self) -> Batch | None:
        """The first samples of the data, if there are any."""
        with reading.read(self.dataset, self.found, rows=self.rows, **self._told) as samples:
            return next(samples, None)

    def guess(self) -> int | None:
        """About how many samples an epoch has."""
        if self.dataset.reads_files:
            return self.samples
        if self.samples is not None or any(file.packed for file in self.found.files):
            return self.samples
        return int(self.holding.size / reading.sample_bytes(self.found, self.rows)) if self.found.size else None

    def lag(self, _samples: int) -> int | None:
        """How many messages are there that nobody has read, when so many samples of this pass were learned; None: it is no stream."""
        return None

    def parts(
        self, world: int, *, shuffle_files: bool, shuffle: int, seed: int, epoch: int
    ) -> Sequence[Part | PartGroup | DatasetPart]:
        """What is handed out to trainers that are idle, for so many of them."""
        dataset, found = self.dataset, self.found
        if shuffle and not dataset.reads_files:
            how, size = reading.shuffle_of(found, shuffle, self.rows), self.part_bytes(world)
            return pieces.groups(found.files, how, world=world, part_bytes=size, seed=seed, epoch=epoch)
        files = dividing.in_order(found.files, shuffled=shuffle_files or shuffle > 0, seed=seed, epoch=epoch)
        if dataset.reads_files:
            handed_out = not dataset.drop_last  # each part may leave out some samples
            return division.parts_of(files, world=world, divide_by=dataset.divide_by, handed_out=handed_out)
        return dividing.hand(files, world=world, piece_bytes=self.part_bytes(world))

    def part_bytes(self, world: int) -> int:
        """How large a part is that is handed out: large enough for some batches, small enough that nobody waits long."""
        usual = self.found.size // (world * dividing.PIECES_PER_TRAINER)
        batches = int(BATCHES_PER_PART * self.dataset.batch_size * reading.sample_bytes(self.found, self.rows))
        return max(1, batches, min(dividing.PIECE_BYTES, usual))

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()
