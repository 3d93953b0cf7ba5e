"""A worker whose grandchildren are orphans before they end."""

import os
import time

import telling

for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.05)
        os._exit(0)
    os.wait()
time.sleep(0.1)
telling.tell("deserted")
telling.live()
