"""A server, or a trainer that learns the same small click-through model in every way there is.

Each strategy has tables of its own, so that Paddle is imported once for all of them. Trainer 0 also learns it by itself, and
computes the steps of `sync` once more, micro-batch by micro-batch, and once more with gradients that add up in the model. What came out goes to the file that the argument names.
"""

import json
import os
import sys

import numpy as np

from umiak import ps
from umiak.core.cluster import StrategyName
from umiak.ps import strategies
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session

STEPS, BATCH, SLOTS, IDS, NUMBERS, EXACT_STEPS = 120, 256, 4, 60, 3, 12
STRATEGIES = {name: strategies.by_name(name) for name in StrategyName}
STRATEGIES |= {"geo": ps.Geo(every=4), "half_async": ps.HalfAsync(merge=2)}

job = ps.init("async", timeout_s=60)
if job.is_server:
    raise SystemExit(job.serve())

import paddle


def samples(number, count=BATCH):
    hidden = np.random.default_rng(3)
    weights, slopes = hidden.normal(0, 1.2, SLOTS * IDS), hidden.normal(0, 0.7, NUMBERS)
    draw = np.random.default_rng([11, number])
    ids = draw.integers(0, IDS, size=(count, SLOTS)) + np.arange(SLOTS) * IDS
    numbers = draw.normal(size=(count, NUMBERS)).astype("float32")
    chances = 1 / (1 + np.exp(-weights[ids].sum(axis=1) - numbers @ slopes))
    return ids, numbers, (draw.random(count) < chances).astype("float32").reshape(-1, 1)


def auc(clicks, scores):
    order = np.argsort(scores.ravel(), kind="stable")
    clicked = clicks.ravel()[order] > 0.5
    ones = clicked.sum()
    ranks = np.arange(1, len(clicked) + 1)
    return float((ranks[clicked].sum() - ones * (ones + 1) / 2) / (ones * (len(clicked) - ones)))


class Model(paddle.nn.Layer):
    def __init__(self, own, name):
        super().__init__()
        self.rows = ps.paddle.Embedding(dim=4, table=f"rows of {name}", session=own)
        self.wide = ps.paddle.Embedding(
            dim=1, table=f"wide of {name}", rule=ps.Adagrad(learning_rate=0.14), session=own
        )
        self.tower = paddle.nn.Sequential(
            paddle.nn.Linear(SLOTS * 4 + NUMBERS, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 1)
        )

    def forward(self, ids, numbers):
        deep = self.tower(paddle.concat([self.rows(ids).flatten(1), numbers], axis=1))
        return deep + self.wide(ids).sum(axis=1)


def made(own, name):
    paddle.seed(5 + own.rank)  # only the first trainer's weights count
    model = Model(own, name)
    return model, ps.paddle.optimizer(model, "adam", learning_rate=0.02, table=f"dense of {name}", session=own)


def backward(model, number):
    ids, numbers, clicks = samples(number)
    logits = model(paddle.to_tensor(ids), paddle.to_tensor(numbers))
    loss = paddle.nn.functional.binary_cross_entropy_with_logits(logits, paddle.to_tensor(clicks))
    loss.backward()


def learn(own, name, steps=STEPS):
    model, optimizer = made(own, name)
    for step in range(steps):
        for number in range(job.world) if own.seat == PsSeat() else (own.rank,):
            backward(model, step * job.world + number)
            optimizer.step()
            optimizer.clear_grad()
    own.barrier(f"end of {name}")
    optimizer.refresh()
    return model


def reached(model):
    ids, numbers, clicks = samples(10**6, 8000)
    model.eval()
    return auc(clicks, model(paddle.to_tensor(ids), paddle.to_tensor(numbers)).numpy())


def numbers_of(model):
    """Every number that was learned."""
    keys = np.arange(SLOTS * IDS)
    parts = [model.rows.rows.rows(keys), model.wide.rows.rows(keys), *[each.numpy() for each in model.parameters()]]
    return [float.hex(float(each)) for part in parts for each in part.ravel()]


def one_process_with_the_same_micro_batches():
    solo = Session(PsSeat(), ps.Sync(), SessionOptions())
    model, optimizer = made(solo, "exact")
    for step in range(EXACT_STEPS):
        for number in range(job.world):
            backward(model, step * job.world + number)
            solo.registry.push(1 / job.world)
            solo.communicator.push_dense(optimizer._learner.number, optimizer._gradients(), share=1 / job.world)
            optimizer.clear_grad()
        solo.communicator.end_step()
        optimizer.refresh()
    return model


def one_process_that_accumulates():
    """As many backward passes as there are trainers, and one step."""
    solo = Session(PsSeat(), ps.Sync(), SessionOptions())
    model, optimizer = made(solo, "exact")
    for step in range(EXACT_STEPS):
        for number in range(job.world):
            backward(model, step * job.world + number)
        optimizer.step(share=1 / job.world)
        optimizer.clear_grad()
    return model


def with_strategy(name):
    own = Session(job.seat, STRATEGIES[name], job.options)
    own._client = job.client
    return own


results = {}
for strategy in StrategyName:
    results[strategy.value] = reached(learn(with_strategy(strategy), strategy.value))
exact = numbers_of(learn(with_strategy("sync"), "exact", EXACT_STEPS))
if job.is_first:
    results["alone"] = reached(learn(Session(PsSeat(), ps.Async(), SessionOptions()), "alone"))
    results["same bits"] = exact == numbers_of(one_process_with_the_same_micro_batches())
    results["same bits accumulated"] = exact == numbers_of(one_process_that_accumulates())
    with open(sys.argv[1] + ".part", "w") as file:
        json.dump(results, file)
    os.rename(sys.argv[1] + ".part", sys.argv[1])
