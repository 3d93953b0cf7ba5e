"""What a parameter says of itself, `ParamAttr(learning_rate=..., regularizer=..., need_clip=...)`, and weight decay of the config, in every mode."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support.train_runs import EPOCHS, Work

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle")]

LAST = str(EPOCHS - 1)


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def values(work: Work, runner: str, epoch: str, table: str) -> np.ndarray:
    from umiak.ps import export

    return np.asarray(export.contents(str(work.path / "out" / runner / epoch))[table]["values"])


@pytest.mark.parametrize("runner", ["alone", "sync", "async", "half_async", "geo", "hybrid", "collective"])
def test_a_parameters_own_rate_and_regularizer_act(work: Work, runner: str) -> None:
    """One that does not learn, and one that is drawn to zero so strongly that nothing else counts."""
    path = work.path / "model.py"
    text = path.read_text()
    strong = "paddle.ParamAttr(regularizer=paddle.regularizer.L2Decay(100.0))"
    still = "paddle.ParamAttr(learning_rate=0.0, initializer=paddle.nn.initializer.Constant(0.25))"
    path.write_text(text.replace("Linear(width, 8)", f"Linear(width, 8, weight_attr={strong}, bias_attr={still})"))
    done = work.here(runner) if runner == "alone" else work.run_forked(runner)
    assert done.status == 0, done.said
    assert values(work, runner, LAST, "dense.rate-0").tolist() == [0.25] * 8
    drawn = np.abs(values(work, runner, LAST, "dense.l2-100"))
    assert drawn.size == 8 * 18
    assert drawn.mean() < 0.15  # it begins at about 0.24
    assert values(work, runner, LAST, "dense").size == 9


@pytest.mark.parametrize(
    ("clipped_by", "runner"),
    [
        *[("clip_value", runner) for runner in ("alone", "sync", "async", "half_async", "geo", "hybrid", "collective")],
        *[(by, runner) for by in ("clip_norm", "clip_global_norm") for runner in ("alone", "sync", "collective")],
    ],
)
def test_a_parameter_that_needs_no_clip_is_not_clipped(work: Work, runner: str, clipped_by: str) -> None:
    """Gradients are clipped to next to nothing, and steps are as long as gradients: only that parameter moves."""
    path = work.path / "model.py"
    free = "paddle.ParamAttr(need_clip=False, initializer=paddle.nn.initializer.Constant(0.25))"
    held = "paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.25))"
    text = path.read_text().replace("Linear(8, 1)", f"Linear(8, 1, weight_attr={held}, bias_attr={free})")
    path.write_text(text)
    words = ["-o", f"hyper_parameters.optimizer={{class: SGD, learning_rate: 0.5, {clipped_by}: 1.0e-7}}"]
    done = work.here(runner, *words) if runner == "alone" else work.run_forked(runner, *words)
    assert done.status == 0, done.said
    dense = values(work, runner, LAST, "dense")
    free_values = values(work, runner, LAST, "dense.no-clip") if clipped_by != "clip_norm" else dense[-1:]
    held_values = dense[-8:] if clipped_by != "clip_norm" else dense[-9:-1]
    assert free_values.size == 1
    assert abs(free_values[0] - 0.25) > 1e-2
    assert np.abs(held_values - 0.25).max() < 1e-4


def test_weight_decay_of_the_config_is_for_dense_parameters_and_rows(work: Work) -> None:
    from umiak.ps import export

    def sizes(*words: str) -> tuple[float, float]:
        work.forget("out", "steps", "run")
        assert work.here("alone", *words).status == 0
        found = export.contents(str(work.path / "out" / "alone" / LAST))
        rows = np.array([np.abs(np.asarray(row)[:4]).mean() for _, row in found["embedding"]["rows"].values()])
        return float(np.abs(np.asarray(found["dense"]["values"])).mean()), float(rows.mean())

    plain = sizes()
    for said in (
        "{class: AdamW, learning_rate: 0.02, weight_decay: 5}",
        "{class: Adam, learning_rate: 0.02, weight_decay: 5}",
    ):
        decayed = sizes("-o", f"hyper_parameters.optimizer={said}")
        assert decayed[0] < plain[0] / 2
        assert decayed[1] < plain[1] / 2


@pytest.mark.parametrize("runner", ["alone", "sync", "geo", "collective"])
def test_rmsprop_and_the_global_norm_of_the_config_act(work: Work, runner: str) -> None:
    """Gradients that are clipped to nearly nothing leave a model with SGD nearly where it began."""
    from umiak.ps import export

    def moved(said: str) -> float:
        work.forget("out", "steps", "run")
        words = ("-o", f"hyper_parameters.optimizer={said}")
        done = work.here(runner, *words) if runner == "alone" else work.run_forked(runner, *words)
        assert done.status == 0, done.said
        rows = export.contents(str(work.path / "out" / runner / LAST))["embedding"]["rows"].values()
        return float(np.mean([np.abs(np.asarray(row)[:4]).mean() for _, row in rows]))

    start = moved("{class: SGD, learning_rate: 1.0, clip_global_norm: 0.000001}")
    assert start < 0.02
    assert moved("{class: RMSProp, learning_rate: 0.05, momentum: 0.5, centered: true}") > 2 * start
