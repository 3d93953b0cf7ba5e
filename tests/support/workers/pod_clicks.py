"""The click-through model of examples/03-parameter-server in pods that come and go, with a checkpoint in a directory that all pods see.

    pod_clicks.py DIRECTORY

The first trainer saves after step 20. At step 40 everybody waits while there is a file `hold` in DIRECTORY. Servers that are
behind the checkpoint get it loaded.
"""

import sys
import time
from pathlib import Path

from umiak import ps

DIRECTORY = Path(sys.argv[1])
STEPS, BATCH, SAVED, HELD = 100, 256, 20, 40

session = ps.init("sync", timeout_s=120)
if session.is_server:
    raise SystemExit(session.serve())

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples" / "03-parameter-server"))
import paddle
from data import NUMBERS, SLOTS, auc, samples


class PodModel(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.embedding = ps.paddle.Embedding(dim=8)
        self.tower = paddle.nn.Sequential(
            paddle.nn.Linear(SLOTS * 8 + NUMBERS, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 1)
        )

    def forward(self, ids, numbers):
        return self.tower(paddle.concat([self.embedding(ids).flatten(1), numbers], axis=1))


paddle.seed(7)
model = PodModel()
optimizer = ps.paddle.optimizer(model, "adam", learning_rate=0.02)
checkpoint = DIRECTORY / "checkpoint"
if (
    session.step <= SAVED and checkpoint.exists()
):  # true for all trainers or for none, also if one of them has loaded it already
    session.load(str(checkpoint))
print(f"trainer {session.rank} begins at step {session.step}", flush=True)
for step in range(session.step, STEPS):
    if step == SAVED and not checkpoint.exists():
        session.save(str(checkpoint))
    if step == HELD:
        print(f"trainer {session.rank} is at step {step}", flush=True)
        while (DIRECTORY / "hold").exists():
            time.sleep(0.05)
    ids, numbers, clicks, _ = samples(first=step * session.world + session.rank, count=BATCH)
    logits = model(paddle.to_tensor(ids), paddle.to_tensor(numbers))
    loss = paddle.nn.functional.binary_cross_entropy_with_logits(logits, paddle.to_tensor(clicks))
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
session.barrier()
if session.is_first:
    optimizer.refresh()
    ids, numbers, clicks, _ = samples(first=-1 % 2**32, count=20_000)
    with paddle.no_grad():
        scores = model(paddle.to_tensor(ids), paddle.to_tensor(numbers)).numpy()
    print(f"auc {auc(clicks, scores):.6f} after {STEPS} steps", flush=True)
