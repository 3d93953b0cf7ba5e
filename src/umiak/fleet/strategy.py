"""Which of our strategies a ``fleet.DistributedStrategy`` means. A decider.

a_sync False                        Sync
a_sync True, k_steps 0 or less      Async
a_sync True, k_steps above 0        Geo(every=k_steps)

`HANDLED` has the settings that do something.
Each other one that differs from its default gets a remark, whatever Paddle may add.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.contracts.secrets import redacted
from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.fleet.programs.accessors import shown
from umiak.ps.strategies import Async, Geo, Sync

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from umiak.core.json_types import JsonMapping
    from umiak.ps.paddle_types import DistributedStrategy, Message, Setting
    from umiak.ps.strategies import Strategy

HANDLED = {
    "a_sync": "Sync or Async",
    "a_sync_configs.k_steps": "Geo above 0; a remark without a_sync",
    "downpour_table_param": "`ChosenStrategy.tables`: what sparse_table_configs says",
    "sync_batch_norm": "nothing to do with one trainer; a problem with more",
}
"""What settings do here, by the names of Paddle's protobuf. Everything else is ignored, and is remarked on."""

_NO_PART = "{} has no part in a job with parameter servers"
_FLAG = "what counts is the flag FLAGS_{} of Paddle"
_REASONS = {
    "amp": _NO_PART.format("mixed precision"),
    "recompute": _NO_PART.format("recomputation"),
    "gradient_merge": _NO_PART.format("merging of gradients"),
    "lars": _NO_PART.format("LARS"),
    "lamb": _NO_PART.format("LAMB"),
    "localsgd": _NO_PART.format("local SGD"),
    "adaptive_localsgd": _NO_PART.format("local SGD"),
    "dgc": _NO_PART.format("deep gradient compression"),
    "sharding": _NO_PART.format("sharding"),
    "pipeline": _NO_PART.format("pipeline parallelism"),
    "tensor_parallel": _NO_PART.format("tensor parallelism"),
    "hybrid": _NO_PART.format("hybrid parallelism"),
    "asp": _NO_PART.format("sparsity training"),
    "qat": _NO_PART.format("quantization"),
    "auto": _NO_PART.format("automatic parallelism"),
    "semi_auto": _NO_PART.format("automatic parallelism"),
    "auto_search": _NO_PART.format("automatic parallelism"),
    "fp16_allreduce": _NO_PART.format("an allreduce in float16"),
    "gradient_scale": "gradients of several trainers are put together as sync, async or geo does it",
    "adam_d2sum": "Adam learns as the optimizer of the script says",
    "elastic": "whether trainers may come and go is said to the launcher",
    "is_fl_ps_mode": "there is no federated learning",
    "with_coordinator": "there is no federated learning",
    "trainer_desc": "train_from_dataset dumps nothing, and runs the whole program in each trainer",
    "fs_client_param": "tables are saved to the path that a save is given",
    "mode": "the role maker says whether there are servers",
    "a_sync_configs.use_ps_gpu": "tables are in the memory of the servers",
    "a_sync_configs.use_gpu_graph": "tables are in the memory of the servers",
    "a_sync_configs.heter_worker_device_guard": "every trainer runs the whole program",
    "a_sync_configs.lr_decay_steps": "schedules of the optimizer are followed step by step",
    "cudnn_exhaustive_search": _FLAG.format("cudnn_exhaustive_search"),
    "conv_workspace_size_limit": _FLAG.format("conv_workspace_size_limit"),
    "cudnn_batchnorm_spatial_persistent": _FLAG.format("cudnn_batchnorm_spatial_persistent"),
    "sync_nccl_allreduce": _FLAG.format("sync_nccl_allreduce"),
}
"""Why a setting is ignored, by its name, or by that of its ``..._configs``."""
_OTHER_REASON = "umiak's parameter servers have no such setting"

_AS_WRITTEN = {
    "with_coordinator": "is_with_coordinator",
    "fuse_grad_size_in_TFLOPS": "_fuse_grad_size_in_TFLOPS",
    "calc_comm_same_stream": "_calc_comm_same_stream",
}
"""What scripts write, where it is not the name in the protobuf."""
_BESIDE = {
    "hybrid_parallel_order": ("hybrid_configs.order", ["dp", "pp", "sharding", "sep", "cp", "mp"]),
    "sync_param_name": ("hybrid_configs.mp_configs.sync_param_name", ["embedding", "layer_norm", ".b_"]),
}
"""Attributes in which Paddle keeps settings that its protobuf lacks: what scripts write, and the default."""


@value
class ChosenStrategy:
    """A strategy of ours, what of theirs is left out, and what of it can't be done."""

    strategy: Strategy
    remarks: tuple[str, ...] = ()
    tables: Mapping[str, JsonMapping] = {}
    """What ``sparse_table_configs`` says of each table, by dotted names: ``accessor.embedx_threshold``."""
    problems: tuple[Problem, ...] = ()


def chosen(theirs: DistributedStrategy, *, trainers: int = 1) -> ChosenStrategy:
    """Ours for theirs; None is what ``DistributedStrategy()`` says."""
    if theirs is None:
        return ChosenStrategy(strategy=Async())
    steps = int(theirs.a_sync_configs["k_steps"])
    strategy: Strategy = Async()
    if not theirs.a_sync:
        strategy = Sync()
    elif steps > 0:
        strategy = Geo(every=steps)
    remarks = [_remark(*each) for each in _ignored(theirs)]
    if not theirs.a_sync and steps > 0:
        name = "a_sync_configs.k_steps"
        remarks.append(
            f"strategy.{name} = {steps} is ignored: without a_sync trainers exchange what they learned in each step"
        )
    tables = {each.table_name: dict(_said(each)) for each in theirs.strategy.downpour_table_param}
    alone = Problem(
        code="UM-FLEET-050",
        what=f"strategy.sync_batch_norm = True: {trainers} trainers with parameter servers can't normalize by one mean and variance",
        why="each trainer runs its own batch, and exchanges gradients and parameters with the servers alone",
        hint="leave it out, and each trainer normalizes by its own batch, or use LayerNorm or GroupNorm, which need no other "
        "samples; fleet.init(is_collective=True) with paddle.nn.SyncBatchNorm trains without servers",
    )
    problems = (alone,) if theirs.sync_batch_norm and trainers > 1 else ()
    return ChosenStrategy(strategy=strategy, remarks=tuple(remarks), tables=tables, problems=problems)


def _ignored(theirs: DistributedStrategy) -> Iterator[tuple[str, Setting]]:
    """Settings that do nothing here and are not the default, by their names in the protobuf."""
    message = theirs.strategy
    for path, content in _unusual(message):
        is_cpu = path == "a_sync_configs.heter_worker_device_guard" and content.lower() == "cpu"
        if not is_cpu:
            yield path, content
    for name, content in vars(theirs).items():
        if name in _BESIDE:
            path, usual = _BESIDE[name]
            if list(content) != usual:
                yield path, content
        # Paddle takes `strategy.mode = 2` for an attribute of the object, and its protobuf stays as it is.
        elif name in message.DESCRIPTOR.fields_by_name and content != getattr(message, name):
            yield name, content


def _unusual(message: Message, prefix: str = "") -> Iterator[tuple[str, Setting]]:
    """What differs from its default in a message of protobuf and is not `HANDLED`, by dotted names."""
    usual = type(message)()
    for field, content in message.ListFields():
        path = f"{prefix}{field.name}"
        if path in HANDLED:
            continue
        if hasattr(content, "ListFields"):
            yield from _unusual(content, f"{path}.")
        elif content != getattr(usual, field.name):
            yield path, field.enum_type.values_by_number[content].name if field.enum_type else content


def _remark(path: str, content: Setting) -> str:
    first, _, rest = path.partition(".")
    reason = _REASONS.get(path) or _REASONS.get(first) or _REASONS.get(first.removesuffix("_configs"), _OTHER_REASON)
    name = ".".join(filter(None, (_AS_WRITTEN.get(first, first), rest)))
    (text,) = redacted({path: shown(content)}).values()
    return f"strategy.{name} = {text} is ignored: {reason}"


def _said(message: Message) -> Iterator[tuple[str, Setting]]:
    """What a message of protobuf says, by dotted names; defaults that nobody has said are left out."""
    for field, content in message.ListFields():
        if hasattr(content, "ListFields"):
            yield from ((f"{field.name}.{name}", each) for name, each in _said(content))
        elif hasattr(content, "__len__") and not isinstance(content, (str, bytes)):
            yield field.name, [*content]
        else:
            yield field.name, content
