"""Kubeflow: PaddleJob of training-operator v1, and what Trainer v2 tells its torch, JAX and XGBoost pods. A decider.

A v1 PaddleJob pod knows the meeting point and the number of pods, not its rank: the launchers agree on ranks among
themselves. In parameter-server mode each pod also learns that it holds one server, or one trainer.

Traps
- Only the first pod has POD_IP_DUMMY: there the meeting point is its own address, elsewhere a service's name.
- An inherited PADDLE_TRAINER_ID is not a node's rank, so it is not read here.
- PET_NNODES may be a range (2:4), PET_NPROC_PER_NODE a word (auto, gpu).
- WORLD_SIZE beside PET_NNODES may count processes; PET_* decides.
- DMLC numbers workers and servers together or apart, depending on who started them: with servers there is no rank.
"""

from __future__ import annotations

from umiak.core.cluster import Placement, Role
from umiak.platforms.reading import master_endpoint, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.platforms.reading import Reader


def paddlejob(reader: Reader) -> Placement | None:
    """A pod of `kubeflow.org/v1 PaddleJob`."""
    if reader.text("PADDLE_MASTER") is None or reader.text("PADDLE_NNODES") is None:
        return None
    servers = reader.number("PADDLE_SERVER_NUM")
    trainers = reader.number("PADDLE_TRAINER_NUM")
    role = Role.SERVER if servers and not trainers else Role.TRAINER if trainers and not servers else None
    placement = Placement(
        platform=reader.platform,
        reason=f"PADDLE_JOB_ID={reader.text('PADDLE_JOB_ID')}, PADDLE_NNODES={reader.text('PADDLE_NNODES')}",
        nodes=reader.span("PADDLE_NNODES"),
        master=reader.master("PADDLE_MASTER"),
        host=reader.text("POD_IP_DUMMY"),
        job_id=reader.text("PADDLE_JOB_ID"),
        role=role,
    )
    reader.raise_problems()
    return placement


def trainer(reader: Reader) -> Placement | None:
    """A torch pod of Trainer v2 (or of a late v1 PyTorchJob): torchrun's options in variables."""
    address = reader.text("PET_MASTER_ADDR")
    port = reader.port("PET_MASTER_PORT")
    placement = Placement(
        platform=reader.platform,
        reason=reader.reason("PET_NODE_RANK", "PET_NNODES"),
        nodes=reader.span("PET_NNODES"),
        rank=reader.number("PET_NODE_RANK"),
        master=reader.master("PET_RDZV_ENDPOINT") if address is None else master_endpoint(address, port),
        job_id=reader.text("PET_RDZV_ID"),
        workers=whole(reader.text("PET_NPROC_PER_NODE") or "") or None,
    )
    return reader.settle(placement, rank="PET_NODE_RANK", nodes="PET_NNODES", hosts="PET_MASTER_ADDR")


def jax(reader: Reader) -> Placement | None:
    """A JAX pod of Trainer v2: one process to a pod."""
    if reader.text("JAX_PROCESS_ID") is None or reader.text("JAX_NUM_PROCESSES") is None:
        return None
    placement = Placement(
        platform=reader.platform,
        reason=reader.reason("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
        nodes=reader.needed("JAX_NUM_PROCESSES", least=1),
        rank=reader.needed("JAX_PROCESS_ID"),
        master=reader.master("JAX_COORDINATOR_ADDRESS"),
        workers=1,
        local_rank=0,
        local_size=1,
    )
    return reader.settle(placement, rank="JAX_PROCESS_ID", nodes="JAX_NUM_PROCESSES", hosts="JAX_COORDINATOR_ADDRESS")


def dmlc(reader: Reader) -> Placement | None:
    """A process of an XGBoost or other DMLC job."""
    if reader.text("DMLC_NUM_WORKER") is None:
        return None
    servers = reader.number("DMLC_NUM_SERVER") or 0
    word = reader.text("DMLC_ROLE") or "worker"
    role = {"worker": Role.TRAINER, "server": Role.SERVER}.get(word)
    if role is None:
        hint = "give this process a command of its own; its peers train without it"
        reader.wrong(
            "010", "DMLC_ROLE", f"this process is not part of the training job, its role is: {word}", hint=hint
        )
    # The tracker listens on its own port, so launchers meet on another one.
    placement = Placement(
        platform=reader.platform,
        reason=reader.reason("DMLC_TASK_ID", "DMLC_NUM_WORKER"),
        nodes=reader.needed("DMLC_NUM_WORKER", least=1) + servers,
        rank=None if servers else reader.needed("DMLC_TASK_ID"),
        master=master_endpoint(reader.text("DMLC_TRACKER_URI") or ""),
        workers=1,
        role=role if servers else None,
    )
    return reader.settle(placement, rank="DMLC_TASK_ID", nodes="DMLC_NUM_WORKER", hosts="DMLC_TRACKER_URI")
