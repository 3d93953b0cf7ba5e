"""`fluid.incubate.fleet.parameter_server`: `fleet` with servers, for both of its modules. A program.

`distribute_transpiler.fleet` and `pslib.fleet` are two objects, which differ in what they are given; a process uses one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from umiak.fleet import saving as fleet_saving
from umiak.fluid.distributed import jobs, saving
from umiak.fluid.distributed.fleets import FluidFleet, check_loss
from umiak.fluid.distributed.telling import say
from umiak.fluid.record.current import default_startup_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line
from umiak.fluid.running.scope import global_scope

if TYPE_CHECKING:
    from umiak.fluid.arguments import AnyProgram, Folder, Input, Inputs, Names, Output
    from umiak.fluid.distributed.jobs import FluidJob
    from umiak.fluid.record.program import RecordedProgram


class ServerFleet(FluidFleet):
    """A job with servers. Started without a launcher, the script trains alone, with tables of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._begun: FluidJob | None = None

    def init(self, role_maker: Any = None) -> None:
        """Find out who this process is."""
        super().init(role_maker)
        if self._role_maker.is_collective:
            hint = "PaddleCloudRoleMaker() here, or fluid.incubate.fleet.collective for a job without servers"
            raise bad("UM-FLUID-001", "fleet with parameter servers was given a collective role maker", hint, where=user_line())  # fmt: skip
        self._begun = jobs.begin(self._role_maker.place)

    @property
    def job(self) -> FluidJob:
        """What `init` has made."""
        if self._begun is None:
            raise bad("UM-FLUID-001", "fleet is used before it knows who this process is", "fleet.init(role)", where=user_line())  # fmt: skip
        return self._begun

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> ServerFleetOptimizer:
        """The optimizer, whose rule the servers apply. A later strategy counts for the whole job."""
        self.job.use_strategy(strategy if strategy is not None else self._usual())
        return ServerFleetOptimizer(self, optimizer)

    @staticmethod
    def _usual() -> Any:
        return None

    def took(self, program: RecordedProgram, startup: RecordedProgram) -> None:
        """A program was minimized."""
        self.job.train(program, startup)
        self._program, self._startup = program, startup

    # ---- servers

    def init_server(self, model_dir: Folder | None = None, **settings: object) -> None:
        """What the job begins with: what `save_persistables` has saved."""
        left_out("fleet.init_server", settings=_unusual(settings))
        self.job.warmup = fleet_saving.tables_beneath(str(model_dir)) if model_dir else None

    def run_server(self) -> None:
        """Serve; returns when the job is over."""
        if not self.is_server():
            raise bad("UM-FLUID-001", "fleet.run_server() in a process that is no server", "if fleet.is_server(): ...", where=user_line())  # fmt: skip
        self.job.serve()

    # ---- workers

    def init_worker(self) -> None:
        """Meet the servers: as soon as the startup program has run, if it has not yet."""
        self.job.begin_if_filled(global_scope())

    def stop_worker(self) -> None:
        """This trainer is done."""
        self.job.finish()

    def barrier_worker(self) -> None:
        """Wait for all trainers, with everything that they have sent."""
        self.job.session.barrier("fluid.barrier")

    _barrier = barrier_worker

    # ---- files

    def save_persistables(self, executor: Any, dirname: Folder, main_program: AnyProgram = None, **settings: object) -> None:  # fmt: skip
        """Everything that was learned. The first trainer writes."""
        left_out("fleet.save_persistables", settings=_unusual(settings))
        saving.save_persistables(self.job, dirname, main_program)

    def save_inference_model(self, executor: Any, dirname: Folder, feeded_var_names: Names, target_vars: Inputs, main_program: AnyProgram = None, export_for_deployment: bool = True) -> None:  # fmt: skip
        """A model that `fluid.io.load_inference_model` reads, with the rows of its embeddings, and everything that was learned beside it."""
        left_out("fleet.save_inference_model", export_for_deployment=export_for_deployment)
        saving.save_inference_model(self.job, executor, dirname, feeded_var_names, target_vars, main_program)

    def load_model(self, model_dir: Folder, **settings: object) -> None:
        """What `save_persistables` has saved, in the middle of a job. Every trainer calls it."""
        left_out("fleet.load_model", settings=_unusual(settings))
        self.job.session.load(fleet_saving.tables_beneath(str(model_dir)))


class PslibFleet(ServerFleet):
    """The same under the names of pslib, whose strategy is async."""

    @staticmethod
    def _usual() -> Any:
        return {}

    def save_model(self, save_dir: Folder, **settings: object) -> None:
        """As `save_persistables`."""
        left_out("fleet.save_model", settings=_unusual(settings))
        saving.save_persistables(self.job, save_dir, None)

    def shrink_sparse_table(self) -> None:
        """A day passes for rows that count; here none do."""
        say("fleet.shrink_sparse_table() has no effect: rows of fluid's programs count no shows, so all stay")

    def shrink_dense_table(
        self, decay: float, emb_dim: int = 11, scope: object = None, table_id: int | None = None
    ) -> None:
        """Nothing, which is said."""
        left_out("fleet.shrink_dense_table", decay=decay)

    def clear_model(self) -> NoReturn:
        """Refused."""
        raise bad("UM-FLUID-003", "fleet.clear_model does not work yet", "start the job again", where=user_line())

    def _set_client_communication_config(self, *_timeouts: object) -> None:
        say("fleet._set_client_communication_config() has no effect: connections are retried until the timeout")


class ServerFleetOptimizer:
    """What `distributed_optimizer` returns."""

    def __init__(self, fleet: ServerFleet, optimizer: Any) -> None:
        self._fleet, self._optimizer = fleet, optimizer

    def minimize(self, losses: Input, scopes: Any = None, startup_programs: AnyProgram = None, parameter_list: Inputs = None, no_grad_set: Names = None) -> Output:  # fmt: skip
        """Let the loss's program learn on the servers."""
        losses, startups = _single(losses), _single(startup_programs)
        check_loss(losses)
        if startups is None and hasattr(scopes, "global_block"):
            startups = scopes
        startup = startups or default_startup_program()
        outcome = self._optimizer.minimize(losses, startup, parameter_list, no_grad_set)
        self._fleet.took(losses.block.program, startup)
        return outcome

    def backward(self, *given: Any, **named: Any) -> Output:
        """As the optimizer's own."""
        return self._optimizer.backward(*given, **named)

    def apply_gradients(self, params_grads: Any) -> Output:
        """Refused: the servers apply them."""
        raise bad("UM-FLUID-003", "apply_gradients of a distributed optimizer does not work yet", "minimize", where=user_line())  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


def _unusual(settings: dict[str, object]) -> dict[str, object] | None:
    """What is not zero or off, as 1.8 has these settings; None for nothing."""
    return {name: each for name, each in settings.items() if each} or None


def _single(given: Any) -> Any:
    """One of a list of one."""
    return given[0] if isinstance(given, list | tuple) and len(given) == 1 else given


transpiler_fleet = ServerFleet()
pslib_fleet = PslibFleet()
