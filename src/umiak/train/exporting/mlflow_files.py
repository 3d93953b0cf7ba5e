"""A trained model as a directory that MLflow loads as pyfunc. An adapter; MLflow itself is not needed.

MLmodel                          what MLflow reads first: loader, data, environments, inputs and outputs
code/umiak_pyfunc.py             the loader
data/                            the inference model, with its signature
requirements.txt, python_env.yaml, conda.yaml     what it needs, in MLflow's three forms
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import os
import platform
import shutil
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.train.exporting import umiak_pyfunc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DATA, CODE, LOADER = "data", "code", "umiak_pyfunc"


def write(model: str, directory: str) -> None:
    """Everything that MLflow looks for, around an inference model, which is moved in."""
    shutil.move(model, os.path.join(directory, DATA))
    os.makedirs(os.path.join(directory, CODE))
    shutil.copyfile(umiak_pyfunc.__file__, os.path.join(directory, CODE, f"{LOADER}.py"))
    with open(os.path.join(directory, DATA, "signature.json"), encoding="utf-8") as file:
        signature = json.load(file)
    needs = [f"{name}=={importlib.metadata.version(name)}" for name in ("numpy", _paddle())]
    python = platform.python_version()
    _put(directory, "requirements.txt", "".join(f"{each}\n" for each in needs))
    _put(
        directory,
        "python_env.yaml",
        f"python: {python}\nbuild_dependencies:\n- pip\ndependencies:\n- -r requirements.txt\n",
    )
    listed = "".join(f"  - {each}\n" for each in ["mlflow", *needs])
    conda = f"name: umiak\nchannels:\n- conda-forge\ndependencies:\n- python={python}\n- pip\n- pip:\n{listed}"
    _put(directory, "conda.yaml", conda)
    _put(directory, "MLmodel", _text(signature, python))


def _text(signature: Mapping[str, Any], python: str) -> str:
    """JSON in a place of YAML is YAML."""
    said = {
        "flavors": {
            "python_function": {
                "code": CODE,
                "data": DATA,
                "env": {"conda": "conda.yaml", "virtualenv": "python_env.yaml"},
                "loader_module": LOADER,
                "python_version": python,
            }
        },
        "model_uuid": uuid.uuid4().hex,
        "signature": {
            "inputs": json.dumps([_column(each) for each in signature["inputs"]]),
            "outputs": json.dumps(_outputs(signature["outputs"])),
            "params": None,
        },
        "utc_time_created": dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f"),
    }
    return "".join(f"{name}: {json.dumps(each)}\n" for name, each in said.items())


def _column(of: Mapping[str, Any]) -> dict[str, Any]:
    """A column as MLflow describes it. Of floats it is said to be double, which is what tables have; the loader makes the model's own of them."""
    kind = "long" if of["dtype"].startswith("int") else "double"
    is_one = len(of["shape"]) < 2 or (of["shape"][1] == 1 and len(of["shape"]) == 2)
    if is_one:
        return {"name": of["name"], "type": kind, "required": True}
    return {"name": of["name"], "type": "array", "items": {"type": kind}, "required": True}


def _outputs(outputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for each in outputs:
        width = int(np.prod([size or 1 for size in each["shape"][1:]], dtype=np.int64))
        names = [each["name"]] if width == 1 else [f"{each['name']}_{number}" for number in range(width)]
        found += [{"name": name, "type": "float", "required": True} for name in names]
    return found


def _paddle() -> str:
    """What Paddle's package is called here: there is one for each kind of device."""
    owners = importlib.metadata.packages_distributions().get("paddle", ["paddlepaddle"])
    return next((each for each in owners if each.startswith("paddlepaddle")), "paddlepaddle")


def _put(directory: str, name: str, text: str) -> None:
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write(text)
