"""Models for inference, run by plain Paddle in a process of its own: no umiak, no flags.

found = predictions({"PREFIX": {"ids": array}})       found["PREFIX"]: what each way of loading gives, by its name
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WAYS = ("static", "jit", "inference")

_SCRIPT = """
import pickle, sys, warnings
warnings.simplefilter("ignore")
import paddle
assert not [name for name in sys.modules if name.split(".")[0] == "umiak"]
asked = pickle.load(open(sys.argv[1], "rb"))
found = {}
for prefix, given in asked.items():
    paddle.enable_static()
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor = paddle.static.Executor(paddle.CPUPlace())
        program, feeds, fetches = paddle.static.load_inference_model(prefix, executor)
        own = {"feeds": feeds}
        own["static"] = executor.run(program, feed={name: given[name] for name in feeds}, fetch_list=fetches)
    paddle.disable_static()
    answered = paddle.jit.load(prefix)(*[paddle.to_tensor(given[name]) for name in feeds])
    own["jit"] = [each.numpy() for each in (answered if isinstance(answered, (list, tuple)) else [answered])]
    config = paddle.inference.Config(prefix + ".json", prefix + ".pdiparams")
    config.disable_glog_info()
    predictor = paddle.inference.create_predictor(config)
    for name in predictor.get_input_names():
        predictor.get_input_handle(name).copy_from_cpu(given[name])
    predictor.run()
    own["inference"] = [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]
    found[prefix] = own
pickle.dump(found, open(sys.argv[2], "wb"))
"""


def predictions(asked: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What plain Paddle computes with these inputs, by the prefixes of models."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    with tempfile.TemporaryDirectory() as directory:
        given, told = Path(directory, "asked"), Path(directory, "told")
        given.write_bytes(pickle.dumps(asked))
        command = [sys.executable, "-c", _SCRIPT, str(given), str(told)]
        done = subprocess.run(
            command, env={**kept, "GLOG_minloglevel": "2"}, cwd=directory, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, dict[str, Any]] = pickle.loads(told.read_bytes())
        return found
