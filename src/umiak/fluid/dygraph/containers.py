"""Layers that hold others: `Sequential`, `LayerList`, `ParameterList`. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.fluid.dygraph.layer import Layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.fluid.arguments import Input, Inputs, Output


class Sequential(Layer):
    """One layer after the other; each may be a pair of a name and a layer."""

    def __init__(self, *layers: Inputs) -> None:
        super().__init__()
        for place, each in enumerate(layers):
            name, layer = each if isinstance(each, tuple) else (str(place), each)
            self.add_sublayer(name, layer)

    def __getitem__(self, name: str | int) -> Output:
        return self._sub_layers[self._key(name)]

    def __setitem__(self, name: str | int, layer: Layer) -> None:
        self._sub_layers[self._key(name)] = layer

    def __delitem__(self, name: str | int) -> None:
        del self._sub_layers[self._key(name)]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def _key(self, name: str | int) -> str:
        if isinstance(name, int) and str(name) not in self._sub_layers and name < 0:
            name += len(self)
        return str(name)

    def forward(self, input: Input) -> Output:
        """What the last one returns."""
        for layer in self._sub_layers.values():
            input = layer(input)
        return input


class LayerList(Layer):
    """A list of layers, whose parameters belong to the layer that has it."""

    def __init__(self, sublayers: Inputs = None) -> None:
        super().__init__()
        self.extend(sublayers or [])

    def __getitem__(self, place: int | slice) -> Output:
        layers = list(self._sub_layers.values())
        return LayerList(layers[place]) if isinstance(place, slice) else layers[place]

    def __setitem__(self, place: int, sublayer: Layer) -> None:
        self._sub_layers[str(range(len(self))[place])] = sublayer

    def __delitem__(self, place: int | slice) -> None:
        layers = list(self._sub_layers.values())
        del layers[place]
        self._sub_layers.clear()
        self.extend(layers)

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._sub_layers.values())

    def append(self, sublayer: Layer) -> LayerList:
        """One more, at the end."""
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index: int, sublayer: Layer) -> None:
        """One more, before the one at this place."""
        layers = list(self._sub_layers.values())
        layers.insert(index, sublayer)
        self._sub_layers.clear()
        self.extend(layers)

    def extend(self, sublayers: Inputs) -> LayerList:
        """More, at the end."""
        for each in sublayers:
            self.append(each)
        return self


class ParameterList(Layer):
    """A list of parameters."""

    def __init__(self, parameters: Inputs = None) -> None:
        super().__init__()
        for each in parameters or []:
            self.append(each)

    def __getitem__(self, place: int) -> Output:
        return list(self._parameters.values())[place]

    def __setitem__(self, place: int, parameter: Input) -> None:
        self._parameters[str(range(len(self))[place])] = parameter

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Output]:
        return iter(self._parameters.values())

    def append(self, parameter: Input) -> ParameterList:
        """One more, at the end."""
        self.add_parameter(str(len(self)), parameter)
        return self
