"""What this program uses of Paddle that Paddle calls private, in one place. An adapter.

Each name has a test with a real Paddle that fails if a version changes it (tests/unit/ps/test_paddle_internals.py). No other module
of `ps`, `fleet` and the trainer's engines reads or sets such an attribute.
"""

from __future__ import annotations

from operator import attrgetter, methodcaller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.data.array_types import AnyArray
    from umiak.ps import paddle_types as types

# ---- tensors

is_initialized = methodcaller("_is_initialized")
"""Whether a tensor has memory."""
pointer = methodcaller("_ptr")
"""Where the numbers of a tensor of a static program begin."""
element_type = methodcaller("_dtype")


def part_of(tensor: types.Tensor, start: int, stop: int) -> types.Tensor:
    """A part of a tensor along its first dimension, in the same memory."""
    return tensor._slice(start, stop)


def share(tensor: types.Tensor, memory: types.Tensor, shape: Sequence[int]) -> None:
    """Let a tensor show this memory in this shape."""
    memory._set_dims([*shape])
    tensor._share_data_with(memory)


def is_on_cpu(tensor: types.Tensor) -> bool:
    """Whether a tensor of a static program is in the memory of the CPU."""
    return bool(tensor._place().is_cpu_place())


clear, clear_data = methodcaller("_clear"), methodcaller("_clear_data")
"""Release the memory of a tensor of a static program, or of a parameter."""


def answer_gradient(parameter: types.Parameter, answer: Callable[[], types.Tensor | None]) -> None:
    """Let Paddle's optimizers have this for the gradient of a parameter."""
    parameter._grad_ivar = answer


# ---- programs


def remove_op(block: types.Block, index: int) -> None:
    """Remove an operation from a block."""
    block._remove_op(index)


def remove_variable(block: types.Block, name: str) -> None:
    """Remove a variable from a block."""
    block._remove_var(name)


def insert_op(block: types.Block, index: int, **given: object) -> None:
    """``given``: type, inputs, outputs, attrs."""
    block._insert_op(index, **given)


def set_attribute(op: types.Operation, name: str, value: object) -> None:
    """Set an attribute of an operation."""
    op._set_attr(name, value)


def rename_output(op: types.Operation, name: str, new: str) -> None:
    """Let an operation write to another variable."""
    op._rename_output(name, new)


def pruned(program: types.Program, targets: Sequence[str]) -> types.Program:
    """A copy that has what these variables need."""
    return program.clone()._prune([*targets])


def mark_for_datasets(program: types.Program) -> None:
    """What `train_from_dataset` looks for in a program that fleet has taken."""
    program._fleet_opt = {"stat_var_names": []}


def program_in(compiled: types.Program) -> types.Program:
    """The program in a `CompiledProgram`, or what is none."""
    return getattr(compiled, "_program", None) or compiled


def has_own_way(program: types.Program) -> bool:
    """Whether this program is run as a graph or in a pipeline."""
    return program._graph is not None or bool(program._heter_pipeline_opt) or bool(program._pipeline_opt)


def operations() -> ModuleType:
    """The module of Paddle's C++ operations."""
    import paddle

    found: ModuleType = paddle._C_ops
    return found


# ---- executors

is_closed = attrgetter("_closed")


def compiled_run(
    executor: types.Executor,
    program: types.Program,
    feed: JsonMapping,
    fetch: Sequence[str],
    names: tuple[str, str],
    scope: types.Scope,
) -> tuple[types.Program, Any]:
    """A program as an executor compiles it, with operations that feed and fetch, and what runs it."""
    compiled, run = executor._executor_cache.get_program_and_executor(
        program, feed, [*fetch], *names, executor.place, scope
    )
    return compiled, run._new_exe


def run_compiled(run: Any, names: Sequence[str]) -> list[types.Tensor]:
    """Run it, fed with these; what was fetched."""
    tensors: list[types.Tensor] = run.run(names, False)._move_to_list()
    return tensors


def fed_tensor(data: types.Fed, place: object, dtype: object) -> types.Tensor:
    """Data of any kind that an executor takes, as a tensor."""
    from paddle.base import executor

    return executor._as_lodtensor(data, place, dtype)


# ---- fleet


def is_collective(role_maker: types.RoleMaker) -> bool:
    """Whether a role maker is for jobs without servers."""
    return bool(getattr(role_maker, "_is_collective", True))


def arguments_of(role_maker: types.RoleMaker) -> JsonObject:
    """What a role maker was made with."""
    given: JsonObject = getattr(role_maker, "_kwargs", {})
    return given


def seat(
    role_maker: types.RoleMaker,
    *,
    role: int,
    rank: int,
    world: int,
    servers: Sequence[str],
    workers: Sequence[str],
    nodes: int,
) -> None:
    """Let a role maker answer what Paddle's calls ask it, without finding it out."""
    role_maker._role = role
    role_maker._current_id = rank
    role_maker._trainers_num = world
    role_maker._server_endpoints = [*servers]
    role_maker._worker_endpoints = [*workers]
    role_maker._nodes_num = nodes
    role_maker._non_distributed = False
    role_maker._role_is_generated = True


def take_role(fleet: ModuleType, role_maker: types.RoleMaker, strategy: types.DistributedStrategy) -> types.Fleet:
    """What `fleet.init` leaves in the module's fleet: this role maker, with servers."""
    singleton = fleet.fleet
    singleton._role_maker = role_maker
    singleton._is_collective = False
    singleton._user_defined_strategy = strategy
    fleet.util._set_role_maker(role_maker)
    return singleton


# ---- layers

parameters_of = attrgetter("_parameters")
"""The parameters of a layer itself, by name."""


def padding_of(embedding: types.Layer) -> int | None:
    """The id of an embedding that reads as zeros."""
    padding, rows = embedding._padding_idx, embedding._num_embeddings
    if padding is None or padding == -1 - rows:
        return None
    return int(padding) if padding >= 0 else int(rows + padding)


padding_index = attrgetter("_padding_idx")
"""As `paddle.nn.functional.embedding` takes it."""


def batch_norms() -> type:
    """The base of Paddle's layers that normalize batches."""
    import paddle

    kind: type = paddle.nn.layer.norm._BatchNormBase
    return kind


# ---- optimizers

rate_or_schedule = attrgetter("_learning_rate")
coefficient = attrgetter("_coeff")
"""Of `paddle.regularizer.L1Decay` and `L2Decay`."""
inner_optimizer = attrgetter("_optimizer")
"""What mixed precision wraps."""
parameter_groups = attrgetter("_param_groups")


def create_accumulators(optimizer: types.Optimizer, block: types.Block, parameters: Sequence[types.Parameter]) -> None:
    """Make what an optimizer remembers of parameters, before its first step."""
    optimizer._create_accumulators(block, parameters)


def remembered(optimizer: types.Optimizer) -> dict[str, JsonObject]:
    """What an optimizer remembers, by kind and parameter; "master" are the float32 copies of mixed precision."""
    return {**optimizer._accumulators, "master": optimizer._master_weights}


def setting(optimizer: types.Optimizer, name: str, default: types.Setting) -> types.Setting:
    """A setting of an optimizer; not all kinds have it."""
    return getattr(optimizer, f"_{name}", default)


# ---- metrics

thresholds = attrgetter("_num_thresholds")


def count_into(auc: Any, positive: AnyArray, negative: AnyArray) -> None:
    """Add to the counts of a `paddle.metric.Auc`."""
    auc._stat_pos += positive
    auc._stat_neg += negative
