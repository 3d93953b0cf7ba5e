"""Dense parameters whose memory is on a GPU: one piece, copied there and compared there as a whole. An adapter: PyTorch.

held = DeviceParameters(values, [(parameter, place), ...])     the parameters become views of one tensor
held.show()                     what was fetched into `values` is in the parameters soon
held.has_changed()              whether the script has set any of them since: a number on the device
held.take()                     then `values` have it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from umiak.ps.on_device.copies import Copies, pin

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from umiak.ps.gradients import Floats

    Placed = tuple[torch.nn.Parameter, slice]
    """A parameter, and its place among the numbers of all."""

_PINNED: dict[int, Floats] = {}


class DeviceParameters:
    """Those of a model that are on one device, of float32."""

    def __init__(self, values: Floats, placed: Sequence[Placed], device: torch.device) -> None:
        self.device = device
        self._values = values
        self._placed = placed
        self._copies = Copies.of(device)
        address = values.ctypes.data
        if self._copies.is_gpu and address not in _PINNED and values.size:
            pin(values)
            _PINNED[address] = values
        self._flat = torch.empty(values.size, device=device)
        self._views = [self._flat[place].view(parameter.shape) for parameter, place in placed]
        self._shown = torch.empty_like(self._flat)
        self.show()
        for (parameter, _), view in zip(placed, self._views, strict=True):
            parameter.data = view

    def show(self) -> None:
        """Let the parameters be what ``values`` are, for what is computed after this call."""
        self._copies.bring(self._values, self._flat)
        self._shown.copy_(self._flat)

    def has_changed(self) -> torch.Tensor:
        """Bit by bit, so that what is no number is equal to itself."""
        return (self._flat.view(torch.int32) != self._shown.view(torch.int32)).any()

    def has_moved(self) -> bool:
        """Whether a parameter was given other memory, for example by ``parameter.data = ...`` or ``model.to(...)``."""
        return any(
            parameter.data_ptr() != view.data_ptr()
            for (parameter, _), view in zip(self._placed, self._views, strict=True)
        )

    def take(self) -> None:
        """Let ``values`` be what the parameters are."""
        for parameter, place in self._placed:
            self._values[place] = parameter.detach().cpu().numpy().reshape(-1)


def by_device(values: Floats, placed: Iterable[Placed]) -> list[DeviceParameters]:
    """Those of each device."""
    own: dict[torch.device, list[Placed]] = {}
    for parameter, place in placed:
        own.setdefault(parameter.device, []).append((parameter, place))
    return [DeviceParameters(values, each, device) for device, each in own.items()]
