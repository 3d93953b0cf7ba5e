"""What a model has besides the parameters that it learns (running statistics, counters, frozen parameters): saved, restored, evaluated and served."""

from __future__ import annotations

import importlib.util
import signal
from typing import Any

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support.train_runs import EPOCHS, Work, slow

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.usefixtures("paddle"),
    pytest.mark.filterwarnings("ignore:When training, we now always track"),
]

LAST = str(EPOCHS - 1)
TABLE = "dense.buffers"


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


@pytest.fixture(autouse=True)
def _with_buffers(work: Work) -> None:
    """Batch normalization whose statistics matter, a counter, a clock, a mask, and a parameter that does not learn."""
    path = work.path / "model.py"
    text = path.read_text()
    text = text.replace(
        "        self.top = paddle",
        "        self.norm = paddle.nn.BatchNorm1D(width)\n"
        "        self.register_buffer('batches', paddle.to_tensor([2**40], dtype='int64'))\n"
        "        self.register_buffer('clock', paddle.to_tensor([1 / 3], dtype='float64'))\n"
        "        self.register_buffer('mask', paddle.to_tensor([True, False, True]))\n"
        "        self.frozen = self.create_parameter([width, width])\n"
        "        self.frozen.stop_gradient = True\n"
        "        self.top = paddle",
    )
    text = text.replace(
        "return self.top(paddle.concat([rows, inputs.dense()], axis=1))",
        "x = self.norm(40 * paddle.concat([rows, inputs.dense()], axis=1) + 7)\n"
        "        if self.training:\n"
        "            self.batches.set_value(self.batches + 1)\n"
        "        return self.top(x + 0.1 * x @ self.frozen)",
    )
    assert text.count("self.norm") == 2
    path.write_text(text)


def arrays(work: Work, runner: str, epoch: str, table: str = TABLE) -> dict[str, Any]:
    """What a checkpoint has of them, by name."""
    from umiak.ps import checkpoint, export

    path = str(work.path / "out" / runner / epoch)
    values = np.asarray(export.contents(path)[table]["values"])
    described = checkpoint.read(path).tables[table].spec["arrays"]
    ends = np.cumsum([int(np.prod(each["shape"])) for each in described])
    return {each["name"]: part for each, part in zip(described, np.split(values, ends[:-1]), strict=True)}


def evaluated(work: Work, runner: str) -> dict[str, float]:
    found: dict[str, float] = work.epochs(runner)[-1]["evaluated"]
    return found


@pytest.mark.parametrize("runner", ["alone", "sync", "async", "geo", "collective"])
def test_an_evaluation_of_what_was_saved_says_what_training_said(work: Work, runner: str) -> None:
    done = work.here(runner) if runner == "alone" else work.run_forked(runner)
    assert done.status == 0, done.said
    trained = evaluated(work, runner)
    assert work.here("infer", "-o", f"runner.infer.init_model_path=out/{runner}/{LAST}").status == 0
    found = [row for row in work.metrics("infer") if row["event"] == "epoch"][-1]["evaluated"]
    # In geo a trainer judges with its own copy, of which a part is on no server.
    assert found == pytest.approx(trained, abs=0.1 if runner == "geo" else 1e-6)


def test_a_served_model_has_them(work: Work) -> None:
    from umiak.train.engines.paddle_export import answered

    assert work.here("alone", "-o", "runner.alone.save_inference_path=served").status == 0
    lines = (work.path / "data" / "test" / "part").read_text().splitlines()
    samples = [[each.split(":") for each in line.split()] for line in lines]
    columns = {
        name: np.array([[int(n) for k, n in each if k == name] for each in samples]) for name in ("1", "2", "3", "4")
    }
    prices = np.array([[float(n) for k, n in each if k == "price"] for each in samples], np.float32)
    clicks = np.array([next(int(n) for k, n in each if k == "click") for each in samples])
    answers = answered(str(work.path / "served" / LAST), {**columns, "price": prices})[0].reshape(-1)
    assert np.ptp(answers) > 0.1
    above = answers[clicks == 1][:, None] - answers[clicks == 0]
    auc = ((above > 0) + 0.5 * (above == 0)).mean()
    assert auc == pytest.approx(evaluated(work, "alone")["auc"], abs=1e-3)


def test_every_type_is_kept_exactly(work: Work) -> None:
    assert work.here("alone").status == 0
    kept = arrays(work, "alone", LAST)
    assert {name: each.size for name, each in kept.items()} == {
        "batches": 4,
        "clock": 4,
        "mask": 3,
        "norm._mean": 18,
        "norm._variance": 18,
    }
    # It is the optimizer's, and may learn later.
    (frozen,) = arrays(work, "alone", LAST, "dense.frozen").values()
    assert frozen.size == 18 * 18
    assert frozen.std() > 0
    assert (kept["norm._mean"] != 0).all()
    assert kept["batches"].astype(np.uint16).view(np.int64) == 2**40 + 19 * EPOCHS
    assert kept["clock"].astype(np.uint16).view(np.float64) == 1 / 3
    assert kept["mask"].tolist() == [1, 0, 1]
    with work.trainer("alone", "-o", "runner.alone.epochs=1") as trainer:
        trainer.train()
        (engine,) = trainer.engines
        buffers = engine.buffers
        before = {name: each.numpy().copy() for name, each in engine.model.state_dict(use_hook=False).items()}
        for each in buffers._tensors.values():
            each.set_value(np.zeros_like(each.numpy()))
        buffers.fetch()
        for name, each in engine.model.state_dict(use_hook=False).items():
            assert (each.numpy() == before[name]).all(), name
        assert before["batches"] == 2**40 + 19
        assert before["clock"] == 1 / 3


@pytest.mark.parametrize("runner", ["sync", "collective"])
def test_two_trainers_agree_on_the_mean(work: Work, runner: str) -> None:
    """At the end of an epoch, and in the checkpoint; what is no number with a fraction is the first trainer's."""
    path = work.path / "model.py"
    path.write_text(
        path.read_text()
        .replace(
            "        if self.training:\n",
            "        if self.training:\n            self.clock.set_value(self.clock * 0 + 1.0 + int(os.environ['UMIAK_RANK']))\n",
        )
        .replace(
            "self.batches.set_value(self.batches + 1)",
            "self.batches.set_value(self.batches * 0 + 70000 * (1 + int(os.environ['UMIAK_RANK'])))",
        )
    )
    done = work.run_forked(runner, "-o", f"runner.{runner}.epochs=1")
    assert done.status == 0, done.said
    kept = arrays(work, runner, "0")
    assert kept["batches"].astype(np.uint16).view(np.int64) == 70000
    assert kept["clock"].astype(np.uint16).view(np.float64) == 1.5


@pytest.mark.parametrize("runner", ["sync", "collective"])
def test_stopped_and_killed_it_comes_to_the_same_bits(work: Work, runner: str) -> None:
    whole = work.run_forked(runner)
    assert whole.status == 0, whole.said
    expected = work.checkpoint("out", runner, LAST)
    work.forget("out", "steps", "run")
    for how in ("stop", "trainer"):
        goes_on = ["--resume"] if work.names("steps", runner) else []
        began = work.paced()
        started = work.start(runner, *goes_on, env=slow(0.02))
        assert started.until(
            lambda began=began: work.paced() >= began + 9 and bool(work.names("steps", runner)), "some batches"
        )
        if how == "stop":
            started.signal(signal.SIGTERM)
            assert started.end().status == 143
        else:
            started.kill(how)
            assert started.end().status != 0
    done = work.run_forked(runner, "--resume")
    assert done.status == 0, done.said
    assert TABLE in expected
    assert work.checkpoint("out", runner, LAST) == expected
