"""What torchrun's flags and PET_ variables mean: in umiak's terms, with torchrun's defaults, or told that they mean nothing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pytest

from umiak.core.cluster import Placement
from umiak.core.devices import DeviceKind
from umiak.core.problem import UmiakError
from umiak.launch.command_line import torchrun, torchrun_flags
from umiak.launch.command_line.reading import Request, read
from umiak.launch.events import Discovery
from umiak.launch.options import LaunchOptions, ProgramStart, Tee
from umiak.launch.plan import Local, plan
from umiak.launch.supervisor import command_for

NO_ENVIRON: Mapping[str, str] = {}
ALONE: dict[str, object] = {"most_nodes": 1, "workers_per_node": 1, "max_restart": 0, "restart_wanted": False}


def ask(line: str, environ: Mapping[str, str] = NO_ENVIRON) -> Request:
    return read(shlex.split(line), environ)


def options(line: str, environ: Mapping[str, str] = NO_ENVIRON) -> LaunchOptions:
    return ask(line, environ).options


def codes(line: str, environ: Mapping[str, str] = NO_ENVIRON) -> list[str]:
    with pytest.raises(UmiakError) as caught:
        ask(line, environ)
    assert all(problem.hint for problem in caught.value.problems)
    return [problem.code for problem in caught.value.problems]


def fields(made: LaunchOptions, expected: Mapping[str, object]) -> dict[str, object]:
    return {name: getattr(made, name) for name in expected}


# Every flag of torchrun 2.15 with a value, and what it makes of the options.
TABLE: list[tuple[str, dict[str, object]]] = [
    ("--nnodes 2:4 --rdzv-backend c10d", {"least_nodes": 2, "most_nodes": 4, "master": "localhost:29400"}),
    ("--nproc-per-node 4", {"workers_per_node": 4, "workers_word": None}),
    ("--nproc-per-node auto", {"workers_per_node": None, "workers_word": "auto"}),
    ("--nproc-per-node gpu", {"workers_word": "gpu"}),
    ("--nproc-per-node xpu", {"workers_word": "xpu"}),
    ("--nproc-per-node cpu", {"workers_word": "cpu", "devices_shared": True}),
    ("--standalone", {**ALONE, "topology": "none", "master": None, "nodes_said": True, "tee": Tee.ALL}),
    ("--nnodes 2 --node-rank 1 --master-addr h", {"rank": 1, "rank_leads": True}),
    ("--nnodes 2 --master-addr 10.0.0.1", {"master": "10.0.0.1:19500", "store_port": 29500, "most_nodes": 2}),
    ("--nnodes 2 --master-addr h --master-port 1234", {"master": "h:11234", "store_port": 1234}),
    ("--master-port 1234", {**ALONE, "master": None, "store_port": 1234}),
    ("--master-addr 127.0.0.1", {**ALONE, "master": None, "store_port": None}),
    ("--nnodes 2 --rdzv-endpoint h:29600", {"master": "h:19600", "store_port": 29600, "rank_leads": True}),
    (
        "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint h",
        {"master": "h:29400", "store_port": None, "rank_leads": False},
    ),
    ("--nnodes 2 --rdzv-backend c10d --rdzv-endpoint [::1]:99", {"master": "[::1]:99"}),
    ("--rdzv-backend c10d --rdzv-endpoint localhost:0", {**ALONE, "master": None}),
    ("--nnodes 2 --rdzv-backend etcd --rdzv-endpoint e:2380", {"master": "etcd://e:2380"}),
    ("--nnodes 2 --rdzv-backend etcd-v2 --rdzv-endpoint e", {"master": "etcd://e:2379"}),
    ("--rdzv-id ctr-7", {"job_id": "ctr-7"}),
    ("--rdzv-conf join_timeout=60,last_call_timeout=3", {"join_timeout_s": 60.0, "elastic_timeout_s": 3.0}),
    ("--rdzv-conf timeout=900", {"join_timeout_s": 900.0}),
    ("--rdzv-conf keep_alive_interval=2", {"heartbeat_timeout_s": 6.0}),
    ("--rdzv-conf keep_alive_interval=2,keep_alive_max_attempt=5", {"heartbeat_timeout_s": 10.0}),
    ("--rdzv-conf is_host=1", {"is_host": True}),
    ("--rdzv-conf is_host=false", {"is_host": False}),
    ("--rdzv-conf store_type=tcp", {"is_host": None}),
    ("--local-addr 10.0.0.2", {"host": "10.0.0.2"}),
    ("--max-restarts 3", {"max_restart": 3, "restart_wanted": True}),
    ("--role reader", {"role_name": "reader"}),
    ("--module", {"is_module": True}),
    ("--no-python", {"runner": ProgramStart.DIRECT}),
    ("--run-path", {"runner": ProgramStart.PYTHON}),
    ("--run-path --no-python", {"runner": ProgramStart.PYTHON}),
    ("--log-dir out", {"log_dir": "out"}),
    ("-r 3", {"tee": Tee.NONE, "tee_except": ()}),
    ("-r3", {"tee": Tee.NONE}),
    ("--redirects 1:3", {"tee": Tee.ALL, "tee_except": (1,)}),
    ("-r 3 -t 0:3", {"tee": Tee.NONE, "tee_except": (0,)}),
    ("-t 3", {"tee": Tee.ALL, "tee_except": ()}),
    ("--tee 0:3", {"tee": Tee.ALL, "tee_except": ()}),
    ("-r 3 --tee all", {"tee": Tee.ALL}),
    ("--local-ranks-filter 0,2", {"tee": Tee.NONE, "tee_except": (0, 2)}),
    ("-r 0:3 --local-ranks-filter 0,2", {"tee": Tee.NONE, "tee_except": (2,)}),
    ("--standalone --tee 0 --local-ranks-filter 0,2", {"tee": Tee.NONE, "tee_except": (0,)}),
    ("--shutdown-timeout 90", {"grace_s": 90.0, "failure_grace_s": 90.0}),
    ("--signals-to-handle SIGTERM,SIGINT", {"signals": "SIGTERM,SIGINT"}),
]


@pytest.mark.parametrize(("line", "expected"), TABLE)
def test_each_flag(line: str, expected: dict[str, object]) -> None:
    for spelling in (line, line.replace("-per-node", "_per_node"), _underscored(line)):
        assert fields(options(f"{spelling} x.py"), expected) == expected


def _underscored(line: str) -> str:
    words = [f"--{word[2:].replace('-', '_')}" if word.startswith("--") else word for word in line.split()]
    return " ".join(words)


# By variable: PET_ and the flag's name.
BY_VARIABLE: list[tuple[dict[str, str], dict[str, object]]] = [
    ({"PET_NNODES": "2:4", "PET_NPROC_PER_NODE": "2"}, {"least_nodes": 2, "most_nodes": 4, "workers_per_node": 2}),
    ({"PET_STANDALONE": "1"}, {**ALONE, "topology": "none"}),
    ({"PET_STANDALONE": "0"}, {"workers_per_node": 1}),
    (
        {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "h", "PET_MASTER_PORT": "29500"},
        {"rank": 1, "master": "h:19500", "store_port": 29500},
    ),
    (
        {"PET_NNODES": "2", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "h:99", "PET_RDZV_ID": "j"},
        {"master": "h:99", "job_id": "j"},
    ),
    ({"PET_MAX_RESTARTS": "2"}, {"max_restart": 2, "restart_wanted": True}),
    ({"PET_RDZV_CONF": "join_timeout=7"}, {"join_timeout_s": 7.0}),
    ({"PET_MODULE": "1"}, {"is_module": True}),
    ({"PET_NO_PYTHON": "1"}, {"runner": ProgramStart.DIRECT}),
    ({"PET_LOG_DIR": "out", "PET_TEE": "3", "PET_ROLE": "r"}, {"log_dir": "out", "tee": Tee.ALL, "role_name": "r"}),
    ({"PET_LOCAL_ADDR": "10.0.0.9", "PET_REDIRECTS": "3"}, {"host": "10.0.0.9", "tee": Tee.NONE}),
    ({"PET_LOCAL_RANKS_FILTER": "1"}, {"tee": Tee.NONE, "tee_except": (1,)}),
    ({"PET_RUN_PATH": "1", "PET_SHUTDOWN_TIMEOUT": "9"}, {"runner": ProgramStart.PYTHON, "grace_s": 9.0}),
    ({"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "9"}, {"grace_s": 9.0}),
    ({"PET_SIGNALS_TO_HANDLE": "SIGTERM"}, {"signals": "SIGTERM"}),
]


@pytest.mark.parametrize(("environ", "expected"), BY_VARIABLE)
def test_variables_fill_in_missing_flags(environ: dict[str, str], expected: dict[str, object]) -> None:
    assert fields(options("x.py", environ), expected) == expected


def test_flags_beat_variables() -> None:
    made = ask("--max-restarts 1 --rdzv-id mine x.py", {"PET_MAX_RESTARTS": "5", "PET_RDZV_ID": "other"})
    assert (made.options.max_restart, made.options.job_id) == (1, "mine")
    assert "--max-restarts 1 is used; the environment says PET_MAX_RESTARTS=5" in made.notes


IGNORED = {
    "--monitor-interval 5": "--monitor-interval 5",
    "--start-method fork": "--start-method fork",
    "--event-log-handler console": "--event-log-handler console",
    "--log-line-prefix-template '${rank}: '": "--log-line-prefix-template ${rank}:",
    "--duplicate-stdout-filters a,b": "--duplicate-stdout-filters a,b",
    "--duplicate-stderr-filters a,b": "--duplicate-stderr-filters a,b",
    "--logs-specs mine": "--logs-specs mine",
    "--numa-binding node": "--numa-binding node",
}


@pytest.mark.parametrize(("line", "spoken"), IGNORED.items())
def test_what_means_nothing_here_is_accepted_and_said(line: str, spoken: str) -> None:
    (note,) = ask(f"{line} x.py").notes
    assert note.startswith(f"{spoken} changes nothing: ")


def test_every_row_of_the_table_is_tried_here() -> None:
    tried = " ".join([*(line for line, _ in TABLE), *IGNORED])
    names = {flag.name for flag in torchrun_flags.FLAGS if not flag.refused}
    assert [name for name in sorted(names) if f"--{name.replace('_', '-')}" not in tried] == []
    assert {name for flag in torchrun_flags.FLAGS if flag.ignored for name in [flag.name]} == {
        line.split()[0][2:].replace("-", "_") for line in IGNORED
    }


def test_what_is_not_used_with_a_backend_is_said() -> None:
    made = ask("--nnodes 2 --rdzv-backend c10d --rdzv-endpoint h --node-rank 1 --master-port 5 x.py")
    assert made.options.rank is None
    assert [note.split(" is not used")[0] for note in made.notes] == ["--node-rank 1", "--master-port 5"]
    (note,) = ask("--standalone --rdzv-id 7 x.py").notes
    assert note.startswith("--rdzv-id 7 is not used")
    assert options("--standalone --rdzv-id 7 x.py").job_id == "default"


def test_streams_are_not_told_apart() -> None:
    (note,) = ask("-r 1 x.py").notes
    assert "stdout and stderr of a worker are one here" in note


def test_zero_for_tee_is_ours() -> None:
    assert (options("--tee 0 x.py").tee, ask("--tee 0 x.py").notes) == (Tee.FIRST, ())
    made = ask("--standalone --tee 0 x.py")
    assert made.options.tee is Tee.FIRST
    assert "torchrun's 0 is --tee all" in made.notes[0]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("--rank 0 --node-rank 1 --nnodes 2 --master-addr h", "UM-LAUNCH-160"),
        ("--host a --local-addr b", "UM-LAUNCH-160"),
        ("--nnodes 2 --master a:1 --rdzv-backend c10d --rdzv-endpoint b:1", "UM-LAUNCH-160"),
        ("--standalone --nnodes 2", "UM-LAUNCH-161"),
        ("--nnodes 2 --rdzv-backend etcd", "UM-LAUNCH-162"),
        ("--nnodes 2 --rdzv-backend c10d --rdzv-endpoint h:0", "UM-LAUNCH-162"),
        ("--nnodes 2 --rdzv-backend c10d --rdzv-endpoint h:port", "UM-LAUNCH-162"),
        ("--nnodes 2 --master-addr 'h;x'", "UM-LAUNCH-162"),
        ("--rdzv-conf join_timeout", "UM-LAUNCH-163"),
        ("--rdzv-conf join_timeout=soon", "UM-LAUNCH-163"),
        ("--rdzv-conf store_type=file", "UM-LAUNCH-164"),
        ("--rdzv-conf protocol=https", "UM-LAUNCH-164"),
        ("--no-python -m", "UM-LAUNCH-165"),
        ("--signals-to-handle SIGUSR1", "UM-LAUNCH-166"),
        ("--tee maybe", "UM-LAUNCH-168"),
        ("-r 4", "UM-LAUNCH-168"),
        ("--local-ranks-filter one", "UM-LAUNCH-168"),
        ("--virtual-local-rank", "UM-LAUNCH-116"),
        ("--print-completion bash", "UM-LAUNCH-116"),
        ("--rdzv-backend zookeeper", "UM-CLI-003"),
        ("--nproc-per-node many", "UM-CLI-003"),
    ],
)
def test_what_would_change_the_meaning_is_an_error(line: str, code: str) -> None:
    assert codes(f"{line} x.py") == [code]


def test_a_macro_of_torchrun_is_an_error() -> None:
    assert codes("--standalone x.py --rank '${local_rank}'") == ["UM-LAUNCH-167"]
    assert options("--nproc_per_node 2 x.py --rank '${local_rank}'").program[-1] == "${local_rank}"


# ---- defaults


def test_torchruns_defaults_hold_beside_its_flags_only() -> None:
    ours = options("--nnodes 1:2 --master h:1 x")
    theirs = options("--nnodes 1:2 --rdzv-backend c10d --rdzv-endpoint h:1 x")
    expected: dict[str, tuple[object, object]] = {
        "workers_per_node": (None, 1),
        "max_restart": (3, 0),
        "restart_wanted": (True, True),
        "runner": (ProgramStart.BY_NAME, ProgramStart.PYTHON),
        "tee": (Tee.FIRST, Tee.ALL),
        "keep_proxy": (False, True),
        "devices_shared": (False, True),
    }
    assert {name: (getattr(ours, name), getattr(theirs, name)) for name in expected} == expected


def test_flags_of_both_launchers_leave_the_defaults_alone() -> None:
    made = options("--nnodes 2 --nproc-per-node 2 --log-dir out x.py")
    assert (made.max_restart, made.tee, made.keep_proxy) == (3, Tee.FIRST, False)


def test_proxies_can_be_hidden_beside_torchruns_flags() -> None:
    assert options("--standalone --keep_proxy=False x.py").keep_proxy is False
    assert options("--standalone x.py", {"UMIAK_KEEP_PROXY": "0"}).keep_proxy is False


def test_a_module_may_be_announced_before_other_flags() -> None:
    for line in (
        "-m --nproc-per-node 2 a.b --lr 1",
        "--module --nproc-per-node 2 a.b --lr 1",
        "--nproc-per-node 2 -m a.b --lr 1",
    ):
        made = options(line)
        assert (made.is_module, made.program, made.workers_per_node) == (True, ("a.b", "--lr", "1"), 2)


# ---- inside other launchers


@pytest.mark.parametrize("mark", ["UMIAK_RANK", "TORCHELASTIC_RUN_ID", "PADDLE_LOCAL_RANK"])
def test_variables_of_an_outer_launch_are_not_flags_of_this_one(mark: str) -> None:
    made = options("x.py", {mark: "0", "PET_NNODES": "4", "PET_RDZV_ENDPOINT": "h:1", "PET_RDZV_BACKEND": "c10d"})
    assert (made.most_nodes, made.nodes_said, made.master) == (1, False, None)


# ---- ports


@pytest.mark.parametrize("port", [1, 1234, 9999, 10000, 19999, 20000, 29500, 40000, 65535])
def test_launchers_meet_at_another_port_than_the_store(port: int) -> None:
    assert 1 <= torchrun.rendezvous_port(port) <= 65535
    assert torchrun.rendezvous_port(port) != port
    assert torchrun.rendezvous_port(port) not in range(port - 100, port + 100)


HERE = Local(addresses=("127.0.0.1", "10.0.0.2"))
STATIC = "--nnodes 2 --node-rank {} --master-addr {} --master-port 29500 x.py"


def test_node_0_leads_and_has_the_store_whatever_the_address_is() -> None:
    service = plan(options(STATIC.format(0, "service")), None, HERE)
    assert (service.may_lead, service.own_store_port, service.rank) == (True, 29500, 0)
    other = plan(options(STATIC.format(1, "10.0.0.2")), None, HERE)
    assert (other.may_lead, other.own_store_port, other.rank) == (False, None, 1)
    assert (other.master_host, other.master_port) == ("10.0.0.2", 19500)


def test_without_a_rank_the_node_with_the_address_leads() -> None:
    line = "--nnodes 2 --master-addr {} x.py"
    assert plan(options(line.format("10.0.0.2")), None, HERE).own_store_port == 29500
    assert plan(options(line.format("10.0.0.1")), None, HERE).own_store_port is None


@pytest.mark.parametrize(
    ("conf", "leads"), [("", True), ("--rdzv-conf is_host=0", False), ("--rdzv-conf is_host=1", True)]
)
def test_with_c10d_the_node_with_the_address_leads_unless_it_is_told(conf: str, leads: bool) -> None:
    made = options(f"--nnodes 2 --rdzv-backend c10d --rdzv-endpoint 10.0.0.2:29400 {conf} x.py")
    assert plan(made, None, HERE).may_lead is leads
    assert plan(made, None, HERE).own_store_port is None


def test_one_node_of_torchruns_is_alone_on_any_platform() -> None:
    made = options("--max-restarts 1 x.py")
    assert made.topology == "none"
    assert plan(made, Placement(platform="slurm", reason="", nodes=4, rank=2), HERE).discovery is Discovery.ALONE


# ---- how many workers


@pytest.mark.parametrize(
    ("word", "kind", "expected"),
    [
        ("auto", DeviceKind.GPU, 4),
        ("auto", None, 6),
        ("cpu", DeviceKind.GPU, 6),
        ("gpu", DeviceKind.GPU, 4),
        ("gpu", DeviceKind.DCU, 4),
        ("xpu", DeviceKind.XPU, 4),
    ],
)
def test_words_for_the_number_of_workers(word: str, kind: DeviceKind | None, expected: int) -> None:
    local = Local(addresses=(), devices=4 if kind else None, device_kind=kind, cpus=6)
    assert plan(options(f"--nproc-per-node {word} x.py"), None, local).trainers == expected


@pytest.mark.parametrize(("word", "kind"), [("gpu", None), ("gpu", DeviceKind.NPU), ("xpu", DeviceKind.GPU)])
def test_devices_that_are_not_there_are_not_counted(word: str, kind: DeviceKind | None) -> None:
    local = Local(addresses=(), devices=4 if kind else None, device_kind=kind, cpus=6)
    with pytest.raises(UmiakError) as caught:
        plan(options(f"--nproc-per-node {word} x.py"), None, local)
    assert [problem.code for problem in caught.value.problems] == ["UM-LAUNCH-345"]


# ---- what is executed


def test_how_a_program_is_started() -> None:
    def words(line: str) -> tuple[str, ...]:
        made = options(line)
        return command_for(made.program, is_module=made.is_module, runner=made.runner)[1:]

    assert words("--standalone train --lr 1") == ("-u", "train", "--lr", "1")
    assert words("--standalone --no-python train.py 1") == ("1",)
    assert words("--standalone -m a.b") == ("-u", "-m", "a.b")


def test_the_command_for_other_nodes_has_no_words_of_this_one() -> None:
    environ = {"PET_STANDALONE": "0", "PET_NODE_RANK": "0", "PET_MAX_RESTARTS": "2"}
    made = options("--nnodes 2 --local-addr 10.0.0.1 --node-rank 0 -m a.b --x", environ)
    assert "10.0.0.1" not in made.program_argv
    assert "--node-rank" not in made.program_argv
    again = options(shlex.join(["--master", "h:1", *made.program_argv]))
    assert (again.program, again.is_module, again.max_restart, again.most_nodes) == (("a.b", "--x"), True, 2, 2)
