"""What PyTorch and JAX programs are told, and umiak's own names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.contract_helpers import cluster, node, setting, two_by_two
from umiak import contracts
from umiak.core.cluster import Mode, Role
from umiak.core.devices import DeviceKind, Devices

SOURCE = Path(contracts.__file__).parents[2]


def test_torch_variables_of_the_last_of_two_by_two() -> None:
    formed = two_by_two()
    contract = contracts.environment(formed, formed.seats(Role.TRAINER)[3], setting(max_restarts=5, restart_count=2))
    assert {name: text for name, text in contract.items() if name in contracts.torch.NAMES} == {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "ROLE_NAME": "default",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "4",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "7999",
        "TORCHELASTIC_RUN_ID": "ctr",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "5",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": f"{setting().log_dir}/error.trainer.1.{formed.generation}-2.json",
        "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
    }


def test_a_role_and_signals_as_torchrun_was_told() -> None:
    formed = two_by_two()
    told = setting(role_name="reader", signals="SIGTERM")
    contract = contracts.environment(formed, formed.seats(Role.TRAINER)[0], told)
    assert (contract["ROLE_NAME"], contract["TORCHELASTIC_SIGNALS_TO_HANDLE"]) == ("reader", "SIGTERM")


def test_launchers_of_one_machine_are_one_group() -> None:
    """mpirun -n 4 over two machines: four launchers with a worker each."""
    formed = cluster(
        *(
            node(f"n{host}{local}", f"10.0.0.{host}", first_local_rank=local, local_size=2)
            for host in (1, 2)
            for local in (0, 1)
        )
    )
    contract = contracts.environment(formed, formed.seats(Role.TRAINER)[3], setting())
    assert contract["RANK"] == "3"
    assert (contract["LOCAL_RANK"], contract["LOCAL_WORLD_SIZE"]) == ("1", "2")
    assert (contract["GROUP_RANK"], contract["GROUP_WORLD_SIZE"]) == ("1", "2")
    assert contract["PADDLE_NNODES"] == "2"
    assert contract["UMIAK_WORKERS_ON_HOST"] == "2"


def test_two_nodes_on_one_address_stay_two_groups() -> None:
    formed = cluster(node("a", "127.0.0.1"), node("b", "127.0.0.1"))
    contract = contracts.environment(formed, formed.seats(Role.TRAINER)[1], setting())
    assert (contract["LOCAL_RANK"], contract["GROUP_RANK"], contract["GROUP_WORLD_SIZE"]) == ("0", "1", "2")


@pytest.mark.parametrize("role", [Role.SERVER, Role.HETER])
def test_only_trainers_get_torch_and_jax_names(role: Role) -> None:
    formed = cluster(node("a", "10.0.0.1", servers=1, trainers=1, heters=1))
    names = contracts.environment(formed, formed.seats(role)[0], setting(mode=Mode.PS_HETER)).keys()
    assert not names & (contracts.torch.NAMES | contracts.jax.NAMES | {"PADDLE_TRAINER_ID", "PADDLE_MASTER"})
    trainer = contracts.environment(formed, formed.seats(Role.TRAINER)[0], setting(mode=Mode.PS_HETER)).keys()
    assert trainer >= contracts.torch.NAMES


@pytest.mark.parametrize(("kind", "ids"), [(DeviceKind.GPU, "1"), (DeviceKind.DCU, "1"), (DeviceKind.XPU, None)])
def test_jax_variables(kind: DeviceKind, ids: str | None) -> None:
    formed = two_by_two()
    devices = Devices(kind=kind, ids=("4", "5"))
    contract = contracts.environment(formed, formed.seats(Role.TRAINER)[3], setting(devices=devices))
    assert contract["JAX_COORDINATOR_ADDRESS"] == "10.0.0.1:7999"
    assert (contract["JAX_PROCESS_ID"], contract["JAX_NUM_PROCESSES"]) == ("3", "4")
    assert contract.get("JAX_LOCAL_DEVICE_IDS") == ids


def test_own_names_of_a_server() -> None:
    formed = cluster(
        node("a", "10.0.0.1", servers=1, trainers=2), node("b", "10.0.0.2", servers=2, trainers=0), generation=4
    )
    contract = contracts.environment(formed, formed.seats(Role.SERVER)[2], setting(mode=Mode.PS, restart_count=1))
    assert {name: text for name, text in contract.items() if name.startswith("UMIAK_")} == {
        "UMIAK_JOB_ID": "ctr",
        "UMIAK_GENERATION": "4",
        "UMIAK_RESTART_COUNT": "1",
        "UMIAK_ROLE": "server",
        "UMIAK_RANK": "2",
        "UMIAK_WORLD_SIZE": "3",
        "UMIAK_LOCAL_RANK": "1",
        "UMIAK_LOCAL_SIZE": "2",
        "UMIAK_NODE": "b",
        "UMIAK_WORKER_NODE_RANK": "1",
        "UMIAK_WORKERS_ON_HOST": "2",
        "UMIAK_ENDPOINT": "10.0.0.2:7001",
        "UMIAK_STORE": "10.0.0.1:7999",
        "UMIAK_SERVERS": "10.0.0.1:7000,10.0.0.2:7000,10.0.0.2:7001",
        "UMIAK_TRAINERS": "10.0.0.1:7001,10.0.0.1:7002",
    }


def test_importing_contracts_is_cheap() -> None:
    """Every `umiak launch` imports these; the modules below would cost more than everything else."""
    heavy = ["argparse", "dataclasses", "glob", "inspect", "json", "pathlib", "re", "subprocess", "typing"]
    code = (
        "import sys, umiak.contracts, umiak.contracts.stacks, umiak.adapters.devices\n"
        f"print(*sorted(set({heavy}) & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == []
