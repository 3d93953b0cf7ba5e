"""Simulated platforms: the variables that a node, or a process, of each platform would find. A decider.

    environ = environment("slurm", nodes=4, rank=2)                 # one task to a node
    environ = environment("openmpi", nodes=2, rank=3, per_node=2)   # rank counts processes then
    environ = environment("volcano", nodes=4, rank=1, servers=2)    # ranks 0 and 1 are servers
    detect(environ, read=files("pbs", nodes=4).get)

`PLATFORMS` are all names, `PER_PROCESS` those that start several launchers on a host, `WITH_SERVERS` those that tell
roles apart. `hosts` are the addresses in rank order as the platform tells them; `()` where it does not. The values were
modelled on the platforms' documentation, and for Slurm, Open MPI and MPICH on what real runs print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from umiak.testing import clouds, pods, processes
from umiak.testing.site import ANYWHERE, IN_A_POD, Site, files, hosts

__all__ = ["ANYWHERE", "IN_A_POD", "PER_PROCESS", "PLATFORMS", "WITH_SERVERS", "environment", "files", "hosts"]

BUILDERS: Mapping[str, Callable[[Site], dict[str, str]]] = {
    "umiak": clouds.umiak,
    "torchrun": processes.torchrun,
    "paddle-launch": processes.paddle_launch,
    "azureml": clouds.azureml,
    "openmpi": processes.openmpi,
    "mvapich": processes.mvapich,
    "mpich": processes.mpich,
    "paddlejob": pods.paddlejob,
    "kubeflow-paddlejob": pods.kubeflow_paddlejob,
    "modelarts": clouds.modelarts,
    "modelarts-old": clouds.modelarts_old,
    "aihc": clouds.aihc,
    "mlp": clouds.mlp,
    "sagemaker": clouds.sagemaker,
    "vertex": clouds.vertex,
    "kubeflow-trainer": pods.kubeflow_trainer,
    "jax": processes.jax,
    "dmlc": processes.dmlc,
    "skypilot": clouds.skypilot,
    "dstack": clouds.dstack,
    "tensorflow": pods.tensorflow,
    "volcano": pods.volcano,
    "slurm": processes.slurm,
    "pmi": processes.pmi,
    "lsf": processes.lsf,
    "pbs": processes.pbs,
    "jobset": pods.jobset,
    "indexed-job": pods.indexed_job,
    "torch": processes.torch,
}

PLATFORMS = tuple(BUILDERS)
PER_PROCESS = ("torchrun", "paddle-launch", "azureml", "openmpi", "mvapich", "mpich", "slurm", "pmi", "lsf")
WITH_SERVERS = (
    *("umiak", "paddlejob", "modelarts", "mlp", "sagemaker", "vertex", "tensorflow", "volcano", "slurm", "jobset"),
)


def environment(platform: str, nodes: int, rank: int, *, per_node: int = 1, servers: int = 0) -> dict[str, str]:
    """Everything that is set on one node (or process) of a job with this many nodes."""
    site = Site(nodes=nodes, rank=rank, per_node=per_node, servers=servers)
    return BUILDERS[platform](site)
