"""What a prediction is made with: which runner's device and checkpoint, which model and slots. A decider.

    choose(config, PredictRequest(data="days/20260131")) -> Choice(config=..., phase="test", models="output_model")

A config was written for training. Its runner of class ``infer``, if there is one, says which model and which dataset's slots are meant; else those that are evaluated after
an epoch, else those that are trained. Data is where the request says.
"""

from __future__ import annotations

from umiak.core.problem import UmiakError
from umiak.core.value import replace, value
from umiak.schema.findings import choices
from umiak.train.config.values import Runner, RunnerClass, TrainConfig


@value
class PredictRequest:
    """What was asked for."""

    data: str
    """Empty: what the config says."""
    checkpoint: str = ""
    phase: str = ""


@value
class Choice:
    """A config with one runner that evaluates one phase; and where its models are."""

    config: TrainConfig
    phase: str
    models: str


def choose(config: TrainConfig, asked: PredictRequest) -> Choice:
    """UmiakError if the config does not say it."""
    runner = _runner(config)
    phase = config.phase(_phase(config, runner, asked.phase))
    models = asked.checkpoint or _models(config, runner)
    if not models:
        raise UmiakError.of(
            "UM-PREDICT-001",
            "nothing says which model to predict with",
            why=f"runner {runner.name} has neither init_model_path nor save_checkpoint_path",
            hint="`--checkpoint PATH`, with a checkpoint or a directory of checkpoints",
        )
    dataset = config.dataset(phase.dataset_name)
    if dataset.stream is not None and not asked.data:
        what = f"phase {phase.name} reads a stream, and predictions are made for files"
        raise UmiakError.of("UM-PREDICT-002", what, hint="name files with --data, or another phase with --phase")
    dataset = replace(dataset, stream=None)
    # Each row of the data has a row of the output: nothing is passed over, and nothing is left out at the end.
    data = replace(dataset, data_path=asked.data or dataset.data_path, bad_lines=0, bad_rows=0.0, drop_last=False)
    data = replace(data, rows_before=None, rows_after=None, rows_share=None)
    alone = Runner(
        name=runner.name,
        kind=RunnerClass.INFER,
        device=runner.device,
        device_ids=runner.device_ids[:1],
        phases=(phase.name,),
        init_model_path=models,
    )
    made = replace(config, mode=(alone.name,), runners=(alone,), phases=(phase,), datasets=(data,))
    return Choice(config=made, phase=phase.name, models=models)


def _runner(config: TrainConfig) -> Runner:
    """The first that evaluates, else the first that is run."""
    evaluating = [each for each in config.runners if each.kind is RunnerClass.INFER]
    return evaluating[0] if evaluating else config.runner(config.mode[0]) if config.mode else config.runners[0]


def _phase(config: TrainConfig, runner: Runner, asked: str) -> str:
    if asked:
        known = [each.name for each in config.phases]
        if asked not in known:
            raise UmiakError.of("UM-PREDICT-002", f"there is no phase {asked}", hint=choices(asked, known))
        return asked
    if runner.kind is not RunnerClass.INFER and runner.evaluation is not None:
        return runner.evaluation.phase
    return runner.phases[0]


def _models(config: TrainConfig, runner: Runner) -> str:
    if runner.kind is RunnerClass.INFER and runner.init_model_path:
        return runner.init_model_path
    kept = [runner, *(config.runner(name) for name in config.mode)]
    found = next((each.checkpoint.path for each in kept if each.checkpoint), None)
    return found or runner.init_model_path or ""
