"""mpirun and its relatives: Open MPI, MVAPICH, MPICH or Intel MPI, and what any PMI starter leaves behind. A decider.

Each process gets its rank, the number of all, and mostly the same two numbers for its host. With one process to a host
this is the placement of a *node*; otherwise of a *process* that starts one worker.

Traps
- No list of hosts is given. If all processes are on this host, they meet on the loopback address. Otherwise Open MPI
  tells where mpirun itself runs (version 4 in its URI, version 5 in the name space ``prterun-<host>-<pid>@1``), which is
  where rank 0 is unless the host file leaves that machine out. From the others a `--master` must be given.
- Version 4 numbers its jobs in steps of 65536: the lower bits say nothing.
- PMIX_RANK comes without a count. It is a rank, but no cluster.
"""

from __future__ import annotations

from umiak.core.cluster import Placement
from umiak.core.value import value
from umiak.platforms.reading import master_endpoint, port_of_job, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.platforms.reading import Reader


@value
class Names:
    """The four variables of one MPI family."""

    rank: str
    size: str
    local_rank: str
    local_size: str


OPEN_MPI = Names(
    rank="OMPI_COMM_WORLD_RANK",
    size="OMPI_COMM_WORLD_SIZE",
    local_rank="OMPI_COMM_WORLD_LOCAL_RANK",
    local_size="OMPI_COMM_WORLD_LOCAL_SIZE",
)
MVAPICH = Names(
    rank="MV2_COMM_WORLD_RANK",
    size="MV2_COMM_WORLD_SIZE",
    local_rank="MV2_COMM_WORLD_LOCAL_RANK",
    local_size="MV2_COMM_WORLD_LOCAL_SIZE",
)
MPICH = Names(rank="PMI_RANK", size="PMI_SIZE", local_rank="MPI_LOCALRANKID", local_size="MPI_LOCALNRANKS")
PMI = Names(rank="PMI_RANK", size="PMI_SIZE", local_rank="PMI_LOCAL_RANK", local_size="PMI_LOCAL_SIZE")
JSM = Names(
    rank="JSM_NAMESPACE_RANK",
    size="JSM_NAMESPACE_SIZE",
    local_rank="JSM_NAMESPACE_LOCAL_RANK",
    local_size="JSM_NAMESPACE_LOCAL_SIZE",
)


def openmpi(reader: Reader) -> Placement:
    """A process that Open MPI's mpirun started."""
    host, number = _mpirun(reader)
    port = None if number is None else port_of_job(number)
    return read(reader, OPEN_MPI, master=None if host is None else master_endpoint(host, port), port=port)


def mvapich(reader: Reader) -> Placement:
    """A process of MVAPICH2."""
    return read(reader, MVAPICH)


def mpich(reader: Reader) -> Placement:
    """A process that Hydra started: MPICH, Intel MPI."""
    return read(reader, MPICH)


def pmi(reader: Reader) -> Placement:
    """A process of any other starter that speaks PMI."""
    if reader.text("PMI_SIZE") is not None:
        return read(reader, PMI)
    rank = reader.number("PMIX_RANK")
    reader.raise_problems()
    return Placement(platform=reader.platform, reason=f"PMIX_RANK={rank}", rank=rank)


def read(
    reader: Reader,
    names: Names,
    *,
    master: str | None = None,
    port: int | None = None,
    hosts: tuple[str, ...] = (),
    hosts_from: str = "",
    job_id: str | None = None,
) -> Placement:
    """The placement by one family's variables. ``hosts`` count only if they are one to a process."""
    size = reader.needed(names.size, least=1)
    local_rank = reader.number(names.local_rank)
    local_size = reader.number(names.local_size, least=1)
    per_process = local_size != 1
    if local_rank is not None and local_size is not None and local_rank >= local_size:
        reader.wrong("004", names.local_rank, f"out of range, {names.local_size} says {local_size}: {local_rank}")
    if local_size == size:  # whatever name this host has, it need not resolve
        master = master_endpoint("127.0.0.1", port)
    rank = reader.needed(names.rank)
    own = "" if per_process or rank >= len(hosts) else hosts[rank]
    placement = Placement(
        platform=reader.platform,
        reason=reader.reason(names.rank, names.size) + (f", {names.local_rank}={local_rank}" if per_process else ""),
        nodes=size,
        rank=rank,
        hosts=() if per_process else hosts,
        master=master if size > 1 else None,
        host=own or None,
        job_id=job_id,
        workers=1 if per_process else None,
        local_rank=local_rank if per_process else None,
        local_size=local_size if per_process else None,
    )
    return reader.settle(placement, rank=names.rank, nodes=names.size, hosts=hosts_from)


def _mpirun(reader: Reader) -> tuple[str | None, int | None]:
    """Where mpirun runs, and a number that tells this run from others."""
    uri = (reader.text("OMPI_MCA_orte_hnp_uri") or "").strip("\"'")
    job, _, addresses = uri.partition(";")
    number = whole(job.partition(".")[0])
    if addresses.startswith("tcp://") and number is not None:
        return addresses.removeprefix("tcp://").partition(":")[0].partition(",")[0], number >> 16
    starter, _, _ = (reader.text("PMIX_NAMESPACE") or "").partition("@")
    host, _, text = starter.removeprefix("prterun-").rpartition("-")
    process = whole(text)
    if starter.startswith("prterun-") and host and process is not None:
        return host, process
    return None, None
