"""Clients and servers in their own processes: what comes back, what survives a kill, how waiting ends, and what is said."""

from __future__ import annotations

import concurrent.futures
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import umiak_native

from tests.support.ps_peers import ServerProcess, client, servers, sum_spec
from umiak.ps import specs
from umiak.ps.clients.local import LocalClient


def test_rows_of_any_keys_come_back_in_their_places() -> None:
    dice = np.random.default_rng(5)
    with servers(3) as started:
        mine = client(started)
        table = mine.create_table("t", sum_spec(5))
        assert mine.create_table("t", sum_spec(5)) == table
        assert (mine.pull_width(table), mine.push_width(table)) == (5, 5)
        keys = dice.integers(-(2**40), 2**40, (40, 50)) // dice.integers(1, 2**38, (40, 50))
        rows = dice.integers(-8, 9, (40, 50, 5)).astype(np.float32)
        mine.push(table, keys, rows)
        expected = {int(key): rows[keys == key].sum(axis=0) for key in np.unique(keys)}
        out = mine.pull(table, keys)
        assert out.shape == (40, 50, 5)
        assert all((out[at] == expected[int(keys[at])]).all() for at in np.ndindex(40, 50))
        # The same bits as unsigned keys, backwards, into an array of the caller's.
        into = np.empty((50, 40, 5), np.float32)
        assert mine.pull(table, keys.T.view(np.uint64), into) is into
        assert (into == out.transpose(1, 0, 2)).all()
        assert mine.pull(table, np.empty(0, np.int64)).shape == (0, 5)
        before = json.loads(mine.status())
        assert (mine.pull(table, np.array([2**63], np.uint64), create=False) == 0).all()
        rows_before, rows_after = (
            [server["tables"]["t"]["rows"] for server in answers] for answers in (before, json.loads(mine.status()))
        )
        assert rows_before == rows_after
        assert all(rows_before)
        mine.set(table, np.array([1, 1], np.int64), np.array([[1] * 5, [2] * 5], np.float32))
        mine.add(table, np.array([1, 1], np.int64), np.array([[3] * 5, [4] * 5], np.float32))
        assert (mine.pull(table, np.array([1], np.int64)) == 9).all()
        with pytest.raises(umiak_native.Refused) as refused:
            mine.create_table("t", sum_spec(6))
        assert refused.value.code == "other-spec"
        with pytest.raises(TypeError):
            mine.pull(table, np.arange(3, dtype=np.int32))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="shape"):
            mine.push(table, np.arange(3), np.ones((4, 5), np.float32))
        with pytest.raises(umiak_native.Refused, match="no table 9"):
            mine.pull(9, np.arange(3))
        mine.done()
        mine.close()
        mine.close()
        with pytest.raises(umiak_native.Refused, match="closed"):
            mine.connect()
        assert [server.verdict()["done"] for server in started] == [[0]] * 3


def test_skewed_batches_alone_look_each_key_up_once_and_are_a_servers_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dice = np.random.default_rng(5)
    spec = specs.to_json(specs.SparseTable(dim=5, seed=3, rule=specs.Adam()))
    alone = LocalClient()
    asked: list[int] = []

    class Asked:
        def __init__(self, table: umiak_native.Table) -> None:
            self._table = table

        def __getattr__(self, name: str) -> Any:
            return getattr(self._table, name)

        def pull(self, keys: np.ndarray, **more: Any) -> np.ndarray:
            asked.extend(keys.tolist())
            return self._table.pull(keys, **more)

    sparse = alone._sparse
    monkeypatch.setattr(alone, "_sparse", lambda table: Asked(sparse(table)))
    with servers(1) as started:
        served = client(started)
        tables = [each.create_table("t", spec) for each in (alone, served)]
        for _ in range(5):
            keys = dice.zipf(1.2, (64, 26)) % 100_000
            gradients = dice.normal(size=(64, 26, 5)).astype(np.float32)
            into = np.empty((64, 26, 5), np.float32)
            asked.clear()
            mine, theirs = (each.pull(table, keys) for each, table in zip((alone, served), tables, strict=True))
            assert sorted(asked) == np.unique(keys).tolist()
            assert alone.pull(tables[0], keys, into) is into
            assert np.array_equal(mine.view(np.uint32), theirs.view(np.uint32))
            assert np.array_equal(into, mine)
            for each, table in zip((alone, served), tables, strict=True):
                each.push(table, keys, gradients)
        different = np.arange(10)
        assert np.array_equal(alone.pull(tables[0], different), served.pull(tables[1], different))


def test_dense_tables_are_split_and_joined() -> None:
    spec = {"kind": "dense", "arrays": [{"name": "w", "shape": [37, 41]}, {"name": "b", "shape": [9]}]}
    with servers(3, shards=8) as started:
        mine = client(started, shards=8)
        table = mine.create_table("d", json.dumps({**spec, "optimizer": {"rule": "sgd", "learning_rate": 0.5}}))
        values = np.arange(37 * 41 + 9, dtype=np.float32)
        with pytest.raises(umiak_native.Refused) as refused:
            mine.pull_dense(table)
        assert refused.value.code == "not-set"
        mine.set_dense(table, values)
        mine.set_dense(table, values * 2, if_unset=True)
        assert (mine.pull_dense(table) == values).all()
        mine.push_dense(table, np.full_like(values, 2))
        mine.set_learning_rate(table, 0.25)
        mine.push_dense(table, np.full_like(values, 2))
        assert (mine.pull_dense(table) == values - 1.5).all()
        with pytest.raises(umiak_native.Refused, match="elements"):
            mine.push_dense(table, values[1:])


def test_a_step_is_applied_once_when_all_have_committed_it() -> None:
    with servers(2, world=2) as started:
        both = [client(started, rank=rank, world=2) for rank in (0, 1)]
        tables = [mine.create_table("t", sum_spec()) for mine in both]
        keys = np.arange(100)
        assert [mine.resume() for mine in both] == [0, 0]
        for step in range(3):
            waiting = threading.Thread(target=lambda step=step: _do_step(both[1], tables[1], keys, step))
            waiting.start()
            _do_step(both[0], tables[0], keys, step)
            waiting.join()
        assert all((mine.pull(0, keys, step=3) == 6).all() for mine in both)
        # A pull of a step that the other one has not committed waits, and says for whom.
        _do_step(both[0], tables[0], keys, 3)
        with pytest.raises(umiak_native.Timeout, match="trainer 1"):
            both[0].pull(tables[0], keys, step=4, limit_s=2.5)
        # Rank 1 is started again, with a step that it has only prepared: it is forgotten, and done again.
        both[1].push(tables[1], keys, np.full((100, 4), 9, np.float32), step=3)
        both[1].prepare(3)
        both[1].close()
        both[1] = client(started, rank=1, world=2)
        assert both[1].resume() == 3
        _do_step(both[1], both[1].create_table("t", sum_spec()), keys, 3)
        assert (both[0].pull(tables[0], keys, step=4) == 8).all()
        assert both[0].resume() == 4


def _do_step(mine: umiak_native.Client, table: int, keys: np.ndarray, step: int) -> None:
    mine.pull(table, keys, step=step)
    mine.push(table, keys, np.ones((len(keys), 4), np.float32), step=step)
    mine.prepare(step)
    mine.commit(step)


@pytest.mark.parametrize("step", [None, 0])
def test_adam_counts_the_pushes_of_the_whole_table_on_every_server(step: int | None) -> None:
    """Also those of which a server has no row."""
    spec = specs.to_json(specs.SparseTable(dim=4, rule=specs.Adam(learning_rate=0.1), seed=3))
    batches = [np.arange(40), np.array([7]), np.array([], np.uint64), np.array([7, 8]), np.arange(40)]
    learned = []
    with servers(3, shards=8) as started:
        for mine in (client(started, shards=8), LocalClient(shards=8)):
            table = mine.create_table("t", spec)
            mine.resume()
            for number, keys in enumerate(batches):
                own = None if step is None else number
                mine.push(table, keys.astype(np.uint64), np.full((len(keys), 4), 0.5 + number, np.float32), step=own)
                if own is not None:
                    mine.prepare(own)
                    mine.commit(own)
            learned.append(mine.pull(table, np.arange(40, dtype=np.uint64), step=0 if step is None else len(batches)))
    assert learned[0].tobytes() == learned[1].tobytes()


def test_a_trainer_that_is_done_and_comes_back_is_where_it_was() -> None:
    """It was killed between its last word to the servers and its end."""
    with servers(2, world=2) as started:
        both = [client(started, rank=rank, world=2) for rank in (0, 1)]
        tables = [mine.create_table("t", sum_spec()) for mine in both]
        keys = np.arange(100)
        for step in range(3):
            waiting = threading.Thread(target=_do_step, args=(both[1], tables[1], keys, step))
            waiting.start()
            _do_step(both[0], tables[0], keys, step)
            waiting.join()
        both[1].done()
        both[1].close()
        back = client(started, rank=1, world=2)
        assert back.resume() == 3
        assert (back.pull(back.create_table("t", sum_spec()), keys, step=3) == 6).all()
        back.done()
        # Where the others have gone on without it, it can only join them later.
        _do_step(both[0], tables[0], keys, 3)
        assert (both[0].pull(tables[0], keys, step=4) == 7).all()
        assert client(started, rank=1, world=2).resume() > 4


SHORT = {"most_frame": 1500}


def _train(
    servers_limits: dict[str, Any], limits: dict[str, Any], *, in_steps: bool, wire: str, ahead: bool = False
) -> list[np.ndarray]:
    """What comes of the same work, whatever the length of frames, and whether rows come with the step before."""
    dice = np.random.default_rng(8)
    batches = dice.integers(0, 2000, (5, 30, 50))
    rule = specs.Adam(learning_rate=0.5)
    rows = specs.to_json(specs.SparseTable(dim=3, seed=2, rule=rule))
    arrays = (specs.Array(name="w", shape=(3000,)),)
    flat = specs.to_json(specs.DenseTable(arrays=arrays, rule=rule, clip=specs.Clip(norm=2.0)))
    found = []
    with servers(2, shards=8, **servers_limits) as started:
        mine = client(started, shards=8, **limits)
        table, dense = mine.create_table("t", rows, wire), mine.create_table("d", flat, wire)
        mine.set_dense(dense, dice.normal(size=3000).astype(np.float32), if_unset=True)
        mine.set_dense(dense, np.zeros(3000, np.float32), if_unset=True)
        out = np.empty(3000, np.float32)
        come: np.ndarray | None = None
        for number in range(4):
            step = number if in_steps else None
            keys = batches[number]
            found.append(mine.pull(table, keys, step=number if in_steps else 0) if come is None else come)
            come = np.full((30, 50, 3), np.nan, np.float32) if ahead and number < 3 else None
            next_rows = [] if come is None else [(table, batches[number + 1], come)]
            of_rows = dice.normal(size=(30, 50, 3)).astype(np.float32)
            gradients = dice.normal(size=3000).astype(np.float32)
            together = [(table, keys, of_rows)] if number == 2 else []
            if not together:
                mine.push(table, keys, of_rows, step=step)
            if number % 2:
                mine.push_dense(dense, gradients, step=step)
                if step is not None:
                    mine.prepare(step)
                    mine.commit(step, next_rows=next_rows)
                else:
                    come = None
            else:
                learned = mine.learn_dense(dense, gradients, out, pushes=together, step=step, next_rows=next_rows)
                found.append(learned.copy())
            found.append(mine.pull_dense(dense, step=number + 1 if in_steps else 0))
        mine.set(table, np.arange(900), np.ones((900, 3), np.float32))
        mine.add(table, np.arange(900), np.ones((900, 3), np.float32)) if not in_steps else None
        found.append(mine.pull(table, np.arange(2000), step=4 if in_steps else 0))
        mine.close()
    return found


@pytest.mark.parametrize("wire", ["float32", "bfloat16"])
@pytest.mark.parametrize("in_steps", [False, True])
def test_requests_of_any_length_are_cut_into_frames_and_count_as_one(in_steps: bool, wire: str) -> None:
    whole = _train({}, {}, in_steps=in_steps, wire=wire)
    cut = _train({"most_frame": 2048}, SHORT, in_steps=in_steps, wire=wire)
    ahead = _train({}, {}, in_steps=in_steps, wire=wire, ahead=True)
    cut_and_ahead = _train({"most_frame": 2048}, SHORT, in_steps=in_steps, wire=wire, ahead=True)
    for one, *others in zip(whole, cut, ahead, cut_and_ahead, strict=True):
        for other in others:
            assert np.array_equal(one.view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize("wire", ["float32", "bfloat16"])
def test_changes_in_many_frames_count_once_though_servers_are_killed(tmp_path: Path, wire: str) -> None:
    keys = np.arange(3000)
    with servers(2, log={"dir": str(tmp_path), "interval_ms": 5, "snapshot_bytes": 1 << 20}) as started:
        mine = client(started, **SHORT)
        table = mine.create_table("t", sum_spec(), wire)
        flat = {"kind": "dense", "arrays": [{"name": "w", "shape": [5000]}], "optimizer": {"rule": "sum"}}
        dense = mine.create_table("d", json.dumps(flat), wire)
        mine.set_dense(dense, np.zeros(5000, np.float32))
        over = threading.Event()

        def kill() -> None:
            for turn in range(8):
                started[turn % 2].restart()
            over.set()

        killing = threading.Thread(target=kill)
        killing.start()
        pushes = 0
        while not over.is_set():
            mine.push(table, keys, np.ones((3000, 4), np.float32))
            mine.push_dense(dense, np.ones(5000, np.float32))
            pushes += 1
        killing.join()
        assert (mine.pull(table, keys) == pushes).all()
        assert (mine.pull_dense(dense) == pushes).all()
        mine.done()


def test_barriers_say_whom_they_wait_for() -> None:
    with servers(2, world=2) as started:
        first, second = (client(started, rank=rank, world=2) for rank in (0, 1))
        first.connect()
        second.connect()
        arrived = threading.Thread(target=lambda: first.barrier("here"))
        arrived.start()
        while "trainer 1" not in (first.waiting_for() or ""):
            time.sleep(0.02)
        second.barrier("here")
        arrived.join()
        assert first.waiting_for() is None
        with pytest.raises(umiak_native.Timeout):
            first.barrier("here", limit_s=0.3)


def test_trainers_that_wait_for_each_other_are_told() -> None:
    """One in a step, at a server where nobody meets, the other at a barrier: neither would ever go on."""
    with servers(2, world=2) as started:
        both = [client(started, rank=rank, world=2) for rank in (0, 1)]
        tables = [mine.create_table("t", sum_spec()) for mine in both]
        keys = np.arange(1000)
        elsewhere = keys[umiak_native.server_of(keys, 2) == 1][:1]
        _do_step(both[0], tables[0], keys, 0)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            waits = [
                pool.submit(both[0].pull, tables[0], elsewhere, step=1),
                pool.submit(both[1].barrier, "end"),
            ]
            for each in waits:
                with pytest.raises(umiak_native.Refused) as refused:
                    each.result()
                assert refused.value.code == "mutual-wait"
                words = 'trainers wait for each other: trainer 0 at step 0, trainer 1 at barrier "end"'
                assert words in str(refused.value)
                assert "job.finish_steps()" in str(refused.value)
        # Nobody is cut off by it: the step can still be taken.
        _do_step(both[1], tables[1], keys, 0)
        assert (both[0].pull(tables[0], keys, step=1) == 2).all()
        for mine in both:
            mine.close()
        verdict = started[0].verdict()
        assert not verdict["ok"]
        assert "trainers wait for each other" in verdict["text"]


def test_what_is_waited_for_is_told_after_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with servers(1, world=2) as started:
        first, second = (client(started, rank=rank, world=2) for rank in (0, 1))
        second.connect()
        waiting = threading.Thread(target=lambda: _do_step_and_read(first))
        waiting.start()
        told = ""
        while "for 10 s" not in told:
            time.sleep(0.1)
            told += capsys.readouterr().err
        assert told == "umiak.ps: waiting for trainer 1 (at work) at step 0, for 10 s\n"
        second.done()
        waiting.join()


def _do_step_and_read(mine: umiak_native.Client) -> None:
    table = mine.create_table("t", sum_spec())
    _do_step(mine, table, np.arange(4), 0)
    mine.pull(table, np.arange(4), step=1)


@pytest.mark.parametrize(("on_loss", "ok"), [("go_on", True), ("fail", False)])
def test_a_job_that_went_on_without_a_trainer_has_ended_well(on_loss: str, ok: bool) -> None:
    with servers(1, world=2, on_loss=on_loss, grace_s=0.2) as started:
        first, second = (client(started, rank=rank, world=2) for rank in (0, 1))
        for mine in (first, second):
            mine.connect()
        second.close()
        while json.loads(first.status())[0]["trainers"][1]["state"] != "lost":
            time.sleep(0.02)
        first.done()
        verdict = started[0].verdict()
        assert (verdict["ok"], verdict["done"], verdict["lost"]) == (ok, [0], [1])
        assert verdict["text"].startswith("1 of 2 trainers are done; lost: trainer 1 (lost: nothing heard for")


def test_steps_without_a_trainer_are_remembered_by_a_log(tmp_path: Path) -> None:
    """That it takes no more steps, and that the others' gradients are the mean over those that are left."""
    with servers(1, world=2, log={"dir": str(tmp_path), "interval_ms": 5}) as started:
        both = [client(started, rank=rank, world=2) for rank in (0, 1)]
        tables = [mine.create_table("t", sum_spec()) for mine in both]
        keys, ones = np.arange(10), np.ones((10, 4), np.float32)
        both[1].finish_steps()
        for step in range(2):
            both[0].push(tables[0], keys, ones, step=step, scale=0.5, mean=True)
            both[0].prepare(step)
            both[0].commit(step)
            if step == 0:
                started[0].restart()
        assert (both[1].pull(tables[1], keys, step=2) == 2).all()
        assert (both[0].step, both[1].step) == (2, None)


def test_every_push_counts_once_though_servers_are_killed(tmp_path: Path) -> None:
    with servers(2, log={"dir": str(tmp_path), "interval_ms": 5}) as started:
        mine = client(started)
        table = mine.create_table("t", sum_spec())
        keys = np.arange(200)
        kills = threading.Thread(target=lambda: _kill_in_turn(started, 6))
        pushed = 0
        kills.start()
        while kills.is_alive() or pushed < 50:
            mine.push(table, keys, np.ones((200, 4), np.float32))
            pushed += 1
        kills.join()
        assert (mine.pull(table, keys) == pushed).all()
        for server in started:
            server.restart()
        assert (mine.pull(table, keys) == pushed).all()
        mine.close()


def test_what_was_pushed_before_a_barrier_outlives_server_and_trainer(tmp_path: Path) -> None:
    with servers(2, world=2, log={"dir": str(tmp_path), "interval_ms": 200}) as started:
        first, second = (client(started, rank=rank, world=2) for rank in (0, 1))
        table = first.create_table("t", sum_spec())
        second.create_table("t", sum_spec())
        keys = np.arange(200)
        for name in ("a", "b"):
            first.push(table, keys, np.ones((200, 4), np.float32))
            arrived = threading.Thread(target=first.barrier, args=(name,))
            arrived.start()
            second.barrier(name)
            arrived.join()
            for server in started:
                server.restart()
            # Only the second one talks to the servers that came back.
            assert (second.pull(table, keys) == (1 if name == "a" else 2)).all()


def test_a_trainer_that_is_done_leaves_nothing_that_could_be_lost(tmp_path: Path) -> None:
    with servers(1, world=2, log={"dir": str(tmp_path), "interval_ms": 200}) as [server]:
        first, second = (client([server], rank=rank, world=2) for rank in (0, 1))
        second.connect()
        table = first.create_table("t", sum_spec())
        first.push(table, np.arange(9), np.ones((9, 4), np.float32))
        first.done()
        first.close()
        server.restart()
        second.create_table("t", sum_spec())
        assert (second.pull(table, np.arange(9)) == 1).all()


def dense_spec(elements: int = 1000) -> str:
    arrays = [{"name": "w", "shape": [elements]}]
    return json.dumps({"kind": "dense", "arrays": arrays, "optimizer": {"rule": "sgd", "learning_rate": 1.0}})


@pytest.mark.parametrize("elements", [1, 40, 100_000])
def test_a_step_ends_with_the_values_that_it_led_to(elements: int) -> None:
    with servers(3, shards=64) as started:
        mine = client(started, shards=64)
        table = mine.create_table("w", dense_spec(elements))
        mine.set_dense(table, np.zeros(elements, np.float32))
        gradient = -np.arange(elements, dtype=np.float32)
        out = np.empty(elements, np.float32)
        pieces = [gradient[: elements // 3], gradient[elements // 3 :].reshape(1, -1)]
        assert mine.learn_dense(table, pieces, out, scale=0.5) is out
        assert np.array_equal(out, -gradient / 2)
        step = mine.resume()
        mine.learn_dense(table, gradient, out, step=step)
        assert np.array_equal(out, -gradient * 1.5)
        assert np.array_equal(mine.pull_dense(table, step=step + 1), out)
        assert mine.resume() == step + 1
        with pytest.raises(umiak_native.Refused, match="elements"):
            mine.learn_dense(table, [gradient, gradient], out)
        with pytest.raises(ValueError, match="out must be"):
            mine.learn_dense(table, gradient, np.empty(elements + 1, np.float32))


@pytest.mark.parametrize("elements", [1, 40, 5000])
def test_gradients_of_rows_go_with_the_dense_ones(elements: int) -> None:
    rows = specs.to_json(specs.SparseTable(dim=3, seed=2, rule=specs.Adam(learning_rate=0.5)))

    def end(*, in_steps: bool, together: bool) -> list[np.ndarray]:
        dice = np.random.default_rng(3)
        with servers(3, shards=64) as started:
            mine = client(started, shards=64)
            tables = [mine.create_table(name, rows) for name in ("a", "b")]
            dense = mine.create_table("w", dense_spec(elements))
            mine.set_dense(dense, np.zeros(elements, np.float32))
            out = np.empty(elements, np.float32)
            for step in range(4):
                at = step if in_steps else None
                # So few at times that a server has none of them.
                keys = dice.integers(0, 500, (1, 2, 300, 0)[step])
                pushes = [(table, keys, dice.normal(size=(keys.size, 3)).astype(np.float32)) for table in tables]
                gradient = dice.normal(size=elements).astype(np.float32)
                if not together:
                    for each in pushes:
                        mine.push(*each, step=at, scale=0.5)
                mine.learn_dense(dense, gradient, out, pushes=pushes if together else [], step=at, scale=0.5)
            read = [mine.pull(table, np.arange(500), create=False, step=4 if in_steps else 0) for table in tables]
            mine.close()
            return [*read, out]

    for in_steps in (False, True):
        apart = end(in_steps=in_steps, together=False)
        for one, other in zip(apart, end(in_steps=in_steps, together=True), strict=True):
            assert np.array_equal(one.view(np.uint32), other.view(np.uint32))


def test_a_refused_push_is_told_though_dense_gradients_came_behind_it() -> None:
    with servers(2, shards=64) as started:
        mine = client(started, shards=64)
        table, dense = mine.create_table("t", sum_spec()), mine.create_table("w", dense_spec())
        mine.set_dense(dense, np.zeros(1000, np.float32))
        keys, rows, wide = np.arange(9), np.ones((9, 4), np.float32), np.ones((9, 7), np.float32)
        out, gradient = np.empty(1000, np.float32), -np.ones(1000, np.float32)
        with pytest.raises(umiak_native.Refused, match="floats"):
            mine.learn_dense(dense, gradient, out, pushes=[(table, keys, wide)])
        with pytest.raises(umiak_native.Refused, match="dense"):
            mine.learn_dense(dense, gradient, out, pushes=[(dense, keys, wide)])
        assert (mine.pull_dense(dense) == 0).all(), "nothing was sent"
        with pytest.raises(umiak_native.Refused, match="have not been set"):
            mine.learn_dense(mine.create_table("u", dense_spec()), gradient, out, pushes=[(table, keys, rows)])
        mine.finish_steps()
        with pytest.raises(umiak_native.Refused, match="no part in step 0"):
            mine.learn_dense(dense, gradient, out, pushes=[(table, keys, rows), (table, keys, rows)], step=0)
        assert (mine.pull_dense(dense) == 0).all()
        assert (mine.pull(table, keys) == 1).all(), "rows that came before dense gradients that were refused"
        # All answers were heard: what comes next has its own.
        mine.learn_dense(dense, gradient, out, pushes=[(table, keys, rows)])
        assert (out == 1).all()
        assert (mine.pull(table, keys) == 2).all()
        mine.close()


def test_a_push_that_one_server_refused_is_not_sent_to_another_one_later() -> None:
    """Both wait for the step that the push is for. One says that it never comes, and the other's answer is not waited for."""
    with servers(2) as started:
        mine = client(started)
        table, keys = mine.create_table("t", sum_spec()), np.arange(100)
        with pytest.raises(umiak_native.Refused, match="waits for itself at step 0"):
            mine.push(table, keys, np.ones((100, 4), np.float32), step=2)
        assert (mine.pull(table, keys) == 0).all(), "what comes next does not wait for that step, too"
        for step in range(3):
            _do_step(mine, table, keys, step)
        assert (mine.pull(table, keys, step=3) == 3).all()
        mine.close()


def test_shares_count_for_gradients_and_not_for_what_is_counted() -> None:
    accessor = specs.Accessor(
        embed_optimizer=specs.Sgd(learning_rate=1.0), embed_init=specs.Constant(value=0.0), show_scale=False
    )
    with servers(2) as started:
        mine = client(started)
        table = mine.create_table("t", specs.to_json(specs.SparseTable(dim=2, accessor=accessor)))
        keys = np.array([5, 6, 5])
        rows = np.array([[3, 1, 1, -8, 0, 0], [3, 1, 0, -8, 0, 0], [3, 1, 0, -8, 0, 0]], np.float32)
        mine.push(table, keys, rows, scale=0.25)
        shows, clicks, embeds = mine.pull(table, np.array([5, 6]))[:, :3].T.tolist()
        assert (shows, clicks, embeds) == ([2, 1], [1, 0], [4, 2])


def _kill_in_turn(started: list[ServerProcess], times: int) -> None:
    for turn in range(times):
        started[turn % len(started)].restart()


def test_steps_survive_kills_bit_for_bit(tmp_path: Path) -> None:
    with servers(2, log={"dir": str(tmp_path), "interval_ms": 5}) as started:
        mine = client(started)
        table = mine.create_table("t", sum_spec())
        keys = np.arange(200)
        kills = threading.Thread(target=lambda: _kill_in_turn(started, 4))
        kills.start()
        step = 0
        while kills.is_alive() or step < 20:
            _do_step(mine, table, keys, step)
            step += 1
        kills.join()
        assert (mine.pull(table, keys, step=step) == step).all()


def test_a_server_that_lost_acknowledged_pushes_is_found_out() -> None:
    with servers(1) as [server]:
        mine = client([server])
        table = mine.create_table("t", sum_spec())
        server.restart()
        # Nothing was pushed yet: the table is created again, and that is all.
        mine.push(table, np.arange(3), np.ones((3, 4), np.float32))
        server.restart()
        with pytest.raises(umiak_native.ServerForgot, match="came back without"):
            mine.pull(table, np.arange(3))
        with pytest.raises(umiak_native.ServerForgot):
            mine.push(table, np.arange(3), np.ones((3, 4), np.float32))
