"""Imports a model's file as training would, for `umiak train --check`. A program, started by `checks`.

    python -m umiak.train.run.trial model DESCRIPTOR        a question on stdin, the answer to a file descriptor: problems and warnings as JSON
    python -m umiak.train.run.trial devices gpu xpu         prints those that can't be used here

Whatever the model's code does to its process, the process that asked goes on.
"""

from __future__ import annotations

import json
import os
import sys
import warnings

from umiak.core.decode import encode
from umiak.core.problem import Problem, UmiakError
from umiak.train.config.values import Device
from umiak.train.engines import choice, hyper
from umiak.train.reading import base


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
    problems, passed_on = _tried(asked["model"], asked["hyper_parameters"], asked["config"], asked["settings"])
    with os.fdopen(int(words[0]), "w") as answer:
        json.dump({"problems": encode(problems), "warnings": encode(passed_on)}, answer)
    return 0


def _tried(
    path: str, hyper_parameters: dict[str, object], config: str, settings: dict[str, object]
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Problems and warnings."""
    base.provide_old_modules(settings)
    try:
        kind = choice.framework().hyper_class(path, config)
        hyper.typed(kind, hyper_parameters, config)
    except UmiakError as error:
        return error.problems, ()
    return (), hyper.passed_on(kind, hyper_parameters, config)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
