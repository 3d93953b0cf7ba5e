"""Performs an act in this process, as its duty says: trains, evaluates, serves. A program.

    perform(act, plan, wanted, environ)  ->  how it ended

What has yet to be started on this node is not its business. A server imports no framework.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import umiak_native

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import value
from umiak.ps import environment, strategies
from umiak.ps import use as use_session
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.train.config.values import Device, RunnerClass
from umiak.train.plan.plan import Act, Duty, Ended, Plan
from umiak.train.reports.reporter import Reporter
from umiak.train.run.peers import Peers
from umiak.train.run.stop_signal import StopSignal
from umiak.train.run.stopwatch import Stopwatch

if TYPE_CHECKING:
    from umiak.ps.strategies import Collective, Strategy
    from umiak.train.run.context import Settings
    from umiak.train.run.trainer import Trainer

LINGER_S = 25.0
"""How long a server that is asked to end waits for its trainers, which save first."""


@value
class RunOptions:
    """What was asked for on the command line, besides the config."""

    resume: bool = False
    run_dir: str | None = None
    is_json: bool = False
    columns: int | None = None
    """How wide a line may be that is renewed in place, where stderr itself is no terminal."""


def perform(act: Act, plan: Plan, wanted: RunOptions, environ: Mapping[str, str]) -> Ended:
    """One act, as this process's duty is."""
    match act.crew.duty:
        case Duty.IDLE:
            return Ended()
        case Duty.SERVER:
            return Ended(status=_ps_job(act, environ, Stopwatch()).serve(linger_s=LINGER_S))
    if act.kind is RunnerClass.INFER:
        return _performed(act, plan, wanted, environ, StopSignal())
    with StopSignal() as stopping:
        # Importing Paddle takes seconds: whoever is asked to stop meanwhile saves, too.
        with stopping.held():
            _import_trainer()
        return _performed(act, plan, wanted, environ, stopping)


def _import_trainer() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No ccache found")  # for compiling operators, which nobody does here
        try:
            import paddle  # noqa: F401
        except ImportError as error:
            problem = Problem(
                code="UM-TRAIN-006",
                what="PaddlePaddle can't be imported",
                why=str(error),
                hint="`python -c 'import paddle'` says more; reinstall it, in the build for this machine",
            )
            raise UmiakError(problem, exit_status=Exit.REFUSED) from error
        import umiak.train.run.trainer  # noqa: F401


def _performed(act: Act, plan: Plan, wanted: RunOptions, environ: Mapping[str, str], stopping: StopSignal) -> Ended:
    _import_trainer()
    from umiak.train.run.context import Settings

    shared = Settings(
        config=plan.config,
        hyper_parameters=plan.hyper_parameters,
        written=plan.written,
        table_parameters=plan.table_parameters,
        embedding_tables=plan.embedding_tables,
        learning=plan.learning,
        resume=wanted.resume,
    )
    try:
        return _trained(act, shared, wanted, environ, stopping)
    except umiak_native.PsError as error:
        raise _lost(error, act) from error
    except OSError as error:
        raise _refused(error) from error


def _trained(act: Act, shared: Settings, wanted: RunOptions, environ: Mapping[str, str], stopping: StopSignal) -> Ended:
    from umiak.train.checkpoints.mirror import mirrored
    from umiak.train.run.context import TrainerContext

    act, mirrors = mirrored(act)
    watch = Stopwatch()
    is_first = (act.crew.rank or 0) == 0
    run_dir = None if wanted.run_dir is None else os.path.join(wanted.run_dir, act.name)
    reporter = Reporter(
        run_dir, is_json=wanted.is_json, is_silent=not is_first, goes_on=wanted.resume, columns=wanted.columns
    )
    try:
        if act.kind is RunnerClass.INFER:
            from umiak.train.run import evaluator

            mirrors.fetch()
            reporter.on_closed = _end_quietly
            evaluator.infer(act, shared, watch, reporter, connect=lambda: _alone(watch))
            return Ended()
        reporter.on_closed = lambda: stopping.ask(signal.SIGPIPE)
        job = _job(act, environ, watch)
        use_session(job)
        try:
            is_free = act.crew.strategy is not None and not act.crew.strategy.waits_for_others
            peers = Peers(job, watch, waits_for_nobody=is_free)
            company = TrainerContext(
                job=job, peers=peers, watch=watch, reporter=reporter, stopping=stopping, mirrors=mirrors
            )
            outcome = _trainer(act)(act, shared, company).train()
            _ = job.client  # servers wait for every trainer, also for one that has found nothing to do
        except BaseException:
            job.abandon()
            raise
        job.finish()
        reporter.outcome(is_stopped=outcome.is_stopped, is_resumable=outcome.is_resumable, saved=outcome.saved)
        if not outcome.is_stopped:
            return Ended(stopped_by=stopping.asked_by)
        if not outcome.is_resumable:
            reporter.talk("stopped; nothing is saved, because there is no save_checkpoint_path")
        elif outcome.saved is None:
            reporter.talk("stopped before anything was learned: nothing is lost")
        else:
            reporter.talk(
                f"stopped, resumable: everything is in {mirrors.spoken(outcome.saved)}; `--resume` continues from there"
            )
        # Where another trainer was asked, this one was not.
        number = stopping.asked_by or signal.SIGTERM
        return Ended(status=128 + number, stopped_by=number)
    finally:
        reporter.close()


def _end_quietly() -> None:
    """Whoever read the output has gone: as a program ends that SIGPIPE kills."""
    raise SystemExit(128 + signal.SIGPIPE)


def _trainer(act: Act) -> type[Trainer]:
    if act.online is not None:
        from umiak.train.run.online import OnlineTrainer

        return OnlineTrainer
    from umiak.train.run.trainer import Trainer

    return Trainer


def _job(act: Act, environ: Mapping[str, str], watch: Stopwatch) -> Session:
    if act.crew.duty is Duty.ALONE:
        return _alone(watch)
    if act.crew.strategy is None:
        return _collective(act, watch)
    return _ps_job(act, environ, watch)


def _alone(watch: Stopwatch) -> Session:
    from umiak.ps.local import LocalClient

    return _made(environment.Seat(), strategies.Sync(), lambda _: watch.timed(LocalClient()))


def _collective(act: Act, watch: Stopwatch) -> Session:
    from umiak.ps.collective import CollectiveClient
    from umiak.ps.paddle_group import PaddleGroup

    group = PaddleGroup(on_cpu=act.device is Device.CPU)
    seat = environment.Seat(rank=group.rank, world=group.world)
    return _made(seat, strategies.Collective(), lambda _: watch.timed(CollectiveClient(group)))


def _ps_job(act: Act, environ: Mapping[str, str], watch: Stopwatch) -> Session:
    assert act.crew.strategy is not None
    strategy = strategies.by_name(act.crew.strategy)
    if act.crew.geo_steps:
        strategy = strategies.Geo(every=act.crew.geo_steps)
    return _made(environment.seat(environ), strategy, lambda job: watch.timed(job.connected()))


def _made(
    seat: environment.Seat, strategy: Strategy | Collective, connect: Callable[[Session], umiak_native.Client]
) -> Session:
    job: Session = Session(seat, strategy, SessionOptions(), connect=lambda: connect(job))
    return job


def _refused(error: OSError) -> UmiakError:
    """A file, or a directory, that can't be had."""
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    hint = "paths are from the directory that this was started in; --run_dir, save_inference_path and others name them"
    return UmiakError(Problem(code="UM-TRAIN-023", what=what, hint=hint), exit_status=Exit.REFUSED)


def _lost(error: umiak_native.PsError, act: Act) -> UmiakError:
    """A server or another trainer is gone."""
    saves = act.checkpoint or act.step_checkpoint
    return UmiakError(
        Problem(
            code="UM-TRAIN-018",
            what=str(error).splitlines()[0],
            hint="`--resume` continues from the latest checkpoint"
            if saves
            else "save checkpoints: save_checkpoint_path",
        ),
        exit_status=Exit.JOB_FAILED,
    )
