"""Static programs on tables: what leaves the program, how it learns, what is saved. Real Paddle, tables of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.static_programs import (
    DIM,
    IDS,
    ClickProgram,
    attribute,
    fleet,
    fleet_program,
    losses,
    older_programs,
    paddle,
    plain_losses,
)
from umiak import ps
from umiak.core.problem import BadRequest
from umiak.core.value import replace
from umiak.fleet import job
from umiak.fleet.programs import execution, parameters, rewriting, rules, running, sites

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def older() -> Iterator[None]:
    with older_programs():
        yield


# ---- what leaves a program


def test_sparse_lookups_become_tables_and_others_stay() -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()), paddle.utils.unique_name.guard():
        ids = paddle.static.data("ids", [None, 1], "int64")
        paddle.static.nn.sparse_embedding(ids, [10, 4], padding_idx=3, param_attr=paddle.ParamAttr(name="a"))
        paddle.nn.Embedding(10, 2, sparse=True, weight_attr=paddle.ParamAttr(name="b"))(ids)
        paddle.nn.Embedding(10, 2, weight_attr=paddle.ParamAttr(name="dense"))(ids)
        shared = paddle.nn.Embedding(10, 2, sparse=True, weight_attr=paddle.ParamAttr(name="shared"))
        paddle.matmul(shared(ids), shared.weight, transpose_y=True)
    found = sites.survey(main)
    assert [*found.tables] == ["a", "b"]
    assert found.tables["a"] == sites.TableSite(name="a", rows=10, dim=4, slots={found.lookups[0].output: 0})
    assert found.lookups[0] == sites.LookupSite(
        table="a", ids="ids", output=found.lookups[0].output, padding=3, drops_last=True
    )
    assert found.lookups[1].padding is None
    assert found.kept == {"dense": "it is not sparse", "shared": "the program also uses it in matmul_v2"}
    assert found.problems == ()


def test_a_sparse_embedding_that_cannot_be_a_table_is_a_problem() -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()), paddle.utils.unique_name.guard():
        ids = paddle.static.data("ids", [None, 1], "int64")
        paddle.static.nn.sparse_embedding(ids, [10, 4], dtype="float64", param_attr=paddle.ParamAttr(name="wide"))
    (problem,) = sites.survey(main).problems
    assert problem.code == "UM-FLEET-010"
    assert "wide" in problem.what
    assert "float64" in problem.what


@pytest.mark.parametrize(
    ("initializer", "expected"),
    [
        (lambda: paddle.nn.initializer.Uniform(-0.5, 0.25), ps.Uniform(-0.5, 0.25)),
        (lambda: paddle.nn.initializer.Normal(0.5, 0.25), ps.Normal(0.5, 0.25)),
        (lambda: paddle.nn.initializer.Constant(0.5), ps.Constant(0.5)),
        (lambda: paddle.nn.initializer.TruncatedNormal(0.0, 1.0), ps.Normal(0.0, rules.CUT_OFF_DEVIATION)),
        (lambda: paddle.nn.initializer.XavierUniform(fan_in=3, fan_out=3), ps.Uniform(-1.0, 1.0)),
    ],
)
def test_first_rows_are_the_startup_programs(initializer: Callable[[], Any], expected: ps.Uniform) -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        ids = paddle.static.data("ids", [None, 1], "int64")
        attribute = paddle.ParamAttr(name="rows", initializer=initializer())
        paddle.static.nn.sparse_embedding(ids, [10, 4], param_attr=attribute)
    assert rules.first_rows(startup, "rows") == rules.FirstRows(init=expected)


def test_listed_rows_and_what_servers_cannot_compute() -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        ids = paddle.static.data("ids", [None, 1], "int64")
        listed = paddle.nn.initializer.Assign(np.arange(4, dtype=np.float32).reshape(2, 2))
        paddle.nn.Embedding(2, 2, sparse=True, weight_attr=paddle.ParamAttr(name="listed", initializer=listed))(ids)
        strange = paddle.nn.initializer.Orthogonal()
        paddle.nn.Embedding(2, 2, sparse=True, weight_attr=paddle.ParamAttr(name="strange", initializer=strange))(ids)
    assert rules.first_rows(startup, "listed").values == (0.0, 1.0, 2.0, 3.0)
    problem = rules.first_rows(startup, "strange").problem
    assert problem is not None
    assert problem.code == "UM-FLEET-011"


# ---- how it learns


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: paddle.optimizer.SGD(0.5), ps.Sgd(0.5)),
        (lambda: paddle.optimizer.Momentum(0.5, 0.8, use_nesterov=True), ps.Momentum(0.5, 0.8, nesterov=True)),
        (lambda: paddle.optimizer.Adam(0.5, 0.8, 0.9, 1e-6, lazy_mode=True), ps.Adam(0.5, 0.8, 0.9, 1e-6)),
        (lambda: paddle.optimizer.Adagrad(0.5, initial_accumulator_value=0.1), ps.Adagrad(0.5, 0.1, 1e-6)),
        (lambda: paddle.optimizer.RMSProp(0.5, rho=0.9, centered=True), ps.RmsProp(0.5, 0.9, centered=True)),
    ],
)
def test_an_optimizer_is_a_rule(make: Callable[[], Any], expected: Any) -> None:
    found = rules.learning(make())
    assert replace(found, remarks=()) == rules.ProgramLearning(rule=expected)
    rests = isinstance(expected, (ps.Momentum, ps.RmsProp))
    assert ["a row of a table moves when it is used" in each for each in found.remarks] == ([True] if rests else [])


def test_decay_limits_and_schedules_of_an_optimizer() -> None:
    schedule = paddle.optimizer.lr.ExponentialDecay(0.5, 0.9)
    clip = paddle.nn.ClipGradByGlobalNorm(2.0)
    found = rules.learning(paddle.optimizer.SGD(schedule, weight_decay=0.25, grad_clip=clip))
    assert found == rules.ProgramLearning(
        rule=ps.Sgd(0.5), clip=ps.Clip(global_norm=2.0), decay=ps.Decay(l2=0.25), schedule=schedule
    )
    assert rules.learning(paddle.optimizer.AdamW(0.5, weight_decay=0.25)).decay == ps.Decay(decoupled=0.25)
    assert "lazy_mode" in rules.learning(paddle.optimizer.Adam(0.5)).remarks[0]


def test_what_servers_have_no_rule_for_is_named() -> None:
    (problem,) = rules.learning(paddle.optimizer.Lamb(0.5)).problems
    assert problem.code == "UM-FLEET-012"
    assert "Lamb" in problem.what
    (problem,) = rules.learning(paddle.optimizer.Adam(0.5, lazy_mode=True, amsgrad=True)).problems
    assert "amsgrad" in problem.what
    with pytest.raises(BadRequest, match="Lamb"):
        fleet_program(lambda: paddle.optimizer.Lamb(0.5))


@pytest.mark.parametrize(
    ("make", "within"),
    [
        (lambda: paddle.optimizer.SGD(0.1), 1e-6),
        (lambda: paddle.optimizer.Adagrad(0.05), 1e-6),
        (lambda: paddle.optimizer.Adam(0.05, lazy_mode=True), 1e-5),
        (lambda: paddle.optimizer.SGD(0.1, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.05)), 1e-6),
    ],
    ids=["sgd", "adagrad", "lazy adam", "clipped"],
)
def test_losses_are_those_of_plain_paddle(make: Callable[[], Any], within: float) -> None:
    expected = plain_losses(make, 12)
    assert losses(fleet_program(make), 12) == pytest.approx(expected, abs=within)
    assert losses(fleet_program(make, embedding="sparse_embedding"), 12) == pytest.approx(expected, abs=within)


def decayed() -> Any:
    """Paddle scales all gradients down first, and adds the decay of all rows then."""
    decay, clip = paddle.regularizer.L2Decay(0.1), paddle.nn.ClipGradByGlobalNorm(0.05)
    return paddle.optimizer.SGD(0.1, weight_decay=decay, grad_clip=clip)


def test_alone_an_embedding_with_decay_stays_a_parameter_with_the_losses_of_plain_paddle() -> None:
    expected = plain_losses(decayed, 12)
    program = fleet_program(decayed)
    assert losses(program, 12) == pytest.approx(expected, abs=1e-6)
    begun = job.current()
    assert begun is not None
    assert not len(begun.tables)


def test_rows_of_a_sparse_embedding_decay_when_they_are_used(capsys: pytest.CaptureFixture[str]) -> None:
    """Batches that use every row move them as Paddle does."""
    expected = plain_losses(decayed, 12, size=400)
    program = fleet_program(decayed, embedding="sparse_embedding")
    assert losses(program, 12, size=400) == pytest.approx(expected, abs=1e-5)
    told = capsys.readouterr().err
    assert "deep: rows decay in steps that use them only" in told
    assert "wide: rows" not in told


def test_with_servers_every_sparse_embedding_is_a_table() -> None:
    program = ClickProgram()
    plan = rewriting.for_training(program.main, program.startup, program.loss, decayed())
    assert [*plan.tables] == ["deep", "wide"]
    assert [remark.partition(":")[0] for remark in plan.remarks] == ["deep", "wide"]


@pytest.mark.parametrize("embedding", ["layers", "sparse_embedding"])
def test_what_need_not_be_clipped_is_not(embedding: str) -> None:
    def make() -> Any:
        return paddle.optimizer.SGD(0.1, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.01))

    expected = plain_losses(make, 12, need_clip=False)
    assert expected != pytest.approx(plain_losses(make, 12), abs=1e-4)
    assert losses(fleet_program(make, embedding=embedding, need_clip=False), 12) == pytest.approx(expected, abs=1e-6)


def test_a_schedule_is_followed() -> None:
    schedules: list[Any] = []

    def make() -> Any:
        schedules.append(paddle.optimizer.lr.StepDecay(0.2, step_size=1, gamma=0.5))
        return paddle.optimizer.SGD(schedules[-1])

    def run(program: ClickProgram) -> list[float]:
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(program.startup)
        found = []
        for step in range(6):
            found.append(float(executor.run(program.main, feed=program.batch(step), fetch_list=[program.loss])[0]))
            schedules[-1].step()
        return found

    plain = ClickProgram()
    plain.minimize(make())
    with paddle.static.scope_guard(paddle.static.Scope()):
        expected = run(plain)
    assert run(fleet_program(make)) == pytest.approx(expected, abs=1e-6)


def test_several_programs_of_a_job_learn_each_its_own() -> None:
    """They share one table of rows; dense parameters are their own."""

    def run(optimize: Callable[[Any, Any], None]) -> list[float]:
        executor = paddle.static.Executor(paddle.CPUPlace())
        built = []
        for number, width in enumerate((3, 5)):
            main, startup = paddle.static.Program(), paddle.static.Program()
            with paddle.static.program_guard(main, startup):
                ids = paddle.static.data("ids", [None, 1], "int64")
                first = attribute("shared", np.full((10, 4), 0.5, np.float32))
                rows = paddle.nn.Embedding(10, 4, sparse=True, weight_attr=first)(ids).reshape([-1, 4])
                ones = paddle.nn.initializer.Constant(1.0)
                weights = paddle.ParamAttr(name=f"top{number}", initializer=ones)
                top = paddle.static.nn.fc(rows, width, weight_attr=weights, bias_attr=False)
                loss = paddle.mean(top * top)
                optimize(loss, startup)
            executor.run(startup)
            built.append((main, loss))
        feed = {"ids": np.array([[1], [2]])}
        return [float(executor.run(*each[:1], feed=feed, fetch_list=[each[1]])[0]) for each in built * 2]

    with paddle.static.scope_guard(paddle.static.Scope()):
        expected = run(lambda loss, startup: paddle.optimizer.SGD(0.01).minimize(loss, startup))
    fleet.init(fleet.PaddleCloudRoleMaker())
    theirs = fleet.DistributedStrategy()
    found = run(
        lambda loss, startup: fleet.distributed_optimizer(paddle.optimizer.SGD(0.01), theirs).minimize(loss, startup)
    )
    assert found == pytest.approx(expected, abs=1e-5)


def runner_of(program: Any) -> running.ProgramRunner:
    begun = job.current()
    assert begun is not None
    runner = begun.runner_of(program)
    assert runner is not None
    return runner


def dataset_losses(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, *, in_place: bool) -> list[Any]:
    """What a program fetches when it learns batches of a dataset, of several sizes."""
    if not in_place:
        monkeypatch.setattr(execution, "SAFE_IN_PLACE", frozenset())
    with older_programs():
        program = make()
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(program.startup)
        runner = runner_of(program.main)
        fetch = [program.loss, program.predict]
        sizes = (16, 16, 16, 5, 16)
        return [
            [each.tolist() for each in runner.step(program.batch(step, size), fetch, in_order=True)]
            for step, size in enumerate(sizes)
        ]


class Crossed(ClickProgram):
    """The operations of click models that `ClickProgram` has not."""

    def __init__(self) -> None:
        self.main, self.startup = paddle.static.Program(), paddle.static.Program()
        paddle.seed(3)
        with paddle.static.program_guard(self.main, self.startup), paddle.utils.unique_name.guard():
            ids = [paddle.static.data(f"slot{place}", [None, 1], "int64") for place in range(3)]
            label = paddle.static.data("label", [None, 1], "int64")
            rows = [paddle.static.nn.sparse_embedding(each, [IDS, DIM]) for each in ids]
            sums = rows[0] + rows[1] + rows[2]
            squares = paddle.square(rows[0]) + paddle.square(rows[1] * rows[2])
            whole = paddle.concat([sums, paddle.reshape(squares, [-1, DIM // 2, 2]).reshape([-1, DIM]), *rows], axis=1)
            weights = paddle.create_parameter([5 * DIM, 8], "float32")
            hidden = paddle.nn.functional.relu(paddle.matmul(whole, weights))
            logit = paddle.static.nn.fc(hidden, 1)
            self.predict = paddle.nn.functional.sigmoid(logit)
            lost = paddle.nn.functional.binary_cross_entropy_with_logits(logit, paddle.cast(label, "float32"))
            self.loss = lost + 0.01 * paddle.sum(weights * weights)


def kinds_of(program: ClickProgram) -> set[str]:
    return {op.type.removesuffix("_grad") for block in program.main.blocks for op in block.ops}


def test_operations_that_write_over_their_input_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()

    def made(make: Callable[[], ClickProgram]) -> ClickProgram:
        fleet.init(fleet.PaddleCloudRoleMaker())
        program = make()
        program.minimize(fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), fleet.DistributedStrategy()))
        seen.update(kinds_of(program))
        assert kinds_of(program) <= safe
        return program

    safe = execution.SAFE_IN_PLACE
    for each in (ClickProgram, Crossed):
        found = dataset_losses(lambda each=each: made(each), monkeypatch, in_place=True)
        with monkeypatch.context() as patched:
            assert found == dataset_losses(lambda each=each: made(each), patched, in_place=False)
    assert seen == safe, "no operation is called safe that is not tried here"


def test_a_program_with_other_operations_does_not_run_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    set_flags = paddle.set_flags
    main, startup = paddle.static.Program(), paddle.static.Program()
    fleet.init(fleet.PaddleCloudRoleMaker())
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        ids = paddle.static.data("ids", [None, 3], "int64")
        rows = paddle.nn.Embedding(10, 4, sparse=True)(ids)
        _, last = paddle.nn.GRU(4, 4)(rows)
        loss = paddle.mean(paddle.square(last))
        fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), None).minimize(loss)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    runner = runner_of(main)
    flag = "FLAGS_new_executor_use_inplace"
    monkeypatch.setattr(paddle, "set_flags", lambda flags: (asked.append(flags.get(flag)), set_flags(flags)))
    found = [float(runner.step({"ids": np.array([[1, 2, 3]] * 4)}, [loss], in_order=True)[0]) for _ in range(4)]
    assert found == sorted(found, reverse=True)
    assert asked == [False] * 4, "set and set back, in each of two runs"


# ---- what a program still is


def test_a_rewritten_program_can_be_printed_and_keeps_what_tools_read() -> None:
    program = fleet_program(lambda: paddle.optimizer.SGD(0.1))
    losses(program, 2)
    assert "sigmoid" in str(program.main)
    assert program.main._fleet_opt == {"stat_var_names": []}
    scope = paddle.static.global_scope()
    counted = [np.array(scope.find_var(program.statistics[place].name).get_tensor()).sum() for place in (2, 3)]
    assert sum(counted) == 2 * 16 + 16 * 0
    assert not any(parameters.is_filled(scope, name) for name in ("deep", "wide"))


def test_a_test_program_reads_and_creates_nothing() -> None:
    program = fleet_program(lambda: paddle.optimizer.SGD(0.1))
    losses(program, 1)
    executor = paddle.static.Executor(paddle.CPUPlace())
    later = program.main.clone(for_test=True)
    batch = program.batch(7)
    begun = job.current()
    assert begun is not None
    before = begun.session.client.status()
    first = executor.run(program.test, feed=batch, fetch_list=[program.loss])[0]
    assert executor.run(later, feed=batch, fetch_list=[program.loss.name])[0] == pytest.approx(first, abs=1e-7)
    assert begun.session.client.status() == before
    (learned,) = executor.run(program.main, feed=batch, fetch_list=[program.loss])
    assert learned == pytest.approx(first, abs=1e-7)
    assert executor.run(program.test, feed=batch, fetch_list=[program.loss])[0] < first


def test_rows_that_a_program_makes_flat_come_flat_and_can_still_be_fetched_as_they_were() -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    fleet.init(fleet.PaddleCloudRoleMaker())
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        ids = paddle.static.data("ids", [None, 1], "int64")
        half = paddle.ParamAttr(name="rows", initializer=paddle.nn.initializer.Constant(0.5))
        rows = paddle.nn.Embedding(10, 2, sparse=True, weight_attr=half)(ids)
        flat = paddle.reshape(rows, [-1, 2])
        loss = paddle.mean(flat)
        fleet.distributed_optimizer(paddle.optimizer.SGD(1.0), None).minimize(loss)
        assert "reshape2" not in [op.type for op in main.global_block().ops]
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        feed = {"ids": np.array([[1], [2]])}
        for expected in (0.5, 0.25):
            found = executor.run(main, feed=feed, fetch_list=[loss, rows, flat])
            assert [each.tolist() for each in found] == [expected, [[[expected] * 2]] * 2, [[expected] * 2] * 2]
        added = paddle.sum(rows)
    found = executor.run(main, feed=feed, fetch_list=[loss, added])
    assert [each.tolist() for each in found] == [0.0, 0.0]


def test_batches_of_any_size_one_after_the_other() -> None:
    program = fleet_program(lambda: paddle.optimizer.SGD(0.1))
    losses(program, 1)
    executor = paddle.static.Executor(paddle.CPUPlace())
    for size in (8, 3, 20, 8):
        batch = program.batch(size, size)
        (read,) = executor.run(program.test, feed=batch, fetch_list=[program.predict])
        (learned,) = executor.run(program.main, feed=batch, fetch_list=[program.predict])
        assert learned == pytest.approx(read, abs=1e-7)


def test_a_script_that_saves_what_stays_saves_its_parameters_alone() -> None:
    program = fleet_program(lambda: paddle.optimizer.SGD(0.1))
    losses(program, 2)
    names = {each.name for each in program.main.list_vars() if each.persistable}
    assert not [name for name in names if "@GRAD" in name or "embedding" in name or "reshape" in name]


def test_ragged_slots_are_pooled_by_the_program() -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    fleet.init(fleet.PaddleCloudRoleMaker())
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
        half = paddle.ParamAttr(name="rows", initializer=paddle.nn.initializer.Constant(0.5))
        rows = paddle.static.nn.sparse_embedding(ids, [10, 2], param_attr=half)
        pooled = paddle.static.nn.sequence_pool(rows, "sum")
        loss = paddle.mean(paddle.sum(pooled, axis=1))
        fleet.distributed_optimizer(paddle.optimizer.SGD(1.0), None).minimize(loss)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    runner = runner_of(main)
    ragged = (np.array([[1], [2], [2]]), np.array([0, 1, 3]))
    found, sums = runner.step({"ids": ragged}, [loss, pooled])
    assert found == pytest.approx(1.5)
    assert sums.tolist() == [[0.5, 0.5], [1.0, 1.0]]
    begun = job.current()
    assert begun is not None
    rows_now = begun.tables["rows"].rows(np.arange(3, dtype=np.uint64), create=False)
    assert rows_now.tolist() == [[0.5, 0.5], [0.0, 0.0], [-0.5, -0.5]]


def test_a_missing_feed_and_a_missing_startup_are_said() -> None:
    program = fleet_program(lambda: paddle.optimizer.SGD(0.1))
    executor = paddle.static.Executor(paddle.CPUPlace())
    with pytest.raises(BadRequest, match="UM-FLEET-020"):
        executor.run(program.main, feed=program.batch(0), fetch_list=[program.loss])
    executor.run(program.startup)
    batch = program.batch(0)
    del batch["slot1"]
    with pytest.raises(BadRequest, match="the feed lacks ids: slot1"):
        executor.run(program.main, feed=batch, fetch_list=[program.loss])
    with pytest.raises(BadRequest, match="UM-FLEET-015"):
        program.minimize(fleet.distributed_optimizer(paddle.optimizer.SGD(0.1)))


# ---- saving and loading


def test_a_save_is_loaded_and_an_inference_model_runs_in_plain_paddle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = fleet_program(lambda: paddle.optimizer.Adam(0.05, lazy_mode=True), embedding="sparse_embedding")
    losses(program, 4)
    executor = paddle.static.Executor(paddle.CPUPlace())
    batch = program.batch(9)

    def judged() -> float:
        return float(executor.run(program.test, feed=batch, fetch_list=[program.loss])[0])

    saved = judged()
    fleet.save_persistables(executor, str(tmp_path / "all"))
    names = [each.name for each in (*program.ids, program.label)]
    fleet.save_inference_model(executor, str(tmp_path / "model"), names, [program.loss], main_program=program.main)
    fleet.save_inference_model(executor, str(tmp_path / "scores"), names, program.predict)
    assert "do not depend on them: label" in capsys.readouterr().err
    fleet.save_persistables(executor, str(tmp_path / "all"))
    executor.run(program.main, feed=batch, fetch_list=[])
    assert judged() != saved
    fleet.load_model(str(tmp_path / "all"), 0)
    assert judged() == saved
    dense = paddle.load(str(tmp_path / "all" / "dense.pdparams"))
    assert sorted(dense) == ["fc_0.b_0", "fc_0.w_0", "fc_1.b_0", "fc_1.w_0"]
    job.end()
    with paddle.static.scope_guard(paddle.static.Scope()):
        prefix = str(tmp_path / "model" / "model")
        loaded, feeds, targets = paddle.static.load_inference_model(prefix, executor)
        assert sorted(feeds) == sorted(names)
        found = executor.run(loaded, feed=batch, fetch_list=targets)
    assert float(found[0]) == pytest.approx(saved, abs=1e-6)


def test_paddles_own_save_and_load_of_such_a_program_are_refused(tmp_path: Path) -> None:
    program = fleet_program(lambda: paddle.optimizer.Adam(0.05, lazy_mode=True), embedding="sparse_embedding")
    losses(program, 1)
    with pytest.raises(BadRequest, match=r"fleet\.save_persistables"):
        paddle.static.save(program.main, str(tmp_path / "all"))
    with pytest.raises(BadRequest, match=r"fleet\.load_model"):
        paddle.static.load(program.main, str(tmp_path / "all"))
    assert not [*tmp_path.iterdir()]
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        paddle.static.save(paddle.static.default_main_program(), str(tmp_path / "other"))


def test_one_table_is_saved_and_loaded_by_its_number(tmp_path: Path) -> None:
    program = fleet_program(lambda: paddle.optimizer.SGD(0.5))
    losses(program, 2)
    begun = job.current()
    assert begun is not None
    rows = begun.tables["deep"].rows(np.arange(IDS, dtype=np.uint64), create=False)
    fleet.save_one_table(0, str(tmp_path / "deep"), 0)
    paddle.static.Executor(paddle.CPUPlace()).run(program.main, feed=program.batch(5), fetch_list=[])
    fleet.load_one_table(0, str(tmp_path / "deep"), 0)
    assert rows.shape == (IDS, DIM)
    assert np.array_equal(begun.tables["deep"].rows(np.arange(IDS, dtype=np.uint64), create=False), rows)
    with pytest.raises(BadRequest, match="no table has the number 7"):
        fleet.save_one_table(7, str(tmp_path / "none"), 0)


def test_a_path_without_tables_is_said(tmp_path: Path) -> None:
    fleet_program(lambda: paddle.optimizer.SGD(0.5))
    with pytest.raises(BadRequest, match="no tables of umiak beneath"):
        fleet.load_model(str(tmp_path), 0)
