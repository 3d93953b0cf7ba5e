"""Slurm, inside a step: one launcher per task that srun started. A decider.

With one task to a node this is the placement of a *node*. With several, each launcher is one *process*: it starts one
worker, and SLURM_LOCALID is its number on the host.

Traps
- SLURM_PROCID=0 and the node list exist in an sbatch script outside srun as well, where nothing runs on the other
  nodes: only the variables of a *step* count.
- SLURM_NODELIST is the allocation; a step may run on fewer nodes, in SLURM_STEP_NODELIST.
- Nodes are listed by their Slurm names, which must resolve. No port is supplied: it follows from the job's id.
- mpirun in an allocation starts its daemons as a step; its processes have Open MPI's variables, whose rule comes first.
"""

from __future__ import annotations

from umiak.core import default_ports
from umiak.core.cluster import Placement
from umiak.platforms.reading import meeting_point, port_of_job, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.platforms.reading import Reader

MOST_HOSTS = 100_000


def place(reader: Reader) -> Placement | None:
    """A task of a Slurm step."""
    if reader.text("SLURM_PROCID") is None:
        return None
    nodes_from = reader.first("SLURM_STEP_NUM_NODES", "SLURM_NNODES")
    tasks_from = reader.first("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    nodes = reader.needed(nodes_from, least=1)
    tasks = reader.needed(tasks_from, least=1)
    rank = reader.needed("SLURM_PROCID")
    node = reader.needed("SLURM_NODEID")
    job = reader.number("SLURM_JOB_ID")
    hosts = _hosts(reader)
    if hosts and len(hosts) != nodes:
        reader.wrong("005", "SLURM_STEP_NODELIST", f"{len(hosts)} hosts are listed, but {nodes_from} says: {nodes}")
    reader.raise_problems()

    per_process = tasks != nodes
    rank_from, count_from = ("SLURM_PROCID", tasks_from) if per_process else ("SLURM_NODEID", nodes_from)
    placement = Placement(
        platform=reader.platform,
        reason=reader.reason(rank_from, count_from),
        nodes=tasks if per_process else nodes,
        rank=rank if per_process else node,
        hosts=() if per_process else hosts,
        master=meeting_point(hosts[0], default_ports.MASTER if job is None else port_of_job(job)),
        host=reader.text("SLURMD_NODENAME"),
        job_id=reader.text("SLURM_JOB_ID"),
        workers=1 if per_process else None,
        local_rank=reader.needed("SLURM_LOCALID") if per_process else None,
        local_size=_tasks_on(reader, node) if per_process else None,
    )
    return reader.settle(
        placement, rank=rank_from, nodes=count_from, hosts="SLURM_STEP_NODELIST", host="SLURMD_NODENAME"
    )


def expand(text: str) -> tuple[str, ...]:
    """The hosts of a Slurm host list: ``n[0-2,7],gpu-[08-10]`` is n0 n1 n2 n7 gpu-08 gpu-09 gpu-10.

    Numbers keep the width of the first one of their range. Several brackets in one name multiply, the last one
    fastest. ValueError if it is no host list.
    """
    hosts: list[str] = []
    for word in _outside_brackets(text):
        names = [""]
        rest = word
        while rest:
            literal, bracket, rest = rest.partition("[")
            names = [name + literal for name in names]
            if bracket:
                inside, closed, rest = rest.partition("]")
                if not closed or "[" in inside:
                    raise ValueError(f"unbalanced brackets: {word}")
                numbers = _numbers(inside)
                if len(names) * len(numbers) > MOST_HOSTS:
                    raise ValueError(f"more than {MOST_HOSTS} hosts: {word}")
                names = [name + number for name in names for number in numbers]
        if "]" in "".join(names) or not all(names):
            raise ValueError(f"not a host list: {text}")
        hosts += names
    return tuple(hosts)


def _outside_brackets(text: str) -> list[str]:
    words, depth = [""], 0
    for letter in text.strip():
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    return words


def _numbers(inside: str) -> list[str]:
    numbers: list[str] = []
    for part in inside.split(","):
        text, dash, end = part.partition("-")
        first, last = whole(text), whole(end if dash else text)
        if first is None or last is None or first > last:
            raise ValueError(f"not a range of numbers: {part}")
        if last - first >= MOST_HOSTS:
            raise ValueError(f"more than {MOST_HOSTS} hosts: {part}")
        numbers += [f"{number:0{len(text)}d}" for number in range(first, last + 1)]
    return numbers


def _hosts(reader: Reader) -> tuple[str, ...]:
    name = "SLURM_STEP_NODELIST"
    try:
        return expand(reader.text(name) or "")
    except ValueError as error:
        reader.wrong("009", name, f"not a host list: {reader.text(name)}", why=str(error))
        return ()


def _tasks_on(reader: Reader, node: int) -> int | None:
    """Tasks on node number ``node``, from a list such as ``2(x3),1``."""
    name = "SLURM_STEP_TASKS_PER_NODE"
    counts: list[int] = []
    for item in reader.items(name):
        number, _, repeat = item.removesuffix(")").partition("(x")
        count, times = whole(number), whole(repeat or "1")
        if count is None or times is None:
            reader.wrong("003", name, f"not a list of task counts: {reader.text(name)}")
            return None
        counts += [count] * min(times, MOST_HOSTS)
    return counts[node] if node < len(counts) else None
