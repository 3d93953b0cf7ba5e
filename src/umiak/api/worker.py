"""The process of one rank of `umiak.run`: loads the function, calls it, leaves what it returned or raised. A program.

    python -m umiak.api.worker DIRECTORY

    start.1-0.trainer.0.json     before anything else: where the logs are, and how many ranks there are
    result.1-0.trainer.0         what the function returned
    failure.1-0.trainer.0        what it raised

1-0: the generation of the job and the number of restarts,
so that what an earlier attempt left is not taken for this one's.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
import time
import traceback

from umiak.api import exchange
from umiak.contracts import native, paddle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from umiak.core.json_types import JsonObject

LOAD, CALL, RETURN = "load", "call", "return"
"""Where it failed: before the function was called, in the function, with what it returned."""


def main(argv: list[str]) -> int:
    """Do the part of this rank; the exit status."""
    (path,) = argv
    environ = os.environ
    attempt = f"{environ[native.GENERATION]}-{environ[native.RESTART_COUNT]}"
    name = f"{attempt}.{environ[native.ROLE]}.{environ[native.RANK]}"
    start = {"log_dir": environ[paddle.LOG_DIR], "node": environ[native.NODE], "world": environ[native.WORLD_SIZE]}
    exchange.put(path, f"start.{name}.json", json.dumps(start).encode())
    stage = LOAD
    try:
        call = exchange.unpacked(exchange.get(path, "caller"))
        sys.path[:], sys.argv[:] = call["path"], call["argv"]
        for source, lines in call["sources"].items():
            linecache.cache[source] = (sum(map(len, lines)), None, lines, source)
        function, args, kwargs = exchange.unpacked(exchange.get(path, "function"))
        stage = CALL
        try:
            returned = function(*args, **kwargs)
        except SystemExit as asked:
            if asked.code not in (None, 0):
                raise
            returned = None
        stage = RETURN
        packed = exchange.packed(returned)
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told
        _fail(path, name, stage, error)
    exchange.put(path, f"result.{name}", packed)
    return 0


def _fail(path: str, name: str, stage: str, error: Exception) -> NoReturn:
    """Leave the failure for the caller and in the log, without the frames of this module."""
    frames = error.__traceback__
    while frames and frames.tb_next and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    trace = "".join(traceback.format_exception(type(error), error, frames))
    kind = type(error)
    where = "" if kind.__module__ in ("builtins", exchange.MAIN) else f"{kind.__module__}."
    text = "".join(traceback.format_exception_only(kind, error)).strip().splitlines()
    what = next(
        (line for line in text if line.startswith((kind.__qualname__, f"{where}{kind.__qualname__}"))), text[-1]
    )
    failure: JsonObject = {"stage": stage, "what": what, "traceback": trace, "at": time.monotonic()}
    data = exchange.packed({**failure, "exception": None})
    try:
        copied = exchange.packed(error.with_traceback(None))
        exchange.unpacked(copied)  # some exceptions can be packed and not unpacked: their __init__ wants more
        data = exchange.packed({**failure, "exception": copied})
    except Exception:  # noqa: BLE001, S110 - the text says it all
        pass
    exchange.put(path, f"failure.{name}", data)
    sys.stdout.flush()
    sys.stderr.write(trace)
    sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
