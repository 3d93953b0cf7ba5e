"""The face of umiak.ps: who may do what, what is imported when, how a script's end is told, checkpoints without servers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import umiak_native

from umiak import ps
from umiak.ps import environment, specs
from umiak.ps.clients.local import LocalClient
from umiak.ps.environment import PsSeat, SeatRole
from umiak.ps.errors import BadRequest
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import by_name

SERVER = {
    "TRAINING_ROLE": "PSERVER",
    "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:1",
    "POD_IP": "127.0.0.1",
    "PADDLE_PORT": "1",
    "PADDLE_TRAINERS_NUM": "1",
}
KEYS = np.arange(30, dtype=np.uint64)


def alone(strategy: str = "sync") -> Session:
    return Session(PsSeat(), by_name(strategy), SessionOptions(shards=8))


def run(script: str) -> subprocess.CompletedProcess[str]:
    environ = {
        name: text for name, text in os.environ.items() if not name.startswith(("UMIAK_", "PADDLE_", "TRAINING_"))
    }
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environ, check=False)


def test_a_server_does_not_train_and_a_trainer_does_not_serve() -> None:
    job = ps.init(environ=SERVER)
    assert ps.is_server()
    with pytest.raises(BadRequest, match="UM-PS-011"):
        _ = job.communicator
    ps.init(environ={})
    assert not ps.is_server()
    with pytest.raises(BadRequest, match="UM-PS-011"):
        ps.serve()


def test_what_is_asked_for_is_checked() -> None:
    with pytest.raises(BadRequest, match="UM-PS-007"):
        ps.init("fast", environ={})
    with pytest.raises(BadRequest, match="on_loss"):
        ps.init(on_loss="cry", environ={})
    with pytest.raises(BadRequest, match="UM-PS-001"):
        ps.init(environ={"TRAINING_ROLE": "captain"})
    assert ps.init(timeout_s=5, environ={}).options.timeout_s == 5
    with pytest.raises(BadRequest) as caught:
        ps.init("synk", shards=100, durability_ms=0, on_loss="cry", grace_s=0, wire="half", nonsense=1, environ={})
    whats = [problem.what.split(":")[0] for problem in caught.value.problems]
    assert whats == ["shards", "durability_ms", "on_loss", "grace_s", "wire", "no such strategy", "no such setting"]


def test_durability_needs_a_directory() -> None:
    with pytest.raises(BadRequest, match="UM-PS-012"):
        ps.init(durability_ms=10, environ=SERVER).serve()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_ended_too_early_says_so(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its trainers can only say that they do not reach it, and that its own log knows more."""
    monkeypatch.setattr("umiak.progress", lambda: signal.raise_signal(number))
    with socket.create_server(("127.0.0.1", 0)) as free:
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    seat = PsSeat(role=SeatRole.SERVER, world=2, servers=(endpoint,))
    assert Session(seat, ps.Sync(), SessionOptions(shards=8)).serve() == 0
    assert capsys.readouterr().err == f"umiak.ps: server 0 ends: received {number.name}; not yet done: trainer 0, 1\n"


@pytest.mark.parametrize(("on_loss", "status"), [("go_on", 0), ("fail", 1)])
def test_the_status_of_a_server_whose_trainer_was_lost(on_loss: str, status: int) -> None:
    """0 if the job went on without it, to its end. The server's log names it all the same."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = {
        **SERVER,
        "PADDLE_PSERVERS_IP_PORT_LIST": f"127.0.0.1:{port}",
        "PADDLE_PORT": str(port),
        "PADDLE_TRAINERS_NUM": "2",
    }
    script = f"from umiak import ps; raise SystemExit(ps.init(on_loss={on_loss!r}, grace_s=1).serve())"
    with subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, **environ}, stderr=subprocess.PIPE, text=True
    ) as server:
        job = environment.seat(environ).job
        # The first one is heard often enough for the short grace.
        config = {"endpoints": [f"127.0.0.1:{port}"], "world": 2, "job": job, "timeout_s": 20, "beat_s": 0.05}
        first, second = (umiak_native.Client(json.dumps({**config, "rank": rank})) for rank in range(2))
        for each in (first, second):
            each.connect()
        second.close()
        while json.loads(first.status())[0]["trainers"][1]["state"] != "lost":
            time.sleep(0.02)
        first.done()
        first.close()
        _, said = server.communicate()
        assert server.returncode == status, said
    assert "lost" in said
    assert "trainer 1" in said


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="tensorflow"):
        _ = ps.tensorflow
    assert all(hasattr(ps, name) for name in ps.__all__)


def test_no_framework_is_imported() -> None:
    done = run("import sys; from umiak import ps; ps.init(); print({'paddle', 'torch'} & set(sys.modules))")
    assert done.stdout == "set()\n", done.stderr


@pytest.mark.parametrize("missing", ["umiak_native", "numpy"])
@pytest.mark.parametrize(
    "wanted",
    [
        "from umiak import ps",
        "import umiak.ps.strategies",
        "import umiak.ps.torch",
        "from umiak.cli.main import main; raise SystemExit(main(['ps', 'status', '--servers', '127.0.0.1:9']))",
    ],
)
def test_without_the_native_core_it_says_what_to_install(wanted: str, missing: str) -> None:
    done = run(f"import sys; sys.modules[{missing!r}] = None; {wanted}")
    assert done.returncode != 0
    *_, what, why, hint = done.stderr.splitlines()
    named = "umiak's native core" if missing == "umiak_native" else "numpy, which umiak's native core needs,"
    assert what.endswith(f"error: {named} is not installed [UM-DATA-005]")
    assert why.startswith("  because: ")
    assert hint.startswith("  hint: python -m pip install ")
    assert "ps]" in hint


BAD_END = """
from umiak import ps
job = ps.init()
job.client.done = lambda: {end}
"""


def test_a_script_that_can_not_finish_does_not_end_with_0() -> None:
    done = run(BAD_END.format(end="1 / 0"))
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(("last", "said"), [("pass", "done\n"), ("raise SystemExit(0)", "done\n"), ("1 / 0", "")])
def test_only_a_script_that_ends_well_is_done(last: str, said: str) -> None:
    assert run(BAD_END.format(end="print('done')") + last).stdout == said


def test_leaving_a_job_with_an_exception_is_not_finishing() -> None:
    job = alone()
    finished: list[int] = []
    job.client.done = lambda: finished.append(1)  # type: ignore[method-assign]
    with pytest.raises(KeyError), job:
        raise KeyError
    job.finish()
    assert finished == []


def learn(job: Session, steps: range) -> tuple[np.ndarray, np.ndarray]:
    rule = specs.Adam(learning_rate=0.1)
    table = job.communicator.open("rows", specs.SparseTable(dim=3, seed=4, rule=rule))
    dense = specs.DenseTable(arrays=(specs.Array(name="w", shape=(50,)),), rule=rule)
    flat = job.communicator.open_dense("dense", dense, np.zeros(50, np.float32))
    for step in steps:
        draw = np.random.default_rng(step)
        job.communicator.push(table, KEYS[step:], draw.normal(size=(30 - step, 3)).astype(np.float32))
        job.communicator.push_dense(flat, draw.normal(size=50).astype(np.float32))
        job.communicator.end_step()
    return job.communicator.pull(table, KEYS), job.communicator.pull_dense(flat)


def test_a_checkpoint_goes_on_where_it_was_made(tmp_path: Path) -> None:
    path = str(tmp_path / "step-5")
    first = alone()
    learn(first, range(5))
    first.save(path, metadata={"epoch": 2})
    whole = learn(first, range(5, 9))
    second = alone()
    learn(second, range(3))  # what is in the tables before is replaced
    assert second.load(path) == {"epoch": 2}
    assert second.step == 5
    for one, other in zip(whole, learn(second, range(5, 9)), strict=True):
        assert np.array_equal(one, other)


def test_a_checkpoint_of_other_tables_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "saved")
    first = alone()
    learn(first, range(1))
    first.save(path)
    other = alone()
    other.communicator.open("rows", specs.SparseTable(dim=4))
    with pytest.raises(BadRequest, match="dim"):
        other.load(path)
    with pytest.raises(BadRequest, match="UM-PS-013"):
        Session(PsSeat(), ps.Sync(), SessionOptions(shards=16)).load(path)


def test_a_checkpoint_takes_the_settings_of_the_script_that_loads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "saved")
    first = alone()
    table = first.communicator.open("rows", specs.SparseTable(dim=3, rule=specs.Sgd(0.5), init=specs.Constant(1.0)))
    first.communicator.push(table, KEYS, np.ones((30, 3), np.float32))
    first.communicator.end_step()
    first.save(path)
    changed = specs.SparseTable(dim=3, rule=specs.Sgd(0.25), init=specs.Constant(2.0), clip=specs.Clip(value=0.5))
    line = (
        "umiak.ps: table rows: clip.value nothing -> 0.5, init.value 1.0 -> 2.0, optimizer.learning_rate 0.5 -> 0.25, "
        "as this script has it\n"
    )
    for loads_first in (False, True):
        second = alone()
        if loads_first:  # and describes its table afterwards
            second.load(path)
            assert capsys.readouterr().err == ""
        table = second.communicator.open("rows", changed)
        if not loads_first:
            second.load(path)
        assert capsys.readouterr().err == line
        assert (second.communicator.pull(table, KEYS) == 0.5).all()
        second.communicator.push(table, KEYS, np.ones((30, 3), np.float32))
        second.communicator.end_step()
        assert (second.communicator.pull(table, KEYS) == 0.5 - 0.25 * 0.5).all()
        assert (second.communicator.pull(table, KEYS + 100) == 2).all()
        second.save(f"{path}-{loads_first}")
    third = alone()
    third.communicator.open("rows", specs.SparseTable(dim=3, rule=specs.Adam()))
    with pytest.raises(BadRequest, match=r"optimizer\.rule: sgd in the file, adam in the table"):
        third.load(path)


def test_the_local_client_refuses_a_second_description() -> None:
    client = LocalClient(shards=4)
    spec = specs.to_json(specs.SparseTable(dim=4))
    assert client.create_table("t", spec) == client.create_table("t", spec)
    with pytest.raises(BadRequest, match="UM-PS-008"):
        client.create_table("t", specs.to_json(specs.SparseTable(dim=5)))


def test_barriers_are_met_under_one_name() -> None:
    met: list[str] = []

    class Listening(LocalClient):
        def barrier(self, name: str) -> None:
            met.append(name)

    job = Session(PsSeat(), ps.Sync(), SessionOptions(shards=8), connect=Listening)
    job.barrier()
    job.barrier()
    assert met == ["barrier", "barrier"], "servers keep every name"
