"""Environment out: what a worker sees. Deciders only; nothing here reads or writes anything.

    environment(cluster, seat, setting)   the variables of every family together: Paddle, PyTorch, JAX, umiak's own
    backup(cluster, seat, setting)        what the file PADDLE_BACKUP_ENV_PATH must hold before the worker starts
    inherit(environ, contract)            the worker's whole environment: the launcher's, cleaned, the contract on top
    without_proxies(environ)              an environment whose proxies workers do not use
    redacted(environ)                     an environment that may be shown

One contract serves all frameworks, so that one launcher does. Who gets what:

    server            Paddle's parameter-server names, umiak's
    trainer           everything; PyTorch's and JAX's ranks count trainers, in every mode
    heter worker      as a server, with Paddle's stages and the devices
"""

from __future__ import annotations

from umiak.contracts import devices, jax, native, paddle, torch
from umiak.contracts.inherited import inherit, proxies_in, without_proxies
from umiak.contracts.secrets import redacted
from umiak.contracts.setting import WorkerSetting
from umiak.contracts.worker import worker_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.cluster import Cluster, Seat

__all__ = ["WorkerSetting", "backup", "environment", "inherit", "proxies_in", "redacted", "without_proxies"]

# Lists that grow with the cluster and can be found in the backup. Paddle looks there for its own; the list of
# parameter servers is not among them, because Paddle reads that one from the environment alone.
_LONG = (paddle.ENDPOINTS, native.TRAINERS, native.HETERS)


def environment(cluster: Cluster, seat: Seat, setting: WorkerSetting) -> dict[str, str]:
    """The contract of one worker: what is laid over the launcher's environment.

    UmiakError if the node's devices do not suffice (`contracts.devices.check_workers` says so earlier).
    """
    contract = backup(cluster, seat, setting)
    for name in _LONG:
        if len(contract.get(name, "")) >= setting.endpoints_limit:
            del contract[name]
    return contract


def backup(cluster: Cluster, seat: Seat, setting: WorkerSetting) -> dict[str, str]:
    """The whole contract, also the lists that are too long for an environment; nothing of the launcher's own."""
    worker = worker_at(cluster, seat, setting)
    return {
        **paddle.environment(worker),
        **torch.environment(worker),
        **jax.environment(worker),
        **devices.environment(worker),
        **native.environment(worker),
    }
