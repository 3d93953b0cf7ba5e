"""Run directories as launchers and trainers leave them, for tests of the dashboard."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import TextIO

TERMS = {"job_id": "ctr", "mode": "collective", "least": 1, "most": 1, "max_restart": 3}
WALL = 1_700_000_000.0


def journal(*events: dict[str, object], job_id: str = "ctr", workers: int = 2) -> str:
    """The lines of a journal: one formation, and what happened in it."""
    columns = {"name": "n0", "host": "10.0.0.1", "trainers": workers, "servers": 0, "heters": 0}
    lines: list[dict[str, object]] = [
        {"run": "katkao", "wall": WALL, "setting": {"terms": {**TERMS, "job_id": job_id}, "offer": {}}},
        {"t": 50.0, "who": "node", "event": {"is": "Start"}, "actions": []},
        {"formation": "1 n0", "cluster": {"generation": 1, "size": 1, "nodes": columns}},
        {
            "t": 51.0,
            "who": "node",
            "event": {"is": "MessageFromMaster", "message": {"is": "Form", "cluster": {"formation": "1 n0"}}},
            "actions": [{"is": "StartWorkers", "seats": [seat(rank) for rank in range(workers)], "restarts": 0}],
        },
        *events,
    ]
    return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)


def seat(rank: int) -> dict[str, object]:
    return {"is": "Seat", "role": "trainer", "rank": rank, "local_rank": rank, "node": "n0", "host": "10.0.0.1"}


def failure(rank: int, at: float = WALL + 10, **changes: object) -> dict[str, object]:
    return {
        "is": "Failure",
        "kind": "exited",
        "at": at,
        "node": "n0",
        "host": "10.0.0.1",
        "role": "trainer",
        "rank": rank,
        "key": f"trainer.{rank}",
        "exit_code": 1,
        "signal": None,
        "traceback": "Traceback (most recent call last):\nValueError: <b>broken</b>",
        **changes,
    }


def exited(rank: int, t: float, why: dict[str, object] | None = None) -> dict[str, object]:
    event = {"is": "WorkerExited", "key": f"trainer.{rank}", "generation": 1, "failure": why}
    return {"t": t, "who": "node", "event": event, "actions": []}


def message(t: float, kind: str, *actions: dict[str, object], **fields: object) -> dict[str, object]:
    event = {"is": "MessageFromMaster", "message": {"is": kind, **fields}}
    return {"t": t, "who": "node", "event": event, "actions": list(actions)}


def launch_directory(path: Path, text: str | None = None, **report: object) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "events.jsonl").write_text(journal() if text is None else text)
    state = {"state": "succeeded", "host": "127.0.0.1", "address": "", "restarts": 0, "reason": "", "exit_code": 0}
    (path / "state.json").write_text(json.dumps({**state, "changed_s": WALL + 60, **report}))
    return path


def progress(samples: int, loss: float, time_s: float = WALL, epoch: int = 0, **changes: object) -> dict[str, object]:
    return {
        "time": time_s,
        "event": "progress",
        "epoch": epoch,
        "stage": "train",
        "batch": samples // 100,
        "samples": samples,
        "samples_per_s": 1000.0,
        "metrics": {"loss": loss},
        "recent": {"loss": loss},
        "left_s": 1.0,
        "shares": {"compute": 0.9},
        **changes,
    }


def lines(*entries: object) -> str:
    return "".join(f"{json.dumps(entry)}\n" for entry in entries)


def train_directory(path: Path, *entries: object, outcome: object = None) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "metrics.jsonl").write_text(lines(*(entries or [progress(100, 0.7), progress(200, 0.6)])))
    if outcome is not None:
        (path / "outcome.json").write_text(json.dumps(outcome))
    return path


def locked(path: Path) -> TextIO:
    """A file as a process that writes it has it; closing it gives the lock back."""
    file = path.open("a")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def with_config(path: Path, file: str, runner: str = "ctr", **settings: object) -> None:
    """What `umiak train` keeps of its config, with ``__`` for the dots in the names of settings."""
    named = {name.replace("__", "."): each for name, each in settings.items()}
    (path / "config.json").write_text(json.dumps({"config": file, "runner": runner, "settings": named}))
