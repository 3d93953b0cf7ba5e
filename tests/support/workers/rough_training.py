"""A training script for rough treatment: killed, stopped or cut off, it goes on where it was. With numpy, or with Paddle.

    rough_training.py PLAN      a file of JSON; its keys are the fields of `tests.support.ps_stories.Plan`

In sync what it learns depends on every row that it pulls, so a step that was lost or done twice shows for ever. In the other
strategies it counts: each push has keys that no other push touches (`marks`), and each trainer writes to ``told.RANK`` which
push it has begun and which ones it knows to be on the servers. Trainer 0 leaves what the tables hold in ``end.npz``.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import umiak_native

from umiak import ps
from umiak.ps import checkpoint, specs

VOCABULARY = (np.arange(300, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(3)
COMMON = np.arange(40, dtype=np.uint64)
SIZES = (12, 5, 9, 0, 7)
"""Samples in a batch where trainers have unequal ones; now and then one has none, but not the first one."""


def batch_size(plan, rank, step):
    return max(int(rank == 0), SIZES[(3 * rank + step) % len(SIZES)]) if plan["unequal"] else 12


def share(plan, rank, step, world):
    """What this trainer's batch is of everybody's."""
    return batch_size(plan, rank, step) / sum(batch_size(plan, other, step) for other in range(world))


def batch(plan, rank, step):
    drawn = np.random.default_rng([plan["seed"], rank, step, 0]).choice(VOCABULARY, batch_size(plan, rank, step))
    return np.unique(drawn)


def gradient(plan, rank, step, rows):
    noise = np.random.default_rng([plan["seed"], rank, step, 1]).standard_normal(rows.shape, dtype=np.float32)
    return rows * np.float32(0.25) + noise


def marks(rank, life, push):
    """Keys of one push of one life of a trainer."""
    return np.array([(rank + 1) << 48 | life << 32 | push << 8 | n for n in range(4)], dtype=np.uint64)


def told_by(directory, rank):
    """For each life of a trainer: how many pushes it has begun, and which one was the last that it knew to be safe."""
    lives = []
    path = Path(directory, f"told.{rank}")
    for line in path.read_text().splitlines() if path.exists() else ():
        word, _, number = line.partition(" ")
        if word == "life":
            lives.append({"first": int(number), "begun": int(number), "safe": int(number)})
        else:
            lives[-1][word] = int(number) + 1
    return lives


class Script:
    def __init__(self, plan, job):
        self.plan, self.job, self.strategy = plan, job, job.communicator
        self.directory = Path(plan["dir"])
        self.paced = os.open(self.directory / "paced", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def pace(self):
        os.write(self.paced, b".")
        time.sleep(self.plan["pace_s"])

    def load(self):
        """The first trainer loads, unless that was done before it was killed; the others wait for it."""
        loaded = self.directory / f"loaded.{self.plan['run']}"
        found = checkpoint.newest(self.directory / "saved").path
        if self.job.is_first and found and not self.job.step and not loaded.exists():
            checkpoint.load(self.job.client, found)
        if self.job.is_first:
            loaded.touch()
        self.job.barrier("loaded")
        self.strategy.reload()

    def save(self, step):
        path = self.directory / "saved" / f"step-{step}"
        if not self.plan["save_every"] or step % self.plan["save_every"] or path.exists():
            return
        try:
            self.job.save(str(path), metadata={"step": step})
        except (checkpoint.BadCheckpoint, umiak_native.Refused) as error:
            with open(self.directory / "not-saved", "a") as file:
                file.write(json.dumps({"step": step, "why": str(error)}) + "\n")

    def leave(self, **arrays):
        if self.job.is_first:
            np.savez(self.directory / "end.tmp.npz", **arrays)
            os.rename(self.directory / "end.tmp.npz", self.directory / "end.npz")
        self.job.barrier("read")

    def learn(self):
        """sync: bit for bit the same, whatever happens."""
        plan, job, strategy = self.plan, self.job, self.strategy
        rows = specs.SparseTable(
            dim=4, init=specs.Uniform(low=-0.5, high=0.5), rule=specs.Adagrad(learning_rate=0.1), seed=11
        )
        dense = specs.DenseTable(arrays=(specs.Array(name="w", shape=(100,)),), rule=specs.Adam(learning_rate=0.01))
        table = job.table(rows, "words")
        words = table.number
        bias = strategy.open_dense("bias", dense, np.zeros(100, np.float32))
        if plan["loads"]:
            self.load()
        values = strategy.pull_dense(bias)
        for step in job.prefetch(range(job.step, plan["steps"]), lambda step: {table: batch(plan, job.rank, step)}):
            self.pace()
            self.save(step)
            if plan["schedule"]:
                strategy.set_learning_rate(words, 0.1 / (1 + step))
                strategy.set_learning_rate(bias, 0.01 / (1 + step))
            keys, part = batch(plan, job.rank, step), share(plan, job.rank, step, job.world)
            pulled = strategy.pull(words, keys)
            of_rows = gradient(plan, job.rank, step, pulled)
            update = gradient(plan, job.rank, step, values)
            if step % 2:
                strategy.learn_dense(bias, update, values, pushes=[(words, keys, of_rows)], share=part)
            else:
                strategy.push(words, keys, of_rows, share=part)
                strategy.push_dense(bias, update, share=part)
                strategy.end_step()
                strategy.pull_dense(bias, values)
        job.barrier("trained")
        self.leave(
            words=job.client.pull(words, VOCABULARY, create=False, step=job.step),
            bias=job.client.pull_dense(bias, step=job.step),
            steps=job.step,
        )

    def ids(self, step):
        """As many as there are, and two: without samples there is nothing to normalize."""
        return np.append(batch(self.plan, self.job.rank, step), VOCABULARY[:2]).astype(np.int64)

    def learn_layers(self):
        """The same with a model of Paddle's that normalizes and drops out; each step draws its own numbers."""
        import paddle

        plan, job = self.plan, self.job
        paddle.seed(1)
        rows = ps.paddle.Embedding(4, table="words", seed=11)
        model = paddle.nn.Sequential(
            rows,
            paddle.nn.BatchNorm1D(4),
            paddle.nn.Linear(4, 8),
            paddle.nn.ReLU(),
            paddle.nn.Dropout(0.2),
            paddle.nn.Linear(8, 1),
        )
        optimizer = ps.paddle.optimizer(model, "adam", learning_rate=0.02, table="bias")
        if plan["loads"]:
            self.load()
        optimizer.refresh()
        for step in job.prefetch(range(job.step, plan["steps"]), lambda step: {rows: self.ids(step)}):
            self.pace()
            self.save(step)
            if plan["schedule"]:
                optimizer.set_lr(0.02 / (1 + step))
            paddle.seed(1000 * step + job.rank)
            keys = self.ids(step)
            wanted = paddle.to_tensor((keys % 2).astype(np.float32).reshape(-1, 1))
            loss = paddle.nn.functional.mse_loss(model(paddle.to_tensor(keys)), wanted)
            loss.backward()
            optimizer.step(share=share(plan, job.rank, step, job.world))
            optimizer.clear_grad()
        job.barrier("trained")
        self.save(plan["steps"])
        learned = {name: np.array(each) for name, each in model.named_parameters() if not each.stop_gradient}
        self.leave(steps=job.step, **learned)

    def count(self):
        """Every other strategy: what was pushed is there once."""
        plan, job, strategy = self.plan, self.job, self.strategy
        rows = specs.SparseTable(dim=2, init=specs.Constant(value=0.0), rule=specs.Sgd(learning_rate=1.0))
        dense = specs.DenseTable(arrays=(specs.Array(name="t", shape=(60,)),), rule=specs.Sgd(learning_rate=1.0))
        table = job.table(rows, "counts")
        counts = table.number
        totals = strategy.open_dense("totals", dense, np.zeros(60, np.float32))
        lives = told_by(self.directory, job.rank)
        life, first = len(lives), job.step or (lives[-1]["safe"] if lives else 0)
        told = os.open(self.directory / f"told.{job.rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(told, f"life {first}\n".encode())
        values = np.zeros(60, np.float32)
        steps = range(first, plan["steps"] + plan["unequal"] * job.rank * (strategy.counts_steps is False))
        looks = lambda step: {table: np.concatenate([marks(job.rank, life, step), COMMON])}  # noqa: E731
        for step in job.prefetch(steps, looks):
            self.pace()
            self.save(step)
            os.write(told, f"begun {step}\n".encode())
            keys = np.concatenate([marks(job.rank, life, step), COMMON])
            strategy.pull(counts, keys)
            once = [(counts, keys, np.full((keys.size, 2), -1, np.float32))]
            if step % 2:
                strategy.push(*once.pop(), share=1.0)
            strategy.learn_dense(totals, np.full(60, -1, np.float32), values, pushes=once, share=1.0)
            if step % plan["flush_every"] == 0:
                strategy.flush()
                os.write(told, f"safe {step}\n".encode())
        job.barrier("pushed")
        arrays = {"common": job.client.pull(counts, COMMON, create=False), "totals": job.client.pull_dense(totals)}
        for rank in range(job.world):
            for number, each in enumerate(told_by(self.directory, rank)):
                keys = [marks(rank, number, push) for push in range(each["first"], each["begun"])]
                if keys:
                    arrays[f"marks.{rank}.{number}"] = job.client.pull(counts, np.stack(keys), create=False)[..., 0]
        self.leave(**arrays)


def main():
    plan = json.loads(Path(sys.argv[1]).read_text())
    job = ps.init(
        plan["strategy"],
        durability_ms=plan["durability_ms"],
        state_dir=plan["state_dir"],
        timeout_s=plan["timeout_s"],
        grace_s=plan["timeout_s"],
        shards=8,
        k_steps=3,
        max_merge_var_num=2,
        is_sgd_optimizer=1,
        send_queue_size=plan["queue"],
        prefetch=plan["prefetch"],
    )
    if job.is_server:
        sys.exit(job.serve())
    script = Script(plan, job)
    if plan["layers"]:
        script.learn_layers()
    elif plan["strategy"] == "sync":
        script.learn()
    else:
        script.count()


if __name__ == "__main__":
    main()
