"""Environment in, `Placement` out: which cluster does this node belong to? A decider,
pure but for two batch systems' files.

    placement = detect(os.environ)                 # the first rule that recognises its platform, or None
    placement = detect(os.environ, only="slurm")   # that rule or an error; "none" switches detection off

`RULES` is the whole table in the order of decision. A rule's module is imported only if one of the rule's markers is
set, so that a launch on a laptop pays for this table alone. To add a platform: one function
`Reader -> Placement | None` in a module of this package, one row below, one simulated environment in
`umiak.testing.environments`.

What the order means: who started *this very process* comes before who owns the machine. mpirun inside a Slurm
allocation starts its daemons with srun, so its processes see a Slurm step with the daemons' ranks, not their own;
torchrun inside a pod overwrites the pod's RANK and WORLD_SIZE. After these come contracts made for Paddle, then
platforms with a mark of their own, then schedulers, and last the bare variables that anybody may have set.

Rules never guess: what the environment does not say stays `None`, and what it says twice must agree, or every
contradiction is raised at once.
"""

from __future__ import annotations

from umiak.core.problem import Problem, UmiakError
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from umiak.core.cluster import Placement
    from umiak.platforms.reading import Reader


@value
class PlatformRule:
    """How one platform is recognised."""

    name: str
    """The word for `--topology` and for `Placement.platform`."""
    place: str
    """The function that reads the environment: ``module:function`` in this package."""
    markers: tuple[str, ...]
    """One of these must be set for the rule to be tried."""
    variables: tuple[str, ...] = ()
    """What it reads besides, for messages and for the documentation; ``<ROLE>`` and ``<i>`` stand for many."""


def _rule(name: str, place: str, markers: str, also: str = "") -> PlatformRule:
    return PlatformRule(name=name, place=place, markers=tuple(markers.split()), variables=tuple(also.split()))


# fmt: off
RULES = (
    # What was spelled out for us, then who started this very process.
    _rule("umiak", "native:explicit",
          "UMIAK_NNODES UMIAK_NODE_RANK UMIAK_MASTER UMIAK_HOSTS UMIAK_HOST UMIAK_NODE_ROLE UMIAK_NPROC_PER_NODE "
          "UMIAK_TOPOLOGY_JOB_ID UMIAK_SERVER_ENDPOINTS UMIAK_TRAINER_ENDPOINTS UMIAK_HETER_ENDPOINTS "
          "UMIAK_NODE_LOCAL_RANK UMIAK_NODE_LOCAL_SIZE"),
    _rule("nested", "native:nested", "UMIAK_RANK", "UMIAK_JOB_ID"),
    _rule("torchrun", "torch:torchrun", "TORCHELASTIC_RUN_ID",
          "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_USE_AGENT_STORE"),
    _rule("paddle-launch", "paddlecloud:launched", "PADDLE_CURRENT_ENDPOINT",
          "PADDLE_TRAINER_ID PADDLE_TRAINERS_NUM PADDLE_TRAINER_ENDPOINTS PADDLE_LOCAL_RANK PADDLE_LOCAL_SIZE "
          "PADDLE_MASTER"),
    _rule("azureml", "torch:azureml", "AZUREML_EXPERIMENT_ID AZUREML_RUN_ID",
          "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_LOCAL_SIZE RANK "
          "WORLD_SIZE LOCAL_RANK NODE_RANK AZ_BATCH_MASTER_NODE AZ_BATCHAI_MPI_MASTER_NODE MASTER_ADDR MASTER_PORT"),
    _rule("openmpi", "mpi:openmpi", "OMPI_COMM_WORLD_SIZE",
          "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_LOCAL_SIZE OMPI_MCA_orte_hnp_uri "
          "PMIX_NAMESPACE"),
    _rule("mvapich", "mpi:mvapich", "MV2_COMM_WORLD_SIZE",
          "MV2_COMM_WORLD_RANK MV2_COMM_WORLD_LOCAL_RANK MV2_COMM_WORLD_LOCAL_SIZE"),
    _rule("mpich", "mpi:mpich", "MPI_LOCALNRANKS", "PMI_RANK PMI_SIZE MPI_LOCALRANKID"),
    # Contracts made for Paddle.
    _rule("paddlejob", "paddlecloud:paddlejob",
          "TRAINER_PORTS_NUM PADDLE_PSERVERS_IP_PORT_LIST PADDLE_TRAINERS PADDLE_ELASTIC_JOB_ID",
          "PADDLE_TRAINERS_NUM PADDLE_TRAINER_ID PADDLE_TRAINER_ENDPOINTS PADDLE_HETER_ENDPOINTS "
          "TRAINING_ROLE PADDLE_TRAINING_ROLE PADDLE_PORT POD_IP TRAINER_GPU_CARD_COUNT PADDLE_ELASTIC_NP "
          "PADDLE_ELASTIC_SERVER"),
    _rule("kubeflow-paddlejob", "kubeflow:paddlejob", "PADDLE_JOB_ID",
          "PADDLE_MASTER PADDLE_NNODES PADDLE_SERVER_NUM PADDLE_TRAINER_NUM POD_IP_DUMMY"),
    # Platforms with a mark of their own.
    _rule("modelarts", "modelarts:place", "MA_NUM_HOSTS MA_TASK_NAME MA_VJ_NAME",
          "VC_TASK_INDEX VC_<TASK>_HOSTS VC_<TASK>_NUM MA_HJ_NAME MA_NAMESPACE MA_CURRENT_IP"),
    _rule("modelarts-old", "modelarts:old", "DLS_TASK_NUMBER",
          "DLS_TASK_INDEX DLS_JOB_ID BATCH_CUSTOM<i>_HOSTS BATCH_CURRENT_HOST"),
    _rule("aihc", "torch:aihc", "AIHC_JOB_NAME", "RANK WORLD_SIZE MASTER_ADDR MASTER_PORT NPROC_PER_NODE"),
    _rule("mlp", "mlp:place", "MLP_ROLE",
          "MLP_ROLE_INDEX MLP_<ROLE>_NUM MLP_<ROLE>_ALL_HOSTS MLP_<ROLE>_<i>_HOST MLP_<ROLE>_<i>_PORT MLP_HOST "
          "MLP_TASK_ID"),
    _rule("sagemaker", "sagemaker:place", "SM_HOSTS", "SM_CURRENT_HOST SM_RESOURCE_CONFIG TRAINING_JOB_NAME"),
    _rule("vertex", "tensorflow:cluster_spec", "CLUSTER_SPEC", "CLOUD_ML_JOB_ID"),
    _rule("kubeflow-trainer", "kubeflow:trainer", "PET_NNODES",
          "PET_NODE_RANK PET_MASTER_ADDR PET_MASTER_PORT PET_RDZV_ENDPOINT PET_RDZV_ID PET_NPROC_PER_NODE"),
    _rule("jax", "kubeflow:jax", "JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_ID JAX_NUM_PROCESSES"),
    _rule("dmlc", "kubeflow:dmlc", "DMLC_TRACKER_URI",
          "DMLC_TASK_ID DMLC_NUM_WORKER DMLC_NUM_SERVER DMLC_ROLE"),
    _rule("skypilot", "cloud:skypilot", "SKYPILOT_NODE_RANK",
          "SKYPILOT_NUM_NODES SKYPILOT_NODE_IPS SKYPILOT_TASK_ID"),
    _rule("dstack", "cloud:dstack", "DSTACK_NODE_RANK",
          "DSTACK_NODES_NUM DSTACK_NODES_IPS DSTACK_MASTER_NODE_IP DSTACK_RUN_NAME"),
    # Frameworks' variables and schedulers.
    _rule("tensorflow", "tensorflow:tf_config", "TF_CONFIG"),
    _rule("volcano", "volcano:place", "VC_TASK_INDEX VK_TASK_INDEX", "VC_<TASK>_HOSTS VC_<TASK>_NUM HOSTNAME"),
    _rule("slurm", "slurm:place", "SLURM_STEP_NODELIST",
          "SLURM_PROCID SLURM_NODEID SLURM_LOCALID SLURM_STEP_NUM_NODES SLURM_STEP_NUM_TASKS "
          "SLURM_STEP_TASKS_PER_NODE SLURM_JOB_ID SLURMD_NODENAME SLURM_HET_SIZE SLURM_JOB_NODELIST_HET_GROUP_<i> "
          "UMIAK_SLURM_GROUPS"),
    _rule("pmi", "mpi:pmi", "PMI_SIZE PMIX_RANK", "PMI_RANK PMI_LOCAL_RANK PMI_LOCAL_SIZE"),
    _rule("lsf", "batch:lsf", "LSB_JOBID",
          "JSM_NAMESPACE_RANK JSM_NAMESPACE_SIZE JSM_NAMESPACE_LOCAL_RANK JSM_NAMESPACE_LOCAL_SIZE "
          "LSB_DJOB_RANKFILE LSB_MCPU_HOSTS HOSTNAME"),
    _rule("pbs", "batch:pbs", "PBS_JOBID", "PBS_NODEFILE PBS_NODENUM HOSTNAME"),
    _rule("jobset", "kubernetes:jobset", "JOBSET_NAME",
          "REPLICATED_JOB_NAME JOB_INDEX JOB_COMPLETION_INDEX UMIAK_JOBSET_LAYOUT REPLICATED_JOB_REPLICAS "
          "GLOBAL_REPLICAS JOBSET_COORDINATOR"),
    _rule("indexed-job", "kubernetes:indexed_job", "JOB_COMPLETION_INDEX", "HOSTNAME"),
    # What anybody may have set: Kubeflow's PyTorchJob, PAI-DLC, Ray Train, a person.
    _rule("torch", "torch:bare", "MASTER_ADDR", "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_PORT NPROC_PER_NODE"),
)
# fmt: on


def read_file(path: str) -> str | None:
    """The text of a file that a batch system names in a variable; ``None`` if it can't be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def detect(
    environ: Mapping[str, str], *, only: str | None = None, read: Callable[[str], str | None] = read_file
) -> Placement | None:
    """What this environment says about the cluster, or ``None`` if it says nothing.

    ``only`` forces one rule by its name, or switches detection off with ``none``. ``read`` gets the path of a file
    that a batch system points to.
    """
    if only is not None:
        return None if only == "none" else _forced(only, environ, read)
    for rule in RULES:
        placement = _apply(rule, environ, read)
        if placement is not None:
            return placement
    return None


def _apply(rule: PlatformRule, environ: Mapping[str, str], read: Callable[[str], str | None]) -> Placement | None:
    if not any(environ.get(marker) for marker in rule.markers):
        return None
    from importlib import import_module

    from umiak.platforms.reading import Reader

    module, _, function = rule.place.partition(":")
    place: Callable[[Reader], Placement | None] = getattr(import_module(f"{__name__}.{module}"), function)
    reader = Reader(environ, read, platform=rule.name)
    placement = place(reader)
    if placement is None:
        reader.raise_problems()
    return placement


def _forced(name: str, environ: Mapping[str, str], read: Callable[[str], str | None]) -> Placement:
    rule = next((rule for rule in RULES if rule.name == name), None)
    if rule is None:
        raise UmiakError(_unknown(name))
    placement = _apply(rule, environ, read)
    if placement is not None:
        return placement
    names = (*rule.markers, *rule.variables)
    forced = [name for name in names if environ.get(name)]
    raise UmiakError.of(
        "UM-PLATFORM-002",
        f"this environment does not look like: {name}",
        where="--topology",
        why=f"it is told by {', '.join(names)}; set here: {', '.join(forced) or 'none of them'}",
        hint="leave `--topology` out to let umiak find the platform, or say `--topology none`",
    )


def _unknown(name: str) -> Problem:
    from umiak.core.nearest import nearest

    known = [rule.name for rule in RULES]
    near = nearest(name, [*known, "none"])
    return Problem(
        code="UM-PLATFORM-001",
        where="--topology",
        what=f"no such platform: {name}",
        hint=f"did you mean `--topology {near}`?" if near else f"known are: {', '.join(known)}, none",
    )
