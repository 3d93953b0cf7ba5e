"""Recurrent networks over sequences: all sequences that are long enough make a step together, the longest first. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.nn import functional

from umiak.fluid.kernels.chance import kept
from umiak.fluid.kernels.registry import Frame, Tensor, kernel
from umiak.fluid.kernels.sequences import lengths_of

if TYPE_CHECKING:
    from umiak.fluid.arguments import Act, Results


def steps_of(frame: Frame, is_reverse: bool) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """For each step the sequences that are that long, the longest first, and the rows of its items."""
    offsets = frame.offsets_of("input")
    frame.set_offsets(*frame.all_offsets("input"))
    lengths = np.asarray(lengths_of(offsets))
    order = np.argsort(-lengths, kind="stable")
    steps = []
    for step in range(int(lengths.max(initial=0))):
        there = order[lengths[order] > step]
        first = np.asarray(offsets)[there]
        rows = first + lengths[there] - 1 - step if is_reverse else first + step
        steps.append((len(there), rows))
    return steps, order


def behind_one_another(outputs: list[Tensor], steps: list[Any], rows: int) -> Tensor:
    """The outputs of all steps in the order of the input's rows."""
    order = np.empty(rows, np.int64)
    order[np.concatenate([each for _, each in steps])] = np.arange(rows)
    return paddle.gather(paddle.concat(outputs, 0), paddle.to_tensor(order))


ACTIVATIONS = {"sigmoid": functional.sigmoid, "tanh": paddle.tanh, "relu": functional.relu, "identity": lambda x: x}


def gru_step(gates: Tensor, hidden: Tensor, weight: Tensor, size: int, activation: Act, gate_activation: Act, origin_mode: bool) -> Results:  # fmt: skip
    """One step: the new hidden state, the reset one and the gates."""
    flat = weight.reshape([-1])  # 1.8 keeps two matrices in it: [size, 2 size] of the gates, then [size, size]
    of_gates, of_candidate = (
        flat[: 2 * size * size].reshape([size, 2 * size]),
        flat[2 * size * size :].reshape([size, size]),
    )
    recurrent = gates[:, : 2 * size] + paddle.matmul(hidden, of_gates)
    both = gate_activation(recurrent)
    update, reset = both[:, :size], both[:, size:]
    resetted = reset * hidden
    candidate = activation(gates[:, 2 * size :] + paddle.matmul(resetted, of_candidate))
    new = update * hidden + (1 - update) * candidate if origin_mode else (1 - update) * hidden + update * candidate
    return new, resetted, paddle.concat([both, candidate], 1)


@kernel(sequences=True)
def dynamic_gru(frame: Frame, input: Tensor, weight: Tensor, bias: Tensor, h_0: Tensor, size: int, is_reverse: bool, gate_activation: str, candidate_activation: str, origin_mode: bool) -> Tensor:  # fmt: skip
    """A GRU over each sequence; its input is three times as wide."""
    steps, order = steps_of(frame, is_reverse)
    gates = input if bias is None else input + bias
    hidden = (
        paddle.zeros([len(order), size], input.dtype) if h_0 is None else paddle.gather(h_0, paddle.to_tensor(order))
    )
    outputs = []
    for count, rows in steps:
        now = paddle.gather(gates, paddle.to_tensor(rows))
        hidden, _, _ = gru_step(
            now,
            hidden[:count],
            weight,
            size,
            ACTIVATIONS[candidate_activation],
            ACTIVATIONS[gate_activation],
            origin_mode,
        )
        outputs.append(hidden)
    return behind_one_another(outputs, steps, input.shape[0])


@kernel()
def gru_unit(input: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor, size: int, activation: str, gate_activation: str, origin_mode: bool) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """One step of a GRU."""
    gates = input if bias is None else input + bias
    return gru_step(gates, hidden, weight, size, ACTIVATIONS[activation], ACTIVATIONS[gate_activation], origin_mode)  # type: ignore[no-any-return]


@kernel(sequences=True)
def dynamic_lstm(frame: Frame, input: Tensor, weight: Tensor, bias: Tensor, h_0: Tensor, c_0: Tensor, size: int, use_peepholes: bool, is_reverse: bool, gate_activation: str, cell_activation: str, candidate_activation: str) -> tuple[Tensor, Tensor]:  # fmt: skip
    """An LSTM over each sequence; its input is four times as wide: candidate, input, forget, output."""
    steps, order = steps_of(frame, is_reverse)
    frame.set_offsets(*frame.all_offsets("input"), output=1)
    gates = input + bias[:, : 4 * size]
    peep = [bias[:, (4 + place) * size : (5 + place) * size] for place in range(3)] if use_peepholes else None
    places = paddle.to_tensor(order)
    hidden = paddle.zeros([len(order), size], input.dtype) if h_0 is None else paddle.gather(h_0, places)
    cell = paddle.zeros([len(order), size], input.dtype) if c_0 is None else paddle.gather(c_0, places)
    gate, of_cell, candidate = (ACTIVATIONS[each] for each in (gate_activation, cell_activation, candidate_activation))
    outputs, cells = [], []
    for count, rows in steps:
        now = paddle.gather(gates, paddle.to_tensor(rows)) + paddle.matmul(hidden[:count], weight)
        new, into, forget, out = paddle.split(now, 4, 1)
        cell = cell[:count]
        into, forget = gate(into + cell * peep[0] if peep else into), gate(forget + cell * peep[1] if peep else forget)
        cell = candidate(new) * into + cell * forget
        hidden = gate(out + cell * peep[2] if peep else out) * of_cell(cell)
        outputs.append(hidden)
        cells.append(cell)
    rows_in_all = input.shape[0]
    return behind_one_another(outputs, steps, rows_in_all), behind_one_another(cells, steps, rows_in_all)


def _clipped(x: Tensor, bound: float | None) -> Tensor:
    return paddle.clip(x, -bound, bound) if bound else x


@kernel(sequences=True)
def dynamic_lstmp(frame: Frame, input: Tensor, weight: Tensor, projection: Tensor, bias: Tensor, h_0: Tensor, c_0: Tensor, size: int, use_peepholes: bool, is_reverse: bool, gate_activation: str, cell_activation: str, candidate_activation: str, proj_activation: str, cell_clip: float | None, proj_clip: float | None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """An LSTM whose hidden state is projected before the next step sees it: projections and cells."""
    steps, order = steps_of(frame, is_reverse)
    frame.set_offsets(*frame.all_offsets("input"), output=1)
    gates = input + bias[:, : 4 * size]
    peep = [bias[:, (4 + place) * size : (5 + place) * size] for place in range(3)] if use_peepholes else [0.0] * 3
    places = paddle.to_tensor(order)
    shown = paddle.zeros([len(order), projection.shape[1]], input.dtype) if h_0 is None else paddle.gather(h_0, places)
    cell = paddle.zeros([len(order), size], input.dtype) if c_0 is None else paddle.gather(c_0, places)
    gate, of_cell, candidate, of_projection = (
        ACTIVATIONS[each] for each in (gate_activation, cell_activation, candidate_activation, proj_activation)
    )
    outputs, cells = [], []
    for count, rows in steps:
        now = paddle.gather(gates, paddle.to_tensor(rows)) + paddle.matmul(shown[:count], weight)
        new, into, forget, out = paddle.split(now, 4, 1)
        cell = cell[:count]
        into, forget = gate(into + cell * peep[0]), gate(forget + cell * peep[1])
        cell = _clipped(candidate(new) * into + cell * forget, cell_clip)
        hidden = gate(out + cell * peep[2]) * of_cell(cell)
        shown = _clipped(of_projection(paddle.matmul(hidden, projection)), proj_clip)
        outputs.append(shown)
        cells.append(cell)
    rows_in_all = input.shape[0]
    return behind_one_another(outputs, steps, rows_in_all), behind_one_another(cells, steps, rows_in_all)


@kernel()
def lstm_unit(x: Tensor, cell: Tensor, forget_bias: float) -> tuple[Tensor, Tensor]:
    """One step from gates in the order input, forget, output, candidate: the hidden state and the cell."""
    into, forget, out, new = paddle.split(x, 4, 1)
    kept = functional.sigmoid(forget + forget_bias) * cell + functional.sigmoid(into) * paddle.tanh(new)
    return functional.sigmoid(out) * paddle.tanh(kept), kept


@kernel()
def lstm(input: Tensor, init_h: Tensor, init_c: Tensor, weight: Tensor, hidden_size: int, num_layers: int, dropout_prob: float, is_bidirec: bool, is_test: bool, max_len: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Layers of LSTMs over [steps, sequences, width], from one parameter as cuDNN lays it out: all matrices, then all biases."""
    if input.shape[0] > max_len:
        raise ValueError(f"{input.shape[0]} steps are more than max_len={max_len}")
    ways = 2 if is_bidirec else 1
    parts = _parts_of(weight, input.shape[2], hidden_size, num_layers, ways)
    hiddens, cells = [], []
    for layer in range(num_layers):
        if layer and dropout_prob and not is_test:
            input = input * kept(input, dropout_prob, seed + layer if seed else 0) / (1.0 - dropout_prob)
        sides = []
        for way in range(ways):
            place = layer * ways + way
            side, hidden, cell = _one_way(input, init_h[place], init_c[place], parts[place], backwards=way == 1)
            sides.append(side)
            hiddens.append(hidden)
            cells.append(cell)
        input = paddle.concat(sides, 2)
    return input, paddle.stack(hiddens), paddle.stack(cells)


def _parts_of(weight: Tensor, width: int, size: int, layers: int, ways: int) -> list[list[Tensor]]:
    parts: list[list[Tensor]] = []
    place = 0
    for layer in range(layers):
        for _ in range(ways):
            own = []
            for columns in (width if layer == 0 else size * ways, size):
                own.append(weight[place : place + 4 * size * columns].reshape([4 * size, columns]))
                place += 4 * size * columns
            parts.append(own)
    for own in parts:
        own.append(weight[place : place + 4 * size] + weight[place + 4 * size : place + 8 * size])
        place += 8 * size
    return parts


def _one_way(
    input: Tensor, hidden: Tensor, cell: Tensor, parts: list[Tensor], *, backwards: bool
) -> tuple[Tensor, Tensor, Tensor]:
    of_input, of_hidden, bias = parts
    outputs = []
    gates = paddle.matmul(input, of_input, transpose_y=True) + bias
    steps = range(input.shape[0])
    for step in reversed(steps) if backwards else steps:
        now = gates[step] + paddle.matmul(hidden, of_hidden, transpose_y=True)
        into, forget, new, out = paddle.split(now, 4, 1)
        cell = functional.sigmoid(forget) * cell + functional.sigmoid(into) * paddle.tanh(new)
        hidden = functional.sigmoid(out) * paddle.tanh(cell)
        outputs.append(hidden)
    return paddle.stack(outputs[::-1] if backwards else outputs), hidden, cell
