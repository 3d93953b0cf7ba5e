"""Writes the same runs for TensorBoard and for MLflow, with their own libraries: write_runs.py DIRECTORY RUNS POINTS."""

import json
import sys
from pathlib import Path

from mlflow.entities import Metric
from mlflow.tracking import MlflowClient
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

directory, runs, points = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])


def loss_at(number: int) -> float:
    """The same curve for everybody."""
    return 0.2 + 0.5 / (1 + number / 100)


for run in range(runs):
    writer = EventFileWriter(str(directory / "tensorboard" / f"run-{run:03}"))
    for number in range(points):
        values = [
            Summary.Value(tag=tag, simple_value=y)
            for tag, y in (("loss", loss_at(number)), ("auc", 1 - loss_at(number)))
        ]
        writer.add_event(Event(step=512 * (number + 1), wall_time=1.7e9 + number, summary=Summary(value=values)))
    writer.close()

client = MlflowClient(f"sqlite:///{directory / 'mlflow.db'}")
names = []
for run in range(runs):
    made = client.create_run("0", run_name=f"run-{run:03}")
    names.append(made.info.run_id)
    for key, value in (("loss", loss_at), ("auc", lambda number: 1 - loss_at(number))):
        metrics = [
            Metric(key, value(number), int(1.7e12) + 1000 * number, 512 * (number + 1)) for number in range(points)
        ]
        client.log_batch(made.info.run_id, metrics=metrics)
    client.set_terminated(made.info.run_id)
(directory / "runs.json").write_text(json.dumps(names))
