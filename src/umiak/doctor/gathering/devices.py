"""Counts accelerators and reads the variables about them. An adapter; it starts the vendor's own tool, and nothing else."""

from __future__ import annotations

import os
import shutil

from umiak.adapters import devices as node_devices
from umiak.core.devices import VISIBILITY, DeviceKind
from umiak.doctor.facts import DeviceFacts
from umiak.doctor.gathering import trial_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.doctor.asked import Asked

FURTHER = (
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    *(f"FLAGS_selected_{kind}s" for kind in ("gpu", "npu", "xpu")),
)
"""Variables about devices that are not believed by the launcher, but change what a framework sees."""
TOOLS = {
    DeviceKind.GPU: ("nvidia-smi", "--query-gpu=index,name,memory.total", "--format=csv,noheader"),
    DeviceKind.NPU: ("npu-smi", "info", "-l"),
    DeviceKind.XPU: ("xpu-smi", "-m"),
    DeviceKind.DCU: ("rocm-smi", "--showid", "--csv"),
}
_STEMS = {DeviceKind.GPU: "nvidia", DeviceKind.NPU: "davinci", DeviceKind.XPU: "xpu"}


def devices(asked: Asked, limit_s: float) -> DeviceFacts:
    """Everything about accelerators."""
    counts = {kind.value: number for kind, number in node_devices.count().items() if number}
    found = node_devices.find(asked.environ)
    names = dict.fromkeys([*(name for names in VISIBILITY.values() for name in names), *FURTHER])
    kind = found.kind if found else next((each for each in DeviceKind if each.value in counts), None)
    tool, tool_count, tool_error = _ask_tool(kind, asked, limit_s)
    return DeviceFacts(
        kinds=counts,
        kind=found.kind.value if found else "",
        ids=found.ids if found else (),
        said_by=(found.said_by or "") if found else "",
        variables={name: asked.environ[name] for name in names if name in asked.environ},
        closed=_closed(),
        tool=tool,
        tool_count=tool_count,
        tool_error=tool_error,
    )


def _ask_tool(kind: DeviceKind | None, asked: Asked, limit_s: float) -> tuple[str, int, str]:
    """The vendor's command: how many devices it counts (-1: it was not asked, or its answer is not counted), and its error."""
    wanted = TOOLS[kind] if kind else TOOLS[DeviceKind.GPU]
    program = shutil.which(wanted[0], path=asked.environ.get("PATH"))
    if program is None:
        return "", -1, ""
    ran = trial_process.run([program, *wanted[1:]], environ=asked.environ, directory="/", limit_s=limit_s * 0.7)
    if ran.facts.status is None:
        return wanted[0], -1, f"no answer within {ran.facts.limit_s:g} s"
    if ran.facts.status != 0:
        said = [*ran.out.splitlines(), *ran.err.splitlines()]
        return wanted[0], -1, next((line.strip() for line in said if line.strip()), f"status {ran.facts.status}")
    if wanted[0] != "nvidia-smi":
        return wanted[0], -1, ""
    return wanted[0], len([line for line in ran.out.splitlines() if line.strip()]), ""


def _closed() -> tuple[str, ...]:
    found = []
    for name in sorted(os.listdir("/dev")):
        if any(name.startswith(stem) and name[len(stem) :].isdecimal() for stem in _STEMS.values()):
            path = f"/dev/{name}"
            if not os.access(path, os.R_OK | os.W_OK):
                found.append(path)
    return tuple(found)
