"""Copies between a GPU and this machine's memory that nobody waits for one by one. An adapter: PyTorch.

    copies = Copies.of(tensor.device)
    rows = copies.bring(array)                  a tensor on the device; the copy is on its way
    later = copies.fetch([ids, gradients])      so are these
    arrays = later.arrays()                     one wait for all of them

What is copied lies in pinned memory, which PyTorch lends again when the copy is over, and goes over streams of its own. On a CPU the
same calls copy nothing that need not be.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.data.array_types import AnyArray
    from umiak.ps.gradients import Floats

_KNOWN: dict[torch.device, Copies] = {}


class Copies:
    """Those of one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.is_gpu = device.type == "cuda"
        self._coming: deque[tuple[torch.cuda.Event, torch.Tensor]] = deque()
        """What is copied to the device, until that is over. PyTorch itself knows only memory that is copied from its first byte on, and would lend
        the rest again meanwhile: of a table that is looked up twice, the second rows."""
        self._there = torch.cuda.Stream(device) if self.is_gpu else None
        self._back = torch.cuda.Stream(device) if self.is_gpu else None

    @classmethod
    def of(cls, device: torch.device) -> Copies:
        found = _KNOWN.get(device)
        if found is None:
            found = _KNOWN[device] = cls(device)
        return found

    def room(self, shape: tuple[int, ...]) -> Floats:
        """Memory that a GPU can copy from while the program goes on."""
        found: Floats = torch.empty(shape, dtype=torch.float32, pin_memory=self.is_gpu).numpy()
        return found

    def bring(self, array: AnyArray, into: torch.Tensor | None = None) -> torch.Tensor:
        """The array on the device, for what is computed after this call. On a CPU its own memory, unless ``into`` is there."""
        source = torch.from_numpy(array)
        if self._there is None:
            return source if into is None else into.copy_(source)
        now = torch.cuda.current_stream(self.device)
        if into is not None:
            self._there.wait_stream(now)  # somebody may still read what was in it
        with torch.cuda.stream(self._there):
            if into is None:
                into = source.to(self.device, non_blocking=True)
            else:
                into.copy_(source, non_blocking=True)
        self._coming.append((self._there.record_event(), source))
        while self._coming[0][0].query() and len(self._coming) > 1:
            self._coming.popleft()
        now.wait_stream(self._there)
        into.record_stream(now)
        return into

    def fetch(self, tensors: Sequence[torch.Tensor]) -> Fetched:
        """What these are when all that was asked for until now is computed."""
        if self._back is None:
            return Fetched([tensor.detach() for tensor in tensors], None)
        self._back.wait_stream(torch.cuda.current_stream(self.device))
        found = []
        with torch.cuda.stream(self._back):
            for tensor in tensors:
                host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
                host.copy_(tensor.detach(), non_blocking=True)
                tensor.record_stream(self._back)
                found.append(host)
            done = torch.cuda.Event()
            done.record(self._back)
        return Fetched(found, done)


class Fetched:
    """Tensors on their way to this machine's memory."""

    def __init__(self, tensors: list[torch.Tensor], done: torch.cuda.Event | None) -> None:
        self._tensors = tensors
        self._done = done

    def arrays(self) -> list[AnyArray]:
        """Wait for all of them."""
        if self._done is not None:
            self._done.synchronize()
            self._done = None
        return [tensor.numpy() for tensor in self._tensors]


def pin(array: AnyArray) -> None:
    """Let a GPU copy from and to memory that is there already, while the program goes on. It is never given back before the process ends."""
    torch.cuda.cudart().cudaHostRegister(array.ctypes.data, array.nbytes, 0)
