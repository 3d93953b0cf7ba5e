"""For any cluster: ranks are a permutation, every family agrees on rank and world, endpoints are unique and in order."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from umiak import contracts
from umiak.contracts import WorkerSetting
from umiak.contracts import seat as worker_seat
from umiak.core.cluster import ROLES, Cluster, Mode, Node, Role, Seat, split_host_port
from umiak.core.devices import VISIBILITY, DeviceKind, Devices

NAMES = contracts.paddle.NAMES | contracts.torch.NAMES | contracts.jax.NAMES | contracts.native.NAMES
DEVICE_NAMES = {name for names in VISIBILITY.values() for name in names} | {
    f"FLAGS_selected_{kind.paddle_word}s" for kind in DeviceKind
}
RANK_NAMES = (
    ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"),
    ("PADDLE_GLOBAL_RANK", "PADDLE_GLOBAL_SIZE"),
    ("RANK", "WORLD_SIZE"),
    ("ROLE_RANK", "ROLE_WORLD_SIZE"),
    ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    ("UMIAK_RANK", "UMIAK_WORLD_SIZE"),
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Cluster, WorkerSetting]:
    mode = draw(st.sampled_from(Mode))
    shape = st.tuples(
        st.integers(0, 3) if mode.has_servers else st.just(0),
        st.integers(0, 3) if mode.has_servers else st.integers(1, 4),
        st.integers(0, 2) if mode is Mode.PS_HETER else st.just(0),
    )
    shapes = draw(st.lists(shape.filter(any), min_size=1, max_size=5))
    host = draw(st.sampled_from(["10.0.0.{}", "fd00::{}", "node{}.lab"]))
    nodes = []
    for home, (servers, trainers, heters) in enumerate(shapes):
        count = servers + trainers + heters + 1
        ports = draw(st.lists(st.integers(1024, 65535), min_size=count, max_size=count, unique=True))
        nodes.append(
            Node(
                name=f"n{home}",
                host=host.format(home + 1),
                home=home,
                ports=tuple(ports),
                servers=servers,
                trainers=trainers,
                heters=heters,
            )
        )
    kind = draw(st.sampled_from([None, DeviceKind.GPU, DeviceKind.XPU, DeviceKind.DCU]))
    devices = Devices(kind=kind, ids=tuple("abcdef"), chosen=draw(st.none() | st.just(tuple("fedc")))) if kind else None
    formed = Cluster(job_id="law", generation=draw(st.integers(0, 9)), nodes=tuple(nodes), coordinator="n0")
    return formed, WorkerSetting(mode=mode, log_dir="/log", devices=devices)


def contracts_of(formed: Cluster, setting: WorkerSetting, role: Role) -> list[tuple[Seat, dict[str, str]]]:
    return [(seat, contracts.environment(formed, seat, setting)) for seat in formed.seats(role)]


OUTSIDE = st.dictionaries(
    st.sampled_from(sorted(NAMES | {"PADDLE_TRAINING_ROLE", "PADDLE_PSERVER_ID", "TRAINER_PORTS_NUM", "SLURM_PROCID"})),
    st.sampled_from(["", "0", "1", "7", "PSERVER", "TRAINER", "HETER_TRAINER", "server", "10.9.9.9:1", "10.9.9.9"]),
    max_size=12,
)
"""What a launcher may find in its own environment, and what no worker may believe."""


@given(clusters(), OUTSIDE)
def test_a_worker_reads_its_own_seat_back(case: tuple[Cluster, WorkerSetting], outside: dict[str, str]) -> None:
    formed, setting = case
    for role in ROLES:
        for seat, contract in contracts_of(formed, setting, role):
            reading = worker_seat.read(contracts.inherit(outside, contract))
            found = reading.found
            assert found is not None
            assert found.seat == seat
            assert dict(found.endpoints) == {each: formed.endpoints(each) for each in ROLES}
            if formed.size(Role.TRAINER):  # a job of servers alone is complained about
                assert (found.trainers, reading.complaints) == (formed.size(Role.TRAINER), ())


@given(clusters())
def test_ranks_are_a_permutation_on_which_all_families_agree(case: tuple[Cluster, WorkerSetting]) -> None:
    formed, setting = case
    for role in ROLES:
        told = contracts_of(formed, setting, role)
        assert sorted(int(each["UMIAK_RANK"]) for _, each in told) == list(range(len(told)))
        for _, each in told:
            assert each["UMIAK_WORLD_SIZE"] == str(len(told))
    for seat, each in contracts_of(formed, setting, Role.TRAINER):
        for rank, world in RANK_NAMES:
            assert (each[rank], each[world]) == (str(seat.rank), str(formed.size(Role.TRAINER)))


@given(clusters())
def test_endpoints_are_unique_and_in_rank_order(case: tuple[Cluster, WorkerSetting]) -> None:
    formed, setting = case
    lists = {
        Role.SERVER: "UMIAK_SERVERS",
        Role.TRAINER: "UMIAK_TRAINERS",
        Role.HETER: "UMIAK_HETERS",
    }
    seen: set[str] = set()
    for role, name in lists.items():
        told = contracts_of(formed, setting, role)
        own = [each["UMIAK_ENDPOINT"] for _, each in told]
        assert not seen & set(own)
        seen |= set(own)
        assert len(set(own)) == len(own)
        for _, each in told:
            assert each[name].split(",") == own
            if role is Role.TRAINER:
                assert each["PADDLE_TRAINER_ENDPOINTS"].split(",") == own
            if role is Role.SERVER:
                assert each["PADDLE_PSERVERS_IP_PORT_LIST"].split(",") == own
                assert f"{each['POD_IP']}:{each['PADDLE_PORT']}" == each["UMIAK_ENDPOINT"]
    assert len(seen) == sum(formed.size(role) for role in ROLES)


@given(clusters())
def test_all_trainers_meet_in_one_store_on_the_first_trainers_host(case: tuple[Cluster, WorkerSetting]) -> None:
    formed, setting = case
    told = contracts_of(formed, setting, Role.TRAINER)
    for _, each in told:
        host, port = split_host_port(each["PADDLE_MASTER"])
        assert host == told[0][0].host
        assert (each["MASTER_ADDR"], each["MASTER_PORT"]) == (host, str(port))
        assert each["JAX_COORDINATOR_ADDRESS"] == each["UMIAK_STORE"] == each["PADDLE_MASTER"]
        assert each["PADDLE_MASTER"] not in formed.endpoints(Role.TRAINER)


@given(clusters())
def test_local_ranks_and_groups_number_the_seats(case: tuple[Cluster, WorkerSetting]) -> None:
    formed, setting = case
    told = [each for _, each in contracts_of(formed, setting, Role.TRAINER)]
    places = {(each["GROUP_RANK"], each["LOCAL_RANK"]) for each in told}
    assert len(places) == len(told)
    for each in told:
        assert int(each["LOCAL_RANK"]) < int(each["LOCAL_WORLD_SIZE"])
        assert int(each["GROUP_RANK"]) < int(each["GROUP_WORLD_SIZE"])
    assert {int(each["GROUP_RANK"]) for each in told} == set(range(int(told[0]["GROUP_WORLD_SIZE"]) if told else 0))


@given(clusters(), st.dictionaries(st.sampled_from(sorted(NAMES | {"HOME", "PADDLE_RANK"})), st.text(max_size=5)))
def test_a_worker_sees_its_contract_whatever_surrounds_its_launcher(
    case: tuple[Cluster, WorkerSetting], outside: dict[str, str]
) -> None:
    formed, setting = case
    for role in ROLES:
        for _, each in contracts_of(formed, setting, role):
            assert each.keys() <= NAMES | DEVICE_NAMES
            assert json.loads(json.dumps(each)) == each
            worker = contracts.inherit(outside, each)
            assert worker.items() >= each.items()
            if role is not Role.TRAINER:
                assert not worker.keys() & (contracts.torch.NAMES | contracts.jax.NAMES | {"PADDLE_TRAINER_ID"})
