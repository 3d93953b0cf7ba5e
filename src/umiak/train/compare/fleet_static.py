"""umiak's side of a static comparison: the user's program on tables, in the manner of PaddleRec's `static_ps_trainer.py`. A program.

    umiak launch --server_num 2 --trainer_num 2 -m umiak.train.compare.fleet_static DIRECTORY
    python -m umiak.train.compare.fleet_static DIRECTORY                alone: tables in this process

The calls are those of any script for fleet, and what `umiak.fleet` makes of them is what is compared. Trainer r of n takes each n-th batch of the reader.
"""

from __future__ import annotations

import itertools
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.distributed import fleet

from umiak.fleet import exporting, patching
from umiak.fleet import job as fleet_jobs
from umiak.train.compare import records, static_code

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.data.array_types import AnyArray


def main(argv: list[str]) -> int:
    """The exit status."""
    (directory,) = argv
    facts = records.facts(directory)
    patching.install()
    paddle.enable_static()
    fleet.init(fleet.PaddleCloudRoleMaker())
    built = static_code.build(facts)
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    built.model.create_optimizer(strategy)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return 0
    executor = paddle.static.Executor(paddle.CPUPlace())
    paddle.seed(facts["seed"])
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    paddle.seed(facts["seed"] + 1)
    _train(directory, facts, built, executor)
    fleet.stop_worker()
    return 0


def _train(directory: str, facts: JsonObject, built: static_code.BuiltProgram, executor: Any) -> None:
    rank, trainers = fleet.worker_index(), fleet.worker_num()
    program = paddle.static.default_main_program()
    writer = records.StepWriter(os.path.join(directory, records.OURS)) if rank == 0 else None
    if writer is not None:
        records.write_facts(os.path.join(directory, records.OURS), {"remarks": _remarks()})
    own = itertools.islice(static_code.batches(facts), rank, facts["steps"] * trainers, trainers)
    for step, batch in enumerate(own):
        if writer is not None and step == 0:
            writer.write(0, _values())
        told = {"share": 1.0 / trainers, "size": len(batch[0]), "epoch": 0}
        records.write_batch(os.path.join(directory, records.BATCHES), rank=rank, step=step, fields=batch, facts=told)
        feed = dict(zip(built.feeds, batch, strict=False))
        (loss,) = executor.run(program, feed=feed, fetch_list=[built.loss])
        if writer is not None:
            writer.write(step + 1, _values(), loss=float(np.mean(loss)))


def _remarks() -> list[str]:
    """What is done otherwise than by Paddle, as training says it."""
    job = fleet_jobs.current()
    assert job is not None
    if not job.runners:
        return ["the model never gives fleet its optimizer: Paddle itself trains on both sides"]
    return [
        text
        for runner in job.runners
        for text in (*runner.plan.remarks, *(runner.plan.learning.remarks if runner.plan.tables else ()))
    ]


def _values() -> dict[str, AnyArray]:
    """All parameters: those of tables in full size."""
    job = fleet_jobs.current()
    assert job is not None
    for runner in job.runners:
        runner.bind(None)
    program = job.runners[0].original if job.runners else paddle.static.default_main_program()
    scope = paddle.static.global_scope()
    found = {}
    for parameter in program.all_parameters():
        if parameter.name in [*job.tables]:
            found[parameter.name] = exporting.rows_of(job, parameter.name, int(parameter.shape[0]))
        else:
            found[parameter.name] = np.array(scope.find_var(parameter.name).get_tensor())
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
