"""Rows of static programs that count shows and clicks. Real Paddle, tables of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.static_programs import fleet, older_programs, paddle
from umiak import ps
from umiak.core.problem import BadRequest
from umiak.fleet import job, strategy
from umiak.fleet.programs import accessors, sites

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

DIM = 5
"""show, click, embed_w and two numbers more."""
IDS = np.array([[3], [4], [3], [7]])
SHOWN = np.array([[1, 0], [1, 1], [1, 1], [2, 0]], np.float32)


@pytest.fixture(autouse=True)
def older() -> Iterator[None]:
    with older_programs():
        yield


class CountingProgram:
    """One slot; its rows, or what `continuous_value_model` makes of them, are summed with weights of 1, 2, 3, ..."""

    def __init__(
        self,
        *,
        cvm: bool | None = None,
        entry: Any = None,
        dim: int = DIM,
        table_configs: dict[str, Any] | None = None,
        lod_level: int = 0,
        k_steps: int = 0,
        optimizer: Any = None,
        init: Any = None,
    ) -> None:
        fleet.init(fleet.PaddleCloudRoleMaker())
        self.main, self.startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(self.main, self.startup), paddle.utils.unique_name.guard():
            ids = paddle.static.data("ids", [None, 1], "int64", lod_level=lod_level)
            shown = paddle.static.data("shown", [None, 2], "float32")
            self.show = paddle.static.data("show", [None, 1], "float32")
            self.click = paddle.scale(paddle.static.data("label", [None, 1], "float32"), 1.0, name="click")
            half = paddle.ParamAttr(name="rows", initializer=init or paddle.nn.initializer.Constant(0.5))
            self.rows = paddle.static.nn.sparse_embedding(ids, [100, dim], param_attr=half, entry=entry, slot=6)
            seen = self.rows if not lod_level else paddle.static.nn.sequence_pool(self.rows, "sum")
            if cvm is not None:
                seen = paddle.static.nn.continuous_value_model(paddle.reshape(seen, [-1, dim]), shown, cvm)
            self.seen = seen
            width = dim - (2 if cvm is False else 0)
            weights = np.arange(1, width + 1, dtype=np.float32)
            factors = paddle.static.create_parameter(
                [width], "float32", default_initializer=paddle.nn.initializer.Assign(weights)
            )
            factors.stop_gradient = True
            self.loss = paddle.mean(paddle.sum(seen * factors, axis=1))
            self.test = self.main.clone(for_test=True)
            theirs = fleet.DistributedStrategy()
            theirs.a_sync_configs = {"k_steps": k_steps}
            if table_configs:
                theirs.sparse_table_configs = table_configs
            chosen = optimizer or paddle.optimizer.SGD(1.0)
            fleet.distributed_optimizer(chosen, theirs).minimize(self.loss, self.startup)
        self.executor = paddle.static.Executor(paddle.CPUPlace())
        self.executor.run(self.startup)

    def learn(self, ids: Any = IDS, shown: Any = SHOWN, **more: Any) -> Any:
        """What the program sees of the rows before it learns."""
        feed = {"ids": ids, "shown": shown, "show": shown[:, :1], "label": shown[:, 1:], **more}
        return self.executor.run(self.main, feed=feed, fetch_list=[self.seen])[0]

    def see(self, ids: Any = IDS, shown: Any = SHOWN) -> Any:
        feed = {"ids": ids, "shown": shown, "show": shown[:, :1], "label": shown[:, 1:]}
        return self.executor.run(self.test, feed=feed, fetch_list=[self.seen])[0]


def kept(*ids: int) -> Any:
    """Show, click, embed_w and the others, as the table has them."""
    begun = job.current()
    assert begun is not None
    return begun.tables["rows"].rows(np.array(ids, np.uint64), create=False)


def entry() -> Any:
    return paddle.distributed.ShowClickEntry("show", "click.tmp_0")


def config(**said: Any) -> dict[str, Any]:
    return {"rows": {f"table_parameters.rows.{name.replace('__', '.')}": each for name, each in said.items()}}


# ---- continuous_value_model


def logs(rows: Any) -> Any:
    """The formula that Paddle documents."""
    show, click = np.log(rows[:, 0] + 1), np.log(rows[:, 1] + 1)
    return np.concatenate([show[:, None], (click - show)[:, None], rows[:, 2:]], axis=1)


def test_shows_and_clicks_are_counted_by_the_gradient_of_continuous_value_model() -> None:
    program = CountingProgram(cvm=True)
    assert program.learn().tolist() == np.zeros((4, DIM)).tolist(), "nobody has seen these ids"
    rows = kept(3, 4, 7, 8)
    assert rows[:, :2].tolist() == [[2, 1], [1, 1], [2, 0], [0, 0]]
    # The loss's gradient is weights / samples; SGD with a rate of 1. The wide part comes with the first push.
    assert rows[:, 2] == pytest.approx([-2 * 3 / 4, -3 / 4, -3 / 4, 0])
    assert rows[:3, 3:].tolist() == [[0.5, 0.5]] * 3
    assert program.see() == pytest.approx(logs(kept(3, 4, 3, 7)), abs=1e-6)
    program.learn(IDS[:1], np.array([[5, 2]], np.float32))
    assert kept(3)[0] == pytest.approx([7, 3, -1.5 - 3, 0.5 - 4, 0.5 - 5])


def test_what_the_program_sees_is_what_paddles_kernel_computes() -> None:
    program = CountingProgram(cvm=True)
    for _ in range(3):
        program.learn()
    rows = kept(3, 4, 3, 7)
    plain = paddle.static.Program()
    with paddle.static.program_guard(plain, paddle.static.Program()):
        given = paddle.static.data("given", [None, DIM], "float32")
        given.stop_gradient = False
        shown = paddle.static.data("shown", [None, 2], "float32")
        out = paddle.static.nn.continuous_value_model(given, shown, True)
        (gradient,) = paddle.static.gradients([paddle.mean(out)], [given])
    feed = {"given": rows, "shown": SHOWN}
    found, back = paddle.static.Executor(paddle.CPUPlace()).run(plain, feed=feed, fetch_list=[out, gradient])
    assert program.see() == pytest.approx(found, abs=1e-6)
    assert back[:, :2].tolist() == SHOWN.tolist(), "what Paddle gives as their gradient is what is counted"


def test_without_use_cvm_the_columns_are_left_out_and_counted_all_the_same() -> None:
    program = CountingProgram(cvm=False)
    assert program.learn().shape == (4, DIM - 2)
    assert kept(3, 4, 7)[:, :2].tolist() == [[2, 1], [1, 1], [2, 0]]
    assert program.see().tolist() == kept(3, 4, 3, 7)[:, 2:].tolist()


@pytest.mark.parametrize("cvm", [True, None])
def test_ids_of_a_bag_count_as_their_sample(cvm: bool | None) -> None:
    program = CountingProgram(cvm=cvm, entry=entry(), lod_level=1)
    begun = job.current()
    assert begun is not None
    runner = begun.runner_of(program.main)
    assert runner is not None
    ragged = (np.array([[1], [2], [2]]), np.array([0, 1, 3]))
    shown = SHOWN[2:]
    runner.step({"ids": ragged, "shown": shown, "show": shown[:, :1], "label": shown[:, 1:]}, [])
    assert kept(1, 2)[:, :2].tolist() == [[1, 1], [4, 0]]


def test_columns_that_nobody_can_count_are_refused() -> None:
    with pytest.raises(BadRequest, match=r"UM-FLEET-016.*\n?.*"):
        CountingProgram(cvm=True, dim=2)
    with pytest.raises(BadRequest, match="in geo rows do not count"):
        CountingProgram(cvm=True, k_steps=4)
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()), paddle.utils.unique_name.guard():
        ids = paddle.static.data("ids", [None, 1], "int64")
        rows = paddle.static.nn.sparse_embedding(ids, [10, 4], param_attr=paddle.ParamAttr(name="rows"))
        shown = paddle.static.data("shown", [None, 2], "float32")
        paddle.static.nn.continuous_value_model(paddle.static.nn.fc(rows, 4), shown, True)
    (problem,) = sites.survey(main).problems
    assert problem.code == "UM-FLEET-016"
    assert "computed from the rows of rows" in problem.what


# ---- ShowClickEntry


def test_an_entry_counts_what_its_variables_say() -> None:
    """One of them is fed, the other one computed."""
    program = CountingProgram(entry=entry())
    assert program.learn().shape == (4, DIM)
    rows = kept(3, 4, 7)
    assert rows.shape == (3, 2 + DIM)
    assert rows[:, :2].tolist() == [[2, 1], [1, 1], [2, 0]]
    assert rows[:, 2] == pytest.approx([-2 / 4, -1 / 4, -1 / 4])
    assert program.see().tolist() == kept(3, 4, 3, 7)[:, 2:].tolist()
    with pytest.raises(BadRequest, match="UM-FLEET-022"):
        program.learn(show=np.ones((3, 1), np.float32))


def test_rows_of_one_number_have_no_wide_part() -> None:
    program = CountingProgram(entry=entry(), dim=1)
    assert program.learn()[:, 0].tolist() == [0.5] * 4
    assert kept(3, 4)[:, :3].tolist() == [[2, 1, 0.0], [1, 1, 0.25]]
    assert program.see()[:, 0].tolist() == [0.0, 0.25, 0.0, 0.25]


def test_an_entry_without_its_variables_and_geo_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    program = CountingProgram(entry=paddle.distributed.ShowClickEntry("shows", "clicks"))
    assert "no variable shows and no clicks" in capsys.readouterr().err
    program.learn()
    assert kept(3, 4)[:, :2].tolist() == [[2, 0], [1, 0]]
    job.end()
    CountingProgram(entry=entry(), k_steps=4)
    assert "in geo its rows do not count" in capsys.readouterr().err


def test_a_feed_without_shows_is_told() -> None:
    program = CountingProgram(entry=entry())
    with pytest.raises(BadRequest, match="ShowClickEntry names: show"):
        program.executor.run(program.main, feed={"ids": IDS, "label": SHOWN[:, 1:]}, fetch_list=[])


def test_saves_have_what_the_program_sees(tmp_path: Path) -> None:
    program = CountingProgram(cvm=True)
    program.learn()
    before = program.see()
    fleet.save_persistables(program.executor, str(tmp_path / "all"))
    fleet.save_inference_model(program.executor, str(tmp_path / "model"), ["ids", "shown"], [program.seen])
    program.learn()
    assert program.see().tolist() != before.tolist()
    fleet.load_model(str(tmp_path / "all"), 0)
    assert program.see().tolist() == before.tolist()
    with pytest.raises(BadRequest, match="UM-FLEET-034"):
        fleet.load_one_table(0, str(tmp_path / "one"), 0)
    job.end()
    with paddle.static.scope_guard(paddle.static.Scope()):
        loaded, _, targets = paddle.static.load_inference_model(str(tmp_path / "model" / "model"), program.executor)
        (found,) = program.executor.run(loaded, feed={"ids": IDS, "shown": SHOWN}, fetch_list=targets)
    assert found == pytest.approx(before, abs=1e-6)


def test_shrink_evicts_rows_that_count_for_too_little() -> None:
    program = CountingProgram(entry=entry(), table_configs=config(accessor__ctr_accessor_param__delete_threshold=1.05))
    program.learn()
    fleet.shrink()
    assert kept(3, 4, 7)[:, 0].tolist() == [2, 0, 0], "scores of 1.1, 1 and 0.2"


def test_a_save_at_the_end_of_a_day_lets_rows_grow_older(tmp_path: Path) -> None:
    """And saves of other modes have the rows that count for enough."""
    said = {"delete_after_unseen_days": 1, "base_threshold": 1}
    program = CountingProgram(
        entry=entry(),
        table_configs=config(**{f"accessor__ctr_accessor_param__{name}": each for name, each in said.items()}),
    )
    program.learn()
    fleet.save_persistables(program.executor, str(tmp_path / "base"), mode=2)
    for day in range(2):
        program.learn(IDS[1:2], SHOWN[1:2])
        fleet.save_persistables(program.executor, str(tmp_path / f"day{day}"), mode=3)
    fleet.shrink()
    assert kept(3, 4, 7)[:, 0].tolist() == [0, 3, 0], "two days without ids 3 and 7"
    fleet.load_model(str(tmp_path / "base"), 0)
    assert kept(3, 4, 7)[:, 0].tolist() == [2, 1, 0], "id 7 has a score of 0.2"


def test_listed_rows_are_refused() -> None:
    listed = paddle.nn.initializer.Assign(np.zeros((100, DIM), np.float32))
    with pytest.raises(BadRequest, match="UM-FLEET-011"):
        CountingProgram(entry=entry(), init=listed)


# ---- sparse_table_configs


def spec_of(site: sites.TableSite, said: dict[str, Any]) -> accessors.CountedTable:
    return accessors.counted(site, said, ps.SparseTable(dim=site.dim, rule=ps.Sgd(0.5), init=ps.Constant(0.5)))


SITE = sites.TableSite(name="rows", rows=100, dim=9)


def test_what_nobody_says_is_as_on_paddles_servers() -> None:
    found = spec_of(SITE, {"accessor.accessor_class": "SparseAccessor"})
    accessor = found.spec.accessor
    assert accessor is not None
    assert (found.spec.dim, found.counting.columns, found.counting.has_statistics) == (8, 9, False)
    assert (accessor.embedx_threshold, accessor.delete_threshold, accessor.show_click_decay_rate) == (0, 0, 1)
    assert (accessor.nonclk_coeff, accessor.click_coeff, accessor.zero_init, accessor.show_scale) == (
        0.1,
        1,
        True,
        False,
    )
    assert accessor.embed_optimizer == found.spec.rule == ps.Sgd(0.5)
    assert (found.remarks, found.problems) == ((), ())


def test_the_numbers_of_an_accessor() -> None:
    program = {
        "rows": {
            "table_parameters.rows.table_class": "MemorySparseTable",
            "table_parameters.rows.shard_num": 10,
            "table_parameters.rows.accessor.accessor_class": "CtrCommonAccessor",
            "table_parameters.rows.accessor.fea_dim": 9,
            "table_parameters.rows.accessor.embedx_dim": 6,
            "table_parameters.rows.accessor.embedx_threshold": 10,
            "table_parameters.rows.accessor.ctr_accessor_param.nonclk_coeff": 0.25,
            "table_parameters.rows.accessor.ctr_accessor_param.ssd_unseenday_threshold": 2,
            "table_parameters.rows.accessor.embed_sgd_param.name": "SparseAdaGradSGDRule",
            "table_parameters.rows.accessor.embed_sgd_param.adagrad.learning_rate": 0.25,
            "table_parameters.rows.accessor.embedx_sgd_param.name": "StdAdaGradSGDRule",
            "table_parameters.rows.accessor.embedx_sgd_param.adagrad.initial_range": 0.5,
            "table_parameters.rows.accessor.embedx_sgd_param.naive.learning_rate": 0.5,
        }
    }
    theirs = fleet.DistributedStrategy()
    theirs.sparse_table_configs = program
    found = spec_of(SITE, dict(strategy.chosen(theirs).tables["rows"]))
    assert found.problems == ()
    assert (found.spec.dim, found.counting.has_statistics, found.counting.times_samples) == (6, True, True)
    assert not found.counting.follows_schedule
    accessor = found.spec.accessor
    assert accessor is not None
    assert (accessor.embedx_threshold, accessor.nonclk_coeff, accessor.show_scale) == (10, 0.25, True)
    assert accessor.embed_optimizer == ps.AdagradShared(0.25)
    assert (accessor.embed_init, found.spec.init) == (ps.Uniform(-1e-4, 1e-4), ps.Uniform(-0.5, 0.5))
    assert (found.spec.rule, found.spec.clip) == (ps.AdagradScaled(0.05), ps.Clip(weight=10.0))
    (remark,) = found.remarks
    unused = [
        "ctr_accessor_param.ssd_unseenday_threshold = 2",
        "embedx_sgd_param.naive.learning_rate = 0.5",
        "shard_num = 10",
    ]
    assert remark == f"sparse_table_configs of rows: no effect here: {', '.join(unused)}"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"accessor.accessor_class": "CtrDymfAccessor"}, "no accessor CtrDymfAccessor"),
        ({"accessor.embedx_dim": 9}, "embedx_dim is 9, and rows of 9 numbers mean 8"),
        ({"accessor.fea_dim": 9}, "fea_dim is 9, and rows of 9 numbers mean 11"),
        ({"accessor.embed_sgd_param.name": "SparseSharedAdamSGDRule"}, "no rule SparseSharedAdamSGDRule"),
        (
            {
                "accessor.embed_sgd_param.name": "SparseNaiveSGDRule",
                "accessor.embed_sgd_param.naive.weight_bounds": [-1.0, 2.0],
            },
            "not symmetric: [-1, 2]",
        ),
        (
            {
                "accessor.embed_sgd_param.name": "SparseNaiveSGDRule",
                "accessor.embed_sgd_param.naive.weight_bounds": [2.0],
            },
            "not symmetric: [2]",
        ),
    ],
)
def test_what_can_not_be_done_is_named(said: dict[str, Any], told: str) -> None:
    problems = spec_of(SITE, said).problems
    assert problems[0].code == "UM-FLEET-017"
    assert told in problems[0].what


def test_a_wide_part_comes_late_and_a_name_without_a_table_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Also: with AdaGrad gradients count per show, whatever the batch's size."""
    said = config(accessor__embedx_threshold=1, accessor__embed_sgd_param__name="SparseAdaGradSGDRule")
    program = CountingProgram(entry=entry(), table_configs={**said, "other": {"table_parameters.other.shard_num": 1}})
    assert "other is none of the tables rows" in capsys.readouterr().err
    program.learn()
    rows = kept(3, 4, 7)
    assert rows[:, 3:].tolist() == [[0.5] * 4, [0.5] * 4, [0.0] * 4], "scores of 1.1, 1 and 0.2"
    # The gradient of a sum over samples, divided by shows: 1 for id 3, which is in two samples, and half of that for id 7.
    assert rows[:, 2] == pytest.approx([-0.05, -0.05, -0.025], abs=1e-4)
