"""Every strategy against numbers worked out by hand: two servers and two trainers in this process, or none at all."""

from __future__ import annotations

import concurrent.futures
import threading
from pathlib import Path

import numpy as np
import pytest
import trustme
import umiak_native

from tests.support import PATIENCE_S
from tests.support.ps_cluster import Cluster, ThreadGroup
from umiak.core.cluster import StrategyName
from umiak.ps import specs
from umiak.ps.clients.collective import CollectiveClient
from umiak.ps.clients.local import LocalClient
from umiak.ps.environment import PsSeat
from umiak.ps.errors import BadRequest
from umiak.ps.layers.dense import Learner
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import Collective, translated

KEYS = np.arange(40, dtype=np.int64)
PLAIN = specs.SparseTable(dim=3, init=specs.Constant(value=1.0), rule=specs.Sgd(learning_rate=0.5))
DENSE = specs.DenseTable(arrays=(specs.Array(name="w", shape=(5, 7)),), rule=specs.Sgd(learning_rate=0.5))
START = np.arange(35, dtype=np.float32)


def alone(strategy: str = "async", **flags: object) -> Session:
    return Session(PsSeat(), translated(strategy, flags).strategy, SessionOptions(shards=4))


def gradients(rank: int, step: int, width: int = 3) -> np.ndarray:
    return np.random.default_rng([rank, step]).normal(size=(len(KEYS), width)).astype(np.float32)


def test_sync_is_bit_equal_to_one_process_that_adds_in_rank_order() -> None:
    rule = specs.Adam(learning_rate=0.1)
    spec = specs.SparseTable(dim=3, seed=5, rule=rule)
    dense = specs.DenseTable(arrays=DENSE.arrays, rule=rule)
    steps = 6

    def trainer(job: Session) -> tuple[np.ndarray, np.ndarray]:
        strategy = job.communicator
        table, flat = strategy.open("rows", spec), strategy.open_dense("dense", dense, START)
        for step in range(steps):
            mine = KEYS[job.rank :: 3]  # a third of the keys are common to both, in turn
            strategy.pull(table, mine)
            strategy.push(table, np.r_[mine, mine[:2]], np.r_[gradients(job.rank, step)[mine], gradients(9, step)[:2]])
            strategy.push_dense(flat, gradients(job.rank, step).ravel()[:35])
            strategy.end_step()
        return strategy.pull(table, KEYS), strategy.pull_dense(flat)

    with Cluster() as cluster:
        first, second = cluster.train("sync", trainer)
    client = LocalClient(shards=4)
    table, flat = client.create_table("rows", specs.to_json(spec)), client.create_table("dense", specs.to_json(dense))
    client.set_dense(flat, START)
    for step in range(steps):
        for rank in range(2):
            mine = KEYS[rank::3]
            rows = np.r_[gradients(rank, step)[mine], gradients(9, step)[:2]] * np.float32(0.5)
            client.push(table, np.r_[mine, mine[:2]], rows, step=step)
            client.push_dense(flat, gradients(rank, step).ravel()[:35] * np.float32(0.5), step=step)
        client.commit(step)
    for rows, values in (first, second):
        assert np.array_equal(rows, client.pull(table, KEYS))
        assert np.array_equal(values, client.pull_dense(flat))


@pytest.mark.parametrize("with_servers", [False, True])
def test_two_backward_passes_and_one_step_are_two_trainers(with_servers: bool) -> None:
    """Bit for bit, also where a batch has a key several times, in one look or in several."""
    spec = specs.SparseTable(dim=3, seed=5, rule=specs.Adam(learning_rate=0.1))

    def look(job: Session, rank: int, step: int, factor: float) -> None:
        table = job.registry.table("rows", spec)
        keys = np.random.default_rng([rank, step]).integers(0, 5, 40).astype(np.uint64)
        for part in (slice(0, 25), slice(25, 40)):
            table.rows(keys[part])
        for part in (slice(25, 40), slice(0, 25)):
            table.collect(keys[part], gradients(rank, step)[part] * np.float32(factor))

    def trainer(job: Session) -> np.ndarray:
        for step in range(6):
            look(job, job.rank, step, 1.0)
            job.registry.push()
            job.communicator.end_step()
        return job.registry.table("rows", spec).rows(KEYS[:5].astype(np.uint64))

    def one(job: Session) -> np.ndarray:
        for step in range(6):
            for rank in range(2):
                look(job, rank, step, 0.5)
            job.registry.push()
            job.communicator.end_step()
        return job.registry.table("rows", spec).rows(KEYS[:5].astype(np.uint64))

    with Cluster() as cluster:
        both = cluster.train("sync", trainer)
    if with_servers:
        with Cluster(trainers=1) as cluster:
            (alone_rows,) = cluster.train("sync", one)
    else:
        alone_rows = one(alone("sync"))
    assert all(np.array_equal(rows, alone_rows) for rows in both)


def test_async_applies_everything_once() -> None:
    def trainer(job: Session) -> tuple[np.ndarray, np.ndarray]:
        strategy = job.communicator
        table, flat = strategy.open("rows", PLAIN), strategy.open_dense("dense", DENSE, START)
        for _ in range(5):
            strategy.push(table, KEYS, np.ones((40, 3), np.float32))
            strategy.push_dense(flat, np.ones(35, np.float32))
            strategy.end_step()
        job.barrier()
        return strategy.pull(table, KEYS), strategy.pull_dense(flat)

    for flags in ({}, {"send_queue_size": 3}, {"send_queue_size": 2, "max_merge_var_num": 2, "is_sgd_optimizer": 1}):
        with Cluster() as cluster:
            for rows, values in cluster.train("async", trainer, **flags):
                assert np.all(rows == 1 - 0.5 * 10)
                assert np.array_equal(values, START - 5)


def test_a_queue_hands_its_failure_to_the_loop() -> None:
    job = alone("async", send_queue_size=2)
    table = job.communicator.open("rows", PLAIN)
    job.communicator.push(table + 7, KEYS, np.ones((40, 3), np.float32))
    job.communicator.end_step()
    with pytest.raises(IndexError):
        job.flush()
    job.communicator.close()
    job.abandon()


def test_dense_parameters_are_fetched_as_rarely_as_asked() -> None:
    job = alone("async", max_send_grad_num_before_recv=3)
    flat = job.communicator.open_dense("dense", DENSE, START)
    seen = []
    values = START.copy()
    for _ in range(6):
        job.communicator.push_dense(flat, np.ones(35, np.float32))
        job.communicator.end_step()
        job.communicator.pull_dense(flat, values)
        seen.append(float(values[0]))
    assert seen == [0, 0, -1.5, -1.5, -1.5, -3.0]


def test_half_async_sends_the_mean_of_its_steps() -> None:
    job = alone("half_async", max_merge_var_num=2)
    table, flat = job.communicator.open("rows", PLAIN), job.communicator.open_dense("dense", DENSE, START)
    values = START.copy()
    for step in range(3):
        job.communicator.push(table, KEYS[:1], np.full((1, 3), 2.0 + step, np.float32))
        job.communicator.push_dense(flat, np.full(35, 2.0 + step, np.float32))
        job.communicator.end_step()
        job.communicator.pull_dense(flat, values)
    # Two steps went as their mean of 2.5, the third waits.
    assert job.communicator.pull(table, KEYS[:1])[0, 0] == 1 - 0.5 * 2.5
    assert values[0] == -0.5 * 2.5
    job.flush()
    assert job.communicator.pull(table, KEYS[:1])[0, 0] == 1 - 0.5 * (2.5 + 4)
    assert job.communicator.pull_dense(flat, values)[0] == -0.5 * (2.5 + 4)


def test_hybrid_applies_rows_at_once_and_dense_parameters_together() -> None:
    seen = threading.Barrier(2)

    def trainer(job: Session) -> tuple[float, float, np.ndarray]:
        strategy = job.communicator
        table, flat = strategy.open("rows", PLAIN), strategy.open_dense("dense", DENSE, START)
        strategy.push(table, KEYS, np.ones((40, 3), np.float32))
        strategy.push_dense(flat, np.ones(35, np.float32))
        seen.wait(PATIENCE_S)
        before = float(strategy.pull(table, KEYS)[0, 0]), float(strategy.pull_dense(flat)[0])
        seen.wait(PATIENCE_S)
        strategy.end_step()
        return *before, strategy.pull_dense(flat)

    with Cluster() as cluster:
        for row, value, after in cluster.train("hybrid", trainer):
            assert (row, value) == (0.0, 0.0)
            assert np.array_equal(after, START - 0.5)


def test_geo_exchanges_differences() -> None:
    met = threading.Barrier(2)

    def trainer(job: Session) -> list[float]:
        strategy = job.communicator
        table, flat = strategy.open("rows", PLAIN), strategy.open_dense("dense", DENSE, START)
        seen: list[float] = []
        own = 1.0 + job.rank
        for _ in range(2):
            strategy.pull(table, KEYS)
            strategy.push(table, KEYS, np.full((40, 3), own, np.float32))
            strategy.push_dense(flat, np.full(35, own, np.float32))
            strategy.end_step()
            seen += [float(strategy.pull(table, KEYS)[0, 0]), float(strategy.pull_dense(flat)[0])]
            met.wait(PATIENCE_S)
        job.barrier()
        seen += [float(strategy.pull(table, KEYS)[0, 0]), float(strategy.pull_dense(flat)[0])]
        return seen

    with Cluster() as cluster:
        first, second = cluster.train("geo", trainer, k_steps=100)
    assert first[:4] == [0.5, -0.5, 0.0, -1.0]
    assert second[:4] == [0.0, -1.0, -1.0, -2.0]
    # Each sends half of what it has learned and adds what the other one sends.
    assert first[4:] == [0.0 - 1.0, -1.0 - 1.0]
    assert second[4:] == [-1.0 - 0.5, -2.0 - 0.5]


def test_geo_refuses_what_it_cannot_train() -> None:
    with Cluster(trainers=1) as cluster, cluster.job("geo") as job, pytest.raises(BadRequest, match="geo can't train"):
        job.communicator.open("rows", specs.paddle_ctr_table())


@pytest.mark.parametrize("strategy", ["sync", "async"])
def test_a_new_learning_rate_counts_from_the_next_step(strategy: str) -> None:
    def trainer(job: Session) -> np.ndarray:
        table = job.communicator.open("rows", PLAIN)
        for step in range(4):
            if step == 2:
                job.barrier()
                job.communicator.set_learning_rate(table, 5.0)
                job.barrier()
            job.communicator.pull(table, KEYS)
            job.communicator.push(table, KEYS, np.ones((40, 3), np.float32), share=0.5)
            job.communicator.end_step()
        job.barrier()
        return job.communicator.pull(table, KEYS)

    with Cluster() as cluster:
        for rows in cluster.train(strategy, trainer):
            assert np.all(rows == 1 - 2 * 0.5 - 2 * 5.0)


def test_the_first_trainers_values_are_everybodys() -> None:
    def trainer(job: Session) -> np.ndarray:
        flat = job.communicator.open_dense("dense", DENSE, START + 100 * job.rank)
        return job.communicator.pull_dense(flat)

    with Cluster(trainers=3) as cluster:
        assert all(np.array_equal(values, START) for values in cluster.train("async", trainer))


def test_waiting_for_the_first_values_has_an_end() -> None:
    with (
        Cluster() as cluster,
        pytest.raises(BadRequest, match="UM-PS-009"),
        cluster.job("async", 1, rpc_deadline=300) as job,
    ):
        job.communicator.open_dense("dense", DENSE, START)


@pytest.mark.parametrize("strategy", [name.value for name in StrategyName])
def test_alone_gives_what_one_trainer_and_one_server_give(strategy: str) -> None:
    spec = specs.SparseTable(dim=3, seed=1, rule=specs.Adam())

    def trainer(job: Session) -> tuple[np.ndarray, np.ndarray]:
        table, flat = job.communicator.open("rows", spec), job.communicator.open_dense("dense", DENSE, START)
        for step in range(5):
            job.communicator.pull(table, KEYS)
            job.communicator.push(table, KEYS, gradients(0, step))
            job.communicator.push_dense(flat, gradients(0, step).ravel()[:35])
            job.communicator.end_step()
        job.barrier()
        return job.communicator.pull(table, KEYS), job.communicator.pull_dense(flat)

    with Cluster(servers=1, trainers=1) as cluster:
        (together,) = cluster.train(strategy, trainer)
    by_itself = trainer(alone(strategy))
    for one, other in zip(together, by_itself, strict=True):
        if strategy == "geo":
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        else:
            assert np.array_equal(one, other)


@pytest.mark.parametrize("strategy", ["sync", "async", "half_async", "hybrid"])
def test_a_step_in_one_call_is_the_same_step(strategy: str) -> None:
    def trainer(job: Session) -> tuple[np.ndarray, ...]:
        values = []
        for name in ("apart", "together"):
            table = job.communicator.open_dense(name, DENSE, START)
            rows = job.communicator.open(f"{name} rows", PLAIN)
            out = job.communicator.pull_dense(table, START.copy())
            for step in range(4):
                pieces = [gradients(7, step).ravel()[:20], gradients(7, step).ravel()[20:35]]
                push = (rows, np.arange(40, dtype=np.uint64), gradients(7, step)[:40])
                if name == "apart":
                    job.communicator.push(*push, share=0.25)
                    job.communicator.push_dense(table, pieces, share=0.25)
                    job.communicator.end_step()
                    job.communicator.pull_dense(table, out)
                else:
                    job.communicator.learn_dense(table, pieces, out, pushes=[push], share=0.25)
                job.barrier()
            job.communicator.flush()
            job.barrier()
            job.communicator.catch_up()
            values.append(job.communicator.pull_dense(table, out).copy())
            values.append(job.communicator.pull(rows, np.arange(40, dtype=np.uint64)).copy())
        return tuple(values)

    with Cluster() as cluster:
        for apart, rows_apart, together, rows_together in cluster.train(strategy, trainer):
            assert not np.array_equal(apart, START)
            assert np.array_equal(apart, together)
            assert not np.array_equal(rows_apart, np.ones_like(rows_apart))
            assert np.array_equal(rows_apart, rows_together)


@pytest.mark.parametrize("strategy", ["async", "half_async"])
def test_between_two_pulls_a_loaded_checkpoint_is_taken_over(strategy: str) -> None:
    job = alone(strategy, max_send_grad_num_before_recv=3, max_merge_var_num=3)
    table = job.communicator.open_dense("dense", DENSE, START)
    out = job.communicator.pull_dense(table, START.copy())
    job.communicator.push_dense(table, np.ones(35, np.float32))
    job.communicator.end_step()
    job.client.set_dense(table, START * 2)
    assert np.array_equal(job.communicator.pull_dense(table, out), START), "the next pull is two steps away"
    job.communicator.reload()
    assert np.array_equal(job.communicator.pull_dense(table, out), START * 2)


@pytest.mark.parametrize(("strategy", "shows"), [("sync", 2.0), ("async", 2.0), ("half_async", 4.0)])
def test_shares_and_means_are_of_gradients_and_not_of_shows(strategy: str, shows: float) -> None:
    accessor = specs.Accessor(
        embed_optimizer=specs.Sgd(learning_rate=1.0), embed_init=specs.Constant(value=0.0), show_scale=False
    )
    job = alone(strategy, max_merge_var_num=2)
    table = job.communicator.open("rows", specs.SparseTable(dim=2, accessor=accessor))
    shown = np.array([[3, 1, 1, -8, 0, 0], [3, 1, 0, -8, 0, 0]], np.float32)
    for _ in range(int(shows) // 2):
        job.communicator.push(table, np.array([5, 5]), shown, share=0.25)
        job.communicator.end_step()
    found_shows, clicks, weight = job.communicator.pull(table, np.array([5]))[0, :3].tolist()
    assert (found_shows, clicks, weight) == (shows, shows / 2, 4.0)


@pytest.mark.parametrize("strategy", [name.value for name in StrategyName])
def test_rows_that_nobody_has_can_be_read_as_zeros(strategy: str) -> None:
    def trainer(job: Session) -> list[np.ndarray]:
        table = job.communicator.open("rows", PLAIN)
        mine = np.array([[job.rank, 7]])
        job.communicator.pull(table, mine)
        job.barrier()
        read = job.communicator.pull(table, np.array([0, 1, 7, 8]), create=False, absent="zeros")
        job.barrier()
        # What was read as zeros begins as it should all the same.
        return [read[:, 0], job.communicator.pull(table, np.array([8, 9]))[:, 0]]

    with Cluster() as cluster:
        for read, begun in cluster.train(strategy, trainer):
            assert read.tolist() == [1, 1, 1, 0]
            assert begun.tolist() == [1, 1]
    read, begun = trainer(alone(strategy))
    assert (read.tolist(), begun.tolist()) == ([1, 0, 1, 0], [1, 1])


def test_trainers_gather_and_take_numbers() -> None:
    def trainer(job: Session) -> tuple[list[bytes], list[bytes], int]:
        return job.gather(b"%d" % job.rank), job.gather(b"x", "other"), job.take("part")

    with Cluster(trainers=3) as cluster:
        told = cluster.train("async", trainer)
    assert [gathered for gathered, _, _ in told] == [[b"0", b"1", b"2"]] * 3
    assert [others for _, others, _ in told] == [[b"x"] * 3] * 3
    assert sorted(number for _, _, number in told) == [0, 1, 2]
    job = alone()
    assert [trainer(job), trainer(job)] == [([b"0"], [b"x"], number) for number in (0, 1)]


def test_no_keys_are_no_rows_with_servers_and_without() -> None:
    def shapes(job: Session) -> list[tuple[int, ...]]:
        table = job.communicator.open("rows", PLAIN)
        return [job.communicator.pull(table, np.zeros(shape, np.int64)).shape for shape in ((0,), (0, 4))]

    with Cluster() as cluster:
        assert [*cluster.train("async", shapes), shapes(alone())] == [[(0, 3), (0, 4, 3)]] * 3


def test_certificates_are_shown_and_checked(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("job.example")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "job.pem")
    issued.private_key_pem.write_to_path(tmp_path / "job.key")
    tls = {"cert": "job.pem", "key": "job.key", "ca": "ca.pem"}
    tls = {name: str(tmp_path / file) for name, file in tls.items()}

    def trainer(job: Session) -> np.ndarray:
        return job.communicator.pull(job.communicator.open("rows", PLAIN), KEYS)

    with Cluster(tls={**tls, "name": "job.example"}) as cluster:
        assert all(np.all(rows == 1) for rows in cluster.train("async", trainer))
    with Cluster(trainers=1, tls={**tls, "name": "other.example"}) as cluster, pytest.raises(umiak_native.PsError):
        cluster.train("async", trainer, rpc_deadline=1000)


# ---- weights that a script sets after its optimizer was made


def learner_of(job: Session) -> Learner:
    rule = specs.Sgd(learning_rate=0.5)
    return Learner(job, DENSE.arrays, np.full(35, 1.0 + job.rank, np.float32), rule=rule, clip=None)


@pytest.mark.parametrize("strategy", ["sync", "hybrid"])
@pytest.mark.parametrize("setters", [(0,), (0, 1), (1,)])
def test_weights_that_are_set_count_from_the_next_step_on(strategy: str, setters: tuple[int, ...]) -> None:
    """The first trainer's, no matter who else has set some; and the same numbers for everybody in the same step."""

    def trainer(job: Session) -> list[float]:
        learner, seen = learner_of(job), []
        for step in range(3):
            if step == 1 and job.rank in setters:
                learner.values[:] = 100.0 * (job.rank + 1)
            learner.step([np.full(35, 2.0, np.float32)], share=None, factor=1.0)
            seen.append(float(learner.values[-1]))
        assert np.all(learner.values == learner.values[0])
        return seen

    with Cluster() as cluster:
        both = cluster.train(strategy, trainer)
    assert both == [[0.0, 99.0, 98.0] if 0 in setters else [0.0, -1.0, -2.0]] * 2


def test_weights_can_be_uploaded_at_once() -> None:
    def trainer(job: Session) -> float:
        learner = learner_of(job)
        learner.step([np.full(35, 2.0, np.float32)], share=None, factor=1.0)
        job.barrier("before")
        learner.values[:] = 100.0 * (job.rank + 1)
        learner.upload()
        job.barrier("behind")
        job.communicator.restart_dense()
        learner.fetch()
        return float(learner.values[-1])

    for strategy in ("sync", "async", "half_async", "geo", "hybrid"):
        with Cluster() as cluster:
            assert cluster.train(strategy, trainer) == [100.0, 100.0], strategy


def test_in_geo_everybody_goes_on_from_what_the_first_trainer_has_set() -> None:
    def trainer(job: Session) -> float:
        learner = learner_of(job)
        learner.values[:] = 64.0
        for _ in range(4):
            learner.step([np.zeros(35, np.float32)], share=None, factor=1.0)
        job.barrier()
        learner.fetch()
        return float(learner.values[-1])

    with Cluster() as cluster:
        assert cluster.train("geo", trainer, k_steps=2) == [64.0, 64.0]


@pytest.mark.parametrize("strategy", ["async", "half_async"])
def test_without_steps_in_common_set_weights_are_uploaded_with_the_next_step(strategy: str) -> None:
    with Cluster(trainers=1) as cluster:
        for flags in ({}, {"send_queue_size": 2}):
            job = cluster.job(strategy, **flags)
            learner = Learner(
                job, DENSE.arrays, START.copy(), rule=specs.Sgd(learning_rate=0.5), clip=None, table=str(flags)
            )
            learner.values[:] = 50.0
            for _ in range(2):
                learner.step([np.full(35, 2.0, np.float32)], share=None, factor=1.0)
            job.flush()
            expected = 49.0 if strategy == "half_async" else 48.0
            assert np.all(job.client.pull_dense(learner.groups[0].number) == expected)
            job.abandon()


def test_collective_trainers_take_over_what_the_first_one_has_set() -> None:
    brought: list[object] = [None, None]
    meet = threading.Barrier(2)

    def trainer(rank: int) -> list[float]:
        client = CollectiveClient(ThreadGroup(rank, brought, meet), shards=4)
        seat = PsSeat(rank=rank, world=2)
        job = Session(seat, Collective(), SessionOptions(shards=4), connect=lambda: client)
        rows = job.communicator.open("rows", PLAIN)
        learner, seen = learner_of(job), []
        for step in range(3):
            job.communicator.push(rows, KEYS, np.ones((40, 3), np.float32))
            if step == 1 and rank == 0:
                learner.values[:] = 100.0
            learner.step([np.full(35, 2.0, np.float32)], share=None, factor=1.0)
            seen.append(float(learner.values[-1]))
        assert np.all(job.communicator.pull(rows, KEYS) == 1 - 3 * 0.5)
        return seen

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert [*pool.map(trainer, range(2))] == [[0.0, 99.0, 98.0]] * 2


# ---- unequal numbers of steps


def test_a_trainer_without_more_steps_does_not_stop_the_others() -> None:
    """Their gradients are then the mean over those that are left."""

    def trainer(job: Session) -> tuple[np.ndarray, np.ndarray, int]:
        strategy = job.communicator
        table, flat = strategy.open("rows", PLAIN), strategy.open_dense("dense", DENSE, START)
        for _ in range(2 if job.rank else 5):
            strategy.pull(table, KEYS)
            strategy.push(table, KEYS, np.full((40, 3), 2.0 + job.rank, np.float32))
            strategy.push_dense(flat, np.full(35, 2.0 + job.rank, np.float32))
            strategy.end_step()
        job.finish_steps()
        job.barrier("end")
        with pytest.raises(BadRequest, match="UM-PS-131"):
            strategy.push_dense(flat, START)
        return job.client.pull(table, KEYS), job.client.pull_dense(flat), strategy.server_step

    with Cluster() as cluster:
        both = cluster.train("sync", trainer)
    # Two steps with the mean of 2 and 3, and three with 2.
    change = np.float32(0.5 * (2 * 2.5 + 3 * 2.0))
    for rows, values, step in both:
        assert np.array_equal(rows, np.full((40, 3), 1 - change))
        assert np.array_equal(values, START - change)
        assert step == 5


def test_a_share_that_was_said_stays_as_it_is() -> None:
    def trainer(job: Session) -> np.ndarray:
        flat = job.communicator.open_dense("dense", DENSE, START)
        for _ in range(1 if job.rank else 2):
            job.communicator.push_dense(flat, np.full(35, 2.0, np.float32), share=0.25)
            job.communicator.end_step()
        job.finish_steps()
        job.barrier("end")
        return job.client.pull_dense(flat)

    with Cluster() as cluster:
        assert all(np.array_equal(values, START - 0.75) for values in cluster.train("sync", trainer))


# ---- what is only read


@pytest.mark.parametrize("strategy", ["sync", "async", "half_async", "geo", "hybrid"])
def test_reading_creates_no_rows_anywhere(strategy: str) -> None:
    def trainer(job: Session) -> np.ndarray:
        spec = specs.SparseTable(dim=3, seed=5, rule=specs.Sgd(learning_rate=0.5))
        table = job.communicator.open("rows", spec)
        read = job.communicator.pull(table, KEYS, create=False)
        assert '"rows":0' in job.client.status().replace(" ", "")
        assert '"rows":1' not in job.client.status().replace(" ", "")
        if strategy == "geo":
            assert len(job.communicator._rows[table].latest) == 0  # type: ignore[attr-defined]
        job.barrier("read")
        assert np.array_equal(read, job.communicator.pull(table, KEYS)), "they begin with what was read"
        return read

    with Cluster() as cluster:
        cluster.train(strategy, trainer)
