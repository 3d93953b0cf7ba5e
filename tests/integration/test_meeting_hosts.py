"""How nodes meet on real hosts: by address, by name, over IPv6, by the printed command, by lists; and who is turned away.

The hosts are like Debian's: their own name is 127.0.1.1, which no peer may ever be told.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.ports import free_port
from testbed.pytest_support import NetworkFactory
from tests.support.launching import LAUNCH, OBEDIENT, WORKERS, Launcher, Life, Stage, until

pytestmark = pytest.mark.netns

FACTS = WORKERS / "facts.py"
BIN = os.path.dirname(sys.executable)
RULE = "-" * 80


def by_rank(lives: list[Life], role: str = "trainer") -> list[Life]:
    return sorted((life for life in lives if life.role == role), key=lambda life: life.rank)


def hosts_of(endpoints: str) -> list[str]:
    return [endpoint.rpartition(":")[0] for endpoint in endpoints.split(",")]


def both_well(*launchers: Launcher) -> None:
    assert [launcher.wait() for launcher in launchers] == [0] * len(launchers)


# ---- addresses


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("10.88.0.1:7000", ["10.88.0.1", "10.88.0.2"]),
        ("node0:7000", ["10.88.0.1", "10.88.0.2"]),
        ("[fd00:88::1]:7000", ["[fd00:88::1]", "[fd00:88::2]"]),
        ("node0-v6:7000", ["[fd00:88::1]", "[fd00:88::2]"]),
    ],
)
def test_peers_are_told_addresses_that_reach_them(
    stage: Stage, network: NetworkFactory, master: str, addresses: list[str]
) -> None:
    a, b = network(2).hosts
    # The second node comes first, so nobody listens yet when it asks for the master.
    second = stage.launch(f"--nnodes 2 --nproc_per_node 2 --master {master}", WORKERS / "neighbours.py", host=b)
    first = stage.launch(f"--nnodes 2 --nproc_per_node 2 --master {master}", WORKERS / "neighbours.py", host=a)
    both_well(first, second)
    lives = by_rank(stage.story.lives())
    assert [life.host for life in lives] == ["node0", "node0", "node1", "node1"]
    for life in lives:
        assert hosts_of(life.env["PADDLE_TRAINER_ENDPOINTS"]) == [address for address in addresses for _ in range(2)]
        assert life.env["PADDLE_CURRENT_ENDPOINT"] == life.env["PADDLE_TRAINER_ENDPOINTS"].split(",")[life.rank]
        assert hosts_of(life.env["PADDLE_MASTER"]) == [addresses[0]]
        assert life.env["PADDLE_NNODES"] == "2"
        assert life.moment("reached all") is not None


def test_a_second_launcher_on_the_masters_host_tells_an_address_that_reaches_it(
    stage: Stage, network: NetworkFactory
) -> None:
    """It meets the first one on loopback, where the master's name leads to on that host."""
    a, b = network(2).hosts
    flags = "--nnodes 3 --nproc_per_node 1 --master node0:7000"
    both_well(*(stage.launch(flags, WORKERS / "neighbours.py", host=host) for host in (a, a, b)))
    for life in stage.story.lives():
        assert sorted(hosts_of(life.env["PADDLE_TRAINER_ENDPOINTS"])) == ["10.88.0.1", "10.88.0.1", "10.88.0.2"]


def slurm(rank: int) -> dict[str, str]:
    """What a task of a step on two nodes finds, by the names that Slurm has for them."""
    return {
        "SLURM_JOB_ID": "4242",
        "SLURM_PROCID": str(rank),
        "SLURM_NODEID": str(rank),
        "SLURM_LOCALID": "0",
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
        "SLURM_STEP_NODELIST": "node[0-1]",
        "SLURMD_NODENAME": f"node{rank}",
    }


@pytest.mark.parametrize("how", ["--ips node0,node1", "Slurm"])
def test_names_that_mean_loopback_on_their_own_host_are_not_told(
    stage: Stage, network: NetworkFactory, how: str
) -> None:
    launchers = [
        stage.launch(
            f"--nproc_per_node 1 {'' if how == 'Slurm' else how}",
            WORKERS / "neighbours.py",
            host=host,
            env=slurm(host.number) if how == "Slurm" else {},
        )
        for host in network(2).hosts
    ]
    both_well(*launchers)
    for life in stage.story.lives():
        assert hosts_of(life.env["PADDLE_TRAINER_ENDPOINTS"]) == ["10.88.0.1", "10.88.0.2"]
        assert life.host == f"node{life.rank}"


def test_names_that_reach_their_host_are_kept(stage: Stage, network: NetworkFactory) -> None:
    hosts = network(2, own_name_is_loopback=False).hosts
    both_well(*(stage.launch("--nproc_per_node 1", FACTS, host=host, env=slurm(host.number)) for host in hosts))
    for life in stage.story.lives():
        assert hosts_of(life.env["PADDLE_TRAINER_ENDPOINTS"]) == ["node0", "node1"]


def test_the_host_flag_says_the_address(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    first = stage.launch("--nnodes 2 --master 10.88.0.1:7000 --host node0", FACTS, host=a)
    second = stage.launch("--nnodes 2 --master 10.88.0.1:7000 --host fd00:88::2", FACTS, host=b)
    both_well(first, second)
    endpoints = {life.env["PADDLE_TRAINER_ENDPOINTS"] for life in stage.story.lives()}
    assert [hosts_of(each) for each in endpoints] == [["node0", "[fd00:88::2]"]]


def test_nodes_with_ranks_get_them_in_any_order_of_arrival(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    flags = "--nnodes 3 --master 10.88.0.1:7000"
    first = stage.launch(f"{flags} --rank 0", FACTS, host=c)
    first.expect("no UMIAK_TOKEN")
    third = stage.launch(f"{flags} --rank 2", FACTS, host=a)  # where the master is says nothing about ranks
    second = stage.launch(f"{flags} --rank 1", FACTS, host=b)
    both_well(first, second, third)
    assert {life.host: life.rank for life in stage.story.lives()} == {"node0": 2, "node1": 1, "node2": 0}
    assert {hosts_of(life.env["PADDLE_MASTER"])[0] for life in stage.story.lives()} == {"10.88.0.3"}


def test_sort_ip_numbers_the_nodes_by_address(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    flags = "--nnodes 3 --master 10.88.0.2:7000 --sort_ip true"
    launchers = [stage.launch(flags, FACTS, host=host) for host in (b, c, a)]
    both_well(*launchers)
    assert {life.host: life.rank for life in stage.story.lives()} == {"node0": 0, "node1": 1, "node2": 2}


# ---- the printed command


@pytest.mark.parametrize(
    "command",
    [(sys.executable, "-m", "umiak.launch"), (f"{BIN}/umiak", "launch")],
    ids=["python -m umiak.launch", "umiak launch"],
)
def test_the_printed_command_can_be_pasted_on_the_other_node(
    stage: Stage, network: NetworkFactory, command: tuple[str, ...]
) -> None:
    a, b = network(2).hosts
    awkward = ["two words", "it's", "$HOME", "*", "", 'say "hi"', "back\\slash", "--nnodes", "-x;y&z|", "é"]
    path = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(stage.directory)}
    first = stage.start([*command, "--nnodes", "2", str(FACTS), *awkward], host=a, env=path)
    first.expect(f"\n{RULE}\n")
    lines = until(lambda: _between_rules(first.stderr), "a command between two rules", talk=stage.transcript)
    assert "Copy the following command to other nodes to run." in first.stderr
    assert len(lines) == 1
    assert lines[0].split()[0].startswith("UMIAK_TOKEN_FILE=")
    assert "--master 10.88.0.1:" in lines[0]
    second = stage.start(["sh", "-c", lines[0]], host=b, env=path)
    both_well(first, second)
    assert sorted(life.host for life in stage.story.lives()) == ["node0", "node1"]
    for life in stage.story.lives():
        assert life.told[0]["argv"][1:] == awkward


def test_nobody_joins_without_the_token_of_the_printed_command(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    path = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(stage.directory)}
    first = stage.launch("--nnodes 2 --job_id secret", FACTS, host=a, env=path)
    first.expect(f"\n{RULE}\n")
    (line,) = until(lambda: _between_rules(first.stderr), "a command", talk=stage.transcript)
    assignment, _, without = line.partition(" ")
    second = stage.start(["sh", "-c", without], host=b, env=path)
    assert second.wait() == 3
    assert "this job has a token: set the same UMIAK_TOKEN on every node" in second.stderr
    file = Path(shlex.split(assignment)[0].partition("=")[2].replace("~", path["HOME"]))
    assert file.stat().st_mode & 0o777 == 0o600
    token = file.read_text().strip()
    assert len(token) >= 32
    third = stage.start(["sh", "-c", line], host=b, env=path)
    both_well(first, third)
    assert token not in first.said + second.said + third.said, "what is printed is read by others"
    assert not file.exists(), "it opens nothing any more"


def test_the_printed_command_names_the_file_of_the_token_that_a_person_made(
    stage: Stage, network: NetworkFactory
) -> None:
    a, b = network(2).hosts
    file = stage.directory / "my token"
    file.write_text("a secret in a file of mine\n")
    path = {"PATH": f"{BIN}:{os.environ['PATH']}"}
    first = stage.launch("--nnodes 2", FACTS, host=a, env={**path, "UMIAK_TOKEN_FILE": str(file)})
    (line,) = until(lambda: _between_rules(first.stderr), "a command", talk=stage.transcript)
    assert shlex.split(line)[0] == f"UMIAK_TOKEN_FILE={file}"
    both_well(first, stage.start(["sh", "-c", line], host=b, env=path))
    assert "a secret in a file of mine" not in first.said
    assert file.exists()


def test_the_printed_command_says_what_only_the_first_nodes_environment_said(
    stage: Stage, network: NetworkFactory
) -> None:
    a, b = network(2).hosts
    path = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(stage.directory)}
    said = {"PADDLE_NNODES": "2", "PADDLE_JOB_ID": "named", "PADDLE_RANK": "0", "POD_IP": "10.88.0.1"}
    first = stage.launch("--nproc_per_node=2", FACTS, "--rank", "7", host=a, env={**path, **said})
    (line,) = until(lambda: _between_rules(first.stderr), "a command", talk=stage.transcript)
    assert shlex.split(line)[-3:] == [str(FACTS), "--rank", "7"]
    both_well(first, stage.start(["sh", "-c", line], host=b, env=path))
    assert {life.rank: life.host for life in stage.story.lives()} == dict(enumerate(["node0"] * 2 + ["node1"] * 2))


def test_the_printed_command_leaves_this_nodes_own_place_out(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    path = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(stage.directory)}
    first = stage.launch("--nnodes=2 --rank 0 --host=10.88.0.1", FACTS, host=a, env=path)
    (line,) = until(lambda: _between_rules(first.stderr), "a command", talk=stage.transcript)
    both_well(first, stage.start(["sh", "-c", line], host=b, env=path))
    assert {life.rank: life.host for life in stage.story.lives()} == {0: "node0", 1: "node1"}


def test_a_token_that_a_person_set_is_not_shown_in_the_command(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    env = {"PATH": f"{BIN}:{os.environ['PATH']}", "UMIAK_TOKEN": "my own long secret"}
    first = stage.launch("--nnodes 2", FACTS, host=a, env=env)
    (line,) = until(lambda: _between_rules(first.stderr), "a command", talk=stage.transcript)
    both_well(first, stage.start(["sh", "-c", line], host=b, env=env))
    assert "my own long secret" not in first.said
    assert "the other nodes need the same UMIAK_TOKEN" in first.stderr


def _between_rules(text: str) -> list[str]:
    parts = text.split(f"{RULE}\n")
    return parts[1].splitlines() if len(parts) >= 3 else []


# ---- lists of nodes and endpoints


def test_ips_need_no_master_and_fix_ranks_and_ports(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = "--ips 10.88.0.2,10.88.0.1 --start_port 6200 --nproc_per_node 2"
    both_well(stage.launch(flags, FACTS, host=a), stage.launch(flags, FACTS, host=b))
    lives = by_rank(stage.story.lives())
    assert [life.host for life in lives] == ["node1", "node1", "node0", "node0"]
    endpoints = "10.88.0.2:6200,10.88.0.2:6201,10.88.0.1:6200,10.88.0.1:6201"
    assert {life.env["PADDLE_TRAINER_ENDPOINTS"] for life in lives} == {endpoints}


def test_the_flags_of_the_first_launcher_mean_what_they_meant(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    both = "--cluster_node_ips=10.88.0.1,10.88.0.2 --started_port=6170"
    first = stage.launch(f"{both} --node_ip=10.88.0.1", FACTS, host=a)
    second = stage.launch(f"{both} --node_ip=10.88.0.2", FACTS, host=b)
    both_well(first, second)
    lives = by_rank(stage.story.lives())
    assert [life.env["PADDLE_CURRENT_ENDPOINT"] for life in lives] == ["10.88.0.1:6170", "10.88.0.2:6170"]
    assert {life.env["PADDLE_TRAINERS_NUM"] for life in lives} == {"2"}


def test_a_node_that_is_not_in_the_list_is_an_error(stage: Stage, network: NetworkFactory) -> None:
    (a,) = network(1).hosts
    alone = stage.launch("--ips 10.88.0.7,10.88.0.8", FACTS, host=a)
    assert alone.wait() == 2
    assert "UM-LAUNCH-302" in alone.stderr
    assert "this node (10.88.0.1" in alone.stderr


@pytest.mark.parametrize("trainers", ["--trainers", "--workers"])
def test_lists_of_servers_and_trainers_over_two_hosts(stage: Stage, network: NetworkFactory, trainers: str) -> None:
    a, b = network(2).hosts
    flags = f"--servers 10.88.0.1:6170,10.88.0.2:6170 {trainers} 10.88.0.1:6171,10.88.0.1:6172,10.88.0.2:6171"
    program = WORKERS / "parameter_server.py"
    first, second = stage.launch(flags, program, host=a), stage.launch(flags, program, host=b)
    stage.story.until_told("all servers are there", count=3)
    stage.story.order("end")
    both_well(first, second)
    servers, working = by_rank(stage.story.lives(), "server"), by_rank(stage.story.lives())
    assert [life.env["PADDLE_CURRENT_ENDPOINT"] for life in servers] == ["10.88.0.1:6170", "10.88.0.2:6170"]
    assert [life.env["PADDLE_CURRENT_ENDPOINT"] for life in working] == [
        "10.88.0.1:6171",
        "10.88.0.1:6172",
        "10.88.0.2:6171",
    ]
    assert {life.env["PADDLE_PSERVERS_IP_PORT_LIST"] for life in (*servers, *working)} == {
        "10.88.0.1:6170,10.88.0.2:6170"
    }
    assert [life.env["TRAINING_ROLE"] for life in (*servers, *working)] == ["PSERVER"] * 2 + ["TRAINER"] * 3
    assert [life.env.get("PADDLE_TRAINER_ID") for life in servers] == [None, None]
    assert {(life.env["PADDLE_MASTER"], life.env["MASTER_PORT"]) for life in working} == {("10.88.0.1:6769", "6769")}
    assert {life.env["PADDLE_GLOO_HTTP_ENDPOINT"] for life in (*servers, *working)} == {"10.88.0.1:6767"}


# ---- who is turned away


def test_a_surplus_node_is_told_so_and_exits_3_at_once(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    flags = "--nnodes 2 --master 10.88.0.1:7000 --join_timeout 600"
    first, second = stage.launch(flags, host=a), stage.launch(flags, host=b)
    stage.story.until_alive(generation=1, world=2)
    third = stage.launch(flags, host=c)
    assert third.wait() == 3
    assert "error: the job has its 2 nodes already: 10.88.0.1, 10.88.0.2" in third.stderr
    assert "hint: use --nnodes 2:3 if a further node should stand by" in third.stderr
    stage.story.order("end")
    both_well(first, second)


def test_a_duplicate_rank_names_both_nodes(stage: Stage, network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    flags = "--nnodes 3 --master 10.88.0.1:7000 --rank"
    first = stage.launch(f"{flags} 0", FACTS, host=a)
    second = stage.launch(f"{flags} 1", FACTS, host=b)
    first.expect("have 10.88.0.1, 10.88.0.2")
    third = stage.launch(f"{flags} 1", FACTS, host=c)
    assert third.wait() == 2
    assert "two nodes ask for rank 1: 10.88.0.2 (" in third.stderr
    assert " and 10.88.0.3 (" in third.stderr
    both_well(first, second, stage.launch(f"{flags} 2", FACTS, host=c))


def test_who_is_missing_is_said_while_waiting_and_at_the_end(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = "--nnodes 3 --master 10.88.0.1:7000 --join_timeout 6"
    first, second = stage.launch(flags, FACTS, host=a), stage.launch(flags, FACTS, host=b)
    assert [first.wait(), second.wait()] == [3, 3]
    for launcher in (first, second):
        assert "waiting for 1 of 3 nodes: have 10.88.0.1, 10.88.0.2" in launcher.stderr
        assert (
            "error: waiting for 1 of 3 nodes: have 10.88.0.1, 10.88.0.2; gave up after --join_timeout 6"
            in launcher.stderr
        )
    assert stage.story.lives() == []


@pytest.mark.parametrize("why", ["nobody listens", "the host is cut off"])
def test_without_a_master_it_gives_up_after_the_join_timeout(stage: Stage, network: NetworkFactory, why: str) -> None:
    net = network(2)
    a, b = net.hosts
    if why == "the host is cut off":
        net.cut(a, b)
    second = stage.launch("--nnodes 2 --master 10.88.0.1:7000 --join_timeout 1 --heartbeat_timeout 6", host=b)
    assert second.wait() == 3
    words = second.stderr.rpartition("error: ")[2]
    assert words.startswith("no master")
    assert "10.88.0.1:7000" in words
    assert "--join_timeout 1" in words
    if why == "nobody listens":
        assert "Connection refused" in second.stderr


def test_a_node_with_another_job_or_other_terms_is_refused(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    first = stage.launch("--nnodes 2 --master 10.88.0.1:7000", FACTS, host=a)
    other_job = stage.launch("--nnodes 2 --master 10.88.0.1:7000 --job_id other", FACTS, host=b)
    assert other_job.wait() == 3
    assert "this launcher runs --job_id default, the caller another job" in other_job.stderr
    other_size = stage.launch("--nnodes 3 --master 10.88.0.1:7000", FACTS, host=b)
    assert other_size.wait() == 2
    assert "--nnodes 3 here, 2 on the master" in other_size.stderr
    both_well(first, stage.launch("--nnodes 2 --master 10.88.0.1:7000", FACTS, host=b))


def test_a_node_without_the_token_or_with_another_one_is_refused(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = "--nnodes 2 --master 10.88.0.1:7000"
    first = stage.launch(flags, FACTS, host=a, env={"UMIAK_TOKEN": "right and long enough"})
    for env in ({"UMIAK_TOKEN": "wrong, but long enough"}, {}):
        stranger = stage.launch(flags, FACTS, host=b, env=env)
        assert stranger.wait() == 3
        assert "UMIAK_TOKEN" in stranger.stderr.rpartition("error: ")[2]
    key = Path(stage.directory, "token")
    key.write_text("right and long enough\n")
    key.chmod(0o600)
    second = stage.launch(flags, FACTS, host=b, env={"UMIAK_TOKEN_FILE": str(key)})
    both_well(first, second)
    assert "no UMIAK_TOKEN is set" not in first.stderr + second.stderr


def test_a_job_that_others_can_reach_may_be_forbidden_without_a_token(stage: Stage, network: NetworkFactory) -> None:
    (a,) = network(1).hosts
    flags = "--nnodes 2 --master 10.88.0.1:7000"
    launcher = stage.launch(flags, FACTS, host=a, env={"UMIAK_REQUIRE_TOKEN": "1"})
    assert launcher.wait() == 2
    assert "[UM-MEET-031]" in launcher.stderr
    assert "umiak token" in launcher.stderr
    unsure = stage.launch(flags, FACTS, host=a, env={"UMIAK_REQUIRE_TOKEN": "maybe"})
    assert unsure.wait() == 2
    assert "UMIAK_REQUIRE_TOKEN=maybe [UM-CLI-003]" in unsure.stderr


def test_a_job_without_a_token_is_told_what_others_can_do(stage: Stage, network: NetworkFactory) -> None:
    (a,) = network(1).hosts
    launcher = stage.launch("--nnodes 2 --master 10.88.0.1:7000", FACTS, host=a)
    said = launcher.expect("UMIAK_REQUIRE_TOKEN=1")
    for what in ("join this job", "lead it", "end it", "as if it had succeeded", '"$(umiak token)"'):
        assert what in said
    launcher.signal(15)
    assert launcher.wait() == 143


def test_a_token_never_shows(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    token = "a-token-that-nobody-may-see"
    flags = "--nnodes 2 --nproc_per_node 2 --master 10.88.0.1:7000 --log_level DEBUG"
    launchers = [stage.launch(flags, host=host, env={"UMIAK_TOKEN": token}) for host in (a, b)]
    stage.story.until_alive(generation=1, world=4)
    words = [word for launcher in launchers for relative in launcher.family() for word in relative.words]
    assert str(OBEDIENT) in words
    assert not [word for word in words if token in word]
    for launcher in launchers:
        for worker in launcher.workers():
            assert token not in json.dumps(dict(worker.env)), "a worker has no use for it"
    stage.story.order("raise", rank=3)
    assert [launcher.wait() for launcher in launchers] == [1, 1]
    for launcher in launchers:
        assert token not in launcher.said
        files = list(launcher.log_dir.iterdir())
        assert {"events.jsonl", "envlog.trainer.0", "workerlog.0", "backup_env.0.json"} & {each.name for each in files}
        assert not [each.name for each in files if token.encode() in each.read_bytes()]


@pytest.mark.parametrize(
    ("greeting", "message"),
    [
        ("SSH-2.0-other", "something else answers there, not umiak"),
        ("", "something listens there, but no answer for 3 s"),
        ("hang up", "something listens there, but hangs up"),
    ],
    ids=["that talks", "that is silent", "that hangs up"],
)
def test_another_program_at_the_masters_port_is_said(
    stage: Stage, network: NetworkFactory, greeting: str, message: str
) -> None:
    a, b = network(2).hosts
    other = a.popen([sys.executable, WORKERS / "other_program.py", "7000", greeting], stdout=subprocess.PIPE)
    assert other.stdout is not None
    with other.stdout as output:
        assert output.readline() == "ready\n"
    flags = "--nnodes 2 --master 10.88.0.1:7000 --join_timeout 9 --heartbeat_timeout 3"
    first, second = stage.launch(flags, FACTS, host=a), stage.launch(flags, FACTS, host=b)
    assert [first.wait(), second.wait()] == [3, 3]
    assert re.search(r"port 7000 is taken here by python\S* \(process \d+\) \(Address already in use\)", first.stderr)
    for launcher in (first, second):
        error = launcher.stderr.rpartition("error: ")[2]
        assert f"10.88.0.1 port 7000: {message}" in error
        assert "hint: " in error
        assert "TOKEN" not in error


def test_somebody_elses_job_at_the_masters_port_is_said(stage: Stage) -> None:
    """Its token is not ours, and to be told to set the same would be a riddle."""
    flags = f"--nnodes 2 --master 127.0.0.1:{free_port()} --join_timeout 60"
    theirs = stage.launch(flags, FACTS, env={"UMIAK_TOKEN": "theirs" * 4})
    until(lambda: "waiting for" in theirs.stderr, "the other job waits for its second node")
    ours = stage.launch(flags, FACTS, env={"UMIAK_TOKEN": "ours" * 4})
    assert ours.wait() == 3
    assert "if it is not this job's master that answers there, name another port in --master" in ours.stderr


def test_a_launcher_is_started_by_any_of_its_names(stage: Stage, network: NetworkFactory) -> None:
    a, b = network(2).hosts
    flags = ["--nnodes", "2", "--master", "10.88.0.1:7000", str(FACTS)]
    both_well(
        stage.start([*LAUNCH, *flags], host=a),
        stage.start([f"{BIN}/umiak", "launch", *flags], host=b),
    )
