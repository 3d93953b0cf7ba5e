"""Which seat a process has, from umiak's variables, Paddle's, or none; everything that is wrong at once."""

from __future__ import annotations

import os

import pytest

from umiak import contracts
from umiak.core.cluster import Cluster, Mode, Node, Role
from umiak.ps.environment import PsSeat, SeatRole, seat
from umiak.ps.errors import BadRequest

LIST = "127.0.0.1:6170,127.0.0.1:6171"
TRAINER = {
    "TRAINING_ROLE": "TRAINER",
    "PADDLE_PSERVERS_IP_PORT_LIST": LIST,
    "PADDLE_TRAINER_ID": "1",
    "PADDLE_TRAINERS_NUM": "2",
}
SERVER = {
    "TRAINING_ROLE": "PSERVER",
    "PADDLE_PSERVERS_IP_PORT_LIST": LIST,
    "POD_IP": "127.0.0.1",
    "PADDLE_PORT": "6171",
    "PADDLE_TRAINERS_NUM": "2",
}


def problems(environ: dict[str, str]) -> list[str]:
    with pytest.raises(BadRequest) as caught:
        seat(environ)
    text = str(caught.value)
    assert all(problem.code in text and problem.what in text for problem in caught.value.problems)
    return [problem.code for problem in caught.value.problems]


def test_without_a_job_a_process_is_alone() -> None:
    assert seat({"HOME": "/root", "TRAINING_ROLE": " "}) == PsSeat()
    assert PsSeat().role is SeatRole.ALONE


def test_paddles_words_for_a_trainer() -> None:
    found = seat(TRAINER)
    assert (found.role, found.rank, found.world) == (SeatRole.TRAINER, 1, 2)
    assert found.servers == ("127.0.0.1:6170", "127.0.0.1:6171")


def test_a_server_finds_itself_by_its_address() -> None:
    found = seat(SERVER)
    assert (found.role, found.rank, found.world) == (SeatRole.SERVER, 1, 2)
    assert found.endpoint == ("127.0.0.1", 6171)
    assert found.state_dir is None


def test_platforms_that_name_the_role_and_the_server_otherwise() -> None:
    pod = {**SERVER, "PADDLE_TRAINING_ROLE": "PSERVER"}
    del pod["TRAINING_ROLE"]
    assert (seat(pod).role, seat(pod).rank) == (SeatRole.SERVER, 1)
    del pod["PADDLE_PORT"]
    assert seat({**pod, "PADDLE_PSERVER_ID": "1"}).rank == 1
    assert problems({**pod, "PADDLE_PSERVER_ID": "2"}) == ["UM-PS-004"]


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"TRAINING_ROLE": "WORKER"}, ["UM-PS-001"]),
        ({"TRAINING_ROLE": ""}, ["UM-PS-001"]),
        ({"TRAINING_ROLE": "HETER_TRAINER"}, ["UM-PS-001"]),
        ({"PADDLE_PSERVERS_IP_PORT_LIST": "here:1,there"}, ["UM-PS-002", "UM-PS-006"]),
        ({"PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:1,127.0.0.1:1"}, ["UM-PS-002"]),
        ({"PADDLE_TRAINER_ID": "2"}, ["UM-PS-004"]),
        ({"PADDLE_TRAINER_ID": ""}, ["UM-PS-004"]),
        ({"PADDLE_TRAINER_ID": "one"}, ["UM-PS-004"]),
        ({"PADDLE_TRAINERS_NUM": "0"}, ["UM-PS-004"]),
        ({"PADDLE_TRAINERS_NUM": "9" * 12}, ["UM-PS-004"]),
        ({"PADDLE_PSERVERS_IP_PORT_LIST": ""}, ["UM-PS-005"]),
        (
            {"TRAINING_ROLE": "?", "PADDLE_TRAINER_ID": "x", "PADDLE_TRAINERS_NUM": "-"},
            ["UM-PS-001", *["UM-PS-004"] * 2],
        ),
    ],
)
def test_what_is_wrong_with_a_trainer_is_said_at_once(changes: dict[str, str], codes: list[str]) -> None:
    assert problems({**TRAINER, **changes}) == codes


def test_a_server_that_is_not_in_the_list() -> None:
    assert problems({**SERVER, "PADDLE_PORT": "6172"}) == ["UM-PS-003"]
    assert problems({name: text for name, text in SERVER.items() if name != "PADDLE_PORT"}) == ["UM-PS-003"]
    assert problems({**SERVER, "UMIAK_RANK": "2"}) == ["UM-PS-004"]
    assert problems({**SERVER, "PADDLE_PSERVERS_IP_PORT_LIST": ""}) == ["UM-PS-002", "UM-PS-003"]


def test_a_single_trainer_without_servers_is_alone() -> None:
    assert seat({"UMIAK_ROLE": "trainer", "UMIAK_RANK": "0", "UMIAK_WORLD_SIZE": "1"}) == PsSeat()


@pytest.mark.parametrize("host", ["10.0.0.1", "server-0", "[fe80::1]", "127.example.org"])
def test_beyond_this_machine_a_token_is_needed(host: str) -> None:
    environ = {**TRAINER, "PADDLE_PSERVERS_IP_PORT_LIST": f"{host}:6170"}
    assert problems(environ) == ["UM-PS-006"]
    assert seat({**environ, "UMIAK_TOKEN": "a secret of them all"}).token == "a secret of them all"


def test_a_token_that_can_be_guessed_is_refused() -> None:
    environ = {**TRAINER, "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1:6170"}
    assert problems({**environ, "UMIAK_TOKEN": "fifteen letters"}) == ["UM-PS-033"]
    assert seat({**environ, "UMIAK_TOKEN": "sixteen letters."}).token == "sixteen letters."


def test_a_token_need_not_be_text() -> None:
    environ = {**TRAINER, "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1:6170"}
    token = os.fsdecode(b"\xff\xfe" * 8)
    assert seat({**environ, "UMIAK_TOKEN": token}).token == token


def test_digits_of_other_scripts_are_no_number() -> None:
    environ = {**TRAINER, "PADDLE_PSERVERS_IP_PORT_LIST": "localhost:6170"}
    assert problems({**environ, "UMIAK_RESTART_COUNT": "\u0663"})
    assert problems({**environ, "UMIAK_RANK": "\u0660"})


def test_loopback_needs_none() -> None:
    assert seat({**TRAINER, "PADDLE_PSERVERS_IP_PORT_LIST": "localhost:1,[::1]:2,127.0.0.9:3"}).token is None


@pytest.mark.parametrize("role", [Role.SERVER, Role.TRAINER])
def test_what_the_launcher_says_is_understood(role: Role) -> None:
    nodes = tuple(
        Node(
            name=f"n{i}", host="127.0.0.1", home=i, ports=tuple(range(100 * i + 1, 100 * i + 6)), trainers=2, servers=1
        )
        for i in range(2)
    )
    cluster = Cluster(job_id="ctr", generation=3, nodes=nodes, coordinator="n0")
    for rank, place in enumerate(cluster.seats(role)):
        setting = contracts.WorkerSetting(mode=Mode.PS, log_dir="/log", restart_count=2)
        found = seat(contracts.environment(cluster, place, setting))
        assert (found.role.value, found.rank, found.world) == (role.value, rank, 4)
        assert (found.job, found.restarts, found.servers) == ("ctr", 2, cluster.endpoints(Role.SERVER))
        if role is Role.SERVER:
            assert found.endpoint == (place.host, place.port)
            assert found.state_dir == f"/log/ps/server.{rank}/n{rank}-3"
