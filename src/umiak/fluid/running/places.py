"""Devices as fluid names them, and the one that a program runs on. A program."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

import paddle

if TYPE_CHECKING:
    from umiak.fluid.arguments import Place


class CpuPlace:
    """`fluid.CPUPlace`."""

    device = "cpu"

    def __repr__(self) -> str:
        return "CPUPlace"


class CudaPlace:
    """`fluid.CUDAPlace`: a GPU by its number."""

    def __init__(self, device_id: int = 0) -> None:
        self.device_id = device_id

    @property
    def device(self) -> str:
        return f"gpu:{self.device_id}"

    def get_device_id(self) -> int:
        return self.device_id

    def __repr__(self) -> str:
        return f"CUDAPlace({self.device_id})"


class PinnedPlace(CpuPlace):
    """`fluid.CUDAPinnedPlace`: memory of this machine."""


def use(place: Place) -> None:
    """Let Paddle compute there; on the CPU, with a warning, where this Paddle has no CUDA."""
    device = getattr(place, "device", "cpu")
    if device != "cpu" and not paddle.is_compiled_with_cuda():
        warnings.warn(f"{place!r}: this Paddle is built without CUDA, the program runs on the CPU", stacklevel=3)
        device = "cpu"
    if paddle.device.get_device() != device:
        paddle.device.set_device(device)


def cpu_places(device_count: int | None = None) -> list[CpuPlace]:
    """So many; one by default, or CPU_NUM."""
    return [CpuPlace() for _ in range(device_count or int(os.environ.get("CPU_NUM", "1")))]


def cuda_places(device_ids: Place = None) -> list[CudaPlace]:
    """All GPUs, or those with these numbers."""
    if device_ids is None:
        device_ids = range(max(cuda_device_count(), 1))
    return [CudaPlace(number) for number in device_ids]


def cuda_pinned_places(device_count: int | None = None) -> list[PinnedPlace]:
    """So many."""
    return [PinnedPlace() for _ in range(device_count or 1)]


def cuda_device_count() -> int:
    """How many GPUs there are for Paddle."""
    return int(paddle.device.cuda.device_count()) if paddle.is_compiled_with_cuda() else 0


def is_compiled_with_cuda() -> bool:
    """Whether this Paddle can use GPUs."""
    return bool(paddle.is_compiled_with_cuda())


def is_compiled_with_xpu() -> bool:
    """Whether this Paddle can use Kunlun chips."""
    return bool(paddle.is_compiled_with_xpu())
