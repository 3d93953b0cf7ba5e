"""rank/dnn in the form of PaddleRec 1.8.5 beside umiak's own, with two servers and two trainers: the CPU time of an epoch. A part of `benchmarks.fluid`.

Both learn from the same lines in sync, with Adam that moves the rows of a batch; umiak's model computes AUC outside of the network, the program of fluid inside. Counted are
both trainers in each epoch but the first, as `metrics.jsonl` has it; neither starting nor the servers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import clicks, measure

SAMPLES, BATCH, FILES = 40_000, 256, 4
GOAL = 0.85
OURS, PROGRAM = "umiak.models.rank.dnn", "a program of fluid"
MODEL = """\
import math

import paddle.fluid as fluid
from paddlerec.core.model import ModelBase
from paddlerec.core.utils import envs


class Model(ModelBase):
    def _init_hyper_parameters(self):
        self.rows = envs.get_global_env("hyper_parameters.sparse_feature_number")
        self.dim = envs.get_global_env("hyper_parameters.sparse_feature_dim")
        self.sizes = envs.get_global_env("hyper_parameters.fc_sizes")
        self.rate = envs.get_global_env("hyper_parameters.optimizer.learning_rate")

    def net(self, input, is_infer=False):
        label, slots = self._sparse_data_var[0], self._sparse_data_var[1:]

        def pooled(ids):
            rows = fluid.layers.embedding(
                ids, [self.rows, self.dim], is_sparse=True,
                param_attr=fluid.ParamAttr(name="rows", initializer=fluid.initializer.Uniform(-0.05, 0.05)))
            return fluid.layers.sequence_pool(rows, "sum")

        hidden = fluid.layers.concat([pooled(each) for each in slots] + self._dense_data_var, axis=1)
        for size in self.sizes:
            scale = 1.0 / math.sqrt(hidden.shape[1])
            hidden = fluid.layers.fc(
                hidden, size, act="relu",
                param_attr=fluid.ParamAttr(initializer=fluid.initializer.Normal(scale=scale)))
        predict = fluid.layers.fc(hidden, 2, act="softmax")
        auc, batch_auc, _ = fluid.layers.auc(input=predict, label=label, num_thresholds=2 ** 12, slide_steps=20)
        if is_infer:
            self._infer_results["AUC"] = auc
            return
        self._metrics["AUC"] = auc
        self._metrics["BATCH_AUC"] = batch_auc
        self._cost = fluid.layers.reduce_mean(fluid.layers.cross_entropy(predict, label))

    def optimizer(self):
        return fluid.optimizer.Adam(self.rate, lazy_mode=True)

    def infer_net(self):
        pass
"""
CONFIG = """\
workspace: "{place}"
mode: [train]
runner:
- name: train
  class: local_cluster_train
  fleet_mode: ps
  distribute_strategy: sync
  server_num: 2
  worker_num: 2
  epochs: {epochs}
  device: cpu
  print_interval: 1000
  phases: [phase]
phase:
- name: phase
  model: "{model}"
  dataset_name: lines
dataset:
- name: lines
  type: DataLoader
  batch_size: {batch}
  data_path: "{place}/lines"
  sparse_slots: "click {slots}"
  dense_slots: "dense_feature:{dense}"
hyper_parameters:
  optimizer:
    class: Adam
    learning_rate: 0.001
  {rows}sparse_feature_dim: 9
  fc_sizes: [512, 256, 128, 32]
"""


def prepared(place: Path, epochs: int) -> dict[str, Path]:
    """The lines, the model and a config for each."""
    import umiak.models.rank.dnn

    lines = place / "lines"
    lines.mkdir()
    for number in range(FILES):
        clicks.write(lines / f"part-{number}", SAMPLES // FILES, number)
    program = place / "program.py"
    program.write_text(MODEL, encoding="utf-8")
    own = Path(umiak.models.rank.dnn.__file__).with_name("model.py")
    models = {OURS: (own, ""), PROGRAM: (program, f"sparse_feature_number: {clicks.IDS}\n  ")}
    found = {}
    for name, (model, rows) in models.items():
        slots = " ".join(map(str, range(1, clicks.SLOTS + 1)))
        settings = {"batch": BATCH, "slots": slots, "dense": clicks.DENSE, "epochs": epochs, "rows": rows}
        found[name] = place / f"{model.parent.name}-{model.stem}.yaml"
        found[name].write_text(CONFIG.format(place=place, model=model, **settings), encoding="utf-8")
    return found


def trained(config: Path, run: Path) -> list[float]:
    """CPU seconds of both trainers in each epoch but the first."""
    command = [sys.executable, "-m", "umiak", "train", "-m", str(config), "-q", "--run_dir", str(run)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=run.parent, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{config.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    (file,) = run.rglob("metrics.jsonl")
    events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [each["cpu_s"] for each in events if each["event"] == "epoch"][1:]


def served(rounds: int, epochs: int = 3) -> list[measure.Figure]:
    """Seconds of an epoch of each, and what part of ours the program reaches."""
    how = f"{SAMPLES} samples in batches of {BATCH}, 2 servers, 2 trainers, sync; epochs 2 to {epochs} of {rounds} runs of each in turn; CPU time of both trainers"
    times = measure.Figure("fluid_served", "an epoch of rank/dnn, 2 + 2", how)
    reaches = measure.Figure(
        "fluid_served_ratio", "rank/dnn, 2 + 2: ours over the program of fluid", how, unit="x", goal=GOAL, more_is_better=True
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="umiak-served-") as place, measure.other_work(times):
        configs = prepared(Path(place), epochs)
        for number in range(rounds):
            took = {}
            for name, config in configs.items():
                took[name] = trained(config, Path(place) / f"run-{config.stem}-{number}")
                for seconds in took[name]:
                    times.add(name, seconds)
            for ours, program in zip(took[OURS], took[PROGRAM], strict=True):
                reaches.add("reaches of ours", ours / program)
    return [times, reaches]
