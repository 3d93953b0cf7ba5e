"""An inference model: what an engine has learned, as files that `paddle.inference` reads. An adapter, for Paddle.

    def rows_of(embedding):                 all keys of its table, and their rows
        ...

    export(engine, "umiak_models/rank/dnn/inference/3", rows_of)  ->  Exported(path=..., inputs=(...), outputs=("probability",))

The directory has ``inference.*``, which Paddle writes, and ``signature.json``: what goes in and what comes out. It stands there under its name when it is
whole. Tables go into the model: it finds rows by id, and an id that has none reads as zeros. Labels and whatever else of the slots the model does not look
at are no inputs.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import numpy as np
import paddle
from numpy.typing import NDArray

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import value
from umiak.ps.paddle import rows_elsewhere
from umiak.schema.findings import choices
from umiak.train.config.values import Slots
from umiak.train.modeling import lookups
from umiak.train.modeling.inputs import PADDING, ServedInputs
from umiak.train.modeling.model import Model
from umiak.train.reading.batches import padded

if TYPE_CHECKING:
    from umiak.data.array_types import AnyArray
    from umiak.train.modeling.embedding import Embedding, Tables
    from umiak.train.reading.batches import Batch

    Rows = Callable[[Embedding], tuple[NDArray[np.uint64], NDArray[np.float32]]]
    """The keys of an embedding's table, and a row for each."""


class Exportable(Protocol):
    """What of an engine for Paddle is written."""

    @property
    def model(self) -> Model: ...
    @property
    def slots(self) -> Slots: ...
    @property
    def embeddings(self) -> Tables: ...
    def predict(self, batch: Batch) -> dict[str, NDArray[np.float32]]: ...


NAME = "inference"
SIGNATURE = "signature.json"
FORMAT = 1
MOST_GAP = 1e-4
"""Rounding may differ; answers may not."""


@value
class Input:
    """One input of a served model."""

    name: str
    kind: str
    """``sparse``: ids, a row for each sample, filled up with the padding id. ``dense``: numbers. ``rows``: a row of a table for each id."""
    dtype: str
    shape: tuple[int | None, ...]
    """None: any."""
    padding: int | None = None
    """The id that stands where a sample has no more ids."""
    table: str = ""
    """Of an input of kind ``rows``, rows of a table that is not in the model: which table, and for the ids of which slot."""
    of: str = ""


@value
class Output:
    """One output of a served model; each has a row for each sample."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


@value
class Exported:
    """What was written."""

    path: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]


class Brought:
    """Rows that are not in a model, but go into it: those that it asks for."""

    def __init__(self) -> None:
        self.asked: dict[str, Input] = {}
        self.tensors: dict[str, paddle.Tensor] = {}
        """By the names of inputs, while it computes."""

    def of(self, embedding: Embedding) -> Callable[[str, paddle.Tensor], paddle.Tensor]:
        """What such an embedding looks up."""

        def rows(slot: str, ids: paddle.Tensor) -> paddle.Tensor:
            name = f"rows.{embedding.table}.{slot}"
            shape = (None, None, embedding.dim)
            asked = Input(name=name, kind="rows", dtype="float32", shape=shape, table=embedding.table, of=slot)
            self.asked[name] = asked
            found = self.tensors.get(name)
            if found is None:
                return paddle.zeros([*ids.shape, embedding.dim])
            # Whatever somebody brings for an id that is not there: it is nothing.
            return found * (ids != PADDING).astype("float32").unsqueeze(-1)

        return rows


def export(
    engine: Exportable,
    path: str,
    rows_of: Rows,
    feeds: Sequence[str] = (),
    fetches: Sequence[str] = (),
    *,
    lookup: lookups.RowLookup = lookups.SEARCHED,
    is_brought: Callable[[Embedding], bool] = lambda _: False,
    beside: Sequence[str] = (),
) -> Exported:
    """Write the model as it is now into a directory, in the place of one that is there; with copies of the files ``beside``.

    ``feeds`` and ``fetches`` are what somebody expects to go in and come out. They change nothing: UmiakError if there is no such input or output.
    ``lookup`` is how rows are found by id; rows of tables that are brought are inputs instead.
    """
    model, slots = engine.model, engine.slots
    was_training = model.training
    model.eval()
    partial = f"{path}.partial"
    try:
        with ExitStack() as rows, paddle.no_grad():
            brought = Brought()
            for embedding in engine.embeddings.made:
                if is_brought(embedding):
                    rows.enter_context(embedding.given(brought.of(embedding)))
                    continue
                keys, values = rows_of(embedding)
                rows.enter_context(embedding.served(keys.view(np.int64), values, lookup))
            inputs, outputs = _signature(model, slots)
            inputs = (*inputs, *brought.asked.values())
            _check(inputs, outputs, feeds, fetches)
            shutil.rmtree(partial, ignore_errors=True)
            os.makedirs(partial)
            _trace(_Served(model, slots, inputs, outputs, brought), inputs, os.path.join(partial, NAME))
            for file in beside:
                shutil.copy(file, partial)
    finally:
        if was_training:
            model.train()
    done = Exported(path=path, inputs=inputs, outputs=outputs)
    put(done, partial)
    return done


def put(done: Exported, partial: str) -> None:
    """What was written in a directory of another name, with its signature, under its own name."""
    _write_signature(done, os.path.join(partial, SIGNATURE))
    _take_place(partial, done.path)


def check(done: Exported, engine: Exportable, batch: Batch) -> None:
    """Ask the written model about a batch, as a server would. UmiakError if it answers otherwise than the model that was trained."""
    expected = engine.predict(batch)
    compare(done, answered(done.path, {each.name: array(each, batch) for each in done.inputs}), expected)


def compare(done: Exported, answers: Sequence[AnyArray], expected: Mapping[str, AnyArray]) -> None:
    """UmiakError if answers are others than those that are expected."""
    for output, found in zip(done.outputs, answers, strict=True):
        gap = float(np.abs(found.reshape(-1) - expected[output.name].reshape(-1)).max(initial=0.0))
        if not gap <= MOST_GAP:
            raise UmiakError.of(
                "UM-TRAIN-041",
                f"{done.path}: {output.name} of the inference model differs from the trained model by up to {gap:.3g}",
                why="paddle.inference rewrites graphs, and some rewritings are wrong: with oneDNN x.square() changes x itself",
                hint="write x * x for x.square(); find the layer by naming more of the model's `outputs`",
                exit_status=Exit.JOB_FAILED,
            )


def answered(path: str, arrays: Mapping[str, AnyArray]) -> list[AnyArray]:
    """What a written model answers, output by output, in `paddle.inference`."""
    from paddle import inference

    files = [os.path.join(path, f"{NAME}.{ending}") for ending in ("json", "pdiparams")]
    config = inference.Config(*files)
    config.disable_glog_info()
    predictor = inference.create_predictor(config)
    for name in predictor.get_input_names():
        predictor.get_input_handle(name).copy_from_cpu(arrays[name])
    predictor.run()
    return [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]


def array(of: Input, batch: Batch) -> AnyArray:
    """An input as a server gets it."""
    if of.kind == "dense":
        return np.ascontiguousarray(batch.dense[of.name], np.float32)
    return padded(*batch.sparse[of.name], PADDING)


class _Served(paddle.nn.Layer):  # type: ignore[misc]
    """A model whose arguments are the tensors of its inputs, and whose answers stand in a row."""

    def __init__(
        self, model: Model, slots: Slots, inputs: Sequence[Input], outputs: Sequence[Output], brought: Brought
    ) -> None:
        super().__init__()
        self._model = model
        self._slots = slots
        self._inputs = tuple([each.name for each in inputs])
        self._outputs = tuple([each.name for each in outputs])
        self._brought = brought

    def forward(self, tensors: Sequence[paddle.Tensor]) -> list[paddle.Tensor]:
        answers: list[paddle.Tensor] = _answers(self, tensors)
        return answers

    def answers(self, tensors: Sequence[paddle.Tensor]) -> list[paddle.Tensor]:
        given = dict(zip(self._inputs, tensors, strict=True))
        self._brought.tensors = {name: given.pop(name) for name in self._brought.asked}
        results = self._model(ServedInputs(given, self._slots))
        return [results[name] for name in self._outputs]


@paddle.jit.not_to_static  # type: ignore[untyped-decorator]
def _answers(served: _Served, tensors: Sequence[paddle.Tensor]) -> list[paddle.Tensor]:
    """The models' code is run as it is, not rewritten by Paddle, which does not understand all of Python."""
    return served.answers(tensors)


def _signature(model: Model, slots: Slots) -> tuple[tuple[Input, ...], tuple[Output, ...]]:
    """What the model looks at and answers with, found out by asking it about two samples that have nothing."""
    possible = _possible(slots)
    samples = 2
    tensors = {
        each.name: paddle.full([samples, 1], PADDING, "int64")
        if each.kind == "sparse"
        else paddle.zeros([samples, each.shape[1]])
        for each in possible
    }
    served = ServedInputs(tensors, slots)
    results = model(served)
    inputs = tuple(each for each in possible if each.name in served.used)
    outputs = tuple(
        Output(name=name, dtype=str(results[name].dtype).rpartition(".")[2], shape=(None, *results[name].shape[1:]))
        for name in model.outputs or results
    )
    return inputs, outputs


def _possible(slots: Slots) -> list[Input]:
    """All slots, in the order of the config, as inputs."""
    dense = [Input(name=each.name, kind="dense", dtype="float32", shape=(None, each.width)) for each in slots.dense]
    sparse = [
        Input(name=name, kind="sparse", dtype="int64", shape=(None, None), padding=PADDING) for name in slots.sparse
    ]
    return [*dense, *sparse]


def _check(inputs: Sequence[Input], outputs: Sequence[Output], feeds: Sequence[str], fetches: Sequence[str]) -> None:
    """UmiakError with every name that is not there."""
    problems = []
    for what, there, said in (("input", inputs, feeds), ("output", outputs, fetches)):
        known = [each.name for each in there]
        problems += [
            Problem(code="UM-TRAIN-015", what=f"the inference model has no {what} {name}", hint=choices(name, known))
            for name in said
            if name not in known
        ]
    UmiakError.raise_any(problems)


def _trace(served: _Served, inputs: Sequence[Input], path: str) -> None:
    served.eval()
    specs = [paddle.static.InputSpec([*each.shape], each.dtype, each.name) for each in inputs]
    with warnings.catch_warnings(), rows_elsewhere():
        warnings.simplefilter("ignore")  # Paddle warns about its own functions while it traces them
        paddle.jit.save(paddle.jit.to_static(served, input_spec=[specs], full_graph=True), path)


def _write_signature(done: Exported, path: str) -> None:
    said = {
        "format": FORMAT,
        "inputs": [
            {
                "name": each.name,
                "kind": each.kind,
                "dtype": each.dtype,
                "shape": each.shape,
                **({} if each.padding is None else {"padding": each.padding}),
                **({"table": each.table, "of": each.of} if each.table else {}),
            }
            for each in done.inputs
        ],
        "outputs": [{"name": each.name, "dtype": each.dtype, "shape": each.shape} for each in done.outputs],
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(said, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def _take_place(partial: str, path: str) -> None:
    """The new directory under its name. An old one is moved aside first, as a directory can't be replaced by another."""
    if os.path.exists(path):
        old = f"{path}.old"
        shutil.rmtree(old, ignore_errors=True)
        os.rename(path, old)
        os.rename(partial, path)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(partial, path)
