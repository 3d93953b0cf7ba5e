"""`python -m umiak.doctor.trials.importing MODULE LIMIT_S`: imports one module and tells about it. A program.

It ends itself at the limit, by a signal that no code in C can hold up, so that it never outlives the doctor for long.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(name: str, limit_s: float) -> None:
    """Import it, and print what it says about itself."""
    signal.alarm(max(1, math.ceil(limit_s)))
    try:
        facts = TELLERS.get(name, _plain)(import_module(NAMES.get(name, name)))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what was looked for
        facts = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(f"\n{json.dumps(facts)}\n")
    sys.stdout.flush()
    os._exit(0)  # what frameworks do at their end was not asked for


def _plain(module: Any) -> dict[str, object]:
    version = str(getattr(module, "__version__", ""))
    return {"version": version, "file": os.path.realpath(getattr(module, "__file__", None) or "")}


def _paddle(paddle: Any) -> dict[str, object]:
    build, count = "cpu", 0
    if paddle.is_compiled_with_rocm():
        build, count = "rocm", paddle.device.cuda.device_count()
    elif paddle.is_compiled_with_cuda():
        build, count = f"cuda {paddle.version.cuda()}", paddle.device.cuda.device_count()
    elif paddle.is_compiled_with_xpu():
        build, count = "xpu", paddle.device.xpu.device_count()
    elif paddle.device.get_all_custom_device_type():
        build, count = paddle.device.get_all_custom_device_type()[0], len(paddle.device.get_available_custom_device())
    return {**_plain(paddle), "build": build, "devices": count}


def _torch(torch: Any) -> dict[str, object]:
    build = f"cuda {torch.version.cuda}" if torch.version.cuda else "rocm" if torch.version.hip else "cpu"
    return {**_plain(torch), "build": build, "devices": torch.cuda.device_count()}


def _protobuf(protobuf: Any) -> dict[str, object]:
    from_api = import_module("google.protobuf.internal.api_implementation")
    import_module("google.protobuf.descriptor_pb2")  # where old generated code and new protobuf fall out
    return {**_plain(protobuf), "implementation": from_api.Type()}


NAMES = {"protobuf": "google.protobuf"}
TELLERS = {"paddle": _paddle, "torch": _torch, "protobuf": _protobuf}

if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
