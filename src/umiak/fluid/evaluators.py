"""`fluid.evaluator`: counts over many runs that the program keeps itself. A program."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.layers import basics, rows
from umiak.fluid.record import naming
from umiak.fluid.record.recording import create_state
from umiak.fluid.running.scope import global_scope

if TYPE_CHECKING:
    from umiak.fluid.arguments import AnyProgram, Input, Outputs


class Evaluator:
    """What both have."""

    def __init__(self, own: str, name: str, states: dict[str, str]) -> None:
        warnings.warn(
            f"fluid.evaluator.{own} was old in 1.8 already: fluid.metrics.{own} counts what is fetched", stacklevel=3
        )
        prefix = naming.generate(name)
        self.states = {key: create_state(f"{prefix}_{key}", [1], dtype, 0) for key, dtype in states.items()}
        self.metrics: Outputs = []

    def _count(self, key: str, variable: Input) -> None:
        state = self.states[key]
        basics.sums([state, variable], out=state)

    def _counted(self) -> dict[str, float]:
        scope = global_scope().tensors
        return {key: float(scope[state.name].item()) for key, state in self.states.items()}

    def reset(self, executor: object, reset_program: AnyProgram = None) -> None:
        """From zero again."""
        for state in self.states.values():
            tensor = global_scope().tensors[state.name]
            tensor.set_value(paddle.zeros_like(tensor))


class ChunkCounts(Evaluator):
    """`evaluator.ChunkEvaluator`: precision, recall and F1 of chunks."""

    def __init__(self, input: Input, label: Input, chunk_scheme: str, num_chunk_types: int, excluded_chunk_types: list[int] | None = None) -> None:  # fmt: skip
        names = ("num_infer_chunks", "num_label_chunks", "num_correct_chunks")
        super().__init__("ChunkEvaluator", "chunk_eval", dict.fromkeys(names, "int64"))
        outputs = rows.call("chunk_eval", input, label, chunk_scheme, num_chunk_types, excluded_chunk_types)
        for name, variable in zip(names, outputs[3:], strict=True):
            self._count(name, variable)
        self.metrics += outputs[:3]

    def eval(self, executor: object, eval_program: AnyProgram = None) -> Any:
        """Over all runs since `reset`."""
        found, wanted, right = self._counted().values()
        precision, recall = (right / each if each else 0.0 for each in (found, wanted))
        f1 = 2 * precision * recall / (precision + recall) if right else 0.0
        return tuple(np.array([each], np.float32) for each in (precision, recall, f1))


class EditCounts(Evaluator):
    """`evaluator.EditDistance`: the mean distance, and the part of sequences that are wrong."""

    def __init__(self, input: Input, label: Input, ignored_tokens: list[int] | None = None) -> None:
        super().__init__(
            "EditDistance",
            "edit_distance",
            {"total_distance": "float32", "seq_num": "int64", "instance_error": "int64"},
        )
        distances, count = rows.call("edit_distance", input, label, ignored_tokens=ignored_tokens)
        right = rows.call("cast", rows.call("equal", distances, basics.fill_constant([1], "float32", 0.0)), "int64")
        wrong = rows.call("elementwise_sub", count, rows.call("reduce_sum", right))
        total = rows.call("reduce_sum", distances)
        for name, variable in (("total_distance", total), ("seq_num", count), ("instance_error", wrong)):
            self._count(name, variable)
        self.metrics += [total, wrong]

    def eval(self, executor: object, eval_program: AnyProgram = None) -> Any:
        """Over all runs since `reset`."""
        total, count, wrong = self._counted().values()
        return tuple(np.array([each / count], np.float32) for each in (total, wrong))
