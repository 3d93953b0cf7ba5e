"""Wide and deep with parameter servers: one model that remembers pairs of ids and understands everything else.

    umiak launch --server_num 2 --trainer_num 2 examples/06-wide-and-deep/train.py

The wide part is one weight per id and per pair of user and item; the deep part is a row per id, and a tower above them.
Weights, rows and the tower live on the servers.
"""

import argparse
import sys

from umiak import ps

flags = argparse.ArgumentParser()
flags.add_argument("--parts", default="both", choices=["both", "wide", "deep"])
flags.add_argument("--strategy", default="sync", help="sync, async, half_async, geo or hybrid")
flags.add_argument("--epochs", type=int, default=4)
flags.add_argument("--samples", type=int, default=100_000, help="in an epoch, divided among the trainers")
flags.add_argument("--batch", type=int, default=1000, help="samples of a step, divided among the trainers")
flags.add_argument("--at_least", type=float, default=0.0, help="fail if the AUC is below this in the end")
args = flags.parse_args()

session = ps.init(args.strategy)
if session.is_server:
    raise SystemExit(session.serve())

# Below this line there are trainers only; a server needs no framework.
import data
import numpy as np
import paddle


class WideAndDeep(paddle.nn.Layer):
    """The sum of what both parts say."""

    def __init__(self, parts: str, width: int = 8):
        super().__init__()
        self.parts = parts
        self.weights = ps.paddle.Embedding(1, table="wide", rule=ps.Adagrad(learning_rate=0.1), init=ps.Constant())
        self.rows = ps.paddle.Embedding(width, table="deep", init=ps.Normal(deviation=0.1))
        self.tower = paddle.nn.Sequential(
            paddle.nn.Linear(len(data.IDS) * width + data.NUMBERS, 64),
            paddle.nn.ReLU(),
            paddle.nn.Linear(64, 32),
            paddle.nn.ReLU(),
            paddle.nn.Linear(32, 1),
        )

    def forward(self, ids, numbers):
        single, crossed = (paddle.to_tensor(keys) for keys in data.keys(ids))
        wide = self.weights(crossed).sum(axis=[1, 2])
        deep = self.tower(paddle.concat([self.rows(single).flatten(1), paddle.to_tensor(numbers)], axis=1))[:, 0]
        return {"wide": wide, "deep": deep}.get(self.parts, wide + deep)


def everybodys(name: str, keys, numbers, count: int):
    """Numbers 0 to count - 1, of which each trainer has some: they meet in a table of the servers."""
    table = session.table(ps.SparseTable(dim=1, init=ps.Constant()), name=name)
    table.set(keys, numbers)
    session.barrier()
    whole = table.pull(np.arange(count))[:, 0]
    session.barrier()  # nobody writes the next ones before all have read these
    return whole


paddle.seed(7)
model = WideAndDeep(args.parts)
optimizer = ps.paddle.optimizer(model, "adam", learning_rate=0.003)
ids, numbers, clicks, _ = data.samples(args.samples, seed=1)
test_ids, test_numbers, test_clicks, chances = data.samples(20_000, seed=2)
best, reached, read = data.auc(test_clicks, chances), 0.0, 0
own = np.arange(session.rank, len(test_clicks), session.world)
for epoch in range(1, args.epochs + 1):
    model.train()
    losses = 0.0
    order = np.random.default_rng(epoch).permutation(len(clicks))  # the same on every trainer
    for batch in np.array_split(order, max(1, len(clicks) // args.batch)):
        mine = batch[session.rank :: session.world]
        logits = model(ids[mine], numbers[mine])
        loss = paddle.nn.functional.binary_cross_entropy_with_logits(logits, paddle.to_tensor(clicks[mine]))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses += float(loss) * len(mine)
        read += len(mine)
    session.barrier()
    model.eval()
    with paddle.no_grad():
        scores = model(test_ids[own], test_numbers[own]).numpy()
    reached = data.auc(test_clicks, everybodys("scores", own, scores, len(test_clicks)))
    loss = everybodys("losses", [session.rank], [losses], session.world).sum() / len(clicks)
    if session.is_first:
        print(f"epoch {epoch}/{args.epochs}  loss {loss:.4f}  auc {reached:.4f} of {best:.4f}", flush=True)
in_all = everybodys("read", [session.rank], [read], session.world).sum()
print(f"trainer {session.rank} of {session.world}: read {read} of {in_all:.0f} samples", flush=True)
if reached < args.at_least:
    sys.exit(f"auc {reached:.4f} is below {args.at_least}")
