"""A worker that prints nothing. With `--progress` it says `umiak.progress()` at every turn, until it is told to hang."""

import sys
import time

import telling

import umiak


def wait_for_a_message_that_never_comes():
    while True:
        time.sleep(60)


found = telling.live(umiak.progress if "--progress" in sys.argv else None)
if found == "hang":
    wait_for_a_message_that_never_comes()
