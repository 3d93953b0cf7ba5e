"""Tries ports, addresses and names, and reads what is said about them.
An adapter. It connects to this machine and to etcd only.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time

import umiak
from umiak.adapters import hostinfo
from umiak.adapters import ports as port_ranges
from umiak.core.cluster import join_host_port
from umiak.core.names import DefaultPort, is_loopback
from umiak.core.shown import without_password
from umiak.doctor.facts import (
    AddressFacts,
    ClockFacts,
    ClockSkew,
    DnsFacts,
    NamedHostFacts,
    PortFacts,
    PortsFacts,
    ProxyFacts,
)
from umiak.doctor.gathering import etcd_requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.doctor.request import DoctorRequest

ANSWER_S = 2.0
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy", "no_proxy")
_INTERFACES = (
    "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "HCCL_SOCKET_IFNAME",
    "BKCL_SOCKET_IFNAME",
)
_LISTENING = "0A"
_UNSYNCHRONISED = 0x40
_NOT_SET = 5
"""adjtimex's answer when nobody keeps the clock right."""


# ---- ports


def ports(request: DoctorRequest, _limit_s: float) -> PortsFacts:
    """Those that were named are tried, the others counted."""
    listening = _listening()
    wanted = _wanted_ports(request)
    first, beyond = port_ranges.usable_range()
    taken = sum(first <= port < beyond for port in listening)
    low, high = port_ranges.outgoing_range()
    return PortsFacts(
        named=tuple(_try(number, purpose, listening) for number, purpose in wanted.items()),
        first=first,
        last=beyond - 1,
        free=beyond - first - taken,
        ephemeral_first=low,
        ephemeral_last=high,
    )


def _wanted_ports(request: DoctorRequest) -> dict[int, str]:
    wanted: dict[int, str] = {}
    start = request.start_port or (DefaultPort.START if request.hosts else None)
    if start is not None:
        wanted |= {start + number: f"worker {number}" for number in range(request.workers)}
        wanted.setdefault(start - 1, "launchers")
    if request.master and _is_here(request.master[0]):
        wanted[request.master[1]] = "master"
    return {number: wanted[number] for number in sorted(wanted)}


def _is_here(host: str) -> bool:
    address = hostinfo.resolve(host)
    return is_loopback(address) or address in hostinfo.addresses()


def _try(number: int, purpose: str, listening: dict[int, str]) -> PortFacts:
    """Bind it as a launcher does."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("", number))
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            holder = _holder(listening[number]) if number in listening else ""
            return PortFacts(number=number, purpose=purpose, error=why, holder=holder)
    return PortFacts(number=number, purpose=purpose)


def _listening() -> dict[int, str]:
    """Ports that somebody listens on, with the socket's inode."""
    holders: dict[int, str] = {}
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{name}", encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        holders |= {int(row[1].rpartition(":")[2], 16): row[9] for row in rows if row[3] == _LISTENING}
    return holders


def _holder(inode: str) -> str:
    """The program that has a socket open. Only its name: its arguments may hold secrets."""
    wanted = f"socket:[{inode}]"
    pid_of_holder = next((pid for pid in filter(str.isdecimal, os.listdir("/proc")) if wanted in _open_files(pid)), "")
    try:
        with open(f"/proc/{pid_of_holder}/comm", encoding="utf-8", errors="replace") as file:
            return f"{file.read().strip()} ({pid_of_holder})" if pid_of_holder else ""
    except OSError:
        return ""


def _open_files(pid: str) -> list[str]:
    """What a process has open; nothing if it ended or is another user's."""
    try:
        return [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
    except OSError:
        return []


# ---- addresses and names


def address(request: DoctorRequest, _limit_s: float) -> AddressFacts:
    """Which address a launcher would tell the others, and whether it answers."""
    announced, reason = _announced(request)
    error = _answers(announced)
    hostname, meant = hostinfo.own_name()
    names = [name for _, name in socket.if_nameindex()]
    return AddressFacts(
        announced=announced,
        reason=reason,
        interface=hostinfo.interface_with(announced),
        answers=not error,
        error=error,
        own=hostinfo.addresses(),
        hostname=hostname,
        name_means=meant,
        name_source=_line_in_hosts(hostname),
        interfaces=tuple(names),
        interface_variables={name: request.environ[name] for name in _INTERFACES if request.environ.get(name)},
    )


def dns(request: DoctorRequest, _limit_s: float) -> DnsFacts:
    """All hosts at once: a name server that is gone makes each of them wait."""
    answers: dict[str, NamedHostFacts] = {}
    threads = [threading.Thread(target=_look_up, args=(name, answers), daemon=True) for name in request.remote_hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return DnsFacts(hosts=tuple(answers[name] for name in request.remote_hosts), own=hostinfo.addresses())


def _announced(request: DoctorRequest) -> tuple[str, str]:
    if request.host:
        return hostinfo.resolve(request.host), "--host"
    for target in (request.master, *request.etcd):
        own = hostinfo.address_towards(target[0]) if target else ""
        if target and own:
            return own, f"the way to {target[0]}"
    return hostinfo.public_address(), "the way out of this machine"


def _answers(address: str) -> str:
    """Connect to this address; empty if it worked, otherwise why not."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.bind(("::" if family == socket.AF_INET6 else "", 0))
            listener.listen(1)
            with socket.create_connection((address, listener.getsockname()[1]), timeout=ANSWER_S):
                return ""
    except OSError as error:
        return error.strerror or str(error)


def _line_in_hosts(name: str) -> str:
    try:
        with open("/etc/hosts", encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if name in line.partition("#")[0].split()[1:]:
                    return f"/etc/hosts:{number}"
    except OSError:
        pass
    return ""


def _look_up(name: str, found: dict[str, NamedHostFacts]) -> None:
    begun = time.monotonic()
    try:
        address = str(hostinfo.look_up(name, 0)[1][0])
    except OSError as error:
        took_s = time.monotonic() - begun
        found[name] = NamedHostFacts(name=name, error=error.strerror or str(error), took_s=round(took_s, 3))
        return
    found[name] = NamedHostFacts(
        name=name,
        address=address,
        took_s=round(time.monotonic() - begun, 3),
        is_name=address != name,
        has_route=bool(hostinfo.address_towards(address)),
    )


# ---- clock and proxies


def clock(request: DoctorRequest, limit_s: float) -> ClockFacts:
    """This clock beside those of etcd's endpoints. HTTP tells seconds only."""
    others, silent = [], []
    for host, port in request.etcd:
        name = f"etcd at {join_host_port(host, port)}"
        seconds = etcd_requests.clock(host, port, timeout_s=min(ANSWER_S, limit_s))
        if seconds is None:
            silent.append(name)
        else:
            others.append(ClockSkew(source=name, ahead_s=round(seconds[0], 3), uncertainty_s=round(seconds[1], 3)))
    package = os.path.dirname(umiak.__file__ or "")
    files = [os.path.join(package, name) for name in os.listdir(package)]
    return ClockFacts(
        now_s=time.time(),
        installed_s=max(os.stat(each).st_ctime for each in files),
        synchronised=_is_synchronised(),
        others=tuple(others),
        silent=tuple(silent),
    )


def _is_synchronised() -> bool | None:
    """What the kernel says of its clock; nothing is changed."""

    class _Timex(ctypes.Structure):
        _fields_ = [
            ("modes", ctypes.c_uint),
            ("offsets", ctypes.c_long * 4),
            ("status", ctypes.c_int),
            ("rest", ctypes.c_long * 32),
        ]

    request = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(request))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _NOT_SET and not request.status & _UNSYNCHRONISED


def proxy(request: DoctorRequest, _limit_s: float) -> ProxyFacts:
    """Variables in both spellings, and the hosts that must be reached without a proxy."""
    names = [spelled for name in _PROXIES for spelled in (name, name.upper())]
    hosts = list(request.remote_hosts) or ([hostinfo.public_address()] if request.has_other_nodes else [])
    return ProxyFacts(
        variables={name: without_password(request.environ[name]) for name in names if request.environ.get(name)},
        targets=tuple(dict.fromkeys(hosts)),
    )
