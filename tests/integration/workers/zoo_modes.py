"""Trains every model of the zoo, one after another, in one job: under `umiak launch`, as a trainer or as a server.

    zoo_modes.py STRATEGY DIRECTORY MODEL=OVERRIDES ...

The first trainer writes what was reached into DIRECTORY/reached.json. Models share the job's servers; the names of their tables begin with theirs.
"""

import json
import os
import sys

from umiak.ps.environment import seat
from umiak.ps.job import Job, Options
from umiak.ps.settings import read

strategy, directory, *wanted = sys.argv[1:]
if strategy == "collective":
    from umiak.ps.collective import CollectiveClient
    from umiak.ps.environment import Seat
    from umiak.ps.paddle_group import PaddleGroup

    group = PaddleGroup()
    job = Job(
        Seat(rank=group.rank, world=group.world),
        strategy,
        read({}, "sync"),
        Options(),
        connect=lambda: CollectiveClient(group),
    )
else:
    flags = {"k_steps": 10} if strategy == "geo" else {}
    job = Job(seat(os.environ), strategy, read(flags, strategy), Options())
    if job.is_server:
        raise SystemExit(job.serve())

from umiak.core.value import replace
from umiak.train import files
from umiak.train.config import RunnerClass
from umiak.train.performing import FREE
from umiak.train.plan import plan
from umiak.train.standing import standing
from umiak.train.stopping import Stopping
from umiak.train.stopwatch import Stopwatch
from umiak.train.telling import Teller
from umiak.train.together import Together
from umiak.train.trainer import Company, Settings, Trainer

reached = {}
for each in wanted:
    model, _, overrides = each.partition("=")
    _, found = files.load(f"umiak.models.{model}", json.loads(overrides))
    assert found.config, found.problems
    made = plan(found.config, standing({}, None))
    act = next(act for act in made.acts if act.kind is RunnerClass.TRAIN)
    watch = Stopwatch()
    company = Company(
        job=job,
        together=Together(job, watch, waits_for_nobody=strategy in FREE),
        watch=watch,
        teller=Teller(None, is_silent=True),
        stopping=Stopping(),
    )
    settings = Settings(
        hyper_parameters=made.hyper_parameters, learning=made.learning, prefix=f"{model}/", config=made.config
    )
    outcome = Trainer(replace(act, checkpoint=None), settings, company).train()
    reached[model] = {"samples": outcome.history[-1].samples, **outcome.history[-1].evaluated}
job.finish()
if job.is_first:
    with open(os.path.join(directory, "reached.json"), "w") as file:
        json.dump(reached, file)
