"""Scalars for VisualDL and TensorBoard, where they are installed. An adapter.

    RUN_DIR/visualdl/          visualdl --logdir run
    RUN_DIR/tensorboard/       tensorboard --logdir run

Neither is asked for, and neither may stop a run: what goes wrong with them is a note.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from functools import partial
from typing import Any

WRITERS = {"visualdl": ("visualdl", "LogWriter"), "tensorboard": ("tensorboard.summary", "Writer")}
"""The module of each package, and its class."""


class Scalars:
    """Everything that wants to see numbers."""

    def __init__(self, run_dir: str, note: Callable[[str], None]) -> None:
        self._note = note
        self._writers: dict[str, Any] = {}
        for package, (module, writer) in WRITERS.items():
            if importlib.util.find_spec(package) is not None:
                self._try(package, partial(_made, module, writer, os.path.join(run_dir, package)))

    def put(self, name: str, number: float, step: int) -> None:
        """One number at a step."""
        for package, writer in list(self._writers.items()):
            self._try(package, partial(writer.add_scalar, name, number, step), keep=True)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _try(self, package: str, call: Callable[[], Any], *, keep: bool = False) -> None:
        try:
            made = call()
        except Exception as error:  # noqa: BLE001 - somebody else's code, and only a courtesy
            self._writers.pop(package, None)
            self._note(f"no scalars for {package}: {type(error).__name__}: {error}")
            return
        if not keep:
            self._writers[package] = made


def _made(module: str, writer: str, directory: str) -> object:
    return getattr(importlib.import_module(module), writer)(directory)
