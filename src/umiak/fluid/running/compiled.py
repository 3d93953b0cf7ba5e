"""What people set for running in parallel: accepted, since a program runs on one device here. Values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from umiak.fluid.record.problems import bad

if TYPE_CHECKING:
    from umiak.fluid.arguments import AnyProgram, Feed, Place, Settings, Value


class _Settings:
    """Holds what is set; a name that fluid does not have is an error."""

    known: ClassVar[Feed] = {}

    def __init__(self) -> None:
        self.__dict__.update(self.known)

    def __setattr__(self, name: str, value: Value) -> None:
        if name not in self.known:
            kind = type(self).__name__
            raise bad("UM-FLUID-001", f"{kind} has no setting {name}", f"it has {', '.join(sorted(self.known))}")
        self.__dict__[name] = value


class ExecutionSettings(_Settings):
    """`fluid.ExecutionStrategy`."""

    ExecutorType: ClassVar[Any] = None
    known: ClassVar[Feed] = {
        "num_threads": 0,
        "use_cuda": False,
        "allow_op_delay": False,
        "num_iteration_per_drop_scope": 100,
        "num_iteration_per_run": 1,
        "use_thread_barrier": False,
        "_dry_run": False,
        "use_experimental_executor": False,
    }


class _Reduce:
    AllReduce, Reduce, _NoReduce = 0, 1, 2


class _Scale:
    CoeffNumDevice, One, Customized = 0, 1, 2


class BuildSettings(_Settings):
    """`fluid.BuildStrategy`."""

    ReduceStrategy = _Reduce
    GradientScaleStrategy = _Scale
    known: ClassVar[Feed] = dict.fromkeys(
        [
            "remove_unnecessary_lock",
            "enable_sequential_execution",
            "fuse_elewise_add_act_ops",
            "fuse_bn_act_ops",
            "fuse_relu_depthwise_conv",
            "fuse_broadcast_ops",
            "fuse_all_optimizer_ops",
            "fuse_all_reduce_ops",
            "sync_batch_norm",
            "memory_optimize",
            "enable_inplace",
            "enable_auto_fusion",
            "async_mode",
            "cache_runtime_context",
            "enable_backward_optimizer_op_deps",
            "is_distribution",
            "use_hierarchical_allreduce",
            "debug_graphviz_path",
            "mkldnn_enabled_op_types",
            "enable_addto",
            "fix_op_run_order",
        ],
        False,
    ) | {
        "reduce_strategy": 0,
        "gradient_scale_strategy": 0,
        "num_trainers": 1,
        "trainer_id": 0,
        "trainers_endpoints": [],
        "nccl_comm_num": 1,
        "hierarchical_allreduce_inter_nranks": 0,
        "hierarchical_allreduce_exter_nranks": 0,
    }


class CompiledProgram:
    """A program with settings."""

    def __init__(self, program_or_graph: AnyProgram, build_strategy: Settings = None) -> None:
        self.program = program_or_graph
        self.build_strategy = build_strategy
        self.is_parallel = False

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: Settings = None,
        exec_strategy: Settings = None,
        share_vars_from: object = None,
        places: Place = None,
    ) -> CompiledProgram:
        """The same: one device, which takes whole batches."""
        self.places, self.is_parallel = places, True
        self.build_strategy = build_strategy or self.build_strategy
        return self

    def with_inference_optimize(self, config: Settings) -> CompiledProgram:
        """The same."""
        return self
