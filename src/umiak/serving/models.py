"""Inference models on a disk: which versions are there, and one that is loaded. An adapter, for Paddle.

    newest("served") -> Version(name="3", path="served/3", stamp=...)
    model = ServedModel(version)
    model.run({"1": ids}) -> {"probability": array}

`umiak train` writes a version as a directory of its number below save_inference_path, and puts it under its name when it is whole.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.ps.paddle_import import without_remarks
from umiak.serving import raw_features
from umiak.serving.protocol import ServedSignature, signature_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.serving.raw_features import RawFeatures

SIGNATURE = "signature.json"
PROGRAM, WEIGHTS = "inference.json", "inference.pdiparams"


@value
class Version:
    """One that could be served."""

    name: str
    path: str
    stamp: tuple[int, int]
    """Another one where the directory was written again."""


def newest(path: str) -> Version | None:
    """The version with the highest number; a directory that is an inference model itself is version 1."""
    own = _version("1", path)
    if own is not None:
        return own
    try:
        numbers = sorted((each for each in os.listdir(path) if each.isdecimal()), key=int, reverse=True)
    except OSError:
        return None
    for number in numbers:
        inside = os.path.join(path, number)
        newest = _version(number, inside) or _version(number, os.path.join(inside, "inference"))
        if newest is not None:
            return newest
    return None


def _version(name: str, path: str) -> Version | None:
    try:
        seen = os.stat(os.path.join(path, SIGNATURE))
    except OSError:
        return None
    return Version(name=name, path=path, stamp=(seen.st_ino, seen.st_mtime_ns))


class ServedModel:
    """A version in memory. Of one thread."""

    def __init__(self, version: Version, threads: int = 1) -> None:
        """UmiakError if it can't be loaded."""
        self.version = version
        try:
            with open(os.path.join(version.path, SIGNATURE), encoding="utf-8") as file:
                self.signature: ServedSignature = signature_of(file.read())
            self.raw: RawFeatures | None = raw_features.of(version.path, self.signature)
            self._predictor = _predictor(version.path, threads)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise UmiakError.refused(
                "UM-SERVE-003",
                f"an inference model can't be loaded: {version.path}",
                why=(str(error).strip().splitlines() or [type(error).__name__])[-1][:300],
                hint="write it again with save_inference_path",
            ) from error

    def run(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """What it answers, output by output."""
        for name in self._predictor.get_input_names():
            self._predictor.get_input_handle(name).copy_from_cpu(np.ascontiguousarray(arrays[name]))
        self._predictor.run()
        outputs = [self._predictor.get_output_handle(name).copy_to_cpu() for name in self._predictor.get_output_names()]
        return {output.name: array for output, array in zip(self.signature.outputs, outputs, strict=True)}


def _predictor(path: str, threads: int) -> Any:
    with without_remarks():
        from paddle import inference
    config = inference.Config(os.path.join(path, PROGRAM), os.path.join(path, WEIGHTS))
    config.disable_glog_info()
    config.set_cpu_math_library_num_threads(threads)
    return inference.create_predictor(config)
