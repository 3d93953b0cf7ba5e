"""Cells of recurrent networks, and what runs them over padded sequences: `rnn`, `basic_gru`, `basic_lstm`. A program."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from umiak.fluid.layers import basics, rows
from umiak.fluid.layers.control import StaticRNN
from umiak.fluid.layers.structures import assert_same_structure, flatten, map_structure, pack_sequence_as
from umiak.fluid.record import naming
from umiak.fluid.record.attributes import ParamAttr
from umiak.fluid.record.problems import bad
from umiak.fluid.record.recording import create_parameter
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Attr, DType, Function, Input, Inputs, Output, Outputs, Settings, Shape, Value


def _named(attribute: Attr, suffix: str) -> Attr:
    """The same attribute by another name, if it has one."""
    given = ParamAttr.of(attribute)
    if given is None or given.name is None:
        return attribute
    other = copy.copy(given)
    other.name = f"{given.name}{suffix}"
    return other


class _Unit:
    """A cell with its parameters, which are made when it sees its first input."""

    def __init__(self, name_scope: str, hidden_size: int, param_attr: Attr = None, bias_attr: Attr = None, gate_activation: Function | None = None, activation: Function | None = None, dtype: DType = "float32") -> None:  # fmt: skip
        self._full_name = naming.generate(f"{name_scope}/{type(self).__name__}")
        self._size, self._param_attr, self._bias_attr, self._dtype = hidden_size, param_attr, bias_attr, dtype
        self._gate_activation = gate_activation or (lambda x: rows.call("sigmoid", x))
        self._activation = activation or (lambda x: rows.call("tanh", x))
        self._parameters: Any = None

    def __call__(self, *given: Input) -> Output:
        if self._parameters is None:
            self._parameters = self._made(given[0].shape[-1] + self._size)
        return self.forward(*given)

    def _made(self, width: int) -> Outputs:
        raise NotImplementedError

    def forward(self, *given: Input) -> Output:
        """One step."""
        raise NotImplementedError

    def _pair(self, width: int, columns: int, suffix: str = "") -> Outputs:
        weight = create_parameter(self._full_name, _named(self._param_attr, suffix), [width, columns], self._dtype)
        bias = create_parameter(self._full_name, _named(self._bias_attr, suffix), [columns], self._dtype, is_bias=True)
        return [weight, bias]


def _projected(inputs: Outputs, weight: Input, bias: Input) -> Output:
    output = rows.call("matmul", rows.call("concat", inputs, 1), weight)
    return output if bias is None else rows.call("elementwise_add", output, bias)


class BasicGRUUnit(_Unit):
    """`contrib.layers.BasicGRUUnit`: one step of a GRU."""

    def _made(self, width: int) -> Outputs:
        gates = create_parameter(
            self._full_name, _named(self._param_attr, "_gate"), [width, 2 * self._size], self._dtype
        )
        candidate = create_parameter(self._full_name, _named(self._param_attr, "_candidate"), [width, self._size], self._dtype)  # fmt: skip
        of_gates, of_candidate = (
            create_parameter(self._full_name, _named(self._bias_attr, suffix), [columns], self._dtype, is_bias=True)
            for suffix, columns in (("_gate", 2 * self._size), ("_candidate", self._size))
        )
        return [gates, of_gates, candidate, of_candidate]

    def forward(self, input: Input, pre_hidden: Input) -> Output:
        """The new hidden state."""
        gates, of_gates, candidate, of_candidate = self._parameters
        both = self._gate_activation(_projected([input, pre_hidden], gates, of_gates))
        reset, update = basics.split(both, 2, 1)
        new = self._activation(_projected([input, reset * pre_hidden], candidate, of_candidate))
        return update * pre_hidden + (1 - update) * new


class BasicLSTMUnit(_Unit):
    """`contrib.layers.BasicLSTMUnit`: one step of an LSTM. As in 1.8 its activations are always sigmoid and tanh."""

    def __init__(self, name_scope: str, hidden_size: int, param_attr: Attr = None, bias_attr: Attr = None, gate_activation: Function | None = None, activation: Function | None = None, forget_bias: float = 1.0, dtype: DType = "float32") -> None:  # fmt: skip
        if gate_activation is not None or activation is not None:
            what = (
                "BasicLSTMUnit, LSTMCell and basic_lstm have sigmoid and tanh; other activations counted in 1.8 neither"
            )
            raise bad("UM-FLUID-003", what, "leave gate_activation and activation out", where=user_line())
        super().__init__(name_scope, hidden_size, param_attr, bias_attr, None, None, dtype)
        self._forget_bias = float(forget_bias)

    def _made(self, width: int) -> Outputs:
        return self._pair(width, 4 * self._size)

    def forward(self, input: Input, pre_hidden: Input, pre_cell: Input) -> Output:
        """The new hidden state and the new cell."""
        into, new, forget, out = basics.split(_projected([input, pre_hidden], *self._parameters), 4, -1)
        kept = pre_cell * self._gate_activation(rows.call("scale", forget, 1.0, self._forget_bias))
        cell = kept + self._gate_activation(into) * self._activation(new)
        return self._activation(cell) * self._gate_activation(out), cell


class RNNCell:
    """What cells of one's own are written from: `call`, and `state_shape` for states that begin by themselves."""

    def call(self, inputs: Inputs, states: Inputs, **settings: Settings) -> Output:
        """Outputs and new states."""
        raise NotImplementedError("a cell has a method call(inputs, states)")

    def __call__(self, inputs: Inputs, states: Inputs, **settings: Settings) -> Output:
        return self.call(inputs, states, **settings)

    @property
    def state_shape(self) -> Shape:
        """The shape of each state without the batch."""
        raise NotImplementedError("a cell has a property state_shape")

    @property
    def state_dtype(self) -> DType:
        """The type of each state."""
        raise NotImplementedError("a cell has a property state_dtype")

    def get_initial_states(self, batch_ref: Inputs, shape: Shape = None, dtype: DType = "float32", init_value: float = 0, batch_dim_idx: int = 0) -> Output:  # fmt: skip
        """States of one value, as many as the batch has rows."""
        reference = flatten(batch_ref)[0]
        shapes = self.state_shape if shape is None else shape
        types = self.state_dtype if dtype is None else dtype
        flat = _sizes(shapes)
        names = flatten(types) if isinstance(types, list | tuple | dict) else [types]
        names = names * len(flat) if len(names) == 1 else names
        output = [
            rows.call("fill_constant_batch_size_like", reference, size if size[0] == -1 else [-1, *size], name, init_value, batch_dim_idx)
            for size, name in zip(flat, names, strict=True)
        ]  # fmt: skip
        return output[0] if _is_size(shapes) else pack_sequence_as(_like_sizes(shapes), output)


def _is_size(shape: Shape) -> bool:
    return isinstance(shape, list | tuple) and all(isinstance(each, int) for each in shape)


def _sizes(shapes: Shape) -> list[list[int]]:
    if _is_size(shapes):
        return [list(shapes)]
    members = [shapes[key] for key in sorted(shapes)] if isinstance(shapes, dict) else shapes
    return [size for each in members for size in _sizes(each)]


def _like_sizes(shapes: Shape) -> Output:
    """The structure of sizes, with something in place of each."""
    if _is_size(shapes):
        return 0
    if isinstance(shapes, dict):
        return {key: _like_sizes(each) for key, each in shapes.items()}
    return type(shapes)(_like_sizes(each) for each in shapes)


class GRUCell(RNNCell):
    """A GRU of one state."""

    def __init__(self, hidden_size: int, param_attr: Attr = None, bias_attr: Attr = None, gate_activation: Function | None = None, activation: Function | None = None, dtype: DType = "float32", name: str = "GRUCell") -> None:  # fmt: skip
        self.hidden_size = hidden_size
        self.gru_unit = BasicGRUUnit(name, hidden_size, param_attr, bias_attr, gate_activation, activation, dtype)

    def call(self, inputs: Input, states: Input) -> Output:  # type: ignore[override]
        """The hidden state twice."""
        hidden = self.gru_unit(inputs, states)
        return hidden, hidden

    @property
    def state_shape(self) -> Shape:
        return [self.hidden_size]


class LSTMCell(RNNCell):
    """An LSTM: its states are the hidden one and the cell."""

    def __init__(self, hidden_size: int, param_attr: Attr = None, bias_attr: Attr = None, gate_activation: Function | None = None, activation: Function | None = None, forget_bias: float = 1.0, dtype: DType = "float32", name: str = "LSTMCell") -> None:  # fmt: skip
        self.hidden_size = hidden_size
        self.lstm_unit = BasicLSTMUnit(name, hidden_size, param_attr, bias_attr, gate_activation, activation, forget_bias, dtype)  # fmt: skip

    def call(self, inputs: Input, states: Inputs) -> Output:  # type: ignore[override]
        """The hidden state, and both states."""
        hidden, cell = self.lstm_unit(inputs, *states)
        return hidden, [hidden, cell]

    @property
    def state_shape(self) -> Shape:
        return [[self.hidden_size], [self.hidden_size]]


def kept_where_over(state: Input, new: Input, mask: Input) -> Output:
    """The new state where the mask is one, the old one where it is zero."""
    changed = rows.call("elementwise_mul", new, mask, axis=0)
    return changed - rows.call("elementwise_mul", state, mask - 1.0, axis=0)


def turned(x: Input) -> Output:
    """Batch and steps in turn."""
    return rows.call("transpose", x, [1, 0, *range(2, len(x.shape))])


def _mask(sequence_length: Input, inputs: Input, dtype: DType) -> Output:
    steps = rows.call("slice", rows.call("shape", inputs), [0], [0], [1])
    return turned(rows.call("sequence_mask", sequence_length, steps, dtype))


def rnn(cell: RNNCell, inputs: Inputs, initial_states: Inputs = None, sequence_length: Input = None, time_major: bool = False, is_reverse: bool = False, **settings: Settings) -> Output:  # fmt: skip
    """A cell over all steps: its outputs, and the states behind each sequence's last step."""
    if initial_states is None:
        initial_states = cell.get_initial_states(inputs, batch_dim_idx=1 if time_major else 0)
    for state in flatten(initial_states):
        state.stop_gradient = False
    if not time_major:
        inputs = map_structure(turned, inputs)
    mask = None
    if sequence_length is not None:
        mask = _mask(sequence_length, flatten(inputs)[0], flatten(initial_states)[0].dtype)
    if is_reverse:
        inputs = map_structure(_backwards, inputs)
        mask = None if mask is None else _backwards(mask)
    loop = StaticRNN()
    with loop.step():
        step_inputs = map_structure(loop.step_input, inputs)
        states = map_structure(loop.memory, initial_states)
        outputs, new_states = cell.call(step_inputs, states, **settings)
        assert_same_structure(states, new_states)
        if mask is not None:
            new_states = map_structure(partial(kept_where_over, mask=loop.step_input(mask)), states, new_states)
        map_structure(loop.update_memory, states, new_states)
        for each in (*flatten(outputs), *flatten(new_states)):
            loop.step_output(each)
    output = loop()
    count = len(flatten(outputs))
    final_outputs = pack_sequence_as(outputs, output[:count])
    final_states = pack_sequence_as(new_states, [each[-1] for each in output[count:]])
    if is_reverse:
        final_outputs = map_structure(_backwards, final_outputs)
    return final_outputs if time_major else map_structure(turned, final_outputs), final_states


def _backwards(x: Input) -> Output:
    return rows.call("reverse", x, [0])


def _stacked(units: list[_Unit], inputs: Input, initial: list[Outputs], mask: Input, drop: Function) -> tuple[Output, list[Output]]:  # fmt: skip
    """Cells one above another over all steps: the outputs of the last one, and the last states of each, [layers, batch, size]."""
    loop = StaticRNN()
    with loop.step():
        step = loop.step_input(inputs)
        now = None if mask is None else loop.step_input(mask)
        for unit, first in zip(units, initial, strict=True):
            states = [loop.memory(**each) for each in first]
            output = unit(step, *states)
            news = list(output) if isinstance(output, tuple) else [output]
            for state, new in zip(states, news, strict=True):
                kept = new if now is None else kept_where_over(state, new, now)
                loop.update_memory(state, kept)
                loop.step_output(kept)
                news[0] = kept if state is states[0] else news[0]
            step = drop(news[0])
        loop.step_output(step)
    *states, outputs = loop()
    count = len(initial[0])
    last = [[each[-1] for each in states[place::count]] for place in range(count)]
    return outputs, [rows.call("stack", each, 0) for each in last]


def _network(make: Function, inputs: Input, initial: Inputs, sizes: tuple[int, int, int], sequence_length: Input, drop: Function, *, bidirectional: bool, batch_first: bool) -> tuple[Output, list[Output]]:  # fmt: skip
    """All layers in one direction or in both: outputs and the last states, [layers * directions, batch, size]."""
    hidden_size, num_layers, states = sizes
    steps = turned(inputs) if batch_first else inputs
    mask = None if sequence_length is None else _mask(sequence_length, steps, "float32")
    ways = 2 if bidirectional else 1
    given = [None if each is None else rows.call("reshape", each, [num_layers, ways, -1, hidden_size]) for each in initial]  # fmt: skip
    outputs, lasts = [], []
    for way in range(ways):
        first = [
            [
                {"batch_ref": steps, "shape": [-1, hidden_size]} if each is None else {"init": each[layer, way]}
                for each in given
            ]
            for layer in range(num_layers)
        ]
        units = [make(layer, "bw" if way else "fw") for layer in range(num_layers)]
        own = [_backwards(each) if way and each is not None else each for each in (steps, mask)]
        output, last = _stacked(units, own[0], first, own[1], drop)
        outputs.append(_backwards(output) if way else output)
        lasts.append(last)
    joined = outputs[0] if ways == 1 else rows.call("concat", outputs, 2)
    shape = [num_layers * ways, -1, hidden_size]
    ends = [rows.call("reshape", rows.call("concat", [each[place] for each in lasts], 1), shape) for place in range(states)]  # fmt: skip
    return turned(joined) if batch_first else joined, ends


def _maker(kind: type[_Unit], name: str, hidden_size: int, param_attr: Attr, bias_attr: Attr, **settings: Settings) -> Function:  # fmt: skip
    def make(layer: int, way: str) -> _Unit:
        full = f"{name}_reverse_layers_{layer}" if way == "bw" else f"{name}_layers_{layer}"
        attributes = (_named(param_attr, f"_{way}_w_{layer}"), _named(bias_attr, f"_{way}_b_{layer}"))
        return kind(full, hidden_size, *attributes, **settings)

    return make


def basic_gru(input: Input, init_hidden: Input, hidden_size: int, num_layers: int = 1, sequence_length: Input = None, dropout_prob: float = 0.0, bidirectional: bool = False, batch_first: bool = True, param_attr: Attr = None, bias_attr: Attr = None, gate_activation: Function | None = None, activation: Function | None = None, dtype: DType = "float32", name: str = "basic_gru") -> Output:  # fmt: skip
    """`contrib.layers.basic_gru`: layers of GRUs; outputs and last states."""
    make = _maker(BasicGRUUnit, name, hidden_size, param_attr, bias_attr, gate_activation=gate_activation, activation=activation, dtype=dtype)  # fmt: skip

    def drop(x: Value) -> Output:
        return rows.call("dropout", x, dropout_prob) if dropout_prob else x

    sizes = (hidden_size, num_layers, 1)
    outputs, (last,) = _network(make, input, [init_hidden], sizes, sequence_length, drop, bidirectional=bidirectional, batch_first=batch_first)  # fmt: skip
    return outputs, last


def basic_lstm(input: Input, init_hidden: Input, init_cell: Input, hidden_size: int, num_layers: int = 1, sequence_length: Input = None, dropout_prob: float = 0.0, bidirectional: bool = False, batch_first: bool = True, param_attr: Attr = None, bias_attr: Attr = None, gate_activation: Function | None = None, activation: Function | None = None, forget_bias: float = 1.0, dtype: DType = "float32", name: str = "basic_lstm") -> Output:  # fmt: skip
    """`contrib.layers.basic_lstm`: layers of LSTMs; outputs, last hidden states and last cells."""
    make = _maker(BasicLSTMUnit, name, hidden_size, param_attr, bias_attr, gate_activation=gate_activation, activation=activation, forget_bias=forget_bias, dtype=dtype)  # fmt: skip

    def drop(x: Value) -> Output:
        if not dropout_prob:
            return x
        return rows.call("dropout", x, dropout_prob, dropout_implementation="upscale_in_train")

    sizes = (hidden_size, num_layers, 2)
    outputs, (hidden, cell) = _network(make, input, [init_hidden, init_cell], sizes, sequence_length, drop, bidirectional=bidirectional, batch_first=batch_first)  # fmt: skip
    return outputs, hidden, cell
