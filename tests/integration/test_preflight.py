"""`umiak launch --check` for real: launchers that meet on loopback, and on hosts whose links are cut."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from testbed.ports import free_port
from testbed.pytest_support import NetworkFactory
from tests.support.launching import LAUNCH, Launcher, Stage, until

SECRET = {"UMIAK_TOKEN": "a secret of all nodes"}


def check(stage: Stage, flags: str, *program: str, text: str | None = "print(1)\n", **more: Any) -> Launcher:
    """A launcher with --check in a directory that holds train.py with this text."""
    directory = stage.directory / f"node{len(stage.launchers)}"
    directory.mkdir()
    if text is not None:
        (directory / "train.py").write_text(text)
    command = [*LAUNCH, "--check", *flags.split(), *program]
    return stage.start(command, cwd=directory, **{"env": SECRET, **more})


def table_of(launcher: Launcher) -> list[str]:
    """What it showed on standard output: nothing but the table."""
    lines = launcher.stdout.splitlines()
    assert lines[0].startswith("node  host ")
    assert lines[-1].startswith("verdict: ")
    return lines


# ---- one machine


def test_one_node(stage: Stage) -> None:
    launcher = check(stage, "--nproc_per_node 3", "train.py")
    assert launcher.wait() == 0
    lines = table_of(launcher)
    assert lines[1].startswith("0     127.0.0.1 ")
    assert "one node, no connections to try" in lines
    assert lines[-1].startswith("verdict: ready")
    assert "the job is done" not in launcher.stderr
    assert launcher.log("workerlog.0") == launcher.stdout


def test_one_node_with_servers_and_without_a_program(stage: Stage) -> None:
    launcher = check(stage, "--server_num 2 --trainer_num 2", text=None)
    assert launcher.wait() == 0
    assert table_of(launcher)[1].endswith(" -")


def test_two_launchers(stage: Stage) -> None:
    flags = f"--nnodes 2 --nproc_per_node 2 --master 127.0.0.1:{free_port()}"
    first, second = check(stage, flags, "train.py"), check(stage, flags, "train.py")
    assert first.wait() == second.wait() == 0
    shown, silent = (first, second) if first.stdout else (second, first)
    # Each of two nodes tries two workers of the other, and one of them the store as well.
    assert "all 5 connections work" in table_of(shown)
    assert silent.stdout == ""
    assert "all 5 connections work; the whole table is on the console of 127.0.0.1" in silent.stderr


def test_json_is_all_that_is_on_standard_output(stage: Stage) -> None:
    flags = f"--json --nnodes 2 --server_num 1 --trainer_num 1 --master 127.0.0.1:{free_port()}"
    first, second = check(stage, flags, "train.py"), check(stage, flags, "train.py")
    assert first.wait() == second.wait() == 0
    found = json.loads(first.stdout or second.stdout)
    assert first.stdout == "" or second.stdout == ""
    assert found["ready"] is True
    assert [node["node"] for node in found["nodes"]] == [0, 1]
    assert found["connections"]["failed"] == 0
    assert found["nodes"][0]["program_sha256"] == found["nodes"][1]["program_sha256"]


def test_launchers_that_may_need_one_another_later_are_tried_as_well(stage: Stage) -> None:
    flags = f"--json --nnodes 2 --max_restart 1 --master 127.0.0.1:{free_port()}"
    first, second = check(stage, flags, "train.py"), check(stage, flags, "train.py")
    assert first.wait() == second.wait() == 0
    # Two workers, the store, and two launchers.
    assert json.loads(first.stdout or second.stdout)["connections"]["tried"] == 5


def test_different_scripts(stage: Stage) -> None:
    flags = f"--nnodes 2 --master 127.0.0.1:{free_port()}"
    first, second = check(stage, flags, "train.py"), check(stage, flags, "train.py", text="print(2)\n")
    assert first.wait() == second.wait() == 3
    shown, silent = (first, second) if first.stdout else (second, first)
    what = "the contents of train.py differ: "
    assert any(line.startswith(f"error: {what}") for line in table_of(shown))
    assert table_of(shown)[-1].startswith("verdict: not ready, 1 problem")
    # One cause on each console, and no word of failed trainers.
    assert [line for line in shown.stderr.splitlines() if line.startswith("error:")] == [
        f"error: the nodes are {table_of(shown)[-1].removeprefix('verdict: ')} [UM-CHECK-001]"
    ]
    errors = [line for line in silent.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert errors[0].startswith(f"error: the nodes are not ready: {what}")
    assert "exit code" not in first.stderr + second.stderr


def test_a_script_that_is_missing_on_one_node(stage: Stage) -> None:
    flags = f"--nnodes 2 --master 127.0.0.1:{free_port()}"
    launchers = [check(stage, flags, "train.py"), check(stage, flags, "train.py", text=None)]
    assert [launcher.wait() for launcher in launchers] == [3, 3]
    assert "there is no train.py on: 127.0.0.1 (node " in "".join(launcher.stdout for launcher in launchers)


def test_nodes_share_a_log_directory(stage: Stage) -> None:
    flags = f"--nnodes 2 --log_dir {stage.directory / 'shared'} --master 127.0.0.1:{free_port()}"
    first, second = check(stage, flags, "train.py"), check(stage, flags, "train.py")
    assert first.wait() == second.wait() == 0
    assert bool(first.stdout) != bool(second.stdout)


def test_a_node_without_check_is_turned_away(stage: Stage) -> None:
    port = free_port()
    first = check(stage, f"--nnodes 2 --master 127.0.0.1:{port}", "train.py")
    until(lambda: _is_listened_to(port), "the first launcher listens")
    second = stage.launch(f"--nnodes 2 --master 127.0.0.1:{port}", env=SECRET)
    assert second.wait() == 3
    assert "default.check" in second.stderr
    first.signal(15)
    assert first.wait() == 143
    assert first.stdout == ""


def _is_listened_to(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def test_a_signal_ends_it(stage: Stage) -> None:
    launcher = check(stage, f"--nnodes 2 --master 127.0.0.1:{free_port()}", "train.py")
    launcher.expect("Configuration")
    launcher.signal(2)
    assert launcher.wait() == 130


# ---- hosts whose links are cut


@pytest.mark.netns
def test_a_cut_pair_is_named_everywhere(stage: Stage, network: NetworkFactory) -> None:
    net = network(3)
    a, b, c = net.hosts
    net.cut(b, c)
    flags = f"--nnodes 3 --nproc_per_node 2 --sort_ip --master {a.address}:8090"
    launchers = [check(stage, flags, "train.py", host=host) for host in net.hosts]
    assert [launcher.wait() for launcher in launchers] == [3, 3, 3]
    ports = [_ports(launcher) for launcher in launchers]
    pairs = [
        f"{b.address} -> {c.address}:{ports[2][0]},{ports[2][1]}: timed out",
        f"{c.address} -> {b.address}:{ports[1][0]},{ports[1][1]}: timed out",
    ]
    lines = table_of(launchers[0])
    # 4 workers of others for each of three nodes, and the store for two.
    at = lines.index("10 of 14 connections work; these do not:")
    assert lines[at + 1 : at + 3] == [f"  {pair}" for pair in pairs]
    assert lines[-1].startswith("verdict: not ready, 2 problems")
    for launcher in launchers[1:]:
        assert launcher.stdout == ""
        assert f"error: the nodes are not ready: {pairs[0]}, and 1 more problem [UM-CHECK-001]" in launcher.stderr
        assert f"hint: the whole table is on the console of {a.address}" in launcher.stderr


@pytest.mark.netns
def test_servers_ports_are_tried_as_well(stage: Stage, network: NetworkFactory) -> None:
    net = network(2)
    a, b = net.hosts
    flags = f"--servers {a.address}:6000 --trainers {b.address}:6001,{b.address}:6002 --json"
    launchers = [check(stage, flags, "train.py", host=host) for host in net.hosts]
    assert [launcher.wait() for launcher in launchers] == [0, 0]
    found = json.loads(launchers[1].stdout)
    # From the server's node two trainers and their store; from the trainers' the server and the store of its barrier.
    assert found["connections"] == {"tried": 5, "failed": 0, "pairs": []}
    assert "the whole table is on the console of " in launchers[0].stderr


@pytest.mark.netns
def test_a_node_that_can_t_reach_the_first_trainer(stage: Stage, network: NetworkFactory) -> None:
    """The launchers meet at the third host, so they do meet, but the first host's store is out of the second's reach."""
    net = network(3)
    a, b, c = net.hosts
    net.cut(a, b)
    flags = f"--nnodes 3 --sort_ip --join_timeout 10 --master {c.address}:8090"
    launchers = [check(stage, flags, "train.py", host=host) for host in net.hosts]
    assert [launcher.wait() for launcher in launchers] == [3, 3, 3]
    store = _contract(launchers[0])["UMIAK_STORE"]
    assert f"error: {b.address} can't reach {store}: timed out [UM-CHECK-002]" in launchers[1].stderr
    assert launchers[1].stdout == ""
    lines = table_of(launchers[0])
    assert f"?     {b.address}  did not report" in lines
    assert f"error: no report from {b.address} within 10 s: trainer 1 [UM-CHECK-101]" in lines
    assert f"  {a.address} -> {b.address}:{_ports(launchers[1])[0]}: timed out" in lines
    # The third node still reaches the second, whose worker must not have gone away.
    assert not any(line.startswith(f"  {c.address} -> ") for line in lines)
    assert "the nodes are not ready" in launchers[2].stderr


@pytest.mark.netns
def test_launchers_that_can_t_meet_say_so_as_always(stage: Stage, network: NetworkFactory) -> None:
    net = network(2)
    a, b = net.hosts
    net.cut(a, b)
    flags = f"--nnodes 2 --join_timeout 2 --master {a.address}:8090"
    launchers = [check(stage, flags, host=host) for host in net.hosts]
    assert [launcher.wait() for launcher in launchers] == [3, 3]
    assert "gave up after --join_timeout 2" in launchers[0].stderr
    assert "error: no master" in launchers[1].stderr
    assert f"{a.address}:8090" in launchers[1].stderr


def _contract(launcher: Launcher, key: str = "trainer.0") -> dict[str, str]:
    pairs = [line.partition("=") for line in launcher.log(f"envlog.{key}").splitlines()]
    return {name: text for name, _, text in pairs}


def _ports(launcher: Launcher) -> list[int]:
    """The ports of this node's trainers."""
    keys = sorted(path.name.removeprefix("envlog.") for path in launcher.log_dir.glob("envlog.trainer.*"))
    return [int(_contract(launcher, key)["UMIAK_ENDPOINT"].rpartition(":")[2]) for key in keys]
