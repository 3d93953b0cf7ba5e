"""Features fitted by all trainers of a job: each reads its share of the rows, and the first one makes the lock of what all have found. An adapter.

fit(dataset, config, peers, say, threads=1, own=False)        every trainer calls it, and has the lock beside its config afterwards

What was found is merged exactly, so the lock has the same bytes with any number of trainers. It travels through the job, in pieces: trainers need not see one
directory.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from umiak.core.decode import decode, encode
from umiak.core.problem import Exit, UmiakError
from umiak.data import features
from umiak.data.features import fitting, lock_files
from umiak.data.features.sketches import Sketch
from umiak.train import reading
from umiak.train.config.values import NodeData
from umiak.train.reading import dividing, finding
from umiak.train.reading.dividing import Holder, Holding
from umiak.train.reading.tables import locks, sources
from umiak.train.reading.tables.places import TablePlaces

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.data.features.fitting import FitProgress
    from umiak.train.config.values import Dataset
    from umiak.train.reading.finding import Files

PIECE_BYTES = 512 << 10
"""Of what a trainer tells at a time: a message has at most 1 MiB."""
_FRAME = struct.Struct("<IQ")
_MORE, _END = b"+", b"."


class FittingPeers(Protocol):
    """What is asked of the other trainers: `umiak.train.run.peers`."""

    rank: int
    world: int

    @property
    def is_first(self) -> bool: ...
    def tell(self, message: JsonObject, name: str = "tell") -> list[JsonObject]: ...
    def agree_on(self, text: str, name: str = "agree") -> list[str]: ...
    def all_of(self, payload: bytes) -> list[bytes]: ...


def fit(
    dataset: Dataset,
    config: str,
    peers: FittingPeers,
    say: Callable[[str], None],
    *,
    threads: int = 1,
    node_data: NodeData = NodeData.SHARED,
    look: Callable[[], None] = lambda: None,
) -> None:
    """One pass over the rows that are trained on; the lock is written beside the config. ``look`` is called now and then, and may raise what ends it."""
    section = dataset.features
    assert section is not None
    found = reading.find(dataset)
    holding = _held(dataset, found, peers, node_data)
    by = f", divided among {peers.world} trainers" if peers.world > 1 else ""
    say(f"fits features to dataset {dataset.name}: one pass over {len(found.files)} files{by}")
    places = TablePlaces(sources.text_reading(dataset))
    divided = []
    for number in range(threads):
        own = dividing.share(found.files, rank=holding.rank * threads + number, world=holding.world * threads)
        divided.append([piece for part in own for piece in places.parts(part)])
    lines = locks.FitLines(say, peers.world)

    def told(progress: FitProgress) -> None:
        look()
        lines.told(progress)

    sketch = fitting.sketched_side_by_side(
        section,
        divided,
        bad_rows=dataset.bad_rows,
        chosen=sources.chosen_rows(dataset),
        told=told,
    )
    merged(sketch, peers)
    directory = os.path.dirname(config)
    if peers.is_first:
        lock = fitting.lock_of(sketch)
        features.FeatureTransform(lock)  # two words with one hash are found here, and not by every trainer
        locks.write(lock, directory)
        say(f"fitted to {lock.rows:,} rows: {locks.beside(directory)}")
    brought(directory, peers)


def _held(dataset: Dataset, found: Files, peers: FittingPeers, node_data: NodeData) -> Holding:
    """Who divides these files, as in training."""
    if node_data is NodeData.SHARED:
        reading.agree(peers.agree_on(found.digest, "files"), dataset.name)
        return Holding(rank=peers.rank, world=peers.world, size=found.size)
    own = Holder(held=finding.held(found), digest=found.digest, size=found.size)
    return dividing.held([decode(Holder, each) for each in peers.tell(encode(own), "files")], peers.rank)


def merged(sketch: Sketch, peers: FittingPeers) -> None:
    """The first trainer's sketch becomes that of all rows. Every trainer calls it."""
    own = iter(()) if peers.is_first else sketch.packed(PIECE_BYTES // 2)
    parts = [Frames() for _ in range(peers.world)]
    for payloads in exchanged(framed(own), peers):
        for frames, payload in zip(parts, payloads, strict=True):
            for what, piece in frames.taken(payload) if peers.is_first else ():
                sketch.take(what, piece)


def brought(directory: str, peers: FittingPeers) -> None:
    """The first trainer's lock is beside everybody's config: who does not see it there gets it."""
    path = locks.beside(directory)
    digests = peers.tell({"sha256": _digest(path)}, "fitted")
    wanted = digests[0]["sha256"]
    if all(each["sha256"] == wanted for each in digests):
        return
    own = _files(directory) if peers.is_first else ()
    frames = Frames()
    needs = _digest(path) != wanted
    for payloads in exchanged(framed(own), peers):
        for (name,), content in frames.taken(payloads[0]):
            if needs:
                lock_files.write_file(os.path.join(directory, os.path.basename(name)), content)


def _files(directory: str) -> Iterator[tuple[list[str], bytes]]:
    """Vocabularies, then the lock that names them."""
    files = lock_files.files_of(locks.beside(directory))
    for path in files:
        with open(path, "rb") as file:
            yield [os.path.basename(path)], file.read()


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return str(json.load(file).get("sha256"))
    except (OSError, ValueError, AttributeError):
        return ""


# ---- pieces


def framed(pieces: Iterable[tuple[list[str], bytes]]) -> Iterator[bytes]:
    """What has names and any length, as messages of about `PIECE_BYTES`."""
    waiting = bytearray()
    for what, piece in pieces:
        named = json.dumps(what).encode()
        waiting += _FRAME.pack(len(named), len(piece)) + named + piece
        while len(waiting) >= PIECE_BYTES:
            yield bytes(waiting[:PIECE_BYTES])
            del waiting[:PIECE_BYTES]
    if waiting:
        yield bytes(waiting)


class Frames:
    """Puts together what `framed` has taken apart."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def taken(self, message: bytes) -> Iterator[tuple[list[str], bytes]]:
        """What is whole now."""
        waiting = self._waiting
        waiting += message
        while len(waiting) >= _FRAME.size:
            named, length = _FRAME.unpack_from(waiting)
            begin, end = _FRAME.size + named, _FRAME.size + named + length
            if len(waiting) < end:
                return
            yield json.loads(bytes(waiting[_FRAME.size : begin])), bytes(waiting[begin:end])
            del waiting[:end]


def exchanged(messages: Iterator[bytes], peers: FittingPeers) -> Iterator[list[bytes]]:
    """Everybody's messages, round by round, until nobody has any more. UmiakError if a trainer is lost meanwhile."""
    while True:
        own = next(messages, None)
        told = peers.all_of(_END if own is None else _MORE + own)
        lost = [rank for rank, each in enumerate(told) if not each]
        if lost:
            what = f"trainer {', '.join(map(str, lost))} is gone while features are fitted: the rows of its share are not counted"
            raise UmiakError.of(
                "UM-TRAIN-018", what, hint="start again: nothing was trained yet", exit_status=Exit.JOB_FAILED
            )
        if all(each == _END for each in told):
            return
        yield [each[1:] for each in told]
