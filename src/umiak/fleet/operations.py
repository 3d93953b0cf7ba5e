"""Functions that Paddle 3 has only for its newer programs, in static programs of the older kind.
An adapter, for Paddle.

`paddle.matmul`, `paddle.sum`, `paddle.nn.functional.sigmoid` and about fifty others call the compiled operation at once
since 3.3, which takes no variable of an older program. There they append the operation that they always did; everywhere
else they are Paddle's own.

`choose_older_form` lets `paddle.enable_static()` choose the older form, which can be divided among servers. Until then
nothing changes, so that dynamic scripts of a job with servers keep `paddle.jit.to_static` and the format of
`paddle.jit.save`, which need the newer form. A person who has set FLAGS_enable_pir_api has decided already.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

import paddle
from paddle.base.data_feeder import convert_dtype
from paddle.base.dygraph import generated_tensor_methods_patch as generated
from paddle.base.framework import Variable, convert_np_dtype_to_dtype_, in_dynamic_or_pir_mode
from paddle.base.layer_helper import LayerHelper

from umiak.ps import paddle_internals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umiak.core.json_types import JsonObject
    from umiak.ps.paddle_types import Call

    Axis = int | list[int] | tuple[int, ...] | None

SAME = (
    *("acos", "acosh", "asin", "atanh", "ceil", "cos", "cosh", "exp", "expm1", "floor", "log", "log2", "log10"),
    *("log1p", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tanh", "abs"),
)
"""One tensor in, one of the same kind out; the operation has the function's name."""
_BOOL = "bool"
FORM_FLAG = "FLAGS_enable_pir_api"


def _append(
    kind: str, inputs: dict[str, Variable], attributes: JsonObject | None = None, *, dtype: object = None
) -> Variable:
    """One more operation of the current program, and the variable that it gives."""
    helper = LayerHelper(kind)
    first = next(iter(inputs.values()))
    out = helper.create_variable_for_type_inference(first.dtype if dtype is None else dtype)
    if dtype == _BOOL:
        out.stop_gradient = True
    helper.append_op(
        type=kind,
        inputs={slot: [each] for slot, each in inputs.items() if each is not None},
        outputs={"Out": [out]},
        attrs=attributes or {},
    )
    return out


def _same(kind: str) -> Callable[..., Variable]:
    def call(x: Variable, *_more: object, **_named: object) -> Variable:
        return _append(kind, {"X": x})

    return call


def _test(kind: str) -> Callable[..., Variable]:
    def call(x: Variable, name: str | None = None) -> Variable:
        return _append(kind, {"X": x}, dtype=_BOOL)

    return call


def _pair(kind: str, *, dtype: object = None, attributes: JsonObject | None = None) -> Callable[..., Variable]:
    def call(x: Variable, y: Variable, name: str | None = None, **_named: object) -> Variable:
        x, y = _variables(x, y)
        return _append(kind, {"X": x, "Y": y}, attributes, dtype=dtype)

    return call


def _variables(x: Variable, y: Variable) -> tuple[Variable, Variable]:
    """Both as variables: a number beside a variable becomes one."""
    if not isinstance(y, Variable):
        y = paddle.full([1], y, x.dtype)
    if not isinstance(x, Variable):
        x = paddle.full([1], x, y.dtype)
    return x, y


def _axes(x: Variable, axis: Axis) -> tuple[bool, list[int]]:
    if axis is None or (isinstance(axis, (list, tuple)) and not axis):
        return True, list(range(len(x.shape))) or [0]
    axes = [int(each) for each in axis] if isinstance(axis, (list, tuple)) else [int(axis)]
    return len(axes) == len(x.shape), axes


def _reduced(kind: str, *, dtype: object = None) -> Callable[..., Variable]:
    def call(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
        everything, axes = _axes(x, axis)
        attributes = {"dim": axes, "keep_dim": keepdim, "reduce_all": everything}
        return _append(kind, {"X": x}, attributes, dtype=dtype)

    return call


def _sum(
    x: Variable, axis: Axis = None, dtype: object = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    everything, axes = _axes(x, axis)
    attributes: JsonObject = {"dim": axes, "keep_dim": keepdim, "reduce_all": everything}
    wanted = convert_dtype(x.dtype) if dtype is None else convert_dtype(dtype)
    if dtype is None and wanted in ("bool", "int32"):
        wanted = "int64"
    if wanted != convert_dtype(x.dtype):
        attributes |= {"in_dtype": x.dtype, "out_dtype": convert_np_dtype_to_dtype_(wanted)}
    return _append("reduce_sum", {"X": x}, attributes, dtype=wanted)


def _matmul(
    x: Variable, y: Variable, transpose_x: bool = False, transpose_y: bool = False, name: str | None = None
) -> Variable:
    return _append("matmul_v2", {"X": x, "Y": y}, {"trans_x": transpose_x, "trans_y": transpose_y})


def _logsumexp(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    everything, axes = _axes(x, axis)
    return _append("logsumexp", {"X": x}, {"axis": axes, "keepdim": keepdim, "reduce_all": everything})


def _place(kind: str) -> Callable[..., Variable]:
    def call(
        x: Variable, axis: int | None = None, keepdim: bool = False, dtype: object = "int64", name: str | None = None
    ) -> Variable:
        attributes = {
            "axis": 0 if axis is None else int(axis),
            "keepdims": keepdim,
            "flatten": axis is None,
            "dtype": convert_np_dtype_to_dtype_(dtype),
        }
        out = _append(kind, {"X": x}, attributes, dtype=dtype)
        out.stop_gradient = True
        return out

    return call


def _expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    return _append("expand_as_v2", {"X": x, "Y": y}, {"target_shape": [*y.shape]})


def _roll(x: Variable, shifts: int | Sequence[int], axis: Axis = None, name: str | None = None) -> Variable:
    listed = [*shifts] if isinstance(shifts, (list, tuple)) else [shifts]
    axes = [] if axis is None else [*axis] if isinstance(axis, (list, tuple)) else [axis]
    return _append("roll", {"X": x}, {"axis": axes, "shifts": listed})


def _triangle(*, lower: bool) -> Callable[..., Variable]:
    def call(x: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
        return _append("tril_triu", {"X": x}, {"diagonal": diagonal, "lower": lower})

    return call


def _diagonal(x: Variable, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Variable:
    return _append("diagonal", {"Input": x}, {"offset": offset, "axis1": axis1, "axis2": axis2})


def _gelu(x: Variable, approximate: bool | str = False, name: str | None = None) -> Variable:
    return _append("gelu", {"X": x}, {"approximate": approximate in (True, "tanh")})


def _softplus(x: Variable, beta: float = 1, threshold: float = 20, name: str | None = None) -> Variable:
    return _append("softplus", {"X": x}, {"beta": float(beta), "threshold": float(threshold)})


def _isclose(
    x: Variable, y: Variable, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False, name: str | None = None
) -> Variable:
    attributes = {"rtol": str(rtol), "atol": str(atol), "equal_nan": equal_nan}
    helper = LayerHelper("isclose")
    out = helper.create_variable_for_type_inference(_BOOL)
    helper.append_op(type="isclose", inputs={"Input": [x], "Other": [y]}, outputs={"Out": [out]}, attrs=attributes)
    return out


OLDER: dict[str, Callable[..., Variable]] = {
    **{name: _same(name) for name in SAME},
    **{name: _test(f"{name}_v2") for name in ("isfinite", "isinf", "isnan")},
    "logical_not": _test("logical_not"),
    **{name: _pair(name, dtype=_BOOL) for name in ("logical_and", "logical_or", "logical_xor", "greater_than")},
    "multiply": _pair("elementwise_mul", attributes={"axis": -1}),
    "maximum": _pair("elementwise_max", attributes={"axis": -1}),
    "minimum": _pair("elementwise_min", attributes={"axis": -1}),
    "dot": _pair("dot"),
    "bmm": _pair("bmm"),
    "matmul": _matmul,
    "sum": _sum,
    "amin": _reduced("reduce_amin"),
    "amax": _reduced("reduce_amax"),
    "all": _reduced("reduce_all", dtype=_BOOL),
    "any": _reduced("reduce_any", dtype=_BOOL),
    "logsumexp": _logsumexp,
    "argmax": _place("arg_max"),
    "argmin": _place("arg_min"),
    "expand_as": _expand_as,
    "roll": _roll,
    "tril": _triangle(lower=True),
    "triu": _triangle(lower=False),
    "diagonal": _diagonal,
    "gelu": _gelu,
    "softplus": _softplus,
    "isclose": _isclose,
}
"""What each function appends to an older program."""


def install() -> None:
    """Let these functions work in older programs too, wherever Paddle has imported them to."""
    replaced: dict[int, Call] = {}
    kept = []
    for name, older in OLDER.items():
        originals = (getattr(paddle_internals.operations(), name, None), getattr(generated, f"_{name}", None))
        for theirs in {id(each): each for each in originals if each is not None}.values():
            replaced[id(theirs)] = _either(theirs, older)
            kept.append(theirs)
    places = [module for name, module in [*sys.modules.items()] if name.partition(".")[0] == "paddle"]
    skipped = {sys.modules.get("paddle._C_ops"), generated}
    for place in (*places, Variable):
        if place in skipped:
            continue
        for name in OLDER:
            function = vars(place).get(name) if hasattr(place, "__dict__") else None
            if function is not None and id(function) in replaced:
                setattr(place, name, replaced[id(function)])


def _either(theirs: Call, older: Callable[..., Variable]) -> Call:
    @functools.wraps(theirs)
    def call(*given: object, **named: object) -> object:
        if in_dynamic_or_pir_mode():
            return theirs(*given, **named)
        for theirs_name, name in (("input", "x"), ("other", "y"), ("dim", "axis")):
            if theirs_name in named and name not in named:
                named[name] = named.pop(theirs_name)
        return older(*given, **named)

    return call


# ---- the form of programs


def choose_older_form() -> None:
    """Replace Paddle's switch to static programs by one that also chooses their form."""
    if FORM_FLAG in os.environ:
        return
    for name in ("default_main_program", "default_startup_program", "program_guard"):
        setattr(paddle.static, name, _of_the_form(getattr(paddle.static, name), getattr(paddle.base.framework, name)))
    from paddle.pir_utils import _switch_to_old_ir_

    theirs = paddle.enable_static

    @functools.wraps(theirs)
    def enable_static() -> None:
        if paddle.framework.use_pir_api():
            paddle.framework.set_flags({FORM_FLAG: False})
            _switch_to_old_ir_()
        theirs()

    paddle.enable_static = paddle.framework.enable_static = enable_static


def _of_the_form(newer: Call, older: Call) -> Call:
    """For scripts that have imported a function by its name before they chose static programs."""

    @functools.wraps(newer)
    def call(*given: object, **named: object) -> object:
        return (newer if paddle.framework.use_pir_api() else older)(*given, **named)

    return call
