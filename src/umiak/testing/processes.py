"""Simulated starters of processes and batch systems: torchrun, mpirun, srun and their like. A decider."""

from __future__ import annotations

from umiak.testing.site import ANYWHERE, IN_A_POD, Site, files, hosts


def torchrun(site: Site) -> dict[str, str]:
    """A process that torchrun started."""
    return {
        **ANYWHERE,
        **torch_numbers(site),
        "LOCAL_RANK": str(site.local),
        "LOCAL_WORLD_SIZE": str(site.per_node),
        "GROUP_RANK": str(site.node),
        "GROUP_WORLD_SIZE": str(site.nodes),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(site.rank),
        "ROLE_WORLD_SIZE": str(site.processes),
        "OMP_NUM_THREADS": "1",
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


def torch(site: Site) -> dict[str, str]:
    """A pod of a PyTorchJob, or a container of PAI-DLC."""
    return {**IN_A_POD, **torch_numbers(site, "ctr-master-0"), "NPROC_PER_NODE": "8", "PYTHONUNBUFFERED": "1"}


def torch_numbers(site: Site, master: str = "10.0.0.1") -> dict[str, str]:
    """torch's four variables."""
    return {
        "MASTER_ADDR": master,
        "MASTER_PORT": "23456",
        "RANK": str(site.rank),
        "WORLD_SIZE": str(site.processes),
    }


def paddle_launch(site: Site) -> dict[str, str]:
    """A process that Paddle's launcher started."""
    endpoints = [f"10.0.0.{node + 1}:{44000 + local}" for node in range(site.nodes) for local in range(site.per_node)]
    return {
        **ANYWHERE,
        "PADDLE_MASTER": "10.0.0.1:60755",
        "PADDLE_NNODES": str(site.nodes),
        "PADDLE_GLOBAL_SIZE": str(site.processes),
        "PADDLE_TRAINERS_NUM": str(site.processes),
        "PADDLE_GLOBAL_RANK": str(site.rank),
        "PADDLE_TRAINER_ID": str(site.rank),
        "PADDLE_LOCAL_RANK": str(site.local),
        "PADDLE_RANK_IN_NODE": str(site.local),
        "PADDLE_LOCAL_SIZE": str(site.per_node),
        "PADDLE_CURRENT_ENDPOINT": endpoints[site.rank],
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "POD_NAME": "yzlqgv",
    }


def openmpi(site: Site) -> dict[str, str]:
    """A process that mpirun of Open MPI 4 started."""
    return {
        **ANYWHERE,
        **openmpi_numbers(site),
        "OMPI_MCA_orte_hnp_uri": "1949302784.0;tcp://10.0.0.1,172.17.0.1:37131;tcp6://[fd00::2]:51623",
        "OMPI_MCA_orte_num_nodes": str(site.nodes),
        "PMIX_NAMESPACE": "1949302785",
        "PMIX_RANK": str(site.rank),
    }


def openmpi_numbers(site: Site) -> dict[str, str]:
    """Open MPI's ranks and counts."""
    return {
        "OMPI_COMM_WORLD_RANK": str(site.rank),
        "OMPI_COMM_WORLD_SIZE": str(site.processes),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(site.local),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(site.per_node),
        "OMPI_COMM_WORLD_NODE_RANK": str(site.local),
        "OMPI_UNIVERSE_SIZE": str(site.nodes * 8),  # slots of the host file
    }


def mvapich(site: Site) -> dict[str, str]:
    """A process of MVAPICH2."""
    return {
        **ANYWHERE,
        "MV2_COMM_WORLD_RANK": str(site.rank),
        "MV2_COMM_WORLD_SIZE": str(site.processes),
        "MV2_COMM_WORLD_LOCAL_RANK": str(site.local),
        "MV2_COMM_WORLD_LOCAL_SIZE": str(site.per_node),
    }


def mpich(site: Site) -> dict[str, str]:
    """A process that Hydra started."""
    return {
        **ANYWHERE,
        "PMI_RANK": str(site.rank),
        "PMI_SIZE": str(site.processes),
        "PMI_FD": "9",
        "MPIR_CVAR_CH3_INTERFACE_HOSTNAME": f"node{site.node}",
        "MPI_LOCALRANKID": str(site.local),
        "MPI_LOCALNRANKS": str(site.per_node),
    }


def pmi(site: Site) -> dict[str, str]:
    """A process of a starter that speaks PMI."""
    return {
        **ANYWHERE,
        "PMI_RANK": str(site.rank),
        "PMI_SIZE": str(site.processes),
        "PMI_LOCAL_RANK": str(site.local),
        "PMI_LOCAL_SIZE": str(site.per_node),
    }


def slurm(site: Site) -> dict[str, str]:
    """A task of a step inside a larger allocation; with servers, of a heterogeneous job of two components."""
    listed = hosts("slurm", site.nodes, servers=site.servers)
    per_node = f"{site.per_node}(x{site.nodes})" if site.nodes > 1 else str(site.per_node)
    environ = {
        **ANYWHERE,
        "SLURM_JOB_ID": "4242",
        "SLURM_JOB_NODELIST": "gpu-[001-999]",
        "SLURM_JOB_NUM_NODES": "999",
        "SLURM_NODELIST": "gpu-[001-999]",
        "SLURM_NNODES": str(site.nodes),
        "SLURM_NTASKS": str(site.processes),
        "SLURM_NPROCS": str(site.processes),
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": _nodelist(1, site.nodes),
        "SLURM_STEP_NUM_NODES": str(site.nodes),
        "SLURM_STEP_NUM_TASKS": str(site.processes),
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        "SLURM_PROCID": str(site.rank),
        "SLURM_NODEID": str(site.node),
        "SLURM_LOCALID": str(site.local),
        "SLURMD_NODENAME": listed[site.node],
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1",
    }
    if site.servers:
        environ |= {
            "SLURM_HET_SIZE": "2",
            "SLURM_JOB_NODELIST_HET_GROUP_0": _nodelist(site.trainers + 1, site.nodes),
            "SLURM_JOB_NODELIST_HET_GROUP_1": _nodelist(1, site.trainers),
            "UMIAK_SLURM_GROUPS": "ps,worker",
        }
    return environ


def _nodelist(first: int, last: int) -> str:
    return f"gpu-[{first:03d}-{last:03d}]" if first < last else f"gpu-{first:03d}"


def lsf(site: Site) -> dict[str, str]:
    """A process of a jsrun step."""
    listed = hosts("lsf", site.nodes)
    return {
        **ANYWHERE,
        "LSB_JOBID": "1234",
        "LSB_DJOB_RANKFILE": next(iter(files("lsf", site.nodes))),
        "LSB_MCPU_HOSTS": "launch01 1 " + " ".join(f"{host} 42" for host in listed),
        "JSM_NAMESPACE_RANK": str(site.rank),
        "JSM_NAMESPACE_SIZE": str(site.processes),
        "JSM_NAMESPACE_LOCAL_RANK": str(site.local),
        "JSM_NAMESPACE_LOCAL_SIZE": str(site.per_node),
    }


def pbs(site: Site) -> dict[str, str]:
    """A node of a PBS job."""
    return {
        **ANYWHERE,
        "PBS_JOBID": "1234.head",
        "PBS_NODEFILE": next(iter(files("pbs", site.nodes))),
        "PBS_NODENUM": str(site.rank),
        "PBS_TASKNUM": "1",
        "PBS_ENVIRONMENT": "PBS_BATCH",
    }


def jax(site: Site) -> dict[str, str]:
    """A JAX pod of Kubeflow Trainer v2."""
    return {
        **IN_A_POD,
        "JOB_COMPLETION_INDEX": str(site.rank),
        "JAX_COORDINATOR_ADDRESS": "ctr-node-0-0.ctr:6666",
        "JAX_PROCESS_ID": str(site.rank),
        "JAX_NUM_PROCESSES": str(site.nodes),
    }


def dmlc(site: Site) -> dict[str, str]:
    """An XGBoost pod of Kubeflow Trainer v2."""
    return {
        **IN_A_POD,
        "DMLC_TRACKER_URI": "ctr-node-0-0.ctr",
        "DMLC_TRACKER_PORT": "29500",
        "DMLC_TASK_ID": str(site.rank),
        "DMLC_NUM_WORKER": str(site.nodes),
    }
