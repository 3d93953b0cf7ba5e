"""Clients of parameter servers: gathers, numbers, signals, forks, and servers that stay away."""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import umiak_native

from tests.support.ps_peers import client, servers, sum_spec
from umiak.ps import specs


def test_a_server_that_stays_away_is_lost_after_the_timeout() -> None:
    with servers(2) as started:
        mine = client(started, timeout_s=0.5)
        mine.connect()
        started[1].kill()
        with pytest.raises(umiak_native.ServerLost, match=started[1].endpoint) as lost:
            mine.create_table("t", sum_spec())
        assert (lost.value.code, lost.value.hint is not None) == ("server-lost", True)


def test_gathers_bring_everybody_the_same_in_order_of_rank() -> None:
    with servers(2, world=3) as started, concurrent.futures.ThreadPoolExecutor(3) as pool:
        three = [client(started, rank=rank, world=3) for rank in range(3)]
        for turn in range(5):
            brought = [f"{turn} of {rank}".encode() * rank for rank in range(3)]
            told = pool.map(lambda mine, own: mine.gather("step", own), reversed(three), reversed(brought))
            assert [*told] == [brought] * 3
        # Barriers and other gathers count by themselves.
        assert [*pool.map(lambda mine: mine.barrier("step"), three)] == [None] * 3
        assert [*pool.map(lambda mine: mine.gather("", b"\0"), three)] == [[b"\0"] * 3] * 3
        most = bytes(1 << 20)
        assert [*pool.map(lambda mine: mine.gather("step", most), three)] == [[most] * 3] * 3
        for name, own in (("step", most + b"x"), ("n" * 257, b"")):
            with pytest.raises(umiak_native.Refused) as refused:
                three[0].gather(name, own)
            assert refused.value.code == "too-long"
        with pytest.raises(umiak_native.Timeout, match='gather "step" waits for trainer 1'):
            three[0].gather("step", b"early", limit_s=2.5)
        rest = pool.map(lambda mine: mine.gather("step", b"late"), three[1:])
        # It was counted when it came first: a trainer that comes again gets what the others got.
        assert [*rest] == [[b"early", b"late", b"late"]] * 2
        assert three[0].gather("step", b"again") == [b"early", b"late", b"late"]


def test_gathers_and_numbers_survive_killed_servers(tmp_path: Path) -> None:
    with (
        servers(2, world=3, log={"dir": str(tmp_path), "interval_ms": 5, "snapshot_bytes": 2000}) as started,
        concurrent.futures.ThreadPoolExecutor(3) as pool,
    ):
        killed = threading.Event()

        def work(rank: int) -> tuple[list[list[bytes]], list[int]]:
            mine = client(started, rank=rank, world=3)
            told: list[list[bytes]] = []
            taken: list[int] = []
            going = True
            while going:
                taken.append(mine.take("part"))
                own = f"{rank} {len(told)} {0 if killed.is_set() else 1}".encode()
                told.append(mine.gather("state", own))
                # All of them see the same, so all stop at the same turn.
                going = any(text.endswith(b"1") for text in told[-1])
            return told, taken

        three = [pool.submit(work, rank) for rank in range(3)]
        for _ in range(8):
            started[0].restart()
        killed.set()
        told, taken = zip(*(each.result(60) for each in three), strict=True)
        assert told[0] == told[1] == told[2]
        for turn, texts in enumerate(told[0]):
            assert [text.rsplit(b" ", 1)[0] for text in texts] == [f"{rank} {turn}".encode() for rank in range(3)]
        assert sorted(number for each in taken for number in each) == [*range(sum(map(len, taken)))]
        assert all(each == sorted(each) for each in taken)


def test_a_trainer_that_lost_the_answer_gets_it_though_the_others_are_past(tmp_path: Path) -> None:
    with servers(1, world=2, log={"dir": str(tmp_path), "interval_ms": 5}) as [server]:
        first, second = (client([server], rank=rank, world=2) for rank in (0, 1))
        with pytest.raises(umiak_native.Timeout):
            first.gather("a", b"one", limit_s=0.3)
        assert second.gather("a", b"two") == [b"one", b"two"]
        second.done()
        second.close()
        server.restart()
        assert first.gather("a", b"one") == [b"one", b"two"]
        assert first.gather("a", b"three") == [b"three", b""]


def test_a_process_that_takes_anothers_place_gets_numbers_of_its_own() -> None:
    with servers(1) as [server]:
        old = client([server])
        assert [old.take("part"), old.take("part"), old.take("other")] == [0, 1, 0]
        old.close()
        assert [client([server]).take("part")] == [2]
    with servers(1) as [server]:
        mine = client([server])
        assert mine.take("part") == 0
        server.restart()
        with pytest.raises(umiak_native.ServerForgot, match="came back without what it had"):
            mine.take("part")


@pytest.mark.parametrize("accessor", [None, specs.Accessor(embed_init=specs.Constant(value=2.0), zero_init=False)])
def test_rows_that_are_not_there_read_as_they_would_begin_or_as_zeros(accessor: specs.Accessor | None) -> None:
    spec = specs.SparseTable(dim=2, init=specs.Constant(value=2.0), accessor=accessor)
    with servers(2) as started:
        mine = client(started)
        table = mine.create_table("t", specs.to_json(spec))
        keys = np.arange(20)
        made = mine.pull(table, keys[:10])
        assert (made != 0).any()
        read = mine.pull(table, keys, create=False, absent="zeros")
        assert np.array_equal(read[:10], made)
        assert (read[10:] == 0).all()
        assert np.array_equal(mine.pull(table, keys, create=False)[10:], made)
        assert np.array_equal(mine.pull(table, keys, absent="zeros")[10:], made)
        with pytest.raises(ValueError, match="initial or zeros, not nothing"):
            mine.pull(table, keys, absent="nothing")  # type: ignore[arg-type]


class Alarm(Exception):
    pass


def test_a_signal_is_heard_while_a_call_waits() -> None:
    def ring(_number: int, _frame: object) -> None:
        heard.append(mine.waiting_for())
        with pytest.raises(umiak_native.Refused, match="interrupted"):
            mine.status()
        raise Alarm

    heard: list[str | None] = []
    with servers(1, world=2) as [server]:
        mine = client([server], world=2)
        table = mine.create_table("t", sum_spec())
        previous = signal.signal(signal.SIGALRM, ring)
        try:
            signal.setitimer(signal.ITIMER_REAL, 1.5)
            with pytest.raises(Alarm):
                mine.pull(table, np.arange(3), step=1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        assert len(heard) == 1
        assert "trainer" in (heard[0] or "")
        mine.push(table, np.arange(3), np.ones((3, 4), np.float32))
        assert (mine.pull(table, np.arange(3)) == 1).all()


def test_a_mistaken_list_of_servers_is_refused() -> None:
    with servers(2) as started:
        for endpoints in (started[:1], started[::-1]):
            with pytest.raises(umiak_native.Refused) as refused:
                client(endpoints).connect()
            assert refused.value.code == "wrong-server"
    for config in ({}, {"endpoints": ["nowhere"]}, {"endpoints": ["h:1"], "rank": 2}, {"endpoints": ["h:1"], "x": 0}):
        with pytest.raises(umiak_native.Refused) as refused:
            umiak_native.Client(json.dumps(config))
        assert refused.value.code == "bad-config"
    for config in ({"shards": 3}, {"world": 0}, {"port": -1}, {"tls": {}}, {"colour": "red"}):
        with pytest.raises(umiak_native.Refused) as refused:
            umiak_native.Server(json.dumps(config))
        assert refused.value.code == "bad-config"


def test_a_server_starts_waits_and_stops_in_this_process() -> None:
    server = umiak_native.Server(json.dumps({"job": "here"}))
    with pytest.raises(umiak_native.Refused):
        server.wait(0.0)
    port = server.start()
    assert server.start() == port
    assert server.wait(0.05) is None
    mine = umiak_native.Client(json.dumps({"endpoints": [f"127.0.0.1:{port}"], "job": "here"}))
    mine.connect()
    assert json.loads(server.status())["connections"] >= 1
    server.stop()
    server.stop()
    with pytest.raises(umiak_native.Refused):
        server.status()


def test_a_fork_leaves_its_parents_client_alone() -> None:
    with servers(1) as [server]:
        mine = client([server])
        table = mine.create_table("t", sum_spec())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads is the point
            child = os.fork()
        if child == 0:
            try:
                mine.status()
            except umiak_native.Refused as refused:
                # As the end of a process would: nothing of the parent's may be closed by it.
                del mine
                os._exit(17 if refused.code == "forked" else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
        mine.push(table, np.arange(3), np.ones((3, 4), np.float32))
        assert (mine.pull(table, np.arange(3)) == 1).all()
