"""Adapter: Triton's own HTTP client, `tritonclient`, as somebody else's program that speaks the Open Inference Protocol.

    said = triton_client.ask({"url": "localhost:8000", "model": "ctr", "inputs": [{"name": "1", "datatype": "INT64", "data": [[3]]}]})

It is in an environment of its own, .venv-triton (120 MB), which `make test` makes: it brings gevent and its own numpy, which are nobody else's.
"""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

VENV = Path(__file__).resolve().parent.parent / ".venv-triton"
WAIT_S = 120
PROGRAM = """
import json, ssl, sys
import numpy as np
from tritonclient import http
from tritonclient.utils import InferenceServerException

asked = json.load(sys.stdin)
more = {}
if "authority" in asked:
    more = {"ssl": True, "ssl_context_factory": lambda: ssl.create_default_context(cafile=asked["authority"])}
client = http.InferenceServerClient(asked["url"], **more)

def own():  # the client writes lengths into what it is given
    return {"Authorization": "Bearer " + asked["token"]} if "token" in asked else None

kinds = {"INT64": np.int64, "FP32": np.float32}

def tensors(given, binary):
    found = []
    for each in given:
        array = np.array(each["data"], kinds[each["datatype"]])
        found.append(http.InferInput(each["name"], array.shape, each["datatype"]))
        found[-1].set_data_from_numpy(array, binary_data=binary)
    return found

def infer(binary, **options):
    outputs = [http.InferRequestedOutput(name, binary_data=binary) for name in asked["outputs"]]
    found = client.infer(asked["model"], tensors(asked["inputs"], binary), outputs=outputs, headers=own(), **options)
    arrays = {name: found.as_numpy(name) for name in asked["outputs"]}
    return {"response": {key: found.get_response()[key] for key in ("id", "model_name", "model_version")},
            "outputs": {name: [str(array.dtype), array.tolist()] for name, array in arrays.items()}}

def refused(act):
    try:
        act()
    except InferenceServerException as error:
        return [error.status(), error.message()]
    return None

said = {
    "live": client.is_server_live(own()), "ready": client.is_server_ready(own()),
    "model_ready": client.is_model_ready(asked["model"], headers=own()),
    "server": client.get_server_metadata(own()), "metadata": client.get_model_metadata(asked["model"], headers=own()),
    "binary": infer(True, request_id="7"), "json": infer(False, request_id="8"),
    "version": infer(True, request_id="9", model_version=client.get_model_metadata(asked["model"], headers=own())["versions"][0]),
    "missing": refused(lambda: client.infer(asked["model"], tensors(asked["inputs"][1:], True), headers=own())),
    "unknown": refused(lambda: client.infer("other", tensors(asked["inputs"], True), headers=own())),
    "nobody": refused(lambda: client.infer(asked["model"], tensors(asked["inputs"], True))),
}
pending = [client.async_infer(asked["model"], tensors(asked["inputs"], True), headers=own()) for _ in range(8)]
said["at_once"] = [each.get_result().as_numpy(asked["outputs"][0]).tolist() for each in pending]
client.close()
print(json.dumps(said))
"""


@functools.cache
def available() -> str | None:
    """Why there is none on this machine, or `None` where there is."""
    there = [*VENV.glob("lib/python*/site-packages/tritonclient")]
    return None if there else f"tritonclient is not installed: make test makes {VENV.name}"


def ask(asked: dict[str, Any]) -> dict[str, Any]:
    """Everything that the client can ask of a model: ``url``, ``model``, ``inputs``, ``outputs``; where it takes one, a ``token`` and the file of an ``authority``."""
    command = [str(VENV / "bin" / "python"), "-W", "ignore", "-c", PROGRAM]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, timeout=WAIT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    said: dict[str, Any] = json.loads(done.stdout)
    return said
