"""An inference model of Paddle as ONNX: `python -m umiak.train.exporting.convert MODEL PARAMETERS FILE OUTPUT,...`. A program.

A process of its own, since paddle2onnx aborts the whole process at an operation that it does not know.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings

OPSET = 17


def main(words: list[str]) -> int:
    """Write the file. Outputs get the names that are given, in their order."""
    model, parameters, file, names = words
    warnings.simplefilter("ignore")
    import onnx
    import paddle2onnx

    with contextlib.redirect_stdout(sys.stderr):
        paddle2onnx.export(model, parameters, file, opset_version=OPSET, optimize_tool="None")
    if not os.path.exists(file):
        return 1
    made = onnx.load(file)
    _rename(made.graph, names.split(","))
    made.producer_name = "umiak"
    onnx.checker.check_model(made)
    onnx.save(made, file)
    return 0


def _rename(graph: object, names: list[str]) -> None:
    """Call the outputs as the model does."""
    outputs = list(graph.output)  # type: ignore[attr-defined]
    new = dict(zip([each.name for each in outputs], names, strict=True))
    for each in outputs:
        each.name = new[each.name]
    for node in graph.node:  # type: ignore[attr-defined]
        for given in (node.input, node.output):
            for number, name in enumerate(given):
                given[number] = new.get(name, name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
