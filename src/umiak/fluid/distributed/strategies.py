"""How trainers and servers work together, as programs of 1.8 say it: `DistributeTranspilerConfig` and `StrategyFactory`. Values and a decider.

StrategyFactory.create_geo_strategy(25)      ->  Geo(every=25)
DistributeTranspilerConfig(), sync_mode True ->  Sync()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from umiak.core.problem import BadRequest
from umiak.core.value import value
from umiak.fluid.record.problems import bad
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line
from umiak.fluid.running.compiled import BuildSettings, ExecutionSettings
from umiak.ps import strategies
from umiak.ps.strategies import Async, Geo, HalfAsync, Sync

if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping
    from umiak.ps.strategies import Strategy

IGNORED = {
    "slice_var_up": "dense parameters are always divided evenly over the servers",
    "split_method": "rows and parameters are divided by umiak's own rule",
    "min_block_size": "dense parameters are always divided evenly over the servers",
    "enable_dc_asgd": "gradients count as they arrive, without compensation of their delay",
    "completely_not_async": "the strategy says it",
    "wait_port": "trainers wait for servers until they answer",
    "use_hierarchical_allreduce": "Paddle's own exchange chooses how",
    "hierarchical_allreduce_inter_nranks": "Paddle's own exchange chooses how",
    "nccl_comm_num": "there is one group",
    "print_log": "`umiak ps status` shows how servers are",
}
"""Settings that do nothing here, and why."""


class TranspilerConfig:
    """`fluid.DistributeTranspilerConfig`."""

    usual: ClassVar[dict[str, Any]] = {
        "slice_var_up": True,
        "split_method": None,
        "min_block_size": 8192,
        "enable_dc_asgd": False,
        "mode": "pserver",
        "print_log": False,
        "wait_port": True,
        "sync_mode": True,
        "runtime_split_send_recv": False,
        "half_async": False,
        "completely_not_async": False,
        "geo_sgd_mode": False,
        "geo_sgd_need_push_nums": 100,
        "nccl_comm_num": 1,
        "use_hierarchical_allreduce": False,
        "hierarchical_allreduce_inter_nranks": 0,
        "collective_mode": None,
    }

    def __init__(self) -> None:
        self.__dict__.update(self.usual)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"DistributeTranspilerConfig has no setting {name}")

    def __setattr__(self, name: str, given: Any) -> None:
        if name not in self.usual:
            hint = f"it has {', '.join(sorted(self.usual))}"
            raise bad("UM-FLUID-001", f"DistributeTranspilerConfig has no setting {name}", hint, where=user_line())
        self.__dict__[name] = given


class RuntimeConfig:
    """`TrainerRuntimeConfig`: settings of 1.8's communicator, by names with or without ``FLAGS_``."""

    def __init__(self) -> None:
        self.runtime_configs: dict[str, Any] = {}

    def get_communicator_flags(self) -> dict[str, Any]:
        return dict(self.runtime_configs)


class ServerStrategy:
    """`DistributedStrategy` of the parameter servers, as `StrategyFactory` makes it."""

    def __init__(self, name: str, **config: Any) -> None:
        self._name = name
        self._program, self._runtime = TranspilerConfig(), RuntimeConfig()
        for key, given in config.items():
            setattr(self._program, key, given)
        self._execution, self._build = ExecutionSettings(), BuildSettings()

    @property
    def name(self) -> str:
        """sync, async, half_async or geo."""
        return self._name

    def get_program_config(self) -> TranspilerConfig:
        return self._program

    def set_program_config(self, config: TranspilerConfig | dict[str, Any]) -> None:
        """Another one, or some of its settings."""
        if isinstance(config, TranspilerConfig):
            self._program = config
            return
        for key, given in config.items():
            setattr(self._program, key, given)

    def get_trainer_runtime_config(self) -> RuntimeConfig:
        return self._runtime

    def set_trainer_runtime_config(self, config: RuntimeConfig | dict[str, Any]) -> None:
        """Another one, or some of its settings."""
        self._runtime.runtime_configs.update(config.runtime_configs if isinstance(config, RuntimeConfig) else config)

    def get_server_runtime_config(self) -> RuntimeConfig:
        return RuntimeConfig()

    def set_server_runtime_config(self, config: object) -> None:
        """Nothing: servers have no such settings."""
        left_out("fleet.set_server_runtime_config", config=config)

    def get_execute_strategy(self) -> ExecutionSettings:
        return self._execution

    def set_execute_strategy(self, config: ExecutionSettings) -> None:
        self._execution = config

    def get_build_strategy(self) -> BuildSettings:
        return self._build

    def set_build_strategy(self, config: BuildSettings) -> None:
        self._build = config


class StrategyFactory:
    """Makes them."""

    @staticmethod
    def create_sync_strategy() -> ServerStrategy:
        return ServerStrategy("sync")

    @staticmethod
    def create_async_strategy() -> ServerStrategy:
        return ServerStrategy("async", sync_mode=False, runtime_split_send_recv=True)

    @staticmethod
    def create_half_async_strategy() -> ServerStrategy:
        return ServerStrategy("half_async", sync_mode=False, runtime_split_send_recv=True, half_async=True)

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> ServerStrategy:
        config = {"sync_mode": False, "geo_sgd_mode": True, "geo_sgd_need_push_nums": update_frequency}
        return ServerStrategy("geo", runtime_split_send_recv=True, **config)


@value
class ChosenServers:
    """A strategy of ours, and what of theirs does nothing."""

    strategy: Strategy
    remarks: tuple[str, ...] = ()


def chosen(theirs: Any) -> ChosenServers:
    """Ours for a strategy, a transpiler's config, or the dictionary of pslib, which is async; None is sync, as the config's default."""
    if theirs is None:
        return ChosenServers(strategy=Sync())
    if isinstance(theirs, dict):
        ignored = [f"strategy {key!r} is ignored: tables are described by the program alone" for key in theirs]
        return ChosenServers(strategy=Async(), remarks=tuple(ignored))
    flags: JsonMapping = {}
    if isinstance(theirs, ServerStrategy):
        flags = theirs.get_trainer_runtime_config().runtime_configs
        theirs = theirs.get_program_config()
    if not isinstance(theirs, TranspilerConfig):
        hint = "StrategyFactory.create_sync_strategy(), or a DistributeTranspilerConfig"
        raise bad("UM-FLUID-001", f"expected a strategy, got {theirs!r}", hint, where=user_line())
    found = strategies.translated(_name(theirs).value, dict(flags))
    BadRequest.raise_any(found.problems)
    strategy = found.strategy
    if isinstance(strategy, Geo) and "k_steps" not in str(flags):
        strategy = Geo(every=max(int(theirs.geo_sgd_need_push_nums), 1))
    usual = TranspilerConfig.usual
    remarks = [
        f"DistributeTranspilerConfig.{name} = {getattr(theirs, name)!r} is ignored: {why}"
        for name, why in IGNORED.items()
        if getattr(theirs, name) != usual[name]
    ]
    return ChosenServers(strategy=strategy, remarks=tuple(remarks))


def _name(config: TranspilerConfig) -> Any:
    if config.geo_sgd_mode:
        return Geo.name
    if config.half_async:
        return HalfAsync.name
    return Sync.name if config.sync_mode else Async.name
