"""Imports a model's file as training would, for `umiak train --check` and `--explain`. A program, started by `checks`.

    python -m umiak.train.run.trial model DESCRIPTOR        a question on stdin, the answer to a file descriptor: problems and warnings as JSON
    python -m umiak.train.run.trial devices gpu xpu         prints those that can't be used here

Whatever the model's code does to its process, the process that asked goes on.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import TYPE_CHECKING

from umiak.core.decode import encode
from umiak.core.problem import Problem, UmiakError
from umiak.train.config.values import Device
from umiak.train.engines import choice
from umiak.train.engines.engine import EngineOptions, ModelFindings
from umiak.train.reading import base

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject


def main(argv: list[str]) -> int:
    """The exit status."""
    os.environ.setdefault("GLOG_minloglevel", "2")
    warnings.simplefilter("ignore")
    what, *words = argv
    if what == "devices":
        framework = choice.framework()
        unusable = [device for device in words if not framework.can_use(Device(device))]
        sys.stdout.write(" ".join(unusable))
        return 0
    asked = json.loads(sys.stdin.read())
    problems, found = _tried(asked)
    with os.fdopen(int(words[0]), "w") as answer:
        json.dump({"problems": encode(problems), "found": encode(found)}, answer)
    return 0


def _tried(asked: JsonObject) -> tuple[tuple[Problem, ...], ModelFindings]:
    """Problems, and what else is to be known."""
    base.provide_old_modules(asked["settings"])
    options = EngineOptions(
        seed=asked["seed"],
        written=asked["written"],
        is_shared=asked["is_shared"],
    )
    try:
        return (), choice.framework().examine(asked["model"], options, asked["hyper_parameters"], asked["config"])
    except UmiakError as error:
        return error.problems, ModelFindings()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
