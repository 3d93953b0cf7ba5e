"""Trains, stops, resumes, evaluates and exports with the engine of `tests.support.numpy_engine`, in a process that never imports Paddle.

    python -m tests.support.numpy_training epochs|online DIRECTORY

Prints what came of it as JSON.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.support import train_runs
from tests.support.numpy_engine import NumpyFramework
from umiak.cli import train
from umiak.ps.clients.local import LocalClient
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import Sync
from umiak.train.reports.reporter import Reporter
from umiak.train.run import evaluator
from umiak.train.run.context import Settings, TrainerContext
from umiak.train.run.epoch_loop import EpochLoop
from umiak.train.run.online import OnlineLoop
from umiak.train.run.peers import Peers
from umiak.train.run.stop_signal import StopSignal
from umiak.train.run.stopwatch import Stopwatch
from umiak.train.run.trainer import Trainer, TrainOutcome

ONLINE = """\
workspace: "./"
mode: online
runner:
- {name: online, class: online_learning, start_day: 20260131, end_day: 20260131, split_interval: 480, seed: 1, phases: train,
   save_checkpoint_path: kept, save_inference_path: served, save_step_path: steps, save_step_interval: 3, checkpoint_per_pass: 1, save_delta_frequency: 1}
phase:
- {name: train, model: "model.py", dataset_name: d}
dataset:
- {name: d, data_path: data/days, batch_size: 64, sparse_slots: "click 1 2 3 4", dense_slots: "price:2"}
"""

MEASURED = """
evaluation:
  slices: "2"
  most_slices: 3
  metrics:
  - {name: gauc, group: "1"}
  - {name: ndcg, group: "1", k: 3}
  - {name: log_loss}
  - {name: auc, title: finer}
"""


def trained(runner: str, *words: str, resume: bool = False, stop_at: int | None = None) -> TrainOutcome:
    """One run, as `umiak train` would put it together, with another framework."""
    parsed = train.parse(["-m", "config.yaml", "-o", f"mode={runner}", *words], {})
    found = train.examined(parsed, {})
    assert found.plan, found.problems
    (run,) = found.plan.runs
    watch, stopping, framework = Stopwatch(), StopSignal(), NumpyFramework()
    settings = Settings(config=found.plan.config, resume=resume, evaluation=found.plan.evaluation)

    def stop(step: int) -> None:
        if step == stop_at:
            stopping.ask(signal.SIGTERM)

    framework.on_step = stop
    reporter = Reporter(None, err=io.StringIO())
    if run.kind.value == "infer":
        rows = evaluator.infer(run, settings, framework, watch, reporter, connect=made)
        return TrainOutcome(history=tuple(rows))
    job = made()
    context = TrainerContext(
        framework=framework, job=job, peers=Peers(job, watch), watch=watch, reporter=reporter, stopping=stopping
    )
    outcome = Trainer(run, settings, context, OnlineLoop if run.runner.online else EpochLoop).train()
    job.finish()
    return outcome


def made() -> Session:
    return Session(PsSeat(), Sync(), SessionOptions(), connect=LocalClient)


def epochs() -> dict[str, Any]:
    """Two epochs at once; the same with a stop and a resume in the middle; evaluated and exported."""
    whole = trained("alone")
    contents = train_runs.contents(Path("out/alone/1"))
    for name in ("out", "steps"):
        os.rename(name, f"{name}.whole")
    served = ["-o", "runner.alone.save_inference_path=served"]
    stopped = trained("alone", *served, stop_at=7)
    resumed = trained("alone", *served, resume=True)
    evaluated = trained("infer")
    with open("config.yaml", "a", encoding="utf-8") as file:
        file.write(MEASURED)
    measured = trained("infer").history[-1].evaluated
    return {
        "measured": measured,
        "auc": whole.history[-1].evaluated["auc"],
        "stopped": [stopped.is_stopped, stopped.is_resumable, len(stopped.history)],
        "same rows": [row.trained for row in resumed.history] == [row.trained for row in whole.history],
        "same tables": train_runs.contents(Path("out/alone/1")) == contents,
        "tables": sorted(contents),
        "evaluated": [row.evaluated["auc"] for row in evaluated.history],
        "served": sorted(os.listdir("served")),
    }


def online() -> dict[str, Any]:
    """Three passes at once; the same with a stop and a resume in the middle of the second."""
    for number, text in enumerate(train_runs.lines(1200, 3)):
        directory = Path("data/days/20260131", f"{8 * number:02}00")
        directory.mkdir(parents=True)
        (directory / "part").write_text(text)
    Path("config.yaml").write_text(ONLINE)
    whole = trained("online")
    contents = train_runs.contents(Path("kept/20260131/3"))
    for name in ("kept", "steps", "served"):
        os.rename(name, f"{name}.whole")
    stopped = trained("online", stop_at=9)
    resumed = trained("online", resume=True)
    return {
        "passes": [(row.day, row.number, sorted(row.evaluated)) for row in whole.history],
        "stopped": [stopped.is_stopped, stopped.is_resumable, len(stopped.history)],
        "same rows": [(row.trained, row.evaluated) for row in resumed.history]
        == [(row.trained, row.evaluated) for row in whole.history],
        "same tables": train_runs.contents(Path("kept/20260131/3")) == contents,
        "served": sorted(os.listdir("served/20260131")),
    }


if __name__ == "__main__":
    what, where = sys.argv[1:]
    os.chdir(where)
    train_runs.made(Path())
    answer = epochs() if what == "epochs" else online()
    assert "paddle" not in sys.modules
    print(json.dumps(answer))
