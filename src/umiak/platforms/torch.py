"""MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE: one contract, two meanings. A decider.

Kubeflow's PyTorchJob, PAI-DLC and AIHC number *nodes* with RANK and WORLD_SIZE and say how many processes each should
start with NPROC_PER_NODE. torchrun, Ray Train and their like number *processes*, and those have a LOCAL_RANK. So
LOCAL_RANK (or torchrun's own mark) tells the meanings apart; nothing else does.

Traps
- A torchrun child inherits its pod's variables but overwrites RANK and WORLD_SIZE, hence the early rule for it.
- torchrun's agent itself may listen on MASTER_PORT; the port beside it is then where launchers meet.
- The first pod of an older PyTorchJob sees MASTER_ADDR=localhost while its peers see its name.

Two clouds use this contract and have a mark of their own.

Baidu AIHC (Baige): RANK and WORLD_SIZE count nodes, NPROC_PER_NODE is the number of cards, MASTER_ADDR is
``<job>-master-0``. There is no list of hosts: launchers find one another at the master. A TensorFlow job has TF_CONFIG
instead, which is left to its own rule.

Azure Machine Learning: an MPI job has Open MPI's ranks and AZ_BATCH_MASTER_NODE (``host:port``); on a single node the
address is in AZ_BATCHAI_MPI_MASTER_NODE, without a port. A PyTorch job has torch's variables per process. NODE_RANK
alone numbers nodes, without a count. Trap: mpirun's own address is of no use there, for processes run in containers; so
its rule comes before Open MPI's.
"""

from __future__ import annotations

from umiak.core.cluster import Placement
from umiak.core.names import DefaultPort
from umiak.platforms.reading import master_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.platforms.reading import Reader


def torchrun(reader: Reader) -> Placement | None:
    """A process that torchrun started."""
    return read(reader, job_id=_unless_default(reader.text("TORCHELASTIC_RUN_ID")))


def bare(reader: Reader) -> Placement | None:
    """The variables alone, from any source. MASTER_ADDR without a rank and a count says nothing about a cluster."""
    return read(reader)


def aihc(reader: Reader) -> Placement | None:
    """A container of an AIHC job."""
    return read(reader, job_id=reader.text("AIHC_JOB_NAME"))


def azureml(reader: Reader) -> Placement | None:
    """A process of an Azure ML job; ``None`` for a job of one plain command."""
    name = reader.first("AZ_BATCH_MASTER_NODE", "AZ_BATCHAI_MPI_MASTER_NODE")
    master = reader.master(name)
    job_id = reader.text("AZUREML_RUN_ID")
    if reader.text("OMPI_COMM_WORLD_SIZE") is not None:
        from umiak.platforms import mpi

        return mpi.read(reader, mpi.OPEN_MPI, master=master, job_id=job_id)
    if reader.text("RANK") is None and reader.text("NODE_RANK") is not None:
        rank = reader.number("NODE_RANK")
        reader.raise_problems()
        return Placement(platform=reader.platform, reason=f"NODE_RANK={rank}", rank=rank, master=master, job_id=job_id)
    return read(reader, master=None if reader.text("MASTER_ADDR") else master, job_id=job_id)


def read(reader: Reader, *, job_id: str | None = None, master: str | None = None) -> Placement | None:
    """The contract at whichever of its two levels it is; ``None`` if it is not complete."""
    address = reader.text("MASTER_ADDR")
    if reader.text("RANK") is None or reader.text("WORLD_SIZE") is None or (address is None and master is None):
        return None
    per_process = reader.text("LOCAL_RANK") is not None or reader.text("TORCHELASTIC_RUN_ID") is not None
    local_rank = reader.number("LOCAL_RANK")
    placement = Placement(
        platform=reader.platform,
        reason=reader.reason("RANK", "WORLD_SIZE") + (f", LOCAL_RANK={local_rank}" if per_process else ""),
        nodes=reader.needed("WORLD_SIZE", least=1),
        rank=reader.needed("RANK"),
        master=master or master_endpoint(address or "", _port(reader)),
        job_id=job_id,
        workers=1 if per_process else (reader.number("NPROC_PER_NODE") or None),  # 0 cards: a CPU job
        local_rank=local_rank,
        local_size=reader.number("LOCAL_WORLD_SIZE", least=1) if per_process else None,
    )
    return reader.settle(placement, rank="RANK", nodes="WORLD_SIZE", hosts="MASTER_ADDR")


def _port(reader: Reader) -> int:
    port = reader.port("MASTER_PORT") or DefaultPort.MASTER
    if reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return port + 1 if port < 65535 else port - 1
    return port


def _unless_default(run_id: str | None) -> str | None:
    return None if run_id == "none" else run_id
