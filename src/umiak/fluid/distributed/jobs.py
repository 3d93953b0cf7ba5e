"""This process's part in a job of a fluid program with parameter servers: its session, and the programs that it trains. A program.

`begin` makes it; `current` is None before. A program that is trained has a runner, which executors ask in place of replaying it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from umiak.fleet import beginning, roles
from umiak.fleet.job import deadlocks_told
from umiak.fluid.distributed.strategies import chosen
from umiak.fluid.distributed.telling import say
from umiak.fluid.distributed.trained import TrainedProgram
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import RecordedProgram
from umiak.fluid.record.sites import user_line
from umiak.fluid.running import jobs as process_jobs
from umiak.ps import sessions
from umiak.ps.sessions import Session
from umiak.ps.strategies import Sync

if TYPE_CHECKING:
    from typing import Any

    from umiak.data.array_types import AnyArray
    from umiak.fleet.datasets.training import Gather
    from umiak.fleet.roles import FleetSeat
    from umiak.fluid.arguments import Feed, Inputs, Outputs
    from umiak.fluid.running.executor import ReplayExecutor
    from umiak.fluid.running.scope import VariableScope


class FluidJob:
    """One process's part in a job with servers, or alone."""

    def __init__(self, place: FleetSeat, strategy: Any) -> None:
        self.place = place
        chosen_strategy = chosen(strategy)
        options = roles.session_options(os.environ)
        self.session = sessions.use(Session(place.seat, chosen_strategy.strategy, options))
        self._tell(chosen_strategy.remarks)
        self.trained: list[TrainedProgram] = []
        self.begins_at_startup = False
        """Whether the job begins as soon as the startup program has run."""
        self.has_begun = False
        self.warmup: str | None = None
        """What the servers are told to load."""
        self._reading: dict[int, tuple[RecordedProgram, int, TrainedProgram | None]] = {}

    @property
    def is_server(self) -> bool:
        return self.session.is_server

    def use_strategy(self, strategy: Any) -> None:
        """What ``distributed_optimizer`` or ``transpile`` was given."""
        chosen_strategy = chosen(strategy)
        self.session.strategy = chosen_strategy.strategy
        self._tell(chosen_strategy.remarks)

    @staticmethod
    def _tell(remarks: Any) -> None:
        for each in remarks:
            say(each)

    # ---- programs

    def train(self, program: RecordedProgram, startup: RecordedProgram) -> TrainedProgram | None:
        """Let a minimized program learn on the servers. None on a server, which learns nothing itself."""
        if self.is_server:
            return None
        if program.runner is not None:
            what = "this program is distributed already"
            raise bad("UM-FLUID-010", what, "add up the losses, and minimize their sum", where=user_line())
        number = len(self.trained)
        trained = TrainedProgram(program, startup, self.session, name=f"dense{number + 1}" if number else "dense")
        taken = {name for each in self.trained for name in each.learning.parameters}
        twice = sorted(taken.intersection(trained.learning.parameters))
        if twice:
            what = f"two programs learn the same parameters: {', '.join(twice[:3])}"
            raise bad("UM-FLUID-010", what, "give each its own with parameter_list=", where=user_line())
        self._tell(trained.remarks)
        self.trained.append(trained)
        program.runner = LearningRunner(self, trained)
        startup.runner = StartupRunner(self, startup)
        return trained

    def reader_of(self, program: RecordedProgram, scope: VariableScope) -> ReadingRunner | None:
        """Who runs a program that only looks into our tables; None: the executor itself."""
        if not self.trained:
            return None
        known = self._reading.get(id(program))
        if known is None or known[0] is not program or known[1] != program.version:
            trained = next((each for each in self.trained if each.reads(program)), None)
            known = self._reading[id(program)] = program, program.version, trained
        return None if known[2] is None else ReadingRunner(self, known[2], program)

    # ---- the course of it

    def started(self, scope: VariableScope) -> None:
        """A startup program has run."""
        if self.begins_at_startup and all(each.is_filled(scope) for each in self.trained):
            self.begin(scope)

    def begin_if_filled(self, scope: VariableScope) -> None:
        """Begin now, if the startup program has run; else as soon as it has."""
        self.begins_at_startup = True
        self.started(scope)

    def begin(self, scope: VariableScope) -> None:
        """Every trainer calls it; returns when all servers hold what the job begins with. To do it again changes nothing."""

        def made(is_loaded: bool) -> None:
            for each in self.trained:
                each.begin(scope, is_loaded=is_loaded)

        if self.has_begun:
            made(False)
            return
        loaded = beginning.begin(self.session, made)
        self.has_begun = True
        if loaded is not None:
            self.session.take_loaded(loaded)

    def serve(self) -> None:
        """Serve until the job is over; SystemExit if it fails."""
        status = beginning.serve(self.session, self.warmup)
        if status:
            raise SystemExit(status)

    def close(self) -> None:
        """This trainer takes no more steps; it still reads and saves."""
        if self.has_begun and not self.is_server:
            self.session.finish_steps()

    def finish(self) -> None:
        """This trainer is done."""
        self.session.finish()


class LearningRunner:
    """Runs a program that is trained."""

    def __init__(self, job: FluidJob, trained: TrainedProgram) -> None:
        self.job, self.trained = job, trained

    def run(
        self,
        executor: ReplayExecutor,
        feed: Feed,
        fetch: Inputs,
        *,
        scope: VariableScope,
        return_numpy: bool,
        share: float | None = None,
    ) -> Outputs:
        """One batch."""
        with deadlocks_told():
            _check_filled(self.trained, scope)
            self.job.begin(scope)
            return self.trained.step(
                feed, fetch, share=share, executor=executor, scope=scope, return_numpy=return_numpy
            )

    def skip(self) -> None:
        """A step of the others, without a batch."""
        with deadlocks_told():
            self.trained.skip()

    @property
    def gather(self) -> Gather | None:
        """How trainers that take their steps together tell each other something; None where they do not."""
        session = self.job.session
        return session.gather if isinstance(session.strategy, Sync) and session.world > 1 else None

    @property
    def rank(self) -> int:
        """This trainer's number."""
        return self.job.session.rank

    def values(self, names: Inputs) -> dict[str, AnyArray]:
        """What is learned, for files."""
        return self.trained.values(names)

    @property
    def elsewhere(self) -> frozenset[str]:
        """What this process has no numbers of: the servers keep it."""
        return self.trained.kept_by_servers


class ReadingRunner(LearningRunner):
    """Runs a program that only reads."""

    def __init__(self, job: FluidJob, trained: TrainedProgram, program: RecordedProgram) -> None:
        super().__init__(job, trained)
        self._program = program

    def run(
        self,
        executor: ReplayExecutor,
        feed: Feed,
        fetch: Inputs,
        *,
        scope: VariableScope,
        return_numpy: bool,
        share: float | None = None,
    ) -> Outputs:
        """One batch, without learning."""
        with deadlocks_told():
            _check_filled(self.trained, scope)
            self.job.begin(scope)
            return self.trained.read(
                feed, fetch, program=self._program, executor=executor, scope=scope, return_numpy=return_numpy
            )


class StartupRunner:
    """Runs a startup program, and lets the job begin behind it."""

    def __init__(self, job: FluidJob, program: RecordedProgram) -> None:
        self._job, self._program = job, program

    def run(
        self, executor: ReplayExecutor, feed: Feed, fetch: Inputs, *, scope: VariableScope, return_numpy: bool
    ) -> Outputs:
        """First values."""
        frame = executor.replayed(self._program, feed, scope)
        with deadlocks_told():
            self._job.started(scope)
        return executor.fetched(frame, fetch, return_numpy=return_numpy)


class ServingRunner:
    """What a server's program does: it serves until the job is over."""

    def __init__(self, job: FluidJob) -> None:
        self._job = job

    def run(
        self, executor: ReplayExecutor, feed: Feed, fetch: Inputs, *, scope: VariableScope, return_numpy: bool
    ) -> Outputs:
        """Returns when all trainers are done."""
        self._job.serve()
        return []


def _check_filled(trained: TrainedProgram, scope: VariableScope) -> None:
    if not trained.has_begun and not trained.is_filled(scope):
        hint = "exe.run(fleet.startup_program) first"
        raise bad("UM-FLUID-005", "the parameters of this program have no values yet", hint, where=user_line())


def begin(place: FleetSeat, strategy: Any = None) -> FluidJob:
    """This process's job from now on."""
    job = FluidJob(place, strategy)
    process_jobs.use(job)
    return job
