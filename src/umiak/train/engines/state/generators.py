"""The generators that a model's code draws from: Paddle's, numpy's and Python's. An adapter, for Paddle.

begin(seed)                     before the model's code is imported: what it seeds itself counts afterwards
kept = states()                 a look at the model draws as much as it likes ...
set_states(kept)                ... and afterwards nothing was drawn
text = packed()                 for a checkpoint: a run that goes on from it draws what it would have drawn
unpack(text)
"""

from __future__ import annotations

import base64
import json
import random
import zlib
from typing import Any

import numpy as np
import paddle

States = tuple[Any, ...]
"""Of all of them, in this process."""
_STATE = paddle.base.core.GeneratorState


def begin(seed: int) -> None:
    """Python's and numpy's, which PaddleRec's trainer leaves to chance. Paddle's is seeded when the model is made, as there."""
    random.seed(seed)
    np.random.seed(seed % (1 << 32))


def seed_all(seed: int) -> None:
    """All of them."""
    begin(seed)
    paddle.seed(seed)


def states() -> States:
    """As they are now, for `set_states` in this process."""
    return random.getstate(), np.random.get_state(), _cpu().get_state(), _on_device()


def set_states(kept: States) -> None:
    """What `states` gave is drawn next."""
    of_python, of_numpy, of_cpu, of_device = kept
    random.setstate(of_python)
    np.random.set_state(of_numpy)
    _cpu().set_state(of_cpu)
    if of_device:
        paddle.set_rng_state(of_device)


def packed() -> str:
    """As they are now, as text."""
    of_python, of_numpy, of_cpu, of_device = states()
    kind, keys, position, has_gauss, gauss = of_numpy
    told = {
        "python": of_python,
        "numpy": [kind, keys.tolist(), position, has_gauss, gauss],
        "cpu": _plain(of_cpu),
        "device": [_plain(each) for each in of_device],
    }
    return base64.b64encode(zlib.compress(json.dumps(told).encode())).decode("ascii")


def unpack(text: str) -> None:
    """What was packed is drawn next. A device that is not the one of then begins as the seed says."""
    told = json.loads(zlib.decompress(base64.b64decode(text)))
    version, numbers, gauss = told["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, *rest = told["numpy"]
    np.random.set_state((kind, np.array(keys, np.uint32), *rest))
    _cpu().set_state(_state(told["cpu"]))
    if told["device"] and len(told["device"]) == len(_on_device()):
        paddle.set_rng_state([_state(each) for each in told["device"]])


def _cpu() -> Any:
    return paddle.base.core.default_cpu_generator()


def _on_device() -> list[Any]:
    """Nothing where that is the CPU."""
    return [] if paddle.get_device() == "cpu" else paddle.get_rng_state()


def _plain(state: Any) -> list[Any]:
    device, seed, offset, engine = state.__getstate__()
    return [device, seed, offset, bytes(engine).decode("ascii")]


def _state(plain: list[Any]) -> Any:
    device, seed, offset, engine = plain
    made = _STATE.__new__(_STATE)
    made.__setstate__((device, seed, offset, list(engine.encode("ascii"))))
    return made
