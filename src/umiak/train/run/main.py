"""Executes a run in this process, as its role says: trains, evaluates, serves. A program.

    execute(run, plan, options, environ)  ->  how it ended

What has yet to be started on this node is not its business. A server imports no framework.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import umiak_native

from umiak.adapters.stores import storage
from umiak.core.problem import Exit, UmiakError
from umiak.core.value import replace, value
from umiak.fluid.installing import install as install_fluid
from umiak.ps import environment, strategies
from umiak.ps import use as use_session
from umiak.ps.clients.collective import CollectiveClient, Group
from umiak.ps.clients.local import LocalClient
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.train.checkpoints import runs
from umiak.train.checkpoints.mirror import mirrored
from umiak.train.compare.recording import RecordedEnough, RecordedFramework
from umiak.train.config.values import Device, RunnerClass
from umiak.train.engines import choice
from umiak.train.plan.plan import Ended, Plan, Run, RunRole
from umiak.train.reports.kept_config import kept_config, parts_of
from umiak.train.reports.reporter import Reporter
from umiak.train.reports.rundir import RunDirectory
from umiak.train.run import evaluator
from umiak.train.run.context import Settings, TrainerContext
from umiak.train.run.epoch_loop import EpochLoop
from umiak.train.run.online import OnlineLoop
from umiak.train.run.peers import Peers
from umiak.train.run.stop_signal import StopSignal
from umiak.train.run.stopwatch import Stopwatch
from umiak.train.run.streams.loop import StreamLoop
from umiak.train.run.trainer import RunLoop, Trainer, TrainOutcome

if TYPE_CHECKING:
    from umiak.ps.strategies import Collective, Strategy
    from umiak.train.engines.engine import Framework

LINGER_S = 25.0
"""How long a server that is asked to end waits for its trainers, which save first."""


@value
class RunOptions:
    """What was asked for on the command line, besides the config."""

    resume: bool = False
    run_dir: str | None = None
    is_json: bool = False
    is_quiet: bool = False
    columns: int | None = None
    """How wide a line may be that is renewed in place, where stderr itself is no terminal."""
    record_dir: str = ""
    """Where steps are recorded, for a comparison; empty: nowhere."""
    record_steps: int = 0


def execute(run: Run, plan: Plan, options: RunOptions, environ: Mapping[str, str]) -> Ended:
    """One run, as this process's role is."""
    match run.group.role:
        case RunRole.IDLE:
            return Ended()
        case RunRole.SERVER:
            return Ended(status=_ps_job(run, environ, Stopwatch()).serve(linger_s=LINGER_S))
    install_fluid()  # a model of somebody's may import it; nothing is loaded before
    # Before the data is looked at: what is wrong there is no reason to change a config whose model can't run.
    choice.refuse_old(dict.fromkeys(stage.model for stage in (*run.stages, *filter(None, [run.evaluation]))))
    if run.kind is RunnerClass.INFER:
        return _executed(run, plan, options, environ, StopSignal(), choice.framework())
    with StopSignal() as stopping:
        # Importing a framework takes seconds: a process that is asked to stop meanwhile saves, too.
        with stopping.held():
            framework = choice.framework()
        return _executed(run, plan, options, environ, stopping, framework)


def _executed(
    run: Run,
    plan: Plan,
    options: RunOptions,
    environ: Mapping[str, str],
    stopping: StopSignal,
    framework: Framework,
) -> Ended:
    settings = Settings(
        config=plan.config,
        hyper_parameters=plan.hyper_parameters,
        written=plan.written,
        table_parameters=plan.table_parameters,
        embedding_tables=plan.embedding_tables,
        evaluation=plan.evaluation,
        objective=plan.objective,
        retrieval=plan.retrieval,
        learning=plan.learning,
        resume=options.resume,
    )
    try:
        return _trained(run, settings, options, environ, stopping, framework)
    except umiak_native.PsError as error:
        raise _lost(error, run) from error
    except OSError as error:
        raise _refused(error) from error


def _only_learning(run: Run, steps: int) -> Run:
    """A run that learns so many steps and leaves nothing behind: what is recorded must not touch anybody's checkpoints."""
    runner = replace(
        run.runner,
        epochs=max(run.runner.epochs, steps),
        checkpoint=None,
        step_checkpoint=None,
        save_minutes=None,
        inference=None,
        evaluation=None,
        result_dump_path=None,
    )
    return replace(run, runner=runner, evaluation=None)


def _trained(
    run: Run,
    settings: Settings,
    options: RunOptions,
    environ: Mapping[str, str],
    stopping: StopSignal,
    framework: Framework,
) -> Ended:
    if options.record_dir:
        run = _only_learning(run, options.record_steps)
        framework = RecordedFramework(framework, options.record_dir, steps=options.record_steps)
    run, mirrors = mirrored(run)
    watch = Stopwatch()
    is_first = (run.group.rank or 0) == 0
    run_dir = None if options.run_dir is None else RunDirectory(options.run_dir, run.name)
    reporter = Reporter(
        run_dir,
        is_json=options.is_json,
        is_silent=not is_first,
        is_quiet=options.is_quiet,
        goes_on=options.resume,
        columns=options.columns,
    )
    try:
        if run_dir is not None and is_first:
            run_dir.write_config(kept_config(settings.config, settings.written, parts_of(run)))
        if run.kind is RunnerClass.INFER:
            mirrors.fetch()
            reporter.on_closed = _end_quietly
            evaluator.infer(run, settings, framework, watch, reporter, connect=lambda: _alone(watch))
            return Ended()
        reporter.on_closed = lambda: stopping.ask(signal.SIGPIPE)
        job = _job(run, environ, watch, framework)
        context = TrainerContext(
            framework=framework,
            job=job,
            peers=Peers(job, watch, waits_for_nobody=run.group.is_free),
            watch=watch,
            reporter=reporter,
            stopping=stopping,
            mirrors=mirrors,
        )
        return _ended(_outcome(run, settings, context), context)
    finally:
        reporter.close()


def _outcome(run: Run, settings: Settings, context: TrainerContext) -> TrainOutcome:
    """Train, with everybody who takes part."""
    job = context.job
    use_session(job)
    try:
        try:
            outcome = Trainer(run, settings, context, _loop_of(run)).train()
        except RecordedEnough:
            outcome = TrainOutcome(history=())
        _ = job.client  # servers wait for every trainer, also for one that has found nothing to do
    except BaseException:
        job.abandon()
        raise
    job.finish()
    return outcome


def _loop_of(run: Run) -> Callable[[Trainer], RunLoop]:
    """What a run goes through."""
    if any(stage.dataset.stream is not None for stage in run.stages):
        return StreamLoop
    return OnlineLoop if run.runner.online is not None else EpochLoop


def _ended(outcome: TrainOutcome, context: TrainerContext) -> Ended:
    """Say how it ended, also to the process that started this one."""
    reporter, stopping = context.reporter, context.stopping
    reporter.outcome(is_stopped=outcome.is_stopped, is_resumable=outcome.is_resumable, saved=outcome.saved)
    if not outcome.is_stopped:
        return Ended(stopped_by=stopping.asked_by)
    if not outcome.is_resumable:
        reporter.stopped("stopped; nothing is saved, because there is no save_checkpoint_path")
    elif outcome.saved is None:
        reporter.stopped("stopped before anything was learned: nothing is lost")
    else:
        where = context.mirrors.spoken(outcome.saved)
        reporter.stopped(f"stopped, resumable: everything is in {where}; `--resume` continues from there")
    # Where another trainer was asked, this one was not.
    number = stopping.asked_by or signal.SIGTERM
    return Ended(status=128 + number, stopped_by=number)


def _end_quietly() -> None:
    """The reader of the output has gone: as a program ends that SIGPIPE kills."""
    raise SystemExit(128 + signal.SIGPIPE)


def _job(run: Run, environ: Mapping[str, str], watch: Stopwatch, framework: Framework) -> Session:
    if run.group.role is RunRole.ALONE:
        return _alone(watch)
    if run.group.strategy is None:
        return _collective(framework.group(on_cpu=run.runner.device is Device.CPU), watch)
    return _ps_job(run, environ, watch)


def _alone(watch: Stopwatch) -> Session:
    return _made(environment.PsSeat(), strategies.Sync(), lambda _: watch.timed(LocalClient()))


def _collective(group: Group, watch: Stopwatch) -> Session:
    seat = environment.PsSeat(rank=group.rank, world=group.world)
    return _made(seat, strategies.Collective(), lambda _: watch.timed(CollectiveClient(group)))


def _ps_job(run: Run, environ: Mapping[str, str], watch: Stopwatch) -> Session:
    assert run.group.strategy is not None
    strategy = strategies.by_name(run.group.strategy)
    if run.group.geo_steps:
        strategy = strategies.Geo(every=run.group.geo_steps)
    options = SessionOptions(wire=run.group.wire.value, prefetch=run.group.prefetch_rows)
    return _made(environment.seat(environ), strategy, lambda job: watch.timed(job.connected()), options)


def _made(
    seat: environment.PsSeat,
    strategy: Strategy | Collective,
    connect: Callable[[Session], umiak_native.Client],
    options: SessionOptions | None = None,
) -> Session:
    job: Session = Session(seat, strategy, options or SessionOptions(), connect=lambda: connect(job))
    return job


def _refused(error: OSError) -> UmiakError:
    """A file, or a directory, that can't be had."""
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    hint = "paths are from the directory that this was started in; --run_dir, save_inference_path and others name them"
    return UmiakError.refused("UM-TRAIN-023", what, hint=hint)


def _lost(error: umiak_native.PsError, run: Run) -> UmiakError:
    """A server or another trainer is gone."""
    kept = [saving.path for saving in (run.runner.checkpoint, run.runner.step_checkpoint) if saving]
    if not kept:
        hint = "save checkpoints: save_checkpoint_path"
    elif any(storage.is_url(path) for path in kept) or runs.latest(kept):
        hint = "`--resume` continues from the latest checkpoint"
    else:
        hint = "no checkpoint had been saved yet: start again; save_step_interval saves within an epoch"
    return UmiakError.of("UM-TRAIN-018", str(error).splitlines()[0], hint=hint, exit_status=Exit.JOB_FAILED)
