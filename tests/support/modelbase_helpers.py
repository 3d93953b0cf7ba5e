"""Models, readers, data and configs in the form of PaddleRec 1.8.5, small: one that ranks by slots, one of two tasks over sequences.

modelbase_helpers.story(path)               a directory with data, models, a reader and a config
found = modelbase_helpers.plain(path, ...)  the parameters that a plain loop of paddle.fluid comes to
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SAMPLES = 96
BATCH = 16
EPOCHS = 2
WORDS = 30

RANK = """\
import math

import paddle.fluid as fluid

from paddlerec.core.model import ModelBase
from paddlerec.core.utils import envs


class Model(ModelBase):
    def __init__(self, config):
        ModelBase.__init__(self, config)

    def _init_hyper_parameters(self):
        self.rows = envs.get_global_env("hyper_parameters.rows")
        self.dim = envs.get_global_env("hyper_parameters.dim")
        self.rate = envs.get_global_env("hyper_parameters.optimizer.learning_rate")
        self.sizes = envs.get_global_env("hyper_parameters.sizes") + [4]

    def net(self, input, is_infer=False):
        label, words = self._sparse_data_var[0], self._sparse_data_var[1:]

        def looked_up(ids):
            rows = fluid.layers.embedding(
                input=ids, is_sparse=True, size=[self.rows, self.dim],
                param_attr=fluid.ParamAttr(name="Words", initializer=fluid.initializer.Uniform()))
            return fluid.layers.sequence_pool(input=rows, pool_type="sum")

        hidden = fluid.layers.concat([looked_up(each) for each in words] + self._dense_data_var, axis=1)
        for size in self.sizes:
            scale = 1.0 / math.sqrt(hidden.shape[1])
            hidden = fluid.layers.fc(
                input=hidden, size=size, act="relu",
                param_attr=fluid.ParamAttr(initializer=fluid.initializer.Normal(scale=scale)))
        predict = fluid.layers.fc(input=hidden, size=2, act="softmax")
        auc, batch_auc, _ = fluid.layers.auc(input=predict, label=label, num_thresholds=2 ** 8, slide_steps=20)
        self.predict = predict
        if is_infer:
            self._infer_results["AUC"] = auc
            return
        self._metrics["AUC"] = auc
        self._metrics["BATCH_AUC"] = batch_auc
        self._cost = fluid.layers.reduce_mean(fluid.layers.cross_entropy(input=predict, label=label))

    def optimizer(self):
        return fluid.optimizer.Adam(self.rate, lazy_mode=True)

    def infer_net(self):
        pass
"""

TASKS = """\
import paddle.fluid as fluid

from paddlerec.core.metrics import RecallK
from paddlerec.core.model import ModelBase
from paddlerec.core.utils import envs


class Model(ModelBase):
    def _init_hyper_parameters(self):
        self.rows = envs.get_global_env("hyper_parameters.rows")
        self.dim = envs.get_global_env("hyper_parameters.dim")

    def input_data(self, is_infer=False, **kwargs):
        words = fluid.data(name="words", shape=[None, 1], dtype="int64", lod_level=1)
        price = fluid.data(name="price", shape=[None, 2], dtype="float32")
        clicked = fluid.data(name="clicked", shape=[None, 1], dtype="int64")
        bought = fluid.data(name="bought", shape=[None, 1], dtype="int64")
        return [words, price, clicked, bought]

    def net(self, inputs, is_infer=False):
        words, price, clicked, bought = inputs
        rows = fluid.embedding(words, size=[self.rows, self.dim], is_sparse=True, param_attr="rows")
        rows = fluid.layers.squeeze(rows, axes=[1])
        gates = fluid.layers.fc(rows, size=3 * self.dim)
        states = fluid.layers.dynamic_gru(input=gates, size=self.dim)
        last = fluid.layers.sequence_pool(states, "last")
        mean = fluid.layers.sequence_pool(rows, "average")
        shared = fluid.layers.fc([last, mean, price], size=6, act="tanh")
        click = fluid.layers.fc(shared, size=2, act="softmax")
        buy = fluid.layers.fc(shared, size=2, act="softmax")
        auc, _, _ = fluid.layers.auc(click, clicked, num_thresholds=256)
        recall = RecallK(buy, bought, 1)
        results = self._infer_results if is_infer else self._metrics
        results["AUC_click"] = auc
        results["buy"] = recall
        losses = [fluid.layers.mean(fluid.layers.cross_entropy(*each)) for each in ((click, clicked), (buy, bought))]
        if not is_infer:
            self._metrics["buy_cost"] = losses[1]
            self._cost = losses[0] + losses[1]

    def optimizer(self):
        rate = fluid.layers.exponential_decay(0.1, 5, 0.9)
        return fluid.optimizer.SGD(rate, regularization=None)
"""

READER = """\
from paddlerec.core.reader import ReaderBase
from paddlerec.core.utils import envs


class Reader(ReaderBase):
    def init(self):
        self.rows = envs.get_global_env("hyper_parameters.rows")

    def generate_sample(self, line):
        def samples():
            found = {}
            for each in line.split():
                name, _, number = each.partition(":")
                found.setdefault(name, []).append(float(number) if name == "price" else int(number) % self.rows)
            yield zip(
                ["words", "price", "clicked", "bought"],
                [found["1"] + found["2"], found["price"], found["click"], [found["1"][0] % 2]])
        return samples
"""

CONFIG = f"""\
workspace: "."
mode: [alone]
hyper_parameters:
  rows: {WORDS}
  dim: 4
  sizes: [8]
  optimizer: {{class: adam, learning_rate: 0.02, strategy: async, l2: 0.1}}
runner:
- {{name: alone, class: train, device: cpu, save_checkpoint_path: out/alone, {{common}}}}
- {{name: tasks, class: train, device: cpu, save_checkpoint_path: out/tasks, save_step_interval: 4, save_step_path: steps, {{tasks}}}}
- {{name: infer, class: infer, device: cpu, init_model_path: out/alone, phases: [test]}}
- {{name: infer_tasks, class: infer, device: cpu, init_model_path: out/tasks, phases: [tasks_test]}}
{{more}}
phase:
- {{name: train, model: "{{workspace}}/rank.py", dataset_name: slots, thread_num: 1}}
- {{name: test, model: "{{workspace}}/rank.py", dataset_name: slots_test, thread_num: 1}}
- {{name: tasks, model: "{{workspace}}/tasks.py", dataset_name: lines, thread_num: 1}}
- {{name: tasks_test, model: "{{workspace}}/tasks.py", dataset_name: lines_test, thread_num: 1}}
dataset:
- {{name: slots, type: DataLoader, batch_size: {BATCH}, data_path: "{{workspace}}/data/train", sparse_slots: "click 1 2", dense_slots: "price:2"}}
- {{name: slots_test, type: QueueDataset, batch_size: 50, data_path: "{{workspace}}/data/test", sparse_slots: "click 1 2", dense_slots: "price:2"}}
- {{name: lines, type: QueueDataset, batch_size: {BATCH}, data_path: "{{workspace}}/data/train", data_converter: "{{workspace}}/reader.py"}}
- {{name: lines_test, type: QueueDataset, batch_size: 50, data_path: "{{workspace}}/data/test", data_converter: "{{workspace}}/reader.py"}}
"""
COMMON = f"seed: 3, epochs: {EPOCHS}, print_interval: 2, phases: [train]"
TASKS_COMMON = f"seed: 3, epochs: {EPOCHS}, print_interval: 2, phases: [tasks], evaluate_phase: tasks_test"


def story(path: Path, more: str = "") -> None:
    """Everything that a run needs."""
    text = CONFIG
    for name, said in (("common", COMMON), ("tasks", TASKS_COMMON), ("more", more.strip())):
        text = text.replace(f"{{{name}}}", said)
    (path / "config.yaml").write_text(text.replace("{{", "{").replace("}}", "}"))
    for name, code in (("rank", RANK), ("tasks", TASKS), ("reader", READER)):
        (path / f"{name}.py").write_text(code)
    drawn = random.Random(5)
    for part, count in (("train", SAMPLES), ("test", 50)):
        directory = path / "data" / part
        directory.mkdir(parents=True)
        (directory / "part-0").write_text("".join(_lines(drawn, count)))


def _lines(drawn: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        ones = [drawn.randrange(WORDS) for _ in range(drawn.randint(1, 3))]
        two, price = drawn.randrange(WORDS), drawn.random()
        click = int(sum(ones) / len(ones) + 10 * price > WORDS / 2)
        words = [
            f"click:{click}",
            *(f"1:{each}" for each in ones),
            f"2:{two}",
            f"price:{price:.3f}",
            f"price:{1 - price:.3f}",
        ]
        yield " ".join(words) + "\n"


def samples(path: Path) -> list[dict[str, list[float]]]:
    """The samples of a file, slot by slot."""
    found = []
    for line in path.read_text().splitlines():
        sample: dict[str, list[float]] = {}
        for each in line.split():
            name, _, number = each.partition(":")
            sample.setdefault(name, []).append(float(number))
        found.append(sample)
    return found


def plain(path: Path, model: str, *, seed: int, epochs: int, settings: dict[str, Any]) -> dict[str, Any]:
    """A plain loop of paddle.fluid over the same batches: every variable that stays, by its name."""
    import paddle
    import paddle.fluid as fluid

    from umiak.train.engines import own_code
    from umiak.train.reading import base

    base.provide_old_modules(settings)
    kind = own_code.imported(str(path / f"{model}.py")).Model
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    paddle.seed(seed)
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
        made = kind(settings)
        inputs = made.input_data(dataset_name="slots")
        made.net(inputs, False)
        made.optimizer().minimize(made._cost)
        executor = fluid.Executor(fluid.CPUPlace())
        executor.run(startup)
        feeder = fluid.DataFeeder(inputs, fluid.CPUPlace())
        rows = [_row(model, each) for each in samples(path / "data" / "train" / "part-0")]
        losses = []
        for _ in range(epochs):
            for begin in range(0, len(rows), BATCH):
                feed = feeder.feed(rows[begin : begin + BATCH])
                losses.append(float(executor.run(main, feed, [made._cost])[0].mean()))
        kept = {each.name for each in main.list_vars() if each.persistable and scope.find_var(each.name)}
        found = {name: np.array(scope.find_var(name).get_tensor()) for name in kept}
    sys.modules.pop("umiak_model", None)
    return {"losses": losses, "values": found}


def _row(model: str, sample: dict[str, list[float]]) -> list[Any]:
    def ids(name: str) -> list[int]:
        return [int(each) for each in sample[name]]

    if model == "rank":
        return [sample["price"], ids("click"), ids("1"), ids("2")]
    return [ids("1") + ids("2"), sample["price"], ids("click"), [ids("1")[0] % 2]]
