"""The table of all checks. Values: what gathers facts and what judges them is named, and imported when it is wanted."""

from __future__ import annotations

from umiak.core.value import value

_FACTS = "umiak.doctor.gathering"
_JUDGES = "umiak.doctor.judging"


@value
class DoctorCheck:
    """One check."""

    name: str
    group: str
    about: str
    """What it looks at, for the reference."""
    facts: str
    """``module:function`` that measures: ``(DoctorRequest, limit_s) -> facts``."""
    judge: str
    """``module:function`` that decides: ``(facts, DoctorRequest) -> findings``."""
    limit_s: float = 10.0
    after: str = ""
    """The check whose report it needs; it gets it as a third argument."""


def _check(name: str, group: str, module: str, about: str, *, limit_s: float = 10.0, after: str = "") -> DoctorCheck:
    where = f"{module}:{name}"
    return DoctorCheck(
        name=name,
        group=group,
        about=about,
        facts=f"{_FACTS}.{where}",
        judge=f"{_JUDGES}.{where}",
        limit_s=limit_s,
        after=after,
    )


CHECKS = (
    _check("install", "umiak", "installation", "This umiak: the native core, versions, other umiaks on the path"),
    _check("disk", "umiak", "installation", "Room and rights where logs, runs and caches are written"),
    _check(
        "paddle", "frameworks", "frameworks", "PaddlePaddle can be imported; its build fits the devices", limit_s=60
    ),
    _check("protobuf", "frameworks", "frameworks", "Protobuf fits Paddle, and is there once", limit_s=20),
    _check(
        "paddle_collective",
        "frameworks",
        "frameworks",
        "Two processes of `umiak launch` add numbers up with Paddle: gloo on the CPU, nccl with two GPUs or more",
        limit_s=120,
        after="paddle",
    ),
    _check("torch", "frameworks", "frameworks", "PyTorch can be imported; its build fits the devices", limit_s=60),
    _check(
        "torch_collective",
        "frameworks",
        "frameworks",
        "Two processes of `umiak launch` add numbers up with PyTorch",
        limit_s=120,
        after="torch",
    ),
    _check(
        "devices",
        "devices",
        "machine",
        "Accelerators, their driver, and variables that hide or choose them",
        limit_s=20,
    ),
    _check("ports", "network", "network", "Ports that the job would use are free, and who has those that are not"),
    _check("address", "network", "network", "The address that other nodes would be told: it is right, and it answers"),
    _check("dns", "network", "network", "Hosts that were named are known, and there is a way to them", limit_s=20),
    _check("clock", "network", "network", "The clock, compared with etcd's"),
    _check("proxy", "network", "network", "Proxy variables that would catch loopback or the nodes"),
    _check("shm", "machine", "machine", "Size of /dev/shm, which data loaders and NCCL use"),
    _check("limits", "machine", "machine", "Limits of open files, locked memory and processes"),
    _check("etcd", "cluster", "cluster", "etcd answers, its version and latency, and the right to write"),
    _check("elastic", "cluster", "cluster", "What an elastic job needs: a range of nodes, a name of its own, timeouts"),
    _check("kubernetes", "places", "machine", "kubeconfig: it is there, and only you can read it"),
    _check("place", "places", "machine", "What the backend of `--on PLACE` says: hosts, keys, rights", limit_s=60),
)
GROUPS = tuple(dict.fromkeys(check.group for check in CHECKS))


def chosen(names: tuple[str, ...]) -> tuple[DoctorCheck, ...]:
    """The checks of these names and groups with those that they need, in the order of the table; none named: all.

    KeyError with a name that there is not.
    """
    for name in names:
        if name not in GROUPS and all(name != check.name for check in CHECKS):
            raise KeyError(name)
    named = [check for check in CHECKS if not names or check.name in names or check.group in names]
    needed = {check.after for check in named}
    return tuple(check for check in CHECKS if check in named or check.name in needed)
