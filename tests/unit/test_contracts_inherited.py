"""The environment a worker is started with: what it keeps of the launcher's, and what it must not see."""

from __future__ import annotations

import pytest

from tests.contract_helpers import cluster, node, setting, two_by_two
from umiak import contracts
from umiak.core.cluster import Mode, Role

FORMED = two_by_two()
TRAINER = contracts.environment(FORMED, FORMED.seats(Role.TRAINER)[1], setting())
PS = cluster(node("a", "10.0.0.1", servers=1, trainers=0))
SERVER = contracts.environment(PS, PS.seats(Role.SERVER)[0], setting(mode=Mode.PS))


def test_a_persons_variables_are_kept_and_the_contract_lies_on_top() -> None:
    person = {"HOME": "/home/me", "HF_TOKEN": "hf_x", "http_proxy": "http://proxy:3128", "RANK": "77", "STAGE_ID": "x"}
    worker = contracts.inherit(person, TRAINER)
    assert worker.items() >= TRAINER.items()
    assert worker["RANK"] == "1"
    assert {name: worker[name] for name in person if name != "RANK"} == {
        name: text for name, text in person.items() if name != "RANK"
    }


@pytest.mark.parametrize(
    "name",
    [
        "PADDLE_RANK",
        "PADDLE_ELASTIC_NP",
        "PADDLE_ELASTIC_TIMEOUT",
        "PADDLE_TRAINERS_ENDPOINTS",
        "PADDLE_TRAINING_ROLE",
        "DISTRIBUTED_TRAINER_ENDPOINTS",
        "UMIAK_NNODES",
        "UMIAK_NODE_RANK",
        "UMIAK_NODE_HOST",
        "UMIAK_MASTER",
        "UMIAK_TOKEN",
        "UMIAK_HANG_TIMEOUT",
        "UMIAK_PROGRESS_FILE",
        "UMIAK_STACK_FILE",
        "TORCHELASTIC_ERROR_FILE",
        "FLAGS_selected_gpus",
        "JAX_LOCAL_DEVICE_IDS",
        "PADDLE_PSERVERS_IP_PORT_LIST",
        "TRAINING_ROLE",
    ],
)
def test_what_was_meant_for_a_launcher_does_not_reach_a_trainer(name: str) -> None:
    assert name not in contracts.inherit({name: "1"}, TRAINER)


@pytest.mark.parametrize("name", [*sorted(contracts.torch.NAMES | contracts.jax.NAMES), "PADDLE_TRAINER_ID"])
def test_a_server_does_not_see_an_outer_launchers_ranks(name: str) -> None:
    assert name not in contracts.inherit({name: "1"}, SERVER)


def test_a_persons_choice_of_backend_survives_where_the_contract_makes_none() -> None:
    choice = {"PADDLE_DISTRI_BACKEND": "flagcx"}
    assert contracts.inherit(choice, SERVER)["PADDLE_DISTRI_BACKEND"] == "flagcx"
    assert contracts.inherit(choice, TRAINER)["PADDLE_DISTRI_BACKEND"] == "gloo"


MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "PMIX_RANK": "1"}


def test_process_managers_numbers_stay_where_they_are_true() -> None:
    assert contracts.inherit(MPI, TRAINER).items() >= MPI.items()


@pytest.mark.parametrize("false", [{"OMPI_COMM_WORLD_RANK": "0"}, {"OMPI_COMM_WORLD_SIZE": "2"}])
def test_process_managers_numbers_go_where_they_are_false(false: dict[str, str]) -> None:
    assert not contracts.inherit({**MPI, **false}, TRAINER).keys() & MPI.keys()
    assert not contracts.inherit(MPI, SERVER).keys() & MPI.keys()


def test_of_slurm_only_the_process_number_goes() -> None:
    slurm = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2"}
    worker = contracts.inherit(slurm, TRAINER)
    assert {name for name in worker if name.startswith("SLURM_")} == {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}


def test_output_is_unbuffered_unless_a_person_said_otherwise() -> None:
    assert contracts.inherit({}, TRAINER)["PYTHONUNBUFFERED"] == "1"
    assert contracts.inherit({"PYTHONUNBUFFERED": ""}, TRAINER)["PYTHONUNBUFFERED"] == ""


def test_one_thread_each_only_if_unset_and_not_alone() -> None:
    assert contracts.inherit({}, TRAINER)["OMP_NUM_THREADS"] == "1"
    assert contracts.inherit({"OMP_NUM_THREADS": "8"}, TRAINER)["OMP_NUM_THREADS"] == "8"
    alone = cluster(node("a", "10.0.0.1"), node("b", "10.0.0.2"))
    contract = contracts.environment(alone, alone.seats(Role.TRAINER)[0], setting())
    assert "OMP_NUM_THREADS" not in contracts.inherit({}, contract)
    with_server = cluster(node("a", "10.0.0.1", servers=1))
    contract = contracts.environment(with_server, with_server.seats(Role.TRAINER)[0], setting(mode=Mode.PS))
    assert contracts.inherit({}, contract)["OMP_NUM_THREADS"] == "1"


def test_arguments_are_left_alone() -> None:
    environ, contract = {"RANK": "9", "A": "b"}, dict(TRAINER)
    contracts.inherit(environ, contract)
    assert environ == {"RANK": "9", "A": "b"}
    assert contract == TRAINER
