"""A stage with its data: the files, the slots, the processes of a reader class. An adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from umiak.core.decode import decode, encode
from umiak.core.problem import Problem, UmiakError
from umiak.train import reading
from umiak.train.config.values import DenseSlot, NodeData, Slots
from umiak.train.plan.plan import Stage, visible_settings
from umiak.train.reading import dividing, finding
from umiak.train.reading.batches import Batch
from umiak.train.reading.datasets import division
from umiak.train.reading.dividing import Holder, Holding
from umiak.train.reading.shuffling import pieces
from umiak.train.run.peers import Peers

if TYPE_CHECKING:
    from umiak.data.parts import Part
    from umiak.train.config.values import Free
    from umiak.train.reading.datasets.division import DatasetPart
    from umiak.train.reading.shuffling.pieces import PartGroup

BATCHES_PER_PART = 8
"""A part that is handed out has at least so many batches."""


class StageData:
    """One stage with what it needs."""

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
    ) -> None:
        """``below``: of its files only those in these directories; ``without``: but none of this name."""
        self.stage = stage
        self.dataset = stage.dataset
        self._peers = peers
        self._without = without
        self._node_data = node_data
        self.turn_to(below)
        self._told: dict[str, Any] = {"config": config, "settings": visible_settings(written, stage, runner)}
        self.pool = reading.processes(self.dataset, **self._told)

    def turn_to(self, below: Sequence[str] | None) -> None:
        """The files of these directories, from now on. Every trainer calls it."""
        self.found = reading.find(self.dataset, below=below, without=self._without)
        self.samples: int | None = None
        """In an epoch, once one is over."""
        self.holding = self._held()
        self.first_seen = reading.check(
            self.dataset,
            self.found,
            extra_allowed=self.dataset.extra_slots_allowed,
            bad_lines=self.dataset.bad_lines,
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
    def more(self) -> dict[str, Any]:
        """What every reading of it is told."""
        native = {"bad_lines": self.dataset.bad_lines, "threads": self.stage.threads} if self.dataset.has_slots else {}
        return {**self._told, "pool": self.pool, **native}

    def slots(self) -> Slots:
        """As declared, or as the first sample has them."""
        if self.dataset.has_slots:
            return Slots(sparse=self.dataset.sparse_slots, dense=self.dataset.dense_slots)
        if self.dataset.reads_files:
            return Slots()  # its batches have fields without names
        batch = self.first_batch()
        if batch is None:
            what = f"dataset {self.dataset.name} has no samples, so nothing says what its slots are"
            raise UmiakError(Problem(code="UM-TRAIN-019", what=what))
        dense = [DenseSlot(name=name, shape=(array.shape[1],)) for name, array in batch.dense.items()]
        return Slots(sparse=tuple(batch.sparse), dense=tuple(dense))

    def first_batch(self) -> Batch | None:
        """The first samples of the data, if there are any."""
        with reading.read(self.dataset, self.found, **self._told) as samples:
            return next(samples, None)

    def guess(self) -> int | None:
        """About how many samples an epoch has."""
        if self.dataset.reads_files:
            return self.samples
        if self.samples is not None or any(file.packed for file in self.found.files):
            return self.samples
        return int(self.holding.size / finding.line_bytes(self.found)) if self.found.size else None

    def parts(
        self, world: int, *, shuffle_files: bool, shuffle: int, seed: int, epoch: int
    ) -> Sequence[Part | PartGroup | DatasetPart]:
        """What is handed out to trainers that are idle, for so many of them."""
        dataset, found = self.dataset, self.found
        if shuffle and not dataset.reads_files:
            how, size = reading.shuffle_of(found, shuffle), self.part_bytes(world)
            return pieces.groups(found.files, how, world=world, part_bytes=size, seed=seed, epoch=epoch)
        files = dividing.in_order(found.files, shuffled=shuffle_files or shuffle > 0, seed=seed, epoch=epoch)
        if dataset.reads_files:
            handed_out = not dataset.drop_last  # each part may leave out some samples
            return division.parts_of(files, world=world, divide_by=dataset.divide_by, handed_out=handed_out)
        return dividing.hand(files, world=world, piece_bytes=self.part_bytes(world))

    def part_bytes(self, world: int) -> int:
        """How large a part is that is handed out: large enough for some batches, small enough that nobody waits long."""
        usual = self.found.size // (world * dividing.PIECES_PER_TRAINER)
        batches = int(BATCHES_PER_PART * self.dataset.batch_size * finding.line_bytes(self.found))
        return max(1, batches, min(dividing.PIECE_BYTES, usual))

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()
