"""Alone, every optimizer of Paddle learns as in a plain loop of Paddle, and goes on from a checkpoint; where a model is shared, those that tables do not have are refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import dygraph_helpers as models
from tests.unit.train.test_train_dygraph import Alone, engine, learned, stacked
from umiak.core.problem import UmiakError
from umiak.train.engines import model_text

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]

OWN = {
    "ASGD": "batch_num=3",
    "Adadelta": "rho=0.9",
    "Adamax": "beta1=0.8",
    "Lamb": "lamb_weight_decay=0.02",
    "NAdam": "momentum_decay=0.01",
    "RAdam": "beta2=0.99",
    "Rprop": "etas=(0.4, 1.1)",
}
"""Those that tables do not have, with a setting of their own."""
TABLES = ("Adagrad", "Adam", "AdamW", "Momentum", "RMSProp", "SGD")
RATE = "config.get('hyper_parameters.optimizer.learning_rate')"
SCHEDULE = "paddle.optimizer.lr.StepDecay(0.02, 3, 0.7)"
CLIP = "grad_clip=paddle.nn.ClipGradByGlobalNorm(0.4)"
DECAY = "weight_decay=paddle.regularizer.L2Decay(0.01)"
GROUPS = """half, other = dy_model.parameters()[:3], dy_model.parameters()[3:]
            return paddle.optimizer.NAdam(parameters=[{'params': half, 'learning_rate': 0.5}, {'params': other}])"""
DERIVED = """kind = type('Own', (paddle.optimizer.SGD,), {'__module__': 'own'})
            return kind(0.1, parameters=dy_model.parameters())"""


def optimizer(kind: str, *settings: str, rate: str = RATE) -> str:
    words = ", ".join(["parameters=dy_model.parameters()", *settings])
    return f"self.schedule = {rate}\n            return paddle.optimizer.{kind}(self.schedule, {words})"


def story(path: Path, text: str, *, sparse: bool = False, stepping: str = "") -> list[list[Any]]:
    # Without BatchNorm, which makes rounding grow in plain loops of Paddle as well.
    batches = models.story(path, samples=256, optimizer=text, stepping=stepping, norm="x")
    config = path / "config.yaml"
    config.write_text(config.read_text().replace("sparse: true", f"sparse: {str(sparse).lower()}"))
    return batches


def compared(path: Path, batches: list[list[Any]]) -> tuple[float, float]:
    """How far losses and weights are from those of a plain loop, where the run was stopped in its middle and went on from a checkpoint."""
    from umiak.train.checkpoints import runs
    from umiak.train.checkpoints.progress import Progress

    expected: dict[str, Any] = {}
    losses, _ = models.plain_losses(path / "dygraph_model.py", batches, epochs=1, state=expected)
    first = engine(path, sample=lambda: stacked(batches[0]))
    found, _ = learned(first, batches[:5])
    first.buffers.store(Alone())
    progress = Progress(runner="train", mode="alone", trainers_in_all=1, seed=11, epoch=0, stage=0)
    runs.save(first.job, str(path / "saved"), progress)
    learned(first, batches[5:7])  # what it learns now is not in the checkpoint
    second = engine(path, sample=lambda: stacked(batches[0]))
    assert not second.takes_weights(str(path / "saved"))
    assert runs.start_from(second.job, str(path / "saved"), second.tables())
    second.restore()
    found += learned(second, batches[5:], 5)[0]
    weights = second.weights()
    assert list(weights) == list(expected)
    apart = max(float(np.abs(weights[name] - expected[name]).max()) for name in expected)
    return float(np.abs(np.array(found) - losses).max()), apart


def test_these_are_all_optimizers_of_paddle() -> None:
    from umiak.ps.paddle_models import optimizers
    from umiak.train.engines.state import own_optimizers

    assert sorted(own_optimizers.names()) == sorted([*OWN, *TABLES])
    assert [*optimizers.RULES] == [*model_text.ON_TABLES] == optimizers.CARRIED.split(", ")


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("more", ["", "schedule, clip and decay"])
def test_an_optimizer_that_tables_do_not_have_is_paddles_own_to_the_bit(kind: str, more: str, tmp_path: Path) -> None:
    settings = [OWN[kind], *([CLIP, *([] if kind in ("Lamb", "Rprop") else [DECAY])] if more else [])]
    follows = more and kind != "Rprop"  # which Paddle lets follow no schedule
    text = optimizer(kind, *settings, rate=SCHEDULE if follows else RATE)
    batches = story(tmp_path, text, stepping="self.schedule.step()" if follows else "")
    assert compared(tmp_path, batches) == (0.0, 0.0)


@pytest.mark.parametrize("kind", TABLES)
def test_an_optimizer_that_tables_have_comes_to_the_same(kind: str, tmp_path: Path) -> None:
    batches = story(tmp_path, optimizer(kind, CLIP))
    losses, weights = compared(tmp_path, batches)
    assert losses < 1e-5
    assert weights < 1e-4


@pytest.mark.parametrize(
    "text",
    [
        optimizer("Adam", "amsgrad=True"),
        optimizer("Momentum", "rescale_grad=0.5"),
        optimizer("Lamb"),
        optimizer("Adam", "grad_clip=type('Own', (paddle.nn.ClipGradByNorm,), {})(0.5)"),
        GROUPS,
    ],
    ids=["amsgrad", "rescale_grad", "Lamb", "a clip of its own", "groups"],
)
def test_settings_that_tables_do_not_have_are_paddles_own_too(text: str, tmp_path: Path) -> None:
    assert compared(tmp_path, story(tmp_path, text)) == (0.0, 0.0)


@pytest.mark.parametrize("kind", ["Lamb", "Rprop"])
def test_sparse_embeddings_learn_by_those_that_take_rows(kind: str, tmp_path: Path) -> None:
    assert compared(tmp_path, story(tmp_path, optimizer(kind), sparse=True)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "sparse", "code", "what"),
    [
        (optimizer("NAdam"), True, "UM-TRAIN-531", "Paddle's NAdam does not learn from embeddings with sparse=True"),
        (optimizer("LBFGS"), False, "UM-TRAIN-530", "LBFGS.step needs a closure"),
        (
            DERIVED,
            False,
            "UM-TRAIN-530",
            "Own is none of paddle.optimizer",
        ),
    ],
)
def test_what_cannot_learn_is_refused_with_its_line(
    text: str, sparse: bool, code: str, what: str, tmp_path: Path
) -> None:
    batches = story(tmp_path, text, sparse=sparse)
    with pytest.raises(UmiakError) as refused:
        engine(tmp_path, sample=lambda: stacked(batches[0]))
    (problem,) = refused.value.problems
    lines = (tmp_path / "dygraph_model.py").read_text().splitlines()
    line = next(number for number, each in enumerate(lines, start=1) if "paddle.optimizer" in each)
    assert (problem.code, problem.where) == (code, f"{tmp_path / 'dygraph_model.py'}:{line}")
    assert what in problem.what
    assert problem.hint


def test_tables_that_are_asked_for_must_be_able_to_learn(tmp_path: Path) -> None:
    batches = story(tmp_path, optimizer("Lamb"))
    config = tmp_path / "config.yaml"
    config.write_text(config.read_text().replace("epochs: 2", "epochs: 2\n  table_embeddings: [embedding]"))
    with pytest.raises(UmiakError, match="Lamb can't be carried over to tables"):
        engine(tmp_path, sample=lambda: stacked(batches[0]))


def test_weights_go_from_one_optimizer_to_another(tmp_path: Path) -> None:
    from umiak.train.checkpoints import runs
    from umiak.train.checkpoints.progress import Progress

    progress = Progress(runner="train", mode="alone", trainers_in_all=1, seed=11, epoch=1, stage=0)
    saved: dict[str, Any] = {}
    for kind in ("Lamb", "Adam", "NAdam"):
        batches = story(tmp_path / kind, optimizer(kind))
        made = engine(tmp_path / kind)
        for other, weights in saved.items():
            path = str(tmp_path / other / "saved")
            assert made.takes_weights(path)
            made.take_weights(path)
            assert {
                name: np.array_equal(each, weights[name]) for name, each in made.weights().items()
            } == dict.fromkeys(weights, True)
        learned(made, batches)
        made.buffers.store(Alone())
        runs.save(made.job, str(tmp_path / kind / "saved"), progress)
        saved[kind] = made.weights()


@pytest.mark.parametrize("left_out", [4, 5], ids=["before the checkpoint", "behind it"])
@pytest.mark.parametrize("kind", ["Lamb", "Momentum", "Adam"])
def test_it_goes_on_beside_a_batch_that_nothing_is_learned_from(kind: str, left_out: int, tmp_path: Path) -> None:
    """A run is stopped behind the fifth batch. Of that one, or of the next, the model returns a loss without gradients; a layer is not used any more from then on, and
    its gradient of zeros, which `clear_grad` has left, still moves it."""
    batches = story(tmp_path, optimizer(kind))
    firsts = [round(float(numbers[0, 0]), 4) for *_, numbers in batches]
    net, model = tmp_path / "net.py", tmp_path / "dygraph_model.py"
    text = net.read_text().replace("nn.BatchNorm1D(wide)", "nn.Linear(wide, wide)")
    used = "self.norm(x) if round(float(numbers[0, 0]), 4) in"
    net.write_text(text.replace("self.top(x)", f"self.top({used} {firsts[:5]} else x)"))
    number = "round(float(batch_data[-1].numpy()[0, 0]), 4)"
    line = "loss = self.create_loss(logits, label)"
    model.write_text(model.read_text().replace(line, f"{line} if {number} != {firsts[left_out]} else paddle.ones([1])"))
    losses, weights = compared(tmp_path, batches)
    assert losses < (1e-5 if kind in TABLES else 1e-9)
    assert weights < (1e-4 if kind in TABLES else 1e-9)
