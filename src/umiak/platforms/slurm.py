"""Slurm, inside a step: one launcher per task that srun started. A decider.

With one task to a node this is the placement of a *node*. With several, each launcher is one *process*: it starts one
worker, and SLURM_LOCALID is its number on the host.

The components of a heterogeneous job, started as one step with ``srun --het-group=0,1``, are one cluster: all nodes of
component 0, then those of component 1, and so on. ``UMIAK_SLURM_GROUPS=ps,worker``, set by the script, says what each
component is; with servers among them each node has its role.

Traps
- SLURM_PROCID=0 and the node list exist in an sbatch script outside srun as well, where nothing runs on the other
  nodes: only the variables of a *step* count.
- SLURM_NODELIST is the allocation; a step may run on fewer nodes, in SLURM_STEP_NODELIST.
- In a heterogeneous step SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE are sorted by name, while SLURM_NODEID counts
  component by component. Without `--het-group` only component 0 runs.
- Nodes are listed by their Slurm names, which must resolve. No port is supplied: it follows from the job's id.
- mpirun in an allocation starts its daemons as a step; its processes have Open MPI's variables, whose rule comes first.
"""

from __future__ import annotations

from umiak.core.cluster import Placement
from umiak.core.names import DefaultPort
from umiak.platforms import roles
from umiak.platforms.reading import master_endpoint, port_of_job, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.platforms.reading import Reader

GROUPS = "UMIAK_SLURM_GROUPS"
MOST_HOSTS = 100_000
MOST_COMPONENTS = 128
"""Slurm itself allows no more in a heterogeneous job."""


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
    listed = _hosts(reader, "SLURM_STEP_NODELIST")
    if listed and len(listed) != nodes:
        reader.wrong("005", "SLURM_STEP_NODELIST", f"{len(listed)} hosts are listed, but {nodes_from} says: {nodes}")
    components = _components(reader, listed)
    reader.raise_problems()

    per_process = tasks != nodes
    if reader.text(GROUPS) is not None:
        return _with_roles(reader, components, one_to_a_node=not per_process, node=node, job=job)
    hosts = tuple(host for component in components for host in component)
    rank_from, count_from = ("SLURM_PROCID", tasks_from) if per_process else ("SLURM_NODEID", nodes_from)
    placement = Placement(
        platform=reader.platform,
        reason=reader.reason(rank_from, count_from),
        nodes=tasks if per_process else nodes,
        rank=rank if per_process else node,
        hosts=() if per_process else hosts,
        master=master_endpoint(hosts[0], DefaultPort.MASTER if job is None else port_of_job(job)),
        host=reader.text("SLURMD_NODENAME"),
        job_id=reader.text("SLURM_JOB_ID"),
        workers=1 if per_process else None,
        local_rank=reader.needed("SLURM_LOCALID") if per_process else None,
        local_size=_tasks_on(reader, listed, hosts, node) if per_process else None,
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
            raise ValueError(f"expected a list of hosts such as node[1-4], got {text}")
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
            raise ValueError(f"expected a range of numbers such as 1-4, got {part}")
        if last - first >= MOST_HOSTS:
            raise ValueError(f"more than {MOST_HOSTS} hosts: {part}")
        numbers += [f"{number:0{len(text)}d}" for number in range(first, last + 1)]
    return numbers


def _hosts(reader: Reader, name: str) -> tuple[str, ...]:
    try:
        return expand(reader.text(name) or "")
    except ValueError as error:
        reader.wrong(
            "009", name, f"expected a list of hosts such as node[1-4], got {reader.text(name)}", why=str(error)
        )
        return ()


def _components(reader: Reader, listed: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The step's hosts by component of the job, in the order in which Slurm numbers them; an ordinary job has one."""
    count = min(reader.number("SLURM_HET_SIZE") or 0, MOST_COMPONENTS)
    whole_components = [_hosts(reader, f"SLURM_JOB_NODELIST_HET_GROUP_{number}") for number in range(count)]
    inside = set(listed)
    components = tuple(tuple(host for host in component if host in inside) for component in whole_components)
    return components if sorted(host for component in components for host in component) == sorted(listed) else (listed,)


def _with_roles(
    reader: Reader, components: tuple[tuple[str, ...], ...], *, one_to_a_node: bool, node: int, job: int | None
) -> Placement:
    """A node of a job whose script has named its components."""
    name = GROUPS
    names = reader.items(name)
    together = f"srun --het-group={','.join(str(number) for number in range(len(names)))}"
    if len(names) != len(components) or not all(components):
        running = sum(1 for component in components if component)
        what = f"{len(names)} components are named, but this step runs {running}: {reader.text(name)}"
        reader.wrong("005", name, what, hint=f"start all of them in one step: `{together}`")
    if not one_to_a_node:
        hint = "say `--ntasks-per-node=1` for every component"
        reader.wrong("005", "SLURM_STEP_NUM_TASKS", "a job with roles has one task to a node", hint=hint)
    reader.raise_problems()
    hosts = tuple(host for component in components for host in component)
    if node >= len(hosts):
        reader.wrong("004", "SLURM_NODEID", f"rank {node} is out of range: the step has {len(hosts)} nodes")
        reader.raise_problems()
    groups: dict[str, tuple[str, ...]] = {}
    for group, component in zip(names, components, strict=True):
        groups[group] = groups.get(group, ()) + component
    own = next(group for group, members in groups.items() if hosts[node] in members)
    return roles.place(
        reader,
        groups,
        own=own,
        index=groups[own].index(hosts[node]),
        names=(name, "SLURM_NODEID", "SLURM_STEP_NODELIST"),
        reason=f"{reader.reason('SLURM_NODEID', 'SLURM_STEP_NUM_NODES')}, component {own}",
        job_id=reader.text("SLURM_JOB_ID"),
        # Jobs may share nodes: each has ports of its own, as many as roles need.
        first_port=DefaultPort.MASTER if job is None else port_of_job(job * roles.PORTS_TAKEN),
    )


def _tasks_on(reader: Reader, listed: tuple[str, ...], hosts: tuple[str, ...], node: int) -> int | None:
    """Tasks on node number ``node``, from a list such as ``2(x3),1``, which is in the order of the node list."""
    name = "SLURM_STEP_TASKS_PER_NODE"
    counts: list[int] = []
    for item in reader.items(name):
        number, _, repeat = item.removesuffix(")").partition("(x")
        count, times = whole(number), whole(repeat or "1")
        if count is None or times is None:
            reader.wrong("003", name, f"expected task counts such as 2(x3),1, got {reader.text(name)}")
            return None
        counts += [count] * min(times, MOST_HOSTS)
    place = listed.index(hosts[node]) if node < len(hosts) else node
    return counts[place] if place < len(counts) else None
