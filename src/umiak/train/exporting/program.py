"""Writes a trained model, or its tables, for other programs: reads, converts, compares, puts it under its name. A program.

    export(plan, ExportRequest(format="onnx", out="ctr.onnx"), say) -> Written(files=(...), ...)

What is written stands in OUT as a whole or not at all, with ``export.json``: what it is and of which checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from umiak.adapters.version import version
from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.train.exporting import table_files
from umiak.train.predicting.program import PredictOptions, Predictor

if TYPE_CHECKING:
    from umiak.train.engines.portable.writing import PortableModel
    from umiak.train.plan.plan import Plan
    from umiak.train.reading.batches import Batch

NOTE = "export.json"
TABLE_FORMATS = ("parquet", "safetensors")
FORMATS = ("paddle", "onnx", "mlflow", *TABLE_FORMATS)
LARGEST_TABLE = 1 << 30


@value
class ExportRequest:
    """What was asked for."""

    format: str
    out: str
    tables: tuple[str, ...] = ()
    largest_table: int = LARGEST_TABLE
    overwrite: bool = False


@value
class Written:
    """What came of it."""

    out: str
    format: str
    checkpoint: str
    files: tuple[str, ...]
    gap: float | None = None
    """How far the answers were from those of the trained model, where they were compared here."""
    outside: tuple[str, ...] = ()
    """Tables that are not in the model, or not among the files."""


@runtime_checkable
class PortableEngine(Protocol):
    """An engine whose models others can load."""

    def export_portable(self, path: str, checkpoint: str, *, batch: Batch, most_bytes: int) -> PortableModel: ...


def check_place(asked: ExportRequest) -> None:
    """UmiakError if something is there that would be lost."""
    if not os.path.lexists(asked.out):
        return
    what = f"the output is there already: {asked.out}"
    if not asked.overwrite:
        raise UmiakError.of("UM-EXPORT-001", what, hint="--overwrite replaces what this command has written")
    if not os.path.isfile(os.path.join(asked.out, NOTE)):
        raise UmiakError.of(
            "UM-EXPORT-001", f"{what}, and this command has not written it", hint="choose another --out"
        )


def export_tables(checkpoint: str, asked: ExportRequest) -> Written:
    """Tables alone: no model is made."""
    with ExitStack() as closing:
        staging = _staging(asked, closing)
        done, dense = table_files.write(checkpoint, staging, asked.format, asked.tables)
        named = {each.table: {"file": os.path.basename(each.file), "rows": each.rows} for each in done}
        return _put(asked, staging, checkpoint, {"tables": named}, outside=tuple(dense))


def export(plan: Plan, asked: ExportRequest, say: Callable[[str], None]) -> Written:
    """A model. UmiakError if it can't be."""
    with ExitStack() as closing:
        predictor = Predictor(plan, PredictOptions(out=asked.out), closing)
        say(f"exports {predictor.checkpoint} -> {asked.out}")
        with predictor.read(None) as samples:
            batch = next(samples, None)
        if batch is None:
            what = f"dataset {predictor.data.dataset.name} has no samples: {predictor.data.dataset.data_path}"
            raise UmiakError.of(
                "UM-TRAIN-019", what, hint="a model is asked about some before it is put under its name"
            )
        staging = _staging(asked, closing)
        engine = predictor.engine
        inside = os.path.join(staging, "model")
        if asked.format == "onnx":
            return _onnx(engine, predictor.checkpoint, batch, asked, staging)
        _portable(engine)
        engine.export(inside, predictor.checkpoint, sample=lambda: batch)
        if asked.format == "paddle":
            return _put(asked, inside, predictor.checkpoint, {})
        from umiak.train.exporting import mlflow_files

        mlflow_files.write(inside, staging)
        return _put(asked, staging, predictor.checkpoint, {})


def _onnx(engine: object, checkpoint: str, batch: Batch, asked: ExportRequest, staging: str) -> Written:
    from umiak.train.exporting import onnx_files

    own = _portable(engine)
    inside = os.path.join(staging, "paddle")
    model = own.export_portable(inside, checkpoint, batch=batch, most_bytes=asked.largest_table)
    gap = onnx_files.write(model, staging)
    shutil.move(os.path.join(inside, "signature.json"), os.path.join(staging, "signature.json"))
    shutil.rmtree(inside)
    for table in model.outside:
        table_files.write(checkpoint, staging, "safetensors", [table])
    return _put(asked, staging, checkpoint, {"compared_with_onnxruntime": gap}, gap=gap, outside=model.outside)


def _portable(engine: object) -> PortableEngine:
    if isinstance(engine, PortableEngine):
        return engine
    raise UmiakError.of(
        "UM-EXPORT-003",
        "a model of PaddleRec 1.8.5 is written by its training alone",
        why="its inference model is a program of paddle.fluid, whose sequences no other program reads",
        hint="`save_inference_path` in the config, for `fluid.io.load_inference_model`; --format safetensors for what it has learned",
    )


def _staging(asked: ExportRequest, closing: ExitStack) -> str:
    check_place(asked)
    path = f"{asked.out}.partial"
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    closing.callback(shutil.rmtree, path, ignore_errors=True)
    return path


def _put(
    asked: ExportRequest,
    directory: str,
    checkpoint: str,
    more: dict[str, object],
    *,
    gap: float | None = None,
    outside: tuple[str, ...] = (),
) -> Written:
    """The directory under its name, in the place of what this command has written before."""
    note = {"format": asked.format, "checkpoint": checkpoint, "umiak": version(), **more, "left_out": [*outside]}
    with open(os.path.join(directory, NOTE), "w", encoding="utf-8") as file:
        json.dump(note, file, indent=2)
        file.write("\n")
    files = sorted(
        os.path.relpath(os.path.join(at, name), directory) for at, _, names in os.walk(directory) for name in names
    )
    for name in files:
        with open(os.path.join(directory, name), "rb") as file_to_sync:
            os.fsync(file_to_sync.fileno())
    old = f"{asked.out}.old"
    if os.path.lexists(asked.out):
        shutil.rmtree(old, ignore_errors=True)
        os.rename(asked.out, old)
    os.rename(directory, asked.out)
    shutil.rmtree(old, ignore_errors=True)
    return Written(
        out=asked.out, format=asked.format, checkpoint=checkpoint, files=tuple(files), gap=gap, outside=outside
    )
