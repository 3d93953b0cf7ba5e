"""What JAX programs read from a worker's environment. A decider. For trainers only, as with PyTorch.

`jax.distributed.initialize()` itself reads JAX_COORDINATOR_ADDRESS and JAX_LOCAL_DEVICE_IDS. The two numbers are a
convention that Kubeflow Trainer follows too; a program hands them on:

    jax.distributed.initialize(
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
    )

JAX_LOCAL_DEVICE_IDS is said on GPUs (CUDA and ROCm) only, where JAX obeys it. It counts within the visible devices.
"""

from __future__ import annotations

from umiak.contracts import devices as device_contract
from umiak.core.devices import DeviceKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.contracts.worker import Worker

NAMES = frozenset(["JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_LOCAL_DEVICE_IDS"])
"""Every name that this family may set."""


def environment(worker: Worker) -> dict[str, str]:
    """JAX's variables for one worker; none unless it is a trainer."""
    if not worker.is_trainer:
        return {}
    variables = {
        "JAX_COORDINATOR_ADDRESS": worker.store,
        "JAX_NUM_PROCESSES": str(worker.world),
        "JAX_PROCESS_ID": str(worker.seat.rank),
    }
    devices = worker.devices
    if devices is not None and devices.kind in (DeviceKind.GPU, DeviceKind.DCU):
        variables["JAX_LOCAL_DEVICE_IDS"] = ",".join(device_contract.share(worker, devices))
    return variables
