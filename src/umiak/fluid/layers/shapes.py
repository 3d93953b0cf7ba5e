"""Layers without parameters whose number or form of outputs depends on how they are called. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.fluid.layers import rows
from umiak.fluid.record import naming
from umiak.fluid.record.current import default_main_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import FORWARD, Variable
from umiak.fluid.record.recording import append_plain, apply
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Input, Output, Outputs, Shape, Sizes


def im2sequence(input: Input, filter_size: Sizes = 1, stride: Sizes = 1, padding: Sizes = 0, input_image_size: Input = None, out_stride: Sizes = 1, name: str | None = None) -> Output:  # fmt: skip
    """The parts of each image under a filter as a sequence."""

    def two(given: Sizes) -> Outputs:
        return list(given) if isinstance(given, list | tuple) else [given, given]

    around = two(padding)
    arguments = {
        "input": input,
        "filter_size": two(filter_size),
        "stride": two(stride),
        "padding": around if len(around) == 4 else [*around, around[0], around[1]],
        "sizes": input_image_size,
        "out_stride": two(out_stride),
    }
    return apply("im2sequence", arguments, name=name)


def meshgrid(input: Outputs, name: str | None = None) -> Outputs:
    """Grids: the values of each input along its own dimension."""
    outputs = apply("meshgrid", {"input": list(input)}, name=name, outputs=len(input))
    return list(outputs) if isinstance(outputs, tuple | list) else [outputs]


def nonzero(input: Input, as_tuple: bool = False) -> Output:
    """The places of what is not zero, a row for each; or a column for each dimension."""
    nonzero = rows.call("where", input)
    if not as_tuple:
        return nonzero
    if len(input.shape) == 1:
        return (nonzero,)
    return tuple(rows.call("slice", nonzero, [1], [place], [place + 1]) for place in range(len(input.shape)))


def adaptive_pool2d(input: Input, pool_size: Sizes, pool_type: str = "max", require_index: bool = False, name: str | None = None) -> Output:  # fmt: skip
    """So many windows; with the places of the largest elements if they are asked for."""
    return _adaptive(input, pool_size, pool_type, require_index, name)


def adaptive_pool3d(input: Input, pool_size: Sizes, pool_type: str = "max", require_index: bool = False, name: str | None = None) -> Output:  # fmt: skip
    """The same for bodies."""
    return _adaptive(input, pool_size, pool_type, require_index, name)


def _adaptive(input: Input, pool_size: Sizes, pool_type: str, require_index: bool, name: str | None) -> Output:
    if pool_type not in ("max", "avg") or (pool_type == "avg" and require_index):
        what = f"expected max or avg as pool_type, and places of max alone, got {pool_type!r}, require_index={require_index}"
        raise bad("UM-FLUID-002", what, where=user_line())
    arguments = {"input": input, "pool_size": pool_size, "pool_type": pool_type, "require_index": require_index}
    return apply("adaptive_pool", arguments, name=name, outputs=2 if require_index else 1)


def image_resize_short(input: Input, out_short_len: int, resample: str = "BILINEAR") -> Output:
    """The shorter side this long, the other one in proportion."""
    sides = list(input.shape[2:4])
    short = min(sides)
    shape = [out_short_len if side == short else int(side * (out_short_len / short) + 0.5) for side in sides]
    return rows.call("image_resize", input, shape, resample=resample)


def filter_by_instag(ins: Input, ins_tag: Input, filter_tag: Input, is_lod: bool, out_val_if_empty: float = 0) -> Outputs:  # fmt: skip
    """The instances that have one of the tags, and their weights."""
    arguments = {"ins": ins, "ins_tag": ins_tag, "filter_tag": filter_tag, "is_lod": is_lod}
    return list(apply("filter_by_instag", {**arguments, "out_val_if_empty": out_val_if_empty}, outputs=2))


def merge_selected_rows(x: Input, name: str | None = None) -> Output:
    """Unchanged: gradients are whole tensors here."""
    return apply("same", {"x": x}, name=name)


def get_tensor_from_selected_rows(x: Input, name: str | None = None) -> Output:
    """Unchanged: gradients are whole tensors here."""
    return apply("same", {"x": x}, name=name)


def tensor_array_to_tensor(input: Input, axis: int = 1, name: str | None = None, use_stack: bool = False) -> Output:
    """The tensors of an array joined, and the size of each along the axis."""
    block = default_main_program().current_block()
    shape: Shape = list(input.element.shape) if hasattr(input, "element") else [-1]
    if use_stack:
        shape.insert(axis, -1)
    elif axis < len(shape):
        shape[axis] = -1
    dtype = input.element.dtype if hasattr(input, "element") else "float32"
    joined = block.add(Variable(block, naming.generate(f"{name or 'tensor_array_to_tensor'}.tmp"), tuple(shape), dtype))
    sizes = block.create_var(naming.generate("tensor_array_to_tensor.tmp"), (-1,), "int32", stop_gradient=True)
    arguments = {"input": input, "axis": axis, "use_stack": use_stack}
    append_plain("tensor_array_to_tensor", arguments, [joined, sizes], role=FORWARD)
    return joined, sizes
