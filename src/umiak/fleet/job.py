"""The job of this process as fleet's calls see it: its place, its session and its programs. An adapter, for Paddle.

`begin` is what ``fleet.init`` with servers does; `current` is None before it, and in a job that trains collectively.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import TYPE_CHECKING

import paddle
import umiak_native

from umiak.core.problem import BadRequest
from umiak.fleet import roles
from umiak.fleet import strategy as strategies
from umiak.fleet.programs import accessors, rewriting
from umiak.fleet.programs.parameters import is_filled
from umiak.fleet.programs.running import ProgramRunner
from umiak.fleet.programs.sites import updates
from umiak.fleet.programs.tables import ProgramTables
from umiak.ps import paddle_internals, sessions
from umiak.ps.errors import bad
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import Geo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from umiak.fleet.programs.sites import LookupSite
    from umiak.fleet.roles import FleetSeat
    from umiak.ps import paddle_types as types

MARK = "__umiak__"
"""An attribute of everything that was replaced: what was there before."""
_MUTUAL_WAIT = "mutual-wait"
_MUTUAL_WAIT_HINT = (
    "with a_sync=False every trainer runs the same number of steps, and all of them call fleet.barrier_worker, fleet.util.barrier, all_reduce and "
    "all_gather equally often; one that has no more batches calls fleet.stop_worker(), and train_from_dataset sees to it by itself"
)


class _Process:
    """What this process has."""

    job: FleetJob | None = None


class FleetJob:
    """One process's part in a job with servers."""

    def __init__(
        self,
        fleet_seat: FleetSeat,
        role_maker: types.RoleMaker,
        strategy: types.DistributedStrategy,
        options: SessionOptions,
    ) -> None:
        self.place = fleet_seat
        self.role_maker = role_maker
        self._theirs = strategy
        self._remarked: set[str] = set()
        self.session = sessions.use(Session(fleet_seat.seat, strategies.chosen(strategy).strategy, options))
        self.tables = ProgramTables(self.session)
        self._runners: dict[int, ProgramRunner] = {}
        self._started: dict[int, list[ProgramRunner]] = {}
        """What each startup program fills."""
        self._readers: dict[tuple[int, int], ProgramRunner | None] = {}
        self._outputs: dict[str, LookupSite] = {}
        self._checked: set[tuple[int, int]] = set()
        """Programs, with how many operations they had when they were looked at."""
        self.optimizer: types.Optimizer = None
        """What `distributed_optimizer` was given last."""
        self.model: types.Layer = None
        """What `distributed_model` was given last."""
        self.loads = 0
        """How often this process has loaded tables, or has heard that another one did."""
        self.loaded: tuple[str, ...] = ()
        """The tables that the last load has brought."""
        self.has_begun = False
        """Whether `init_worker` has been called."""
        self.warmup: str | None = None
        """What `init_server` was told to load."""

    @property
    def is_server(self) -> bool:
        return self.session.is_server

    @property
    def runners(self) -> tuple[ProgramRunner, ...]:
        """Programs that are trained."""
        return tuple(self._runners.values())

    def use_strategy(self, theirs: types.DistributedStrategy) -> None:
        """What ``distributed_optimizer`` was given counts instead of what ``init`` was."""
        if theirs is not None:
            self._theirs = theirs
        strategy = strategies.chosen(self._theirs, trainers=self.session.seat.world)
        self.remark(strategy.remarks)
        if paddle.in_dynamic_mode():
            # Layers have no accessors: only static programs say which rows are shown and clicked.
            for name, settings in strategy.tables.items():
                self.remark(accessors.unused(name, settings, is_counted=False))
        BadRequest.raise_any(strategy.problems)
        self.session.strategy = strategy.strategy

    def remark(self, remarks: Iterable[str]) -> None:
        """Say each of them once: a script may have several optimizers."""
        for remark in remarks:
            if remark not in self._remarked:
                self._remarked.add(remark)
                say(remark)

    # ---- programs

    def train(
        self,
        program: types.Program,
        startup: types.Program,
        loss: types.Variable,
        optimizer: types.Optimizer,
        parameters: Iterable[types.Parameter] | None = None,
    ) -> ProgramRunner:
        """Let a program learn on the servers; both programs are changed."""
        if id(program) in self._runners:
            what = "minimize was called twice for one program"
            raise bad("UM-FLEET-015", what, "add up the losses, and minimize their sum")
        original = program.clone()
        is_alone = not self.session.seat.servers
        plan = rewriting.for_training(
            program,
            startup,
            loss,
            optimizer,
            parameters=parameters,
            is_alone=is_alone,
            can_count=not isinstance(self.session.strategy, Geo),
            said=strategies.chosen(self._theirs).tables,
        )
        for planned in plan.tables.values():
            self.tables.add(planned)
        for name, reason in plan.kept.items():
            if reason != "it is not sparse":
                say(f"embedding {name} stays a parameter: {reason}")
        for remark in (*plan.remarks, *(plan.learning.remarks if plan.tables else ())):
            say(remark)
        number = len(self._runners)
        runner = ProgramRunner(plan, self.session, self.tables, original=original, number=number)
        self._runners[id(program)] = runner
        self._started.setdefault(id(startup), []).append(runner)
        self._outputs |= {site.output: site for site in plan.lookups}
        return runner

    def started(self, program: types.Program, scope: types.Scope) -> None:
        """A program has run that is Paddle's business. If it has filled rows of tables, they leave the scope."""
        for runner in self._started.get(id(inner(program)), ()):
            runner.first_rows.take(scope or paddle.static.global_scope())

    def runner_of(self, program: types.Program) -> ProgramRunner | None:
        """What trains this program; None: nothing does."""
        return self._runners.get(id(inner(program)))

    def check_is_trained_together(self, program: types.Program) -> None:
        """BadRequest if a program of several trainers learns with an optimizer that fleet was not given:
        N trainings that look like one.
        """
        program = inner(program)
        key = id(program), sum(len(block.ops) for block in getattr(program, "blocks", ()))
        if key in self._checked:
            return
        self._checked.add(key)
        if self.session.seat.servers and (found := updates(program)):
            apart = f"a program learns with an optimizer that fleet was not given ({found[0]})"
            hint = "call minimize on what fleet.distributed_optimizer returns, not on Paddle's optimizer"
            if self.session.seat.world > 1 and not self._runners:
                self._checked.discard(key)
                raise bad("UM-FLEET-018", f"{apart}: each trainer would learn alone", hint)
            self.remark([f"{apart}: it learns in each trainer by itself, without the servers"])

    def reader_of(self, program: types.Program, scope: types.Scope = None) -> ProgramRunner | None:
        """What runs a program that only reads rows of our tables; None: it has nothing to do with them.

        One that was loaded for inference has its embeddings in the scope, and is Paddle's.
        """
        program = inner(program)
        if not hasattr(program, "global_block") or not len(self.tables):
            return None
        key = id(program), sum(len(block.ops) for block in program.blocks)
        if key not in self._readers:
            own = scope or paddle.static.global_scope()
            tables = [name for name in self.tables if not is_filled(own, name)]
            plan = rewriting.for_reading(program, self._outputs, tables)
            self._readers[key] = ProgramRunner(plan, self.session, self.tables, original=program) if plan else None
        return self._readers[key]


def inner(program: types.Program) -> types.Program:
    """The program itself: the default one, or that of a compiled one."""
    if program is None:
        return paddle.static.default_main_program()
    return paddle_internals.program_in(program)


def names_of(given: types.Variables) -> list[str]:
    """Of variables, or of their names."""
    listed = given if isinstance(given, (list, tuple)) else () if given is None else (given,)
    return [str(getattr(each, "name", each)) for each in listed]


def begin(
    role_maker: types.RoleMaker, strategy: types.DistributedStrategy, environ: Mapping[str, str] | None = None
) -> FleetJob:
    """The job of this process, from its role maker: its arguments where it has any, else the environment."""
    environ = os.environ if environ is None else environ
    given = paddle_internals.arguments_of(role_maker)
    by_hand = type(role_maker).__name__ == "UserDefinedRoleMaker" or "server_endpoints" in given
    place = roles.of_arguments(given, environ) if by_hand else roles.of_environment(environ)
    options = roles.session_options(environ)
    _Process.job = FleetJob(place, role_maker, strategy, options)
    return _Process.job


def end() -> None:
    """There is no such job (any more): Paddle's own calls count."""
    _Process.job = None


def current() -> FleetJob | None:
    """The job of this process, if it is one with servers."""
    return _Process.job


def marked(theirs: types.Call, ours: types.Call) -> types.Call:
    """Ours, to be put in the place of theirs."""
    call = functools.wraps(theirs)(ours)
    setattr(call, MARK, theirs)
    return call


def in_a_job(
    theirs: types.Call,
    ours: types.Call,
    counts: Callable[[FleetJob, object], bool] = lambda _job, _first: True,
) -> types.Call:
    """Ours with the job in front in a job with servers, theirs otherwise.
    ``counts`` is asked of the job and the first argument as well.
    """

    def call(*given: object, **named: object) -> object:
        job = current()
        if job is None or not counts(job, given[0] if given else None):
            return theirs(*given, **named)
        with deadlocks_told():
            return ours(job, *given, **named)

    return marked(theirs, call)


@contextlib.contextmanager
def deadlocks_told() -> Iterator[None]:
    """Around what waits for other trainers: servers notice if they wait for each other,
    and name what a script of `umiak.ps` calls.
    """
    try:
        yield
    except umiak_native.Refused as error:
        if error.code != _MUTUAL_WAIT or not error.hint or error.hint == _MUTUAL_WAIT_HINT:
            raise
        again = umiak_native.Refused(str(error).replace(error.hint, _MUTUAL_WAIT_HINT))
        again.code, again.hint = _MUTUAL_WAIT, _MUTUAL_WAIT_HINT
        raise again from None


def say(text: str) -> None:
    """One line for the person who watches."""
    print(f"umiak.fleet: {text}", file=sys.stderr, flush=True)
