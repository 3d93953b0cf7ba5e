"""A click-through model whose embeddings and weights live on parameter servers.

    umiak launch --server_num 2 --trainer_num 2 examples/03-parameter-server/train.py
    python examples/03-parameter-server/train.py          # alone: this process keeps everything itself

One script for both roles. Each trainer learns from samples of its own; all of them learn the same model.
"""

import argparse
import json
import time

from umiak import ps

flags = argparse.ArgumentParser()
flags.add_argument("--strategy", default="async", help="sync, async, half_async, geo or hybrid")
flags.add_argument("--samples", type=int, default=400_000, help="samples in all, divided among the trainers")
flags.add_argument("--batch", type=int, default=512)
flags.add_argument("--progress", help="a file for one line of JSON per report")
args = flags.parse_args()

session = ps.init(args.strategy)
if session.is_server:
    raise SystemExit(session.serve())

# Below this line there are trainers only; a server needs no framework.
import paddle
from data import NUMBERS, SLOTS, auc, samples


class ClickModel(paddle.nn.Layer):
    """Embeddings, then a small tower."""

    def __init__(self):
        super().__init__()
        self.embedding = ps.paddle.Embedding(dim=8)
        self.tower = paddle.nn.Sequential(
            paddle.nn.Linear(SLOTS * 8 + NUMBERS, 64),
            paddle.nn.ReLU(),
            paddle.nn.Linear(64, 32),
            paddle.nn.ReLU(),
            paddle.nn.Linear(32, 1),
        )

    def forward(self, ids, numbers):
        return self.tower(paddle.concat([self.embedding(ids).flatten(1), numbers], axis=1))


def evaluate(model):
    ids, numbers, clicks, chances = samples(first=-1 % 2**32, count=20_000)
    with paddle.no_grad():
        scores = model(paddle.to_tensor(ids), paddle.to_tensor(numbers)).numpy()
    return auc(clicks, scores), auc(clicks, chances)


paddle.seed(7)
model = ClickModel()
optimizer = ps.paddle.optimizer(model, "adam", learning_rate=0.003)
steps = args.samples // (args.batch * session.world)
every, began = max(1, steps // 20), time.monotonic()
for step in range(session.step, steps):
    ids, numbers, clicks, _ = samples(first=step * session.world + session.rank, count=args.batch)
    logits = model(paddle.to_tensor(ids), paddle.to_tensor(numbers))
    loss = paddle.nn.functional.binary_cross_entropy_with_logits(logits, paddle.to_tensor(clicks))
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    if session.is_first and (step + 1) % every == 0:
        speed = (step + 1) * args.batch * session.world / (time.monotonic() - began)
        reached, best = evaluate(model)
        print(
            f"step {step + 1}/{steps}  loss {float(loss):.4f}  auc {reached:.4f} of {best:.4f}  {speed:,.0f} samples/s"
        )
        if args.progress:
            with open(args.progress, "a") as file:
                file.write(json.dumps({"step": step + 1, "loss": float(loss), "auc": reached, "best": best}) + "\n")
session.barrier()
if session.is_first:
    print(f"trained by {session.world} with {args.strategy}: auc {evaluate(model)[0]:.4f}")
