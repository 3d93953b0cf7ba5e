"""Finds a node's accelerators without any framework: from variables and device files. An adapter, it only reads.

    find(os.environ)   ->  Devices(kind=DeviceKind.GPU, ids=("0", "1")), or None

A kind whose device files are there comes before one that only a variable speaks of, and then the order is Ascend,
Kunlun, NVIDIA, ROCm. A visibility variable is believed about the ids; ``""`` and ``-1`` hide the kind. Nothing is
started and no driver is opened: on a node without devices this takes some tens of microseconds. What exists here is not
proof that a device works.
"""

from __future__ import annotations

import os

from umiak.core.devices import VISIBILITY, DeviceKind, Devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_CUDA = "CUDA_VISIBLE_DEVICES"
_ROCR = "ROCR_VISIBLE_DEVICES"
# Words that stand for no device; Slurm writes the last one where a step has no GPU.
_NONE_WORDS = ("none", "void", "nodevfiles")


def find(environ: Mapping[str, str], root: str = "/") -> Devices | None:
    """The accelerators that this node shows to its launcher, or ``None``. ``root`` is where the file system begins."""
    counts = count(root)
    present = [kind for kind in DeviceKind if counts[kind]]
    for kind in present + [kind for kind in DeviceKind if not counts[kind]]:
        variable = _variable(kind, environ, present)
        visible = _parse(environ[variable]) if variable else None
        if visible:
            return Devices(kind=kind, ids=visible, said_by=variable)
        if visible is None and counts[kind]:
            number = _below_rocr(counts[kind], environ) if kind is DeviceKind.DCU else counts[kind]
            if number:
                return Devices(kind=kind, ids=tuple(str(i) for i in range(number)))
    return None


def _variable(kind: DeviceKind, environ: Mapping[str, str], present: list[DeviceKind]) -> str | None:
    """The variable that speaks of this kind, if one is set.

    CUDA_VISIBLE_DEVICES speaks of NVIDIA, unless this node has none of those but devices whose software obeys it, too.
    """
    for name in VISIBILITY[kind]:
        if name in environ and name != _CUDA:
            return name
    if _CUDA not in environ or kind is DeviceKind.NPU:
        return None
    if kind is DeviceKind.GPU:
        borrowed = DeviceKind.GPU not in present and (DeviceKind.XPU in present or DeviceKind.DCU in present)
        return None if borrowed else _CUDA
    return _CUDA if kind in present and DeviceKind.GPU not in present else None


def _parse(text: str) -> tuple[str, ...] | None:
    """The ids in a visibility variable; ``None`` if it says that all are visible. What follows a -1 is hidden."""
    text = text.strip()
    if text == "all":
        return None
    ids: list[str] = []
    for word in text.split(","):
        each = word.strip()
        if not each or each.startswith("-") or each.lower() in _NONE_WORDS:
            break
        ids.append(each)
    return tuple(ids)


def count(root: str = "/") -> dict[DeviceKind, int]:
    """How many devices of each kind the files show."""
    names = _list(os.path.join(root, "dev"))
    # Device files may be made at the first use only, so the driver's own list is asked where there are none. Not the
    # other way round: inside a container the driver may list devices that the container was not given.
    return {
        DeviceKind.NPU: _numbered(names, "davinci"),
        DeviceKind.XPU: _numbered(names, "xpu"),
        DeviceKind.GPU: _numbered(names, "nvidia") or len(_list(os.path.join(root, "proc/driver/nvidia/gpus"))),
        DeviceKind.DCU: _rocm_nodes(root) if "kfd" in names else 0,
    }


def _numbered(names: list[str], stem: str) -> int:
    """How many of davinci0, davinci1, ... there are; davinci_manager is none."""
    return sum(name.startswith(stem) and name[len(stem) :].isdecimal() for name in names)


def _rocm_nodes(root: str) -> int:
    """GPU nodes of the ROCm topology; its CPU nodes have the GPU id 0, and nodes of others can't be read."""
    topology = os.path.join(root, "sys/class/kfd/kfd/topology/nodes")
    return sum(_read(os.path.join(topology, node, "gpu_id")) not in ("", "0") for node in _list(topology))


def _below_rocr(number: int, environ: Mapping[str, str]) -> int:
    """ROCR_VISIBLE_DEVICES takes devices away one storey below; those that stay are counted from 0 again."""
    visible = _parse(environ[_ROCR]) if _ROCR in environ else None
    return number if visible is None else min(number, len(visible))


def _list(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
