"""The job of this process as fleet's calls see it: its place, its session and its programs. An adapter, for Paddle.

`begin` is what ``fleet.init`` with servers does; `current` is None before it, and in a job that trains collectively.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import paddle

from umiak.core.problem import BadRequest
from umiak.fleet import roles
from umiak.fleet import strategy as strategies
from umiak.fleet.programs import accessors, rewriting
from umiak.fleet.programs.parameters import is_filled
from umiak.fleet.programs.running import ProgramRunner
from umiak.fleet.programs.tables import ProgramTables
from umiak.ps import current as sessions
from umiak.ps.errors import bad
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import Geo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from umiak.fleet.programs.sites import LookupSite
    from umiak.fleet.roles import FleetSeat

_current: FleetJob | None = None


class FleetJob:
    """One process's part in a job with servers."""

    def __init__(self, fleet_seat: FleetSeat, role_maker: Any, strategy: Any, options: SessionOptions) -> None:
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
        self.optimizer: Any = None
        """What `distributed_optimizer` was given last."""
        self.model: Any = None
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

    def use_strategy(self, theirs: Any) -> None:
        """What ``distributed_optimizer`` was given counts instead of what ``init`` was."""
        if theirs is not None:
            self._theirs = theirs
        found = strategies.chosen(self._theirs, trainers=self.session.seat.world)
        self.remark(found.remarks)
        if paddle.in_dynamic_mode():
            # Layers have no accessors: only static programs say which rows are shown and clicked.
            for name, settings in found.tables.items():
                self.remark(accessors.unused(name, settings, is_counted=False))
        if found.problems:
            raise BadRequest(*found.problems)
        self.session.strategy = found.strategy

    def remark(self, remarks: Iterable[str]) -> None:
        """Say each of them once: a script may have several optimizers."""
        for remark in remarks:
            if remark not in self._remarked:
                self._remarked.add(remark)
                say(remark)

    # ---- programs

    def train(self, program: Any, startup: Any, loss: Any, optimizer: Any, parameters: Any = None) -> ProgramRunner:
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

    def started(self, program: Any, scope: Any) -> None:
        """A program has run that is Paddle's business. If it has filled rows of tables, they leave the scope."""
        for runner in self._started.get(id(inner(program)), ()):
            runner.first_rows.take(scope or paddle.static.global_scope())

    def runner_of(self, program: Any) -> ProgramRunner | None:
        """What trains this program; None: nothing does."""
        return self._runners.get(id(inner(program)))

    def reader_of(self, program: Any, scope: Any = None) -> ProgramRunner | None:
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


def inner(program: Any) -> Any:
    """The program itself: the default one, or that of a compiled one."""
    if program is None:
        return paddle.static.default_main_program()
    return getattr(program, "_program", None) or program


def begin(role_maker: Any, strategy: Any, environ: Mapping[str, str] | None = None) -> FleetJob:
    """The job of this process, from its role maker: its arguments where it has any, else the environment."""
    global _current  # noqa: PLW0603 - a process has one place
    environ = os.environ if environ is None else environ
    given = getattr(role_maker, "_kwargs", {})
    by_hand = type(role_maker).__name__ == "UserDefinedRoleMaker" or "server_endpoints" in given
    place = roles.of_arguments(given, environ) if by_hand else roles.of_environment(environ)
    options = SessionOptions(durability_ms=roles.durability_ms(environ))
    _current = FleetJob(place, role_maker, strategy, options)
    return _current


def end() -> None:
    """There is no such job (any more): Paddle's own calls count."""
    global _current  # noqa: PLW0603
    _current = None


def current() -> FleetJob | None:
    """The job of this process, if it is one with servers."""
    return _current


def say(text: str) -> None:
    """One line for the person who watches."""
    print(f"umiak.fleet: {text}", file=sys.stderr, flush=True)
