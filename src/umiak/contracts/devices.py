"""Dealing a node's accelerators out to its workers. A decider; `adapters/devices.py` finds them.

Every worker of a node sees the same list of devices, the chosen ones in the chosen order, so that PyTorch's
``cuda:LOCAL_RANK``, Paddle's ``FLAGS_selected_gpus=LOCAL_RANK`` and JAX's JAX_LOCAL_DEVICE_IDS all mean one device:

    --devices 2,3 on two workers     CUDA_VISIBLE_DEVICES=2,3 for both; worker 1 has FLAGS_selected_gpus=1, which is 3

A worker that is alone on its node gets all of them. Otherwise worker i gets the i-th. More devices than workers leaves
the rest idle (`idle` names them, so that it can be said aloud), as in Paddle 3.3.1 and torchrun: giving a worker two
of four would need a narrower list per worker, and then ``cuda:LOCAL_RANK`` does not exist. More workers than devices
is an error.
"""

from __future__ import annotations

from umiak.core.devices import VISIBILITY, Devices
from umiak.core.problem import UmiakError
from umiak.core.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.contracts.worker import Worker


def choose(devices: Devices | None, wanted: tuple[str, ...]) -> Devices:
    """The node's devices with ``--devices`` applied; UmiakError if one of them is not there or is named twice."""
    asked = ",".join(wanted)
    if devices is None:
        raise UmiakError.of(
            "UM-DEVICE-004",
            f"devices were chosen, but this node shows none: {asked}",
            hint="leave --devices out to run on the CPU, or check CUDA_VISIBLE_DEVICES and the driver",
        )
    visible = ",".join(devices.ids) + (f" ({devices.said_by})" if devices.said_by else "")
    missing = [each for each in wanted if each not in devices.ids]
    if missing or not wanted:
        raise UmiakError.of(
            "UM-DEVICE-001",
            f"chosen devices are not visible: {','.join(missing) or 'an empty list'}",
            why=f"chosen: {asked}; visible: {visible}",
            hint=f"choose among the visible ones, e.g. --devices {','.join(devices.ids[: len(wanted) or 1])}",
        )
    if len(set(wanted)) < len(wanted):
        raise UmiakError.of(
            "UM-DEVICE-003",
            f"a device is chosen twice: {asked}",
            hint=f"name each device once: --devices {','.join(dict.fromkeys(wanted))}",
        )
    return replace(devices, chosen=wanted)


def workers_for(devices: Devices | None) -> int:
    """How many workers a node runs when nobody says: one per device, or one on the CPU."""
    return 1 if devices is None else len(devices.used)


def check_workers(devices: Devices | None, workers: int) -> None:
    """UmiakError if so many workers can't each have a device."""
    if devices is None or workers <= len(devices.used):
        return
    variable = devices.said_by or VISIBILITY[devices.kind][0]
    raise UmiakError.of(
        "UM-DEVICE-002",
        f"more workers than {devices.kind.value} devices: {workers} workers, {len(devices.used)} devices",
        why=f"devices: {','.join(devices.used)}",
        hint=f"use --nproc_per_node {len(devices.used)}, or {variable}= for a run on the CPU",
    )


def idle(devices: Devices | None, workers: int) -> tuple[str, ...]:
    """The devices that nobody gets when so many workers share them."""
    return () if devices is None or workers == 1 else devices.used[workers:]


def device_environment(devices: Devices, *, local_rank: int, local_size: int) -> dict[str, str]:
    """The visibility variables and Paddle's FLAGS_selected_* for one of ``local_size`` workers on a node.

    Devices that were merely counted, and of which nobody chose some, are left as visible as they are.
    """
    variables = {
        f"FLAGS_selected_{devices.kind.paddle_word}s": ",".join(
            _share(devices, local_rank=local_rank, local_size=local_size)
        )
    }
    if devices.chosen is not None or devices.said_by is not None:
        names = VISIBILITY[devices.kind] + ((devices.said_by,) if devices.said_by else ())
        variables |= dict.fromkeys(names, ",".join(devices.used))
    return variables


def environment(worker: Worker) -> dict[str, str]:
    """The device variables of one worker; none where its role uses no devices."""
    devices = worker.devices
    if devices is None:
        return {}
    local_rank, local_size = _turn(worker, devices)
    return device_environment(devices, local_rank=local_rank, local_size=local_size)


def share(worker: Worker, devices: Devices) -> tuple[str, ...]:
    """The worker's devices as positions in the visible list."""
    local_rank, local_size = _turn(worker, devices)
    return _share(devices, local_rank=local_rank, local_size=local_size)


def _share(devices: Devices, *, local_rank: int, local_size: int) -> tuple[str, ...]:
    check_workers(devices, local_size)
    return tuple(str(i) for i in range(len(devices.used))) if local_size == 1 else (str(local_rank),)


def _turn(worker: Worker, devices: Devices) -> tuple[int, int]:
    """Local rank and size among those who share the list.

    Normally that is the whole machine. But where each process has a launcher of its own, the scheduler may have dealt
    the devices out already (srun --gpus-per-task): then a launcher sees fewer than the machine has workers.
    """
    seat = worker.seat
    node = worker.cluster.nodes[seat.node_rank]
    if node.local_size and len(devices.used) < seat.local_size:
        return seat.local_rank - node.first_local_rank, node.count(seat.role)
    return seat.local_rank, seat.local_size
