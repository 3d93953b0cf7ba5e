"""Writes what is made from the code: pages of docs/reference, the JSON schemas of configs and jobs, manifests in deploy/. A program.

    python docs/generate.py           write them
    python docs/generate.py --check   write nothing; exit 1 and name every page that would change

A page here can't tell less than the code knows: a variable, a platform or a message without its line fails the build.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from umiak import contracts, platforms
from umiak.adapters.version import version
from umiak.cli.deploy import chart
from umiak.cli.deploy import help as help_deploy
from umiak.cli.doctor import help as help_doctor
from umiak.cli.hosts import help as help_hosts
from umiak.cli.image import help as help_image
from umiak.cli.kubeconfig import help as help_kubeconfig
from umiak.cli.machines import help as help_machines
from umiak.cli.operator import help as help_operator
from umiak.cli.runs import help as help_runs
from umiak.cli.texts import help_ps
from umiak.cli.texts.reference import launch_reference
from umiak.cli.texts.reference_job import job_reference
from umiak.cli.texts.reference_paddlejob import paddlejob_reference
from umiak.cli.texts.reference_train import config_reference, train_reference
from umiak.contracts import devices, jax, native, paddle, stacks, start, torch
from umiak.core.cluster import ROLES, Cluster, Mode, Node, Role
from umiak.core.devices import VISIBILITY, DeviceKind, Devices
from umiak.core.value import fields
from umiak.submit import job_schema
from umiak.testing import environments
from umiak.train.config import json_schema

REFERENCE = Path(__file__).resolve().parent / "reference"
SOURCE = Path(platforms.__file__).resolve().parents[1]
NATIVE = Path(__file__).resolve().parents[1] / "native"


def main(argv: list[str]) -> int:
    """Write the pages, or compare them with what is there."""
    stale = []
    made = {f"docs/reference/{name}": (REFERENCE / name, make) for name, make in PAGES.items()}
    made["src/umiak/train/config.schema.json"] = (SOURCE / "train" / json_schema.FILE, json_schema.text)
    made["src/umiak/submit/job.schema.json"] = (SOURCE / "submit" / job_schema.FILE, job_schema.text)
    for name, content in chart.files(version()).items():
        made[name] = (REFERENCE.parents[1] / name, partial(str, content))
    for name, (path, make) in made.items():
        text = make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if not stale:
        return 0
    if "--check" in argv:
        print(f"error: not what the code says: {', '.join(stale)}\n  hint: run `make docs`", file=sys.stderr)
        return 1
    print(f"written: {', '.join(stale)}")
    return 0


# ---- platforms.md


def platforms_page() -> str:
    """Every rule of `umiak.platforms` in the order of decision."""
    rows = ["| name | what it is | told by one of | reads as well | fills in |", "|---|---|---|---|---|"]
    for rule in platforms.RULES:
        cells = (_code([rule.name]), _purpose(rule.place), _code(rule.markers), _code(rule.variables), _told(rule.name))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([PLATFORMS_HEAD, *rows, ""])


def _purpose(place: str) -> str:
    """The first line of a rule's docstring."""
    module, _, function = place.partition(":")
    found = getattr(importlib.import_module(f"umiak.platforms.{module}"), function)
    return (found.__doc__ or "").strip().splitlines()[0].replace("`", "")


def _told(name: str) -> str:
    """What a node learns there: the filled fields of its placement, tried with the simulated platform."""
    if name not in environments.PLATFORMS:
        return "one node"
    environ = environments.environment(name, nodes=2, rank=1)
    placement = platforms.detect(environ, only=name, read=environments.files(name, nodes=2).get)
    assert placement is not None, f"the simulated {name} is not recognised"
    filled = [field for field in fields(placement) if getattr(placement, field) not in (None, ())]
    words = [field.replace("_", " ") for field in filled if field not in ("platform", "reason")]
    if name in environments.WITH_SERVERS:
        words.append("roles")
    return ", ".join(dict.fromkeys(words))


PLATFORMS_HEAD = """\
<!-- Made by `python docs/generate.py` from umiak.platforms.RULES. Change the rules, not this file. -->

# Platforms

`umiak launch` looks at its environment and goes by the first row whose variables it finds. It says in one line which row that
was and why:

    platform: slurm, node 1 of 2 (SLURM_NODEID=1 of SLURM_STEP_NUM_NODES=2)

`--topology NAME` asks for one row and is an error if its variables are missing; `--topology none` looks at no row. What is
said on the command line wins over what the platform says. How to use it: [run on a platform](../how-to/run-on-a-platform.md).

The order matters: who started this very process comes before who owns the machine, then contracts that were made for
Paddle, then platforms with a mark of their own, then schedulers, and last the bare variables that anybody may set. `<TASK>`,
`<ROLE>` and `<i>` stand for many variables. *Fills in* says what a node of a plain job of two nodes learns there; *roles*
means that a platform can also tell servers from trainers.
"""


# ---- worker-environment.md

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
    # set unless a person has set them
    "PYTHONUNBUFFERED": "1, so that output appears when it is printed.",
    "OMP_NUM_THREADS": "1 where several workers share a host; else each would start a thread per core.",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1: a collective that fails ends its process. For trainers.",
    "UMIAK_TOKEN": "The job's token; on one node without one, a random one of this run. In no file of the log directory.",
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


def environment_page() -> str:
    """Every variable that a worker may be given, found by giving them to the workers of sample jobs."""
    seen = sightings()
    missing, spare = set(seen) - set(DESCRIPTIONS), set(DESCRIPTIONS) - set(seen)
    if missing or spare:
        raise SystemExit(f"docs/generate.py: no description of {sorted(missing)}; no longer set: {sorted(spare)}")
    visible = frozenset(name for names in VISIBILITY.values() for name in names)
    device_names = visible | {name for name in seen if name.startswith("FLAGS_selected_")}
    families = (
        ("umiak's own", OWN_TEXT, native.NAMES),
        ("PaddlePaddle", PADDLE_TEXT, paddle.NAMES),
        ("PyTorch", TORCH_TEXT, torch.NAMES),
        ("JAX", JAX_TEXT, jax.NAMES),
        ("Devices", DEVICE_TEXT, device_names),
        ("With --hang_timeout", HANG_TEXT, stacks.NAMES | {"PYTHONPATH"}),
        ("With parameter servers", SERVERS_TEXT, frozenset([start.TOKEN])),
        ("Unless you have set them", DEFAULT_TEXT, DEFAULTS),
    )
    left = set(seen) - {name for _, _, names in families for name in names}
    if left:
        raise SystemExit(f"docs/generate.py: variables of no family: {sorted(left)}")
    parts = [ENVIRONMENT_HEAD]
    for title, text, names in families:
        rows = ["| variable | who gets it | example | meaning |", "|---|---|---|---|"]
        for name in (name for name in DESCRIPTIONS if name in names):
            example = _code([seen[name][0].text]) if seen[name][0].text else ""
            rows.append(f"| `{name}` | {_who(seen[name])} | {example} | {DESCRIPTIONS[name]} |")
        parts.append("\n".join([f"## {title}", "", text, *rows, ""]))
    return "\n".join([*parts, ENVIRONMENT_TAIL])


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


ENVIRONMENT_HEAD = """\
<!-- Made by `python docs/generate.py` from umiak.contracts. Change the contracts, not this file. -->

# What a worker finds in its environment

A worker inherits the launcher's environment, with the variables of this page laid over it: the same ranks in the words
of umiak, PaddlePaddle, PyTorch and JAX. So one launcher serves all three. `envlog.*` in the
[log directory](files.md) shows what each worker was given.

The examples are those of the last worker of its role in a job `ctr` of two nodes, 10.0.0.1 and 10.0.0.2, with two trainers
each, and in ps mode with one server each.
"""
OWN_TEXT = "The same for every framework and every role.\n"
PADDLE_TEXT = "As `paddle.distributed.launch` 3.3 sets them, and those that its role makers ask for.\n"
TORCH_TEXT = """\
As torchrun sets them. Servers and heter workers get none: a program that finds RANK joins the trainers' process group, and
one too many in it hangs everybody.
"""
JAX_TEXT = """\
`jax.distributed.initialize()` reads the address and the devices by itself; hand it the two numbers as `num_processes` and
`process_id`.
"""
DEVICE_TEXT = """\
Every worker of a node sees the same devices, in the order of `--devices`; a worker that is alone on its node uses all of
them, otherwise worker i uses the i-th. Servers get none. In ps mode trainers get devices only if `--devices` is said. The
examples are of `--devices 2,3`.
"""
HANG_TEXT = "Only where [`--hang_timeout`](../how-to/find-out-why-it-failed.md#a-worker-hangs) is said.\n"
SERVERS_TEXT = "What `umiak.ps` needs so that servers and trainers of a job know one another.\n"
DEFAULT_TEXT = "Defaults that help; a value of yours stays.\n"
ENVIRONMENT_TAIL = """\
## What a worker does not inherit

- Variables of the families above that this worker is not given: an outer launcher's `RANK` must not reach a server.
- Variables that are meant for launchers: `UMIAK_*` (the token among them, except beside parameter servers),
  `PADDLE_ELASTIC_*`, `TORCHELASTIC_*`, `PADDLE_RANK`, `PADDLE_NPROC_PER_NODE` and their like. A launcher inside a worker starts a job of its own.
- Ranks of a process manager (`OMPI_COMM_WORLD_RANK`, `PMI_RANK`, `SLURM_PROCID`, ...) where they contradict this worker's rank.

## Proxies

`http_proxy` and `https_proxy` are hidden from workers, as Paddle's launcher does: workers find them as `http_proxy_original`
and `https_proxy_original`, and one line of the launcher says so. gRPC and brpc, through which workers of Paddle and JAX
talk to one another, would otherwise go through the proxy. `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `no_proxy` stay as they
are, as with Paddle. `--keep_proxy`, or `UMIAK_KEEP_PROXY=1`, leaves all of them alone. So does a command line with
[flags of torchrun](../how-to/move-from-torchrun.md), because torchrun hides nothing.

## In a PaddleJob

In the collective pods of a PaddleJob, workers keep the operator's `TRAINING_ROLE` and `PADDLE_PORT`.
"""


# ---- protocol.md


def protocol_page() -> str:
    """Every message between launchers, from the classes that they are."""
    launchers = _classes(SOURCE / "launch" / "protocol.py")
    check = _classes(SOURCE / "launch" / "preflight" / "messages.py")
    parts = [PROTOCOL_HEAD]
    for title, union in (
        ("## A node says to the master", "FROM_NODE"),
        ("## The master says to a node", "FROM_MASTER"),
    ):
        parts.append(title + "\n")
        parts += [_message(launchers[name]) for name in _tuple(SOURCE / "launch" / "protocol.py", union)]
    said = {name for union in ("FROM_NODE", "FROM_MASTER") for name in _tuple(SOURCE / "launch" / "protocol.py", union)}
    parts.append(PARTS_TEXT)
    parts += [_message(each) for name, each in launchers.items() if name not in said]
    parts.append(CHECK_TEXT)
    parts += [_message(each) for each in check.values()]
    return "\n".join(parts)


def _classes(path: Path) -> dict[str, ast.ClassDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _tuple(path: Path, name: str) -> tuple[str, ...]:
    """The names in a module's tuple of classes."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and ast.unparse(node.targets[0]) == name:
            return tuple(ast.unparse(each) for each in node.value.elts)
    raise SystemExit(f"docs/generate.py: {path.name} has no {name}")


def _message(found: ast.ClassDef) -> str:
    """One class: its docstring, and a table of its fields or the words of its enumeration."""
    lines = [f"### {found.name}", ""]
    text = ast.get_docstring(found)
    if text:
        lines += [_plain(text), ""]
    rows = []
    for node, following in zip(found.body, [*found.body[1:], None], strict=True):
        said = _said(following)
        if isinstance(node, ast.AnnAssign):
            default = "" if node.value is None else f"`{_cell(ast.unparse(node.value))}`"
            kind = _cell(ast.unparse(node.annotation))
            rows.append(f"| `{ast.unparse(node.target)}` | `{kind}` | {default} | {said} |")
        elif isinstance(node, ast.Assign):
            rows.append(f"| `{ast.literal_eval(node.value)}` | | | {said} |")
    if rows:
        lines += ["| field | kind | default | meaning |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _said(node: ast.stmt | None) -> str:
    """The string that stands below a field."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return _cell(_plain(node.value.value))
    return ""


PROTOCOL_HEAD = """\
<!-- Made by `python docs/generate.py` from umiak.launch.protocol. Change the classes, not this file. -->

# What launchers say to one another

Every node's launcher holds one TCP connection, its *link*, to the master's launcher. A frame is four bytes of length,
big-endian, and that many bytes of JSON. Frames of somebody who has not proved anything yet may be 4 KiB long, the message by
which a node joins without a token 64 KiB, later ones of a node 1 MiB and of a master 16 MiB; a longer one ends the connection before
it is read. Nothing is pickled, and every field is checked: its type, and its range (`umiak.launch.message_checks`). Ports are 0 to
65535, ranks and generations are not negative, durations are finite, an exit status is 0 to 255; a host has only letters, digits and
`-._:%`; texts lose their control characters. A node that joins with anything else is refused
([UM-MEET-033](errors.md#um-meet-033)); one that says it later is given up as if it had fallen silent.

A link begins with a handshake:

```text
caller     {"umiak": 2, "job": "ctr", "nonce": "...", "for": "join"}
listener   {"umiak": 2, "challenge": "..."}
caller     {"proof": "..."}
listener   {"proof": "..."}                                                      or {"refused": "why"}
listener   {"welcome": 1718000000.0}         or {"moved": ["10.0.0.2", 20417]}
```

With a token, a proof is the HMAC-SHA256, in hexadecimal, of the JSON list `["umiak", 2, role, job, for, nonce, challenge]`, where
role is `caller` or `listener`; without one it is empty. The token itself never travels, and the listener proves nothing before the
caller has. Each step must follow within ten seconds. `for` is one of

| `for` | meaning |
|---|---|
| `join` | to take part in the job |
| `callback KEY` | the master calls a node that has just joined at the address that it offers; KEY is what the node sent with its Join |
| `are-you NAME` | is the launcher of this name here? |
| `takeover HOST PORT GENERATION LINEAGE HOW` | the caller leads; HOW is `formed`, or before that `ready` if it has a majority, `gathering` while it looks for one |

To the second and third the answer is `welcome` or `{"other": true}`, to the last one `welcome`, or `moved` where the job goes on.
While the listener does not know who leads, it sends `{"b": 0}`. After the handshake there are messages,
`{"m": {"is": "Ready", ...}}`, and heartbeats, `{"b": 7, "heard": 6}`, one a second from each side (more often with a
`--heartbeat_timeout` below five seconds): their number, and the number of the last heartbeat that was received. A launcher that lets
go of a link and lives on says `{"left": 1}` first.

A message that belongs to one formation carries its generation, so that one that comes late is known and dropped. Which
message follows which is shown in [ARCHITECTURE.md](../../ARCHITECTURE.md#the-protocol-between-launchers), and played through in
`tests/scripts/*.txt`.
"""
PARTS_TEXT = "## What messages are made of\n"
CHECK_TEXT = """\
## Messages of a check

The workers of [`umiak launch --check`](../how-to/check-the-cluster.md) speak in frames of the same form, without handshake
and token: nothing that they say is secret, and nothing is believed beyond its use in a table.
"""


# ---- modules.md

KINDS = ("values", "decider", "adapter", "program", "package")
_ADJECTIVES = "(?:small |pure |frozen )*"
_KIND = re.compile(
    rf"[.?:;] (?:(?:A|An) {_ADJECTIVES}(decider|adapter|program|package|value)|(Values|Deciders|Adapters))\b"
)
_KIND_AFTER_A_COLON = re.compile(rf": (?:an? )?{_ADJECTIVES}(value|decider|adapter)s?\b")


class Module(NamedTuple):
    """What a module says of itself."""

    name: str
    kind: str
    text: str


def modules() -> list[Module]:
    """Every module of umiak with its kind. A package whose docstring names no other kind is a package."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        first = _plain(said.split("\n\n")[0])
        kind, text = _kind_and_text(first)
        if kind is None:
            kind = "package" if parts[-1] == "__init__" else None
        if kind is None:
            raise SystemExit(f"docs/generate.py: the docstring of {name} does not say its kind: {', '.join(KINDS)}")
        found.append(Module(name, kind, text))
    return sorted(found)


def _kind_and_text(first: str) -> tuple[str | None, str]:
    """From the first paragraph of a docstring, ``Reads flags. A decider.``, its kind and the rest."""
    match = _KIND.search(first) or _KIND_AFTER_A_COLON.search(first)
    if match is None:
        return None, first.rstrip(".")
    word = next(group for group in match.groups() if group).lower().rstrip("s")
    return "values" if word == "value" else word, first[: match.start()]


def modules_page() -> str:
    """Every module: those of umiak with their kinds, then those of the native core."""
    packages: dict[str, list[Module]] = {}
    for module in modules():
        packages.setdefault(".".join(module.name.split(".")[:2]), []).append(module)
    alone = [packages.pop(name)[0] for name in [name for name, inside in packages.items() if len(inside) == 1]]
    parts = [MODULES_HEAD]
    for title, inside in (("umiak", alone), *packages.items()):
        rows = [f"| `{each.name}` | {each.kind} | {_cell(each.text)} |" for each in inside]
        parts.append("\n".join([f"## {title}", "", "| module | kind | what is in it |", "|---|---|---|", *rows, ""]))
    rows = [f"| `native/{path.relative_to(NATIVE).as_posix()}` | {_cell(text)} |" for path, text in native_files()]
    parts.append("\n".join(["## native", "", NATIVE_TEXT, "| file | what is in it |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def native_files() -> list[tuple[Path, str]]:
    """Every file of the native core with the first sentence of its documentation."""
    found = []
    for path in sorted((NATIVE / "src").rglob("*.rs")):
        lines = re.match(r"(?:^//!.*\n)+", path.read_text(encoding="utf-8"), re.MULTILINE)
        if lines is None:
            raise SystemExit(f"docs/generate.py: native/{path.relative_to(NATIVE)} does not say what it is for")
        text = _plain(re.sub(r"^//! ?", "", lines[0], flags=re.MULTILINE).split("\n\n")[0])
        found.append((path, re.split(r"[.:;] (?=[A-Z])|\.$", text)[0]))
    return found


MODULES_HEAD = """\
<!-- Made by `python docs/generate.py` from the docstrings of the modules. Change those, not this file. -->

# Modules

Every module, its kind, and the first sentence of its docstring. *Values* say what something is; *deciders* are pure: values in,
values out; *adapters* do I/O and decide nothing; *programs* put these together. Which of them a change belongs in:
[ARCHITECTURE.md](../../ARCHITECTURE.md#where-a-line-goes).
"""
NATIVE_TEXT = "The crate behind `umiak_native`: the parameter server, its client, and the slot reader.\n"


# ---- small parts


def _code(words: tuple[str, ...] | list[str]) -> str:
    return " ".join(f"`{_cell(word)}`" for word in words)


def _plain(text: str) -> str:
    """A docstring as Markdown in one paragraph."""
    return " ".join(text.split()).replace("``", "`")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES = {
    "config.md": config_reference,
    "deploy.md": help_deploy.reference,
    "doctor.md": help_doctor.reference,
    "hosts.md": help_hosts.reference,
    "image.md": help_image.reference,
    "job.md": job_reference,
    "kubeconfig.md": help_kubeconfig.reference,
    "operator.md": help_operator.reference,
    "machines.md": help_machines.reference,
    "launch.md": launch_reference,
    "modules.md": modules_page,
    "paddlejob.md": paddlejob_reference,
    "platforms.md": platforms_page,
    "ps-status.md": help_ps.reference,
    "submit.md": help_runs.reference,
    "protocol.md": protocol_page,
    "train.md": train_reference,
    "worker-environment.md": environment_page,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
