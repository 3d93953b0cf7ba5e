"""Models that fluid programs save, run by `paddle.inference`: the same numbers, or a reason with the line. Real Paddle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.fluid_programs import fluid, paddle, programs
from umiak.core.problem import BadRequest

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
ROWS = 5


def dense() -> Any:
    return fluid.data("x", [None, 8], "float32")


def mixed(x: Any) -> Any:
    ids = fluid.data("ids", [None, 3], "int64")
    rows = layers.reduce_sum(fluid.embedding(ids, [20, 4]), dim=1)
    hidden = layers.batch_norm(layers.fc(x, 16, act="relu"))
    hidden = layers.dropout(layers.concat([hidden, rows], axis=1), 0.3)
    guess = layers.fc(hidden, 3, act="softmax")
    return [guess, layers.reshape(guess, [-1, 1])]


def pictures(x: Any) -> Any:
    image = fluid.data("image", [None, 3, 8, 8], "float32")
    hidden = fluid.nets.simple_img_conv_pool(image, 4, 3, 2, 2, act="relu")
    return [layers.fc([hidden, x], 2, act="tanh")]


def tensors(x: Any) -> Any:
    first, second = layers.split(x, 2, dim=1)
    stacked = layers.stack([first, layers.sigmoid(second)], axis=1)
    turned = layers.transpose(stacked, [0, 2, 1])
    best, places = layers.topk(layers.reduce_max(turned, dim=2), 2)
    return [layers.elementwise_add(best, layers.cast(places, "float32")), layers.layer_norm(layers.square(x))]


def constants(x: Any) -> Any:
    like = layers.fill_constant_batch_size_like(x, [-1, 8], "float32", 0.5)
    return [layers.elementwise_mul(x, like), layers.l2_normalize(x, 1), layers.clip(x, -0.2, 0.2)]


@pytest.mark.parametrize("network", [mixed, pictures, tensors, constants])
@pytest.mark.parametrize("names", [{}, {"model_filename": "model", "params_filename": "params"}])
def test_paddle_computes_the_same(tmp_path: Path, network: Any, names: dict[str, str]) -> None:
    with programs() as made:
        targets = network(dense())
        if made.main.all_parameters() and network is not tensors:
            fluid.optimizer.Adam(0.1).minimize(layers.mean(targets[0]))
        made.start()
        data = [each for each in made.main.list_vars() if each.is_data]
        feeds = [each.name for each in data]
        assert fluid.io.save_inference_model(str(tmp_path), feeds, targets, made.executor, made.main, **names)
        chance = np.random.default_rng(4)
        feed = {
            each.name: chance.random([ROWS, *each.shape[1:]]).astype("float32")
            if each.dtype == "float32"
            else chance.integers(0, 20, [ROWS, *each.shape[1:]])
            for each in data
        }
        expected = made.executor.run(made.main.clone(for_test=True), feed=feed, fetch_list=targets)
        again, fed, loaded = fluid.io.load_inference_model(str(tmp_path), made.executor, **names)
        assert fed == feeds
        for ours, theirs in zip(expected, made.executor.run(again, feed=feed, fetch_list=loaded), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    paths = [str(tmp_path / name) for name in names.values()] or [str(tmp_path)]
    config = fluid.core.AnalysisConfig(*paths)
    config.disable_gpu()
    config.disable_glog_info()
    config.switch_ir_optim(True)
    config.switch_use_feed_fetch_ops(False)
    config.switch_specify_input_names(True)
    config.set_cpu_math_library_num_threads(1)
    predictor = fluid.core.create_paddle_predictor(config)
    assert predictor.get_input_names() == feeds
    turned = [fluid.core.PaddleTensor(feed[name], name) for name in reversed(feeds)]
    for found in (
        predictor.run(turned),
        predictor.clone().run([fluid.core.PaddleTensor(feed[name]) for name in feeds]),
    ):
        assert len(found) == len(expected)
        for ours, each in zip(expected, found, strict=True):
            np.testing.assert_allclose(each.as_ndarray(), ours, rtol=1e-4, atol=1e-5)
            assert each.shape == list(ours.shape)
    for name in feeds:
        predictor.get_input_tensor(name).copy_from_cpu(feed[name])
    predictor.zero_copy_run()
    first = predictor.get_output_tensor(predictor.get_output_names()[0])
    np.testing.assert_allclose(first.copy_to_cpu(), expected[0], rtol=1e-4, atol=1e-5)
    predictor.clear_intermediate_tensor()
    predictor.try_shrink_memory()
    with pytest.raises(BadRequest, match=f"expected {len(feeds)} tensors"):
        predictor.run([])


def test_parameters_are_written_once(tmp_path: Path) -> None:
    with programs() as made:
        out = layers.fc(dense(), 4)
        made.start()
        fluid.io.save_inference_model(str(tmp_path), ["x"], [out], made.executor, made.main, "m", "p")
        assert sorted(each.name for each in tmp_path.iterdir()) == ["m", "m.json", "p"]
        plain = paddle.inference.Config(str(tmp_path / "m.json"), str(tmp_path / "p"))
        plain.disable_glog_info()
        assert paddle.inference.create_predictor(plain).get_input_names() == ["x"]
        fluid.io.save_inference_model(str(tmp_path), ["x"], [out], made.executor, made.main)
        assert (tmp_path / "__model__.pdiparams").exists()


def test_a_job_that_has_chosen_the_older_form_writes_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `fleet.init` with servers does, where `paddle.enable_static` chooses it again."""

    def choose_again() -> None:
        pytest.fail("paddle.enable_static was called")

    with programs() as made, paddle.pir_utils.DygraphOldIrGuard():
        out = layers.fc(dense(), 4)
        made.start()
        monkeypatch.setattr(paddle, "enable_static", choose_again)
        fluid.io.save_inference_model(str(tmp_path), ["x"], [out], made.executor, made.main)
        assert not paddle.framework.use_pir_api()
    assert (tmp_path / "__model__.json").exists()


def by_sequences() -> tuple[list[str], Any]:
    ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
    return ["ids"], layers.sequence_pool(fluid.embedding(ids, [20, 4]), "sum")


def by_blocks() -> tuple[list[str], Any]:
    x = dense()
    return ["x"], layers.cond(layers.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x * 3.0)


def by_chance() -> tuple[list[str], Any]:
    return ["x"], dense() + layers.uniform_random([8])


REFUSED = {by_sequences: "sequences", by_blocks: "", by_chance: "another one in Paddle's program"}


@pytest.mark.parametrize("network", REFUSED)
def test_what_paddle_can_not_have_is_said_with_its_line(tmp_path: Path, network: Any) -> None:
    (tmp_path / "__model__.json").write_text("of an earlier model")
    with programs() as made:
        feeds, target = network()
        made.start()
        with pytest.warns(UserWarning, match=f"can't be written for paddle.inference.*{REFUSED[network]}"):
            fluid.io.save_inference_model(str(tmp_path), feeds, [target], made.executor, made.main)
        program, fed, _ = fluid.io.load_inference_model(str(tmp_path), made.executor)
        assert (fed, len(program.global_block().ops) > 0) == (feeds, True)
    assert not (tmp_path / "__model__.json").exists()
    with pytest.raises(BadRequest) as caught:
        fluid.core.AnalysisConfig(str(tmp_path))
    (problem,) = caught.value.problems
    assert problem.code == "UM-FLUID-023"
    assert problem.where is not None
    assert problem.where.startswith(__file__)
    assert problem.why is not None
    assert REFUSED[network] in problem.why
    if network is not by_sequences:
        assert Path(__file__).name in problem.why


def test_a_batch_size_is_not_taken_for_a_constant(tmp_path: Path) -> None:
    """`layers.shape` and a shape of variables: either Paddle's program computes them for each batch, or it is not written."""
    with programs() as made:
        x = dense()
        rows = layers.slice(layers.shape(x), axes=[0], starts=[0], ends=[1])
        filled = layers.fill_constant([rows, 2], "float32", 1.5)
        fluid.io.save_inference_model(str(tmp_path), ["x"], [filled], made.executor, made.main)
    if (tmp_path / "__model__.json").exists():
        config = fluid.core.AnalysisConfig(str(tmp_path))
        config.disable_glog_info()
        predictor = fluid.core.create_paddle_predictor(config)
        for count in (1, 7):
            (found,) = predictor.run([fluid.core.PaddleTensor(np.zeros((count, 8), np.float32))])
            assert found.shape == [count, 2]
    else:
        assert "can't be written" in json.loads((tmp_path / "__model__").read_text())["not_exported"]


def test_only_a_record_is_written_if_that_is_wanted(tmp_path: Path) -> None:
    with programs() as made:
        out = layers.fc(dense(), 4)
        made.start()
        for place, options in (("a", {"export_for_deployment": False}), ("b", {"program_only": True})):
            fluid.io.save_inference_model(str(tmp_path / place), ["x"], [out], made.executor, made.main, **options)
            assert not (tmp_path / place / "__model__.json").exists()
            with pytest.raises(BadRequest, match=r"not written for paddle\.inference"):
                fluid.core.AnalysisConfig(str(tmp_path / place))
    with pytest.raises(BadRequest, match="no model"):
        fluid.core.AnalysisConfig(str(tmp_path / "none"))
    with pytest.raises(BadRequest, match="expected an AnalysisConfig"):
        fluid.core.create_paddle_predictor("model")


def test_a_model_in_the_older_form_is_paddles_own(tmp_path: Path) -> None:
    """As 1.8 wrote them: a program as a protobuf message, and all variables in one file."""
    with paddle.pir_utils.OldIrGuard():
        paddle.enable_static()
        try:
            main, startup = paddle.static.Program(), paddle.static.Program()
            with paddle.static.program_guard(main, startup):
                x = paddle.static.data("x", [-1, 8], "float32")
                out = paddle.static.nn.fc(x, 4)
                executor = paddle.static.Executor(paddle.CPUPlace())
                executor.run(startup)
                paddle.static.save_inference_model(str(tmp_path / "m"), [x], [out], executor, program=main)
                feed = np.ones((2, 8), np.float32)
                (expected,) = executor.run(main, feed={"x": feed}, fetch_list=[out])
        finally:
            paddle.disable_static()
    (tmp_path / "m.pdmodel").rename(tmp_path / "__model__")
    description = fluid.proto.framework_pb2.ProgramDesc()
    description.ParseFromString((tmp_path / "__model__").read_bytes())
    types = [each.type for each in description.blocks[0].ops]
    assert types[0] == "feed"
    assert types[-1] == "fetch"
    assert {"x"} < {each.name for each in description.blocks[0].vars}
    config = fluid.core.AnalysisConfig()
    config.set_prog_file(str(tmp_path / "__model__"))
    config.set_params_file(str(tmp_path / "m.pdiparams"))
    assert (config.prog_file(), config.model_dir()) == (str(tmp_path / "__model__"), "")
    assert config.params_file() == str(tmp_path / "m.pdiparams")
    config.disable_glog_info()
    with pytest.warns(UserWarning, match="enable_memory_optim.* has no effect"):
        config.enable_memory_optim()
    if not paddle.is_compiled_with_cuda():
        with pytest.warns(UserWarning, match="without CUDA"):
            config.enable_use_gpu(100, 0)
    predictor = fluid.core.create_paddle_predictor(config)
    assert isinstance(predictor, fluid.core.PaddlePredictor)
    (found,) = predictor.run([fluid.core.PaddleTensor(feed)])
    np.testing.assert_allclose(found.as_ndarray(), expected, rtol=1e-5)


def test_a_tensor_may_be_filled_by_hand() -> None:
    tensor = fluid.core.PaddleTensor()
    tensor.name, tensor.shape = "image", [2, 2]
    tensor.dtype = fluid.core.PaddleDType.FLOAT32
    tensor.data = fluid.core.PaddleBuf(np.arange(4))
    assert tensor.as_ndarray().tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert str(tensor.as_ndarray().dtype) == "float32"
    assert tensor.data.float_data() == [0.0, 1.0, 2.0, 3.0]
    assert tensor.data.int64_data() == tensor.data.int32_data() == tensor.data.tolist() == [0, 1, 2, 3]
    assert (tensor.data.length(), fluid.core.PaddleBuf().empty()) == (32, True)
    whole = fluid.core.PaddleTensor(np.ones((2, 3), np.int64), "ids", [[0, 2]])
    assert (whole.dtype, whole.shape, whole.lod) == (fluid.core.PaddleDType.INT64, [2, 3], [[0, 2]])


def test_types_of_messages_read_files_of_parameters(tmp_path: Path) -> None:
    """As programs of 1.8 look into such files themselves."""
    with programs() as made:
        layers.fc(dense(), 4, param_attr="w", bias_attr=False)
        made.start()
        fluid.io.save_params(made.executor, str(tmp_path), made.main)
    content = (tmp_path / "w").read_bytes()
    version, levels, again, length = (int.from_bytes(content[a:b], "little") for a, b in ((0, 4), (4, 12), (12, 16), (16, 20)))  # fmt: skip
    assert (version, levels, again) == (0, 0, 0)
    assert fluid.proto.framework_pb2.VarType is not None
    messages = fluid.proto.framework_pb2
    description = messages.VarType.TensorDesc()
    description.ParseFromString(content[20 : 20 + length])
    assert list(description.dims) == [8, 4]
    assert description.data_type == messages.VarType.FP32
    for message in (messages.BlockDesc, messages.OpDesc, messages.VarDesc, messages.OpProto):
        assert message().SerializePartialToString() == b""
    assert messages.OpDesc is fluid.proto.framework_pb2.OpDesc
    assert messages.BlockDesc is fluid.proto.framework_pb2.BlockDesc
    assert messages.VarDesc is fluid.proto.framework_pb2.VarDesc
    assert messages.OpProto is fluid.proto.framework_pb2.OpProto
