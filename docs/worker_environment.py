"""The tables of docs/reference/worker-environment.md: every variable that a worker may be given. A program, part of `generate`."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from umiak import contracts
from umiak.contracts import devices, injected, jax, native, paddle, stacks, start, torch
from umiak.core.cluster import ROLES, Cluster, Mode, Node, Role
from umiak.core.devices import VISIBILITY, DeviceKind, Devices

DESCRIPTIONS = {
    # umiak's own
    "UMIAK_JOB_ID": "The job's name, `--job_id`.",
    "UMIAK_GENERATION": "The number of this formation of the job, from 1.",
    "UMIAK_RESTART_COUNT": "Number of restarts after failures.",
    "UMIAK_ROLE": "`trainer`, `server` or `heter`.",
    "UMIAK_RANK": "This worker's number among all workers of its role.",
    "UMIAK_WORLD_SIZE": "How many workers of its role there are.",
    "UMIAK_LOCAL_RANK": "Its number among those on the same host.",
    "UMIAK_LOCAL_SIZE": "How many of its role are on the same host.",
    "UMIAK_NODE": "The name that its node's launcher has in this run: six letters.",
    "UMIAK_WORKER_NODE_RANK": "The rank of its node.",
    "UMIAK_WORKERS_ON_HOST": "Workers of all roles on the same host.",
    "UMIAK_ENDPOINT": "The address and port that are held for this worker.",
    "UMIAK_STORE": "The address and port where the first trainer may open a store.",
    "UMIAK_SERVERS": "The endpoints of all servers in rank order; not set if there are none.",
    "UMIAK_TRAINERS": "The endpoints of all trainers in rank order.",
    "UMIAK_HETERS": "The endpoints of all heter workers in rank order; not set if there are none.",
    # Paddle
    "POD_NAME": "As UMIAK_NODE.",
    "POD_IP": "The address of this worker's node.",
    "PADDLE_NNODES": "How many machines take part.",
    "PADDLE_JOB_ID": "As UMIAK_JOB_ID.",
    "PADDLE_LOG_DIR": "The log directory, as an absolute path.",
    "PADDLE_TRAINERS_NUM": "How many trainers there are.",
    "PADDLE_TRAINER_ENDPOINTS": "The endpoints of all trainers in rank order.",
    "PADDLE_BACKUP_ENV_PATH": "A JSON file with this worker's variables; Paddle reads lists from it that are too long to be set.",
    "PADDLE_CURRENT_ENDPOINT": "As UMIAK_ENDPOINT.",
    "PADDLE_MASTER": "As UMIAK_STORE.",
    "PADDLE_GLOBAL_SIZE": "How many trainers there are.",
    "PADDLE_GLOBAL_RANK": "This trainer's rank.",
    "PADDLE_TRAINER_ID": "This trainer's rank. A server never has it: Paddle takes it for the mark of a trainer.",
    "PADDLE_LOCAL_SIZE": "How many trainers are on the same host.",
    "PADDLE_LOCAL_RANK": "This trainer's number on its host.",
    "PADDLE_RANK_IN_NODE": "As PADDLE_LOCAL_RANK.",
    "PADDLE_AUTO_CLUSTER": "Always 0.",
    "PADDLE_DISTRI_BACKEND": "`gloo` on the CPU, `xccl` on Ascend, or what `--backend` says; not set on GPUs and Kunlun.",
    "PADDLE_XCCL_BACKEND": "On Ascend: `npu`.",
    "TRAINING_ROLE": "`PSERVER`, `TRAINER` or `HETER_TRAINER`.",
    "PADDLE_ROLE": "As TRAINING_ROLE.",
    "PADDLE_PORT": "The port of this worker's endpoint.",
    "PADDLE_PSERVERS_IP_PORT_LIST": "The endpoints of all servers in rank order.",
    "PADDLE_WITH_GLOO": "`--with_gloo`.",
    "PADDLE_GLOO_RENDEZVOUS": "Always 3: over HTTP.",
    "PADDLE_GLOO_HTTP_ENDPOINT": "Where the first server opens the store of Paddle's barrier.",
    "PADDLE_GLOO_FS_PATH": "A path below the log directory that nothing else uses.",
    "STAGE_ID": "1 for trainers, 2 for heter workers.",
    "STAGE_NUM": "Always 2.",
    "PADDLE_STAGE_TRAINERS_NUM": "How many workers each stage has.",
    "HETER_DEVICE_TYPE": "What this worker computes on: `cpu`, `gpu` or `xpu`.",
    "PADDLE_HETER_TRAINER_IP_PORT_LIST": "The endpoints of all heter workers.",
    "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST": "The same.",
    "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST": "The endpoints of the next stage; empty in the last one.",
    "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST": "The endpoints of the stage before; empty in the first one.",
    "PADDLE_MASTER_ENDPOINT": "As UMIAK_STORE, for `paddle.distributed.rpc`.",
    "PADDLE_WORKER_ENDPOINT": "As UMIAK_ENDPOINT, for `paddle.distributed.rpc`.",
    # PyTorch
    "RANK": "This trainer's rank.",
    "WORLD_SIZE": "How many trainers there are.",
    "LOCAL_RANK": "This trainer's number on its host.",
    "LOCAL_WORLD_SIZE": "How many trainers are on its host.",
    "GROUP_RANK": "Its host's number among those that have trainers.",
    "GROUP_WORLD_SIZE": "How many hosts have trainers.",
    "NODE_RANK": "As GROUP_RANK.",
    "ROLE_NAME": "`default`, or what torchrun's `--role` says.",
    "ROLE_RANK": "As RANK.",
    "ROLE_WORLD_SIZE": "As WORLD_SIZE.",
    "MASTER_ADDR": "The address of UMIAK_STORE.",
    "MASTER_PORT": "The port of UMIAK_STORE.",
    "TORCHELASTIC_RUN_ID": "As UMIAK_JOB_ID.",
    "TORCHELASTIC_RESTART_COUNT": "As UMIAK_RESTART_COUNT.",
    "TORCHELASTIC_MAX_RESTARTS": "`--max_restart`.",
    "TORCHELASTIC_ERROR_FILE": "Where a script with torch's `@record` writes the exception that ends it. A file for each start.",
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "The signals that end the job when its launcher gets them.",
    "TORCHELASTIC_USE_AGENT_STORE": "Always False: the first trainer opens the store, the launcher opens none.",
    # JAX
    "JAX_COORDINATOR_ADDRESS": "As UMIAK_STORE.",
    "JAX_NUM_PROCESSES": "How many trainers there are.",
    "JAX_PROCESS_ID": "This trainer's rank.",
    "JAX_LOCAL_DEVICE_IDS": "On GPUs: this trainer's devices, as positions in the visible list.",
    # devices
    "FLAGS_selected_gpus": "On NVIDIA and ROCm: this worker's devices, as positions in the visible list.",
    "FLAGS_selected_npus": "The same on Ascend.",
    "FLAGS_selected_xpus": "The same on Kunlun.",
    "CUDA_VISIBLE_DEVICES": "The job's devices on this node, if some were chosen or the variable was set before.",
    "HIP_VISIBLE_DEVICES": "The same on ROCm.",
    "ASCEND_RT_VISIBLE_DEVICES": "The same on Ascend.",
    "NPU_VISIBLE_DEVICES": "The same on Ascend.",
    "XPULINK_VISIBLE_DEVICES": "The same on Kunlun.",
    "XPU_VISIBLE_DEVICES": "The same on Kunlun.",
    # hangs
    "UMIAK_PROGRESS_FILE": "What `umiak.progress()` touches.",
    "UMIAK_STACK_FILE": "Where a Python worker writes its stacks.",
    "UMIAK_STACK_SIGNAL": "The number of the signal at which it does so.",
    "PYTHONPATH": "With umiak's `sitecustomize` in front; what was there stays behind it.",
    "UMIAK_FLEET": "1: that `sitecustomize` gives the worker's calls of `paddle.distributed.fleet` to umiak once paddle is imported.",
    "UMIAK_FLUID": "1: that `sitecustomize` lets `import paddle.fluid` find umiak's, where Paddle has none. Unless `--no_compat`.",
    "UMIAK_FLEET_FROM": "The directories of the launcher's own umiak, for a worker whose Python has none.",
    # set unless a person has set them
    "PYTHONUNBUFFERED": "1, so that output appears when it is printed.",
    "OMP_NUM_THREADS": "1 where several workers share a host; else each would start a thread per core.",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1: a collective that fails ends its process. For trainers.",
    "UMIAK_TOKEN": "The job's token; on one node without one, a random one of this run. In no file of the log directory. "
    "Workers of jobs without parameter servers are not given it: they have nothing to prove to anybody, and it gives access to the launchers.",
    "GLOO_SOCKET_IFNAME": "The interface that has the node's address; left alone, gloo looks the host's own name up.",
}

DEFAULTS = frozenset(["GLOO_SOCKET_IFNAME", "PYTHONUNBUFFERED", "OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING"])

JOB_ID, LOG_DIR = "ctr", "/jobs/ctr/log"


PLURAL = {Role.TRAINER: "trainers", Role.SERVER: "servers", Role.HETER: "heter workers"}


class Sighting(NamedTuple):
    """One worker that was given a variable."""

    mode: Mode
    role: Role
    text: str


def variables(family: str) -> str:
    """The variables of a family that a worker may be given, found by giving them to the workers of sample jobs."""
    seen = sightings()
    rows = ["| variable | who gets it | example | meaning |", "|---|---|---|---|"]
    for name in (name for name in DESCRIPTIONS if name in families(frozenset(seen))[family]):
        example = _code([seen[name][0].text]) if seen[name][0].text else ""
        rows.append(f"| `{name}` | {_who(seen[name])} | {example} | {DESCRIPTIONS[name]} |")
    return "\n".join(rows)


def families(seen: frozenset[str]) -> dict[str, frozenset[str]]:
    """All variables, each in a family. A program's end, with their names, where descriptions and variables do not fit."""
    missing, spare = seen - set(DESCRIPTIONS), set(DESCRIPTIONS) - seen
    if missing or spare:
        raise SystemExit(f"docs/generate.py: no description of {sorted(missing)}; no longer set: {sorted(spare)}")
    visible = frozenset(name for names in VISIBILITY.values() for name in names)
    chosen = {
        "native": native.NAMES,
        "paddle": paddle.NAMES,
        "torch": torch.NAMES,
        "jax": jax.NAMES,
        "devices": visible | {name for name in seen if name.startswith("FLAGS_selected_")},
        "hangs": stacks.NAMES,
        "servers": injected.NAMES | {start.TOKEN},
        "python_path": frozenset([injected.PYTHON_PATH]),
        "defaults": DEFAULTS,
    }
    left = seen - {name for names in chosen.values() for name in names}
    if left:
        raise SystemExit(f"docs/generate.py: variables of no family: {sorted(left)}")
    return chosen


@cache
def sightings() -> dict[str, list[Sighting]]:
    """Who is given which variable, over sample jobs of every mode, role and kind of device."""
    found: dict[str, list[Sighting]] = {}
    for mode in Mode:
        for kind in (None, *DeviceKind):
            for role in _roles(mode):
                for name, text in _sample(mode, kind, role).items():
                    found.setdefault(name, []).append(Sighting(mode, role, text))
    return found


def _roles(mode: Mode) -> tuple[Role, ...]:
    if mode is Mode.PS_HETER:
        return (Role.TRAINER, Role.SERVER, Role.HETER)
    return (Role.TRAINER, Role.SERVER) if mode.has_servers else (Role.TRAINER,)


def _sample(mode: Mode, kind: DeviceKind | None, role: Role) -> dict[str, str]:
    """Everything that the last worker of a role is given in a job of two nodes."""
    cluster = _cluster(mode)
    seat = cluster.seats(role)[-1]
    device_ids = ("0", "1", "2", "3")
    # Paddle's heter mode does not know Ascend.
    heter_cpu = "cpu" if mode is Mode.PS_HETER and kind is DeviceKind.NPU else None
    setting = contracts.WorkerSetting(
        mode=mode,
        log_dir=LOG_DIR,
        max_restarts=3,
        devices=devices.choose(Devices(kind=kind, ids=device_ids), ("2", "3")) if kind else None,
        heter_device=heter_cpu,
    )
    contract = contracts.environment(cluster, seat, setting)
    watched = stacks.stack_environment(
        {},
        directory="/.../umiak/launch/inject",
        signal_number=41,
        stack_file=f"{LOG_DIR}/stacks.{seat.key}",
        progress_file=f"{LOG_DIR}/progress.{seat.key}",
    )
    whole = contracts.inherit({}, contract) | watched
    places = ["/.../site-packages"]
    directory = "/.../umiak/launch/inject"
    whole |= injected.fleet_environment(whole, directory=directory, umiak_in=places, has_servers=mode.has_servers)
    return start.with_start(whole, interface="eth0", token="..." if mode.has_servers else None)


def _cluster(mode: Mode) -> Cluster:
    servers, heters = int(mode.has_servers), int(mode is Mode.PS_HETER)
    nodes = []
    for number, name in enumerate(("gistdo", "kaweny")):
        first = 23000 + 100 * number
        ports = tuple(range(first, first + servers + 2 + heters + 1))
        host = f"10.0.0.{number + 1}"
        nodes.append(Node(name=name, host=host, home=number, ports=ports, trainers=2, servers=servers, heters=heters))
    return Cluster(job_id=JOB_ID, generation=1, nodes=tuple(nodes), coordinator="gistdo")


def _who(seen: list[Sighting]) -> str:
    """``trainers``, or ``trainers in ps, ps-heter; servers``."""
    phrases: dict[str, list[str]] = {}
    everywhere = {role: {mode for mode in Mode if role in _roles(mode)} for role in ROLES}
    for role, plural in PLURAL.items():
        modes = {each.mode for each in seen if each.role is role}
        where = "" if modes == everywhere[role] else " in " + ", ".join(m.value for m in Mode if m in modes)
        if modes:
            phrases.setdefault(where, []).append(plural)
    if list(phrases) == [""] and len(phrases[""]) == len(ROLES):
        return "everybody"
    return "; ".join(f"{', '.join(roles)}{where}" for where, roles in phrases.items())


def _code(words: list[str]) -> str:
    return " ".join("`" + word.replace("|", "\\|") + "`" for word in words)
