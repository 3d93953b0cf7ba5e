"""Puts umiak's parameter servers in place of what Paddle's wheels no longer carry out. An adapter, for Paddle.

    install()        once, after ``paddle.distributed.fleet`` was imported; the launcher's hook calls it

Which call counts is decided when it is called: ``fleet.init(is_collective=True)``, a collective role maker and everything after
them are Paddle's own, and so is a program that has nothing to do with tables on servers.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import paddle
from paddle.base.executor import Executor
from paddle.distributed import fleet
from paddle.distributed.fleet.base import role_maker as role_makers

from umiak.fleet import calls, deadlocks, exporting, inferring, job, loaders, older_form, operations
from umiak.fleet.datasets import calls as datasets

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MARK = "__umiak__"
"""An attribute of everything that was replaced: what was there before."""


def install() -> None:
    """Replace Paddle's calls by ours. Twice is fine."""
    if hasattr(fleet.init, _MARK):
        return
    singleton = fleet.fleet
    _replace_fleet("init", _init(singleton.init))
    for name, ours in calls.TAKEN.items():
        _replace_fleet(name, _in_a_job(getattr(singleton, name, None) or getattr(fleet, name), ours))
    for name in calls.REFUSED:
        theirs = getattr(singleton, name, None) or getattr(fleet, name, None)
        if theirs is not None:
            _replace_fleet(name, _in_a_job(theirs, _refused(name)))
    _replace_fleet("minimize", _minimize(singleton.minimize))
    meetings: dict[str, Any] = {
        "_barrier": calls.barrier,
        "_all_gather": calls.all_gather,
        "_all_reduce": calls.all_reduce,
    }
    kind = role_makers.PaddleCloudRoleMaker
    for name, ours in meetings.items():
        setattr(kind, name, _of_role_maker(getattr(kind, name), ours))
    Executor.run = _executor_run(Executor.run)
    paddle.static.save = _of_a_program("save", paddle.static.save)
    paddle.static.load = _of_a_program("load", paddle.static.load)
    saves = _saves_inference_model(paddle.static.save_inference_model)
    paddle.static.save_inference_model = paddle.static.io.save_inference_model = saves
    operations.install()
    older_form.install()
    loaders.install()
    inferring.install()
    datasets.install()


def _replace_fleet(name: str, ours: Callable[..., Any]) -> None:
    """In the module and in the object whose methods the module's functions are."""
    setattr(fleet.fleet, name, ours)
    if hasattr(fleet, name):
        setattr(fleet, name, ours)


def _marked(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    made = functools.wraps(theirs)(ours)
    setattr(made, _MARK, theirs)
    return made


def _init(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def init(
        role_maker: Any = None, is_collective: bool = False, strategy: Any = None, log_level: int | str = "INFO"
    ) -> Any:
        collective = is_collective if role_maker is None else getattr(role_maker, "_is_collective", True)
        if collective:
            job.end()
            return theirs(role_maker, is_collective, strategy, log_level)
        maker = role_makers.PaddleCloudRoleMaker(is_collective=False) if role_maker is None else role_maker
        begun = job.begin(maker, strategy)
        _seat(maker, begun)
        singleton = fleet.fleet
        singleton._role_maker = maker  # noqa: SLF001
        singleton._is_collective = False  # noqa: SLF001
        singleton._user_defined_strategy = strategy or fleet.DistributedStrategy()  # noqa: SLF001
        fleet.util._set_role_maker(maker)  # noqa: SLF001
        return singleton

    return _marked(theirs, init)


def _seat(maker: Any, begun: job.FleetJob) -> None:
    """Let a role maker answer what Paddle's calls ask it."""
    place, seat = begun.place, begun.place.seat
    maker._role = place.role  # noqa: SLF001
    maker._current_id = seat.rank  # noqa: SLF001
    maker._trainers_num = seat.world  # noqa: SLF001
    maker._server_endpoints = [*seat.servers]  # noqa: SLF001
    maker._worker_endpoints = [*place.workers]  # noqa: SLF001
    maker._nodes_num = place.nodes  # noqa: SLF001
    maker._non_distributed = False  # noqa: SLF001
    maker._role_is_generated = True  # noqa: SLF001


def _in_a_job(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """Ours in a job with servers, theirs otherwise."""

    def call(*given: Any, **named: Any) -> Any:
        begun = job.current()
        if begun is None:
            return theirs(*given, **named)
        with deadlocks.told():
            return ours(begun, *given, **named)

    return _marked(theirs, call)


def _refused(name: str) -> Callable[..., Any]:
    def call(*_given: Any, **_named: Any) -> Any:
        raise calls.refusal(name)

    return call


def _of_a_program(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Theirs, unless the servers have what it would leave out."""

    def call(program: Any, *given: Any, **named: Any) -> Any:
        begun = job.current()
        if begun is not None:
            calls.refuse_part_of(begun, name, program)
        return theirs(program, *given, **named)

    return _marked(theirs, call)


def _saves_inference_model(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Ours where programs are in the older form: plain Paddle loads what it writes, and rows come from the servers."""

    def call(path_prefix: str, feed_vars: Any, fetch_vars: Any, executor: Any, **configs: Any) -> None:
        save = (
            theirs
            if paddle.framework.use_pir_api()
            else functools.partial(exporting.save_inference_model, job.current())
        )
        save(path_prefix, feed_vars, fetch_vars, executor, **configs)

    return _marked(theirs, call)


def _minimize(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def minimize(loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None) -> Any:
        begun = job.current()
        if begun is None:
            return theirs(loss, startup_program, parameter_list, no_grad_set)
        return calls.minimize_last(begun, loss, startup_program, parameter_list, no_grad_set)

    return _marked(theirs, minimize)


def _of_role_maker(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    def call(maker: Any, *given: Any, **named: Any) -> Any:
        begun = job.current()
        if begun is None or begun.role_maker is not maker:
            return theirs(maker, *given, **named)
        with deadlocks.told():
            return ours(begun, *given, **named)

    return _marked(theirs, call)


def _executor_run(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        executor: Any,
        program: Any = None,
        feed: Any = None,
        fetch_list: Any = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Any = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        use_prune: bool = False,
    ) -> Any:
        begun = job.current()
        feed = loaders.fed(program, feed)
        runner = None if begun is None else begun.runner_of(program)
        if runner is not None:
            learned: Any = runner.step
        else:
            reader = None if begun is None else begun.reader_of(program, scope)
            if reader is None:
                found = theirs(
                    executor,
                    program,
                    feed,
                    fetch_list,
                    feed_var_name,
                    fetch_var_name,
                    scope,
                    return_numpy,
                    use_program_cache,
                    use_prune,
                )
                if begun is not None:
                    begun.started(program, scope)
                return found
            learned = reader.read
        fetch = [] if fetch_list is None else fetch_list if isinstance(fetch_list, (list, tuple)) else [fetch_list]
        if isinstance(feed, (list, tuple)):
            feed = feed[0] if feed else None
        with deadlocks.told():
            found = learned(feed or {}, fetch, executor=executor, scope=scope, return_numpy=return_numpy)
        return found if fetch else []

    return _marked(theirs, run)
