"""Trainers that exchange through ``paddle.distributed``: gloo between CPUs, NCCL and its kin between accelerators. An adapter.

group = PaddleGroup()            in a process that a launcher has started with Paddle's variables
group.gather(b"...")             everybody's bytes
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

import numpy as np
import paddle
import umiak_native
from paddle import distributed

from umiak.contracts.paddle import DISTRI_BACKEND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from umiak.ps.gradients import Floats

ROOM_BYTES = 1 << 14
"""What is gathered in one exchange, its length in front; what is longer takes a second one."""

_HEAD = 8


class PaddleGroup:
    """All trainers of this job."""

    def __init__(self, *, on_cpu: bool = False) -> None:
        """``on_cpu``: they compute on the CPU, whatever devices this machine and this build of Paddle have."""
        if not distributed.is_initialized():
            if on_cpu and os.environ.get(DISTRI_BACKEND, "auto") in ("", "auto"):
                # Paddle reads it there alone, and without it has no exchange between CPUs.
                os.environ[DISTRI_BACKEND] = "gloo"
            _join()
        self.rank: int = distributed.get_rank()
        self.world: int = distributed.get_world_size()
        self._rooms: dict[str, int] = {}

    def gather(self, payload: bytes, name: str = "") -> list[bytes]:
        """Everybody's bytes, in order of rank. Under one name they should be of about the same length."""
        if self.world == 1:
            return [payload]
        room = self._rooms.get(name, ROOM_BYTES)
        first = np.zeros(room, np.uint8)
        first[:_HEAD].view(np.int64)[0] = len(payload)
        begun = payload[: room - _HEAD]
        first[_HEAD : _HEAD + len(begun)] = np.frombuffer(begun, np.uint8)
        rows = self._gathered(first)
        lengths = [int(row[:_HEAD].view(np.int64)[0]) for row in rows]
        longest = max(lengths)
        if longest <= room - _HEAD:
            return [row[_HEAD : _HEAD + length].tobytes() for row, length in zip(rows, lengths, strict=True)]
        rest = np.zeros(longest - (room - _HEAD), np.uint8)
        behind = payload[room - _HEAD :]
        rest[: len(behind)] = np.frombuffer(behind, np.uint8)
        tails = self._gathered(rest)
        # Everybody knows the lengths, so everybody makes the same room for the next time.
        self._rooms[name] = max(ROOM_BYTES, (longest + longest // 8 + _HEAD + 7) // 8 * 8)
        return [
            (row[_HEAD:].tobytes() + tail.tobytes())[:length]
            for row, tail, length in zip(rows, tails, lengths, strict=True)
        ]

    def add(self, array: Floats) -> None:
        """Let this array be the sum of everybody's."""
        if self.world == 1:
            return
        tensor = paddle.to_tensor(array)
        with _others_there():
            distributed.all_reduce(tensor)
        array[...] = tensor.numpy().reshape(array.shape)

    def _gathered(self, array: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
        rows: list[paddle.Tensor] = []
        with _others_there():
            distributed.all_gather(rows, paddle.to_tensor(array))
        return [row.numpy() for row in rows]


@contextlib.contextmanager
def _others_there() -> Iterator[None]:
    """What Paddle raises in an exchange, as everybody else calls it."""
    try:
        yield
    except RuntimeError as error:
        why = str(error).strip().splitlines()
        raise umiak_native.TrainerLost(f"another trainer is gone: {why[-1] if why else 'no word of it'}") from error


def _join() -> None:
    """Meet the others. Paddle lists its settings meanwhile, which matters only if it fails."""
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):
            distributed.init_parallel_env()
    except BaseException:
        sys.stderr.write(messages.getvalue())
        raise
