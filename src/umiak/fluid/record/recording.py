"""Records operations and parameters into the current programs; inside `dygraph.guard` they run at once. A program.

    hidden = apply("relu", {"x": x})

records `relu` with the line of the user's file, finds the shape of its output and returns the new variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umiak.fluid.kernels import table
from umiak.fluid.kernels.registry import KERNELS, Frame
from umiak.fluid.record import dynamic, naming, trials
from umiak.fluid.record.attributes import ConstantInitializer, ParamAttr, XavierInitializer
from umiak.fluid.record.current import default_main_program, default_startup_program, in_dygraph_mode, is_training
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import FORWARD, Block, Parameter, RecordedOperation, Ref, Variable
from umiak.fluid.record.signatures import ABOUT_THE_CALL, LAYERS
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import (
        Act,
        Argument,
        Arguments,
        Attr,
        DType,
        Input,
        Output,
        Settings,
        Shape,
        Value,
    )

DTYPES = {"float": "float32", "double": "float64", "int": "int64", "long": "int64", "half": "float16"}

OTHERWISE_NAMED = {"topk": "top_k"}
"""Layers after which 1.8 does not name its variables: people write these names into configs."""

assert table.LOADED


def dtype_name(dtype: DType) -> str:
    """A type as it is written in a program: a name, a type of numpy, or one of Paddle."""
    if hasattr(dtype, "__name__") and not isinstance(dtype, str):
        dtype = dtype.__name__
    text = str(dtype).removeprefix("paddle.").lower()
    return DTYPES.get(text, text)


def apply(
    type_: str,
    arguments: Arguments,
    *,
    name: str | None = None,
    act: str | None = None,
    out: Any = None,
    outputs: int = 1,
    role: str = FORWARD,
    first: bool = False,
) -> Output:
    """Record an operation; its output, or a tuple of them. ``out``: variables that it writes instead of new ones."""
    if in_dygraph_mode():
        return activated(_at_once(type_, arguments), act)
    block = default_main_program().current_block()
    inputs: dict[str, Variable] = {}
    referring = {key: _referring(argument, inputs, block) for key, argument in arguments.items()}
    names = _output_names(type_, name, out, outputs)
    operation = RecordedOperation(type=type_, arguments=referring, outputs=tuple(names), site=user_line(), role=role)
    outcomes = trials.outcomes(operation, inputs)
    stopped = bool(inputs) and all(each.stop_gradient for each in inputs.values())
    results = []
    for number, outcome in enumerate(outcomes):
        given = None if out is None else (out[number] if isinstance(out, list | tuple) else out)
        if given is None:
            stop = stopped or not inputs or not outcome.dtype.startswith(("float", "bfloat"))
            given = Variable(
                block, names[number], outcome.shape, outcome.dtype, lod_level=outcome.lod_level, stop_gradient=stop
            )
            given.samples = outcome.samples
            block.add(given)
        elif not given.shape:
            given.shape, given.dtype = outcome.shape, outcome.dtype
        results.append(given)
    block.append(operation, first=first)
    return activated(results[0], act, name=name) if len(results) == 1 else tuple(results)


Variable.record = apply  # the operators of Python; `program` stands below this module


def activated(result: Input, act: Act, *, name: str | None = None) -> Output:
    """A layer's `act`: a layer of one argument by its name, or with settings as a dictionary. ``name``: of the layer that has it."""
    if act is None:
        return result
    settings = {} if isinstance(act, str) else {key: each for key, each in act.items() if key != "type"}
    type_ = act if isinstance(act, str) else act["type"]
    if type_ not in LAYERS:
        raise bad(
            "UM-FLUID-002",
            f"expected an activation such as relu, tanh, sigmoid or softmax, got act={type_!r}",
            where=user_line(),
        )
    arguments = LAYERS[type_].bound((result,), settings)
    return apply(type_, {key: each for key, each in arguments.items() if key not in ABOUT_THE_CALL}, name=name)


def _at_once(type_: str, arguments: Arguments) -> Output:
    kernel = KERNELS[type_]
    if kernel.sequences:
        raise bad(
            "UM-FLUID-003",
            f"fluid.layers.{type_} works in recorded programs only, not inside dygraph.guard",
            where=user_line(),
        )
    if arguments.get("is_test") is False and not is_training():
        arguments = {**arguments, "is_test": True}
    dynamic.seed()
    return kernel.function(Frame({}, training=True), **arguments) if kernel.frame else kernel.function(**arguments)


def _referring(argument: Argument, inputs: dict[str, Variable], block: Block) -> Argument:
    if isinstance(argument, Variable):
        known = block.find(argument.name)
        if known is None:
            what = f"{argument.name} is a variable of another program"
            raise bad("UM-FLUID-002", what, "build both parts under one program_guard", where=user_line())
        inputs[argument.name] = known
        return Ref(name=argument.name)
    if isinstance(argument, list):
        return [_referring(each, inputs, block) for each in argument]
    if isinstance(argument, tuple):
        return tuple(_referring(each, inputs, block) for each in argument)
    if isinstance(argument, slice):
        return {"slice": [_referring(each, inputs, block) for each in (argument.start, argument.stop, argument.step)]}
    return argument


def _output_names(type_: str, name: str | None, out: Any, outputs: int) -> list[str]:
    if out is not None:
        return [each.name for each in (out if isinstance(out, list | tuple) else [out])]
    prefix = name or naming.generate(OTHERWISE_NAMED.get(type_, type_))
    return [naming.generate(f"{prefix}.tmp") for _ in range(outputs)]


def append_plain(type_: str, arguments: Arguments, writes: list[Variable], *, role: str, first: bool = False, block: Block | None = None) -> None:  # fmt: skip
    """Record an operation whose outputs are known, such as one that updates a parameter in place."""
    block = block or default_main_program().current_block()
    referring = {key: _referring(argument, {}, block) for key, argument in arguments.items()}
    names = tuple(each.name for each in writes)
    block.append(
        RecordedOperation(type=type_, arguments=referring, outputs=names, site=user_line(), role=role), first=first
    )


# ---- what stays in the scope


def create_parameter(
    layer: str,
    attribute: Attr,
    shape: Shape,
    dtype: DType = "float32",
    *,
    is_bias: bool = False,
    default: Any = None,
    suffix: str | None = None,
) -> Output:
    """A parameter of a layer, or the one that has this name already; None if the attribute is False."""
    given = ParamAttr.of(attribute)
    if given is None:
        return None
    shape = tuple(int(size) for size in shape)
    name = given.name or naming.generate(f"{layer}.{suffix or ('b' if is_bias else 'w')}")
    if in_dygraph_mode():
        what = f"fluid.layers.{layer.rpartition('_')[0] or layer} makes a parameter, which a recorded program keeps by its name"
        raise bad(
            "UM-FLUID-003",
            what,
            "inside dygraph.guard use a layer of fluid.dygraph, such as dygraph.Linear",
            where=user_line(),
        )
    block = default_main_program().global_block()
    known = block.vars.get(name)
    if known is not None:
        if tuple(known.shape) != shape:
            what = f"the parameter {name} has the shape {list(known.shape)}, and is used here with {list(shape)}"
            raise bad("UM-FLUID-002", what, "give one of them another name", where=user_line())
        return known
    initializer = given.initializer or default or (ConstantInitializer(0.0) if is_bias else XavierInitializer())
    parameter = Parameter(block, name, shape, dtype_name(dtype), given)
    block.add(parameter)
    initialize(parameter, initializer)
    return parameter


def create_state(name: str, shape: Shape, dtype: str, value: Value, *, stop_gradient: bool = True) -> Variable:
    """A variable that stays in the scope and is no parameter, with the first value of the startup program."""
    block = default_main_program().global_block()
    known = block.vars.get(name)
    if known is not None:
        return known
    state = Variable(block, name, tuple(shape), dtype_name(dtype), persistable=True, stop_gradient=stop_gradient)
    block.add(state)
    initialize(state, value if hasattr(value, "operation") else ConstantInitializer(value))
    return state


def initialize(variable: Variable, initializer: Attr) -> None:
    """Let the startup program give a variable its first value."""
    startup = default_startup_program().global_block()
    if startup.has_var(variable.name):
        return
    startup.add(variable.copy_into(startup))
    type_, arguments = initializer.operation(tuple(variable.shape))
    arguments = {"shape": list(variable.shape), "dtype": variable.dtype, **arguments}
    append_plain(type_, arguments, [variable], role=FORWARD, block=startup)


class LayerHelper:
    """What layers of people's own are written with: `fluid.layer_helper.LayerHelper`."""

    def __init__(self, layer_type: str, **settings: Settings) -> None:
        self.kwargs = settings
        self.layer_type = layer_type
        self.name = settings.get("name") or naming.generate(layer_type)

    @property
    def main_program(self) -> Output:
        return default_main_program()

    @property
    def startup_program(self) -> Output:
        return default_startup_program()

    def create_parameter(self, attr: Attr, shape: Shape, dtype: DType = "float32", is_bias: bool = False, default_initializer: Attr = None) -> Output:  # fmt: skip
        """A parameter of the layer."""
        return create_parameter(self.name, attr, shape, dtype, is_bias=is_bias, default=default_initializer)

    def create_variable_for_type_inference(self, dtype: DType, stop_gradient: bool = False) -> Variable:
        """A variable that an operation is going to write."""
        block = default_main_program().current_block()
        name = naming.generate(f"{self.name}.tmp")
        return block.add(Variable(block, name, (), dtype_name(dtype), stop_gradient=stop_gradient))

    def create_global_variable(self, persistable: bool = False, *, name: str | None = None, shape: Shape = (), dtype: DType = "float32", **settings: Settings) -> Variable:  # fmt: skip
        """A variable of the program."""
        block = default_main_program().global_block()
        name = name or naming.generate(f"{self.name}.tmp")
        stop = bool(settings.get("stop_gradient", False))
        return block.add(
            Variable(block, name, tuple(shape), dtype_name(dtype), persistable=persistable, stop_gradient=stop)
        )

    def set_variable_initializer(self, var: Variable, initializer: Attr) -> Variable:
        """Let the startup program give it its first value."""
        initialize(var, initializer)
        return var

    def append_activation(self, input_var: Input) -> Output:
        """The layer's `act`."""
        return activated(input_var, self.kwargs.get("act"))

    def append_op(self, type: str | None = None, **_settings: object) -> None:
        """Refused: operations of 1.8's C++ have other names than layers."""
        what = f"LayerHelper.append_op({type!r}) does not work yet"
        raise bad("UM-FLUID-003", what, "write it with fluid.layers", where=user_line())
