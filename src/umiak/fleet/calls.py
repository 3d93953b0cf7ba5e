"""Fleet's calls in a job with servers. An adapter, for Paddle:
`umiak.fleet.patching` puts them in place of Paddle's own.

Each is called with the job first. What a job with our servers can't do raises `BadRequest`, which names the call.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import paddle

from umiak.fleet import beginning, dynamic, saving
from umiak.fleet.job import names_of, say
from umiak.ps import paddle_internals
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import ArrayLike

    from umiak.data.array_types import AnyArray
    from umiak.fleet.dynamic import Minimized
    from umiak.fleet.job import FleetJob
    from umiak.ps import paddle_types as types


REDUCTIONS: dict[str, types.Call] = {"sum": np.sum, "min": np.min, "max": np.max}
PIECE = 1 << 19
"""Bytes of an array that travel at once."""
MODES = {0: "all", 1: "delta", 2: "base", 3: "full"}
"""Paddle's numbers of a save's mode: everything, what changed, what is worth serving, everything at the end of a day:
rows that were not seen since grow older.
"""


class ServerOptimizer:
    """What ``fleet.distributed_optimizer`` returns: an optimizer whose rule runs on the servers."""

    def __init__(self, job: FleetJob, optimizer: types.Optimizer) -> None:
        self._job = job
        self.inner_opt = optimizer

    def minimize(self, loss: types.Variable, *more: object, **named: object) -> Minimized:
        """Change the loss's program so that it learns on the servers."""
        return minimize(self._job, self.inner_opt, loss, *more, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner_opt, name)


def minimize(
    job: FleetJob,
    optimizer: types.Optimizer,
    loss: types.Variable,
    startup_program: types.Program = None,
    parameter_list: types.Variables = None,
    no_grad_set: types.Variables = None,
) -> Minimized:
    """As an optimizer's: returns operations (none, they are the servers') and parameters with their gradients."""
    if no_grad_set:
        raise bad("UM-FLEET-002", "minimize: no_grad_set has no meaning here", "set stop_gradient of these variables")
    losses = loss if isinstance(loss, (list, tuple)) else [loss]
    startups = startup_program if isinstance(startup_program, (list, tuple)) else [startup_program] * len(losses)
    pairs: list[tuple[types.Variable, types.Variable]] = []
    for each, startup in zip(losses, startups, strict=True):
        program = each.block.program
        chosen = paddle.static.default_startup_program() if startup is None else startup
        paddle_internals.mark_for_datasets(program)
        if job.is_server:
            continue
        runner = job.train(program, chosen, each, optimizer, parameter_list)
        block = program.global_block()
        pairs += [(block.vars[it.name], block.vars[it.gradient]) for it in runner.plan.parameters]
    return [], pairs


def distributed_optimizer(
    job: FleetJob, optimizer: types.Optimizer, strategy: types.DistributedStrategy = None
) -> ServerOptimizer | dynamic.DynamicOptimizer:
    """The optimizer on the servers."""
    job.use_strategy(strategy)
    if paddle.in_dynamic_mode():
        return dynamic.distributed_optimizer(job, optimizer)
    job.optimizer = optimizer
    return ServerOptimizer(job, optimizer)


def minimize_last(job: FleetJob, loss: types.Variable, *more: object, **named: object) -> Minimized:
    """``fleet.minimize``: with the optimizer that `distributed_optimizer` was given last."""
    if job.optimizer is None:
        raise bad("UM-FLEET-002", "fleet.minimize: no optimizer is known", "call fleet.distributed_optimizer first")
    return minimize(job, job.optimizer, loss, *more, **named)


# ---- servers


def init_server(job: FleetJob, path: str | None = None, *_more: object, **_named: object) -> None:
    """Remember what the job begins with."""
    job.warmup = saving.tables_beneath(path) if path else None


def run_server(job: FleetJob) -> None:
    """Serve until the job is over."""
    status = beginning.serve(job.session, job.warmup)
    if status:
        raise SystemExit(status)


# ---- trainers


def init_worker(job: FleetJob, _scopes: types.Scope = None) -> None:
    """Connect, and let the first trainer's parameters be everybody's.
    Returns when all servers hold what the job begins with.
    """

    def bind(is_loaded: bool) -> None:
        for runner in job.runners:
            if is_loaded or runner.can_bind:
                runner.bind(None, is_loaded=is_loaded)

    if job.has_begun:
        bind(False)
        return
    loaded = beginning.begin(job.session, bind)
    job.has_begun = True
    if loaded is not None:
        job.loaded = loaded
        saving.refresh(job)


def stop_worker(job: FleetJob) -> None:
    """This trainer is done."""
    job.session.finish()


def barrier(job: FleetJob, _maker: types.RoleMaker, comm_world: str = "worker") -> None:
    """Wait for all trainers, with everything that they have pushed."""
    _only_workers(job, "barrier", comm_world)
    session = job.session
    if not job.runners and job.model is None:
        session.client.gather("fleet.barrier", b"0")
        return
    session.send_changes()
    session.communicator.flush()
    counts = [int(each) for each in session.client.gather("fleet.barrier", str(job.loads).encode()) if each]
    if max(counts, default=0) > job.loads:
        job.loads = max(counts)
        saving.refresh(job)
    session.catch_up()


def all_gather(job: FleetJob, _maker: types.RoleMaker, given: ArrayLike, comm_world: str = "worker") -> list[object]:
    """What every trainer brings, in order of rank."""
    _only_workers(job, "all_gather", comm_world)
    brought = _exchanged(job, np.asarray(given))
    return [each.item() if each.ndim == 0 else each for each in brought]


def all_reduce(
    job: FleetJob, _maker: types.RoleMaker, given: ArrayLike, mode: str = "sum", comm_world: str = "worker"
) -> AnyArray:
    """The sum, least or largest of what all trainers bring, element by element."""
    _only_workers(job, "all_reduce", comm_world)
    if mode not in REDUCTIONS:
        raise bad("UM-FLEET-002", f"all_reduce: no such mode: {mode}", "sum, min or max")
    own = np.asarray(given)
    found = _exchanged(job, own)
    shapes = {each.shape for each in found}
    if len(shapes) > 1:
        raise bad("UM-FLEET-002", f"all_reduce: trainers bring different shapes: {sorted(shapes)}", None)
    return np.asarray(REDUCTIONS[mode](np.stack(found), axis=0)).astype(own.dtype, copy=False).reshape(own.shape)


def _exchanged(job: FleetJob, own: AnyArray) -> list[AnyArray]:
    """Arrays of all trainers, piece by piece."""
    gather = job.session.client.gather
    if own.dtype.kind not in "biuf":
        raise bad("UM-FLEET-002", f"numbers are exchanged between trainers, these are {own.dtype}", None)
    file = io.BytesIO()
    np.save(file, np.asarray(own, order="C"), allow_pickle=False)
    content = file.getvalue()
    lengths = [int(each or 0) for each in gather("fleet.head", str(len(content)).encode())]
    files = [io.BytesIO() for _ in lengths]
    for start in range(0, max(lengths, default=0), PIECE):
        for part, piece in zip(files, gather("fleet.piece", content[start : start + PIECE]), strict=True):
            part.write(piece)
    there = [part.getvalue() for part, length in zip(files, lengths, strict=True) if length]
    return [np.load(io.BytesIO(part), allow_pickle=False) for part in there]


def _only_workers(job: FleetJob, call: str, comm_world: str) -> None:
    if comm_world != "worker" or job.is_server:
        who = "a server" if job.is_server else f"comm_world={comm_world!r}"
        hint = 'trainers meet each other: call it on trainers, with comm_world="worker"'
        raise bad("UM-FLEET-003", f"{call}: servers can't take part: {who}", hint)


# ---- saving and loading


def save_persistables(
    job: FleetJob, _executor: types.Executor, dirname: str, main_program: types.Program = None, mode: int = 0
) -> None:
    """All tables, and the dense parameters in Paddle's format as well."""
    saving.save_tables(job, dirname, mode=MODES.get(int(mode), "all"))


def save_inference_model(
    job: FleetJob,
    _executor: types.Executor,
    dirname: str,
    feeded_var_names: types.Variables,
    target_vars: types.Variables,
    main_program: types.Program = None,
    export_for_deployment: bool = True,
    mode: int = 0,
) -> None:
    """A model that plain Paddle runs, and the tables beside it."""
    feeds = names_of(feeded_var_names)
    saving.save_model(job, dirname, feeds, names_of(target_vars), main_program, mode=MODES.get(int(mode), "all"))


def save(job: FleetJob, dirname: str, feed: types.Fed = (), fetch: types.Variables = (), **configs: int) -> None:
    """With variables a model for inference, without them everything for going on."""
    mode = MODES.get(int(configs.get("mode", 0)), "all")
    if feed or fetch:
        saving.save_model(job, dirname, names_of(feed), names_of(fetch), mode=mode)
    else:
        saving.save_tables(job, dirname, mode=mode)


def save_dense_params(
    job: FleetJob,
    _executor: types.Executor,
    dirname: str,
    scope: types.Scope,
    program: types.Program,
    var_names: types.Variables = None,
) -> None:
    """Dense parameters in Paddle's format, one file."""
    if job.session.is_first:
        names = names_of(var_names or [each.name for each in program.all_parameters()])
        job.session.catch_up()
        saving.save_dense(dirname, scope, names)


def load_model(job: FleetJob, path: str, mode: int = 0) -> None:
    """What save_persistables or save_inference_model made."""
    if job.is_server:
        init_server(job, path)
    else:
        saving.load_tables(job, path)


def shrink(job: FleetJob, threshold: float | None = None) -> None:
    """A day passes: what rows count decays, and those that count for too little are evicted."""
    if not job.session.is_first:
        return
    job.session.flush()
    for name in job.tables:
        table = job.tables[name]
        if table.spec.accessor is not None:
            job.session.client.shrink(table.number)
        else:
            say(f"shrink: table {name} counts nothing, so all of its rows stay")


REFUSED = {
    "save_cache_model": "tables are in the memory of the servers, so there is no cache to save",
    "save_cache_table": "tables are in the memory of the servers, so there is no cache to save",
    "check_save_pre_patch_done": "there are no patches of a model on its servers",
    "set_date": "rows have no dates here",
    "print_table_stat": "`umiak ps status` shows how tables are",
    "init_coordinator": "there is no coordinator of federated learning here",
    "make_fl_strategy": "there is no coordinator of federated learning here",
    "get_fl_client": "there is no coordinator of federated learning here",
    "distributed_scaler": "parameter servers learn in float32",
    "get_hybrid_communicate_group": "groups are for jobs that train collectively",
    "collective_perf": "it is for jobs that train collectively",
    "amp_init": "parameter servers learn in float32",
    "qat_init": "parameter servers learn in float32",
}
"""Calls that a job with our servers can't do, and why."""


def refuse_part_of(job: FleetJob, name: str, program: types.Program) -> None:
    """`BadRequest` where ``paddle.static.save`` or ``load`` would be about a part of what a program has:
    the servers have the rest.
    """
    runner = job.runner_of(program)
    tables = [each.name for each in program.list_vars() if each.name in job.tables]
    if runner is None and not tables:
        return
    rows = f"the rows of {', '.join(tables)} and " if tables else ""
    instead = {
        "save": "fleet.save_persistables(executor, dirname), which saves all of it",
        "load": "fleet.load_model(dirname), of what fleet.save_persistables has saved",
    }
    what = f"paddle.static.{name}: {rows}what the optimizer has learned are on the parameter servers"
    raise bad("UM-PS-184", what, f"call {instead[name]}")


def refuse(call: str, *_given: object, **_named: object) -> None:
    """`BadRequest` for such a call."""
    raise bad("UM-FLEET-004", f"fleet.{call} is not there with umiak's parameter servers", REFUSED[call])


_OURS = (
    *(dynamic.distributed_model, distributed_optimizer, init_server, run_server, init_worker, stop_worker),
    *(save, save_persistables, save_inference_model, save_dense_params, saving.save_one_table, saving.load_one_table),
    *(load_model, shrink),
)
TAKEN: dict[str, Callable[..., object]] = {
    **{each.__name__: each for each in _OURS},
    "load_inference_model": load_model,
}
"""Calls that are ours in a job with servers."""
