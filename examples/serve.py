"""Asks an inference model about samples: ``python examples/serve.py served/1 samples.txt``.

An inference model is a directory that `umiak train` has saved (``save_inference_path``). Its ``signature.json`` says what goes in; any program that can
use ``paddle.inference`` can do what is done here, umiak is not needed for it.
"""

import json
import sys
from pathlib import Path

import numpy as np
from paddle import inference


def main() -> int:
    directory, samples = map(Path, sys.argv[1:3])
    signature = json.loads((directory / "signature.json").read_text())
    lines = samples.read_text().splitlines()
    answers = ask(directory, signature, [parsed(line) for line in lines])
    for line, *numbers in zip(lines, *answers.values(), strict=True):
        told = "  ".join(f"{name} {float(number[0]):.4f}" for name, number in zip(answers, numbers, strict=True))
        print(f"{told}   for {line if len(line) < 90 else line[:87] + '...'}")
    return 0


def parsed(line: str) -> dict[str, list[str]]:
    """The values of each slot."""
    found: dict[str, list[str]] = {}
    for token in line.split():
        slot, _, number = token.partition(":")
        found.setdefault(slot, []).append(number)
    return found


def ask(directory: Path, signature: dict, samples: list[dict[str, list[str]]]) -> dict[str, np.ndarray]:
    """What the model answers, by the names of its outputs."""
    files = [str(next(directory.glob(pattern))) for pattern in ("inference.json", "inference.pdiparams")]
    config = inference.Config(*files)
    config.disable_glog_info()
    predictor = inference.create_predictor(config)
    for each in signature["inputs"]:
        rows = [sample.get(each["name"], []) for sample in samples]
        width = each["shape"][1] or max(1, *map(len, rows))
        array = np.full((len(rows), width), each.get("padding", 0), each["dtype"])
        for row, numbers in zip(array, rows, strict=True):
            row[: len(numbers)] = np.array(numbers, each["dtype"])
        predictor.get_input_handle(each["name"]).copy_from_cpu(array)
    predictor.run()
    outputs = [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]
    return {each["name"]: output for each, output in zip(signature["outputs"], outputs, strict=True)}


if __name__ == "__main__":
    sys.exit(main())
