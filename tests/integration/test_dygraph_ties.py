"""Embeddings that share a weight: they train, and `mode=infer` finds what plain Paddle finds, with PaddleRec's weights, with ours and with those that servers have saved."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support import dygraph_helpers as models
from tests.support.train_runs import Work

SECOND = "self.second = nn.Embedding(rows, dim, sparse=sparse{attr})\n        {tie}\n        self.hidden ="
LOOK = "(self.second if at % 2 else self.embedding)(each)"
OUTPUT = " + 0.1 * paddle.matmul(rows[0], self.embedding.weight[:2], transpose_y=True)"
TIES: dict[str, dict[str, str]] = {
    "a weight is assigned": {"tie": "self.second.weight = self.embedding.weight"},
    "one layer has two names": {"tie": "self.second = self.embedding"},
    "three layers share": {
        "tie": "self.second.weight = self.embedding.weight; self.third = nn.Embedding(rows, dim, sparse=True); "
        "self.third.weight = self.second.weight",
        "look": "[self.embedding, self.second, self.third][at](each)",
    },
    "the first of the layers is tied last": {
        "tie": "self.zero, self.embedding.weight = self.embedding, self.second.weight",
    },
    "the output shares it": {"output": OUTPUT},
    "only what is inferred uses it otherwise": {"output": f"{OUTPUT} * (0.0 if self.training else 1.0)"},
    "only inferring looks at it": {"inferred": OUTPUT},
}

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def paddle_is_there() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def story(
    path: Path, *, tie: str = "", look: str = LOOK, output: str = "", inferred: str = "", attr: str = ""
) -> list[list[Any]]:
    """A directory with such a model, without BatchNorm, which makes rounding grow; returns the batches of a plain loop."""
    batches = models.story(path, samples=320, epochs=1, more=output, norm="x")
    net = (path / "net.py").read_text()
    if tie or attr:
        net = net.replace("self.hidden =", SECOND.format(tie=tie, attr=attr), 1)
        net = net.replace("self.embedding(each)", look).replace("for each in ids]", "for at, each in enumerate(ids)]")
    if inferred:
        net = net.replace("return self.top(", "scores = self.top(")
        net += f"        return scores if self.training else scores{inferred}\n"
    (path / "net.py").write_text(net)
    return batches


def plain_auc(path: Path, batches: list[list[Any]], weights: dict[str, Any]) -> float:
    """What PaddleRec's own tool for evaluating finds with these weights."""
    import paddle

    with models._imported(path / "dygraph_model.py") as (module, config):
        user = module.DygraphModel()
        model = user.create_model(config)
        model.set_state_dict({name: paddle.to_tensor(each) for name, each in weights.items()})
        model.eval()
        metrics, _ = user.create_metrics()
        for batch in batches:
            metrics, _ = user.infer_forward(model, metrics, [paddle.to_tensor(each) for each in batch], config)
        return float(metrics[0].accumulate())


def inferred_auc(work: Work, path: str) -> float:
    done = work.here("infer", "-o", f"runner.infer_load_path={path}")
    assert done.status == 0, done.said
    (row,) = work.epochs("infer")
    return float(row["evaluated"]["auc"])


def saved_by_paddle(path: Path, weights: dict[str, Any]) -> None:
    """As PaddleRec's trainer saves them."""
    import paddle

    path.mkdir(parents=True)
    paddle.save({name: paddle.to_tensor(each) for name, each in weights.items()}, str(path / "rec.pdparams"))


@pytest.mark.parametrize("kind", TIES)
def test_what_trains_can_be_evaluated(kind: str, tmp_path: Path) -> None:
    import paddle

    batches = story(tmp_path, **TIES[kind])
    weights: dict[str, Any] = {}
    losses, _ = models.plain_losses(tmp_path / "dygraph_model.py", batches, epochs=1, state=weights)
    saved_by_paddle(tmp_path / "theirs" / "0", weights)
    work = Work(tmp_path)
    done = work.here("train")
    assert done.status == 0, done.said
    ours = {name: each.numpy() for name, each in paddle.load(str(tmp_path / "saved" / "0" / "rec.pdparams")).items()}
    assert {name: np.abs(ours[name] - each).max() < 1e-3 for name, each in weights.items()} == dict.fromkeys(ours, True)
    assert np.isfinite(losses).all()
    expected = plain_auc(tmp_path, batches, ours)
    assert inferred_auc(work, "saved") == pytest.approx(expected, abs=1e-9)
    assert inferred_auc(work, "theirs") == pytest.approx(plain_auc(tmp_path, batches, weights), abs=1e-9)
    # Without PaddleRec's files, what is in tables says it alone.
    done = work.here("train", "-o", "runner.save_pdparams=false", "-o", "runner.model_save_path=alone")
    assert done.status == 0, done.said
    assert inferred_auc(work, "alone") == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", ["a weight is assigned", "the output shares it", "only inferring looks at it"])
def test_what_servers_have_saved_can_be_evaluated(kind: str, tmp_path: Path) -> None:
    import paddle

    batches = story(tmp_path, **TIES[kind])
    work = Work(tmp_path)
    said = ["runner.sync_mode=sync", "runner.server_num=1", "runner.worker_num=1"]
    done = work.run_forked("train", *[word for each in said for word in ("-o", each)])
    assert done.status == 0, done.said
    file = tmp_path / "saved" / "0" / "rec.pdparams"
    weights = {name: each.numpy() for name, each in paddle.load(str(file)).items()}
    file.unlink()
    assert inferred_auc(work, "saved") == pytest.approx(plain_auc(tmp_path, batches, weights), abs=1e-9)


def test_paddle_itself_refuses_two_parameters_of_one_name(tmp_path: Path) -> None:
    batches = story(tmp_path, attr=", weight_attr=paddle.ParamAttr(name='shared')")
    net = tmp_path / "net.py"
    net.write_text(net.read_text().replace("ParamAttr(initializer", "ParamAttr(name='shared', initializer"))
    with pytest.raises(ValueError, match="parameter name \\[shared\\] have be been used"):
        models.plain_losses(tmp_path / "dygraph_model.py", batches, epochs=1)
    done = Work(tmp_path).here("train")
    assert done.status == 1
    assert "parameter name [shared] have be been used" in done.said
