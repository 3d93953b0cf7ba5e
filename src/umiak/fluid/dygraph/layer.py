"""`fluid.dygraph.Layer`: Paddle's own layers with the names, parameters and files of 1.8. A program."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.record import dynamic, naming
from umiak.fluid.record.current import in_dygraph_mode, set_training
from umiak.fluid.record.problems import bad
from umiak.fluid.record.recording import activated, dtype_name
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Act, Arguments, Attr, DType, Input, Output, Outputs, Settings, Shape

_WORD = re.compile(r"(.)([A-Z][a-z]+)")
_END = re.compile(r"([a-z])([A-Z])")


def snake(name: str) -> str:
    """A class's name as layers are called by it: `BatchNorm` is batch_norm."""
    return _END.sub(r"\1_\2", _WORD.sub(r"\1_\2", name)).lower()


class LayerObjectHelper:
    """`layer_object_helper.LayerObjectHelper`: what a layer of people's own asks for."""

    def __init__(self, name: str) -> None:
        self.name = self.layer_type = name

    def create_parameter(self, attr: Attr, shape: Shape, dtype: DType = "float32", is_bias: bool = False, default_initializer: Attr = None) -> Output:  # fmt: skip
        """A parameter of the layer."""
        _inside_guard(self.name)
        return dynamic.create_parameter(
            self.name, attr, shape, dtype_name(dtype), is_bias=is_bias, default=default_initializer
        )

    def append_activation(self, input_var: Input, act: Act = None, use_cudnn: bool | None = None) -> Output:
        """An activation by its name."""
        return activated(input_var, act)

    def append_op(self, type: str | None = None, **_settings: Settings) -> None:
        """Refused: operations of 1.8's C++ have other names than layers."""
        what = f"LayerObjectHelper.append_op({type!r}) does not work"
        raise bad("UM-FLUID-003", what, "write it with fluid.layers", where=user_line())


def _inside_guard(name: str) -> None:
    if not in_dygraph_mode():
        what = f"{name} makes parameters outside of dygraph.guard"
        hint = "make layers inside `with fluid.dygraph.guard():`; recorded programs use fluid.layers"
        raise bad("UM-FLUID-001", what, hint, where=user_line())


class Layer(paddle.nn.Layer):  # type: ignore[misc]
    """A part of a model that has parameters."""

    def __init__(self, name_scope: str | None = None, dtype: DType = "float32") -> None:
        super().__init__(name_scope, dtype_name(dtype))
        self._full_name = naming.generate(name_scope or snake(type(self).__name__))
        self._helper = LayerObjectHelper(self._full_name)

    def create_parameter(self, shape: Shape, attr: Attr = None, dtype: DType = None, is_bias: bool = False, default_initializer: Attr = None) -> Output:  # fmt: skip
        """A parameter with its first value; None if the attribute is False. Assign it to an attribute."""
        return self._helper.create_parameter(attr, shape, dtype or self._dtype, is_bias, default_initializer)

    def train(self) -> Layer:
        """Compute as while training, in this layer and in all operations that follow."""
        set_training(True)
        super().train()
        return self

    def eval(self) -> Layer:
        """Compute as when tested, in this layer and in all operations that follow."""
        set_training(False)
        super().eval()
        return self

    def sublayers(self, include_sublayers: bool = True, include_self: bool = False) -> Outputs:
        """The layers inside of it, with theirs."""
        inside = super().sublayers(include_self=include_self)
        return inside if include_sublayers else list(self.children())

    def set_dict(self, stat_dict: Arguments, include_sublayers: bool = True, use_structured_name: bool = True) -> None:
        """Values for all parameters, from `state_dict` or `load_dygraph`; one that is missing is an error."""
        own = self.state_dict(include_sublayers=include_sublayers)
        keys = {key if use_structured_name else tensor.name: tensor for key, tensor in own.items()}
        wrong = [f"{key} is missing" for key in keys if key not in stat_dict]
        for key, tensor in keys.items():
            if key in stat_dict and list(np.shape(stat_dict[key])) != list(tensor.shape):
                wrong.append(f"{key} is {list(tensor.shape)} here and {list(np.shape(stat_dict[key]))} there")
        if wrong:
            hint = "use the state of a layer of the same class and sizes"
            raise bad("UM-FLUID-007", f"set_dict: {'; '.join(wrong)}", hint, where=user_line())
        spare = sorted(set(stat_dict) - set(keys) - {NAMES})
        if spare:
            warnings.warn(f"set_dict: no parameter is called {', '.join(spare)}", stacklevel=2)
        for key, tensor in keys.items():
            value = stat_dict[key]
            tensor.set_value(value if isinstance(value, paddle.Tensor) else np.asarray(value))

    set_state_dict = load_dict = set_dict

    def clear_gradients(self, set_to_zero: bool = True) -> None:
        """Gradients are zero again."""
        for each in self.parameters():
            if not each.stop_gradient:
                each.clear_gradient(set_to_zero)


NAMES = "StructuredToParameterName@@"
"""The key of a file under which it has the names of parameters."""


def of_one(value: Any, count: int) -> list[int]:
    """Sizes for all dimensions from one number or several."""
    return [int(each) for each in value] if isinstance(value, list | tuple) else [int(value)] * count
