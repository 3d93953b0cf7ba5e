"""Trains every model of the zoo, one after another, in one job: under `umiak launch`, as a trainer or as a server.

    zoo_modes.py STRATEGY DIRECTORY MODEL=OVERRIDES ...

The first trainer writes what was reached into DIRECTORY/reached.json. Models share the job's servers; the names of their tables begin with theirs.
"""

import json
import os
import sys

from umiak.ps.environment import seat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import Collective, Geo, by_name

strategy, directory, *wanted = sys.argv[1:]
if strategy == "collective":
    from umiak.ps.clients.collective import CollectiveClient
    from umiak.ps.clients.paddle_group import PaddleGroup
    from umiak.ps.environment import PsSeat

    group = PaddleGroup()
    job = Session(
        PsSeat(rank=group.rank, world=group.world),
        Collective(),
        SessionOptions(),
        connect=lambda: CollectiveClient(group),
    )
else:
    job = Session(seat(os.environ), Geo(every=10) if strategy == "geo" else by_name(strategy), SessionOptions())
    if job.is_server:
        raise SystemExit(job.serve())

from umiak.core.value import replace
from umiak.train.config import load
from umiak.train.config.values import RunnerClass
from umiak.train.engines import choice
from umiak.train.plan.plan import plan
from umiak.train.plan.process_role import process_role
from umiak.train.reports.reporter import Reporter
from umiak.train.run.context import Settings, TrainerContext
from umiak.train.run.epoch_loop import EpochLoop
from umiak.train.run.peers import Peers
from umiak.train.run.stop_signal import StopSignal
from umiak.train.run.stopwatch import Stopwatch
from umiak.train.run.trainer import Trainer

reached = {}
for each in wanted:
    model, _, overrides = each.partition("=")
    _, found = load.load(f"umiak.models.{model}", json.loads(overrides))
    assert found.config, found.problems
    made = plan(found.config, process_role({}, None))
    run = next(run for run in made.runs if run.kind is RunnerClass.TRAIN)
    watch = Stopwatch()
    context = TrainerContext(
        framework=choice.framework(),
        job=job,
        peers=Peers(job, watch, waits_for_nobody=strategy in ("async", "half_async", "geo")),
        watch=watch,
        reporter=Reporter(None, is_silent=True),
        stopping=StopSignal(),
    )
    settings = Settings(
        hyper_parameters=made.hyper_parameters, learning=made.learning, prefix=f"{model}/", config=made.config
    )
    outcome = Trainer(replace(run, runner=replace(run.runner, checkpoint=None)), settings, context, EpochLoop).train()
    reached[model] = {"samples": outcome.history[-1].samples, **outcome.history[-1].evaluated}
job.finish()
if job.is_first:
    with open(os.path.join(directory, "reached.json"), "w") as file:
        json.dump(reached, file)
