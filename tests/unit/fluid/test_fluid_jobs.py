"""`fluid.incubate.fleet`, `DistributeTranspiler` and their strategies, in one process: who is who, what is refused, what a job without servers learns."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.fluid_programs import Programs, fluid, programs
from umiak.core.problem import BadRequest
from umiak.fluid.distributed import collective, jobs, rewriting
from umiak.fluid.distributed.strategies import chosen
from umiak.fluid.modules import resolved
from umiak.fluid.running import jobs as process_jobs
from umiak.fluid.surface.names import METHODS
from umiak.ps import Async, Count, Geo, HalfAsync, Probability, Sync

servers_fleet = fluid.incubate.fleet.parameter_server.distribute_transpiler.fleet
SERVERS = ["127.0.0.1:6174", "127.0.0.1:6175"]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody gave this process a seat, and a program that takes one leaves it to no other test."""
    before = dict(os.environ)
    for name in ("TRAINING_ROLE", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_PSERVERS_IP_PORT_LIST", "UMIAK_ROLE", "PADDLE_CURRENT_ENDPOINT"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    yield
    process_jobs.use(None)
    os.environ.clear()
    os.environ.update(before)


def classification(**embedding: Any) -> tuple[Any, Any]:
    ids, label = fluid.layers.data("ids", [2], dtype="int64"), fluid.layers.data("label", [1], dtype="int64")
    rows = fluid.embedding(ids, [30, 4], param_attr=fluid.ParamAttr(name="rows"), **embedding)
    predict = fluid.layers.fc(fluid.layers.reshape(rows, [-1, 8]), 2, act="softmax")
    return predict, fluid.layers.mean(fluid.layers.cross_entropy(predict, label))


FEED = {"ids": np.arange(12).reshape(6, 2), "label": np.arange(6).reshape(6, 1) % 2}


def steps(made: Programs, program: Any, loss: Any, count: int = 4) -> list[float]:
    return [float(made.executor.run(program, feed=FEED, fetch_list=[loss])[0][0]) for _ in range(count)]


def in_one_process(optimizer: Any, **embedding: Any) -> list[float]:
    with programs() as made:
        _, loss = classification(**embedding)
        optimizer().minimize(loss)
        made.start()
        return steps(made, made.main, loss)


# ---- who is who


def test_a_role_maker_says_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_TRAINER_ID": "1",
        "PADDLE_TRAINERS_NUM": "3",
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(SERVERS),
    }.items():
        monkeypatch.setenv(name, text)
    for maker in (
        fluid.incubate.fleet.base.role_maker.PaddleCloudRoleMaker(),
        fluid.incubate.fleet.base.role_maker.GeneralRoleMaker(),
    ):
        assert isinstance(maker, fluid.incubate.fleet.base.role_maker.RoleMakerBase)
        assert [maker.is_worker(), maker.is_server(), maker.is_first_worker()] == [True, False, False]
        assert [maker.worker_index(), maker.worker_num(), maker.server_num()] == [1, 3, 2]
        assert maker.get_pserver_endpoints() == SERVERS
    monkeypatch.setenv("TRAINING_ROLE", "PSERVER")
    monkeypatch.setenv("PADDLE_CURRENT_ENDPOINT", SERVERS[1])
    maker = fluid.incubate.fleet.base.role_maker.PaddleCloudRoleMaker()
    assert [maker.is_server(), maker.server_index()] == [True, 1]


def test_a_role_maker_says_what_the_program_says() -> None:
    maker = fluid.incubate.fleet.base.role_maker.UserDefinedRoleMaker(
        1, fluid.incubate.fleet.base.role_maker.Role.SERVER, worker_num=4, server_endpoints=SERVERS
    )
    assert [maker.is_server(), maker.server_index(), maker.worker_num()] == [True, 1, 4]
    maker = fluid.incubate.fleet.base.role_maker.UserDefinedCollectiveRoleMaker(1, ["a:1", "b:2"])
    assert [maker.is_worker(), maker.worker_index(), maker.worker_num()] == [True, 1, 2]
    assert maker.get_trainer_endpoints() == ["a:1", "b:2"]


def test_what_is_wrong_with_a_role_is_said() -> None:
    with pytest.raises(BadRequest, match="server_endpoints is missing"):
        fluid.incubate.fleet.base.role_maker.UserDefinedRoleMaker(
            0, fluid.incubate.fleet.base.role_maker.Role.WORKER, worker_num=1
        ).worker_index()
    with pytest.raises(BadRequest, match="current_id 2 of 1"):
        fluid.incubate.fleet.base.role_maker.UserDefinedCollectiveRoleMaker(2, ["a:1"]).worker_index()
    with pytest.raises(BadRequest, match="umiak launch"):
        fluid.incubate.fleet.base.role_maker.MPISymetricRoleMaker()
    with pytest.raises(BadRequest, match="collective role maker"):
        servers_fleet.init(fluid.incubate.fleet.base.role_maker.PaddleCloudRoleMaker(is_collective=True))
    with pytest.raises(BadRequest, match="expected a role maker"):
        servers_fleet.init("worker 1")


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_files_are_divided_in_order_and_all_of_them(count: int) -> None:
    files = list("abcdefg")
    parts = []
    fleet = fluid.incubate.fleet.collective.fleet
    for rank in range(count):
        fleet.init(
            fluid.incubate.fleet.base.role_maker.UserDefinedCollectiveRoleMaker(rank, ["127.0.0.1:1"] * count)
            if count > 1
            else None
        )
        parts.append(fleet.split_files(files))
    assert [each for part in parts for each in part] == files
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    with pytest.raises(TypeError):
        fleet.split_files("abc")


def test_what_fleet_is_said_to_have_is_there() -> None:
    for name, methods in METHODS.items():
        fleet = resolved(name)
        assert [each for each in methods if not hasattr(type(fleet), each)] == []


# ---- strategies


def test_each_strategy_is_the_one_that_was_asked_for() -> None:
    factory = fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy.StrategyFactory
    assert chosen(factory.create_sync_strategy()).strategy == Sync()
    assert chosen(factory.create_async_strategy()).strategy == Async()
    assert chosen(factory.create_half_async_strategy()).strategy == HalfAsync()
    assert chosen(factory.create_geo_strategy(25)).strategy == Geo(every=25)
    assert chosen(None).strategy == Sync()
    assert chosen({"cvm": True}).strategy == Async()
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = False
    assert chosen(config).strategy == Async()
    config.geo_sgd_mode, config.geo_sgd_need_push_nums = True, 7
    assert chosen(config).strategy == Geo(every=7)


def test_settings_without_an_effect_are_named_and_unknown_ones_refused() -> None:
    factory = fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy.StrategyFactory
    kind = fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy.DistributedStrategy
    strategy = factory.create_half_async_strategy()
    assert isinstance(strategy, kind)
    runtime = fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy.TrainerRuntimeConfig()
    runtime.runtime_configs["communicator_max_merge_var_num"] = "3"
    strategy.set_trainer_runtime_config(runtime)
    strategy.set_program_config({"min_block_size": 16, "split_method": None})
    found = chosen(strategy)
    assert found.strategy == HalfAsync(merge=3)
    (remark,) = found.remarks
    assert remark.startswith("DistributeTranspilerConfig.min_block_size = 16 is ignored")
    with pytest.raises(BadRequest, match="has no setting sync"):
        fluid.transpiler.DistributeTranspilerConfig().sync = True
    with pytest.raises(BadRequest, match="expected a strategy"):
        chosen("sync")
    strategy.set_trainer_runtime_config({"communicator_send": 1})
    with pytest.raises(BadRequest, match="no such setting"):
        chosen(strategy)


# ---- programs


def test_fleet_without_servers_learns_what_one_process_learns(tmp_path: Path) -> None:
    def optimizer() -> Any:
        return fluid.optimizer.Adam(0.1, lazy_mode=True)

    expected = in_one_process(optimizer, is_sparse=True)
    with programs() as made:
        predict, loss = classification(is_sparse=True)
        test = made.main.clone(for_test=True)
        servers_fleet.init(fluid.incubate.fleet.base.role_maker.PaddleCloudRoleMaker())
        servers_fleet.distributed_optimizer(optimizer()).minimize(loss)
        assert servers_fleet.main_program is made.main
        servers_fleet.init_worker()
        made.executor.run(servers_fleet.startup_program)
        assert steps(made, servers_fleet.main_program, loss) == pytest.approx(expected, abs=1e-5)
        tensors = fluid.global_scope().tensors
        assert not [name for name in tensors if name.startswith("rows")], "rows and their moments are in the table"
        told = made.executor.run(test, feed=FEED, fetch_list=[predict])[0]
        servers_fleet.save_inference_model(made.executor, str(tmp_path / "model"), ["ids"], [predict])
        fluid.io.save_persistables(made.executor, str(tmp_path / "files"), made.main)
        fluid.save(made.main, str(tmp_path / "whole"))
        servers_fleet.stop_worker()
    for saved in ("model", "files", "whole"):
        with programs() as made:
            predict, _ = classification()
            if saved == "model":
                program, names, targets = fluid.io.load_inference_model(str(tmp_path / saved), made.executor)
                found = made.executor.run(program, feed={names[0]: FEED["ids"]}, fetch_list=targets)[0]
            else:
                fluid.load(made.main, str(tmp_path / saved)) if saved == "whole" else fluid.io.load_params(
                    made.executor, str(tmp_path / saved), made.main
                )
                found = made.run(FEED, [predict])[0]
        np.testing.assert_allclose(found, told, atol=1e-6, err_msg=saved)


def test_files_of_parameters_are_what_training_goes_on_from(tmp_path: Path) -> None:
    with programs() as made:
        _, loss = classification(is_sparse=True)
        fluid.optimizer.SGD(0.5).minimize(loss)
        made.start()
        steps(made, made.main, loss)
        fluid.io.save_params(made.executor, str(tmp_path), made.main)
        expected = steps(made, made.main, loss)
    with programs() as made:
        _, loss = classification(is_sparse=True)
        servers_fleet.init(None)
        servers_fleet.distributed_optimizer(fluid.optimizer.SGD(0.5)).minimize(loss)
        made.executor.run(servers_fleet.startup_program)
        servers_fleet.init_worker()
        fluid.io.load_params(made.executor, str(tmp_path), servers_fleet.main_program)
        assert steps(made, made.main, loss) == pytest.approx(expected, abs=1e-6)


def test_pslib_has_the_same_under_its_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fleet = fluid.incubate.fleet.parameter_server.pslib.fleet
    with programs() as made:
        _, loss = classification(is_sparse=True)
        fleet.init(made.executor)
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.5), strategy={"cvm": False}).minimize([loss])
        fleet._set_client_communication_config(1, 2, 3)
        fleet.init_worker()
        made.executor.run(fleet.startup_program)
        first, *_, last = steps(made, fleet.main_program, loss)
        assert last < first
        with pytest.warns(UserWarning, match=r"shrink_dense_table\(decay=0\.9\) has no effect"):
            fleet.shrink_dense_table(0.9)
        with pytest.warns(UserWarning, match=r"save_model\(settings=\{'mode': 1\}\) has no effect"):
            fleet.save_model(str(tmp_path), mode=1)
        fleet.save_model(str(tmp_path))
        with pytest.raises(BadRequest, match="clear_model"):
            fleet.clear_model()
    said = capsys.readouterr().err
    assert "strategy 'cvm' is ignored" in said
    assert (tmp_path / "rows").exists()


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (None, None),
        (fluid.entry_attr.CountFilterEntry(3), Count(count=3)),
        (fluid.entry_attr.ProbabilityEntry(0.5), Probability(probability=0.5)),
    ],
)
def test_sparse_embedding_begins_on_the_servers(entry: Any, expected: Any) -> None:
    with programs() as made:
        ids = fluid.layers.data("ids", [2], dtype="int64")
        attribute = fluid.ParamAttr(name="rows", initializer=fluid.initializer.Uniform(0.5, 0.75))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what an entry is in one process
            rows = fluid.contrib.layers.sparse_embedding(ids, [2**40, 4], entry=entry, param_attr=attribute)
        loss = fluid.layers.mean(fluid.layers.fc(rows, 1))
        servers_fleet.init(fluid.incubate.fleet.base.role_maker.PaddleCloudRoleMaker())
        servers_fleet.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize(loss)
        servers_fleet.init_worker()
        made.executor.run(servers_fleet.startup_program)
        (trained,) = servers_fleet.job.trained
        assert trained.tables["rows"].spec.entry == (expected or type(trained.tables["rows"].spec.entry)())
        feed = {"ids": np.array([[1, 2**40 - 1]])}
        (found,) = made.executor.run(servers_fleet.main_program, feed=feed, fetch_list=[rows])
        assert found.shape == (1, 2, 4)
        assert ((found >= 0.5) & (found < 0.75)).all() if expected is None else True
    with pytest.raises(BadRequest):
        fluid.entry_attr.CountFilterEntry(0)


def test_averaging_stands_between_the_backward_pass_and_what_learns() -> None:
    fleet = fluid.incubate.fleet.collective.fleet
    clip = fluid.clip.GradientClipByGlobalNorm(0.1)
    expected = in_one_process(lambda: fluid.optimizer.SGD(0.5, grad_clip=clip), is_sparse=True)
    with programs() as made:
        _, loss = classification(is_sparse=True)
        fleet.init(fluid.incubate.fleet.base.role_maker.PaddleCloudRoleMaker(is_collective=True))
        strategy = fluid.incubate.fleet.collective.DistributedStrategy()
        strategy.nccl_comm_num = 2
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.5, grad_clip=clip), strategy).minimize(loss, made.startup)
        assert [fleet.worker_index(), fleet.worker_num(), fleet.is_first_worker()] == [0, 1, True]
        made.start()
        assert steps(made, fleet.main_program, loss) == pytest.approx(expected, abs=1e-7)
        kinds = [each.type for each in collective.averaging(made.main).global_block().ops]
        place = kinds.index(collective.MEAN)
        assert kinds[place - 1] == "backward"
        assert kinds[place + 1] == "clip_by_global_norm"


class TwoTrainers:
    """Another trainer that has the same gradients, of other rows."""

    world = 2

    def gather(self, payload: bytes, _name: str = "") -> list[bytes]:
        ids, values = collective._unpacked(payload, 2)
        return [payload, collective._packed(ids + 1, 3 * values)]


def test_rows_of_all_trainers_are_one_gradient() -> None:
    gradient = collective.rows_gradient(np.array([1, 3, 1]), np.ones((3, 2), np.float32), 6)
    (mean,) = collective.GradientExchange(TwoTrainers()).means([gradient])  # type: ignore[arg-type]
    assert mean.is_selected_rows()
    dense = np.zeros((6, 2))
    np.add.at(dense, mean.rows(), np.array(mean.get_selected_rows().get_tensor()))
    assert dense[:, 0].tolist() == [0, 1, 3, 0.5, 1.5, 0]


def test_what_a_collective_strategy_cannot_do_is_refused() -> None:
    strategy = fluid.incubate.fleet.collective.DistributedStrategy()
    strategy.use_local_sgd = True
    with pytest.raises(BadRequest, match="use_local_sgd"):
        fluid.incubate.fleet.collective.CollectiveOptimizer(fluid.optimizer.SGD(0.1), strategy)
    with pytest.raises(BadRequest, match="expected a DistributedStrategy"):
        fluid.incubate.fleet.collective.CollectiveOptimizer(fluid.optimizer.SGD(0.1), "fast")


# ---- the transpiler


def test_a_transpiler_gives_each_its_program() -> None:
    with programs() as made:
        _, loss = classification()
        fluid.optimizer.SGD(0.1).minimize(loss)
        made_by = fluid.DistributeTranspiler(fluid.DistributeTranspilerConfig())
        with pytest.raises(BadRequest, match="transpile has not been called"):
            made_by.get_trainer_program()
        made_by.transpile(1, pservers=",".join(SERVERS), trainers=2, program=made.main, startup_program=made.startup)
        with pytest.raises(BadRequest, match="is none of the servers"):
            made_by.get_pserver_program("127.0.0.1:1")
        assert made_by.get_trainer_program() is made.main
        job = made.main.runner.job
        assert [job.session.rank, job.session.world, job.session.seat.servers] == [1, 2, tuple(SERVERS)]
        assert job.session.strategy == Sync()
    with programs() as made:
        _, loss = classification()
        fluid.optimizer.SGD(0.1).minimize(loss)
        made_by = fluid.transpiler.DistributeTranspiler()
        made_by.transpile(0, pservers=",".join(SERVERS), trainers=2, sync_mode=False)
        program, startup = made_by.get_pserver_programs(SERVERS[1])
        assert made.executor.run(startup) == []
        assert isinstance(program.runner, jobs.ServingRunner)
        assert process_jobs.current().is_server  # type: ignore[union-attr]
    config = fluid.DistributeTranspilerConfig()
    config.mode = "mpi"
    with pytest.raises(BadRequest, match="mode = 'mpi'"):
        fluid.DistributeTranspiler(config).transpile(0)


def test_a_transpiler_without_servers_averages_gradients() -> None:
    config = fluid.DistributeTranspilerConfig()
    config.mode = "nccl2"
    with programs() as made:
        _, loss = classification()
        fluid.optimizer.SGD(0.5).minimize(loss)
        made_by = fluid.DistributeTranspiler(config)
        made_by.transpile(0, trainers="127.0.0.1:6174", current_endpoint="127.0.0.1:6174", startup_program=made.startup)
        assert isinstance(made.main.runner, collective.AveragingRunner)
        made.start()
        first, *_, last = steps(made, made_by.get_trainer_program(), loss)
        assert last < first


def test_two_programs_never_learn_the_same_parameters() -> None:
    with programs() as made:
        _, loss = classification(is_sparse=True)
        servers_fleet.init(None)
        optimizer = servers_fleet.distributed_optimizer(fluid.optimizer.SGD(0.1))
        optimizer.minimize(loss)
        other = made.main.clone()
        with pytest.raises(BadRequest, match="learn the same parameters: "):
            servers_fleet.job.train(other, made.startup)
        with pytest.raises(BadRequest, match="distributed already"):
            servers_fleet.job.train(made.main, made.startup)


def test_lookups_of_one_table_are_one_read_where_ids_are_known_first() -> None:
    with programs() as made:
        ids = fluid.layers.data("ids", [2], dtype="int64")
        shared = {"size": [30, 4], "is_sparse": True, "param_attr": fluid.ParamAttr(name="rows")}
        one = fluid.embedding(ids, **shared)
        found = fluid.layers.cast(fluid.layers.reduce_sum(one, dim=2), "int64")  # follows from rows: read later
        parts = [one, fluid.embedding(fluid.layers.reshape(ids, [-1, 2]), **shared), fluid.embedding(found, **shared)]
        loss = fluid.layers.mean(fluid.layers.concat(parts, 1))
        fluid.optimizer.SGD(0.1).minimize(loss)
        changed = rewriting.for_reading(made.main, ["rows"])
        reads = [each for each in changed.global_block().ops if each.type == rewriting.ROWS]  # type: ignore[union-attr]
        assert [len(each.outputs) for each in reads] == [2, 1]
        assert rewriting.for_reading(made.main, ["others"]) is None


def test_readers_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def batches() -> Iterator[int]:
        return iter(range(7))

    assert [*fluid.contrib.reader.distributed_batch_reader(batches)()] == [*range(7)]
    monkeypatch.setenv("TRAINING_ROLE", "TRAINER")
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    assert [*fluid.contrib.reader.distributed_batch_reader(batches)()] == [1, 4], "the last round is not whole"
    for call in (fluid.memory_optimize, fluid.release_memory):
        with pytest.warns(UserWarning, match="has no effect"):
            call(fluid.default_main_program())
