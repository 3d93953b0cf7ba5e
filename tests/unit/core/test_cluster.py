"""Who sits where in a cluster, and addresses in all their spellings."""

from __future__ import annotations

import pytest

from tests.support import formation
from umiak.core.cluster import Cluster, Mode, Node, Role, join_host_port, split_host_port


def node(name: str, host: str, *, first_port: int = 7000, **counts: int) -> Node:
    workers = sum(counts.get(role, 1 if role == "trainers" else 0) for role in ("servers", "trainers", "heters"))
    return Node(name=name, host=host, home=0, ports=tuple(range(first_port, first_port + workers + 1)), **counts)


MIXED = Cluster(
    job_id="ctr",
    generation=2,
    nodes=(
        node("a", "10.0.0.1", servers=2, trainers=1),
        node("b", "10.0.0.2", servers=0, trainers=3, heters=1),
        node("c", "fd00::3", servers=1, trainers=0),
    ),
    coordinator="b",
)


def test_workers_are_numbered_over_all_nodes_role_by_role() -> None:
    assert [(seat.rank, seat.node, seat.local_rank) for seat in MIXED.seats(Role.TRAINER)] == [
        (0, "a", 0),
        (1, "b", 0),
        (2, "b", 1),
        (3, "b", 2),
    ]
    assert [(seat.rank, seat.node) for seat in MIXED.seats(Role.SERVER)] == [(0, "a"), (1, "a"), (2, "c")]
    assert [(seat.rank, seat.node) for seat in MIXED.seats(Role.HETER)] == [(0, "b")]


def test_the_ports_of_a_node_belong_to_servers_then_trainers_then_heters_then_the_store() -> None:
    a, b, c = MIXED.nodes
    assert (a.ports_of(Role.SERVER), a.ports_of(Role.TRAINER), a.store_port) == ((7000, 7001), (7002,), 7003)
    assert (b.ports_of(Role.SERVER), b.ports_of(Role.TRAINER), b.ports_of(Role.HETER)) == (
        (),
        (7000, 7001, 7002),
        (7003,),
    )
    assert (c.ports_of(Role.SERVER), c.ports_of(Role.TRAINER), c.store_port) == ((7000,), (), 7001)


def test_no_two_workers_share_an_endpoint_and_none_has_the_stores() -> None:
    endpoints = [endpoint for role in Role for endpoint in MIXED.endpoints(role)]
    stores = [join_host_port(node.host, node.store_port) for node in MIXED.nodes]
    assert len({*endpoints, *stores}) == len(endpoints) + len(stores) == 11


def test_endpoints_are_those_of_the_seats_in_rank_order() -> None:
    for role in Role:
        assert MIXED.endpoints(role) == tuple(seat.endpoint for seat in MIXED.seats(role))
        assert MIXED.size(role) == len(MIXED.seats(role))
    assert MIXED.endpoints(Role.SERVER) == ("10.0.0.1:7000", "10.0.0.1:7001", "[fd00::3]:7000")


def test_the_seats_of_a_node_are_its_part_of_all_seats_servers_first() -> None:
    assert [seat.key for seat in MIXED.seats_on("a")] == ["server.0", "server.1", "trainer.0"]
    assert [seat.key for seat in MIXED.seats_on("b")] == ["trainer.0", "trainer.1", "trainer.2", "heter.0"]
    everywhere = {seat for name in MIXED.names for seat in MIXED.seats_on(name)}
    assert everywhere == {seat for role in Role for seat in MIXED.seats(role)}
    assert all(seat.node_rank == MIXED.node_rank(seat.node) for seat in everywhere)


def test_local_size_counts_the_workers_of_the_same_role_on_the_node() -> None:
    assert [seat.local_size for seat in MIXED.seats(Role.TRAINER)] == [1, 3, 3, 3]
    assert [seat.local_size for seat in MIXED.seats(Role.SERVER)] == [2, 2, 1]


def test_several_launchers_on_one_host_share_its_local_ranks() -> None:
    nodes = tuple(
        Node(
            name=f"n{rank}",
            host="10.0.0.1",
            home=rank,
            ports=(7000 + 2 * rank, 7001 + 2 * rank),
            first_local_rank=rank,
            local_size=4,
        )
        for rank in range(4)
    )
    seats = Cluster(job_id="ctr", generation=1, nodes=nodes, coordinator="n0").seats(Role.TRAINER)
    assert [(seat.rank, seat.local_rank, seat.local_size) for seat in seats] == [(n, n, 4) for n in range(4)]


def test_the_store_stands_on_the_first_node() -> None:
    assert MIXED.store == "10.0.0.1:7003"
    assert formation("ba").store.startswith("10.0.0.2:")


def test_nodes_are_found_by_name() -> None:
    assert MIXED.node("b").host == "10.0.0.2"
    assert MIXED.node_rank("c") == 2
    assert MIXED.hosts == ("10.0.0.1", "10.0.0.2", "fd00::3")
    for find in (MIXED.node, MIXED.seats_on):
        with pytest.raises(KeyError):
            find("z")


def test_only_parameter_server_modes_have_servers() -> None:
    assert [mode for mode in Mode if mode.has_servers] == [Mode.PS, Mode.PS_HETER]


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1:80", "10.0.0.1", 80),
        ("10.0.0.1", "10.0.0.1", None),
        ("10.0.0.1:", "10.0.0.1", None),
        ("node-1.local:65535", "node-1.local", 65535),
        ("[fd00::1]:6170", "fd00::1", 6170),
        ("[fd00::1]", "fd00::1", None),
        ("fd00::1", "fd00::1", None),
        ("::1", "::1", None),
        ("[::]:1", "::", 1),
    ],
)
def test_an_address_is_taken_apart(text: str, host: str, port: int | None) -> None:
    assert split_host_port(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":80",
        "[]:80",
        "host:0",
        "host:65536",
        "host:-1",
        "host:http",
        "host: 80",
        "[fd00::1",
        "[fd00::1]80",
        "[fd00::1]:x",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no host|not a"):
        split_host_port(text)


@pytest.mark.parametrize("host", ["10.0.0.1", "node-1", "fd00::1", "::1"])
def test_an_address_that_was_put_together_comes_apart_again(host: str) -> None:
    assert split_host_port(join_host_port(host, 6170)) == (host, 6170)
