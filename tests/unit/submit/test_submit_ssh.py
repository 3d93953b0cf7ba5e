"""What the place of ssh hosts decides: its settings, which host starts what, how a job is that many hosts speak of."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import eventually, is_running
from umiak import platforms
from umiak.adapters import process
from umiak.core.bundle import shown
from umiak.core.cluster import Role
from umiak.core.job import FileSet, FrameworkName, Job, Replicas, RoleSpec
from umiak.core.problem import UmiakError
from umiak.core.status import JobStatus, NodeStatus, State
from umiak.core.value import replace
from umiak.schema.findings import Findings
from umiak.submit import configuration, places
from umiak.submit.backends.ssh import backend, bootstrap, checks, joined, plan, settings
from umiak.submit.backends.ssh.early_sockets import EarlySockets
from umiak.submit.backends.ssh.joined import HostOutput
from umiak.submit.flow import Flow
from umiak.submit.node import plan as node_plans
from umiak.submit.payload import launcher_file
from umiak.submit.states import state_of

CONFIG = """
# hosts of the lab
Host node0
  HostName 10.0.0.1
Host node1
  HostName 10.0.0.2
  Port 2222
Host gate !node*
  User me
Host *
  User root
"""


def said(hosts: str, more: str = "", config: str = CONFIG) -> tuple[settings.SshSettings, list[str]]:
    text = f'[place.lab]\nbackend = "ssh"\nhosts = {hosts}\n{more}'
    place = places.read([("umiak.toml", text)], ["ssh", "local"]).places["lab"]
    findings = Findings()
    found = settings.read(place.settings, "lab", findings, config)
    return found, [f"{each.where} {each.code} {each.what}" for each in findings.problems]


def two() -> settings.SshSettings:
    return said('["node*"]')[0]


def replicas(count: int, most: int = 0) -> Replicas:
    return Replicas(least=count, most=most or count)


TRAINERS = RoleSpec(nodes=replicas(2))
SERVERS = RoleSpec(role=Role.SERVER, nodes=replicas(2))


def job(*roles: RoleSpec) -> Job:
    return Job(name="ctr", command=("train.py", "--lr", "0.1"), roles=roles or (TRAINERS,))


# ---- settings


def test_hosts_are_names_addresses_and_patterns() -> None:
    found, problems = said('["node*", "me@10.0.0.9:22", "[fe80::1]:2222"]')
    assert problems == []
    assert [each.label for each in found.hosts] == ["node0", "node1", "10.0.0.9:22", "fe80::1:2222"]
    assert [each.address for each in found.hosts] == ["10.0.0.1", "10.0.0.2", "10.0.0.9", "fe80::1"]
    assert (found.hosts[2].user, found.hosts[2].port) == ("me", 22)
    assert found.hosts[3].directory_name == "fe80__1_2222"


def test_everything_that_is_wrong_with_a_place_is_told_at_once() -> None:
    _, problems = said('["node0", "node0", "gpu*"]', 'addresses = ["a"]\npassword = "x"\nparallel = 0\n')
    assert [each.split()[:2] for each in problems] == [
        ["umiak.toml:3:1", "UM-SUBMIT-100"],
        ["umiak.toml:3:1", "UM-SUBMIT-100"],
        ["umiak.toml:4:1", "UM-SUBMIT-100"],
        ["umiak.toml:5:1", "UM-CONFIG-012"],
        ["umiak.toml:6:1", "UM-CONFIG-014"],
    ]
    assert "expected a host, got a b" in said('["a b"]')[1][0]
    assert "hosts is missing" in said("[]")[1][0] or "at least one host" in said("[]")[1][0]


def test_the_part_of_an_ssh_config_that_is_about_one_host() -> None:
    assert settings.config_for("node1", CONFIG) == "Host *\n  HostName 10.0.0.2\n  Port 2222\nHost *\n  User root\n"
    assert settings.config_of("gate", CONFIG) == {"user": "me"}
    for line in ("Include other", "ProxyJump gate"):
        assert settings.config_for("node1", f"{CONFIG}\n{line}\n") is None


# ---- which host starts what


def placements(made: Job, found: settings.SshSettings) -> list[tuple[str, Any]]:
    plans = plan.plans_of(made, "ctr-1", found, plan.KnownAtStart(port="4242", files="", devices=(0, 0)))
    rows = []
    for each in plans:
        for index in range(len(each.plan.launchers)):
            outer = {"UMIAK_RANK": "1", "UMIAK_JOB_ID": "outer", "UMIAK_NNODES": "9"}
            environ = node_plans.environment(each.plan, index, inherited=outer, master="")
            rows.append((each.host.label, platforms.detect(environ)))
    return rows


def test_what_is_written_for_a_node_is_what_it_detects() -> None:
    """The law of backends."""
    rows = placements(job(), two())
    assert [label for label, _ in rows] == ["node0", "node1"]
    for rank, (_, found) in enumerate(rows):
        assert (found.platform, found.nodes, found.rank, found.role) == ("umiak", 2, rank, None)
        assert found.hosts == ("10.0.0.1", "10.0.0.2")
        assert (found.master, found.host) == ("10.0.0.1:4242", found.hosts[rank])
    ((_, alone),) = placements(job(RoleSpec()), two())
    assert (alone.nodes, alone.rank, alone.master) == (1, 0, None)


def test_servers_come_first_and_hosts_are_used_again_if_there_are_too_few() -> None:
    rows = placements(job(TRAINERS, SERVERS), two())
    assert [(label, found.rank, found.role.value) for label, found in rows] == [
        ("node0", 0, "server"),
        ("node0", 2, "trainer"),
        ("node1", 1, "server"),
        ("node1", 3, "trainer"),
    ]
    assert {found.master for _, found in rows} == {"10.0.0.1:4242"}
    plans = plan.plans_of(job(SERVERS, TRAINERS), "ctr-1", two(), plan.KnownAtStart(files="f"))
    assert [node.directory for _, node in plans[0].nodes] == ["work-server-0", "work-trainer-0"]


def test_an_elastic_job_takes_the_hosts_that_there_are() -> None:
    rows = placements(job(RoleSpec(nodes=replicas(1, 8))), two())
    assert [(label, found.nodes, found.rank, found.master) for label, found in rows] == [
        ("node0", None, None, "10.0.0.1:4242"),
        ("node1", None, None, "10.0.0.1:4242"),
    ]


def test_ranks_follow_from_workers_or_from_the_devices_of_the_hosts() -> None:
    known = plan.KnownAtStart(port="1", files="", devices=(4, 8))
    plans = plan.plans_of(job(), "ctr-1", two(), known)
    assert [each.plan.launchers[0].first_rank for each in plans] == [0, 4]
    plans = plan.plans_of(job(replace(TRAINERS, workers=3)), "ctr-1", two(), known)
    assert [each.plan.launchers[0].first_rank for each in plans] == [0, 3]


def test_a_dry_run_asks_no_host(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    text = '[place.lab]\nbackend = "ssh"\nhosts = ["node0.invalid"]\npassword_from = "LAB"'
    (tmp_path / "umiak.toml").write_text(text)
    made = job(RoleSpec(command=("train.py",)))
    for environ, codes in (({"LAB": "x"}, []), ({}, ["UM-SUBMIT-114"])):
        flow = Flow(configuration.context({"HOME": str(tmp_path), **environ}, str(tmp_path)))
        found = flow.dry_run(made, flow.place("lab"))
        assert [each.code for each in found.missing] == codes
    with pytest.raises(UmiakError) as refused:
        flow.dry_run(job(RoleSpec(command=("other.py",))), flow.place("lab"))
    assert [each.code for each in refused.value.problems] == ["UM-SUBMIT-020"]


def test_what_a_dry_run_prints(tmp_path: Path) -> None:
    made = replace(job(RoleSpec()), env=(("A", "1"),), secrets=("PASSPORT",), files=FileSet(root="."))
    context = configuration.context({"HOME": str(tmp_path), "PASSPORT": "k5-Wq81zTtrr"}, str(tmp_path))
    place = places.read([("umiak.toml", '[place.lab]\nbackend = "ssh"\nhosts = ["me@node0"]')], ["ssh"]).places["lab"]
    printed = shown(backend.make(place, context).render(made, "ctr-dry-run"))
    assert (
        printed
        == """\
# file node0:~/.umiak/runs/ctr-dry-run/node0/plan.json, mode 600
{
 "run_id": "ctr-dry-run",
 "directory": ".",
 "time_limit_s": null,
 "machines": ["node0"],
 "is_elastic": false,
 "launchers": [
  {"name": "node-0", "argv": ["{python}", "{launcher}", "-m", "umiak.submit.payload.node_start", "node-0.json"], \
"env": [], "role": null, "first_rank": null, "placement": [["UMIAK_NNODES", "1"], ["UMIAK_NODE_RANK", "0"]], "node": "node0"}
 ]
}

# file node0:~/.umiak/runs/ctr-dry-run/node0/node-0.json, mode 600
{
 "run_id": "ctr-dry-run",
 "directory": "work",
 "launch": [
  "--tee",
  "none",
  "--log_dir",
  "../log/node-0",
  "--grace",
  "600",
  "--job_id",
  "ctr-dry-run",
  "--",
  "train.py",
  "--lr",
  "0.1"
 ],
 "env": [
  [
   "A",
   "1"
  ]
 ],
 "files": {
  "digest": "<known at start: hash of the files>",
  "store": "../../../files",
  "archive": "",
  "url": ""
 },
 "inputs": [],
 "outputs": [],
 "secrets_file": "",
 "only_data": false,
 "stop_signals": []
}

# request
over ssh, at once, to node0:
python3 gets the job's files (once per content hash) and the launcher's file, unless they are there, writes the files above, \
and starts a supervisor
through standard input: UMIAK_TOKEN, PASSPORT (values are not shown)

# placeholders, for what this plan can't know
<known at start: hash of the files>
"""
    )


# ---- checks


def test_everything_that_is_wrong_with_a_host_is_told_at_once() -> None:
    host = two().hosts[0]
    facts = checks.HostFacts(
        now_s=1000.0, asked_s=900.0, free_bytes=1 << 40, unwritable="Read-only file system", import_error="no paddle"
    )
    found = checks.of_host(host, facts, FrameworkName.PADDLE, 1)
    assert [each.code for each in found] == ["UM-SUBMIT-109", "UM-SUBMIT-108", "UM-SUBMIT-110"]
    assert all(each.what.startswith("node0: ") for each in found)
    full = replace(facts, free_bytes=0, import_error="", now_s=900.0)
    assert [each.code for each in checks.of_host(host, full, FrameworkName.NONE, 1)] == ["UM-SUBMIT-107"]
    assert [each.code for each in checks.of_job(job(RoleSpec(nodes=replicas(3))), two())] == ["UM-SUBMIT-112"]
    assert checks.of_job(job(SERVERS, TRAINERS), two()) == []


# ---- states


def of(state: State, code: int | None = None, ended_s: float = 9.0) -> JobStatus:
    return JobStatus(state=state, exit_code=code, ended_s=ended_s if state.is_over else None)


R, S, F, C, L = State.RUNNING, State.SUCCEEDED, State.FAILED, State.CANCELLED, State.LOST
GONE = "gone"
AWAY, LONG = "no answer", "long"


@pytest.mark.parametrize(
    ("hosts", "expected", "is_named"),
    [
        ((R, R), R, False),
        ((R, S), R, False),
        ((State.STARTING, R), State.STARTING, False),
        ((S, S), S, False),
        ((S, F), F, False),
        ((F, R), State.STOPPING, False),
        ((C, C), C, False),
        ((C, F), F, False),
        ((L, S), L, True),
        ((L, R), State.STOPPING, True),
        ((L, F), F, True),
        ((GONE, S), L, True),
        ((AWAY, R), R, True),
        ((AWAY, S), R, True),
        ((AWAY, F), F, True),
        ((AWAY, AWAY), R, True),
        ((LONG, S), L, True),
        ((LONG, R), State.STOPPING, True),
        ((LONG, LONG), L, True),
    ],
)
def test_how_a_job_is_that_many_hosts_speak_of(hosts: tuple[Any, Any], expected: State, is_named: bool) -> None:
    rows = []
    for number, each in enumerate(hosts):
        label = f"node{number}"
        if isinstance(each, State):
            rows.append(HostOutput(label=label, status=of(each, 7 if each is F else 0)))
        else:
            why = "" if each is GONE else AWAY
            rows.append(HostOutput(label=label, unreachable=why, is_unreachable_long=each is LONG))
    found = joined.status_of(rows)
    assert found.state is expected
    assert state_of("ssh", found.said) is expected
    assert ("node0" in found.reason) is is_named
    assert found.exit_code == (7 if expected is F else 0 if expected in (S, C) else None)


@pytest.mark.parametrize(
    ("hosts", "expected", "rows"),
    [
        ((S, S, AWAY), S, (S, S, L)),
        ((S, AWAY, AWAY), S, (S, L, L)),
        ((S, S, LONG), S, (S, S, L)),
        ((S, S, GONE), S, (S, S, L)),
        ((S, S, L), S, (S, S, L)),
        ((S, S, F), S, (S, S, F)),
        ((S, R, AWAY), R, (S, R, R)),
        ((R, R, AWAY), R, (R, R, R)),
        ((R, R, LONG), R, (R, R, L)),
        ((R, R, GONE), R, (R, R, L)),
        ((R, R, L), R, (R, R, L)),
        ((R, R, F), R, (R, R, F)),
        ((F, F, AWAY), F, (F, F, L)),
        ((F, F, LONG), F, (F, F, L)),
        ((C, C, AWAY), C, (C, C, L)),
        ((C, R, AWAY), State.STOPPING, (C, R, R)),
        ((L, L, L), L, (L, L, L)),
        ((GONE, GONE, LONG), L, (L, L, L)),
        ((AWAY, AWAY, AWAY), R, (R, R, R)),
    ],
)  # fmt: skip
def test_an_elastic_job_is_decided_by_the_launchers_that_are_left(
    hosts: tuple[Any, ...], expected: State, rows: tuple[State, ...]
) -> None:
    given = []
    for number, each in enumerate(hosts):
        label = f"node{number}"
        if isinstance(each, State):
            status = of(each, 7 if each is F else 0)
            status = replace(status, nodes=(NodeStatus(name=label, state=each),))
            given.append(HostOutput(label=label, status=status, is_elastic=True))
        else:
            away = "" if each is GONE else AWAY
            given.append(HostOutput(label=label, unreachable=away, is_unreachable_long=each is LONG, is_elastic=True))
    found = joined.status_of(given)
    assert found.state is expected
    assert tuple(node.state for node in found.nodes) == rows
    assert found.exit_code == (7 if expected is F else 0 if expected in (S, C) else None)


def test_a_host_that_heard_of_the_cancel_from_another_is_cancelled_as_well() -> None:
    for state, code in ((C, 143), (F, 7)):
        outputs = [HostOutput(label="a", status=of(C, 143)), HostOutput(label="b", status=of(F, code))]
        assert joined.status_of(outputs).state is state


def test_a_host_that_cannot_be_reached_is_lost_after_the_time_that_the_place_allows() -> None:
    away = HostOutput(label="b", unreachable=AWAY)
    (node,) = joined.status_of([HostOutput(label="a", status=of(R)), away]).nodes
    assert (node.state, node.reason) == (R, "unreachable: no answer")
    (node,) = joined.status_of([HostOutput(label="a", status=of(R)), replace(away, is_unreachable_long=True)]).nodes
    assert node.state is L


def test_the_exit_code_is_that_of_the_node_that_failed_first() -> None:
    rows = [HostOutput(label="a", status=of(F, 1, 20.0)), HostOutput(label="b", status=of(F, 9, 10.0))]
    assert joined.status_of(rows).exit_code == 9


# ---- the agent, without ssh


class Agent:
    """The real one, at the other end of a pipe."""

    def __init__(self, home: Path, first: str = "") -> None:
        launcher = launcher_file.find()
        self.process = subprocess.Popen(
            ["sh", "-c", bootstrap.command(sys.executable)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"HOME": str(home), "PATH": os.defpath},
        )
        assert self.process.stdin
        self.process.stdin.write(
            f"{bootstrap.first_line(launcher.sha256, launcher.size_bytes, '~/u')}\n{first}\n".encode()
        )
        self.process.stdin.flush()
        said = self.answer()
        self.is_sent = said == {"needs_launcher": True}
        if self.is_sent:
            self.process.stdin.write(Path(launcher.path).read_bytes())
            self.process.stdin.flush()
            said = self.answer()
        assert said == {"ready": True}

    def ask(self, question: dict[str, Any]) -> Any:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


def test_an_agent_starts_a_run_once_and_gives_back_its_token(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    assert agent.is_sent
    here = {"run": "ctr-1", "host": "node0"}
    assert agent.ask({"do": "status", **here})["status"] is None
    assert agent.ask({"do": "check", "wants_port": True})["port"]
    assert agent.ask(_hold("import time; print('hello'); time.sleep(600)")) == {"is_started": False}
    assert not (tmp_path / "u/runs/ctr-1/node0/supervisor.json").exists()
    assert agent.ask({"do": "go"}) == {"said": "started"}
    assert agent.ask({"do": "go"})["why"].startswith("nothing was made ready")
    agent.close()  # what it has started goes on
    agent = Agent(tmp_path)
    assert not agent.is_sent
    again = agent.ask(_hold(""))
    assert (again["is_started"], again["token"]) == (True, "t" * 32)
    told = agent.ask({"do": "status", **here})
    assert (told["status"]["state"] in ("starting", "running"), told["machines"]) == (True, ["node0"])
    assert agent.ask({"do": "cancel", **here, "grace_s": 0}) == {}
    assert agent.ask({"do": "status", **here})["status"]["state"] == "cancelled"
    assert not (tmp_path / "u/runs/ctr-1/node0/token.json").exists()
    assert agent.ask({"do": "list"}) == {"runs": ["ctr-1"]}
    assert sorted(agent.ask({"do": "clean", "older_than_s": 0})["removed"])[-1] == "runs/ctr-1/node0"
    assert "errno" in agent.ask({"do": "status", "run": "../..", "host": "x"})
    agent.close()


def test_what_is_held_ends_with_its_agent_or_when_it_is_dropped_and_leaves_no_token(tmp_path: Path) -> None:
    for last in ({"do": "drop"}, None, _hold("raise SystemExit(3)")):
        agent = Agent(tmp_path)
        agent.ask(_hold("open('begun', 'w')"))
        held = [pid for pid, _ in process.descendants(agent.process.pid)]
        assert len(held) == 2  # a supervisor, and what becomes the launcher
        if last:
            agent.ask(last)
        agent.close()
        eventually(lambda held=held: not any(is_running(pid) for pid in held))  # type: ignore[misc]
        run = tmp_path / "u/runs/ctr-1/node0"
        assert not {"begun", "supervisor.json", "token.json", "end.json"} & {*os.listdir(run)}
        assert os.listdir(run / "launchers") == []


def test_of_two_that_hold_the_same_run_one_starts_it(tmp_path: Path) -> None:
    agents = [Agent(tmp_path), Agent(tmp_path)]
    for agent in agents:
        assert agent.ask(_hold("print('once')")) == {"is_started": False}
    assert [agent.ask({"do": "go"})["said"] for agent in agents] == ["started", "already"]
    run = tmp_path / "u/runs/ctr-1/node0"
    eventually((run / "end.json").exists)
    assert (run / "log/node-0/launcher.log").read_text() == "once\n"
    for agent in agents:
        agent.close()


def test_a_host_that_cannot_make_a_run_ready_says_why(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    run = tmp_path / "u/runs/ctr-1/node0"
    run.mkdir(parents=True)
    (run / "launchers").write_text("in the way")
    told = agent.ask(_hold("pass"))
    assert (told["errno"], told["error"]) == (errno.EEXIST, str(run / "launchers"))
    agent.close()


SLOW_IMPORTS = {"json", "enum", "re", "signal", "ctypes", "collections", "subprocess", "dataclasses", "typing"}


def test_an_agent_imports_nothing_slow_before_the_job_starts(tmp_path: Path) -> None:
    """All hosts of a job wait for one another: a millisecond here is a millisecond of each of them."""
    first = Agent(tmp_path)
    first.close()
    question = json.dumps({"do": "check", "wants_devices": True, "env": {}})
    words = bootstrap.command(sys.executable).replace("-I -S", "-I -S -X importtime")
    launcher = launcher_file.find()
    about = bootstrap.first_line(launcher.sha256, launcher.size_bytes, "~/u")
    lines = [about, question, json.dumps(_hold("pass")), '{"do": "go"}', ""]
    environ = {"HOME": str(tmp_path), "PATH": os.defpath}
    done = subprocess.run(
        ["sh", "-c", words], input="\n".join(lines), env=environ, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {"said": "started"}
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "umiak.submit.node.agent" in imported
    assert not imported & SLOW_IMPORTS


def test_devices_are_looked_for_wherever_there_may_be_some(tmp_path: Path) -> None:
    from umiak.core.devices import VISIBILITY
    from umiak.submit.node import agent

    root = f"{tmp_path}/"
    (tmp_path / "dev").mkdir()
    assert not agent._may_have_devices({"PATH": "/bin"}, root)
    for name in [name for names in VISIBILITY.values() for name in names]:
        assert agent._may_have_devices({name: "0"}, root)
    for name in ("davinci0", "xpu0", "nvidia0", "kfd"):
        (tmp_path / "dev" / name).touch()
        assert agent._may_have_devices({}, root)
        (tmp_path / "dev" / name).unlink()
    (tmp_path / "proc/driver/nvidia/gpus").mkdir(parents=True)
    assert agent._may_have_devices({}, root)


def test_an_agent_begins_with_a_question(tmp_path: Path) -> None:
    agent = Agent(tmp_path, json.dumps({"do": "list"}))
    assert agent.answer() == {"runs": []}
    assert agent.ask({"do": "list"}) == {"runs": []}
    agent.close()


def _hold(code: str) -> dict[str, Any]:
    launcher = node_plans.PlannedLauncher(name="node-0", argv=("{python}", "-c", code), node="node0")
    made = node_plans.RunPlan(run_id="ctr-1", directory=".", launchers=(launcher,), machines=("node0",))
    return {
        "do": "hold",
        "run": "ctr-1",
        "host": "node0",
        "plan": made.to_plain(),
        "texts": {},
        "secrets": {"UMIAK_TOKEN": "t" * 32},
        "token": "t" * 32,
    }


def test_files_arrive_whole_or_not_at_all(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    digest = "0" * 64
    assert agent.ask({"do": "check", "files": digest})["needs_files"]
    assert agent.process.stdin
    agent.process.stdin.write(json.dumps({"do": "files", "digest": digest, "size_bytes": 7}).encode() + b"\nbroken!")
    agent.process.stdin.flush()
    assert "error" in agent.answer()
    assert os.listdir(tmp_path / "u/files") == []
    assert agent.ask({"do": "check", "framework": "nowhere"})["import_error"].startswith("ModuleNotFoundError")
    agent.close()


def test_only_plain_ways_to_a_host_are_taken_early() -> None:
    def way(word: str, text: str = CONFIG) -> tuple[str, int] | None:
        user, host, port = settings.split(word)
        return settings.tcp_address(settings.SshHost(label=word, host=host, user=user, port=port), text)

    assert way("node0") == ("10.0.0.1", 22)
    assert way("node1") == ("10.0.0.2", 2222)
    assert way("node1:22") == ("10.0.0.2", 22)
    assert way("10.0.0.9", "") == ("10.0.0.9", 22)
    for keyword in ("ProxyCommand nc gate 22", "ProxyJump gate", "AddressFamily inet6", "BindAddress 10.0.0.5"):
        assert way("node0", f"{CONFIG}  {keyword}\n") is None
    assert way("node0", f"Include others\n{CONFIG}") is None
    assert way("node0", "Host node0\n  HostName %h.lab\n") == ("node0.lab", 22)
    assert way("node0", "Host node0\n  HostName %n-%r\n") is None


def test_early_sockets_are_connected_or_not_there() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))  # and does not listen
            early = EarlySockets(loop)
            early.open({"a": server.getsockname(), "b": nobody.getsockname(), "c": server.getsockname()})
            await asyncio.sleep(0)
            taken = await early.take("a")
            assert taken is not None
            assert taken.getpeername() == server.getsockname()
            assert (await early.take("a"), await early.take("b"), await early.take("other")) == (None, None, None)
            taken.close()
            server.setblocking(False)
            accepted = [(await loop.sock_accept(server))[0] for _ in range(2)]
            early.close()
            for each in accepted:
                each.setblocking(False)
                assert await loop.sock_recv(each, 1) == b""  # also of the one that nobody took
                each.close()

    asyncio.run(story())


def test_a_missing_asyncssh_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from umiak.submit.backends.ssh import connections

    monkeypatch.setitem(sys.modules, "asyncssh", None)
    with pytest.raises(UmiakError) as raised:
        connections.import_asyncssh()
    assert raised.value.problems[0].code == "UM-SUBMIT-111"
    assert "[ssh]" in (raised.value.problems[0].hint or "")
