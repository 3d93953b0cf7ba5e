"""A worker that fails in silence, having written its error where torch's @record writes it."""

import json
import os
import sys
import time
import traceback

import telling


def look_up():
    raise LookupError("no such column: \x1b[31mclick\nand more")


telling.tell("recorded")
try:
    look_up()
except LookupError as error:
    message = {
        "message": f"{type(error).__name__}: {error}",
        "extraInfo": {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))},
    }
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": message}, file)
sys.exit(3)
