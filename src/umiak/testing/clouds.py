"""Simulated clouds and tools that rent machines, and umiak's own contract. A decider."""

from __future__ import annotations

import json

from umiak.testing.pods import volcano_plugins
from umiak.testing.processes import openmpi_numbers, torch_numbers
from umiak.testing.site import ANYWHERE, IN_A_POD, Site, hosts


def umiak(site: Site) -> dict[str, str]:
    """umiak's own contract."""
    listed = hosts("umiak", site.nodes, servers=site.servers)
    environ = {
        **ANYWHERE,
        "UMIAK_NNODES": str(site.nodes),
        "UMIAK_NODE_RANK": str(site.rank),
        "UMIAK_HOSTS": ",".join(listed),
        "UMIAK_MASTER": f"{listed[0]}:6768",
        "UMIAK_HOST": listed[site.rank],
        "UMIAK_TOPOLOGY_JOB_ID": "ctr",
    }
    if site.servers:
        environ["UMIAK_NODE_ROLE"] = "server" if site.is_server else "trainer"
        environ["UMIAK_SERVER_ENDPOINTS"] = ",".join(f"{host}:8000" for host in listed[: site.servers])
        environ["UMIAK_TRAINER_ENDPOINTS"] = ",".join(f"{host}:8001" for host in listed[site.servers :])
    return environ


def modelarts(site: Site) -> dict[str, str]:
    """A container of a ModelArts training job."""
    listed = hosts("modelarts", site.nodes, servers=site.servers)
    return {
        **IN_A_POD,
        "MA_NUM_HOSTS": str(site.nodes),
        "MA_NUM_GPUS": "8",
        "MA_TASK_NAME": "ps" if site.is_server else "worker",
        "MA_CURRENT_IP": f"172.16.0.{site.rank + 10}",
        "MA_JOB_DIR": "/home/ma-user/modelarts/user-job-dir",
        **volcano_plugins(site, listed),
    }


def modelarts_old(site: Site) -> dict[str, str]:
    """A container of ModelArts' older training module."""
    listed = hosts("modelarts-old", site.nodes)
    names = {f"BATCH_CUSTOM{number}_HOSTS": f"{host}:6666" for number, host in enumerate(listed)}
    return {
        **ANYWHERE,
        **(names if site.nodes > 1 else {"BATCH_job0001.0_HOSTS": "job0001-0.job0001:6666"}),
        "DLS_JOB_ID": "job0001",
        "DLS_TASK_INDEX": str(site.rank),
        "DLS_TASK_NUMBER": str(site.nodes),
        "DLS_APP_URL": "s3://bucket/code/",
        "BATCH_CURRENT_HOST": listed[site.rank] if listed else "job0001-0.job0001",
        "BATCH_CURRENT_PORT": "6666",
    }


def aihc(site: Site) -> dict[str, str]:
    """A container of a Baidu AIHC job."""
    return {
        **IN_A_POD,
        **torch_numbers(site, "ctr-master-0"),
        "AIHC_JOB_NAME": "ctr",
        "AIHC_TENSORBOARD_LOG_PATH": "/logs",
        "NPROC_PER_NODE": "8",
    }


def mlp(site: Site) -> dict[str, str]:
    """A container of a task on Volcano Engine's platform."""
    listed = hosts("mlp", site.nodes, servers=site.servers)
    environ = {
        **IN_A_POD,
        "MLP_TASK_ID": "t-20210924211641-nznsh",
        "MLP_ROLE": "PS" if site.is_server else "WORKER",
        "MLP_ROLE_INDEX": str(site.index),
        "MLP_HOST": listed[site.rank],
        "MLP_PRIMARY_HOST": listed[site.rank],
    }
    for role, members in (("PS", listed[: site.servers]), ("WORKER", listed[site.servers :])):
        environ |= {f"MLP_{role}_NUM": str(len(members)), f"MLP_{role}_ALL_HOSTS": ",".join(members)} if members else {}
        for number, host in enumerate(members):
            environ |= {f"MLP_{role}_{number}_HOST": host, f"MLP_{role}_{number}_PORT": "2222"}
    return environ


def azureml(site: Site) -> dict[str, str]:
    """A process of an Azure ML job over MPI."""
    return {
        **ANYWHERE,
        "AZUREML_EXPERIMENT_ID": "0a1b",
        "AZUREML_RUN_ID": "keen_boat_1",
        "AZ_BATCH_MASTER_NODE": "10.0.0.4:6000",
        "AZ_BATCHAI_MPI_MASTER_NODE": "10.0.0.4",
        **openmpi_numbers(site),
    }


def sagemaker(site: Site) -> dict[str, str]:
    """A container of a SageMaker job; with servers, of one with two instance groups."""
    listed = hosts("sagemaker", site.nodes)
    named = [("ps", listed[: site.servers]), ("worker", listed[site.servers :])] if site.servers else [("all", listed)]
    groups = [{"instance_group_name": name, "instance_type": "ml.c5.xlarge", "hosts": part} for name, part in named]
    current = listed[site.rank]
    return {
        **ANYWHERE,
        "TRAINING_JOB_NAME": "ctr-2026-01-01",
        "SM_HOSTS": json.dumps(listed),
        "SM_CURRENT_HOST": current,
        "SM_NUM_GPUS": "0",
        "SM_RESOURCE_CONFIG": json.dumps({"current_host": current, "hosts": listed, "instance_groups": groups}),
    }


def vertex(site: Site) -> dict[str, str]:
    """A replica of a Vertex AI custom job."""
    listed = [f"{host}:2222" for host in hosts("vertex", site.nodes, servers=site.servers)]
    servers, trainers = listed[: site.servers], listed[site.servers :]
    pools = {"workerpool0": trainers[:1], "workerpool1": trainers[1:], "workerpool2": servers}
    pool = 2 if site.is_server else min(site.index, 1)
    task = {"type": f"workerpool{pool}", "index": site.index - (pool == 1)}
    spec = {"cluster": {name: part for name, part in pools.items() if part}, "environment": "cloud", "task": task}
    return {**ANYWHERE, "CLUSTER_SPEC": json.dumps(spec), "CLOUD_ML_JOB_ID": "8675309"}


def skypilot(site: Site) -> dict[str, str]:
    """A node of a SkyPilot task."""
    return {
        **ANYWHERE,
        "SKYPILOT_NODE_RANK": str(site.rank),
        "SKYPILOT_NUM_NODES": str(site.nodes),
        "SKYPILOT_NODE_IPS": "\n".join(hosts("skypilot", site.nodes)),
        "SKYPILOT_NUM_GPUS_PER_NODE": "8",
        "SKYPILOT_TASK_ID": "sky-2026-01-01-00-00-00-000000_ctr_1",
    }


def dstack(site: Site) -> dict[str, str]:
    """A node of a dstack task."""
    return {
        **ANYWHERE,
        "DSTACK_NODE_RANK": str(site.rank),
        "DSTACK_NODES_NUM": str(site.nodes),
        "DSTACK_NODES_IPS": "\n".join(hosts("dstack", site.nodes)),
        "DSTACK_MASTER_NODE_IP": "10.0.0.1",
        "DSTACK_GPUS_PER_NODE": "8",
        "DSTACK_RUN_NAME": "keen-boat-1",
    }
