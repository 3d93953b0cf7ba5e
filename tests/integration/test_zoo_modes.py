"""Every model of the zoo with parameter servers, in each strategy, and collectively: it reaches what was planted in its sample data.

Each strategy trains one model here, and different ones: ranking, lists of ids, recall, matching, several tasks. `make matrix` trains all in all;
alone, `test_zoo` trains every model.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from testbed.pytest_support import require
from tests.integration.test_zoo import TRIALS
from tests.support import effort, forked_workers
from tests.support.launching import Stage
from tests.support.paths import WORKERS

WORKER = WORKERS / "zoo_modes.py"
ENV = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}
WITHIN_S = 400
SAMPLES = 40_000
BATCH, FASTER = 256, 1.4
"""Of each of two trainers; half the steps of the config's batches cost half the time, and are larger ones."""
MORE_EPOCHS = {"half_async": 2, "geo": 1}
"""Strategies that see others' work, or their own, later need more passes over so little data: in half_async the AUC of dlrm spreads by 0.03 after one more, on a busy machine."""

STRATEGIES = {
    "sync": "match.dssm",
    "async": "multitask.mmoe",
    "half_async": "rank.dnn",
    "geo": "rank.din",
    "hybrid": "recall.word2vec",
    "collective": "recall.ncf",
}
"""The model that each trains in `make test`."""

pytestmark = [pytest.mark.paddle]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    return Samples(tmp_path_factory.mktemp("zoo"))


class Samples:
    """Sample data of models, made when they are asked for first."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._best: dict[str, dict[str, float]] = {}

    def best(self, model: str) -> dict[str, float]:
        """The best that can be reached with a model."""
        if model not in self._best:
            make = importlib.import_module(f"umiak.models.{model}.sample").make
            self._best[model] = make(str(self.directory / model))
        return self._best[model]


def overrides(model: str, data: Path, strategy: str) -> str:
    trial = TRIALS[model]
    epochs = trial.epochs + MORE_EPOCHS.get(strategy, 0)
    said = [
        "mode=single",
        f"runner.single.epochs={epochs}",
        f"hyper_parameters.optimizer.learning_rate={FASTER * trial.rate}",
        f"dataset.train_data.batch_size={BATCH}",
        *(f"dataset.{part}_data.data_path={data / model / part}" for part in ("train", "test")),
        *(f"hyper_parameters.{name}={json.dumps(value)}" for name, value in trial.hyper.items()),
    ]
    return f"{model}={json.dumps(said)}"


def chosen(strategy: str) -> list[str]:
    """The models that this strategy trains."""
    return list(TRIALS) if effort.MATRIX else [STRATEGIES[strategy]]


def test_strategies_train_models_of_every_kind() -> None:
    trained = {model for strategy in STRATEGIES for model in chosen(strategy)}
    assert {model.partition(".")[0] for model in trained} == {model.partition(".")[0] for model in TRIALS}
    assert len(trained) == (len(TRIALS) if effort.MATRIX else len(STRATEGIES))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_model_reaches_its_planted_auc(strategy: str, samples: Samples, stage: Stage, tmp_path: Path) -> None:
    flags = "--nproc_per_node 2" if strategy == "collective" else "--server_num 2 --trainer_num 2"
    models = chosen(strategy)
    best = {model: samples.best(model) for model in models}
    words = [overrides(model, samples.directory, strategy) for model in models]
    launcher = stage.launch(flags, WORKER, strategy, str(tmp_path), *words, env=ENV, command=forked_workers.LAUNCH)
    assert launcher.wait(within_s=WITHIN_S) == 0, stage.transcript()
    reached = json.loads((tmp_path / "reached.json").read_text())
    short = {
        f"{model} {judge}": (round(reached[model][judge], 4), auc)
        for model in models
        for judge, auc in best[model].items()
        if not reached[model][judge] >= auc - (2.0 if strategy in MORE_EPOCHS else 1.5) * TRIALS[model].margin
    }
    assert not short
    assert {model: each["samples"] for model, each in reached.items()} == dict.fromkeys(models, SAMPLES)
