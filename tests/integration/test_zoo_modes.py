"""Every model of the zoo with parameter servers, in each strategy, and collectively: it reaches what was planted in its sample data.

Each strategy trains a third of the models here, and each model is trained in two strategies; `make matrix` trains all in all.
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from testbed.pytest_support import require
from tests.integration.launching import Stage
from tests.integration.test_zoo import TRIALS

WORKER = Path(__file__).parent / "workers" / "zoo_modes.py"
ENV = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}
WITHIN_S = 400
SAMPLES = 40_000
ONE_MORE = ("half_async", "geo")
"""Strategies that see others' work, or their own, later need one more pass over so little data."""

STRATEGIES = ("sync", "async", "half_async", "geo", "hybrid", "collective")
EVERY = 1 if os.environ.get("UMIAK_MATRIX") == "all" else 3

pytestmark = [pytest.mark.paddle, pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, float]]]:
    """Sample data of every model, and the best that can be reached with each."""
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    directory = tmp_path_factory.mktemp("zoo")
    made = {
        model: importlib.import_module(f"umiak.models.{model}.sample").make(str(directory / model)) for model in TRIALS
    }
    return directory, made


def overrides(model: str, data: Path, strategy: str) -> str:
    trial = TRIALS[model]
    epochs = trial.epochs + (strategy in ONE_MORE)
    said = [
        "mode=single",
        f"runner.single.epochs={epochs}",
        f"hyper_parameters.optimizer.learning_rate={trial.rate}",
        "dataset.train_data.batch_size=128",
        *(f"dataset.{part}_data.data_path={data / model / part}" for part in ("train", "test")),
        *(f"hyper_parameters.{name}={json.dumps(value)}" for name, value in trial.hyper.items()),
    ]
    return f"{model}={json.dumps(said)}"


def chosen(strategy: str) -> list[str]:
    """The models that this strategy trains. Neighbours in the list are alike, so they go to different strategies."""
    return list(TRIALS)[STRATEGIES.index(strategy) % EVERY :: EVERY]


def test_every_model_is_trained_in_two_strategies_and_more() -> None:
    counts = {model: sum(model in chosen(strategy) for strategy in STRATEGIES) for model in TRIALS}
    assert set(counts.values()) == {len(STRATEGIES) // EVERY}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_model_reaches_its_planted_auc(strategy: str, samples: Any, stage: Stage, tmp_path: Path) -> None:
    data, best = samples
    flags = "--nproc_per_node 2" if strategy == "collective" else "--server_num 2 --trainer_num 2"
    models = chosen(strategy)
    words = [overrides(model, data, strategy) for model in models]
    launcher = stage.launch(flags, WORKER, strategy, str(tmp_path), *words, env=ENV)
    assert launcher.wait(within_s=WITHIN_S) == 0, stage.transcript()
    reached = json.loads((tmp_path / "reached.json").read_text())
    short = {
        f"{model} {judge}": (round(reached[model][judge], 4), auc)
        for model in models
        for judge, auc in best[model].items()
        if not reached[model][judge] >= auc - (2.0 if strategy in ONE_MORE else 1.5) * TRIALS[model].margin
    }
    assert not short
    assert {model: each["samples"] for model, each in reached.items()} == dict.fromkeys(models, SAMPLES)
