"""A worker's whole environment: what it inherits from its launcher, with the contract on top. A decider.

What a person exported reaches the worker unchanged, with four exceptions:

    names that a contract owns        an outer launcher's RANK must not reach a server that gets none of its own
    names that launchers take         PADDLE_RANK, UMIAK_*, ...: meant for us, false for anybody inside
    numbers of a process manager      OMPI_COMM_WORLD_RANK, SLURM_PROCID, ...: kept where they say what the contract
                                      says (one launcher per process), dropped where a program would take two workers
                                      for the same process
    http_proxy, https_proxy           hidden as Paddle's launcher hides them (`without_proxies`), unless that is
                                      switched off: gRPC and brpc would send what workers say to one another there
"""

from __future__ import annotations

from umiak.contracts import jax, native, paddle, torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Not dropped although the contract may set them: on accelerators Paddle obeys a person's choice of a backend, with
# collective training PADDLE_WITH_GLOO and its companions are a person's, too, and STAGE_ID is anybody's word.
_PERSONS = frozenset(
    [
        "PADDLE_DISTRI_BACKEND",
        "PADDLE_XCCL_BACKEND",
        "STAGE_ID",
        "STAGE_NUM",
        "PADDLE_WITH_GLOO",
        "PADDLE_GLOO_RENDEZVOUS",
        "PADDLE_GLOO_HTTP_ENDPOINT",
        "PADDLE_GLOO_FS_PATH",
    ]
)
# Kept in a collective pod of a PaddleJob, where the operator sets them and Paddle's launcher hands them on.
_OPERATORS = ("TRAINING_ROLE", "PADDLE_PORT")
_OPERATOR_MARK = "TRAINER_PORTS_NUM"
_OWNED = (paddle.NAMES | torch.NAMES | jax.NAMES) - _PERSONS

_TAKEN = frozenset(
    [
        "PADDLE_RANK",
        "PADDLE_NPROC_PER_NODE",
        "PADDLE_DEVICES",
        "PADDLE_RUN_MODE",
        "PADDLE_IPS",
        "PADDLE_START_PORT",
        "FLAGS_START_PORT",
        "PADDLE_SORT_IP",
        "PADDLE_SERVER_NUM",
        "PADDLE_TRAINER_NUM",
        "PADDLE_SERVERS_ENDPOINTS",
        "PADDLE_TRAINERS_ENDPOINTS",
        "PADDLE_GLOO_PORT",
        "PADDLE_MAX_RESTART",
        "PADDLE_LOG_OVERWRITE",
        "PADDLE_LAUNCH_WITH_ARGS",
        "PADDLE_ENABLE_ELASTIC",
        "PADDLE_TRAINING_ROLE",
        "PADDLE_TRAINERS",
        "PADDLE_HETER_ENDPOINTS",
        "PADDLE_PSERVER_ID",
        "PADDLE_LOCAL_DEVICE_IDS",
        "PADDLE_WORLD_DEVICE_IDS",
        "PADDLE_COORDINATOR_ENDPOINTS",
        "TRAINER_PORTS_NUM",
        "TRAINER_IP_PORT_LIST",
        "DISTRIBUTED_TRAINER_ENDPOINTS",
    ]
)
_HIDDEN_PROXIES = ("http_proxy", "https_proxy")
"""The two names that Paddle 3.x hides, in this spelling only: HTTP_PROXY, ALL_PROXY and no_proxy stay as they are."""

# All of UMIAK_ is ours, the job's token among it: what a worker should know of it is in the contract.
_TAKEN_PREFIXES = ("UMIAK_", "PADDLE_ELASTIC_", "TORCHELASTIC_", "FLAGS_selected_")

_PASSED_ON = native.PASSED_ON
"""Ours, and meant for workers: the person who starts the job says it."""

# Per process manager: its rank, its size, and what goes when they are false. Slurm's sizes stay: they describe the
# allocation, and srun inside a worker reads them. JAX takes Open MPI's uri and version for proof that its other names
# are there.
_MANAGERS = (
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        (
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
            "OMPI_COMM_WORLD_NODE_RANK",
            "OMPI_MCA_orte_hnp_uri",
            "OMPI_VERSION",
            "PMIX_RANK",
        ),
    ),
    ("PMI_RANK", "PMI_SIZE", ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")),
    (
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        (
            "MV2_COMM_WORLD_RANK",
            "MV2_COMM_WORLD_SIZE",
            "MV2_COMM_WORLD_LOCAL_RANK",
            "MV2_COMM_WORLD_LOCAL_SIZE",
        ),
    ),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ("SLURM_PROCID", "SLURM_LOCALID")),
)


def inherit(environ: Mapping[str, str], contract: Mapping[str, str]) -> dict[str, str]:
    """The environment that a worker is started with. ``contract`` comes from `umiak.contracts.environment`."""
    kept = {name: text for name, text in environ.items() if not _is_ours(name)}
    kept |= _of_operator(environ)
    for name in _contradictions(kept, contract):
        kept.pop(name, None)
    kept.update(contract)
    kept.setdefault("PYTHONUNBUFFERED", "1")
    if int(contract.get(native.WORKERS_ON_HOST, "1")) > 1:
        # Each of several workers would otherwise start a thread per core.
        kept.setdefault("OMP_NUM_THREADS", "1")
    if "RANK" in contract:
        # As torchrun: a collective that fails ends its process instead of leaving it waiting.
        kept.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    return kept


def proxies_in(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the proxies that `without_proxies` would hide."""
    return tuple(name for name in _HIDDEN_PROXIES if name in environ)


def without_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with its proxies under ``http_proxy_original``
    and ``https_proxy_original``, as with Paddle 3.x.
    """
    hidden = proxies_in(environ)
    return {f"{name}_original" if name in hidden else name: text for name, text in environ.items()}


def _of_operator(environ: Mapping[str, str]) -> dict[str, str]:
    """What a PaddleJob's operator says to a trainer's pod and nobody inside contradicts.

    In parameter-server mode the contract lies over it. A launcher inside a worker does not see the operator's mark.
    """
    if not environ.get(_OPERATOR_MARK) or environ.get("TRAINING_ROLE") != "TRAINER":
        return {}
    return {name: environ[name] for name in _OPERATORS if name in environ}


def _is_ours(name: str) -> bool:
    if name in _PASSED_ON:
        return False
    return name in _OWNED or name in _TAKEN or name.startswith(_TAKEN_PREFIXES)


def _contradictions(environ: Mapping[str, str], contract: Mapping[str, str]) -> list[str]:
    """The variables of process managers that number this worker otherwise than the contract does."""
    numbers = (contract.get("RANK"), contract.get("WORLD_SIZE"))
    return [
        name
        for rank, size, names in _MANAGERS
        if rank in environ and (environ[rank], environ.get(size)) != numbers
        for name in names
    ]


def alone(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a helper process of a worker, which is to take itself for a job of one process:
    without rank, count and endpoints.
    """
    return {name: said for name, said in environ.items() if name not in _OWNED}
