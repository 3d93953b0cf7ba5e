"""What a model has besides the parameters that it learns: running statistics, counters, frozen parameters. An adapter, for Paddle.

    buffers = Buffers(model, job, table="dense.buffers", learned=optimizer.learned)
    buffers.store(peers)            before a checkpoint: what all trainers have in common goes to a table of its own
    buffers.agree(peers)            before an evaluation, at the end of an epoch: everybody takes it over
    buffers.fetch()                 after a checkpoint was loaded

Everything of `state_dict` that no optimizer changes is here. Trainers see different batches, so their running statistics differ. What they have in common is
the mean over all trainers, in order of rank, for floating-point numbers, and the first trainer's for others. Between two agreements each goes on with its
own; a checkpoint within an epoch keeps those beside (`own`), so that a run that goes on from it comes to the same bits.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import paddle

from umiak.ps import specs
from umiak.ps.layers.dense import coded, decoded
from umiak.ps.sessions import Session
from umiak.ps.values import Opened
from umiak.train.engines import paddle_steps
from umiak.train.engines.engine import EnginePeers
from umiak.train.engines.paddle_steps import array_of

if TYPE_CHECKING:
    from umiak.data.array_types import AnyArray

CHUNK = 100_000
"""Numbers that trainers exchange at a time: a message has at most 1 MiB."""
MOST_OWN_BYTES = 1 << 19
"""More than this of one trainer's own is not kept within an epoch: it begins with what all have in common."""


class Buffers:
    """The buffers and frozen parameters of one model."""

    def __init__(
        self,
        model: paddle.nn.Layer,
        job: Session,
        *,
        table: str,
        learned: Iterable[paddle.Tensor],
        more: Mapping[str, paddle.Tensor] | None = None,
    ) -> None:
        """``learned``: parameters that tables have already. ``more``: tensors that are kept as well, though no layer has them."""
        self._job = job
        self._tensors = {**_kept(model, learned), **(more or {})}
        self.on_read: Callable[[], None] = _nothing
        """Called before values are looked at."""
        self.on_set: Callable[[], None] = _nothing
        """Called when values were set."""
        self.table = table
        self.spec = specs.DenseTable(
            arrays=tuple(
                [specs.Array(name=name, shape=coded(array_of(each)).shape) for name, each in self._tensors.items()]
            ),
            # Nothing is ever pushed: values are set.
            rule=specs.Sum(),
        )
        self._number: int | None = None
        if self._tensors:
            self._number = job.client.create_table(table, specs.to_json(self.spec))
            self._put(self._arrays(), if_unset=True)

    def tables(self) -> dict[str, Opened]:
        """The table, as a checkpoint has it; none if the model has no buffers."""
        return {} if self._number is None else {self.table: Opened(number=self._number, spec=self.spec)}

    def fetch(self) -> None:
        """The table's values into the model."""
        if self._number is None:
            return
        flat = self._job.client.pull_dense(self._number)
        at = 0
        for tensor in self._tensors.values():
            array = array_of(tensor)
            size = coded(array).size
            _set(tensor, decoded(flat[at : at + size], array))
            at += size
        self.on_set()

    def store(self, peers: EnginePeers) -> None:
        """What all trainers have in common into the table. Every trainer calls it."""
        if self._number is not None:
            self._put(self._common(peers))

    def put(self) -> None:
        """This trainer's own into the table."""
        if self._number is not None:
            self._put(self._arrays())

    def agree(self, peers: EnginePeers) -> None:
        """Everybody takes over what all have in common. Every trainer calls it."""
        if self._number is not None and peers.world > 1:
            for tensor, array in zip(self._tensors.values(), self._common(peers), strict=True):
                _set(tensor, array)
            self.on_set()

    def own(self) -> str:
        """This trainer's own, as text; nothing if there is none, or too much."""
        if not self._tensors:
            return ""
        packed = zlib.compress(b"".join(each.tobytes() for each in self._arrays()), 1)
        return base64.b64encode(packed).decode("ascii") if len(packed) <= MOST_OWN_BYTES else ""

    def set_own(self, text: str) -> None:
        data = zlib.decompress(base64.b64decode(text))
        at = 0
        for tensor in self._tensors.values():
            array = array_of(tensor)
            _set(tensor, np.frombuffer(data, array.dtype, array.size, at).reshape(array.shape))
            at += array.nbytes
        self.on_set()

    # ---- between trainers

    def _put(self, arrays: Iterable[AnyArray], *, if_unset: bool = False) -> None:
        if self._job.is_first or self._job.communicator.keeps_tables:
            assert self._number is not None
            flat = np.concatenate([coded(each).reshape(-1) for each in arrays])
            self._job.client.set_dense(self._number, flat, if_unset=if_unset)

    def _common(self, peers: EnginePeers) -> list[AnyArray]:
        arrays = self._arrays()
        if peers.world == 1:
            return arrays
        # Frozen parameters may be large, and are the same everywhere: only what differs is exchanged.
        digests = [hashlib.sha256(each.tobytes()).hexdigest() for each in arrays]
        told = peers.tell({"digests": digests}, "buffers")
        for place, array in enumerate(arrays):
            if any(each["digests"][place] != digests[place] for each in told):
                arrays[place] = _merged(array, peers)
        return arrays

    def _arrays(self) -> list[AnyArray]:
        self.on_read()
        return [array_of(each) for each in self._tensors.values()]


def _nothing() -> None:
    """Nobody asked."""


def _kept(model: paddle.nn.Layer, learned: Iterable[paddle.Tensor]) -> dict[str, paddle.Tensor]:
    there = {id(each) for each in learned}
    state = model.state_dict(use_hook=False)
    return {name: each for name, each in state.items() if id(each) not in there and each.size}


def _set(tensor: paddle.Tensor, array: AnyArray) -> None:
    tensor.set_value(paddle.to_tensor(array).astype(tensor.dtype) if tensor.dtype in paddle_steps.HALVES else array)


def _merged(array: AnyArray, peers: EnginePeers) -> AnyArray:
    """The mean of everybody's, or the first trainer's."""
    is_mean = array.dtype.kind == "f"
    own = (array if is_mean else coded(array)).astype(np.float64).reshape(-1)
    if not is_mean and not peers.is_first:
        own = np.zeros_like(own)
    parts = [peers.add(own[at : at + CHUNK]) for at in range(0, own.size, CHUNK)]
    total = np.concatenate(parts)
    if is_mean:
        mean: AnyArray = (total / peers.world).astype(array.dtype).reshape(array.shape)
        return mean
    return decoded(total.astype(np.float32), array)
