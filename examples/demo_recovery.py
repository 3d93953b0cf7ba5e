"""A click model whose weights live on parameter servers, in numpy: what `make demo` kills servers and trainers of.

    umiak launch --server_num 2 --trainer_num 2 --trainer_restart alone --max_restart 5 examples/demo_recovery.py

Each sample has five ids, and a click is more likely the higher the sum of their hidden weights is. So the best AUC that
any model can reach is known: that of the true probabilities. Lines in metrics.jsonl, beside the launcher's directory `log`,
are what `umiak dashboard` draws. Each process leaves its process ID in a file, for the demo alone.
"""

import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np

from umiak import ps

IDS, SLOTS, BATCH, STEPS, REPORT = 20_000, 5, 512, 1200, 60

session = ps.init(ps.Sync(), durability_ms=50)
Path(f"{'server' if session.is_server else 'trainer'}.{session.rank}").write_text(str(os.getpid()))
if session.is_server:
    raise SystemExit(session.serve())


def samples(count, seed):
    """Ids and clicks, and the true probability of each click."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(0, IDS, size=(count, SLOTS))
    truth = 1 / (1 + np.exp(-hidden[ids].sum(axis=1)))
    return ids, draw.random(count) < truth, truth


def report(step, score):
    """Where the training is, for people and for the dashboard."""
    print(f"step {step}/{STEPS} auc {score:.4f}", flush=True)
    line = {
        "time": time.time(),
        "event": "progress",
        "batch": step,
        "samples": step * BATCH * 2,
        "recent": {"auc": score},
    }
    with Path("metrics.jsonl").open("a") as file:
        print(json.dumps(line), file=file)


def auc(clicks, scores):
    """How often a click has a higher score than a sample without one."""
    clicked = clicks[np.argsort(scores, kind="stable")]
    places, ones = np.flatnonzero(clicked) + 1, clicked.sum()
    return float((places.sum() - ones * (ones + 1) / 2) / (ones * (len(clicked) - ones)))


hidden = np.random.default_rng(0).normal(0, 0.8, size=IDS)
unseen, clicks, truth = samples(20_000, seed=1)
if session.is_first and session.step == 0:
    print(f"best {auc(clicks, truth):.4f}", flush=True)
weights = session.table(ps.SparseTable(dim=1, init=ps.Constant(0.0), rule=ps.Adagrad(0.1)), name="weights")
for step in range(session.step, STEPS):  # a trainer that was started again goes on where it was killed
    if session.is_first and step % REPORT == 0:
        report(step, auc(clicks, weights.pull(unseen).sum(axis=(1, 2))))
    ids, clicked, _ = samples(BATCH, seed=(2, session.rank, step))
    chances = 1 / (1 + np.exp(-weights.pull(ids).sum(axis=(1, 2))))
    weights.push(ids, np.repeat((chances - clicked) / BATCH, SLOTS).reshape(BATCH, SLOTS, 1))
    session.end_step()
rows = weights.pull(np.arange(IDS))
if session.is_first:
    report(STEPS, auc(clicks, rows[unseen].sum(axis=(1, 2))))
    print(f"weights {hashlib.sha256(rows.tobytes()).hexdigest()[:16]}", flush=True)
