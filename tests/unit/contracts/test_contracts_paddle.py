"""What Paddle is told, in each mode; and that a real Paddle reads it the same way is in test_contracts_real_paddle.py."""

from __future__ import annotations

import pytest

from tests.support.contract_helpers import cluster, node, setting, two_by_two
from umiak import contracts
from umiak.core.cluster import Mode, Role
from umiak.core.devices import DeviceKind, Devices
from umiak.core.problem import UmiakError


def paddle_part(contract: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in contract.items() if name in contracts.paddle.NAMES}


def test_collective_last_of_two_by_two() -> None:
    formed = two_by_two()
    seat = formed.seats(Role.TRAINER)[3]
    assert paddle_part(contracts.environment(formed, seat, setting())) == {
        "POD_NAME": "beta",
        "POD_IP": "10.0.0.2",
        "PADDLE_NNODES": "2",
        "PADDLE_JOB_ID": "ctr",
        "PADDLE_LOG_DIR": "/job/log",
        "PADDLE_MASTER": "10.0.0.1:7999",
        "PADDLE_GLOBAL_SIZE": "4",
        "PADDLE_TRAINERS_NUM": "4",
        "PADDLE_GLOBAL_RANK": "3",
        "PADDLE_TRAINER_ID": "3",
        "PADDLE_LOCAL_SIZE": "2",
        "PADDLE_LOCAL_RANK": "1",
        "PADDLE_RANK_IN_NODE": "1",
        "PADDLE_CURRENT_ENDPOINT": "10.0.0.2:7001",
        "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:7000,10.0.0.1:7001,10.0.0.2:7000,10.0.0.2:7001",
        "PADDLE_BACKUP_ENV_PATH": "/job/log/backup_env.3.json",
        "PADDLE_DISTRI_BACKEND": "gloo",
        "PADDLE_AUTO_CLUSTER": "0",
    }


def test_the_store_is_the_clusters_where_the_first_node_has_trainers() -> None:
    formed = two_by_two()
    assert contracts.environment(formed, formed.seats(Role.TRAINER)[0], setting())["PADDLE_MASTER"] == formed.store


def test_the_store_stands_with_the_first_trainer_when_servers_have_their_own_nodes() -> None:
    formed = cluster(
        node("s", "10.0.0.1", servers=1, trainers=0), node("t", "10.0.0.2"), node("u", "10.0.0.3"), generation=1
    )
    contract = contracts.environment(formed, formed.seats(Role.TRAINER)[1], setting(mode=Mode.PS))
    assert contract["PADDLE_MASTER"] == "10.0.0.2:7999"
    assert (contract["MASTER_ADDR"], contract["MASTER_PORT"]) == ("10.0.0.2", "7999")
    assert contract["JAX_COORDINATOR_ADDRESS"] == "10.0.0.2:7999"
    assert (contract["GROUP_RANK"], contract["GROUP_WORLD_SIZE"]) == ("1", "2")


@pytest.mark.parametrize(
    ("kind", "backend", "xccl"),
    [
        (None, "gloo", None),
        (DeviceKind.GPU, None, None),
        (DeviceKind.DCU, None, None),
        (DeviceKind.XPU, None, None),
        (DeviceKind.NPU, "xccl", "npu"),
    ],
)
def test_backend_per_device_kind(kind: DeviceKind | None, backend: str | None, xccl: str | None) -> None:
    formed = two_by_two()
    devices = Devices(kind=kind, ids=("0", "1")) if kind else None
    contract = contracts.environment(formed, formed.seats(Role.TRAINER)[0], setting(devices=devices))
    assert contract.get("PADDLE_DISTRI_BACKEND") == backend
    assert contract.get("PADDLE_XCCL_BACKEND") == xccl


@pytest.mark.parametrize(("asked", "backend"), [("flagcx", "flagcx"), ("auto", "gloo"), (None, "gloo")])
def test_a_person_may_choose_the_backend(asked: str | None, backend: str) -> None:
    formed = two_by_two()
    contract = contracts.environment(formed, formed.seats(Role.TRAINER)[0], setting(backend=asked))
    assert contract["PADDLE_DISTRI_BACKEND"] == backend


def test_long_endpoint_lists_are_left_to_the_backup() -> None:
    formed = two_by_two()
    seat = formed.seats(Role.TRAINER)[0]
    length = len(",".join(formed.endpoints(Role.TRAINER)))
    at_limit = setting(endpoints_limit=length)
    below_limit = setting(endpoints_limit=length + 1)
    assert "PADDLE_TRAINER_ENDPOINTS" not in contracts.environment(formed, seat, at_limit)
    assert "UMIAK_TRAINERS" not in contracts.environment(formed, seat, at_limit)
    assert "PADDLE_TRAINER_ENDPOINTS" in contracts.environment(formed, seat, below_limit)
    assert contracts.backup(formed, seat, at_limit) == contracts.environment(formed, seat, below_limit)


PS = cluster(node("a", "10.0.0.1", servers=1, trainers=1), node("b", "10.0.0.2", servers=1, trainers=1))
SERVER_LIST = "10.0.0.1:7000,10.0.0.2:7000"
GLOO = {
    "PADDLE_WITH_GLOO": "1",
    "PADDLE_GLOO_RENDEZVOUS": "3",
    "PADDLE_GLOO_HTTP_ENDPOINT": "10.0.0.1:6767",
    "PADDLE_GLOO_FS_PATH": "/job/log/gloo.1",
}


def test_server_of_a_parameter_server_job() -> None:
    contract = contracts.environment(PS, PS.seats(Role.SERVER)[1], setting(mode=Mode.PS, gloo_port=6767))
    assert paddle_part(contract) == {
        "POD_NAME": "b",
        "POD_IP": "10.0.0.2",
        "PADDLE_PORT": "7000",
        "PADDLE_NNODES": "2",
        "PADDLE_JOB_ID": "ctr",
        "PADDLE_LOG_DIR": "/job/log",
        "PADDLE_BACKUP_ENV_PATH": "/job/log/backup_env.server.1.json",
        "PADDLE_CURRENT_ENDPOINT": "10.0.0.2:7000",
        "TRAINING_ROLE": "PSERVER",
        "PADDLE_ROLE": "PSERVER",
        "PADDLE_PSERVERS_IP_PORT_LIST": SERVER_LIST,
        "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:7001,10.0.0.2:7001",
        "PADDLE_TRAINERS_NUM": "2",
        **GLOO,
    }


def test_trainer_of_a_parameter_server_job() -> None:
    contract = contracts.environment(PS, PS.seats(Role.TRAINER)[1], setting(mode=Mode.PS, gloo_port=6767))
    assert contract["TRAINING_ROLE"] == contract["PADDLE_ROLE"] == "TRAINER"
    assert contract["PADDLE_TRAINER_ID"] == "1"
    assert contract["PADDLE_PSERVERS_IP_PORT_LIST"] == SERVER_LIST
    assert (contract["POD_IP"], contract["PADDLE_PORT"]) == ("10.0.0.2", "7001")
    assert contract.items() >= GLOO.items()
    assert "PADDLE_DISTRI_BACKEND" not in contract


def test_gloo_defaults_to_the_first_servers_host() -> None:
    formed = cluster(node("t", "10.0.0.1"), node("s", "10.0.0.2", servers=1, trainers=0))
    contract = contracts.environment(formed, formed.seats(Role.TRAINER)[0], setting(mode=Mode.PS, with_gloo=0))
    assert contract["PADDLE_GLOO_HTTP_ENDPOINT"] == "10.0.0.2:7999"
    assert contract["PADDLE_WITH_GLOO"] == "0"


def test_ipv6_server_finds_itself_in_the_list() -> None:
    formed = cluster(node("a", "fd00::1", servers=1, trainers=1))
    contract = contracts.environment(formed, formed.seats(Role.SERVER)[0], setting(mode=Mode.PS))
    own = f"{contract['POD_IP']}:{contract['PADDLE_PORT']}"
    assert own in contract["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
    trainer = contracts.environment(formed, formed.seats(Role.TRAINER)[0], setting())
    assert trainer["MASTER_ADDR"] == trainer["POD_IP"] == "fd00::1"
    assert trainer["PADDLE_MASTER"] == trainer["JAX_COORDINATOR_ADDRESS"] == "[fd00::1]:7999"


HETER = cluster(node("a", "10.0.0.1", servers=1, trainers=2, heters=2))
HETER_LIST = "10.0.0.1:7003,10.0.0.1:7004"
STAGE_NAMES = ("STAGE_ID", "STAGE_NUM", "PADDLE_STAGE_TRAINERS_NUM", "HETER_DEVICE_TYPE")


@pytest.mark.parametrize(
    ("role", "stage", "before", "after"),
    [
        (Role.TRAINER, ("1", "2", "[2, 2]", "cpu"), "", HETER_LIST),
        (Role.HETER, ("2", "2", "[2, 2]", "gpu"), "10.0.0.1:7001,10.0.0.1:7002", ""),
        (Role.SERVER, (None, None, None, None), None, None),
    ],
)
def test_heterogeneous_stages(role: Role, stage: tuple[str | None, ...], before: str | None, after: str | None) -> None:
    devices = Devices(kind=DeviceKind.GPU, ids=("0", "1"))
    contract = contracts.environment(HETER, HETER.seats(role)[0], setting(mode=Mode.PS_HETER, devices=devices))
    assert contract["PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST"] == HETER_LIST
    assert contract["PADDLE_HETER_TRAINER_IP_PORT_LIST"] == HETER_LIST
    assert tuple(contract.get(name) for name in STAGE_NAMES) == stage
    assert contract.get("PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST") == before
    assert contract.get("PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST") == after
    assert ("PADDLE_TRAINER_ID" in contract) == (role is Role.TRAINER)
    assert ("FLAGS_selected_gpus" in contract) == (role is Role.HETER)


@pytest.mark.parametrize(("asked", "has_device"), [("cpu", False), ("gpu", True)])
def test_a_person_may_say_what_heter_workers_compute_on(asked: str, has_device: bool) -> None:
    devices = Devices(kind=DeviceKind.GPU, ids=("0", "1"))
    chosen = setting(mode=Mode.PS_HETER, devices=devices, heter_device=asked)
    contract = contracts.environment(HETER, HETER.seats(Role.HETER)[0], chosen)
    assert contract["HETER_DEVICE_TYPE"] == asked
    assert ("FLAGS_selected_gpus" in contract) == has_device
    assert contracts.environment(HETER, HETER.seats(Role.TRAINER)[0], chosen)["HETER_DEVICE_TYPE"] == "cpu"


def test_heter_workers_can_not_be_ascend() -> None:
    devices = Devices(kind=DeviceKind.NPU, ids=("0", "1"))
    with pytest.raises(UmiakError) as caught:
        contracts.environment(HETER, HETER.seats(Role.HETER)[0], setting(mode=Mode.PS_HETER, devices=devices))
    assert caught.value.problems[0].code == "UM-DEVICE-005"


def test_rpc_endpoints() -> None:
    formed = two_by_two()
    contract = contracts.environment(formed, formed.seats(Role.TRAINER)[2], setting(mode=Mode.RPC))
    assert contract["PADDLE_MASTER_ENDPOINT"] == "10.0.0.1:7999"
    assert contract["PADDLE_WORKER_ENDPOINT"] == "10.0.0.2:7000"
    assert (contract["PADDLE_TRAINER_ID"], contract["PADDLE_TRAINERS_NUM"]) == ("2", "4")
    assert "PADDLE_DISTRI_BACKEND" not in contract
