"""What Paddle calls private and this program uses: each part does what is expected of it, with the Paddle that is installed."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.static_programs import fleet, older_programs, paddle
from umiak.ps import paddle_internals as internals

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]
core = paddle.base.core


@pytest.fixture
def program() -> Iterator[Any]:
    """A static program with x, its double y and the double's root z."""
    with older_programs():
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [None, 2], "float32")
            main.y = paddle.scale(x, 2.0)
            main.z = paddle.scale(main.y, 0.5)
        yield main


@pytest.fixture
def executor() -> Any:
    return paddle.static.Executor(paddle.CPUPlace())


def dense(values: Any) -> Any:
    tensor = core.DenseTensor()
    tensor.set(np.asarray(values, np.float32), core.CPUPlace())
    return tensor


def types(program: Any) -> list[str]:
    return [op.type for op in program.global_block().ops]


def optimizer_of(layer: Any, kind: str = "Adam", **given: Any) -> Any:
    return getattr(paddle.optimizer, kind)(learning_rate=0.1, parameters=layer.parameters(), **given)


# ---- tensors


def test_a_tensor_tells_of_its_memory() -> None:
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    flat = core.DenseTensor()
    flat.set(values, core.CPUPlace(), True)
    assert not internals.is_initialized(core.DenseTensor())
    assert internals.is_initialized(flat)
    assert internals.is_initialized(paddle.ones([1]))
    assert internals.pointer(flat) == values.ctypes.data
    assert internals.is_on_cpu(flat)
    assert internals.element_type(flat) == core.VarDesc.VarType.FP32


def test_a_tensor_shows_a_part_of_another_one() -> None:
    flat, tensor = dense(np.arange(6)), core.DenseTensor()
    internals.share(tensor, internals.part_of(flat, 2, 6), [2, 2])
    assert np.array(tensor).tolist() == [[2, 3], [4, 5]]
    assert internals.pointer(tensor) == internals.pointer(flat) + 2 * 4


def test_memory_is_released() -> None:
    tensor = dense([1.0])
    internals.clear(tensor)
    assert not internals.is_initialized(tensor)
    parameter = paddle.nn.Linear(2, 2).weight
    internals.clear_data(parameter)
    assert not internals.is_initialized(parameter)


def test_optimizers_ask_for_a_parameter_s_gradient() -> None:
    layer = paddle.nn.Linear(2, 1)
    layer(paddle.ones([1, 2])).sum().backward()
    asked: list[str] = []
    internals.answer_gradient(layer.weight, lambda: asked.append("weight"))
    before = layer.weight.numpy().copy(), layer.bias.numpy().copy()
    kinds = [
        name
        for name, each in vars(paddle.optimizer).items()
        if isinstance(each, type) and name not in ("Optimizer", "LBFGS")
    ]
    assert len(kinds) >= 10
    for kind in kinds:
        asked.clear()
        optimizer_of(layer, kind).step()
        assert asked, kind
    assert (layer.weight.numpy() == before[0]).all(), "it was told that there is none"
    assert (layer.bias.numpy() != before[1]).all()


# ---- programs


def test_operations_and_variables_are_removed_and_inserted(program: Any) -> None:
    block, removed = program.global_block(), program.z.name
    internals.remove_op(block, 1)
    internals.remove_variable(block, removed)
    assert types(program) == ["scale"]
    assert removed not in block.vars
    out = block.create_var(name="out", dtype="float32")
    internals.insert_op(block, 1, type="sqrt", inputs={"X": [program.y]}, outputs={"Out": [out]}, attrs={})
    assert types(program) == ["scale", "sqrt"]
    internals.set_attribute(block.ops[0], "scale", 3.0)
    assert block.ops[0].attr("scale") == 3.0
    block.create_var(name="other", dtype="float32")
    internals.rename_output(block.ops[1], "out", "other")
    assert block.ops[1].output("Out") == ["other"]


def test_a_program_is_pruned(program: Any) -> None:
    assert types(internals.pruned(program, [program.y.name])) == ["scale"]
    assert types(program) == ["scale", "scale"]


def test_a_program_tells_how_it_is_run(program: Any) -> None:
    assert not internals.has_own_way(program)
    compiled = paddle.static.CompiledProgram(program)
    assert internals.program_in(compiled) is program
    assert internals.program_in(program) is program
    for name in ("_graph", "_heter_pipeline_opt", "_pipeline_opt"):
        assert hasattr(paddle.static.Program(), name)


def test_a_marked_program_is_one_for_datasets(program: Any) -> None:
    assert getattr(program, "_fleet_opt", "none") is None, "Paddle's own field"
    internals.mark_for_datasets(program)
    assert program._fleet_opt["stat_var_names"] == []


def test_there_are_operations_in_cpp() -> None:
    assert callable(internals.operations().matmul)


# ---- executors


def test_a_compiled_program_runs(program: Any, executor: Any) -> None:
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        data = np.ones((1, 2), np.float32)
        names = ("feed", "fetch")
        compiled, run = internals.compiled_run(executor, program, {"x": data}, [program.z.name], names, scope)
        assert compiled.global_block().ops[0].type == "feed"
        tensor = internals.fed_tensor(data, core.CPUPlace(), program.y.dtype)
        core.set_feed_variable(scope, tensor, "feed", 0)
        assert [np.array(fetched).tolist() for fetched in internals.run_compiled(run, ["x"])] == [[[1.0, 1.0]]]
    assert not internals.is_closed(executor)
    executor.close()
    assert internals.is_closed(executor)


# ---- fleet


def test_a_role_maker_answers_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    from paddle.distributed.fleet.base import role_maker

    maker = role_maker.PaddleCloudRoleMaker(is_collective=False, path="x")
    assert internals.is_collective(maker) is False
    assert internals.arguments_of(maker) == {"path": "x"}
    servers, workers = ["10.0.0.1:1"], ["10.0.0.1:2", "10.0.0.2:2"]
    role = role_maker.Role.WORKER
    internals.seat(maker, role=role, rank=1, world=2, servers=servers, workers=workers, nodes=2)
    assert (maker._worker_index(), maker._worker_num(), maker._is_worker(), maker._is_server()) == (1, 2, True, False)
    assert (maker._get_pserver_endpoints(), maker._get_trainer_endpoints()) == (servers, workers)
    assert maker._node_num() == 2
    assert maker._non_distributed is False
    for name in ("_role_maker", "_is_collective", "_user_defined_strategy"):
        monkeypatch.setattr(fleet.fleet, name, None, raising=False)
    monkeypatch.setattr(fleet.util, "role_maker", getattr(fleet.util, "role_maker", None))
    strategy = fleet.DistributedStrategy()
    assert internals.take_role(fleet, maker, strategy) is fleet.fleet
    assert fleet.fleet.worker_index() == 1
    assert fleet.fleet._user_defined_strategy is strategy
    assert fleet.util.role_maker is maker


# ---- layers


@pytest.mark.parametrize(("given", "row"), [(None, None), (3, 3), (-2, 8)])
def test_an_embedding_tells_its_padding(given: int | None, row: int | None) -> None:
    embedding = paddle.nn.Embedding(10, 2, padding_idx=given)
    assert internals.padding_of(embedding) == row
    ids = paddle.to_tensor([1])
    padding = internals.padding_index(embedding)
    assert paddle.nn.functional.embedding(ids, embedding.weight, padding_idx=padding).shape == [1, 2]


def test_a_layer_has_its_parameters_by_name() -> None:
    layer = paddle.nn.Linear(2, 3)
    assert internals.parameters_of(layer)["weight"] is layer.weight


def test_layers_that_normalize_batches_have_one_base() -> None:
    assert isinstance(paddle.nn.BatchNorm1D(2), internals.batch_norms())
    assert not isinstance(paddle.nn.Linear(2, 2), internals.batch_norms())
    assert {"_mean", "_variance"} <= {*internals.parameters_of(paddle.nn.BatchNorm1D(2))} | {
        *dict(paddle.nn.BatchNorm1D(2).named_buffers())
    }


# ---- optimizers


def test_an_optimizer_has_its_rate_groups_and_settings() -> None:
    layer = paddle.nn.Linear(2, 2)
    schedule = paddle.optimizer.lr.StepDecay(0.1, 2)
    optimizer = paddle.optimizer.Adam(schedule, parameters=layer.parameters())
    assert internals.rate_or_schedule(optimizer) is schedule
    assert internals.rate_or_schedule(optimizer_of(layer)) == 0.1
    assert list(internals.parameter_groups(optimizer)) == layer.parameters()
    grouped = paddle.optimizer.Adam(parameters=[{"params": layer.parameters()}])
    assert isinstance(internals.parameter_groups(grouped)[0], dict)


SETTINGS: list[tuple[str, dict[str, Any], str, object]] = [
    ("Momentum", {"momentum": 0.7}, "momentum", 0.7),
    ("Momentum", {"use_nesterov": True}, "use_nesterov", True),
    ("Adam", {"beta1": 0.8}, "beta1", 0.8),
    ("Adam", {"beta2": 0.8}, "beta2", 0.8),
    ("Adam", {"epsilon": 1e-3}, "epsilon", 1e-3),
    ("Adam", {"lazy_mode": True}, "lazy_mode", True),
    ("Adam", {"amsgrad": True}, "amsgrad", True),
    ("Adagrad", {"epsilon": 1e-3}, "epsilon", 1e-3),
    ("RMSProp", {"rho": 0.5}, "rho", 0.5),
    ("RMSProp", {"momentum": 0.5}, "momentum", 0.5),
    ("RMSProp", {"epsilon": 1e-3}, "epsilon", 1e-3),
    ("RMSProp", {"centered": True}, "centered", True),
    ("SGD", {}, "learning_rate", 0.1),
]


@pytest.mark.parametrize(("kind", "given", "name", "expected"), SETTINGS)
def test_an_optimizer_has_a_setting(kind: str, given: dict[str, Any], name: str, expected: object) -> None:
    assert internals.setting(optimizer_of(paddle.nn.Linear(2, 2), kind, **given), name, "none") == expected


def test_settings_that_are_objects() -> None:
    layer, clip = paddle.nn.Linear(2, 2), paddle.nn.ClipGradByNorm(1.0)
    assert internals.setting(optimizer_of(layer, grad_clip=clip), "grad_clip", None) is clip
    assert internals.coefficient(paddle.regularizer.L1Decay(0.5)) == 0.5
    assert internals.coefficient(paddle.regularizer.L2Decay(0.25)) == 0.25
    choose = str.isupper
    decayed = optimizer_of(layer, "AdamW", weight_decay=0.125, apply_decay_param_fun=choose)
    assert internals.setting(decayed, "apply_decay_param_fun", None) is choose
    weight_decay = internals.setting(decayed, "weight_decay", None)
    if weight_decay is None:
        weight_decay = internals.setting(decayed, "coeff", None)
    assert float(internals.setting(weight_decay, "coeff", weight_decay)) == 0.125
    adagrad = optimizer_of(layer, "Adagrad", initial_accumulator_value=0.5)
    assert adagrad.initial_accumulator_value == 0.5


def test_mixed_precision_wraps_an_optimizer() -> None:
    with older_programs():
        optimizer = paddle.optimizer.SGD(0.1)
        assert internals.inner_optimizer(paddle.static.amp.decorate(optimizer)) is optimizer


def test_what_an_optimizer_remembers_is_there_before_its_first_step() -> None:
    layer = paddle.nn.Linear(2, 2)
    optimizer = optimizer_of(layer)
    block = paddle.base.framework.default_main_program().global_block()
    internals.create_accumulators(optimizer, block, layer.parameters())
    remembered = internals.remembered(optimizer)
    assert {"moment1", "moment2", "master"} <= {*remembered}
    assert layer.weight.name in remembered["moment1"]


# ---- metrics


def test_an_auc_counts() -> None:
    auc = paddle.metric.Auc()
    count = internals.thresholds(auc) + 1
    positive, negative = np.zeros(count, np.int64), np.zeros(count, np.int64)
    positive[-1] = negative[0] = 3
    internals.count_into(auc, positive, negative)
    assert auc.accumulate() == 1.0


# ---- nobody else


def test_every_part_is_tried_here() -> None:
    tree = ast.parse(Path(internals.__file__).read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    functions |= {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    own = Path(__file__).read_text(encoding="utf-8")
    assert sorted(name for name in functions - {"TYPE_CHECKING"} if f"internals.{name}(" not in own) == []
