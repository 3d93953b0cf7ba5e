"""`fluid.incubate.fleet.collective`: `fleet` without servers. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from umiak.fluid.distributed import collective
from umiak.fluid.distributed.fleets import FluidFleet, check_loss
from umiak.fluid.distributed.telling import say
from umiak.fluid.record.current import default_startup_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line
from umiak.fluid.running.compiled import BuildSettings, ExecutionSettings
from umiak.fluid.saving import files

if TYPE_CHECKING:
    from umiak.fluid.arguments import AnyProgram, Feed, Folder, Input, Inputs, Names, Output
    from umiak.fluid.record.program import RecordedProgram

REFUSED = {
    "use_local_sgd": "local SGD does not work yet",
    "use_dist_fc": "a fully connected layer over several devices does not work yet",
}
IGNORED = {
    "use_amp": "everything is computed in the types of the program",
    "forward_recompute": "what the backward pass needs is kept",
}


class CollectiveStrategy(BuildSettings):
    """`collective.DistributedStrategy`."""

    known: ClassVar[Feed] = BuildSettings.known | {
        "use_local_sgd": False,
        "use_dist_fc": False,
        "dist_fc_config": None,
        "mode": "nccl2",
        "collective_mode": None,
        "forward_recompute": False,
        "recompute_checkpoints": [],
        "use_amp": False,
        "amp_loss_scaling": 2**15,
        "exec_strategy": None,
        "_ut4grad_allreduce": False,
        "_skip_nan_grad": False,
    }

    def __init__(self) -> None:
        super().__init__()
        self.exec_strategy = ExecutionSettings()

    def check(self) -> None:
        """What would change what is learned is refused, what only costs more or less is said."""
        for name, why in REFUSED.items():
            if getattr(self, name):
                raise bad("UM-FLUID-003", f"DistributedStrategy.{name} = {getattr(self, name)!r}: {why}", "leave it out", where=user_line())  # fmt: skip
        if self.collective_mode not in (None, "grad_allreduce"):  # type: ignore[attr-defined]
            raise bad("UM-FLUID-003", f"DistributedStrategy.collective_mode = {self.collective_mode!r} does not work yet", "grad_allreduce", where=user_line())  # type: ignore[attr-defined] # fmt: skip
        for name, why in IGNORED.items():
            if getattr(self, name):
                say(f"DistributedStrategy.{name} = {getattr(self, name)!r} is ignored: {why}")


class CollectiveFleet(FluidFleet):
    """A job whose trainers average their gradients."""

    is_collective = True

    def init(self, role_maker: Any = None) -> None:
        """Find out who this process is."""
        super().init(role_maker)
        maker = self._role_maker
        endpoints = maker.get_trainer_endpoints()
        own = endpoints[maker.worker_index()] if maker.worker_index() < len(endpoints) else ""
        if maker.is_collective:
            collective.use_endpoints(maker.worker_index(), endpoints, own)

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> CollectiveOptimizer:
        """The optimizer, with gradients averaged over all trainers."""
        return CollectiveOptimizer(optimizer, strategy, fleet=self)

    def took(self, program: RecordedProgram, startup: RecordedProgram) -> None:
        """A program was minimized."""
        collective.average(program, startup)
        self._program, self._startup = program, startup

    def barrier_worker(self) -> None:
        """Wait for all trainers."""
        trainers = collective.group()
        if trainers is not None:
            trainers.gather(b"", "fluid.barrier")

    def init_worker(self) -> None:
        """Nothing: trainers meet in their first step."""

    def stop_worker(self) -> None:
        """Nothing: nobody waits for a trainer that has ended its steps."""

    def init_server(self, model_dir: Folder | None = None) -> None:
        """Nothing: there are none."""

    def run_server(self) -> None:
        """Nothing: there are none."""

    def save_persistables(self, executor: Any, dirname: Folder, main_program: AnyProgram = None, filename: str | None = None) -> None:  # fmt: skip
        """Parameters and what optimizers keep. The first trainer writes: all have the same."""
        if self.is_first_worker():
            files.save_persistables(executor, dirname, main_program or self.main_program, filename)

    def save_inference_model(self, executor: Any, dirname: Folder, feeded_var_names: Names | None = None, target_vars: Inputs = None, main_program: AnyProgram = None, export_for_deployment: bool = True) -> None:  # fmt: skip
        """A model that `fluid.io.load_inference_model` reads. The first trainer writes."""
        left_out("fleet.save_inference_model", export_for_deployment=export_for_deployment)
        if self.is_first_worker():
            files.save_inference_model(dirname, feeded_var_names, target_vars, executor, main_program or self.main_program)  # fmt: skip


class CollectiveOptimizer:
    """An optimizer whose gradients are averaged; usable by itself."""

    def __init__(self, optimizer: Any, strategy: Any = None, *, fleet: CollectiveFleet | None = None) -> None:
        self._optimizer, self._fleet = optimizer, fleet or collective_fleet
        if isinstance(strategy, CollectiveStrategy):
            strategy.check()
        elif strategy is not None:
            what = f"distributed_optimizer: expected a DistributedStrategy of collective, got {strategy!r}"
            raise bad("UM-FLUID-001", what, where=user_line())

    def minimize(self, loss: Input, startup_program: AnyProgram = None, parameter_list: Inputs = None, no_grad_set: Names = None) -> Output:  # fmt: skip
        """Let the loss's program learn with the others."""
        check_loss(loss)
        startup = startup_program or default_startup_program()
        outcome = self._optimizer.minimize(loss, startup, parameter_list, no_grad_set)
        self._fleet.took(loss.block.program, startup)
        return outcome

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


collective_fleet = CollectiveFleet()
