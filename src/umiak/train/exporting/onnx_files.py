"""A trained model as ONNX: converted, and compared with the model that was trained. An adapter, for paddle2onnx and onnxruntime."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from typing import TYPE_CHECKING

import numpy as np

from umiak.adapters import own_modules
from umiak.core.problem import Exit, UmiakError

if TYPE_CHECKING:
    from umiak.train.engines.portable.writing import PortableModel

PACKAGES = ("paddle2onnx", "onnxruntime")
MODEL = "model.onnx"
MOST_GAP = 1e-5
"""Answers of onnxruntime and of the trained model may differ by so much, relative to an answer above 1."""
MOST_BYTES = (2 << 30) - (64 << 20)
"""What fits into one message of protobuf, with some room."""


def check_installed() -> None:
    """UmiakError if a package is missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        what = f"ONNX needs what is not installed: {', '.join(missing)}"
        raise UmiakError.of("UM-EXPORT-002", what, hint=f"python -m pip install {' '.join(PACKAGES)}")


def write(model: PortableModel, directory: str) -> float:
    """``model.onnx`` in a directory. Returns how far its answers are from those that are expected. UmiakError if it can't be, or if they are far."""
    from umiak.train.engines import paddle_export

    source = os.path.join(model.exported.path, paddle_export.NAME)
    size = os.path.getsize(f"{source}.pdiparams")
    if size > MOST_BYTES:
        raise UmiakError.of(
            "UM-EXPORT-003",
            f"the model has {size >> 20} MiB of parameters, and a file of ONNX takes less than 2 GiB",
            hint="`--largest_table`, for models of ours; rows of larger tables are inputs then",
        )
    file = os.path.join(directory, MODEL)
    names = ",".join(each.name for each in model.exported.outputs)
    command = own_modules.command("umiak.train.exporting.convert")
    words = [*command, f"{source}.json", f"{source}.pdiparams", file, names]
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise UmiakError.of(
            "UM-EXPORT-003",
            "the model can't be written as ONNX",
            why=_reason(done.stdout + done.stderr, done.returncode),
            hint="`--format paddle` and `--format mlflow` take every model",
            exit_status=Exit.JOB_FAILED,
        )
    return _checked(model, file)


def _checked(model: PortableModel, file: str) -> float:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        given = {each.name: np.ascontiguousarray(model.arrays[each.name]) for each in session.get_inputs()}
        answers = session.run(None, given)
    except Exception as error:
        raise UmiakError.of(
            "UM-EXPORT-003",
            "the model was converted to ONNX, and onnxruntime can't run what came of it",
            why=(str(error).strip().splitlines() or [type(error).__name__])[-1][:300],
            hint="`--format paddle` and `--format mlflow` take every model",
            exit_status=Exit.JOB_FAILED,
        ) from error
    worst = 0.0
    for output, found in zip(model.exported.outputs, answers, strict=True):
        expected = model.expected[output.name].reshape(-1)
        gaps = np.abs(found.reshape(-1) - expected) / np.maximum(1, np.abs(expected))
        gap = float(gaps.max(initial=0.0))
        if not gap <= MOST_GAP:
            raise UmiakError.of(
                "UM-EXPORT-004",
                f"{output.name} of the model as ONNX differs from the trained model by up to {gap:.3g}",
                why=f"more than {MOST_GAP:.0e} is more than rounding",
                hint="`--format paddle` takes every model",
                exit_status=Exit.JOB_FAILED,
            )
        worst = max(worst, gap)
    return worst


def _reason(text: str, status: int) -> str:
    """What of a long output says why."""
    unknown = re.findall(r"[Uu]nsupported (?:operator|op)s?:? *\[?([\w.]+)", text)
    if unknown:
        return f"paddle2onnx does not know {', '.join(dict.fromkeys(unknown))}"
    lines = [line.strip() for line in text.splitlines() if "ERROR" in line or "Error:" in line]
    last = lines[-1] if lines else (text.strip().splitlines() or [f"status {status}"])[-1]
    return re.sub(r"^\[ERROR\]\[Paddle2ONNX\] *", "paddle2onnx: ", last)[:300]
