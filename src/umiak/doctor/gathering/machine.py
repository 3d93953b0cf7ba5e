"""Reads what this machine has: shared memory, limits, accelerators, kubeconfigs. An adapter.

It only reads, and starts nothing but the vendor's own tool. What a named place is like is asked by the command line.
"""

from __future__ import annotations

import os
import resource
import shutil
import stat

from umiak.adapters import devices as node_devices
from umiak.adapters import hostinfo
from umiak.core.devices import VISIBILITY, DeviceKind
from umiak.doctor.facts import DeviceFacts, KubeconfigFacts, LimitFacts, PlaceFacts, ShmFacts
from umiak.doctor.gathering import trial_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.doctor.request import DoctorRequest

_GROUPS = "/sys/fs/cgroup"
_RDMA = "/sys/class/infiniband"


def shm(_asked: DoctorRequest, _limit_s: float) -> ShmFacts:
    """How large it is, and how full."""
    room = hostinfo.room(hostinfo.SHARED_MEMORY)
    if room is None:
        return ShmFacts(exists=False)
    return ShmFacts(exists=True, writable=room.is_writable, total_bytes=room.total_bytes, free_bytes=room.free_bytes)


def limits(_asked: DoctorRequest, _limit_s: float) -> LimitFacts:
    """Those of this process, which a launcher started from the same shell has as well."""
    tasks, now = _tasks()
    return LimitFacts(
        open_files=_limit(resource.RLIMIT_NOFILE, 0),
        most_open_files=_limit(resource.RLIMIT_NOFILE, 1),
        locked_bytes=_limit(resource.RLIMIT_MEMLOCK, 0),
        processes=_limit(resource.RLIMIT_NPROC, 0),
        tasks=tasks,
        tasks_now=now,
        rdma=tuple(sorted(os.listdir(_RDMA))) if os.path.isdir(_RDMA) else (),
    )


def _limit(number: int, which: int) -> int | None:
    limit = resource.getrlimit(number)[which]
    return None if limit == resource.RLIM_INFINITY else limit


def _tasks() -> tuple[int | None, int]:
    """How many tasks the control group may have, and has: the narrowest of all groups above this process."""
    narrowest: tuple[int | None, int] = (None, 0)
    for group in _groups():
        most, now = _read(os.path.join(group, "pids.max")), _read(os.path.join(group, "pids.current"))
        if most.isdecimal() and now.isdecimal():
            room = int(most) - int(now)
            if narrowest[0] is None or room < narrowest[0] - narrowest[1]:
                narrowest = int(most), int(now)
    return narrowest


def _groups() -> list[str]:
    groups = []
    for line in _read("/proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers in ("", "pids"):
            base = os.path.join(_GROUPS, controllers)
            while True:
                groups.append(base + path.rstrip("/"))
                if path in ("/", ""):
                    break
                path = os.path.dirname(path)
    return groups


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


# ---- kubeconfigs, and the place that was named

KUBECONFIG = "KUBECONFIG"


def kubernetes(request: DoctorRequest, _limit_s: float) -> KubeconfigFacts:
    """The files that Kubernetes' own tools would read, none of them opened."""
    said = request.environ.get(KUBECONFIG, "")
    home = request.environ.get("HOME") or os.path.expanduser("~")
    files = [each for each in said.split(os.pathsep) if each] or [os.path.join(home, ".kube", "config")]
    there = [each for each in files if os.path.isfile(each)]
    return KubeconfigFacts(
        said_by=KUBECONFIG if said else "",
        files=tuple(there),
        missing=tuple(each for each in files if each not in there) if said else (),
        unreadable=tuple(each for each in there if not os.access(each, os.R_OK)),
        open_to_others=tuple(each for each in there if os.stat(each).st_mode & (stat.S_IRWXG | stat.S_IRWXO)),
    )


def place(request: DoctorRequest, _limit_s: float) -> PlaceFacts:
    """What the backend says; the command line brings it."""
    return request.examine_place() if request.examine_place else PlaceFacts()


# ---- accelerators

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


def devices(request: DoctorRequest, limit_s: float) -> DeviceFacts:
    """Everything about accelerators."""
    counts = {kind.value: number for kind, number in node_devices.count().items() if number}
    devices_here = node_devices.find(request.environ)
    names = dict.fromkeys([*(name for names in VISIBILITY.values() for name in names), *FURTHER])
    kind = devices_here.kind if devices_here else next((each for each in DeviceKind if each.value in counts), None)
    tool, tool_count, tool_error = _ask_tool(kind, request, limit_s)
    return DeviceFacts(
        kinds=counts,
        kind=devices_here.kind.value if devices_here else "",
        ids=devices_here.ids if devices_here else (),
        said_by=(devices_here.said_by or "") if devices_here else "",
        variables={name: request.environ[name] for name in names if name in request.environ},
        closed=_closed(),
        tool=tool,
        tool_count=tool_count,
        tool_error=tool_error,
    )


def _ask_tool(kind: DeviceKind | None, request: DoctorRequest, limit_s: float) -> tuple[str, int, str]:
    """The vendor's command:
    how many devices it counts (-1: it was not asked, or its answer is not counted), and its error.
    """
    wanted = TOOLS[kind] if kind else TOOLS[DeviceKind.GPU]
    program = shutil.which(wanted[0], path=request.environ.get("PATH"))
    if program is None:
        return "", -1, ""
    ran = trial_process.run([program, *wanted[1:]], environ=request.environ, directory="/", limit_s=limit_s * 0.7)
    if ran.facts.status is None:
        return wanted[0], -1, f"no answer within {ran.facts.limit_s:g} s"
    if ran.facts.status != 0:
        output = [*ran.out.splitlines(), *ran.err.splitlines()]
        return wanted[0], -1, next((line.strip() for line in output if line.strip()), f"status {ran.facts.status}")
    if wanted[0] != "nvidia-smi":
        return wanted[0], -1, ""
    return wanted[0], len([line for line in ran.out.splitlines() if line.strip()]), ""


def _closed() -> tuple[str, ...]:
    closed = []
    for name in sorted(os.listdir("/dev")):
        if any(name.startswith(stem) and name[len(stem) :].isdecimal() for stem in _STEMS.values()):
            path = f"/dev/{name}"
            if not os.access(path, os.R_OK | os.W_OK):
                closed.append(path)
    return tuple(closed)
