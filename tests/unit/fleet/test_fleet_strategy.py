"""Settings of ``fleet.DistributedStrategy``: each one of Paddle's protobuf does something, or is remarked on once by name and value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.static_programs import fleet, older_programs, paddle
from umiak import ps
from umiak.core.problem import BadRequest
from umiak.core.value import value
from umiak.fleet import job, strategy
from umiak.fleet.programs import accessors, sites

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]
TABLES = "downpour_table_param"
SITE = sites.TableSite(name="rows", rows=100, dim=9)


@pytest.fixture
def older() -> Iterator[None]:
    with older_programs():
        yield


@value
class Setting:
    """One field of a message, at the end of a path of messages."""

    path: str
    field: Any

    @property
    def is_list(self) -> bool:
        return hasattr(self.field.default_value, "__len__") and not isinstance(self.field.default_value, (str, bytes))

    def change(self, message: Any) -> str:
        """Give it another value than its default; returns how that is printed."""
        *parents, name = self.path.split(".")
        for parent in parents:
            message = getattr(message, parent)
        if self.is_list and self.field.message_type:
            added = getattr(message, name).add()
            first = added.DESCRIPTOR.fields[0]
            text = Setting(path=first.name, field=first).change(added)
            return f"[{' '.join(str(added).split())}]" if text else ""
        if self.is_list:
            is_text = self.field.type == self.field.TYPE_STRING
            values = ["one", "two"] if is_text else [-3, 3]
            getattr(message, name).extend(values)
            return f"[{values[0]}, {values[1]}]"
        usual = getattr(message, name)
        if self.field.enum_type:
            other = next(each for each in self.field.enum_type.values if each.number != usual)
            setattr(message, name, other.number)
            return str(other.name)
        changed = (not usual) if isinstance(usual, bool) else "another" if isinstance(usual, str) else usual + 2
        setattr(message, name, changed)
        return f"{changed:.7g}" if isinstance(changed, float) else str(changed)


def settings(descriptor: Any, prefix: str = "") -> Iterator[Setting]:
    """All of a message, those of messages in it as well."""
    for field in descriptor.fields:
        found = Setting(path=f"{prefix}{field.name}", field=field)
        if field.message_type and not found.is_list:
            yield from settings(field.message_type, f"{found.path}.")
        else:
            yield found


MESSAGE = fleet.DistributedStrategy().strategy
ALL = [*settings(MESSAGE.DESCRIPTOR)]
OF_TABLES = [*settings(MESSAGE.DESCRIPTOR.fields_by_name[TABLES].message_type)]


def test_all_of_paddles_settings_are_gone_over() -> None:
    paths = {each.path for each in ALL}
    assert set(strategy.HANDLED) <= paths
    assert {"amp", "a_sync_configs.send_queue_size", "hybrid_configs.mp_configs.nccl_config.nchannels"} <= paths
    assert len(paths) > 200
    assert {"shard_num", "accessor.embed_sgd_param.adam.ada_epsilon"} <= {each.path for each in OF_TABLES}


def test_settings_do_something_or_are_remarked_on() -> None:
    """All in one test: what surrounds each of five hundred would take longer than they do."""
    for setting in ALL:
        assert_does_something_or_is_remarked_on(setting)


def assert_does_something_or_is_remarked_on(setting: Setting) -> None:
    theirs = fleet.DistributedStrategy()
    usual = strategy.chosen(theirs, trainers=2)
    assert usual.remarks == ()
    text = setting.change(theirs.strategy)
    found = strategy.chosen(theirs, trainers=2)
    if setting.path in strategy.HANDLED:
        assert found.remarks == (), setting.path
        assert found != usual, setting.path
        return
    assert len(found.remarks) == 1, setting.path
    (remark,) = found.remarks
    name, _, rest = setting.path.partition(".")
    written = {
        "with_coordinator": "is_with_coordinator",
        "fuse_grad_size_in_TFLOPS": "_fuse_grad_size_in_TFLOPS",
        "calc_comm_same_stream": "_calc_comm_same_stream",
    }.get(name, name)
    assert hasattr(fleet.DistributedStrategy, written) or written == "mode", "a name that a script can write"
    shown = "***" if setting.path == "fs_client_param.passwd" else text
    assert remark.startswith(f"strategy.{'.'.join(filter(None, (written, rest)))} = {shown} is ignored: ")
    now, before = ((each.strategy, each.tables, each.problems) for each in (found, usual))
    assert now == before, setting.path


def test_a_default_that_is_written_is_no_remark() -> None:
    theirs = fleet.DistributedStrategy()
    theirs.amp = False
    theirs.lars_configs = {"lars_coeff": 0.001}
    theirs.a_sync_configs = {"send_queue_size": 16, "launch_barrier": True, "heter_worker_device_guard": "CPU"}
    theirs.hybrid_configs = {"order": ["dp", "pp", "sharding", "sep", "cp", "mp"]}
    assert strategy.chosen(theirs).remarks == ()


def test_steps_of_geo_without_a_sync_are_remarked_on() -> None:
    theirs = fleet.DistributedStrategy()
    theirs.a_sync = False
    theirs.a_sync_configs = {"k_steps": 40}
    found = strategy.chosen(theirs)
    assert found.strategy == ps.Sync()
    (remark,) = found.remarks
    assert "strategy.a_sync_configs.k_steps = 40 is ignored: without a_sync" in remark


def test_settings_beside_the_protobuf_are_remarked_on() -> None:
    theirs = fleet.DistributedStrategy()
    theirs.hybrid_configs = {"order": ["mp", "dp"], "mp_configs": {"sync_param_name": ["top"]}}
    theirs.mode = 2  # Paddle makes it an attribute, which nothing reads
    order, names, mode = strategy.chosen(theirs).remarks
    assert order.startswith("strategy.hybrid_configs.order = [mp, dp] is ignored: hybrid parallelism")
    assert names.startswith("strategy.hybrid_configs.mp_configs.sync_param_name = [top] is ignored")
    assert mode.startswith("strategy.mode = 2 is ignored: the role maker")


def test_a_strategy_of_a_file_counts_as_well(tmp_path: Any) -> None:
    (tmp_path / "strategy.prototxt").write_text("mode: PS\nlars: true\n")
    theirs = fleet.DistributedStrategy()
    theirs.load_from_prototxt(str(tmp_path / "strategy.prototxt"))
    mode, lars = strategy.chosen(theirs).remarks
    assert "strategy.mode = PS is ignored" in mode
    assert "strategy.lars = True is ignored" in lars


def test_passwords_are_not_printed() -> None:
    theirs = fleet.DistributedStrategy()
    theirs.fs_client_param = {"uri": "hdfs://me:moonlight@host:9000", "passwd": "moonlight"}
    found = strategy.chosen(theirs).remarks
    assert len(found) == 2
    assert "moonlight" not in "".join(found)


# ---- tables


RULES = ["SparseAdaGradSGDRule", "SparseNaiveSGDRule", "SparseAdamSGDRule", ""]
OF_TABLES_AND_RULES = [
    (each, rule)
    for each in OF_TABLES
    for rule in (RULES if "_sgd_param" in each.path else RULES[:1])
    if each.path != "table_name"
]


def test_settings_of_a_table_do_something_or_are_remarked_on() -> None:
    for setting, rule in OF_TABLES_AND_RULES:
        assert_setting_of_a_table_does_something_or_is_remarked_on(setting, rule)


def assert_setting_of_a_table_does_something_or_is_remarked_on(setting: Setting, rule: str) -> None:
    def planned(*, change: bool) -> tuple[accessors.CountedTable, str]:
        theirs = fleet.DistributedStrategy()
        table = theirs.strategy.downpour_table_param.add()
        table.table_name = "rows"
        table.accessor.accessor_class = "SparseAccessor"
        if rule:
            table.accessor.embed_sgd_param.name = table.accessor.embedx_sgd_param.name = rule
        text = setting.change(table) if change else ""
        plain = ps.SparseTable(dim=SITE.dim, rule=ps.Sgd(0.5), init=ps.Constant(0.5))
        (said,) = strategy.chosen(theirs).tables.values()
        return accessors.counted(SITE, said, plain), text

    usual, _ = planned(change=False)
    found, text = planned(change=True)
    assert usual.remarks == ()
    if found.remarks:
        short = setting.path.removeprefix("accessor.")
        shown = "1" if setting.path == "type" else text
        assert found.remarks == (f"sparse_table_configs of rows: no effect here: {short} = {shown}",)
    now, before = ((each.spec, each.counting, each.problems) for each in (found, usual))
    assert (now == before) == bool(found.remarks), f"{setting.path} {rule}"


def static_loss() -> Any:
    ids = paddle.static.data("ids", [None, 1], "int64")
    rows = paddle.static.nn.sparse_embedding(ids, [100, 4], param_attr=paddle.ParamAttr(name="rows"))
    return paddle.mean(rows)


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize("case", ["no accessor", "geo", "dynamic"])
def test_settings_of_tables_that_do_not_count_are_remarked_on(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.init(fleet.PaddleCloudRoleMaker())
    theirs = fleet.DistributedStrategy()
    if case == "geo":
        theirs.a_sync_configs = {"k_steps": 4}
    said = {"shard_num": 10} if case == "no accessor" else {"accessor.embedx_threshold": 3}
    theirs.sparse_table_configs = {"rows": {f"table_parameters.rows.{name}": each for name, each in said.items()}}
    if case == "dynamic":
        with paddle.base.dygraph.guard():
            fleet.distributed_optimizer(
                paddle.optimizer.SGD(0.1, parameters=paddle.nn.Linear(2, 2).parameters()), theirs
            )
    else:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
            fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), theirs).minimize(static_loss(), startup)
    short = "shard_num = 10" if case == "no accessor" else "embedx_threshold = 3"
    assert capsys.readouterr().err.count(f"sparse_table_configs of rows: no effect here: {short}\n") == 1


# ---- jobs


def of_trainers(count: int) -> Any:
    return fleet.UserDefinedRoleMaker(
        is_collective=False,
        current_id=0,
        role=fleet.base.role_maker.Role.WORKER,
        worker_endpoints=[f"127.0.0.1:{36003 + each}" for each in range(count)],
        server_endpoints=["127.0.0.1:36001"],
    )


@pytest.mark.usefixtures("older")
def test_several_optimizers_are_one_remark(capsys: pytest.CaptureFixture[str]) -> None:
    fleet.init(of_trainers(1))
    theirs = fleet.DistributedStrategy()
    theirs.asp = True
    for _ in range(2):
        fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), theirs)
    theirs.elastic = True
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.1))
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), theirs)
    told = capsys.readouterr().err
    assert told.count("strategy.asp = True is ignored: ") == 1
    assert told.count("strategy.elastic = True is ignored: ") == 1


@pytest.mark.usefixtures("older")
def test_statistics_of_all_trainers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    theirs = fleet.DistributedStrategy()
    theirs.sync_batch_norm = True
    theirs.lamb = True
    fleet.init(of_trainers(2), strategy=theirs)
    with pytest.raises(BadRequest, match="sync_batch_norm = True: 2 trainers") as caught:
        fleet.distributed_optimizer(paddle.optimizer.SGD(0.1))
    (problem,) = caught.value.problems
    assert problem.code == "UM-FLEET-050"
    assert "LayerNorm" in (problem.hint or "")
    assert "strategy.lamb = True is ignored" in capsys.readouterr().err


@pytest.mark.usefixtures("older")
def test_one_trainer_has_all_statistics(capsys: pytest.CaptureFixture[str]) -> None:
    theirs = fleet.DistributedStrategy()
    theirs.sync_batch_norm = True
    fleet.init(of_trainers(1))
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), theirs)
    begun = job.current()
    assert begun is not None
    assert begun.session.strategy == ps.Async()
    assert "sync_batch_norm" not in capsys.readouterr().err
