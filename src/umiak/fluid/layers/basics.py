"""Layers that are no single row of the table: what is fed, states, operations with several outputs or several forms. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.fluid.layers import rows
from umiak.fluid.record import dynamic, naming
from umiak.fluid.record.attributes import ParamAttr
from umiak.fluid.record.current import default_main_program, in_dygraph_mode
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import Variable
from umiak.fluid.record.recording import append_plain, apply, create_state, dtype_name
from umiak.fluid.record.recording import create_parameter as _create_parameter
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line
from umiak.fluid.versions import VarDesc

if TYPE_CHECKING:
    from umiak.fluid.arguments import (
        Arguments,
        Attr,
        DType,
        Function,
        Input,
        Output,
        Outputs,
        Shape,
        Sizes,
        Value,
    )


def _fed(
    name: str, shape: Shape, dtype: DType, lod_level: int, *, stop_gradient: bool = True, checked: bool
) -> Variable:
    block = default_main_program().global_block()
    sizes = tuple(-1 if size is None else int(size) for size in shape)
    settings: Arguments = {"lod_level": lod_level, "stop_gradient": stop_gradient, "is_data": True}
    variable = Variable(block, name, sizes, dtype_name(dtype), **settings)
    variable.checked = checked
    block.add(variable)
    return variable


def data(name: str, shape: Shape, append_batch_size: bool = True, dtype: DType = "float32", lod_level: int = 0, type: object = None, stop_gradient: bool = True) -> Variable:  # fmt: skip
    """`fluid.layers.data`: the batch is put in front of the shape, unless the shape has -1 or None itself."""
    if type not in (None, VarDesc.VarType.LOD_TENSOR):
        raise bad("UM-FLUID-003", f"layers.data(type={type!r}) does not work", "feed tensors", where=user_line())
    shape = list(shape) if isinstance(shape, list | tuple) else [shape]
    known = any(size is None or size < 0 for size in shape)
    if append_batch_size and not known:
        shape = [-1, *shape]
    return _fed(name, shape, dtype, lod_level, stop_gradient=stop_gradient, checked=False)


def data_v2(name: str, shape: Shape, dtype: DType = "float32", lod_level: int = 0) -> Variable:
    """`fluid.data`: the shape as it is; None is any size."""
    return _fed(name, shape, dtype, lod_level, checked=True)


def create_parameter(shape: Shape, dtype: DType, name: str | None = None, attr: Attr = None, is_bias: bool = False, default_initializer: Attr = None) -> Output:  # fmt: skip
    """A parameter by itself."""
    attr = ParamAttr.of(attr) or ParamAttr()
    if name is not None and attr.name is None:
        attr.name = name
    layer = naming.generate("create_parameter")
    if in_dygraph_mode():
        return dynamic.create_parameter(
            layer, attr, shape, dtype_name(dtype), is_bias=is_bias, default=default_initializer
        )
    return _create_parameter(layer, attr, shape, dtype, is_bias=is_bias, default=default_initializer)


def create_global_var(shape: Shape, value: Value, dtype: DType, persistable: bool = False, force_cpu: bool = False, name: str | None = None) -> Output:  # fmt: skip
    """A variable with a first value from the startup program."""
    variable = create_state(name or naming.generate("global_var"), shape, dtype, value)
    variable.persistable = True  # it must last from the startup program to the next one
    return variable


def create_tensor(dtype: DType, name: str | None = None, persistable: bool = False) -> Output:
    """A variable that an operation is going to write."""
    block = default_main_program().current_block()
    variable = block.create_var(
        name or naming.generate("create_tensor.tmp"), (), dtype_name(dtype), persistable=persistable
    )
    variable.stop_gradient = False
    return variable


def assign(input: Input, output: Input = None) -> Output:
    """A copy, or the values of an array."""
    if isinstance(input, np.ndarray) and input.dtype == np.float64:
        input = input.astype("float32")
    return apply("assign", {"input": input}, out=output if isinstance(output, Variable) else None)


def increment(x: Input, value: float = 1.0, in_place: bool = True) -> Output:
    """x + value, in the same variable."""
    if in_dygraph_mode() and in_place:
        x.set_value(apply("increment", {"x": x, "value": float(value)}))
        return x
    return apply("increment", {"x": x, "value": float(value)}, out=x if in_place else None)


def fill_constant(shape: Shape, dtype: DType, value: Value, force_cpu: bool = False, out: Input = None, name: str | None = None) -> Output:  # fmt: skip
    """One value everywhere."""
    arguments = {"shape": shape, "dtype": dtype_name(dtype), "value": value, "force_cpu": force_cpu}
    output = apply("fill_constant", arguments, out=out, name=name)
    if isinstance(output, Variable):
        output.stop_gradient = True
    return output


def split(input: Input, num_or_sections: Sizes, dim: int = -1, name: str | None = None) -> Outputs:
    """Parts along an axis; 1.8's is the last one."""
    count = num_or_sections if isinstance(num_or_sections, int) else len(num_or_sections)
    dim = int(dim)
    outputs = apply("split", {"input": input, "parts": num_or_sections, "dim": dim}, name=name, outputs=count)
    return list(outputs) if isinstance(outputs, tuple | list) else [outputs]


def unstack(x: Input, axis: int = 0, num: int | None = None) -> Outputs:
    """Taken apart along an axis."""
    count = x.shape[axis] if num is None else num
    if count < 0:
        raise bad(
            "UM-FLUID-002", f"fluid.layers.unstack: how many parts {x} has is not known", "give num", where=user_line()
        )
    outputs = apply("unstack", {"x": x, "axis": axis, "num": count}, outputs=count)
    return list(outputs) if isinstance(outputs, tuple | list) else [outputs]


def softmax_with_cross_entropy(logits: Input, label: Input, soft_label: bool = False, ignore_index: int = -100, numeric_stable_mode: bool = True, return_softmax: bool = False, axis: int = -1) -> Output:  # fmt: skip
    """Of logits; with the probabilities if they are asked for."""
    arguments = {"logits": logits, "label": label, "soft_label": soft_label, "ignore_index": ignore_index, "axis": axis}
    loss, probabilities = apply("softmax_with_cross_entropy", arguments, outputs=2)
    return (loss, probabilities) if return_softmax else loss


def one_hot_v2(input: Input, depth: Input, allow_out_of_range: bool = False) -> Output:
    """`fluid.one_hot`: a dimension more than the ids have."""
    return apply("one_hot_v2", {"input": input, "depth": depth, "allow_out_of_range": allow_out_of_range})


def auc(input: Input, label: Input, curve: str = "ROC", num_thresholds: int = 2**12 - 1, topk: int = 1, slide_steps: int = 1) -> Output:  # fmt: skip
    """The area under the curve over everything, that of the last batches (``slide_steps``; 0 is all), and the histograms."""
    if curve not in ("ROC", "PR"):
        raise bad("UM-FLUID-001", f"auc: expected ROC or PR as curve, got {curve!r}", where=user_line())
    if slide_steps < 0 or num_thresholds < 1:
        what = (
            f"auc: expected num_thresholds above 0 and slide_steps of 0 or more, got {num_thresholds} and {slide_steps}"
        )
        raise bad("UM-FLUID-001", what, where=user_line())
    shape = [1, num_thresholds + 1]
    window = [(slide_steps + 1) * (num_thresholds + 1) + 1]
    sizes = [window, window, shape, shape]
    states = [create_state(naming.generate("auc.tmp"), each, "int64", 0) for each in sizes]
    arguments = {"input": input, "label": label, "curve": curve, "num_thresholds": num_thresholds}
    whole = apply("auc", {**arguments, "positive": states[2], "negative": states[3]})
    last = apply("auc_of_last", {**arguments, "positive": states[0], "negative": states[1], "slide_steps": slide_steps})
    whole.stop_gradient = last.stop_gradient = True
    return whole, last, states


def accuracy(input: Input, label: Input, k: int = 1, correct: Input = None, total: Input = None) -> Output:
    """The part of the rows whose label is among the best k. ``correct`` and ``total`` get how many these are, and all."""
    if not in_dygraph_mode():
        rows.call("topk", input, k)  # 1.8's has variables of this name: people name them in configs
    output = rows.call("accuracy", input, label, k)
    if isinstance(output, Variable):
        output.stop_gradient = True
    if correct is not None or total is not None:
        count = rows.call("reduce_sum", rows.call("fill_constant_batch_size_like", label, [-1, 1], "float32", 1.0))
        for given, number in ((total, count), (correct, output * count + 0.25)):
            if given is not None:
                apply("assign", {"input": rows.call("cast", number, given.dtype)}, out=given)
    return output


def print_(input: Input, first_n: int = -1, message: str | None = None, summarize: int = 20, print_tensor_name: bool = True, print_tensor_type: bool = True, print_tensor_shape: bool = True, print_tensor_layout: bool = True, print_tensor_lod: bool = True, print_phase: str = "both") -> Output:  # fmt: skip
    """`fluid.layers.Print`: says on stderr what a tensor is, each time it is computed, or ``first_n`` times."""
    if print_phase not in ("forward", "backward", "both"):
        what = f"Print: expected forward, backward or both as print_phase, got {print_phase!r}"
        raise bad("UM-FLUID-001", what, where=user_line())
    if print_phase == "backward":
        what = "Print(print_phase='backward') does not work: gradients are not printed"
        raise bad("UM-FLUID-003", what, "fetch what fluid.gradients returns", where=user_line())
    left_out("layers.Print", print_tensor_layout=print_tensor_layout)
    shown = {"name": print_tensor_name, "type": print_tensor_type, "shape": print_tensor_shape, "lod": print_tensor_lod}
    arguments = {"input": input, "message": message, "summarize": summarize, "first_n": first_n}
    return apply("print", {**arguments, "shown": [name for name, wanted in shown.items() if wanted]})


def py_func(
    func: Function,
    x: Input,
    out: Input,
    backward_func: Function | None = None,
    skip_vars_in_backward_input: object = None,
) -> Output:
    """A function of Python on arrays; its gradient does not work yet."""
    if backward_func is not None:
        raise bad(
            "UM-FLUID-003", "py_func(backward_func=) does not work yet", "write it with fluid.layers", where=user_line()
        )
    outputs = list(out) if isinstance(out, list | tuple) else [out]
    shapes = [(list(each.shape), each.dtype) for each in outputs]
    append_plain("py_func", {"x": x, "func": func, "shapes": shapes}, outputs, role="forward")
    return out


def sums(input: Input, out: Input = None) -> Output:
    """The sum of several."""
    return apply("sums", {"input": input}, out=out)
