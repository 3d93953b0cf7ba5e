"""Nothing is lost: real servers and trainers, killed at random moments, against the same work done alone in numpy."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import umiak_native

from tests.support import PATIENCE_S, eventually, ps_peers, python
from tests.support.oracle import tables as oracle
from tests.support.workers import ps_crew
from umiak.ps import checkpoint, specs

CREW = Path(ps_crew.__file__)


def run_crew(directory: Path, **plan: Any) -> dict[str, Any]:
    whole = {"dir": str(directory), "servers": 2, "trainers": 2, "kills": 0, "victims": [], "seed": 1, **plan}
    whole = {"steps": None, "snapshot_bytes": 1 << 30, **whole}
    done = subprocess.run(
        [sys.executable, str(CREW), json.dumps(whole)], capture_output=True, text=True, timeout=PATIENCE_S
    )
    logs = "".join(path.read_text()[-2000:] for path in sorted(directory.glob("*.log")))
    assert done.returncode == 0, done.stderr + logs
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def alone(seed: int, steps: int, trainers: int = 2) -> tuple[ps_crew.Floats, ps_crew.Floats]:
    """The same steps in one process: same batches, summed in the order of ranks."""
    words = oracle.SparseTable(ps_crew.WORDS)
    bias = oracle.DenseTable(ps_crew.BIAS, ps_crew.SHARDS)
    bias.set(np.zeros(100, np.float32))
    for step in range(steps):
        parts, dense = [], []
        for rank in range(trainers):
            keys = ps_crew.batch(seed, rank, step)
            rows = words.pull([int(key) for key in keys])
            parts.append(([int(key) for key in keys], ps_crew.gradient(seed, rank, step, rows)))
            dense.append(ps_crew.gradient(seed, rank, step, np.array(bias.values, np.float32)))
        words.push_summed(parts)
        bias.push_summed(dense)
    return words.pull([int(key) for key in ps_crew.VOCABULARY], create=False), np.array(bias.values, np.float32)


def check_sync(directory: Path, seed: int) -> int:
    """Bit for bit what one process computes; and every push outside of the steps at most once, each durable one for sure."""
    with np.load(directory / "end.npz") as end:
        words, bias = alone(seed, int(end["steps"]))
        assert np.array_equal(end["words"].view(np.uint32), words.view(np.uint32))
        assert np.array_equal(end["bias"].view(np.uint32), bias.view(np.uint32))
        counted = dict(zip(end["mark_keys"].tolist(), end["marks"][:, 0].tolist(), strict=True))
        steps = int(end["steps"])
    for rank in range(2):
        for push, durable in ps_crew.told_by(directory, rank):
            times = [counted[int(key)] for key in ps_crew.marks(rank, push)]
            assert set(times) <= ({1.0} if durable else {0.0, 1.0}), (rank, push, times)
    return steps


def test_sync_is_one_process_bit_for_bit(tmp_path: Path) -> None:
    run_crew(tmp_path, mode="sync", steps=30)
    assert check_sync(tmp_path, seed=1) == 30


def test_sync_with_killed_servers_is_bit_equal(tmp_path: Path) -> None:
    told = run_crew(tmp_path, mode="sync", kills=20, victims=["server"], seed=2, snapshot_bytes=20_000)
    assert told["kills"] == 20
    check_sync(tmp_path, seed=2)


def test_async_with_killed_servers_counts_every_push_once(tmp_path: Path) -> None:
    told = run_crew(tmp_path, mode="async", kills=15, victims=["server"], seed=3, snapshot_bytes=50_000)
    assert told["kills"] == 15
    with np.load(tmp_path / "end.npz") as end:
        assert np.unique(end["marks"]).tolist() == [1.0]
        pushes = end["pushes"].tolist()
        expected = dict.fromkeys((int(key) for key in ps_crew.VOCABULARY), 0.0)
        for rank, count in enumerate(pushes):
            for push in range(count):
                for key in ps_crew.batch(3, rank, push):
                    expected[int(key)] += 1
        assert end["words"][:, 0].tolist() == list(expected.values())
        assert np.unique(end["totals"]).tolist() == [sum(pushes)]


def test_two_hundred_kills_of_anybody_lose_nothing(tmp_path: Path) -> None:
    told = run_crew(tmp_path, mode="sync", kills=200, victims=["server", "trainer"], seed=4, snapshot_bytes=30_000)
    assert told["kills"] == 200
    assert told["starts"] == 204
    assert check_sync(tmp_path, seed=4) > 40


# ---- checkpoints and members: servers in this process, over real connections


@contextmanager
def servers(count: int, world: int = 1, **more: Any) -> Iterator[tuple[list[umiak_native.Server], list[str]]]:
    running, endpoints = [], []
    try:
        for index in range(count):
            config = {"index": index, "servers": count, "world": world, "shards": ps_crew.SHARDS, **more}
            server = umiak_native.Server(json.dumps(config))
            running.append(server)
            endpoints.append(f"127.0.0.1:{server.start()}")
        yield running, endpoints
    finally:
        for server in running:
            server.stop()


def trainer(endpoints: list[str], rank: int = 0, world: int = 1, **more: Any) -> umiak_native.Client:
    config = {"endpoints": endpoints, "rank": rank, "world": world, "shards": ps_crew.SHARDS, "beat_s": 0.05, **more}
    client = umiak_native.Client(json.dumps(config))
    client.connect()
    return client


def one_step(client: umiak_native.Client, table: int, rank: int, step: int) -> None:
    keys = ps_crew.batch(5, rank, step)
    rows = client.pull(table, keys, step=step)
    client.push(table, keys, ps_crew.gradient(5, rank, step, rows), step=step)
    client.prepare(step)
    client.commit(step)


def test_a_checkpoint_in_the_middle_is_one_step_and_moves_to_other_numbers_of_servers(tmp_path: Path) -> None:
    spec = json.dumps(ps_crew.WORDS)
    middle, end = 10, 20
    with servers(2, world=2) as (_, endpoints):
        clients = [trainer(endpoints, rank, 2) for rank in range(2)]

        def train(rank: int) -> None:
            table = clients[rank].create_table("words", spec)
            for step in range(end):
                if rank == 0 and step == middle:
                    clients[0].save(json.dumps({"path": str(tmp_path / "two"), "mode": "all", "step": middle}))
                one_step(clients[rank], table, rank, step)

        threads = [threading.Thread(target=train, args=[rank]) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for client in clients:
            client.close()
    saved, _ = alone(5, middle)
    for count, source, target in ((3, "two", "three"), (1, "three", "one")):
        with servers(count) as (_, endpoints):
            client = trainer(endpoints)
            table = client.create_table("words", spec)
            client.load(json.dumps({"path": str(tmp_path / source), "step": middle}))
            assert np.array_equal(client.pull(table, ps_crew.VOCABULARY, create=False), saved)
            client.save(json.dumps({"path": str(tmp_path / target), "mode": "all"}))
            assert client.resume() == middle
            # Optimizer state moved too: the next step is the one that was not saved.
            both = [ps_crew.batch(5, rank, middle) for rank in range(2)]
            parts = [ps_crew.gradient(5, rank, middle, client.pull(table, both[rank])) for rank in range(2)]
            for keys, rows in zip(both, parts, strict=True):
                client.push(table, keys, rows, step=middle)
            client.prepare(middle)
            client.commit(middle)
            rows = client.pull(table, ps_crew.VOCABULARY, create=False, step=middle + 1)
            assert np.array_equal(rows, alone(5, middle + 1)[0])
            client.close()


def test_a_load_that_one_server_refuses_changes_none(tmp_path: Path) -> None:
    with servers(2) as (_, endpoints):
        client = trainer(endpoints)
        table = client.create_table("counts", json.dumps(ps_crew.COUNTS))
        push_on(client, table, 1)
        checkpoint.save(client, tmp_path / "one")
        push_on(client, table, 1)
        last = max((tmp_path / "one").glob("shard-*"))
        whole = last.read_bytes()
        last.write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
        with pytest.raises(umiak_native.Refused, match=last.name):
            checkpoint.load(client, tmp_path / "one")
        assert np.unique(client.pull(table, ps_crew.VOCABULARY, create=False)).tolist() == [2]
        last.write_bytes(whole)
        checkpoint.load(client, tmp_path / "one")
        assert np.unique(client.pull(table, ps_crew.VOCABULARY, create=False)).tolist() == [1]
        client.close()


def rated_spec(rate: float, count: int = 1) -> str:
    spec = specs.SparseTable(dim=2, init=specs.Constant(0.0), rule=specs.Sgd(rate), entry=specs.Count(count=count))
    return specs.to_json(spec)


def test_servers_load_with_the_settings_of_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, keys = tmp_path / "saved", np.arange(100)
    with servers(2) as (_, endpoints):
        client = trainer(endpoints)
        client.push(client.create_table("t", rated_spec(0.5)), keys, np.ones((100, 2), np.float32))
        checkpoint.save(client, path)
        client.close()
    with servers(3) as (_, endpoints):
        client = trainer(endpoints)
        table = client.create_table("t", rated_spec(0.25, 2))
        checkpoint.load(client, path)
        line = "umiak.ps: table t: entry.count 1 -> 2, optimizer.learning_rate 0.5 -> 0.25, as this script has it\n"
        assert capsys.readouterr().err == line
        client.push(table, np.arange(200), np.ones((200, 2), np.float32))
        assert (client.pull(table, keys) == -0.75).all()
        assert (client.pull(table, keys + 100) == 0).all()
        client.close()
    with servers(1) as (_, endpoints):
        client = trainer(endpoints)
        client.create_table("t", specs.to_json(specs.SparseTable(dim=2, rule=specs.Adam())))
        with pytest.raises(umiak_native.Refused, match=r"optimizer\.rule: sgd in the file, adam in the table"):
            checkpoint.load(client, path)


def test_servers_that_come_back_take_the_settings_of_a_new_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = np.arange(100)
    log = {"dir": str(tmp_path), "interval_ms": 5}
    with ps_peers.servers(2, world=2, log=log) as started:
        both = [ps_peers.client(started, rank=rank, world=2) for rank in (0, 1)]
        table = both[0].create_table("t", rated_spec(0.5))
        both[0].push(table, keys, np.ones((100, 2), np.float32))
        with pytest.raises(umiak_native.Refused) as refused:
            both[1].create_table("t", rated_spec(0.25))
        assert refused.value.code == "other-spec"
        for client in both:
            client.close()
        for server in started:
            server.restart()
        both = [ps_peers.client(started, rank=rank, world=2) for rank in (0, 1)]
        assert capsys.readouterr().err == ""
        for client in both:
            assert client.create_table("t", rated_spec(0.25)) == table
        line = "umiak.ps: table t: optimizer.learning_rate 0.5 -> 0.25, as this script has it\n"
        assert capsys.readouterr().err == line
        both[1].push(table, keys, np.ones((100, 2), np.float32))
        for server in started:
            server.restart()  # the log has the change, in its place
        assert (both[0].pull(table, keys) == -0.75).all()


PUSHING = """
import json, sys, numpy as np, umiak_native
client = umiak_native.Client(sys.argv[1], bytes.fromhex(sys.argv[2]))
table = client.create_table("t", sys.argv[3])
keys = np.arange(int(sys.argv[4]))
for number in range(1, 1_000_000):
    client.push(table, keys, np.ones((len(keys), 4), np.float32))
    print(number, flush=True)
"""


def test_what_was_acknowledged_outlives_server_and_trainer(tmp_path: Path) -> None:
    """Both are killed at once, right behind an acknowledged push and long before the log's next interval."""
    log = {"dir": str(tmp_path), "interval_ms": 60_000, "snapshot_bytes": 1 << 20}
    with ps_peers.servers(1, log=log) as started:
        (server,) = started
        config = {"endpoints": [server.endpoint], "job": ps_peers.JOB, "timeout_s": 30.0}
        counted = 0
        for kill in range(12):
            rows = 10 if kill % 3 else 3000  # with the longer ones, snapshots are written meanwhile
            spec = ps_peers.sum_spec()
            arguments = [json.dumps(config), ps_peers.TOKEN.hex(), spec, str(rows)]
            program = [sys.executable, "-c", PUSHING, *arguments]
            with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as pushing:
                assert pushing.stdout is not None
                acknowledged = [pushing.stdout.readline() for _ in range(kill % 5 + 1)]
                assert server.process is not None
                server.process.kill()
                pushing.kill()
                acknowledged += pushing.stdout.readlines()
            server.restart()
            client = ps_peers.client(started)
            table = client.create_table("t", spec)
            found = int(client.pull(table, np.array([0]))[0, 0])
            # The last one may have been on its way, not yet acknowledged.
            assert found - counted - len(acknowledged) in (0, 1)
            counted = found
            client.close()


def test_equal_tables_are_saved_as_equal_bytes(tmp_path: Path) -> None:
    def shard_files(name: str, keys: ps_crew.Keys) -> dict[str, bytes]:
        with servers(2) as (_, endpoints):
            client = trainer(endpoints)
            table = client.create_table("counts", json.dumps(ps_crew.COUNTS))
            for key in keys:
                client.push(table, np.array([key]), np.full((1, 2), -1, np.float32))
            checkpoint.save(client, tmp_path / name)
            client.close()
        return {path.name: path.read_bytes() for path in (tmp_path / name).glob("shard-*")}

    assert shard_files("up", ps_crew.VOCABULARY) == shard_files("down", ps_crew.VOCABULARY[::-1])


def test_a_save_goes_on_while_others_push(tmp_path: Path) -> None:
    """An async checkpoint holds each push of a trainer whole per server, and a prefix of them."""
    with servers(2, world=2) as (_, endpoints):
        pusher, saver = trainer(endpoints, 0, 2), trainer(endpoints, 1, 2)
        spec = json.dumps(ps_crew.COUNTS)
        table = pusher.create_table("counts", spec)
        saver.create_table("counts", spec)
        keys = ps_crew.VOCABULARY
        stop = threading.Event()
        pushed = 0

        def push() -> None:
            nonlocal pushed
            while not stop.is_set():
                pusher.push(table, keys, np.full((len(keys), 2), -1, np.float32))
                pushed += 1

        thread = threading.Thread(target=push)
        thread.start()
        before = eventually(lambda: pushed)
        answers = json.loads(saver.save(json.dumps({"path": str(tmp_path / "saved"), "mode": "all"})))
        after = pushed + 1
        stop.set()
        thread.join()
        assert [answer["server"] for answer in answers] == [0, 1]
        assert sum(file["count"] for answer in answers for file in answer["files"]) == ps_crew.SHARDS
        pusher.close()
        saver.close()
    with servers(1) as (_, endpoints):
        client = trainer(endpoints)
        table = client.create_table("counts", spec)
        client.load(json.dumps({"path": str(tmp_path / "saved")}))
        rows = client.pull(table, keys, create=False)
        client.close()
    per_server = set(rows[:, 0].tolist())
    assert 1 <= len(per_server) <= 2, "all rows of a server are of one moment"
    assert all(before <= count <= after for count in per_server)


def wait_at_barrier(client: umiak_native.Client, _: int) -> None:
    client.barrier("meet", limit_s=60)


def wait_to_gather(client: umiak_native.Client, _: int) -> None:
    assert client.gather("meet", b"here", limit_s=60) == [b"here", b""]


def wait_for_step(client: umiak_native.Client, table: int) -> None:
    one_step(client, table, 0, 0)
    client.pull(table, ps_crew.VOCABULARY[:3], step=1, limit_s=60)


@pytest.mark.parametrize("wait", [wait_at_barrier, wait_to_gather, wait_for_step])
def test_a_trainer_that_dies_is_named_to_those_who_wait(wait: Callable[[umiak_native.Client, int], None]) -> None:
    with servers(2, world=2, grace_s=0.5) as (running, endpoints):
        zero, one = trainer(endpoints, 0, 2), trainer(endpoints, 1, 2)
        table = zero.create_table("words", json.dumps(ps_crew.WORDS))
        one.close()
        with pytest.raises(umiak_native.TrainerLost, match=r"trainer 1 \(lost: nothing heard for"):
            wait(zero, table)
        zero.close()
        verdict = json.loads(running[0].wait(PATIENCE_S) or "{}")
        assert not verdict["ok"]
        assert "trainer 1" in verdict["text"]


@pytest.mark.parametrize("wait", [wait_at_barrier, wait_to_gather, wait_for_step])
def test_the_others_go_on_without_it_if_that_is_asked_for(wait: Callable[[umiak_native.Client, int], None]) -> None:
    with servers(2, world=2, grace_s=2, on_loss="go_on") as (running, endpoints):
        zero, one = trainer(endpoints, 0, 2), trainer(endpoints, 1, 2)
        table = zero.create_table("words", json.dumps(ps_crew.WORDS))
        one.close()
        wait(zero, table)
        zero.done()
        zero.close()
        verdict = json.loads(running[0].wait(PATIENCE_S) or "{}")
        assert verdict["done"] == [0]
        assert verdict["lost"] == [1]


def test_async_trainers_do_not_notice_and_the_verdict_names_the_lost() -> None:
    with servers(1, world=2, grace_s=2) as (running, endpoints):
        zero, one = trainer(endpoints, 0, 2), trainer(endpoints, 1, 2)
        table = zero.create_table("counts", json.dumps(ps_crew.COUNTS))
        one.close()
        for _ in range(5):
            zero.push(table, ps_crew.VOCABULARY, np.full((300, 2), -1, np.float32))
        assert zero.pull(table, ps_crew.VOCABULARY[:1]).tolist() == [[5.0, 5.0]]
        zero.done()
        zero.close()
        verdict = json.loads(running[0].wait(PATIENCE_S) or "{}")
        assert verdict["lost"] == [1]
        assert "trainer 1 (lost" in verdict["text"]


def test_who_waits_is_told_for_whom() -> None:
    with servers(1, world=2) as (_, endpoints):
        zero, one = trainer(endpoints, 0, 2), trainer(endpoints, 1, 2)
        thread = threading.Thread(target=zero.barrier, args=["meet"])
        thread.start()
        words = eventually(lambda: zero.waiting_for() if "trainer" in (zero.waiting_for() or "") else None)
        assert words == 'barrier "meet" waits for trainer 1 (at work)'
        one.barrier("meet")
        thread.join()
        zero.close()
        one.close()


def test_a_state_directory_of_another_job_is_refused_with_words(tmp_path: Path) -> None:
    log = {"dir": str(tmp_path / "state"), "interval_ms": 1}
    with servers(1, log=log):
        pass
    with (
        pytest.raises(umiak_native.Refused, match="the number of trainers is 1 there and 2 here"),
        servers(1, 2, log=log),
    ):
        pass


FULL_DISK = """
    import json, resource, signal, sys, umiak_native
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    server = umiak_native.Server(json.dumps({"log": {"dir": sys.argv[1], "interval_ms": 1}, "shards": 8}))
    print(server.start(), flush=True)
    print(server.wait(200), flush=True)
    sys.stdin.read()
    server.stop()
"""


def push_on(client: umiak_native.Client, table: int, times: int) -> None:
    for _ in range(times):
        client.push(table, ps_crew.VOCABULARY, np.full((300, 2), -1, np.float32))


def test_a_log_that_cant_be_written_is_waited_for_as_long_as_a_dead_server(tmp_path: Path) -> None:
    with python(FULL_DISK, tmp_path / "state", stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        client = trainer([f"127.0.0.1:{int(process.stdout.readline())}"], timeout_s=1)
        table = client.create_table("counts", json.dumps(ps_crew.COUNTS))
        with pytest.raises(umiak_native.ServerLost, match="could not be reached for 1 s"):
            push_on(client, table, 1000)
        verdict = json.loads(process.stdout.readline())
        assert not verdict["ok"]
        assert verdict["log_failed"]
        assert re.search(r"the log failed.*File too large", verdict["text"])
        # The server lives, and will never have on disk what it was told.
        with pytest.raises(umiak_native.Timeout):
            client.barrier("all", limit_s=0.2)
        with pytest.raises(umiak_native.ServerLost):
            client.barrier("all")
        with pytest.raises(umiak_native.ServerLost):
            client.done()
        client.close()
        process.stdin.close()


SERVE = """
    import resource, signal, sys
    from umiak.ps.servers import serving
    from umiak.ps.environment import PsSeat, SeatRole
    from umiak.ps.options import SessionOptions
    rank, ports, state, most = sys.argv[1:]
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
    endpoints = tuple(f"127.0.0.1:{port}" for port in ports.split())
    seat = PsSeat(role=SeatRole.SERVER, rank=int(rank), servers=endpoints)
    sys.exit(serving.serve(seat, SessionOptions(shards=8, durability_ms=20, state_dir=state)))
"""


def test_a_full_log_disk_ends_a_server_in_words_and_loses_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [probe.getsockname()[1] for probe in (one, other)]
    listed, state, much = f"{ports[0]} {ports[1]}", tmp_path / "state", "100000000"
    with python(SERVE, "0", listed, state, much) as well, python(SERVE, "1", listed, state, "100000") as full:
        client = trainer([f"127.0.0.1:{port}" for port in ports])
        table = client.create_table("counts", json.dumps(ps_crew.COUNTS))
        pushing = threading.Thread(target=push_on, args=(client, table, 200))
        pushing.start()
        _, told = full.communicate(timeout=PATIENCE_S)
        assert full.returncode == 1, told
        assert re.search(r"server 1 ends: the log failed: .*File too large", told)
        with python(SERVE, "1", listed, state, much) as roomy:
            pushing.join(PATIENCE_S)
            assert not pushing.is_alive()
            rows = client.pull(table, ps_crew.VOCABULARY, create=False)
            assert np.unique(rows).tolist() == [200], (
                "each push once on both, also those acknowledged before the disk was full"
            )
            client.done()
            client.close()
            assert (well.wait(PATIENCE_S), roomy.wait(PATIENCE_S)) == (0, 0)
