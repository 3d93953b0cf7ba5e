"""A real PaddlePaddle reads the contract back: role makers and ParallelEnv in every mode, then two workers that talk.

Importing Paddle takes seconds, so one process plays all seats: it puts on one environment after the other.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from tests.support.contract_helpers import cluster, node, setting
from umiak import contracts
from umiak.core.cluster import ROLES, Cluster, Mode, Node, Role, Seat

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
]

READ_BACK = """
import json, os, sys
import paddle
from paddle.distributed import ParallelEnv, backup_env, fleet

def read(case):
    os.environ.clear()
    os.environ.update(case["environment"])
    backup_env.g_backup_envs = None
    role = fleet.PaddleCloudRoleMaker(is_collective=case["collective"])
    role._generate_role()
    parallel = ParallelEnv()
    return {
        "is_server": role._is_server(),
        "is_worker": role._is_worker(),
        "is_heter": role._is_heter_worker(),
        "index": role._role_id(),
        "workers": role._worker_num(),
        "worker_endpoints": role._get_trainer_endpoints(),
        "server_endpoints": role._get_pserver_endpoints() if not case["collective"] else None,
        "own_endpoint": role._cur_endpoint,
        "stage": [role._stage_id, role._stage_num, list(role._stage_trainers or [])]
        if case["environment"].get("STAGE_ID") else None,
        "parallel": [parallel.rank, parallel.world_size, parallel.current_endpoint, parallel.trainer_endpoints],
    }

cases = json.load(open(sys.argv[1]))
json.dump({key: read(case) for key, case in cases.items()}, open(sys.argv[2], "w"))
"""

SHAPES = {
    "collective": (Mode.COLLECTIVE, (0, 2, 0), (0, 2, 0)),
    "collective-long": (Mode.COLLECTIVE, (0, 2, 0), (0, 1, 0)),
    "ps": (Mode.PS, (1, 2, 0), (2, 1, 0)),
    "ps-roles-apart": (Mode.PS, (2, 0, 0), (0, 2, 0)),
    "ps-heter": (Mode.PS_HETER, (1, 1, 1), (1, 1, 2)),
    "rpc": (Mode.RPC, (0, 1, 0), (0, 2, 0)),
}


def formation(*shapes: tuple[int, int, int]) -> Cluster:
    return cluster(
        *(
            node(f"n{i}", f"10.0.0.{i + 1}", servers=servers, trainers=trainers, heters=heters)
            for i, (servers, trainers, heters) in enumerate(shapes)
        )
    )


def expected_answer(mode: Mode, formed: Cluster, seat: Seat) -> dict[str, object]:
    """What Paddle should say about one seat."""
    role, trainers = seat.role, list(formed.endpoints(Role.TRAINER))
    has_stages = mode is Mode.PS_HETER and role is not Role.SERVER
    return {
        "is_server": role is Role.SERVER,
        "is_worker": role is Role.TRAINER,
        "is_heter": role is Role.HETER,
        # Paddle numbers heter workers after the trainers.
        "index": seat.rank + (len(trainers) if role is Role.HETER else 0),
        "workers": len(trainers),
        "worker_endpoints": trainers,
        "server_endpoints": list(formed.endpoints(Role.SERVER)) if mode.has_servers else None,
        "own_endpoint": seat.endpoint,
        "stage": [1 if role is Role.TRAINER else 2, 2, [len(trainers), formed.size(Role.HETER)]]
        if has_stages
        else None,
        # Servers have no number here; Paddle takes them for the first trainer.
        "parallel": [seat.rank if role is Role.TRAINER else 0, len(trainers), seat.endpoint, trainers],
    }


def write_backup(contract: dict[str, str], backup: dict[str, str]) -> None:
    Path(contract["PADDLE_BACKUP_ENV_PATH"]).write_text(json.dumps(backup))


def test_paddle_reads_back_what_was_meant(tmp_path: Path) -> None:
    expected: dict[str, dict[str, object]] = {}
    cases: dict[str, dict[str, object]] = {}
    outside = {"PATH": os.environ["PATH"], "PADDLE_TRAINER_ID": "99", "TRAINING_ROLE": "COORDINATOR"}
    for name, (mode, *shapes) in SHAPES.items():
        formed = formation(*shapes)
        log_dir = tmp_path / name
        log_dir.mkdir()
        chosen = setting(mode=mode, log_dir=str(log_dir), endpoints_limit=10 if name.endswith("long") else 48_000)
        for seat in (seat for role in ROLES for seat in formed.seats(role)):
            contract = contracts.environment(formed, seat, chosen)
            write_backup(contract, contracts.backup(formed, seat, chosen))
            key = f"{name} {seat.role.value} {seat.rank}"
            cases[key] = {"environment": contracts.inherit(outside, contract), "collective": not mode.has_servers}
            expected[key] = expected_answer(mode, formed, seat)
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    (tmp_path / "read_back.py").write_text(READ_BACK)
    subprocess.run(
        [sys.executable, str(tmp_path / "read_back.py"), str(tmp_path / "cases.json"), str(tmp_path / "answers.json")],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert json.loads((tmp_path / "answers.json").read_text()) == expected


TALK = """
import os, sys
import paddle, paddle.distributed as dist
dist.init_parallel_env()
total = paddle.to_tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print("sum", total.item(), "of", dist.get_world_size(), dist.get_backend())
"""
# The CPU wheel has no core for RPC. What comes before it, meeting in the store and exchanging addresses, is real here.
CALL = """
from paddle.base import core
from paddle.distributed import rpc
core.WorkerInfo = lambda name, rank, host, port: f"{name}:{rank}"
core.init_and_set_agent_instance = lambda own, infos: print("rpc", own, *infos)
core.rpc_start_worker = core.rpc_start_client = lambda: None
rpc.init_rpc("worker" + __import__("os").environ["PADDLE_TRAINER_ID"])
"""


@pytest.mark.parametrize(
    ("mode", "script", "expected"),
    [
        (Mode.COLLECTIVE, TALK, ("sum 3.0 of 2 GLOO", "sum 3.0 of 2 GLOO")),
        (Mode.RPC, CALL, ("rpc worker0 worker0:0 worker1:1", "rpc worker1 worker0:0 worker1:1")),
    ],
    ids=["collective", "rpc"],
)
def test_two_workers_meet(tmp_path: Path, mode: Mode, script: str, expected: tuple[str, str]) -> None:
    (tmp_path / "train.py").write_text(script)
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = tuple(each.getsockname()[1] for each in held)
    formed = cluster(Node(name="here", host="127.0.0.1", home=0, ports=ports, trainers=2))
    chosen = setting(mode=mode, log_dir=str(tmp_path))
    for each in held:
        each.close()
    workers = []
    for seat in formed.seats(Role.TRAINER):
        contract = contracts.environment(formed, seat, chosen)
        write_backup(contract, contracts.backup(formed, seat, chosen))
        workers.append(
            subprocess.Popen(
                [sys.executable, str(tmp_path / "train.py")],
                env=contracts.inherit(os.environ, contract),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        spoken = [worker.communicate(timeout=PATIENCE_S) for worker in workers]
    finally:
        for worker in workers:
            with worker:
                worker.kill()
    for (said, talk), line in zip(spoken, expected, strict=True):
        assert line in said.splitlines(), talk
