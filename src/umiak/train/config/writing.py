"""Values back to a config: plain data in the layout of PaddleRec 1.8.5, ready to be dumped as YAML. A decider.

    layouts.read(yaml.safe_dump(plain(config)), ...).config == config

So a config in the newer layout can be shown, or sent to a cluster, in the older one. Paths are as they were filled in.
"""

from __future__ import annotations

from umiak.schema.keys import known
from umiak.train.config import tables
from umiak.train.config.runners import AS_SAID
from umiak.train.config.values import (
    Dataset,
    Device,
    FleetMode,
    Online,
    Phase,
    RowRule,
    Runner,
    RunnerClass,
    TableParameters,
    TrainConfig,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def plain(config: TrainConfig) -> dict[str, Any]:
    """The config as dictionaries, lists, texts and numbers."""
    return {
        "workspace": config.workspace,
        "mode": [*config.mode],
        "debug": config.debug,
        "runner": [_runner(each) for each in config.runners],
        "phase": [_phase(each) for each in config.phases],
        "dataset": [_dataset(each) for each in config.datasets],
        "hyper_parameters": _listed(config.hyper_parameters),
        "table_parameters": {name: _table(each) for name, each in config.table_parameters.items()},
        "embedding_tables": config.embedding_tables.value,
    }


def _runner(runner: Runner) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": runner.name,
        "class": runner.kind.value,
        "device": runner.device.value,
        "phases": [*runner.phases],
        "epochs": runner.epochs,
        "init_model_path": runner.init_model_path,
        "runner_result_dump_path": runner.result_dump_path,
        "geo_step": runner.geo_steps,
        **{name: getattr(runner, name) for name in AS_SAID},
    }
    if runner.device is not Device.CPU and runner.device_ids:
        made["selected_gpus"] = ",".join(map(str, runner.device_ids))
    is_alone = runner.kind is RunnerClass.INFER or (runner.kind is RunnerClass.TRAIN and len(runner.device_ids) < 2)
    if not is_alone:
        made["fleet_mode"] = runner.fleet_mode.value
        made["worker_num"] = runner.workers
    if not is_alone and runner.fleet_mode is FleetMode.PS:
        made.update(distribute_strategy=runner.strategy.value, server_num=runner.servers)
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
    return {**made, **(_online(runner.online) if runner.online else {})}


def _online(online: Online) -> dict[str, Any]:
    return {
        "start_day": online.start_day,
        "end_day": online.end_day,
        "split_interval": online.split_interval,
        "split_per_pass": online.split_per_pass,
        "data_donefile": online.data_donefile,
        "data_sleep_second": online.data_sleep_s,
        "checkpoint_per_pass": online.checkpoint_per_pass,
        "save_delta_frequency": online.save_delta_frequency,
        "save_first_base": online.save_first_base,
        "prefetch": online.prefetch,
    }


def _watched(runner: Runner) -> dict[str, Any]:
    """How a run is looked after."""
    made: dict[str, Any] = {"amp": runner.amp}
    if runner.shuffle:
        made["shuffle"] = runner.shuffle
    if runner.save_minutes:
        made["save_minutes_interval"] = runner.save_minutes
    if runner.evaluation:
        made["evaluate_phase"] = runner.evaluation.phase
        made["early_stop_patience"] = runner.evaluation.patience
        made["early_stop_metric"] = runner.evaluation.metric
    return made


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "model": phase.model,
        "dataset_name": phase.dataset_name,
        "thread_num": phase.thread_num,
        "shuffle_filelist": phase.shuffle_filelist,
        "gradient_scale_strategy": phase.gradient_scale,
    }


def _dataset(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "type": dataset.type.value,
        "batch_size": dataset.batch_size,
        "data_path": dataset.data_path,
        "sparse_slots": " ".join(dataset.sparse_slots),
        "dense_slots": " ".join(slot.spoken for slot in dataset.dense_slots),
        "padding": dataset.padding,
        "data_converter": dataset.data_converter,
        "reader_class_name": dataset.reader_class,
        "num_workers": dataset.reader_processes,
        "extra_slots_allowed": dataset.extra_slots_allowed,
        "bad_lines": dataset.bad_lines,
        "drop_last": dataset.drop_last,
        "divide_by": dataset.divide_by.value,
        "ready_batches": dataset.ready_batches,
    }


def _table(table: TableParameters) -> dict[str, Any]:
    accessor: dict[str, Any] = {
        "embedx_dim": table.embedx_dim,
        "embedx_threshold": table.embedx_threshold,
        "embed_sgd_param": _rule(table.embed, table.bound),
        "embedx_sgd_param": _rule(table.embedx, table.bound),
        "ctr_accessor_param": {key.name: getattr(table, key.name) for key in tables.COUNTS if known(key)},
    }
    return {"accessor": accessor}


def _rule(rule: RowRule, bound: float) -> dict[str, Any]:
    name, block = next((name, block) for name, (block, own) in tables.SGD_RULES.items() if own == rule.rule)
    said = {key: rule.settings[own] for key, own in tables.SETTINGS[block].items() if own in rule.settings}
    return {"name": name, block: {**said, "initial_range": rule.initial_range, "weight_bounds": [-bound, bound]}}


def _listed(data: Any) -> Any:
    """Tuples as lists, however deep."""
    if isinstance(data, dict):
        return {key: _listed(each) for key, each in data.items()}
    return [_listed(each) for each in data] if isinstance(data, (list, tuple)) else data
