"""Models for inference, run by plain Paddle in a process of its own: no umiak, no flags.

found = predictions({"PREFIX": {"ids": array}})       found["PREFIX"]: what each way of loading gives, by its name

Each is a fork of one process that has imported Paddle and nothing else, and ends with this one.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WAYS = ("static", "jit", "inference")

_SCRIPT = """
import json, os, pickle, sys, traceback, warnings
warnings.simplefilter("ignore")
import paddle

def answer(given, told):
    assert not [name for name in sys.modules if name.split(".")[0] == "umiak"]
    asked = pickle.load(open(given, "rb"))
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
    pickle.dump(found, open(told, "wb"))

for line in sys.stdin:
    directory = json.loads(line)
    pid = os.fork()
    if pid == 0:
        status = 1
        os.chdir(directory)
        os.dup2(os.open("err", os.O_WRONLY | os.O_CREAT), 2)
        try:
            answer("asked", "told")
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def predictions(asked: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What plain Paddle computes with these inputs, by the prefixes of models."""
    plain = _plain_paddle()
    assert plain.stdin
    assert plain.stdout
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "asked").write_bytes(pickle.dumps(asked))
        plain.stdin.write(json.dumps(directory) + "\n")
        plain.stdin.flush()
        status = plain.stdout.readline()
        assert status == "0\n", f"status {status}{Path(directory, 'err').read_text(errors='replace')}"
        found: dict[str, dict[str, Any]] = pickle.loads(Path(directory, "told").read_bytes())
        return found


@functools.cache
def _plain_paddle() -> subprocess.Popen[str]:
    """The process that is divided. It ends when nobody is there to ask it."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    started = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT],
        env={**kept, "GLOG_minloglevel": "2"},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(started.communicate)
    return started
