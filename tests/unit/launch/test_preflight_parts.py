"""The parts of a check that need no network: errands and results, a worker's seat, a node's facts, what is compared."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support import formation
from umiak import contracts
from umiak.core.cluster import Mode, Role
from umiak.core.problem import Problem
from umiak.core.value import replace
from umiak.launch.options import LaunchOptions, Tee
from umiak.launch.preflight import check, facts, prober
from umiak.launch.preflight.task import (
    CheckResult,
    CheckTask,
    bring,
    open_results,
    read_result,
    read_task,
    task_argument,
)
from umiak.launch.preflight.worker import read_worker

# ---- errands and results


def test_an_errand_survives_the_command_line() -> None:
    task = CheckTask(result_fd=7, first="server.0", patience_s=20.0, program="a b.py", log_dir="/x", as_json=True)
    assert read_task(task_argument(task)) == task


def test_the_last_final_result_counts() -> None:
    fd = open_results()
    assert read_result(fd) is None
    early = CheckResult(final=False, problem=Problem(code="UM-CHECK-002", what="not yet"))
    bring(fd, early)
    assert read_result(fd) == early
    final = CheckResult(final=True, shown="table\n" * 100_000)
    bring(fd, final)
    bring(fd, early)
    assert read_result(fd) == final
    # A worker that was killed in the middle of a line does no harm.
    os.write(fd, b'{"final": tr')
    assert read_result(fd) == final
    os.close(fd)


def test_workers_inherit_the_results() -> None:
    fd = open_results()
    pid = os.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", f"import os; os.write({fd}, b'heard')"])
    os.waitpid(pid, 0)
    assert os.pread(fd, 100, 0) == b"heard"
    os.close(fd)


# ---- a worker's seat


def environment(
    role: Role, rank: int, *, mode: Mode = Mode.PS, limit: int = 48_000, log_dir: str = "/log"
) -> dict[str, str]:
    servers = 1 if mode is Mode.PS else 0
    cluster = formation("ab", trainers=2, servers=servers)
    seat = cluster.seats(role)[rank]
    setting = contracts.WorkerSetting(mode=mode, log_dir=log_dir, endpoints_limit=limit)
    backup = contracts.backup(cluster, seat, setting)
    contract = contracts.environment(cluster, seat, setting)
    if log_dir != "/log":
        Path(contract["PADDLE_BACKUP_ENV_PATH"]).write_text(json.dumps(backup))
    return contracts.inherit({"PADDLE_GLOO_HTTP_ENDPOINT": "1.2.3.4:5"}, contract)


def test_the_first_trainer_collects() -> None:
    worker = read_worker(environment(Role.TRAINER, 0))
    assert (worker.seat.key, worker.collects, worker.seat.host, worker.seat.node_rank) == (
        "trainer.0",
        True,
        "10.0.0.1",
        0,
    )
    assert worker.seat.endpoint == "10.0.0.1:20001"
    assert worker.store == "10.0.0.1:20003"
    assert worker.endpoints[Role.SERVER] == ("10.0.0.1:20000", "10.0.0.2:20100")
    assert len(worker.endpoints[Role.TRAINER]) == 4
    assert len(worker.all_doors) == 7
    assert not read_worker(environment(Role.TRAINER, 1)).collects
    assert not read_worker(environment(Role.SERVER, 0)).collects


def test_a_person_s_own_gloo_is_not_listened_for_in_a_collective_job() -> None:
    worker = read_worker(environment(Role.TRAINER, 2, mode=Mode.COLLECTIVE))
    assert (worker.gloo, worker.seat.key, worker.seat.node) == ("", "trainer.0", "b")
    assert "1.2.3.4:5" not in worker.all_doors


def test_the_first_server_opens_the_door_of_the_barrier() -> None:
    environ = environment(Role.SERVER, 0) | {"PADDLE_GLOO_HTTP_ENDPOINT": "10.0.0.1:6767"}
    assert read_worker(environ).doors == ("10.0.0.1:20000", "10.0.0.1:6767")
    other = environment(Role.SERVER, 1) | {"PADDLE_GLOO_HTTP_ENDPOINT": "10.0.0.1:6767"}
    assert read_worker(other).doors == ("10.0.0.2:20100",)
    assert "10.0.0.1:6767" in read_worker(other).all_doors


def test_long_lists_are_found_in_the_backup(tmp_path: Path) -> None:
    environ = environment(Role.TRAINER, 3, limit=10, log_dir=str(tmp_path))
    assert "UMIAK_TRAINERS" not in environ
    assert len(read_worker(environ).endpoints[Role.TRAINER]) == 4


# ---- facts


def task(**more: object) -> CheckTask:
    return replace(CheckTask(result_fd=1, first="trainer.0", patience_s=20.0), **more)


def test_facts_of_this_machine(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    before = set(sys.modules)  # other tests of this process may have imported a framework
    found = facts.gather(
        task(program=str(script), log_dir=str(tmp_path), device_kind="gpu", device_count=2, token=True)
    )
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert found.hostname
    assert len(found.program_hash) == 64
    assert found.log_writable
    assert found.log_free_bytes > 0
    assert found.open_files > 0
    assert (found.device_kind, found.device_count, found.token) == ("gpu", 2, True)
    assert not {"paddle", "torch", "jax"} & (set(sys.modules) - before)


def test_a_directory_that_is_not_there_can_t_be_written(tmp_path: Path) -> None:
    found = facts.gather(task(log_dir=str(tmp_path / "none")))
    assert (found.log_writable, found.log_free_bytes, found.program_hash) == (False, 0, "")


def test_scripts_are_told_apart_by_their_contents(tmp_path: Path) -> None:
    for name, text in (("a.py", "1"), ("b.py", "1"), ("c.py", "2")):
        (tmp_path / name).write_text(text)
    prints = [facts.fingerprint(str(tmp_path / name), is_module=False) for name in ("a.py", "b.py", "c.py", "none.py")]
    assert prints[0] == prints[1] != prints[2]
    assert prints[3] == ""


def test_a_module_is_found_without_importing_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "bomb"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "__main__.py").write_text("1\n")
    (package / "train.py").write_text("2\n")
    (tmp_path / "single.py").write_text("2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    prints = {name: facts.fingerprint(name, is_module=True) for name in ("bomb", "bomb.train", "single")}
    assert prints["bomb.train"] == prints["single"] != prints["bomb"] != ""
    assert facts.fingerprint("bomb.none", is_module=True) == ""
    assert facts.fingerprint("single.none", is_module=True) == ""
    assert facts.fingerprint("none.none", is_module=True) == ""


# ---- what is different from a launch


@pytest.mark.parametrize(
    ("program", "is_module", "compared"),
    [
        (("train.py", "other.py"), False, "train.py"),
        (("package.train",), True, "package.train"),
        (("python3", "-u", "train.py"), False, "train.py"),
        (("/bin/bash", "run.sh", "x.py"), False, "run.sh"),
        (("./trainer", "x.py"), False, ""),
        (("python3", "-m", "package"), False, ""),
        (("bash",), False, ""),
        ((), False, ""),
        ((), True, ""),
    ],
)
def test_what_must_be_the_same_on_all_nodes(program: tuple[str, ...], is_module: bool, compared: str) -> None:
    assert check.program_to_compare(LaunchOptions(program=program, is_module=is_module)) == compared


def test_a_check_never_restarts_and_shows_no_worker() -> None:
    wanted = LaunchOptions(
        program=(), check=True, max_restart=5, restart_wanted=True, elastic_level=1, hang_timeout_s=1.0, tee=Tee.ALL
    )
    changed = check.Check(wanted).options
    assert (changed.max_restart, changed.restart_wanted, changed.elastic_level) == (0, False, -1)
    assert (changed.hang_timeout_s, changed.tee) == (None, Tee.NONE)


@pytest.mark.parametrize(("count", "seconds"), [(0, 0.0), (1, 4.0), (128, 4.0), (129, 8.0)])
def test_how_long_trials_take(count: int, seconds: float) -> None:
    assert prober.connecting_s(count) == seconds
    assert prober.longest_s(count) == seconds * 3.5
