"""Models for inference that a static fleet program saves: plain Paddle gives the same predictions as the program. Generated programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import plain_inference
from tests.support.static_programs import fleet, fleet_program, losses, older_programs, paddle
from umiak.core.problem import BadRequest
from umiak.fleet import exporting, job

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

SEEDS = range(10)
IDS, DIM, SAMPLES = 30, 4, 12


class GeneratedProgram:
    """Slots whose embeddings, shapes of ids and shared tables are drawn by lot, a dense input, and a small network."""

    def __init__(self, seed: int) -> None:
        chance = np.random.default_rng(seed)
        self.feed: dict[str, Any] = {}
        self.inputs: list[Any] = []
        parts = []
        for place in range(int(chance.integers(1, 5))):
            table = f"table{int(chance.integers(0, 3))}"
            many = int(chance.integers(1, 4))
            kind = ["sparse", "layer", "function"][int(chance.integers(0, 3))]
            padding = 0 if chance.integers(0, 2) else None
            shape = [(1,), (many, 1), (many,)][int(chance.integers(0, 3))]
            if kind == "sparse" and shape[-1] != 1:
                shape = (*shape, 1)
            ids = paddle.static.data(f"i{place}", [None, *shape], "int64")
            self.inputs.append(ids)
            self.feed[ids.name] = chance.integers(0, IDS, (SAMPLES, *shape))
            if chance.integers(0, 3) == 0:
                ids = (ids + 1) % IDS
            initializer = paddle.nn.initializer.Uniform(-0.5, 0.5)
            named = paddle.ParamAttr(name=f"{table}.{kind}", initializer=initializer)
            if kind == "sparse":
                rows = paddle.static.nn.sparse_embedding(ids, [IDS, DIM], padding_idx=padding, param_attr=named)
            elif kind == "layer":
                rows = paddle.nn.Embedding(IDS, DIM, padding_idx=padding, sparse=True, weight_attr=named)(ids)
            else:
                rows = paddle.static.nn.embedding(
                    ids, [IDS, DIM], is_sparse=True, padding_idx=padding, param_attr=named
                )
            parts.append(paddle.reshape(rows, [-1, DIM * int(np.prod(shape))]))
        dense = paddle.static.data("dense", [None, 3], "float32")
        self.inputs.append(dense)
        self.feed["dense"] = chance.normal(size=(SAMPLES, 3)).astype(np.float32)
        label = paddle.static.data("label", [None, 1], "float32")
        self.label = chance.integers(0, 2, (SAMPLES, 1)).astype(np.float32)
        hidden = paddle.static.nn.fc(paddle.concat([*parts, dense], axis=1), 6, activation="relu")
        hidden = paddle.nn.functional.dropout(hidden, 0.5)
        self.predict = paddle.nn.functional.sigmoid(paddle.static.nn.fc(hidden, 1))
        self.loss = paddle.mean(paddle.nn.functional.log_loss(self.predict, label))


def saved(directory: Path, seed: int) -> tuple[str, dict[str, Any], Any]:
    """The prefix of a trained program's model, what to feed it with, and what the job itself predicts."""
    fleet.init(fleet.PaddleCloudRoleMaker())
    paddle.seed(seed + 1)
    main, startup = paddle.static.Program(), paddle.static.Program()
    scope = paddle.static.Scope()
    with (
        paddle.static.program_guard(main, startup),
        paddle.utils.unique_name.guard(),
        paddle.static.scope_guard(scope),
    ):
        made = GeneratedProgram(seed)
        test = main.clone(for_test=True)
        fleet.distributed_optimizer(paddle.optimizer.Adam(0.1), fleet.DistributedStrategy()).minimize(made.loss)
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        fleet.init_worker()
        for _ in range(4):
            executor.run(main, feed={**made.feed, "label": made.label}, fetch_list=[made.loss])
        expected = executor.run(test, feed={**made.feed, "label": made.label}, fetch_list=[made.predict])[0]
        prefix = str(directory / f"model{seed}" / "model")
        given = [None, main, test, main.clone(for_test=True)][seed % 4]
        paddle.static.save_inference_model(prefix, made.inputs, [made.predict], executor, program=given)
    job.end()
    return prefix, made.feed, expected


def test_plain_paddle_predicts_what_the_job_predicts(tmp_path: Path) -> None:
    with older_programs():
        made = [saved(tmp_path, seed) for seed in SEEDS]
    found = plain_inference.predictions({prefix: feed for prefix, feed, _ in made})
    for prefix, feed, expected in made:
        own = found[prefix]
        assert own["feeds"] == [*feed]
        for way in plain_inference.WAYS:
            np.testing.assert_allclose(own[way][0], expected, atol=1e-6, err_msg=f"{prefix} {way}")


def test_a_program_without_tables_is_in_both_forms(tmp_path: Path) -> None:
    with older_programs():
        fleet.init(fleet.PaddleCloudRoleMaker())
        with (
            paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()),
            paddle.utils.unique_name.guard(),
        ):
            given = paddle.static.data("given", [None, 3], "float32")
            answer = paddle.static.nn.fc(given, 2)
            executor = paddle.static.Executor(paddle.CPUPlace())
            executor.run(paddle.static.default_startup_program())
            feed = {"given": np.arange(12, dtype=np.float32).reshape(4, 3)}
            expected = executor.run(feed=feed, fetch_list=[answer])[0]
            prefix = str(tmp_path / "plain")
            paddle.static.save_inference_model(prefix, [given], [answer], executor)
    assert {each.name for each in tmp_path.iterdir()} == {"plain.json", "plain.pdmodel", "plain.pdiparams"}
    own = plain_inference.predictions({prefix: feed})[prefix]
    for way in plain_inference.WAYS:
        np.testing.assert_allclose(own[way][0], expected, atol=1e-6)


def test_a_model_that_answers_with_an_auc(tmp_path: Path) -> None:
    """As PaddleRec's rank/dnn does."""
    with older_programs():
        program = fleet_program(lambda: paddle.optimizer.SGD(0.1), embedding="sparse_embedding")
        losses(program, 2)
        executor = paddle.static.Executor(paddle.CPUPlace())
        feed = program.batch(5)
        inputs = [*program.ids, program.label]
        paddle.static.save_inference_model(
            str(tmp_path / "model"), inputs, [program.auc], executor, program=program.main
        )
        scope = paddle.static.global_scope()
        before = [np.array(scope.find_var(each.name).get_tensor()) for each in program.statistics]
        expected = executor.run(program.test, feed=feed, fetch_list=[program.auc])[0]
        assert before[2].any() or before[3].any(), "it goes on from what was counted"
        job.end()
    own = plain_inference.predictions({str(tmp_path / "model"): feed})[str(tmp_path / "model")]
    for way in plain_inference.WAYS:
        np.testing.assert_allclose(own[way][0], expected, atol=1e-6, err_msg=way)


def test_a_program_that_paddle_can_not_translate_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_program: object) -> None:
        raise SystemError("Op nothing should have corresponding OpInfo")

    monkeypatch.setattr(paddle.pir, "translate_to_pir", fail)
    with older_programs():
        prefix, _, _ = saved(tmp_path, 0)
    assert (
        "model.json is not written, because Paddle can't translate the program: Op nothing" in capsys.readouterr().err
    )
    assert Path(f"{prefix}.pdmodel").exists()


def test_a_table_that_is_too_large_names_what_to_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "MOST_BYTES", 100)
    with older_programs(), pytest.raises(BadRequest, match="UM-FLEET-062") as caught:
        saved(tmp_path, 0)
    assert "fleet.save_persistables" in str(caught.value)
    job.end()
