"""Blocks over sequences and over divided rows: DynamicRNN, IfElse; beams as sequences of two levels, and recurrent layers with parameters. A program."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from umiak.fluid.layers import parametric, rows
from umiak.fluid.record import naming
from umiak.fluid.record.current import default_main_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import FORWARD, Variable
from umiak.fluid.record.recording import append_plain, apply, create_parameter, dtype_name
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.fluid.arguments import Attr, DType, Input, Output, Outputs, Shape


class DynamicRNN:
    """A block for each item of sequences of different lengths."""

    def __init__(self, name: str | None = None) -> None:
        self._inputs: Outputs = []
        self._steps: Outputs = []
        self._levels: list[int] = []
        self._statics: Outputs = []
        self._shown: Outputs = []
        self._memories: list[Outputs] = []
        self._fills: Outputs = []
        self._results: Outputs = []
        self._outputs: Outputs | None = None
        self._block: Any = None

    def _inside(self, method: str) -> Any:
        if self._block is None or self._outputs is not None:
            raise bad("UM-FLUID-001", f"DynamicRNN.{method} is for the inside of its block()", where=user_line())
        return self._block

    @contextmanager
    def block(self) -> Iterator[None]:
        """What one step does."""
        if self._block is not None:
            raise bad("UM-FLUID-001", "DynamicRNN.block() is entered once", where=user_line())
        program = default_main_program()
        self._block = program.new_block()
        try:
            yield
        finally:
            program.leave_block()
        if not self._inputs:
            raise bad("UM-FLUID-001", "DynamicRNN: no step_input in the block", where=user_line())
        around = program.current_block()
        self._outputs = [
            around.add(
                Variable(around, naming.generate("dynamic_rnn.tmp"), (-1, *each.shape[1:]), each.dtype, lod_level=self._levels[0] + 1)
            )
            for each in self._results
        ]  # fmt: skip
        arguments = {
            "inputs": self._inputs,
            "statics": self._statics,
            "initial": [initial for _, _, initial in self._memories],
            "block": self._block.idx,
            "levels": self._levels[:1],
            "steps": [each.name for each in self._steps],
            "shown": [each.name for each in self._shown],
            "memories": [[held.name, new.name] for held, new, _ in self._memories],
            "fills": self._fills,
            "results": [each.name for each in self._results],
        }
        append_plain("dynamic_rnn", arguments, self._outputs, role=FORWARD)

    def _variable(self, shape: Shape, dtype: str, lod_level: int = 0) -> Variable:
        new = Variable(self._block, naming.generate("dynamic_rnn.step"), tuple(shape), dtype, lod_level=lod_level)
        self._block.add(new)
        return new

    def step_input(self, x: Input, level: int = 0) -> Output:
        """One item of each sequence of an input; the first input says the sequences, and their level."""
        self._inside("step_input")
        level = self._levels[0] if self._levels else level
        self._levels.append(level)
        self._inputs.append(x)
        self._steps.append(self._variable((-1, *x.shape[1:]), x.dtype, max(x.lod_level - level - 1, 0)))
        return self._steps[-1]

    def static_input(self, x: Input) -> Output:
        """All of an input in every step, for those sequences that still go on."""
        self._inside("static_input")
        if not self._inputs:
            raise bad("UM-FLUID-001", "DynamicRNN: static_input comes behind step_input", where=user_line())
        self._statics.append(x)
        self._shown.append(self._variable((-1, *x.shape[1:]), x.dtype, x.lod_level))
        return self._shown[-1]

    def memory(self, init: Input = None, shape: Shape = None, value: float = 0.0, need_reorder: bool = False, dtype: DType = "float32") -> Output:  # fmt: skip
        """What a step hands to the next one. As in 1.8 the rows of `init` belong to the sequences by their length, the longest first,
        unless ``need_reorder`` says that they stand in the order of the input."""
        self._inside("memory")
        if init is not None:
            held = self._variable((-1, *init.shape[1:]), init.dtype)
            self._fills.append(bool(need_reorder))
        elif not self._inputs or shape is None:
            what = "DynamicRNN.memory takes init, or a shape behind the first step_input"
            raise bad("UM-FLUID-001", what, where=user_line())
        else:
            sizes = [int(each) for each in ([shape] if isinstance(shape, int) else shape)]
            held = self._variable((-1, *sizes), dtype_name(dtype))
            self._fills.append([sizes, value, dtype_name(dtype)])
        self._memories.append([held, held, init])
        return held

    def update_memory(self, ex_mem: Input, new_mem: Input) -> None:
        """What the next step is handed."""
        self._inside("update_memory")
        known = [each for each in self._memories if each[0] is ex_mem]
        if not known:
            raise bad("UM-FLUID-001", f"{ex_mem} is no memory of this DynamicRNN", where=user_line())
        known[0][1] = new_mem

    def output(self, *outputs: Input) -> None:
        """Results of each step."""
        self._inside("output")
        self._results += outputs

    def __call__(self) -> Output:
        if self._outputs is None:
            raise bad("UM-FLUID-001", "the outputs of a DynamicRNN are there behind its block()", where=user_line())
        return self._outputs[0] if len(self._outputs) == 1 else self._outputs


class IfElse:
    """Rows divided by a condition: each part goes through a block of its own, and the results stand in the old order."""

    def __init__(self, cond: Input, name: str | None = None) -> None:
        self._condition = cond
        self._inputs: dict[int, Any] = {}
        self._side: int | None = None
        self._results: list[Outputs] = [[], []]

    @contextmanager
    def _of(self, side: int) -> Iterator[None]:
        self._side = side
        try:
            yield
        finally:
            self._side = None
        if not self._results[side]:
            raise bad("UM-FLUID-001", "IfElse: a block without output()", where=user_line())

    def true_block(self) -> Any:
        """For the rows for which the condition holds."""
        return self._of(0)

    def false_block(self) -> Any:
        """For the others."""
        return self._of(1)

    def _within(self, method: str) -> int:
        if self._side is None:
            raise bad("UM-FLUID-001", f"IfElse.{method} is for the inside of its blocks", where=user_line())
        return self._side

    def input(self, x: Input) -> Output:
        """The rows of an input that belong to this block."""
        side = self._within("input")
        if id(x) not in self._inputs:
            parts = apply("split_rows", {"x": x, "condition": self._condition}, outputs=2)
            self._inputs[id(x)] = (x, parts)
        return self._inputs[id(x)][1][side]

    def output(self, *outs: Input) -> None:
        """Results of this block."""
        self._results[self._within("output")] += outs

    def __call__(self) -> Outputs:
        true, false = self._results
        if not true and not false:
            raise bad("UM-FLUID-001", "IfElse has no block", where=user_line())
        if not true or not false:
            return true or false
        if len(true) != len(false):
            what = f"IfElse: one block has {len(true)} outputs, the other {len(false)}"
            raise bad("UM-FLUID-002", what, where=user_line())
        condition = self._condition
        return [
            apply("merge_rows", {"true": one, "false": other, "condition": condition})
            for one, other in zip(true, false, strict=True)
        ]


def lod_rank_table(x: Input, level: int = 0) -> Output:
    """The numbers of the sequences of `x`, the longest first."""
    return apply("lod_rank_table", {"x": x, "level": level})


def reorder_lod_tensor_by_rank(x: Input, rank_table: Input) -> Output:
    """The sequences of `x` in the order of a table."""
    return apply("reorder_lod_tensor_by_rank", {"x": x, "rank_table": rank_table})


def beam_search(pre_ids: Input, pre_scores: Input, ids: Input, scores: Input, beam_size: int, end_id: int, level: int = 0, is_accumulated: bool = True, name: str | None = None, return_parent_idx: bool = False) -> Output:  # fmt: skip
    """The best continuations of each source: ids and scores as sequences of two levels."""
    arguments = {
        "pre_ids": pre_ids,
        "pre_scores": pre_scores,
        "ids": ids,
        "scores": scores,
        "beam_size": beam_size,
        "end_id": end_id,
        "level": level,
        "is_accumulated": is_accumulated,
    }
    outputs = apply("beam_search", arguments, name=name, outputs=3)
    return outputs if return_parent_idx else outputs[:2]


def beam_search_decode(ids: Input, scores: Input, beam_size: int, end_id: int, name: str | None = None) -> Output:
    """The sentences of each source from the arrays of all steps."""
    block = default_main_program().current_block()
    prefix = name or naming.generate("beam_search_decode")
    outputs = [
        block.create_var(naming.generate(f"{prefix}.tmp"), (-1,), dtype, lod_level=2, stop_gradient=True)
        for dtype in ("int64", "float32")
    ]
    arguments = {"ids": ids, "scores": scores, "beam_size": beam_size, "end_id": end_id}
    append_plain("beam_search_decode", arguments, outputs, role=FORWARD)
    return outputs[0], outputs[1]


def dynamic_lstmp(input: Input, size: int, proj_size: int, param_attr: Attr = None, bias_attr: Attr = None, use_peepholes: bool = True, is_reverse: bool = False, gate_activation: str = "sigmoid", cell_activation: str = "tanh", candidate_activation: str = "tanh", proj_activation: str = "tanh", dtype: DType = "float32", name: str | None = None, h_0: Input = None, c_0: Input = None, cell_clip: float | None = None, proj_clip: float | None = None) -> Output:  # fmt: skip
    """An LSTM whose hidden state is projected: projections and cells. The size is four times the width."""
    layer, width = name or naming.generate("lstmp"), size // 4
    arguments = {
        "input": input,
        "weight": create_parameter(layer, param_attr, [proj_size, 4 * width], dtype),
        "projection": create_parameter(layer, param_attr, [width, proj_size], dtype),
        "bias": create_parameter(layer, bias_attr, [1, (7 if use_peepholes else 4) * width], dtype, is_bias=True),
        "h_0": h_0,
        "c_0": c_0,
        "size": width,
        "use_peepholes": use_peepholes,
        "is_reverse": is_reverse,
        "gate_activation": gate_activation,
        "cell_activation": cell_activation,
        "candidate_activation": candidate_activation,
        "proj_activation": proj_activation,
        "cell_clip": cell_clip,
        "proj_clip": proj_clip,
    }
    return apply("dynamic_lstmp", arguments, name=layer, outputs=2)


def lstm_unit(x_t: Input, hidden_t_prev: Input, cell_t_prev: Input, forget_bias: float = 0.0, param_attr: Attr = None, bias_attr: Attr = None, name: str | None = None) -> Output:  # fmt: skip
    """One step of an LSTM: the hidden state and the cell."""
    both = rows.call("concat", [x_t, hidden_t_prev], 1)
    gates = parametric.fc(both, 4 * cell_t_prev.shape[1], param_attr=param_attr, bias_attr=bias_attr)
    arguments = {"x": gates, "cell": cell_t_prev, "forget_bias": float(forget_bias)}
    return apply("lstm_unit", arguments, name=name, outputs=2)


def lstm(input: Input, init_h: Input, init_c: Input, max_len: int, hidden_size: int, num_layers: int, dropout_prob: float = 0.0, is_bidirec: bool = False, is_test: bool = False, name: str | None = None, default_initializer: Attr = None, seed: int = -1) -> Output:  # fmt: skip
    """Layers of LSTMs over [steps, sequences, width]: outputs, last hidden states and last cells."""
    layer, ways, total = name or naming.generate("cudnn_lstm"), 2 if is_bidirec else 1, 0
    for number in range(num_layers):
        width = input.shape[-1] if number == 0 else hidden_size * ways
        total += ways * 4 * hidden_size * (width + hidden_size + 2)
    if input.shape[0] > max_len:
        what = f"layers.lstm: {input} has more steps than max_len={max_len}"
        raise bad("UM-FLUID-002", what, where=user_line())
    weight = create_parameter(layer, None, [total], input.dtype, default=default_initializer)
    arguments = {
        "max_len": max_len,
        "seed": max(seed, 0),
        "input": input,
        "init_h": init_h,
        "init_c": init_c,
        "weight": weight,
        "hidden_size": hidden_size,
        "num_layers": num_layers,
        "dropout_prob": dropout_prob,
        "is_bidirec": is_bidirec,
        "is_test": is_test,
    }
    return apply("lstm", arguments, name=layer, outputs=3)
