"""Plain Paddle's side of a static comparison: Paddle's own executor, in the manner of PaddleRec's `static_trainer.py`. A program.

    python -m umiak.train.compare.plain_static DIRECTORY SIDE [nudged=SEED] [one-epsilon] [lazy]

What goes in and out, and what the words mean, is said by `plain_side`. With several trainers forward and backward operations run for each one's batch; the gradients are
added up, each by its share, and then the optimizer's operations run once. An embedding that only servers can look up (`sparse_embedding`) is a plain one here. Where Paddle
can't build a program of the older form any more, the functions that it has lost are those of `umiak.fleet.operations`: what is run and learned is Paddle's own.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

os.environ.setdefault("FLAGS_enable_pir_api", "0")  # before Paddle is imported, as PaddleRec's trainers say it

import numpy as np
import paddle

from umiak.train.compare import plain_side, records, static_code
from umiak.train.compare.plain_side import PlainOptions, PlainSide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.data.array_types import AnyArray
    from umiak.ps.paddle_types import Operation, Program, Variable
    from umiak.train.compare.values import RecordedBatch

    Gradient = tuple[list[int] | None, AnyArray]
    """Rows, if it has only some, and numbers."""
    AdamMeans = tuple[AnyArray, AnyArray, AnyArray]
    """The values, and both means."""

LOOKUPS = ("lookup_table", "lookup_table_v2")
OPTIMIZE, SCHEDULE = 2, 16
"""Bits in the role of an operation."""


class PlainProgram(PlainSide):
    """The user's program, with Paddle's own optimizer operations."""

    def __init__(self, directory: str, side: str, options: PlainOptions) -> None:
        super().__init__(directory, side, options)
        paddle.enable_static()
        paddle.static.nn.sparse_embedding = _plain_embedding
        self._is_repaired = self._is_sparse = False
        self._main, startup = paddle.static.Program(), paddle.static.Program()
        try:
            self._built = self._build(self._main, startup)
        except Exception:  # noqa: BLE001 - whatever Paddle says that it can't append
            # Since 3.3 about fifty of its functions take no variable of an older program: those are repaired, and nothing else.
            from umiak.fleet import operations

            operations.install()
            self._is_repaired = True
            self._main, startup = paddle.static.Program(), paddle.static.Program()
            self._built = self._build(self._main, startup)
        for op in self._main.global_block().ops:
            if options.is_lazy and op.type in ("adam", "adamw"):
                op._set_attr("lazy_mode", True)
        self._executor = paddle.static.Executor(paddle.CPUPlace())
        self._scope = paddle.static.global_scope()
        paddle.seed(self._facts["seed"])
        self._executor.run(startup)
        paddle.seed(self._facts["seed"] + 1)
        self._parameters = {each.name: each for each in self._main.all_parameters()}
        self._generators = {rank: plain_side.cpu_generator().get_state() for rank in range(self._trainers)}
        self._statistics: dict[int, dict[str, AnyArray]] = {}

    def _build(self, main: Program, startup: Program) -> static_code.BuiltProgram:
        with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
            built = static_code.build(self._facts)
            lookups = [op for op in main.global_block().ops if op.type in LOOKUPS and op.attr("is_sparse")]
            self._is_sparse = bool(lookups)
            built.model.create_optimizer()
        return built

    def run(self) -> None:
        drawn = self._start(self._parameters)
        self._writer.write(0, self._values())
        halves = self._halves() if self._trainers > 1 else None
        for number, step in enumerate(zip(*self._recorded(), strict=False), start=1):
            self._nudge()
            before = self._adam_before()
            loss = self._alone(step[0]) if halves is None else self._together(step, *halves)
            if before:
                self._even_out(before)
            self._writer.write(number, self._values(), loss=loss)
        told = {"drawn_otherwise": drawn, "repaired": self._is_repaired, "padding": self._padding()}
        records.write_facts(self._place, {**told, "sparse": self._is_sparse})

    def _alone(self, batch: RecordedBatch) -> float:
        (loss,) = self._executor.run(self._main, feed=self._feed(batch), fetch_list=[self._built.loss])
        return float(np.mean(loss))

    # ---- several trainers

    def _halves(self) -> tuple[Program, Program, list[str]]:
        """The program up to its gradients, what the optimizer does with them, and their names."""
        gradients = []
        for op in self._main.global_block().ops:
            if _role(op) & OPTIMIZE:
                gradients += [
                    name
                    for name in op.input_arg_names
                    if name.endswith("@GRAD") and name not in gradients and _is_made_before(self._main, name)
                ]
        learning, updating = self._main.clone(), self._main.clone()
        for program, keeps in ((learning, False), (updating, True)):
            block = program.global_block()
            for place in reversed(range(len(block.ops))):
                if bool(_role(block.ops[place]) & (OPTIMIZE | SCHEDULE)) is not keeps:
                    block._remove_op(place, sync=False)
            block._sync_with_cpp()
            for name in gradients:
                block.var(name).persistable = True  # so that they are in the scope between two runs
        return learning, updating, gradients

    def _together(
        self, step: Sequence[RecordedBatch], learning: Program, updating: Program, gradients: list[str]
    ) -> float:
        totals: dict[str, list[Gradient]] = {name: [] for name in gradients}
        first = 0.0
        for rank, batch in enumerate(step):
            self._turn_to(rank)
            (loss,) = self._executor.run(learning, feed=self._feed(batch), fetch_list=[self._built.loss])
            first = float(np.mean(loss)) if rank == 0 else first
            for name in gradients:
                totals[name].append(_gradient(self._scope.find_var(name), float(batch.facts["share"])))
            self._leave(rank)
        for name, parts in totals.items():
            _set_gradient(self._scope.find_var(name), parts)
        self._executor.run(updating)
        self._turn_to(0)
        return first

    def _turn_to(self, rank: int) -> None:
        plain_side.cpu_generator().set_state(self._generators[rank])
        for name, array in self._statistics.get(rank, {}).items():
            self._set(name, array)

    def _leave(self, rank: int) -> None:
        self._generators[rank] = plain_side.cpu_generator().get_state()
        if not self._statistics:
            self._statistics = {each: {} for each in range(self._trainers)}
        self._statistics[rank] = {
            name: self._array(name) for name, each in self._parameters.items() if not each.trainable
        }

    # ---- values

    def _feed(self, batch: RecordedBatch) -> dict[str, AnyArray]:
        return dict(zip(self._built.feeds, batch.fields, strict=False))

    def _padding(self) -> dict[str, int]:
        """Rows that read as zeros. With sparse gradients Paddle's executor lets them learn nevertheless."""
        found = {}
        for op in self._main.global_block().ops:
            if op.type in LOOKUPS and op.attr("is_sparse") and op.attr("padding_idx") >= 0:
                found[op.input("W")[0]] = int(op.attr("padding_idx"))
        return found

    def _adam_before(self) -> list[tuple[Operation, AdamMeans]]:
        """Adam's operations over sparse weights with their values, if they move rows without a gradient and are to have one epsilon."""
        if not self._options.has_one_epsilon:
            return []
        ops = self._main.global_block().ops
        sparse = {op.input("W")[0] for op in ops if op.type in LOOKUPS and op.attr("is_sparse")}
        return [
            (op, (self._kept(op, "Param"), self._kept(op, "Moment1"), self._kept(op, "Moment2")))
            for op in ops
            if op.type in ("adam", "adamw") and op.input("Param")[0] in sparse and not op.attr("lazy_mode")
        ]

    def _even_out(self, before: list[tuple[Operation, AdamMeans]]) -> None:
        from umiak.train.compare import (
            deviations,  # not before: a plain side has nothing of umiak that it does not need
        )

        for op, (values, first, second) in before:
            rate, *powers = (float(self._kept(op, each)) for each in ("LearningRate", "Beta1Pow", "Beta2Pow"))
            name = op.input("Param")[0]
            step = deviations.AdamStep(
                rate=rate,
                beta1=op.attr("beta1"),
                beta2=op.attr("beta2"),
                epsilon=op.attr("epsilon"),
                powers=(powers[0], powers[1]),
                before=values,
                first=(first, self._kept(op, "Moment1")),
                second=(second, self._kept(op, "Moment2")),
            )
            self._set(name, deviations.with_one_epsilon(step, self._array(name)))

    def _nudge(self) -> None:
        if self._nudges is None:
            return
        from umiak.train.compare import deviations

        for name, each in self._parameters.items():
            array = self._array(name)
            if each.trainable and array.dtype == np.float32:
                self._set(name, deviations.nudged(array, self._nudges))

    def _values(self) -> dict[str, AnyArray]:
        return {name: self._array(name) for name in self._parameters}

    def _kept(self, op: Operation, name: str) -> AnyArray:
        """What an operation is given under a name."""
        return self._array(op.input(name)[0])

    def _array(self, name: str) -> AnyArray:
        return np.array(self._scope.find_var(name).get_tensor())

    def _set(self, name: str, array: AnyArray) -> None:
        self._scope.find_var(name).get_tensor().set(array, paddle.CPUPlace())


def _role(op: Operation) -> int:
    return int(op.attr("op_role")) if op.has_attr("op_role") else 0


def _is_made_before(program: Program, name: str) -> bool:
    """Whether it is a result of the backward pass, and not of the optimizer's own operations, such as clipping."""
    for op in program.global_block().ops:
        if name in op.output_arg_names:
            return not _role(op) & OPTIMIZE
    return False


def _gradient(variable: Variable, share: float) -> Gradient:
    try:
        sparse = variable.get_selected_rows()
    except (RuntimeError, ValueError):
        return None, np.array(variable.get_tensor()) * np.float32(share)
    return list(sparse.rows()), np.array(sparse.get_tensor()) * np.float32(share)


def _set_gradient(variable: Variable, parts: list[Gradient]) -> None:
    if parts[0][0] is None:
        variable.get_tensor().set(np.add.reduce([part for _, part in parts]), paddle.CPUPlace())
        return
    sparse = variable.get_selected_rows()
    sparse.set_rows([row for rows, _ in parts for row in rows or ()])
    sparse.get_tensor().set(np.concatenate([part for _, part in parts]), paddle.CPUPlace())


def _plain_embedding(
    input: Variable,  # noqa: A002 - Paddle's word
    size: Sequence[int],
    padding_idx: int | None = None,
    is_test: bool = False,
    entry: object = None,
    table_class: str = "",
    param_attr: object = None,
    dtype: str = "float32",
    slot: object = None,
) -> Variable:
    """`sparse_embedding` without servers: ids of a column of one give rows without that column."""
    del is_test, entry, table_class, slot  # of servers
    flat = paddle.reshape(input, [-1]) if len(input.shape) == 2 and input.shape[-1] == 1 else paddle.squeeze(input, -1)
    return paddle.static.nn.embedding(
        flat, size, is_sparse=True, padding_idx=padding_idx, param_attr=param_attr, dtype=dtype
    )


if __name__ == "__main__":
    sys.exit(plain_side.main(sys.argv[1:], PlainProgram))
