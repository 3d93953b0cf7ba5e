"""From a config and where this process stands to who does what: a pure decider.

    plan(config, standing) -> Plan

A plan has one run for each runner of ``mode``, in that order, and each run has everything that a trainer needs: it never looks at
the config again. What can't be done here is a problem; all of them are raised at once.

    alone      this process trains, or evaluates, by itself
    launcher   workers have yet to be started on this node: so many servers, so many trainers
    trainer    this process is trainer number ``rank``
    server     this process is server number ``rank``
    idle       another process of the job does it
    outside    it needs a cluster, and this is none
"""

from __future__ import annotations

from enum import Enum

from umiak.contracts.seat import WorkerSeat
from umiak.core.cluster import Role, StrategyName
from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace, value
from umiak.train.config.evaluating.settings import EvaluationSettings
from umiak.train.config.objectives.retrieval import Retrieval
from umiak.train.config.objectives.settings import Objective
from umiak.train.config.values import (
    Dataset,
    Device,
    EmbeddingTables,
    FleetMode,
    Learning,
    NodeData,
    Runner,
    RunnerClass,
    TableParameters,
    TrainConfig,
    Wire,
)
from umiak.train.plan.process_role import ProcessRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.train.config.values import Free


class RunRole(str, Enum):
    """What this process does in a runner."""

    ALONE = "alone"
    LAUNCHER = "launcher"
    TRAINER = "trainer"
    SERVER = "server"
    IDLE = "idle"
    OUTSIDE = "outside"


@value
class WorkerGroup:
    """Who takes part in a runner, and what this process is among them."""

    role: RunRole
    fleet_mode: FleetMode | None = None
    """None: one process, nobody to work with."""
    strategy: StrategyName | None = None
    """None: no parameter servers."""
    geo_steps: int | None = None
    wire: Wire = Wire.FLOAT32
    prefetch_rows: int = 1
    trainers: int | None = 1
    """In all; None: as many as the cluster gives."""
    servers: int | None = 0
    trainers_here: int | None = None
    """What a launcher starts on this node; None: nothing, or one for each device that it finds."""
    servers_here: int = 0
    rank: int | None = None
    """A trainer's or a server's number."""
    why: str = ""
    """What led to this role, in words."""
    node_data: NodeData = NodeData.SHARED
    node_data_why: str = ""
    """What says that each node has data of its own."""

    @property
    def is_free(self) -> bool:
        """Whether no trainer waits for another one."""
        return self.strategy is not None and not self.strategy.waits_for_others

    @property
    def mode(self) -> str:
        """How trainers work together, in a word."""
        if self.strategy is not None:
            return self.strategy.value
        return "alone" if self.fleet_mode is None else self.fleet_mode.value

    @property
    def is_divided(self) -> bool:
        """Whether several trainers share the data, each sample going to one of them."""
        return self.trainers != 1


@value
class Stage:
    """One phase of an epoch: a model on a dataset."""

    name: str
    model: str
    dataset: Dataset
    threads: int
    shuffle_files: bool
    gradient_scale: int


@value
class Run:
    """One runner, ready to be run."""

    runner: Runner
    group: WorkerGroup
    stages: tuple[Stage, ...]
    """Run in this order in every epoch."""
    evaluation: Stage | None = None
    """Run after every epoch, without learning."""

    @property
    def name(self) -> str:
        return self.runner.name

    @property
    def kind(self) -> RunnerClass:
        return self.runner.kind

    @property
    def is_training(self) -> bool:
        return self.kind is not RunnerClass.INFER


@value
class Ended:
    """How a run ended in this process."""

    status: int = 0
    stopped_by: int | None = None
    """The signal that asked for the end, if one did: then the next run is not begun."""


@value
class Plan:
    """Everything that is to be done, in order."""

    config: str
    """The file that it was made from."""
    workspace: str
    runs: tuple[Run, ...]
    hyper_parameters: Free
    learning: Learning
    table_parameters: dict[str, TableParameters]
    debug: bool
    embedding_tables: EmbeddingTables = EmbeddingTables.SHARED
    evaluation: EvaluationSettings = EvaluationSettings()
    objective: Objective = Objective()
    retrieval: Retrieval = Retrieval()
    written: Free = {}
    """The config as it is written, for reader classes and models that look into it."""


def code_of(made: Plan) -> tuple[str, ...]:
    """Every file that a config lets be run or imported, and every local model that is loaded: Paddle unpickles weights."""
    stages = [stage for run in made.runs for stage in (*run.stages, run.evaluation) if stage]
    runners = [run.runner for run in made.runs]
    saved = [each.path for runner in runners for each in (runner.checkpoint, runner.step_checkpoint) if each]
    found = [stage.model for stage in stages] + [stage.dataset.data_converter or "" for stage in stages]
    found += [runner.init_model_path or "" for runner in runners] + saved
    return tuple([path for path in dict.fromkeys(found) if path and "://" not in path])


def plan(config: TrainConfig, where: ProcessRole, file: str = "") -> Plan:
    """Who does what. UmiakError with everything that can't be done here."""
    problems = [*where.problems]
    runs = tuple([_run_of(config, config.runner(name), where, problems) for name in config.mode])
    UmiakError.raise_any(dict.fromkeys(problems))
    return Plan(
        config=file,
        workspace=config.workspace,
        runs=runs,
        hyper_parameters=config.hyper_parameters,
        learning=config.learning,
        table_parameters=config.table_parameters,
        debug=config.debug,
        embedding_tables=config.embedding_tables,
        evaluation=config.evaluation,
        objective=config.objective,
        retrieval=config.retrieval,
    )


def visible_settings(written: Free, stage: Stage, runner: str = "") -> dict[str, object]:
    """What ``envs.get_global_env`` knows in a stage: ``dataset.NAME.batch_size``, and for short ``dataset.batch_size`` of its own dataset.

    Lists of the config become mappings by name. In the newer layout ``runner`` is one mapping, as it is written.
    """
    found: dict[str, object] = dict(written)
    for section, own in (("runner", runner), ("phase", stage.name), ("dataset", stage.dataset.name)):
        entries = found.get(section)
        if isinstance(entries, (list, tuple)):
            named: dict[str, dict[str, object]] = {
                str(each.get("name")): each for each in entries if isinstance(each, dict)
            }
            found[section] = {**named.get(own, {}), **named}
    return found


def obstacles(made: Plan) -> tuple[Problem, ...]:
    """Why a plan can't be run here, though it can be shown."""
    return tuple(
        [
            Problem(
                code="UM-TRAIN-004",
                what=f"runner {run.name} has class {run.kind.value}, and this is not a node of a cluster",
                why="no variable of a launcher or a platform is set here",
                hint="submit it with `--on PLACE` or `-b backend.yaml`, or run it on every node of a cluster; to train on this machine, "
                "write `class: local_cluster_train`",
            )
            for run in made.runs
            if run.group.role is RunRole.OUTSIDE
        ]
    )


def _run_of(config: TrainConfig, runner: Runner, where: ProcessRole, problems: list[Problem]) -> Run:
    return Run(
        runner=runner,
        group=_with_data(_Grouping(runner, where, problems).group(), runner, where),
        stages=tuple([_stage(config, name) for name in runner.phases]),
        evaluation=_stage(config, runner.evaluation.phase) if runner.evaluation else None,
    )


def _with_data(group: WorkerGroup, runner: Runner, where: ProcessRole) -> WorkerGroup:
    """What the config says of the nodes' data, or else the platform."""
    if runner.kind is not RunnerClass.CLUSTER_TRAIN or not group.is_divided:
        return group
    if runner.node_data is not None:
        return replace(group, node_data=runner.node_data, node_data_why=f"node_data: {runner.node_data.value}")
    if where.has_own_data:
        return replace(group, node_data=NodeData.OWN, node_data_why="PADDLEREC_CLUSTER_TYPE=MPI")
    return group


def _stage(config: TrainConfig, name: str) -> Stage:
    phase = config.phase(name)
    return Stage(
        name=name,
        model=phase.model,
        dataset=config.dataset(phase.dataset_name),
        threads=phase.thread_num,
        shuffle_files=phase.shuffle_filelist,
        gradient_scale=phase.gradient_scale,
    )


_NEEDED = {
    True: "TRAINING_ROLE, PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM and PADDLE_TRAINER_ID",
    False: "PADDLE_TRAINERS, POD_IP and PADDLE_TRAINER_ID",
}
"""What a platform tells a node, with and without parameter servers."""


class _Grouping:
    """Who is who in one runner."""

    def __init__(self, runner: Runner, where: ProcessRole, problems: list[Problem]) -> None:
        self.runner = runner
        self.where = where
        self.problems = problems
        self.has_servers = runner.fleet_mode is FleetMode.PS

    def group(self) -> WorkerGroup:
        runner, seat = self.runner, self.where.seat
        if runner.kind is RunnerClass.INFER:
            return self._infer(seat)
        if runner.kind is RunnerClass.TRAIN and runner.workers == 1:
            return self._single(seat)
        if seat is not None:
            return self._seated(seat)
        if runner.kind in (RunnerClass.TRAIN, RunnerClass.LOCAL_CLUSTER_TRAIN):
            return self._group(RunRole.LAUNCHER, nodes=1, why=f"class {runner.kind.value}")
        if self.where.placement is not None:
            return self._node()
        if self.where.is_node:
            self._problem(
                "nothing says which node this is, though PADDLE_PADDLEREC_ROLE is WORKER",
                hint=f"set {_NEEDED[self.has_servers]}, or use `umiak launch`",
            )
        if runner.kind is RunnerClass.ONLINE_LEARNING and max(runner.workers, runner.servers) > 1:
            return self._group(RunRole.LAUNCHER, nodes=1, why="worker_num and server_num")
        if runner.kind is RunnerClass.ONLINE_LEARNING or runner.alone_allowed:
            return WorkerGroup(role=RunRole.ALONE, why="no cluster")
        return self._group(RunRole.OUTSIDE, nodes=None, why="no cluster")

    def _infer(self, seat: WorkerSeat | None) -> WorkerGroup:
        if seat is not None and (seat.role is Role.SERVER or seat.rank > 0):
            return WorkerGroup(role=RunRole.IDLE, why="trainer 0 evaluates")
        placement = self.where.placement
        if placement is not None and (placement.rank or 0) > 0:
            return WorkerGroup(role=RunRole.IDLE, why="node 0 evaluates")
        return WorkerGroup(role=RunRole.ALONE, why="class infer")

    def _single(self, seat: WorkerSeat | None) -> WorkerGroup:
        crowded = seat is not None and (seat.trainers > 1 or seat.role is Role.SERVER)
        if seat is not None and crowded:
            who = "a parameter server" if seat.role is Role.SERVER else f"trainer {seat.rank} of {seat.trainers}"
            self._problem(
                f"class train is for one process, and this is {who} ({seat.said_by})",
                hint="write `class: cluster_train`",
            )
        return WorkerGroup(role=RunRole.ALONE, why="class train")

    def _seated(self, seat: WorkerSeat) -> WorkerGroup:
        runner, servers = self.runner, len(seat.servers)
        if seat.role is Role.SERVER and not self.has_servers:
            self._problem(
                f"fleet_mode is collective, and this is a parameter server ({seat.said_by})",
                hint="write `fleet_mode: ps`, or start trainers only",
            )
        if seat.role is Role.TRAINER and self.has_servers and not servers:
            if seat.trainers == 1:
                return WorkerGroup(role=RunRole.ALONE, why=f"{seat.said_by}, one trainer and no server")
            self._problem(
                f"fleet_mode is ps, and there is no parameter server for {seat.trainers} trainers",
                hint=f"`umiak launch --server_num 1 --trainer_num {seat.trainers} ...` starts one as well",
            )
        return WorkerGroup(
            role=RunRole.SERVER if seat.role is Role.SERVER else RunRole.TRAINER,
            fleet_mode=runner.fleet_mode,
            strategy=runner.strategy if self.has_servers else None,
            geo_steps=self._geo_steps(),
            wire=runner.wire if self.has_servers else Wire.FLOAT32,
            prefetch_rows=runner.prefetch_rows,
            trainers=seat.trainers,
            servers=servers if self.has_servers else 0,
            rank=seat.rank,
            why=seat.said_by,
        )

    def _node(self) -> WorkerGroup:
        """This node has a place in a cluster, and no workers yet."""
        placement = self.where.placement
        assert placement is not None
        why = f"{placement.platform}: {placement.reason}"
        if placement.role is None:
            return self._group(RunRole.LAUNCHER, nodes=placement.nodes, why=why)
        made = self._group(RunRole.LAUNCHER, nodes=None, why=why)
        is_server = placement.role is Role.SERVER
        return replace(
            made,
            trainers=len(placement.trainer_endpoints) or None,
            servers=len(placement.server_endpoints) or None,
            trainers_here=0 if is_server else 1,
            servers_here=1 if is_server else 0,
        )

    def _group(self, role: RunRole, *, nodes: int | None, why: str) -> WorkerGroup:
        """So many on every node."""
        runner = self.runner
        # On accelerators that nobody chose, a launcher on a cluster finds out how many there are.
        nobody_chose = not runner.device_ids and runner.workers == 1 and runner.device is not Device.CPU
        is_local = runner.kind in (RunnerClass.TRAIN, RunnerClass.LOCAL_CLUSTER_TRAIN)
        finds_out = nobody_chose and not is_local and not self.has_servers
        here = None if finds_out else runner.workers
        servers_here = runner.servers if self.has_servers else 0
        return WorkerGroup(
            role=role,
            fleet_mode=runner.fleet_mode,
            strategy=runner.strategy if self.has_servers else None,
            geo_steps=self._geo_steps(),
            wire=runner.wire if self.has_servers else Wire.FLOAT32,
            prefetch_rows=runner.prefetch_rows,
            trainers=None if nodes is None or here is None else nodes * here,
            servers=0 if not self.has_servers else None if nodes is None else nodes * servers_here,
            trainers_here=here if role is RunRole.LAUNCHER else None,
            servers_here=servers_here if role is RunRole.LAUNCHER else 0,
            why=why,
        )

    def _geo_steps(self) -> int | None:
        return self.runner.geo_steps if self.has_servers and self.runner.strategy is StrategyName.GEO else None

    def _problem(self, what: str, *, hint: str) -> None:
        self.problems.append(Problem(code="UM-TRAIN-003", what=f"runner {self.runner.name}: {what}", hint=hint))
