"""Programs of `paddle.fluid` side by side with the dynamic graph and Paddle's static programs: ``python -m benchmarks.fluid``. A program.

A network, many small operations, and three models in the style of PaddleRec 1.8.5's, each written three times: for fluid 1.8, by hand for today's dynamic graph, and as a
static program of the older form. All three in turn, in one process with one thread of computing, with the same batches. What counts is the
ratio of each round, of CPU time: other work on the machine changes the wall clock many times over.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.update(FLAGS_enable_pir_api="0")  # Paddle reads it when it is imported

import numpy as np

import umiak.fluid
from benchmarks import measure
from benchmarks.fluid_served import served

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    umiak.fluid.install()
    import paddle
    from paddle import fluid, static
    from paddle.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, SLOTS, WIDTH, IDS = 512, 26, 10, 20_000
DENSE = 13
ITEMS = 8
"""Items of a sequence on average."""
STEP_GOAL, BUILD_GOAL_S, OPERATIONS = 1.15, 0.3, 1_000
OURS, BY_HAND, OLDER = "umiak.fluid", "dynamic graph by hand", "Paddle's static program, older form"
layers = fluid.layers
Feed = dict[str, Any]


def clicks(number: int) -> Feed:
    """A batch of clicks: dense features, an id of each slot, a label."""
    chance = np.random.default_rng(number)
    ids = {f"C{slot}": chance.integers(0, IDS, (ROWS, 1)) for slot in range(SLOTS)}
    return {
        "dense": chance.uniform(size=(ROWS, DENSE)).astype("float32"),
        "label": chance.integers(0, 2, (ROWS, 1)),
        **ids,
    }


def histories(number: int) -> Feed:
    """A batch of histories: three sequences of ids, an id, a label."""
    chance = np.random.default_rng(number)
    feed: Feed = {"item": chance.integers(0, IDS, (ROWS, 1)), "label": chance.integers(0, 2, (ROWS, 1))}
    for name in ("seen", "bought", "searched"):
        lengths = chance.integers(1, 2 * ITEMS, ROWS)
        feed[name] = chance.integers(0, IDS, (int(lengths.sum()), 1))
        feed[f"{name} lengths"] = lengths
    return feed


# ---- the models: forward passes for each of the three, with the same parameters


class Parts:
    """What a model is written with, in one of the three ways."""

    def __init__(self, kind: str, feed: Feed) -> None:
        self.kind, self.feed = kind, feed
        self.parameters: dict[str, Any] = {}

    def value(self, name: str) -> Any:
        """What is fed under a name."""
        array = self.feed[name]
        if self.kind == BY_HAND:
            return paddle.to_tensor(array)
        shape = [None, *array.shape[1:]]
        if self.kind == OLDER:
            return static.data(name, shape, str(array.dtype))
        return fluid.data(name, shape, str(array.dtype), lod_level=1 if f"{name} lengths" in self.feed else 0)

    def rows(self, name: str, table: str, width: int = WIDTH) -> Any:
        """The rows of a table, by ids that are fed."""
        ids = self.value(name)
        if self.kind == OURS:
            return layers.embedding(ids, [IDS, width], is_sparse=True, param_attr=table)
        if self.kind == OLDER:
            found = static.nn.embedding(ids, [IDS, width], is_sparse=True, param_attr=paddle.ParamAttr(table))
            return paddle.reshape(found, [-1, width])
        if table not in self.parameters:
            self.parameters[table] = paddle.create_parameter([IDS, width], "float32")
        return functional.embedding(ids.squeeze(1), self.parameters[table], sparse=True)

    def pooled(self, name: str, table: str) -> Any:
        """The sum of each sequence's rows."""
        rows = self.rows(name, table)
        if self.kind == OURS:
            return layers.sequence_pool(rows, "sum")
        return paddle.geometric.segment_sum(rows, self.value(f"{name} owners"))

    def dense(self, x: Any, width: int, act: str | None, name: str) -> Any:
        """A projection."""
        if self.kind == OURS:
            return layers.fc(x, width, act=act)
        if self.kind == OLDER:
            return static.nn.fc(x, width, activation=act)
        if name not in self.parameters:
            self.parameters[name] = paddle.create_parameter([x.shape[1], width], "float32")
            self.parameters[f"{name} bias"] = paddle.create_parameter([width], "float32", is_bias=True)
        found = functional.linear(x, self.parameters[name], self.parameters[f"{name} bias"])
        return functional.relu(found) if act == "relu" else found

    def total(self, x: Any, *, keep: bool = False) -> Any:
        """The sum over the second dimension."""
        if self.kind == OURS:
            return layers.reduce_sum(x, 1, keep_dim=keep)
        if self.kind == OLDER:  # Paddle 3.3's `sum` takes no variable of a static program of this form any more
            return paddle.mean(x, 1, keepdim=keep) * x.shape[1]
        return paddle.sum(x, 1, keepdim=keep)

    def loss(self, logits: Any) -> Any:
        """Of two classes."""
        label = self.value("label")
        if self.kind == OURS:
            return layers.mean(layers.softmax_with_cross_entropy(logits, label))
        return paddle.mean(functional.cross_entropy(logits, label, reduction="none"))


def deep(parts: Parts) -> Any:
    """Rows of 26 slots and dense features through three layers, as rank/dnn has it."""
    concat = layers.concat if parts.kind == OURS else paddle.concat
    x = concat([*[parts.rows(f"C{slot}", "table") for slot in range(SLOTS)], parts.value("dense")], axis=1)
    for number, width in enumerate((400, 400, 400)):
        x = parts.dense(x, width, "relu", f"hidden {number}")
    return parts.loss(parts.dense(x, 2, None, "out"))


def factorized(parts: Parts) -> Any:
    """First order, second order and a deep part, as rank/deepfm has it: many small operations."""
    ours = parts.kind == OURS
    concat = layers.concat if ours else paddle.concat
    first = [parts.rows(f"C{slot}", "first", 1) for slot in range(SLOTS)]
    second = [parts.rows(f"C{slot}", "second") for slot in range(SLOTS)]
    flat = concat(second, axis=1)
    cube = layers.reshape(flat, [-1, SLOTS, WIDTH]) if ours else paddle.reshape(flat, [-1, SLOTS, WIDTH])
    square = layers.square if ours else paddle.square
    both = square(parts.total(cube)) - parts.total(square(cube))
    linear = parts.total(concat(first, axis=1), keep=True)
    crossed = 0.5 * parts.total(both, keep=True)
    x = concat([flat, parts.value("dense")], axis=1)
    for number, width in enumerate((128, 64)):
        x = parts.dense(x, width, "relu", f"hidden {number}")
    return parts.loss(parts.dense(concat([x, linear, crossed], axis=1), 2, None, "out"))


def sequences(parts: Parts) -> Any:
    """Three histories, summed, and an item, as match/youtube_dnn and its neighbours have it."""
    concat = layers.concat if parts.kind == OURS else paddle.concat
    pooled = [parts.pooled(name, "table") for name in ("seen", "bought", "searched")]
    x = concat([*pooled, parts.rows("item", "table")], axis=1)
    for number, width in enumerate((128, 64)):
        x = parts.dense(x, width, "relu", f"hidden {number}")
    return parts.loss(parts.dense(x, 2, None, "out"))


def numbers(number: int) -> Feed:
    """A batch of features that are no ids."""
    chance = np.random.default_rng(number)
    return {"dense": chance.normal(size=(ROWS, 247)).astype("float32"), "label": chance.integers(0, 2, (ROWS, 1))}


def network(parts: Parts) -> Any:
    """Five projections, nothing else."""
    x = parts.value("dense")
    for number, width in enumerate((512, 256, 128, 32)):
        x = parts.dense(x, width, "relu", f"hidden {number}")
    return parts.loss(parts.dense(x, 2, None, "out"))


def small(parts: Parts) -> Any:
    """Sixty small operations, where what runs them shows."""
    concat = layers.concat if parts.kind == OURS else paddle.concat
    x = parts.dense(parts.value("dense"), 8, None, "in")
    for number in range(15):
        x = concat([parts.dense(x, 4, "relu", f"hidden {number}"), 0.5 * x], axis=1)
        x = parts.dense(x, 8, None, f"back {number}")
    return parts.loss(parts.dense(x, 2, None, "out"))


MODELS: dict[str, tuple[Callable[[Parts], Any], Callable[[int], Feed]]] = {
    "network": (network, numbers),
    "small": (small, numbers),
    "dnn": (deep, clicks),
    "deepfm": (factorized, clicks),
    "sequences": (sequences, histories),
}


# ---- a step of each


def ours(model: Callable[[Parts], Any], feeds: list[Feed]) -> Callable[[int], Any]:
    """A fluid program, fed with arrays and LoDTensors."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = model(Parts(OURS, feeds[0]))
        fluid.optimizer.SGD(0.01).minimize(loss)
    scope = fluid.Scope()
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(scope):
        executor.run(startup)
    given = [
        {
            name: fluid.create_lod_tensor(array, [feed[f"{name} lengths"].tolist()], fluid.CPUPlace())
            if f"{name} lengths" in feed
            else array
            for name, array in feed.items()
            if not name.endswith(" lengths")
        }
        for feed in feeds
    ]
    return lambda number: executor.run(main, feed=given[number], fetch_list=[loss], scope=scope)[0]


def with_owners(feed: Feed) -> Feed:
    """With the number of its sequence for each id, which is how today's Paddle knows sequences."""
    owners = {
        name.replace("lengths", "owners"): np.repeat(np.arange(len(lengths)), lengths)
        for name, lengths in feed.items()
        if name.endswith(" lengths")
    }
    return {**{name: array for name, array in feed.items() if not name.endswith(" lengths")}, **owners}


def by_hand(model: Callable[[Parts], Any], feeds: list[Feed]) -> Callable[[int], Any]:
    """The dynamic graph."""
    given = [with_owners(feed) for feed in feeds]
    parts = Parts(BY_HAND, given[0])
    model(parts)
    optimizer = paddle.optimizer.SGD(0.01, list(parts.parameters.values()))

    def step(number: int) -> Any:
        parts.feed = given[number]
        loss = model(parts)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss.numpy()

    return step


def older(model: Callable[[Parts], Any], feeds: list[Feed]) -> Callable[[int], Any]:
    """A static program."""
    given = [with_owners(feed) for feed in feeds]
    main, startup = static.Program(), static.Program()
    scope = static.Scope() if hasattr(static, "Scope") else paddle.base.core.Scope()
    paddle.enable_static()
    try:
        with static.program_guard(main, startup):
            loss = model(Parts(OLDER, given[0]))
            paddle.optimizer.SGD(0.01).minimize(loss)
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup, scope=scope)
    finally:
        paddle.disable_static()

    def step(number: int) -> Any:
        paddle.enable_static()
        try:
            return executor.run(main, feed=given[number], fetch_list=[loss], scope=scope)[0]
        finally:
            paddle.disable_static()

    return step


WAYS: dict[str, Callable[..., Callable[[int], Any]]] = {OURS: ours, BY_HAND: by_hand, OLDER: older}


def steps(name: str, rounds: int, each: int) -> list[measure.Figure]:
    """Milliseconds of a step, and ours over the others in the same round."""
    model, batch = MODELS[name]
    feeds = [batch(number) for number in range(4)]
    ways = {way: make(model, feeds) for way, make in WAYS.items()}
    for step in ways.values():
        for number in range(len(feeds)):
            step(number)
    how = f"{ROWS} rows, SGD, arrays fed and loss fetched; {each} steps of each in turn, {rounds} rounds; CPU time"
    times = measure.Figure(f"fluid_{name}", f"a step of {name}", how, unit="ms")
    ratios = measure.Figure(
        f"fluid_{name}_ratio", f"{name}: umiak.fluid over the others", how, unit="x", goal=STEP_GOAL
    )
    with measure.other_work(times):
        for _ in range(rounds):
            took = {}
            for way, step in ways.items():
                begin = time.process_time()
                for number in range(each):
                    step(number % len(feeds))
                took[way] = (time.process_time() - begin) / each
                times.add(way, took[way] * 1e3)
            for way in (BY_HAND, OLDER):
                ratios.add(f"over {way}", took[OURS] / took[way])
    return [times, ratios]


def building(rounds: int) -> measure.Figure:
    """Seconds to record a program of 1,000 operations."""
    how = f"{OPERATIONS} operations: fc, relu, elementwise_add, scale and reduce_mean in turn, without an optimizer; {rounds} programs; CPU time"
    figure = measure.Figure("fluid_building", "recording 1,000 operations", how, goal=BUILD_GOAL_S)
    with measure.other_work(figure):
        for _ in range(rounds):
            main = fluid.Program()
            begin = time.process_time()
            with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
                x = layers.data("x", [16])
                while len(main.global_block().ops) < OPERATIONS:
                    hidden = layers.fc(x, 16, act="relu")
                    x = layers.scale(layers.elementwise_add(x, hidden), 0.5)
                    x = layers.elementwise_sub(x, layers.reduce_mean(x, dim=1, keep_dim=True))
            figure.add(OURS, time.process_time() - begin)
    return figure


def main(argv: list[str]) -> int:
    """Measure, and print tables or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fluid", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--only", choices=[*MODELS, "building", "served"])
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(argv)
    paddle.seed(1)
    warnings.simplefilter("ignore")
    figures = []
    for name in MODELS:
        if asked.only in (None, name):
            figures += steps(name, asked.rounds, asked.steps)
    if asked.only in (None, "building"):
        figures.append(building(asked.rounds))
    if asked.only in (None, "served"):
        figures += served(max(asked.rounds // 4, 1))
    if asked.json:
        facts = {"machine": measure.machine(), "figures": [figure.plain() for figure in figures]}
        sys.stdout.write(json.dumps(facts, indent=2) + "\n")
        return 0
    sys.stdout.write(f"{measure.machine()}\n\n" + "\n\n".join(map(measure.table, figures)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
