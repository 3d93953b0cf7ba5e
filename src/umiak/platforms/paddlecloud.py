"""Contracts made for Paddle: the PaddleJob operators' pods, and children of Paddle's own launcher. A decider.

A PaddleJob pod gets every endpoint of every role from one ConfigMap, its role in TRAINING_ROLE, its number *within the
role* in PADDLE_TRAINER_ID and its address in POD_IP. An elastic job gets no list at all, but an etcd to meet at. A node
of a collective job on PaddleCloud, as PaddleRec 1.8.5 finds it, has no role: PADDLE_TRAINERS, POD_IP and
PADDLE_TRAINER_ID tell it.

Traps
- PADDLE_PORT is random while endpoints in Service mode say 36000: ports are taken from the endpoints.
- The ConfigMap is written once: a pod that is made again finds its new address missing from the list.
- Host mode puts the same ip:port on two pods of one machine.
- The operator keeps TRAINER_PORTS_NUM ports per pod for the job. The last one is where nodes meet; workers count up
  from the first, and gloo takes the last but one.
- Paddle's launcher gives its children the same names with process-level numbers; they have PADDLE_CURRENT_ENDPOINT.
"""

from __future__ import annotations

from umiak.core.cluster import ROLES, Placement, Role, join_host_port
from umiak.platforms.reading import master_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.platforms.reading import Reader

ROLE_OF = {
    "PSERVER": Role.SERVER,
    "TRAINER": Role.TRAINER,
    "HETER": Role.HETER,
    "HETER_TRAINER": Role.HETER,
}
LISTS = {
    Role.SERVER: "PADDLE_PSERVERS_IP_PORT_LIST",
    Role.TRAINER: "PADDLE_TRAINER_ENDPOINTS",
    Role.HETER: "PADDLE_HETER_ENDPOINTS",
}

ELASTIC_SERVER = "PADDLE_ELASTIC_SERVER"
"""The etcd of an elastic job. The old operator leaves it to the manifest."""


def paddlejob(reader: Reader) -> Placement | None:
    """A pod of a PaddleJob: parameter server, collective, single or elastic;
    a node of a collective job on PaddleCloud.
    """
    if reader.text("PADDLE_ELASTIC_JOB_ID") is not None:
        return _elastic(reader)
    role = _role(reader)
    if role is None and not _is_cloud_node(reader):
        return None
    lists = {role: reader.endpoints(name) for role, name in LISTS.items()}
    if role is not None and (lists[Role.SERVER] or lists[Role.HETER]):
        return _with_roles(reader, role, lists)
    return _collective(reader, lists[Role.TRAINER])


def launched(reader: Reader) -> Placement | None:
    """A process that `paddle.distributed.launch` started: every number counts processes."""
    if reader.text("PADDLE_TRAINER_ID") is None:
        return None
    current = reader.endpoints("PADDLE_CURRENT_ENDPOINT")
    listed = reader.endpoints("PADDLE_TRAINER_ENDPOINTS")
    count = reader.needed("PADDLE_TRAINERS_NUM", least=1)
    if listed and len(listed) != count:
        reader.wrong(
            "005", "PADDLE_TRAINER_ENDPOINTS", f"{len(listed)} are listed, but PADDLE_TRAINERS_NUM says: {count}"
        )
    placement = Placement(
        platform=reader.platform,
        reason=reader.reason("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"),
        nodes=count,
        rank=reader.needed("PADDLE_TRAINER_ID"),
        # The port that rank 0 was to give its store: rank 0 is our launcher now, so the port is ours.
        master=reader.master("PADDLE_MASTER") or next(iter(listed), None),
        host=reader.host_port(current[0], "PADDLE_CURRENT_ENDPOINT")[0],
        workers=1,
        local_rank=reader.number("PADDLE_LOCAL_RANK"),
        local_size=reader.number("PADDLE_LOCAL_SIZE", least=1),
    )
    return reader.settle(
        placement, rank="PADDLE_TRAINER_ID", nodes="PADDLE_TRAINERS_NUM", hosts="PADDLE_TRAINER_ENDPOINTS"
    )


def _role(reader: Reader) -> Role | None:
    name = reader.first("TRAINING_ROLE", "PADDLE_TRAINING_ROLE")
    word = reader.text(name)
    if word is not None and word not in ROLE_OF:
        reader.wrong("010", name, f"expected a role, got {word}", hint=f"roles are: {', '.join(ROLE_OF)}")
    return ROLE_OF.get(word or "")


def _is_cloud_node(reader: Reader) -> bool:
    """Whether this is a node without a role, as PaddleCloud starts it for collective training."""
    names = ("PADDLE_TRAINERS", "POD_IP", "PADDLE_TRAINER_ID")
    return all(reader.text(name) for name in names) and reader.text(LISTS[Role.SERVER]) is None


def _collective(reader: Reader, listed: tuple[str, ...]) -> Placement | None:
    named = reader.items("PADDLE_TRAINERS")
    hosts = named or tuple(reader.host_port(item, LISTS[Role.TRAINER])[0] for item in listed)
    if not hosts or not (named or reader.text("TRAINER_PORTS_NUM")):
        return None
    port = reader.port("PADDLE_PORT")
    first = listed[0] if listed else hosts[0] if port is None else join_host_port(hosts[0], port)
    placement = Placement(
        platform=reader.platform,
        reason=reader.reason("PADDLE_TRAINER_ID", reader.first("PADDLE_TRAINERS_NUM", "PADDLE_TRAINERS")),
        nodes=reader.number("PADDLE_TRAINERS_NUM", least=1) or len(hosts),
        rank=reader.needed("PADDLE_TRAINER_ID"),
        hosts=hosts,
        master=_master_endpoint(reader, first),
        host=reader.text("POD_IP"),
        workers=reader.number("TRAINER_GPU_CARD_COUNT") or None,
    )
    return reader.settle(
        placement, rank="PADDLE_TRAINER_ID", nodes="PADDLE_TRAINERS_NUM", hosts="PADDLE_TRAINERS", host="POD_IP"
    )


def _with_roles(reader: Reader, role: Role, lists: dict[Role, tuple[str, ...]]) -> Placement:
    sizes = {role: len(listed) for role, listed in lists.items()}
    trainers = reader.number("PADDLE_TRAINERS_NUM", least=1)
    if lists[Role.TRAINER] and trainers is not None and trainers != sizes[Role.TRAINER]:
        what = f"{sizes[Role.TRAINER]} trainers are listed, but PADDLE_TRAINERS_NUM says: {trainers}"
        reader.wrong("005", LISTS[Role.TRAINER], what)
    sizes[Role.TRAINER] = sizes[Role.TRAINER] or trainers or 0
    index = _index(reader, role, lists[role])
    if index >= sizes[role]:
        reader.wrong("004", "PADDLE_TRAINER_ID", f"no {role.value} number {index}: there are {sizes[role]}")
    every = tuple(item for role in LISTS for item in lists[role])
    hosts = tuple(reader.host_port(item, LISTS[Role.SERVER])[0] for item in every)
    placement = Placement(
        platform=reader.platform,
        reason=f"{role.value} {index} of {sizes[role]} by TRAINING_ROLE and {LISTS[role]}",
        nodes=sum(sizes.values()),
        rank=index + sum(size for earlier, size in sizes.items() if ROLES.index(earlier) < ROLES.index(role)),
        hosts=hosts if lists[Role.TRAINER] else (),  # else just the number of trainers is known
        master=_master_endpoint(reader, every[0]),
        host=reader.text("POD_IP"),
        role=role,
        server_endpoints=lists[Role.SERVER],
        trainer_endpoints=lists[Role.TRAINER],
        heter_endpoints=lists[Role.HETER],
    )
    return reader.settle(
        placement, rank="PADDLE_TRAINER_ID", nodes="PADDLE_TRAINERS_NUM", hosts=LISTS[role], host="POD_IP"
    )


def _index(reader: Reader, role: Role, listed: tuple[str, ...]) -> int:
    """The number within the role. A server may be told by its endpoint alone, as Paddle's role maker does."""
    own = join_host_port(reader.text("POD_IP") or "", reader.port("PADDLE_PORT") or 0)
    if role is Role.SERVER and own in listed:
        return listed.index(own)
    return reader.needed("PADDLE_TRAINER_ID")


def _elastic(reader: Reader) -> Placement:
    """Who takes part is agreed upon in etcd, so there is no rank."""
    server = reader.text(ELASTIC_SERVER)
    placement = Placement(
        platform=reader.platform,
        reason=f"PADDLE_ELASTIC_JOB_ID={reader.text('PADDLE_ELASTIC_JOB_ID')}",
        nodes=reader.span("PADDLE_ELASTIC_NP"),
        master=None if server is None else f"etcd://{server.removeprefix('etcd://')}",
        host=reader.text("POD_IP"),
        job_id=reader.text("PADDLE_ELASTIC_JOB_ID"),
    )
    reader.raise_problems()
    return placement


def _master_endpoint(reader: Reader, first: str) -> str:
    host, port = reader.host_port(first, LISTS[Role.TRAINER])
    reserved = reader.number("TRAINER_PORTS_NUM", least=1)
    if port is None or reserved is None or port + reserved > 65536:
        return master_endpoint(host)
    return master_endpoint(host, port + reserved - 1)
