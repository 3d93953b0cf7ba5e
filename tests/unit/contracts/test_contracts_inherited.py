"""The environment a worker is started with: what it keeps of the launcher's, and what it must not see."""

from __future__ import annotations

import pytest

from tests.support.contract_helpers import cluster, node, setting, two_by_two
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
        "TORCHELASTIC_TIMER_FILE",
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


# ---- proxies


def test_proxies_are_hidden_as_paddle_hides_them() -> None:
    kept = {"HTTP_PROXY": "http://c", "HTTPS_PROXY": "http://d", "no_proxy": "e", "ALL_PROXY": "f", "HOME": "/home/me"}
    environ = {"http_proxy": "http://a", "https_proxy": "http://b", **kept}
    assert contracts.proxies_in(environ) == ("http_proxy", "https_proxy")
    assert contracts.without_proxies(environ) == {
        "http_proxy_original": "http://a",
        "https_proxy_original": "http://b",
        **kept,
    }
    assert contracts.proxies_in(kept) == ()


def test_an_empty_proxy_is_hidden_too() -> None:
    assert contracts.without_proxies({"http_proxy": ""}) == {"http_proxy_original": ""}


# ---- a PaddleJob's pods

POD = {"TRAINER_PORTS_NUM": "20", "TRAINING_ROLE": "TRAINER", "PADDLE_PORT": "41234", "PADDLE_TRAINER_ID": "0"}


def test_what_an_operator_says_to_a_collective_pod_is_handed_on() -> None:
    worker = contracts.inherit(POD, TRAINER)
    assert (worker["TRAINING_ROLE"], worker["PADDLE_PORT"]) == ("TRAINER", "41234")
    assert "TRAINER_PORTS_NUM" not in worker
    assert worker["PADDLE_TRAINER_ID"] == "1"


def test_a_launcher_inside_such_a_worker_does_not_hand_it_on() -> None:
    inner = contracts.inherit(contracts.inherit(POD, TRAINER), TRAINER)
    assert not {"TRAINING_ROLE", "PADDLE_PORT"} & inner.keys()


def test_with_parameter_servers_the_contract_says_it() -> None:
    worker = contracts.inherit(POD, SERVER)
    assert (worker["TRAINING_ROLE"], worker["PADDLE_PORT"]) == (SERVER["TRAINING_ROLE"], SERVER["PADDLE_PORT"])
    assert worker["TRAINING_ROLE"] == "PSERVER"


# ---- NCCL


def test_errors_of_nccl_end_a_trainer_unless_a_person_says_otherwise() -> None:
    assert contracts.inherit({}, TRAINER)["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "1"
    assert (
        contracts.inherit({"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}, TRAINER)["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "0"
    )
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" not in contracts.inherit({}, SERVER)


def test_where_servers_tell_their_metrics_is_passed_on() -> None:
    environ = {"UMIAK_PS_METRICS": "9100", "UMIAK_PS_DURABILITY_MS": "20", "UMIAK_OTHER": "x"}
    worker = contracts.inherit(environ, SERVER)
    assert worker["UMIAK_PS_METRICS"] == "9100"
    assert worker["UMIAK_PS_DURABILITY_MS"] == "20"
    assert "UMIAK_OTHER" not in worker
