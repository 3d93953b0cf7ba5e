"""Simulated pods: what operators and schedulers on Kubernetes put into a container. A decider."""

from __future__ import annotations

import json

from umiak.testing.site import IN_A_POD, Site, hosts


def paddlejob(site: Site) -> dict[str, str]:
    """A pod of a PaddleJob in PodIP mode."""
    listed = hosts("paddlejob", site.nodes, servers=site.servers)
    servers, trainers = listed[: site.servers], listed[site.servers :]
    environ = {
        **IN_A_POD,
        "HOSTNAME": f"wide-{'ps' if site.is_server else 'worker'}-{site.index}",
        "POD_IP": listed[site.rank],
        "PADDLE_TRAINER_ID": str(site.index),
        "TRAINING_ROLE": "PSERVER" if site.is_server else "TRAINER",
        "PADDLE_TRAINING_ROLE": "PSERVER" if site.is_server else "TRAINER",
        "TRAINER_PORTS_NUM": "20",
        "PADDLE_PORT": "41234",
        "PADDLE_TRAINER_ENDPOINTS": ",".join(f"{host}:41234" for host in trainers),
        "PADDLE_TRAINERS": ",".join(trainers),
        "PADDLE_TRAINERS_NUM": str(len(trainers)),
    }
    if servers:
        environ["PADDLE_PSERVERS_IP_PORT_LIST"] = ",".join(f"{host}:41234" for host in servers)
    return environ


def kubeflow_paddlejob(site: Site) -> dict[str, str]:
    """A pod of Kubeflow's PaddleJob."""
    first = "wide-master-0" if site.servers else "wide-worker-0"
    environ = {
        **IN_A_POD,
        "PYTHONUNBUFFERED": "1",
        "PADDLE_JOB_ID": "wide",
        "PADDLE_NNODES": str(site.nodes),
        "PADDLE_MASTER": f"{first}:36543",
    }
    if site.rank == 0:
        environ |= {"POD_IP_DUMMY": "10.1.0.4", "PADDLE_MASTER": "10.1.0.4:36543"}
    if site.servers:
        environ["PADDLE_SERVER_NUM" if site.is_server else "PADDLE_TRAINER_NUM"] = "1"
    return environ


def kubeflow_trainer(site: Site) -> dict[str, str]:
    """A torch pod of Kubeflow Trainer v2."""
    return {
        **IN_A_POD,
        "JOB_COMPLETION_INDEX": str(site.rank),
        "PET_NNODES": str(site.nodes),
        "PET_NODE_RANK": str(site.rank),
        "PET_NPROC_PER_NODE": "auto",
        "PET_MASTER_ADDR": "ctr-node-0-0.ctr",
        "PET_MASTER_PORT": "29400",
    }


def tensorflow(site: Site) -> dict[str, str]:
    """A pod of a TFJob with a chief."""
    listed = [f"{host}:2222" for host in hosts("tensorflow", site.nodes, servers=site.servers)]
    servers, trainers = listed[: site.servers], listed[site.servers :]
    cluster = {"chief": trainers[:1], "worker": trainers[1:], "ps": servers}
    kind = "ps" if site.is_server else "worker" if site.index else "chief"
    task = {"type": kind, "index": site.index - (kind == "worker")}
    config = {"cluster": {name: part for name, part in cluster.items() if part}, "task": task, "environment": "cloud"}
    return {**IN_A_POD, "TF_CONFIG": json.dumps(config)}


def volcano_plugins(site: Site, listed: tuple[str, ...]) -> dict[str, str]:
    """What Volcano's env and svc plugins say."""
    environ = {
        "VC_TASK_INDEX": str(site.index),
        "VK_TASK_INDEX": str(site.index),
        "VC_WORKER_NUM": str(site.trainers),
        "VC_WORKER_HOSTS": ",".join(listed[site.servers :]),
    }
    if site.servers:
        environ |= {"VC_PS_NUM": str(site.servers), "VC_PS_HOSTS": ",".join(listed[: site.servers])}
    return environ


def volcano(site: Site) -> dict[str, str]:
    """A pod of a Volcano job with the env and svc plugins."""
    listed = hosts("volcano", site.nodes, servers=site.servers)
    return {
        **IN_A_POD,
        "HOSTNAME": listed[site.rank].partition(".")[0],
        **volcano_plugins(site, listed),
    }


def jobset(site: Site) -> dict[str, str]:
    """A pod of a JobSet whose manifest hands on the labels."""
    group = "ps" if site.is_server else "worker"
    layout = f"ps=1x{site.servers},worker=1x{site.trainers}" if site.servers else f"worker=1x{site.trainers}"
    return {
        **IN_A_POD,
        "HOSTNAME": f"ctr-{group}-0-{site.index}",
        "JOBSET_NAME": "ctr",
        "REPLICATED_JOB_NAME": group,
        "JOB_INDEX": "0",
        "JOB_COMPLETION_INDEX": str(site.index),
        "UMIAK_JOBSET_LAYOUT": layout,
    }


def indexed_job(site: Site) -> dict[str, str]:
    """A pod of an Indexed Job."""
    return {**IN_A_POD, "HOSTNAME": f"ctr-{site.rank}", "JOB_COMPLETION_INDEX": str(site.rank)}
