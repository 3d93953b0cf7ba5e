"""Azure Machine Learning: MPI's variables or torch's, and the address of the first node. A decider.

An MPI job has Open MPI's ranks and AZ_BATCH_MASTER_NODE (``host:port``); on a single node the address is in
AZ_BATCHAI_MPI_MASTER_NODE, without a port. A PyTorch job has torch's variables per process. NODE_RANK alone numbers
nodes, without a count.

Trap: mpirun's own address is of no use here, for processes run in containers; so this rule comes before Open MPI's.
"""

from __future__ import annotations

from umiak.core.cluster import Placement
from umiak.platforms import mpi, torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.platforms.reading import Reader


def place(reader: Reader) -> Placement | None:
    """A process of an Azure ML job; ``None`` for a job of one plain command."""
    name = reader.first("AZ_BATCH_MASTER_NODE", "AZ_BATCHAI_MPI_MASTER_NODE")
    master = reader.master(name)
    job_id = reader.text("AZUREML_RUN_ID")
    if reader.text("OMPI_COMM_WORLD_SIZE") is not None:
        return mpi.read(reader, mpi.OPEN_MPI, master=master, job_id=job_id)
    if reader.text("RANK") is None and reader.text("NODE_RANK") is not None:
        rank = reader.number("NODE_RANK")
        reader.raise_problems()
        return Placement(platform=reader.platform, reason=f"NODE_RANK={rank}", rank=rank, master=master, job_id=job_id)
    return torch.read(reader, master=None if reader.text("MASTER_ADDR") else master, job_id=job_id)
