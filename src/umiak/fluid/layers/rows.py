"""Makes a function of `fluid.layers` from a row of the table: it binds the arguments of 1.8, and records the operation. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.fluid.record import recording, remarks
from umiak.fluid.record.program import Variable
from umiak.fluid.record.signatures import ABOUT_THE_CALL, LAYERS

if TYPE_CHECKING:
    from umiak.fluid.arguments import Function, Output, Settings, Value


def layer(name: str) -> Function:
    """The function of a row."""
    signature = LAYERS[name]

    def function(*given: Value, **named: Settings) -> Output:
        arguments = signature.bound(given, named)
        call = {key: arguments.pop(key) for key in ABOUT_THE_CALL if key in arguments}
        if name == "random_crop":
            call["seed"] = arguments.pop("seed")
        remarks.left_out_of_layer(name, call)
        out = next((call[key] for key in ("out", "cond", "output") if isinstance(call.get(key), Variable)), None)
        for key in ("dtype",):
            if arguments.get(key) is not None:
                arguments[key] = recording.dtype_name(arguments[key])
        output = recording.apply(
            name, arguments, name=call.get("name"), act=call.get("act"), out=out, outputs=signature.outputs
        )
        if arguments.get("stop_gradient") is False and output.dtype.startswith("float"):
            output.stop_gradient = False
        return output

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``fluid.layers.{name}`` of 1.8."
    return function


def call(name: str, *given: Value, **named: Settings) -> Output:
    """Call a layer by its name."""
    return layer(name)(*given, **named)
