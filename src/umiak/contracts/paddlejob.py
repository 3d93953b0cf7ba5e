"""What the operator gives to the containers of a PaddleJob, as paddle-operator did.
A decider: places in, variables out.

    of_pod        in the pod itself: its role, its number, its address
    of_job        in the ConfigMap that all pods of a job read: every endpoint of every role
    of_elastic    instead of the ConfigMap, in elastic jobs: who takes part is agreed upon at a master or in etcd
    of_kubeflow   in pods of kubeflow.org's PaddleJob

`platforms.paddlecloud` reads them back. Endpoints with IPv6 addresses have brackets;
PADDLE_TRAINERS holds bare addresses.
"""

from __future__ import annotations

from itertools import pairwise

from umiak.core.cluster import join_host_port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    PodPlace = tuple[str, int]
    """Where a pod can be reached: an address or a name, and the first of its ports."""

PORTS_PER_POD = 20
GLOO_OFFSET = 18
"""The last port but one: launchers meet at the last one, workers count up from the first."""
ELASTIC_TIMEOUT_S = 60
POD_IP = "POD_IP"
PORT = "PADDLE_PORT"
MASTER = "PADDLE_MASTER"
NODES = "PADDLE_NNODES"
NOWHERE = "0.0.0.0"
"""The address of a pod that is gone after its work was done."""
SIZE = "PADDLE_TRAINERS_NUM"
"""Where pods are told no ranks, it stands alone: launchers set it again,
and Paddle refuses a script without one instead of training alone.
"""
ATTEMPT = "PADDLEJOB_ATTEMPT"
"""How often this pod was started again, which a script may want to know. It is read from a key of the ConfigMap that
only the one of this very attempt has, so that no container starts with the endpoints of another attempt, or with
somebody else's ConfigMap.
"""
OWN_ADDRESS = "POD_IP_DUMMY"
"""The first pod's, where pods meet at it; called as Kubeflow does. POD_IP may be a name."""

ROLE_WORDS = {"ps": "PSERVER", "worker": "TRAINER", "heter": "HETER"}
"""By the words of the manifest."""


def of_pod(role: str, index: int) -> dict[str, str]:
    """A pod's own part. POD_IP and, where pods have different ones, PADDLE_PORT stand beside it."""
    return {
        "PADDLE_TRAINER_ID": str(index),
        "TRAINING_ROLE": ROLE_WORDS[role],
        "PADDLE_TRAINING_ROLE": ROLE_WORDS[role],
    }


def of_job(
    servers: Sequence[PodPlace] | None,
    workers: Sequence[PodPlace] | None,
    heters: Sequence[PodPlace] | None,
    *,
    port: int,
    with_gloo: int = 0,
) -> dict[str, str]:
    """The ConfigMap. None: the job has no such role."""
    variables = {"TRAINER_PORTS_NUM": str(PORTS_PER_POD), PORT: str(port), **_for_launcher(servers, workers, heters)}
    if servers is not None:
        variables["PADDLE_PSERVERS_IP_PORT_LIST"] = _listed(servers)
    if workers is not None:
        variables["PADDLE_TRAINER_ENDPOINTS"] = _listed(workers)
        variables["PADDLE_TRAINERS"] = ",".join([host for host, _ in workers])
        variables[SIZE] = str(len(workers))
    if heters is not None:
        variables["PADDLE_HETER_ENDPOINTS"] = _listed(heters)
    if servers and with_gloo > 0:
        host, first = servers[0]
        variables["PADDLE_WITH_GLOO"] = str(with_gloo)
        variables["PADDLE_GLOO_RENDEZVOUS"] = "3"
        variables["PADDLE_GLOO_HTTP_ENDPOINT"] = join_host_port(host, first + GLOO_OFFSET)
    return variables


def _for_launcher(
    servers: Sequence[PodPlace] | None, workers: Sequence[PodPlace] | None, heters: Sequence[PodPlace] | None
) -> dict[str, str]:
    """What Paddle's own launcher, 2.3 and newer, reads in jobs with servers. In a collective job
    PADDLE_TRAINER_ENDPOINTS is enough for it; with servers that would make servers and trainers meet as if all were
    trainers, and the first of them would train without the others.

    It starts a pod's servers and trainers by the lists where it finds the pod's address, and else nothing, with an
    error. It takes an address for its own that merely begins like it (10.0.0.1 and 10.0.0.12), or that two pods have,
    as on the network of one node: then it gets names, for the error instead of wrong ranks.
    """
    if servers is None and heters is None:
        return {}
    hosts = sorted([host for host, _ in (*(servers or ()), *(workers or ()), *(heters or ())) if host != NOWHERE])
    unclear = any(after.startswith(before) for before, after in pairwise(hosts))
    shown = {"PADDLE_SERVERS_ENDPOINTS": servers or (), "PADDLE_TRAINERS_ENDPOINTS": workers or ()}
    return {
        name: _listed([(f"pod-{host}", port) for host, port in places] if unclear else places)
        for name, places in shown.items()
    }


def attempt_key(uid: str, attempt: int) -> str:
    """The key of a ConfigMap by which pods of an attempt know that it is theirs."""
    return f"{ATTEMPT}_{uid.replace('-', '')[:8]}_{attempt}"


def of_elastic(namespace: str, job: str, count: str, *, now: int, etcd: str = "") -> dict[str, str]:
    """What all elastic pods have. ``count`` is a number of workers or a range of them:
    ``2`` or ``1:4``; ``now``: how many there are.

    Paddle's launcher of today reads PADDLE_NNODES, PADDLE_JOB_ID and PADDLE_MASTER, and without them each pod would
    train alone. It changes the number of nodes with etcd only; at a master it waits for as many as it is told.
    """
    variables = {
        "PADDLE_ELASTIC_JOB_ID": f"{namespace}-{job}",
        "PADDLE_ELASTIC_NP": count,
        "PADDLE_ELASTIC_TIMEOUT": str(ELASTIC_TIMEOUT_S),
        "PADDLE_JOB_ID": f"{namespace}-{job}",
        NODES: count if etcd else str(now),
        SIZE: str(now),
    }
    if etcd:
        variables["PADDLE_ELASTIC_SERVER"] = etcd
        variables[MASTER] = f"etcd://{etcd.removeprefix('etcd://')}"
    return variables


def elastic_master(first: str, port: int, *, is_first: bool, is_six: bool = False) -> str:
    """Where elastic pods meet without etcd: at the first worker.
    Paddle's launcher opens a master only at its own address, so the first worker is told that instead of its name.
    """
    return f"{_own(is_six=is_six) if is_first else first}:{port}"


def of_kubeflow(
    job: str,
    count: int,
    first: str,
    *,
    port: int,
    is_first: bool,
    is_server: bool | None,
    is_six: bool = False,
) -> dict[str, str]:
    """A pod's of kubeflow.org's PaddleJob. The first pod is its own master, so that it needs no name of its own.

    ``is_server``: None in a job without servers. Paddle's launcher takes a number of trainers for parameter-server
    mode. ``is_six``: pods of this cluster have addresses of IPv6, which stand in brackets before a port.
    """
    master = _own(is_six=is_six) if is_first else first
    variables = {
        "PYTHONUNBUFFERED": "1",
        "PADDLE_JOB_ID": job,
        NODES: str(count),
        MASTER: f"{master}:{port}",
    }
    if is_server is None:
        variables[SIZE] = str(count)
    if is_server is not None:
        variables["PADDLE_SERVER_NUM" if is_server else "PADDLE_TRAINER_NUM"] = "1"
    return variables


def _own(*, is_six: bool) -> str:
    return f"[$({OWN_ADDRESS})]" if is_six else f"$({OWN_ADDRESS})"


def _listed(places: Sequence[PodPlace]) -> str:
    return ",".join([join_host_port(host, port) for host, port in places])
