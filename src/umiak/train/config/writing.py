"""Values back to a config: plain data in the layout of PaddleRec 1.8.5, ready to be dumped as YAML. A decider.

    layouts.read(yaml.safe_dump(plain(config)), ...).config == config

So a config in the newer layout can be shown, or sent to a cluster, in the older one. Paths are as they were filled in.
"""

from __future__ import annotations

from umiak.schema import settings
from umiak.schema.keys import known
from umiak.train.config import tables
from umiak.train.config.evaluating import settings as evaluation
from umiak.train.config.objectives import retrieval
from umiak.train.config.objectives import settings as objective
from umiak.train.config.paddlerec.dotted import listed
from umiak.train.config.streams import settings as streams
from umiak.train.config.tabular import datasets
from umiak.train.config.values import (
    Dataset,
    Device,
    FleetMode,
    RowRule,
    Runner,
    RunnerClass,
    TableParameters,
    TrainConfig,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.train.config.evaluating.settings import EvaluationSettings


def plain(config: TrainConfig) -> JsonObject:
    """The config as dictionaries, lists, texts and numbers."""
    return {
        "workspace": config.workspace,
        "mode": [*config.mode],
        "debug": config.debug,
        "runner": [_runner(each) for each in config.runners],
        "phase": [settings.plain(each) for each in config.phases],
        "dataset": [_dataset(each) for each in config.datasets],
        "hyper_parameters": listed(config.hyper_parameters),
        "table_parameters": {name: _table(each) for name, each in config.table_parameters.items()},
        "embedding_tables": config.embedding_tables.value,
        "evaluation": _evaluation(config.evaluation) if config.evaluation else {},
        "objective": objective.plain(config.objective) if config.objective else {},
        "retrieval": retrieval.plain(config.retrieval) if config.retrieval else {},
        "features": listed(config.features) or None,
    }


def _runner(runner: Runner) -> JsonObject:
    made: JsonObject = {
        "name": runner.name,
        "class": runner.kind.value,
        "device": runner.device.value,
        "phases": [*runner.phases],
        "epochs": runner.epochs,
        "init_model_path": runner.init_model_path,
        "runner_result_dump_path": runner.result_dump_path,
        "geo_step": runner.geo_steps,
        **settings.plain(runner),
    }
    if runner.device is not Device.CPU and runner.device_ids:
        made["selected_gpus"] = ",".join(map(str, runner.device_ids))
    is_alone = runner.kind is RunnerClass.INFER or (runner.kind is RunnerClass.TRAIN and len(runner.device_ids) < 2)
    if not is_alone:
        made["fleet_mode"] = runner.fleet_mode.value
        made["worker_num"] = runner.workers
    if not is_alone and runner.fleet_mode is FleetMode.PS:
        made.update(distribute_strategy=runner.strategy.value, server_num=runner.servers, wire=runner.wire.value)
        made.update(prefetch_rows=runner.prefetch_rows)
    if runner.node_data:
        made["node_data"] = runner.node_data.value
    if runner.alone_allowed:
        made["alone_allowed"] = True
    made.update(_watched(runner))
    if runner.infer_epochs:
        made["infer_start_epoch"], made["infer_end_epoch"] = runner.infer_epochs
    for name, saving in (("checkpoint", runner.checkpoint), ("step", runner.step_checkpoint)):
        if saving:
            made.update({f"save_{name}_path": saving.path, f"save_{name}_interval": saving.every})
    if runner.inference:
        made.update(
            save_inference_path=runner.inference.path,
            save_inference_interval=runner.inference.every,
            save_inference_feed_varnames=[*runner.inference.feeds],
            save_inference_fetch_varnames=[*runner.inference.fetches],
        )
    if runner.online is None:
        return made
    online = settings.plain(runner.online)
    if not runner.online.start_day:  # its data is a stream
        online = {"checkpoint_per_pass": runner.online.checkpoint_per_pass}
    return {**made, **online}


def _watched(runner: Runner) -> JsonObject:
    """How a run is looked after."""
    made: JsonObject = {"amp": runner.amp}
    if runner.shuffle:
        made["shuffle"] = runner.shuffle
    if runner.save_minutes:
        made["save_minutes_interval"] = runner.save_minutes
    if runner.evaluation:
        made["evaluate_phase"] = runner.evaluation.phase
        made["early_stop_patience"] = runner.evaluation.patience
        made["early_stop_metric"] = runner.evaluation.metric
    return made


def _dataset(dataset: Dataset) -> JsonObject:
    if dataset.features is not None:
        lines = {"sparse_slots", "dense_slots", "data_converter", "reader_class_name", *datasets.LINES}
        kept = {key: each for key, each in settings.plain(dataset).items() if key not in lines}
        return {**kept, **_stream(dataset)}
    slots = {
        "sparse_slots": " ".join(dataset.sparse_slots),
        "dense_slots": " ".join(slot.spoken for slot in dataset.dense_slots),
    }
    return {**settings.plain(dataset), **slots, **_stream(dataset)}


def _stream(dataset: Dataset) -> JsonObject:
    return {streams.KEY: None if dataset.stream is None else streams.plain(dataset.stream)}


def _evaluation(asked: EvaluationSettings) -> JsonObject:
    metrics = [
        {key: each for key, each in settings.plain(metric).items() if each and evaluation.takes(metric.name, key)}
        for metric in asked.metrics
    ]
    return {**settings.plain(asked), "slices": [*asked.slices], "metrics": metrics}


def _table(table: TableParameters) -> JsonObject:
    accessor: JsonObject = {
        "embedx_dim": table.embedx_dim,
        "embedx_threshold": table.embedx_threshold,
        "embed_sgd_param": _rule(table.embed, table.bound),
        "embedx_sgd_param": _rule(table.embedx, table.bound),
        "ctr_accessor_param": {key.name: getattr(table, key.name) for key in tables.COUNTS if known(key)},
    }
    return {"accessor": accessor}


def _rule(rule: RowRule, bound: float) -> JsonObject:
    name, block = next((name, block) for name, (block, own) in tables.SGD_RULES.items() if own == rule.rule)
    said = {key: rule.settings[own] for key, own in tables.SETTINGS[block].items() if own in rule.settings}
    return {"name": name, block: {**said, "initial_range": rule.initial_range, "weight_bounds": [-bound, bound]}}
