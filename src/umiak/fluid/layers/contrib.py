"""`fluid.contrib.layers`: what models of recommenders took from it. A program."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from umiak.fluid.layers import parametric, rows
from umiak.fluid.layers.entries import CountFilterEntry, ProbabilityEntry
from umiak.fluid.record import naming
from umiak.fluid.record.attributes import ConstantInitializer, ParamAttr
from umiak.fluid.record.current import default_main_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import OPTIMIZE
from umiak.fluid.record.recording import append_plain, apply, create_parameter, create_state, dtype_name
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Attr, DType, Input, Output, Outputs, Sizes


def shuffle_batch(x: Input, seed: int | None = None) -> Output:
    """The rows in a drawn order."""
    left_out("contrib.layers.shuffle_batch", seed=seed)
    return apply("shuffle_batch", {"x": x})


def index_sample(x: Input, index: Input) -> Output:
    """Of each row the elements at its own places."""
    return rows.call("index_sample", x, index)


def partial_concat(input: Outputs, start_index: int = 0, length: int = -1) -> Output:
    """Some columns of each input, side by side."""
    inputs = list(input) if isinstance(input, list | tuple) else [input]
    return apply("partial_concat", {"input": inputs, "start_index": start_index, "length": length})


def partial_sum(input: Outputs, start_index: int = 0, length: int = -1) -> Output:
    """Some columns of all inputs, added."""
    return apply("partial_sum", {"input": list(input), "start_index": start_index, "length": length})


SINGLE, BOTH = ("scale", "relu", "tanh", "sigmoid"), ("elementwise_add", "elementwise_mul", "elementwise_sub")


def fused_elemwise_activation(x: Input, y: Input, functor_list: Outputs, axis: int = -1, scale: float = 0.0, save_intermediate_out: bool = True) -> Output:  # fmt: skip
    """Two functions one after another, the outer one first."""
    names = functor_list.split(",") if isinstance(functor_list, str) else list(functor_list)
    if len(names) != 2 or {name in BOTH for name in names} != {True, False} or any(name not in (*SINGLE, *BOTH) for name in names):  # fmt: skip
        what = f"expected one of {', '.join(BOTH)} and one of {', '.join(SINGLE)} as functor_list, got {functor_list!r}"
        raise bad("UM-FLUID-002", what, where=user_line())
    arguments = {"x": x, "y": y, "functor_list": names, "axis": axis, "scale": scale}
    return apply("fused_elemwise_activation", arguments)


def fused_embedding_seq_pool(input: Input, size: Sizes, is_sparse: bool = False, padding_idx: int | None = None, combiner: str = "sum", param_attr: Attr = None, dtype: DType = "float32") -> Output:  # fmt: skip
    """The sum of the rows of each sequence of ids."""
    if combiner != "sum":
        raise bad("UM-FLUID-003", f"combiner={combiner!r} does not work, nor did it in 1.8", "sum", where=user_line())
    left_out("contrib.layers.fused_embedding_seq_pool", is_sparse=is_sparse)
    layer = naming.generate("fused_embedding_seq_pool")
    weight = create_parameter(layer, param_attr, size, dtype)
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx
    return apply("fused_embedding_seq_pool", {"input": input, "weight": weight, "padding_idx": padding}, name=layer)


def sparse_embedding(input: Input, size: Sizes, padding_idx: int | None = None, is_test: bool = False, entry: object = None, table_class: str = "CommonSparseTable", param_attr: Attr = None, dtype: DType = "float32") -> Output:  # fmt: skip
    """`fluid.embedding` whose rows are few in each batch. In a job with servers they are there alone, and begin there; ``entry`` says then which ids
    get a row, and has no effect elsewhere.
    """
    left_out("contrib.layers.sparse_embedding", is_test=is_test, table_class=table_class)
    if entry is not None:
        what = (
            "has no effect in one process"
            if isinstance(entry, ProbabilityEntry | CountFilterEntry)
            else "has no effect"
        )
        warnings.warn(f"contrib.layers.sparse_embedding: entry {what}, every id has a row", stacklevel=2)
    embedded = parametric.embedding_v2(input, size, True, True, padding_idx, param_attr, dtype_name(dtype))
    weight = embedded.block.vars[embedded.block.ops[-1].arguments["weight"].name]
    weight.is_server_table, weight.entry = True, getattr(entry, "entry", None)
    return embedded


def _fixed(layer: str, attribute: Attr, shape: Sizes, dtype: DType) -> Output:
    """A parameter that nobody learns: a tree that is loaded or given."""
    given = ParamAttr.of(attribute) or ParamAttr()
    given.trainable = False
    return create_parameter(layer, given, shape, dtype, default=ConstantInitializer(0))


def tdm_child(x: Input, node_nums: int, child_nums: int, param_attr: Attr = None, dtype: DType = "int32") -> Output:
    """The children of nodes of a tree, and which of them are items."""
    layer = naming.generate("tdm_child")
    tree = _fixed(layer, param_attr, [node_nums, 3 + child_nums], "int32")
    arguments = {"x": x, "tree": tree, "child_nums": child_nums, "dtype": dtype_name(dtype)}
    return apply("tdm_child", arguments, name=layer, outputs=2)


def tdm_sampler(x: Input, neg_samples_num_list: list[int], layer_node_num_list: list[int], leaf_node_num: int, tree_travel_attr: Attr = None, tree_layer_attr: Attr = None, output_positive: bool = True, output_list: bool = True, seed: int = 0, tree_dtype: DType = "int32", dtype: DType = "int32") -> Output:  # fmt: skip
    """For each item and layer of a tree the node on the item's way and others of the layer: nodes, labels and masks, as lists by layers."""
    counts, sizes = list(neg_samples_num_list), list(layer_node_num_list)
    if len(counts) != len(sizes):
        what = f"tdm_sampler: {len(counts)} numbers of negative samples for {len(sizes)} layers"
        raise bad("UM-FLUID-002", what, where=user_line())
    wrong = [number for number, (count, size) in enumerate(zip(counts, sizes, strict=True)) if count >= size]
    if wrong or leaf_node_num >= sum(sizes):
        what = f"tdm_sampler: layers {wrong} have no more nodes than negative samples" if wrong else f"tdm_sampler: {leaf_node_num} leaves among {sum(sizes)} nodes"  # fmt: skip
        raise bad("UM-FLUID-002", what, where=user_line())
    layer = naming.generate("tdm_sampler")
    travel = _fixed(layer, tree_travel_attr, [leaf_node_num, len(sizes)], tree_dtype)
    nodes = _fixed(layer, tree_layer_attr, [sum(sizes), 1], tree_dtype)
    arguments = {
        "x": x,
        "travel": travel,
        "layer": nodes,
        "counts": counts,
        "sizes": sizes,
        "output_positive": output_positive,
        "seed": seed,
        "dtype": dtype_name(dtype),
    }
    outputs = apply("tdm_sampler", arguments, name=layer, outputs=3)
    if not output_list:
        return outputs
    widths = [count + int(output_positive) for count in counts]
    starts = [sum(widths[:number]) for number in range(len(widths))]
    return tuple(
        [
            rows.call("reshape", rows.call("slice", each, [1], [start], [start + width]), [-1, width, 1])
            for start, width in zip(starts, widths, strict=True)
        ]
        for each in outputs
    )


def ctr_metric_bundle(input: Input, label: Input) -> Output:
    """Sums over all runs: squared and absolute errors, predictions, their sigmoids, clicks and instances."""
    sums = [create_state(naming.generate("ctr_metric_bundle.tmp"), [1], "float32", 0.0) for _ in range(6)]
    append_plain("ctr_metric_bundle", {"input": input, "label": label, "sums": sums}, sums, role=OPTIMIZE)
    return tuple(sums)


def get_var(name: str, program: Output = None) -> Output:
    """`fluid.framework._get_var`: a variable of a program by its name."""
    return (program or default_main_program()).global_block().var(name)
