"""Jobs on this machine: they outlive their client, say how they end, and leave nothing, whatever is killed."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import umiak
from testbed import disks
from testbed.pytest_support import require
from tests.support import PATIENCE_S, chance, command_lines, eventually, submitting
from umiak.adapters import identity
from umiak.core.job import handle as handle_of
from umiak.core.problem import BadRequest
from umiak.submit import configuration
from umiak.submit.backend import LogLine, LogsWanted
from umiak.submit.flow import Flow, run_id_of


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[submitting.Desk]:
    with submitting.opened(tmp_path) as opened:
        yield opened


def texts(output: str) -> list[str]:
    return [line for line in output.splitlines() if not line.startswith("[launcher")]


# ---- how it ends


def test_a_job_runs_and_its_end_is_told(desk: submitting.Desk) -> None:
    (desk.directory / "job.yaml").write_text("name: ctr\ncommand: train.py\nworkers: 2\n")
    handle = desk.submit("job.yaml")
    assert handle.startswith("local://local/ctr-")
    assert desk.umiak("wait", handle) == ""
    told = desk.status(handle)
    assert (told["state"], told["exit_code"], told["name"]) == ("succeeded", 0, "ctr")
    assert told["submitted_s"] <= told["started_s"] <= told["ended_s"]
    assert sorted(texts(desk.umiak("logs", handle))) == [
        "[trainer.0] begin trainer 0 of 2",
        "[trainer.0] end",
        "[trainer.1] begin trainer 1 of 2",
        "[trainer.1] end",
    ]
    assert desk.umiak("logs", handle, "--rank", "1") == "begin trainer 1 of 2\nend\n"
    assert handle in desk.umiak("list")


def test_the_exit_code_of_wait_is_the_jobs(desk: submitting.Desk) -> None:
    handle = desk.submit("--", "train.py", "fail=7")
    desk.umiak("wait", handle, status=7)
    assert (desk.status(handle)["state"], desk.status(handle)["exit_code"]) == ("failed", 7)
    assert "failed" in desk.umiak("status", handle)


def test_a_run_that_restarts_its_workers_says_so(desk: submitting.Desk, tmp_path: Path) -> None:
    (desk.directory / "restarted.py").write_text(submitting.RESTARTED)
    (desk.directory / "job.yaml").write_text(
        f"name: ctr\ncommand: restarted.py {tmp_path}\nworkers: 2\nrestarts: 3\nenv: {{UMIAK_FAILURE_GRACE: '600'}}\n"
    )
    handle = desk.submit("job.yaml")
    eventually(lambda: desk.status(handle)["state"] == "restarting")
    told = desk.status(handle)
    assert told["reason"] == "trainer 0 failed, restart 1 of 3"
    (node,) = told["nodes"]
    assert (node["state"], node["host"], node["exit_code"]) == ("restarting", os.uname().nodename, None)
    assert "restarting: trainer 0 failed, restart 1 of 3" in desk.umiak("status", handle)
    (tmp_path / "go").touch()
    eventually((tmp_path / "life.1.1").exists)
    eventually(lambda: desk.status(handle)["state"] == "running")
    assert desk.status(handle)["reason"] == "restarted once: trainer 0 failed, restart 1 of 3"
    (tmp_path / "end").touch()
    desk.umiak("wait", handle)
    assert desk.status(handle)["nodes"][0]["exit_code"] == 0


def test_every_node_of_a_failed_run_has_its_exit_code_and_reason(desk: submitting.Desk) -> None:
    (desk.directory / "job.yaml").write_text(
        "name: ctr\nroles:\n  server: {command: train.py lines=1}\n  trainer: {command: train.py fail=7}\n"
    )
    handle = desk.submit("job.yaml")
    desk.umiak("wait", handle, status=7)
    told = desk.status(handle)
    assert told["reason"].startswith("exit code 7: trainer 0 on node 127.0.0.1 failed with exit code 7")
    assert [(each["name"], each["host"], each["state"]) for each in told["nodes"]] == [
        ("server-0", os.uname().nodename, "failed"),
        ("trainer-0", os.uname().nodename, "failed"),
    ]
    assert all("trainer 0 on node 127.0.0.1 failed" in each["reason"] for each in told["nodes"])
    table = desk.umiak("status", handle)
    assert "REASON" in table
    assert "trainer 0 on node 127.0.0.1 failed with exit code 7" in table


def test_wait_gives_up_in_time_and_the_job_goes_on(desk: submitting.Desk) -> None:
    handle = desk.submit("--", "train.py", "until=go")
    assert "UM-SUBMIT-017" in desk.umiak("wait", handle, "--timeout", "0.2", status=3)
    assert desk.status(handle)["state"] in ("starting", "running")
    desk.touch("go")
    desk.umiak("wait", handle)


def test_a_time_limit_ends_the_job(desk: submitting.Desk) -> None:
    handle = desk.submit("--time_limit", "1", "--", "train.py", "until=never")
    desk.umiak("wait", handle, status=143)
    assert desk.status(handle)["state"] == "failed"
    assert desk.status(handle)["reason"] == "the time limit of 1 s is over"


def test_a_time_limit_may_be_long(desk: submitting.Desk) -> None:
    desk.umiak("wait", desk.submit("--time_limit", "9999h", "--", "train.py"))


def test_servers_and_trainers_under_one_launcher(desk: submitting.Desk) -> None:
    handle = desk.submit("--server_num", "2", "--trainer_num", "2", "--", "train.py")
    desk.umiak("wait", handle)
    assert sorted(desk.starts()) == ["server.0", "server.1", "trainer.0", "trainer.1"]
    assert desk.umiak("logs", handle, "--role", "server", "--rank", "1").startswith("begin server 1 of 2\n")


def test_roles_with_commands_of_their_own_meet(desk: submitting.Desk) -> None:
    (desk.directory / "serve.py").write_text(submitting.WORKER.replace('"end"', '"served"'))
    (desk.directory / "job.yaml").write_text(
        "name: ctr\nroles:\n  server: {command: serve.py, env: {A: 1}}\n  trainer: {command: train.py, nodes: 2}\n"
    )
    handle = desk.submit("job.yaml")
    desk.umiak("wait", handle)
    assert sorted(desk.starts()) == ["server.0", "trainer.0", "trainer.1"]
    assert desk.umiak("logs", handle, "--role", "server", "--rank", "0") == "begin server 0 of 1\nserved\n"
    assert desk.umiak("logs", handle, "--rank", "1") == "begin trainer 1 of 2\nend\n"
    assert [node["state"] for node in desk.status(handle)["nodes"]] == ["succeeded"] * 3


def test_the_foreground_ends_as_the_job_does(desk: submitting.Desk) -> None:
    out = desk.umiak("submit", "--foreground", "--", "train.py", "fail=7", status=7)
    assert "[trainer.0] begin trainer 0 of 1" in out


def test_ctrl_c_in_the_foreground_cancels(desk: submitting.Desk) -> None:
    client = desk.start("submit", "--foreground", "--", "train.py", "until=never")
    workers = desk.until_started(1)
    client.send_signal(signal.SIGINT)
    client.communicate(timeout=PATIENCE_S)
    assert client.returncode == 143
    assert [pid for pid in workers if identity.of(pid)] == []
    assert '"cancelled"' in desk.umiak("list", "--json")


def test_a_job_has_the_environment_of_its_person(desk: submitting.Desk) -> None:
    (desk.directory / "train.py").write_text(
        "import os\nprint(os.environ['COLOUR'], os.environ['SHAPE'], os.environ.get('UMIAK_GRACE'), os.getcwd())\n"
        "open('made', 'w')\n"
    )
    env = {"COLOUR": "red", "SHAPE": "round", "UMIAK_GRACE": "1", "UMIAK_JOB_ID": "outer", "UMIAK_NNODES": "9"}
    umask = os.umask(0o022)
    try:
        handle = desk.submit("--env", "SHAPE=square", "--", "train.py", env=env)
    finally:
        os.umask(umask)
    desk.umiak("wait", handle)
    assert desk.umiak("logs", handle, "--rank", "0") == f"red square None {desk.directory}\n"
    assert oct((desk.directory / "made").stat().st_mode & 0o777) == "0o644"


def test_data_comes_in_and_goes_out(desk: submitting.Desk) -> None:
    (desk.directory.parent / "kept").mkdir()
    (desk.directory.parent / "kept" / "words").write_text("one two")
    (desk.directory / "train.py").write_text(
        "import os\nos.mkdir('made')\nopen('made/words', 'w').write(open('data/words').read().upper())\n"
    )
    (desk.directory / "job.yaml").write_text(
        f"name: ctr\ncommand: train.py\ninputs: {{data: '{desk.directory.parent}/kept'}}\n"
        f"outputs: {{made: '{desk.directory.parent}/results'}}\n"
    )
    handle = desk.submit("job.yaml")
    desk.umiak("wait", handle)
    assert (desk.directory.parent / "results" / "words").read_text() == "ONE TWO"


# ---- whatever is killed


def test_a_launcher_is_known_before_it_runs(desk: submitting.Desk) -> None:
    """A supervisor that is killed at the worst moment leaves none that nobody knows of."""
    (desk.directory / "job.yaml").write_text(
        "name: ctr\nroles:\n  server: {command: train.py, env: {A: 1}}\n  trainer: {command: train.py until=never, nodes: 8}\n"
    )
    client = desk.start("submit", "--key", "k", "job.yaml")
    handle = f"local://local/{run_id_of('ctr', 'k')}"
    launchers = desk.run_directory(handle) / "launchers"
    eventually(lambda: [*launchers.glob("[!.]*-*")])
    supervisor = desk.supervisor(handle)
    os.kill(supervisor.pid, signal.SIGSTOP)
    children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split()
    started = [int(pid) for pid in children if b"launch" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    # Read second: the children go on while their supervisor stands, so one may have become a launcher in between.
    known = {json.loads(path.read_text())["pid"] for path in launchers.glob("[!.]*-*")}
    os.kill(supervisor.pid, signal.SIGKILL)
    assert set(started) <= known
    client.communicate(timeout=PATIENCE_S)
    desk.umiak("cancel", handle, "--grace", "0.2")
    eventually(lambda: not desk.left())


def test_the_job_outlives_its_client_and_any_shell_finds_it(desk: submitting.Desk) -> None:
    client = desk.start("submit", "--foreground", "--", "train.py", "until=go", start_new_session=True)
    desk.until_started(1)
    os.killpg(client.pid, signal.SIGKILL)
    client.communicate(timeout=PATIENCE_S)
    handle = json.loads(desk.umiak("list", "--json"))[0]["handle"]
    shutil.rmtree(desk.state / "umiak" / "runs")  # with nothing but the handle
    assert desk.status(handle)["state"] == "running"
    desk.touch("go")
    desk.umiak("wait", handle)
    assert desk.umiak("logs", handle, "--rank", "0") == "begin trainer 0 of 1\nend\n"


def test_a_submit_that_is_killed_and_repeated_starts_the_job_once(desk: submitting.Desk) -> None:
    """Killed at any moment between its first instruction and its answer; the one that is not killed tells the handle."""
    draw = chance()
    words = ("submit", "--", "train.py", "until=go")
    for attempt in range(12):
        client = desk.start(*words)
        time.sleep(draw.random() * 0.4)  # any moment will do: nothing is expected of it
        client.kill()
        out, _ = client.communicate(timeout=PATIENCE_S)
        if out.strip():
            break  # it has answered: the next one would be another run
        print(f"attempt {attempt} was killed without an answer")
    else:
        desk.umiak(*words)
    runs = json.loads(desk.umiak("list", "--json"))
    assert len(runs) == 1
    desk.touch("go")
    handle = runs[0]["handle"] or desk.submit("--", "train.py", "until=go")
    desk.umiak("wait", handle)
    assert desk.starts() == ["trainer.0"]


def test_the_same_key_is_the_same_run(desk: submitting.Desk) -> None:
    words = ("submit", "--json", "--key", "nightly", "--", "train.py")
    first, second = (json.loads(desk.umiak(*words)) for _ in range(2))
    assert (first["repeated"], second["repeated"]) == (False, True)
    assert first["handle"] == second["handle"]
    desk.umiak("wait", first["handle"])
    assert json.loads(desk.umiak(*words))["handle"] == first["handle"]
    assert desk.starts() == ["trainer.0"]
    assert "UM-SUBMIT-009" in desk.umiak("submit", "--key", "nightly", "--", "train.py", "lines=1", status=2)


def test_a_killed_supervisor_leaves_a_lost_run_and_no_process(desk: submitting.Desk) -> None:
    handle = desk.submit("--nproc_per_node", "2", "--", "train.py", "until=never")
    workers = desk.until_started(2)
    os.kill(desk.supervisor(handle).pid, signal.SIGKILL)
    assert "lost" in desk.umiak("wait", handle, status=3)
    assert desk.status(handle)["state"] == "lost"
    assert [pid for pid in workers if identity.of(pid)] == []
    eventually(lambda: not desk.left())


def test_stubborn_workers_end_soon_after_their_supervisor_was_killed(desk: submitting.Desk) -> None:
    """Nobody asks for it: neither a client nor anybody else is there."""
    handle = desk.submit("--nproc_per_node", "2", "--", "train.py", "stubborn", "until=never")
    workers = desk.until_started(2)
    for rank in (0, 1):
        eventually((desk.directory / "seen" / f"stubborn.{rank}").exists)
    began = time.monotonic()
    os.kill(desk.supervisor(handle).pid, signal.SIGKILL)
    eventually(lambda: desk.status(handle)["state"] == "stopping")
    assert desk.status(handle)["reason"] == "its supervisor was killed"
    eventually(lambda: not desk.left())
    assert time.monotonic() - began >= 20, "they have time to end by themselves"
    assert [pid for pid in workers if identity.of(pid)] == []
    told = desk.status(handle)
    assert told["state"] == "lost"
    assert told["reason"] == "its supervisor was killed, and its launchers have ended their workers then"
    assert told["nodes"][0]["exit_code"] == 143
    assert "the supervisor of this run was killed" in desk.umiak("logs", handle)


def test_cancel_without_a_supervisor_kills_what_does_not_obey(desk: submitting.Desk) -> None:
    handle = desk.submit("--", "train.py", "stubborn", "until=never")
    workers = desk.until_started(1)
    eventually((desk.directory / "seen" / "stubborn.0").exists)
    os.kill(desk.supervisor(handle).pid, signal.SIGKILL)
    desk.umiak("cancel", handle, "--grace", "0")
    assert desk.status(handle)["state"] == "cancelled"
    eventually(lambda: not [pid for pid in workers if identity.of(pid)])


def test_a_killed_launcher_is_a_failed_job(desk: submitting.Desk) -> None:
    handle = desk.submit("--", "train.py", "until=never")
    workers = desk.until_started(1)
    launcher = json.loads((desk.run_directory(handle) / "launchers" / "launcher").read_text())
    os.kill(launcher["pid"], signal.SIGKILL)
    desk.umiak("wait", handle, status=137)
    assert desk.status(handle)["state"] == "failed"
    assert [pid for pid in workers if identity.of(pid)] == []


# ---- cancel


@pytest.mark.parametrize("manners", ["polite", "stubborn"])
def test_cancel_ends_everything(desk: submitting.Desk, manners: str) -> None:
    handle = desk.submit("--nproc_per_node", "2", "--", "train.py", manners, "until=never")
    workers = desk.until_started(2)
    if manners == "stubborn":
        eventually((desk.directory / "seen" / "stubborn.1").exists)
    desk.umiak("cancel", handle, "--grace", "1" if manners == "stubborn" else "30")
    assert [pid for pid in workers if identity.of(pid)] == []
    assert desk.status(handle)["state"] == "cancelled"
    desk.umiak("wait", handle, status=143 if manners == "polite" else 137)
    assert desk.umiak("cancel", handle) == ""  # it is over: nothing happens
    assert not desk.left()


def test_cancel_without_a_handle_takes_the_newest_run_that_is_not_over(desk: submitting.Desk) -> None:
    older = desk.submit("--", "train.py", "until=go")
    newer = desk.submit("--", "train.py", "until=go")
    desk.umiak("wait", desk.submit("--", "train.py"))  # the newest of all is over
    said = []
    for _ in range(3):
        with desk.start("cancel", "--grace", "5") as process:
            said.append(process.communicate(timeout=desk.patience_s)[1].splitlines()[0])
    assert said[:2] == [f"note: the newest running run: {each}" for each in (newer, older)]
    assert "UM-SUBMIT-411" in said[2]
    assert [desk.status(each)["state"] for each in (newer, older)] == ["cancelled", "cancelled"]


@pytest.mark.parametrize("what", ["cancel", "supervisor"])
def test_the_end_may_come_at_any_moment(desk: submitting.Desk, what: str) -> None:
    """From the first file of a run on: it is over soon, says so, and nothing is left."""
    draw = chance()
    manners = "stubborn" if what == "cancel" else "polite"
    for attempt in range(4):
        key = f"attempt {attempt}"
        client = desk.start("submit", "--key", key, "--", "train.py", manners, "until=never")
        handle = f"local://local/{run_id_of('train', key)}"
        first = "plan.json" if what == "cancel" else "supervisor.json"
        eventually((desk.run_directory(handle) / first).exists)
        time.sleep(draw.random() * 0.5)  # any moment will do: nothing is expected of it
        if what == "cancel":
            desk.umiak("cancel", handle, "--grace", "0.2")
        else:
            assert identity.send(desk.supervisor(handle), signal.SIGKILL)
            desk.umiak("cancel", handle, "--grace", "0.2")  # it may be lost by then, or its launchers may be there
        client.communicate(timeout=PATIENCE_S)
        assert desk.status(handle)["state"] in (("cancelled",) if what == "cancel" else ("cancelled", "lost"))
        eventually(lambda: not desk.left())


# ---- logs


def test_two_shells_follow_the_same_lines(desk: submitting.Desk) -> None:
    handle = desk.submit("--nproc_per_node", "2", "--", "train.py", "lines=300", "until=go", "lines=300")
    first = desk.start("logs", "-f", handle)
    desk.until_started(2)
    second = desk.start("logs", "-f", handle)
    desk.touch("go")
    outputs = [process.communicate(timeout=PATIENCE_S)[0] for process in (first, second)]
    whole = [f"line {number}" for number in range(300)]
    for output in outputs:
        for rank in range(2):
            own = [line.partition("] ")[2] for line in output.splitlines() if line.startswith(f"[trainer.{rank}]")]
            assert own == [f"begin trainer {rank} of 2", *whole, *whole, "end"]
    assert sorted(outputs[0].splitlines()) == sorted(outputs[1].splitlines())


CHATTY = """
import os, pathlib, sys, time
rank = int(os.environ["UMIAK_RANK"])
def wait(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.01)
for step in range(6):
    wait(f"go.{step * 2 + rank}")
    print(f"\\x1b]0;owned\\x07\\x1b[31mstep {step}\\x1b[0m of {rank}", flush=True)
    print(f"10%\\r{step}0%", flush=True)
wait("go.end")
"""
"""Two workers that write in turns, when they are told to."""


def take_turns(desk: submitting.Desk, handle: str, first: int, last: int) -> None:
    """Each turn is in its log before the next one begins."""
    for turn in range(first, last):
        desk.touch(f"go.{turn}")
        (log,) = desk.run_directory(handle).glob(f"log/*/workerlog.{turn % 2}")
        eventually(lambda log=log, turn=turn: log.read_bytes().count(b"\n") == turn // 2 * 2 + 2)  # type: ignore[misc]


def test_the_last_lines_come_in_the_order_of_time_and_steer_no_terminal(desk: submitting.Desk) -> None:
    (desk.directory / "chatty.py").write_text(CHATTY)
    handle = desk.submit("--nproc_per_node", "2", "--", "chatty.py")
    eventually(lambda: len([*desk.run_directory(handle).glob("log/*/workerlog.?")]) == 2)
    take_turns(desk, handle, 0, 8)
    written = [line for turn in range(12) for line in _of_turn(turn)]
    assert desk.umiak("logs", handle, "--role", "trainer").splitlines() == written[:16]
    lines = [json.loads(line) for line in desk.umiak("logs", handle, "--role", "trainer", "--json").splitlines()]
    assert [line["time_s"] for line in lines] == sorted(line["time_s"] for line in lines)
    assert desk.umiak("logs", handle, "--role", "trainer", "--tail", "2").splitlines() == written[12:16]
    moment = dt.datetime.fromtimestamp(lines[10]["time_s"], dt.timezone.utc).isoformat()
    assert desk.umiak("logs", handle, "--role", "trainer", "--since", moment).splitlines() == written[10:16]
    raw = desk.umiak("logs", handle, "--rank", "0", "--tail", "2", "--raw")
    assert raw.splitlines() == ["\x1b]0;owned\x07\x1b[31mstep 3\x1b[0m of 0", "10%", "30%"]
    follower = desk.start("logs", "-f", handle, "--role", "trainer", "--tail", "1")
    assert follower.stdout is not None
    assert [follower.stdout.readline().strip() for _ in range(2)] == [written[13], written[15]]
    take_turns(desk, handle, 8, 12)
    desk.touch("go.end")
    assert sorted(follower.communicate(timeout=PATIENCE_S)[0].splitlines()) == sorted(written[16:])


def _of_turn(turn: int) -> list[str]:
    tag = f"[trainer.{turn % 2}]"
    return [f"{tag} step {turn // 2} of {turn % 2}", f"{tag} {turn // 2}0%"]


def test_what_rotation_has_dropped_is_said(desk: submitting.Desk) -> None:
    # More than a pipe holds: the launcher reads it in several pieces, however slow the machine is, and rotates between them.
    env = ("--env", "UMIAK_LOG_MAX_BYTES=2048")
    handle = desk.submit(*env, "--", "train.py", "lines=40000")
    desk.umiak("wait", handle)
    with desk.start("logs", handle) as process:
        out, err = process.communicate(timeout=desk.patience_s)
    assert [line for line in out.splitlines() if line.startswith("[umiak] trainer.0: ") and "dropped" in line], (
        out + err
    )
    with desk.start("logs", handle, "--rank", "0") as process:
        out, err = process.communicate(timeout=desk.patience_s)
    assert "dropped" in err
    assert "dropped" not in out
    assert desk.umiak("logs", handle, "--rank", "0", "--tail", "2").splitlines() == ["line 39999", "end"]
    assert "UM-CLI-007" in desk.umiak("logs", handle, "--since", "yesterday", status=2)


def test_following_goes_on_where_it_was(desk: submitting.Desk) -> None:
    """Interrupted after every few lines, and resumed with nothing but the positions of the lines that were seen."""
    handle = desk.submit("--nproc_per_node", "2", "--", "train.py", "lines=40", "until=go", "lines=40")
    desk.until_started(2)
    desk.touch("go")
    flow = Flow(configuration.context(desk.environ, str(desk.directory)))
    run = flow.find(handle)
    seen: list[LogLine] = []
    while True:
        after = {line.source: line.position for line in seen}
        part = []
        for line in run.backend.logs(handle_of(handle), LogsWanted(follow=True, after=after)):
            part.append(line)
            if len(part) == 7:
                break
        seen += part
        if len(part) < 7:
            break
    whole = [f"line {number}" for number in range(40)]
    for rank in range(2):
        own = [line.text for line in seen if line.rank == rank]
        assert own == [f"begin trainer {rank} of 2", *whole, *whole, "end"]


# ---- secrets


def test_secrets_are_in_no_file_no_argument_and_no_output(desk: submitting.Desk) -> None:
    secret = "k5-Wq81zTtrrYw0xPLm2"
    (desk.directory / "train.py").write_text(
        submitting.WORKER
        + "import hashlib\nprint(hashlib.sha256(os.environ['PASSPORT'].encode()).hexdigest(), flush=True)\n"
        "pathlib.Path('token').write_text(hashlib.sha256(os.environ['UMIAK_TOKEN'].encode()).hexdigest())\n"
    )
    (desk.directory / "job.yaml").write_text(
        "name: ctr\ncommand: train.py until=go\nsecrets: [PASSPORT]\nroles: {server: {}, trainer: {}}\n"
    )
    env = {"PASSPORT": secret}
    printed = desk.umiak("submit", "job.yaml", "--dry-run", env=env)
    assert "PASSPORT" in printed
    handle = desk.submit("job.yaml", env=env)
    workers = desk.until_started(1)  # the server; trainers wait for it
    token = dict(
        each.split(b"=", 1) for each in Path(f"/proc/{workers[0]}/environ").read_bytes().split(b"\0") if b"=" in each
    )[b"UMIAK_TOKEN"]
    assert len(token) >= 32
    arguments = command_lines().values()
    desk.touch("go")
    desk.umiak("wait", handle)
    output = desk.umiak("logs", handle) + printed + desk.umiak("status", handle, "--json")
    files = [path for path in desk.directory.parent.rglob("*") if path.is_file()]
    assert len(files) > 8
    for hidden in (secret.encode(), token):
        assert hidden not in output.encode()
        assert [words for words in arguments if hidden in words] == []
        assert [path for path in files if hidden in path.read_bytes()] == []
    import hashlib

    assert hashlib.sha256(secret.encode()).hexdigest() in output  # the workers have it
    other = desk.submit("job.yaml", env=env)
    desk.umiak("wait", other)
    assert (desk.directory / "token").read_text() != hashlib.sha256(token).hexdigest()  # each run has its own
    assert {oct(path.stat().st_mode & 0o077) for path in (desk.state / "umiak").rglob("*")} == {"0o0"}


def test_a_secret_that_is_missing_or_spelled_out_is_refused(desk: submitting.Desk) -> None:
    told = desk.umiak("submit", "--secret", "PASSPORT", "--", "nowhere.py", status=2)
    assert "UM-SUBMIT-008" in told  # all problems at once
    assert "UM-SUBMIT-020" in told
    env = {"PASSPORT": "k5-Wq81zTtrrYw0xPLm2"}
    told = desk.umiak("submit", "--secret", "PASSPORT", "--", "train.py", f"--key={env['PASSPORT']}", env=env, status=2)
    assert "UM-SUBMIT-014" in told
    assert env["PASSPORT"] not in told
    assert "local://" not in desk.umiak("list")


# ---- from Python


def test_a_job_is_submitted_and_followed_from_python(desk: submitting.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(desk.state))
    here = umiak.place("local", directory=desk.directory)
    job = umiak.Job(name="ctr", command=("train.py", "lines=2", "fail=7"), roles=(umiak.RoleSpec(workers=2),))
    assert "--nproc_per_node" in here.dry_run(job)
    run = here.submit(job)
    assert [line.text for line in run.logs(follow=True, rank=0)] == ["begin trainer 0 of 2", "line 0", "line 1"]
    assert (run.wait().state.value, run.wait().exit_code) == ("failed", 7)
    assert here.find(str(run.handle)).status() == run.status()
    assert desk.status(str(run.handle))["state"] == "failed"
    waiting = here.submit(umiak.Job(name="ctr", command=("train.py", "until=never")))
    assert not waiting.wait(timeout_s=0.1).state.is_over
    assert waiting.cancel().state.value == "cancelled"
    with pytest.raises(BadRequest, match=r"nowhere\.py"):
        here.submit(umiak.Job(name="ctr", command=("nowhere.py",)))


def test_a_run_on_a_disk_that_is_full_can_be_cancelled_and_nothing_new_is_started(tmp_path: Path) -> None:
    """With its state on a small disk of its own."""
    require(disks.unavailable())
    with disks.mounted(tmp_path / "state") as disk, submitting.opened(tmp_path) as desk:
        handle = desk.submit("--", "train.py", "until=never")
        desk.until_started(1)
        disk.fill()
        told = desk.umiak("submit", "--", "train.py", status=3)
        assert "[UM-SUBMIT-007]" in told
        assert "No space left on device" in told
        assert len(json.loads(desk.umiak("list", "--json"))) == 1
        desk.umiak("cancel", handle, "--grace", "5")
        assert desk.status(handle)["state"] == "cancelled"
        assert desk.starts() == ["trainer.0"]
        disk.make_room()
        desk.touch("go")
        desk.umiak("wait", desk.submit("--", "train.py", "until=go"))
