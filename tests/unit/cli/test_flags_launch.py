"""What the flags of `umiak launch` mean: Paddle's, the old ones, umiak's own, and every contradiction between them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pytest

from umiak.core.cluster import Mode
from umiak.core.problem import UmiakError
from umiak.launch.command_line.own import FLAGS
from umiak.launch.command_line.reading import Request, read
from umiak.launch.options import LaunchOptions, Tee, TrainerRestart
from umiak.schema.flags import FlagOrigin

NO_ENVIRON: Mapping[str, str] = {}


def ask(line: str, environ: Mapping[str, str] = NO_ENVIRON) -> Request:
    return read(shlex.split(line), environ)


def options(line: str, environ: Mapping[str, str] = NO_ENVIRON) -> LaunchOptions:
    return ask(line, environ).options


def problems(line: str, environ: Mapping[str, str] = NO_ENVIRON) -> list[str]:
    with pytest.raises(UmiakError) as caught:
        ask(line, environ)
    assert caught.value.exit_status == 2
    for problem in caught.value.problems:
        assert problem.hint, problem
    return [problem.code for problem in caught.value.problems]


# Every flag of Paddle's launcher 3.3.1 and of umiak: (flag, variable, text, field, its default, what the text makes of it).
TABLE = [
    ("master", "PADDLE_MASTER", "10.0.0.1:8090", "master", None, "10.0.0.1:8090"),
    ("rank", "PADDLE_RANK", "0", "rank", None, 0),
    ("nnodes", "PADDLE_NNODES", "2", "most_nodes", 1, 2),
    ("nproc_per_node", "PADDLE_NPROC_PER_NODE", "4", "workers_per_node", None, 4),
    ("devices", "PADDLE_DEVICES", "0,1", "devices", None, ("0", "1")),
    ("gpus", None, "0,1", "devices", None, ("0", "1")),
    ("npus", None, "0,1", "devices", None, ("0", "1")),
    ("xpus", None, "0,1", "devices", None, ("0", "1")),
    ("host", "POD_IP", "10.0.0.2", "host", None, "10.0.0.2"),
    ("ips", "PADDLE_IPS", "10.0.0.1,10.0.0.2", "node_hosts", (), ("10.0.0.1", "10.0.0.2")),
    ("start_port", "PADDLE_START_PORT", "7000", "start_port", None, 7000),
    ("run_mode", "PADDLE_RUN_MODE", "rpc", "mode", Mode.COLLECTIVE, Mode.RPC),
    ("job_id", "PADDLE_JOB_ID", "ctr-1", "job_id", "default", "ctr-1"),
    ("log_dir", "PADDLE_LOG_DIR", "out", "log_dir", "log", "out"),
    ("log_level", "PADDLE_LOG_LEVEL", "debug", "log_level", "INFO", "DEBUG"),
    ("log_overwrite", "PADDLE_LOG_OVERWRITE", "True", "log_overwrite", False, True),
    ("sort_ip", "PADDLE_SORT_IP", "true", "sort_ip", False, True),
    ("enable_gpu_log", None, "False", "enable_gpu_log", True, False),
    ("servers", "PADDLE_SERVERS_ENDPOINTS", "h:1,h:2", "server_endpoints", (), ("h:1", "h:2")),
    ("trainers", "PADDLE_TRAINERS_ENDPOINTS", "h:1,h:2", "trainer_endpoints", (), ("h:1", "h:2")),
    ("server_num", "PADDLE_SERVER_NUM", "2", "servers_per_node", None, 2),
    ("trainer_num", "PADDLE_TRAINER_NUM", "2", "trainers_per_node", None, 2),
    ("gloo_port", "PADDLE_GLOO_PORT", "7777", "gloo_port", None, 7777),
    ("with_gloo", "PADDLE_WITH_GLOO", "0", "with_gloo", 1, 0),
    ("max_restart", "PADDLE_MAX_RESTART", "5", "max_restart", 3, 5),
    ("elastic_level", "PADDLE_ELASTIC_LEVEL", "1", "elastic_level", -1, 1),
    ("elastic_timeout", "PADDLE_ELASTIC_TIMEOUT", "60", "elastic_timeout_s", 30.0, 60.0),
    # The old launchers'.
    ("selected_gpus", None, "0,1", "devices", None, ("0", "1")),
    ("selected_xpus", None, "0,1", "devices", None, ("0", "1")),
    ("selected_npus", None, "0,1", "devices", None, ("0", "1")),
    ("selected_devices", None, "0,1", "devices", None, ("0", "1")),
    ("cluster_node_ips", None, "a:80,b:80", "node_hosts", (), ("a", "b")),
    ("node_ip", None, "10.0.0.2", "host", None, "10.0.0.2"),
    ("started_port", None, "6170", "start_port", None, 6170),
    ("use_paddlecloud", None, "True", "topology", None, "paddlejob"),
    ("workers", None, "h:1,h:2", "trainer_endpoints", (), ("h:1", "h:2")),
    ("worker_num", None, "2", "trainers_per_node", None, 2),
    ("heter_workers", None, "h:1,h:2", "heter_endpoints", (), ("h:1", "h:2")),
    ("heter_worker_num", None, "2", "heters_per_node", None, 2),
    ("heter_devices", None, "gpu", "heter_device", None, "gpu"),
    ("http_port", None, "7777", "gloo_port", None, 7777),
    ("np", "PADDLE_ELASTIC_NP", "2:3", "least_nodes", 1, 2),
    ("elastic_server", "PADDLE_ELASTIC_SERVER", "10.0.0.1:2379", "master", None, "etcd://10.0.0.1:2379"),
    ("backend", "PADDLE_DISTRI_BACKEND", "gloo", "backend", None, "gloo"),
    ("log_level", None, "10", "log_level", "INFO", "DEBUG"),
    # umiak's own.
    ("join_timeout", "UMIAK_JOIN_TIMEOUT", "60", "join_timeout_s", 600.0, 60.0),
    ("heartbeat_timeout", "UMIAK_HEARTBEAT_TIMEOUT", "2", "heartbeat_timeout_s", 5.0, 2.0),
    ("grace", "UMIAK_GRACE", "2m", "grace_s", 30.0, 120.0),
    ("failure_grace", "UMIAK_FAILURE_GRACE", "0", "failure_grace_s", 5.0, 0.0),
    ("hang_timeout", "UMIAK_HANG_TIMEOUT", "90", "hang_timeout_s", None, 90.0),
    ("tee", "UMIAK_TEE", "all", "tee", Tee.FIRST, Tee.ALL),
    (
        "trainer_restart",
        "UMIAK_TRAINER_RESTART",
        "alone",
        "trainer_restart",
        TrainerRestart.GROUP,
        TrainerRestart.ALONE,
    ),
    ("lost_at_start", "UMIAK_LOST_AT_START", "fail", "fails_at_start", False, True),
    ("log_max_bytes", "UMIAK_LOG_MAX_BYTES", "10M", "log_max_bytes", 256 << 20, 10 << 20),
    ("log_mode", "UMIAK_LOG_MODE", "0640", "log_mode", None, 0o640),
    ("log_group", "UMIAK_LOG_GROUP", "adm", "log_group", None, "adm"),
    ("keep_proxy", "UMIAK_KEEP_PROXY", "True", "keep_proxy", False, True),
    ("no_compat", "UMIAK_NO_COMPAT", "True", "no_compat", False, True),
    ("topology", "UMIAK_TOPOLOGY", "slurm", "topology", None, "slurm"),
]


@pytest.mark.parametrize(("flag", "variable", "text", "field", "default", "expected"), TABLE)
def test_each_flag(flag: str, variable: str | None, text: str, field: str, default: object, expected: object) -> None:
    assert getattr(options("x.py"), field) == default
    hyphenated = flag.replace("_", "-")
    for line in (f"--{flag} {text} x.py", f"--{flag}={text} x.py", f"--{hyphenated} {text} x.py"):
        assert getattr(options(line), field) == expected, line
    if variable:
        assert getattr(options("x.py", {variable: text}), field) == expected


@pytest.mark.parametrize(("flag", "variable", "text", "field", "default", "expected"), [row for row in TABLE if row[1]])
def test_each_flag_beats_its_variable(
    flag: str, variable: str, text: str, field: str, default: object, expected: object
) -> None:
    other = "0" if expected == 1 else "1"
    made = ask(f"--{flag} {text} x.py", {variable: other})
    assert getattr(made.options, field) == expected
    assert f"--{flag} {text} is used; the environment says {variable}={other}" in made.notes


def test_the_table_above_is_complete() -> None:
    tested = {row[0] for row in TABLE}
    elsewhere = {"legacy", "print_config", "check", "json", "quiet", "verbose"}
    flags = [
        flag for flag in FLAGS if not flag.refused and flag.origin is not FlagOrigin.TORCHRUN
    ]  # see test_torchrun.py
    names = {spelling for flag in flags for spelling in flag.spellings}
    assert names == tested | elsewhere
    variables = {name for flag in flags for name in flag.env if not name.startswith("PET_")}
    tested_below = {"PADDLE_TRAINER_ID", "FLAGS_START_PORT", "PADDLE_ELASTIC_JOB_ID"}
    assert variables == {row[1] for row in TABLE if row[1]} | tested_below


def test_no_two_flags_share_a_name_or_a_variable() -> None:
    names = [spelling for flag in FLAGS for spelling in (*flag.spellings, *flag.elsewhere)]
    assert len(names) == len(set(names))
    variables = [name for flag in FLAGS for name in flag.env]
    assert len(variables) == len(set(variables))


def test_nothing_said() -> None:
    assert options("train.py --lr 0.1") == LaunchOptions(
        program=("train.py", "--lr", "0.1"),
        program_argv=("train.py", "--lr", "0.1"),
        shown=options("train.py --lr 0.1").shown,
    )


# The program


def test_a_module_a_script_or_any_program() -> None:
    module = options("--nnodes 1 -m package.module --lr 0.1")
    assert (module.program, module.is_module) == (("package.module", "--lr", "0.1"), True)
    assert options("/bin/echo hello --nnodes 2").program == ("/bin/echo", "hello", "--nnodes", "2")
    assert options("-- -strange").program == ("-strange",)


def test_the_words_are_kept_for_the_other_nodes() -> None:
    made = read(["--nnodes", "2", "train.py", "--name", "a b"], {}).options
    assert made.program_argv == ("--nnodes", "2", "train.py", "--name", "a b")


@pytest.mark.parametrize("line", ["", "--nnodes 2", "-m", "--"])
def test_no_program(line: str) -> None:
    assert problems(line) == ["UM-LAUNCH-101"]


def test_a_check_needs_no_program() -> None:
    made = options("--check --json --nnodes 2")
    assert (made.check, made.as_json, made.program, made.most_nodes) == (True, True, (), 2)


# Nodes


@pytest.mark.parametrize(("text", "least", "most"), [("1", 1, 1), ("4", 4, 4), ("2:4", 2, 4), ("3:3", 3, 3)])
def test_number_of_nodes(text: str, least: int, most: int) -> None:
    made = options(f"--nnodes {text} x.py")
    assert (made.least_nodes, made.most_nodes, made.nodes_said) == (least, most, True)
    assert made.elastic == (least < most)


@pytest.mark.parametrize("text", ["0", "two", "4:2", "0:2", "2:", ":2", "1:2:3", "-1:2", "1.5"])
def test_no_number_of_nodes(text: str) -> None:
    assert problems(f"--nnodes={text} x.py") == ["UM-LAUNCH-102"]


def test_nodes_that_nobody_said() -> None:
    assert not options("x.py").nodes_said
    assert not options("--nnodes= x.py").nodes_said
    assert options("x.py", {"PADDLE_NNODES": "1"}).nodes_said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1:80", "10.0.0.1:80"),
        ("localhost:8090", "localhost:8090"),
        ("job-worker-0.ns.svc:36543", "job-worker-0.ns.svc:36543"),
        ("[::1]:80", "[::1]:80"),
        ("http://10.0.0.1:80", "10.0.0.1:80"),
        ("etcd://10.0.0.1:2379", "etcd://10.0.0.1:2379"),
        ("etcd://10.0.0.1", "etcd://10.0.0.1:2379"),
        ("etcd://a:2379,b:2380", "etcd://a:2379,b:2380"),
        ("etcd://[fe80::1]:2379", "etcd://[fe80::1]:2379"),
    ],
)
def test_master(text: str, expected: str) -> None:
    assert options(f"--master {text} x.py").master == expected


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.1",
        "10.0.0.1:0",
        "10.0.0.1:70000",
        "10.0.0.1:port",
        ":80",
        "::1:80",
        "[::1",
        "redis://a:1",
        "etcd://",
        "a b:1",
    ],
)
def test_no_master(text: str) -> None:
    assert problems(f"--master '{text}' x.py") == ["UM-LAUNCH-103"]


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(UmiakError) as caught:
        ask("--master etcd://me:secret@a:2379 x.py")
    assert "secret" not in "".join(line for problem in caught.value.problems for line in problem.lines())


def test_rank() -> None:
    assert options("--rank -1 --nnodes 2 x.py").rank is None
    assert options("--rank 1 --nnodes 2 x.py").rank == 1
    assert options("--rank 3 --nnodes 2:4 x.py").rank == 3
    # The number of nodes may come from the platform.
    assert options("--rank 1 x.py").rank == 1
    assert problems("--rank 2 --nnodes 2 x.py") == ["UM-LAUNCH-104"]
    assert problems("--rank 2 --ips a,b x.py") == ["UM-LAUNCH-104"]
    assert problems("--rank -2 x.py") == ["UM-CLI-003"]


def test_a_trainer_id_alone_is_the_rank_of_a_node() -> None:
    assert options("--nnodes 2 x.py", {"PADDLE_TRAINER_ID": "1"}).rank == 1
    assert options("x.py", {"PADDLE_TRAINER_ID": "1"}).rank is None
    assert options("--nnodes 2 x.py", {"PADDLE_TRAINER_ID": "-1"}).rank is None
    assert options("--nnodes 2 x.py", {"PADDLE_TRAINER_ID": "1", "PADDLE_RANK": "0"}).rank == 0
    assert problems("--nnodes 2 x.py", {"PADDLE_TRAINER_ID": "2"}) == ["UM-LAUNCH-104"]


@pytest.mark.parametrize("mark", ["PADDLE_TRAINER_ENDPOINTS", "PADDLE_TRAINERS", "TRAINING_ROLE"])
def test_a_trainer_id_beside_a_platforms_lists_is_the_platforms(mark: str) -> None:
    made = ask("--nnodes 2 x.py", {"PADDLE_TRAINER_ID": "1", mark: "x"})
    assert made.options.rank is None
    assert made.notes == ()


@pytest.mark.parametrize("mark", ["UMIAK_RANK", "PADDLE_CURRENT_ENDPOINT", "PADDLE_LOCAL_RANK"])
def test_a_launch_inside_a_worker_does_not_obey_the_workers_variables(mark: str) -> None:
    worker = {
        "PADDLE_MASTER": "h:1",
        "PADDLE_NNODES": "2",
        "PADDLE_TRAINER_ID": "3",
        mark: "0",
        "PADDLE_LOG_DIR": "out",
    }
    made = ask("x.py", worker)
    assert (made.options.master, made.options.nodes_said, made.options.rank) == (None, False, None)
    assert made.options.log_dir == "out"
    (note,) = made.notes
    assert "PADDLE_MASTER, PADDLE_NNODES, PADDLE_TRAINER_ID" in note
    assert ask("x.py", {mark: "0"}).notes == ()


def test_second_variables() -> None:
    assert options("x.py", {"PADDLE_ELASTIC_JOB_ID": "j"}).job_id == "j"
    assert options("--ips a,b x.py", {"FLAGS_START_PORT": "7000"}).start_port == 7000


@pytest.mark.parametrize("name", ["../x", "a/b", "a b", ".x", "-x", "a\tb"])
def test_no_name_for_a_job(name: str) -> None:
    assert problems(f"'--job_id={name}' x.py") == ["UM-LAUNCH-115"]


# Lists of nodes


def test_the_modelarts_document() -> None:
    made = options(
        "--cluster_node_ips=192.168.1.2:6666,192.168.1.3:6666 --node_ip=192.168.1.3 --started_port=6170 "
        "--selected_gpus=0,1,2,3 train_with_fleet.py"
    )
    assert made.node_hosts == ("192.168.1.2", "192.168.1.3")
    assert (made.host, made.start_port, made.devices) == ("192.168.1.3", 6170, ("0", "1", "2", "3"))
    assert (made.least_nodes, made.most_nodes, made.nodes_said, made.master) == (2, 2, True, None)


def test_ports_follow_from_a_list_of_nodes_only() -> None:
    assert options("--ips a,b x.py").start_port == 6070
    assert options("x.py").start_port is None
    assert problems("--ips a,b --start_port 65535 --nproc_per_node 2 x.py") == ["UM-LAUNCH-117"]


@pytest.mark.parametrize("text", ["a,a", "127.0.0.1,10.0.0.1", "localhost,b", "a,,b", "a b", ",a", "a,b:99999"])
def test_no_list_of_nodes(text: str) -> None:
    assert problems(f"--ips '{text}' x.py") == ["UM-LAUNCH-109"]


def test_several_loopback_addresses_are_several_nodes() -> None:
    assert options("--ips 127.0.0.1,127.0.0.2 x.py").node_hosts == ("127.0.0.1", "127.0.0.2")
    assert options("--ips 127.0.0.1 x.py").most_nodes == 1


def test_a_node_that_is_not_in_its_list() -> None:
    assert problems("--ips a,b --host c x.py") == ["UM-LAUNCH-109"]
    # What the environment calls this node may be an address of a name in the list.
    assert options("--ips a,b x.py", {"POD_IP": "10.0.0.1"}).host == "10.0.0.1"


def test_two_ways_to_meet() -> None:
    assert problems("--ips a,b --master a:1 x.py") == ["UM-LAUNCH-110"]
    assert problems("--elastic_server a:1 --master b:1 x.py") == ["UM-LAUNCH-110"]
    assert options("--elastic_server a:1 --master etcd://a:1 x.py").master == "etcd://a:1"
    assert problems("x.py", {"PADDLE_IPS": "a,b", "PADDLE_MASTER": "a:1"}) == ["UM-LAUNCH-110"]
    made = ask("--ips a,b x.py", {"PADDLE_MASTER": "a:1"})
    assert (made.options.master, made.options.node_hosts) == (None, ("a", "b"))
    assert made.notes == ("--ips a,b is used; the environment says PADDLE_MASTER=a:1",)
    made = ask("--master a:1 x.py", {"PADDLE_IPS": "a,b"})
    assert (made.options.master, made.options.node_hosts) == ("a:1", ())
    assert made.notes == ("--master a:1 is used; the environment says PADDLE_IPS=a,b",)


def test_a_list_and_a_number_of_nodes() -> None:
    assert options("--ips a,b --nnodes 2 x.py").most_nodes == 2
    assert problems("--ips a,b --nnodes 3 x.py") == ["UM-LAUNCH-111"]
    assert problems("--ips a,b --nnodes 1:2 x.py") == ["UM-LAUNCH-111"]
    assert problems("--nnodes 3 x.py", {"PADDLE_IPS": "a,b"}) == ["UM-LAUNCH-111"]
    made = ask("--ips a,b x.py", {"PADDLE_NNODES": "3"})
    assert made.options.most_nodes == 2
    assert made.notes == ("--ips a,b is used; the environment says PADDLE_NNODES=3",)


# Modes, servers, trainers


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("", Mode.COLLECTIVE),
        ("--run_mode collective", Mode.COLLECTIVE),
        ("--run_mode PS", Mode.PS),
        ("--run_mode ps-heter", Mode.PS_HETER),
        ("--server_num 1", Mode.PS),
        ("--server_num 0", Mode.PS),
        ("--trainer_num 1", Mode.PS),
        ("--worker_num 1", Mode.PS),
        ("--servers h:1", Mode.PS),
        ("--trainers h:1", Mode.PS),
        ("--workers h:1", Mode.PS),
        ("--servers=", Mode.COLLECTIVE),
        ("--heter_worker_num 1", Mode.PS_HETER),
        ("--heter_workers h:1", Mode.PS_HETER),
        ("--heter_devices gpu", Mode.PS_HETER),
        ("--server_num 1 --heter_worker_num 1", Mode.PS_HETER),
        ("--run_mode ps-heter --server_num 1", Mode.PS_HETER),
        ("--http_port 7777", Mode.COLLECTIVE),
    ],
)
def test_mode(line: str, mode: Mode) -> None:
    assert options(f"{line} x.py").mode is mode


def test_a_mode_against_other_flags() -> None:
    assert problems("--run_mode collective --server_num 2 x.py") == ["UM-LAUNCH-106"]
    assert problems("--run_mode rpc --trainer_num 2 --servers h:1 x.py") == ["UM-LAUNCH-106"] * 2
    assert problems("--run_mode ps --heter_worker_num 2 x.py") == ["UM-LAUNCH-106"]
    made = ask("--run_mode collective x.py", {"PADDLE_SERVER_NUM": "1"})
    assert (made.options.mode, made.options.servers_per_node) == (Mode.COLLECTIVE, None)
    assert made.notes == ("--run_mode collective is used; the environment says PADDLE_SERVER_NUM=1",)
    made = ask("--server_num 2 x.py", {"PADDLE_RUN_MODE": "collective"})
    assert (made.options.mode, made.options.servers_per_node) == (Mode.PS, 2)
    assert made.notes == ("--server_num 2 is used; the environment says PADDLE_RUN_MODE=collective",)


def test_an_unknown_mode_names_the_nearest() -> None:
    with pytest.raises(UmiakError) as caught:
        ask("--run_mode colective x.py")
    (problem,) = caught.value.problems
    assert problem.code == "UM-CLI-003"
    assert problem.hint is not None
    assert problem.hint.startswith("did you mean `collective`?")


def test_servers_and_trainers_of_each_node() -> None:
    def counts(line: str) -> tuple[int | None, int | None, int | None]:
        made = options(f"{line} x.py")
        return made.servers_per_node, made.trainers_per_node, made.heters_per_node

    assert counts("--run_mode ps") == (1, 1, None)
    assert counts("--server_num 2") == (2, 1, None)
    assert counts("--server_num 0 --trainer_num 4") == (0, 4, None)
    assert counts("--server_num 2 --worker_num 2 --heter_worker_num 2") == (2, 2, 2)
    assert counts("--run_mode ps-heter") == (1, 1, 1)
    assert counts("--nproc_per_node 2") == (None, None, None)
    assert problems("--server_num 0 --trainer_num 0 x.py") == ["UM-LAUNCH-118"]
    assert problems("--server_num -1 x.py") == ["UM-CLI-003"]


def test_workers_of_collective_jobs_are_not_counted_beside_servers() -> None:
    assert "--trainer_num" in ask("--server_num 1 --nproc_per_node 4 x.py").notes[0]


def test_lists_of_servers_and_trainers() -> None:
    made = options('--servers="10.0.0.1:6170,10.0.0.2:6170" --workers="10.0.0.1:6171,10.0.0.2:6171" x.py')
    assert made.server_endpoints == ("10.0.0.1:6170", "10.0.0.2:6170")
    assert made.trainer_endpoints == ("10.0.0.1:6171", "10.0.0.2:6171")
    assert (made.least_nodes, made.most_nodes, made.nodes_said) == (2, 2, True)
    assert (made.servers_per_node, made.trainers_per_node, made.gloo_port) == (None, None, 6767)


def test_old_lists_of_workers_may_leave_the_ports_out() -> None:
    made = options("--servers=a:6170,b:6170 --workers=a,b,a,b x.py")
    assert made.trainer_endpoints == ("a:6172", "b:6173", "a:6174", "b:6175")
    assert problems("--servers=a:6170,b:6170 --trainers=a,b x.py") == ["UM-LAUNCH-107"]


@pytest.mark.parametrize("text", ["a", "a:x", "a:1,a:1", "a:1,,b:2", ":1"])
def test_no_list_of_servers(text: str) -> None:
    assert problems(f"--servers '{text}' --trainers h:9 x.py") == ["UM-LAUNCH-107"]


def test_one_list_without_the_other() -> None:
    assert problems("--servers a:1,b:1 x.py") == ["UM-LAUNCH-112"]
    assert problems("--trainers a:1,b:1 --server_num 2 x.py") == ["UM-LAUNCH-112"]
    assert problems("--heter_workers a:1,b:1 x.py") == ["UM-LAUNCH-112"]
    # On a single host the old launcher made the other list up, and so do we.
    made = options("--servers 127.0.0.1:6170 --worker_num 2 x.py")
    assert made.trainer_endpoints == ("127.0.0.1:6171", "127.0.0.1:6172")
    made = options("--workers 127.0.0.1:6171 --server_num 2 x.py")
    assert made.server_endpoints == ("127.0.0.1:6170", "127.0.0.1:6172")


def test_a_list_and_a_number_of_servers() -> None:
    assert options("--servers h:1,h:2 --server_num 2 x.py").server_endpoints == ("h:1", "h:2")
    assert problems("--servers h:1,h:2 --server_num 1 x.py") == ["UM-LAUNCH-113"]
    assert problems("--heter_workers h:1,h:2 --heter_worker_num 1 x.py") == ["UM-LAUNCH-113"]
    made = ask("--servers h:1,h:2 x.py", {"PADDLE_SERVER_NUM": "1"})
    assert made.options.server_endpoints == ("h:1", "h:2")
    assert "PADDLE_SERVER_NUM=1 is not used" in made.notes[0]
    assert problems("--servers a:1,b:1 --trainers a:2,b:2 --nnodes 3 x.py") == ["UM-LAUNCH-111"]


def test_heter_workers() -> None:
    made = options("--servers=a:1,b:1 --workers=a:2,b:2 --heter_workers='a:3,b:3' --heter_devices='gpu;' x.py")
    assert (made.heter_endpoints, made.heter_device, made.most_nodes) == (("a:3", "b:3"), "gpu", 2)
    assert problems("--heter_worker_num '1;2' x.py") == ["UM-LAUNCH-114"]
    assert problems("--heter_workers 'a:1;b:1' x.py") == ["UM-LAUNCH-114"]
    assert problems("--heter_worker_num two x.py") == ["UM-LAUNCH-114"]
    assert problems("--heter_devices abacus x.py") == ["UM-LAUNCH-114"]


# Devices


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", ("0",)), ("6,7", ("6", "7")), ("0, 1,", ("0", "1")), ("GPU-8932f937,GPU-1", ("GPU-8932f937", "GPU-1"))],
)
def test_devices(text: str, expected: tuple[str, ...]) -> None:
    assert options(f"--devices '{text}' x.py").devices == expected


@pytest.mark.parametrize("text", ["0-3", "0,,1", "-1", ",0"])
def test_no_devices(text: str) -> None:
    assert problems(f"--devices='{text}' x.py") == ["UM-LAUNCH-108"]


# Failures and restarts


@pytest.mark.parametrize(
    ("line", "environ", "wanted"),
    [
        ("", {}, False),
        ("--max_restart 3", {}, True),
        ("", {"PADDLE_MAX_RESTART": "1"}, True),
        ("--nnodes 1:2", {}, True),
        ("--nnodes 2", {}, False),
        ("--elastic_level 0", {}, True),
        ("--elastic_level -1", {}, False),
        ("", {"PADDLE_ELASTIC_LEVEL": "1"}, True),
    ],
)
def test_restarts_are_wanted(line: str, environ: dict[str, str], wanted: bool) -> None:
    assert options(f"{line} x.py", environ).restart_wanted is wanted


@pytest.mark.parametrize(
    "line",
    [
        "--max_restart -1",
        "--elastic_level 2",
        "--elastic_timeout -1",
        "--nproc_per_node 0",
        "--join_timeout 0",
        "--hang_timeout 0",
        "--log_max_bytes 0",
        "--with_gloo 3",
        "--nproc_per_node many",
        "--log_level LOUD",
        "--start_port 0",
    ],
)
def test_values_out_of_their_range(line: str) -> None:
    assert problems(f"{line} x.py") == ["UM-CLI-003"]


@pytest.mark.parametrize("mode", ["640x", "0o7777", "0400", "0066", "0666", "0750", "-1", "rw-r-----"])
def test_permissions_that_log_files_can_not_have(mode: str) -> None:
    assert problems(f"--log_mode={mode} x.py") == ["UM-LAUNCH-315"]


@pytest.mark.parametrize(("text", "mode"), [("600", 0o600), ("0644", 0o644), ("0o664", 0o664)])
def test_permissions_that_log_files_can_have(text: str, mode: int) -> None:
    assert options(f"--log_mode {text} x.py").log_mode == mode


# What is refused, and what changes nothing


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.refused], ids=lambda flag: flag.name)
def test_what_is_refused_says_why(flag) -> None:
    with pytest.raises(UmiakError) as caught:
        ask(f"--{flag.name} 1 x.py")
    (problem,) = caught.value.problems
    assert problem.code == "UM-LAUNCH-116"
    assert problem.why == flag.refused
    for name in flag.env:
        assert problems("x.py", {name: "1"}) == ["UM-LAUNCH-116"]


def test_asking_for_nothing_is_not_refused() -> None:
    made = ask("--auto_cluster_config 0 --force False --scale 0 --auto_tuner_json= x.py", {"PADDLE_AUTO_CLUSTER": "0"})
    assert made.notes == ()


def test_the_built_in_test_of_paddle_is_refused() -> None:
    assert problems("run_check") == ["UM-LAUNCH-116"]
    assert options("./run_check").program == ("./run_check",)


def test_legacy_changes_nothing_and_says_so() -> None:
    made = ask("--legacy True x.py")
    assert made.notes == ("--legacy True changes nothing: the flags of the old launchers are always understood",)
    assert ask("--legacy False x.py").notes == ()


def test_topology() -> None:
    assert options("--use_paddlecloud x.py").topology == "paddlejob"
    assert options("--use_paddlecloud --topology PaddleJob x.py").topology == "paddlejob"
    assert options("--use_paddlecloud False x.py").topology is None
    assert problems("--use_paddlecloud --topology slurm x.py") == ["UM-LAUNCH-119"]
    made = ask("--use_paddlecloud x.py", {"UMIAK_TOPOLOGY": "slurm"})
    assert made.options.topology == "paddlejob"
    assert made.notes == ("--use_paddlecloud is used; the environment says UMIAK_TOPOLOGY=slurm",)


def test_all_problems_at_once() -> None:
    line = "--nnode 2 --rank two --master 10.0.0.1 --ips a,a --devices 0-1 --server_num 1 --run_mode rpc --job_id a/b"
    assert sorted(problems(line)) == [
        "UM-CLI-001",
        "UM-CLI-003",
        "UM-LAUNCH-101",
        "UM-LAUNCH-103",
        "UM-LAUNCH-106",
        "UM-LAUNCH-108",
        "UM-LAUNCH-110",
        "UM-LAUNCH-115",
    ]


# The configuration block
