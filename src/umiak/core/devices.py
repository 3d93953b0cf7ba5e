"""Accelerators: which kind a node has, which of them are visible, which a person chose. Values.

    Devices(kind=DeviceKind.GPU, ids=("0", "1", "2", "3"), chosen=("2", "3"))

`adapters/devices.py` finds them, `contracts/devices.py` deals them out to workers. No devices at all is ``None``, not
an empty value.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import value


class DeviceKind(str, Enum):
    """The accelerators that a worker can be given. A node is taken to have one kind."""

    NPU = "npu"
    """Huawei Ascend; Paddle drives it through a custom-device plug-in."""
    XPU = "xpu"
    """Baidu Kunlun."""
    GPU = "gpu"
    """NVIDIA."""
    DCU = "dcu"
    """Hygon and other ROCm devices; frameworks built for ROCm call them gpu."""

    @property
    def paddle_word(self) -> str:
        """What Paddle calls it, as in ``FLAGS_selected_gpus``."""
        return "gpu" if self is DeviceKind.DCU else self.value


# The variables by which each kind's runtime and Paddle's launcher learn what is visible. The first that is set is
# believed, and all of them are written, so that they never contradict one another.
VISIBILITY = {
    DeviceKind.NPU: ("ASCEND_RT_VISIBLE_DEVICES", "NPU_VISIBLE_DEVICES"),
    DeviceKind.XPU: ("XPULINK_VISIBLE_DEVICES", "XPU_VISIBLE_DEVICES"),
    DeviceKind.GPU: ("CUDA_VISIBLE_DEVICES",),
    DeviceKind.DCU: ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}


@value
class Devices:
    """The accelerators of one node. There is at least one."""

    kind: DeviceKind
    ids: tuple[str, ...]
    """The visible ones: numbers, or whatever the visibility variable says (``GPU-8f6d...``, ``MIG-...``)."""
    chosen: tuple[str, ...] | None = None
    """Those of ``ids`` that this job uses, in this order; ``None``: nobody chose, so all of them."""
    said_by: str | None = None
    """The variable that told the ids; ``None``: they were counted."""

    @property
    def used(self) -> tuple[str, ...]:
        """The devices that the job's workers get, in the order of their local ranks."""
        return self.ids if self.chosen is None else self.chosen
