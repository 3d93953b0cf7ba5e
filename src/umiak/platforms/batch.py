"""LSF and PBS: batch systems that write the job's hosts into a file. A decider.

LSF: inside jsrun, JSM's variables number processes and LSB_DJOB_RANKFILE lists the hosts. Without jsrun, hosts are
read from that file or from LSB_MCPU_HOSTS (``a 4 b 4``).
PBS: PBS_NODEFILE lists the hosts, once per slot; PBS_NODENUM is this node's number.

Traps
- The script of a job runs on its first host alone: start the launchers with jsrun, blaunch or pbsdsh.
- PBS writes its file on the first host only.
- LSF's file starts with the launch node, which runs no part of a jsrun step.
- Without a number, a node is told by its name: whole, with and without domain. HOSTNAME is often not exported; then
  the launcher must find its own address among the hosts.
"""

from __future__ import annotations

from umiak.core.cluster import Placement
from umiak.platforms import mpi
from umiak.platforms.reading import master_endpoint, unique

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.platforms.reading import Reader


def lsf(reader: Reader) -> Placement | None:
    """A process of a jsrun step, or one launcher per host of an LSF job."""
    listed = reader.lines("LSB_DJOB_RANKFILE", needed=False)
    job_id = reader.text("LSB_JOBID")
    if reader.text(reader.first("JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK")) is not None:
        hosts = unique(listed[1:])
        one_each = len(hosts) == reader.number("JSM_NAMESPACE_SIZE")
        return mpi.read(
            reader,
            mpi.JSM,
            master=master_endpoint(hosts[0]) if hosts else None,
            hosts=hosts if one_each else (),
            hosts_from="LSB_DJOB_RANKFILE",
            job_id=job_id,
        )
    name = "LSB_DJOB_RANKFILE" if listed else "LSB_MCPU_HOSTS"
    return _by_position(reader, unique(listed or reader.items("LSB_MCPU_HOSTS")[::2]), name, "", job_id)


def pbs(reader: Reader) -> Placement | None:
    """One launcher per host of a PBS or Torque job."""
    hosts = unique(reader.lines("PBS_NODEFILE"))
    return _by_position(reader, hosts, "PBS_NODEFILE", "PBS_NODENUM", reader.text("PBS_JOBID"))


def _by_position(
    reader: Reader, hosts: tuple[str, ...], hosts_from: str, rank_from: str, job_id: str | None
) -> Placement | None:
    if not hosts:
        return None
    rank = reader.number(rank_from) if rank_from else None
    if rank is None:
        rank, rank_from = _position(reader.text("HOSTNAME"), hosts), "HOSTNAME"
    placement = Placement(
        platform=reader.platform,
        reason=f"{reader.reason(rank_from, '') or 'rank unknown'} of {len(hosts)} hosts in {hosts_from}",
        nodes=len(hosts),
        rank=rank,
        hosts=hosts,
        master=master_endpoint(hosts[0]),
        host=hosts[rank] if rank is not None and rank < len(hosts) else None,
        job_id=job_id,
    )
    return reader.settle(placement, rank=rank_from, nodes=hosts_from, hosts=hosts_from)


def _position(own: str | None, hosts: tuple[str, ...]) -> int | None:
    """Where this host stands in the list. Names are compared as a whole; short ones only if that is unambiguous."""
    if own is None:
        return None
    if own in hosts:
        return hosts.index(own)
    short = [host.partition(".")[0] for host in hosts]
    name = own.partition(".")[0]
    return short.index(name) if short.count(name) == 1 else None
