"""One runner, from what its section says to a value: defaults that depend on one another, and combinations that can't be. A decider.

What PaddleRec let pass in silence is told: a key without effect is a warning, one that contradicts another is a problem.
"""

from __future__ import annotations

from umiak.core.cluster import StrategyName
from umiak.core.value import replace
from umiak.schema.findings import Findings, Place, choices
from umiak.schema.settings import filled, taken
from umiak.schema.yaml_tree import Listing
from umiak.train.config.days import DAY_MINUTES
from umiak.train.config.keys import ONLINE
from umiak.train.config.streams import settings as streams
from umiak.train.config.values import (
    Device,
    Evaluation,
    FleetMode,
    Inference,
    NodeData,
    Online,
    Runner,
    RunnerClass,
    Saving,
    Wire,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from umiak.schema.sections import Said

_TRAINED = (RunnerClass.TRAIN, RunnerClass.LOCAL_CLUSTER_TRAIN, RunnerClass.CLUSTER_TRAIN)


def runner(
    said: Said, name: str, phases: tuple[str, ...], findings: Findings, streaming: Collection[str] = ()
) -> Runner:
    """The runner that a section describes; ``phases`` are those that there are, and ``streaming`` those of them whose data is a stream."""
    made = _Making(said, name, phases, findings, streaming).runner()
    if made.keep_checkpoints is None and streaming and {*made.phases} & {*streaming}:
        return replace(made, keep_checkpoints=streams.KEPT)
    return made


def dangling(said: Said, key: str, known: tuple[str, ...], what: str, findings: Findings) -> tuple[str, ...]:
    """The names behind a key; those that lead nowhere are problems."""
    names = said.names(key) if isinstance(said.get(key), tuple) else tuple(filter(None, [said.text(key)]))
    for number, name in enumerate(names):
        if name not in known:
            findings.problem(
                "UM-CONFIG-015",
                place_of(said, key, number),
                f"{said.label}: there is no {what} named {name}",
                hint=choices(name, known),
            )
    return names


def place_of(said: Said, key: str, number: int) -> Place:
    """Where one item behind a key stands."""
    node = said.node(key)
    return node.items[number].place if isinstance(node, Listing) else said.place(key)


class _Making:
    def __init__(
        self, said: Said, name: str, phases: tuple[str, ...], findings: Findings, live: Collection[str]
    ) -> None:
        self.said, self.name = said, name
        self.evaluated = dangling(said, "evaluate_phase", phases, "phase", findings)
        rest = tuple([each for each in phases if each not in self.evaluated])
        self.phases = dangling(said, "phases", phases, "phase", findings) or rest
        # Where it is unknown what is to be done, nothing can be said about what goes together.
        self.findings = Findings() if said.wrong & {"class", "device", "fleet_mode"} else findings
        self.kind = RunnerClass(said.get("class"))
        self.is_streaming = any(each in live for each in self.phases)
        streams.check_runner(self.kind.value, self.phases, self.evaluated, live, said, self.findings)
        self.device = Device(said.get("device"))
        self.ids: tuple[int, ...] = tuple(said.get("selected_gpus") or ())
        if self.device is Device.CPU and self.ids:
            self._no_effect("selected_gpus", "the device is cpu")
            self.ids = ()
        self.is_local_group = self.kind is RunnerClass.LOCAL_CLUSTER_TRAIN or (
            self.kind is RunnerClass.TRAIN and len(self.ids) > 1
        )
        self.is_alone = self.kind is RunnerClass.INFER or (self.kind is RunnerClass.TRAIN and not self.is_local_group)
        self.fleet_mode = self._fleet_mode()

    def runner(self) -> Runner:
        said = self.said
        return Runner(
            name=self.name,
            kind=self.kind,
            device=self.device,
            device_ids=self.ids,
            fleet_mode=self.fleet_mode,
            strategy=self._strategy(),
            geo_steps=said.number("geo_step"),
            workers=self._workers(),
            servers=self._servers(),
            wire=Wire(said.get("wire")) if self._said_with_servers("wire") else Wire.FLOAT32,
            prefetch_rows=said.number("prefetch_rows") if self._said_with_servers("prefetch_rows") else 1,
            alone_allowed=self._alone_allowed(),
            node_data=self._node_data(),
            epochs=self._epochs(),
            shuffle=self._shuffle(),
            phases=self.phases,
            init_model_path=self._init_model_path(),
            infer_epochs=self._infer_epochs(),
            checkpoint=self._checkpoint(),
            step_checkpoint=self._step_checkpoint(),
            save_minutes=self._save_minutes(),
            evaluation=self._evaluation(),
            amp=self._amp(),
            inference=self._inference(),
            result_dump_path=said.text("runner_result_dump_path"),
            online=self._online(),
            **taken(Runner, said, self.findings),
        )

    # ---- who

    def _fleet_mode(self) -> FleetMode:
        said = self.said
        if not said.said("fleet_mode"):
            on_accelerators = self.is_local_group and self.device is not Device.CPU
            return FleetMode.COLLECTIVE if on_accelerators else FleetMode.PS
        if self.is_alone:
            self._no_effect("fleet_mode", self._alone())
            return FleetMode.PS
        found = FleetMode(said.get("fleet_mode"))
        if self.kind is RunnerClass.ONLINE_LEARNING and found is FleetMode.COLLECTIVE and not self.is_streaming:
            self._impossible("fleet_mode", "online learning by days needs parameter servers", "write `fleet_mode: ps`")
        return found

    def _strategy(self) -> StrategyName:
        if self.said.said("distribute_strategy") and self.is_alone:
            self._no_effect("distribute_strategy", self._alone())
        elif self.said.said("distribute_strategy") and self.fleet_mode is FleetMode.COLLECTIVE:
            self._no_effect("distribute_strategy", "collective trainers have no parameter servers")
        else:
            return StrategyName(self.said.get("distribute_strategy"))
        return StrategyName.ASYNC

    def _workers(self) -> int:
        said, count = self.said, len(self.ids)
        if self.kind is RunnerClass.INFER and count > 1:
            self._impossible("selected_gpus", f"infer runs in one process, not on {count} devices", "name one device")
        if self.kind is RunnerClass.TRAIN and count > 1:
            self.findings.warning(
                "UM-CONFIG-019",
                said.place("selected_gpus"),
                f"{said.label}: {count} devices, so it trains in {count} processes, as local_cluster_train does",
            )
        if self.is_alone and said.said("worker_num"):
            self._no_effect("worker_num", self._alone())
        elif said.said("worker_num"):
            workers = said.number("worker_num")
            if count and workers != count:
                what = f"{workers} workers, but selected_gpus names {count}: each device has one worker"
                self._impossible("worker_num", what, f"write `worker_num: {count}`, or leave it out")
            return workers
        return max(1, count)

    def _servers(self) -> int:
        return self.said.number("server_num") if self._said_with_servers("server_num") else 1

    def _said_with_servers(self, key: str) -> bool:
        """Whether a key is said that has an effect with parameter servers only, and there are some."""
        if not self.said.said(key):
            return False
        if self.is_alone:
            self._no_effect(key, self._alone())
        elif self.fleet_mode is FleetMode.COLLECTIVE:
            self._no_effect(key, "collective trainers have no parameter servers")
        else:
            return True
        return False

    def _alone_allowed(self) -> bool:
        if self.said.truth("alone_allowed") and self.kind is not RunnerClass.CLUSTER_TRAIN:
            self._no_effect("alone_allowed", "it is for class cluster_train")
            return False
        return self.said.truth("alone_allowed")

    def _node_data(self) -> NodeData | None:
        if not self.said.said("node_data"):
            return None
        found = NodeData(self.said.get("node_data"))
        if self.kind is RunnerClass.ONLINE_LEARNING and found is NodeData.OWN:
            what = "online learning needs data that every node sees, because one trainer waits for it"
            self._impossible("node_data", what, "write `node_data: shared`, or leave it out")
        elif self.kind is not RunnerClass.CLUSTER_TRAIN:
            self._no_effect("node_data", "it is for class cluster_train")
            return None
        return found

    def _alone(self) -> str:
        return f"class {self.kind.value} runs in one process"

    # ---- how long, and from where

    def _shuffle(self) -> int:
        if self.kind is RunnerClass.INFER and self.said.number("shuffle"):
            self._no_effect("shuffle", "class infer evaluates every sample once, in the order of the files")
            return 0
        return self.said.number("shuffle")

    def _epochs(self) -> int:
        said = self.said
        if said.said("epochs"):
            if self.kind not in _TRAINED and said.number("epochs") > 1:
                self._no_effect("epochs", f"class {self.kind.value} reads its data once")
                return 1
            return said.number("epochs")
        if self.kind in _TRAINED and "epochs" not in said.wrong:
            self.findings.problem(
                "UM-CONFIG-011",
                said.key_place("class"),
                f"{said.label}: epochs is missing",
                hint="write `epochs: 1`, or more",
            )
        return 1

    def _init_model_path(self) -> str | None:
        path, spoken = self.said.text("init_model_path"), self.said.spoken("init_model_path")
        if path is None and self.kind is RunnerClass.INFER and "init_model_path" not in self.said.wrong:
            self.findings.problem(
                "UM-CONFIG-024",
                self.said.key_place("class"),
                f"{self.said.label}: infer requires a trained model, and {spoken} is missing",
                hint=f"write `{spoken}:` with the path of saved checkpoints",
            )
        return path

    def _infer_epochs(self) -> tuple[int, int] | None:
        said = self.said
        names = [name for name in ("infer_start_epoch", "infer_end_epoch") if said.said(name)]
        if not names:
            return None
        if self.kind is not RunnerClass.INFER:
            for name in names:
                self._no_effect(name, "it is for class infer")
            return None
        if not said.said("infer_end_epoch"):
            if "infer_end_epoch" not in said.wrong:
                place = said.key_place("infer_start_epoch")
                self.findings.problem("UM-CONFIG-011", place, f"{said.label}: infer_end_epoch is missing")
            return None
        start, end = said.get("infer_start_epoch") or 0, said.number("infer_end_epoch")
        if end <= start:
            self._bad("infer_end_epoch", f"empty range of checkpoints: from {start} up to, but not including, {end}")
        return start, end

    # ---- what is kept

    def _checkpoint(self) -> Saving | None:
        path, every = self._saving("checkpoint", "epochs")
        return Saving(path=path, every=max(1, every)) if path else None

    def _step_checkpoint(self) -> Saving | None:
        path, every = self._saving("step", "batches")
        if path and every < 1:
            self._no_effect("save_step_path", "save_step_interval does not say after how many batches")
            return None
        return Saving(path=path, every=every) if path else None

    def _save_minutes(self) -> int | None:
        minutes = self.said.number("save_minutes_interval")
        if minutes < 1:
            return None
        if self.kind is RunnerClass.INFER:
            self._no_effect("save_minutes_interval", "class infer saves nothing")
            return None
        if not (self.said.said("save_checkpoint_path") or self.said.said("save_step_path")):
            self._no_effect("save_minutes_interval", "neither save_checkpoint_path nor save_step_path says where")
            return None
        return minutes

    def _evaluation(self) -> Evaluation | None:
        said = self.said
        others = [key for key in ("early_stop_patience", "early_stop_metric") if said.said(key)]
        if not self.evaluated or (self.kind not in _TRAINED and not self.is_streaming):
            for key in [*others, *(["evaluate_phase"] if self.evaluated else [])]:
                because = (
                    "evaluate_phase is missing" if not self.evaluated else f"class {self.kind.value} does not evaluate"
                )
                self._no_effect(key, because)
            return None
        return Evaluation(
            phase=self.evaluated[0], patience=said.get("early_stop_patience"), metric=said.text("early_stop_metric")
        )

    def _amp(self) -> bool:
        if self.said.truth("amp") and self.device is Device.CPU:
            self._no_effect("amp", "the device is cpu")
            return False
        return self.said.truth("amp")

    def _inference(self) -> Inference | None:
        said = self.said
        path, every = self._saving("inference", "epochs")
        names = ("save_inference_feed_varnames", "save_inference_fetch_varnames")
        if path is None:
            for name in names:
                if said.said(name):
                    self._no_effect(name, "save_inference_path is missing, so no inference model is saved")
            return None
        feeds, fetches = (said.names(name) for name in names)
        return Inference(path=path, every=max(1, every), feeds=feeds, fetches=fetches)

    def _saving(self, what: str, unit: str) -> tuple[str | None, int]:
        said = self.said
        path, interval = f"save_{what}_path", f"save_{what}_interval"
        if self.kind is RunnerClass.INFER:
            for name in (path, interval):
                if said.said(name):
                    self._no_effect(name, "class infer saves nothing")
            return None, -1
        if said.said(interval) and not said.said(path) and said.number(interval) > 0 and path not in said.wrong:
            self._no_effect(interval, f"{path} is missing, so nothing is saved every so many {unit}")
        return said.text(path), said.number(interval)

    # ---- day by day

    def _online(self) -> Online | None:
        said = self.said
        if self.kind is not RunnerClass.ONLINE_LEARNING:
            for name in ONLINE:
                if said.said(name):
                    self._no_effect(name, "it is for class online_learning")
            return None
        for name in () if self.is_streaming else ("start_day", "end_day"):
            if not said.said(name) and name not in said.wrong:
                self.findings.problem(
                    "UM-CONFIG-011",
                    said.key_place("class"),
                    f"{said.label}: {name} is missing",
                    hint=f"write `{name}: 20260131`",
                )
        start, end = said.text("start_day") or "", said.text("end_day") or ""
        if start and end and end < start:
            self._bad("end_day", f"it is before the first day, {start}")
        interval = said.number("split_interval")
        if DAY_MINUTES % interval:
            self._bad("split_interval", f"a day's {DAY_MINUTES} minutes can't be divided by {interval}")
        return filled(Online, said, self.findings)

    # ---- complaints

    def _no_effect(self, key: str, why: str) -> None:
        said = self.said
        self.findings.warning(
            "UM-CONFIG-018", said.key_place(key), f"{said.label}: no effect: {said.spoken(key)}", why=why
        )

    def _impossible(self, key: str, what: str, hint: str) -> None:
        self.findings.problem("UM-CONFIG-023", self.said.place(key), f"{self.said.label}: {what}", hint=hint)

    def _bad(self, key: str, what: str) -> None:
        said = self.said
        self.findings.problem("UM-CONFIG-014", said.place(key), f"{said.label}: {said.spoken(key)}: {what}")
