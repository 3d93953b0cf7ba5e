"""What PaddlePaddle reads from a worker's environment. A decider: a worker in, variables out.

    collective   rank, world, endpoints, store: as `paddle.distributed.launch` 3.3.1 sets them
    ps           the same numbers for trainers, and the parameter-server names for servers and trainers
    ps-heter     in addition the pipeline of stages: trainers are stage 1, heter workers stage 2
    rpc          the numbers, and the two endpoints that `paddle.distributed.rpc` wants

PADDLE_TRAINER_ID is never given to a server: Paddle's role maker finds a server by ``POD_IP:PADDLE_PORT`` in the list
of servers, and everything else takes the presence of PADDLE_TRAINER_ID for being a trainer.
"""

from __future__ import annotations

import os

from umiak.core.cluster import Mode, Role, join_host_port
from umiak.core.devices import DeviceKind
from umiak.core.problem import UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.contracts.worker import Worker

JOB_ID = "PADDLE_JOB_ID"
DISTRI_BACKEND = "PADDLE_DISTRI_BACKEND"
PADDLEREC_ROLE = "PADDLE_PADDLEREC_ROLE"
"""Set by PaddleRec's own scripts on each node of a cluster, to WORKER."""
BACKUP_PATH = "PADDLE_BACKUP_ENV_PATH"
LOG_DIR = "PADDLE_LOG_DIR"
GLOO_ENDPOINT = "PADDLE_GLOO_HTTP_ENDPOINT"
ENDPOINTS = "PADDLE_TRAINER_ENDPOINTS"

NAMES = frozenset(
    [
        "POD_NAME",
        "POD_IP",
        "PADDLE_NNODES",
        JOB_ID,
        LOG_DIR,
        "PADDLE_TRAINERS_NUM",
        "PADDLE_TRAINER_ENDPOINTS",
        "PADDLE_BACKUP_ENV_PATH",
        "PADDLE_CURRENT_ENDPOINT",
        "PADDLE_MASTER",
        "PADDLE_GLOBAL_SIZE",
        "PADDLE_GLOBAL_RANK",
        "PADDLE_TRAINER_ID",
        "PADDLE_LOCAL_SIZE",
        "PADDLE_LOCAL_RANK",
        "PADDLE_RANK_IN_NODE",
        "PADDLE_AUTO_CLUSTER",
        DISTRI_BACKEND,
        "PADDLE_XCCL_BACKEND",
        "TRAINING_ROLE",
        "PADDLE_ROLE",
        "PADDLE_PORT",
        "PADDLE_PSERVERS_IP_PORT_LIST",
        "PADDLE_WITH_GLOO",
        "PADDLE_GLOO_RENDEZVOUS",
        GLOO_ENDPOINT,
        "PADDLE_GLOO_FS_PATH",
        "STAGE_ID",
        "STAGE_NUM",
        "PADDLE_STAGE_TRAINERS_NUM",
        "HETER_DEVICE_TYPE",
        "PADDLE_HETER_TRAINER_IP_PORT_LIST",
        "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST",
        "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST",
        "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST",
        "PADDLE_MASTER_ENDPOINT",
        "PADDLE_WORKER_ENDPOINT",
    ]
)
"""Every name that this family may set."""


def of_endpoints(rank: int, endpoints: Sequence[str], own: str) -> dict[str, str]:
    """What Paddle's collective exchange reads, of a trainer whose program itself says who is there: no launcher has."""
    return {
        ENDPOINTS: ",".join(endpoints),
        "PADDLE_TRAINERS_NUM": str(len(endpoints)),
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_CURRENT_ENDPOINT": own or endpoints[rank],
    }


_ROLE_WORDS = {Role.SERVER: "PSERVER", Role.TRAINER: "TRAINER", Role.HETER: "HETER_TRAINER"}


def environment(worker: Worker) -> dict[str, str]:
    """Paddle's variables for one worker."""
    seat, setting = worker.seat, worker.setting
    variables = {
        "POD_NAME": seat.node,
        "POD_IP": seat.host,
        "PADDLE_NNODES": str(worker.hosts),
        JOB_ID: worker.cluster.job_id,
        LOG_DIR: setting.log_dir,
        "PADDLE_TRAINERS_NUM": str(len(worker.trainers)),
        ENDPOINTS: ",".join(worker.trainers),
        BACKUP_PATH: os.path.join(setting.log_dir, f"backup_env.{_backup_word(worker)}.json"),
        "PADDLE_CURRENT_ENDPOINT": seat.endpoint,
    }
    if worker.is_trainer:
        variables |= _trainer(worker)
    if setting.mode is Mode.COLLECTIVE:
        variables |= _backend(worker)
    if setting.mode.has_servers:
        variables |= _parameter_server(worker) | _gloo(worker)
    if setting.mode is Mode.PS_HETER and worker.heters:
        variables |= _heter(worker)
    if setting.mode is Mode.RPC:
        variables |= {"PADDLE_MASTER_ENDPOINT": worker.store, "PADDLE_WORKER_ENDPOINT": seat.endpoint}
    return variables


def _backup_word(worker: Worker) -> str:
    """Paddle's own file name for trainers; servers and heter workers count from 0 as well, so they get their role."""
    rank = worker.seat.rank
    return str(rank) if worker.is_trainer else f"{worker.seat.role.value}.{rank}"


def _trainer(worker: Worker) -> dict[str, str]:
    seat, world = worker.seat, str(worker.world)
    return {
        "PADDLE_MASTER": worker.store,
        "PADDLE_GLOBAL_SIZE": world,
        "PADDLE_GLOBAL_RANK": str(seat.rank),
        "PADDLE_TRAINER_ID": str(seat.rank),
        "PADDLE_LOCAL_SIZE": str(seat.local_size),
        "PADDLE_LOCAL_RANK": str(seat.local_rank),
        "PADDLE_RANK_IN_NODE": str(seat.local_rank),
        "PADDLE_AUTO_CLUSTER": "0",
    }


def _backend(worker: Worker) -> dict[str, str]:
    """Which collective library: said for the CPU and for custom devices; on GPU and XPU Paddle finds it by itself."""
    devices, asked = worker.devices, worker.setting.backend
    variables: dict[str, str] = {}
    if devices is None:
        variables[DISTRI_BACKEND] = "gloo"
    elif devices.kind is DeviceKind.NPU:
        variables = {DISTRI_BACKEND: "xccl", "PADDLE_XCCL_BACKEND": devices.kind.paddle_word}
    if asked is not None and asked != "auto":
        variables[DISTRI_BACKEND] = asked
    return variables


def _parameter_server(worker: Worker) -> dict[str, str]:
    word = _ROLE_WORDS[worker.seat.role]
    host = worker.seat.host
    return {
        "TRAINING_ROLE": word,
        "PADDLE_ROLE": word,
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(worker.servers),
        "PADDLE_PORT": str(worker.seat.port),
        # Joined with the port by a colon and looked up in the lists above, where IPv6 stands in brackets.
        "POD_IP": f"[{host}]" if ":" in host else host,
    }


def _gloo(worker: Worker) -> dict[str, str]:
    """The barrier of Paddle's role maker: the first server opens an HTTP store (kind 3) at the endpoint."""
    setting, cluster = worker.setting, worker.cluster
    first = next((node for node in cluster.nodes if node.servers), cluster.nodes[0])
    endpoint = join_host_port(first.host, setting.gloo_port or first.gloo_port)
    return {
        "PADDLE_WITH_GLOO": str(setting.with_gloo),
        "PADDLE_GLOO_RENDEZVOUS": "3",
        GLOO_ENDPOINT: endpoint,
        "PADDLE_GLOO_FS_PATH": os.path.join(setting.log_dir, f"gloo.{cluster.generation}"),
    }


def _heter(worker: Worker) -> dict[str, str]:
    """Two stages: every trainer sends to the heter workers, and they send back."""
    heters = ",".join(worker.heters)
    variables = {
        "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST": heters,
        "PADDLE_HETER_TRAINER_IP_PORT_LIST": heters,
    }
    if worker.seat.role is Role.SERVER:
        return variables
    is_heter = worker.seat.role is Role.HETER
    return variables | {
        "STAGE_ID": "2" if is_heter else "1",
        "STAGE_NUM": "2",
        "PADDLE_STAGE_TRAINERS_NUM": str([len(worker.trainers), len(worker.heters)]),
        "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST": ",".join(worker.trainers) if is_heter else "",
        "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST": "" if is_heter else heters,
        "HETER_DEVICE_TYPE": _heter_device(worker),
    }


def _heter_device(worker: Worker) -> str:
    devices, asked = worker.devices, worker.setting.heter_device
    if asked is not None and worker.seat.role is Role.HETER:
        return asked
    if devices is None:
        return "cpu"
    if devices.kind is DeviceKind.NPU:
        raise UmiakError.of(
            "UM-DEVICE-005",
            "heter workers can't run on these devices: npu",
            why="Paddle's heterogeneous parameter-server mode knows cpu, gpu and xpu only",
            hint="run without devices (ASCEND_RT_VISIBLE_DEVICES=), or choose --run_mode ps",
        )
    return devices.kind.paddle_word
