"""Puts umiak's parameter servers in place of what Paddle's wheels no longer carry out. An adapter, for Paddle.

    install()        once, after ``paddle.distributed.fleet`` was imported; the launcher's hook calls it

Which call counts is decided when it is called: ``fleet.init(is_collective=True)``, a collective role maker
and everything after them are Paddle's own, and so is a program that has nothing to do with tables on servers.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import paddle
from paddle.base.executor import Executor
from paddle.distributed import fleet
from paddle.distributed.fleet.base import role_maker as role_makers

from umiak.fleet import calls, exporting, inferring, job, loaders, operations
from umiak.fleet.datasets import calls as datasets
from umiak.ps import paddle_internals

if TYPE_CHECKING:
    from umiak.ps.paddle_types import Call, DistributedStrategy, Fed, Fleet, Program, RoleMaker, Scope, Variables


def install() -> None:
    """Replace Paddle's calls by ours. Twice is fine."""
    if hasattr(fleet.init, job.MARK):
        return
    singleton = fleet.fleet
    _replace_fleet("init", _init(singleton.init))
    for name, ours in calls.TAKEN.items():
        _replace_fleet(name, job.in_a_job(getattr(singleton, name, None) or getattr(fleet, name), ours))
    for name in calls.REFUSED:
        theirs = getattr(singleton, name, None) or getattr(fleet, name, None)
        if theirs is not None:
            _replace_fleet(name, job.in_a_job(theirs, functools.partial(calls.refuse, name)))
    _replace_fleet("minimize", job.in_a_job(singleton.minimize, calls.minimize_last))
    kind = role_makers.PaddleCloudRoleMaker
    for ours in (calls.barrier, calls.all_gather, calls.all_reduce):
        name = f"_{ours.__name__}"
        setattr(kind, name, job.in_a_job(getattr(kind, name), ours, lambda begun, maker: begun.role_maker is maker))
    Executor.run = _executor_run(Executor.run)
    paddle.static.save = _of_a_program("save", paddle.static.save)
    paddle.static.load = _of_a_program("load", paddle.static.load)
    saves = _saves_inference_model(paddle.static.save_inference_model)
    paddle.static.save_inference_model = paddle.static.io.save_inference_model = saves
    operations.install()
    operations.choose_older_form()
    loaders.install()
    inferring.install()
    datasets.install()


def _replace_fleet(name: str, ours: Call) -> None:
    """In the module and in the object whose methods the module's functions are."""
    setattr(fleet.fleet, name, ours)
    if hasattr(fleet, name):
        setattr(fleet, name, ours)


def _init(theirs: Call) -> Call:
    def init(
        role_maker: RoleMaker = None,
        is_collective: bool = False,
        strategy: DistributedStrategy = None,
        log_level: int | str = "INFO",
    ) -> Fleet:
        collective = is_collective if role_maker is None else paddle_internals.is_collective(role_maker)
        if collective:
            job.end()
            return theirs(role_maker, is_collective, strategy, log_level)
        maker = role_makers.PaddleCloudRoleMaker(is_collective=False) if role_maker is None else role_maker
        begun = job.begin(maker, strategy)
        _seat(maker, begun)
        return paddle_internals.take_role(fleet, maker, strategy or fleet.DistributedStrategy())

    return job.marked(theirs, init)


def _seat(maker: RoleMaker, begun: job.FleetJob) -> None:
    """Let a role maker answer what Paddle's calls ask it."""
    place, seat = begun.place, begun.place.seat
    paddle_internals.seat(
        maker,
        role=place.role,
        rank=seat.rank,
        world=seat.world,
        servers=seat.servers,
        workers=place.workers,
        nodes=place.nodes,
    )


def _of_a_program(name: str, theirs: Call) -> Call:
    """Theirs, unless the servers have what it would leave out."""

    def call(program: Program, *given: object, **named: object) -> object:
        begun = job.current()
        if begun is not None:
            calls.refuse_part_of(begun, name, program)
        return theirs(program, *given, **named)

    return job.marked(theirs, call)


def _saves_inference_model(theirs: Call) -> Call:
    """Ours where programs are in the older form: plain Paddle loads what it writes, and rows come from the servers."""

    def call(
        path_prefix: str, feed_vars: Variables, fetch_vars: Variables, executor: Executor, **configs: object
    ) -> None:
        save = (
            theirs
            if paddle.framework.use_pir_api()
            else functools.partial(exporting.save_inference_model, job.current())
        )
        save(path_prefix, feed_vars, fetch_vars, executor, **configs)

    return job.marked(theirs, call)


def _executor_run(theirs: Call) -> Call:
    def run(
        executor: Executor,
        program: Program = None,
        feed: Fed = None,
        fetch_list: Variables = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope = None,
        return_numpy: bool = True,
        *cache_and_prune: bool,
        **named: bool,
    ) -> object:
        begun = job.current()
        feed = loaders.fed(program, feed)
        runner = None if begun is None else begun.runner_of(program)
        if runner is not None:
            learned: Call = runner.step
        else:
            reader = None if begun is None else begun.reader_of(program, scope)
            if reader is None:
                if begun is not None:
                    begun.check_is_trained_together(program)
                how = feed, fetch_list, feed_var_name, fetch_var_name, scope, return_numpy
                results = theirs(executor, program, *how, *cache_and_prune, **named)
                if begun is not None:
                    begun.started(program, scope)
                return results
            learned = reader.read
        fetch = [] if fetch_list is None else fetch_list if isinstance(fetch_list, (list, tuple)) else [fetch_list]
        if isinstance(feed, (list, tuple)):
            feed = feed[0] if feed else None
        with job.deadlocks_told():
            results = learned(feed or {}, fetch, executor=executor, scope=scope, return_numpy=return_numpy)
        return results if fetch else []

    return job.marked(theirs, run)
