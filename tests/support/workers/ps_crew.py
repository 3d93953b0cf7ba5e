"""A crew of parameter servers and trainers: real processes, killed with -9 at random moments and started again in place.

All of them are forked from this one, which has imported everything, so that a start takes milliseconds. Run with a plan
(JSON) as the only argument; what the tables hold at the end, and what the trainers know, is left in the plan's directory.

    plan: dir, mode (sync | async), servers, trainers, kills, victims, steps, seed, snapshot_bytes

Every trainer's work is a function of rank, step and the rows that it pulled, so a test can do the same alone.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import socket
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import umiak_native
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]

WORDS: dict[str, Any] = {
    "kind": "sparse",
    "dim": 4,
    "seed": 11,
    "init": {"kind": "uniform", "low": -0.5, "high": 0.5},
    "optimizer": {"rule": "adam", "learning_rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
    "decay": {"decoupled": 0.1},
    "every_row": True,
}
COUNTS: dict[str, Any] = {
    "kind": "sparse",
    "dim": 2,
    "seed": 0,
    "init": {"kind": "constant", "value": 0.0},
    "optimizer": {"rule": "sgd", "learning_rate": 1.0},
}
BIAS: dict[str, Any] = {
    "kind": "dense",
    "arrays": [{"name": "b", "shape": [100]}],
    "optimizer": {"rule": "adam", "learning_rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
}
TOTALS: dict[str, Any] = {
    "kind": "dense",
    "arrays": [{"name": "t", "shape": [100]}],
    "optimizer": {"rule": "sgd", "learning_rate": 1.0},
}
SHARDS = 8
VOCABULARY = (np.arange(300, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(3)
SPARE_STEPS = 20
"""After the last kill, so many steps more: enough for every trainer to hear of it before it gets there."""


def batch(seed: int, rank: int, step: int) -> Keys:
    """The keys of one trainer's step."""
    chosen: Keys = np.unique(np.random.default_rng([seed, rank, step, 0]).choice(VOCABULARY, 12))
    return chosen


def gradient(seed: int, rank: int, step: int, rows: Floats) -> Floats:
    """Depends on the rows, so a step that was computed from wrong rows shows for ever."""
    noise = np.random.default_rng([seed, rank, step, 1]).standard_normal(rows.shape, dtype=np.float32)
    return rows * np.float32(0.25) + noise


def marks(rank: int, push: int) -> Keys:
    """Keys that only this push of this trainer touches: how often it counted can be read from them."""
    return np.array([(rank + 1) << 40 | push << 8 | n for n in range(6)], dtype=np.uint64)


class Board:
    """A page that all processes share: each trainer's step, and the last one to do."""

    LAST = 64

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, 4096)

    def __getitem__(self, place: int) -> int:
        return int(struct.unpack_from("<q", self._page, 8 * place)[0])

    def __setitem__(self, place: int, value: int) -> None:
        struct.pack_into("<q", self._page, 8 * place, value)


class Crew:
    """The plan, and who of the crew is running."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.directory = Path(plan["dir"])
        self.board = Board()
        self.ports = free_ports(plan["servers"])
        self.running: dict[int, tuple[str, int]] = {}
        self.killed: set[int] = set()
        self.starts = 0

    # ---- what the processes do

    def serve(self, index: int) -> int:
        plan = self.plan
        log = {
            "dir": str(self.directory / f"state.{index}"),
            "interval_ms": 1,
            "snapshot_bytes": plan["snapshot_bytes"],
        }
        config = {
            "port": self.ports[index],
            "index": index,
            "servers": plan["servers"],
            "shards": SHARDS,
            "world": plan["trainers"],
            "log": log,
        }
        server = umiak_native.Server(json.dumps(config))
        server.start()
        verdict = json.loads(server.wait() or "{}")
        server.stop()
        return 0 if verdict.get("ok") else 9

    def client(self, rank: int) -> umiak_native.Client:
        endpoints = [f"127.0.0.1:{port}" for port in self.ports]
        config = {"endpoints": endpoints, "rank": rank, "world": self.plan["trainers"], "shards": SHARDS}
        client = umiak_native.Client(json.dumps(config))
        client.connect()
        return client

    def train_sync(self, rank: int) -> int:
        seed, board = self.plan["seed"], self.board
        client = self.client(rank)
        words = client.create_table("words", json.dumps(WORDS))
        counts = client.create_table("counts", json.dumps(COUNTS))
        bias = client.create_table("bias", json.dumps(BIAS))
        if rank == 0:
            client.set_dense(bias, np.zeros(100, np.float32), if_unset=True)
        client.barrier("ready")
        step, ahead = client.resume(), None
        with (self.directory / f"told.{rank}").open("a", buffering=1) as told:
            while step < board[Board.LAST]:
                keys = batch(seed, rank, step)
                # In most steps they have come with the end of the one before.
                rows = client.pull(words, keys, step=step) if ahead is None else ahead
                next_keys = batch(seed, rank, step + 1)
                ahead = None if step % 7 == 3 else np.full((next_keys.size, 4), np.nan, np.float32)
                next_rows = [] if ahead is None else [(words, next_keys, ahead)]
                values = client.pull_dense(bias, step=step)
                # A number that no life before this one has used: each push outside of the steps counts for itself.
                push = step * 1000 + os.getpid() % 1000
                told.write(f"begun {push}\n")
                client.push(counts, marks(rank, push), np.full((6, 2), -1, np.float32))
                update, dense = gradient(seed, rank, step, rows), gradient(seed, rank, step, values)
                together = [(words, keys, update)] if step % 4 == 1 else []
                if not together:
                    client.push(words, keys, update, step=step)
                if step % 2:
                    # In one call; the answer to its commit is what the next pull gives too.
                    pieces, out = [dense[:30], dense[30:]], np.empty(100, np.float32)
                    after = client.learn_dense(bias, pieces, out, pushes=together, step=step, next_rows=next_rows)
                    told.write(f"durable {push}\n")
                    assert np.array_equal(after, client.pull_dense(bias, step=step + 1))
                else:
                    client.push_dense(bias, dense, step=step)
                    client.prepare(step)
                    # Everything before a step that is prepared is on disk with it.
                    told.write(f"durable {push}\n")
                    client.commit(step, next_rows=next_rows)
                step += 1
                board[rank] = step
        if rank == 0:
            last = client.pull(words, VOCABULARY, create=False, step=step)
            # Only now has everybody begun the last step, and told of it.
            told_pushes = {(r, push) for r in range(self.plan["trainers"]) for push, _ in told_by(self.directory, r)}
            mark_keys = np.concatenate([marks(r, push) for r, push in sorted(told_pushes)])
            np.savez(
                self.directory / "end.npz",
                words=last,
                bias=client.pull_dense(bias, step=step),
                mark_keys=mark_keys,
                marks=client.pull(counts, mark_keys, create=False),
                steps=step,
            )
        client.barrier("read")
        client.done()
        return 0

    def train_async(self, rank: int) -> int:
        client = self.client(rank)
        counts = client.create_table("counts", json.dumps(COUNTS))
        totals = client.create_table("totals", json.dumps(TOTALS))
        if rank == 0:
            client.set_dense(totals, np.zeros(100, np.float32), if_unset=True)
        client.barrier("ready")
        push, values = 0, np.zeros(100, np.float32)
        while push < self.board[Board.LAST]:
            keys = np.concatenate([marks(rank, push), batch(self.plan["seed"], rank, push)])
            rows = np.full((len(keys), 2), -1, np.float32)
            own, ones = np.full((6, 2), np.nan, np.float32), np.full(100, -1, np.float32)
            next_rows = [(counts, marks(rank, push), own)] if push % 3 else []
            if push % 2:
                client.push(counts, keys, rows)
                client.learn_dense(totals, ones, values, next_rows=next_rows)
            else:
                client.learn_dense(totals, ones, values, pushes=[(counts, keys, rows)], next_rows=next_rows)
            push += 1
            assert (values >= push).all(), "all of this trainer's own pushes are in the answer"
            assert not next_rows or (own == 1).all(), "and in the rows that come with it"
            self.board[rank] = push
        client.barrier("pushed")
        if rank == 0:
            pushes = [self.board[r] for r in range(self.plan["trainers"])]
            mark_keys = np.concatenate([marks(r, push) for r, count in enumerate(pushes) for push in range(count)])
            np.savez(
                self.directory / "end.npz",
                words=client.pull(counts, VOCABULARY, create=False),
                marks=client.pull(counts, mark_keys, create=False),
                totals=client.pull_dense(totals),
                pushes=pushes,
            )
        client.barrier("read")
        client.done()
        return 0

    # ---- who runs

    def start(self, role: str, number: int) -> None:
        self.starts += 1
        pid = os.fork()
        if pid:
            self.running[pid] = (role, number)
            return
        code = 70
        try:
            log = os.open(self.directory / f"{role}.{number}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 2)
            work = (
                self.serve if role == "server" else self.train_sync if self.plan["mode"] == "sync" else self.train_async
            )
            code = work(number)
        except BaseException:  # noqa: BLE001 (a forked process must never return into its parent's loop)
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def reap(self) -> None:
        while self.running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            role, number = self.running.pop(pid)
            if pid in self.killed and os.WIFSIGNALED(status):
                self.start(role, number)
            elif status != 0:
                self.end()
                text = (self.directory / f"{role}.{number}.log").read_text()[-3000:]
                raise SystemExit(f"{role} {number} ended with {os.waitstatus_to_exitcode(status)}:\n{text}")

    def end(self) -> None:
        for pid in self.running:
            os.kill(pid, signal.SIGKILL)

    def kill_one(self, dice: random.Random) -> bool:
        victims = self.plan["victims"]
        pids = sorted(pid for pid, (role, _) in self.running.items() if role in victims and pid not in self.killed)
        if pids:
            pid = dice.choice(pids)
            self.killed.add(pid)
            os.kill(pid, signal.SIGKILL)
        return bool(pids)

    def run(self) -> None:
        plan = self.plan
        dice = random.Random(plan["seed"])
        trainers = range(plan["trainers"])
        self.board[Board.LAST] = plan["steps"] or 1 << 40
        for role, count in (("server", plan["servers"]), ("trainer", plan["trainers"])):
            for number in range(count):
                self.start(role, number)
        kills, wanted, due = 0, 1, time.monotonic()
        while self.running:
            self.reap()
            reached = min(self.board[rank] for rank in trainers)
            if kills < plan["kills"] and time.monotonic() >= due and reached >= wanted:
                kills += self.kill_one(dice)
                due = time.monotonic() + dice.uniform(0, 0.06)
                if kills % 5 == 0:
                    # Four of five may hit processes that have hardly begun; then the crew gets on a little.
                    wanted = reached + 2
                if kills == plan["kills"] and not plan["steps"]:
                    self.board[Board.LAST] = max(self.board[rank] for rank in trainers) + SPARE_STEPS
            time.sleep(0.002)
        print(json.dumps({"kills": kills, "starts": self.starts}))


def told_by(directory: Path, rank: int) -> list[tuple[int, bool]]:
    """The pushes that a trainer's lives began, and whether it knows that they are durable. The last line may be cut."""
    known: dict[int, bool] = {}
    for line in (directory / f"told.{rank}").read_text().splitlines():
        word, _, push = line.partition(" ")
        if word in ("begun", "durable") and push:
            known[int(push)] = word == "durable" or known.get(int(push), False)
    return sorted(known.items())


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


if __name__ == "__main__":
    Crew(json.loads(sys.argv[1])).run()
