"""The plan of a node: what was typed, what the platform says and what the machine is, and what follows from them together."""

from __future__ import annotations

from typing import Any

import pytest

from umiak.core.cluster import Mode, Placement, Role
from umiak.core.problem import UmiakError
from umiak.launch.events import Discovery
from umiak.launch.options import LaunchOptions, TrainerRestart
from umiak.launch.plan import PATIENCE_ALONE_S, LaunchPlan, Local, plan

HERE = Local(addresses=("10.0.0.2", "127.0.0.1"))
GPUS = Local(addresses=("10.0.0.2", "127.0.0.1"), devices=4)
NAMED = Local(addresses=("10.0.0.2", "127.0.0.1"), resolved={"node-2": "10.0.0.2", "node-1": "10.0.0.1"})
SLURM = Placement(
    platform="slurm", reason="", nodes=3, rank=1, hosts=("n1", "n2", "n3"), master="n1:6768", host="n2", job_id="4242"
)
FIRST_OF_SLURM = Placement(
    platform="slurm", reason="", nodes=3, rank=0, hosts=("n1", "n2", "n3"), master="n1:6768", host="n1", job_id="4242"
)
MPI = Placement(
    platform="openmpi", reason="", nodes=4, rank=3, master="10.0.0.1:6768", local_rank=1, local_size=2, workers=1
)
SERVERS = ("ps-0:2379", "ps-1:2379")
TRAINERS = ("w-0:2380", "w-1:2390")
SERVER_POD = Placement(
    platform="paddlejob",
    reason="",
    nodes=4,
    rank=1,
    master="ps-0:6768",
    role=Role.SERVER,
    host="ps-1",
    server_endpoints=SERVERS,
    trainer_endpoints=TRAINERS,
)
TRAINER_POD = Placement(
    platform="paddlejob",
    reason="",
    nodes=4,
    rank=3,
    master="ps-0:6768",
    role=Role.TRAINER,
    host="w-1",
    server_endpoints=SERVERS,
    trainer_endpoints=TRAINERS,
)


def options(**given: Any) -> LaunchOptions:
    """Options as the command line makes them: ``nnodes=(2, 4)`` is what ``--nnodes 2:4`` sets."""
    if "nnodes" in given:
        given["least_nodes"], given["most_nodes"] = given.pop("nnodes")
        given["nodes_said"] = True
    return LaunchOptions(program=("train.py",), **given)


def case(name: str, given: dict[str, Any], placement: Placement | None, local: Local, **expected: Any) -> Any:
    return pytest.param(options(**given), placement, local, expected, id=name)


@pytest.mark.parametrize(
    ("given", "placement", "local", "expected"),
    [
        case(
            "nothing said",
            {}, None, HERE,
            discovery=Discovery.ALONE, may_lead=True, must_lead=False, rank=None, host="127.0.0.1",
            trainers=1, servers=0, ports=(), nodes=(1, 1), port_count=2, patience_s=PATIENCE_ALONE_S,
        ),
        case("alone, with a time to be silent", {"heartbeat_timeout_s": 60.0}, None, HERE, patience_s=0.0),
        case("nobody may be silent for long beside others", {"nnodes": (2, 2)}, None, HERE, patience_s=0.0),
        case("a worker per device", {}, None, GPUS, trainers=4, port_count=5),
        case("fewer workers than devices", {"workers_per_node": 2}, None, GPUS, trainers=2),
        case("fixed ports", {"start_port": 6170, "workers_per_node": 2}, None, HERE, ports=(6170, 6171, 6172)),
        case(
            "two nodes without a master",
            {"nnodes": (2, 2)}, None, HERE,
            discovery=Discovery.ADDRESS, must_lead=True, may_lead=True, master_host="", host="", nodes=(2, 2),
        ),
        case(
            "a master elsewhere",
            {"nnodes": (2, 2), "master": "10.0.0.1:6170"}, None, HERE,
            discovery=Discovery.ADDRESS, may_lead=False, must_lead=False, master_host="10.0.0.1", master_port=6170, host="",
        ),
        case(
            "a master here",
            {"nnodes": (2, 2), "master": "10.0.0.2:6170"}, None, HERE,
            may_lead=True, must_lead=False, master_host="10.0.0.2", master_port=6170,
        ),
        case("a master here, by name", {"nnodes": (2, 2), "master": "node-2:6170"}, None, NAMED, may_lead=True),
        case("a master elsewhere, by name", {"nnodes": (2, 2), "master": "node-1:6170"}, None, NAMED, may_lead=False),
        case("a master on loopback", {"nnodes": (2, 2), "master": "127.0.0.1:6170"}, None, HERE, may_lead=True),
        case("a master on localhost", {"nnodes": (2, 2), "master": "localhost:6170"}, None, HERE, may_lead=True),
        case("a master without a port", {"nnodes": (2, 2), "master": "10.0.0.1"}, None, HERE, master_port=6768),
        case("a master in IPv6", {"nnodes": (2, 2), "master": "[fd00::1]:6170"}, None, HERE, master_host="fd00::1", master_port=6170),
        case(
            "a typed address is taken at its word, also by rank 0",
            {"nnodes": (2, 2), "master": "10.0.0.1:6170", "rank": 0}, None, HERE,
            may_lead=False, rank=0,
        ),
        case("and by rank 1", {"nnodes": (2, 2), "master": "10.0.0.2:6170", "rank": 1}, None, HERE, may_lead=True, rank=1),
        case("one node needs no master", {"nnodes": (1, 1), "master": "10.0.0.1:6170"}, None, HERE, discovery=Discovery.ALONE),
        case("one node of a range does", {"nnodes": (1, 2), "master": "10.0.0.1:6170"}, None, HERE, discovery=Discovery.ADDRESS, nodes=(1, 2)),
        case("a check of one node asks it", {"check": True, "master": "10.0.0.1:6170"}, None, HERE, discovery=Discovery.ADDRESS),
        case(
            "etcd",
            {"nnodes": (2, 4), "master": "etcd://10.0.0.7:2379,10.0.0.8,[fd00::9]:99", "job_id": "ctr"}, None, HERE,
            discovery=Discovery.ETCD, etcd=(("10.0.0.7", 2379), ("10.0.0.8", 2379), ("fd00::9", 99)), must_lead=False, job_id="ctr",
        ),
        case("etcd for one node", {"master": "etcd://10.0.0.7:2379"}, None, HERE, discovery=Discovery.ETCD),
        # --ips
        case(
            "a list of nodes",
            {"node_hosts": ("10.0.0.1", "10.0.0.2"), "workers_per_node": 2}, None, HERE,
            nodes=(2, 2), rank=1, host="10.0.0.2", discovery=Discovery.ADDRESS, master_host="10.0.0.1", master_port=6069,
            may_lead=False, ports=(6070, 6071, 6072),
        ),
        case(
            "the first of the list leads",
            {"node_hosts": ("10.0.0.2", "10.0.0.1"), "start_port": 7000}, None, HERE,
            rank=0, may_lead=True, master_host="10.0.0.2", master_port=6999, ports=(7000, 7001),
        ),
        case("a list of names", {"node_hosts": ("node-1", "node-2")}, None, NAMED, rank=1, host="node-2"),
        case("a list with --host", {"node_hosts": ("10.0.0.1", "10.0.0.9"), "host": "10.0.0.9"}, None, HERE, rank=1, host="10.0.0.9"),
        case("a list of one", {"node_hosts": ("10.9.9.9",)}, None, HERE, discovery=Discovery.ALONE, nodes=(1, 1)),
        case("a list and its number", {"node_hosts": ("10.0.0.1", "10.0.0.2"), "nnodes": (2, 2)}, None, HERE, nodes=(2, 2)),
        case(
            "a list wins over a platform",
            {"node_hosts": ("10.0.0.1", "10.0.0.2")}, SLURM, HERE,
            nodes=(2, 2), rank=1, master_host="10.0.0.1", host="n2", job_id="4242",
        ),
        # Parameter servers
        case("one server and one trainer", {"mode": Mode.PS}, None, HERE, servers=1, trainers=1, mode=Mode.PS, port_count=4),
        case(
            "servers and trainers by number",
            {"mode": Mode.PS, "servers_per_node": 2, "trainers_per_node": 3}, None, GPUS,
            servers=2, trainers=3, port_count=7,
        ),
        case("a node of servers only", {"mode": Mode.PS, "servers_per_node": 1, "trainers_per_node": 0}, None, HERE, servers=1, trainers=0),
        case(
            "lists of servers and trainers",
            {
                "mode": Mode.PS,
                "server_endpoints": ("10.0.0.1:6170", "10.0.0.2:6170"),
                "trainer_endpoints": ("10.0.0.2:6171", "10.0.0.2:6172"),
            },
            None, HERE,
            nodes=(2, 2), rank=1, host="10.0.0.2", servers=1, trainers=2, ports=(6170, 6171, 6172, 6767, 6769),
            master_host="10.0.0.1", master_port=6768,
        ),
        case(
            "the port of gloo is not the store's, and neither is one of the lists",
            {
                "mode": Mode.PS,
                "server_endpoints": ("127.0.0.1:6769",),
                "trainer_endpoints": ("127.0.0.1:6770",),
                "gloo_port": 6771,
            },
            None, HERE,
            discovery=Discovery.ALONE, ports=(6769, 6770, 6771, 6772), gloo_port=6771,
        ),
        case(
            "heter workers by list",
            {
                "mode": Mode.PS,
                "server_endpoints": ("10.0.0.1:1",),
                "trainer_endpoints": ("10.0.0.1:2",),
                "heter_endpoints": ("10.0.0.2:3", "10.0.0.2:4"),
            },
            None, HERE,
            mode=Mode.PS_HETER, heters=2, trainers=0, servers=0, ports=(3, 4, 6767, 6769),
        ),
        # Platforms
        case(
            "a platform that knows everything",
            {}, SLURM, HERE,
            nodes=(3, 3), rank=1, host="n2", master_host="n1", master_port=6768, job_id="4242", may_lead=False,
            discovery=Discovery.ADDRESS,
        ),
        case("its first node leads, whatever its name means here", {}, FIRST_OF_SLURM, HERE, rank=0, may_lead=True, must_lead=False),
        case(
            "what was typed wins",
            {"nnodes": (2, 4), "master": "10.0.0.2:1", "host": "10.0.0.2", "rank": 2, "job_id": "mine"}, SLURM, HERE,
            nodes=(2, 4), rank=2, host="10.0.0.2", master_host="10.0.0.2", master_port=1, job_id="mine",
        ),
        case(
            "one launcher per process",
            {}, MPI, GPUS,
            trainers=1, first_local_rank=1, local_size=2, rank=3, nodes=(4, 4),
        ),
        case(
            "a pod that is a server",
            {}, SERVER_POD, HERE,
            mode=Mode.PS, servers=1, trainers=0, ports=(2379, 2380), rank=1, nodes=(4, 4), host="ps-1",
        ),
        case(
            "a pod that is a trainer",
            {}, TRAINER_POD, HERE,
            mode=Mode.PS, servers=0, trainers=1, ports=(2390, 2391), rank=3, host="w-1",
        ),
    ],
)  # fmt: skip
def test_what_follows(
    given: LaunchOptions, placement: Placement | None, local: Local, expected: dict[str, Any]
) -> None:
    made = plan(given, placement, local)
    assert {name: _asked(made, name) for name in expected} == expected


def _asked(made: LaunchPlan, name: str) -> Any:
    of_terms = {"mode": made.terms.mode, "job_id": made.terms.job_id, "nodes": (made.terms.least, made.terms.most)}
    return of_terms[name] if name in of_terms else getattr(made, name)


def test_the_rules_of_the_job_are_those_that_were_typed() -> None:
    terms = plan(
        options(
            nnodes=(1, 2),
            max_restart=7,
            restart_wanted=True,
            elastic_level=0,
            elastic_timeout_s=11.0,
            join_timeout_s=12.0,
            heartbeat_timeout_s=2.0,
            grace_s=3.0,
            failure_grace_s=5.0,
            trainer_restart=TrainerRestart.ALONE,
            sort_ip=True,
        ),
        None,
        HERE,
    ).terms
    assert (terms.max_restart, terms.restart_wanted, terms.elastic_level) == (7, True, 0)
    assert (terms.elastic_timeout_s, terms.join_timeout_s, terms.heartbeat_timeout_s) == (11.0, 12.0, 2.0)
    assert (terms.trainer_restart, terms.sort_ip) == (TrainerRestart.ALONE, True)
    assert terms.grace_s == terms.failure_grace_s == 3.0, "nobody waits longer after a failure than after a signal"
    assert terms.fence_s > terms.heartbeat_timeout_s / 5, "more than a beat"


@pytest.mark.parametrize(
    ("given", "placement", "codes", "words"),
    [
        pytest.param(
            {"node_hosts": ("10.0.0.1", "10.0.0.3")}, None, ["UM-LAUNCH-302"], ["10.0.0.2", "10.0.0.1, 10.0.0.3"],
            id="this node is not in the list",
        ),
        pytest.param(
            {"node_hosts": ("10.0.0.1", "10.0.0.3"), "host": "10.0.0.9"}, None, ["UM-LAUNCH-302"], ["10.0.0.9"],
            id="nor is the address that was typed",
        ),
        pytest.param(
            {"node_hosts": ("10.0.0.2", "127.0.0.1", "10.0.0.3")}, None, ["UM-LAUNCH-303"], ["10.0.0.2, 127.0.0.1"],
            id="this node is in the list twice",
        ),
        pytest.param(
            {"node_hosts": ("10.0.0.1", "10.0.0.2"), "nnodes": (3, 3)}, None, ["UM-LAUNCH-301"], ["--nnodes 3", "2 nodes"],
            id="a list and another number",
        ),
        pytest.param(
            {"node_hosts": ("10.0.0.1", "10.0.0.3"), "nnodes": (3, 3)}, None, ["UM-LAUNCH-301", "UM-LAUNCH-302"], [],
            id="both at once",
        ),
        pytest.param(
            {"mode": Mode.PS, "server_endpoints": ("10.0.0.1:1", "10.0.0.3:1"), "trainer_endpoints": ("10.0.0.1:2",)},
            None, ["UM-LAUNCH-302"], ["--servers"],
            id="this node is in no list of servers and trainers",
        ),
        pytest.param(
            {}, Placement(platform="batch", reason="", rank=2), ["UM-LAUNCH-304"], ["batch", "node 2"],
            id="a platform that says which node, but not of how many",
        ),
    ],
)  # fmt: skip
def test_contradictions_are_problems_with_codes(
    given: dict[str, Any], placement: Placement | None, codes: list[str], words: list[str]
) -> None:
    with pytest.raises(UmiakError) as error:
        plan(options(**given), placement, HERE)
    assert [problem.code for problem in error.value.problems] == codes
    assert error.value.exit_status == 2
    for word in words:
        assert word in "\n".join(line for problem in error.value.problems for line in problem.lines())


def test_a_platform_that_names_no_host_is_told_before_the_other_nodes_refuse_it() -> None:
    pod = Placement(platform="paddlejob", reason="", nodes=2, rank=0, master="a:1", host="a; touch x \x1b[2J")
    with pytest.raises(UmiakError) as caught:
        plan(LaunchOptions(program=("x.py",)), pod, HERE)
    (problem,) = caught.value.problems
    assert problem.code == "UM-LAUNCH-109"
    assert problem.what.isprintable()
