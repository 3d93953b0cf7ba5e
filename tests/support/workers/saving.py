"""A worker that needs a moment to save its work when it is told to stop."""

import signal
import sys
import time

import telling


def save(number, _frame):
    telling.tell(f"got {signal.Signals(number).name}")
    time.sleep(0.3)
    telling.tell("saved")
    sys.exit(0)


for each in (signal.SIGTERM, signal.SIGINT):
    signal.signal(each, save)
telling.tell("ready")
telling.live()
