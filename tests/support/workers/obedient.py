"""A worker that lives until it is ordered to do something: end, exit 7, raise, signal 9, hang, say TEXT."""

import os
import sys
import time

import telling


def fail_on_purpose():
    raise RuntimeError(f"trainer {telling.RANK} raises, as it was told")


def hang_here():
    while True:
        time.sleep(60)


print(f"born as {telling.ROLE} {telling.RANK}", flush=True)
while True:
    word, _, rest = telling.live().partition(" ")
    if word == "end":
        break
    if word == "exit":
        sys.exit(int(rest))
    if word == "raise":
        fail_on_purpose()
    if word == "signal":
        os.kill(os.getpid(), int(rest))
    if word == "hang":
        hang_here()
    if word == "say":
        print(rest, flush=True)
telling.tell("done")
