"""For workers of the integration tests: tell the story directory what happens, and take orders from there.

Importing this tells of the worker's birth, with its environment. Times are those of the monotonic clock, which all hosts of
the testbed share. `live` beats: it writes the time to a file again and again, so that a worker which is killed leaves
behind until when it certainly lived.
"""

import json
import os
import socket
import sys
import time

STORY = os.environ["STORY_DIR"]
ROLE, RANK = os.environ["UMIAK_ROLE"], os.environ["UMIAK_RANK"]
# Process numbers come again on a host that was started again, times don't.
_NAME = os.path.join(STORY, f"{ROLE}.{RANK}.{os.environ['UMIAK_GENERATION']}.{os.getpid()}.{time.monotonic_ns()}")
_beat = os.open(f"{_NAME}.beat", os.O_WRONLY | os.O_CREAT, 0o600)


def tell(what, **more):
    """One more line of this worker's story."""
    entry = {"what": what, "at": time.monotonic(), **more}
    with open(f"{_NAME}.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def beat():
    """I am alive."""
    os.pwrite(_beat, f"{time.monotonic():020.6f}".encode(), 0)


def order():
    """What this worker is told to do, or None. An order to it alone is taken away."""
    own = os.path.join(STORY, f"order.{ROLE}.{RANK}")
    taken = f"{_NAME}.order"
    try:
        os.rename(own, taken)
    except OSError:
        taken = os.path.join(STORY, "order.all")
    try:
        with open(taken, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None


def live(each_turn=None):
    """Beat until there is an order, and return it."""
    while True:
        beat()
        if each_turn:
            each_turn()
        found = order()
        if found is not None:
            tell(f"ordered: {found}")
            return found
        time.sleep(0.01)


tell("born", host=socket.gethostname(), pid=os.getpid(), env=dict(os.environ), argv=sys.argv)
